"""Steps of one's own in the place of `loop.step`: the loop does not have to know of them."""

import gc
import weakref

import numpy as np
import pytest
from asserting import assert_same, ragged, randn
from loop_faces import FACES, run_steps

import rfnb as rf
from rfnb import Dim
from rfnb.rec.loop_step import StepAround

BATCH, FEAT = Dim(3, name="batch"), Dim(5, name="feat")
TIME = ragged([7, 4, 2], BATCH, "time")
X = randn(BATCH, TIME, FEAT)


class Edits(StepAround):
    """Adds 1 to a state before some steps."""

    def __init__(self, inner, steps):
        super().__init__(inner)
        self.steps = steps

    def begin(self, index):
        super().begin(index)
        if index in self.steps:
            self.states.edit("h", self.states.now["h"] + 1.0)


class Records(StepAround):
    """Notes the states after each step, what was collected, and the ends."""

    def __init__(self, inner):
        super().__init__(inner)
        self.written, self.collected, self.ends = [], [], []

    def begin(self, index):
        super().begin(index)
        self.written.append({})
        self.collected.append([])

    def write(self, name, value):
        super().write(name, value)
        self.written[-1][name] = value

    def output(self, value, last):
        self.collected[-1].append((value, last))
        return super().output(value, last)

    def end_with(self, cond, include_eos):
        self.ends.append((cond, include_eos))
        super().end_with(cond, include_eos)


class Replays(StepAround):
    """The first `count` steps are those of an earlier run; the body continues from there."""

    def __init__(self, loop, record, count):
        super().__init__(loop.step)
        self.loop, self.record, self.count, self.index_ = loop, record, count, -1

    def begin(self, index):
        super().begin(index)
        self.index_ = index

    def run(self):
        if self.index_ >= self.count:
            return False
        for name, value in self.record.written[self.index_].items():
            self.write(name, value)
        for value, last in self.record.collected[self.index_]:
            (self.loop.last if last else self.loop.stack)(value)
        if self.record.ends:
            cond, include_eos = self.record.ends[self.index_]
            self.loop.end(cond, include_eos=include_eos)
        return True


class Scaled(StepAround):
    """Frames and indices other than the loop has."""

    def frame(self, source):
        return super().frame(source) * 2.0

    def index(self):
        return super().index() + 10


def sums(loop, face="for", x=X):
    """The outputs of a running sum, and what it comes to."""
    loop.state.h = rf.zeros([BATCH, FEAT])

    def body():
        loop.state.h = loop.state.h + loop.unstack(x)
        return loop.stack(loop.state.h * 2.0), loop.last(loop.state.h)

    return run_steps(loop, face, body)


@pytest.mark.parametrize("face", FACES)
def test_a_step_may_edit_a_state_between_steps(face):
    loop = rf.Loop(axis=TIME)
    loop.step = Edits(loop.step, steps={0, 1})
    out, last = sums(loop, face)
    expected = rf.cumsum(X, spatial_dim=TIME)
    added = 1.0 + rf.cast(rf.range_over_dim(TIME) >= 1, "float32")
    assert_same(out, (expected + added) * 2.0)
    assert_same(last, loop.state.h)
    final = rf.gather(expected + added, indices=TIME.dyn_size_ext - 1, axis=TIME)
    assert_same(loop.state.h, final)


def test_an_edited_state_keeps_its_structure_and_dims():
    loop = rf.Loop(axis=TIME, name="sums")
    loop.state.h = rf.zeros([BATCH, FEAT])
    with pytest.raises(rf.DimError) as error:
        loop.step.states.edit("h", rf.zeros([BATCH]))
    assert str(error.value) == (
        'Loop "sums", step 0: state "h" changed its dims or dtype.\n'
        "  before  [batch=3, feat=5] float32\n"
        "  now     [batch=3] float32\n"
        "A state keeps its dims and dtype in every step."
    )
    with pytest.raises(ValueError, match=r'state "h" changed its structure'):
        loop.step.states.edit("h", rf.State(a=rf.zeros([BATCH])))


