"""Ops on dims: ranges, masks, replacing."""

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError

batch, feat = Dim(3, name="batch"), Dim(2, name="feat")
time, source = ragged([3, 1, 0], batch), ragged([1, 2, 2], batch, "source")


def test_range_is_sparse_over_its_dim():
    assert_same(rf.range_over_dim(batch), tensor(np.asarray([0, 1, 2], np.int32), batch, sparse_dim=batch))
    assert rf.range_over_dim(batch, dtype="float32").sparse_dim is None


def test_sequence_mask_of_several_dims():
    mask = rf.sequence_mask([batch, time, source])
    assert_same(mask, rf.logical_and(rf.combine_bc(time.get_mask(), "logical_and", source.get_mask()), True))
    assert mask.numpy().sum() == 3 * 1 + 1 * 2 + 0 * 2
    assert_same(rf.sequence_mask([batch, feat]), np.asarray(True))


def test_last_frame_position():
    last = rf.last_frame_position_of_dim(time)
    assert_same(last, tensor(np.asarray([2, 0, 0], np.int32), batch, sparse_dim=time))
    assert_same(rf.last_frame_position_of_dim(feat), tensor(np.asarray(1, np.int32), sparse_dim=feat))


def test_num_elements_of_shape():
    assert_same(rf.num_elements_of_shape([batch, time, feat]), tensor(np.int64(8)))
    assert_same(rf.num_elements_of_shape([batch, time, feat], use_mask=False), tensor(np.int64(18)))
    assert_same(rf.cast(rf.num_elements_of_shape([batch, time]), "float32"), tensor(4.0))
    assert rf.num_elements_of_shape([batch, feat]) == 6 and type(rf.num_elements_of_shape([batch, feat])) is int


def test_replace_dim_keeps_values_and_marks():
    new = Dim(2, name="new")
    x = randn(batch, feat)
    x.feature_dim = feat
    y, dim = rf.replace_dim(x, in_dim=feat, out_dim=new)
    assert (dim, y.dims, y.feature_dim) == (new, (batch, new), new)
    assert y.numpy().tolist() == x.numpy().tolist()


def test_replace_dim_fills_in_a_size_or_makes_a_dim():
    new = Dim(None, name="new")
    rf.replace_dim(randn(batch, time), in_dim=time, out_dim=new)
    assert new.lengths.tolist() == [3, 1, 0]
    _, other = rf.replace_dim(randn(batch, time), in_dim=time)
    assert other is not time and other.lengths.tolist() == [3, 1, 0]


def test_set_sparse_dim_leaves_the_source_alone():
    ids = rf.range_over_dim(feat)
    assert rf.set_sparse_dim(ids, batch).sparse_dim is batch
    assert ids.sparse_dim is feat


ERRORS = {
    "other lengths": (
        lambda: rf.replace_dim(randn(batch, time), in_dim=time, out_dim=source),
        """
        replace_dim: the sizes differ.
          source   [batch=3, time<=3]
          in_dim   time<=3 [3, 1, 0]
          out_dim  source<=2 [1, 2, 2]
        A replaced dim keeps its size. By a new dim of the same size:
            source, new = rf.replace_dim(source, in_dim=in_dim)
        """,
    ),
    "a missing dim": (
        lambda: rf.replace_dim(randn(batch), in_dim=feat),
        """
        replace_dim: no dim feat=2.
          tensor  [batch=3]
          dim     feat=2
        The dim feat=2 is not among the dims of tensor.
            x.dims[0]    # batch=3
        """,
    ),
}


@pytest.mark.parametrize(("call", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, text):
    with raises_message(DimError, text):
        call()


def test_elements_of_a_ragged_dim_alone_are_its_lengths():
    assert_same(rf.num_elements_of_shape([time, feat]), tensor(np.asarray([6, 2, 0], np.int64), batch))
    assert_same(rf.masked_fraction_of_shape([time]), tensor([1.0, 1 / 3, 0.0], batch))
