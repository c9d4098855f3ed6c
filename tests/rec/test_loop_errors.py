"""Errors of a Loop that is used wrongly: whole messages."""

import pytest
from asserting import assert_same, ragged, raises_message, randn, tensor
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim, DimError


@pytest.fixture
def batch():
    return Dim(3, name="batch")


@pytest.fixture
def loop(batch):
    """A running loop in its first step, with a state `h`."""
    loop = rf.Loop(axis=Dim(2, name="time"), name="decoder")
    loop.state.h = rf.zeros([batch])
    loop.steps = iter(loop)
    next(loop.steps)
    yield loop
    loop.steps.close()


def test_unknown_state(loop):
    with raises_message(AttributeError, """
        Loop "decoder" has no state "c".
          has  h
        Give it an initial value before the loop:
            loop.state.c = rf.zeros(loop.state.h.dims)
        """):  # fmt: skip
        _ = loop.state.c


def test_state_without_initial_value(loop, batch):
    with raises_message(AttributeError, """
        Loop "decoder", step 0: state "c" has no initial value.
          has  h
          c    Tensor [batch=3]
        Give it one before the loop:
            loop.state.c = rf.zeros([batch])
        """):  # fmt: skip
        loop.state.c = rf.zeros([batch])


def test_state_assigned_twice(loop):
    loop.state.h = loop.state.h + 1
    with raises_message(
        ValueError,
        """
        Loop "decoder", step 0: state "h" was assigned twice.
          first  Tensor [batch=3]
          now    Tensor [batch=3]
        A step assigns a state once. Where it has several parts, keep them in a variable until then:
            loop.state.h = value
        """,
    ):
        loop.state.h = loop.state.h + 1


def test_state_with_another_structure(loop):
    with raises_message(
        ValueError,
        """
        Loop "decoder", step 0: state "h" changed its structure.
          before  Tensor [batch=3]
          now     LstmState(h=Tensor [batch=3], c=Tensor [batch=3])
        A state keeps its structure in every step.
        Give it the initial value of all of its parts, or assign the part that is meant:
            loop.state.h = new.h
        """,
    ):
        loop.state.h = rf.LstmState(h=loop.state.h, c=loop.state.h)


def test_state_with_a_new_dim(loop, batch):
    loop.state.h = rf.zeros([batch, Dim(4, name="model")])
    with raises_message(
        DimError,
        """
        Loop "decoder", step 0: state "h" changed its dims or dtype.
          before  [batch=3] float32
          now     [batch=3, model=4] float32   new: model=4
        A state keeps its dims and dtype in every step.
        Give the initial state the new dim:
            loop.state.h = rf.expand_dim(initial, dim=model)
        """,
    ):
        next(loop.steps)


def test_state_with_a_lost_dim(loop):
    loop.state.h = rf.zeros([])
    with raises_message(
        DimError,
        """
        Loop "decoder", step 0: state "h" changed its dims or dtype.
          before  [batch=3] float32
          now     [] float32
        A state keeps its dims and dtype in every step.
        """,
    ):
        next(loop.steps)


def test_state_with_another_dtype(batch):
    loop = rf.Loop(axis=Dim(2, name="time"), name="decoder")
    loop.state.lstm = rf.LstmState(h=rf.zeros([batch]), c=rf.zeros([batch]))
    with raises_message(
        DimError,
        """
        Loop "decoder", step 0: state "lstm.c" changed its dims or dtype.
          before  [batch=3] float32
          now     [batch=3] int32
        A state keeps its dims and dtype in every step.
        Give the initial state the new dtype:
            loop.state.lstm.c = rf.cast(initial, "int32")
        """,
    ):
        for _ in loop:
            loop.state.lstm = rf.LstmState(h=loop.state.lstm.h, c=rf.zeros([batch], dtype="int32"))


