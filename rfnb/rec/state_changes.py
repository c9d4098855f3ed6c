"""Errors for a state whose structure, dims, dtype or device change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.device_errors import of_devices, rows_of, target_of
from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, dim_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import dims_text
from rfnb.core.tree import leaves
from rfnb.rec.nested import structure_text


def changed_structure(what: str, name: str, before: Any, value: Any) -> ValueError:
    """The error for a state whose parts differ from before."""
    had, has = dict(leaves(before)), dict(leaves(value))
    fix, hint = None, ""
    if set(had) == {""} and set(has) - {""}:
        hint = "\nGive it the initial value of all of its parts, or assign the part that is meant:"
        fix = f"loop.state.{name} = {_part_code(value, 'new')}"
    elif set(has) == {""} and set(had) - {""}:
        hint = "\nAssign all of its parts:"
        fix = f"loop.state.{name} = rf.State({', '.join(f'{key}=...' for key in had)})"
    elif missing := [path for path in had if path not in has]:
        hint = f"\nAssign the unchanged parts as well: {', '.join(missing)}."
    return value_error(
        f"{what} changed its structure.",
        {"before": structure_text(before), "now": structure_text(value)},
        "A state keeps its structure in every step." + hint,
        fix,
    )


def changed_leaf(what: str, path: str, old: Tensor, new: Tensor, added: Sequence[Dim], axis: Dim | None) -> DimError:
    """The error for a state Tensor whose dims or dtype differ from before; `added` are the new dims."""
    change = f"   new: {dims_text(added)[1:-1]}" if added else ""
    hint, fix = "", None
    if axis in added:
        assert axis is not None
        hint = "\nA step works on one frame of the axis of the loop. Unstack values that have it:"
        fix = f"x_t = loop.unstack(x)      # of each x with {axis.name}"
    elif added and (gone := [dim for dim in old.dims if dim not in new.dims]):
        if len(gone) == len(added) == 1 and gone[0].size == added[0].size is not None:
            both = f"{gone[0].name} and {added[0].name}"
            hint = f"\n{both} have the same size but are different dims. If they are the same axis, replace one:"
            fix = f"new, _ = rf.replace_dim(new, in_dim={added[0].name}, out_dim={gone[0].name})"
        else:
            dims = ", ".join(dim.name for dim in new.dims)
            hint = "\nGive the initial state the dims that the step makes:"
            fix = f"loop.state.{path} = rf.zeros([{dims}])"
    elif added:
        hint = "\nGive the initial state the new dim:"
        fix = f"loop.state.{path} = rf.expand_dim(initial, dim={added[0].name})"
    elif old.dtype != new.dtype:
        hint = "\nGive the initial state the new dtype:"
        fix = f'loop.state.{path} = rf.cast(initial, "{new.dtype}")'
    return dim_error(
        f"{what} changed its dims or dtype.",
        {"before": f"{dims_text(old.dims)} {old.dtype}", "now": f"{dims_text(new.dims)} {new.dtype}{change}"},
        "A state keeps its dims and dtype in every step." + hint,
        fix,
    )


def other_device(what: str, name: str, before: Any, value: Any, active: Tensor) -> RuntimeError:
    """The error for an ended sequence that cannot keep its state because the values involved are on different devices."""
    befores = dict(leaves(before))
    tensors = [(path, new, befores[path]) for path, new in leaves(value) if isinstance(new, Tensor)]
    path, now, old = next(
        (each for each in tensors if len({str(x.device) for x in (*each[1:], active) if isinstance(x, Tensor)}) > 1),
        tensors[0],
    )
    operands = [("before", old), ("now", now), ("ended", active)]
    devices = [str(tensor.device) for _, tensor in operands]
    code = f"loop.state.{name}{f'.{path}' if path else ''}"
    target = target_of(devices[1:])
    lines = [f'{code} = rf.copy_to_device(initial, "{target}")'] if devices[0] != target else []
    lines += [f'{code} = rf.copy_to_device(new, "{target}")'] if devices[1] != target else []
    lines += [f'loop.end(rf.copy_to_device(ended, "{target}"), ...)'] if devices[2] != target else []
    return of_devices(
        f"{what} is on another device than its previous value.",
        rows_of(operands),
        "Ended sequences keep their state, so both values and the flags of the ended ones have to be on one device:",
        lines,
    )


def check_same_device(state: Tensor, parents: Tensor) -> None:
    """Raise a RuntimeError if a state is on another device than the scores that select its hypotheses."""
    devices = [str(state.device), str(parents.device)]
    if devices[0] == devices[1]:
        return
    target = target_of(devices)
    label = "scores" if devices[0] == target else "state"
    raise of_devices(
        "choice: a state is on another device than the scores.",
        rows_of([("state", state), ("parents", parents)]),
        "The scores select the surviving states, so both must be on one device. In the step:",
        [f'{label} = rf.copy_to_device({label}, "{target}")'],
    ) from None


def _part_code(value: Any, name: str) -> str:
    """Code for the first part of a nested value."""
    key = next(iter(value)) if isinstance(value, dict) else 0
    return f"{name}.{key}" if isinstance(key, str) and hasattr(type(value), "__getattr__") else f"{name}[{key!r}]"
