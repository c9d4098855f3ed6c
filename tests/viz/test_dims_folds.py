"""The dims view folds repeats, states the origin of dims, and shows the values of small tensors."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from asserting import ragged, randn

import rfnb as rf
from rfnb import Dim
from rfnb.viz.dims.entries import name_of, origin_of
from rfnb.viz.dims.spec import spec as dims_spec
from rfnb.viz.dims.table import folded


class Block(rf.Module):
    def __init__(self, dim: Dim, hidden: Dim):
        super().__init__()
        self.up, self.down = rf.Linear(dim, hidden), rf.Linear(hidden, dim)


class Model(rf.Module):
    def __init__(self, sizes):
        super().__init__()
        self.dim = Dim(3, name="model")
        self.layers = rf.Sequential([Block(self.dim, Dim(size, name="hidden")) for size in sizes])


def headings(head):
    return [row["label"] for row in folded(head) if row["dtype"] is None]


def test_layers_that_are_alike_are_one():
    head = dims_spec(Model([5, 5, 5, 5])).head
    assert len(head["folds"]) == 1 and head["folds"][0]["count"] == 4
    assert headings(head) == ["layers", "0 × 4", "up", "down"]
    assert "0 × 4" in rf.viz.dims(Model([5, 5, 5, 5])).text()


def test_a_layer_of_another_size_stands_alone():
    assert headings(dims_spec(Model([5, 5, 7, 5])).head) == [
        "layers", "0 × 2", "up", "down", "2", "up", "down", "3", "up", "down",
    ]  # fmt: skip


def test_a_layer_with_nan_is_never_folded_away():
    model = Model([5, 5, 5])
    weight = model.layers[1].up.bias
    weight.raw_tensor.data[0] = np.nan
    assert "folds" not in dims_spec(model).head
    assert "1 NaN" in rf.viz.dims(model).text()


def test_repeats_in_repeats_are_folded_too():
    def group():
        return {str(number): {"w": rf.zeros([dim])} for number in range(3)}

    dim = Dim(2, name="d")
    head = dims_spec({str(number): {"parts": group()} for number in range(2)}).head
    assert [fold["count"] for fold in head["folds"]] == [2, 3]
    assert headings(head) == ["0 × 2", "parts", "0 × 3"]


def _dims():
    return Dim(8, name="time"), Dim(3, name="mel"), Dim(2, name="channels")


@pytest.mark.parametrize(
    ("make", "name", "rounded"),
    [
        (lambda time, mel, channels: time.ceildiv_right(4), "time / 4", ", rounded up"),
        (lambda time, mel, channels: time // 5, "time / 5", ", rounded down"),
        (lambda time, mel, channels: time + 2, "time + 2", ""),
        (lambda time, mel, channels: 2 * time - 1, "2 * time - 1", ""),
        (lambda time, mel, channels: channels * mel.ceildiv_right(2), "channels * (mel / 2)", ", rounded up"),
    ],
)
def test_the_origin_of_a_dim_is_said_in_words(make, name, rounded):
    dim = make(*_dims())
    assert name_of(dim) == name
    assert origin_of(dim) == f"{name}{rounded}; made at {dim.created}"
    assert f"{name}{rounded}" in " ".join(rf.viz.dims(dim).text().split())


def test_a_dim_that_is_derived_of_nothing_has_no_origin():
    assert origin_of(Dim(3, name="time")) is None


def test_values_end_where_their_sequence_ends():
    batch = Dim(2, name="batch")
    time = ragged([3, 1], batch)
    x = rf.Tensor("x", [batch, time], "float32", raw_tensor=np.array([[1, np.nan, -np.inf], [4, 5, 6]], np.float32))
    lines = rf.viz.dims(x).text().splitlines()
    assert lines[-3:] == [
        "time →   0    1     2",
        "batch 0  1  NaN  -inf",
        "batch 1  4",
    ]
    assert "<td>-inf</td>" in rf.viz.dims(x).html() and ">5<" not in rf.viz.dims(x).html()


def test_of_three_dims_there_is_a_table_for_each_of_the_first():
    x = rf.range_over_dim(Dim(12, name="all"))
    a, b, c = Dim(2, name="a"), Dim(3, name="b"), Dim(2, name="c")
    lines = rf.viz.dims(rf.split_dims(x, axis=x.dims[0], dims=[a, b, c])).text().splitlines()
    assert (
        lines[-10:]
        == [
            "a 0",
            "c →  0  1",
            "b 0  0  1",
            "b 1  2  3",
            "b 2  4  5",
            "",
            "a 1",
            "c →   0   1",
            "b 0   6   7",
            "b 1   8   9",
            "b 2  10  11",
        ][-10:]
    )


def test_large_tensors_and_whole_numbers_that_float32_lacks_have_no_table():
    assert "table" not in dims_spec(rf.zeros([Dim(500, name="many")])).head
    large = rf.convert_to_tensor(np.array([1 << 25], np.int64), dims=[Dim(1, name="one")])
    assert "table" not in dims_spec(large).head


@pytest.mark.parametrize(
    ("make", "op"),
    [
        (lambda x, time, mel: rf.merge_dims(x, dims=[time, mel])[1], "merge_dims"),
        (lambda x, time, mel: rf.top_k(x, axis=time, k=2)[2], "top_k"),
        (lambda x, time, mel: rf.pad(x, axes=[time], padding=[(1, 2)], value=0)[1][0], "pad"),
        (lambda x, time, mel: rf.stack([x, x])[1], "stack"),
        (
            lambda x, time, mel: rf.Conv1d(mel, Dim(5, name="out"), 3, padding="valid")(x, in_spatial_dim=time)[1],
            "conv",
        ),
    ],
)
def test_the_origin_of_a_dim_names_the_op_that_made_it(make, op):
    time, mel, _ = _dims()
    dim = make(randn(time, mel), time, mel)
    assert dim.made_by == op
    assert f"made by {op} at {dim.created}" in (origin_of(dim) or "")
    assert f"made by {op}" in " ".join(rf.viz.dims(dim).text().split())


def test_the_op_that_made_a_dim_is_known_of_its_copy_and_while_ops_are_looked_at():
    time, mel, _ = _dims()
    with rf.debug(indices=True):
        dim = rf.stack([randn(time, mel)] * 2)[1]
    assert dim.made_by == "stack"
    assert pickle.loads(pickle.dumps(dim)).made_by == "stack"
    assert time.made_by is None and (time + 1).made_by is None
