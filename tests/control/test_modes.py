"""Modes that are current where a run starts apply in all of its steps; two runs at once affect neither each other nor the cell."""

import contextlib
import threading

import numpy as np
import pytest
import torch
from asserting import using_backend
from control.held_models import BATCH, FEAT, TIME
from control.watched_threads import in_threads, is_gone, result_of, stands
from torch.utils.flop_counter import FlopCounterMode
from waiting import LONG

import rfnb as rf


class Sees(torch.overrides.TorchFunctionMode):
    """A mode of a user's own."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def modes():
    """The current modes as words and numbers, to compare."""
    x = torch.ones(2, 2, requires_grad=True)
    ctx = rf.get_run_ctx()
    return {
        "default dtype": rf.get_default_float_dtype(),
        "zeros": rf.zeros([]).dtype,
        "default device": rf.get_default_device(),
        "array": type(rf.zeros([BATCH]).raw_tensor).__module__.split(".")[0],
        "device of torch": torch.empty(0).device.type,
        "gradients": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": (x @ x).dtype if not ctx.train_flag else torch.is_autocast_enabled("cpu"),
        "amp": getattr(rf.get_amp_policy(), "compute_dtype", None),
        "train": ctx.train_flag,
        "step": ctx.step,
        "functions": [type(mode).__name__ for mode in torch.overrides._get_current_function_mode_stack()],
        "dispatch": [type(mode).__name__ for mode in torch.utils._python_dispatch._get_current_dispatch_mode_stack()],
        "parameters": rf.nn.module.parameter._copy_behavior.get(),
    }


BLOCKS = {
    "nothing": contextlib.nullcontext,
    "float64": lambda: rf.set_default_float_dtype_ctx("float64"),
    "meta": lambda: rf.set_default_device_ctx("meta"),
    "meta of torch": lambda: torch.device("meta"),
    "NumPy": lambda: using_backend("numpy"),
    "no gradients": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "mixed precision": lambda: rf.set_amp_policy_ctx(rf.AmpPolicy("bfloat16")),
    "training": lambda: rf.init_train_step_run_ctx(train_flag=True, step=7),
    "a mode of one's own": Sees,
    "counting": lambda: FlopCounterMode(display=False),
    "parameters shared": lambda: rf.set_parameter_copy_behavior_ctx("share"),
}


def seen_in_steps():
    """The current modes in the steps of a loop: one list of all."""
    seen, loop = [], rf.Loop(axis=TIME, name="modes")
    for _ in loop:
        seen.append(modes())
    return seen


@pytest.mark.parametrize("name", BLOCKS)
def test_a_run_has_the_modes_of_the_cell_that_started_it_in_all_its_steps(name):
    with BLOCKS[name]():
        expected = modes()
        run = rf.run(seen_in_steps, paused=True)
        again = None
    stands(run)
    run.step(2)
    assert result_of(run) == [expected] * 7  # also those that are made after the block is left
    again = run.from_step(3, paused=False)
    assert result_of(again) == [expected] * 7


@pytest.mark.parametrize("name", BLOCKS)
def test_two_runs_and_the_cell_do_not_touch_each_other(name):
    plain = modes()
    with BLOCKS[name]():
        one, expected = rf.run(seen_in_steps, paused=True), modes()
    other = rf.run(seen_in_steps, paused=True)
    for _ in range(7):
        for run in (one, other):
            stands(run)
            run.step()
        assert modes() == plain
    assert result_of(one) == [expected] * 7 and result_of(other) == [plain] * 7
    assert is_gone(one) and is_gone(other) and modes() == plain


@pytest.mark.parametrize("name", [name for name in BLOCKS if name != "nothing"])
def test_what_a_run_sets_itself_stays_in_it(name):
    plain = modes()

    def sets():
        with BLOCKS[name]():
            return seen_in_steps()

    run = rf.run(sets, paused=True)
    other = rf.run(seen_in_steps)
    stands(run)
    assert modes() == plain
    run.step(3)
    assert modes() == plain
    assert result_of(other) == [plain] * 7
    assert set(map(str, result_of(run))) != {str(plain)}
    run = rf.run(sets, paused=True)
    stands(run)
    run.stop()
    assert modes() == plain


def test_runs_with_all_kinds_of_modes_at_once():
    expected, runs = [], []
    for name, block in BLOCKS.items():
        with block():
            expected.append(modes())
            runs.append(rf.run(seen_in_steps, name=name, paused=True))

    def drive(run):
        while run.state != "done":
            stands(run)
            with contextlib.suppress(RuntimeError):  # it is over
                run.step()

    in_threads(*(lambda run=run: drive(run) for run in runs))
    assert [run.result for run in runs] == [[each] * 7 for each in expected]


def test_states_are_changed_under_the_modes_of_the_run():
    """By its own thread: a cell with others does not matter."""

    def go():
        loop = rf.Loop(axis=TIME, name="double")
        loop.state.h = rf.zeros([BATCH, FEAT])
        for _ in loop:
            loop.state.h = loop.state.h + 1.0
        return loop.state.h

    with rf.set_default_float_dtype_ctx("float64"):
        run = rf.run(go, paused=True)
    stands(run)
    run.step(2)
    with torch.no_grad(), rf.set_default_device_ctx("meta"), using_backend("numpy"):
        run.at.states["h"][{"batch": 0}] = 1.0 / 3.0
    h = result_of(run)
    assert h.dtype == "float64"
    np.testing.assert_array_equal(h.numpy()[0], np.full(5, 1.0 / 3.0) + 1 + 1 + 1 + 1 + 1)


def test_recordings_of_two_runs_and_of_the_cell_hear_their_own():
    def loops(name, begin):
        assert begin.wait(LONG)
        loop = rf.Loop(axis=TIME, name=name)
        loop.state.h = rf.zeros([BATCH])
        for _ in loop:
            loop.state.h = loop.state.h + 1.0

    begin = threading.Event()
    with rf.record() as cell:
        one = rf.run(loops, "one", begin)
    other = rf.run(loops, "other", begin)
    with rf.record() as later:
        begin.set()
        result_of(one), result_of(other)
        loops("mine", begin)
    paths = [{event.path for event in trace.events} for trace in (one.trace, other.trace, later, cell)]
    assert paths == [{"one"}, {"other"}, {"mine"}, set()]  # that of the cell was closed before the first step
    assert len(one.trace.select(kind="states")) == len(other.trace.select(kind="states")) == 7
