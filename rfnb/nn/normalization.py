"""Normalisation of single frames: LayerNorm, RMSNorm, GroupNorm; and moments without padding.

Normalisation over all frames of a batch is in `batch_norm.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error
from rfnb.core.finite_padding import finite_with
from rfnb.core.layout import PlanCache, to_order
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_dim, dims_of
from rfnb.core.tensor_text import dims_text
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.ops.amp import narrowed, widened
from rfnb.ops.const import ones
from rfnb.ops.defaults import is_float_dtype
from rfnb.ops.gradient import stop_gradient
from rfnb.ops.math import abs, maximum, rsqrt, square, squared_difference
from rfnb.ops.merge import merge_dims, split_dims
from rfnb.ops.operands import need_tensors
from rfnb.ops.reduce import reduce_mean, reduce_sum, refuse_distributed

_plans = PlanCache()


def moments(
    x: Tensor,
    axis: Dim | Sequence[Dim],
    *extra: Never,
    use_mask: bool = True,
    correction: int = 0,
    distributed: bool = False,
    **unknown: Never,
) -> tuple[Tensor, Tensor]:
    """The mean and variance over the real frames of `axis`.

    Args:
        x: {..., axis}
        use_mask: False includes the padding.
        correction: Subtracted from the number of frames in the denominator of the variance; 1 for the unbiased estimate.
        distributed: True is not supported.

    Returns:
        mean {...}, variance {...}; for complex numbers that of the distances from the mean. Both are 0 for an empty sequence.

    Raises:
        DimError: If an axis is not a dim of x.
        NotImplementedError: For the frames of all processes of a distributed training.
    """
    need_tensors("moments", x)
    if distributed:
        refuse_distributed("moments", x)
    axes = dims_of("moments", axis)
    mean, variance = wide_moments(x, axes, use_mask=use_mask, correction=correction)
    return narrowed(mean, x), narrowed(variance, x)


def wide_moments(x: Tensor, axes: Dims, *, use_mask: bool = True, correction: int = 0) -> tuple[Tensor, Tensor]:
    """`moments`, computed in float32 if x has 16 bits: the variance may exceed the range of float16 even if x does not."""
    x = widened(x)
    if use_mask:
        x = x.copy_masked(0, dims=axes)  # otherwise NaN in the padding enters the gradient of the mean
    mean = reduce_mean(x, axis=axes, use_mask=use_mask)
    # The gradient through the mean is zero (the differences sum to 0), so it is not computed.
    squares = squared_difference(x, stop_gradient(mean)) if is_float_dtype(x.dtype) else square(abs(x - mean))
    variance = reduce_mean(squares, axis=axes, use_mask=use_mask)
    if correction:
        over = [dim for own in axes for dim in own.length_dims if dim not in axes]
        count = ones((*dict.fromkeys(over), *axes), dtype=variance.dtype, device=variance.device)
        count = reduce_sum(count, axis=axes, use_mask=use_mask)
        variance = variance * (count / maximum(count - correction, 1.0))
    return mean, variance


def normalize(a: Tensor, *extra: Never, axis: Dim | Sequence[Dim], epsilon: float = 1e-6, **unknown: Never) -> Tensor:
    """(a - mean) / sqrt(variance + epsilon), over the real frames of `axis`. See `moments`."""
    need_tensors("normalize", a)
    return narrowed(_normalized(widened(a), dims_of("normalize", axis), epsilon), a)


def _normalized(a: Tensor, axes: Dims, epsilon: float) -> Tensor:
    a = a.copy_masked(0, dims=axes)  # as in `moments`
    mean, variance = wide_moments(a, axes)
    return (a - mean) * rsqrt(variance + epsilon)


class Normalize(Module):
    """`normalize`, then a scale and a bias.

    Parameters:
        scale: {param_dims}, one. bias: {param_dims}, zero. Either may be omitted.
    """

    def __init__(
        self, *, param_dims: Dim | Sequence[Dim], epsilon: float = 1e-6, scale: bool = True, bias: bool = True
    ):
        self.epsilon = epsilon
        dims = dims_of("Normalize", param_dims)
        self.scale = Parameter(dims, initial=1.0) if scale else None
        self.bias = Parameter(dims) if bias else None

    def __call__(self, a: Tensor, *, axis: Dim | Sequence[Dim]) -> Tensor:
        """{..., axis} -> {..., axis}."""
        out = _normalized(widened(a), dims_of("Normalize", axis), self.epsilon)
        return narrowed(affine(out, self.scale, self.bias), a)


class _FrameNorm(Module):
    """A norm of single frames, in a kernel of the backend."""

    _kernel: str

    def __init__(self, in_dim: Dim | Sequence[Dim], *, eps: float, with_bias: bool):
        self.in_dim, self.eps = in_dim, eps
        self._dims = dims_of(type(self).__name__, in_dim)
        self.scale = Parameter(self._dims, initial=1.0)
        self.bias = Parameter(self._dims) if with_bias else None

    @op
    def __call__(self, x: Tensor) -> Tensor:
        """{..., in} -> {..., in}, in last.

        Raises:
            DimError: If x lacks one of in_dim.
        """
        key = (x._raw.__class__, x.dims, self._dims, self._kernel)
        try:
            kernel, order, dims = _plans[key]
        except KeyError:
            kernel, order, dims = _plans.make(key, self._plan, x)
        if not x._finite:
            x = finite_with(x, self.scale)
        raw = x._raw if order is None else order(x._raw)
        bias = None if self.bias is None else self.bias._raw
        out = new_tensor(kernel(raw, self.scale._raw, bias, self.eps), dims)
        out._feature_dim = x._feature_dim
        out._finite = x._finite
        return out

    def _plan(self, x: Tensor) -> Any:
        check_dims(type(self).__name__, x, self._dims)
        dims = (*(dim for dim in x.dims if dim not in self._dims), *self._dims)
        return getattr(x.backend, self._kernel), to_order(x.dims, dims, x.backend), dims


class LayerNorm(_FrameNorm):
    """(x - mean) / sqrt(variance + eps) * scale + bias, over `in_dim` (one dim or several) of each frame.

    Parameters:
        scale: {in}, one. bias: {in}, zero.

    Source: Ba et al. 2016, equation (4).
    """

    _kernel = "layer_norm_raw"

    def __init__(self, in_dim: Dim | Sequence[Dim], *, eps: float = 1e-6, with_bias: bool = True):
        super().__init__(in_dim, eps=eps, with_bias=with_bias)


class RMSNorm(_FrameNorm):
    """x / sqrt(mean(x²) + eps) * scale, over `in_dim` (one dim or several) of each frame.

    Parameters:
        scale: {in}, one. bias: {in}, zero, if requested.

    Source: Zhang and Sennrich 2019, equation (4).
    """

    _kernel = "rms_norm_raw"

    def __init__(self, in_dim: Dim | Sequence[Dim], *, eps: float = 1e-6, with_bias: bool = False):
        super().__init__(in_dim, eps=eps, with_bias=with_bias)


class GroupNorm(Module):
    """The features in `num_groups` equal groups, each normalised separately in each frame.

    Parameters:
        scale: {in}, one. bias: {in}, zero.

    Source: Wu and He 2018, equations (1), (2), (7), but with the statistics of one frame; `GroupNormSpatial` follows the paper.

    Raises:
        DimError: If num_groups does not divide in_dim.
    """

    def __init__(self, in_dim: Dim | Sequence[Dim], *, num_groups: int | Dim, eps: float = 1e-6):
        in_dim = _one_dim(type(self).__name__, in_dim)
        self.in_dim, self.num_groups, self.eps = in_dim, num_groups, eps
        self._groups = group_dims(type(self).__name__, in_dim, num_groups)
        self.scale, self.bias = Parameter((in_dim,), initial=1.0), Parameter((in_dim,))

    def __call__(self, x: Tensor) -> Tensor:
        """{..., in} -> {..., in}."""
        return self._over(x, ())

    def _over(self, x: Tensor, spatial_dims: Dims) -> Tensor:
        check_dims(type(self).__name__, x, (self.in_dim, *spatial_dims))
        split = split_dims(widened(x), axis=self.in_dim, dims=self._groups)
        split = _normalized(split, (*spatial_dims, self._groups[1]), self.eps)
        out, _ = merge_dims(split, dims=self._groups, out_dim=self.in_dim)
        return narrowed(affine(out, self.scale, self.bias), x)


class GroupNormSpatial(GroupNorm):
    """`GroupNorm` with statistics over all frames: the usual definition."""

    def __call__(self, x: Tensor, *, spatial_dim: Dim | Sequence[Dim]) -> Tensor:  # type: ignore[override]
        """{..., spatial_dim, in} -> {..., spatial_dim, in}; padding is excluded."""
        return self._over(x, dims_of("GroupNormSpatial", spatial_dim))


def affine(x: Tensor, scale: Tensor | None, bias: Tensor | None) -> Tensor:
    """x * scale + bias; either may be None."""
    x = x if scale is None else finite_with(x, scale) * scale
    return x if bias is None else x + bias


def check_dims(what: str, x: Tensor, dims: Sequence[Dim]) -> None:
    """Raise a DimError unless all of `dims` are dims of x."""
    for dim in dims:
        check_dim(what, x, dim, "x")


def _one_dim(what: str, in_dim: Dim | Sequence[Dim]) -> Dim:
    dims = dims_of(what, in_dim)
    if len(dims) != 1:
        raise dim_error(
            f"{what}: groups of one dim.",
            {"in_dim": dims_text(dims)},
            "The order within one dim determines which features are a group. Merge the dims first:",
            "x, in_dim = rf.merge_dims(x, dims=[...])",
        )
    return dims[0]


def group_dims(what: str, in_dim: Dim, num_groups: int | Dim) -> tuple[Dim, Dim]:
    """(group, feature within the group)."""
    group = Dim(num_groups.extent if isinstance(num_groups, Dim) else num_groups, name="group")
    if group.extent < 1 or in_dim.extent % group.extent:
        raise dim_error(
            f"{what}: the features do not split into equal groups.",
            {"in_dim": in_dim, "num_groups": group.extent},
            "num_groups divides the size of in_dim.",
        )
    return group, Dim(in_dim.extent // group.extent, name=f"{in_dim.name}_of_group")
