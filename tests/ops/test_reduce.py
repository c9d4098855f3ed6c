"""Reductions and top_k: padding is left out, whatever it holds."""

import math

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError

batch, feat = Dim(3, name="batch"), Dim(2, name="feat")
time = ragged([3, 1, 0], batch)
nan, inf = math.nan, math.inf
x = tensor([[1.0, 5.0, 3.0], [-2.0, nan, nan], [nan, nan, nan]], batch, time)

BY_HAND = {
    "sum": [9.0, -2.0, 0.0],
    "mean": [3.0, -2.0, 0.0],
    "max": [5.0, -2.0, -inf],
    "min": [1.0, -2.0, inf],
    "logsumexp": [math.log(math.exp(1) + math.exp(5) + math.exp(3)), -2.0, -inf],
}


@pytest.mark.parametrize("mode", BY_HAND)
def test_over_real_frames_of_each_sequence(mode):
    assert_same(getattr(rf, f"reduce_{mode}")(x, axis=time), BY_HAND[mode])
    assert_same(rf.reduce(x, mode=mode, axis=time), BY_HAND[mode])


def test_over_all_real_frames():
    assert_same(rf.reduce_sum(x, axis=[batch, time]), np.float32(7))
    assert_same(rf.reduce_mean(x, axis=[time, batch]), np.float32(7 / 4))
    assert_same(rf.reduce_max(x, axis=[batch, time]), np.float32(5))


def test_any_and_all():
    y = tensor([[False, False, True], [True, False, False], [True, True, True]], batch, time)
    assert_same(rf.reduce_any(y, axis=time), [True, True, False])
    assert_same(rf.reduce_all(y, axis=time), [False, True, True])


def test_argmax_and_argmin_are_sparse_over_the_axis():
    best, worst = rf.reduce_argmax(x, axis=time), rf.reduce_argmin(x, axis=time)
    assert best.sparse_dim is time and worst.sparse_dim is time
    assert_same(best, tensor(np.asarray([1, 0, 0]), batch, sparse_dim=time))
    assert_same(worst, tensor(np.asarray([0, 0, 0]), batch, sparse_dim=time))


def test_the_first_of_equal_ones_is_the_maximum():
    assert rf.reduce_argmax(tensor([1.0, 4.0, 4.0], batch), axis=batch).numpy() == 1


def test_the_mean_of_bools_is_a_share():
    right = tensor([[True, False, True], [True, True, True], [True, True, True]], batch, time)
    assert_same(rf.reduce_mean(right, axis=[batch, time]), np.float32(3 / 4))


def test_dtypes_do_not_mix_in_the_plan():
    ints = tensor(np.asarray([[1, 5, 3], [-2, 9, 9], [9, 9, 9]], np.int32), batch, time)
    rf.reduce_max(x, axis=time)
    assert_same(rf.reduce_max(ints, axis=time), tensor(np.asarray([5, -2, -(2**31)], np.int32), batch))


def test_without_mask_the_padding_counts():
    y = tensor([[1.0, 1.0, 1.0]] * 3, batch, time)
    assert_same(rf.reduce_sum(y, axis=time, use_mask=False), [3.0, 3.0, 3.0])


def test_of_a_dim_without_any_entry():
    none = ragged([0, 0, 0], batch, "none")
    y = rf.zeros([batch, none])
    for mode, value in {"sum": 0.0, "mean": 0.0, "max": -inf, "min": inf, "logsumexp": -inf}.items():
        assert_same(rf.reduce(y, mode=mode, axis=none), [value] * 3)


