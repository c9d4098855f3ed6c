"""Random tensors: what is drawn, that it repeats, that dropout keeps the mean."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from asserting import assert_same, raises_message, tensor, using_backend

import rfnb as rf
from rfnb import Dim, DimError

many, batch = Dim(20000, name="many"), Dim(3, name="batch")


@pytest.fixture(params=["torch", "numpy"], autouse=True)
def backend(request):
    with using_backend(request.param):
        state = rf.get_random_state()
        rf.set_random_seed(42)
        yield request.param
        rf.set_random_state(state)


def test_uniform_indices_into_a_dim_are_integers():
    drawn = rf.random_uniform([many], sparse_dim=batch, maxval=3)
    assert drawn.dtype == rf.get_default_array_index_dtype() and drawn.sparse_dim is batch
    assert np.unique(drawn.numpy()).tolist() == [0, 1, 2]
    assert rf.random_uniform([many], sparse_dim=batch, dtype="float32").dtype == "float32"


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


def test_truncated_normal_has_the_moments_of_the_formula():
    # Johnson et al. 1994, section 10.1: mean and variance of N(0, 1) given -0.5 < x < 2
    low, high = -0.5, 2.0
    density = [math.exp(-x * x / 2) / math.sqrt(2 * math.pi) for x in (low, high)]
    mass = NormalDist().cdf(high) - NormalDist().cdf(low)
    mean = (density[0] - density[1]) / mass
    variance = 1 + (low * density[0] - high * density[1]) / mass - mean**2
    values = rf.random_truncated_normal([many], mean=10.0, stddev=3.0, minval=8.5, maxval=16.0).numpy()
    assert abs((values.mean() - 10) / 3 - mean) < 0.02
    assert abs(values.var() / 9 - variance) < 0.02


@pytest.mark.parametrize("sign", [1, -1])
def test_truncated_normal_far_in_the_tail(sign):
    low, high = sorted((sign * 8.0, sign * 9.0))
    values = rf.random_truncated_normal([many], minval=low, maxval=high).numpy()
    assert low <= values.min() and values.max() <= high
    assert abs(np.abs(values).mean() - 8.12) < 0.02  # the tail decays like exp(-8 x)


def test_without_spread_all_are_the_mean():
    assert (rf.random_truncated_normal([batch], mean=2.0, stddev=0.0).numpy() == 2).all()
    assert (rf.random_truncated_normal([batch], mean=2.0, stddev=0.0, minval=1).numpy() == 2).all()
    assert (rf.random_normal([batch], mean=2.0, stddev=0.0).numpy() == 2).all()
    assert (rf.random_uniform([batch], minval=2.0, maxval=2.0).numpy() == 2).all()


def test_a_bound_is_for_both_sides():
    values = rf.random([many], distribution="uniform", bound=0.5).numpy()
    assert -0.5 <= values.min() < -0.49 and 0.49 < values.max() < 0.5


def test_parameters_per_frame():
    mean, stddev = tensor([0.0, 10.0, 20.0], batch), tensor([1.0, 2.0, 0.0], batch)
    for draw in (rf.random_normal, rf.random_truncated_normal):
        values = draw([many, batch], mean=mean, stddev=stddev).numpy()
        scale = 1 if draw is rf.random_normal else 0.8796  # of a standard normal number within 2
        assert np.abs(values.mean(0) - [0, 10, 20]).max() < 0.1
        assert np.abs(values.std(0) - [scale, 2 * scale, 0]).max() < 0.05
    high = tensor([1.0, 5.0, 9.0], batch)
    values = rf.random_uniform([many, batch], minval=-1, maxval=high).numpy()
    assert values.min() >= -1 and (values.max(0) < high.numpy()).all() and (values.max(0) > high.numpy() - 0.1).all()
    ids = rf.random_uniform([many, batch], minval=-1, maxval=high, dtype="int32").numpy()
    assert [set(ids[:, index]) for index in range(3)] == [set(range(-1, end)) for end in (1, 5, 9)]


def test_no_gradient_to_the_parameters(backend):
    mean = tensor([0.0, 10.0, 20.0], batch)
    if backend == "torch":
        rf.set_requires_gradient(mean)
        assert not rf.random_normal([batch], mean=mean).raw_tensor.requires_grad


def test_marks():
    x = rf.random([many, batch], distribution="uniform", dtype="int64", maxval=3, sparse_dim=batch, feature_dim=many)
    assert (x.sparse_dim, x.feature_dim, x.dtype) == (batch, many, "int64")


# -- where the numbers come from ---------------------------------------------------------------------------------------
def test_a_seed_of_its_own_repeats_the_values_and_leaves_the_generator_alone():
    state = rf.get_random_state()
    first = rf.random_uniform([many], seed=3)
    assert_same(rf.random_uniform([many], seed=3), first, tolerance=0)
    assert rf.get_random_state() == state
    assert (rf.random_uniform([many], seed=4).numpy() != first.numpy()).any()
    assert (rf.random_uniform([many], seed=np.asarray([3, 4])).numpy() != first.numpy()).any()


def test_static_numbers_are_the_same_in_each_step_and_differ_within():
    steps = []
    for _ in range(2):
        rf.reset_step_random_state()
        steps.append([rf.random_normal([many], static=True) for _ in range(2)])
    assert_same(steps[1], steps[0], tolerance=0)
    assert (steps[0][0].numpy() != steps[0][1].numpy()).all()


def test_step_based_seeds():
    rf.reset_step_random_state()
    first, several = rf.get_static_step_based_seed(), rf.get_static_step_based_seed(size=3)
    assert isinstance(first, int) and several.shape == (3,) and 0 <= first < 2**31
    rf.reset_step_random_state()
    assert rf.get_static_step_based_seed() == first
    rf.set_random_seed(43)
    assert rf.get_static_step_based_seed() != first


def test_the_random_state_has_the_step_based_seeds_too():
    rf.get_static_step_based_seed()
    state = rf.get_random_state()
    assert all(isinstance(value, bytes) for value in state.values())
    first = rf.get_static_step_based_seed()
    rf.set_random_seed(7)
    rf.set_random_state(state)
    assert rf.get_static_step_based_seed() == first
    assert rf.get_random_state().keys() == state.keys()


def test_an_explicit_state():
    array = np.frombuffer(bytearray(rf.get_random_state()["cpu"]), np.uint8)
    state = tensor(array, Dim(len(array), name="state"))
    values = rf.random_normal([many])
    options = {"distribution": "normal", "explicit_state": state}
    assert_same(rf.random([many], **options), values, tolerance=0)
    assert_same(rf.random([many], **options, auto_update_state=True), values, tolerance=0)
    after = rf.random([many], **options)
    assert_same(after, rf.random_normal([many]), tolerance=0)  # both go on from after the first


def test_out_is_written_in_place():
    out = rf.zeros([batch, many])
    raw = out.raw_tensor
    result = rf.random_uniform([many, batch], minval=1, maxval=2, out=out)
    assert result is out and out.raw_tensor is raw and out.numpy().min() >= 1
    weight = rf.Parameter([batch])
    rf.random_normal([batch], out=weight, mean=5.0, stddev=0.0)
    assert weight.numpy().tolist() == [5.0] * 3


def test_nothing_to_draw():
    none = Dim(0, name="none")
    for draw in (rf.random_uniform, rf.random_normal, rf.random_truncated_normal):
        assert draw([none, batch]).numpy().shape == (0, 3)
    assert rf.random_uniform([none], dtype="int32", minval=0, maxval=0).numpy().shape == (0,)


STATE = """
        random_normal: explicit_state is no state of a generator.
          explicit_state  [batch=3] float32
        It is uint8 over one dim: bytes of `get_random_state`.
            state = np.frombuffer(bytearray(rf.get_random_state()["cpu"]), np.uint8)
            state = rf.convert_to_tensor(state, dims=[Dim(len(state))])
        """
ERRORS = {
    "an unknown name": (
        lambda: rf.random([batch], distribution="cauchy"),
        ValueError,
        """
        random: unknown distribution "cauchy".
          known  uniform, normal, truncated_normal
        It is one of these.
            distribution="uniform"
        """,
    ),
    "a parameter of another distribution": (
        lambda: rf.random([batch], distribution="normal", bound=1),
        ValueError,
        """
        random: "normal" has no bound.
          parameters  mean, stddev
        Each distribution has its own parameters.
        """,
    ),
    "two bounds": (
        lambda: rf.random([batch], distribution="uniform", bound=1, minval=0),
        ValueError,
        """
        random: bound and minval or maxval.
          bound   1
          minval  0
          maxval  None
        The bound determines both: from -bound to bound.
        """,
    ),
    "an empty interval": (
        lambda: rf.random_uniform([batch], minval=2, maxval=1),
        ValueError,
        """
        random_uniform: there is nothing between the bounds.
          minval  2
          maxval  1
        Numbers are at least minval and below maxval.
        """,
    ),
    "an empty truncation": (
        lambda: rf.random_truncated_normal([batch], minval=3),
        ValueError,
        """
        random_truncated_normal: there is nothing between the bounds.
          minval  3
          maxval  2.0
        Numbers are at least minval and at most maxval.
        """,
    ),
    "bounds per frame": (
        lambda: rf.random_truncated_normal([batch], minval=tensor([1.0, 2.0, 3.0], batch)),
        TypeError,
        """
        random_truncated_normal: bounds with Tensors.
          mean    0.0
          stddev  1.0
          minval  [batch=3]
          maxval  None
        With bounds of its own, the distribution is the same for all frames: its parameters are numbers.
        """,
    ),
    "a negative spread": (
        lambda: rf.random_normal([batch], stddev=-1),
        ValueError,
        """
        random_normal: a negative standard deviation.
          stddev  -1
        It is 0 or more.
        """,
    ),
    "normal integers": (
        lambda: rf.random_normal([batch], dtype="int32"),
        TypeError,
        """
        random_normal: numbers of this distribution are floats.
          dtype  int32
        Integers come from the uniform distribution.
            rf.random_uniform(..., dtype="int32")
        """,
    ),
    "parameters over another dim": (
        lambda: rf.random_normal([many], mean=tensor([1.0, 2.0, 3.0], batch)),
        DimError,
        """
        random_normal: a parameter has other dims.
          dims       [many=20000]
          parameter  [batch=3]
        A parameter has some of the dims of the result.
        """,
    ),
    "another out": (
        lambda: rf.random_normal([many], out=rf.zeros([batch])),
        DimError,
        """
        random_normal: out has other dims.
          dims  [many=20000]
          out   [batch=3]
        The numbers are written to out, which has the same dims, in any order.
        """,
    ),
    "an out of another dtype": (
        lambda: rf.random_normal([batch], dtype="float64", out=rf.zeros([batch])),
        TypeError,
        """
        random_normal: out has another dtype.
          dtype  float64
          out    float32
        The dtype is that of out. Leave it out.
        """,
    ),
    "a state and a seed": (
        lambda: rf.random_normal([batch], explicit_state=rf.zeros([batch]), seed=1),
        ValueError,
        """
        random_normal: a state and a seed.
          explicit_state  [batch=3]
          seed            1
          static          None
        A state determines all following numbers. Leave out the seed (and static).
        """,
    ),
    "no state": (lambda: rf.random_normal([batch], explicit_state=rf.zeros([batch])), TypeError, STATE),
    "an update of nothing": (
        lambda: rf.random_normal([batch], auto_update_state=True),
        ValueError,
        """
        random_normal: auto_update_state without a state.
          explicit_state  None
        Only a given state can be updated.
            rf.random_normal(..., explicit_state=state, auto_update_state=True)
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()


def test_an_algorithm_cannot_be_chosen(backend):
    with raises_message(
        ValueError,
        f"""
        random_uniform: algorithm "philox".
          backend    {backend}
          algorithm  philox
        The algorithm is that of the backend's generator and cannot be chosen. Leave it out.
        """,
    ):
        rf.random_uniform([batch], algorithm="philox")


# -- dropout -----------------------------------------------------------------------------------------------------------
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
