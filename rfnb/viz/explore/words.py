"""The texts of an explorer: its values, results and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.trace.trace import Trace
from rfnb.viz.kinds import kind_showing
from rfnb.viz.show import view_of
from rfnb.viz.spec import Spec
from rfnb.viz.view import View
from rfnb.viz.visible_text import safe

_MOST_LINES, _MOST_CHARACTERS = 30, 4000


def values_words(values: Mapping[str, Any]) -> str:
    """Inputs with their values: 'word = "phonetics", beam_size = 5'."""
    return ", ".join(f"{name} = {_value(value)}" for name, value in values.items())


def _value(value: Any) -> str:
    if isinstance(value, str):
        return safe(f'"{value}"')
    if isinstance(value, float):
        return f"{value:g}"
    return repr(value) if isinstance(value, (int, type(None))) else type(value).__name__


def result_spec(result: Any) -> Spec | None:
    """The spec for a result that has a view; None for a result shown as text."""
    if isinstance(result, View):
        return result.spec
    if isinstance(result, (Spec, Trace)) or kind_showing(result):
        return view_of(result).spec
    items = list(result.values()) if isinstance(result, Mapping) else result
    if isinstance(items, (list, tuple)) and items and all(isinstance(each, (Tensor, Dim)) for each in items):
        return view_of(list(result) if isinstance(result, tuple) else result).spec
    return None


def result_words(result: Any) -> str:
    """A result as text: several things on one line each."""
    if result is None:
        return ""
    if isinstance(result, str):
        text = result
    elif isinstance(result, Mapping):
        text = "\n".join(f"{key}: {value}" for key, value in result.items())
    elif isinstance(result, (list, tuple)) and not hasattr(result, "_fields"):
        text = "\n".join(map(str, result))
    else:
        text = str(result)
    return _cut(safe(text))


def error_words(error: BaseException) -> str:
    """An error with its kind, as a traceback ends."""
    text = str(error)
    return _cut(safe(f"{type(error).__name__}: {text}" if text else type(error).__name__))


def _cut(text: str) -> str:
    lines = text.split("\n")
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"… {len(lines) - _MOST_LINES} more lines"]
    text = "\n".join(lines)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
