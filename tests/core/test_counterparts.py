"""Plans that are put together ahead, for the dims that stand where those of the last batch stood: never one of another structure."""

import gc

import numpy as np
import pytest
from core.planner import Planner

import rfnb as rf
from rfnb import Dim, ragged_dim
from rfnb.core import layout
from rfnb.core.layout import clear_plans, forget_dims
from rfnb.core.plan_parts import Shape
from rfnb.core.structure import structure_of


class PlannerAhead(Planner):
    """Counts besides, for each key, the plans that were put together at once, where there were any: `ahead`."""

    def __init__(self, make, monkeypatch):
        super().__init__(make)
        self.ahead = []
        look_ahead = layout.look_ahead

        def counted(index):
            made = look_ahead(index)
            self.ahead += [made] if made else []
            return made

        monkeypatch.setattr(layout, "look_ahead", counted)


@pytest.fixture
def planner(monkeypatch):
    clear_plans()  # of all caches: those of other tests would be looked ahead for too
    return lambda make: PlannerAhead(make, monkeypatch)


def over(batch, *lengths, name="time"):
    return ragged_dim(list(lengths), over=batch, name=name)


def lengths_over(*dims, lengths):
    return rf.convert_to_tensor(np.array(lengths, np.int32), dims=dims)


def batch_and_time(*lengths):
    batch = Dim(len(lengths), name="batch")
    return batch, over(batch, *lengths)


def test_what_a_batch_asks_for_after_plans_were_forgotten_is_put_together_for_the_next(planner):
    plans, first = planner(lambda *dims: dims), batch_and_time(3, 1)
    plans(*first)
    second = batch_and_time(4, 1)
    for key in [second, second[1:], second[::-1]]:
        plans(*key)
    forget_dims()
    plans(*second)
    plans(*batch_and_time(5, 1))
    assert plans.ahead == [1]


def test_nothing_of_before_is_put_together_when_all_plans_were_cleared(planner):
    option = ["before"]
    plans = planner(lambda *dims: (dims, option[0]))
    for lengths in ([3, 1], [4, 1], [5, 1]):
        plans(*batch_and_time(*lengths))
    option[0] = "after"
    clear_plans()
    assert plans(*batch_and_time(6, 1))[1] == "after"
    assert plans.made == 2


def _rows_and_frames():
    rows = Dim(2, name="rows")
    return rows, over(rows, 3, 1, name="frames")


def test_a_resized_dim_has_another_structure_for_the_next_batch_too(planner):
    plans = planner(lambda time, frames: (time, frames.has_padding()))
    rows, frames = _rows_and_frames()
    for lengths in ([3, 1], [4, 1], [5, 1]):
        _, time = batch_and_time(*lengths)
        plans(time, frames)
    frames.dyn_size_ext = lengths_over(rows, lengths=[5, 5])
    assert plans(time, frames) == (time, False)  # made anew: nobody notes that the batch has asked for another one
    _, time = batch_and_time(6, 1)
    assert plans(time, frames) == (time, False)


def test_what_is_put_together_ahead_is_no_question_of_a_plan_that_is_being_made(planner):
    inner = planner(lambda *dims: Shape(dims[-1] + 1) if len(dims) > 1 else dims)
    outer = planner(lambda batch, time: inner(2 * time))
    for lengths in ([3, 1], [3, 2]):
        batch, time = batch_and_time(*lengths)
        inner(2 * time)
        inner(batch, 2 * time)
    for lengths in ([3, 1], [4, 1]):
        batch, time = batch_and_time(*lengths)
        assert outer(batch, time) == (2 * time,)
    assert outer.made == 1


def test_two_dims_do_not_become_one(planner):
    plans = planner(lambda first, second, time: (first is second, time))
    for lengths in ([3, 1], [4, 1], [5, 1]):
        first, second = Dim(2, name="part"), Dim(2, name="part")
        _, time = batch_and_time(*lengths)
        assert plans(first, second, time) == (False, time)
    assert plans(second, second, time) == (True, time)


