"""What a Loop carries: initial, previous, next and final values under one name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rfnb.core.beam_dim import is_beam
from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, message
from rfnb.core.pickling import NotPicklable
from rfnb.core.tensor import Tensor, same_dtype
from rfnb.core.tensor_text import dims_text
from rfnb.ops.frames import marked_like
from rfnb.ops.where import where
from rfnb.rec.nested import leaves, map_nested, same_structure, structure_text
from rfnb.rec.selections import Selections, bring


class LoopState(NotPicklable):
    """Attributes or items. Before the loop: assign the initial value. Inside: reading gives the previous value until it is
    assigned, then the new one; after a choice, that of the hypotheses which were chosen. After: the final value.

    Raises:
        AttributeError: Reading a name without an initial value.
        ValueError: Assigning twice in a step, or another structure.
        DimError: If dims or dtype change from step to step.
    """

    def __init__(self, loop_name: str, axis: Dim | None = None, selections: Selections | None = None):
        self.__dict__.update(
            _loop_name=loop_name,
            _axis=axis,
            _now={},
            _next={},
            _step=None,
            _frozen={},
            _recording=None,
            _selections=Selections() if selections is None else selections,
        )

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __getitem__(self, name: str) -> Any:
        if self._recording is not None and name in self._now:
            value = self._recording.read_state(name, name in self._next)
            return value if self._selections.now is None else bring(self._selections, value)
        value = self._next.get(name, _MISSING)
        if value is _MISSING:
            value = self._now.get(name, _MISSING)
        if value is not _MISSING:
            now = self._selections.now
            return value if now is None else map_nested(now.bring, value)
        raise AttributeError(
            f'Loop "{self._loop_name}" has no state "{name}".\n  has  {", ".join(self._now) or "nothing"}\n'
            f"Give it an initial value before the loop:\n    loop.state.{name} = rf.zeros([...])"
        )

    def __setitem__(self, name: str, value: Any) -> None:
        if self._step is None:
            self._now[name] = value
            if hasattr(type(self), name):  # a state called "values": it hides the method
                own = {name: property(lambda state: state[name])}
                object.__setattr__(self, "__class__", type("LoopState", (type(self),), own))
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
        self._next[name] = value if self._recording is None else self._recording.write_state(name, value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._now)

    def __len__(self) -> int:
        return len(self._now)

    def keys(self) -> Any:
        """Names of the states."""
        return self._now.keys()

    def values(self) -> Any:
        """The states as they are now."""
        return self._now.values()

    def items(self) -> Any:
        """(name, state as it is now)."""
        return self._now.items()

    def deep_tensors(self) -> list[Tensor]:
        """All tensors inside."""
        return [leaf for _, leaf in leaves(dict(self._now)) if isinstance(leaf, Tensor)]

    # -- for the Loop ------------------------------------------------------------------------------------------------------

    def _values_now(self) -> dict[str, Any]:
        """The states as they are now, by name."""
        return self._now

    def _record(self, recording: Any) -> None:
        """From here on the body is recorded: it gets StepTensors. None: no longer."""
        self.__dict__["_recording"] = recording

    def _names_with_late_dims(self) -> list[str]:
        """States that got dims of the lengths when the first sequence ended."""
        return [name for name, dims in self._frozen.items() if dims]

    def _initial_of(self, source: Any) -> Tensor | None:
        """Of a value that was assigned to a state in this step: what the state has without any step."""
        assigned = self._next if self._recording is None else self._recording.next_states
        for name, value in assigned.items():
            for (_, leaf), (_, initial) in zip(leaves(value), leaves(self._now[name])):
                if leaf is source and isinstance(initial, Tensor):
                    return initial
        return None

    def _replay(self, name: str, value: Any) -> None:
        """The new value of this step, of a body that was recorded and checked."""
        self._next[name] = value

    def _begin_step(self, index: int) -> None:
        """From here on, what is assigned is the next value."""
        self.__dict__["_step"] = index

    def _commit(self, active: Tensor | None) -> None:
        """The new values become the previous ones; where not `active`, a sequence has ended and keeps what it had."""
        selection = self._selections.now
        before = self.__dict__["_before_step"] = dict(self._now)
        for name, old in before.items():
            new = self._next.get(name, _MISSING)
            if new is _MISSING:
                if selection is not None:
                    self._now[name] = map_nested(selection.to_carried, old)
                continue
            if selection is not None:
                new = map_nested(selection.to_carried_state, new)
                if active is not None:
                    old = map_nested(selection.to_carried, old)
            self._check_same(name, old, new)
            if active is not None:
                new = map_nested(_Freeze(active, self._frozen.setdefault(name, set())), new, old)
            self._now[name] = new
        self._next.clear()

    def _finish(self) -> None:
        """After the last step, or when the loop is left early: what remains is the state after the last whole step."""
        self._next.clear()
        self.__dict__["_step"] = None
        self._selections.end_step()

    def _check_structure(self, name: str, value: Any) -> None:
        before = self._now[name]
        if not same_structure(before, value):
            raise self._changed_structure(name, before, value)

    def _changed_structure(self, name: str, before: Any, value: Any) -> ValueError:
        had, has = dict(leaves(before)), dict(leaves(value))
        fix, hint = None, ""
        if set(had) == {""} and set(has) - {""}:
            hint = "\nGive it the initial value of all of its parts, or assign the part that is meant:"
            fix = f"loop.state.{name} = {_part_code(value, 'new')}"
        elif set(has) == {""} and set(had) - {""}:
            hint, fix = (
                "\nAssign all of its parts:",
                f"loop.state.{name} = rf.State({', '.join(f'{key}=...' for key in had)})",
            )
        elif missing := [path for path in had if path not in has]:
            hint = f"\nWhat is not changed is assigned as well: {', '.join(missing)}."
        return ValueError(
            message(
                f'Loop "{self._loop_name}", step {self._step}: state "{name}" changed its structure.',
                [("before", structure_text(before)), ("now", structure_text(value))],
                "A state keeps its structure in every step." + hint,
                fix,
            )
        )

    def _check_same(self, name: str, old: Any, new: Any) -> None:
        if _same_dims(old, new):
            return
        befores = dict(leaves(old, name))
        renamed = None
        for path, b in leaves(new, name):
            a = befores[path]
            if (a is None and isinstance(b, Tensor)) or (b is None and isinstance(a, Tensor)):
                raise self._changed_structure(name, old, new)
            if isinstance(a, Tensor) and isinstance(b, Tensor) and (a.dims != b.dims or a.dtype != b.dtype):
                if renamed is None:
                    renamed = self._renamed_dims()
                self._check_leaf(name, path, a, b, renamed)

    def _renamed_dims(self) -> dict[Dim, Dim]:
        """Dims inside the states may be replaced, e.g. one that grows by a frame in every step."""
        now = self._selections.now
        carried = (lambda dim: dim) if now is None else now.to_carried
        renamed: dict[Dim, Dim] = {}
        for name, new in self._next.items():
            befores = dict(leaves(self._before_step[name]))
            for path, leaf in leaves(new):
                before = befores[path]
                if isinstance(before, Dim) and isinstance(leaf, Dim):
                    renamed[before] = renamed[carried(before)] = carried(leaf)
        return renamed

    def _check_leaf(self, name: str, path: str, old: Tensor, new: Tensor, renamed: dict[Dim, Dim]) -> None:
        old_dims = {renamed.get(dim, dim) for dim in old.dims}
        added = [dim for dim in new.dims if dim not in old_dims]
        # A beam comes with the first choice; the dims of the lengths come with the first sequence that has ended.
        lost = {dim for dim in old_dims if not is_beam(dim)} - set(new.dims) - self._frozen.get(name, set())
        if not lost and all(map(is_beam, added)) and old.dtype == new.dtype:
            return
        change = f"   new: {dims_text(added)[1:-1]}" if added else ""
        hint, fix = "", None
        if self._axis in added:
            hint = "\nA step works on one frame of the axis of the loop. Unstack what has it:"
            fix = f"x_t = loop.unstack(x)      # of each x with {self._axis.name}"
        elif added:
            hint, fix = (
                "\nGive the initial state the new dim:",
                f"loop.state.{path} = rf.expand_dim(initial, dim={added[0].name})",
            )
        elif old.dtype != new.dtype:
            hint, fix = (
                "\nGive the initial state the new dtype:",
                f'loop.state.{path} = rf.cast(initial, "{new.dtype}")',
            )
        raise DimError(
            message(
                f'Loop "{self._loop_name}", step {self._step}: state "{path}" changed its dims or dtype.',
                [
                    ("before", f"{dims_text(old.dims)} {old.dtype}"),
                    ("now", f"{dims_text(new.dims)} {new.dtype}{change}"),
                ],
                "A state keeps its dims and dtype in every step." + hint,
                fix,
            )
        )


def _part_code(value: Any, name: str) -> str:
    """The first part of a nested value, as one would write it."""
    key = next(iter(value)) if isinstance(value, dict) else 0
    return f"{name}.{key}" if isinstance(key, str) and hasattr(type(value), "__getattr__") else f"{name}[{key!r}]"


def _same_dims(old: Any, new: Any) -> bool:
    if isinstance(new, Tensor):
        return isinstance(old, Tensor) and old.dims == new.dims and same_dtype(old, new)
    if isinstance(new, dict):
        return all(_same_dims(old[key], item) for key, item in new.items())
    if isinstance(new, (list, tuple)):
        return all(map(_same_dims, old, new))
    return new is not None or not isinstance(old, Tensor)


class _Freeze:
    """Keeps the old value where not active; notes the dims that a state gets by this."""

    def __init__(self, active: Tensor, added: set[Dim]):
        self._active, self._added = active, added

    def __call__(self, new: Any, old: Any) -> Any:
        if not isinstance(new, Tensor) or not isinstance(old, Tensor) or new is old:
            return new
        if set(old.dims) - set(new.dims) - self._added:  # it has grown by a frame: that has no place in the old value
            return new
        out = where(self._active, new, old, allow_broadcast_all_sources=True)
        self._added.update(dim for dim in self._active.dims if dim not in new.dims)
        return marked_like(out, new)


_MISSING = object()
