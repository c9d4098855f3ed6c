"""Ways to align the axes of two runs: a sequence within its batch, a step with a cache within the whole pass, more padding."""

from __future__ import annotations

import torch

from rfnb.interop.padded_inputs import PaddedAxes, PaddedAxis, PaddedInputs
from rfnb.interop.tape import Tape, TapeCall
from rfnb.interop.tape_comparison import AlignedAxis, Options, TapePair


def of_one_sequence(padded: PaddedInputs, row: int, side: str) -> Options:
    """The ways to align the axes of one sequence with those of the batch."""
    batch = padded.batch
    streams = list(padded.streams.values())
    given = padded.stream.side

    def options(size: int, own: int) -> list[AlignedAxis]:
        found = []
        for stream in streams:
            swapped = side if stream.side == given else ("left" if side == "right" else "right")
            real, length = stream.at(row, swapped), stream.lengths[row]
            if size == stream.size and own == length:
                found.append(AlignedAxis(None if size == own else real, "time"))
            whole = batch * stream.size
            if size % whole == 0 and own == size // whole * length:
                inner = torch.arange(size // whole, device="cpu")
                found.append(
                    AlignedAxis(
                        ((row * stream.size + real)[:, None] * len(inner) + inner).reshape(-1), "batch and time"
                    )
                )
                found.append(
                    AlignedAxis(((real * batch + row)[:, None] * len(inner) + inner).reshape(-1), "time and batch")
                )
        if size == batch * own and size > 1:
            found.append(
                AlignedAxis(row * own + torch.arange(own, device="cpu"), "batch" if own == 1 else "batch and more")
            )
            if own > 1:
                found.append(AlignedAxis(torch.arange(own, device="cpu") * batch + row, "more and batch"))
        if size == own and not any(each.cells is None for each in found):
            found.append(AlignedAxis(None, ""))
        if size > own > 0 and not found:
            found.append(AlignedAxis(torch.arange(own, device="cpu") + (size - own if side == "left" else 0), "time"))
        return found

    return options


def as_they_are(size: int, own: int) -> list[AlignedAxis]:
    """Axes of equal size, cell by cell."""
    return [AlignedAxis(None, "")] if size == own else []


def of_a_step(size: int, at: int, batch: int) -> Options:
    """The ways to align the axes of a step with a cache with those of the whole pass."""

    def options(p: int, q: int) -> list[AlignedAxis]:
        found = [AlignedAxis(None, "batch" if p == batch else "")] if p == q else []
        if p == size and q == 1:
            found.append(AlignedAxis(torch.tensor([at], device="cpu"), "time"))
        if p == size and q <= at + 1 and q != 1:
            found.append(AlignedAxis(torch.arange(q, device="cpu"), "source"))
        if p == batch * size and q == batch:
            found.append(AlignedAxis(torch.arange(batch, device="cpu") * size + at, "batch and time"))
        return found

    return options


class PaddingBeside(TapePair):
    """Two tapes of the same batch with different padding: only real cells are compared."""

    def __init__(self, one: Tape, other: Tape, padded: PaddedInputs, more: int, tolerance: float):
        self._padded, self._more = padded, more
        super().__init__(one, other, as_they_are, tolerance)

    def _of(self, call: TapeCall, pair: TapeCall | None) -> list[str]:
        if pair is None or len(pair.made) != len(call.made):
            return super()._of(call, pair)
        cut = [self._real(a, b) for a, b in zip(call.made, pair.made)]
        call, pair = _made_of(call, [a for a, _ in cut]), _made_of(pair, [b for _, b in cut])
        return super()._of(call, pair)

    def _real(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Both tensors with 0 in the padding."""
        if a.ndim != b.ndim:
            return a, b
        times: PaddedAxes = []
        rows = self._padded.batch
        for axis, (p, q) in enumerate(zip(a.shape, b.shape)):
            for stream in self._padded.streams.values():
                begin, more = (0 if stream.side == "right" else self._more), stream.size + self._more
                if (p, q) == (stream.size, more):
                    b = b.narrow(axis, begin, p)
                    times.append((axis, stream))
                    break
                if p % (rows * stream.size) == 0 and q * stream.size == p * more:
                    inner = (p // (rows * stream.size),)
                    a = a.reshape(a.shape[:axis] + (rows, stream.size, *inner) + a.shape[axis + 1 :])
                    b = b.reshape(b.shape[:axis] + (rows, more, *inner) + b.shape[axis + 1 :]).narrow(
                        axis + 1, begin, stream.size
                    )
                    real = stream.real.to(a.device).reshape(
                        (1,) * axis + (rows, stream.size) + (1,) * (a.ndim - axis - 2)
                    )
                    return _kept(a, real), _kept(b, real)
        for axis, stream in times if a.shape == b.shape else ():
            a, b = self._zeroed(a, b, axis, stream)
        return a, b

    def _zeroed(
        self, a: torch.Tensor, b: torch.Tensor, axis: int, stream: PaddedAxis
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rows = [other for other in range(a.ndim) if other != axis and a.shape[other] % self._padded.batch == 0][:1]
        if not rows:
            return a, b
        times = a.shape[rows[0]] // self._padded.batch
        real = stream.real.repeat_interleave(times, 0)
        real = real if rows[0] < axis else real.T
        shape = [1] * a.ndim
        shape[rows[0]], shape[axis] = a.shape[rows[0]], a.shape[axis]
        return _kept(a, real.reshape(shape).to(a.device)), _kept(b, real.reshape(shape).to(a.device))


def _kept(value: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    return torch.where(real, value, torch.zeros((), dtype=value.dtype, device=value.device))


def _made_of(call: TapeCall, made: list[torch.Tensor]) -> TapeCall:
    other = TapeCall(call.index, (call.path, call.turn), call.name, call.nth)
    other.reads, other.made = call.reads, made
    return other
