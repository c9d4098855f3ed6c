"""Ranges over dims; dims replaced by those of another size; small helpers."""

import math

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, tensor

import rfnb as rf
from rfnb import Dim, DimError

batch, feat, three = Dim(2, name="batch"), Dim(4, name="feat"), Dim(3, name="three")
time = ragged([3, 2], batch)
x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, -9.0]], batch, time)


def test_strided_range():
    out, dim = rf.range_over_dim_strided(Dim(5, name="five"), stride=2)
    assert out.numpy().tolist() == [0, 2, 4] and dim.extent == 3
    out, dim = rf.range_over_dim_strided(time, stride=2)
    assert out.sparse_dim is time and dim.lengths.tolist() == [2, 1]


def test_merged_range_is_the_index_after_merging():
    out = rf.range_over_merged_dims([batch, feat])
    merged, dim = rf.merge_dims(out, dims=[batch, feat])
    assert merged.numpy().tolist() == list(range(8))


def test_linspace_leaves_the_end_out():
    assert_same(rf.linspace_over_dim(feat, 1.0, 3.0), tensor([1.0, 1.5, 2.0, 2.5], feat))


def test_linspace_of_a_ragged_dim_goes_by_each_length():
    assert_same(rf.linspace_over_dim(time, 0.0, 6.0), tensor([[0.0, 2.0, 4.0], [0.0, 3.0, 0.0]], batch, time))


def test_replace_dim_v2_adds_zeros_after_the_real_frames():
    out = rf.replace_dim_v2(x, in_dim=time, out_dim=feat)
    assert_same(out, tensor([[1.0, 2.0, 3.0, 0.0], [4.0, 5.0, 0.0, 0.0]], batch, feat))


def test_replace_dim_v2_cuts():
    two = Dim(2, name="two")
    assert_same(rf.replace_dim_v2(x, in_dim=time, out_dim=two), tensor([[1.0, 2.0], [4.0, 5.0]], batch, two))


def test_replace_dim_v2_gives_a_new_dim_its_size():
    new = Dim(None, name="new")
    assert_same(rf.replace_dim_v2(x, in_dim=time, out_dim=new), rf.replace_dim(x, in_dim=time, out_dim=new)[0])


def test_a_dim_that_occurs_twice_gets_its_twin():
    assert rf.dim_match_priority_when_needed(feat, batch) is feat
    assert rf.dim_match_priority_when_needed(feat, batch, feat) is feat.copy(match_priority=1)


def test_masked_fraction():
    assert_same(rf.masked_fraction_of_shape([batch, time]), tensor(5 / 6))
    assert_same(rf.masked_fraction_of_shape([batch, time], inverse=True), tensor(6 / 5))
    assert rf.masked_fraction_of_shape([batch, feat]) == 1


def test_gating_halves_a_dim():
    wide = 2 * batch
    y = tensor([1.0, 2.0, 0.0, 100.0], wide)
    out, dim = rf.gating(y, axis=wide)
    assert dim is batch
    assert_same(out, tensor([0.5, 2.0], batch))


def test_gating_keeps_the_feature_dim():
    y = rf.ones([batch, feat], feature_dim=feat)
    out, dim = rf.gating(y, act_func=rf.neg, gate_func=rf.identity)
    assert out.feature_dim is dim and out.numpy().tolist() == [[-1, -1], [-1, -1]]


@pytest.mark.parametrize("flag", [True, False])
def test_logic_with_a_bool_takes_the_short_cut(flag):
    mask = x > 2
    assert rf.opt_logical_and(mask, flag) is rf.opt_logical_and(flag, mask) is (mask if flag else False)
    assert rf.opt_logical_or(mask, flag) is rf.opt_logical_or(flag, mask) is (True if flag else mask)
    assert_same(rf.opt_logical_and(mask, x < 5), [[False, False, True], [True, False, False]])


def test_logmeanexp_is_the_log_of_the_mean():
    out = rf.reduce_logmeanexp(rf.log(x), axis=time)
    assert_same(out, tensor([math.log(2.0), math.log(4.5)], batch))


def test_logmeanexp_without_any_frame():
    empty = ragged([0, 1], batch)
    out = rf.reduce_logmeanexp(tensor([[3.0], [4.0]], batch, empty), axis=empty)
    assert_same(out, tensor([-math.inf, 4.0], batch))


def test_max_out():
    y = rf.convert_to_tensor(np.asarray([1, 5, 3, 2], np.float32), dims=[feat], feature_dim=feat)
    out = rf.reduce_out(y, mode="max", num_pieces=2)
    assert out.feature_dim is out.dims[0] and out.numpy().tolist() == [5, 3]


def test_smooth_one_hot_sums_to_one():
    out = rf.smooth_one_hot(tensor(np.asarray([2, 0], np.int32), batch, sparse_dim=three), label_prob=0.8)
    assert_same(out, tensor([[0.1, 0.1, 0.8], [0.8, 0.1, 0.1]], batch, three))


ERRORS = {
    "a range of another size": (
        lambda: rf.range_over_dim_strided(feat, stride=2, out_dim=three),
        DimError,
        """
        range_over_dim_strided: out_dim has another size.
          out_dim  three=3
          needed   2
        An out_dim fits, or has no size yet and takes it over.
            Dim(None, name="three")
        """,
    ),
    "expanding": (
        lambda: rf.replace_dim_v2(x, in_dim=time, out_dim=feat, allow_expand=False),
        DimError,
        """
        replace_dim_v2: this would expand the dim.
          source   [batch=2, time<=3]
          in_dim   time<=3 [3, 2]
          out_dim  feat=4
        Sizes differ, and allow_expand is False.
            rf.replace_dim_v2(..., allow_expand=True)
        """,
    ),
    "shrinking": (
        lambda: rf.replace_dim_v2(rf.ones([feat]), in_dim=feat, out_dim=three, allow_shrink=False),
        DimError,
        """
        replace_dim_v2: this would shrink the dim.
          source   [feat=4]
          in_dim   feat=4
          out_dim  three=3
        Sizes differ, and allow_shrink is False.
            rf.replace_dim_v2(..., allow_shrink=True)
        """,
    ),
    "an odd dim": (
        lambda: rf.gating(rf.ones([three]), axis=three),
        DimError,
        """
        gating: the dim has no halves.
          x     [three=3]
          axis  three=3
        Its size is static and even.
            rf.Linear(in_dim, 2 * out_dim)
        """,
    ),
    "gating without a dim": (
        lambda: rf.gating(rf.ones([feat])),
        DimError,
        """
        gating: which dim?
          x  [feat=4]
        It has no feature_dim, so name the dim to halve:
            rf.gating(x, axis=...)
        """,
    ),
    "max-out without features": (
        lambda: rf.reduce_out(rf.ones([feat]), mode="max", num_pieces=2),
        DimError,
        """
        reduce_out: source has no feature_dim.
          source  [feat=4]
        It reduces the features. Mark them:
            source.feature_dim = ...
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()
