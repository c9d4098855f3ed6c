"""Lines beside the hypotheses in the drawing of a search: the way of the reference, and from what was merged to what has it now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rfnb.viz.beams.tree import Node, Tree
from rfnb.viz.drawing.shapes import Drawing, Lines, Point, Text, curve

_MOST = 400  # lines to what was merged: more would hide the others


@dataclass
class Beside:
    """The name of the steps, the nodes of the reference, and whether it fell after the last."""

    axis: str
    reference: list[Node]
    fell: bool

    def __init__(self, seq: Mapping[str, Any], tree: Tree):
        self.axis = str(seq.get("axis") or "step")
        told = seq.get("reference") or {}
        path, nodes = told.get("path") or [], tree.nodes
        found = [nodes[step][slot] for step, slot in path if step < len(nodes) and slot < len(nodes[step])]
        self.reference, self.fell = [node for node in found if node], "fell" in told

    def draw_reference(
        self, made: Drawing, start: Callable[[Node], Point], end: Callable[[Node], Point], above: float, parts: int
    ) -> None:
        """Draw the way of the reference as a dashed line, and an R at its end; of one that fell at once there is none."""
        if not self.reference:
            return
        made.add(Lines("ink", 1.6, [curve(start(node), end(node), parts) for node in self.reference], (5, 4)))
        x, y = end(self.reference[-1])
        made.add(Text(x, y - above, "R fell here" if self.fell else "R", 9, "warn", bold=True, halo=True))


def joins(
    made: Drawing, tree: Tree, start: Callable[[Node | None], Point], end: Callable[[Node], Point], parts: int
) -> None:
    """Dotted lines from what was merged to what it became a part of."""
    paths = []
    for cuts in tree.cuts:
        for cut in cuts:
            into = None if cut.into is None else tree.nodes[cut.step][cut.into]
            if into:
                paths.append(curve(start(cut.parent), end(into), parts))
    if 0 < len(paths) <= _MOST:
        made.add(Lines("muted", 1.2, paths, (1, 3)))
