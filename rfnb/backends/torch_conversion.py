"""Converts special torch tensors to plain ones: packed sequences, nested and jagged tensors, named tensors.

Padding uses torch's own functions, so gradients pass through. Tensors without entries at places (sparse) or without numbers (quantised)
are reported by `refusal`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence
from torch.utils import dlpack

from rfnb.backends import torch_devices

Plain = tuple[torch.Tensor, dict[int, Any], list[str | None] | None]


def is_torch(value: Any) -> bool:
    """True for a value that `plain` accepts."""
    return isinstance(value, (torch.Tensor, PackedSequence))


def refusal(value: Any) -> tuple[str, str] | None:
    """The reason why a tensor is not an array of numbers, and code that converts it; None if it is one."""
    if not isinstance(value, torch.Tensor):
        return None
    if value.is_quantized:
        return "is quantised: it holds codes, not numbers", "x.dequantize()"
    if not value.is_nested and value.layout != torch.strided:
        return (
            f"is sparse ({str(value.layout).removeprefix('torch.')}): most of its entries are not there",
            "x.to_dense()",
        )
    return None


def plain(value: Any) -> Plain:
    """A tensor, packed sequence or nested tensor as a plain array, without a copy if it already is one.

    Returns:
        A strided tensor; by axis the length in each entry of axis 0, int64 on the CPU; the names of the axes, where known, None for an
        axis without.
    """
    if isinstance(value, PackedSequence):
        raw, lengths = pad_packed_sequence(value, batch_first=True)
        return raw, {1: lengths.numpy()}, ["batch", "time", *_rest(raw.ndim - 2)]
    if value.is_nested:
        return _nested(value)
    named = getattr(value, "has_names", None)  # newer versions of torch have no names any more
    names = list(value.names) if named is not None and named() else None
    return value if names is None else value.rename(None), {}, names


def _nested(value: Any) -> Plain:
    found = [tuple(part.shape) for part in value.unbind()]
    shapes = torch.tensor(found, dtype=torch.int64, device="cpu").reshape(len(found), value.dim() - 1)
    ragged = [axis + 1 for axis in range(shapes.shape[1]) if len(shapes) and int(shapes[:, axis].unique().numel()) > 1]
    if not ragged:  # all are equally long, this time
        ragged = [next((axis for axis in range(1, value.dim()) if isinstance(_size(value, axis), torch.SymInt)), 1)]
    raw = value.to_padded_tensor(0)
    names: list[str | None] = ["batch", *[None] * (raw.ndim - 1)]
    for axis in ragged:
        names[axis] = "time" if axis == ragged[0] else f"time{axis}"
    rest = iter(_rest(names.count(None)))
    named = [next(rest) if name is None else name for name in names]
    return raw, {axis: shapes[:, axis - 1].numpy() for axis in ragged}, named


def _size(value: Any, axis: int) -> Any:
    try:
        return value.size(axis)
    except RuntimeError:  # of the strided layout: the sizes differ
        return None


def _rest(count: int) -> list[str | None]:
    """Names for the axes of one frame."""
    return ["feature"] if count == 1 else [f"feature{axis}" for axis in range(count)]


def knows_axes(value: Any) -> bool:
    """True if it has its own lengths or names."""
    named = getattr(value, "has_names", None)
    return isinstance(value, PackedSequence) or value.is_nested or (named is not None and named())


def without_values(value: Any) -> tuple[str, str] | None:
    """The reason why a tensor has no readable values, and what would provide them; None if it has values."""
    raw = value.data if isinstance(value, PackedSequence) else value
    if raw.is_meta:
        return "has no values: it is on the meta device", "x.to_empty(device='cpu')    # or load the values"
    if type(raw).__name__ == "DTensor":
        return (
            "is spread over processes, and only a part of its values is here",
            "x.full_tensor()    # in all processes",
        )
    if type(raw).__name__ == "FakeTensor":
        return (
            "has no values: it is a FakeTensor of a compiler",
            "# look at it outside of torch.compile and torch.export",
        )
    return None


def on_host(raw: torch.Tensor) -> Any:
    """The values as a NumPy array; dtypes that NumPy lacks (bfloat16, float8) as float32. Waits for a GPU."""
    return _of_numpy(raw.detach()).cpu().resolve_conj().resolve_neg().numpy()


def _of_numpy(raw: torch.Tensor) -> torch.Tensor:
    """The tensor in a dtype that NumPy supports."""
    known = (torch.float16, torch.float32, torch.float64)
    return raw.float() if raw.is_floating_point() and raw.dtype not in known else raw


def together(values: Sequence[Any]) -> list[Any]:
    """The same values; device tensors become NumPy arrays, in one transfer."""
    out = list(values)
    places = [place for place, value in enumerate(out) if isinstance(value, torch.Tensor) and not value.is_cpu]
    places = [
        place for place in places if not (refusal(out[place]) or without_values(out[place]) or knows_axes(out[place]))
    ]
    raws = [_of_numpy(out[place].detach()).resolve_conj().resolve_neg() for place in places]
    for place, array in zip(places, torch_devices.on_host(raws), strict=True):
        out[place] = array
    return out


def from_dlpack(value: Any) -> torch.Tensor | None:
    """The array of another library with shared storage; None if the library does not allow that."""
    try:
        return dlpack.from_dlpack(value)
    except (RuntimeError, TypeError, BufferError, AttributeError):
        return None
