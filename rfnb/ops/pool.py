"""Pooling: the maximum or the mean of the frames in a window that moves along spatial dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never

from rfnb.backends.protocol import Backend
from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error, not_one_of
from rfnb.core.layout import PlanCache, full_shape, masks_for, view
from rfnb.core.memo import Memo
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_unique, dims_of
from rfnb.core.tensor_text import dims_text
from rfnb.ops.amp import HALF, in_float32
from rfnb.ops.conv_dims import IntOrDim, Padding, Window, make_windows, settle_out_dims
from rfnb.ops.conv_filter import hashable
from rfnb.ops.conv_layout import check_spatial, from_kernel, to_kernel
from rfnb.ops.defaults import get_default_float_dtype, has_fractions
from rfnb.ops.operands import need_tensors

_plans = PlanCache()


@op
def pool(
    source: Tensor,
    *extra: Never,
    nd: int | None = None,
    mode: str,
    pool_size: IntOrDim | Sequence[IntOrDim],
    padding: Padding | Sequence[Padding] = "valid",
    dilation_rate: int | Sequence[int] = 1,
    strides: int | Sequence[int] | None = None,
    in_spatial_dims: Dim | Sequence[Dim],
    out_spatial_dims: Dim | Sequence[Dim] | None = None,
    use_mask: bool | None = None,
    **unknown: Never,
) -> tuple[Tensor, tuple[Dim, ...]]:
    """The maximum or the mean of each window.

    Args:
        source: {..., in_spatial_dims}
        nd: Number of spatial dims, if it is to be checked.
        mode: "max" or "avg". Only real frames count: neither frames past a sequence's end nor the padding around it.
        pool_size: Frames in a window; one number for all spatial dims or one for each, like:
        padding: "same", "valid" or the number of frames on each side. See `conv`.
        dilation_rate: Frames from one entry of the window to the next.
        strides: Frames from one window to the next. Default: pool_size, so that windows do not overlap.
        in_spatial_dims: One to three dims along which the window moves.
        out_spatial_dims: Dims of the result; those without size are filled in. Default: `make_conv_out_spatial_dims`.
        use_mask: Exclude frames past a sequence's end (the default).

    Returns:
        {..., out spatial dims}, and these dims; 0 in the padding. A window without any real frame yields the neutral element of
            `reduce`: -inf, or 0 for the mean. The mean of integers is a float.

    Raises:
        DimError: If a dim is missing, there are not `nd` of them, or an out_spatial_dim has another size.
        ValueError: For an unknown mode or padding, or a size, stride or dilation below 1.
    """
    need_tensors("pool", source)
    spatial = dims_of("pool", in_spatial_dims)
    out_spatial = None if out_spatial_dims is None else dims_of("pool", out_spatial_dims)
    options = map(hashable, (pool_size, padding, strides, dilation_rate))
    key = (source._raw.__class__, source.dtype, source.dims, nd, mode, spatial, out_spatial, *options, use_mask)
    try:
        fn, dims, new_spatial = _plans[key]
    except KeyError:
        fn, dims, new_spatial = _plans.make(key, _plan, source, key)
    out = new_tensor(fn(source._raw), dims, source)
    if source._feature_dim in spatial:
        out._feature_dim = new_spatial[spatial.index(source._feature_dim)]
    return out, new_spatial


def _plan(source: Tensor, key: tuple[Any, ...]) -> tuple[Any, Dims, Dims]:
    nd, mode, spatial, out_spatial, size, padding, strides, dilation, use_mask = key[3:]
    if mode not in ("max", "avg"):
        raise not_one_of(f'pool: unknown mode "{mode}".', "mode", mode, ("max", "avg"), "A mode is one of these.")
    if nd is not None and nd != len(spatial):
        raise dim_error(
            f"pool{nd}d: {nd} spatial dims are needed.",
            {"source": source, "in_spatial_dims": dims_text(spatial)},
            "The number is that of the dims along which the window moves.",
        )
    check_spatial("pool", source, spatial)
    windows = make_windows("pool", spatial, size, padding, strides, dilation, size_name="pool_size")
    computed = tuple(window.out_length(dim) for window, dim in zip(windows, spatial))
    out_spatial = settle_out_dims("pool", computed, out_spatial)
    backend, use_mask = source.backend, use_mask is not False
    if mode == "max":
        fn, dims = _moving("max", source, spatial, out_spatial, windows, use_mask)
        mask, where = masks_for(dims, out_spatial, backend, "pool"), backend.where_raw
        return fn if mask is None else (lambda raw: _masked(fn(raw), mask, where)), dims, out_spatial
    dtype, cast = source.dtype, backend.cast_raw
    whole = not has_fractions(dtype)
    if whole:
        source = new_tensor(cast(source._raw, get_default_float_dtype()), source.dims)
    fn, dims = _moving("sum", source, spatial, out_spatial, windows, use_mask)
    count, divide = _counts(source, spatial, out_spatial, windows, use_mask, dims), backend.binary_tensors_fn("truediv")

    def mean(dtype: str) -> Any:
        wide = "float32" if dtype in HALF else dtype
        return in_float32(lambda raw: divide(fn(raw), count(raw, wide)), dtype, backend)

    def mean_of_whole(raw: Any) -> Any:
        dtype = get_default_float_dtype()  # it may change, and differs between threads
        return mean(dtype)(cast(raw, dtype))

    return mean_of_whole if whole else mean(dtype), dims, out_spatial


def _masked(raw: Any, mask: Any, where: Any) -> Any:
    return where(mask(raw), raw, 0)


def _moving(
    kind: str, source: Tensor, spatial: Dims, out_spatial: Dims, windows: tuple[Window, ...], use_mask: bool
) -> tuple[Any, Dims]:
    """The sum or maximum of each window as a function of the raw array, and the dims of the result."""
    backend = source.backend
    neutral = 0 if kind == "sum" else backend.extreme_value(source.dtype, -1)
    arrange, batch = to_kernel("pool", source, (), spatial, neutral, use_mask)
    restore = from_kernel(batch, out_spatial, zip(windows, spatial, out_spatial), backend)
    size, pads, stride, dilation = (
        [getattr(window, name) for window in windows] for name in ("size", "pads", "stride", "dilation")
    )
    pool_raw = backend.pool_raw
    dims = check_unique(batch + out_spatial, "pool")
    return (lambda raw: restore(pool_raw(arrange(raw), kind, size, pads, stride, dilation, neutral))), dims


def _counts(
    source: Tensor, spatial: Dims, out_spatial: Dims, windows: tuple[Window, ...], use_mask: bool, dims: Dims
) -> Any:
    """The number of real frames (at least 1) in each window, as a function (raw, dtype) -> array that broadcasts against `dims`."""
    backend: type[Backend] = source.backend
    lengths = {other for dim in spatial if use_mask and dim.has_padding() for other in dim.length_dims}
    own = tuple(dim for dim in source.dims if dim in spatial or dim in lengths)
    cache = Memo()

    def counts(raw: Any, dtype: str) -> Any:
        device = backend.get_device_raw(raw)
        found = cache.get((device, dtype))
        if found is None:
            # On the host, through NumPy: what is made here in inference mode has to serve training later.
            ones = backend.full_raw(full_shape(own), 1, dtype="float32", device="cpu")
            fn, out_dims = _moving("sum", new_tensor(ones, own), spatial, out_spatial, windows, use_mask)
            found, shape = backend.clip_raw(fn(ones), 1, None), view(out_dims, dims, backend)
            host = backend.raw_to_numpy(found if shape is None else shape(found))
            found = cache.keep((device, dtype), backend.from_numpy(host, dtype=dtype, device=device))
        return found

    return counts


@op
def max_pool(
    source: Tensor,
    *extra: Never,
    pool_size: IntOrDim | Sequence[IntOrDim],
    padding: Padding | Sequence[Padding] = "valid",
    dilation_rate: int | Sequence[int] = 1,
    strides: int | Sequence[int] | None = None,
    in_spatial_dims: Dim | Sequence[Dim],
    out_spatial_dims: Dim | Sequence[Dim] | None = None,
    **unknown: Never,
) -> tuple[Tensor, tuple[Dim, ...]]:
    """The maximum of each window. See `pool`."""
    return pool(source, mode="max", pool_size=pool_size, padding=padding, dilation_rate=dilation_rate, strides=strides,
                in_spatial_dims=in_spatial_dims, out_spatial_dims=out_spatial_dims)  # fmt: skip


@op
def max_pool1d(
    source: Tensor,
    *extra: Never,
    pool_size: IntOrDim | Sequence[IntOrDim],
    padding: Padding | Sequence[Padding] = "valid",
    dilation_rate: int | Sequence[int] = 1,
    strides: int | Sequence[int] | None = None,
    in_spatial_dim: Dim,
    out_spatial_dim: Dim | None = None,
    **unknown: Never,
) -> tuple[Tensor, Dim]:
    """The maximum of each window along one dim. See `pool`."""
    return pool1d(source, mode="max", pool_size=pool_size, padding=padding, dilation_rate=dilation_rate, strides=strides,
                  in_spatial_dim=in_spatial_dim, out_spatial_dim=out_spatial_dim)  # fmt: skip


@op
def pool1d(
    source: Tensor,
    *extra: Never,
    mode: str,
    pool_size: IntOrDim | Sequence[IntOrDim],
    padding: Padding | Sequence[Padding] = "valid",
    dilation_rate: int | Sequence[int] = 1,
    strides: int | Sequence[int] | None = None,
    in_spatial_dim: Dim,
    out_spatial_dim: Dim | None = None,
    **unknown: Never,
) -> tuple[Tensor, Dim]:
    """Pooling along one dim: {..., in_spatial_dim} -> {..., out spatial dim}, and that dim. See `pool`."""
    out, (dim,) = pool(source, mode=mode, pool_size=pool_size, padding=padding, dilation_rate=dilation_rate, strides=strides,
                       in_spatial_dims=(in_spatial_dim,),
                       out_spatial_dims=None if out_spatial_dim is None else (out_spatial_dim,))  # fmt: skip
    return out, dim


@op
def pool2d(
    source: Tensor,
    *extra: Never,
    mode: str,
    pool_size: IntOrDim | Sequence[IntOrDim],
    padding: Padding | Sequence[Padding] = "valid",
    dilation_rate: int | Sequence[int] = 1,
    strides: int | Sequence[int] | None = None,
    in_spatial_dims: Sequence[Dim],
    out_spatial_dims: Sequence[Dim] | None = None,
    **unknown: Never,
) -> tuple[Tensor, tuple[Dim, ...]]:
    """Pooling along two dims. See `pool`."""
    return pool(source, nd=2, mode=mode, pool_size=pool_size, padding=padding, dilation_rate=dilation_rate, strides=strides,
                in_spatial_dims=in_spatial_dims, out_spatial_dims=out_spatial_dims)  # fmt: skip


@op
def pool3d(
    source: Tensor,
    *extra: Never,
    mode: str,
    pool_size: IntOrDim | Sequence[IntOrDim],
    padding: Padding | Sequence[Padding] = "valid",
    dilation_rate: int | Sequence[int] = 1,
    strides: int | Sequence[int] | None = None,
    in_spatial_dims: Sequence[Dim],
    out_spatial_dims: Sequence[Dim] | None = None,
    **unknown: Never,
) -> tuple[Tensor, tuple[Dim, ...]]:
    """Pooling along three dims. See `pool`."""
    return pool(source, nd=3, mode=mode, pool_size=pool_size, padding=padding, dilation_rate=dilation_rate, strides=strides,
                in_spatial_dims=in_spatial_dims, out_spatial_dims=out_spatial_dims)  # fmt: skip
