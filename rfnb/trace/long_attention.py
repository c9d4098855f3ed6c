"""LongAttention: attention weights that are too many to store, computed by rows from queries and keys.

    long = rf.LongAttention(queries, keys, causal=True)     # Tensors or arrays [..., target, feature], [..., source, feature]
    long.rows(31_000, 31_010, head=3)                       # NumPy [10, sources]: exactly
    long.overview(head=3)                                   # NumPy, the largest of each block of weights
    rf.viz.attention(long, heads=[0, 3])

weights = softmax(scale * Q K^T + mask)         Vaswani et al. 2017, eq. 1

Rows are computed a few hundred at a time, so memory is bounded by the kept results and one block, on the device of the queries. Cells
hidden by a causal mask or a window are not computed.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.backends.protocol import Backend
from rfnb.backends.registry import get_backend_by_raw_tensor_type
from rfnb.core.errors import index_error, shape_error
from rfnb.core.tensor import Tensor
from rfnb.core.whole_number import is_place

LARGE = 1 << 22  # weights of one map: more of them are made by rows
LARGE_IN_ALL = 1 << 26
_BLOCK = 1 << 23  # scores that are computed at once
_SIDE = 1024  # cells in a row of an overview, at most


class LongAttention:
    """The weights of an attention, by rows.

    Args:
        queries: [batch, head, target, feature]; head or both may be missing. A Tensor or an array, in this order.
        keys: [batch, head, source, feature] likewise; with fewer heads, several query heads share one.
        scale: Default: 1 / sqrt(feature).
        causal: Whether a target sees only sources up to its own place. The last target is at the last source.
        window: How many sources a target sees, up to its own place; for causal attention only. None: all.
        lengths: The number of unpadded sources of each sequence. None: all.
        mask: Bool, True for visible cells, or values added to the scores: broadcasts against [batch, head, target, source].

    Attributes:
        num_seqs, num_heads, targets, sources: Sizes.
        num_bytes: Size of queries and keys in bytes.

    Raises:
        ShapeError: If queries and keys do not match.
    """

    def __init__(
        self,
        queries: Any,
        keys: Any,
        *,
        scale: float | None = None,
        causal: bool = False,
        window: int | None = None,
        lengths: Any = None,
        mask: Any = None,
    ):
        raws = [each.raw_tensor if isinstance(each, Tensor) else each for each in (queries, keys)]
        shapes = [tuple(map(int, raw.shape)) for raw in raws]
        if len(shapes[0]) != len(shapes[1]) or not 2 <= len(shapes[0]) <= 4 or not _fit(*shapes):
            raise shape_error(
                "LongAttention: queries and keys do not fit together.",
                {"queries": shapes[0], "keys": shapes[1]},
                "Both are [batch, head, position, feature], the first two may be missing; heads of queries may share those of keys.",
                "rf.LongAttention(queries, keys)    # (1, 8, 32000, 64), (1, 2, 32000, 64)",
            )
        self._backend: type[Backend] = get_backend_by_raw_tensor_type(type(raws[0]))
        self._queries, self._keys = (
            self._backend.reshape_raw(self._backend.detach_raw(raw), [1] * (4 - len(shape)) + list(shape))
            for raw, shape in zip(raws, shapes)
        )
        self.num_seqs, self.num_heads, self.targets, width = map(int, self._queries.shape)
        self.sources = int(self._keys.shape[2])
        self._scale = float(scale) if scale is not None else width**-0.5
        self.causal, self._window = bool(causal), window if causal else None
        self._lengths = [self.sources] * self.num_seqs if lengths is None else [int(n) for n in np.ravel(lengths)]
        self._mask = None if mask is None else self._fitting(mask.raw_tensor if isinstance(mask, Tensor) else mask)
        kept = [self._queries, self._keys, *([] if self._mask is None else [self._mask])]
        self.num_bytes = sum(map(self._backend.num_bytes_raw, kept))
        self._overviews: dict[tuple[int, int], np.ndarray] = {}
        self._lock = threading.Lock()

    def _fitting(self, mask: Any) -> Any:
        shape, full = tuple(map(int, mask.shape)), (self.num_seqs, self.num_heads, self.targets, self.sources)
        shape = (1,) * (4 - len(shape)) + shape
        if len(shape) > 4 or any(size not in (1, most) for size, most in zip(shape, full)):
            raise shape_error(
                "LongAttention: the mask does not fit the weights.",
                {"mask": tuple(mask.shape), "weights": full},
                "A mask broadcasts against [batch, head, target, source], from the last axis on.",
                "rf.LongAttention(queries, keys, causal=True, lengths=[...])",
            )
        return self._backend.reshape_raw(self._backend.detach_raw(mask), shape)

    def __repr__(self) -> str:
        return f"<LongAttention: {self.num_seqs} x {self.num_heads} maps of {self.targets} x {self.sources} weights>"

    @property
    def factor(self) -> int:
        """The number of rows and columns covered by a cell of an overview."""
        factor = 1
        while max(self.targets, self.sources) > factor * _SIDE:
            factor *= 2
        return factor

    def rows(self, start: int, stop: int, *, head: int = 0, seq: int = 0) -> np.ndarray:
        """The weights of a range of targets, float32 [target, source].

        Raises:
            IndexError: If there are no such targets, head or sequence.
        """
        ends = is_place(start, self.targets + 1) and is_place(stop, self.targets + 1) and start <= stop
        self._check(f"rows {start!r} to {stop!r}, ", head, seq, fits=ends)
        out = np.zeros((stop - start, self.sources), np.float32)
        for first, last in self._blocks(start, stop):
            low, raw = self._block(seq, head, first, last)
            made = self._backend.raw_to_numpy(raw)
            out[first - start : last - start, low : low + made.shape[1]] = made
        return out

    def overview(self, *, head: int = 0, seq: int = 0) -> np.ndarray:
        """The largest weight of each block of `factor` rows and columns, float32; computed once for each map.

        Raises:
            IndexError: If there is no such head or sequence.
        """
        self._check("", head, seq)
        with self._lock:
            if (seq, head) not in self._overviews:
                self._overviews[seq, head] = self._pooled(seq, head)
            return self._overviews[seq, head]

    def _check(self, rows: str, head: int, seq: int, *, fits: bool = True) -> None:
        if not (fits and is_place(head, self.num_heads) and is_place(seq, self.num_seqs)):
            raise index_error(
                f"LongAttention: there {'are no such rows' if rows else 'is no such map'}.",
                {"asked": f"{rows}head {head!r}, sequence {seq!r}", "there": repr(self)},
                "All are counted from 0.",
                f"long.{f'rows(0, {min(10, self.targets)}, ' if rows else 'overview('}head={self.num_heads - 1})",
            )

    def _pooled(self, seq: int, head: int) -> np.ndarray:
        factor = self.factor
        out = np.zeros((-(-self.targets // factor), -(-self.sources // factor)), np.float32)
        for first, last in self._blocks(0, self.targets, factor):
            low, raw = self._block(seq, head, first, last, factor)
            rows, cols = map(int, raw.shape)
            wide = [(0, -rows % factor), (0, -cols % factor)]
            if any(more for _, more in wide):
                raw = self._backend.pad_raw(raw, wide, 0.0)
            down, across = (-(-size // factor) for size in (rows, cols))
            raw = self._backend.reduce_raw(self._backend.reshape_raw(raw, [down, factor, across, factor]), "max", (3,))
            few = self._backend.raw_to_numpy(self._backend.reduce_raw(raw, "max", (1,)))
            top, left = first // factor, low // factor
            out[top : top + down, left : left + across] = few
        return out

    def _blocks(self, start: int, stop: int, of: int = 1) -> list[tuple[int, int]]:
        """The row ranges that are computed at once, multiples of `of` where possible."""
        rows = max(1, _BLOCK // max(1, self.sources) // of) * of
        return [(first, min(stop, first + rows)) for first in range(start, stop, rows)]

    def _block(self, seq: int, head: int, first: int, last: int, of: int = 1) -> tuple[int, Any]:
        """The first source visible to these rows (a multiple of `of`), and the weights from there to the last one."""
        backend, shift = self._backend, self.sources - self.targets
        low, high = 0, self._lengths[seq]
        if self.causal:
            high = max(0, min(high, last + shift))
            if self._window is not None:
                low = min(max(0, first + shift + 1 - self._window) // of * of, high)
        keys = self._keys[seq % self._keys.shape[0], head * int(self._keys.shape[1]) // self.num_heads, low:high]
        queries, keys = (backend.cast_raw(raw, "float32") for raw in (self._queries[seq, head, first:last], keys))
        if not high - low:
            return low, backend.matmul_raw(queries, backend.transpose_raw(keys, (1, 0)))
        scores = backend.matmul_raw(queries * self._scale, backend.transpose_raw(keys, (1, 0)))
        seen = self._seen(first, last, low, high, scores)
        if self._mask is not None:
            sizes = tuple(map(int, self._mask.shape))
            part = self._mask[seq if sizes[0] > 1 else 0, head if sizes[1] > 1 else 0]
            part = part[first:last] if sizes[2] > 1 else part
            part = part[:, low:high] if sizes[3] > 1 else part
            if backend.get_dtype_name_raw(part) == "bool":
                seen = part if seen is None else seen & part
            else:
                scores = scores + part
                seen = part > -3e38 if seen is None else seen & (part > -3e38)
        if seen is not None:
            made = backend.softmax_raw(backend.where_raw(seen, scores, -3e38), 1)
            return low, backend.where_raw(seen, made, 0.0)  # of a row that sees nothing too
        return low, backend.softmax_raw(scores, 1)

    def _seen(self, first: int, last: int, low: int, high: int, like: Any) -> Any:
        """The visible cells of a block of scores under a causal mask and a window; None means all."""
        backend, shift = self._backend, self.sources - self.targets
        if not self.causal or (first + shift >= high - 1 and self._window is None):
            return None
        where = backend.get_device_raw(like)
        at = backend.from_numpy(np.arange(first, last, dtype=np.int32)[:, None] + shift, device=where)
        cols = backend.from_numpy(np.arange(low, high, dtype=np.int32)[None], device=where)
        return cols <= at if self._window is None else (cols <= at) & (cols > at - self._window)


def is_large(shape: Sequence[int]) -> bool:
    """True if weights of this shape are too many to compute them all."""
    return math.prod(shape[-2:]) > LARGE or math.prod(shape) > LARGE_IN_ALL


def long_of(values: Mapping[str, Any]) -> LongAttention | None:
    """The LongAttention of an event with queries and keys; None if it has weights."""
    if "weights" in values or "queries" not in values or "keys" not in values:
        return None
    queries, mask = values["queries"], values.get("mask")
    if mask is not None:  # as an array that broadcasts
        dims = [*queries.dims[:-1], values["axis"]]
        mask = mask.copy_transpose([dim for dim in dims if dim in mask.dims])
        sizes = dict(zip(mask.dims, mask.raw_tensor.shape))
        mask = mask.backend.reshape_raw(mask.raw_tensor, [sizes.get(dim, 1) for dim in dims])
    given = {name: values.get(name) for name in ("scale", "window")}
    return LongAttention(queries, values["keys"], causal=bool(values.get("causal")), mask=mask, **given)


def _fit(queries: tuple[int, ...], keys: tuple[int, ...]) -> bool:
    heads = len(queries) < 3 or (keys[-3] > 0 and queries[-3] % keys[-3] == 0)
    batch = len(queries) < 4 or keys[0] in (1, queries[0])
    return queries[-1] == keys[-1] and queries[-1] > 0 and heads and batch
