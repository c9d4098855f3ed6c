"""The `states` view: what is wrong with a spec of it, and its page."""

from __future__ import annotations

from typing import Any

from rfnb.viz.kinds import drawing_of, none_yet, title_of
from rfnb.viz.markup import findings, picture, title
from rfnb.viz.states.check import warnings


def problem(spec: Any) -> str | None:
    """The fault of the spec, as a sentence; None if it can be drawn."""
    head = spec.head
    if not isinstance(head.get("tracks"), list) or not isinstance(head.get("seqs"), list):
        return "This states view has no list of tracks and of sequences."
    for track in head["tracks"]:
        block = spec.blocks.get(track.get("block"))
        if block is None or block.ndim != 3:
            return f"Track {track.get('label')} has no array of sequence, step and unit."
        if block.shape[0] < len(head["seqs"]):
            return f"Track {track.get('label')} has {block.shape[0]} sequences, not {len(head['seqs'])}."
    return None


def missing(spec: Any) -> str:
    """The words for a view with nothing in it; "" for any other."""
    return "" if spec.head["tracks"] and spec.head["seqs"] else none_yet(spec, "states")


def page(spec: Any) -> list[str]:
    """The states as HTML."""
    return [title(title_of(spec)), *picture(drawing_of(spec)), *findings(warnings(spec))]
