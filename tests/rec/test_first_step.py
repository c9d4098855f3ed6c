"""The recorded step as the one that is watched: its program is that of the steps that follow, or there is none."""

import gc
import weakref

import first_step_checked
import pytest
import torch
from asserting import assert_same, ragged, randn
from changing_bodies import FIRST, Model, run
from loop_faces import run_face

import rfnb as rf
from rfnb import Dim
from rfnb.core.intercept import Intercepted
from rfnb.rec import stretch
from rfnb.rec.first_step import FirstStep
from rfnb.trace.probe import listen

BATCH, FEAT, TIME = Dim(2, name="batch"), Dim(3, name="feat"), Dim(9, name="time")
NO_GRADIENTS = FIRST | {"gradients": False}


@pytest.fixture
def watched(monkeypatch):
    """The steps that are watched besides the recorded one."""
    seen = []
    run = stretch._WatchedStep.run
    monkeypatch.setattr(stretch._WatchedStep, "run", lambda self, *args: (seen.append(self), run(self, *args))[1])
    return seen


def both(body, axis=TIME, **initial):
    """Compare `with` to `for`, without gradients."""
    with torch.no_grad():
        expected, states = run_face("for", body, axis=axis, **initial)
        out, found = run_face("with", body, axis=axis, **initial)
    assert_same(out, expected)
    for name in initial:
        assert_same(found[name], states[name])


@pytest.mark.parametrize(
    "change", [{}, {"strided": True}, {"nan": True}, {"number": 3}, {"lengths": [40, 20], "steps": 40}]
)
@pytest.mark.parametrize("kind", ["plain", "lstm", "gru", "attention"])
def test_its_program_computes_what_the_next_step_does(kind, change, monkeypatch):
    first_step_checked.install(monkeypatch.setattr)
    monkeypatch.setattr(first_step_checked, "compared", [0])
    for source in ([5, 3], [2, 5], [5, 5]):
        run("with", Model(kind), NO_GRADIENTS | change | {"source": source})
    assert first_step_checked.compared[0] >= 1


@pytest.mark.parametrize("kind", ["plain", "lstm", "gru", "attention"])
def test_no_further_step_is_watched(kind, watched):
    run("with", Model(kind), NO_GRADIENTS)
    watched.clear()
    for source in ([2, 5], [5, 5], [3, 4]):
        run("with", Model(kind), NO_GRADIENTS | {"source": source})
        run("with", Model(kind), NO_GRADIENTS | {"source": source, "lengths": [40, 40], "steps": 40})
    assert not watched


def frame_and(loop, x, value):
    loop.state.h = rf.tanh(loop.state.h + loop.unstack(x) + value)
    return loop.stack(loop.state.h)


def test_a_state_that_begins_as_a_constant_of_the_body(watched):
    x, h = randn(TIME, BATCH, FEAT), randn(BATCH, FEAT, seed=2)
    both(lambda loop: frame_and(loop, x, h), h=h)
    assert not watched


def test_two_states_that_begin_as_the_same_array(watched):
    x, h = randn(TIME, BATCH, FEAT), randn(BATCH, FEAT, seed=2)

    def body(loop):
        loop.state.g = loop.state.h * 0.5
        return frame_and(loop, x, loop.state.g)

    both(body, h=h, g=h)
    assert not watched


def test_a_state_that_no_step_assigns(watched):
    x = randn(TIME, BATCH, FEAT)
    both(lambda loop: frame_and(loop, x, loop.state.fixed), h=rf.zeros([BATCH, FEAT]), fixed=randn(BATCH, FEAT, seed=2))
    assert not watched


def test_states_that_change_places():
    x = randn(TIME, BATCH, FEAT)

    def body(loop):
        loop.state.h, loop.state.g = loop.state.g, rf.tanh(loop.state.h + loop.unstack(x))
        return loop.stack(loop.state.h)

    both(body, h=randn(BATCH, FEAT, seed=2), g=randn(BATCH, FEAT, seed=3))


def test_a_value_of_the_frames_that_is_a_constant_in_the_first_step():
    """An op may return one of its input arrays."""
    x, other = randn(TIME, BATCH, FEAT), randn(BATCH, FEAT, seed=2)
    both(lambda loop: frame_and(loop, x, rf.cast(loop.unstack(x), "float32") + rf.cast(other, "float32")), h=other)


def test_a_mark_that_is_set_after_a_value_was_used(watched):
    x = randn(TIME, BATCH, FEAT)

    def body(loop):
        h = rf.tanh(loop.state.h + loop.unstack(x))
        loop.state.h = h * 0.5
        h.feature_dim = FEAT
        return loop.stack(h)

    both(body, h=rf.zeros([BATCH, FEAT]))
    assert watched


def test_a_last_value():
    x = randn(TIME, BATCH, FEAT)

    def body(loop):
        out = frame_and(loop, x, 0.5)
        loop.last(loop.state.h)
        return out

    both(body, h=rf.zeros([BATCH, FEAT]))


def test_first_values_without_gradients(watched):
    x, weight = randn(TIME, BATCH, FEAT), randn(BATCH, FEAT, seed=2)
    weight.raw_tensor.requires_grad_()
    out, _ = run_face("with", lambda loop: frame_and(loop, x, weight), axis=TIME, h=rf.zeros([BATCH, FEAT]))
    rf.reduce_sum(out, axis=out.dims).raw_tensor.backward()
    found, weight.raw_tensor.grad = weight.raw_tensor.grad, None
    out, _ = run_face("for", lambda loop: frame_and(loop, x, weight), axis=TIME, h=rf.zeros([BATCH, FEAT]))
    rf.reduce_sum(out, axis=out.dims).raw_tensor.backward()
    torch.testing.assert_close(found, weight.raw_tensor.grad)
    assert watched


