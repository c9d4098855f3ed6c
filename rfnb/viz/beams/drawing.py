"""The `beams` view as a drawing: x = step, y = slot; the winner's path is thick, dead branches are faint, complete
hypotheses are square. The reference is dashed, and ends where it was pruned; a dotted line links a merged hypothesis to
its survivor; a hollow node adds no label.

Small searches have tokens in boxes; larger ones are dots with the winner's tokens above; if a step has too little room
for its edges, each slot of the beam is a cell. The amount drawn is bounded by the size of the picture, not of the
search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rfnb.core.strict_json import JsonObject
from rfnb.viz.beams.overlay_lines import BETWEEN, OverlayLines, draw_arms, joins
from rfnb.viz.beams.text import EMPTY, apart, circles, of_smaller, prefix
from rfnb.viz.beams.tree import BeamTree, Cut, TreeNode, grown
from rfnb.viz.drawing import fonts, labels
from rfnb.viz.drawing.labels import sentence
from rfnb.viz.drawing.shapes import Cells, Drawing, Lines, Marks, Point, Rect, Text, curve, paths_of
from rfnb.viz.visible_text import line

MOST_SEQS = 4
_AXIS, _MARGIN = 20.0, 34.0
_PILL, _LANE, _STUB, _GAP, _GAP_MOST = 11.0, 44.0, 14.0, 16.0, 44.0
_NAMED, _SMALL = 17.0, 9.0  # minimal height of a lane whose dots have names, and their font size
_LONGEST, _MOST_LANES, _STUBS, _WORDS = 14, 12, 2, 400
_MOST_FAINT = 400  # lines to dead hypotheses: more would hide the others
_OVERVIEW, _DOTS, _PITCH = (
    300.0,
    3000,
    6.0,
)  # height of a large search, maximal number of dots, minimal width of a step with edges
_SHARES = {"carried": 0.1, "dead": 0.3, "dropped": 0.3, "alive": 0.7, "ended": 1.0}


def drawing(spec: Any, width: float) -> Drawing:
    """The searches of the first sequences as a drawing with this width."""
    head = spec.head
    seqs = head["seqs"][:MOST_SEQS]
    made = Drawing(width, 0)
    right = 0.0
    for seq in seqs:
        if len(head["seqs"]) > 1:
            labels.heading(made, str(seq.get("label", "")))
        tree = grown(head, seq)
        one = of_tree(tree, width, seq) if tree.nodes else sentence("nothing yet", width)
        made.alt += description(head, seq, tree) + " "
        made.put(one, 0, made.height)
        made.notes += one.notes
        made.notes += filter(None, [circles(tree.nbest[0].path(), head.get("join", " "))] if tree.nbest else [])
        made.height += one.height + 12
        right = max(right, one.width)
    made.width = min(width, right)
    made.shows(len(seqs), len(head["seqs"]), "sequences")
    return made


def of_tree(tree: BeamTree, width: float, seq: Mapping[str, Any]) -> Drawing:
    """One search as a drawing with at most this width; `seq` is its sequence in the spec."""
    made = _of_tree(tree, width, OverlayLines(seq, tree))
    reference = seq.get("reference")
    if reference:
        made.notes.append(f"ref, dashed: the reference. {line(str(reference['text']))}")
    made.notes += of_smaller(seq)
    return made


def _of_tree(tree: BeamTree, width: float, beside: OverlayLines) -> Drawing:
    lanes = max(1, max(len(row) for row in tree.nodes))
    if lanes <= _MOST_LANES and len(tree.nodes) * (26 + _GAP) + 2 * _MARGIN <= width:
        boxes = _Boxes(tree, lanes, beside)
        if boxes.least <= width:
            made = boxes.draw(width)
            most = max((sum(cut.into is None for cut in cuts) for cuts in tree.cuts), default=0)
            if most > _STUBS:
                made.notes.append(f"Of each step the best {_STUBS} of up to {most} candidates that were cut are drawn")
            return made
    pitch = min(26.0, (width - 2 * _MARGIN) / len(tree.nodes))
    draw = _dots if pitch >= _PITCH and len(tree.nodes) * lanes <= _DOTS else _cells
    made = draw(tree, lanes, pitch, width, beside)
    cut = sum(map(len, tree.cuts))
    if cut:
        made.notes.append(f"{cut} candidates that were cut are not drawn")
    return made


def description(head: JsonObject, seq: JsonObject, tree: BeamTree) -> str:
    """A description of the picture."""
    name = labels.short(seq.get("label", "sequence"), 60)
    words = f"Beam search over {len(tree.nodes)} steps with up to {tree.width} hypotheses, {name}."
    if tree.arms:
        words += f" Two searches in one. {apart(tree.arms)}."
    if tree.nbest:
        top = tree.nbest[0]
        text = line(prefix(top.path(), head.get("join", " "))[:_WORDS])
        words += f" Best: {text or EMPTY}, score {top.score:.3f}."
    complete = sum(node.state == "ended" for node in tree.nbest)
    cut = sum(map(len, tree.cuts))
    return f"{words} {complete} complete, {len(tree.nbest) - complete} open at the end, {cut} cut candidates stored."


class _Boxes:
    """Tokens in boxes, with the best cut candidates below them."""

    def __init__(self, tree: BeamTree, lanes: int, beside: OverlayLines):
        self.beside = beside
        self.tree, self.best, self.ranks = (
            tree,
            tree.won,
            {id(node): rank for rank, node in enumerate(tree.nbest, 1)},
        )
        self.labels = [[labels.short(node.token, _LONGEST) if node else "" for node in row] for row in tree.nodes]
        self.cuts = [[cut for cut in cuts if cut.into is None][:_STUBS] for cuts in tree.cuts]
        self.widths = [max([26.0, *(fonts.width(text, 12) + 18 for text in row if text)]) for row in self.labels]
        stubs = [[" ".join(filter(None, [cut.arm, labels.short(cut.token, 10)])) for cut in cuts] for cuts in self.cuts]
        self.stubs = stubs
        for step, texts in enumerate(stubs):  # a step is as wide as the stubs below it
            self.widths[step] = max([self.widths[step], *(fonts.width(text, 10) + 20 for text in texts)])
        self.least = 2 * _MARGIN + sum(self.widths) + len(self.widths) * _GAP
        self.under = [0] * lanes  # maximal number of stubs below each lane
        for cuts in self.cuts:
            here = [0] * lanes
            for cut in cuts:
                here[_slot(cut)] += 1
            self.under = [max(a, b) for a, b in zip(self.under, here)]

    def draw(self, width: float) -> Drawing:
        steps = len(self.widths)
        gap = min(_GAP_MOST, (width - 2 * _MARGIN - sum(self.widths)) / steps)
        self.x: list[float] = []
        at = _MARGIN
        for own in self.widths:
            at += gap
            self.x.append(at + own / 2)
            at += own
        self.y: list[float] = []
        down = _AXIS + _PILL + 8
        for stubs in self.under:
            self.y.append(down)
            down += _LANE + stubs * _STUB
            if self.tree.arms and len(self.y) == self.tree.arms.split:
                down += BETWEEN
        self.root = (_MARGIN - 10, self.y[0])
        made = Drawing(at + _MARGIN / 2, down - _LANE + _PILL + 22)
        _axis(made, self.x, self.y, self.beside.axis, self.tree)
        if self.tree.arms:
            at = self.tree.arms.at
            draw_arms(made, self.tree.arms, self.x[at] - self.widths[at] / 2 - gap / 2, self.y, _LANE / 2)
        nodes = [node for row in self.tree.nodes for node in row if node]
        _edges(made, nodes, self.best, self._start, self._end, 5.0)
        joins(made, self.tree, self._after, self._end, 10)
        self._draw_stubs(made)
        made.add(Marks("muted", [self.root], 3.5))
        self.beside.draw_reference(made, self._start, self._end, _PILL + 5, 10)
        for node in nodes:
            self._pill(made, node)
        return made

    def _end(self, node: TreeNode) -> Point:
        return (self.x[node.step] - self._half(node), self.y[node.slot])

    def _after(self, node: TreeNode | None) -> Point:
        return (self.x[node.step] + self._half(node), self.y[node.slot]) if node else self.root

    def _half(self, node: TreeNode) -> float:
        if node.state == "carried":
            return 4.0
        if not node.written:
            return 6.0
        return max(26.0, fonts.width(self.labels[node.step][node.slot], 12) + 18) / 2

    def _start(self, node: TreeNode) -> Point:
        return self._after(node.parent)

    def _draw_stubs(self, made: Drawing) -> None:
        for step, cuts in enumerate(self.cuts):
            here: dict[int, int] = {}
            for cut, text in zip(cuts, self.stubs[step]):
                lane = _slot(cut)
                order = here[lane] = here.get(lane, -1) + 1
                start = self._after(cut.parent)
                left, y = self.x[step] - self.widths[step] / 2, self.y[lane] + _PILL + 22 + order * _STUB
                made.add(Lines("faint", 0.9, [curve(start, (left, y))], dash=(3, 3)))
                made.add(Marks("muted", [(left + 5, y)], 3.0, "cross"), Text(left + 12, y, text, 10, "muted"))

    def _pill(self, made: Drawing, node: TreeNode) -> None:
        x, y, half = self.x[node.step], self.y[node.slot], self._half(node)
        if node.state == "carried":
            made.add(Marks("muted", [(x, y)], 3.0, "ring"))
            return
        won, faint = (node.step, node.slot) in self.best, node.state in ("dead", "dropped")
        complete = node.state in ("ended", "dropped")
        frame = "accent" if won else "faint" if faint else "muted"
        tall = _PILL if node.written else half  # without a new label it is a small hollow node
        if complete:  # a second frame marks a complete one
            made.add(Rect(x - half - 3, y - tall - 3, 2 * half + 6, 2 * tall + 6, "paper", frame, 1.1, 4))
        radius = 2 if complete else tall
        fill = "accent" if won and node.written else "paper"
        made.add(
            Rect(x - half, y - tall, 2 * half, 2 * tall, fill, frame, 2 if won and not node.written else 1.1, radius)
        )
        color = "on-accent" if won else "muted" if faint else "ink"
        if node.written:
            made.add(Text(x, y, self.labels[node.step][node.slot], 12, color, "middle", bold=won))
        made.add(Text(x, y + _PILL + (12 if complete else 8), _score(node.score), 9.5, "muted", "middle", halo=True))
        rank = self.ranks.get(id(node))
        if complete and rank is not None:
            at = (x + half + 3, y - _PILL - 3)
            made.add(Marks("ink", [at], 7.5, "dot" if won else "ring"))
            made.add(Text(*at, str(rank), 9, "paper" if won else "ink", "middle", bold=True))


def _slot(cut: Cut) -> int:
    return cut.parent.slot if cut.parent else 0


def _score(score: float) -> str:
    return f"{score:.2f}".replace("-", "−")


def _edges(
    made: Drawing,
    nodes: list[TreeNode],
    best: set[tuple[int, int]],
    start: Callable[[TreeNode], Point],
    end: Callable[[TreeNode], Point],
    strong: float,
) -> None:
    """The lines from parents, one shape per style, the winner's on top."""
    paths: dict[str, list[list[Point]]] = {name: [] for name in ("faint", "carried", "live", "won")}
    styles = (
        Lines("faint", 0.8 if strong > 3 else 0.6, paths["faint"], alpha=0.8),
        Lines("muted", 0.8, paths["carried"], (1, 3)),
        Lines("muted", 1.2 if strong > 3 else 0.8, paths["live"]),
        Lines("accent", strong, paths["won"]),
    )
    for node in nodes:
        won, faint = (node.step, node.slot) in best, node.state in ("dead", "dropped")
        name = "won" if won else "carried" if node.state == "carried" else "faint" if faint else "live"
        paths[name].append(curve(start(node), end(node), 10 if strong > 3 else 6))
    for style in styles:
        if style.color == "faint" and len(style.paths) > _MOST_FAINT:
            made.notes.append(f"{len(style.paths)} lines to hypotheses that died out are not drawn")
        elif style.paths:
            made.add(style)


