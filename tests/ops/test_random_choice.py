"""Random choices: their frequencies, what is never chosen, and the shapes."""

import math

import numpy as np
import pytest
from asserting import ragged, raises_message, tensor, using_backend

import rfnb as rf
from rfnb import Dim, DimError

many, classes = Dim(20000, name="many"), Dim(4, name="classes")
batch, two = Dim(2, name="batch"), Dim(2, name="two")
time = ragged([3, 1], batch)
PROBS = [0.1, 0.6, 0.0, 0.3]


@pytest.fixture(params=["torch", "numpy"], autouse=True)
def backend(request):
    with using_backend(request.param):
        state = rf.get_random_state()
        rf.set_random_seed(42)
        yield request.param
        rf.set_random_state(state)


def frequencies(ids, size=4):
    return np.bincount(np.ravel(ids), minlength=size) / np.size(ids)


def test_with_replacement_each_is_chosen_with_its_probability():
    ids = rf.random_choice_with_replacement([many], probs=tensor(PROBS, classes) * 5, axis=classes)
    assert (ids.sparse_dim, ids.dtype, ids.dims) == (classes, "int32", (many,))
    assert np.abs(frequencies(ids.numpy()) - PROBS).max() < 0.01
    assert frequencies(ids.numpy())[2] == 0


def test_with_replacement_each_sequence_has_its_own_distribution():
    probs = tensor([PROBS, PROBS[::-1]], batch, classes)
    ids = rf.random_choice_with_replacement([many, batch], probs=probs, axis=classes)
    assert ids.dims == (many, batch)
    for index, expected in enumerate((PROBS, PROBS[::-1])):
        assert np.abs(frequencies(ids.numpy()[:, index]) - expected).max() < 0.01


def test_with_replacement_padding_is_never_chosen():
    probs = tensor([[1.0, 1.0, 2.0], [1.0, math.nan, 5.0]], batch, time)
    ids = rf.random_choice_with_replacement([batch, many], probs=probs, axis=time).numpy()
    assert np.abs(frequencies(ids[0], 3) - [0.25, 0.25, 0.5]).max() < 0.01
    assert not ids[1].any()


def test_with_replacement_rare_ones_are_as_rare_as_they_are():
    rare = np.full(1000, 1e-9)
    rare[0] = 1.0
    entries = Dim(1000, name="entries")
    ids = rf.random_choice_with_replacement([many], probs=tensor(rare, entries), axis=entries).numpy()
    assert (ids != 0).mean() < 0.001


def first_two(log_probs, **options):
    return rf.random_choice_without_replacement(log_probs=log_probs, axis=classes, num_samples_dim=two, **options)


def test_without_replacement_all_are_different_and_in_the_order_of_choice():
    log_probs = rf.expand_dim(rf.log(tensor(PROBS, classes)), many)
    ids = first_two(log_probs)
    assert ids.sparse_dim is classes and ids.dims == (many, two)
    first, second = ids.numpy().T
    assert (first != second).all() and not (ids.numpy() == 2).any()
    assert np.abs(frequencies(first) - PROBS).max() < 0.01
    # of those left after class 1: 0.1 and 0.3
    assert np.abs(frequencies(second[first == 1]) - [0.25, 0.0, 0.0, 0.75]).max() < 0.02


def test_without_noise_the_most_probable_are_chosen():
    log_probs = rf.log(tensor(PROBS, classes))
    assert first_two(log_probs, noise_scale=0).numpy().tolist() == [1, 3]


def test_less_noise_is_a_sharper_distribution():
    log_probs = rf.expand_dim(rf.log(tensor(PROBS, classes)), many)
    sharp = np.asarray(PROBS) ** 2 / np.square(PROBS).sum()
    assert np.abs(frequencies(first_two(log_probs, noise_scale=0.5).numpy()[:, 0]) - sharp).max() < 0.01


def test_without_replacement_jointly_from_several_dims():
    log_probs = rf.expand_dim(rf.log(tensor([[0.5, 0.2], [0.0, 0.3]], batch, two)), many)
    one = Dim(1, name="one")
    rows, columns = rf.random_choice_without_replacement(log_probs=log_probs, axis=[batch, two], num_samples_dim=one)
    assert (rows.sparse_dim, columns.sparse_dim) == (batch, two)
    assert np.abs(frequencies(rows.numpy() * 2 + columns.numpy()) - [0.5, 0.2, 0, 0.3]).max() < 0.01


def test_without_replacement_real_frames_come_before_padding():
    ids = rf.random_choice_without_replacement(
        log_probs=tensor([[0.0, 0.0, 0.0], [0.0, math.nan, 9.0]], batch, time), axis=time, num_samples_dim=two
    )
    assert ids.numpy()[1, 0] == 0


ERRORS = {
    "no such axis": (
        lambda: rf.random_choice_with_replacement([many], probs=tensor(PROBS, classes), axis=batch),
        DimError,
        """
        random_choice_with_replacement: no dim batch=2.
          probs  [classes=4]
          dim    batch=2
        The dim batch=2 is not among the dims of probs.
            probs.dims[0]    # classes=4
        """,
    ),
    "a batch dim too little": (
        lambda: rf.random_choice_with_replacement(
            [many, classes], probs=tensor([PROBS, PROBS], batch, classes), axis=classes
        ),
        DimError,
        """
        random_choice_with_replacement: dims are not those of the result.
          dims   [many=20000, classes=4]
          probs  [batch=2, classes=4]
          axis   classes=4
        The result has all dims of probs but the axis, which it is sparse over, and any further ones.
            dims=[batch=2, many=20000]
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()


def test_nothing_to_choose_from():
    none = Dim(0, name="none")
    with raises_message(
        DimError,
        """
        random_choice_with_replacement: nothing to choose from.
          probs  [none=0]
          axis   none=0
        The axis has one entry or more.
        """,
    ):
        rf.random_choice_with_replacement([batch], probs=rf.zeros([none]), axis=none)
