"""Spec: what a view shows, as plain data: a JSON head and named arrays.

    spec = Spec("attention", head={"title": "...", ...}, blocks={"w0": array})
    unpack(pack(spec))            # one `bytes`: what the widget gets as its frame
    from_json(to_json(spec))      # readable: the fixtures of the tests of both sides

The frame: u32 length of the JSON (little endian), u32 version, JSON, then the blocks, each aligned to 8 bytes. The mirror image
is `widgets/src/frame.ts`.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rfnb.core.errors import value_error

_VERSION = 1
_DTYPES = {"float32": "f32", "int32": "i32", "uint8": "u8"}
_NAMES = {short: name for name, short in _DTYPES.items()}


@dataclass(frozen=True, eq=False)
class Spec:
    """The content of a view.

    Attributes:
        kind: "attention", "states", "beams", "dims", "curves", "plan" or "group".
        head: Plain JSON data; always with `title` (str) and `live` (bool: more may come).
        blocks: Arrays by name. Floats become float32, integers int32, bools uint8.
    """

    kind: str
    head: dict[str, Any]
    blocks: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", {name: _block(array) for name, array in self.blocks.items()})

    @property
    def live(self) -> bool:
        """Whether more may come."""
        return bool(self.head.get("live"))


def pack(spec: Spec) -> bytes:
    """The spec as one frame."""
    table, parts, offset = {}, [], 0
    for name, array in spec.blocks.items():
        table[name] = {"offset": offset, "dtype": _DTYPES[array.dtype.name], "shape": list(array.shape)}
        pad = -array.nbytes % 8
        parts += [array.tobytes(), b"\0" * pad]
        offset += array.nbytes + pad
    text = _json({"kind": spec.kind, "head": spec.head, "blocks": table}).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([struct.pack("<II", len(text), _VERSION), text, *parts])


def unpack(frame: bytes) -> Spec:
    """The spec that `pack` made the frame of.

    Raises:
        ValueError: If this is no frame of this version.
    """
    length, version = struct.unpack_from("<II", frame) if len(frame) >= 8 else (0, None)
    if version != _VERSION or 8 + length > len(frame):
        raise value_error(
            "unpack: this is no frame.",
            [("bytes", len(frame)), ("version", version), ("needed", _VERSION)],
            "A frame is what pack(spec) gives.",
            "pack(view.spec)",
        )
    top = json.loads(frame[8 : 8 + length])
    blocks = {}
    for name, entry in top["blocks"].items():
        count = math.prod(entry["shape"])
        data = np.frombuffer(frame, _NAMES[entry["dtype"]], count, 8 + length + entry["offset"] if count else 0)
        blocks[name] = data.reshape(entry["shape"])
    return Spec(top["kind"], top["head"], blocks)


def to_json(spec: Spec) -> dict[str, Any]:
    """The spec as readable JSON data; NaN becomes null, infinities "inf" and "-inf"."""
    blocks = {
        name: {
            "dtype": _DTYPES[array.dtype.name],
            "shape": list(array.shape),
            "data": [_number(value) for value in array.ravel().tolist()],
        }
        for name, array in spec.blocks.items()
    }
    return {"kind": spec.kind, "head": _clean(spec.head), "blocks": blocks}


def from_json(data: dict[str, Any]) -> Spec:
    """The spec that `to_json` made the data of."""
    blocks = {}
    for name, entry in data.get("blocks", {}).items():
        values = [math.nan if value is None else float(value) for value in entry["data"]]
        blocks[name] = np.array(values, dtype=_NAMES[entry["dtype"]]).reshape(entry["shape"])
    return Spec(data["kind"], data["head"], blocks)


def host(array: Any) -> np.ndarray:
    """An array-like (NumPy, a raw array of torch on any device, a Tensor, nested lists) as a NumPy array."""
    if hasattr(array, "detach"):
        array = array.detach().cpu()
        # bfloat16 has no NumPy counterpart.
        array = array.float() if str(array.dtype) in ("torch.bfloat16", "torch.float16") else array
    if hasattr(array, "numpy"):
        array = array.numpy()
    return np.asarray(array)


def _block(array: Any) -> np.ndarray:
    array = host(array)
    if array.dtype.name not in _DTYPES:
        kinds = {"f": np.float32, "i": np.int32, "u": np.int32, "b": np.uint8}
        if array.dtype.kind not in kinds:
            raise value_error(
                "Spec: a block holds no numbers.",
                [("dtype", array.dtype), ("shape", array.shape)],
                "Blocks are arrays of floats, integers or bools.",
                "Spec(kind, head, {name: numpy.asarray(values, dtype='float32')})",
            )
        array = array.astype(kinds[array.dtype.kind])
    return np.asarray(array, order="C")


def _json(data: Any) -> str:
    try:
        return json.dumps(data, separators=(",", ":"), allow_nan=False)
    except (ValueError, TypeError):  # numpy scalars, NaN
        return json.dumps(_clean(data), separators=(",", ":"), allow_nan=False)


def _clean(data: Any) -> Any:
    if isinstance(data, dict):
        return {str(key): _clean(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_clean(value) for value in data]
    if isinstance(data, np.ndarray):
        return _clean(data.tolist())
    if isinstance(data, np.generic):
        return _clean(data.item())
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data if data is None or isinstance(data, (str, int, float, bool)) else str(data)


def _number(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else "inf" if value > 0 else "-inf"
