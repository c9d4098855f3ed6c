"""Shifting frames within their sequences."""

from __future__ import annotations

from typing import Any, Never

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.layout import masks_for
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.ops.gather import gather
from rfnb.ops.operands import need_tensors
from rfnb.ops.out_dim import check_movable
from rfnb.ops.pad import pad


@op
def shift_right(
    source: Tensor, *extra: Never, axis: Dim, pad_value: float | int | Tensor, amount: int = 1, **unknown: Never
) -> Tensor:
    """Shift each sequence by `amount` frames to the right, with `pad_value` in front; same dims.

    {..., axis} -> {..., axis}.

    Raises:
        ValueError: If amount is negative.
    """
    return _shifted("shift_right", source, axis, pad_value, amount, 0)


@op
def shift_left(
    source: Tensor, *extra: Never, axis: Dim, pad_value: float | int | Tensor, amount: int = 1, **unknown: Never
) -> Tensor:
    """Shift each sequence by `amount` frames to the left, with `pad_value` at its end; same dims.

    {..., axis} -> {..., axis}.

    Raises:
        ValueError: If amount is negative.
    """
    return _shifted("shift_left", source, axis, pad_value, 0, amount)


def _shifted(what: str, source: Tensor, axis: Dim, pad_value: Any, left: int, right: int) -> Tensor:
    """The frames with `pad_value` added on one side, and as many cut off on the other."""
    need_tensors(what, source)
    check_movable(what, source, axis)
    amount = left + right
    if amount < 0:
        other = "shift_left" if what == "shift_right" else "shift_right"
        rows = {"source": source, "axis": axis, "amount": amount}
        rule = "An amount is 0 or more; the other direction is"
        raise value_error(f"{what}: a negative amount.", rows, rule, f"rf.{other}(..., amount={-amount})")
    padded, (longer,) = pad(source, axes=[axis], padding=[(left, right)], value=pad_value)
    index = padded.axis_of(longer)
    raw = padded.backend.slice_raw(padded._raw, index, right, right + axis.extent)
    out = padded._like(raw, (*padded.dims[:index], axis, *padded.dims[index + 1 :]))
    if padded.feature_dim is longer:
        out.feature_dim = axis
    return out


@op
def reverse_sequence(
    tensor: Tensor, *extra: Never, axis: Dim, handle_dynamic_dims: bool = True, **unknown: Never
) -> Tensor:
    """The real frames of each sequence in reverse order; padding stays at the end; {..., axis} -> {..., axis}."""
    need_tensors("reverse_sequence", tensor)
    index = tensor.axis_of(axis, "reverse_sequence")
    check_movable("reverse_sequence", tensor, axis)
    if not handle_dynamic_dims or not axis.has_padding():
        return tensor._like(tensor.backend.flip_raw(tensor._raw, index), tensor.dims)
    masks_for(tensor.dims, [axis], tensor.backend, "reverse_sequence")
    # Lengths may have padding themselves.
    lengths = np.minimum(np.asarray(axis.lengths), axis.extent)[..., None].astype(np.int64)
    steps = np.arange(axis.extent)
    positions = np.where(steps < lengths, lengths - 1 - steps, steps)
    raw = tensor.backend.from_numpy(positions, dtype="int64", device=tensor.device)
    return gather(tensor, indices=new_tensor(raw, (*axis.length_dims, axis)), axis=axis).copy_transpose(tensor.dims)
