"""Lines over the hypotheses in the drawing of a search: the path of the reference, links from merged hypotheses to their
survivors, and the point where two searches diverge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rfnb.viz.beams.tree import Arms, BeamTree, TreeNode
from rfnb.viz.drawing import labels
from rfnb.viz.drawing.shapes import Drawing, Lines, Point, Text, curve
from rfnb.viz.visible_text import line

BETWEEN = 40.0  # space between two searches in one picture, for their names
_MOST = 400  # links to merged hypotheses: more would hide the others


@dataclass
class OverlayLines:
    """The name of the steps, the nodes of the reference, and whether it was pruned after the last."""

    axis: str
    reference: list[TreeNode]
    fell: bool

    def __init__(self, seq: Mapping[str, Any], tree: BeamTree):
        self.axis = str(seq.get("axis") or "step")
        told = seq.get("reference") or {}
        path, nodes = told.get("path") or [], tree.nodes
        found = [nodes[step][slot] for step, slot in path if step < len(nodes) and slot < len(nodes[step])]
        self.reference, self.fell = [node for node in found if node], "fell" in told

    def draw_reference(
        self,
        made: Drawing,
        start: Callable[[TreeNode], Point],
        end: Callable[[TreeNode], Point],
        above: float,
        parts: int,
    ) -> None:
        """Draw the path of the reference as a dashed line, and "ref" at its end; nothing if it was pruned in the first step."""
        if not self.reference:
            return
        made.add(Lines("ink", 1.6, [curve(start(node), end(node), parts) for node in self.reference], (5, 4)))
        x, y = end(self.reference[-1])
        made.add(Text(x, y - above, "ref until here" if self.fell else "ref", 9, "warn", bold=True, halo=True))


def draw_arms(made: Drawing, arms: Arms, x: float, ys: Sequence[float], half: float) -> None:
    """Draw where two searches diverge: a line across the steps, and one between A and B with their names."""
    if arms.split >= len(ys):
        return
    middle = ys[arms.split - 1] + half + BETWEEN / 2
    made.add(
        Lines("muted", 1.0, [[(x, ys[0] - half), (x, ys[-1] + half)], [(x, middle), (made.width, middle)]], (2, 3))
    )
    room = max(60.0, made.width - x - 4)
    for tag, name, y in (("A", arms.names[0], middle - 8), ("B", arms.names[1], middle + 9)):
        text = labels.fitted(f"{tag}: {line(name)}", room, 11, bold=True)
        made.add(Text(made.width - 2, y, text, 11, "ink", "right", bold=True, halo=True))


def joins(
    made: Drawing,
    tree: BeamTree,
    start: Callable[[TreeNode | None], Point],
    end: Callable[[TreeNode], Point],
    parts: int,
) -> None:
    """Dotted lines from merged hypotheses to those that they were merged into."""
    paths = []
    for cuts in tree.cuts:
        for cut in cuts:
            into = None if cut.into is None else tree.nodes[cut.step][cut.into]
            if into:
                paths.append(curve(start(cut.parent), end(into), parts))
    if 0 < len(paths) <= _MOST:
        made.add(Lines("muted", 1.2, paths, (1, 3)))
