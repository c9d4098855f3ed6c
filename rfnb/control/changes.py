"""Changes of a run, with descriptions: `run.changes`, and the text at each branch of a tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.core.tree import map_plain
from rfnb.trace.host_copies import values_of

_FEW = 4  # values or places that are named one by one


def by(name: str, words: str) -> str:
    """The description of a change made by a user's function."""
    return words if name == YOURS else f"{words} (by {name})"


YOURS = "your function"


def name_of(fn: Any) -> str:
    """The name of a given function, if it has one."""
    name = str(getattr(fn, "__name__", type(fn).__name__))
    return YOURS if name == "<lambda>" else name


def entries_words(name: str, entries: Any, kind: str = "state") -> str:
    """The description of entries of a state: "state h (batch 0, feat 3 to 4)"."""
    if not isinstance(entries, Mapping) or not entries:
        return f"{kind} {name}"
    places = [f"{_key_words(key)} {_place_words(at)}" for key, at in entries.items()]
    return f"{kind} {name} ({', '.join(places)})"


def _key_words(key: Any) -> str:
    return str(key.name if isinstance(key, Dim) else key[0] if isinstance(key, tuple) else key)


def _place_words(at: Any) -> str:
    if isinstance(at, slice):
        if at == slice(None):
            return "all"
        start = "" if at.start is None else f"from {at.start} "
        stop = "" if at.stop is None else f"to before {at.stop} "
        return f"{start}{stop}{f'by {at.step}' if at.step not in (None, 1) else ''}".strip()
    if isinstance(at, (list, tuple, np.ndarray)):
        return _few(np.asarray(at)) or f"{len(at)} of them"
    return str(at)


def value_words(value: Any) -> str:
    """The description of a new value: a number, a few numbers, or its type."""
    if isinstance(value, Tensor):
        return f"a tensor {shape_of(value)}"
    array = values_of(value)
    return _few(array) or f"an array {array.shape}"


def _few(array: np.ndarray) -> str:
    """Up to four numbers, listed; "" for more."""
    if array.ndim > 1 or array.size > _FEW or not array.size:
        return ""
    return ", ".join(number_words(item) for item in array.reshape(-1).tolist())


def as_given(value: Any) -> Any:
    """A copy of the value. A change is repeated in later steps and in branches, while the caller may modify the original."""
    return map_plain(_copied, value)


def _copied(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    if hasattr(value, "detach") and not isinstance(value, Tensor):  # of torch
        return value.detach().clone()
    return value


def number_words(number: Any) -> str:
    """A number without the ".0" of integers."""
    text = repr(number)
    return text[:-2] if isinstance(number, float) and text.endswith(".0") else text
