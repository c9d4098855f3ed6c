"""Random tensors, and dropout."""

from __future__ import annotations

import math as numbers
from collections.abc import Sequence
from typing import Any, Never

from rfnb.backends import registry
from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, not_one_of, type_error, value_error
from rfnb.core.layout import full_shape
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_unique, dims_of
from rfnb.core.tensor_text import dims_text, shape_of
from rfnb.ops.cast import cast
from rfnb.ops.defaults import (
    device_of_new,
    get_default_array_index_dtype,
    get_default_float_dtype,
    is_float_dtype,
)
from rfnb.ops.gradient import stop_gradient
from rfnb.ops.math import clip_by_value, combine, floor
from rfnb.ops.random_state import generator_for, update_state
from rfnb.ops.where import where

Value = float | Tensor
_PARAMETERS = {
    "uniform": ("minval", "maxval", "bound"),
    "normal": ("mean", "stddev"),
    "truncated_normal": ("mean", "stddev", "minval", "maxval"),
}


@op(draws=True)
def random(
    dims: Sequence[Dim], *extra: Never, dtype: str | None = None, device: str | None = None, sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None, distribution: str, mean: Value | None = None, stddev: Value | None = None,
    bound: Value | None = None, minval: Value | None = None, maxval: Value | None = None, seed: Any = None,
    algorithm: str | None = None, explicit_state: Tensor | None = None, auto_update_state: bool | None = None,
    static: bool | None = None, out: Tensor | None = None, **unknown: Never) -> Tensor:  # fmt: skip
    """Random numbers from a distribution given by name; {dims}.

    Args:
        dtype: Default: that of out, or the default float dtype; for uniform numbers with a sparse_dim the dtype of indices. Integers
            are supported for the uniform distribution only.
        sparse_dim, feature_dim: Marks of the result.
        distribution: "uniform": in [minval, maxval), default [0, 1), or [-bound, bound).
            "normal": with mean (0) and standard deviation stddev (1).
            "truncated_normal": a normal one given that it is in [minval, maxval], default mean ± 2 stddev.
        mean, stddev, bound, minval, maxval: Numbers, or Tensors with some of dims; no gradient goes to them.
        seed: Seed of a separate generator for this call: the same numbers every time. An int, or an array of ints.
        algorithm: Must be None. Generators use the algorithm of the backend.
        explicit_state: The state of a separate generator for this call: uint8 over one dim, the bytes of `get_random_state`.
        auto_update_state: Write the new state into explicit_state, so that the next call gives other numbers.
        static: Without a seed, use `get_static_step_based_seed`: the same numbers in every step.
        out: A Tensor of the same dims, to write to in place.

    Returns:
        {dims}, or `out`.

    Raises:
        ValueError: For an unknown distribution; parameters that do not belong to it, are inconsistent or out of order; an algorithm;
            or both a seed and a state.
        TypeError: For a dtype that the distribution lacks, an invalid state, or bounds of a truncated normal that differ by frame.
        DimError: If out or a parameter has other dims.
    """
    given = {"mean": mean, "stddev": stddev, "bound": bound, "minval": minval, "maxval": maxval}
    source = {"seed": seed, "algorithm": algorithm, "explicit_state": explicit_state, "static": static,
              "auto_update_state": auto_update_state}  # fmt: skip
    if distribution not in _PARAMETERS:
        raise not_one_of(f'random: unknown distribution "{distribution}".', "distribution", distribution, _PARAMETERS)
    wrong = [name for name, value in given.items() if value is not None and name not in _PARAMETERS[distribution]]
    if wrong:
        raise value_error(
            f'random: "{distribution}" has no {wrong[0]}.',
            {"parameters": ", ".join(_PARAMETERS[distribution])},
            "Each distribution has its own parameters.",
        )
    options: dict[str, Any] = {
        "dtype": dtype, "device": device, "sparse_dim": sparse_dim, "feature_dim": feature_dim, "out": out, **source
    }  # fmt: skip
    if distribution == "uniform":
        if bound is not None:
            if minval is not None or maxval is not None:
                raise value_error(
                    "random: bound and minval or maxval.",
                    {"bound": _text(bound), "minval": _text(minval), "maxval": _text(maxval)},
                    "The bound determines both: from -bound to bound.",
                )
            minval, maxval = -bound, bound
        low, high = 0 if minval is None else minval, 1 if maxval is None else maxval
        return random_uniform(dims, **options, minval=low, maxval=high)
    mean, stddev = 0.0 if mean is None else mean, 1.0 if stddev is None else stddev
    if distribution == "normal":
        return random_normal(dims, **options, mean=mean, stddev=stddev)
    return random_truncated_normal(dims, **options, mean=mean, stddev=stddev, minval=minval, maxval=maxval)