def test_no_axis_and_no_end():
    with raises_message(
        ValueError,
        """
        Loop "decoder", step 0: no end.
          axis         None
          max_seq_len  3
        Every step calls loop.end, or the loop runs over a dim (axis=...):
            loop = rf.Loop(max_seq_len=3)
            for _ in loop:
                loop.end(ended, include_eos=True)
        """,
    ):
        for _ in rf.Loop(max_seq_len=3, name="decoder"):
            pass


def test_end_without_limit():
    loop = rf.Loop(name="decoder")
    with raises_message(
        ValueError,
        """
        Loop "decoder", step 0: end without max_seq_len.
          axis         None
          max_seq_len  None
        A loop that never ends has to be cut somewhere:
            loop = rf.Loop(max_seq_len=50)
            for _ in loop:
                loop.end(ended, include_eos=True)
        """,
    ):
        for _ in loop:
            loop.end(tensor(False), include_eos=True)


def test_end_that_is_no_bool(batch):
    loop = rf.Loop(max_seq_len=3, name="decoder")
    with raises_message(
        TypeError,
        """
        Loop "decoder": end needs a bool.
          cond  [batch=3] float32
        It says for each sequence whether it has ended.
            loop.end(labels == eos, include_eos=True)
        """,
    ):
        for _ in loop:
            loop.end(rf.zeros([batch]), include_eos=True)


def test_end_twice():
    loop = rf.Loop(max_seq_len=3, name="decoder")
    with raises_message(ValueError, """
        Loop "decoder", step 0: end was called twice.
          first  []
          now    []
        A step has one condition. If either of two ends a sequence:
            loop.end(rf.logical_or(first, second), include_eos=True)
        """):  # fmt: skip
        for _ in loop:
            loop.end(tensor(False), include_eos=True)
            loop.end(tensor(False), include_eos=True)


def test_unstack_without_axis(batch):
    with raises_message(
        ValueError,
        """
        Loop "decoder": unstack without axis.
          source  [batch=3]
        A loop that unstacks needs its axis.
            rf.Loop(axis=time)
        """,
    ):
        loop = rf.Loop(max_seq_len=3, name="decoder")
        for _ in loop:
            loop.unstack(randn(batch))


def test_unstack_of_a_tensor_without_the_axis(loop, batch):
    with raises_message(
        DimError,
        """
        Loop "decoder": unstack: no dim time=2.
          tensor  [batch=3]
          dim     time=2
        The dim time=2 is not among the dims of tensor.
            x.dims[0]    # batch=3
        """,
    ):
        loop.unstack(randn(batch))


USED = {
    "unstack": "x_t = loop.unstack(x)",
    "stack": "out = loop.stack(value)",
    "last": "out = loop.last(value)",
    "end": "loop.end(ended, include_eos=True)",
    "iter_idx": "i = loop.iter_idx",
}


@pytest.mark.parametrize("what", USED)
def test_used_outside_of_the_loop(what, batch):
    loop = rf.Loop(axis=Dim(2, name="time"), max_seq_len=3, name="decoder")
    with raises_message(RuntimeError, f"""
        Loop "decoder": {what} is used inside of the loop.
          loop  <Loop "decoder": over [time=2], at most 3 steps, before its first step>
        A step reads and writes its values while it runs:
            for _ in loop:
                {USED[what]}
        """):  # fmt: skip
        if what == "iter_idx":
            _ = loop.iter_idx
        elif what == "end":
            loop.end(tensor(True), include_eos=True)
        else:
            getattr(loop, what)(randn(batch))


def test_a_loop_runs_once(batch):
    loop = rf.Loop(axis=Dim(2, name="time"), name="decoder")
    list(loop)
    with raises_message(RuntimeError, """
        Loop "decoder" has run already.
          over  [time=2]
        A loop runs once. To run it again, make a new one, with its own initial states:
            loop = rf.Loop(axis=loop.axis)
        """):  # fmt: skip
        list(loop)


