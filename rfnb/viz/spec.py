"""Spec: the content of a view as plain data: a JSON head and named arrays.

    spec = Spec("attention", head={"title": "...", ...}, blocks={"w0": array})
    unpack(pack(spec))            # one `bytes`: the frame that the widget gets
    from_json(to_json(spec))      # readable: the test fixtures of both sides

The frame, all little endian: u32 stored length of the JSON, u32 version, u32 length of the JSON, u32 0; then the JSON and the blocks,
each aligned to 8 bytes, and deflated where that makes them shorter (zlib). A reader trusts no length in it: data is
inflated only up to its declared length, which is limited. The counterpart is `widgets/src/frame.ts`.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rfnb.core.errors import parts_of, type_error, value_error
from rfnb.core.foreign_arrays import host_array
from rfnb.core.formats import FRAME
from rfnb.core.place import warn_user
from rfnb.core.strict_json import JsonObject, read_json
from rfnb.core.tensor import Tensor
from rfnb.viz.code import BlockCode
from rfnb.viz.kinds import KINDS

_TOP = 16  # bytes before the JSON
_MOST = 1 << 28  # maximal inflated size of a frame in bytes
_RATIO = 1100  # bound on the compression ratio of deflate (1032)
_DTYPES = {"float64": "f64", "float32": "f32", "int32": "i32", "uint8": "u8"}
_NAMES = {short: name for name, short in _DTYPES.items()}


@dataclass(frozen=True, eq=False)
class Spec:
    """The content of a view.

    Attributes:
        kind: One of `KINDS` in `kinds.py`.
        head: Plain JSON data; always with `title` (str) and `live` (bool: more data may arrive).
        blocks: Arrays by name. Floats become float32 (curves may have float64), integers int32, bools uint8.
        codes: Name of a uint8 block -> how its bytes are decoded. Only specs for a page have codes; the spec of a view is exact.
    """

    kind: str
    head: JsonObject
    blocks: dict[str, np.ndarray] = field(default_factory=dict)
    codes: Mapping[str, BlockCode] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", {name: _block(array, self.kind) for name, array in self.blocks.items()})

    @property
    def live(self) -> bool:
        """Whether more data may arrive."""
        return bool(self.head.get("live"))


def pack(spec: Spec, *, level: int = 6) -> bytes:
    """The spec as one frame.

    Args:
        level: Deflate level, 0 (none) to 9.
    """
    table, parts, offset = {}, [], 0
    for name, array in spec.blocks.items():
        data, size = _deflated(array.tobytes(), level)
        entry = {"offset": offset, "size": len(data), "dtype": _DTYPES[array.dtype.name], "shape": list(array.shape)}
        if name in spec.codes:
            code = spec.codes[name]
            entry |= {"shape": list(code.shape), "code": code.entry()}
            if max(code.pool, default=1) > 1:
                entry["pool"] = list(code.pool)
        table[name] = entry if size == len(data) else {**entry, "deflated": True}
        parts += [data, b"\0" * (-len(data) % 8)]
        offset += len(data) + -len(data) % 8
    text, size = _deflated(_json({"kind": spec.kind, "head": spec.head, "blocks": table}).encode(), level)
    top = struct.pack("<IIII", len(text), FRAME.now, size, 0)
    return b"".join([top, text, b"\0" * (-len(text) % 8), *parts])


def unpack(frame: bytes) -> Spec:
    """The spec in a frame of `pack`.

    Raises:
        ValueError: If it is not a frame of this version, or its lengths are inconsistent.
    """
    stored, version, size, _ = struct.unpack_from("<IIII", frame) if len(frame) >= _TOP else (0, None, 0, 0)
    if version is None or _TOP + stored > len(frame) or not 0 < version < 1000:
        raise value_error(
            "unpack: this is not a frame.",
            {"bytes": len(frame)},
            "A frame is the result of pack(spec).",
            "pack(view.spec)",
        )
    problem = FRAME.problem(version)
    if problem is not None:
        raise value_error("unpack: this version of rfnb cannot read this version of frames.", *problem)
    text = _inflated(frame[_TOP : _TOP + stored], size, "its head", size != stored)
    try:
        return _unpacked(read_json(text.decode()), frame, _TOP + stored + -stored % 8, _MOST - size)
    except _ODD as error:
        if parts_of(error) is not None:
            raise
        rule = "The head of a frame has kind, head and blocks."
        raise _refused("its head", size, size, f"{rule} This one fails: {error!r}.") from error


def _unpacked(top: Any, frame: bytes, start: int, left: int) -> Spec:
    blocks, codes = {}, {}
    for name, entry in top["blocks"].items():
        shape = tuple(entry["shape"])
        if "code" in entry:
            codes[name] = BlockCode.of_entry(entry["code"], shape, entry.get("pool"))
            shape = codes[name].stored_shape
        dtype = np.dtype(_NAMES["u8" if "code" in entry else entry["dtype"]])
        size = math.prod(shape) * dtype.itemsize
        if size > left:
            raise _refused(f'block "{name}"', size, left, "A frame holds at most 256 MB.")
        left -= size
        data = frame[start + entry["offset"] :][: entry["size"]]
        data = _inflated(data, size, f'block "{name}"', entry.get("deflated", False))
        blocks[name] = np.frombuffer(data, dtype).reshape(shape)
    return _checked(Spec(top["kind"], top["head"], blocks, codes))


def _deflated(data: bytes, level: int) -> tuple[bytes, int]:
    """The data, deflated if that is shorter, and its original length."""
    short = zlib.compress(data, level) if level and len(data) > 64 else data
    return (short if len(short) < len(data) else data), len(data)


def _inflated(data: bytes, size: int, what: str, deflated: bool) -> bytes:
    if deflated and (size > _MOST or size > _RATIO * len(data)):
        raise _refused(what, size, min(_MOST, _RATIO * len(data)), "Its deflated data cannot be this long.")
    if deflated:
        try:
            data = zlib.decompressobj().decompress(data, size + 1)
        except zlib.error as error:
            raise _refused(what, size, 0, f"It cannot be inflated: {error}.") from error
    if len(data) != size:
        raise _refused(what, size, len(data), "The lengths in a frame must match its content.")
    return data


def _refused(what: str, size: int, there: int, rule: str) -> Exception:
    return value_error(
        f"unpack: {what} is not what the frame says.", {"said": size, "there": there}, rule, "pack(view.spec)"
    )


def to_json(spec: Spec) -> JsonObject:
    """The spec as readable JSON data; NaN becomes null, infinities "inf" and "-inf"."""
    blocks = {
        name: {
            "dtype": _DTYPES[array.dtype.name],
            "shape": list(array.shape),
            "data": [_number(value) for value in array.ravel().tolist()],
            **_code_entry(spec.codes.get(name)),
        }
        for name, array in spec.blocks.items()
    }
    return {"kind": spec.kind, "head": _clean(spec.head), "blocks": blocks}


def from_json(data: JsonObject) -> Spec:
    """The spec in JSON data of `to_json`."""
    try:
        return _from_json(data)
    except _ODD as error:
        if parts_of(error) is not None:
            raise
        raise value_error(
            "from_json: this is not a spec.",
            {"fails": f"{type(error).__name__}: {error}"[:200]},
            "A spec as JSON has kind, head, and blocks with dtype, shape and data.",
            "to_json(view.spec)",
        ) from error


_ODD = KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError, RecursionError


def _checked(spec: Spec) -> Spec:
    if not isinstance(spec.kind, str) or not isinstance(spec.head, dict):
        raise TypeError(f"kind is {type(spec.kind).__name__}, and head {type(spec.head).__name__}")
    return spec


def _from_json(data: JsonObject) -> Spec:
    blocks, codes = {}, {}
    for name, entry in data.get("blocks", {}).items():
        values = [math.nan if value is None else float(value) for value in entry["data"]]
        shape = entry["shape"]
        if "code" in entry:
            codes[name] = BlockCode.of_entry(entry["code"], shape, entry.get("pool"))
            shape = codes[name].stored_shape
        blocks[name] = np.array(values, dtype=_NAMES[entry["dtype"]]).reshape(shape)
    return _checked(Spec(data["kind"], data["head"], blocks, codes))


def _code_entry(code: BlockCode | None) -> JsonObject:
    return {} if code is None else {"shape": list(code.shape), "code": code.entry(), "pool": list(code.pool)}


def host(array: Any) -> np.ndarray:
    """An array of any library and on any device, a Tensor, or nested lists of numbers as a NumPy array.

    Raises:
        TypeError: If it is not numeric, is complex, has lists of different lengths, or has no values.
    """
    if type(array) is np.ndarray and array.dtype.kind in "biuf" and array.dtype != np.float16:
        return array
    made = host_array(array.raw_tensor if isinstance(array, Tensor) else array, "viz")
    if made.dtype.kind == "c":
        raise type_error(
            "viz: these numbers are complex.",
            {"given": f"{made.dtype} {made.shape}"},
            "A view draws real numbers: the magnitude, the phase, or one part.",
            "abs(x)    # or x.real, x.imag",
        )
    return made.astype(np.float32) if made.dtype == np.float16 else made  # sums in half precision are inexact


def single(array: np.ndarray) -> np.ndarray:
    """The array as float32, clipped to its range: finite values stay finite and nonzero values stay nonzero.

    Warns:
        UserWarning: If numbers are clipped, or integers are rounded.
    """
    if array.dtype == np.float32:
        return array
    with np.errstate(over="ignore"):
        made = np.asarray(array, np.float32)
    words = []
    if array.dtype == np.float64:
        huge, tiny = np.isinf(made) & np.isfinite(array), (made == 0) & (array != 0)
        for lost, end, said in ((huge, _HUGE, "beyond ±3.4e38"), (tiny, _TINY, "nearer to 0 than 1.4e-45")):
            if lost.any():
                made = np.where(lost, np.copysign(end, array), made).astype(np.float32)
                words.append(f"{int(lost.sum())} {said}, drawn as that")
    elif array.dtype.kind in "iu" and array.dtype.itemsize > 2 and (made.astype(np.float64) != array).any():
        words.append("integers beyond 2**24 rounded to 7 digits")
    if words:
        warn_user(f"viz: a view holds float32, and of these {array.dtype} values there are {'; '.join(words)}.")
    return made


_HUGE, _TINY = float(np.finfo(np.float32).max), float(np.finfo(np.float32).smallest_subnormal)


def _block(array: Any, kind: str) -> np.ndarray:
    if getattr(array, "by_rows", False):  # a value that is computed on access: `attention/long_maps.py`
        return array
    array = host(array)
    if array.dtype.name not in _DTYPES or (array.dtype == np.float64 and not (kind in KINDS and KINDS[kind].double)):
        kinds = {"f": np.float32, "i": np.int32, "u": np.int32, "b": np.uint8}
        if array.dtype.kind not in kinds:
            raise value_error(
                "Spec: a block does not contain numbers.",
                {"dtype": array.dtype, "shape": array.shape},
                "Blocks are arrays of floats, integers or bools.",
                "Spec(kind, head, {name: np.asarray(values, dtype='float32')})",
            )
        made = single(array) if array.dtype.kind == "f" else array.astype(kinds[array.dtype.kind])
        if array.dtype.kind in "iu" and not np.array_equal(made, array):
            raise value_error(
                "Spec: integers of a block are beyond 32 bits.",
                {"dtype": array.dtype, "least": array.min(), "largest": array.max()},
                "A block holds integers from -2**31 to 2**31 - 1.",
                "Spec(kind, head, {name: values.astype('float32')})    # with 7 digits",
            )
        array = made
    return np.asarray(array, order="C")


def _json(data: Any) -> str:
    try:
        return json.dumps(data, separators=(",", ":"), allow_nan=False)
    except (ValueError, TypeError):  # NumPy scalars, NaN
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
