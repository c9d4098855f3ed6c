"""Programs: what the ops of a recorded step become from the third step on."""

import gc
import re
import weakref

import pytest
import torch
from asserting import assert_same, ragged, randn, using_backend
from loop_faces import run_face, run_steps

import rfnb as rf
from rfnb import Dim, State
from rfnb.trace.probe import listen, probe

BATCH, IN, OUT, TIME = Dim(2, name="batch"), Dim(3, name="in"), Dim(5, name="out"), Dim(6, name="time")
NEW, SOURCE = Dim(5, name="new"), ragged([4, 3], BATCH, "source")


def both(body, axis=TIME, **initial):
    """Compare `with` to `for`; the loop of `with`."""
    expected, states = run_face("for", body, axis=axis, **initial)
    loop = rf.Loop(axis=axis)
    loop.state = initial
    assert_same(run_steps(loop, "with", lambda: body(loop)), expected)
    for name in initial:
        assert_same(loop.state[name], states[name])
    return loop


def source(axis=TIME, seed=1):
    return randn(axis, BATCH, IN, seed=seed)


def cell(x, weight):
    """A body with one recurrence."""

    def body(loop):
        both, both_dim = rf.concat((loop.unstack(x), IN), (loop.state.h, OUT))
        new = rf.matmul(both, weight, reduce=both_dim)
        loop.state.h = rf.tanh(rf.replace_dim_v2(new, in_dim=NEW, out_dim=OUT))
        return loop.stack(loop.state.h)

    return body


def test_a_program_as_text():
    loop = both(cell(source(), randn(IN + OUT, NEW, seed=2)), h=rf.zeros([BATCH, OUT]))
    assert re.sub(r":\d+$", ":N", loop.plan.program, flags=re.MULTILINE) == TEXT.strip()


TEXT = """
def step(steps, keep, state_h):
    (keep0,) = keep
    for (frame_of_input_0,) in steps:
        # concat  test_program.py:N
        r1 = cat([frame_of_input_0, state_h], 1)
        # matmul  test_program.py:N
        r2 = matmul(r1, c0)
        # tanh  test_program.py:N
        r3 = tanh(r2)
        keep0(r3)
        (state_h,) = (r3,)
    return (state_h,)
c0 = float32 [8, 5]
"""


def test_an_op_that_reads_values_runs_between_two_programs():
    x = source()

    def body(loop):
        h = rf.relu(loop.state.h + rf.reduce_sum(loop.unstack(x), axis=IN))
        size = rf.reduce_max(rf.cast(rf.abs(h), "int32"), axis=BATCH)
        rf.assert_(size >= 0, "never")
        loop.state.h = rf.tanh(h)
        return loop.stack(loop.state.h * 2)

    loop = both(body, h=rf.zeros([BATCH]))
    assert loop.plan.program.count("def step(") == 2


def test_two_states_that_hold_the_same_array_are_told_apart():
    a, b, x = randn(BATCH, seed=2), randn(BATCH, seed=3), source()

    def body(loop):
        before_p, before_q = loop.state.p, loop.state.q
        loop.state.p, loop.state.q = before_q, before_p
        loop.state.r = loop.state.q + 0.5 * loop.state.r
        return loop.stack(before_p - 2 * before_q + 3 * a + 5 * loop.state.r + rf.reduce_sum(loop.unstack(x), axis=IN))

    both(body, p=a, q=b, r=a)


def test_a_state_whose_parts_come_in_another_order():
    x = source()

    def body(loop):
        pair = loop.state.pair
        loop.state.pair = State(
            more=[{"b": rf.tanh(pair.a + loop.unstack(x)), "c": pair.a * 3}], a=pair.more[0]["b"] * 2
        )
        loop.last(loop.state.pair.more[0]["c"])
        return loop.stack(loop.state.pair.a)

    a, b, c = (randn(BATCH, IN, seed=seed) for seed in (2, 3, 4))
    found = [run_face(face, body, axis=TIME, pair=State(a=a, more=[{"c": c, "b": b}])) for face in ("with", "for")]
    (out, states), (expected, expected_states) = found
    assert_same(out, expected)
    assert_same(states.pair.a, expected_states.pair.a)
    for part in "bc":
        assert_same(states.pair.more[0][part], expected_states.pair.more[0][part])


def test_an_op_that_gives_what_it_got():
    def body(loop):
        same = rf.cast(loop.state.h, "float32")
        loop.state.h = rf.sin(same) + loop.state.h
        loop.state.before = same
        return loop.stack(loop.state.before + loop.state.h)

    both(body, h=randn(BATCH), before=randn(BATCH, seed=1))


