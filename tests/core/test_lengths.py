"""Lengths: the value that a ragged dim holds."""

import numpy as np

import rfnb as rf
from rfnb import Dim, ragged_dim
from rfnb.core.lengths import Lengths


def test_a_length_in_the_padding_of_another_dim_does_not_count():
    batch = Dim(2, name="batch")
    words = ragged_dim([2, 1], over=batch, name="words")
    lengths = Lengths(np.array([[3, 2], [1, 9]], np.int32), (batch, words))
    assert lengths.valid().tolist() == [[3, 2], [1, 0]]
    assert lengths.bounds() == (0, 3)


def test_bounds_are_the_shortest_and_the_longest_however_many_there_are():
    few, many = np.array([5, 3, 7], np.int32), np.arange(1000, dtype=np.int32)[::-1] + 4
    for array, expected in ((few, (3, 7)), (many, (4, 1003)), (few[:0], (0, 0))):
        assert Lengths(array, (Dim(len(array), name="batch"),)).bounds() == expected


def test_a_mask_is_true_for_the_frames_of_each_sequence():
    lengths = Lengths(np.array([2, 0, 3], np.int32), (Dim(3, name="batch"),))
    assert lengths.mask(3).tolist() == [[True, True, False], [False, False, False], [True, True, True]]


def test_a_dim_that_gets_other_lengths_keeps_the_old_ones_as_they_were():
    batch = Dim(2, name="batch")
    time = ragged_dim([4, 2], over=batch, name="time")
    later = time + 3
    held, of_later = time._known(), later._known()
    time.dyn_size_ext = rf.convert_to_tensor(np.array([1, 6], np.int32), dims=[batch])
    assert held.array.tolist() == [4, 2] and of_later.array.tolist() == [7, 5]
    assert (time.lengths.tolist(), time.extent) == ([1, 6], 6)
    assert (later.lengths.tolist(), later.extent) == ([4, 9], 9)


def test_a_twin_and_a_dim_declared_the_same_hold_the_same_lengths():
    batch = Dim(2, name="batch")
    time, other = ragged_dim([4, 2], over=batch, name="time"), Dim(None, name="other")
    twin = time.copy(match_priority=1)
    other.declare_same_as(time)
    assert twin._known() is time._known() is other._known()
