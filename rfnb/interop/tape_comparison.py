"""Compare two tapes: which calls differ in real cells, and where that began."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch

from rfnb.interop.tape import Tape, TapeCall

SAME, DIFFERS, UNKNOWN = "same", "differs", "unknown"
_MOST_CALLS = 2000  # calls per module call that are matched by name
_MOST_WAYS = 24  # alignments tried for the axes of a pair


class AlignedAxis(NamedTuple):
    """An axis of a tensor aligned with that of another: its cells that the other one has (None: all), and its role."""

    cells: torch.Tensor | None
    name: str


class TensorDifference(NamedTuple):
    """The difference between two tensors.

    Attributes:
        most: The largest difference, relative to the larger of both cells and to the typical magnitude; infinity if only one is NaN.
        cell: The first differing cell along time in the first tensor, by axis name.
        place: Its indices.
        values: Both values.
    """

    most: float
    cell: dict[str, int]
    place: tuple[int, ...]
    values: tuple[float, float]


Options = Callable[[int, int], list[AlignedAxis]]
"""Of the sizes of an axis in both tensors, the ways to lay them beside each other."""


def relative(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The difference of each cell, relative to the larger of both and to the typical magnitude of its tensor."""
    if not (a.is_floating_point() or a.is_complex() or b.is_floating_point() or b.is_complex()):
        return (a != b).double()
    wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    a, b = a.detach().to(wide), b.detach().to(wide)
    size = torch.maximum(a.abs(), b.abs())
    if size.numel() and float(size.max()) < 1e30:  # NaN is not less
        far = (a - b).abs().div_((size + size.mean()).clamp_min_(1e-30))
        return far.masked_fill_(size < 1e-13, 0.0)
    finite = torch.isfinite(size) & (size < 1e30)
    typical = size[finite].mean() if bool(finite.any()) else size.new_ones(())
    far = (a - b).abs() / (size + typical).clamp_min(1e-30)
    far = torch.where((a == b) | (a.isnan() & b.isnan()) | (size < 1e-13), torch.zeros_like(far), far)
    return torch.where(far.isnan() | far.isinf(), torch.full_like(far, torch.inf), far)


def apart(
    a: torch.Tensor, b: torch.Tensor, options: Options, tolerance: float, time: str = "time"
) -> TensorDifference | None:
    """The difference of two tensors in the alignment that minimises it; None if none fits."""
    if a.ndim != b.ndim or a.layout != torch.strided or b.layout != torch.strided:
        return None
    found: tuple[float, torch.Tensor, tuple[AlignedAxis, ...], torch.Tensor] | None = None
    ways = itertools.product(*(options(p, q) for p, q in zip(a.shape, b.shape)))
    for way in itertools.islice(ways, _MOST_WAYS):
        part = a
        for axis, each in enumerate(way):
            if each.cells is not None:
                part = part.index_select(axis, each.cells.to(a.device))
        if not part.numel():
            return TensorDifference(0.0, {}, (), (0.0, 0.0))
        far = relative(part, b)
        most = float(far.max())
        if found is None or most < found[0]:
            found = most, far, way, part
        if most <= tolerance:
            break
    if found is None:
        return None
    most, far, way, part = found
    if most <= tolerance:
        return TensorDifference(most, {}, (), (0.0, 0.0))
    cell, place = _first_cell(far, way, tolerance)
    values = [each[place] for each in (part, b)] if place else [part.reshape(-1)[0], b.reshape(-1)[0]]
    numbers = [float(each.abs() if each.is_complex() else each.detach()) for each in values]
    there = tuple(index if each.cells is None else int(each.cells[index]) for index, each in zip(place, way))
    return TensorDifference(most, cell, there, (numbers[0], numbers[1]))


def _first_cell(
    far: torch.Tensor, way: Sequence[AlignedAxis], tolerance: float
) -> tuple[dict[str, int], tuple[int, ...]]:
    """The differing cells at the first such time, of which the largest difference."""
    if not far.ndim:
        return {}, ()
    times = [axis for axis, each in enumerate(way) if each.name == "time"]
    if times and float(far.max()) > tolerance:
        others = [axis for axis in range(far.ndim) if axis != times[0]]
        worst = far.amax(others) if others else far
        at = int((worst > tolerance).nonzero()[0])
        kept = torch.full_like(far, -1.0)
        kept.select(times[0], at).copy_(far.select(times[0], at))
        far = kept
    place = tuple(int(each) for each in torch.unravel_index(far.argmax(), far.shape))
    cell: dict[str, int] = {}
    for axis, (index, each) in enumerate(zip(place, way)):
        name = each.name or ("feature" if axis == far.ndim - 1 else f"axis {axis}")
        name = f"axis {axis}" if name in cell else name
        cell[name] = index if each.cells is None else int(each.cells[index])
    return cell, place


