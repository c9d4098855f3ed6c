"""Line 4 of a step of beam search: which continuations are the best, and in which order where scores are equal."""

from __future__ import annotations

import numpy as np
import pytest

import rfnb as rf
from rfnb import Dim
from rfnb.search.rank import best_of, flat_of


@pytest.mark.parametrize("num_values", [2, 10, 200])
@pytest.mark.parametrize("impossible", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("count", [1, 4, 19])
def test_of_equal_scores_the_first_are_kept_in_their_order(num_values, impossible, count):
    batch, labels = Dim(3, name="batch"), Dim(200, name="labels")
    rng = np.random.default_rng(num_values)
    for num_more in (0, 3, 30):
        scores = rng.integers(0, num_values, (3, 200)).astype(np.float32)
        scores[rng.random(scores.shape) < impossible] = -np.inf
        scores[:, 7] = 0
        flat = flat_of(rf.convert_to_tensor(scores, dims=[batch, labels]), None, labels)
        found = best_of(flat, count, num_more)
        order = np.argsort(-scores, axis=-1, kind="stable")[:, :count]
        values = np.take_along_axis(scores, order, -1)
        np.testing.assert_array_equal(found.scores.numpy(), values)
        np.testing.assert_array_equal(found.index.numpy(), np.where(values == -np.inf, 0, order))


def test_equal_scores_keep_their_gradients():
    labels = Dim(100, name="labels")
    scores = rf.Parameter((labels,))
    scores.initial = 1.0
    flat = flat_of(scores * 2, None, labels)
    best_of(flat, 3).scores.sum().backward()
    assert scores.raw_tensor.grad.tolist() == [2.0] * 3 + [0.0] * 97