@pytest.mark.parametrize("count", [0, 1, 3, 7])
def test_a_step_may_give_what_an_earlier_run_gave(count):
    """The body continues where the record ends, and does not run before."""
    first = rf.Loop(axis=TIME)
    first.step = record = Records(first.step)
    expected = sums(first)
    loop, calls = rf.Loop(axis=TIME), []
    loop.step = Replays(loop, record, count)
    loop.state.h = rf.zeros([BATCH, FEAT])
    out = None
    for index in loop:
        calls.append(index)
        loop.state.h = loop.state.h + loop.unstack(X)
        out = loop.stack(loop.state.h * 2.0), loop.last(loop.state.h)
    assert calls == list(range(count, 7))
    assert_same(loop.state.h, first.state.h)
    if out is not None:
        assert_same(out[0], expected[0])
        assert_same(out[1], expected[1])


@pytest.mark.parametrize("count", [0, 2, 4])
def test_ends_are_given_again_too(count):
    def body(loop):
        loop.state.n = loop.state.n + 1
        out = loop.stack(loop.state.n)
        loop.end(loop.state.n >= rf.range_over_dim(BATCH, dtype="int32") + 2, include_eos=True)
        return out

    first = rf.Loop(max_seq_len=9)
    first.state.n = rf.zeros([BATCH], dtype="int32")
    first.step = record = Records(first.step)
    for _ in first:
        expected = body(first)
    loop = rf.Loop(max_seq_len=9)
    loop.state.n = rf.zeros([BATCH], dtype="int32")
    loop.step = Replays(loop, record, count)
    out = None
    for _ in loop:
        out = body(loop)
    np.testing.assert_array_equal(loop.axis.lengths, [2, 3, 4])
    assert_same(loop.state.n, first.state.n)
    if out is not None:
        assert_same(rf.replace_dim_v2(out, in_dim=loop.axis, out_dim=first.axis), expected)


@pytest.mark.parametrize("face", FACES)
def test_frames_and_indices_may_be_others(face):
    loop = rf.Loop(axis=TIME)
    loop.step = Scaled(loop.step)
    loop.state.h = rf.zeros([BATCH, FEAT])

    def body():
        loop.state.h = loop.state.h + loop.unstack(X)
        return loop.stack(rf.exp(loop.unstack(X))), loop.stack(loop.iter_idx * 1)

    out, index = run_steps(loop, face, body)
    assert_same(loop.state.h, rf.reduce_sum(X, axis=TIME) * 2.0)
    assert_same(out, rf.exp(X * 2.0))
    assert_same(index, rf.set_sparse_dim(rf.range_over_dim(TIME, dtype="int32") + 10, index.sparse_dim))


@pytest.mark.parametrize("face", FACES)
def test_steps_may_be_put_around_each_other(face):
    loop = rf.Loop(axis=TIME)
    loop.step = Edits(Scaled(loop.step), steps={1})
    out, _ = sums(loop, face)
    added = rf.cast(rf.range_over_dim(TIME) >= 1, "float32")
    assert_same(out, (rf.cumsum(X, spatial_dim=TIME) * 2.0 + added) * 2.0)


class Waits(StepAround):
    """Lets somebody else do something between two steps."""

    def __init__(self, inner, turns):
        super().__init__(inner)
        self.turns = turns

    def commit(self, active):
        super().commit(active)
        next(self.turns)


def test_two_loops_may_run_in_turns():
    """Each waits after each of its steps for the other one: neither sees the states of the other, nor is taken for it."""
    a, b = rf.Loop(axis=TIME), rf.Loop(axis=TIME)
    for loop in (a, b):
        loop.state.h = rf.zeros([BATCH, FEAT])

    def turns():
        for _ in b:
            assert rf.Loop.current() is b
            b.state.h = b.state.h - b.unstack(X)
            yield
        yield

    a.step = Waits(a.step, turns())
    for _ in a:
        a.state.h = a.state.h + a.unstack(X)
    total = rf.reduce_sum(X, axis=TIME)
    assert_same(a.state.h, total)
    a.step.turns.close()
    assert rf.Loop.current() is None