def test_gradient_reaches_real_frames_only():
    y = tensor([[1.0, 5.0, 3.0], [-2.0, nan, nan], [nan, nan, nan]], batch, time)
    rf.set_requires_gradient(y)
    total = rf.reduce_sum(rf.reduce_mean(y, axis=time), axis=batch)
    assert rf.gradient(total, y).numpy().tolist() == [pytest.approx([1 / 3] * 3), [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_top_k_best_first():
    values, indices, k_dim = rf.top_k(tensor([3.0, 7.0, 5.0], batch), axis=batch, k=2)
    assert_same(values, tensor([7.0, 5.0], k_dim))
    assert_same(indices, tensor(np.asarray([1, 2]), k_dim, sparse_dim=batch))


def test_top_k_takes_padding_last():
    values, indices, _ = rf.top_k(x, axis=time, k=2)
    assert values.numpy().tolist() == [[5.0, 3.0], [-2.0, -inf], [-inf, -inf]]
    assert indices.numpy()[0].tolist() == [1, 2] and indices.numpy()[1, 0] == 0


def test_top_k_of_another_number_for_each_sequence():
    y = tensor([[1.0, 6.0], [5.0, 2.0], [3.0, 4.0]], batch, feat)
    values, indices, k_dim = rf.top_k(y, axis=feat, k=tensor(np.asarray([1, 2, 0], np.int32), batch))
    assert k_dim.lengths.tolist() == [1, 2, 0]
    assert_same(values, tensor([[6.0, 0.0], [5.0, 2.0], [0.0, 0.0]], batch, k_dim))
    mask = rf.top_k_mask(y, axis=feat, k=tensor(np.asarray([1, 9, 0], np.int32), batch))
    assert mask.numpy().tolist() == [[False, True], [True, True], [False, False]]


def test_top_k_over_several_dims_jointly():
    y = tensor([[1.0, 6.0], [5.0, 2.0], [3.0, 4.0]], batch, feat)
    values, (rows, columns), k_dim = rf.top_k(y, axis=[batch, feat], k=3)
    assert_same(values, tensor([6.0, 5.0, 4.0], k_dim))
    assert_same(rows, tensor(np.asarray([0, 1, 2]), k_dim, sparse_dim=batch))
    assert_same(columns, tensor(np.asarray([1, 0, 1]), k_dim, sparse_dim=feat))


@pytest.mark.parametrize("make", [np.zeros, torch.zeros])
@pytest.mark.parametrize("how", [{"k": 7}, {"k": np.int64(7)}, {"k_dim": Dim(7, name="best")}])
def test_top_k_of_more_entries_than_there_are_in_both_libraries(make, how):
    y = rf.Tensor("y", [batch, feat], raw_tensor=make((3, 2)))
    with pytest.raises(DimError, match="k=7 of only 2 entries"):
        rf.top_k(y, axis=feat, **how)
    with pytest.raises(DimError, match="k=7 of only 6 entries"):
        rf.top_k(y, axis=[batch, feat], **how)


ERRORS = {
    "a missing dim": (
        lambda: rf.reduce_sum(x, axis=feat),
        DimError,
        """
        reduce_sum: no dim feat=2.
          source  [batch=3, time<=3]
          dim     feat=2
        The dim feat=2 is not among the dims of source.
            source.dims[0]    # batch=3
            source.dims[1]    # time<=3
        """,
    ),
    "lengths over a dim that is gone": (
        lambda: rf.reduce_sum(rf.reduce_sum(x, axis=batch), axis=time),
        DimError,
        """
        reduce_sum: the lengths of time<=3 are over [batch=3], which is not here.
          tensor   [time<=3]
          lengths  [batch=3]
        Which frames are real differs per sequence. One sequence that was picked (i) keeps its own frames if they are cut out first;
        what is the same for all sequences needs their dim:
            x, time = rf.slice(x, axis=time, size=rf.gather(time.dyn_size_ext, indices=i, axis=batch))
            x = rf.expand_dim(x, dim=batch)
        """,
    ),
    "an unknown mode": (
        lambda: rf.reduce(x, mode="median", axis=time),
        ValueError,
        """
        reduce: unknown mode "median".
          known  sum, max, min, mean, logsumexp, any, all, argmax, argmin
        A mode is one of these.
            mode="mean"
        """,
    ),
    "over several processes": (
        lambda: rf.reduce_sum(x, axis=time, distributed=True),
        NotImplementedError,
        """
        reduce_sum: over all processes of a distributed training.
          source       [batch=3, time<=3]
          distributed  True
        The frames are those of this process. Add the results of all processes:
            torch.distributed.all_reduce(total.raw_tensor)
        """,
    ),
    "argmax over two dims": (
        lambda: rf.reduce_argmax(x, axis=[batch, time]),
        DimError,
        """
        reduce_argmax: one axis at a time.
          source  [batch=3, time<=3]
          axis    [batch=3, time<=3]
        An index is into one dim; merge the dims first:
            source, axis = rf.merge_dims(source, dims=[batch, time])
        """,
    ),
    "no Tensor": (
        lambda: rf.reduce_sum([1.0], axis=time),
        TypeError,
        """
        reduce_sum: this operand is not a Tensor.
          got  list
        Raw arrays and lists do not say which axis is which.
            rf.convert_to_tensor(value, dims=[...])
        """,
    ),
    "more than there is": (
        lambda: rf.top_k(randn(batch, feat), axis=feat, k=4),
        DimError,
        """
        top_k: k=4 of only 2 entries.
          source  [batch=3, feat=2]
          axis    feat=2
        There are not that many entries.
            rf.top_k(source, k=2, axis=feat)
        """,
    ),
    "no k": (
        lambda: rf.top_k(randn(batch, feat), axis=feat),
        TypeError,
        """
        top_k: needs k or k_dim.
            rf.top_k(x, axis=vocab, k=4)
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()
