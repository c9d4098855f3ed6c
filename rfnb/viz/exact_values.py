"""Answers to a page that has less data than the kernel: a part of a block as float32, or a frame with more data than the stored one.

A message is answered in the thread that receives it, from the spec of the page, so it never waits for a model: a spec
is replaced, never mutated. The newest of the old specs are kept, up to a limit in bytes.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections import OrderedDict
from typing import Any

import numpy as np

from rfnb.core.strict_json import JsonObject
from rfnb.viz.page.budget import whole_room
from rfnb.viz.spec import Spec

_MOST_ASKED = 1 << 22  # values per answer
_MOST_TRIED = 4  # multiple of the room within which an exact frame is attempted, since a person waits for it
_MOST_KEPT = 1 << 30  # bytes of all specs kept for pages


class Source:
    """The specs from which the pages of a view were made, by number."""

    def __init__(self) -> None:
        self._now: tuple[int, Spec] | None = None
        self._count = 0

    def publish(self, spec: Spec) -> int:
        """The number for the head of a frame made from this spec."""
        if self._now is None or self._now[1] is not spec:
            self._count += 1  # numbers are unique: a page may still have an old frame
        self._now = self._count, spec
        _kept.touch(self, sum(block.nbytes for block in spec.blocks.values()))
        return self._count

    def forget(self) -> None:
        """Answer nothing until the next spec."""
        self._now = None

    def answer(self, asked: Any) -> tuple[JsonObject, list[bytes]]:
        """The answer to a message of the page, and its buffers: none if the values are not available (any more)."""
        now = self._now
        values = part(now[1], asked) if now and asked.get("version") == now[0] else None
        message = {"rfnb": "exact", "id": asked.get("id")}
        return message, [] if values is None else [np.ascontiguousarray(values, dtype=np.float32).tobytes()]

    def whole(self, asked: Any) -> tuple[JsonObject, list[bytes]]:
        """The answer to a page with a thinned frame: one `part` of the spec, or all of it, restricted to a `range` of x,
        with as much data as a page can take.
        """
        from rfnb.viz.page.page_spec import frame_of

        now, version = self._now, asked.get("version")
        spec = _inside(now[1], asked) if now and version == now[0] else None
        message = {"rfnb": "whole", "id": asked.get("id")}
        if spec is None:
            return message, []
        room = whole_room(spec.kind, live=spec.live)
        if sum(block.nbytes for block in spec.blocks.values()) > _MOST_TRIED * room.most:
            return message, []
        return message, [frame_of(spec, room, level=1, version=version)]


def _inside(spec: Spec, asked: Any) -> Spec | None:
    """The spec, or the part and range that a page requests; None if it does not exist."""
    from rfnb.viz.curves.content import points_between

    prefix, ends = str(asked.get("part") or ""), asked.get("range")
    for index in prefix.split("/")[:-1]:
        inner = _part_of(spec, index)
        if inner is None:
            return None
        spec = inner
    if ends is None:
        return spec
    numbers = isinstance(ends, list) and len(ends) == 2 and all(isinstance(end, (int, float)) for end in ends)
    return points_between(spec, *ends) if numbers and spec.kind == "curves" else None


def _part_of(spec: Spec, index: str) -> Spec | None:
    """The part with this number in a group, or None."""
    from rfnb.viz.group.spec import parts_of  # imported at the first request

    parts = parts_of(spec) if spec.kind in ("group", "branches") else []
    return parts[int(index)] if index.isdecimal() and int(index) < len(parts) else None


def part(spec: Spec, asked: Any) -> np.ndarray | None:
    """The values that a page requests: `block`, `start` and `size` by axis; None if they do not exist.

    With `pick`, a slot for each step: the rows of one hypothesis from a block [seq, step, slot, ...], as [seq, step, 1, ...].
    """
    block = _block(spec, str(asked.get("block")))
    start, size, pick = asked.get("start"), asked.get("size"), asked.get("pick")
    if block is not None and pick is not None:
        block = _picked(block, pick)
    if block is None or not all(isinstance(at, list) and len(at) == block.ndim for at in (start, size)):
        return None
    if not all(isinstance(number, int) and number >= 0 for number in [*start, *size]):
        return None
    if math.prod(size) > _MOST_ASKED:  # before it is computed
        return None
    values = block[tuple(slice(first, first + count) for first, count in zip(start, size))]
    return values if list(values.shape) == size else None


def _block(spec: Spec, name: str) -> np.ndarray | None:
    """A block of a spec, or one that is computed on demand."""
    if name in spec.blocks:
        return spec.blocks[name]
    index, _, rest = name.partition("/")
    if (inner := _part_of(spec, index)) is not None:
        return _block(inner, rest)
    if spec.kind == "diff":
        from rfnb.viz.diff.pairs import asked, source_of

        source = source_of(spec)
        return None if source is None else asked(source, name)
    if spec.kind == "states":
        from rfnb.viz.states.orders import derived

        return derived(spec, name)
    return None


def _picked(block: np.ndarray, pick: Any) -> np.ndarray | None:
    if not isinstance(pick, list) or block.ndim < 3 or len(pick) > block.shape[1]:
        return None
    if not all(isinstance(slot, int) and 0 <= slot < block.shape[2] for slot in pick):
        return None
    return block[:, np.arange(len(pick)), pick][:, :, None]


class _Sources:
    """The most recently shown sources; when all of them exceed the limit, the oldest drop their specs. The source of a
    view is removed with it.
    """

    def __init__(self, most: int):
        self._most = most
        self._total = 0
        self._sizes: OrderedDict[int, tuple[weakref.ref[Source], int]] = OrderedDict()
        self._lock = threading.RLock()  # a view may be deleted while another one is registered

    def touch(self, source: Source, size: int) -> None:
        with self._lock:
            number = id(source)
            self._gone(number)
            self._sizes[number] = weakref.ref(source, lambda _: self._gone(number)), size
            self._total += size
            while self._total > self._most and len(self._sizes) > 1:
                oldest = self._sizes[next(iter(self._sizes))][0]()
                self._gone(next(iter(self._sizes)))
                if oldest is not None:
                    oldest.forget()

    def _gone(self, number: int) -> None:
        with self._lock:
            self._total -= self._sizes.pop(number, (None, 0))[1]


_kept = _Sources(_MOST_KEPT)