def test_used_after_the_loop(batch):
    loop = rf.Loop(max_seq_len=3, name="decoder")
    for _ in loop:
        loop.end(tensor(True), include_eos=True)
    with raises_message(RuntimeError, """
        Loop "decoder": stack is used inside of the loop.
          loop  <Loop "decoder": over [decoder:time=1], at most 3 steps, after 1 step>
        A step reads and writes its values while it runs. This loop is over, and runs once; a new one:
            loop = rf.Loop(max_seq_len=loop.max_seq_len)
            for _ in loop:
                out = loop.stack(value)
        """):  # fmt: skip
        loop.stack(randn(batch))


def test_one_more_stack_in_a_later_step(batch):
    loop = rf.Loop(axis=Dim(2, name="time"), name="decoder")
    with raises_message(
        ValueError,
        """
        Loop "decoder", step 1: one more stack or last than in step 0.
          calls in step 0  1
          calls in step 1  at least 2
        Every step collects the same values, in the same order. Call it outside of any `if`, with 0 for unwanted values:
            out = loop.stack(rf.where(wanted, value, 0.0))
        """,
    ):
        for step in loop:
            loop.stack(rf.zeros([batch]))
            if step:
                loop.stack(rf.zeros([batch]))


def test_one_stack_less_in_a_later_step(batch):
    loop = rf.Loop(axis=Dim(2, name="time"), name="decoder")
    with raises_message(ValueError, """
        Loop "decoder", step 1: fewer stack or last calls than in step 0.
          calls in step 0  1
          calls in step 1  0
        Every step collects the same values, in the same order. Call it outside of any `if`, with 0 for unwanted values:
            out = loop.stack(rf.where(wanted, value, 0.0))
        """):  # fmt: skip
        for step in loop:
            if not step:
                loop.stack(rf.zeros([batch]))


def test_a_stacked_value_with_other_dims(batch):
    loop = rf.Loop(axis=Dim(2, name="time"), name="decoder")
    with raises_message(
        DimError,
        """
        Loop "decoder": a stacked value changed its dims or dtype.
          step 0  [batch=3] float32
          step 1  [] float32
        It has the same dims and dtype in every step.
        """,
    ):
        for step in loop:
            loop.stack(rf.zeros([]) if step else rf.zeros([batch]))


def test_last_of_a_value_that_grows(batch):
    loop = rf.Loop(axis=rf.ragged_dim([3, 1, 2], over=batch, name="time"), name="decoder")
    with raises_message(
        DimError,
        """
        Loop "decoder", step 1: a last value changed its dims or dtype.
          before  [batch=3, frames=1] float32
          now     [batch=3, frames=2] float32
        Each sequence keeps the value of its own last step, so it has the same dims and dtype in every step.
        """,
    ):
        for step in loop:
            loop.last(rf.zeros([batch, Dim(step + 1, name="frames")]))


# -- frames and handles ----------------------------------------------------------------------------------------------------
TWO, TIME = Dim(2, name="two"), Dim(4, name="time")
LINEAR = rf.Linear(TWO, Dim(3, name="out"))
FACES = pytest.mark.parametrize("face", ["for", "with"])


def run(face, body, initial=None, stop=False):
    """One loop; `stop`: by break, or by an error in the recorded step."""
    loop = rf.Loop(axis=TIME, name="decoder")
    loop.state.h = rf.zeros([TWO]) if initial is None else initial
    if face == "for":
        for _ in loop:
            out = body(loop)
            if stop:
                break
    else:
        try:
            with loop:
                out = body(loop)
                if stop:
                    raise KeyError
        except KeyError:
            pass
    return out


@FACES
def test_a_forgotten_unstack_beside_another_dim(face):
    with raises_message(
        DimError,
        """
        add: the dims of the operands do not match.
          a  [two=2]
          b  [time=4]
        b has all frames of time; a step of loop "decoder" works on one. Unstack it before:
            b_t = loop.unstack(b)
        """,
    ):
        run(face, lambda loop: loop.state.h + rf.range_over_dim(TIME, dtype="float32"))


