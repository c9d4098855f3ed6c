"""States: the values that a loop carries from step to step, by name, in one place."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rfnb.core.beam_dim import is_beam
from rfnb.core.device_errors import is_of_devices
from rfnb.core.dim import Dim
from rfnb.core.errors import attribute_error, value_error
from rfnb.core.pickling import NotPicklable
from rfnb.core.tensor import Tensor, same_dtype
from rfnb.core.tree import agree, leaves, map_nested, same_structure
from rfnb.rec.ended_states import kept
from rfnb.rec.nested import structure_text
from rfnb.rec.selections import Selections
from rfnb.rec.state_changes import changed_leaf, changed_structure, other_device

if TYPE_CHECKING:
    from rfnb.rec.loop_step import Step


class States(NotPicklable):
    """The values of all states. A step assigns the next ones; `commit` makes them current.

    Attributes:
        now: name -> the initial value, later that after the last complete step.
        next: name -> the value assigned in this step.
        step: Reads and writes while the loop runs; None before and after.
        selections: The choices of the loop.
    """

    def __init__(self, loop_name: str, axis: Dim | None, selections: Selections):
        self.loop_name, self.axis, self.selections = loop_name, axis, selections
        self.now: dict[str, Any] = {}
        self.next: dict[str, Any] = {}
        self.step: Step | None = None
        self._index = 0
        self._unchanged = True
        self._alike: set[str] = set()  # states whose next value has the dims and dtypes of the present one
        self._late: dict[str, set[Dim]] = {}

    def begin(self, index: int) -> None:
        """Begin step `index`."""
        self._index, self._unchanged = index, True
        self._alike.clear()

    def missing(self, name: str) -> AttributeError:
        """The error for an unknown state."""
        near = difflib.get_close_matches(str(name), self.now, n=1)
        return attribute_error(
            f'Loop "{self.loop_name}" has no state "{name}".',
            {"has": ", ".join(self.now) or "nothing"},
            "A state has the name that it got before the loop:"
            if near
            else "Give it an initial value before the loop:",
            f"loop.state.{near[0]}" if near else f"loop.state.{name} = rf.zeros({self._dims_code()})",
        )

    def _dims_code(self) -> str:
        """Code for the dims of a new state, taken from another one."""
        for path, leaf in leaves(self.now):
            if isinstance(leaf, Tensor) and all(part.isidentifier() for part in path.split(".")):
                return f"loop.state.{path}.dims"
        return "[batch]"

    def check(self, name: str, value: Any) -> None:
        """Check that this step may assign a state.

        Raises:
            AttributeError: If it has no initial value.
            ValueError: If it was already assigned, or the structure differs.
        """
        if name not in self.now:
            raise attribute_error(
                f'Loop "{self.loop_name}", step {self._index}: state "{name}" has no initial value.',
                [("has", ", ".join(self.now) or "nothing"), (name, structure_text(value))],
                "Give it one before the loop:",
                f"loop.state.{name} = {_zeros_like(value)}",
            )
        if name in self.next:
            raise value_error(
                f'Loop "{self.loop_name}", step {self._index}: state "{name}" was assigned twice.',
                {"first": structure_text(self.next[name]), "now": structure_text(value)},
                "A step assigns a state once. Where it has several parts, keep them in a variable until then:",
                f"loop.state.{name} = value",
            )
        before = self.now[name]
        if _alike(before, value):  # the usual case needs no further look on commit
            self._alike.add(name)
            return
        self._unchanged = False
        tensors = isinstance(before, Tensor) and isinstance(value, Tensor)
        if not tensors and not same_structure(before, value):
            raise changed_structure(self._where(name), name, before, value)

    def edit(self, name: str, value: Any) -> None:
        """Replace a current value between two steps; structure, dims and dtypes must be the same."""
        before = self.now[name]
        if not same_structure(before, value):
            raise changed_structure(self._where(name), name, before, value)
        self._check_same(name, before, value)
        self.now[name] = value

    def initial_of(self, value: Any) -> Tensor | None:
        """The initial value of the state that this value was assigned to, used where no step runs; None if there is no such state."""
        for name, assigned in self.next.items():
            initials = dict(leaves(self.now[name]))
            for path, leaf in leaves(assigned):
                if leaf is value and isinstance(initials.get(path), Tensor):
                    return initials[path]
        return None

    def tensors(self) -> dict[str, Tensor]:
        """All Tensors in the current values, by dotted path."""
        return {path: leaf for path, leaf in leaves(self.now) if isinstance(leaf, Tensor)}

    def replace(self, fn: Callable[[Tensor], Tensor]) -> None:
        """Replace each Tensor in the current values by `fn` of it."""
        for name, value in self.now.items():
            self.now[name] = map_nested(lambda leaf: fn(leaf) if isinstance(leaf, Tensor) else leaf, value)

    def with_late_dims(self) -> list[str]:
        """The states that got the length dims when the first sequence ended."""
        return [name for name, dims in self._late.items() if dims]

    def commit(self, active: Tensor | None) -> None:
        """Make the next values current; sequences that are not `active` have ended and keep their values.

        Raises:
            DimError: If the dims or dtype of a state changed.
        """
        selection, after = self.selections.now, {}
        if selection is None and active is None and self._unchanged:
            self.now.update(self.next)
            self.next.clear()
            return
        # Where hypotheses are picked from the beam of the same dim, dims stay what they are.
        picked_from_same = selection is not None and selection.start is selection.carried
        for name, old in self.now.items():
            if name not in self.next:
                if selection is not None:
                    after[name] = map_nested(selection.to_carried, old)
                continue
            new = self.next[name]
            if selection is not None:
                new = map_nested(selection.to_carried_state, new)
                if active is not None:
                    old = map_nested(selection.to_carried, old)
            if selection is None:
                to_check = not self._unchanged and name not in self._alike
            else:
                to_check = name not in self._alike or not picked_from_same or selection.repicked
            if to_check:
                self._check_same(name, old, new)
            after[name] = new if active is None else self._frozen(name, old, new, active)
        self.now.update(after)
        self.next.clear()

    def close(self) -> None:
        """End the loop; the states keep the values of the last complete step."""
        self.next.clear()
        self.step = None
        self.selections.end_step()

    def _frozen(self, name: str, old: Any, new: Any, active: Tensor) -> Any:
        late, dims = self._late.setdefault(name, set()), set(active.dims)

        def keep(now: Any, before: Any) -> Any:
            if not isinstance(now, Tensor) or not isinstance(before, Tensor) or now is before:
                return now
            if before.dims != now.dims and set(before.dims) - set(now.dims) - late:
                return now  # it has grown by a frame: that has no place in the old value
            if not dims.issubset(now.dims):
                late.update(dims.difference(now.dims))
            return kept(active, now, before)

        try:
            return map_nested(keep, new, old)
        except RuntimeError as error:
            if not is_of_devices(error):
                raise
            raise other_device(self._where(name), name, old, new, active) from None

    def _where(self, name: str) -> str:
        return f'Loop "{self.loop_name}", step {self._index}: state "{name}"'

    def _check_same(self, name: str, old: Any, new: Any) -> None:
        if _alike(old, new):
            return
        befores = dict(leaves(old, name))
        renamed: dict[Dim, Dim] | None = None
        for path, b in leaves(new, name):
            a = befores[path]
            if (a is None and isinstance(b, Tensor)) or (b is None and isinstance(a, Tensor)):
                raise changed_structure(self._where(name), name, old, new)
            if not (isinstance(a, Tensor) and isinstance(b, Tensor)) or (a.dims == b.dims and a.dtype == b.dtype):
                continue
            renamed = self._renamed_dims() if renamed is None else renamed
            before = {renamed.get(dim, dim) for dim in a.dims}
            added = [dim for dim in b.dims if dim not in before]
            # A beam comes with the first choice; the dims of the lengths come with the first sequence that has ended.
            lost = {dim for dim in before if not is_beam(dim)} - set(b.dims) - self._late.get(name, set())
            if lost or not all(map(is_beam, added)) or a.dtype != b.dtype:
                raise changed_leaf(self._where(path), path, a, b, added, self.axis)

    def _renamed_dims(self) -> dict[Dim, Dim]:
        """Replaced dims inside the states, such as one that grows by a frame in every step."""
        selection = self.selections.now
        carried = (lambda dim: dim) if selection is None else selection.to_carried
        renamed: dict[Dim, Dim] = {}
        for name, new in self.next.items():
            befores = dict(leaves(self.now[name]))
            for path, leaf in leaves(new):
                before = befores[path]
                if isinstance(before, Dim) and isinstance(leaf, Dim):
                    renamed[before] = renamed[carried(before)] = carried(leaf)
        return renamed


def _alike(old: Any, new: Any) -> bool:
    """True if two values have the same structure, and leaves with the same dims and dtypes."""
    if old.__class__ is Tensor and new.__class__ is Tensor:
        return old.dims == new.dims and same_dtype(old, new)
    return agree(_same_kind, old, new)


def _same_kind(old: Any, new: Any) -> bool:
    """True if two leaves have the same dims and dtype."""
    if isinstance(old, Tensor):
        return isinstance(new, Tensor) and old.dims == new.dims and same_dtype(old, new)
    return not isinstance(new, Tensor)


def _zeros_like(value: Any) -> str:
    """Code for an initial state like this value."""
    if not isinstance(value, Tensor):
        return "..."
    dtype = "" if value.dtype == "float32" else f', dtype="{value.dtype}"'
    return f"rf.zeros([{', '.join(dim.name for dim in value.dims)}]{dtype})"
