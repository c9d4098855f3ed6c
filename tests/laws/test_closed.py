"""The law of the protocol can fail; see `closed.py`."""

import pytest
from backends.closed_backend import Box
from closed import check_closed
from laws import Run


def test_a_box_tells_nothing():
    for name in ("dtype", "shape", "device", "nbytes", "requires_grad"):
        with pytest.raises(AssertionError, match=f"asked for {name}"):
            getattr(Box([1]), name, None)


def test_an_op_that_asks_the_array_breaks_the_law():
    def call(x):
        return x + len(x.raw_tensor.shape)

    with pytest.raises(AssertionError, match="asked for shape"):
        check_closed(Run("broken", lambda w: (call, [w.floats(w.batch, w.feat)])))
