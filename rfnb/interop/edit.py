"""edit: replace values inside a model while a block runs.

    with rf.edit(gpt, {"h.1.attn.weights[head=3]": 0}):         # ablate a head
        gpt(ids)
    with rf.edit(gpt, {"h.1[time=4]": clean}):                  # patch in a hidden state from a recording
        gpt(ids)
    with rf.edit(gpt, {"h.1": lambda h: h + 4 * direction}):    # steer a layer
        gpt.generate(ids)

The model is called as usual, a recording inside shows the effect, and afterwards the model is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from rfnb.core.block import Among, all_of, block
from rfnb.core.errors import index_error, message, missing_key_error, nearest, type_error, value_error
from rfnb.core.place import warn_user
from rfnb.core.tensor import Tensor
from rfnb.interop.edit_tensors import PatchValue, put
from rfnb.trace.attach import AttachOptions, attached
from rfnb.trace.editing import OF_ATTENTION, EditPlace, ValueEdit, editing
from rfnb.trace.lookup import PathError
from rfnb.trace.match import is_end_of
from rfnb.trace.probe import listen
from rfnb.trace.record import models_of
from rfnb.trace.trace import Trace


@block
def edit(model: Any, edits: Mapping[str, Any], *, dims: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Replace values that a model computes, while a with-block runs.

    A place is the path of a module as in a trace, or a unique suffix of it: the output of the module. A name after it
    selects something else: `.input`, one of several results by name or number (`.logits`, `.0`); for an attention
    `.weights` {batch, head, target, source}, `.queries` {..., target, feature}, `.keys` and `.values` {..., source,
    feature}, and `.heads` {..., target, feature}, the output of each head; for a step of a recurrent unit of rfnb its
    gates (`.forget_gate`). Brackets select entries by the names of dims, one step, or one `turn` of a layer of a looped
    model.

    Args:
        model: A Module of rfnb or of torch (also of transformers), or a dict of these by the prefix of their paths.
        edits: The new value by place: a number, an array or Tensor that has the shape of the entries or broadcasts
            against it; a function from the old value to one of these; a Trace, whose value at the same path, step and
            entries is used, from a recording with `values=True` (layers of transformers and attention weights are always
            recorded); or a pair of a Trace and a place in it. Values are used unchanged: a row of weights is not
            renormalised.
        dims: Names for the axes of inputs and outputs of torch modules, as in `rf.record`.

    Raises:
        MissingKeyError: If the model has no such module, or several match.
        ValueError: If a place does not exist, a recording lacks it, or it is in a module that does not run its own
            Python code (compiled, scripted, quantised). In the block: if a call does not have it.
        DimError, IndexError, ShapeError: In the block: if the entries do not exist, or the value does not fit them.

    Source: the interventions are those of activation patching (Vig et al. 2020; Meng et al. 2022, section 2) and of steering along a
    direction (Turner et al. 2023).
    """
    with edited(model, edits, AttachOptions(lambda kind: True, dims or {})):
        yield


@block
def edited(model: Any, edits: Mapping[str, Any], options: AttachOptions) -> Iterator[None]:
    """The same, with options of the recording that it is."""
    names, others = models_of(model, "edit")
    made = edits_for(model, edits)
    with listen(_deaf, names, options.wants), all_of([Among(editing, each) for each in made]):
        if others:
            with attached(others, options):
                yield
        else:
            yield
    never = [each.text for each in made if not each.done]
    if never:
        warn_user(
            message(
                "edit: nothing was edited at some of the places.",
                {"places": ", ".join(never)},
                "A module that is not called in the block (or not in that step) computes no value that could be replaced.",
            )
        )


def edits_for(model: Any, edits: Mapping[str, Any]) -> list[ValueEdit]:
    """The edits of a model; arguments and errors as in `edit`."""
    names, others = models_of(model, "edit")
    modules = {path: module for module, path in names.values()}
    found = [made for text, value in _items(edits) for made in _all_made(text, value, modules)]
    if others:
        from rfnb.interop.seen.edit_checks import check_editable

        for each in found:
            check_editable("edit", modules, each.path, each.part)
    return found


def _deaf(kind: str, place: Any, values: Any) -> None:
    """A listener that ignores everything; without a listener, modules do not track their path."""


def _items(edits: Any) -> list[tuple[str, Any]]:
    if not isinstance(edits, Mapping) or not edits or not all(isinstance(key, str) for key in edits):
        raise type_error(
            "edit: no places are given.",
            {"given": repr(edits)[:60]},
            "Give values by their places, as text:",
            'with rf.edit(model, {"h.1.attn.weights[head=3]": 0}): model(x)',
        )
    return list(edits.items())


