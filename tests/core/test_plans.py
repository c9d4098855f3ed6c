"""Plans for the dims of a new batch: those of the batch before, where nothing that planning saw is another."""

import gc
import sys
import threading
from collections import deque

import numpy as np
import pytest
import torch
from asserting import randn
from core.planner import Planner

import rfnb as rf
from rfnb import Dim
from rfnb.core import layout, memo
from rfnb.core.layout import PlanCache, clear_plans, forget_dims, masks_for
from rfnb.core.memo import Memo
from rfnb.core.plan_parts import Shape
from rfnb.core.size_queries import asked


def batch_of(lengths, name="time"):
    batch = Dim(len(lengths), name="batch")
    return batch, rf.ragged_dim(lengths, over=batch, name=name)


def count_plans(make, *batches):
    planner = Planner(make)
    for dims in batches:
        planner(*dims)
    return planner.made


def test_a_plan_gets_the_dims_shapes_and_lengths_of_each_batch():
    def make(batch, time):
        shape, pair = Shape(batch, time), Shape((batch, time))
        return (time, batch), shape, pair, lambda: (batch, shape, time.lengths.tolist())

    planner = Planner(make)
    for lengths in ([3, 1], [4, 2], [7, 5]):
        batch, time = batch_of(lengths)
        dims, shape, pair, fn = planner(batch, time)
        assert dims == (time, batch)
        assert shape == (2, max(lengths))
        assert pair == (2 * max(lengths),)
        assert fn() == (batch, (2, max(lengths)), lengths)
    assert planner.made == 1