@FACES
def test_a_forgotten_unstack_in_a_state(face):
    def body(loop):
        loop.state.h = loop.state.h + randn(TIME, TWO)

    with raises_message(
        DimError,
        """
        Loop "decoder", step 0: state "h" changed its dims or dtype.
          before  [two=2] float32
          now     [time=4, two=2] float32   new: time=4
        A state keeps its dims and dtype in every step.
        A step works on one frame of the axis of the loop. Unstack values that have it:
            x_t = loop.unstack(x)      # of each x with time
        """,
    ):
        run(face, body)


@FACES
@pytest.mark.parametrize("what", ["stack", "last"])
def test_a_forgotten_unstack_in_what_is_stacked(face, what):
    with raises_message(
        DimError,
        f"""
        Loop "decoder", step 0: {what} of all frames.
          source  [time=4, two=2]
          axis    time=4
        A step works on one frame, and the loop collects those of all steps. Unstack values that have the axis of the loop:
            x_t = loop.unstack(x)      # of each x with time
        """,
    ):
        run(face, lambda loop: getattr(loop, what)(randn(TIME, TWO)))


USES = {
    "op": lambda out: out + 1.0, "raw": lambda out: out.raw_tensor, "numpy": lambda out: out.numpy(),
    "function": lambda out: rf.reduce_sum(out, axis=TWO), "module": lambda out: LINEAR(out),
}  # fmt: skip


@FACES
@pytest.mark.parametrize("use", USES)
def test_a_stacked_value_is_not_used_in_the_loop(face, use):
    with raises_message(
        ValueError,
        """
        Loop "decoder", step 0: what loop.stack returned is used inside the loop.
          value  decoder:output0
        It has its values once the loop is done. In a step, use the collected value itself:
            out = loop.stack(y)      # y in the step, out after the loop
        """,
    ):
        run(face, lambda loop: USES[use](loop.stack(loop.state.h)))


@FACES
def test_a_loop_that_is_left_early_has_stacked_nothing(face):
    out = run(face, lambda loop: loop.last(loop.state.h), stop=True)
    with raises_message(
        ValueError,
        """
        Loop "decoder": it was left early, so loop.last has no values.
          value  decoder:output0
          steps  1
        A loop that is left by break or an error collects nothing. Let it end by itself:
            loop.end(condition, include_eos=True)      # in place of break
        """,
    ):
        out + 1.0
    assert "which is not done" in repr(out)


@FACES
def test_what_is_stacked_is_a_plain_tensor_afterwards(face):
    out = run(face, lambda loop: loop.stack(loop.state.h))
    assert type(out) is rf.Tensor and set(out.dims) == {TIME, TWO} and "_loop" not in vars(out)


ZERO = rf.zeros([TWO])
STRUCTURES = {
    "State for Tensor": (
        ZERO, lambda h: rf.State(h=h, c=h), "Tensor [two=2]", "State(h=Tensor [two=2], c=Tensor [two=2])",
        "Give it the initial value of all of its parts, or assign the part that is meant:\n    loop.state.h = new.h",
    ),
    "tuple for Tensor": (
        ZERO, lambda h: (h, h), "Tensor [two=2]", "(Tensor [two=2], Tensor [two=2])",
        "Give it the initial value of all of its parts, or assign the part that is meant:\n    loop.state.h = new[0]",
    ),
    "Tensor for State": (
        rf.State(h=ZERO, c=ZERO), lambda s: s.h, "State(h=Tensor [two=2], c=Tensor [two=2])", "Tensor [two=2]",
        "Assign all of its parts:\n    loop.state.h = rf.State(h=..., c=...)",
    ),
    "a part is missing": (
        rf.State(h=ZERO, c=ZERO), lambda s: rf.State(h=s.h), "State(h=Tensor [two=2], c=Tensor [two=2])",
        "State(h=Tensor [two=2])", "Assign the unchanged parts as well: c.",
    ),
    "a part is new": (
        rf.State(h=ZERO), lambda s: rf.State(h=s.h, c=s.h), "State(h=Tensor [two=2])",
        "State(h=Tensor [two=2], c=Tensor [two=2])", None,
    ),
    "tuple for State": (
        rf.State(h=ZERO), lambda s: (s.h,), "State(h=Tensor [two=2])", "(Tensor [two=2])",
        "Assign the unchanged parts as well: h.",
    ),
    "None for Tensor": (ZERO, lambda h: None, "Tensor [two=2]", "None", None),
    "Tensor for None": (rf.State(h=None, c=ZERO), lambda s: rf.State(h=s.c, c=s.c), "State(h=None, c=Tensor [two=2])",
                        "State(h=Tensor [two=2], c=Tensor [two=2])", None),
}  # fmt: skip


