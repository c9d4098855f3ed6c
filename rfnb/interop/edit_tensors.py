"""Edits of values in Modules of rfnb, and recorded values as replacements."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rfnb.control.named_entries import NamedEntries, under_names
from rfnb.core.dim import Dim
from rfnb.core.errors import shape_error, type_error, value_error
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_text import shape_of
from rfnb.core.tree import map_nested
from rfnb.ops.cast import cast
from rfnb.ops.where import where
from rfnb.rec.step_tensor import StepTensor
from rfnb.trace.editing import ValueEdit
from rfnb.trace.event import named_tensors
from rfnb.trace.host_copies import values_of


class PatchValue(NamedTuple):
    """A value of a recording.

    Attributes:
        value: The recorded value.
        words: Its origin, as text.
        place: The entries, if they differ from those of the edit.
    """

    value: Tensor
    words: str
    place: ValueEdit | None


def another_shape(edit: ValueEdit, given: PatchValue, here: str, recorded: str) -> Exception:
    """The error for a recorded value with other sizes."""
    return shape_error(
        f'edit: "{edit.text}" has another shape in that recording.',
        {"here": here, "recorded": f"{recorded} at {given.words}"},
        "A value is patched in from a run of the same model on an input of the same size; from another position by its own place:",
        f'{{"{edit.text}": (trace, "{edit.path}[time=0]")}}',
    )


def put(edit: ValueEdit, result: Any, axis: Dim | None) -> Any:
    """The result of a Module, or attention weights over `axis`, with the edit applied.

    Raises:
        ValueError, DimError, IndexError, ShapeError: If the edit cannot be applied.
    """
    named = [
        (name, tensor) for name, tensor in named_tensors([("", result)]) if not edit.part or axis or name == edit.part
    ]
    if not named:
        raise value_error(
            f'edit: "{edit.text}" is not a result of this module.',
            {"module": f"{edit.path or 'the model'}, a {type(edit.module).__name__}",
             "returns": ", ".join(name or "a Tensor" for name, _ in named_tensors([("", result)])) or "no Tensor"},
            "A place in a Module of rfnb is its result, one of several Tensors by its name, or `.weights` of an attention.",
        )  # fmt: skip
    _, old = named[0]
    if edit.step is not None and isinstance(old, StepTensor):
        raise value_error(
            f'edit: "{edit.text}" is for one step of a recorded loop.',
            {"value": old, "step": edit.step},
            "The body of `with loop:` runs once for all steps. If Python runs each step, a single one can be edited:",
            "for _ in loop:",
        )
    if not edit.is_now:
        return result
    edit.done += 1
    new = _with_value(edit, old, axis)
    return new if old is result else map_nested(lambda leaf: new if leaf is old else leaf, result)


def _with_value(edit: ValueEdit, old: Tensor, axis: Dim | None) -> Tensor:
    dims = old.dims
    entries = {axis if name == "source" and axis is not None else name: at for name, at in edit.entries.items()}
    chosen = NamedEntries(f'edit: "{edit.text}"', entries or ..., dims, f'rf.edit(model, {{"{edit.path}"}})')
    value = edit.value
    if callable(value) and not isinstance(value, PatchValue):
        value = value(old)
    if isinstance(value, PatchValue):
        value = _read(edit, value, old, chosen)
    if isinstance(value, Tensor):
        new = under_names(value, dims)
        if not set(new.dims) <= set(dims):
            raise _unfit(edit, old, shape_of(value))
    else:
        new = _of_array(edit, value, old, chosen)
    mask: Any = True  # with fewer dims it broadcasts along the others
    if entries:
        mask = new_tensor(old.backend.from_numpy(chosen.mask(), dtype="bool", device=old.device), dims)
    new = where(mask, cast(new, old.dtype), old, allow_broadcast_all_sources=True)
    return new.copy_transpose(dims)


def _of_array(edit: ValueEdit, value: Any, old: Tensor, chosen: NamedEntries) -> Tensor:
    """A number or an array over the entries, as a Tensor over all dims."""
    try:
        host = np.asarray(values_of(value), np.float64)
    except (TypeError, ValueError):
        raise type_error(
            f'edit: "{edit.text}" cannot be replaced by this value.',
            {"given": type(value).__name__},
            "A replacement is a number, an array, a Tensor, a recording, or a function of the current Tensor.",
        ) from None
    full = np.zeros([dim.extent for dim in old.dims])
    try:
        chosen.put(full, np.broadcast_to(host, chosen.shape))
    except ValueError:
        raise _unfit(edit, old, str(host.shape)) from None
    return new_tensor(old.backend.from_numpy(full, dtype=old.dtype, device=old.device), old.dims)


def _read(edit: ValueEdit, given: PatchValue, old: Tensor, chosen: NamedEntries) -> Any:
    value, host = given.value, given.value.copy_transpose(given.value.dims).numpy()
    if host.shape != tuple(dim.extent for dim in old.dims):
        raise another_shape(edit, given, shape_of(old), shape_of(value))
    place = given.place
    from_there = (
        chosen if place is None else NamedEntries(f'edit: "{place.text}"', dict(place.entries) or ..., value.dims, "")
    )
    return from_there.of(host)


def _unfit(edit: ValueEdit, old: Tensor, given: str) -> Exception:
    return shape_error(
        f'edit: "{edit.text}" does not fit.',
        {"there": old, "given": given},
        "A replacement has the shape of the selected entries, without the dims that an index selects from, or broadcasts to it.",
    )
