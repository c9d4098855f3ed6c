"""The cause of a wrong result is named if one operation leads to it from the expected one; coincidences are not reported."""

from __future__ import annotations

import numpy as np
import pytest

import rfnb as rf
from rfnb.teaching.difference import difference

X = np.random.default_rng(3).uniform(0.2, 3.0, (4, 5, 3)).astype(np.float32)
SHARES = X / X.sum(1, keepdims=True)


def softmax(x, axis):
    return np.exp(x) / np.exp(x).sum(axis, keepdims=True)


def cut(x, **cells):
    """With a random number in some cells."""
    x = x.copy()
    x[cells["at"]] = np.random.default_rng(5).normal(size=x[cells["at"]].shape)
    return x


CAUSES = {
    "What you got is twice what is expected, in every cell.": (2 * X, X),
    "What you got is half of what is expected, in every cell.": (X / 2, X),
    "What you got is the negative of what is expected, in every cell.": (-X, X),
    "What you got is 7 times what is expected, in every cell.": (7 * X, X),
    "What you got is 0.3 too large in every cell.": (X + 0.3, X),
    "It is 0 everywhere.": (0 * X, X),
    "What you got is one minus what is expected.": (1 - X, X),
    "What you got is 1 divided by what is expected.": (1 / X, X),
    "What you got is the absolute value of what is expected.": (np.abs(X - 1), X - 1),
    "What you got is what is expected cut off to whole numbers.": (np.trunc(X), X),
    "What you got is what is expected rounded to 1 digit.": (np.round(X, 1), X),
    "What you got is the tanh of what is expected: one tanh too many.": (np.tanh(X), X),
    "What is expected is the tanh of what you got: the tanh is missing.": (X, np.tanh(X)),
    "What is expected is the sigmoid of what you got: the sigmoid is missing.": (X, 1 / (1 + np.exp(-X))),
    "What you got is the logarithm of what is expected: one logarithm too many.": (np.log(X), X),
    "What is expected is the logarithm of what you got: the logarithm is missing.": (X, np.log(X)),
    "It is right with its axes in the other order.": (X[:3, 0].T, X[:3, 0]),
    "It is right with its axes 1 and 2 in the other order.": (X[:, :3].swapaxes(1, 2), X[:, :3]),
    "It is right in the reverse order along axis 1.": (X[:, ::-1], X),
    "It is right, but one place too late along axis 1.": (np.roll(X, 1, 1), X),
    "It is right, but one place too early along axis 0.": (np.roll(X, -1, 0), X),
    "What is expected is the softmax of what you got along axis 1: the softmax is missing.": (X, softmax(X, 1)),
    "What you got is the softmax of what is expected along axis 2: one softmax too many.": (softmax(X, 2), X),
    "Each row is a multiple of what is expected along axis 0: 2, 3, 4, 5 times.": (X * np.arange(2, 6)[:, None, None], X),
    "What is expected sums to 1 along axis 1; what you got sums to 1.5 somewhere.": (
        SHARES + 0.1 + 1e-2 * (X - X.mean(1, keepdims=True)), SHARES,
    ),
    "Only -inf, or a number as far below, gives a weight of 0: e to the power of what you have there is more.": (
        np.where(X > 2, -10, X), np.where(X > 2, -np.inf, X),
    ),
    "There is NaN in it: 0 divided by 0, or infinity minus infinity.": (np.where(X > 2, np.nan, X), X),
    "It is upside down: true and false have changed places.": (X > 2, X <= 2),
    "Where the index of axis 0 is 0, 2 and 3 all cells are right; where it is 1 they are not.": (cut(X, at=1), X),
    "Where the index of axis 1 is 0 to 2 all cells are right; where it is 3 and 4 they are not.": (
        cut(X, at=np.s_[:, 3:]), X,
    ),
}  # fmt: skip


@pytest.mark.parametrize("said", CAUSES)
def test_the_cause_is_named_in_a_sentence(said):
    got, expected = CAUSES[said]
    found = difference(got, expected)
    assert found is not None and found.rule == said


def test_a_named_axis_is_said_by_its_name_and_padding_is_left_out():
    batch = rf.Dim(4, name="batch")
    time = rf.ragged_dim([5, 2, 4, 3], over=batch, name="time")
    feature = rf.Dim(3, name="feature")
    dims = batch, time, feature
    wrong = rf.convert_to_tensor(cut(X, at=(2, slice(None, 4))), dims=dims)
    found = difference(wrong, rf.convert_to_tensor(X, dims=dims))
    assert found is not None and found.rule.startswith("Where batch is 0, 1 and 3 all cells are right;")
    dirty = np.where(np.arange(5)[:, None] < np.array([5, 2, 4, 3])[:, None, None], 2 * X, 777)
    found = difference(rf.convert_to_tensor(dirty.astype(np.float32), dims=dims), rf.convert_to_tensor(X, dims=dims))
    assert found is not None and "twice" in found.rule


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("shape", [(), (1,), (2,), (3, 2), (2, 2), (4, 5, 3)])
def test_of_other_numbers_nothing_is_said(seed, shape):
    numbers = np.random.default_rng(seed)
    found = difference(numbers.normal(size=shape), numbers.normal(size=shape))
    assert found is not None and found.rule == ""


@pytest.mark.parametrize(("got", "expected"), [(0.0, 0.2857), (0.3, 0.3333), (1, 0), (0, 1), (1.0, 0.8265), (0.5, 2.0)])
def test_of_one_number_chance_is_no_cause(got, expected):
    found = difference(got, expected)
    assert found is not None and found.rule == ""
