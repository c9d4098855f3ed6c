"""Simulate the search with smaller beams: what each would have kept, and where it would have lost the best hypothesis."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.strict_json import JsonObject
from rfnb.trace.smaller_beam import kept_by
from rfnb.viz.beams.text import EMPTY, prefix
from rfnb.viz.beams.tree import BeamTree, TreeNode, nats, rating
from rfnb.viz.visible_text import line

_ALL = 8  # up to this size every size is included, beyond it some
_SOME = (10, 12, 16, 24, 32, 48, 64, 96, 128)
_WORDS = 60  # characters of a text


def sizes_below(width: int) -> list[int]:
    """The beam sizes to report."""
    return [size for size in (*range(1, _ALL + 1), *_SOME) if size < width]


def told(
    history: Any, seq: int, tree: BeamTree, *, length_exponent: float, join: str
) -> tuple[list[JsonObject], list[list[int]]]:
    """The entries of a spec for the smaller beams of one sequence, and for each step and slot which of them contain it.

    Returns:
        The beams, smallest first: `size`; `lost`, the first step without the best hypothesis; `until`, the first step
            in which its content is unknown; `best`, the step and slot of its own best hypothesis; `text`. And masks: bit i
            is the beam with index i.
    """
    sizes = sizes_below(tree.width)
    if not sizes or not tree.nbest:
        return [], []
    kept, until = kept_by(history, seq, sizes)
    kept = kept[: len(tree.nodes)]
    weights = 1 << np.arange(len(sizes))
    masks = [(here * weights[:, None]).sum(0).tolist() for here in kept]
    winner = [*tree.nbest[0].path(), *_places_kept(tree.nbest[0])]
    entries = []
    for index, size in enumerate(sizes):
        entry: JsonObject = {"size": size}
        lost = next((node.step for node in winner if not kept[node.step][index, node.slot]), None)
        best = _best(tree, [here[index] for here in kept], length_exponent)
        if lost is not None:
            entry["lost"] = lost
        if until[index] is not None and until[index] < len(kept):  # type: ignore[operator]
            entry["until"] = until[index]
        if best is not None:
            entry["best"] = [best.step, best.slot]
        entries.append({**entry, "text": _text(entry, tree, best, join)})
    return entries, masks


def _best(tree: BeamTree, inside: list[np.ndarray], length_exponent: float) -> TreeNode | None:
    """The best hypothesis in a smaller beam at its end, or one that left it complete."""
    last = len(tree.nodes) - 1
    nodes = [
        node
        for step, row in enumerate(tree.nodes)
        for node in row
        if node and (step == last or node.left) and inside[step][node.slot]
    ]
    best = max(nodes, key=lambda node: rating(node, length_exponent), default=None)
    while best is not None and best.state == "carried":
        best = best.parent
    return best


def _places_kept(node: TreeNode) -> list[TreeNode]:
    """The slots that a complete hypothesis occupies after its end."""
    after = []
    while (following := next((child for child in node.children if child.state == "carried"), None)) is not None:
        after.append(node := following)
    return after


def _text(entry: JsonObject, tree: BeamTree, best: TreeNode | None, join: str) -> str:
    beam, until, lost = f"A beam of {entry['size']}", entry.get("until"), entry.get("lost")
    unknown = f"from step {until} on it may have kept what this search has cut."
    if lost is None:
        return f"{beam} keeps the best hypothesis" + ("." if until is None else f" as far as is known: {unknown}")
    if until is not None:
        about = " by estimate" if until <= lost else ""
        return f"{beam} loses the best hypothesis in step {lost}{about}: {unknown}"
    text, top = f"{beam} loses the best hypothesis in step {lost}", tree.nbest[0]
    if best is None:
        return f"{text}."
    found = line(prefix(best.path(), join)) or EMPTY
    found = found if len(found) <= _WORDS else "… " + found[-_WORDS:]
    gap = top.score - best.score
    return f"{text} and finds “{found}”, " + (f"{nats(gap)} worse." if gap >= 0 else f"{nats(-gap)} better.")
