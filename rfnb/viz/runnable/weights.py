"""The coding of weights in a page: unchanged, in 16 bits, or in 8 bits with a scale per row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from rfnb.core.errors import value_error
from rfnb.core.strict_json import JsonObject
from rfnb.core.tensor import Tensor

_WORDS = {"float32": "32 bits", "float16": "16 bits", "int8": "8 bits"}
_FEW = 256  # values of an array that is stored unchanged


@dataclass(frozen=True)
class CodedWeights:
    """Arrays as stored in a page.

    Attributes:
        blocks: `w0`, `w0/scale`, ...
        specs: How each is decoded (`widgets/src/page/weights.ts`).
        values: The arrays that the page computes with.
        words: A description of their number and format.
    """

    blocks: dict[str, np.ndarray]
    specs: list[JsonObject]
    values: list[np.ndarray]
    words: str

    @staticmethod
    def of(arrays: Sequence[np.ndarray], coded: str) -> CodedWeights:
        """Code arrays.

        Raises:
            ValueError: If the code is unknown, or a value is not finite.
        """
        if coded not in _WORDS:
            raise value_error(
                f"save: weights are not stored as {coded!r}.",
                {"given": repr(coded), "known": ", ".join(_WORDS)},
                "Fewer bits make a smaller page with larger rounding errors.",
                'explorer.save("page.html", runs=True, weights="float16")',
            )
        blocks: dict[str, np.ndarray] = {}
        specs, values = [], []
        for number, array in enumerate(arrays):
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise value_error(
                    "save: a weight is not finite.",
                    {"array": f"{array.dtype} {array.shape}", "not finite": int((~np.isfinite(array)).sum())},
                    "A model with such weights computes NaN. To find the cause:",
                    'rf.debug(nan="raise")',
                )
            own = _coded(array, coded)
            blocks |= {f"w{number}{name}": block for name, block in own[0].items()}
            specs.append(own[1])
            values.append(own[2])
        count = sum(array.size for array in arrays)
        return CodedWeights(blocks, specs, values, f"{count:,} weights in {_WORDS[coded]}")

    @contextmanager
    def in_place_of(self, tensors: Sequence[Tensor], shared: Sequence[Tensor] = ()) -> Iterator[None]:
        """In a with-block, replace the values of Tensors by the decoded ones.

        Args:
            shared: Those that share the memory of arrays that the function reads; values are copied into it.
        """
        before = [tensor.raw_tensor for tensor in tensors]
        values = {id(tensor): tensor.numpy().copy() for tensor in shared}
        try:
            for tensor, array, raw in zip(tensors, self.values, before, strict=True):
                backend = tensor.backend
                decoded = backend.from_numpy(
                    array.astype(tensor.numpy().dtype), dtype=tensor.dtype, device=backend.get_device_raw(raw)
                )
                if id(tensor) in values:
                    backend.assign_raw(raw, decoded)
                else:
                    tensor.raw_tensor = decoded
            yield
        finally:
            for tensor in shared:
                tensor.backend.assign_raw(
                    tensor.raw_tensor,
                    tensor.backend.from_numpy(values[id(tensor)], dtype=tensor.dtype, device=tensor.device),
                )
            for tensor, raw in zip(tensors, before, strict=True):
                tensor.raw_tensor = raw


def _coded(array: np.ndarray, coded: str) -> tuple[dict[str, np.ndarray], JsonObject, np.ndarray]:
    """The blocks of an array, how to decode them, and the decoded values."""
    if array.dtype.kind != "f":
        whole = array.astype(np.int32)
        if not np.array_equal(whole, array):
            raise value_error(
                "save: an integer is too large for a page.",
                {"array": f"{array.dtype} {array.shape}", "largest": int(np.abs(array).max())},
                "Integers in a page have 32 bits.",
            )
        return {"": whole.ravel()}, {"as": "int32", "row": 1}, whole
    single = array.astype(np.float32)
    if coded == "float32" or array.size <= _FEW:
        return {"": _planes(single)}, {"as": "float32", "row": 1}, single
    if coded == "float16":
        half = np.clip(single, -65504, 65504).astype("<f2")
        return {"": _planes(half)}, {"as": "float16", "row": 1}, half.astype(np.float32)
    rows = single.reshape(-1, array.shape[-1])
    scales = np.abs(rows).max(axis=1, keepdims=True) / 127
    codes = np.round(rows / np.where(scales, scales, 1)).astype(np.float32)
    blocks = {"": (codes + 128).astype(np.uint8).ravel(), "/scale": scales.ravel()}
    return blocks, {"as": "int8", "row": array.shape[-1]}, (codes * scales).reshape(array.shape)


def _planes(array: np.ndarray) -> np.ndarray:
    """The first byte of each number, then the second, ...: the exponents together, which deflate."""
    return array.reshape(-1, 1).view(np.uint8).T.ravel()
