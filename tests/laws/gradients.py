"""The law of gradients as functions: what backward gives is the derivative, and padding has no part in it, whatever it holds.

A case is that of `laws.py`. Its result becomes one number: the sum of all finite floats in its real frames, each with a fixed
random weight, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from asserting import real_frames, tensor, with_padding
from laws import Run

import rfnb as rf
from rfnb import Parameter, Tensor

# Cases of which some float results have no gradient although an input has floats, each with the reason.
WITHOUT_GRADIENT: dict[str, str] = {
    "stop_gradient": "that is what it is for",
    "Parameter assign_key": "writes in place, outside of what is learned",
    "zeros_like": "constant",
    "ones_like": "constant",
    "BatchNorm in training": "the running statistics are no function to learn from",
    "linspace_over_dim": "one of the two is between numbers",
    "RunningMean": "it is a statistic",
    "PositionalEncoding": "positions alone are constant",
    **dict.fromkeys(
        "ctc_prefix_beam_search transducer_beam_search transducer_greedy_decode transducer_forced_align".split(),
        "what goes on is no function to learn from",
    ),
}
# Cases whose result is not continuous in floats (or not computed in float64), so that there is nothing to compare with.
NOT_SMOOTH: dict[str, str] = {
    "stop_gradient": "the derivative that it hides",
    "cast": "rounds to float16",
    **dict.fromkeys(
        "ctc_prefix_beam_search transducer_beam_search transducer_greedy_decode transducer_forced_align".split(),
        "scores come without gradient",
    ),
    "BatchNorm in training": "the running statistics hide their derivative",
    **dict.fromkeys(
        "scaled_gradient scaled_gradient_ext label_smoothed_log_prob_gradient".split(), "another one is the point"
    ),
}
# What an op may find in the padding; the square of the last is infinite.
GARBAGE = (float("nan"), float("inf"), float("-inf"), 0.0, 1e200)


def check_derivative(run: Run) -> None:
    """Backward agrees with the differences of nearby results."""
    if run.name in NOT_SMOOTH:
        return
    with doubles():
        total, inputs = _as_one_number(run.name, run.call, run.inputs)
        sizes = [x.raw_tensor.numel() for x in inputs]
        flat = torch.cat([torch.zeros(0, dtype=torch.float64), *(x.raw_tensor.flatten() for x in inputs)])

        def of_flat(flat: Any) -> Any:
            return total(*(raw.view(x.raw_tensor.shape) for raw, x in zip(flat.split(sizes), inputs)))

        flat.requires_grad_()
        if flat.numel() and of_flat(flat).requires_grad:
            torch.autograd.gradcheck(of_flat, flat, fast_mode=True, eps=1e-6, atol=1e-4, rtol=1e-3)


def check_padding(run: Run) -> None:
    """The gradient of padding is exactly 0."""
    if not run.has_padding:
        return
    with doubles():
        total, inputs = _as_one_number(run.name, run.call, run.inputs)
        for x, gradient in zip(inputs, _gradients(total, inputs)):
            assert (gradient[~real_frames(x.dims)] == 0).all(), f"{run.name}: the padding of {x} has a gradient"


def check_garbage(run: Run) -> None:
    """The content of the padding changes no gradient of real frames or of shared values, and gets the gradient 0.

    Before the op something shared is added to each input; after it each result is scaled by something shared and goes through a
    nonlinear function. So it shows what the op gives to the gradient of its padding, and what it leaves in that of its result.
    """
    if not run.has_padding:
        return
    with doubles():
        total, inputs = _as_one_number(run.name, *_between_shared(run.call, run.inputs))
        expected = _gradients(total, inputs)
        for garbage in GARBAGE:
            spoiled = [with_padding(x, garbage) for x in inputs]
            for x, got, clean in zip(inputs, _gradients(total, spoiled), expected):
                real, where = real_frames(x.dims), f"{run.name}, padding {garbage}: {x}"
                np.testing.assert_allclose(got[real], clean[real], rtol=1e-6, atol=1e-9, err_msg=where)
                assert (got[~real] == 0).all(), f"{where}: padding has a gradient"


def _between_shared(call: Callable[..., Any], inputs: list[Tensor]) -> tuple[Callable[..., Any], list[Tensor]]:
    """The call with scalars as further inputs: one is added to each float, one scales each result."""
    floats = [rf.is_float_dtype(x.dtype) for x in inputs]

    def shared_call(gain: Tensor, *values: Tensor) -> Any:
        values, shifts = values[: len(inputs)], iter(values[len(inputs) :])
        result = call(*(x + next(shifts) if is_float else x for x, is_float in zip(values, floats)))
        return [rf.tanh(_zero_for_infinite(x) * gain) for x in _floats_of(result)]

    return shared_call, [tensor(0.3), *inputs, *(tensor(0.0) for is_float in floats if is_float)]


GRADIENT_LAWS = {
    "derivative": check_derivative,
    "gradient of padding": check_padding,
    "garbage in padding": check_garbage,
}


@contextmanager
def doubles() -> Iterator[None]:
    """Parameters are float64, and what is assigned to them keeps its gradient."""
    with rf.set_default_float_dtype_ctx("float64"), patch.object(Parameter, "assign", _assign):
        yield


def _assign(parameter: Parameter, value: Any) -> None:
    if not isinstance(value, Tensor):
        value = rf.full(dims=(), fill_value=value, dtype=parameter.dtype)
    parameter._raw = value.copy_compatible_to_dims_raw(parameter.dims).expand(parameter._raw.shape).clone()


def _as_one_number(
    name: str, call: Callable[..., Any], inputs: list[Tensor]
) -> tuple[Callable[..., Any], list[Tensor]]:
    """A function of the raw arrays of the float inputs, and these inputs."""
    inputs = [rf.cast(x, "float64") if x.dtype == "float32" else x for x in inputs]
    floats = [x for x in inputs if x.dtype == "float64"]

    def total(*raws: Any) -> Any:
        new = iter(raws)
        values = [Tensor(dims=x.dims, raw_tensor=next(new)) if x.dtype == "float64" else x for x in inputs]
        weights = torch.Generator().manual_seed(0)
        out: Any = torch.zeros((), dtype=torch.float64)
        for leaf in _floats_of(call(*values)):
            raw = leaf.raw_tensor
            if raws and all(x.numel() for x in raws) and name not in WITHOUT_GRADIENT:
                assert raw.requires_grad or raw.numel() == 0, f"{name}: {leaf} has no gradient"
            real = torch.from_numpy(real_frames(leaf.dims)) & raw.isfinite()
            weight = torch.rand(raw.shape, generator=weights, dtype=torch.float64) + 0.5
            out = out + (torch.where(real, raw, 0) * weight).sum()
        return out

    return total, floats


def _zero_for_infinite(x: Tensor) -> Tensor:
    """x with 0 for those of its real frames that are infinite; its padding stays."""
    infinite = real_frames(x.dims) & ~np.isfinite(x.raw_tensor.detach().numpy())
    return rf.where(tensor(infinite, *x.dims), 0.0, x) if infinite.any() else x


def _floats_of(result: Any) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        if rf.is_float_dtype(result.dtype):
            yield result
    elif isinstance(result, (list, tuple)):
        for part in result:
            yield from _floats_of(part)
    elif isinstance(result, dict):
        yield from _floats_of(list(result.values()))


def _gradients(total: Callable[..., Any], inputs: list[Tensor]) -> list[np.ndarray]:
    raws = [x.raw_tensor.detach().clone().requires_grad_() for x in inputs]
    value = total(*raws)
    if not value.requires_grad:
        return [np.zeros(raw.shape) for raw in raws]
    found = torch.autograd.grad(value, raws, allow_unused=True)
    return [np.zeros(raw.shape) if got is None else got.numpy() for raw, got in zip(raws, found)]
