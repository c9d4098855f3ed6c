"""Edit distances of random ragged batches: distances, rows in loops and at once, optimal completions, against rapidfuzz."""

import itertools

import numpy as np
import pytest
from asserting import ragged, tensor, using_backend
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_faces import run_steps
from rapidfuzz.distance import Levenshtein

import rfnb as rf
from rfnb import Dim

LABELS = 3
BLANK = LABELS  # one more label, in sequences that are read, not in targets
sequences = st.lists(st.integers(0, LABELS - 1), max_size=6)
with_blanks = st.lists(st.integers(0, LABELS), max_size=6)


def batch_of(rows, batch, name, labels, rng):
    """A ragged batch with anything in its padding."""
    dim = ragged(list(map(len, rows)), batch, name)
    values = rng.integers(-9, 99, (len(rows), dim.extent)).astype(np.int32)
    for out, row in zip(values, rows):
        out[: len(row)] = row
    return dim, tensor(values, batch, dim, sparse_dim=labels)


class Pair:
    def __init__(self, rows, *, blank=False):
        rng = np.random.default_rng(0)
        self.a, self.b = [a for a, _ in rows], [b for _, b in rows]
        self.batch = Dim(len(rows), name="batch")
        self.labels = Dim(LABELS, name="labels")
        self.read = Dim(LABELS + 1, name="labels+blank") if blank else self.labels
        self.time, self.source = batch_of(self.a, self.batch, "time", self.read, rng)
        self.frames, self.target = batch_of(self.b, self.batch, "frames", self.labels, rng)

    def by_batch(self, x, *dims):
        return x.copy_transpose([self.batch, *dims]).numpy()


def pairs(source=sequences, **sizes):
    return st.lists(st.tuples(source, sequences), **sizes)


@pytest.mark.parametrize("backend", ["torch", "numpy"])
@settings(max_examples=100, deadline=None)
@given(rows=pairs(max_size=5))
def test_distances(backend, rows):
    with using_backend(backend):
        pair = Pair(rows)
        out = rf.edit_distance(pair.source, pair.time, pair.target, pair.frames)
        assert pair.by_batch(out).tolist() == [Levenshtein.distance(a, b) for a, b in rows]


@settings(max_examples=50, deadline=None)
@given(rows=pairs(min_size=1, max_size=4), beam=st.integers(1, 3))
def test_distances_of_hypotheses_of_different_lengths(rows, beam):
    rng = np.random.default_rng(1)
    pair, beam = Pair(rows), Dim(beam, name="beam")
    lengths = rng.integers(0, 6, (len(rows), beam.size))
    time = Dim(tensor(lengths.astype(np.int32), pair.batch, beam), name="time")
    values = rng.integers(0, LABELS, (len(rows), beam.size, time.extent))
    out = rf.edit_distance(tensor(values.astype(np.int32), pair.batch, beam, time), time, pair.target, pair.frames)
    expected = [
        [Levenshtein.distance(list(row[:length]), b) for row, length in zip(*one)]
        for *one, b in zip(values, lengths, pair.b)
    ]
    assert pair.by_batch(out, beam).tolist() == expected


def check_rows(got, pair):
    """Row t has the distances of all that was read up to symbol t, without blanks, to each beginning of the target."""
    for seq, (a, b) in enumerate(zip(pair.a, pair.b)):
        for step in range(len(a)):
            read = [symbol for symbol in a[: step + 1] if symbol != BLANK]
            expected = [Levenshtein.distance(read, b[:end]) for end in range(len(b) + 1)]
            assert got[seq, step, : len(b) + 1].tolist() == expected