def _frame(
    tree: BeamTree, lanes: int, pitch: float, width: float, axis_name: str
) -> tuple[Drawing, list[float], list[float], float]:
    """An overview with its axes: the drawing, the x of steps, the y of slots, the height of a slot."""
    lane = min(22.0, max(3.0, _OVERVIEW / lanes))
    xs = [_MARGIN + (step + 0.5) * pitch for step in range(len(tree.nodes))]
    arms = tree.arms
    axis = _words(tree, tree.best, pitch)
    other = _words(tree, [place for place in arms.best if place[0] >= arms.at], pitch) if arms else labels.AxisLabels()
    top = _AXIS + axis.room + (4 if axis.at else 0)
    between = BETWEEN + other.room if arms else 0.0
    ys = [top + 4 + (slot + 0.5) * lane + (between if arms and slot >= arms.split else 0) for slot in range(lanes)]
    right = xs[-1] + pitch / 2 + max(axis.beside, other.beside, _MARGIN / 3)
    made = Drawing(min(width, right), ys[-1] + lane / 2 + 6)
    _axis(made, xs, ys, axis_name, tree)
    if arms:
        draw_arms(made, arms, xs[arms.at] - pitch / 2, ys, lane / 2)
        labels.draw_columns(made, other, _MARGIN, ys[min(arms.split, lanes - 1)] - lane / 2 - 1, pitch, "accent")
    labels.draw_columns(made, axis, _MARGIN, top - 1, pitch, "accent")
    return made, xs, ys, lane


