"""The lengths given for a named array: which axis they belong to, and the axes they are over."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.axis_names import name_of
from rfnb.core.errors import DimError, dim_error, shape_error, type_error
from rfnb.core.foreign_arrays import host_array
from rfnb.core.lengths import check_lengths
from rfnb.core.tensor import Tensor

# What a dim is called that sequences run along, if lengths do not say of which dim they are.
_TIMES = {
    "time", "times", "frame", "frames", "step", "steps", "token", "tokens", "position", "positions", "seq", "seqs", "sequence",
    "seq_len", "length", "source", "target", "word", "words", "sample", "samples", "char", "chars", "t", "l", "s",
}  # fmt: skip


class RawAxis(NamedTuple):
    """An axis of the array: its name, its size, the kind of dim that the name implies, and the Dim if given."""

    name: str
    size: int
    kind: str | None
    dim: Any = None


class Ragged(NamedTuple):
    """Lengths of one axis over others, by index."""

    axis: int
    lengths: np.ndarray
    over: tuple[int, ...]

    def cut(self, axes: Sequence[RawAxis]) -> Ragged:
        """The same for axes that have been shortened."""
        return self._replace(lengths=self.lengths[tuple(slice(axes[at].size) for at in self.over)])


def ragged_axes(axes: Sequence[RawAxis], lengths: Any) -> list[Ragged]:
    """The lengths given by the caller: None, lengths or a mask, or a dict of these by name.

    Raises:
        DimError: If it is unclear which dim they belong to, or which dims they are over; if they are not lengths, or a mask is not a
            mask of lengths.
        ShapeError: If a sequence is longer than the array, or there is not one length per sequence.
    """
    if lengths is None:
        return []
    if isinstance(lengths, Mapping):
        return [ragged_axis(axes, _axis_of(axes, name), value) for name, value in lengths.items()]
    return [ragged_axis(axes, _found(axes), lengths)]


def ragged_axis(axes: Sequence[RawAxis], at: int, given: Any, over: Sequence[str] | None = None) -> Ragged:
    """The lengths of one axis.

    Args:
        over: The names of the axes of the lengths, if known.
    """
    axis = axes[at]
    if isinstance(given, Tensor):
        array, over = given.numpy(), [dim.name for dim in given.dims]
        if over and over[-1] == axis.name and _is_mask(array, axes, at):
            over = over[:-1]
            array = _of_mask(array, axes, at)
    else:
        array = np.asarray(host_array(given, "named: lengths"))
        if array.ndim and _is_mask(array, axes, at):
            array = _of_mask(array, axes, at)
    if array.ndim == 0 and over is None:
        raise type_error(
            "named: lengths is one number.",
            {"x": _text(axes), "lengths": array.dtype},
            "Lengths are one per sequence. An array that is of the same length for all has none.",
            f"rf.named(x[..., :n], ...)    # cut the axis {axis.name} instead",
        )
    check_lengths(axis.name, array)
    at_over = _over(axes, at, array, over)
    longest = int(array.max()) if array.size else 0
    if longest > axis.size:
        raise shape_error(
            "named: a sequence is longer than the array.",
            [("x", _text(axes)), (f"lengths of {axis.name}", f"{array.size}, the longest {longest}")],
            f"The axis of {axis.name} holds the longest sequence.",
            f"lengths = lengths.clip(max={axis.size})    # if sequences were cut",
        )
    return Ragged(at, array.astype(np.int32), at_over)


def _axis_of(axes: Sequence[RawAxis], name: Any) -> int:
    found = [at for at, axis in enumerate(axes) if axis.name == name_of(name)]
    if not found:
        raise dim_error(
            f'named: lengths has "{name_of(name)}", which is none of the names.',
            {"x": _text(axes)},
            "Lengths by name are of one of the axes.",
            f'lengths={{"{_likely(axes).name}": [...]}}' if axes else None,
        )
    return found[0]


def possible_axes(axes: Sequence[RawAxis]) -> list[int]:
    """The axes that unnamed lengths may belong to: those called time or similar, else all but batch and features."""
    names = [axis.name for axis in axes]
    free = [at for at, axis in enumerate(axes) if axis.kind is None and names.index(axis.name) == at]
    return [at for at in free if axes[at].name in _TIMES] or free


def _found(axes: Sequence[RawAxis]) -> int:
    """The axis that unnamed lengths belong to."""
    choice = possible_axes(axes)
    if len(choice) == 1:
        return choice[0]
    raise dim_error(
        "named: of which dim are the lengths?",
        {"x": _text(axes), "possible": ", ".join(axes[at].name for at in choice) or "none"},
        "Lengths without a name belong to a dim named time, or similar. Name the dim:",
        f'lengths={{"{_likely(axes).name}": lengths}}' if axes else None,
    )


def _likely(axes: Sequence[RawAxis]) -> RawAxis:
    return next((axis for axis in reversed(axes) if axis.kind is None), axes[-1])


def _is_mask(array: np.ndarray, axes: Sequence[RawAxis], at: int) -> bool:
    if array.dtype.kind == "b":
        return True
    return array.ndim > 1 and array.shape[-1] == axes[at].size and bool(((array == 0) | (array == 1)).all())


def _of_mask(array: np.ndarray, axes: Sequence[RawAxis], at: int) -> np.ndarray:
    """The lengths given by a mask, True for real frames, the axis itself last."""
    axis, mask = axes[at], array.astype(bool)
    rows = [("x", _text(axes)), ("mask", array.shape)]
    if mask.ndim < 2 or mask.shape[-1] != axis.size:
        raise shape_error(
            "named: the mask does not fit the array.",
            rows,
            f"A mask has an entry for each sequence and each position of {axis.name}, that one last.",
            "mask = x.new_ones(x.shape[:2], dtype=bool)",
        )
    lengths = mask.sum(-1)
    is_prefix = mask == (np.arange(axis.size) < lengths[..., None])
    if not is_prefix.all() or (mask.size and not mask.any()):
        flipped = ~mask == (np.arange(axis.size) < (~mask).sum(-1)[..., None])
        if flipped.all():
            raise dim_error(
                "named: the mask is false first, and true afterwards.",
                rows,
                "A mask is true for real frames, and lengths count them from the start on. If it is true for padding, turn it around;\n"
                "if sequences are padded on the left, there are no lengths: keep it as a mask.",
                f'lengths=~mask\nmask = rf.named(mask, "batch {axis.name}", dims=x.dims)',
            )
        raise dim_error(
            "named: the mask is none of lengths.",
            [*rows, ("first", f"sequence {tuple(map(int, np.argwhere(~is_prefix)[0][:-1]))}")],
            "Lengths count real frames from the start on; this mask has padding before or between them. Keep it as a mask:",
            f'mask = rf.named(mask, "batch {axis.name}", dims=x.dims)',
        )
    return np.asarray(lengths)


def _over(axes: Sequence[RawAxis], at: int, array: np.ndarray, names: Sequence[str] | None) -> tuple[int, ...]:
    others = [index for index in range(len(axes)) if index != at]
    if names is not None:
        found = [next((index for index in others if axes[index].name == name), None) for name in names]
        known = [index for index in found if index is not None]
        if len(known) < len(found):
            raise _misfit(axes, at, array, f"These lengths are over {', '.join(names)}.")
        ways = [tuple(known)]
    else:
        batch = [index for index in others if axes[index].kind == "batch"]
        ways = [tuple(batch)] if array.ndim == 1 == len(batch) else list(itertools.combinations(others, array.ndim))
    fitting = [way for way in ways if tuple(axes[index].size for index in way) == array.shape]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise _misfit(axes, at, array, "There is one length per sequence.")
    possible = [" ".join(axes[index].name for index in way) for way in fitting]
    raise dim_error(
        f"named: over which dim are the lengths of {axes[at].name}?",
        {"x": _text(axes), "lengths": array.shape, "possible": ", or ".join(possible)},
        "Neither names nor sizes tell. Name them too:",
        f'lengths={{"{axes[at].name}": rf.named(lengths, "{possible[0]}")}}',
    )


def _misfit(axes: Sequence[RawAxis], at: int, array: np.ndarray, rule: str) -> Exception:
    return shape_error(
        "named: the lengths do not fit the array.",
        [("x", _text(axes)), (f"lengths of {axes[at].name}", array.shape)],
        rule,
        f'rf.named(x, ..., lengths={{"{axes[at].name}": [...]}})',
    )


def check_same(axis: RawAxis, found: Ragged, axes: Sequence[RawAxis]) -> None:
    """Raise a DimError if a given Dim has other lengths than those given."""
    own = axis.dim.lengths
    if own is None or own.shape != found.lengths.shape or not (own == found.lengths).all():
        raise other_lengths(axis, axes)


def other_lengths(axis: RawAxis, axes: Sequence[RawAxis]) -> DimError:
    """The error for a Dim and lengths that contradict each other."""
    return dim_error(
        f'named: the Dim "{axis.name}" has other lengths.',
        [("x", _text(axes)), (axis.name, repr(axis.dim))],
        "A Dim has its own lengths: leave out lengths=, or leave out the Dim for a new one.",
        f'rf.named(x, ..., dims={{"{axis.name}": {axis.name}}})',
    )


def _text(axes: Sequence[RawAxis]) -> str:
    return "[" + ", ".join(f"{axis.name}={axis.size}" for axis in axes) + "]"
