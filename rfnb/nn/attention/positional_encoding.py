"""Sinusoidal encodings of positions and of distances."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Never

import numpy as np

from rfnb.backends import registry
from rfnb.backends.constants import kept
from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import value_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.ops import dims as dim_ops
from rfnb.ops.cast import cast
from rfnb.ops.concat import concat
from rfnb.ops.const import convert_to_tensor, zeros
from rfnb.ops.defaults import device_of_new, get_default_float_dtype
from rfnb.ops.math import combine_bc, cos, sin
from rfnb.ops.operands import need_tensors

Rates = Callable[[int, float], np.ndarray]


@op
def sinusoidal_positional_encoding(
    *extra: Never,
    spatial_dim: Dim,
    feat_dim: Dim,
    offset: int | Tensor | None = None,
    base: float = 1e4,
    dtype: str | None = None,
    device: str | None = None,
    **unknown: Never,
) -> Tensor:
    """`sinusoidal_encoding` of the positions 0, 1, ... along `spatial_dim`.

    Args:
        spatial_dim: For `single_step_dim`, only the position `offset` is encoded.
        offset: Added to every position; int {...}.

    Returns:
        {offset dims, spatial_dim, feat}, without spatial_dim for a single step. Padding positions are encoded too.
        Without offset, or with an int, it is cached per size.

    Raises:
        ValueError: For a single step without offset.

    Source: Vaswani et al. 2017, section 3.5, in the order and with the wavelengths of `sinusoidal_encoding`.
    """
    single = spatial_dim is single_step_dim
    if offset is None and single:
        raise value_error(
            "sinusoidal_positional_encoding: which position is this step?",
            {"spatial_dim": "single_step_dim", "offset": "None"},
            "A single step does not know the number of previous steps.",
            "rf.sinusoidal_positional_encoding(spatial_dim=rf.single_step_dim, offset=step, ...)",
        )
    dtype, device = dtype or get_default_float_dtype(), device_of_new(device)
    if isinstance(offset, Tensor):
        frames = 0 if single else dim_ops.range_over_dim(spatial_dim, device=offset.device)
        return sinusoidal_encoding(combine_bc(offset, "add", frames), feat_dim=feat_dim, base=base, dtype=dtype)
    count = 1 if single else spatial_dim.extent
    table = _table(offset or 0, count, feat_dim.extent, _absolute_rates, base, dtype, device, _backend())
    if single:
        return _with_feature(new_tensor(_backend().select_raw(table, 0, 0), (feat_dim,)), feat_dim)
    return _with_feature(new_tensor(table, (spatial_dim, feat_dim)), feat_dim)


def sinusoidal_encoding(
    indices: Tensor, *extra: Never, feat_dim: Dim, base: float = 1e4, dtype: str | None = None, **unknown: Never
) -> Tensor:
    """Sines, then cosines of `indices`, each half with wavelengths from 2π to 2π * base in geometric steps.

        out[m] = sin(index * base ** (-m / (h - 1))),  out[h + m] = cos(the same),  m = 0 .. h - 1,  h = feat // 2

    Args:
        indices: int or float {...}.
        feat_dim: If its size is odd, the last feature is 0.

    Returns:
        {..., feat}.

    Source: Vaswani et al. 2017, section 3.5, where sines and cosines alternate and the exponent is m / h.
    """
    need_tensors("sinusoidal_encoding", indices)
    return _encoding(indices, _absolute_rates(feat_dim.extent, base), feat_dim, dtype or get_default_float_dtype())


def _encoding(indices: Tensor, rates: np.ndarray, feat_dim: Dim, dtype: str) -> Tensor:
    """Sines, then cosines of indices * rates: {..., feat}."""
    half, wide = Dim(len(rates), name="half"), _wide(dtype)
    factors = convert_to_tensor(rates, dims=[half], dtype=wide, device=indices.device)
    angles = combine_bc(cast(_plain(indices), wide), "mul", factors)
    parts = [(cast(sin(angles), dtype), half), (cast(cos(angles), dtype), half)]
    if feat_dim.extent % 2:
        rest = Dim(1, name="rest")
        parts.append((zeros([*indices.dims, rest], dtype=dtype, device=indices.device), rest))
    out, _ = concat(*parts, out_dim=feat_dim)
    return _with_feature(out, feat_dim)


@op
def relative_positional_encoding(
    *extra: Never,
    query_spatial_dim: Dim,
    key_value_spatial_dim: Dim,
    feat_dim: Dim,
    query_offset: int | Tensor = 0,
    dtype: str | None = None,
    device: str | None = None,
    **unknown: Never,
) -> tuple[Tensor, Dim]:
    """Sines, then cosines of all distances from a query to a key, in increasing order. Keys in the past have negative distances.

        out[r, m] = sin(distance * 10000 ** (-2 m / feat)),  out[r, h + m] = cos(the same),  m = 0 .. h - 1,  h = feat // 2

    The wavelengths are not those of `sinusoidal_encoding`: the exponents end one step before -1.

    Args:
        query_spatial_dim: `single_step_dim` means a single query.
        feat_dim: If its size is odd, the last feature is 0.
        query_offset: Position of the first query, int {...}; keys begin at 0.

    Returns:
        {offset dims, distance, feat}, cached for many sizes if the offset is an int, and the static dim distance of
        size queries + keys - 1.
        Entry r is for the distance key - query = r - (queries - 1) - query_offset.

    Source: Dai et al. 2019, "Transformer-XL", section 3.3, with the sinusoids of Vaswani et al. 2017, section 3.5, sines first.
    """
    distance, first = distances(query_spatial_dim, key_value_spatial_dim)
    dtype = dtype or get_default_float_dtype()
    if isinstance(query_offset, Tensor):
        steps = dim_ops.range_over_dim(distance, device=query_offset.device) + first
        steps = combine_bc(steps, "sub", _plain(query_offset))
        return _encoding(steps, _relative_rates(feat_dim.extent), feat_dim, dtype), distance
    first -= query_offset
    device = device_of_new(device)
    # The table size is rounded up to a power of two: a growing history would otherwise need a new table in each step.
    size = 1 << max(abs(first), abs(first + distance.extent), 63).bit_length()
    table = _table(-size, 2 * size + 1, feat_dim.extent, _relative_rates, 1e4, dtype, device, _backend())
    part = _backend().slice_raw(table, 0, first + size, first + size + distance.extent)
    return _with_feature(new_tensor(part, (distance, feat_dim)), feat_dim), distance


def distances(query_spatial_dim: Dim, key_value_spatial_dim: Dim) -> tuple[Dim, int]:
    """A dim of all distances key - query in increasing order, and the first distance, from the last query to the first key."""
    queries = 1 if query_spatial_dim is single_step_dim else query_spatial_dim.extent
    return _distance_dim(max(queries + key_value_spatial_dim.extent - 1, 0)), -(queries - 1)


@lru_cache(maxsize=4096)
def _distance_dim(size: int) -> Dim:
    """A dim that all layers and steps share, so that cached plans are found again."""
    return Dim(size, name="distance")


@kept(64)
def _table(
    first: int, count: int, size: int, rates: Rates, base: float, dtype: str, device: str | None, backend: Any
) -> Any:
    """Raw [count, size]: the encodings of `first` and the following positions."""
    angles = np.arange(first, first + count)[:, None] * rates(size, base)
    table = np.concatenate([np.sin(angles), np.cos(angles), np.zeros((count, size % 2))], axis=1)
    return backend.cast_raw(backend.from_numpy(table, dtype=_wide(dtype), device=device), dtype)


def _absolute_rates(size: int, base: float) -> np.ndarray:
    """Radians per position of each sine, from 1 to 1 / base: the exponent is -m / (h - 1)."""
    half = size // 2
    return base ** (-np.arange(half) / max(half - 1, 1))


def _relative_rates(size: int, base: float = 1e4) -> np.ndarray:
    """Radians per step of each sine, from 1 to just above 1 / base: the exponent is -2 m / size."""
    return base ** (-2 * np.arange(size // 2) / max(size, 1))


def _wide(dtype: str) -> str:
    """The dtype for positions and angles, which need more than 16 bits."""
    return "float64" if dtype == "float64" else "float32"


def _backend() -> Any:
    return registry.selected()


@op(of="sinusoidal_positional_encoding")
def _plain(indices: Tensor) -> Tensor:
    return new_tensor(indices._raw, indices.dims)  # a position is no longer an index


def _with_feature(out: Tensor, feat_dim: Dim) -> Tensor:
    out._feature_dim = feat_dim
    out._finite = True
    return out