def test_gradients_of_first_values(watched):
    gradients = []
    for face in ("with", "for"):
        x, h = randn(TIME, BATCH, FEAT), randn(BATCH, FEAT, seed=2)
        h.raw_tensor.requires_grad_()
        out, _ = run_face(face, lambda loop, x=x: frame_and(loop, x, 0.5), axis=TIME, h=h)
        rf.reduce_sum(out, axis=out.dims).raw_tensor.backward()
        gradients.append(h.raw_tensor.grad)
    torch.testing.assert_close(*gradients)
    assert not watched


@pytest.mark.parametrize("lengths", [[9, 9], [9, 8], [9, 0], [40, 20], [40, 12], [40, 39], [3, 2]])
def test_sequences_that_end(lengths):
    time = ragged(lengths, BATCH, "time")
    x = randn(BATCH, time, FEAT)
    both(lambda loop: frame_and(loop, x, 0.5), axis=time, h=rf.zeros([BATCH, FEAT]))


def test_a_mask_that_the_first_step_makes_is_a_constant(watched):
    for seed in range(3):
        source = ragged([4, 2 + seed % 2], BATCH, "source")  # a new dim, so its mask is made in the step
        x, keys = randn(TIME, BATCH, FEAT, seed=seed), randn(BATCH, source, FEAT, seed=seed + 5)

        def body(loop, x=x, keys=keys, source=source):
            energy = rf.reduce_sum(rf.combine_bc(loop.state.h, "mul", keys), axis=FEAT)
            context = rf.matmul(rf.softmax(energy, axis=source), keys, reduce=source)
            return frame_and(loop, x, context)

        if seed:
            watched.clear()
        both(body, h=rf.zeros([BATCH, FEAT]))
    assert not watched


def test_nothing_of_the_step_is_kept():
    def done():
        x = randn(TIME, BATCH, FEAT)
        with torch.no_grad():
            loop = rf.Loop(axis=TIME)
            loop.state.h = rf.zeros([BATCH, FEAT])
            with loop:
                out = frame_and(loop, x, 0.5)
        return loop, out, weakref.ref(x.raw_tensor)

    loop, _, ref = done()
    gc.collect()
    assert ref() is None and loop.plan.program


def arrays_there():
    """How many there are; views of one are one."""
    tensors = (each for each in gc.get_objects() if issubclass(type(each), torch.Tensor))
    return len({each.untyped_storage()._cdata for each in tensors})


@pytest.mark.parametrize(
    "change", [{}, {"gradients": True}, {"lengths": [40, 20], "steps": 40}, {"lengths": [9, 4]}, {"steps": 3}]
)
def test_the_arrays_of_a_loop_go_without_the_garbage_collector(change):
    models = [Model(kind) for kind in ("plain", "lstm", "gru", "attention")]

    def turn():
        for model in models:
            run("with", model, NO_GRADIENTS | change)

    for _ in range(3):
        turn()
    gc.collect()
    gc.disable()
    try:
        turn()
        before = arrays_there()
        for _ in range(3):
            turn()
        assert arrays_there() <= before + 3 * 4 * 5  # lengths and masks of dims, which hold themselves
    finally:
        gc.enable()


def test_a_state_whose_dims_are_in_another_order_at_first(watched):
    square = Dim(2, name="square")
    x = randn(TIME, BATCH, square)

    def body(loop):
        loop.state.h = rf.tanh(loop.unstack(x) + loop.state.h)
        return loop.stack(loop.state.h)

    both(body, h=randn(square, BATCH, seed=2))
    assert watched


def test_a_state_whose_parts_come_in_another_order():
    x = randn(TIME, BATCH, FEAT)

    def body(loop):
        pair = loop.state.pair
        loop.state.pair = rf.State(c=rf.tanh(pair.a + loop.unstack(x)), b=pair.c * 0.5, a=pair.b * 3)
        return loop.stack(pair.a)

    with torch.no_grad():
        found = [
            run_face(
                face,
                body,
                axis=TIME,
                pair=rf.State(**{part: randn(BATCH, FEAT, seed=k) for k, part in enumerate("abc")}),
            )
            for face in ("with", "for")
        ]
    (out, states), (expected, expected_states) = found
    assert_same(out, expected)
    for part in "abc":
        assert_same(states.pair[part], expected_states.pair[part])


def ends(*lengths):
    return {"lengths": list(lengths)}


@pytest.fixture
def begun(monkeypatch):
    """Of each recorded step, whether it was watched."""
    found = []
    watch = FirstStep.watch
    monkeypatch.setattr(FirstStep, "watch", lambda *args: found.append(watch(*args)) or found[-1])
    return found


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True), (ends(9, 8), False), (ends(40, 20), True), (ends(40, 6), False), (ends(40, 1), False), (ends(40, 0), False),
        ({"steps": 6}, True), ({"steps": 5}, False), ({"gradients": True}, False), ({"gradients": True, "initial": "gradient"}, False),
        ({"around": lambda: Intercepted(lambda op, args, kwargs: op.plain(*args, **kwargs), only={rf.tanh})}, False),
        ({"around": lambda: listen(lambda *offer: None)}, False),
    ],
)  # fmt: skip
def test_the_recorded_step_is_watched_where_its_program_may_be_used(change, expected, begun):
    run("with", Model("plain"), NO_GRADIENTS | change)
    assert begun == [expected]
