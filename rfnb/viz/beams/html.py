"""The `beams` view as HTML that needs nothing: one picture of the tree with a description, and the n-best list as a table."""

from __future__ import annotations

import html as escape
from typing import Any

from rfnb.viz.beams.drawing import MOST_SEQS, description, of_tree
from rfnb.viz.beams.parts import adds_up
from rfnb.viz.beams.text import EMPTY, apart, prefix, remark, telling
from rfnb.viz.beams.tree import BeamTree, grow, parts_along, problem
from rfnb.viz.drawing.img import img
from rfnb.viz.kinds import WIDE
from rfnb.viz.visible import line as one_line
from rfnb.viz.visible import visible

_MAX_NBEST, _MAX_CUTS = 10, 60


def html(spec: Any) -> str:
    """The search as HTML without script, style or inline SVG."""
    head = spec.head
    fault = problem(head)
    if fault:
        return f"<p>{escape.escape(fault)}</p>"
    title = escape.escape(str(head.get("title", "Beam search")))
    parts = [_sequence(head, seq, title) for seq in head["seqs"][:MOST_SEQS]]
    if len(head["seqs"]) > MOST_SEQS:
        parts.append(f"<p>... and {len(head['seqs']) - MOST_SEQS} more sequences</p>")
    return "\n".join(parts) if parts else f"<p>{title}: no sequences</p>"


def _sequence(head: dict[str, Any], seq: dict[str, Any], title: str) -> str:
    tree = grow(seq, length_exponent=head.get("length_exponent") or 0.0, threshold=head.get("threshold"))
    caption = f"{title}, {escape.escape(str(seq.get('label', 'sequence')))}"
    if not tree.nodes:
        return f"<p>{caption}: nothing yet</p>"
    join = head.get("join", " ")
    picture = of_tree(tree, WIDE, seq)
    picture.alt = description(head, seq, tree)
    rows = []
    for rank, node in enumerate(tree.nbest[:_MAX_NBEST], 1):
        path, note = node.path(), remark(tree, node, bool(head.get("live")))
        line = escape.escape(one_line(prefix(path, join)) or EMPTY)
        line = f"<b>{line}</b>" if (node.step, node.slot) in tree.ends else line
        parts = [f"{value:.3f}" for value in parts_along(path)]
        tag = f"{tree.arms.tag(node) or 'A B'} " if tree.arms else ""
        rows.append([f"{tag}{rank}", f"{node.score:.3f}", *parts, line, note])
    table = _table(["rank", "score", *map(escape.escape, tree.parts), "text", ""], rows) + _reasons(tree)
    notes = "".join(f"<p>{escape.escape(note)}</p>" for note in picture.notes)
    arms = f"<p>{escape.escape(apart(tree.arms))}</p>\n" if tree.arms else ""
    return f"<p><b>{caption}</b></p>\n{arms}{img(picture)}\n{notes}{table}"


def _reasons(tree: BeamTree) -> str:
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
