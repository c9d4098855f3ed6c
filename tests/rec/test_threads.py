"""Current settings (defaults, the run context, train flags, switches, loops) belong to the context: threads do not share them."""

import ast
import contextvars
import pathlib
import sys
import threading

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged
from waiting import LONG

import rfnb as rf
from rfnb import Dim
from rfnb.core import intercept
from rfnb.core.generations import are_steps_apart
from rfnb.core.op import all_ops
from rfnb.debugging.poison import switched_on

BATCH, FEAT, VOCAB = Dim(2, name="batch"), Dim(8, name="feat"), Dim(3, name="vocab")
TIME = ragged([3, 2], BATCH, "time")


def in_thread(call, *, context=None):
    """The result of call() in a new thread; with `context` it runs in that context."""
    result = []
    run = call if context is None else lambda: context.run(call)
    thread = threading.Thread(target=lambda: result.append(run()))
    thread.start()
    thread.join()
    assert result, "it has failed; see the output of the thread"
    return result[0]


def indices_are_checked():
    """Without the switch, torch alone may look at them, and not at all ops."""
    return intercept._innermost.get() is not None


CURRENT = {
    "default float dtype": (lambda: rf.set_default_float_dtype_ctx("float64"), rf.get_default_float_dtype),
    "floats made of integers": (
        lambda: rf.set_default_float_dtype_ctx("float64"),
        lambda: rf.reduce_mean(rf.range_over_dim(VOCAB), axis=VOCAB).dtype,
    ),
    "default device": (lambda: rf.set_default_device_ctx("meta"), rf.get_default_device),
    "run context": (lambda: rf.init_train_step_run_ctx(step=7), lambda: rf.get_run_ctx().step),
    "training": (
        lambda: rf.init_train_step_run_ctx(), lambda: bool((rf.dropout(rf.ones([FEAT]), 0.9, axis=FEAT).numpy() != 1).any()),
    ),
    "train flag": (lambda: rf.get_run_ctx().train_flag_ctx(True), lambda: rf.get_run_ctx().train_flag),
    "train flag of a function": (
        lambda: rf.get_run_ctx().train_flag_ctx(True, func=rf.dropout),
        lambda: rf.get_run_ctx().is_train_flag_enabled(func=rf.dropout),
    ),
    "mixed precision": (
        lambda: rf.set_amp_policy_ctx(rf.AmpPolicy("bfloat16")), lambda: getattr(rf.get_amp_policy(), "compute_dtype", None),
    ),
    "padding": (lambda: rf.debug(padding=1e6), switched_on),
    "indices": (lambda: rf.debug(indices=True), indices_are_checked),
    "beams": (lambda: rf.debug(beams=True), are_steps_apart),
    "record": (lambda: rf.record(), lambda: rf.trace.probe.listening()),
    "copies of parameters": (
        lambda: rf.set_parameter_copy_behavior_ctx("share"), lambda: rf.nn.module.parameter._copy_behavior.get(),
    ),
}  # fmt: skip
OF_TORCH = ("mixed precision",)  # torch.autocast is of the thread, whatever the context is


@pytest.mark.parametrize("name", CURRENT)
def test_what_is_set_in_one_thread_is_not_seen_in_another(name):
    block, look = CURRENT[name]
    before = look()
    with block():
        inside = look()
        assert inside != before
        assert in_thread(look) == before
        if name not in OF_TORCH:
            assert in_thread(look, context=contextvars.copy_context()) == inside
    assert look() == before


@pytest.mark.parametrize("name", CURRENT)
def test_what_another_thread_has_set_is_not_seen_here(name):
    block, look = CURRENT[name]
    before, seen = look(), []
    inside, done = threading.Event(), threading.Event()

    def work():
        with block():
            seen.append(look())
            inside.set()
            done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait(LONG)
    now = look()
    done.set()
    thread.join()
    assert now == before != seen[0]


def test_the_selected_backend_is_that_of_the_thread():
    def work():
        rf.select_backend("numpy")
        return type(rf.zeros([BATCH]).raw_tensor)

    assert in_thread(work) is np.ndarray
    assert type(rf.zeros([BATCH]).raw_tensor) is torch.Tensor


def test_seeds_of_a_step_are_counted_in_each_thread():
    rf.set_random_seed(3)
    first, second = rf.get_static_step_based_seed(), rf.get_static_step_based_seed()
    rf.reset_step_random_state()
    assert rf.get_static_step_based_seed() == first
    assert in_thread(rf.get_static_step_based_seed) == first  # of the same seed
    assert rf.get_static_step_based_seed() == second


