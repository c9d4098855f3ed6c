"""CUDA graphs of functions: what is copied into them and out of them, and when one is captured anew.

Where there is no GPU a capturer stands in for it: it runs the function again, and its results are in fixed memory too.
"""

import contextlib
import gc
import subprocess
import threading
import weakref
from types import SimpleNamespace

import pytest
import torch
from asserting import assert_same, randn
from loop_faces import run_face
from warm import warm

import rfnb as rf
from rfnb import Dim
from rfnb.backends import torch_compilation
from rfnb.backends.torch_compilation import CapturedFunction


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
    return CapturedFunction(fn, capture=capturer, may=may), capturer


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
    check(CapturedFunction(step, capture=capturer), *arrays())
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

    run = CapturedFunction(step, capture=refuse, may=lambda arrays: True)
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


# -- how it is captured, with streams that only note what is asked of them -------------------------------------------------------


class Driver:
    """The part of `torch.cuda` that captures; the calls are in `asked`."""

    def __init__(self, monkeypatch, broken=False):
        self.asked, self.broken, self.capturing = [], broken, False
        self.current = self.stream(self, "current")
        cuda = torch.cuda
        monkeypatch.setattr(cuda, "current_stream", lambda device=None: self.current)
        monkeypatch.setattr(cuda, "set_stream", lambda stream: setattr(self, "current", stream))
        monkeypatch.setattr(cuda, "Stream", lambda: self.stream(self, "side"))
        monkeypatch.setattr(cuda, "stream", self.on)
        monkeypatch.setattr(cuda, "CUDAGraph", lambda: SimpleNamespace(replay=lambda: None))
        monkeypatch.setattr(cuda, "graph_pool_handle", lambda: (0, 7))
        monkeypatch.setattr(cuda, "graph", self.graph)
        monkeypatch.setattr(cuda, "default_generators", [torch.default_generator])
        monkeypatch.setattr(
            torch._C, "_cuda_endAllocateToPool", lambda *which: self.asked.append(("end", *which)), raising=False
        )
        monkeypatch.setattr(torch_compilation, "_kept", threading.local())

    class stream:
        def __init__(self, driver, name):
            self.driver, self.name, self.device, self.device_index = driver, name, torch.device("cpu"), 0
            self.cuda_stream = id(self)

        def wait_stream(self, other):
            self.driver.asked.append((self.name, "waits for", other.name))

    @contextlib.contextmanager
    def on(self, stream):
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    @contextlib.contextmanager
    def graph(self, graph, *, pool, stream, capture_error_mode):
        assert (pool, capture_error_mode) == ((0, 7), "thread_local")
        before, self.current, self.capturing = self.current, stream, True
        try:
            yield
        finally:
            self.capturing = False
            if self.broken:
                raise RuntimeError("operation failed due to a previous error during capture")
            self.current = before


def test_a_capture_is_on_one_stream_beside_the_current_one(monkeypatch):
    driver, runs = Driver(monkeypatch), []
    for _ in range(2):
        torch_compilation.capture_on_gpu(lambda: runs.append((driver.current, driver.capturing)))
    assert [capturing for _, capturing in runs] == [False, False, True] * 2
    assert len({stream for stream, _ in runs}) == 1 and runs[0][0].name == "side"
    assert driver.asked == [("side", "waits for", "current"), ("current", "waits for", "side")] * 2
    assert driver.current.name == "current"


def test_after_a_first_call_that_fails_the_stream_waits_for_what_it_has_begun(monkeypatch):
    driver = Driver(monkeypatch)
    with pytest.raises(ZeroDivisionError):
        torch_compilation.capture_on_gpu(lambda: 1 / 0)
    assert driver.asked[-1] == ("current", "waits for", "side") and driver.current.name == "current"


def test_after_a_capture_that_cannot_be_ended_all_is_as_before(monkeypatch):
    driver = Driver(monkeypatch, broken=True)
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with pytest.raises(RuntimeError, match="previous error during capture"):
        torch_compilation.capture_on_gpu(lambda: None)
    assert driver.current.name == "current" and driver.asked[-1] == ("end", 0, (0, 7))
    assert torch.equal(torch.rand(2), expected)


def test_arrays_of_vmap_are_not_captured(monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch_compilation, "_is_plain", lambda x: True)
    array = SimpleNamespace(device=torch.device("cuda", 0))
    asked = []

    def fn(x):
        asked.append(torch_compilation.may_be_captured([array]))
        return x

    with torch.no_grad():
        assert torch_compilation.may_be_captured([array])
        torch.vmap(fn)(torch.ones(3))
    assert asked == [False]


@pytest.mark.parametrize("devices", [("cuda:1", "cuda:1"), ("cuda:0", "cpu"), ("cuda:0", "cuda:1"), ("cpu",), ("mps",)])
def test_arrays_elsewhere_are_not_captured(monkeypatch, devices):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch_compilation, "_is_plain", lambda x: True)
    with torch.no_grad():
        assert not torch_compilation.may_be_captured([SimpleNamespace(device=torch.device(each)) for each in devices])