@op(draws=True)
def random_uniform(
    dims: Sequence[Dim], *extra: Never, dtype: str | None = None, device: str | None = None, sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None, minval: Value = 0, maxval: Value = 1, seed: Any = None, algorithm: str | None = None,
    explicit_state: Tensor | None = None, auto_update_state: bool | None = None, static: bool | None = None,
    out: Tensor | None = None, **unknown: Never) -> Tensor:  # fmt: skip
    """Uniform in [minval, maxval), floats or integers; {dims}. See `random`.

    Args:
        dtype: Default: that of out, else with a sparse_dim the dtype of indices, else the default float dtype.

    Raises:
        ValueError: If minval is not below maxval.
    """
    if dtype is None and out is None and sparse_dim is not None:
        dtype = get_default_array_index_dtype()
    draw = _Draw("random_uniform", dims, dtype, device, sparse_dim, feature_dim, out,
                 seed=seed, algorithm=algorithm, explicit_state=explicit_state, auto_update_state=auto_update_state,
                 static=static)  # fmt: skip
    whole = not is_float_dtype(draw.dtype)
    if isinstance(minval, Tensor) or isinstance(maxval, Tensor):
        unit = draw("uniform", 0.0, 1.0, "float64" if whole else None)
        values = draw.plus(draw.times(unit, combine(maxval, "sub", minval)), minval)
        return draw.finish(floor(values) if whole else values)
    if minval > maxval or (whole and minval >= maxval and draw.size):
        raise value_error(
            "random_uniform: there is nothing between the bounds.",
            {"minval": minval, "maxval": maxval},
            "Numbers are at least minval and below maxval.",
        )
    return draw.finish(draw("uniform", minval, maxval))


@op(draws=True)
def random_normal(
    dims: Sequence[Dim], *extra: Never, dtype: str | None = None, device: str | None = None, sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None, mean: Value | None = 0.0, stddev: Value | None = 1.0, seed: Any = None, algorithm: str | None = None,
    explicit_state: Tensor | None = None, auto_update_state: bool | None = None, static: bool | None = None,
    out: Tensor | None = None, **unknown: Never) -> Tensor:  # fmt: skip
    """Normal with `mean` and standard deviation `stddev`; {dims}. See `random`."""
    draw = _Draw("random_normal", dims, dtype, device, sparse_dim, feature_dim, out,
                 seed=seed, algorithm=algorithm, explicit_state=explicit_state, auto_update_state=auto_update_state,
                 static=static)  # fmt: skip
    draw.only_floats()
    mean, stddev = 0.0 if mean is None else mean, 1.0 if stddev is None else stddev
    if isinstance(mean, Tensor) or isinstance(stddev, Tensor):
        return draw.finish(draw.plus(draw.times(draw("normal", 0.0, 1.0), stddev), mean))
    _check_stddev("random_normal", stddev)
    return draw.finish(draw("normal", mean, stddev))


@op(draws=True)
def random_truncated_normal(
    dims: Sequence[Dim], *extra: Never, dtype: str | None = None, device: str | None = None, sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None, mean: Value | None = 0.0, stddev: Value | None = 1.0, minval: Value | None = None,
    maxval: Value | None = None, seed: Any = None, algorithm: str | None = None, explicit_state: Tensor | None = None,
    auto_update_state: bool | None = None, static: bool | None = None, out: Tensor | None = None, **unknown: Never) -> Tensor:  # fmt: skip
    """A normal distribution restricted to [minval, maxval], by default 2 standard deviations around the mean; {dims}. See `random`.

    Raises:
        TypeError: For bounds that are Tensors with dims.
        ValueError: If there is nothing between the bounds.
    """
    what = "random_truncated_normal"
    draw = _Draw(what, dims, dtype, device, sparse_dim, feature_dim, out,
                 seed=seed, algorithm=algorithm, explicit_state=explicit_state, auto_update_state=auto_update_state,
                 static=static)  # fmt: skip
    draw.only_floats()
    mean, stddev = 0.0 if mean is None else mean, 1.0 if stddev is None else stddev
    if minval is None and maxval is None:
        if not isinstance(stddev, Tensor):
            _check_stddev(what, stddev)
        return draw.finish(draw.plus(draw.times(draw("truncated_normal", -2.0, 2.0), stddev), mean))
    mean, stddev, minval, maxval = map(_scalar, (mean, stddev, minval, maxval))
    given = {"mean": mean, "stddev": stddev, "minval": minval, "maxval": maxval}
    if any(isinstance(value, Tensor) for value in given.values()):
        raise type_error(
            f"{what}: bounds with Tensors.",
            [(name, _text(value)) for name, value in given.items()],
            "With bounds of its own, the distribution is the same for all frames: its parameters are numbers.",
        )
    _check_stddev(what, stddev)
    low: Any = mean - 2 * stddev if minval is None else minval
    high: Any = mean + 2 * stddev if maxval is None else maxval
    if low > high:
        raise value_error(
            f"{what}: there is nothing between the bounds.",
            {"minval": low, "maxval": high},
            "Numbers are at least minval and at most maxval.",
        )
    standard = [(value - mean) / stddev if stddev else sign * numbers.inf for value, sign in ((low, -1), (high, 1))]
    values = draw.plus(draw.times(draw("truncated_normal", standard[0], standard[1]), stddev), mean)
    return draw.finish(clip_by_value(values, low, high))  # rounding may have left them


