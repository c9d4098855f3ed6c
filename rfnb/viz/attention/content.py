"""The `attention` view: what is wrong with a spec of it, and its page."""

from __future__ import annotations

from typing import Any

from rfnb.viz.attention.check import remarks, warnings
from rfnb.viz.kinds import drawing_of, none_yet, title_of
from rfnb.viz.markup import findings, picture, title


def problem(spec: Any) -> str | None:
    """The fault of the spec, as a sentence; None if it can be drawn."""
    head = spec.head
    if not isinstance(head.get("maps"), list) or not isinstance(head.get("seqs"), list):
        return "This attention view has no list of maps and of sequences."
    if head.get("fault"):
        return f"{head.get('title', 'Attention')}: {head['fault']}"
    for entry in head["maps"]:
        block = spec.blocks.get(entry.get("block"))
        if block is None or block.ndim != 3:
            return f"Map {entry.get('label')} has no array of sequence, target and source."
        if len(entry["seqs"]) > block.shape[0] or any(not 0 <= seq < len(head["seqs"]) for seq in entry["seqs"]):
            return f"Map {entry.get('label')} names sequences that are not there."
    return None


def missing(spec: Any) -> str:
    """The words for a view with nothing in it; "" for any other."""
    return "" if any(entry["seqs"] for entry in spec.head["maps"]) else none_yet(spec, "weights")


def page(spec: Any) -> list[str]:
    """The weights as HTML."""
    return [title(title_of(spec)), *picture(drawing_of(spec)), *findings(warnings(spec), remarks(spec))]
