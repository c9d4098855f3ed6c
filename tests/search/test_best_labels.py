"""The best labels of each hypothesis, found without a sort of the vocabulary."""

import numpy as np
import pytest

from rfnb import Dim
from rfnb.backends.numpy_backend import NumpyBackend
from rfnb.backends.torch_backend import TorchBackend
from rfnb.search.rank import FlatScores, best_of_each_row


@pytest.mark.parametrize("made", [NumpyBackend, TorchBackend])
@pytest.mark.parametrize("shape", [(3, 2, 7), (3, 2, 512), (2, 4, 1003), (5, 4096), (1, 1, 2048)])
@pytest.mark.parametrize("values", ["any", "ties", "impossible"])
def test_they_are_the_largest_values_and_their_places(made, shape, values):
    random = np.random.default_rng(0)
    array = random.normal(size=shape).astype(np.float32)
    if values == "ties":
        array = array.round()
    if values == "impossible":
        array[random.random(shape) < 0.999] = -np.inf
    raw = made.from_numpy(array, dtype="float32", device="cpu")
    flat = FlatScores(None, (), shape[-1], None, Dim(shape[-1], name="labels"), made)
    best, index = (made.raw_to_numpy(found) for found in best_of_each_row(flat, raw, 5))
    np.testing.assert_array_equal(best, -np.sort(-array, -1)[..., :5])
    np.testing.assert_array_equal(np.take_along_axis(array, index, -1), best)
    assert all(len(set(row)) == 5 for row in index.reshape(-1, 5).tolist())
