"""Packing by a mask and putting back, on numbers that can be followed by hand."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError

batch, feat = Dim(3, name="batch"), Dim(2, name="feat")
time = ragged([3, 1, 2], batch)
x = tensor([[1.0, 2.0, 3.0], [4.0, -9.0, -9.0], [5.0, 6.0, -9.0]], batch, time)
frames, picked = ragged([1, 2, 2], batch, "frames"), Dim(2, name="picked")
some = tensor([True, False, True], batch)
mask = tensor([[True, False, True], [False, True, True], [True, False, True]], batch, time)


def test_select_over_all_dims_of_the_mask_packs_the_real_frames():
    packed, dim = rf.masked_select(x, mask=mask, dims=[batch, time])
    assert dim.extent == 3 and not dim.need_masking()
    assert_same(packed, tensor([1.0, 3.0, 5.0], dim))


def test_select_takes_the_first_dim_as_major():
    packed, dim = rf.masked_select(x, mask=mask, dims=[time, batch])
    assert_same(packed, tensor([1.0, 5.0, 3.0], dim))


def test_select_of_frames_is_ragged_over_the_rest():
    packed, dim = rf.masked_select(x, mask=mask, dims=[time])
    assert dim.lengths.tolist() == [2, 0, 1] and dim.length_dims == (batch,)
    assert_same(packed, tensor([[1.0, 3.0], [0.0, 0.0], [5.0, 0.0]], batch, dim))


def test_select_fills_in_the_size_of_a_new_dim():
    out_dim = Dim(None, name="picked")
    assert rf.masked_select(x, mask=mask, dims=[time], out_dim=out_dim)[1] is out_dim
    assert out_dim.lengths.tolist() == [2, 0, 1]


def test_select_of_nothing():
    packed, dim = rf.masked_select(x, mask=x > 100, dims=[batch, time])
    assert dim.extent == 0 and packed.numpy().shape == (0,)
    assert_same(rf.masked_scatter(packed, 7.0, mask=x > 100, dims=[batch, time], in_dim=dim), np.full((3, 3), 7.0))


def test_scatter_puts_back_and_leaves_the_backup():
    packed, dim = rf.masked_select(x, mask=mask, dims=[time])
    back = rf.masked_scatter(packed, rf.zeros_like(x) - 1, mask=mask, dims=[time], in_dim=dim)
    assert_same(back, tensor([[1.0, -1.0, 3.0], [-1.0, 0.0, 0.0], [5.0, -1.0, 0.0]], batch, time))


def test_scatter_without_backup_leaves_zero():
    packed, dim = rf.masked_select(x, mask=mask, dims=[batch, time])
    back = rf.masked_scatter(packed, mask=mask, dims=[batch, time], in_dim=dim)
    assert_same(back, tensor([[1.0, 0.0, 3.0], [0.0, 0.0, 0.0], [5.0, 0.0, 0.0]], batch, time))


def test_pad_packed_undoes_pack_padded():
    y = randn(feat, batch, time)
    packed, dim = rf.pack_padded(y, dims=[batch, time])
    assert dim.extent == 6
    assert packed.dims == (feat, dim)
    assert_same(rf.pad_packed(packed, in_dim=dim, dims=[batch, time]), y)


def test_packing_static_dims_merges_them():
    y = randn(batch, feat)
    packed, dim = rf.pack_padded(y, dims=[batch, feat])
    assert packed.numpy().tolist() == y.numpy().ravel().tolist()
    assert_same(rf.pad_packed(packed, in_dim=dim, dims=[batch, feat]), y)


def test_gradient_reaches_the_picked_frames_only():
    raw = torch.arange(9.0).reshape(3, 3).requires_grad_()
    packed, dim = rf.masked_select(rf.convert_to_tensor(raw, dims=[batch, time]), mask=mask, dims=[batch, time])
    rf.reduce_sum(packed, axis=dim).raw_tensor.backward()
    assert raw.grad.tolist() == [[1, 0, 1], [0, 0, 0], [1, 0, 0]]


ERRORS = {
    "a mask without the dim": (
        lambda: rf.masked_select(x, mask=x > 0, dims=[feat]),
        DimError,
        """
        masked_select: the mask needs the dims that are packed.
          mask  [batch=3, time<=3]
          dims  [feat=2]
        The packed dims are some or all of those of the mask.
            mask = rf.expand_dim(mask, feat)
        """,
    ),
    "a mask of floats": (
        lambda: rf.masked_scatter(x, mask=x, dims=[time], in_dim=time),
        TypeError,
        """
        masked_scatter: the mask is not bool.
          mask  [batch=3, time<=3] float32
        True selects an entry.
            mask = x > 0
        """,
    ),
    "an out_dim of another size": (
        lambda: rf.masked_select(x, mask=mask, dims=[batch, time], out_dim=feat),
        DimError,
        """
        masked_select: out_dim has another size.
          out_dim  feat=2
          needed   3
        An out_dim fits, or has no size yet and takes it over.
            Dim(None, name="feat")
        """,
    ),
    "frames of source and others of backup": (
        lambda: rf.masked_scatter(randn(picked, time), randn(batch, frames), mask=some, dims=[batch], in_dim=picked),
        DimError,
        """
        masked_scatter: source and backup have different ragged dims.
          source  [picked=2, time<=3]
          backup  [batch=3, frames<=2]
          in_dim  picked=2
        time and frames would make an outer product. Where the two have frames of their own, the dim that stands for
        both has the lengths of source or of backup for each sequence:
            rf.masked_scatter_nested((source, time), (backup, frames), mask=..., dims=[...], ...)
        """,
    ),
    "sorted packing": (
        lambda: rf.pack_padded(x, dims=[batch, time], enforce_sorted=True),
        ValueError,
        """
        pack_padded: enforce_sorted.
          source  [batch=3, time<=3]
          dims    [batch=3, time<=3]
        Frames are packed in the order of the dims, whatever their lengths are.
            rf.pack_padded(source, dims=[...])
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()
