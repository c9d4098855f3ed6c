"""The cell that causes a leak: by gradients of the difference with respect to the first values that have padding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from rfnb.core.tree import map_nested
from rfnb.interop.tape import Tape, TapeCall
from rfnb.interop.tape_comparison import TensorDifference


@dataclass(frozen=True)
class LeakSource:
    """The cell that causes a leak.

    Attributes:
        batch, time: The sequence, and the position along the axis of the inputs.
        padding: Whether it is padding; else it is a real cell of another sequence.
        how: "value": through its value; "count": through its presence, counted by positions, lengths and the like; it
            is then the first cell of that padding.
    """

    batch: int
    time: int
    padding: bool
    how: str

    def __str__(self) -> str:
        what = "padding" if self.padding else "another sequence"
        how = "what it holds" if self.how == "value" else "its being there is counted"
        return f"{what} [batch={self.batch}, time={self.time}] ({how})"


def nan_birth(tape: Tape, call: TapeCall, far: TensorDifference | None) -> TapeCall | None:
    """The call that made the first NaN before a call, from numbers; None if there is none."""
    if far is None or not any(math.isnan(each) for each in far.values):
        return None
    for each in tape.calls[: call.index + 1]:
        if _has_nan(each.made) and not any(_has_nan(tape.calls[read[0]].made) for read in each.reads):
            return each
    return None


def _has_nan(made: list[torch.Tensor]) -> bool:
    return any(each.is_floating_point() and bool(each.isnan().any()) for each in made)


def source_of(
    check: Any,
    tape: Tape,
    call: TapeCall,
    far: TensorDifference | None,
    inputs: Any,
    side: str,
    row: int | None,
    born: bool,
) -> LeakSource | None:
    """The padding cell that causes a difference, or a cell of another sequence if no padding does.

    Args:
        check: Runs the model: `taped(inputs)`; `seeks` tells whether a pass is spent on it.
        call: The call at which it begins, with `far`, its difference there.
        side: The side of the padding in these inputs.
        row: The sequence; None for the loss of all.
        born: Whether the call made a NaN.
    """
    stream = check.padded.stream
    real = stream.real if side == stream.side else _moved(stream)
    if born:
        cell = _nan_cell(call, real)
        if cell is not None:
            return cell
    if not check.seeks:
        return None
    weights = _gradients(check, call, far, inputs, real)
    first = _first_padding(real, row)
    if weights is None:
        return first
    own = torch.zeros_like(real)
    if row is not None:
        own[row] = real[row]
    else:
        own |= real
    others = torch.where(own, torch.zeros_like(weights), weights)
    padding = torch.where(real, torch.zeros_like(others), others)
    near = padding if float(padding.max()) > 1e-12 * max(float(weights.max()), 1e-300) else others
    if float(near.max()) <= 1e-12 * max(float(weights.max()), 1e-300):
        return first
    if row is not None and float(near[row].max()) > 1e-6 * float(near.max()):
        kept = torch.zeros_like(near)
        kept[row] = near[row]
        near = kept
    at = int(near.argmax())
    batch, time = divmod(at, real.shape[1])
    return LeakSource(batch, time, not bool(real[batch, time]), "value")


def _moved(stream: Any) -> torch.Tensor:
    return torch.stack([row.flip(0) for row in stream.real])


def _first_padding(real: torch.Tensor, row: int | None) -> LeakSource | None:
    rows = [row] if row is not None and not bool(real[row].all()) else range(len(real))
    for each in rows:
        cells = (~real[each]).nonzero()
        if len(cells):
            return LeakSource(each, int(cells[0]), True, "count")
    return None


def _nan_cell(call: TapeCall, real: torch.Tensor) -> LeakSource | None:
    """The first padding cell of the call's result that is NaN."""
    batch, size = real.shape
    for made in call.made:
        if made.ndim < 2 or not made.is_floating_point() or batch not in made.shape[:2] or size not in made.shape:
            continue
        rows = list(made.shape).index(batch)
        times = [axis for axis, each in enumerate(made.shape) if each == size and axis != rows]
        if not times:
            continue
        for time in times:
            others = [axis for axis in range(made.ndim) if axis not in (rows, time)]
            bad = made.isnan()
            bad = bad.any(dim=others) if others else bad
            bad = (bad if rows < time else bad.T).cpu()
            found = (bad & ~real).nonzero()
            if len(found) and not bool(bad.all(1).any()):
                return LeakSource(int(found[0][0]), int(found[0][1]), True, "value")
    return None


def _gradients(
    check: Any, call: TapeCall, far: TensorDifference | None, inputs: Any, real: torch.Tensor
) -> torch.Tensor | None:
    """{batch, time}: the sensitivity of the cell to each cell of the first values; None without gradients."""
    leaves: list[torch.Tensor] = []

    def led(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_floating_point() and _fits(value, real):
            leaf = value.detach().to(check.dtype).requires_grad_()
            leaves.append(leaf)
            return leaf
        return value

    kept = [each.requires_grad for each in check.fine.parameters()]
    for each in check.fine.parameters():
        each.requires_grad_(each.is_floating_point())
    try:
        with torch.enable_grad():
            again, _ = check.taped(map_nested(led, inputs))
            twin = next((each for each in again.calls if each.key == call.key), None)
            if twin is None or not twin.made:
                return None
            target = twin.made[0]
            if far is not None and far.place and len(far.place) == target.ndim:
                target = target[far.place]
            tops = [
                made
                for each in again.calls[: twin.index]
                for made in each.made
                if not leaves and each.name == "embedding" and made.requires_grad and _fits(made, real)
            ][:1]
            starts = leaves or tops
            if not starts or not target.requires_grad:
                return None
            grads = torch.autograd.grad(target.sum(), starts, allow_unused=True)
    except RuntimeError:
        return None
    finally:
        for each, flag in zip(check.fine.parameters(), kept):
            each.requires_grad_(flag)
    total = torch.zeros(real.shape, dtype=torch.float64, device="cpu")
    for start, grad in zip(starts, grads):
        if grad is not None:
            rows = 0 if start.shape[0] == real.shape[0] else 1
            grad = grad.abs().nan_to_num(0.0).to("cpu", torch.float64)
            other = 1 - rows
            if start.shape[other] == real.shape[1]:
                weight = grad.reshape(*grad.shape[:2], -1).sum(-1)
                total += weight if rows == 0 else weight.T
            else:  # time is the last axis, as in a convolution
                total += grad.reshape(grad.shape[0], -1, grad.shape[-1]).sum(1)
    return total


def _fits(value: torch.Tensor, real: torch.Tensor) -> bool:
    batch, size = real.shape
    shape = tuple(value.shape)
    return value.ndim > 1 and (shape[:2] in ((batch, size), (size, batch)) or (shape[0] == batch and shape[-1] == size))