def test_sizes_that_change_in_each_step_are_not_captured_for_ever():
    run, capturer = captured()
    with pytest.warns(UserWarning) as warned:
        for size in range(1, 60):
            check(run, *arrays(size=size))
    assert capturer.number == 32 and run._graphs == {}
    (one,) = warned
    assert str(one.message) == (
        'compile_loops("cuda_graph"): a step cannot be captured; the loop runs without.\n'
        "  because  32 sizes were captured, and each was repeated 1.0 times\n"
        "The results are the same. torch.compile needs no capture:\n"
        '    with rf.compile_loops("inductor"):'
    )


def test_sizes_that_come_again_and_again_are_captured_as_long_as_they_do():
    run, capturer = captured()
    for size in range(1, 40):
        same = arrays(size=size)
        for _ in range(4):
            check(run, *same)
    assert capturer.number == 39


def test_a_precision_that_is_set_by_library_can_be_asked_for():
    """In a process of its own: it cannot be taken back."""
    code = (
        "import torch, rfnb.backends.torch_modes as modes\n"
        "if hasattr(torch.backends, 'fp32_precision'):\n"
        "    before = modes.settings()['float32 precision of torch']\n"
        "    torch.backends.cuda.matmul.fp32_precision = 'tf32'\n"
        "    print(before, '|', modes.settings()['float32 precision of torch'])\n"
    )
    run = subprocess.run([*warm(), "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    if hasattr(torch.backends, "fp32_precision"):
        before, after = run.stdout.strip().split(" | ")
        assert before == "highest" and after.split()[0] == "tf32"


@pytest.mark.gpu
def test_on_a_gpu_nothing_is_left_of_a_capture_that_fails():
    def reads(weight, x):
        return (x * weight * float(weight.sum()),)  # a read of a value cannot be captured

    run, weight, x = CapturedFunction(reads), torch.ones(3, device="cuda"), torch.rand(1000, 3, device="cuda")
    stream, before = torch.cuda.current_stream(), torch.cuda.memory_allocated()
    with torch.no_grad(), pytest.warns(UserWarning, match="a step cannot be captured"):
        (result,) = run(weight)(x)
    torch.testing.assert_close(result, x * 3)
    del result
    assert torch.cuda.current_stream() == stream and not torch.cuda.is_current_stream_capturing()
    assert torch.cuda.memory_allocated() == before
    torch.rand(2, device="cuda")
    large = torch.empty(2**28, dtype=torch.uint8, device="cuda")
    reserved = torch.cuda.memory_reserved()
    del large
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= reserved - 2**28
    ours = CapturedFunction(lambda weight, x: (x @ weight,))
    with torch.no_grad():
        torch.testing.assert_close(ours(torch.eye(3, device="cuda"))(x), (x,))
    assert len(ours._graphs) == 1 and not ours._failed


@pytest.mark.gpu
def test_on_a_gpu_results_are_those_without_while_other_threads_compute_and_copy():
    def fn(weight, h):
        return (torch.tanh(h @ weight),)

    stop, failed = threading.Event(), []

    def others():
        try:
            while not stop.is_set():
                torch.rand(500, 500, device="cuda").sum().item()
        except Exception as error:
            failed.append(error)

    def loop(run, weight, results):
        with torch.no_grad():
            h = torch.ones(2, 64, device="cuda")
            call = run(weight)
            for _ in range(50):
                (h,) = call(h)
            results.append(h.cpu())

    weights = [torch.randn(64, 64, device="cuda") for _ in range(3)]
    expected, actual, ours = [], [], CapturedFunction(fn)
    for weight in weights:
        loop(lambda w: lambda h: fn(w, h), weight, expected)
    other = threading.Thread(target=others)
    other.start()
    try:
        for weight in weights:
            thread = threading.Thread(target=loop, args=(ours, weight, actual))
            thread.start()
            thread.join()
    finally:
        stop.set()
        other.join()
    assert failed == [] and not ours._failed
    torch.testing.assert_close(actual, expected)


@pytest.mark.gpu
def test_on_a_gpu_the_memory_of_graphs_is_given_back():
    before = torch.cuda.memory_allocated()
    ours = CapturedFunction(lambda weight, x: (x @ weight,))
    with torch.no_grad():
        call = ours(torch.eye(8, device="cuda"))
        for size in range(1, 30):
            for _ in range(4):
                call(torch.ones(size, 8, device="cuda"))
    assert len(ours._graphs) == 8
    del ours, call
    gc.collect()
    torch.cuda.synchronize()
    # The workspace of cuBLAS stays.
    assert torch.cuda.memory_allocated() - before <= 2**26
