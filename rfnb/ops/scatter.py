"""Scatter: entries moved to the places given by indices, and combined where several share one; the reverse of gather."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never

from rfnb.core.dim import Dim, Dims
from rfnb.core.dim_identity import check_remade, dim_among
from rfnb.core.errors import dim_error, not_one_of
from rfnb.core.fill_values import number_to_fill
from rfnb.core.finite_padding import finite_rest
from rfnb.core.generations import aligned
from rfnb.core.layout import PlanCache, masks_for, to_order
from rfnb.core.op import op
from rfnb.core.plan_parts import Shape
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_unique, dims_of
from rfnb.core.tensor_text import dims_text
from rfnb.ops import math
from rfnb.ops.amp import narrowed, widened
from rfnb.ops.cast import cast
from rfnb.ops.const import ones_like
from rfnb.ops.defaults import get_default_float_dtype, has_fractions
from rfnb.ops.dims import range_over_dim
from rfnb.ops.expand import expand_dims
from rfnb.ops.gather import gather
from rfnb.ops.gradient import stop_gradient
from rfnb.ops.index_range import check_integers, explain_indices
from rfnb.ops.operands import check_devices, common_backend, need_tensors
from rfnb.ops.where import where

_KINDS = ("sum", "max", "min")
_MODES = (*_KINDS, "mean", "logsumexp", "logmeanexp", "argmax")


@op
def scatter(
    source: Tensor,
    *extra: Never,
    indices: Tensor,
    indices_dim: Dim | Sequence[Dim],
    mode: str = "sum",
    fill_value: float | int | None = None,
    out_dim: Dim | Sequence[Dim] | None = None,
    use_mask: bool | None = None,
    **unknown: Never,
) -> Tensor:
    """Combine, for each entry of `out_dim`, the entries of `source` with that index.

    Args:
        source: {..., indices_dim}. For bools the sum, like max, tells whether any is True.
        indices: int {..., indices_dim}; further dims in common with source are batch dims.
        indices_dim: The dim or dims to reduce.
        mode: sum, max, min, mean, logsumexp, logmeanexp, argmax.
        fill_value: The value of places without any entry. Default 0; -1 for argmax; -inf (the log of nothing) for logsumexp,
            logmeanexp.
        out_dim: Default: the sparse_dim of indices.
        use_mask: Exclude the padding of indices_dim (the default).

    Returns:
        {..., out_dim}: the dims of source and indices with indices_dim replaced by out_dim.

    Raises:
        DimError: Without out_dim and sparse_dim, or if indices_dim is neither in source nor in indices.
        ValueError: Unknown mode.
    """
    if mode not in _MODES:
        raise not_one_of(f'scatter: unknown mode "{mode}".', "mode", mode, _MODES, "A mode is one of these.")
    out_dim = _out_dim("scatter", source, indices, out_dim)
    masked = use_mask is not False
    if mode in _KINDS and source.dtype == "bool":
        counted, kind = cast(source, "int32"), "min" if mode == "min" else "max"
        fill = None if fill_value is None else int(fill_value)
        options = {"indices": indices, "indices_dim": indices_dim, "out_dim": out_dim, "use_mask": use_mask}
        return cast(scatter(counted, mode=kind, fill_value=fill, **options), "bool")  # type: ignore[arg-type]
    if mode in _KINDS:
        out = _scatter(mode, source, indices, indices_dim, out_dim, masked)
        if mode == "sum" and fill_value is None:
            return out
        hit = _count(indices, indices_dim, out_dim, masked, source) > 0
        return where(hit, out, number_to_fill("scatter", out, 0 if fill_value is None else fill_value, "fill_value"))
    if mode == "mean":
        return _mean(source, indices, indices_dim, out_dim, fill_value, masked)
    if mode == "argmax":
        return _argmax(source, indices, indices_dim, out_dim, -1 if fill_value is None else int(fill_value), masked)
    return _log_exp(source, indices, indices_dim, out_dim, fill_value, masked, mean=mode == "logmeanexp")


@op
def scatter_count(
    *extra: Never,
    indices: Tensor,
    indices_dim: Dim | Sequence[Dim],
    out_dim: Dim | Sequence[Dim] | None = None,
    fill_value: float | int | None = None,
    **unknown: Never,
) -> Tensor:
    """The number of occurrences of each index, int32; `fill_value` (default 0) for those that do not occur. Dims as in `scatter`."""
    count = _count(indices, indices_dim, _out_dim("scatter_count", indices, indices, out_dim), True, indices)
    if fill_value is None:
        return count
    return where(count > 0, count, number_to_fill("scatter_count", count, fill_value, "fill_value"))


@op
def scatter_mean(
    source: Tensor,
    *extra: Never,
    indices: Tensor,
    indices_dim: Dim | Sequence[Dim],
    fill_value: float | int | None = None,
    out_dim: Dim | Sequence[Dim] | None = None,
    **unknown: Never,
) -> Tensor:
    """The mean of the entries of each place. See `scatter`."""
    return _mean(source, indices, indices_dim, _out_dim("scatter_mean", source, indices, out_dim), fill_value, True)


@op
def scatter_argmax(
    source: Tensor,
    *extra: Never,
    indices: Tensor,
    indices_dim: Dim,
    invalid_idx: int = -1,
    out_dim: Dim | None = None,
    **unknown: Never,
) -> Tensor:
    """The position along `indices_dim` of the largest entry of each place (the first of equal ones), int64, sparse over it.

    Returns:
        {..., out_dim}; `invalid_idx` at places without any entry.

    Raises:
        DimError: If indices_dim is more than one dim, since an index is into one.
    """
    return _argmax(
        source, indices, indices_dim, _out_dim("scatter_argmax", source, indices, out_dim), invalid_idx, True
    )


@op
def scatter_logsumexp(
    source: Tensor,
    *extra: Never,
    indices: Tensor,
    indices_dim: Dim | Sequence[Dim],
    fill_value: float | int | None = None,
    out_dim: Dim | Sequence[Dim] | None = None,
    **unknown: Never,
) -> Tensor:
    """log(sum(exp(x))) over the entries of each place, stable; -inf by default where there is none. See `scatter`."""
    out_dim = _out_dim("scatter_logsumexp", source, indices, out_dim)
    return _log_exp(source, indices, indices_dim, out_dim, fill_value, True, mean=False)


@op
def scatter_logmeanexp(
    source: Tensor,
    *extra: Never,
    indices: Tensor,
    indices_dim: Dim | Sequence[Dim],
    fill_value: float | int | None = None,
    out_dim: Dim | Sequence[Dim] | None = None,
    **unknown: Never,
) -> Tensor:
    """log(mean(exp(x))) over the entries of each place, stable; -inf by default where there is none. See `scatter`."""
    out_dim = _out_dim("scatter_logmeanexp", source, indices, out_dim)
    return _log_exp(source, indices, indices_dim, out_dim, fill_value, True, mean=True)


def _out_dim(what: str, source: Tensor, indices: Tensor, out_dim: Dim | Sequence[Dim] | None) -> Dim:
    need_tensors(what, source, indices)
    if out_dim is not None and not isinstance(out_dim, Dim):
        dims = dims_of(what, out_dim)
        if len(dims) != 1:
            raise dim_error(
                f"{what}: an index is into one dim.",
                {"indices": indices, "out_dim": dims_text(dims)},
                "Indices into several dims count in the order of the merged one, which is split afterwards:",
                f"out = rf.{what}(..., out_dim={' * '.join(dim.name for dim in dims)})\n"
                f"rf.split_dims(out, axis=..., dims=[{', '.join(dim.name for dim in dims)}])",
            )
        (out_dim,) = dims
    out_dim = out_dim or indices.sparse_dim
    if out_dim is None:
        raise dim_error(
            f"{what}: into which dim?",
            {"indices": indices},
            "The indices have no sparse_dim, so name the dim:",
            f"rf.{what}(..., out_dim=...)",
        )
    return out_dim


def _count(indices: Tensor, indices_dim: Any, out_dim: Dim, masked: bool, like: Tensor) -> Tensor:
    """The number of entries of each place; of a source without the dims of `indices` too, since it is repeated over them."""
    dims = dims_of("scatter", indices_dim)
    lengths = [over for dim in dims for over in dim.length_dims if over not in indices.dims]
    lacking = [dim for dim in (*dims, *lengths) if dim not in indices.dims]
    indices = expand_dims(indices, list(dict.fromkeys(dim for dim in lacking if dim in like.dims)))
    one = cast(ones_like(indices), "int32")
    one.sparse_dim = None
    return _scatter("sum", one, indices, dims, out_dim, masked)


def _mean(source: Tensor, indices: Tensor, indices_dim: Any, out_dim: Dim, fill: Any, masked: bool) -> Tensor:
    source = source if has_fractions(source.dtype) else cast(source, get_default_float_dtype())
    count, wide = _count(indices, indices_dim, out_dim, masked, source), widened(source)
    total = _scatter("sum", wide, indices, indices_dim, out_dim, masked)
    mean = narrowed(math.combine(total, "truediv", cast(math.maximum(count, 1), wide.dtype)), source)
    return mean if fill is None else where(count > 0, mean, fill)


def _log_exp(
    source: Tensor, indices: Tensor, indices_dim: Any, out_dim: Dim, fill: Any, masked: bool, *, mean: bool
) -> Tensor:
    like, source = source, widened(source)
    if masked:
        source = source.copy_masked(
            float("-inf"), dims=[dim for dim in dims_of("scatter", indices_dim) if dim in source.dims]
        )
        indices = indices.copy_masked(0)
    peak = _scatter("max", stop_gradient(source), indices, indices_dim, out_dim, masked)
    peak = where(math.is_finite(peak), peak, 0)  # -inf - -inf would be NaN; with 0 the sum is 0 and its log -inf
    shifted = math.exp(math.combine(source, "sub", gather(peak, indices=indices, axis=out_dim)))
    total = _scatter("sum", shifted, indices, indices_dim, out_dim, masked)
    count = _count(indices, indices_dim, out_dim, masked, source)
    out = math.log(total) + peak
    if mean:
        out = math.combine(out, "sub", math.log(cast(math.maximum(count, 1), source.dtype)))
    out = narrowed(out, like)
    return where(count > 0, out, float("-inf") if fill is None else fill)


def _argmax(source: Tensor, indices: Tensor, indices_dim: Any, out_dim: Dim, invalid: int, masked: bool) -> Tensor:
    if len(dims_of("scatter", indices_dim)) != 1:
        raise dim_error(
            "scatter_argmax: one dim at a time.",
            {"source": source, "indices": indices},
            "An index is into one dim.",
            "rf.merge_dims(...)",
        )
    (axis,) = dims_of("scatter", indices_dim)
    source, indices = stop_gradient(source), indices.copy_masked(0)
    peak = _scatter("max", source, indices, axis, out_dim, masked)
    best = math.compare(source, "equal", gather(peak, indices=indices, axis=out_dim))
    frames = range_over_dim(axis, dtype="int64", device=source.device)
    place = where(best, frames, axis.extent)
    place = _scatter("min", place, indices, axis, out_dim, masked)
    out = where(math.compare(place, "less", axis.extent), place, invalid)
    out.sparse_dim = axis
    return out


_plans = PlanCache()


def _scatter(kind: str, source: Tensor, indices: Tensor, indices_dim: Any, out_dim: Dim, masked: bool) -> Tensor:
    """One of _KINDS; the neutral element where there is no entry."""
    dims = dims_of("scatter", indices_dim)
    key = (kind, source._raw.__class__, source.dtype, indices.dtype, source.dims, indices.dims, dims, out_dim, masked)
    try:
        fn, out_dims = _plans[key]
    except KeyError:
        together = aligned("scatter", (source, indices), dims)
        if together is not None:
            source, indices = together
            return _scatter(kind, source, indices, [dim_among(dim, together) for dim in dims], out_dim, masked)
        fn, out_dims = _plans.make(key, _plan, kind, source, indices, dims, out_dim, masked)
    try:
        return new_tensor(fn(source._raw, indices._raw), out_dims, source)
    except (IndexError, RuntimeError) as error:
        check_devices("scatter", source, indices)
        explain_indices(error, "scatter", "indices", indices, out_dim, ("source", source))
        raise


def _plan(kind: str, source: Tensor, indices: Tensor, dims: Dims, out_dim: Dim, masked: bool) -> Any:
    for dim in dims:
        if dim not in source.dims and dim not in indices.dims:
            raise dim_error(
                f"scatter: no dim {dim.short_repr()}.",
                {"source": source, "indices": indices},
                "The scattered dim is in source, in indices, or in both.",
            )
    check_integers("scatter", "indices", indices, ("source", source))
    check_remade("scatter", [("source", source.dims), ("indices", indices.dims)], but=dims)
    backend = common_backend("scatter", source, indices)
    batch = tuple(dim for dim in source.dims if dim in indices.dims and dim not in dims)
    batch += tuple(dim for dim in indices.dims if dim not in source.dims and dim not in dims)
    rest = tuple(dim for dim in source.dims if dim not in batch and dim not in dims)
    out_dims = check_unique((*batch, out_dim, *rest), "scatter")
    all_dims = (*batch, *dims, *rest)
    lacking = (
        tuple(dim for dim in all_dims if dim not in source.dims),
        tuple(dim for dim in batch + dims if dim not in indices.dims),
    )
    grown = lacking[0] + source.dims, lacking[1] + indices.dims
    order = to_order(grown[0], all_dims, backend), to_order(grown[1], batch + dims, backend)
    mask = masks_for(all_dims, dims, backend, "scatter") if masked else None
    inside = [dim for dim in batch + dims if set(dim.length_dims) <= set(batch + dims)]
    # Also of batch dims: what is there may be no index.
    index_mask = masks_for(batch + dims, inside, backend, "scatter")
    neutral = 0 if kind == "sum" else backend.extreme_value(source.dtype, -1 if kind == "max" else 1)
    # The gradient of a maximum of NaN is NaN.
    careful: Any = (None, None) if kind == "sum" else finite_rest(source, dims)
    tracks, made_finite = careful
    count, count_indices = Shape(batch, dims, rest), Shape(batch, dims)
    shapes, shape = (Shape(*grown[0]), Shape(*grown[1])), Shape(*out_dims)
    expand, reshape = backend.broadcast_raw, backend.reshape_raw
    where, scatter_raw = backend.where_raw, backend.scatter_raw

    def fn(raw: Any, raw_indices: Any) -> Any:
        raw = raw if tracks is None or not tracks(raw) else made_finite(raw)
        raw = expand(raw, shapes[0]) if lacking[0] else raw
        raw_indices = expand(raw_indices, shapes[1]) if lacking[1] else raw_indices
        raw = raw if order[0] is None else order[0](raw)
        raw_indices = raw_indices if order[1] is None else order[1](raw_indices)
        raw = raw if mask is None else where(mask(raw), raw, neutral)
        raw_indices = raw_indices if index_mask is None else where(index_mask(raw_indices), raw_indices, 0)
        out = scatter_raw(reshape(raw, count), reshape(raw_indices, count_indices), out_dim.extent, kind, neutral)
        return reshape(out, shape)

    return fn, out_dims
