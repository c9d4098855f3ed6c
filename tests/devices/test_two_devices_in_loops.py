"""Loops, searches and parameters with a part on another device: whole messages."""

from __future__ import annotations

import pytest
from asserting import assert_same, raises_message, tensor
from simulated import NAME, watched

import rfnb as rf
from rfnb import Dim

batch, feat, vocab = Dim(2, name="batch"), Dim(3, name="feat"), Dim(5, name="vocab")
time = rf.ragged_dim([4, 2], over=batch, name="time")
SIM = f"{NAME}:0"
STATE_ON_HOST = """
    add: the operands are on different devices.
      x_t  [batch=2, feat=3] float32 on sim:0
      h    [batch=2, feat=3] float32 on cpu
    An op computes on one device. Copy an operand to that of the others:
        h = rf.copy_to_device(h, "sim:0")
    """


def on_device(x):
    return rf.copy_to_device(x, NAME)


@pytest.fixture
def frames():
    return on_device(rf.random_normal([batch, time, feat]))


def test_a_state_of_the_host_in_a_loop_over_frames_of_the_device(frames):
    loop = rf.Loop(axis=time)
    loop.state.h = rf.zeros([batch, feat])
    with raises_message(RuntimeError, STATE_ON_HOST):
        for _ in loop:
            x_t, h = loop.unstack(frames), loop.state.h
            loop.state.h = x_t + h


def test_the_same_while_a_loop_is_recorded(frames):
    loop = rf.Loop(axis=time)
    loop.state.h = rf.zeros([batch, feat])
    with raises_message(RuntimeError, STATE_ON_HOST), loop:
        x_t, h = loop.unstack(frames), loop.state.h
        loop.state.h = x_t + h


def test_the_same_in_a_scan(frames):
    def body(x_t, h):
        return x_t + h, h

    with raises_message(RuntimeError, STATE_ON_HOST):
        rf.scan(spatial_dim=time, xs=frames, initial=rf.zeros([batch, feat]), body=body)


def counted(state_device, end_device):
    loop = rf.Loop(max_seq_len=4, name="count")
    loop.state.total = rf.copy_to_device(rf.zeros([batch]), state_device)
    step, last = 0, tensor([1.0, 2.0], batch)
    for _ in loop:
        step += 1
        loop.state.total = loop.state.total + 1
        loop.end(rf.copy_to_device(last <= step, end_device), include_eos=True)
        totals = loop.stack(loop.state.total)
    return totals


@pytest.mark.parametrize(
    ("state", "end", "lines"),
    [
        (SIM, "cpu", 'loop.end(rf.copy_to_device(ended, "sim:0"), ...)'),
        (
            "cpu",
            SIM,
            'loop.state.total = rf.copy_to_device(initial, "sim:0")\n'
            '    loop.state.total = rf.copy_to_device(new, "sim:0")',
        ),
    ],
)
def test_what_ends_sequences_on_another_device_than_a_state(state, end, lines):
    with pytest.raises(RuntimeError) as caught:
        counted(state, end)
    assert str(caught.value) == (
        'Loop "count", step 1: state "total" is on another device than its previous value.\n'
        f"  before  [batch=2] float32 on {state}\n  now     [batch=2] float32 on {state}\n  ended   [batch=2] bool on {end}\n"
        "Ended sequences keep their state, so both values and the flags of the ended ones have to be on one device:\n"
        f"    {lines}"
    )
    assert counted(SIM, SIM).device == SIM


def test_a_stacked_value_that_changes_its_device():
    loop, y = rf.Loop(axis=feat, name="steps"), rf.ones([batch, feat])
    with raises_message(
        RuntimeError,
        """
        Loop "steps": a stacked value changed its device.
          step 0  [batch=2] float32 on cpu
          step 1  [batch=2] float32 on sim:0
        It is on the same device in every step. Copy it to that of the others first:
            loop.stack(rf.copy_to_device(y, "sim:0"))
        """,
    ):
        step = 0
        for _ in loop:
            y_t = loop.unstack(y)
            loop.stack(on_device(y_t) if step else y_t)
            step += 1


def searched(state_device, score_device):
    def step(labels, state):
        scores = rf.log_softmax(rf.zeros([*labels.dims, vocab]) + rf.range_over_dim(vocab, dtype="float32"), axis=vocab)
        scores.feature_dim = vocab
        return rf.copy_to_device(scores, score_device), {"count": state["count"] + 1}

    state = {"count": rf.copy_to_device(rf.zeros([batch]), state_device)}
    return rf.beam_search(step, batch=batch, max_seq_len=3, state=state, beam_size=2)


@pytest.mark.parametrize(("state", "scores", "label"), [(SIM, "cpu", "scores"), ("cpu", SIM, "state")])
def test_scores_of_a_search_on_another_device_than_a_state(state, scores, label):
    with raises_message(
        RuntimeError,
        f"""
        choice: a state is on another device than the scores.
          state    [batch=2, beam=2] float32 on {state}
          parents  [batch=2, beam'=2] int64 on {scores}
        The scores select the surviving states, so both must be on one device. In the step:
            {label} = rf.copy_to_device({label}, "sim:0")
        """,
    ):
        searched(state, scores)
    with rf.set_default_device_ctx(NAME):
        searched(SIM, SIM)


@pytest.mark.parametrize(("own", "other"), [("cpu", SIM), (SIM, "cpu")])
def test_assigning_copies_values_to_the_device_of_the_parameter(own, other):
    parameter = rf.Parameter([feat], device=own)
    parameter.assign(rf.copy_to_device(tensor([1.0, 2.0, 3.0], feat), other))
    assert parameter.device == own
    assert_same(parameter * 1, [1.0, 2.0, 3.0])


def test_adding_to_a_parameter_is_an_op_on_one_device():
    weight, value = rf.Parameter([feat], device=NAME), rf.ones([feat])
    with raises_message(
        RuntimeError,
        """
        Parameter.assign_add: the operands are on different devices.
          weight  [feat=3] float32 on sim:0
          value   [feat=3] float32 on cpu
        An op computes on one device. Copy an operand to that of the others:
            value = rf.copy_to_device(value, "sim:0")
        """,
    ):
        weight.assign_add(value)
    weight.assign_add(on_device(value))
    assert_same(weight * 1, [1.0, 1.0, 1.0])


def test_a_fill_of_the_padding_from_another_device(frames):
    fill = rf.zeros([feat])
    with raises_message(
        RuntimeError,
        """
        copy_masked: the operands are on different devices.
          frames  [batch=2, time<=4, feat=3] float32 on sim:0
          fill    [feat=3] float32 on cpu
        An op computes on one device. Copy an operand to that of the others:
            fill = rf.copy_to_device(fill, "sim:0")
        """,
    ):
        frames.copy_masked(fill)
    with watched() as seen:
        frames.copy_masked(0.0)
    assert seen.waits == []
