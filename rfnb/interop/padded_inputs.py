"""Padded inputs of a model: their real cells, each sequence alone, and the same inputs with other padding.

padded = padded_inputs("check_batch", model, inputs, lengths)
padded.alone(2), padded.moved(), padded.longer(3)      # variants of the inputs
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from rfnb.core.errors import shape_error, value_error
from rfnb.core.tree import map_nested

_MASKS = ("mask",)


class PaddedAxis:
    """An axis of the inputs along which sequences end.

    Attributes:
        size: The size of the axis.
        real: {batch, size}, true where a cell is real.
        side: The side of the padding: "right" or "left".
        cell: For each sequence, the first cell of its padding, or None.
    """

    def __init__(self, real: torch.Tensor, side: str):
        self.real, self.side, self.size = real, side, real.shape[1]
        self.lengths: list[int] = [int(row.sum()) for row in real]

    def at(self, row: int, side: str | None = None, size: int | None = None) -> torch.Tensor:
        """The positions of a sequence in a batch with this size, padded on this side."""
        length, size = self.lengths[row], size or self.size
        begin = size - length if (side or self.side) == "left" else 0
        return torch.arange(begin, begin + length, device="cpu")


PaddedAxes = list[tuple[int, PaddedAxis]]  # of an array, by index


class PaddedInputs:
    """Inputs with their ragged axes.

    Attributes:
        inputs: The original inputs.
        streams: The axes by size.
        batch: The number of sequences.
    """

    def __init__(self, inputs: Any, streams: dict[int, PaddedAxis], batch: int, told: bool):
        self.inputs, self.streams, self.batch, self.told = inputs, streams, batch, told

    @property
    def stream(self) -> PaddedAxis:
        """The axis with the most padding."""
        return max(self.streams.values(), key=lambda each: each.real.numel() - sum(each.lengths))

    def _mapped(self, change: Callable[[torch.Tensor, int, PaddedAxes], torch.Tensor]) -> Any:
        def leaf(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or not value.ndim:
                return value
            axes = list(value.shape)
            batch = axes.index(self.batch) if self.batch in axes[:2] else -1
            if batch == 1 and axes[0] not in self.streams:
                batch = -1
            times = [
                (axis, self.streams[size]) for axis, size in enumerate(axes) if axis != batch and size in self.streams
            ]
            if (
                len(times) > 1 and value.is_floating_point() and value.unique().numel() > 2
            ):  # not a mask: as many features as positions
                times = [next((each for each in times if self._ends(value, batch, *each)), times[0])]
            return change(value, batch, times)

        return map_nested(leaf, self.inputs)

    def _ends(self, value: torch.Tensor, batch: int, axis: int, stream: PaddedAxis) -> bool:
        """Whether all padding cells along an axis have the same value."""
        if batch < 0 or not bool((~stream.real).any()):
            return False
        return value.movedim((batch, axis), (0, 1))[~stream.real.to(value.device)].unique().numel() == 1

    def alone(self, row: int) -> Any:
        """One sequence without padding, as a batch of one."""

        def change(value: torch.Tensor, batch: int, times: PaddedAxes) -> torch.Tensor:
            if batch >= 0:
                value = value.narrow(batch, row, 1)
            for axis, stream in times:
                value = value.index_select(axis, stream.at(row).to(value.device))
            return value.contiguous()

        return self._mapped(change)

    def moved(self) -> Any:
        """The inputs padded on the other side."""

        def change(value: torch.Tensor, batch: int, times: PaddedAxes) -> torch.Tensor:
            if batch < 0 or not times:
                return value
            rows = []
            for row, part in enumerate(value.unbind(batch)):
                for axis, stream in times:
                    pads = stream.size - stream.lengths[row]
                    own = axis - (axis > batch)
                    part = part.roll(pads if stream.side == "right" else -pads, own)
                rows.append(part)
            return torch.stack(rows, batch)

        return self._mapped(change)

    def longer(self, more: int) -> Any:
        """The inputs padded by this many further cells, on their own side, with the value of the padding."""

        def change(value: torch.Tensor, batch: int, times: PaddedAxes) -> torch.Tensor:
            for axis, stream in times:
                row = min(range(len(stream.lengths)), key=stream.lengths.__getitem__)
                at = stream.size - 1 if stream.side == "right" else 0
                cell = value.narrow(axis, at, 1)
                if batch >= 0:
                    cell = cell.narrow(batch, row, 1).expand_as(cell)
                further = [cell] * more
                value = torch.cat([value, *further] if stream.side == "right" else [*further, value], axis)
            return value

        return self._mapped(change)

    def refilled(self) -> Any:
        """The inputs with other values in the padding; masks and lengths are unchanged."""

        def change(value: torch.Tensor, batch: int, times: PaddedAxes) -> torch.Tensor:
            if batch < 0 or len(times) != 1 or _says_padding(value, times[0][1], batch):
                return value
            axis, stream = times[0]
            shape = [1] * value.ndim
            shape[batch], shape[axis] = stream.real.shape
            real = (stream.real if batch < axis else stream.real.T).reshape(shape).to(value.device)
            if not value.is_floating_point() and bool((~real & (value < 0)).any()):  # labels that a loss ignores
                return value
            if value.is_floating_point():
                other = value.flip(-1) + value.std() if value.ndim > 2 else value + value.std()
            else:
                first = value.index_select(axis, torch.tensor([int(stream.at(0)[0])], device=value.device))
                other = first.expand_as(value)
            return torch.where(real, value, other)

        return self._mapped(change)

    def other(self, more: int) -> Any:
        """The inputs with other values in the padding, and padded by this many further cells."""
        return PaddedInputs(self.refilled(), self.streams, self.batch, self.told).longer(more)

    def until(self, length: int) -> Any:
        """The first `length` cells."""

        def change(value: torch.Tensor, batch: int, times: PaddedAxes) -> torch.Tensor:
            for axis, _ in times:
                value = value.narrow(axis, 0, length)
            return value

        return self._mapped(change)


def _says_padding(value: torch.Tensor, stream: PaddedAxis, batch: int) -> bool:
    """Whether a tensor is the mask of an axis, or its negation."""
    if value.ndim != 2:
        return False
    own = (value if batch == 0 else value.T).bool().cpu()
    return bool((own == stream.real).all()) or bool((own != stream.real).all())


def padded_inputs(what: str, inputs: Any, lengths: Sequence[int] | torch.Tensor | None) -> PaddedInputs:
    """Determine which cells of the inputs are padding.

    Raises:
        ValueError: If the padding is unknown, or nothing is padded.
        ShapeError: If the lengths do not fit.
    """
    named: list[tuple[str, torch.Tensor]] = []

    def leaf(value: Any, path: str = "") -> None:
        if isinstance(value, torch.nn.utils.rnn.PackedSequence):
            raise value_error(
                f"{what}: a packed sequence has no padding.",
                {"given": "PackedSequence"},
                "A packed sequence cannot leak. Check the model with padded inputs and their lengths:",
                f"rf.{what}(model, padded, lengths=lengths)",
            )
        if isinstance(value, torch.Tensor):
            named.append((path, value))
        elif isinstance(value, Mapping):
            for key, item in value.items():
                leaf(item, str(key))
        elif isinstance(value, (tuple, list)):
            for item in value:
                leaf(item, path)

    leaf(inputs)
    streams: dict[int, PaddedAxis] = {}
    if lengths is not None:
        given = [int(each) for each in lengths]
        sizes = [each for _, tensor in named for each in tensor.shape[:2] if tensor.ndim >= 2 and each != len(given)]
        sizes = sizes or [each for _, tensor in named for each in tensor.shape[:2] if tensor.ndim >= 2]
        size = next((each for each in sizes if each >= max(given, default=0)), 0)
        rows = {tensor.shape[0] for _, tensor in named if tensor.ndim} | {
            tensor.shape[1] for _, tensor in named if tensor.ndim > 1
        }
        if not size or len(given) not in rows or min(given) < 1:
            raise shape_error(
                f"{what}: these lengths do not fit the inputs.",
                [("lengths", given), *((path or "input", tuple(tensor.shape)) for path, tensor in named)],
                "Each sequence of the batch needs one length, at least 1 and at most the size of the time axis.",
                f"rf.{what}(model, x, lengths=[7, 5, 4])",
            )
        real = torch.arange(size, device="cpu")[None] < torch.tensor(given, device="cpu")[:, None]
        streams[size] = PaddedAxis(real, "right")
    for path, tensor in named:
        stream = _stream_of(path, tensor)
        if stream is not None and stream.size not in streams:
            streams[stream.size] = stream
    if not streams:  # lengths among the inputs
        for _, tensor in named:
            if tensor.ndim == 1 and not tensor.is_floating_point() and tensor.numel() > 1:
                longest = int(tensor.max())
                if any(
                    longest in each.shape[:2] and len(tensor) in each.shape[:2] for _, each in named if each.ndim > 1
                ):
                    real = torch.arange(longest, device="cpu")[None] < tensor.cpu()[:, None]
                    streams[longest] = PaddedAxis(real, "right")
    rule = "The check compares sequences with and without padding: it needs sequences of different lengths, with lengths or a mask."
    fix = f"rf.{what}(model, x, lengths=[7, 5, 4])    # or inputs with an attention_mask"
    shapes = [(path or "input", f"{tuple(tensor.shape)} {str(tensor.dtype)[6:]}") for path, tensor in named]
    if not streams:
        raise value_error(
            f"{what}: the padding is unknown.", shapes, f"The inputs contain neither a mask nor lengths. {rule}", fix
        )
    batch = len(next(iter(streams.values())).lengths)
    if all(min(stream.lengths) == stream.size for stream in streams.values()) or batch < 2:
        raise value_error(f"{what}: the inputs have no padding.", shapes, rule, fix)
    return PaddedInputs(inputs, streams, batch, lengths is not None)


def _stream_of(path: str, tensor: torch.Tensor) -> PaddedAxis | None:
    """The ragged axis that a mask defines; None if it is not a mask."""
    if tensor.ndim != 2 or not (tensor.dtype == torch.bool or any(each in path for each in _MASKS)):
        return None
    own = tensor.detach().cpu()
    if not bool(((own == 0) | (own == 1)).all()):
        return None
    own = own.bool()
    for real in [~own, own] if "pad" in path else [own, ~own]:
        for side, rows in (("right", real), ("left", real.flip(1))):
            counts = rows.sum(1)
            ends = torch.arange(rows.shape[1], device="cpu")[None] < counts[:, None]
            if int(counts.min()) > 0 and bool((ends == rows).all()):
                return PaddedAxis(real, side)
    return None
