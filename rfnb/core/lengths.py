"""Lengths: the sizes of a Dim that is not static. They live on the host, so nothing here makes a GPU wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rfnb.core.errors import dim_error

if TYPE_CHECKING:
    from rfnb.core.dim import Dim, Dims

_LONGEST = np.iinfo(np.int32).max


class Lengths:
    """One length per sequence; immutable: a dim of the next batch gets other ones.

    Attributes:
        array: int32, axes in the order of `over`.
        over: The dims of the lengths, usually (batch,); empty for a single number.
    """

    __slots__ = ("array", "over")

    def __init__(self, array: np.ndarray, over: Sequence[Dim]):
        self.array, self.over = array, tuple(over)

    def valid(self) -> np.ndarray:
        """The lengths, with 0 for those that are themselves in the padding of a ragged dim."""
        return valid_lengths(self.array, self.over)

    def bounds(self) -> tuple[int, int]:
        """The shortest and the longest sequence; (0, 0) if there is none."""
        return _bounds(valid_lengths(self.array, self.over))

    def mask(self, longest: int) -> np.ndarray:
        """True for real frames, axes in the order of `over`, the frames last."""
        mask: np.ndarray = np.arange(longest, dtype=np.int32) < self.array[..., None]
        return mask

    def text(self, longest: int) -> str:
        """`7, 5, 3 over batch=3, 29 % padding`; the first eight lengths."""
        real = self.valid()
        shown = ", ".join(map(str, real.ravel()[:8])) + (", ..." if real.size > 8 else "")
        over = ", ".join(dim.short_repr() for dim in self.over)
        cells = real.size * longest
        waste = f", {100 * (1 - int(real.sum()) / cells):.0f} % padding" if cells else ""
        return f"{shown} over {over}{waste}"


def _bounds(array: np.ndarray) -> tuple[int, int]:
    if array.size > 256:
        return int(array.min()), int(array.max())
    few = array.ravel().tolist()  # quicker than two functions of NumPy
    return (min(few), max(few)) if few else (0, 0)


def check_lengths(name: str | None, array: np.ndarray, *, is_tensor: bool = True) -> int:
    """Raise a DimError unless all are integers from 0 to the maximum of int32; return the longest."""
    integers = array.dtype.kind in "iu"
    if not array.size or (integers and 0 <= (bounds := _bounds(array))[0] and bounds[1] <= _LONGEST):
        return bounds[1] if array.size else 0
    if not is_tensor and array.ndim == 0 and not integers:
        fix = f"Dim({int(array)})" if array.dtype.kind == "f" and np.isfinite(array) else f'Dim(3, name="{name}")'
        rule = "A size is an int; lengths are a Tensor of ints; None is a size that comes later."
        raise dim_error(f'Dim "{name}": this is no size.', {"got": array.dtype.type.__name__}, rule, fix)
    found = str(array.dtype)
    fix = 'rf.cast(lengths, "int32")' if is_tensor else "[int(length) for length in lengths]"
    if array.dtype.kind == "f" and np.isnan(array).any():
        found += f", {int(np.isnan(array).sum())} of them NaN"
        fix = 'lengths = rf.reduce_sum(rf.cast(mask, "int32"), axis=time)    # count the real frames'
    elif array.size and array.dtype.kind == "f":
        found += f", smallest {array.min()}"
    elif array.size and integers:
        found += f", smallest {array.min()}, largest {array.max()}"
        most = min(int(array.max()), _LONGEST)
        fix = (
            f"rf.clip_by_value(lengths, 0, {most})"
            if is_tensor
            else f"[min(max(length, 0), {most}) for length in lengths]"
        )
    rule = f"A length counts frames; {_LONGEST} is the most." if integers else "A length counts frames."
    raise dim_error(f'Dim "{name}": lengths must be integers, 0 or more.', {"lengths": found}, rule, fix)


def valid_lengths(lengths: np.ndarray, dims: Dims) -> np.ndarray:
    """The lengths that are not themselves in the padding of a ragged dim."""
    for dim in dims:
        if dim.size is None and dim.has_padding() and set(dim.length_dims) <= set(dims):
            lengths = np.where(dim.host_mask(dims), lengths, 0)
    return lengths