@pytest.mark.parametrize("how", [None, "aot_eager"])
@pytest.mark.parametrize("lengths", [[6, 6], [6, 2], [0, 6]])
def test_gradients_of_programs_with_sequences_that_end(lengths, how):
    axis = ragged(lengths, BATCH, "time")
    layer, x, grads = rf.Linear(IN + OUT, OUT), source(axis), []
    for face in ("for", "with"):
        x.raw_tensor = x.raw_tensor.detach().requires_grad_()
        h0 = randn(BATCH, OUT, seed=5)
        h0.raw_tensor.requires_grad_()
        for parameter in layer.parameters():
            parameter.raw_tensor.grad = None

        def body(loop, x=x):
            given, _ = rf.concat((loop.unstack(x), IN), (loop.state.h, OUT))
            h = rf.log(rf.exp(layer(given)) + 1)
            loop.state.h = h
            return loop.stack(rf.sqrt(h))

        with rf.compile_loops(how):
            out, states = run_face(face, body, axis=axis, h=h0)
        loss = rf.reduce_sum(out, axis=out.dims) + rf.reduce_sum(states.h, axis=states.h.dims)
        loss.raw_tensor.backward()
        inputs = x.raw_tensor, h0.raw_tensor, *(parameter.raw_tensor for parameter in layer.parameters())
        grads.append([raw.grad for raw in inputs])
    torch.testing.assert_close(grads[1], grads[0])


def test_a_gradient_of_its_own_is_kept():
    x, grads = source(), []
    for face in ("for", "with"):
        x.raw_tensor = x.raw_tensor.detach().requires_grad_()

        def body(loop):
            loop.state.h = rf.scaled_gradient(rf.sin(loop.state.h + loop.unstack(x)), 0.5)
            return loop.stack(loop.state.h)

        out, _ = run_face(face, body, axis=TIME, h=rf.zeros([BATCH, IN]))
        rf.reduce_sum(out, axis=out.dims).raw_tensor.backward()
        grads.append(x.raw_tensor.grad)
    torch.testing.assert_close(grads[1], grads[0])


CHANGES = {
    "nothing": lambda now: None,
    "a weight in place": lambda now: now["weight"].raw_tensor.data.mul_(-1),
    "the weight": lambda now: now.update(weight=randn(OUT, NEW, seed=7)),
    "a number": lambda now: now.update(number=0.25),
    "a small number": lambda now: now.update(number=2),
    "a branch": lambda now: now.update(branch=True),
    "the function": lambda now: now.update(function=rf.sigmoid),
    "an option": lambda now: now.update(axis_of_mean=now["batch"]),
    "the dtype": lambda now: now.update(dtype="float64"),
    "the batch": lambda now: now.update(batch=Dim(4, name="batch"), lengths=None),
    "the lengths": lambda now: now.update(lengths=[2, 5]),
    "other lengths": lambda now: now.update(lengths=[5, 3]),
    "the steps": lambda now: now.update(steps=9),
    "gradients": lambda now: now.update(gradients=not now["gradients"]),
    "the mode": lambda now: now.update(train=True),
    "a listener": lambda now: now.update(listens=True),
    "the sign of zero": lambda now: now.update(number=-0.0),
    "compiled": lambda now: now.update(how="aot_eager"),
    "not compiled": lambda now: now.update(how=None),
}


def run_changed(face, now):
    """Values and events of a body that looks at all of `now`."""
    batch, events = now["batch"], []
    axis = Dim(now["steps"], name="time") if now["lengths"] is None else ragged(now["lengths"], batch, "time")
    x = rf.cast(randn(axis, batch, OUT, seed=4), now["dtype"])
    weight = rf.cast(now["weight"], now["dtype"])
    weight.raw_tensor.requires_grad_(now["gradients"])

    def body(loop):
        y = rf.replace_dim_v2(rf.matmul(loop.state.h, weight, reduce=OUT), in_dim=NEW, out_dim=OUT)
        h = now["function"](y) * now["number"] + loop.unstack(x)
        if now["branch"]:
            h = rf.where(h > 0, h, -h)
        if rf.get_run_ctx().is_train_flag_enabled(func=None):
            h = h * 3
        probe("note", h=h)
        loop.state.h = h - rf.reduce_mean(h, axis=now["axis_of_mean"])
        return loop.stack(h)

    def heard(kind, place, values):
        events.append((kind, place.path, place.step, {name: value for name, value in values.items() if name != "ids"}))

    with listen(heard) if now["listens"] else torch.enable_grad():
        rf.init_train_step_run_ctx(train_flag=now["train"])
        with rf.compile_loops(now["how"]):
            out, states = run_face(face, body, axis=axis, h=rf.zeros([batch, OUT], dtype=now["dtype"]))
    return axis, out, states.h, events


