"""assert_: bools and Tensors, stopping and warning."""

import pytest
from asserting import ragged, raises_message, tensor, using_backend

import rfnb as rf
from rfnb import Dim

batch = Dim(2, name="batch")
time = ragged([3, 1], batch)
POSITIVE = [[1.0, 2.0, 3.0], [1.0, -1.0, -1.0]]  # negative in the padding only


@pytest.mark.parametrize("backend", ["torch", "numpy"])
def test_a_condition_holds_in_all_real_frames(backend):
    with using_backend(backend):
        x = tensor(POSITIVE, batch, time)
        rf.assert_(x > 0, "positive")
        with raises_message(AssertionError, "below 3"):
            rf.assert_(x < 3, "below 3")


def test_a_bool():
    rf.assert_(True, "fine")
    with raises_message(AssertionError, "not so"):
        rf.assert_(False, "not so")


@pytest.mark.parametrize("condition", [lambda: False, lambda: tensor([True, False], batch)])
def test_without_stop_it_only_warns(condition):
    with pytest.warns(RuntimeWarning, match="^not so$"):
        rf.assert_(condition(), "not so", stop=False)


def test_a_condition_that_is_not_bool():
    with raises_message(
        TypeError,
        """
        assert_: the condition is not bool.
          condition  [batch=2, time<=3] float32
        The condition states for each frame whether it is valid.
            rf.assert_(x > 0, ...)
        """,
    ):
        rf.assert_(tensor(POSITIVE, batch, time), "positive")
