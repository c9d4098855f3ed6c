"""`rf.compile_loops`: the programs of recorded loops under torch.compile; as CUDA graphs in tests/backends/test_captured.py."""

import re
import threading
import warnings

import changing_bodies
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, using_backend
from loop_faces import gradients, run_face

import rfnb as rf
import rfnb.rec.loop_compilation
from rfnb import Dim
from rfnb.backends.torch_backend import TorchBackend
from rfnb.trace.probe import listen, probe

BATCH, OUT, TIME = Dim(2, name="batch"), Dim(5, name="out"), Dim(7, name="time")


@pytest.fixture
def compiled(monkeypatch):
    """The number of times that torch has compiled something, as a function."""
    torch._dynamo.reset()
    rf.rec.loop_compilation._compiled.cache_clear()
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr("rfnb.rec.loop_compilation.WAYS", ("inductor", "aot_eager", count))
    return count, graphs


def cell(x, layer):
    """A body with one recurrence."""

    def body(loop):
        loop.state.h = rf.tanh(
            rf.replace_dim_v2(layer(loop.state.h), in_dim=layer.out_dim, out_dim=OUT) + loop.unstack(x)
        )
        return loop.stack(loop.state.h * 2)

    return body


def world(batch=2, steps=7, dtype="float32"):
    batch, new = Dim(batch, name="batch"), Dim(OUT.size, name="new")
    time = Dim(steps, name="time")
    with rf.set_default_float_dtype_ctx(dtype):
        layer = rf.Linear(OUT, new)
    return time, cell(rf.cast(randn(time, batch, OUT, seed=1), dtype), layer), rf.zeros([batch, OUT], dtype=dtype)


def check(how, axis, body, h):
    expected, _ = run_face("for", body, axis=axis, h=h)
    with rf.compile_loops(how):
        actual, _ = run_face("with", body, axis=axis, h=h)
    assert_same(actual, expected)


def test_loops_with_the_same_lines_share_what_is_compiled(compiled):
    how, graphs = compiled
    with torch.no_grad():
        for _ in range(3):  # with weights and dims of its own
            check(how, *world())
    assert len(graphs) == 1


def test_sizes_become_dynamic(compiled):
    how, graphs = compiled
    with torch.no_grad():
        for batch, steps in [(2, 7), (3, 7), (4, 9), (5, 11), (6, 6)]:
            check(how, *world(batch, steps))
    assert len(graphs) == 2


def test_nothing_is_compiled_outside_of_the_block(compiled):
    how, graphs = compiled
    with rf.compile_loops(how):
        pass
    check(None, *world())
    assert graphs == []


def test_other_threads_do_not_compile(compiled):
    how, graphs = compiled
    (time, body, h), outs = world(), []
    with rf.compile_loops(how):
        thread = threading.Thread(target=lambda: outs.append(run_face("with", body, axis=time, h=h)[0]))
        thread.start()
        thread.join()
    assert_same(outs, [run_face("for", body, axis=time, h=h)[0]])
    assert graphs == []


