"""Arrays that are kept are bounded by bytes."""

import numpy as np
import pytest
from asserting import randn

import rfnb as rf
from rfnb import Dim
from rfnb.core import memo
from rfnb.core.memo import Memo, kept_bytes


@pytest.fixture
def small_limit(monkeypatch):
    monkeypatch.setattr(memo, "LIMIT", 1 << 20)
    yield 1 << 20
    memo._shrink()


def test_the_oldest_arrays_go_when_there_are_too_many_bytes(small_limit):
    kept = [Memo() for _ in range(40)]
    for each in kept:
        each.keep("mask", np.zeros(100_000, np.uint8))
    assert not kept[0] and kept[-1]
    assert kept_bytes() <= small_limit + 100_256


def test_arrays_of_what_is_gone_do_not_count(small_limit):
    mine = Memo()
    mine.keep("mask", np.zeros(100_000, np.uint8))
    for _ in range(8):
        Memo().keep("mask", np.zeros(100_000, np.uint8))
    for _ in range(8):
        Memo().keep("mask", np.zeros(100_000, np.uint8))
    assert mine


def test_masks_of_many_batches_are_bounded(small_limit):
    for size in range(30):
        batch = Dim(2, name="batch")
        rows = rf.ragged_dim([200, 150 + size], over=batch, name="rows")
        columns = rf.ragged_dim([200 - size, 200], over=batch, name="columns")
        x = randn(batch, rows, columns)
        rf.reduce_max(x, axis=(rows, columns))
        rf.softmax(x, axis=columns)
        rf.exp(x)
    assert kept_bytes() <= small_limit + 2 * 200 * 200 * 4


def test_a_mask_that_went_is_made_again(small_limit):
    batch = Dim(2, name="batch")
    time = rf.ragged_dim([3, 1], over=batch, name="time")
    x = rf.ones([batch, time])
    for _ in range(2):
        assert rf.reduce_sum(x, axis=time).numpy().tolist() == [3, 1]
        Memo().keep("large", np.zeros(small_limit, np.uint8))
        for _ in range(4):
            memo._shrink()
