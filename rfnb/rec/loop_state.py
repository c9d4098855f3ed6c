"""What a Loop carries: initial, previous, next and final values under one name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, message
from rfnb.core.tensor import Tensor, dims_text
from rfnb.ops import math
from rfnb.rec.nested import leaves, map_nested
from rfnb.rec.selection import Selection


class LoopState:
    """Attributes or items. Before the loop: assign the initial value. Inside: reading gives the previous value until it is
    assigned, then the new one. After: the final value.

    Raises:
        AttributeError: Reading a name without an initial value.
        ValueError: Assigning twice in a step, or another structure.
        DimError: If dims or dtype change from step to step.
    """

    def __init__(self, loop_name: str):
        self.__dict__.update(_loop_name=loop_name, _now={}, _next={}, _step=None)

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __getitem__(self, name: str) -> Any:
        if name in self._next:
            return self._next[name]
        if name in self._now:
            return self._now[name]
        raise AttributeError(
            f'Loop "{self._loop_name}" has no state "{name}".\n  has  {", ".join(self._now) or "nothing"}\n'
            f"Give it an initial value before the loop:\n    loop.state.{name} = rf.zeros([...])"
        )

    def __setitem__(self, name: str, value: Any) -> None:
        if self._step is None:
            self._now[name] = value
            return
        if name not in self._now:
            raise AttributeError(
                f'Loop "{self._loop_name}", step {self._step}: state "{name}" has no initial value.\n'
                f"Give it one before the loop:\n    loop.state.{name} = rf.zeros([...])"
            )
        if name in self._next:
            raise ValueError(
                f'Loop "{self._loop_name}", step {self._step}: state "{name}" was assigned twice.\nA step assigns a state once.'
            )
        self._check_structure(name, value)
        self._next[name] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self._now)

    def __len__(self) -> int:
        return len(self._now)

    def keys(self) -> Any:
        return self._now.keys()

    def values(self) -> Any:
        return self._now.values()

    def items(self) -> Any:
        return self._now.items()

    def deep_tensors(self) -> list[Tensor]:
        """All tensors inside."""
        return [leaf for _, leaf in leaves(dict(self._now)) if isinstance(leaf, Tensor)]

    # -- for the Loop ------------------------------------------------------------------------------------------------------

    def values_now(self) -> dict[str, Any]:
        return self._now

    def begin_step(self, index: int) -> None:
        self.__dict__["_step"] = index

    def follow(self, selection: Selection) -> None:
        """Bring the previous and the new values to the hypotheses that were selected."""
        self.__dict__["_next"] = map_nested(selection.to_carried, self._next)
        self.__dict__["_now"] = map_nested(selection.to_carried, self._now)

    def commit(self, active: Tensor | None) -> None:
        """The new values become the previous ones; where not `active`, a sequence has ended and keeps what it had."""
        step = self._step
        for name, new in self._next.items():
            old = self._now[name]
            renamed = _renamed_dims(old, new)
            for (path, a), (_, b) in zip(leaves(old, name), leaves(new, name)):
                if isinstance(a, Tensor) and isinstance(b, Tensor):
                    self._check_same(path, a, b, renamed, step)
            if active is not None:
                new = map_nested(lambda b, a: _freeze(active, a, b), new, old)
            self._now[name] = new
        self._next.clear()

    def finish(self) -> None:
        self.__dict__["_step"] = None

    def _check_structure(self, name: str, value: Any) -> None:
        had = [path for path, _ in leaves(self._now[name])]
        has = [path for path, _ in leaves(value)]
        if had != has:
            raise ValueError(
                message(
                    f'Loop "{self._loop_name}", step {self._step}: state "{name}" changed its structure.',
                    [("before", ", ".join(had) or "one value"), ("now", ", ".join(has) or "one value")],
                    "A state keeps its structure in every step.",
                )
            )

    def _check_same(self, path: str, old: Tensor, new: Tensor, renamed: dict[Dim, Dim], step: int) -> None:
        if old.dims == new.dims and old._raw.dtype == new._raw.dtype:
            return
        old_dims = {renamed.get(dim, dim) for dim in old.dims}
        added = [dim for dim in new.dims if dim not in old_dims]
        grown = step == 0 and all(dim.kind == "beam" for dim in added)  # a beam comes with the first choice
        if (old_dims == set(new.dims) or (grown and old_dims < set(new.dims))) and old.dtype == new.dtype:
            return
        change = f"   new: {dims_text(added)[1:-1]}" if added else ""
        fix = None
        if added:
            fix = f"loop.state.{path} = rf.expand_dim(initial, dim={added[0].name})"
        raise DimError(
            message(
                f'Loop "{self._loop_name}", step {step}: state "{path}" changed its dims or dtype.',
                [
                    ("before", f"{dims_text(old.dims)} {old.dtype}"),
                    ("now", f"{dims_text(new.dims)} {new.dtype}{change}"),
                ],
                "A state keeps its dims and dtype in every step."
                + ("\nGive the initial state the new dim:" if fix else ""),
                fix,
            )
        )


def _renamed_dims(old: Any, new: Any) -> dict[Dim, Dim]:
    """Dims inside a state may be replaced, e.g. one that grows by a frame in every step."""
    pairs = zip(leaves(old), leaves(new))
    return {a: b for (_, a), (_, b) in pairs if isinstance(a, Dim) and isinstance(b, Dim)}


def _freeze(active: Tensor, old: Any, new: Any) -> Any:
    if not isinstance(new, Tensor) or new is old or set(old.dims) - set(new.dims):
        return new
    out = math.where(active, new, old, allow_broadcast_all_sources=True)
    return new._like(out._raw, out.dims)
