"""CUDA graphs of functions: what is copied into them and out of them, and when one is captured anew.

Where there is no GPU a capturer stands in for it: it runs the function again, and its results are in fixed memory too.
"""

import gc
import threading
import weakref

import pytest
import torch
from asserting import assert_same, randn
from loop_faces import run_face

import rfnb as rf
from rfnb import Dim
from rfnb.backends.torch_captured import Captured


def step(weight, factor, x, h):
    """A step, whose results share memory with each other, and with what it is given."""
    new = torch.tanh(x @ weight + h) * factor
    return new, new, new[0], h, weight


class Capturer:
    """Counts what it captures."""

    def __init__(self):
        self.number = 0

    def __call__(self, fn):
        self.number += 1
        first = fn()
        own = {id(out): out.clone() for out in first}
        outs = [own[id(out)] for out in first]

        def replay():
            for out, value in zip(outs, fn(), strict=True):
                out.copy_(value)

        return replay, outs


def captured(fn=step, may=lambda arrays: not torch.is_grad_enabled()):
    capturer = Capturer()
    return Captured(fn, capture=capturer, may=may), capturer


def arrays(seed=0, size=3):
    torch.manual_seed(seed)
    return torch.randn(size, size), torch.randn(2, size), torch.randn(2, size)


def check(run, weight, *others, factor=2):
    with torch.no_grad():
        results = run(weight, factor)(*others)
        torch.testing.assert_close(results, step(weight, factor, *others))
    return results


def test_each_call_has_its_own_results():
    run, capturer = captured()
    weight, *_ = arrays()
    calls = [arrays(seed)[1:] for seed in range(4)]
    with torch.no_grad():
        call = run(weight, 2)
        kept = [call(*others) for others in calls]
    torch.testing.assert_close(kept, [step(weight, 2, *others) for others in calls])
    assert capturer.number == 1


def test_results_that_are_one_array_stay_one():
    first, second, *_ = check(captured()[0], *arrays())
    assert first is second


def test_a_weight_that_was_changed_in_place_is_read_where_it_is():
    run, capturer = captured()
    weight, *others = arrays()
    check(run, weight, *others)
    weight.mul_(-1)
    check(run, weight, *others)
    assert capturer.number == 1


def test_a_weight_that_was_replaced_is_copied_from_then_on():
    run, capturer = captured()
    weight, *others = arrays()
    check(run, weight, *others)
    for seed in range(1, 5):
        check(run, arrays(seed)[0], *others)
    check(run, weight, *others)
    assert capturer.number == 2
    kept = weight.clone()
    check(run, -weight, *others)
    torch.testing.assert_close(weight, kept)  # nothing was copied into the user's


def test_a_parameter_with_new_memory():
    run, capturer = captured()
    weight, *others = arrays()
    parameter = torch.nn.Parameter(weight)
    check(run, parameter, *others)
    parameter.data = arrays(1)[0]
    check(run, parameter, *others)
    assert capturer.number == 2


def test_two_runs_that_take_turns():
    run, _ = captured()
    first, second = arrays(1)[0], arrays(2)[0]
    others = arrays()[1:]
    check(run, first, *others)
    with torch.no_grad():
        calls = [(run(weight, 2), weight) for weight in (first, second)]
        for _ in range(2):
            for call, weight in calls:
                torch.testing.assert_close(call(*others), step(weight, 2, *others))


@pytest.mark.parametrize(
    "change",
    [
        lambda weight, x, h: ((weight, x.double().float()[:1], h), 2, 2),
        lambda weight, x, h: ((weight.double(), x.double(), h.double()), 2, 2),
        lambda weight, x, h: ((weight, x, h), 3, 2),
        lambda weight, x, h: ((weight, x, h), 2.0, 2),
        lambda weight, x, h: ((weight, x.t().contiguous().t(), h), 2, 2),
        lambda weight, x, h: ((weight.t(), x, h), 2, 2),
        lambda weight, x, h: ((weight, h, x), 2, 1),
    ],
    ids=["shape", "dtype", "number", "type of the number", "strides", "strides of a constant", "nothing"],
)
def test_another_kind_of_arguments_has_a_graph_of_its_own(change):
    run, capturer = captured()
    first = arrays()
    check(run, *first)
    second, factor, number = change(*first)
    check(run, *second, factor=factor)
    check(run, *first)
    assert capturer.number == number


def test_few_graphs_are_kept():
    run, capturer = captured()
    for size in range(1, 30):
        check(run, *arrays(size=size))
    assert len(run._graphs) == 8
    assert capturer.number == 29


def test_with_gradients_the_function_runs_itself():
    run, capturer = captured()
    weight, x, h = arrays()
    weight.requires_grad_()
    (given,) = torch.autograd.grad(run(weight, 2)(x, h)[0].sum(), weight)
    (expected,) = torch.autograd.grad(step(weight, 2, x, h)[0].sum(), weight)
    torch.testing.assert_close(given, expected)
    assert capturer.number == 0
    with torch.no_grad():
        assert not run(weight, 2)(x, h)[0].requires_grad


def test_arrays_on_the_cpu_are_not_captured():
    capturer = Capturer()
    check(Captured(step, capture=capturer), *arrays())
    assert capturer.number == 0


def test_threads_have_graphs_of_their_own():
    run, capturer = captured()
    threads = [threading.Thread(target=check, args=(run, *arrays(1))) for _ in range(2)]
    for thread in threads:
        thread.start()
    check(run, *arrays(1))
    for thread in threads:
        thread.join()
    assert capturer.number >= 2


def test_inputs_are_not_kept_alive():
    run, _ = captured()
    weight, x, h = arrays()
    check(run, weight, x, h)
    known = [weakref.ref(x), weakref.ref(h)]
    del x, h
    gc.collect()
    assert [ref() for ref in known] == [None, None]


def test_what_cannot_be_captured_runs_as_before():
    def refuse(fn):
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    run = Captured(step, capture=refuse, may=lambda arrays: True)
    with pytest.warns(UserWarning) as warned:
        check(run, *arrays())
    check(run, *arrays(1))  # without a second warning, which would be an error
    assert [str(one.message) for one in warned] == [
        'compile_loops("cuda_graph"): a step cannot be captured; the loop runs without.\n'
        "  because  operation not permitted when stream is capturing\n"
        "The results are the same. torch.compile needs no capture:\n"
        '    with rf.compile_loops("inductor"):'
    ]


@pytest.mark.gpu
@pytest.mark.parametrize("how", ["cuda_graph", "inductor"])
@pytest.mark.parametrize("gradients", [False, True])
def test_loops_on_a_gpu(how, gradients):
    with rf.set_default_device_ctx("cuda"), torch.set_grad_enabled(gradients):
        out, new = Dim(5, name="out"), Dim(5, name="new")
        for size in (2, 3, 2):
            batch, time = Dim(size, name="batch"), Dim(7, name="time")
            layer, x = rf.Linear(out, new), rf.copy_to_device(randn(time, batch, out, seed=size), "cuda")

            def body(loop, layer=layer, x=x):
                y = rf.replace_dim_v2(layer(loop.state.h), in_dim=new, out_dim=out)
                loop.state.h = rf.tanh(y + loop.unstack(x))
                return loop.stack(loop.state.h * 2)

            faces = {}
            for face in ("for", "with"):
                with rf.compile_loops(how):
                    faces[face] = run_face(face, body, axis=time, h=rf.zeros([batch, out]))[0]
            assert_same(rf.copy_to_device(faces["with"], "cpu"), rf.copy_to_device(faces["for"], "cpu"))
            assert faces["with"].raw_tensor.requires_grad == gradients