@settings(max_examples=40, deadline=None)
@given(rows=pairs(with_blanks, min_size=1, max_size=4), way=st.sampled_from(["for", "with", "at once"]))
def test_rows_with_blanks(rows, way):
    pair = Pair(rows, blank=True)
    table = rf.EditDistanceTable(pair.target, target_spatial_dim=pair.frames, blank_idx=BLANK)
    if way == "at once":
        out, state = table(pair.source, spatial_dim=pair.time)
    else:
        if not pair.time.extent:
            return
        loop = rf.Loop(axis=pair.time)
        loop.state.table = table.default_initial_state(batch_dims=[pair.batch])

        def body():
            symbol = loop.unstack(pair.source)
            row, loop.state.table = table(symbol, state=loop.state.table, spatial_dim=rf.single_step_dim)
            return loop.stack(row)

        out = run_steps(loop, way, body)
        state = loop.state.table
    check_rows(pair.by_batch(out, pair.time, pair.frames + 1), pair)
    assert pair.by_batch(state.n).tolist() == [sum(symbol != BLANK for symbol in a) for a in pair.a]


@settings(max_examples=60, deadline=None)
@given(rows=pairs(with_blanks, min_size=1, max_size=4))
def test_optimal_completions_are_the_best_beginnings_of_the_target(rows):
    pair = Pair(rows, blank=True)
    table = rf.EditDistanceTable(pair.target, target_spatial_dim=pair.frames, blank_idx=BLANK)
    _, state = table(pair.source, spatial_dim=pair.time)
    costs = pair.by_batch(table.optimal_completions(state, out_dim=pair.read), pair.read)
    for seq, (a, b) in enumerate(rows):
        for label in range(LABELS + 1):
            read = [symbol for symbol in (*a, label) if symbol != BLANK]
            assert costs[seq, label] == min(Levenshtein.distance(read, b[:end]) for end in range(len(b) + 1))


@settings(max_examples=60, deadline=None)
@given(rows=pairs(min_size=1, max_size=4))
def test_optimal_completion_distances(rows):
    pair = Pair(rows)
    args = pair.source, pair.time, pair.target, pair.frames
    out = pair.by_batch(rf.optimal_completion_edit_distance(*args))
    per_label = pair.by_batch(
        rf.optimal_completion_edit_distance_per_successor(*args, successors_dim=pair.labels), pair.labels
    )

    def expected(a, b):
        return min(Levenshtein.distance(a, b[:end]) for end in range(len(b) + 1))

    assert out.tolist() == [expected(a, b) for a, b in rows]
    assert per_label.tolist() == [[expected([*a, label], b) for label in range(LABELS)] for a, b in rows]


@settings(max_examples=30, deadline=None)
@given(
    read=st.lists(st.integers(0, 1), max_size=3),
    target=st.lists(st.integers(0, 1), max_size=3),
    label=st.integers(0, 1),
)
def test_no_continuation_is_better(read, target, label):
    """By brute force over all continuations."""
    ways = (way for count in range(len(target) + 1) for way in itertools.product(range(2), repeat=count))
    best = min(Levenshtein.distance([*read, label, *way], target) for way in ways)
    a_dim, b_dim, labels = Dim(len(read), name="a"), Dim(len(target), name="b"), Dim(2, name="labels")
    a, b = tensor(np.array(read, np.int32), a_dim), tensor(np.array(target, np.int32), b_dim, sparse_dim=labels)
    out = rf.optimal_completion_edit_distance_per_successor(a, a_dim, b, b_dim, successors_dim=labels)
    assert int(out.numpy()[label]) == best


def test_what_has_ended_reads_nothing():
    batch, time, labels = Dim(2, name="batch"), Dim(2, name="time"), Dim(3, name="labels")
    table = rf.EditDistanceTable(
        tensor(np.array([[0, 1], [0, 1]], np.int32), batch, time, sparse_dim=labels), target_spatial_dim=time
    )
    state = table.default_initial_state(batch_dims=[batch])
    symbol, ended = tensor(np.array([0, 0], np.int32), batch), tensor(np.array([False, True]), batch)
    row, state = table(symbol, state=state, spatial_dim=rf.single_step_dim, ended=ended)
    assert row.copy_transpose([batch, time + 1]).numpy().tolist() == [[1, 0, 1], [0, 1, 2]]
    assert state.n.numpy().tolist() == [1, 0]