def test_a_derived_dim_of_a_plan_is_that_of_the_new_dims():
    planner = Planner(lambda batch, time: (2 * time + 1, (time // 2).copy(match_priority=1), batch * time))
    for lengths in ([3, 1], [4, 2]):
        batch, time = batch_of(lengths)
        assert planner(batch, time) == (2 * time + 1, (time // 2).copy(match_priority=1), batch * time)
    assert planner.made == 1


def test_masks_of_a_plan_are_those_of_each_batch():
    planner = Planner(lambda batch, time: masks_for((batch, time), [time], _backend(), "op"))
    for lengths in ([3, 1], [4, 2], [2, 4]):
        batch, time = batch_of(lengths)
        expected = np.arange(max(lengths)) < np.array(lengths)[:, None]
        assert (planner(batch, time)(randn(batch, time).raw_tensor).numpy() == expected).all()
    assert planner.made == 1


def _backend():
    return randn(Dim(1)).backend


DIFFERENT = {
    "padding": ([3, 1], [3, 3]),
    "an empty sequence": ([3, 1], [3, 0]),
    "no frame": ([0, 0], [3, 3]),
    "another number of sequences": ([3, 1], [3, 1, 2]),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_another_structure_has_a_plan_of_its_own(case):
    assert count_plans(lambda batch, time: (batch, time), *map(batch_of, DIFFERENT[case])) == 2


def test_names_and_kinds_are_part_of_the_structure():
    assert count_plans(lambda batch, time: time, batch_of([3, 1]), batch_of([3, 1], "frames")) == 2
    a, b = batch_of([3, 1]), batch_of([3, 1])
    b[1].kind = "spatial"
    assert count_plans(lambda batch, time: time, a, b) == 2


def test_dims_that_are_one_in_one_batch_and_two_in_the_other_have_two_plans():
    batch, time = batch_of([3, 1])
    other = rf.ragged_dim([3, 1], over=batch, name="time")
    planner = Planner(lambda a, b: a is b)
    assert planner(time, time) is True
    assert planner(time, other) is False


@pytest.mark.parametrize(
    "read",
    [
        lambda time: time.extent,
        lambda time: Shape(time)[0],
        lambda time: sum(Shape(time)),
        lambda time: Shape(time) + (1,),
        lambda time: (*Shape(time), 1),
        lambda time: Shape(time) == (3,),
        lambda time: 3 in Shape(time),
        lambda time: asked(lambda dim: dim.extent, time),
        lambda time: (time + 1).extent,
    ],
)
def test_a_longest_that_planning_reads_has_to_be_the_same(read):
    made = count_plans(lambda batch, time: read(time), batch_of([3, 1]), batch_of([3, 2]), batch_of([4, 2]))
    assert made == 2


@pytest.mark.parametrize(
    "read",
    [
        lambda time: time.lengths.tolist(),
        lambda time: time.dyn_size_ext.numpy().tolist(),
        lambda time: time.get_mask().numpy().tolist(),
        lambda time: time.get_size_tensor().numpy().tolist(),
        lambda time: repr(time),
        lambda time: (time + 1).lengths.tolist(),
    ],
)
def test_a_plan_that_read_lengths_serves_these_dims_only(read):
    planner = Planner(lambda batch, time: read(time))
    for lengths in ([3, 1], [3, 2]):
        batch, time = batch_of(lengths)
        assert planner(batch, time) == read(time)
    assert planner.made == 2


def test_an_answer_that_planning_asked_for_has_to_be_the_same():
    def is_long(dim):
        return dim.extent > 3

    def make(batch, time):
        return asked(is_long, time)

    assert count_plans(make, batch_of([3, 1]), batch_of([2, 1]), batch_of([5, 1]), batch_of([4, 1])) == 2


def _changing():
    count = 0

    def fn():
        nonlocal count
        count += 1
        return count

    return fn


def _returning(value):
    return lambda: value


HOLDS_SOMETHING = {
    "an array": lambda time: np.asarray([3]),
    "a raw array": lambda time: randn(Dim(1)).raw_tensor,
    "a dict": lambda time: {},
    "a new dim": lambda time: Dim(3, name="new"),
    "a tensor in a closure": lambda time: _returning(randn(Dim(1))),
    "a function with a state": lambda time: _changing(),
    "a dim as default": lambda time: lambda dim=time: dim,
}


@pytest.mark.parametrize("what", HOLDS_SOMETHING)
def test_a_plan_that_cannot_be_taken_apart_is_made_anew(what):
    assert count_plans(lambda batch, time: HOLDS_SOMETHING[what](time), batch_of([3, 1]), batch_of([4, 1])) == 2


def test_what_a_function_keeps_is_of_one_batch():
    def make(batch, time):
        kept = Memo()

        def fn():
            if not kept:
                kept.keep("lengths", torch.from_numpy(time.lengths.copy()))
            return kept["lengths"].tolist()

        return fn

    planner = Planner(make)
    for lengths in ([3, 1], [4, 2]):
        fn = planner(*batch_of(lengths))
        assert [fn(), fn()] == [lengths, lengths]
    assert planner.made == 1


def test_a_resized_dim_finds_plans_and_has_its_new_lengths():
    batch, time = batch_of([3, 1])
    x = randn(batch, time)
    rf.reduce_sum(x, axis=time)
    time.dyn_size_ext = rf.convert_to_tensor(np.array([2, 4], np.int32), dims=[batch])
    ones = rf.ones([batch, time])
    assert rf.reduce_sum(ones, axis=time).numpy().tolist() == [2, 4]


def test_dims_declared_the_same_after_a_plan_was_made_are_brought_together():
    results = []
    for declare in (False, True):
        batch, time = batch_of([3, 1])
        other = rf.ragged_dim([3, 1], over=batch, name="frames")
        if declare:
            other.declare_same_as(time)
        results.append(rf.combine_bc(randn(batch, time), "add", randn(batch, other)).dims)
    assert len(results[0]) == 3
    assert len(results[1]) == 2


def test_a_dim_made_twice_is_refused_also_when_others_of_that_name_were_fine():
    batch, feat = Dim(2, name="batch"), Dim(3, name="feat")
    times = [rf.ragged_dim(lengths, over=batch, name="time") for lengths in ([3, 1], [4, 2], [4, 2])]
    a, b, c = (randn(batch, time, feat) for time in times)
    rf.matmul(a, b, reduce=feat)
    with pytest.raises(rf.DimError, match="the same dim, made twice"):
        rf.matmul(b, c, reduce=feat)


def test_what_is_refused_is_refused_in_the_second_batch_with_the_same_words():
    texts = []
    for clear in (False, False, True):
        if clear:
            clear_plans()
        batch, time = batch_of([3, 1])
        with pytest.raises(rf.DimError) as error:
            rf.concat((randn(batch, time), time), (randn(Dim(3, name="other")), batch))
        texts.append(str(error.value))
    assert texts[0] == texts[1] == texts[2]


def _model():
    feat, out = Dim(3, name="feat"), Dim(5, name="out")
    linear, attention = (
        rf.Linear(feat, out),
        rf.SelfAttention(out, proj_dim=out, key_dim_total=Dim(4), value_dim_total=Dim(4), num_heads=2),
    )
    lstm = rf.LSTM(out, Dim(2, name="units"))

    def run(lengths):
        batch, time = batch_of(lengths)
        h = linear(randn(batch, time, feat))
        state = lstm.default_initial_state(batch_dims=[batch])
        h, _ = lstm(attention(h, axis=time), state=state, spatial_dim=time)
        return rf.reduce_mean(rf.reduce_logsumexp(h, axis=time), axis=batch)

    return run


def test_nothing_grows_with_the_number_of_batches(monkeypatch):
    monkeypatch.setattr(layout, "_LIMIT", 200)
    run, rng = _model(), np.random.default_rng(0)

    def held():
        memo._shrink()
        gc.collect()
        entries = sum(len(cache) + len(cache.before) + len(cache.templates) for cache in layout._caches)
        entries += len(memo._kept)
        return entries, sum(issubclass(type(each), Dim) for each in gc.get_objects())

    sizes = []
    for _ in range(4):
        for _ in range(60):
            run([6, *rng.integers(1, 6, 2)])
        sizes.append(held())
    assert max(entries for entries, _ in sizes[1:]) <= sizes[0][0] + 400
    assert max(dims for _, dims in sizes[1:]) <= sizes[0][1] + 200
    assert sizes[3][0] <= max(entries for entries, _ in sizes[:3]) + 20
    assert sizes[3][1] <= max(dims for _, dims in sizes[:3]) + 20


def test_the_second_batch_makes_no_plan(monkeypatch):
    run, made = _model(), []
    run([4, 2, 1])
    make = PlanCache.make

    def counted(self, key, *args):
        made.append(key)
        return make(self, key, *args)

    monkeypatch.setattr(PlanCache, "make", counted)
    run([5, 3, 2])
    assert made == []


def test_plans_that_are_asked_for_outlive_those_that_are_not(monkeypatch):
    planner, old, new = Planner(lambda batch, time: (time, np.zeros(1))), batch_of([3, 1]), batch_of([4, 1])
    monkeypatch.setattr(layout, "_LIMIT", 4)
    first = planner(*old)
    for _ in range(20):
        planner(*batch_of([5, 1]))
        assert planner(*old) is first
    planner(*new)
    made = planner.made
    for _ in range(20):
        planner(*batch_of([5, 1]))
    planner(*new)
    assert planner.made == made + 21


def test_forgetting_the_dims_keeps_what_their_plans_have_in_common():
    planner, dims = Planner(lambda batch, time: time), batch_of([3, 1])
    planner(*dims)
    forget_dims()
    planner(*dims)
    assert planner.made == 1
    clear_plans()
    planner(*dims)
    assert planner.made == 2


def _ahead(monkeypatch):
    """The number of plans that are put together at once, by call."""
    made, look_ahead = [], layout.look_ahead

    def counted(index):
        made.append(look_ahead(index))
        return made[-1]

    monkeypatch.setattr(layout, "look_ahead", counted)
    return made


def test_what_a_batch_asked_for_is_put_together_at_once_for_the_next(monkeypatch):
    run, made = _model(), _ahead(monkeypatch)
    for lengths in ([4, 2, 1], [5, 3, 2], [6, 3, 1]):
        first = len(made)
        expected = run(lengths)
    asked = len(made) - first
    assert asked < len(made) / 4  # the first batch made all, the second one found each
    assert max(made[first:]) >= 9
    made.clear()
    assert run([7, 1, 2]).dims == expected.dims
    assert len(made) == asked


def test_dims_of_a_batch_that_stand_in_no_place_of_the_last_one_get_plans_of_their_own():
    """The second dim of a key is another one in each batch, or stays, or is one that two keys have."""
    planner = Planner(lambda *dims: dims)
    stays = Dim(2, name="stays")
    for turn in range(12):
        batch, time = batch_of([3 + turn, 1])
        other = stays if turn % 3 else Dim(2, name="stays")
        for dims in [(batch, time), (time, other), (other, batch, time), (time, batch, stays), (time,)]:
            assert planner(*dims) == dims
    assert planner.made <= 6


def test_lengths_that_are_over_another_dim_now_get_plans_of_their_own():
    planner, batches = Planner(lambda *dims: (dims, dims[0].length_dims)), []
    for turn in range(8):
        batch, beam = Dim(2, name="batch"), Dim(2, name="beam")
        time = rf.ragged_dim([turn + 2, 1], over=beam if turn % 2 else batch, name="time")
        batches.append((time, batch, beam))
        assert planner(*batches[-1]) == (batches[-1], time.length_dims)
        assert planner(time, beam) == ((time, beam), time.length_dims)
    assert planner.made == 4


def test_a_dim_resized_between_two_batches_gets_plans_of_its_new_lengths():
    planner = Planner(lambda *dims: (dims, Shape(*dims), dims[1].has_padding()))
    frames = rf.ragged_dim([3, 1], over=Dim(2, name="rows"), name="frames")
    rows = frames.length_dims[0]
    for turn in range(6):
        batch, time = batch_of([4 + turn, 1])
        if turn == 3:
            frames.dyn_size_ext = rf.convert_to_tensor(np.array([5, 5], np.int32), dims=[rows])
        assert planner(time, frames) == ((time, frames), (4 + turn, 5 if turn > 2 else 3), turn < 3)


def test_a_dim_made_of_other_ones_is_that_of_the_dims_at_hand_whatever_came_before():
    a, b, c = (Dim(2, name="part") for _ in range(3))
    planner = Planner(lambda first, second: 2 * first + second)
    for dims in [(a, b), (b, a), (a, b), (a, c), (c, a), (b, c), (a, b)]:
        assert planner(*dims) is 2 * dims[0] + dims[1]
    assert planner.made == 1


def test_what_one_thread_asks_for_is_put_together_for_the_dims_of_no_other():
    planner, wrong = Planner(lambda *dims: dims), []
    keys = [(0, 1), (1, 0, 2), (2, 1), (1, 2, 0), (0, 2, 1), (1,)]

    def ask(dims):
        for key in keys:
            own = tuple(dims[place] for place in key)
            if planner(*own) != own:
                wrong.append(own)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for turn in range(30):
            batch, time = batch_of([turn + 2, 1])
            others = [(batch, time, Dim(size, name=f"feat{size}")) for size in range(1, 5)]
            threads = [threading.Thread(target=ask, args=(dims,)) for dims in others]
            deque(map(threading.Thread.start, threads), 0)
            deque(map(threading.Thread.join, threads), 0)
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []


def _not_five(dim):
    if dim.extent == 5:
        raise ValueError("five")


def test_what_cannot_be_put_together_for_one_plan_hinders_no_other():
    def make(*dims):
        if len(dims) > 1:
            asked(_not_five, dims[1])
        return dims

    planner = Planner(make)
    for lengths in ([3, 1], [4, 1], [6, 1], [5, 1]):
        batch, time = batch_of(lengths)
        assert planner(time) == (time,)
        if lengths[0] != 5:
            assert planner(batch, time) == (batch, time)
    with pytest.raises(ValueError, match="five"):
        planner(batch, time)
