"""Reductions over named dims; padding is excluded, whatever it contains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Never

from rfnb.backends import protocol, registry
from rfnb.core.dim import Dim, Dims, new_dim
from rfnb.core.dim_identity import looked_up
from rfnb.core.errors import dim_error, not_implemented_error, not_one_of
from rfnb.core.finite_padding import finite_rest
from rfnb.core.layout import PlanCache, full_shape, masks_for, to_order
from rfnb.core.memo import Memo
from rfnb.core.op import op
from rfnb.core.plan_parts import Shape
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_dim, check_unique, dims_of
from rfnb.core.tensor_text import dims_text
from rfnb.core.type_errors import not_a_tensor
from rfnb.ops.amp import in_float32, narrowed, widened
from rfnb.ops.const import ones_like
from rfnb.ops.defaults import FLOAT_DTYPES, get_default_float_dtype, has_fractions
from rfnb.ops.math import combine, log, maximum
from rfnb.ops.merge import split_dims
from rfnb.ops.operands import check_dtypes, need_tensors, need_values

_plans = PlanCache()
_FINITE = ("sum", "mean")  # not of frames without any part: their maximum is -inf
_ORDERED = ("max", "min", "argmax", "argmin", "logsumexp")
_FROM_OPERANDS = ("max", "min", "logsumexp")  # their derivative, see `core/finite_padding.py`


class _DtypeOf(dict):
    """(mode, type of raw arrays) -> a function for the dtype key of an array; None where plans serve all dtypes."""

    def __missing__(self, kind: tuple[str, type]) -> Any:
        mode, raw_type = kind
        self[kind] = None if mode in ("sum", "any", "all") else registry.BY_TYPE[raw_type].dtype_key_raw
        return self[kind]


_dtype_of = _DtypeOf({(mode, type(None)): None for mode in protocol.REDUCE_KINDS})  # a template has none


@op
def reduce(
    source: Tensor,
    *extra: Never,
    mode: str,
    axis: Dim | Sequence[Dim],
    use_mask: bool = True,
    distributed: bool = False,
    **unknown: Never,
) -> Tensor:
    """Reduce one dim or several.

    Args:
        source: {..., axis}
        mode: sum, max, min, mean, logsumexp, any, all, argmin, argmax.
        axis: The dims to reduce (for a square weight the input side, `dim.copy(match_priority=1)`). Only real frames count; the mean
            divides by their number. A sequence without frames yields the neutral element (sum and mean 0, max -inf, all True). For
            integers or bools, mean and logsumexp are floats. 16-bit numbers are summed in float32.
        distributed: Must not be True.

    Returns:
        {...}; argmin and argmax are int64, sparse over the (one) axis; 0 where there is no frame.

    Raises:
        DimError: If an axis is not a dim of source, or its lengths are over a dim that source lacks.
        NotImplementedError: For a reduction over all processes of a distributed training.
        ValueError: Unknown mode.
    """
    if distributed:
        refuse_distributed(f"reduce_{mode}", source)
    return _reduce(source, mode, axis, use_mask)


def refuse_distributed(what: str, source: Tensor) -> None:
    """Raise the NotImplementedError for a reduction over several processes."""
    raise not_implemented_error(
        f"{what}: over all processes of a distributed training.",
        {"source": source, "distributed": True},
        "The frames are those of this process. Add the results of all processes:",
        "torch.distributed.all_reduce(total.raw_tensor)",
    )


def _reduce(source: Tensor, mode: str, axis: Dim | Sequence[Dim], use_mask: bool) -> Tensor:
    if axis.__class__ is not Dim:
        axis = tuple(axis) if axis.__class__ is list or axis.__class__ is tuple else dims_of(f"reduce_{mode}", axis)
    try:
        raw = source._raw
        dtype_of = _dtype_of[mode, raw.__class__]
        plan = _plans[mode, dtype_of and dtype_of(raw), raw.__class__, source.dims, axis, use_mask]
    except (KeyError, AttributeError):
        need_values(f"reduce_{mode}", source)
        plan = _new_plan(source, mode, axis, use_mask)
    fn, extra, dims, sparse, keeps, tracks, made_finite = plan
    finite = source._finite
    if tracks is not None and not finite and tracks(raw):
        raw = made_finite(raw)
    try:
        out = new_tensor(fn(raw, extra), dims, None, keeps and finite)
    except (RuntimeError, TypeError):
        check_dtypes(f"reduce_{mode}", source=source)
        raise
    out.sparse_dim = source.sparse_dim if sparse is None else sparse  # feature_dim is lost: documented
    return out


def _new_plan(source: Tensor, mode: str, axis: Any, use_mask: bool) -> Any:
    raw, given = source._raw, (axis,) if isinstance(axis, Dim) else axis
    axes = tuple([looked_up(source.dims, dim, given) for dim in given])
    dtype_of = _dtype_of[mode, raw.__class__]
    key = mode, dtype_of and dtype_of(raw), raw.__class__, source.dims, axis, use_mask
    return _plans.make(key, _whole_plan, source, mode, given, axes, use_mask)


def _whole_plan(source: Tensor, mode: str, given: Dims, axes: Dims, use_mask: bool) -> Any:
    careful = finite_rest(source, axes) if mode in _FROM_OPERANDS else (None, None)
    sparse = given[0] if mode.startswith("arg") else None
    return *_plan(source, mode, source.dtype, axes, use_mask), sparse, mode in _FINITE, *careful


def _plan(source: Tensor, mode: str, dtype: str, axes: Dims, use_mask: bool) -> tuple[Any, Any, Dims]:
    """A function (raw, extra) -> reduced, its argument `extra`, and the dims of the result."""
    if mode not in protocol.REDUCE_KINDS:
        raise not_one_of(
            f'reduce: unknown mode "{mode}".', "mode", mode, protocol.REDUCE_KINDS, "A mode is one of these."
        )
    for dim in axes:
        check_dim(f"reduce_{mode}", source, dim, "source")
    if len(set(axes)) != len(axes):
        twice = next(dim for dim in axes if axes.count(dim) > 1)
        rows = {"source": source, "axis": dims_text(axes), "twice": twice}
        raise dim_error(f"reduce_{mode}: the same dim twice.", rows, "A dim can be reduced only once.")
    if mode.startswith("arg") and len(axes) != 1:
        raise dim_error(
            f"reduce_{mode}: one axis at a time.",
            {"source": source, "axis": dims_text(axes)},
            "An index is into one dim; merge the dims first:",
            f"source, axis = rf.merge_dims(source, dims=[{', '.join(dim.name for dim in axes)}])",
        )
    backend = source.backend
    indices = tuple(source.dims.index(dim) for dim in axes)
    dims = tuple([dim for dim in source.dims if dim not in axes])
    (reduce_raw, extra), where = backend.reduce_fn(mode, indices), backend.where_raw
    mask = masks_for(source.dims, axes, backend, f"reduce_{mode}") if use_mask else None
    cast = backend.cast_raw
    if dtype.startswith("complex") and mode in _ORDERED:
        check_dtypes(f"reduce_{mode}", source=source)
    if mode in ("mean", "logsumexp") and not has_fractions(dtype):  # the smallest uint8 is 0, and no -inf
        # The default may change, and differs between threads.
        means = tuple((to, _plan(source, mode, to, axes, use_mask)[0]) for to in FLOAT_DTYPES)

        def of_whole(raw: Any, extra: Any) -> Any:
            dtype = get_default_float_dtype()
            return dict(means)[dtype](cast(raw, dtype), extra)

        return of_whole, extra, dims
    if mode in ("max", "min", "mean", "argmax", "argmin") and any([dim.is_empty() for dim in axes]):
        value, shape = (0 if mode in ("mean", "argmax", "argmin") else _neutral(mode, dtype, backend)), Shape(*dims)
        dtype = "int64" if mode.startswith("arg") else dtype
        full = lambda raw, extra: backend.full_raw(shape, value, dtype=dtype, device=backend.get_device_raw(raw))  # noqa: E731
        return full, extra, dims
    if mode == "logsumexp":
        reduce_raw = in_float32(reduce_raw, dtype, backend)
    if mask is None:
        return reduce_raw, extra, dims
    if mode == "mean":
        (add_up, _), divide = backend.reduce_fn("sum", indices), backend.binary_tensors_fn("truediv")
        counts, shape = Memo(), Shape(*source.dims)

        def mean(raw: Any, extra: Any) -> Any:
            real = mask(raw)
            device = backend.device_key_raw(raw)
            count = counts.get(device)
            if count is None:
                whole = backend.broadcast_raw(real, shape)
                count = backend.binary_fn("maximum")(add_up(cast(whole, "float32"), extra), 1.0)
                count = cast(count, "float64" if dtype in ("float64", "complex128") else "float32")
                counts.keep(device, count, backend.num_bytes_raw(count))
            return divide(add_up(where(real, raw, 0), extra), count)

        return in_float32(mean, dtype, backend), extra, dims
    neutral = _neutral(mode, dtype, backend)
    return (lambda raw, extra: reduce_raw(where(mask(raw), raw, neutral), extra)), extra, dims


def _neutral(mode: str, dtype: str, backend: Any) -> Any:
    if mode == "sum":
        return 0
    if mode in ("any", "all"):
        return mode == "all"
    return backend.extreme_value(dtype, 1 if mode in ("min", "argmin") else -1)


@op
def reduce_sum(
    source: Tensor,
    *extra: Never,
    axis: Dim | Sequence[Dim],
    use_mask: bool = True,
    distributed: bool = False,
    **unknown: Never,
) -> Tensor:
    """The sum over `axis`. See `reduce`."""
    if distributed:
        refuse_distributed("reduce_sum", source)
    return _reduce(source, "sum", axis, use_mask)


@op
def reduce_max(
    source: Tensor, *extra: Never, axis: Dim | Sequence[Dim], use_mask: bool = True, **unknown: Never
) -> Tensor:
    """The maximum over `axis`. See `reduce`."""
    return _reduce(source, "max", axis, use_mask)


@op
def reduce_min(
    source: Tensor, *extra: Never, axis: Dim | Sequence[Dim], use_mask: bool = True, **unknown: Never
) -> Tensor:
    """The minimum over `axis`. See `reduce`."""
    return _reduce(source, "min", axis, use_mask)


@op
def reduce_mean(
    source: Tensor, *extra: Never, axis: Dim | Sequence[Dim], use_mask: bool = True, **unknown: Never
) -> Tensor:
    """The mean over the real frames of `axis`. See `reduce`."""
    return _reduce(source, "mean", axis, use_mask)


@op
def reduce_logsumexp(
    source: Tensor, *extra: Never, axis: Dim | Sequence[Dim], use_mask: bool = True, **unknown: Never
) -> Tensor:
    """log(sum(exp(x))) over `axis`. See `reduce`."""
    return _reduce(source, "logsumexp", axis, use_mask)


@op
def reduce_logmeanexp(
    source: Tensor, *extra: Never, axis: Dim | Sequence[Dim], use_mask: bool = True, **unknown: Never
) -> Tensor:
    """log(mean(exp(x))) over the real frames of `axis`; -inf if there are none. See `reduce`."""
    wide = widened(source)
    total = reduce_logsumexp(wide, axis=axis, use_mask=use_mask)
    count = reduce_sum(ones_like(wide), axis=axis, use_mask=use_mask)
    return narrowed(combine(total, "sub", log(maximum(count, 1))), source)


@op
def reduce_any(
    source: Tensor, *extra: Never, axis: Dim | Sequence[Dim], use_mask: bool = True, **unknown: Never
) -> Tensor:
    """True if any entry over `axis` is True. See `reduce`."""
    return _reduce(source, "any", axis, use_mask)


@op
def reduce_all(
    source: Tensor, *extra: Never, axis: Dim | Sequence[Dim], use_mask: bool = True, **unknown: Never
) -> Tensor:
    """True if all entries over `axis` are True. See `reduce`."""
    return _reduce(source, "all", axis, use_mask)


@op
def reduce_argmax(source: Tensor, *extra: Never, axis: Dim, use_mask: bool = True, **unknown: Never) -> Tensor:
    """The index of the (first) maximum over `axis`, int64, sparse over axis. See `reduce`."""
    return _reduce(source, "argmax", axis, use_mask)


@op
def reduce_argmin(source: Tensor, *extra: Never, axis: Dim, use_mask: bool = True, **unknown: Never) -> Tensor:
    """The index of the (first) minimum over `axis`, int64, sparse over axis. See `reduce`."""
    return _reduce(source, "argmin", axis, use_mask)


@op
def reduce_out(
    source: Tensor, *extra: Never, mode: str, num_pieces: int, out_dim: Dim | None = None, **unknown: Never
) -> Tensor:
    """Groups of `num_pieces` neighbouring features, each reduced to one; with mode "max" this is maxout.

    Args:
        source: {..., feature}, with its feature_dim marked.
        mode: As in `reduce`.
        out_dim: Default: the feature dim divided by num_pieces, from dim arithmetic.

    Returns:
        {..., out_dim}, feature_dim is out_dim.

    Raises:
        DimError: If there is no feature_dim, or its size is not a multiple of num_pieces.

    Source: Goodfellow et al. 2013, "Maxout Networks", section 2.
    """
    need_tensors("reduce_out", source)
    feature = source.feature_dim
    if feature is None:
        raise dim_error(
            "reduce_out: source has no feature_dim.",
            {"source": source},
            "It reduces the features. Mark them:",
            "source.feature_dim = ...",
        )
    pieces = Dim(num_pieces, name="pieces")
    out_dim = feature // num_pieces if out_dim is None else out_dim
    out = reduce(split_dims(source, axis=feature, dims=[out_dim, pieces]), mode=mode, axis=pieces)
    out.feature_dim = out_dim
    return out


@op
def top_k(
    source: Tensor,
    *extra: Never,
    axis: Dim | Sequence[Dim],
    k: int | Tensor | None = None,
    k_dim: Dim | None = None,
    sorted: bool = True,
    **unknown: Never,
) -> tuple[Tensor, Tensor | list[Tensor], Dim]:
    """The k largest entries over `axis`, best first.

    Args:
        source: {..., axis}
        axis: One dim, or several (e.g. beam and vocabulary) that are searched jointly. Padding is never chosen before a real frame;
            a sequence with fewer than k frames is filled up with the smallest number of the dtype (-inf), and indices into its padding.
        k: The number of entries; a Tensor with dims gives one for each of its entries. Alternatively given by `k_dim`.

    Returns:
        values {..., k_dim}, int64 indices {..., k_dim} (sparse over axis; a list, one per axis, if several), k_dim.

    Raises:
        DimError: If an axis is missing, or k is larger than the number of entries.
        TypeError: Without k and k_dim.
    """
    if not isinstance(source, Tensor):
        raise not_a_tensor("top_k", source)
    one = axis.__class__ is Dim
    axes: Any = axis if one else dims_of("top_k", axis)
    raw = source._raw
    try:
        flatten, rest, top_k_raw, divide, modulo = _top_k_plans[raw.__class__, source.dims, axes]
    except KeyError:
        given = (axes,) if one else axes
        key, meant = (raw.__class__, source.dims, axes), tuple(looked_up(source.dims, dim, given) for dim in given)
        flatten, rest, top_k_raw, divide, modulo = _top_k_plans.make(key, _plan_top_k, source, meant)
    if k_dim is not None:
        k = k_dim.extent
        if k_dim in rest:
            check_unique((*rest, k_dim), "top_k")
    elif k.__class__ is int and k >= 0:
        k_dim = new_dim(k, "top_k")
    else:
        if k is None:
            raise TypeError("top_k: needs k or k_dim.\n    rf.top_k(x, axis=vocab, k=4)")
        # Of a Tensor without dims: how many is known on the host.
        k_dim = Dim(k if isinstance(k, Tensor) and k.dims else int(k), name="top_k")
        k = k_dim.extent
    try:
        values, flat = top_k_raw(raw if flatten is None else flatten(raw), k, sorted)
    except (RuntimeError, TypeError, ValueError):
        axes = (axes,) if one else axes
        total = math.prod(full_shape(axes))
        if k > total:
            raise dim_error(
                f"top_k: k={k} of only {total} entries.",
                {"source": source, "axis": ", ".join(dim.short_repr() for dim in axes)},
                "There are not that many entries.",
                f"rf.top_k(source, k={total}, axis={axes[0].name if len(axes) == 1 else [dim.name for dim in axes]})",
            ) from None
        check_dtypes("top_k", source=source)
        raise
    dims = rest + (k_dim,)  # a third of the time of (*rest, k_dim)
    result = new_tensor(values, dims)
    result.sparse_dim = source.sparse_dim  # of the features only the best are left
    if one:
        index = new_tensor(flat, dims)
        index.sparse_dim = axis  # type: ignore[assignment]
        return result, index, k_dim
    indices: list[Tensor] = []
    for dim in reversed(axes):
        last = dim is axes[0]
        index = new_tensor(flat if last else modulo(flat, dim.extent), dims)
        index.sparse_dim = dim
        indices.insert(0, index)
        flat = flat if last else divide(flat, dim.extent)
    return result, indices, k_dim


_top_k_plans = PlanCache()


def _plan_top_k(source: Tensor, axes: Dims) -> Any:
    """A function raw -> raw {rest, entries of all axes} with the padding lowest (None: it already is), and the remaining arguments for
    top_k.
    """
    for dim in axes:
        check_dim("top_k", source, dim, "source")
    backend = source.backend
    mask = masks_for(source.dims, axes, backend, "top_k")
    rest = tuple(dim for dim in source.dims if dim not in axes)
    order = to_order(source.dims, rest + axes, backend)
    shape = Shape(*rest, axes)
    several, where, reshape = len(axes) > 1, backend.where_raw, backend.reshape_raw

    def flatten(raw: Any) -> Any:
        if mask is not None:
            raw = where(mask(raw), raw, backend.extreme_value(backend.get_dtype_name_raw(raw), -1))
        raw = raw if order is None else order(raw)
        return reshape(raw, shape) if several else raw

    same = mask is None and order is None and not several
    divide, modulo = backend.binary_fn("floordiv"), backend.binary_fn("mod")
    return None if same else flatten, rest, backend.top_k_raw, divide, modulo