def _words(tree: BeamTree, path: list[tuple[int, int]], pitch: float) -> labels.AxisLabels:
    """The tokens of a winner above its steps, only if most of them are legible."""
    tokens = [""] * len(tree.nodes)
    for step, slot in path:
        node = tree.nodes[step][slot] if step < len(tree.nodes) and slot < len(tree.nodes[step]) else None
        if node and node.state != "carried":
            tokens[step] = labels.short(node.token)
    if pitch < 5 or not any(tokens):
        return labels.AxisLabels()
    axis = labels.columns(tokens, pitch)
    return replace(axis, at=[(step, text) for step, text in axis.at if tokens[step]])


def _dots(tree: BeamTree, lanes: int, pitch: float, width: float, beside: OverlayLines) -> Drawing:
    made, xs, ys, lane = _frame(tree, lanes, pitch, width, beside.axis)
    half = min(4.5, max(1.0, min(pitch, lane) * 0.28))
    best, nodes = tree.won, [node for row in tree.nodes for node in row if node]
    at = lambda node: (xs[node.step], ys[node.slot])  # noqa: E731
    root = (_MARGIN - pitch / 2, ys[0])
    before = lambda node: at(node.parent) if node.parent else root  # noqa: E731
    _edges(made, nodes, best, before, at, max(2.0, half))
    joins(made, tree, lambda node: at(node) if node else root, at, 6)
    for color, size, chosen in (
        ("faint", half, lambda node: node.state in ("dead", "dropped") and (node.step, node.slot) not in best),
        ("muted", half, lambda node: node.state in ("alive", "ended") and (node.step, node.slot) not in best),
        ("accent", max(half, 2.0), lambda node: node.state != "carried" and (node.step, node.slot) in best),
    ):
        for shape, ended in (("dot", False), ("square", True)):
            points = [at(node) for node in nodes if chosen(node) and (node.state in ("ended", "dropped")) == ended]
            if points:
                made.add(Marks(color, points, size, shape))
    hollow = [at(node) for node in nodes if not node.written and node.state in ("alive", "dead")]
    if hollow and half > 1.5:
        made.add(Marks("paper", hollow, half - 1.2, "dot"))
    beside.draw_reference(made, before, at, half + 6, 6)
    if lane >= _NAMED:
        _turns(made, nodes, best, at, half)
        _ranks(made, tree, at, pitch)
    return made