@pytest.mark.parametrize("second", CHANGES)
@pytest.mark.parametrize("first", ["nothing", "gradients", "the lengths", "a listener", "compiled"])
def test_what_changes_between_two_runs_is_not_that_of_the_first(first, second):
    now = {"weight": randn(OUT, NEW, seed=6), "number": 0.5, "branch": False, "function": rf.tanh,
           "axis_of_mean": OUT, "dtype": "float32", "batch": BATCH, "lengths": None, "steps": 6, "gradients": False,
           "train": False, "listens": False, "how": None}  # fmt: skip
    for change in (first, "nothing", second):
        CHANGES[change](now)
        axis, out, h, events = run_changed("with", now)
        own_axis, expected, expected_h, expected_events = run_changed("for", now)
        assert_same(out, rf.replace_dim_v2(expected, in_dim=own_axis, out_dim=axis))
        assert_same(h, expected_h)
        assert len(events) == len(expected_events)
        assert out.raw_tensor.requires_grad == expected.raw_tensor.requires_grad


def test_what_ops_offer_is_offered_by_the_program():
    x, heard = source(), {"for": [], "with": []}
    layer = rf.Linear(IN, OUT)

    def body(loop):
        query = layer(loop.unstack(x)) + loop.state.h
        loop.state.h = rf.dot_attention(query, keys, keys, key_dim=OUT, axis=SOURCE)
        return loop.stack(loop.state.h)

    keys = randn(BATCH, SOURCE, OUT, seed=3)
    for face, events in heard.items():
        with listen(lambda kind, place, values, events=events: events.append((kind, place.path, place.step, values))):
            _, states = run_face(face, body, axis=TIME, h=rf.zeros([BATCH, OUT]))
    kinds = [[event[:3] for event in events if event[0] == "attention"] for events in heard.values()]
    assert kinds[0] == kinds[1] == [("attention", "loop", step) for step in range(TIME.size)]
    for (*_, expected), (*_, got) in zip(
        *([event for event in events if event[0] in ("attention", "states")] for events in heard.values()), strict=True
    ):
        assert expected.keys() == got.keys()
        for name, value in expected.items():
            assert_same(got[name], value) if isinstance(value, rf.Tensor) else None


def test_nothing_is_kept_alive():
    def run():
        x, weight = source(), randn(OUT, NEW, seed=6)

        def body(loop):
            h = rf.matmul(loop.state.h, weight, reduce=OUT) + rf.reduce_sum(loop.unstack(x), axis=IN)
            loop.state.h = rf.replace_dim_v2(h, in_dim=NEW, out_dim=OUT)
            return loop.stack(loop.state.h)

        out, _ = run_face("with", body, axis=TIME, h=rf.zeros([BATCH, OUT]))
        return out, weakref.ref(x.raw_tensor), weakref.ref(weight.raw_tensor)

    _, *refs = run()
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_a_backend_that_does_not_say_what_it_calls():
    with using_backend("numpy"):
        x = rf.convert_to_tensor(randn(TIME, BATCH, IN).numpy(), dims=[TIME, BATCH, IN])

        def body(loop):
            loop.state.h = rf.tanh(loop.state.h + loop.unstack(x))
            return loop.stack(loop.state.h)

        loop = both(body, h=rf.zeros([BATCH, IN]))
    assert loop.plan.program == ""


def test_inference_mode():
    with torch.inference_mode():
        x, weight = source(), randn(IN + OUT, NEW, seed=2)
        both(cell(x, weight), h=rf.zeros([BATCH, OUT]))


@pytest.mark.parametrize("listened", [False, True], ids=["many steps at once", "step by step"])
def test_what_is_wrong_in_a_late_step_is_said_by_its_op(listened):
    table = randn(OUT, BATCH)

    def message(face):
        def body(loop):
            picked = rf.gather(table, indices=loop.state.place, axis=OUT, clip_to_valid=False)
            loop.state.place = loop.state.place + 1
            loop.state.sum = loop.state.sum + picked
            return loop.stack(picked)

        place = rf.zeros([BATCH], dtype="int64", sparse_dim=OUT)
        with listen(lambda *event: None) if listened else torch.enable_grad(), pytest.raises(Exception) as error:
            run_face(face, body, axis=Dim(8, name="time"), place=place, sum=rf.zeros([BATCH]))
        return type(error.value), re.sub(r"called in \S+:", "called in ...:", str(error.value))

    assert message("with") == message("for")


def test_the_outputs_of_a_program_are_stacked_as_they_are(monkeypatch):
    """Nobody needs a Tensor around each."""
    made = []
    monkeypatch.setattr("rfnb.rec.output.with_raw", lambda *args: made.append(args))
    both(cell(source(), randn(IN + OUT, NEW, seed=2)), h=rf.zeros([BATCH, OUT]))
    assert not made


def test_outputs_of_two_programs_and_of_steps_between_them():
    """Before the first sequence has ended, and after; the dims of a state are in another order at first."""
    for lengths in ([40, 20], [40, 36], [40, 3]):
        time = ragged(lengths, BATCH, "time")
        for dims in ([BATCH, OUT], [OUT, BATCH]):
            both(cell(source(time), randn(IN + OUT, NEW, seed=2)), axis=time, h=rf.zeros(dims))
