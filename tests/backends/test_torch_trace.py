"""The torch backend tells which calls of torch a program may repeat."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from rfnb.backends.raw_calls import ASK, CALL, CHANGE, MADE
from rfnb.backends.registry import get_backend_by_raw_tensor_type

TORCH = get_backend_by_raw_tensor_type(torch.Tensor)
X, INDEX = torch.arange(6.0).reshape(2, 3), torch.tensor([0, 2])


class Doubled(torch.autograd.Function):
    """A function with a derivative of its own."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 7


def kinds(fn):
    with TORCH.trace_calls() as calls:
        fn()
    return [call.kind for call in calls]


@pytest.mark.parametrize(
    "fn",
    [lambda: X + 1, lambda: 1 - X, lambda: X[0], lambda: X[:, INDEX], lambda: X.t(), lambda: X.T, lambda: torch.cat([X, X]),
     lambda: X.split([1, 2], 1), lambda: X.max(1), lambda: F.linear(X, X), lambda: torch.full((2,), 0.0), lambda: X.to(torch.float64),
     lambda: torch.where(X > 1, X, 0), lambda: F.cross_entropy(X, INDEX), lambda: torch.tensor([1, 2])],
)  # fmt: skip
def test_what_depends_on_the_arguments_only(fn):
    assert set(kinds(fn)) == {CALL}


@pytest.mark.parametrize(
    "fn",
    [lambda: X.clone().add_(1), lambda: X.clone().__setitem__(0, 1), lambda: X.clone().__iadd__(1),
     lambda: torch.empty(3).bernoulli_(0.5)],
)  # fmt: skip
def test_what_changes_its_argument(fn):
    assert kinds(fn) == [CALL, CHANGE]


@pytest.mark.parametrize(
    "fn",
    [lambda: X.shape, lambda: X.dtype, lambda: X.requires_grad, lambda: X.size(0), lambda: X.dim(), lambda: X.is_cpu],
)
def test_what_asks_for_the_kind_of_an_array(fn):
    assert kinds(fn) == [ASK]


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (lambda: X.tolist(), "reads values (tolist)"),
        (lambda: bool(X[0, 0] > 1), "reads values (__bool__)"),
        (lambda: int(X[0, 0]), "reads values (__int__)"),
        (lambda: X[0, 0].item(), "reads values (item)"),
        (lambda: X.numpy(), "reads values (numpy)"),
        (lambda: np.asarray(X), "reads values (__array__)"),
        (lambda: torch.equal(X, X), "reads values (equal)"),
        (lambda: X.is_contiguous(), "reads values (is_contiguous)"),
        (lambda: X.data_ptr(), "reads values (data_ptr)"),
        (lambda: X[X > 1], "gives a shape that depends on values (__getitem__)"),
        (lambda: X.nonzero(), "gives a shape that depends on values (nonzero)"),
        (lambda: torch.where(X > 1), "gives a shape that depends on values (where)"),
        (lambda: torch.unique(X), "gives a shape that depends on values (unique)"),
        (lambda: torch.masked_select(X, X > 1), "gives a shape that depends on values (masked_select)"),
        (lambda: X.clone().requires_grad_(), "calls requires_grad_"),
        (lambda: torch.add(X, X, out=torch.empty(2, 3)), "writes into an argument (add)"),
        (lambda: F.batch_norm(X, torch.zeros(3), torch.ones(3), training=True), "writes into an argument (batch_norm)"),
    ],
)
def test_what_cannot_be_repeated(fn, reason):
    assert kinds(fn)[-1] == reason


def test_what_is_made_of_values_of_the_host():
    assert kinds(lambda: TORCH.from_numpy(np.zeros(2)))[-1] == MADE


def test_a_function_with_a_derivative_of_its_own_is_not_repeated_by_its_parts():
    x = torch.ones(2, requires_grad=True)
    assert kinds(lambda: Doubled.apply(x)) == ["runs under a mode of its own"]
    with torch.no_grad():
        assert kinds(lambda: Doubled.apply(x)) == [CALL]


def test_calls_without_gradients_inside_are_not_repeated_with_them():
    def fn():
        with torch.no_grad():
            return X + 1

    assert "runs under a mode of its own" in kinds(fn)


def test_two_arrays_differ_by_dtype_and_tracking_of_gradients():
    signature = TORCH.signature_raw
    assert signature(X) == signature(X + 1) != signature(X.double())
    assert signature(X) != signature(X.clone().requires_grad_())
