"""Steps of one pattern share their code, and whatever changes between two runs shows in the second one."""

import contextlib
import threading
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from asserting import using_backend
from changing_bodies import FIRST, TWIN, UNITS, Model, run
from loop_faces import run_face
from seed import part_of

import rfnb as rf
from rfnb import Dim
from rfnb.backends.raw_calls import ASK, CALL, CHANGE, MADE, RawCall
from rfnb.core.intercept import Intercepted
from rfnb.rec import shared_code
from rfnb.rec.shared_code import Pattern


@pytest.fixture(autouse=True)
def nothing_shared():
    shared_code._shared.clear()


@contextlib.contextmanager
def flag(turn_on, turn_off):
    turn_on()
    try:
        yield
    finally:
        turn_off()


def deterministic():
    return flag(lambda: torch.use_deterministic_algorithms(True), lambda: torch.use_deterministic_algorithms(False))


def flush():
    return flag(lambda: torch.set_flush_denormal(True), lambda: torch.set_flush_denormal(False))


def coarse():
    before = torch.get_float32_matmul_precision()
    return flag(
        lambda: torch.set_float32_matmul_precision("medium"), lambda: torch.set_float32_matmul_precision(before)
    )


def math_kernel():
    return torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)


def halved():
    """Somebody else answers rf.tanh."""
    return Intercepted(lambda op, args, kwargs: op.plain(*args, **kwargs) * 0.5, only={rf.tanh})


def float64_default():
    return rf.set_default_float_dtype_ctx("float64")


def amp():
    return torch.autocast("cpu", dtype=torch.bfloat16)


def saved():
    return torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda x: x)


CHANGES = [
    {}, {"lengths": [9, 4]}, {"lengths": [9, 8]}, {"lengths": [9, 9]}, {"lengths": [4, 9]}, {"lengths": [9, 0]}, {"steps": 7},
    {"steps": 2}, {"batch": 1, "source": [5]}, {"batch": 3, "source": [5, 3, 4]}, {"source": [3, 5]}, {"source": [6, 2]},
    {"source": [5, 5]}, {"source": None}, {"number": 3}, {"number": 3.0}, {"number": True}, {"number": 0.0}, {"number": -0.0},
    {"number": float("nan")}, {"function": rf.sigmoid}, {"function": rf.relu}, {"function": None}, {"dtype": "float64"},
    {"gradients": False}, {"train": True}, {"strided": True}, {"same_values": True}, {"initial": "ones"}, {"initial": "shared"},
    {"initial": "gradient"}, {"nan": True}, {"twin": True}, {"add": 1.0}, {"add": "scalar"}, {"add": "weight"}, {"add": "state"},
    {"frozen": True}, {"parameter": "value"}, {"parameter": "in place"}, {"parameter": "object"}, {"hook": True},
    {"bias": False}, {"own_index": True}, {"nan_padding": True}, {"around": torch.inference_mode, "gradients": False},
    *({"around": each} for each in (deterministic, flush, coarse, math_kernel, halved, float64_default, amp, saved)),
]  # fmt: skip


def name_of(change):
    if not isinstance(change, dict):
        return str(change)
    return ", ".join(f"{key} {getattr(value, '__name__', value)}" for key, value in change.items()) or "nothing"


def changed(model, now):
    """The model as `now` wants it."""
    if now["parameter"] == "object" or now["dtype"] != FIRST["dtype"]:
        with rf.set_default_float_dtype_ctx(now["dtype"]):
            model = Model(model.kind)
    with torch.no_grad():
        if now["parameter"] == "value":
            model.key.weight.raw_tensor = model.out.weight.raw_tensor[3:].clone()
        elif now["parameter"] is not None:
            for parameter in model.parameters():
                parameter.raw_tensor.mul_(-0.5)
    for parameter in model.parameters():
        parameter.raw_tensor = parameter.raw_tensor.detach()
        parameter.raw_tensor.requires_grad_(not now["frozen"])
        if now["hook"]:
            parameter.raw_tensor.register_hook(lambda gradient: gradient * 2)
    if not now["bias"]:
        model.out.bias = None
    return model


