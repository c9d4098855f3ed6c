"""The `beams` view as HTML that needs nothing: one picture of the tree with a description, and the n-best list as a table."""

from __future__ import annotations

import base64
import html as escape
import io
import math
from typing import Any

import numpy as np

from rfnb.viz.beams.parts import adds_up
from rfnb.viz.beams.text import EMPTY, prefix, remark, telling
from rfnb.viz.beams.tree import Node, Tree, grow, parts_along, problem
from rfnb.viz.picture import plain, quiet
from rfnb.viz.visible import line as one_line
from rfnb.viz.visible import visible

_MAX_SEQS, _MAX_NBEST, _MAX_LABELLED, _MAX_CUTS = 4, 10, 400, 60
_COLORS = 16
_DPI = 160  # the picture is shown at 100 dots per inch, so that it is sharp on fine screens
_INK, _FAINT, _WINNER, _PAPER = "#24292f", "#8c959f", "#0b62b0", "#ffffff"


def html(spec: Any) -> str:
    """The search as HTML without script, style or inline SVG."""
    head = spec.head
    fault = problem(head)
    if fault:
        return f"<p>{escape.escape(fault)}</p>"
    title = escape.escape(str(head.get("title", "Beam search")))
    parts = [_sequence(head, seq, title) for seq in head["seqs"][:_MAX_SEQS]]
    if len(head["seqs"]) > _MAX_SEQS:
        parts.append(f"<p>... and {len(head['seqs']) - _MAX_SEQS} more sequences</p>")
    return "\n".join(parts) if parts else f"<p>{title}: no sequences</p>"


def _sequence(head: dict[str, Any], seq: dict[str, Any], title: str) -> str:
    tree = grow(seq, length_exponent=head.get("length_exponent") or 0.0, threshold=head.get("threshold"))
    caption = f"{title}, {escape.escape(str(seq.get('label', 'sequence')))}"
    if not tree.nodes:
        return f"<p>{caption}: nothing yet</p>"
    join = head.get("join", " ")
    alt = escape.escape(description(head, seq, tree), quote=True)
    png = picture(tree)
    data = base64.b64encode(png).decode()
    width = round(int.from_bytes(png[16:20], "big") * 100 / _DPI)  # PNG: the width is at byte 16
    rows = []
    for rank, node in enumerate(tree.nbest[:_MAX_NBEST], 1):
        path, note = node.path(), remark(tree, node, bool(head.get("live")))
        line = escape.escape(one_line(prefix(path, join)) or EMPTY)
        line = f"<b>{line}</b>" if (node.step, node.slot) in tree.best[-1:] else line
        parts = [f"{value:.3f}" for value in parts_along(path)]
        rows.append([str(rank), f"{node.score:.3f}", *parts, line, note])
    table = _table(["rank", "score", *map(escape.escape, tree.parts), "text", ""], rows) + _reasons(tree)
    return f'<p><b>{caption}</b></p>\n<img alt="{alt}" width="{width}" src="data:image/png;base64,{data}">\n{table}'


def _reasons(tree: Tree) -> str:
    """The reasons why candidates did not go on, as a table to unfold."""
    found = [cut for cuts in tree.cuts for cut in telling(cuts)]
    rows = [
        [str(cut.step), "" if cut.parent is None else str(cut.parent.slot), escape.escape(visible(cut.token)), f"{cut.score:.3f}",
         *(f"{value:.3f}" for value in cut.parts), escape.escape(cut.verdict)]
        for cut in found[:_MAX_CUTS]
    ]  # fmt: skip
    if not rows:
        return ""
    of_token = [f"{'+ ' if adds_up(tree.parts) else ''}{escape.escape(name)}" for name in tree.parts]
    table = _table(["step", "continues slot", "token", "score", *of_token, "verdict"], rows)
    added = " (+ what the token has added to the score)" if tree.parts and adds_up(tree.parts) else ""
    more = f"<p>... and {len(found) - len(rows)} more</p>" if len(found) > len(rows) else ""
    return (
        f"\n<details><summary>The best candidates that were not kept, and why{added}</summary>{table}{more}</details>"
    )


