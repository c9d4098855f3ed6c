"""A body of many ops is recorded, planned and shown with work in proportion to its length."""

from __future__ import annotations

import gc
import sys

import pytest
from asserting import ragged, randn

import rfnb as rf
from rfnb import Dim
from rfnb.rec.loop_plan import LoopPlan
from rfnb.rec.recorder import Node
from rfnb.rec.recording import Recording

BATCH, FEAT = Dim(2, name="batch"), Dim(3, name="feat")
TIME = ragged([2, 1], BATCH)
SHORT, LONG = 250, 2000


def loop_of(num_ops):
    """A loop left after its body of so many ops, as many before as inside as after the loop."""
    x, h = randn(BATCH, TIME, FEAT), randn(BATCH, FEAT)
    loop = rf.Loop(axis=TIME)
    loop.state.h = h
    with loop:
        frame, state = loop.unstack(x), loop.state.h
        for _ in range(num_ops // 3):
            frame = rf.tanh(frame)
        state = state + frame
        for _ in range(num_ops // 3):
            state = rf.sigmoid(state)
        loop.state.h = state
        for _ in range(num_ops - num_ops // 3 * 2 - 1):
            state = rf.square(state)
        loop.stack(state)
    return loop


def body_with_new_dims(num_ops):
    """A loop whose ops make dims of their own, which each step makes anew."""
    x = randn(BATCH, TIME, FEAT)
    loop = rf.Loop(axis=TIME)
    with loop:
        frame = loop.unstack(x)
        for _ in range(num_ops // 2):
            part, dim = rf.masked_select(frame, mask=frame > 0, dims=[FEAT])
            loop.stack(rf.reduce_sum(part, axis=dim))
    return loop


def calls(fn):
    """How many functions are called, those of C included. A look-up in a list of nodes calls one for each that it passes.

    No garbage is collected meanwhile: callbacks of what other tests have left would count, and more of them in a long body.
    """
    count = 0

    def note(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    gc.collect()
    gc.disable()
    sys.setprofile(note)
    try:
        fn()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


@pytest.fixture
def counted_comparisons(monkeypatch):
    monkeypatch.setattr(Node, "__eq__", lambda self, other: self is other)
    monkeypatch.setattr(Node, "__hash__", lambda self: id(self))


def assert_in_proportion(fn):
    fn(SHORT)  # what is made once is there
    assert calls(lambda: fn(LONG)) < 1.1 * LONG / SHORT * calls(lambda: fn(SHORT))


def test_a_body_of_2000_ops_is_planned_with_work_in_proportion(counted_comparisons, monkeypatch):
    monkeypatch.setattr(Recording, "forget", lambda self: None)  # it is planned once more
    plans = {number: loop_of(number).plan for number in (SHORT, LONG)}
    assert [len(nodes) for _, nodes in plans[LONG].places()] == [666, 667, 667]
    assert_in_proportion(lambda number: LoopPlan(plans[number]._recording, move_out=True))


def test_a_plan_of_2000_ops_is_shown_with_work_in_proportion(counted_comparisons):
    plans = {number: loop_of(number).plan for number in (SHORT, LONG)}
    for show in (str, LoopPlan.graphviz):
        assert_in_proportion(lambda number, show=show: show(plans[number]))


def test_a_body_that_makes_1000_dims_is_run_with_work_in_proportion(counted_comparisons):
    assert_in_proportion(body_with_new_dims)