class _Draw:
    """One call of a random op: the checked options, and the source and destination of the numbers."""

    def __init__(
        self, what: str, dims: Sequence[Dim], dtype: str | None, device: str | None, sparse_dim: Dim | None,
        feature_dim: Dim | None, out: Tensor | None, **source: Any,
    ):  # fmt: skip
        self.what, self.out, self.marks = what, out, (sparse_dim, feature_dim)
        self.dims = check_unique(dims_of(what, dims), what)
        self.backend = registry.selected() if out is None else out.backend
        self.dtype = dtype or (get_default_float_dtype() if out is None else out.dtype)
        self.device = device_of_new(device) if out is None else out.device
        self.size = numbers.prod(full_shape(self.dims))
        if out is not None:
            self._check_out(out)
        self.state = source["explicit_state"] if source["auto_update_state"] else None
        self.generator = generator_for(what, self.backend, self.device, **source)

    def __call__(self, distribution: str, low: float, high: float, dtype: str | None = None) -> Tensor:
        shape = full_shape(self.dims)
        options: dict[str, Any] = {"dtype": dtype or self.dtype, "device": self.device}
        if not self.size:
            return new_tensor(self.backend.full_raw(shape, 0, **options), self.dims)
        if self.generator is not None:
            options["generator"] = self.generator
        raw = self.backend.random_raw(shape, distribution, **options, low=low, high=high)
        return new_tensor(raw, self.dims)

    def times(self, values: Tensor, factor: Value) -> Tensor:
        return combine(values, "mul", self._parameter(factor, values.dtype))

    def plus(self, values: Tensor, offset: Value) -> Tensor:
        return combine(values, "add", self._parameter(offset, values.dtype))

    def _parameter(self, value: Value, dtype: str) -> Any:
        if not isinstance(value, Tensor):
            return value
        if not set(value.dims) <= set(self.dims):
            raise dim_error(
                f"{self.what}: a parameter has other dims.",
                {"dims": dims_text(self.dims), "parameter": value},
                "A parameter has some of the dims of the result.",
            )
        return cast(stop_gradient(value), dtype)

    def finish(self, values: Tensor) -> Tensor:
        """The result with its marks, written to `out` if given; the state is updated."""
        if self.state is not None:
            update_state(self.backend, self.state, self.generator)
        values = cast(values, self.dtype) if values.dtype != self.dtype else values
        if self.out is not None:
            self.backend.assign_raw(self.out._raw, values.copy_transpose(self.out.dims)._raw)
            return self.out
        values.sparse_dim, values.feature_dim = self.marks
        return values

    def only_floats(self) -> None:
        if not is_float_dtype(self.dtype):
            raise type_error(
                f"{self.what}: numbers of this distribution are floats.",
                {"dtype": self.dtype},
                "Integers come from the uniform distribution.",
                f'rf.random_uniform(..., dtype="{self.dtype}")',
            )

    def _check_out(self, out: Tensor) -> None:
        if set(out.dims) != set(self.dims):
            raise dim_error(
                f"{self.what}: out has other dims.",
                {"dims": dims_text(self.dims), "out": out},
                "The numbers are written to out, which has the same dims, in any order.",
            )
        if out.dtype != self.dtype:
            raise type_error(
                f"{self.what}: out has another dtype.",
                {"dtype": self.dtype, "out": out.dtype},
                "The dtype is that of out. Leave it out.",
            )


def _check_stddev(what: str, stddev: Any) -> None:
    if stddev < 0:
        raise value_error(f"{what}: a negative standard deviation.", {"stddev": stddev}, "It is 0 or more.")


def _scalar(value: Any) -> Any:
    """A Tensor without dims as a number, anything else unchanged."""
    return float(value) if isinstance(value, Tensor) and not value.dims else value


def _text(value: Any) -> str:
    return shape_of(value) if isinstance(value, Tensor) else str(value)


@op(draws=True)
def drop(source: Tensor, drop_prob: float | Tensor, *, axis: Dim | Sequence[Dim] | None = None) -> Tensor:
    """Set values to zero with probability `drop_prob`, and scale the rest by 1 / (1 - drop_prob) (Srivastava et al. 2014).

    Args:
        axis: The dims with independent choices; the others share them. None: all are independent.
    """
    if isinstance(drop_prob, Tensor):
        dims = source.dims if axis is None else dims_of("dropout", axis)
        kept = random_uniform(dims, device=source.device) >= drop_prob
        return cast(where(kept, source / (1 - drop_prob), 0), source.dtype)
    if axis is None:
        raw = source.backend.dropout_raw(source._raw, drop_prob, None)
    else:
        axes = dims_of("dropout", axis)
        for dim in axes:
            source.axis_of(dim, "dropout")
        shape = [dim.extent if dim in axes else 1 for dim in source.dims]
        raw = source.backend.dropout_raw(source._raw, drop_prob, shape)
    out = source._like(raw, source.dims)
    if source._finite:
        out._finite = True
    return out