class TapePair:
    """Two tapes of the same code, call by call.

    Args:
        one, other: The tapes.
        options: The ways to align axes.
        tolerance: Maximal `relative` difference.

    Attributes:
        status: For each result of each call of the first tape.
    """

    def __init__(self, one: Tape, other: Tape, options: Options, tolerance: float):
        self.one, self.other, self._options, self.tolerance = one, other, options, tolerance
        self.pairs = _paired(one, other)
        self._paths = {path for path, _ in other.modules}
        self.status: list[list[str]] = []
        for call, pair in zip(one.calls, self.pairs):
            self.status.append(self._of(call, pair))

    def _is(self, read: tuple[int, int], status: str) -> bool:
        return self.status[read[0]][read[1]] == status

    def _of(self, call: TapeCall, pair: TapeCall | None) -> list[str]:
        """The status of each result of a call."""
        passed_on = DIFFERS if any(self._is(each, DIFFERS) for each in call.reads) else UNKNOWN
        if pair is None or len(pair.made) != len(call.made):
            return [passed_on] * len(call.made)
        found = []
        for a, b in zip(call.made, pair.made):
            far = apart(a, b, self._options, self.tolerance)
            found.append(passed_on if far is None else DIFFERS if far.most > self.tolerance else SAME)
        return found

    def origin(self, outputs: Iterable[tuple[int, int] | None]) -> TapeCall | None:
        """The first call at which a difference begins that propagates to one of these results."""
        calls = {index for index, _ in self.one.behind(outputs, lambda each: self._is(each, DIFFERS))}
        begins = [each for each in calls if not any(self._is(read, DIFFERS) for read in self.one.calls[each].reads)]
        return self.one.calls[min(begins)] if begins else None

    def blamed(self, call: TapeCall) -> tuple[TapeCall, TensorDifference | None] | None:
        """The call to blame if a call's inputs were made differently on the other tape: the call that made the input, and
        its difference; without a difference, the first call of a module that is missing on the other tape. None if all
        inputs are equal.
        """
        pair = self.pairs[call.index]
        unknown = self.one.behind(call.reads, lambda each: self._is(each, UNKNOWN))
        for index in sorted({index for index, _ in unknown}):
            here = self.one.calls[index]
            if here.turn and here.path in self._paths and (here.path, here.turn) not in self.other.modules:
                return here, None
        for read, other in zip(call.reads, pair.reads if pair is not None else ()):
            own, theirs, twin = self.one.calls[read[0]], self.other.calls[other[0]], self.pairs[read[0]]
            if self._is(read, UNKNOWN) or twin is not theirs:
                far = apart(own.made[read[1]], theirs.made[other[1]], self._options, self.tolerance)
                if far is not None and far.most > self.tolerance:
                    return own if self._is(read, UNKNOWN) else theirs, far
        return None

    def apart(self, call: TapeCall) -> TensorDifference | None:
        """The difference of the first differing result of a call."""
        pair = self.pairs[call.index]
        if pair is None:
            return None
        found = [apart(a, b, self._options, self.tolerance) for a, b in zip(call.made, pair.made)]
        return next((each for each in found if each is not None and each.most > self.tolerance), None)


def _paired(one: Tape, other: Tape) -> list[TapeCall | None]:
    """The matching call of the other tape for each call: in the same call of the same module, in the same order by function name."""
    theirs: dict[tuple[str, int], list[TapeCall]] = {}
    for call in other.calls:
        theirs.setdefault((call.path, call.turn), []).append(call)
    ours: dict[tuple[str, int], list[TapeCall]] = {}
    for call in one.calls:
        ours.setdefault((call.path, call.turn), []).append(call)
    pairs: list[TapeCall | None] = [None] * len(one.calls)
    for at, calls in ours.items():
        others = theirs.get(at, [])
        names, other_names = [call.name for call in calls], [call.name for call in others]
        if names == other_names or max(len(names), len(other_names)) > _MOST_CALLS:
            keyed = {call.key: call for call in others}
            for call in calls:
                pairs[call.index] = keyed.get(call.key)
            continue
        for a, b, size in difflib.SequenceMatcher(None, names, other_names, autojunk=False).get_matching_blocks():
            for step in range(size):
                pairs[calls[a + step].index] = others[b + step]
    return pairs