def _table(heads: list[str], rows: list[list[str]]) -> str:
    """Cells are HTML."""
    head = "".join(f"<th>{cell}</th>" for cell in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def description(head: dict[str, Any], seq: dict[str, Any], tree: Tree) -> str:
    """The picture in words."""
    words = (
        f"Beam search over {len(tree.nodes)} steps with up to {tree.width} hypotheses, {seq.get('label', 'sequence')}."
    )
    if tree.nbest:
        top = tree.nbest[0]
        words += f" Best: {one_line(prefix(top.path(), head.get('join', ' '))) or EMPTY}, score {top.score:.3f}."
    complete = sum(node.state == "ended" for node in tree.nbest)
    return (
        words
        + f" {complete} complete, {len(tree.nbest) - complete} open at the end, {sum(map(len, tree.cuts))} cut candidates stored."
    )


def picture(tree: Tree) -> bytes:
    """A PNG of the tree: x = step, y = slot; the winner's path is thick, dead branches are faint, complete hypotheses are squares."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # slow to import, and not needed by the widget
    from matplotlib.figure import Figure
    from PIL import Image  # matplotlib needs it too

    steps, lanes = len(tree.nodes), max(len(row) for row in tree.nodes)
    labelled = steps * lanes <= _MAX_LABELLED
    pitch = (0.72, 0.42) if labelled else (max(0.05, min(0.3, 12 / steps)), max(0.06, min(0.3, 5 / lanes)))
    size = (max(3.0, (steps + 1) * pitch[0]), max(1.2, (lanes + 0.8) * pitch[1]))
    figure = Figure(figsize=size, dpi=_DPI, facecolor=_PAPER)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(-1.1, steps - 0.4)
    axes.set_ylim(lanes - 0.3, -0.9)
    axes.axis("off")
    best = set(tree.best)
    for node in (node for row in tree.nodes for node in row if node):
        _edge(axes, node, (node.step, node.slot) in best)
    for node in (node for row in tree.nodes for node in row if node):
        _mark(axes, node, (node.step, node.slot) in best, labelled)
    for step in range(0, steps, max(1, math.ceil(steps * 0.3 / (steps * pitch[0])))):
        axes.text(step, -0.75, str(step), ha="center", va="center", fontsize=7, color=_FAINT)
    out = io.BytesIO()
    with quiet():
        canvas.draw()
    image = Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3])
    # Of the many shades of thin lines that cross, few colours are enough: a large search takes a seventh of the bytes.
    image = image.quantize(_COLORS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    colors = image.getpalette() or []
    image.putpalette([255 if value >= 253 else value for value in colors])  # the paper is white, not nearly
    image.save(out, format="png", optimize=True)
    return out.getvalue()


def _edge(axes: Any, node: Node, won: bool) -> None:
    start = (node.parent.step, node.parent.slot) if node.parent else (-0.8, 0)
    faint = node.state in ("dead", "dropped", "carried")
    middle = (start[0] + node.step) / 2
    # A smooth step from lane to lane: drawn as a polyline of the logistic curve.
    ts = [index / 12 for index in range(13)]
    xs = [start[0] + (node.step - start[0]) * t for t in ts] if start[1] != node.slot else [start[0], middle, node.step]
    ease = [t * t * (3 - 2 * t) for t in ts] if start[1] != node.slot else [0, 0, 0]
    axes.plot(
        xs,
        [start[1] + (node.slot - start[1]) * e for e in ease],
        color=_WINNER if won else _FAINT if faint else _INK,
        linewidth=3.0 if won else 0.7 if faint else 1.1,
        linestyle=":" if node.state == "carried" else "-",
        alpha=0.45 if faint else 1.0,
        zorder=2 if won else 1,
        solid_capstyle="round",
    )


def _mark(axes: Any, node: Node, won: bool, labelled: bool) -> None:
    if node.state == "carried":
        return
    faint = node.state in ("dead", "dropped")
    color = _WINNER if won else _FAINT if faint else _INK
    if not labelled:
        axes.plot([node.step], [node.slot], "s" if node.state == "ended" else ".", color=color, markersize=3, zorder=3)
        return
    complete = node.state == "ended"
    frame = {
        "boxstyle": "square,pad=0.3" if complete else "round,pad=0.3,rounding_size=0.6",
        "facecolor": _WINNER if won else _PAPER,
        "edgecolor": color,
        "linewidth": 1.6 if complete else 0.8,
    }
    axes.text(
        node.step,
        node.slot,
        plain(visible(node.token)),
        ha="center",
        va="center",
        fontsize=8,
        fontweight="bold" if won else "normal",
        color=_PAPER if won else color,
        bbox=frame,
        zorder=4,
    )
    axes.text(
        node.step, node.slot + 0.38, f"{node.score:.2f}", ha="center", va="center", fontsize=6, color=_FAINT, zorder=4
    )
