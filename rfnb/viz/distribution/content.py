"""The `distribution` view: what is wrong with a spec of it, and its page."""

from __future__ import annotations

from typing import Any

from rfnb.viz.distribution.words import warnings
from rfnb.viz.kinds import drawing_of, none_yet, title_of
from rfnb.viz.markup import findings, picture, title

_BLOCKS = {"top": 3, "top_log_probs": 3, "rest": 2, "entropy": 2}
_OF_REFERENCE = {"reference": 2, "log_prob": 2, "rank": 2}


def problem(spec: Any) -> str | None:
    """The fault of the spec, as a sentence; None if it can be drawn."""
    head = spec.head
    if not isinstance(head.get("seqs"), list) or not isinstance(head.get("tokens"), dict):
        return "This distribution has no list of sequences, or no labels."
    needed = {**_BLOCKS, **(_OF_REFERENCE if head.get("reference") else {})}
    first = spec.blocks.get("top")
    for name, count in needed.items():
        block = spec.blocks.get(name)
        if block is None or block.ndim != count:
            return f"This distribution has no array {name} of sequence, step{' and label' if count == 3 else ''}."
        if first is not None and (block.shape[:2] != first.shape[:2] or block.shape[0] < len(head["seqs"])):
            return f"This distribution has {name} of {block.shape[0]} sequences and {block.shape[1]} steps, which does not fit."
    return None


def missing(spec: Any) -> str:
    """The words for a view with nothing in it; "" for any other."""
    return "" if spec.head["seqs"] else none_yet(spec, "steps")


def page(spec: Any) -> list[str]:
    """The outputs as HTML."""
    return [title(title_of(spec)), *picture(drawing_of(spec)), *findings(warnings(spec))]
