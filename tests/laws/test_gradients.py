"""The laws of gradients can fail; see `gradients.py`."""

import pytest
import torch
from gradients import GRADIENT_LAWS, NOT_SMOOTH, WITHOUT_GRADIENT, doubles
from laws import Run
from table import CASES, read_entries
from torch.autograd.gradcheck import GradcheckError
from world import world

import rfnb as rf
from rfnb import Tensor

read_entries()


def test_the_lists_of_exceptions_have_only_cases_with_a_reason():
    for listed in (WITHOUT_GRADIENT, NOT_SMOOTH):
        assert [name for name, reason in listed.items() if name not in CASES or not reason] == []


# -- the laws can fail -------------------------------------------------------------------------------------------------
class _WrongBackward(torch.autograd.Function):
    """x², with half of its derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]


def wrong_backward(w):
    def call(x):
        return Tensor(dims=x.dims, raw_tensor=_WrongBackward.apply(x.raw_tensor))

    return call, [w.floats(w.batch, w.feat)]


def lost_gradient(w):
    """By way of NumPy."""
    return lambda x: rf.convert_to_tensor(x.numpy(), dims=x.dims), [w.floats(w.batch, w.feat)]


def padding_in_a_sum(w):
    """Right in the forward direction as long as the padding is 0."""
    return lambda x: rf.reduce_sum(x, axis=w.time, use_mask=False), [w.floats(w.batch, w.time)]


def masked_too_late(w):
    """Right values, but the gradient of the scale sums over the padding too."""

    def call(x, scale):
        product = Tensor(dims=x.dims, raw_tensor=x.raw_tensor * scale.raw_tensor[:, None])
        return rf.reduce_sum(product, axis=w.time)

    return call, [w.floats(w.batch, w.time), w.floats(w.batch)]


def infinite_derivative(w):
    """A root has none at 0."""

    def call(x):
        return Tensor(dims=x.dims, raw_tensor=x.raw_tensor.abs().sqrt())

    return call, [w.floats(w.batch, w.time, low=0.5)]


def false_mark(w):
    """Says of padding that it is finite, which it is not."""

    def call(x):
        out = Tensor(dims=x.dims, raw_tensor=x.raw_tensor * 2)
        out._finite = True
        return out

    return call, [w.floats(w.batch, w.time)]


BROKEN = {
    wrong_backward: "derivative",
    lost_gradient: "derivative",
    padding_in_a_sum: "gradient of padding",
    masked_too_late: "garbage in padding",
    infinite_derivative: "garbage in padding",
    false_mark: "garbage in padding",
}


def fails(law, name, case, times=8):
    """Whether the law sees something wrong in one of a few draws."""
    for seed in range(times):
        try:
            with doubles():
                GRADIENT_LAWS[law](Run(name, case, lambda seed=seed: world(seed=seed)))
        except (AssertionError, GradcheckError):
            return True
    return False


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.__name__)
def test_a_broken_backward_breaks_its_law(case):
    assert fails(BROKEN[case], "broken", case)


@pytest.mark.parametrize("law", GRADIENT_LAWS)
def test_the_draws_break_no_sound_op(law):
    assert not fails(law, "softmax", CASES["softmax"])
