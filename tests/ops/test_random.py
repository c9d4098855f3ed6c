"""Random tensors: what is drawn, that it repeats, that dropout keeps the mean."""

import numpy as np
import pytest
from asserting import assert_same, raises_message, using_backend

import rfnb as rf
from rfnb import Dim

many, batch = Dim(20000, name="many"), Dim(3, name="batch")


@pytest.fixture(params=["torch", "numpy"], autouse=True)
def backend(request):
    with using_backend(request.param):
        state = rf.get_random_state()
        rf.set_random_seed(42)
        yield request.param
        rf.set_random_state(state)


def test_a_seed_repeats_the_values():
    first = rf.random_normal([many])
    rf.set_random_seed(42)
    assert_same(rf.random_normal([many]), first, tolerance=0)


def test_a_state_repeats_the_values():
    state = rf.get_random_state()
    first = rf.random_uniform([many])
    rf.set_random_state(state)
    assert_same(rf.random_uniform([many]), first, tolerance=0)


def test_uniform():
    values = rf.random_uniform([many], minval=-1, maxval=3).numpy()
    assert values.dtype == np.float32
    assert -1 <= values.min() < -0.99 and 2.99 < values.max() < 3
    assert abs(values.mean() - 1) < 0.05


def test_uniform_integers_reach_all_values_but_the_end():
    ids = rf.random_uniform([many], dtype="int32", minval=0, maxval=3, sparse_dim=batch)
    assert ids.sparse_dim is batch and set(ids.numpy()) == {0, 1, 2}


def test_normal():
    values = rf.random_normal([many], mean=2.0, stddev=3.0).numpy()
    assert abs(values.mean() - 2) < 0.1 and abs(values.std() - 3) < 0.1


def test_truncated_normal_stays_within_two_standard_deviations():
    values = rf.random_truncated_normal([many], mean=1.0, stddev=2.0).numpy()
    assert -3 <= values.min() < -2.9 and 4.9 < values.max() <= 5


def test_by_name():
    assert rf.random([batch], distribution="uniform", minval=5, maxval=6).numpy().min() >= 5
    assert rf.random([batch], distribution="truncated_normal", stddev=0.1).numpy().max() <= 0.2
    assert abs(rf.random([batch], distribution="normal", mean=100.0).numpy().mean() - 100) < 5


def test_an_unknown_name():
    with raises_message(
        ValueError,
        """
        random: unknown distribution "cauchy".
          known  uniform, normal, truncated_normal
        It is one of these.
        """,
    ):
        rf.random([batch], distribution="cauchy")


def test_dropout_zeroes_or_scales():
    values = rf.dropout(rf.ones([many]), 0.25, on_forward=True).numpy()
    assert np.unique(values).tolist() == pytest.approx([0.0, 4 / 3])
    assert abs(values.mean() - 1) < 0.03


def test_dropout_with_an_axis_shares_the_choice_over_the_others():
    values = rf.dropout(rf.ones([many, batch]), 0.5, axis=many, on_forward=True).numpy()
    assert (values == values[:, :1]).all()
    assert set(np.unique(values)) == {0.0, 2.0}


def test_dropout_outside_of_training_is_the_source_itself():
    x = rf.ones([batch])
    assert rf.dropout(x, 0.5) is x