def test_one_dim_does_not_become_two(planner):
    """The inner rows are over the outer ones, or over others of that form."""
    plans = planner(lambda time: (time, time.length_dims[1].length_dims[0] is time.length_dims[0]))
    for turn in range(6):
        outer, other = Dim(2, name="outer"), Dim(2, name="outer")
        inner = over(other if turn == 4 else outer, 2, 1, name="inner")
        time = Dim(lengths_over(outer, inner, lengths=[[turn + 2, 1], [2, 0]]), name="time")
        assert plans(time) == (time, turn != 4)
    assert plans.ahead


def test_a_batch_of_another_size_gets_plans_of_its_own(planner):
    """Its ragged dims have the form of those before."""
    plans = planner(lambda batch, time: (batch.size, time))
    for lengths in ([3, 1], [4, 1], [5, 1], [3, 1, 2]):
        batch, time = batch_and_time(*lengths)
        assert plans(batch, time) == (len(lengths), time)
    assert plans.ahead == [1]


def test_a_dim_that_each_batch_makes_is_that_of_the_new_one(planner):
    plans = planner(lambda *dims: dims)
    for lengths in ([3, 1], [4, 1], [5, 1], [6, 1]):
        beam = Dim(4, name="beam")
        batch, time = batch_and_time(*lengths)
        plans(beam, time)
        put = plans.has(time, beam, batch)
        plans(time, beam, batch)
    assert put


def test_nothing_is_put_together_for_a_dim_of_the_last_batch(planner):
    plans, beam = planner(lambda *dims: dims), None
    for lengths in ([3, 1], [4, 1], [5, 1], [6, 1]):
        last, beam = beam, Dim(4, name="beam")
        _, time = batch_and_time(*lengths)
        plans(time)
        assert last is None or not plans.has(time, last)
        plans(time, beam)


def test_a_dim_over_one_that_stayed_is_put_for_by_the_one_over_what_comes_instead(planner):
    """Three batches of the same rows, and then new rows with all that is over them."""
    plans = planner(lambda time, frames: (time, time.length_dims == frames.length_dims))
    rows, frames = _rows_and_frames()
    for longest in (3, 4, 5):
        plans(over(rows, longest, 1), frames)
    old_frames, ahead = frames, len(plans.ahead)
    rows, frames = _rows_and_frames()
    time = over(rows, 6, 1)
    assert plans(time, frames) == (time, True)
    assert len(plans.ahead) == ahead + 1
    assert plans(time, old_frames) == (time, False)


def test_a_dim_that_stays_is_over_what_it_was_over(planner):
    plans = planner(lambda time, frames: (time, time.length_dims == frames.length_dims))
    rows, frames = _rows_and_frames()
    for longest in (3, 4, 5, 6):
        plans(over(rows, longest, 1), frames)
    assert len(plans.ahead) >= 2
    time = over(Dim(2, name="rows"), 7, 1)
    assert plans(time, frames) == (time, False)


def test_what_has_the_form_of_a_dim_but_is_over_another_stands_not_in_its_place(planner):
    plans = planner(lambda time, frames: (time, time.length_dims == frames.length_dims))
    for turn in range(5):
        rows, others = Dim(2, name="rows"), Dim(2, name="rows")
        frames = over(others if turn == 4 else rows, 3, 1, name="frames")
        time = over(rows, turn + 2, 1)
        assert plans(time, frames) == (time, turn != 4)
    assert plans.ahead


def test_two_dims_of_one_form_that_stay_are_put_each_in_its_place(planner):
    plans, (first, second) = planner(lambda *dims: dims), (Dim(2, name="part"), Dim(2, name="part"))
    for lengths in ([3, 1], [4, 1], [5, 1], [6, 1]):
        _, time = batch_and_time(*lengths)
        plans(time)
        put = plans.has(time, first) and plans.has(second, time)
        assert plans(time, first) == (time, first)
        assert plans(second, time) == (second, time)
    assert put


def test_a_dim_whose_form_was_last_that_of_one_that_is_gone_has_no_counterpart(planner):
    plans = planner(lambda *dims: dims)
    for lengths in ([3, 1], [4, 1], [5, 1]):
        beam = Dim(4, name="beam")
        _, time = batch_and_time(*lengths)
        plans(time, beam)
    structure_of((Dim(4, name="beam"),))
    gc.collect()
    _, time = batch_and_time(6, 1)
    assert plans(time) == (time,)
