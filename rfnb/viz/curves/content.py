"""The `curves` view: what is wrong with a spec of it, and its page."""

from __future__ import annotations

from typing import Any

from rfnb.viz.kinds import drawing_of, none_yet, title_of
from rfnb.viz.markup import picture, title


def problem(spec: Any) -> str | None:
    """The fault of the spec, as a sentence; None if it can be drawn."""
    series = spec.head.get("series")
    if not isinstance(series, list):
        return "These curves cannot be drawn: the list of series is missing."
    for number_, entry in enumerate(series):
        if not isinstance(entry, dict):
            return f"These curves cannot be drawn: series {number_} is no entry with a label, x and y."
        label = entry.get("label", number_)
        x, y = (spec.blocks.get(entry.get(name)) for name in ("x", "y"))
        if x is None or y is None:
            return f"These curves cannot be drawn: series {label} has no array of {'x' if x is None else 'y'}."
        if x.ndim != 1 or x.shape != y.shape:
            return f"These curves cannot be drawn: series {label} has {x.size} x and {y.size} y."
    return None


def missing(spec: Any) -> str:
    """The words for a view with nothing in it; "" for any other."""
    return "" if any(len(spec.blocks[entry["x"]]) for entry in spec.head["series"]) else none_yet(spec, "points")


def page(spec: Any) -> list[str]:
    """The curves as HTML."""
    return [title(title_of(spec)), *picture(drawing_of(spec))]