def _all_made(text: str, value: Any, modules: Mapping[str, Any]) -> list[ValueEdit]:
    """The edits for a place: one; or one per head if each head is a module in a list, since a recording has these as one map."""
    place = EditPlace.of(text)
    path = _list_of_heads(place.path, modules)
    if path is None:
        return [_made(text, value, modules)]
    count = sum(each.rpartition(".")[0] == path and each.rpartition(".")[2].isdigit() for each in modules)
    entries = dict(place.entries)
    at = entries.pop("head", slice(None))
    chosen = list(range(count))[at] if isinstance(at, slice) else at if isinstance(at, list) else [at]
    if not all(isinstance(each, int) and -count <= each < count for each in chosen):
        raise index_error(
            f'edit: "{text}": index out of range.',
            {"given": f"head={at}", "heads": f"{path}.0 to {path}.{count - 1}"},
            f"Entries are 0 to {count - 1}; -1 is the last one.",
        )
    if not (callable(value) or np.ndim(value) == 0 or len(chosen) == 1) or isinstance(value, (Trace, tuple)):
        raise value_error(
            f'edit: "{text}" belongs to several modules.',
            {"modules": ", ".join(f"{path}.{each % count}" for each in chosen), "given": type(value).__name__},
            "Each head is a module of its own here: a number or a function goes to all of them, other values to each one by its path.",
            f'{{"{path}.0.weights": ...}}',
        )
    made = []
    for each in chosen:
        own = _made(f"{path}.{each % count}.weights", value, modules)
        own.text, own.entries, own.step, own.turn = text, entries, place.step, place.turn
        made.append(own)
    return made


def _list_of_heads(path: str, modules: Mapping[str, Any]) -> str | None:
    """The path of a list of modules whose weights are meant."""
    head, _, last = path.rpartition(".")
    found = [each for each in modules if each == head or (head and is_end_of(head, each))] if last == "weights" else []
    return found[0] if len(found) == 1 and not _is_called(modules[found[0]]) else None


def _made(text: str, value: Any, modules: Mapping[str, Any]) -> ValueEdit:
    place = EditPlace.of(text)
    path, part = _found(text, place.path, modules)
    name, _, last = part.rpartition(".")
    found = ValueEdit(text, modules[path], path, last if last == "weights" else part, place.entries, place.step, value)
    if name and last == "weights":  # one of several attentions, named by its variable
        found.name = name
    found.turn = place.turn
    if hasattr(found.module, "module_path"):
        found.put = partial(put, found)
        if place.turn is not None:  # loops of rfnb have steps
            found.turn, found.entries = None, {**found.entries, "turn": place.turn}
    source = value if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], Trace) else (value, None)
    if isinstance(source[0], Trace):
        found.value = _recorded(found, *source)
    return found


def _found(text: str, path: str, modules: Mapping[str, Any]) -> tuple[str, str]:
    """The path of the module, and the part of its call."""
    several: list[str] = []
    parts = path.split(".") if path else []
    for count in range(len(parts), -1, -1):
        name = ".".join(parts[:count])
        found = [name] if name in modules else [each for each in modules if name and is_end_of(name, each)]
        several = several or (found if len(found) > 1 else [])
        if len(found) == 1 and count < len(parts) and not _is_called(modules[found[0]]):
            break
        # For the whole model, only named parts.
        if len(found) == 1 and not several and (count or len(parts) < 2 or (len(parts) == 2 and parts[1] == "weights")):
            return found[0], ".".join(parts[count:])
    known = [each for each in modules if each]
    raise missing_key_error(
        f'edit: {"several modules end in" if several else "no module"} "{path}".',
        {"modules": ", ".join(several or known[:12]) + (", ..." if not several and len(known) > 12 else "")},
        "A place begins with the path of a module, or a unique end of it.",
        f'with rf.edit(model, {{"{nearest(path, several or known)}": ...}}): model(x)',
    )


def _is_called(module: Any) -> bool:
    """Whether a module computes anything, rather than only containing modules."""
    return getattr(getattr(type(module), "forward", None), "__name__", "") != "_forward_unimplemented"


def _recorded(to: ValueEdit, trace: Trace, place: Any) -> Any:
    """The recorded value for an edit; the entries are selected when it is applied."""
    own = EditPlace.of(place) if place is not None else EditPlace(to.path, to.entries, to.step)
    if place is None:
        path, part = ".".join(filter(None, [to.path, to.name])), to.part
    else:
        ends = own.path.rpartition(".")
        path, part = (ends[0], ends[2]) if ends[2] == to.part and to.part else (own.path, to.part)
    value = _value_in(trace, path, part, own.step)
    if value is None:
        raise value_error(
            f'edit: "{to.text}" is not in this recording.',
            {"wanted": f"{part or 'what is returned'} at {path or 'the model'}" + ("" if own.step is None else f", step {own.step}"),
             "recorded": f"{trace.model or 'no model'}, {len(trace.events)} events"},
            "The recording needs a run of the same model with the values of its modules; of an attention it has the weights.",
            "with rf.record(model=model, values=True) as trace: model(x)",
        )  # fmt: skip
    there = ValueEdit(place or to.text, None, path, part, own.entries, own.step, None)
    return PatchValue(value, path or "the model", None if place is None else there)


def _value_in(trace: Trace, path: str, part: str, step: int | None) -> Tensor | None:
    """The value at a path in a recording, from its last call or that of a step; None if it is missing."""
    try:
        if part == "weights":
            weights = trace.attention[path] if step is None else trace.attention.steps(path)[step]
            return weights
        if part in OF_ATTENTION or part == "input":
            return None
        calls = trace.modules[path] if path in trace.modules or path else []
    except (PathError, IndexError):
        calls = []
    calls = [call for call in calls if step is None or call.step == step] or calls[
        step : step + 1 if step is not None else None
    ]
    for call in reversed(calls):
        for name, tensor in call.values["outputs"]:
            if (not part or name == part) and tensor.raw_tensor is not None:
                return tensor
    try:
        if not part and step is None:
            return trace.states[path]["hidden"]
        return trace.states.steps(path, "hidden")[step] if not part and step is not None else None
    except (PathError, KeyError, IndexError):
        return None