def test_a_loop_is_that_of_its_thread():
    loop = rf.Loop(axis=TIME)
    for _ in loop:
        assert rf.Loop.current() is loop
        assert in_thread(rf.Loop.current) is None
        assert in_thread(rf.Loop.current, context=contextvars.copy_context()) is loop
    assert rf.Loop.current() is None


def test_ops_of_another_thread_are_not_recorded():
    """Not even of one that was started with a copy of the context: its ops would come in any order."""
    x, loop = rf.expand_dim(rf.range_over_dim(TIME, dtype="float32"), dim=BATCH), rf.Loop(axis=TIME)
    context = contextvars.copy_context()
    with loop:
        count = len(loop.step.recording.recorder.nodes)
        for each in (None, contextvars.copy_context(), context):
            in_thread(lambda: rf.random_normal([BATCH]) * 2.0, context=each)
        assert len(loop.step.recording.recorder.nodes) == count
        out = loop.stack(loop.unstack(x))
    assert_same(out, x)


def test_a_context_may_be_entered_again():
    with rf.init_train_step_run_ctx(step=3) as ctx:
        with ctx:
            with rf.init_forward_step_run_ctx(step=4):
                assert rf.get_run_ctx().step == 4
            assert rf.get_run_ctx() is ctx
        assert rf.get_run_ctx() is ctx
    assert rf.get_run_ctx() is not ctx


def test_one_run_context_in_two_threads():
    with rf.init_train_step_run_ctx(step=3) as ctx:

        def work():
            with ctx, ctx.train_flag_ctx(False):
                return rf.get_run_ctx().step, ctx.train_flag

        assert in_thread(work) == (3, False)
        assert (rf.get_run_ctx(), ctx.train_flag) == (ctx, True)


def test_padding_is_spoiled_in_two_threads_with_different_values():
    x = rf.expand_dim(rf.range_over_dim(TIME, dtype="float32"), dim=BATCH)
    order = [BATCH, TIME]

    def last_of(padding):
        with rf.debug(padding=padding):
            return float((x + 1.0).copy_transpose(order).raw_tensor[1, 2])

    def both():
        return last_of(1e6), in_thread(lambda: last_of(1e5))

    with rf.debug(padding=1e4):
        assert float((x + 1.0).copy_transpose(order).raw_tensor[1, 2]) == 1e4
        assert in_thread(both) == (1e6, 1e5)
        assert float((x + 1.0).copy_transpose(order).raw_tensor[1, 2]) == 1e4
    assert not isinstance(rf.Tensor.__dict__["_raw"], property)


def test_the_same_expression_is_the_same_dim_in_all_threads():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        base, results = Dim(5, name="base"), [[] for _ in range(3)]
        threads = [threading.Thread(target=lambda r=r: r.extend(base * 2 + i for i in range(300))) for r in results]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert all(a is b is c for a, b, c in zip(*results, strict=True))


def test_threads_that_record_at_once_with_other_defaults():
    """Each finds its own dtype and run context; what all have left is gone."""
    interval, codes = sys.getswitchinterval(), [op.fn.__code__ for op in all_ops()]
    begin, failed = threading.Barrier(3), []

    def work(dtype, step):
        try:
            begin.wait(LONG)
            with rf.set_default_float_dtype_ctx(dtype), rf.init_train_step_run_ctx(step=step):
                for _ in range(15):
                    loop = rf.Loop(axis=TIME)
                    loop.state.h = rf.zeros([BATCH])
                    with loop:
                        loop.state.h = rf.tanh(loop.state.h + rf.ones([BATCH]))
                        out = loop.stack(rf.dropout(loop.state.h, 0.0))
                    assert (out.dtype, rf.get_run_ctx().step, rf.Loop.current()) == (dtype, step, None)
        except BaseException as error:
            failed.append(error)

    sys.setswitchinterval(1e-6)
    try:
        threads = [
            threading.Thread(target=work, args=each) for each in (("float32", 1), ("float64", 2), ("bfloat16", 3))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failed
    assert [op.fn.__code__ for op in all_ops()] == codes and not intercept._open


def test_nothing_current_is_a_global():
    """A `global` statement of a function is how a module would keep one."""
    allowed = {"viz/widget.py", "core/tree.py"}  # one carrier per kernel; the kinds of containers that were registered
    package = pathlib.Path(rf.__file__).parent
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Global)
    }
    assert found == allowed