@FACES
@pytest.mark.parametrize("name", STRUCTURES)
def test_a_state_with_another_structure_shows_both(face, name):
    initial, change, before, now, rest = STRUCTURES[name]

    def body(loop):
        loop.state.h = change(loop.state.h)

    text = (
        f'Loop "decoder", step 0: state "h" changed its structure.\n  before  {before}\n  now     {now}\n'
        "A state keeps its structure in every step."
    )
    with raises_message(ValueError, text if rest is None else f"{text}\n{rest}"):
        run(face, body, initial)


@pytest.mark.parametrize("face", ["for", "with"])
@pytest.mark.parametrize("inner", ["Loop", "scan"])
def test_a_loop_in_a_loop_over_frames_of_all_steps(inner, face):
    """Letters of words of a batch: in a step of the loop over words, each sequence has the letters of one word."""
    batch = Dim(2, name="batch")
    words = ragged([2, 1], batch, "words")
    letters = ragged([[3, 1], [2, 0]], [batch, words], "letters")
    x = randn(batch, words, letters)
    outer = rf.Loop(axis=words, name="outer")
    outer.state.h = rf.zeros([batch])

    def body():
        if inner == "scan":
            rf.scan(
                spatial_dim=letters, xs=outer.unstack(x), initial=outer.state.h, body=lambda x_t, h: (None, h + x_t)
            )
        else:
            loop = rf.Loop(axis=letters, name="inner")
            loop.state.h = outer.state.h
            for _ in loop:
                loop.state.h = loop.state.h + loop.unstack(x)

    what = "scan" if inner == "scan" else 'Loop "inner"'
    with raises_message(
        DimError,
        f"""
        {what}: the lengths of letters<=3 are over words.
          around   Loop "outer" over words<=2
          lengths  [batch=2, words<=2]
        A step of the loop around has one frame of words, with frames of its own. Cut them out, in Python steps:
            x_t, letters_t = rf.slice(loop.unstack(x), axis=letters, size=loop.unstack(letters.dyn_size_ext))      # loop "outer"
        """,
    ):
        run_steps(outer, face, body)


def test_the_frames_of_a_step_are_those_that_are_cut_out():
    batch = Dim(2, name="batch")
    words = ragged([2, 1], batch, "words")
    letters = ragged([[3, 1], [2, 0]], [batch, words], "letters")
    x = randn(batch, words, letters)
    outer = rf.Loop(axis=words, name="outer")
    for _ in outer:
        x_t, letters_t = rf.slice(outer.unstack(x), axis=letters, size=outer.unstack(letters.dyn_size_ext))
        inner = rf.Loop(axis=letters_t, name="inner")
        inner.state.h = rf.zeros([batch])
        for _ in inner:
            inner.state.h = inner.state.h + inner.unstack(x_t)
        sums = outer.stack(inner.state.h)
    assert_same(sums, rf.reduce_sum(x, axis=letters))


@pytest.mark.parametrize("name", [None, 0, ("h",)])
def test_a_state_without_a_name_is_refused(name):
    loop = rf.Loop(max_seq_len=2)
    with raises_message(
        TypeError,
        f"""
        loop.state: the name of a state is no text.
          name   {name!r}
          value  Tensor []
        A state is an attribute of loop.state, too:
            loop.state["h"] = value    # or loop.state.h = value
        """,
    ):
        loop.state[name] = rf.zeros([])
    assert list(loop.state) == []
