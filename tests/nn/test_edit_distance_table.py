"""EditDistanceTable: rows of the reference implementation in a loop and at once, blanks, beams, each error."""

from pathlib import Path

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, tensor
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim, DimError

GOLDEN = Path(__file__).parents[1] / "golden"


class Pair:
    def __init__(self, name):
        self.data = data = np.load(GOLDEN / f"{name}.npz")
        self.batch, self.labels = Dim(3, name="batch"), Dim(4, name="labels")
        self.time, self.frames = ragged(data["in_len/data"], self.batch), ragged(data["in_len/b"], self.batch, "frames")
        self.a = tensor(data["in/data"][:, : self.time.extent], self.batch, self.time, sparse_dim=self.labels)
        self.b = tensor(data["in/b"][:, : self.frames.extent], self.batch, self.frames, sparse_dim=self.labels)
        self.table = rf.EditDistanceTable(self.b, target_spatial_dim=self.frames)
        rows = data["out/output"][:, :, : self.frames.extent + 1]
        self.expected = tensor(rows, self.batch, self.time, self.frames + 1)


@pytest.mark.parametrize("name", ["editdist_table_loop", "editdist_table_loop_oc"])
@pytest.mark.parametrize("face", ["for", "with"])
def test_rows_of_a_loop_are_those_of_the_reference(name, face):
    pair = Pair(name)
    loop = rf.Loop(axis=pair.time)
    loop.state.table = pair.table.default_initial_state(batch_dims=[pair.batch])

    def body():
        costs = loop.stack(pair.table.optimal_completions(loop.state.table))
        row, loop.state.table = pair.table(loop.unstack(pair.a), state=loop.state.table, spatial_dim=rf.single_step_dim)
        return costs, loop.stack(row)

    costs, rows = run_steps(loop, face, body)
    assert_same(rows, pair.expected)
    if "out/output/oc" in pair.data:
        assert_same(costs, tensor(pair.data["out/output/oc"], pair.batch, pair.time, pair.labels))


@pytest.mark.parametrize("name", ["editdist_table_loop", "editdist_table_loop_oc"])
def test_rows_of_whole_sequences_are_those_of_the_reference(name):
    pair = Pair(name)
    rows, state = pair.table(pair.a, spatial_dim=pair.time)
    assert_same(rows, pair.expected)
    last = rf.gather(rows, indices=rf.last_frame_position_of_dim(pair.time), axis=pair.time)
    assert_same(state.row, last)
    assert state.n.numpy().tolist() == pair.data["in_len/data"].tolist()


def test_blanks_read_nothing():
    batch, time, more = Dim(1, name="batch"), Dim(2, name="time"), Dim(4, name="more")
    labels = Dim(3, name="labels")
    b = tensor(np.asarray([[0, 1]], np.int32), batch, time, sparse_dim=labels)
    table = rf.EditDistanceTable(b, target_spatial_dim=time, blank_idx=2)
    a = tensor(np.asarray([[2, 0, 2, 1]], np.int32), batch, more, sparse_dim=labels)
    rows, state = table(a, spatial_dim=more)
    assert rows.copy_transpose([batch, more, time + 1]).numpy().tolist() == [
        [[0, 1, 2], [1, 0, 1], [1, 0, 1], [2, 1, 0]]
    ]
    assert state.n.numpy().tolist() == [2]


def test_rows_follow_the_hypotheses_of_a_search():
    batch, time, labels = Dim(1, name="batch"), Dim(3, name="time"), Dim(3, name="labels")
    b = tensor(np.asarray([[1, 2, 1]], np.int32), batch, time, sparse_dim=labels)
    table = rf.EditDistanceTable(b, target_spatial_dim=time)
    scores = tensor([[-1.0, -2.0, -1.5], [-0.7, -0.1, -3.0], [-0.2, -0.9, -0.4]], time, labels)
    loop = rf.Loop(axis=time)
    loop.state.table = table.default_initial_state(batch_dims=[batch])
    for _ in loop:
        label = rf.choice(rf.expand_dim(loop.unstack(scores), batch), beam_size=4, axis=labels)
        row, loop.state.table = table(label, state=loop.state.table, spatial_dim=rf.single_step_dim)
        out = loop.stack(label)
    expected = rf.edit_distance(out, time, b, time)
    got = rf.gather(loop.state.table.row, indices=rf.constant(3, dims=[], sparse_dim=time + 1), axis=time + 1)
    assert_same(got, expected)


def test_a_step_without_state():
    pair = Pair("editdist_table_loop")
    with raises_message(
        RuntimeError,
        """
        EditDistanceTable: a single step without state.
          source  [batch=3]
        Each row is computed from the previous one, which is the state of a loop.
            loop.state.table = table.default_initial_state(batch_dims=[batch])
            row, loop.state.table = table(label, state=loop.state.table, spatial_dim=rf.single_step_dim)
        """,
    ):
        pair.table(rf.zeros([pair.batch], dtype="int32"), spatial_dim=rf.single_step_dim)


def test_labels_of_another_size():
    pair = Pair("editdist_table_loop")
    table = rf.EditDistanceTable(pair.b, target_spatial_dim=pair.frames, blank_idx=4)
    with raises_message(
        DimError,
        """
        EditDistanceTable: source and target are over other labels.
          source     [batch=3, time<=6] over labels=4
          target     [batch=3, frames<=5] over labels=4
          blank_idx  4
        Source needs the labels of the target and the blank: 5.
            source = rf.set_sparse_dim(source, labels)
        """,
    ):
        table(pair.a, spatial_dim=pair.time)