# -- states ----------------------------------------------------------------------------------------------------------------


NAMES = ["values", "keys", "items", "deep_tensors", "step", "now", "next", "states", "_states", "self", "__states", "é"]


@pytest.mark.parametrize("face", FACES)
def test_a_state_may_have_any_name(face):
    loop = rf.Loop(axis=TIME)
    for name in NAMES:
        setattr(loop.state, name, rf.zeros([BATCH]))

    def body():
        for number, name in enumerate(NAMES):
            setattr(loop.state, name, getattr(loop.state, name) + float(number))

    run_steps(loop, face, body)
    assert type(loop.state).__name__ == "LoopState" and list(loop.state) == NAMES
    for number, name in enumerate(NAMES):
        np.testing.assert_array_equal(getattr(loop.state, name).numpy(), np.array([7, 4, 2]) * number)
        assert loop.state[name] is getattr(loop.state, name)


@pytest.mark.parametrize("face", FACES)
def test_what_is_listed_in_a_step_is_what_is_read_there(face):
    """Also in a recorded one: values of the first step would be those of all."""
    loop = rf.Loop(axis=TIME)
    loop.state.a, loop.state.b = rf.zeros([BATCH]), rf.ones([BATCH])

    def body():
        a, b = loop.state.values()
        loop.state.b = a + b
        named = dict(loop.state.items())
        loop.state.a = named["b"] + 0.0 * sum(loop.state.deep_tensors()[1:])

    run_steps(loop, face, body)
    np.testing.assert_array_equal(loop.state.b.numpy(), [64, 8, 2])
    np.testing.assert_array_equal(loop.state.a.numpy(), [64, 8, 2])


# -- nothing is kept -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("face", FACES)
def test_a_loop_that_is_done_keeps_final_states_only(face):
    """Neither frames nor values of steps, in the loop or its plan, without a garbage collection."""
    linear = rf.Linear(FEAT, FEAT)
    watched, loop = [], rf.Loop(axis=TIME)

    def watch(x):
        watched.append(weakref.ref(x))
        return x

    def run():
        x, constant = watch(rf.exp(X)), watch(rf.exp(rf.ones([BATCH, FEAT])))
        loop.state.h = watch(rf.zeros([BATCH, FEAT]) + 0.0)

        def body():
            y = linear(loop.unstack(x))
            loop.state.h = rf.tanh(loop.state.h + y * constant)
            loop.stack(rf.exp(loop.state.h))
            loop.last(rf.exp(loop.state.h * 3.0))

        run_steps(loop, face, body)

    gc.collect()
    gc.disable()
    try:
        run()
        alive = [ref() for ref in watched if ref() is not None]
    finally:
        gc.enable()
    assert not alive
    assert loop.state.h.dims == (BATCH, FEAT)


@pytest.mark.parametrize("face", FACES)
def test_a_loop_is_gone_when_nobody_has_it(face):
    gc.collect()
    gc.disable()
    try:
        loop = rf.Loop(axis=TIME)
        out, _ = sums(loop, face)
        refs = weakref.ref(loop), weakref.ref(loop.step)
        del loop
        assert [ref() for ref in refs] == [None, None]
    finally:
        gc.enable()
    assert_same(out, rf.cumsum(X, spatial_dim=TIME) * 2.0)


@pytest.mark.parametrize("face", FACES)
def test_an_error_that_somebody_keeps_keeps_no_loop_running(face):
    """A notebook keeps the last one, with all its frames."""
    loop = rf.Loop(axis=TIME)
    loop.state.h = rf.zeros([BATCH, FEAT])

    def body():
        loop.state.h = loop.state.h + loop.unstack(X)
        if loop.num_steps_begun == 1:
            raise KeyError("mine")

    with pytest.raises(KeyError) as kept:
        run_steps(loop, face, body)
    assert rf.Loop.current() is None and loop.has_ended
    assert_same(loop.state.h, rf.zeros([BATCH, FEAT]))
    assert kept.value.args == ("mine",)
