"""Editing: values that replace those of a model while a with-block runs, by place.

    "h.1.attn.weights[head=3, target=-1]"      # path of a module, what of its call, which entries
    "h.1" # everything that the module returns

The classes that call modules query `edits_of`; `interop/edit.py` parses places and opens blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from rfnb.core.errors import value_error
from rfnb.trace.match import is_inside
from rfnb.trace.probe import trace_context

OF_ATTENTION = ("queries", "keys", "values", "weights", "heads")
"""What an attention makes: of queries and keys the weights, of weights and values what each head gives."""
OF_STATES = ("matrix", "normaliser", "forget_gate", "write_gate")
"""The parts of a linear recurrence of a model of torch: its state behind each step, and its gates."""
OF_UNITS = re.compile(r"(input|forget|output|reset|update|transform|write)_gate(_\d+)?|cell_input")
"""The names of the gates that recurrent units of rfnb make in a step."""
GATES = "gates"
"""what is below the path of a unit where it offers them"""
EFFECTIVE = "effective"
"""what is below the path of a linear recurrence where it offers the attention that it is equivalent to, which nothing computes"""
BESIDE = "Gates of torch's own units are computed beside them: one call of torch makes the step, and nothing would follow from other gates."
"""why no gate of these is changed"""
_PLACE = re.compile(r"\s*(?P<path>[^\[\]]*?)\s*(?:\[(?P<entries>.*)\])?\s*")
_ENTRY = re.compile(r"\s*(?P<name>[^=,\[\]]+?)\s*=\s*(?P<at>\[[^\[\]]*\]|[^,\[\]]+?)\s*(?:,|$)")
_RANGE = re.compile(r"(-?\d*):(-?\d*)(?::(-?\d*))?")


@dataclass(frozen=True)
class EditPlace:
    """A place as it was written.

    Attributes:
        path: Path of a module, optionally with a part of its call.
        entries: By dim name: an index, a list of indices, a slice, or a label.
        step: Step of a loop or of `generate`, else the number of the call in the block; None means all.
        turn: Number of the call of a looped model's layer in the outermost call; None means all.
    """

    path: str
    entries: Mapping[str, Any] = field(default_factory=dict)
    step: int | None = None
    turn: int | None = None

    @staticmethod
    def of(text: str) -> EditPlace:
        """Parse a place.

        Raises:
            ValueError: If the text is not a place.
        """
        found = _PLACE.fullmatch(text)
        entries: dict[str, Any] = {}
        rest = found["entries"] if found else None
        while found and rest:
            entry = _ENTRY.match(rest)
            if entry is None:
                found = None
                break
            entries[entry["name"]], rest = _index(entry["at"]), rest[entry.end() :]
        step, turn = (entries.pop(name, None) for name in ("step", "turn"))
        if found is None or not all(each is None or isinstance(each, int) for each in (step, turn)):
            raise value_error(
                "edit: this says no place.",
                {"given": repr(text)},
                "A place is the path of a module, what of its call it is, and entries by the names of dims: an index, a range, a list.",
                '"transformer.h.1.attn.weights[head=[0, 3], target=-1]"',
            )
        return EditPlace(found["path"], entries, step, turn)


def _index(text: str) -> Any:
    if text.startswith("["):
        return [_index(part.strip()) for part in text[1:-1].split(",") if part.strip()]
    ends = _RANGE.fullmatch(text)
    if ends is not None:
        return slice(*(int(part) if part else None for part in ends.groups()))
    try:
        return int(text)
    except ValueError:
        return text.strip("'\"")


@dataclass(eq=False)
class ValueEdit:
    """A value that is replaced while a block runs.

    Attributes:
        text: The place as it was written.
        module: The module whose call is edited.
        path: Path of the module.
        part: The part of its call: "" for its result, "input", one of `OF_ATTENTION` or `OF_UNITS`, or the name of one of several
            results.
        entries, step: See `EditPlace`.
        value: The replacement: a number, an array, a Tensor, or a function of the current value.
        when: Tells whether it applies to the current steps; None: always.
        put: For a Module of rfnb, returns the Tensor with the edit if it applies now; for attention weights it also takes the dim
            attended over.
        name: Name of one of several attentions computed in a module's own code.
        done: How often it was applied.
        calls: How many calls of the module have begun.
        turn: See `EditPlace`.
        turns: How many calls of the module have begun in the outermost call that runs.
    """

    text: str
    module: Any
    path: str
    part: str
    entries: Mapping[str, Any]
    step: int | None
    value: Any
    when: Callable[[], bool] | None = None
    put: Callable[[Any, Any], Any] | None = None
    name: str = ""
    done: int = 0
    calls: int = 0
    turn: int | None = None
    turns: int = 0

    @property
    def is_now(self) -> bool:
        """True if it applies to the current step or call."""
        if self.when is not None and not self.when():
            return False
        if self.turn is not None and self.turn != self.turns - 1:
            return False
        if self.step is None:
            return True
        step = trace_context.place.step
        return self.step == (step if step is not None else self.calls - 1)


editing: ContextVar[tuple[ValueEdit, ...]] = ContextVar("rfnb_editing", default=())
"""The edits of all blocks that are open in this context, those of the outermost first."""


_maker: list[str] = []


def edits_by(place: str) -> None:
    """Register the function of an upper layer that makes edits.

    Args:
        place: "module:function": of a model (or a dict of models) and the edits as `rf.edit` takes them.
    """
    _maker[:] = [place]


def edits_for(model: Any, edits: Mapping[str, Any]) -> Sequence[ValueEdit]:
    """The edits of a model, given as for `rf.edit`.

    Raises:
        TypeError, ValueError, KeyError: As for `rf.edit`.
    """
    module, _, function = _maker[0].partition(":")
    made: Sequence[ValueEdit] = getattr(import_module(module), function)(model, edits)
    return made


def edits_of(module: Any) -> Sequence[ValueEdit]:
    """The edits that apply to calls of a module."""
    return [edit for edit in editing.get() if edit.module is module]


def edited_result(module: Any, result: Any) -> Any:
    """The result of a Module of rfnb with its edits applied."""
    for edit in edits_of(module):
        edit.calls += 1
        if edit.put is not None and edit.part != "weights" and not OF_UNITS.fullmatch(edit.part):
            result = edit.put(result, None)
    return result


def weights_edits() -> Sequence[ValueEdit]:
    """The edits of attention weights that the current Module of rfnb computes."""
    return _inside_here(lambda part: part == "weights")


def gates_edits() -> Sequence[ValueEdit]:
    """The edits of gates that the current recurrent unit of rfnb computes."""
    return _inside_here(OF_UNITS.fullmatch)


def _inside_here(wanted: Callable[[str], Any]) -> Sequence[ValueEdit]:
    edits = [edit for edit in editing.get() or () if edit.put is not None and wanted(edit.part)]
    return edits and [edit for edit in edits if is_inside(trace_context.place.module, edit.path)]
