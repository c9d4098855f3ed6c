"""Computed Tensors and raw scalars may replace a number, with the same meaning."""

import numpy as np
import pytest
import torch
from asserting import assert_same, raises_message

import rfnb as rf

BATCH, FEAT, VOCAB = rf.Dim(2, name="batch"), rf.Dim(3, name="feat"), rf.Dim(5, name="vocab")


def test_dropout_by_a_probability_per_sequence():
    rf.set_random_seed(1)
    many = rf.Dim(1000, name="many")
    x, prob = rf.ones([BATCH, many]), rf.convert_to_tensor(np.asarray([0.25, 0.75], np.float32), dims=[BATCH])
    out = rf.dropout(x, prob, on_forward=True).raw_tensor
    kept = (out != 0).float().mean(1)
    assert kept.tolist() == pytest.approx([0.75, 0.25], abs=0.05)
    torch.testing.assert_close(out[0][out[0] != 0], torch.full((int((out[0] != 0).sum()),), 1 / 0.75))
    torch.testing.assert_close(out[1][out[1] != 0], torch.full((int((out[1] != 0).sum()),), 4.0))


def test_dropout_by_a_tensor_shares_choices_over_the_other_dims():
    rf.set_random_seed(1)
    out = rf.dropout(rf.ones([BATCH, FEAT, VOCAB]), rf.constant(0.5, dims=()), axis=VOCAB, on_forward=True).raw_tensor
    assert (out == out[:1, :1]).all() and 0 < (out != 0).sum() < out.numel()
    half = rf.dropout(rf.cast(rf.ones([VOCAB]), "float16"), rf.constant(0.5, dims=()), on_forward=True)
    assert half.dtype == "float16"


def test_one_label_as_a_number_becomes_a_vector():
    out = rf.sparse_to_dense(3, axis=VOCAB, label_value=0.0, other_value=-1e30)
    assert out.dims == (VOCAB,) and out.feature_dim is VOCAB
    assert out.raw_tensor.tolist() == pytest.approx([-1e30, -1e30, -1e30, 0.0, -1e30])


def test_values_of_labels_may_have_dims():
    labels = rf.convert_to_tensor(np.asarray([1, 4], np.int32), dims=[BATCH], sparse_dim=VOCAB)
    on = rf.convert_to_tensor(np.asarray([2.0, 3.0, 4.0], np.float32), dims=[FEAT])
    out = rf.sparse_to_dense(labels, label_value=on, other_value=rf.constant(-1.0, dims=()))
    expected = np.full((2, 5, 3), -1.0, np.float32)
    expected[0, 1] = expected[1, 4] = [2.0, 3.0, 4.0]
    assert out.feature_dim is VOCAB
    assert_same(out, rf.convert_to_tensor(expected, dims=[BATCH, VOCAB, FEAT]))


def test_a_raw_number_fills_a_parameter():
    parameter = rf.Parameter([BATCH, FEAT])
    for value in (2.0, np.float64(2.0), np.asarray(2.0), torch.tensor(2.0), torch.tensor(2)):
        parameter.assign(0)
        parameter.assign(value)
        parameter.assign_add(value)
        assert (parameter.raw_tensor == 4).all()


def test_bounds_of_a_key_may_be_tensors():
    buffer, two = rf.Dim(6, name="buffer"), rf.Dim(2, name="two")
    parameter = rf.Parameter([buffer, FEAT])
    parameter.assign_key(
        axis=buffer,
        key=slice(rf.constant(1, dims=()), rf.constant(3, dims=())),
        key_dim=two,
        value=rf.ones([two, FEAT]),
    )
    assert parameter.raw_tensor.sum(1).tolist() == [0, 3, 3, 0, 0, 0]
    parameter.assign_key(axis=buffer, key=slice(None, None, -1), key_dim=rf.Dim(6, name="back"), value=5.0)
    assert (parameter.raw_tensor == 5).all()


def test_a_raw_condition_and_raw_branches():
    x = rf.ones([BATCH])
    for condition in (np.bool_(True), np.asarray(True), torch.tensor(True)):
        assert rf.where(condition, x, np.asarray(7.0)).raw_tensor.tolist() == [1, 1]
    scale = torch.tensor(3.0, requires_grad=True)
    rf.where(rf.zeros([BATCH]) > 0, x, scale).raw_tensor.sum().backward()
    assert scale.grad == 2  # a raw tensor of torch keeps its gradient


def test_an_array_with_axes_is_still_refused():
    with raises_message(
        TypeError,
        """
        where: this operand is not a Tensor.
          got  numpy.ndarray
        Raw arrays and lists do not say which axis is which.
            rf.convert_to_tensor(value, dims=[...])
        """,
    ):
        rf.where(np.asarray([True, False]), rf.ones([BATCH]), 0.0)


def test_scatter_into_several_dims_says_how():
    labels = rf.convert_to_tensor(np.asarray([1, 4], np.int32), dims=[BATCH])
    with raises_message(
        rf.DimError,
        """
        scatter: an index is into one dim.
          indices  [batch=2]
          out_dim  [feat=3, vocab=5]
        Indices into several dims count in the order of the merged one, which is split afterwards:
            out = rf.scatter(..., out_dim=feat * vocab)
            rf.split_dims(out, axis=..., dims=[feat, vocab])
        """,
    ):
        rf.scatter(rf.ones([BATCH]), indices=labels, indices_dim=BATCH, out_dim=[FEAT, VOCAB])


def test_what_has_to_be_one_number_is_refused_with_dims():
    with pytest.raises(TypeError, match="random_truncated_normal: bounds with Tensors"):
        rf.random_truncated_normal([BATCH], minval=rf.zeros([BATCH]))
    with pytest.raises(rf.DimError, match="GroupNorm: groups of one dim"):
        rf.GroupNorm([FEAT, VOCAB], num_groups=1)
