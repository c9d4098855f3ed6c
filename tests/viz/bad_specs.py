"""Specs of every kind with one thing wrong: a field that is missing or holds something else, an array of another rank, type or content."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from viz.odd_views import all_kinds

from rfnb.viz.kinds import KINDS
from rfnb.viz.spec import Spec

# What a field may hold instead. None is also what NaN becomes in JSON.
_INSTEAD = {
    "nothing": None,
    "minus": -1,
    "huge": 10**9,
    "half": 0.5,
    "text": "<x>y</x>",
    "list": [],
    "object": {},
    "yes": True,
}
_DEEP, _LONG = 7, 3  # levels that are gone down to, and how many of a list


def good() -> list[Spec]:
    """A small spec of each kind."""
    return all_kinds(["the", "cat", "sat"])


def bad(spec: Spec) -> Iterator[tuple[str, Spec]]:
    """Name and spec."""
    for path in _paths(spec.head):
        name = "/".join(map(str, path))
        yield f"{name} missing", Spec(spec.kind, _changed(spec.head, path, _MISSING), spec.blocks)
        for what, value in _INSTEAD.items():
            yield f"{name} {what}", Spec(spec.kind, _changed(spec.head, path, value), spec.blocks)
    for name, block in spec.blocks.items():
        for what, array in _arrays(block):
            yield f"block {name} {what}", Spec(spec.kind, spec.head, {**spec.blocks, name: array})
        yield f"block {name} missing", Spec(spec.kind, spec.head, {k: b for k, b in spec.blocks.items() if k != name})
    yield "no head", Spec(spec.kind, {})
    for other in KINDS:
        yield f"as {other}", Spec(other, spec.head, spec.blocks)


def worse(spec: Spec, dice: random.Random) -> tuple[str, Spec]:
    """Name and spec, with two to four things wrong at once."""
    names = []
    for _ in range(dice.randint(2, 4)):
        paths, blocks = list(_paths(spec.head)), list(spec.blocks)
        if blocks and (not paths or dice.random() < 0.3):
            name = dice.choice(blocks)
            whats = [] if not spec.blocks[name].size or not spec.blocks[name].ndim else list(_arrays(spec.blocks[name]))
            what, array = dice.choice(whats) if whats else ("NaN", np.full((), np.nan, np.float32))
            names.append(f"block {name} {what}")
            spec = Spec(spec.kind, spec.head, {**spec.blocks, name: array})
        elif paths:
            path, (what, value) = dice.choice(paths), dice.choice([*_INSTEAD.items(), ("missing", _MISSING)])
            names.append(f"{'/'.join(map(str, path))} {what}")
            spec = Spec(spec.kind, _changed(spec.head, path, value), spec.blocks)
    return "; ".join(names), spec


_MISSING = object()


def _arrays(block: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    yield "flat", block.reshape(-1)
    yield "of a higher rank", block[..., None]
    yield "a scalar", block.reshape(-1)[:1].reshape(())
    yield "empty", block[:0]
    yield "of no columns", block[..., :0]
    yield "shorter", block[..., : max(1, block.shape[-1] - 1)]
    yield "integers", np.full(block.shape, -7, np.int32)
    yield "bytes", np.full(block.shape, 255, np.uint8)
    for what, value in (("NaN", np.nan), ("infinity", np.inf), ("huge", 3e38), ("minus", -1e9)):
        yield what, np.full(block.shape, value, np.float32)


def _paths(data: Any, deep: int = _DEEP) -> Iterator[tuple[Any, ...]]:
    """All fields, of a list those of its first entries."""
    keys = list(data) if isinstance(data, dict) else range(min(len(data), _LONG)) if isinstance(data, list) else []
    for key in keys:
        yield (key,)
        if deep > 1:
            yield from ((key, *rest) for rest in _paths(data[key], deep - 1))


def _changed(head: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The head with another value at a path; all beside the path is shared, as there are thousands of them."""
    made = copy.copy(head)
    inner: Any = made
    for key in path[:-1]:
        inner[key] = copy.copy(inner[key])
        inner = inner[key]
    if value is _MISSING:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return made