def _ranks(made: Drawing, tree: BeamTree, at: Callable[[TreeNode], Point], pitch: float) -> None:
    """The ranks in the n-best list, beside the end of each result."""
    places = {id(node): rank for rank, node in enumerate(tree.nbest, 1)}
    ends: list[tuple[Point, int]] = []
    for last in filter(None, tree.nodes[-1]):
        node: TreeNode | None = last
        while node is not None and node.state == "carried":
            node = node.parent
        if node is not None and id(node) in places:
            ends.append((at(last), places[id(node)]))
    if not ends or tree.arms:
        return
    x = max(x for (x, _), _ in ends) + pitch / 2 + 8
    made.add(
        *(Text(x, y, str(rank), 10, "accent" if rank == 1 else "ink", "middle", rank == 1) for (_, y), rank in ends)
    )
    made.add(Text(x, min(y for (_, y), _ in ends) - 16, "rank", 10, "muted", "middle"))
    made.width = max(made.width, x + 16)


def _turns(
    made: Drawing, nodes: list[TreeNode], best: set[tuple[int, int]], at: Callable[[TreeNode], Point], half: float
) -> None:
    """The tokens below the dots at which a surviving hypothesis diverges, as far as there is room."""
    live = [node for node in nodes if node.state in ("alive", "ended") or (node.step, node.slot) in best]
    ways = Counter(id(node.parent) for node in live)
    taken: list[tuple[float, float]] = []
    for node in live:
        if (node.step, node.slot) in best or ways[id(node.parent)] < 2 or not node.written:
            continue
        (x, y), text = at(node), labels.short(node.token, _LONGEST)
        wide = fonts.width(text, _SMALL) / 2
        if all(other != y or x - wide > end for other, end in taken) and x + wide <= made.width:
            made.add(Text(x, y + half + 6, text, _SMALL, "ink", "middle", halo=True))
            taken.append((y, x + wide + 3))


