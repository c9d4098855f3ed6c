"""Gradients: requesting, stopping and modifying them, and recomputing what they need."""

from __future__ import annotations

from typing import Any, Never

from rfnb.backends import registry
from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error
from rfnb.core.layout import masks_for
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.core.tensor_text import operand_rows
from rfnb.core.type_errors import not_a_tensor
from rfnb.ops.operands import need_tensors


@op(changes_state=True)
def set_requires_gradient(source: Tensor, *extra: Never, **unknown: Never) -> None:
    """Track gradients with respect to `source`, in place; {...}."""
    need_tensors("set_requires_gradient", source)
    source.backend.set_requires_gradient_raw(source._raw, True)


@op(changes_state=True)
def gradient(y: Tensor, x: Tensor, *extra: Never, **unknown: Never) -> Tensor:
    """dy/dx of a scalar y, with the dims of x; it can be differentiated again."""
    need_tensors("gradient", y, x)
    return x._like(x.backend.gradient_raw(y._raw, x._raw), x.dims)


@op
def stop_gradient(source: Tensor, *extra: Never, **unknown: Never) -> Tensor:
    """The same values without gradient; {...} -> {...}."""
    if not isinstance(source, Tensor):
        raise not_a_tensor("stop_gradient", source)
    return source._like(source.backend.detach_raw(source._raw), source.dims)


def stop_gradient_scope(*extra: Never, **unknown: Never) -> Any:
    """A context manager in which no gradients are tracked."""
    return registry.selected().no_grad()


@op
def scaled_gradient(source: Tensor, scale: float | Tensor, *extra: Never, **unknown: Never) -> Tensor:
    """The same values, with the gradient multiplied by `scale`.

    Args:
        source: {...}
        scale: 0 stops the gradient; a negative one reverses it. A Tensor has some of the dims of source.

    Raises:
        DimError: If scale has a dim that source lacks.

    Source: Ganin and Lempitsky 2015, "Unsupervised Domain Adaptation by Backpropagation", equations (7) and (8), for scale < 0.
    """
    need_tensors("scaled_gradient", source)
    if not isinstance(scale, Tensor) and scale == 0:
        return stop_gradient(source)
    return scaled_gradient_ext(source, scale=scale)


@op
def scaled_gradient_ext(
    source: Tensor,
    *extra: Never,
    scale: float | Tensor,
    shift: float | Tensor | None = None,
    scale_shift_by_sum_over_axis: Dim | None = None,
    **unknown: Never,
) -> Tensor:
    """The same values, with the gradient g replaced by g * scale + shift, or g * scale + shift * (sum of |g| over an axis).

    Args:
        source: {...}
        scale, shift: Numbers, or Tensors with some of the dims of source; no gradient goes to them.
        scale_shift_by_sum_over_axis: Multiply the shift by the sum of the absolute gradient over this dim.

    Returns:
        {...}. With a shift the gradient of padding is 0.

    Raises:
        DimError: If scale or shift has a dim that source lacks, or source lacks the axis.
    """
    return shifted_gradient(source, scale, shift, scale_shift_by_sum_over_axis, absolute=True)


@op
def shifted_gradient(
    source: Tensor, scale: float | Tensor, shift: float | Tensor | None, over: Dim | None, *, absolute: bool
) -> Tensor:
    """`scaled_gradient_ext`, with a sum over a dim of either the absolute gradient or the gradient; {...} -> {...}."""
    need_tensors("scaled_gradient_ext", source)
    axis = None
    if over is not None:
        check_dim("scaled_gradient_ext", source, over, "source")
        axis = source.dims.index(over)
    raws = [_fitting(source, value, name) for name, value in (("scale", scale), ("shift", shift))]
    mask = None
    if shift is not None:  # else the gradient of padding, which is 0, stays so
        here = [dim for dim in source.dims if set(dim.length_dims) <= set(source.dims)]
        mask = masks_for(source.dims, here, source.backend, "scaled_gradient_ext")
    raw = source.backend.scaled_gradient_raw(
        source._raw, *raws, axis, None if mask is None else mask(source._raw), absolute
    )
    return source._like(raw, source.dims)


def _fitting(source: Tensor, value: Any, name: str) -> Any:
    """A number, or the raw array that broadcasts against `source`."""
    if not isinstance(value, Tensor):
        return value
    if not set(value.dims) <= set(source.dims):
        raise dim_error(
            f"scaled_gradient_ext: {name} has dims that source lacks.",
            operand_rows([("source", source), (name, value)]),
            "The gradient has the dims of source.",
        )
    return value.copy_compatible_to_dims_raw(source.dims)


def gradient_checkpoint_scope(*extra: Never, **unknown: Never) -> Any:
    """A context manager that recomputes the tensors made inside during backward instead of keeping them, which saves memory and costs
    time.

        with rf.gradient_checkpoint_scope():
            x = layer(x)

    Random numbers are repeated, so dropout is the same. Values that a later op outside of the scope needs for its own backward (here x)
    are kept by that op. Each scope is recomputed as a whole when backward first needs one of its values; so several consecutive scopes
    need less memory than one around all. Scopes may be nested.

    Backward raises a RuntimeError if an input of the scope, or a needed tensor from inside, was changed in place since. With NumPy there
    is no backward, and the scope has no effect.

    Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", section 3.
    """
    return registry.selected().checkpoint_scope()
