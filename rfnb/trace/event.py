"""Event: a recorded probe, with its values kept so that the run is unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import NearNames
from rfnb.core.tensor import Tensor
from rfnb.core.tree import leaves, map_plain, values_in
from rfnb.trace.probe import Later

EVENT_COST = 1024
"""bytes: about what an event takes besides its values, so that many tiny events reach the limit of a recording too"""


@dataclass(slots=True, eq=False)
class Event(NearNames):
    """A recorded probe. Read only.

    Attributes:
        kind: "attention", "states", "beams", "module", or another word.
        path: Dotted path of the module, then the names of the loops in it.
        step: Step of the innermost loop, from 0; None outside of loops.
        index: Index in its trace, from 0.
        values: Tensors (detached, on their device) and plain data.
        module: The path without the names of loops.
        steps: Steps of all running loops, outermost first.
        loop_dim: The dim of the innermost loop, if known.
        entry: Equal for events of the same step of the same run of a loop; 0 outside of loops.
        call: Equal for events of the same call of an outermost module; 0 outside of modules.
        num_bytes: Size of the values in bytes.
        depth: The number of running module calls; for a "module" event including its own.
    """

    kind: str
    path: str
    step: int | None
    index: int
    values: Mapping[str, Any]
    module: str = ""
    steps: tuple[int, ...] = ()
    loop_dim: Dim | None = None
    entry: int = 0
    call: int = 0
    num_bytes: int = field(default=0, repr=False)
    depth: int = 0

    def __repr__(self) -> str:
        step = "" if self.step is None else f", step {self.step}"
        return f"Event({self.index}: {self.kind} at {self.path!r}{step}, values {', '.join(self.values)})"


def named_tensors(items: Iterable[tuple[str, Any]]) -> list[tuple[str, Tensor]]:
    """The Tensors among named values, including those in lists, tuples and dicts, with dotted names."""
    found: list[tuple[str, Tensor]] = []
    for name, value in items:
        for path, leaf in [(name, value)] if isinstance(value, Tensor) else leaves(value, name):
            if isinstance(leaf, Tensor):
                found.append((path, leaf))
    return found


def keep(value: Any, *, attached: bool = False) -> Any:
    """A copy of a value for a trace: plain containers with the kept form of each leaf.

    A Tensor is detached without a copy, since outputs of rfnb are never changed in place. Parameters are, so they and their views are
    copied. Containers and plain NumPy arrays, which the caller may change later, are copied.

    Args:
        attached: Keep Tensors other than parameters in the autograd graph.
    """
    return map_plain(_kept_attached if attached else _kept, value)


def _kept_attached(value: Any) -> Any:
    return value if type(value) is Tensor else _kept(value)


def _kept(value: Any) -> Any:
    if isinstance(value, Tensor):
        raw = value.raw_tensor
        if raw is None:
            return value.copy_template()
        backend = value.backend
        kept = backend.kept_raw(raw) if type(value) is Tensor else backend.copy_raw(backend.detach_raw(raw))
        return value._like(kept, value.dims)
    if isinstance(value, np.ndarray):
        return value.copy()
    return value.item() if isinstance(value, np.generic) else value


MADE_LATER: Any = object()
"""stands for the kept form of a call whose event has not been made yet"""


class Templates:
    """The kept form of `module` events: Tensors reduced to dims and dtype. Calls that look the same share them."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def keep(self, values: Mapping[str, Any]) -> tuple[Any, int]:
        """The values with templates for Tensors, and the size of the rest in bytes."""
        key = _look_of(values)
        if key is None:
            kept = keep_template(dict(values))
            return kept, bytes_of(kept)
        found = self._known.get(key)
        if found is None or found is MADE_LATER:
            found = self._add(key, keep_template(dict(values)))
        return found, 0

    def noted(self, look: tuple[Any, ...]) -> Any:
        """The kept form of a call with this key; MADE_LATER if `made` can make it later, since all its dims are static; else None."""
        found = self._known.get(look)
        if found is None and all([dim.size is not None for dims in look if dims.__class__ is tuple for dim in dims]):
            found = self._add(look, MADE_LATER)
        return found

    def made(self, look: tuple[Any, ...], make: Callable[[tuple[Any, ...]], Any]) -> Any:
        """The kept form of a call that was noted with this key.

        Args:
            make: Makes it from the key.
        """
        found = self._known.get(look)
        return self._add(look, make(look)) if found is None or found is MADE_LATER else found

    def _add(self, look: tuple[Any, ...], kept: Any) -> Any:
        if len(self._known) >= 4096:  # of old batches
            self._known.clear()
        self._known[look] = kept
        return kept


def _look_of(values: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """A key of everything in the templates of the values; None for values other than text and lists of named results of ops."""
    if values.__class__ is Later:
        return values.look
    look: list[Any] = []
    for name, value in values.items():
        look.append(name)
        if value.__class__ is str:
            look.append(value)
        elif value.__class__ is list:
            for item in value:
                if item.__class__ is not tuple or len(item) != 2:
                    return None
                label, x = item
                if label.__class__ is not str or x.__class__ is not Tensor or x._raw is None:
                    return None
                raw = x._raw
                look += label, raw.__class__, x.backend.dtype_key_raw(raw), x.dims, x.sparse_dim, x._feature_dim
                look += x.name, x.available_for_inference
        else:
            return None
    return tuple(look)


def keep_template(value: Any) -> Any:
    """The same value with Tensors reduced to dims and dtype."""
    return map_plain(lambda leaf: leaf.copy_template() if isinstance(leaf, Tensor) else _kept(leaf), value)


def same_numbers(one: Tensor, other: Tensor) -> bool:
    """True if two tensors have the same numbers, regardless of their dims; all NaNs are equal."""
    a, b = one.numpy(), other.numpy()
    if a.shape != b.shape or one.dtype != other.dtype:
        return False
    return a.tobytes() == b.tobytes() or np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


def bytes_of(value: Any) -> int:
    """The size of the arrays in a value, in bytes."""
    total = 0
    for leaf in values_in(value):
        if isinstance(leaf, Tensor):
            total += 0 if leaf._raw is None else leaf.backend.num_bytes_raw(leaf._raw)
        elif isinstance(leaf, Later):
            total += leaf.num_bytes
        elif isinstance(leaf, np.ndarray):
            total += int(leaf.nbytes)
    return total
