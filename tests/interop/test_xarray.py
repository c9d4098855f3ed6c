"""Tensors as DataArrays of xarray and back: dims, labels, lengths, vocabularies."""

import sys

import numpy as np
import pytest
import torch
from asserting import assert_same, raises_message

import rfnb as rf

xarray = pytest.importorskip("xarray")


def letters():
    batch, vocab = rf.Dim(2, name="batch"), rf.Dim(3, name="letter", vocab=["a", "b", "c"])
    time = rf.ragged_dim([4, 2], over=batch, name="time")
    raw = torch.arange(24, dtype=torch.float32).reshape(2, 4, 3)
    return rf.Tensor("scores", [batch, time, vocab], raw_tensor=raw)


def test_dims_labels_and_lengths_are_coordinates():
    array = rf.to_xarray(letters())
    assert (array.dims, array.name, array.shape) == (("batch", "time", "letter"), "scores", (2, 4, 3))
    assert array.letter.values.tolist() == ["a", "b", "c"] and array.time_lengths.values.tolist() == [4, 2]
    assert array.time_lengths.dims == ("batch",) and "batch" not in array.coords
    assert float(array.sel(letter="b", time=1, batch=0)) == 4
    without_padding = array.where(array.time < array.time_lengths)
    assert np.isnan(without_padding.values[1, 2:]).all() and not np.isnan(without_padding.values[1, :2]).any()


def test_there_and_back_is_the_same_tensor():
    x = letters()
    back = rf.named(rf.to_xarray(x))
    batch, time, letter = back.dims
    assert letter.vocab == ["a", "b", "c"] and time.length_dims == (batch,) and time.lengths.tolist() == [4, 2]
    assert batch.kind == "batch"
    again = rf.named(rf.to_xarray(x), dims=x.dims)
    assert again.dims == x.dims
    assert_same(again, x)


def test_indices_keep_their_vocabulary():
    time, vocab = rf.Dim(3, name="time"), rf.Dim(5, name="phone", vocab=list("abcde"))
    x = rf.convert_to_tensor(np.array([4, 0, 2]), dims=[time], sparse_dim=vocab)
    array = rf.to_xarray(x)
    assert array.attrs == {"sparse_dim": "phone", "sparse_size": 5, "sparse_labels": list("abcde")}
    back = rf.named(array)
    assert back.sparse_dim.vocab == list("abcde") and back.sparse_dim.size == 5
    assert rf.named(array, dims=[vocab, time]).sparse_dim is vocab


def test_a_dim_and_its_twin_have_two_names():
    time = rf.Dim(3, name="time")
    x = rf.Tensor("w", [time, time.copy(match_priority=1)], raw_tensor=torch.eye(3))
    assert rf.to_xarray(x).dims == ("time", "time_2")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.bool])
def test_values_are_those_of_the_tensor_detached(dtype):
    raw = torch.tensor([1, 0, 1]).to(dtype)
    raw = raw.requires_grad_() if dtype.is_floating_point else raw
    assert rf.to_xarray(rf.named(raw, "time")).values.tolist() == [1, 0, 1]


def test_a_data_array_of_others_is_named_by_its_dims():
    array = xarray.DataArray(
        np.random.rand(2, 3),
        dims=("speaker", "band"),
        coords={"speaker": ["ann", "bob"], "band": [100.5, 200.0, 400.0]},
    )
    x = rf.named(array)
    assert [(dim.name, dim.vocab) for dim in x.dims] == [
        ("speaker", ["ann", "bob"]),
        ("band", ["100.5", "200.0", "400.0"]),
    ]
    assert x.dtype == "float64" and np.array_equal(x.numpy(), array.values)
    y = rf.named(array, "a b")
    assert [(dim.name, dim.vocab) for dim in y.dims] == [("a", ["ann", "bob"]), ("b", ["100.5", "200.0", "400.0"])]


def test_other_names_keep_the_lengths():
    back = rf.named(rf.to_xarray(letters()), "b t v")
    assert [dim.name for dim in back.dims] == ["b", "t", "v"] and back.dims[1].lengths.tolist() == [4, 2]


def test_lengths_given_besides_win_over_those_of_the_array():
    array = rf.to_xarray(letters())
    assert rf.named(array, lengths=[3, 1]).dims[1].lengths.tolist() == [3, 1]


def test_a_part_of_an_axis_has_the_lengths_that_are_left():
    array = rf.to_xarray(letters())  # lengths 4 and 2
    for part, lengths in ((slice(3), [3, 2]), (slice(1, None), [3, 1]), (slice(None, None, 2), [2, 1]), ([1], [1, 1])):
        assert rf.named(array.isel(time=part)).dims[1].lengths.tolist() == lengths
    assert rf.named(array.isel(batch=[1])).dims[1].lengths.tolist() == [2]


def test_positions_of_others_are_no_part_of_an_axis():
    array = rf.to_xarray(letters()).assign_coords(time=[1, 2, 3, 4])
    assert rf.named(array).dims[1].lengths.tolist() == [4, 2]


def test_an_axis_in_another_order_has_no_lengths():
    with raises_message(
        ValueError,
        """
        named: time is in another order than that of its lengths.
          given         xarray.core.dataarray.DataArray (2, 4, 3) float32
          time          4 positions
          time_lengths  (2,)
        Lengths count from the start on, in the order of the positions.
            x.sortby("time")    # or x.drop_vars("time_lengths")
        """,
    ):
        rf.named(rf.to_xarray(letters()).isel(time=slice(None, None, -1)))


def test_data_arrays_are_drawn():
    array = rf.to_xarray(letters())
    head = rf.show(array).spec.head
    assert [(entry["name"], entry["lengths"]) for entry in head["dims"]] == [
        ("batch", None),
        ("time", [4, 2]),
        ("letter", None),
    ]
    of_tensor = rf.viz.distribution(letters(), estimated_type="logits").spec
    assert rf.viz.distribution(array, estimated_type="logits").spec.head["seqs"] == of_tensor.head["seqs"]
    weights = xarray.DataArray(np.full((2, 3), 1 / 3), dims=("target", "source"), coords={"source": ["x", "y", "z"]})
    assert rf.viz.attention(weights).spec.head["seqs"][0]["cols"] == ["x", "y", "z"]
    both = xarray.Dataset({"weights": weights, "scores": array})
    assert [row["label"] for row in rf.show(both).spec.head["rows"]] == ["weights", "scores"]


def test_without_xarray_the_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with raises_message(
        ModuleNotFoundError,
        """
        to_xarray: the package xarray is not installed.
          x  [batch=2, time<=4, letter=3]
        A DataArray is one of that package. Install it:
            pip install xarray
        """,
    ):
        rf.to_xarray(letters())


def test_a_template_has_no_values():
    with raises_message(
        ValueError,
        """
        to_xarray: a template has no values.
          x  Tensor{'x', [time=3] (template)}
        A DataArray holds values.
            x.raw_tensor = ...
        """,
    ):
        rf.to_xarray(rf.Tensor("x", [rf.Dim(3, name="time")]))
