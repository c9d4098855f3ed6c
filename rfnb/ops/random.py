"""Random tensors, dropout, and the state of the generator."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.backends import protocol
from rfnb.core.dim import Dim
from rfnb.core.errors import message
from rfnb.core.layout import full_shape
from rfnb.core.tensor import Tensor, check_unique, new_tensor
from rfnb.ops import math
from rfnb.ops.default import get_default_device, get_default_float_dtype


def set_random_seed(seed: int) -> None:
    """Seed the generator of the selected backend."""
    protocol.selected().set_random_seed(seed)


def get_random_state() -> dict[str, bytes]:
    """The state of the generator(s), by device."""
    return protocol.selected().get_random_state()


def set_random_state(state: dict[str, bytes]) -> None:
    """Put a state of `get_random_state` back."""
    protocol.selected().set_random_state(state)


def random_uniform(dims: Sequence[Dim], *, dtype: str | None = None, device: str | None = None, minval: float = 0, maxval: float = 1,
                   sparse_dim: Dim | None = None) -> Tensor:  # fmt: skip
    """Uniform in [minval, maxval); {dims}. Integers too."""
    out = _random(dims, "uniform", dtype, device, minval, maxval)
    if sparse_dim is not None:
        out.sparse_dim = sparse_dim
    return out


def random_normal(
    dims: Sequence[Dim], *, dtype: str | None = None, device: str | None = None, mean: float = 0.0, stddev: float = 1.0
) -> Tensor:
    """Normal with `mean` and standard deviation `stddev`; {dims}."""
    return _random(dims, "normal", dtype, device, mean, stddev)


def random_truncated_normal(
    dims: Sequence[Dim], *, dtype: str | None = None, device: str | None = None, mean: float = 0.0, stddev: float = 1.0,
    minval: float | None = None, maxval: float | None = None,
) -> Tensor:  # fmt: skip
    """Normal, drawn again where outside of [minval, maxval] (default: 2 standard deviations); {dims}."""
    low = mean - 2 * stddev if minval is None else minval
    high = mean + 2 * stddev if maxval is None else maxval
    out = random_normal(dims, dtype=dtype, device=device, mean=mean, stddev=stddev)
    while True:
        outside = math.logical_or(out < low, out > high)
        if not outside._raw.any():
            return out
        out = math.where(outside, random_normal(out.dims, dtype=dtype, device=device, mean=mean, stddev=stddev), out)


def random(dims: Sequence[Dim], *, distribution: str, dtype: str | None = None, device: str | None = None, mean: float = 0.0,
           stddev: float = 1.0, minval: float | None = None, maxval: float | None = None) -> Tensor:  # fmt: skip
    """By name: "uniform", "normal", "truncated_normal"; {dims}."""
    if distribution == "uniform":
        return random_uniform(
            dims, dtype=dtype, device=device, minval=minval or 0, maxval=1 if maxval is None else maxval
        )
    if distribution == "normal":
        return random_normal(dims, dtype=dtype, device=device, mean=mean, stddev=stddev)
    if distribution == "truncated_normal":
        return random_truncated_normal(
            dims, dtype=dtype, device=device, mean=mean, stddev=stddev, minval=minval, maxval=maxval
        )
    known = "uniform, normal, truncated_normal"
    raise ValueError(
        message(f'random: unknown distribution "{distribution}".', [("known", known)], "It is one of these.")
    )


def _random(
    dims: Sequence[Dim], distribution: str, dtype: str | None, device: str | None, low: float, high: float
) -> Tensor:
    dims = check_unique(tuple(dims), "random")
    raw = protocol.selected().random_raw(
        full_shape(dims),
        distribution,
        dtype=dtype or get_default_float_dtype(),
        device=device or get_default_device(),
        low=low,
        high=high,
    )
    return new_tensor(raw, dims)


def drop(source: Tensor, drop_prob: float, *, axis: Dim | Sequence[Dim] | None = None) -> Tensor:
    """Zero with probability `drop_prob`, scale the rest by 1 / (1 - drop_prob) (Srivastava et al. 2014).

    Args:
        axis: The dims with independent choices; the others share them. None: all are independent.
    """
    if axis is None:
        raw = source.backend.dropout_raw(source._raw, drop_prob, None)
    else:
        axes = (axis,) if isinstance(axis, Dim) else tuple(axis)
        for dim in axes:
            source.axis_of(dim, "dropout")
        shape = [dim.extent if dim in axes else 1 for dim in source.dims]
        raw = source.backend.dropout_raw(source._raw, drop_prob, shape)
    return source._like(raw, source.dims)
