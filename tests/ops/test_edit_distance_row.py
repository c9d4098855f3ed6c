"""Rows of the table of the edit distance: the reference implementation, a definition by brute force, each error."""

from pathlib import Path

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, tensor, using_backend

import rfnb as rf
from rfnb import Dim, DimError

GOLDEN = Path(__file__).parents[1] / "golden"


class Pair:
    """The sequences a and b of a golden file."""

    def __init__(self, name):
        self.data = data = np.load(GOLDEN / f"{name}.npz")
        self.batch, self.labels = Dim(3, name="batch"), Dim(4, name="labels")
        self.time, self.frames = ragged(data["in_len/data"], self.batch), ragged(data["in_len/b"], self.batch, "frames")
        self.a = tensor(data["in/data"][:, : self.time.extent], self.batch, self.time, sparse_dim=self.labels)
        self.b = tensor(data["in/b"][:, : self.frames.extent], self.batch, self.frames, sparse_dim=self.labels)

    def frame(self, index):
        return tensor(self.data["in/data"][:, index], self.batch, sparse_dim=self.labels)


@pytest.mark.parametrize("name", ["editdist", "editdist_functions"])
def test_the_edit_distance_is_that_of_the_reference(name):
    pair = Pair(name)
    assert_same(rf.edit_distance(pair.a, pair.time, pair.b, pair.frames), tensor(pair.data["out/output"], pair.batch))


@pytest.mark.parametrize("backend", ["torch", "numpy"])
def test_rows_and_their_reductions_are_those_of_the_reference(backend):
    with using_backend(backend):
        pair = Pair("editdist_functions")
        b, frames, data = pair.b, pair.frames, pair.data
        row = rf.initial_edit_distance_row(b, b_spatial_dim=frames)
        candidates = rf.set_sparse_dim(rf.range_over_dim(pair.labels), None)
        for step in range(5):
            ended = tensor(step >= data["in_len/data"], pair.batch)
            row = rf.next_edit_distance_row(row, pair.frame(step), b, b_spatial_dim=frames, n=step, ended=ended)
            row_dims = [pair.batch, frames + 1]
            np.testing.assert_array_equal(row.copy_transpose(row_dims).numpy(), data[f"out/row/{step}"])
            next_ended = tensor(step + 1 > data["in_len/data"], pair.batch)
            for optimal in (False, True):
                for name, blank in ((f"reduce_oc{optimal:d}", None), (f"reduce_blank_oc{optimal:d}", 3)):
                    out = rf.next_edit_distance_reduce(
                        row, candidates, b, b_spatial_dim=frames, n=step + 1, ended=next_ended,
                        optimal_completion=optimal, blank_idx=blank,
                    )  # fmt: skip
                    out = out.copy_transpose([pair.batch, pair.labels]).numpy()
                    np.testing.assert_array_equal(out, data[f"out/{name}/{step}"], err_msg=f"{name} {step}")


def test_optimal_completion_distances_are_those_of_the_reference():
    pair = Pair("editdist_functions")
    out = rf.optimal_completion_edit_distance(pair.a, pair.time, pair.b, pair.frames)
    assert_same(out, tensor(pair.data["out/optimal_completion_edit_distance"], pair.batch))
    out = rf.optimal_completion_edit_distance_per_successor(
        pair.a, pair.time, pair.b, pair.frames, successors_dim=pair.labels
    )
    assert_same(out, tensor(pair.data["out/optimal_completion_per_successor"], pair.batch, pair.labels))


def test_an_optimal_completion_is_the_best_of_all_continuations():
    time, labels = Dim(3, name="time"), Dim(3, name="labels")
    b = tensor(np.asarray([2, 0, 1], np.int32), time, sparse_dim=labels)
    row = rf.initial_edit_distance_row(b, b_spatial_dim=time)
    row = rf.next_edit_distance_row(
        row, rf.set_sparse_dim(rf.zeros([], dtype="int32"), labels), b, b_spatial_dim=time, n=0
    )
    found = rf.optimal_completions(row, b, b_spatial_dim=time, n=1).numpy().tolist()

    def distance(a):
        dim = Dim(len(a), name="a")
        return int(rf.edit_distance(tensor(np.asarray(a, np.int32), dim), dim, b, time).numpy())

    ways = [[*start, *more] for start in ([], [0], [1], [2]) for more in ([], [0], [1], [2])]
    ways += [[2, 0, 1]]
    assert found == [min(distance([0, label, *way]) for way in ways) for label in range(3)] == [1, 1, 1]


def test_a_blank_after_the_labels_is_one_more_candidate():
    time, labels = Dim(2, name="time"), Dim(2, name="labels")
    b = tensor(np.asarray([1, 0], np.int32), time, sparse_dim=labels)
    row = rf.initial_edit_distance_row(b, b_spatial_dim=time)
    out = rf.optimal_completions(row, b, b_spatial_dim=time, n=0, blank_idx=2)
    assert out.dims[0].extent == 3 and out.dims[0].name == "labels+blank"
    assert out.numpy().tolist() == [1, 0, 0]


def test_a_row_of_another_target():
    pair = Pair("editdist")
    row = rf.initial_edit_distance_row(pair.a, b_spatial_dim=pair.time)
    with raises_message(
        DimError,
        """
        next_edit_distance_row: no dim frames+1<=8.
          row  [time+1<=7, batch=3]
          dim  frames+1<=8
        The dim frames+1<=8 is not among the dims of row.
            row.dims[0]    # time+1<=7
            row.dims[1]    # batch=3
        """,
    ):
        rf.next_edit_distance_row(row, pair.frame(0), pair.b, b_spatial_dim=pair.frames, n=0)


def test_completions_of_what_are_not_labels():
    pair = Pair("editdist")
    row = rf.initial_edit_distance_row(pair.b, b_spatial_dim=pair.frames)
    with raises_message(
        DimError,
        """
        optimal_completions: b is not sparse.
          b  [batch=3, frames<=7]
        The candidates are all labels of its sparse_dim.
            b = rf.set_sparse_dim(b, labels)
        """,
    ):
        rf.optimal_completions(row, rf.set_sparse_dim(pair.b, None), b_spatial_dim=pair.frames, n=0)
    with raises_message(
        DimError,
        """
        optimal_completions: out_dim has another size than the labels.
          b          [batch=3, frames<=7] over labels=4
          blank_idx  4
          out_dim    labels=4
        Labels and blank are 5 candidates.
            rf.optimal_completions(..., out_dim=Dim(5, name=...))
        """,
    ):
        rf.optimal_completions(row, pair.b, b_spatial_dim=pair.frames, n=0, blank_idx=4, out_dim=pair.labels)