def assert_same_numbers(one, other, tolerance):
    """Values and gradients are equal up to rounding; NaN where NaN is."""
    for a, b in zip(one[0] + one[1], other[0] + other[1], strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, equal_nan=True, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(
    ("kind", "gradients", "change"),
    part_of(product(["plain", "lstm", "gru", "attention"], [True, False], CHANGES), 3),
    ids=name_of,
)
def test_the_run_after_a_change_is_as_if_it_were_the_first(kind, change, gradients):
    first = FIRST | {"gradients": gradients}
    before, now = Model(kind), first | change
    if "gradients" in change:
        now["gradients"] = not gradients and "around" not in change
    run("with", changed(Model(kind), now), now)  # the first time that a body is seen, more of its steps run op by op
    shared_code._shared.clear()
    for _ in range(2):
        run("with", before, first)
    model = changed(before, now)
    second = run("with", model, now)
    shared_code._shared.clear()
    fresh = run("with", model, now)
    for a, b in zip(second[0], fresh[0], strict=True):
        assert torch.equal(a.nan_to_num(12345.0), b.nan_to_num(12345.0))
    assert_same_numbers(second, fresh, 1e-5)  # gradients are summed in another order, where something was made once
    assert_same_numbers(second, run("for", model, now), 0.1 if change.get("around") is amp else 1e-4)


class Switched(Model):
    """A model whose step reads an attribute of its own."""

    doubled = False

    def step(self, x, h, now, encoder, source):
        out = super().step(x, h, now, encoder, source)
        return out * 2 if self.doubled else out


@pytest.mark.parametrize("gradients", [True, False], ids=["gradients", "none"])
def test_a_flag_of_a_module_is_that_of_the_run(gradients):
    model, now = Switched("plain"), FIRST | {"gradients": gradients}
    found = []
    for model.doubled in (False, False, True, True, False):
        found.append(run("with", model, now))
        assert_same_numbers(found[-1], run("for", model, now), 1e-4)
    assert not torch.equal(found[1][0][0], found[2][0][0]) and torch.equal(found[0][0][0], found[4][0][0])


@pytest.mark.parametrize("kind", ["plain", "gru"])
def test_another_backend_between_two_runs(kind):
    """Arrays of NumPy, which has no gradients; before and after it torch, with and without them."""

    def body(loop, x, weight):
        h = rf.matmul(loop.state.h, weight, reduce=UNITS)
        h, _ = rf.replace_dim(h, in_dim=TWIN, out_dim=UNITS)
        loop.state.h = (
            rf.tanh(h + loop.unstack(x)) if kind == "plain" else rf.sigmoid(h) * loop.state.h + loop.unstack(x)
        )
        return loop.stack(loop.state.h)

    arrays = [np.random.default_rng(seed).normal(size=(9, 2, 4)).astype("float32") for seed in range(2)]
    results = []
    for backend, gradients in [("torch", True), ("numpy", False), ("torch", False), ("numpy", False), ("torch", True)]:
        batch, time = Dim(2, name="batch"), Dim(9, name="time")
        with using_backend(backend), torch.set_grad_enabled(gradients):
            x = rf.convert_to_tensor(arrays[0], dims=[time, batch, UNITS])
            weight = rf.convert_to_tensor(arrays[1][:4].reshape(-1, 4)[:4], dims=[UNITS, TWIN])
            if gradients:
                weight.raw_tensor.requires_grad_()
            outs = [
                run_face(
                    face, lambda loop, x=x, weight=weight: body(loop, x, weight), axis=time, h=rf.zeros([batch, UNITS])
                )[0]
                for face in ("with", "for")
            ]
            assert {type(out.raw_tensor) for out in outs} == {torch.Tensor if backend == "torch" else np.ndarray}
            if gradients:
                grads = [torch.autograd.grad(out.raw_tensor.sum(), weight.raw_tensor)[0] for out in outs]
                torch.testing.assert_close(*grads)
            raws = [np.asarray(out.raw_tensor.detach() if backend == "torch" else out.raw_tensor) for out in outs]
        np.testing.assert_allclose(*raws, atol=1e-6)
        results.append(raws[0])
    for other in results[1:]:
        np.testing.assert_allclose(results[0], other, atol=1e-6)


@pytest.mark.parametrize("kind", ["plain", "attention"])
@pytest.mark.parametrize("gradients", [True, False], ids=["gradients", "none"])
def test_compiling_is_switched_on_and_off_between_two_runs(kind, gradients, monkeypatch):
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr("rfnb.rec.loop_compilation.WAYS", (count,))
    torch._dynamo.reset()
    rf.rec.loop_compilation._compiled.cache_clear()
    model, now = Model(kind), FIRST | {"gradients": gradients}
    expected, compiled = run("for", model, now), []
    for how in (None, count, None, count):
        with rf.compile_loops(how):
            before = len(graphs)
            assert_same_numbers(run("with", model, now), expected, 1e-4)
        compiled.append(len(graphs) > before)
    assert compiled == [False, True, False, False]  # the last one takes what the second has compiled


@pytest.mark.parametrize("kind", ["plain", "attention"])
@pytest.mark.parametrize("gradients", [True, False], ids=["gradients", "none"])
def test_a_listener_between_two_runs_hears_every_step(kind, gradients):
    model, now = Model(kind), FIRST | {"gradients": gradients}
    expected = run("for", model, now)
    with rf.record() as by_for:
        run("for", model, now)
    heard = []
    for listened in (False, True, False, True):
        with rf.record() if listened else contextlib.nullcontext() as trace:
            assert_same_numbers(run("with", model, now), expected, 1e-4)
        heard += [[(event.kind, event.path, event.step) for event in trace.select()]] if listened else []
    wanted = [(event.kind, event.path, event.step) for event in by_for.select()]
    assert wanted and [sorted(map(repr, events)) for events in heard] == 2 * [sorted(map(repr, wanted))]


@pytest.mark.parametrize("kind", ["plain", "lstm", "gru", "attention"])
def test_new_batches_share_their_code(kind, monkeypatch):
    monkeypatch.setattr(shared_code, "_again", [True])  # lower them all the same, and compare
    run("with", Model(kind), FIRST)
    patterns = list(shared_code._shared)
    assert patterns
    for source, steps in ([3, 5], 9), ([5, 2], 8), ([4, 5], 9):
        run("with", Model(kind), FIRST | {"source": source, "steps": steps})
    assert list(shared_code._shared) == patterns


def test_code_that_is_shared_is_not_lowered_again(monkeypatch):
    run("with", Model("attention"), FIRST)
    monkeypatch.setattr(shared_code, "_lowered", None)
    run("with", Model("attention"), FIRST | {"number": 0.5, "source": [1, 5]})


def test_shared_code_keeps_no_arrays_and_no_dims():
    for kind in ("plain", "lstm", "gru", "attention"):
        run("with", Model(kind), FIRST | {"lengths": [9, 4]})

    def parts(value):
        yield value
        if isinstance(value, (tuple, list, dict)):
            for item in [*value, *value.values()] if isinstance(value, dict) else value:
                yield from parts(item)
        elif isinstance(value, shared_code.ProgramCode):
            yield from parts(vars(value))

    found = list(parts(shared_code._shared))
    assert any(isinstance(part, shared_code.ProgramCode) for part in found)
    assert not any(isinstance(part, (torch.Tensor, rf.Tensor, Dim)) for part in found)
    assert not any(getattr(part, "__closure__", None) for part in found)


def test_shared_code_is_bounded(monkeypatch):
    run("with", Model("plain"), FIRST)
    monkeypatch.setattr(shared_code, "LIMIT", 2 * sum(map(len, shared_code._shared)))
    for number in range(3, 40):
        run("with", Model("plain"), FIRST | {"number": float(number)})
    assert 0 < sum(map(len, shared_code._shared)) <= shared_code.LIMIT


def test_a_function_that_holds_something_is_not_shared():
    held = torch.ones(())

    def add(x):
        if torch.overrides.has_torch_function_unary(x):
            return torch.overrides.handle_torch_function(add, (x,), x)
        return x + held

    class Call(RawCall):
        kind = CALL

    def key(fn):
        return Pattern([], torch.Tensor).key([([Call(fn, (held,), {}, torch.zeros(()))], [])])

    assert key(add) is None and key(held.add) is None and key(partial(torch.add, held)) is None
    assert key(torch.Tensor.add) is not None and key(torch.add) == key(torch.add) != key(torch.sub)


class Noted(RawCall):
    """A call of a given kind."""

    def __init__(self, kind, fn=torch.add, args=(), kwargs=None, out=None):
        super().__init__(fn, args, kwargs or {}, out)
        self._kind = kind

    kind = property(lambda self: self._kind)


A, B, C, D = (torch.zeros(2) for _ in range(4))


def called(*args, fn=torch.add, out=C, writes=(), kind=CALL, **kwargs):
    """One op of one call; A and B are the inputs of the step."""
    return [([Noted(kind, fn, args, kwargs, out)], list(writes))]


ALIKE = [
    (called(A, B), called(B, A)), (called(A, A), called(A, B)), (called(A, C, out=D), called(A, D, out=D)),
    (called(A, 0.0), called(A, -0.0)), (called(A, 1), called(A, 1.0)), (called(A, 1), called(A, True)), (called(A, 0), called(A, False)),
    (called(A, "1"), called(A, 1)), (called(A, 1j), called(A, complex(-0.0, 1))), (called(A, np.float32(1)), called(A, 1.0)),
    (called(A, np.float32(1)), called(A, np.float64(1))), (called(A, torch.float32), called(A, torch.float64)),
    (called(A, None), called(A)),
    (called(A, 1), called(A, 2)), (called(A, (1, 2)), called(A, [1, 2])), (called(A, (1, 2)), called(A, 1, 2)),
    (called(A, (1,), 2), called(A, (1, 2))), (called(A, (A, B)), called(A, (B, A))), (called(A, [()]), called(A, [[]])),
    (called(A, slice(1, 2)), called(A, slice(1, 2, 2))), (called(A, slice(1, 2)), called(A, slice(2, 2))),
    (called(A, slice(1, 2)), called(A, slice(1, 3))), (called(A, slice(0, 1, 2)), called(A, (0, 1, 2))), (called(A, ...), called(A, None)),
    (called(A, B), called(A, B, fn=torch.sub)), (called(A, B), called(A, other=B)), (called(A, x=1), called(A, y=1)),
    (called(A, x=1, y=2), called(A, x=2, y=1)), (called(A, x=1), called(A, x=2)), (called(A, x=A), called(A, x=B)),
    (called(A, B), called(A, B, kind=CHANGE)), (called(A, B), called(A, B, kind=MADE)), (called(A, B), called(A, B, kind="reads")),
    (called(A, kind="reads"), called(A, kind="draws")), (called(A, kind="reads"), called(A, kind=ASK)),
    (called(A, B, out=C), called(A, B, out=A)), (called(A, B, out=(C, D)), called(A, B, out=(D, D))),
    (called(A, B, out=C), called(A, B, out=(C,))), (called(A, B, out=None), called(A, B, out=C)),
    (called(kind=MADE, out=C) + called(A, C, out=D), called(kind=MADE, out=D) + called(A, C, out=D)),
    (called(kind=MADE, out=A), called(kind=MADE, out=B)), (called(A, B, writes=[C]), called(A, B, writes=[])),
    (called(A, B, writes=[C]), called(A, B, writes=[A])), (called(A, B, writes=[C, A]), called(A, B, writes=[A, C])),
    (called(A, B) + called(A, B), [(called(A, B)[0][0] * 2, [])]), (called(A, B) + called(B, A), called(B, A) + called(A, B)),
    ([(called(A)[0][0], [C]), ([], [])], [([], []), (called(A)[0][0], [C])]), (called(A, B), called(A, B) + [([], [])]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ALIKE)))
def test_steps_that_differ_in_one_thing_are_of_two_patterns(number):
    def key(ops, count=2, array=torch.Tensor, further=("x", "y")):
        return Pattern(map(id, (A, B, C)[:count]), array).key(ops, *further)

    one, other = ALIKE[number]
    assert key(one) == key(one) is not None and key(one) != key(other)
    assert key(one) != key(one, further=("x", "z")) and key(one) != key(one, further=())
    assert key(one) != key(one, count=3)


def test_arrays_of_another_type_are_of_another_pattern():
    assert Pattern([], np.ndarray).key([]) != Pattern([], torch.Tensor).key([])


@pytest.mark.parametrize(
    "held", [torch.Generator(), object(), {1: 2}, {1}, len, Dim(3, name="dim")], ids=lambda x: type(x).__name__
)
def test_a_call_with_what_cannot_be_compared_is_of_no_pattern(held):
    for ops in called(A, held), called(A, x=held), called(A, [held]), called(A, slice(held)):
        assert Pattern([id(A)], torch.Tensor).key(ops) is None


def test_two_threads_share():
    errors = []

    def go():
        try:
            for number in range(3, 9):
                run("with", Model("plain"), FIRST | {"number": float(number)})
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=go) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