def _cells(tree: BeamTree, lanes: int, pitch: float, width: float, beside: OverlayLines) -> Drawing:
    """Each slot of the beam as a cell: darker if a result passes through it, with the winner's path on top."""
    made, xs, ys, lane = _frame(tree, lanes, pitch, width, beside.axis)
    shades = np.zeros((lanes, len(tree.nodes)), np.uint8)
    for step, row in enumerate(tree.nodes):
        for slot, node in enumerate(row):
            if node:
                shades[slot, step] = round(1 + 254 * _SHARES[node.state])
    columns = max(1, min(len(xs), round(len(xs) * pitch)))
    starts = np.arange(columns) * len(xs) // columns
    shades = np.maximum.reduceat(shades, starts, axis=1)
    split = tree.arms.split if tree.arms else lanes
    for first, last in ((0, split), (split, lanes)):
        if first < last:
            room = (len(xs) * pitch, (last - first) * lane)
            made.add(Cells(_MARGIN, ys[first] - lane / 2, *room, shades[first:last], "faint"))
    for path in (tree.best, tree.arms.best if tree.arms else []):
        places = np.array([(xs[step], ys[slot]) for step, slot in path if step < len(xs) and slot < lanes])
        if places.size:
            made.add(Lines("accent", 2.2, paths_of(places[:, 0], places[:, 1])))
    at = lambda node: (xs[node.step], ys[node.slot])  # noqa: E731
    beside.draw_reference(made, lambda node: at(node.parent or node), at, 6, 1)
    made.notes.append(
        f"{len(tree.nodes)} steps of {lanes} slots: darker cells lead to a result, the line is the winner's path"
        + (f"; a cell is the darkest of up to {-(-len(xs) // columns)} steps" if columns < len(xs) else "")
    )
    return made


def _axis(made: Drawing, xs: list[float], ys: list[float], name: str, tree: BeamTree) -> None:
    """Numbers of steps above, and of slots to the left."""
    pitch = xs[1] - xs[0] if len(xs) > 1 else 40.0
    every = labels.stride(pitch, 32)
    made.add(Text(2, 8, name, 10, "muted"))
    made.add(
        *(Text(xs[step], 8, str(step), 10, "muted", "middle") for step in range(0, len(xs), every) if xs[step] > 40)
    )
    lane = ys[1] - ys[0] if len(ys) > 1 else 40.0
    split = tree.arms.split if tree.arms else len(ys)
    every = labels.stride(lane, 12)
    made.add(*(Text(4, y, str(slot % split), 10, "muted") for slot, y in enumerate(ys) if slot % split % every == 0))
