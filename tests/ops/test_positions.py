"""Positions along a ragged dim count within each sequence; a message names the sequence that lacks one."""

import warnings

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, tensor

import rfnb as rf
from rfnb import Dim

batch = Dim(3, name="batch")
time = ragged([4, 2, 1], batch)
x = tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 0.0, 0.0], [7.0, 0.0, 0.0, 0.0]], batch, time)
static = Dim(4, name="static")


def test_an_index_from_the_end_is_that_of_each_sequence():
    assert_same(rf.gather(x, indices=-1, axis=time), tensor([4.0, 6.0, 7.0], batch))
    assert_same(rf.gather(x, indices=-2, axis=time, clip_to_valid=True), tensor([3.0, 5.0, 7.0], batch))
    assert_same(rf.gather(x, indices=2, axis=time, clip_to_valid=True), tensor([3.0, 6.0, 7.0], batch))
    assert_same(
        rf.gather(tensor([1.0, 2.0, 3.0, 4.0], static), indices=9, axis=static, clip_to_valid=True), np.float32(4)
    )
    empty = ragged([2, 0, 1], batch)
    last = rf.gather(
        tensor([[1.0, 2.0], [9.0, 9.0], [3.0, 9.0]], batch, empty), indices=-1, axis=empty, clip_to_valid=True
    )
    assert_same(last, tensor([2.0, 0.0, 3.0], batch))


def test_each_sequence_alone_has_the_frame_that_it_has_in_the_batch():
    for index in (-1, 0):
        whole = rf.gather(x, indices=index, axis=time).numpy()
        for row, length in enumerate([4, 2, 1]):
            one = Dim(1, name="one")
            own = rf.gather(
                tensor(x.numpy()[row : row + 1, :length], one, t := ragged([length], one)), indices=index, axis=t
            )
            assert own.numpy().tolist() == [whole[row]]


def test_error_where_a_sequence_has_no_such_frame_from_the_end():
    with raises_message(
        IndexError,
        """
        gather: there is no index -2 of time<=4.
          source   [batch=3, time<=4]
          axis     time<=4
          allowed  -1 to 0 in the shortest sequence
        Indices count from 0, or as -1, -2, ... from the end of each sequence:
            rf.gather(source, indices=-2, axis=time, clip_to_valid=True)    # the nearest frame there is
        """,
    ):
        rf.gather(x, indices=-2, axis=time)


def test_who_picks_a_frame_that_some_sequences_do_not_have_is_warned():
    with pytest.warns(UserWarning) as said:
        picked = rf.gather(x, indices=1, axis=time)
    assert str(said[0].message) == (
        "gather: some sequences of time<=4 have no frame 1.\n"
        "  source    [batch=3, time<=4]\n"
        "  axis      time<=4\n"
        "  shortest  1 frames\n"
        "For sequences that end earlier, the result is padding. Take their last frame instead, or mask the result:\n"
        "    rf.gather(source, indices=1, axis=time, clip_to_valid=True)\n"
        "    rf.where(time.get_size_tensor() > 1, ..., 0)"
    )
    assert picked.numpy()[:2].tolist() == [2.0, 6.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rf.gather(x, indices=0, axis=time)


def test_lengths_that_are_padding_themselves_count_for_no_sequence():
    words = ragged([2, 1], pair := Dim(2, name="pair"), "words")
    chars = ragged([[3, 2], [2, 0]], [pair, words], "chars")
    values = tensor(np.arange(12.0).reshape(2, 2, 3), pair, words, chars)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rf.gather(values, indices=-2, axis=chars).numpy()[0].tolist() == [1.0, 3.0]
        rf.gather(values, indices=1, axis=chars)


@pytest.mark.parametrize("index", [2, -3, rf.constant(5)])
def test_error_of_a_tensor_array(index):
    array = rf.TensorArray.unstack(tensor([[1.0, 2.0]] * 3, batch, two := Dim(2, name="two")), axis=two)
    with pytest.raises(IndexError, match=r"TensorArray: there is no entry -?\d\.\n  entries  2"):
        array[index]


def test_a_slice_with_negative_bounds_per_sequence_counts_from_the_end_of_each():
    bounds = tensor(np.array([-2, -2, 1], np.int32), batch)
    last, dim = rf.slice(x, axis=time, start=bounds)
    assert dim.lengths.tolist() == [2, 2, 0]
    assert_same(last, tensor([[3.0, 4.0], [5.0, 6.0], [0.0, 0.0]], batch, dim))
    first, dim = rf.slice(x, axis=time, end=bounds)
    assert dim.lengths.tolist() == [2, 0, 1]
    assert_same(first, tensor([[1.0, 2.0], [0.0, 0.0], [7.0, 0.0]], batch, dim))


def test_error_of_a_negative_size_of_a_slice():
    with pytest.raises(ValueError, match=r"slice: which frames.*\n(.*\n)*Either end or size, which is 0 or more"):
        rf.slice(x, axis=time, size=-1)
