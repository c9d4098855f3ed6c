"""Axis names given in a model's jaxtyping annotations, of the parameters of `forward` and of its result.

    def forward(self, x: Float[Tensor, "batch frame 80"], lengths: Int[Tensor, "batch"]) -> Float[Tensor, "batch frame vocab"]: ...

They have lower priority than the user's `dims=`, and higher priority than guesses. Entries that are not names ("80",
"_", "n-1", "*rest") do not affect their axis.
"""

from __future__ import annotations

import functools
import sys
import types
import typing
from collections.abc import Sequence
from typing import Any

import torch

from rfnb.core.axis_names import annotated
from rfnb.core.dim import Dim
from rfnb.core.errors import message
from rfnb.core.place import warn_user
from rfnb.interop.seen.calls import Call
from rfnb.interop.seen.user_axis_names import OUTPUT, fits


def is_of_library(file: str) -> bool:
    """Whether a Python module belongs to torch or transformers rather than to a user."""
    return file.startswith(("torch.", "transformers"))


def is_annotated(kind: Any) -> bool:
    """Whether the `forward` of a class of modules has annotations of jaxtyping."""
    return "jaxtyping" in sys.modules and not is_of_library(kind.__module__) and bool(annotations_of(kind.forward))


def say_annotated(
    call: Call, tensors: Sequence[tuple[str, torch.Tensor]], known: Any, *, returned: bool = False
) -> None:
    """Name the axes of inputs, or of the result, by the annotations of the module.

    Args:
        known: Returns the dims that a tensor has without annotations.
    """
    all_of = annotations_of(type(call.module).forward)
    for name, raw in tensors:
        patterns = all_of.get(".".join(filter(None, [OUTPUT, name])) if returned else name)
        if patterns is None:
            continue
        entries = next((each for each in patterns if fits(each, raw.ndim)), None)
        if entries is None:
            _say_unfit(call, f"result of {type(call.module).__name__}" if returned else name, raw)
            continue
        words = words_for(entries, raw.ndim)
        same: dict[tuple[str, int], Dim] = call.seen.setdefault(
            "annotated", {}
        )  # a word denotes the same dim throughout a call
        said: list[str | Dim] = []
        for word, dim in zip(words, known(name, raw)):
            open_to_words = word is not None and (dim.guessed or (returned and dim.name == "feature"))
            said.append(same.get((word, dim.extent), word) if open_to_words else dim)
        call.names.say(raw, said, call)
        for word, dim in zip(words, call.names.of(raw) or ()):
            same.setdefault((word, dim.extent), dim)


def words_for(entries: Sequence[Any], count: int) -> list[Any]:
    """A name or None for each axis, from a pattern of this length."""
    at = entries.index(...) if ... in entries else count
    more = [(None,)] * (count - len(entries) + (... in entries))
    return [each[0] for each in [*entries[:at], *more, *entries[at + 1 :]]]


@functools.cache
def annotations_of(function: Any) -> dict[str, list[Any]]:
    """The possible patterns of each parameter of a function, by its name; "output" for the result, or "output.0" for one of several."""
    if not getattr(function, "__annotations__", None):
        return {}
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # a name that exists for type checkers only
        hints = function.__annotations__
    found: dict[str, list[Any]] = {}
    for name, hint in hints.items():
        parts = typing.get_args(hint) if typing.get_origin(hint) is tuple else ()
        own = [(name, hint)] if name != "return" else [(OUTPUT, hint)]
        if name == "return" and parts and ... not in parts:
            own = [(f"{OUTPUT}.{place}", part) for place, part in enumerate(parts)]
        found |= {path: patterns for path, each in own if (patterns := _patterns(each))}
    return found


def _patterns(hint: Any) -> list[Any]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [pattern for each in typing.get_args(hint) for pattern in _patterns(each)]
    pattern = annotated(hint)
    return [] if pattern is None else [pattern]


def _say_unfit(call: Call, name: str, raw: torch.Tensor) -> None:
    key = f"annotation of {name} in {type(call.module).__name__}"
    if key not in call.names.said:
        call.names.said.add(key)
        warn_user(
            message(
                "record: an annotation does not fit its tensor and is ignored.",
                [("module", f"{call.path or 'the model'}, a {type(call.module).__name__}"), (name, tuple(raw.shape))],
                "A jaxtyping annotation has one word per axis. You can also pass the names to the recording:",
                f'rf.record(model=model, dims={{"{call.path}": ["batch", "time", "feature"]}})',
            )
        )