@pytest.mark.parametrize("how", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_gradients(how):
    time = ragged([7, 4], BATCH, "time")
    x, layer = randn(time, BATCH, OUT, seed=1), rf.Linear(OUT, Dim(5, name="new"))
    body, h = cell(x, layer), rf.zeros([BATCH, OUT])
    expected = gradients(layer, x, of=lambda: run_face("for", body, axis=time, h=h)[0])
    with warnings.catch_warnings(), rf.compile_loops(how):
        warnings.simplefilter("error", UserWarning)
        torch.testing.assert_close(gradients(layer, x, of=lambda: run_face("with", body, axis=time, h=h)[0]), expected)


def test_hooks_that_see_what_is_kept_for_gradients_see_it(compiled):
    how, graphs = compiled
    time, body, h = world()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        check(how, time, body, h)
    assert graphs == []


def test_mixed_precision_is_that_of_the_loop_without(compiled):
    how, graphs = compiled
    time, body, h = world()
    with rf.set_amp_policy_ctx("bfloat16"):
        check(how, time, body, h)
    assert graphs == []


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_loop_without_gradients_before_one_with_them(mode, compiled):
    how, _ = compiled
    for context in (mode, torch.enable_grad, mode):
        with context():
            check(how, *world())


def test_numbers_that_are_drawn_are_drawn_anew_in_each_step():
    def body(loop):
        loop.state.h = loop.state.h * 0.5 + rf.random_normal([BATCH, OUT]) + loop.unstack(x)
        return loop.stack(loop.state.h)

    x, outs = randn(TIME, BATCH, OUT), []
    for how in (None, "aot_eager"):
        rf.set_random_seed(5)
        with rf.compile_loops(how):
            outs.append(run_face("with", body, axis=TIME, h=rf.zeros([BATCH, OUT]))[0])
    assert_same(outs[1], outs[0])


def test_a_step_somebody_listens_to_is_heard():
    x, heard = randn(TIME, BATCH, OUT), {"for": [], "with": []}

    def body(loop):
        loop.state.h = rf.tanh(loop.state.h + loop.unstack(x))
        probe("note", h=loop.state.h)
        return loop.stack(loop.state.h)

    for face, events in heard.items():

        def listener(kind, place, values, events=events):
            if kind == "note":
                events.append((place.step, values["h"]))

        with rf.compile_loops("aot_eager"), listen(listener):
            run_face(face, body, axis=TIME, h=rf.zeros([BATCH, OUT]))
    assert len(heard["for"]) == TIME.size
    assert_same(heard["with"], heard["for"])


def test_a_loop_in_a_loop(compiled):
    how, _ = compiled
    inner_time, x = Dim(6, name="inner"), randn(TIME, BATCH, OUT, seed=1)

    def body(loop):
        start = loop.state.h + loop.unstack(x)
        inner = rf.Loop(axis=inner_time)
        inner.state.g = start
        with inner:
            inner.state.g = rf.sin(inner.state.g)
        loop.state.h = inner.state.g
        return loop.stack(loop.state.h)

    check(how, TIME, body, rf.zeros([BATCH, OUT]))


def test_arrays_that_are_written_to():
    def step(weight, x, h):
        out = x.clone()
        row = out[0]
        row.mul_(weight)
        h.add_(out)
        return h, out, row

    run = TorchBackend.compile_raw(step, "aot_eager", changes=True)
    weight, x, h = torch.tensor(3.0), torch.ones(2, 3), torch.zeros(2, 3)
    other = h.clone()
    for _ in range(3):
        results, expected = run(weight)(x, h), step(weight, x, other)
        torch.testing.assert_close((*results, h), (*expected, other))


def test_without_a_compiler_for_cpp_the_loop_runs_as_before(monkeypatch):
    torch._dynamo.reset()
    rf.rec.loop_compilation._compiled.cache_clear()
    time, body, h = world()
    with torch._inductor.config.patch({"cpp.cxx": ("no-such-compiler",), "fx_graph_cache": False}):
        with torch.no_grad(), pytest.warns(UserWarning) as warned:
            check("inductor", time, body, h)
    text = [str(one.message) for one in warned if "compile_loops" in str(one.message)]
    assert len(text) == 1
    lines = text[0].splitlines()
    assert lines[0] == 'compile_loops("inductor"): torch cannot compile a step; the loop runs without.'
    assert lines[1].startswith("  because  ") and len(lines[1]) > len("  because  ")
    assert lines[2:] == [
        "The results are the same. Without a compiler for C++ (g++, clang++) there is no inductor:",
        '    with rf.compile_loops("aot_eager"):',
    ]
    rf.rec.loop_compilation._compiled.cache_clear()


def test_past_the_limit_of_recompilations_the_loop_runs_as_before(compiled):
    how, graphs = compiled
    (time, body, h), double = world(), world(dtype="float64")
    limit = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"  # torch 2.6
    with torch._dynamo.config.patch({limit: 1}), torch.no_grad():
        check(how, time, body, h)
        with pytest.warns(UserWarning) as warned:
            check(how, *double)
            check(how, *double)
    assert len(graphs) == 1
    (text,) = [str(one.message) for one in warned]
    assert re.fullmatch(
        r"compile_loops\(.*\): torch cannot compile a step; the loop runs without.\n  because  .+\n"
        r"The results are the same. To run it so without this warning:\n    with rf.compile_loops\(None\):",
        text,
    )


def test_a_graph_needs_a_gpu_and_loops_run_without():
    check("cuda_graph", *world())


def test_a_backend_that_compiles_nothing():
    with using_backend("numpy"):
        check("inductor", *world())


def test_an_unknown_way():
    text = """
    compile_loops: how is unknown.
      how    'fast'
      known  'inductor', 'aot_eager', 'cuda_graph'
    It is a way to compile, or None.
        with rf.compile_loops():"""
    with raises_message(ValueError, text), rf.compile_loops("fast"):
        pass


def test_a_decorator_without_parentheses():
    text = """
    compile_loops: used as a decorator without parentheses.
      got  the function decode
    Its argument is a way to compile; also around a whole function it is called first:
        @rf.compile_loops()"""
    with raises_message(TypeError, text):

        @rf.compile_loops
        def decode():
            pass


def test_a_whole_function_is_compiled(compiled):
    how, graphs = compiled
    time, body, h = world()
    with torch.no_grad():
        decode = rf.compile_loops(how)(lambda: run_face("with", body, axis=time, h=h)[0])
        for _ in range(2):
            assert_same(decode(), run_face("for", body, axis=time, h=h)[0])
    assert len(graphs) == 1


@pytest.mark.parametrize("kind", ["plain", "lstm", "gru", "attention"])
@pytest.mark.parametrize("lengths", [None, [9, 4], [4, 9], [40, 12]])
@pytest.mark.parametrize("with_gradients", [True, False])
def test_as_a_graph_without_a_gpu_a_loop_is_bit_by_bit_that_without(kind, lengths, with_gradients, monkeypatch):
    whole = []
    stack = rf.Loop.stack
    monkeypatch.setattr(rf.Loop, "stack", lambda self, x, **kw: (whole.append(stack(self, x, **kw)), whole[-1])[1])
    model, now = changing_bodies.Model(kind), changing_bodies.FIRST | {"lengths": lengths, "gradients": with_gradients}
    found = []
    for how in (None, "cuda_graph"):
        with rf.compile_loops(how):
            (out, last), parameters = changing_bodies.run("with", model, now)
        found.append([out, last, whole[-1].raw_tensor.detach(), *parameters])  # with padding
    for one, other in zip(*found, strict=True):
        assert (one is None and other is None) or torch.equal(one, other)


def test_as_a_graph_without_a_gpu_a_search_is_that_without():
    vocab, units = Dim(7, name="vocab"), Dim(4, name="units")
    out, back = rf.Linear(units, vocab), rf.Embedding(vocab, units)
    found = []
    for how in (None, "cuda_graph"):
        with torch.no_grad(), rf.compile_loops(how):
            loop = rf.Loop(max_seq_len=8)
            loop.state.h = randn(BATCH, units, seed=3)
            with loop:
                h = rf.tanh(loop.state.h * 1.5)
                label = rf.choice(rf.log_softmax(out(h), axis=vocab), axis=vocab, beam_size=3)
                loop.state.h = rf.tanh(h + back(label))
                loop.end(label == 0, include_eos=True)
                labels = loop.stack(label)
        found.append(labels.raw_tensor)
    assert torch.equal(*found)
