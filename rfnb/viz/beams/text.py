"""The `beams` view as text: the n-best list, then a table with one line per step and one column per slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rfnb.viz.beams.parts import adds_up
from rfnb.viz.beams.top_labels import of_winner, taken_from_winner, words
from rfnb.viz.beams.tree import Arms, BeamTree, Cut, Rows, TreeNode, grown, parts_along, rating
from rfnb.viz.kinds import title_of
from rfnb.viz.terminal import WIDTH, aligned, shortened, width_of
from rfnb.viz.visible_text import line, visible

_MAX_SEQS, _MAX_STEPS, _MAX_SLOTS, _MAX_NBEST, _MOST_CELL = 4, 60, 8, 10, 32
_MOST_TEXT = 2000
EMPTY = "(empty)"  # a hypothesis without labels
_LEGEND = "1>L: token L continues slot 1 of the step before. * winner's path, $ complete, = keeps its place, x died out"


def text(spec: Any) -> str:
    """The search as text for a terminal."""
    seqs = spec.head["seqs"]
    parts = [_sequence(spec, seq) for seq in seqs[:_MAX_SEQS]]
    if len(seqs) > _MAX_SEQS:
        parts.append(f"... and {len(seqs) - _MAX_SEQS} more sequences")
    return "\n\n".join(parts)


def prefix(path: Sequence[TreeNode], join: str = " ") -> str:
    """The tokens of a path as one text, without an end mark such as </s> (unless that is all)."""
    return join.join(tokens_of(path))


def tokens_of(path: Sequence[TreeNode]) -> list[str]:
    """The tokens of a path, likewise as a list."""
    tokens = [node.token for node in path if node.written]
    closed = len(tokens) > 1 and path[-1].state in ("ended", "dropped") and is_mark(tokens[-1])
    return tokens[:-1] if closed else tokens


_LONGEST_PERIOD, _LEAST_TIMES = 12, 3


def circles(path: Sequence[TreeNode], join: str) -> str:
    """A note on the longest sequence that a path repeats at least three times in a row; "" if there is none."""
    tokens = tokens_of(path)
    most = 0
    said = ""
    for period in range(1, _LONGEST_PERIOD + 1):
        run = 0
        for at in range(period, len(tokens)):
            run = run + 1 if tokens[at] == tokens[at - period] else 0
            times = run // period + 1
            if times >= _LEAST_TIMES and times * period > most:
                most, start = times * period, at - run - period + 1
                once = line(join.join(shortened(token, _MOST_CELL) for token in tokens[start : start + period]))
                said = f"The winner goes in circles: “{once}” {times} times in a row."
    return said


def join_labels(labels: Sequence[str], join: str) -> str:
    """The labels of a reference as one text, without an end mark."""
    return join.join(labels[:-1] if len(labels) > 1 and is_mark(labels[-1]) else labels)


def is_mark(token: str) -> bool:
    """Whether a token is a mark such as `</s>` or `<eos>` rather than text."""
    return len(token) > 2 and token.startswith("<") and token.endswith(">")


def _sequence(spec: Any, seq: dict[str, Any]) -> str:
    head = spec.head
    tree = grown(head, seq)
    steps = "1 step" if len(tree.nodes) == 1 else f"{len(tree.nodes)} steps"
    arms = tree.arms
    lines = [f"{title_of(spec)}, {seq.get('label', 'sequence')}: {steps}, up to {tree.width} hypotheses"]
    if not tree.nodes:
        return lines[0] + "\n  nothing yet"
    if arms:
        lines.append(f"{apart(arms)}. From there on slots below {arms.split} are A, the others B.")
    reference = seq.get("reference")
    if reference:
        lines += [f"reference: {line(join_labels(reference['labels'], head.get('join', ' ')))}", reference["text"]]
    lines += of_smaller(seq)
    lines += filter(None, [circles(tree.nbest[0].path(), head.get("join", " "))] if tree.nbest else [])
    lines += (
        _nbest_table(tree, head.get("length_exponent") or 0.0, head.get("join", " "), bool(head.get("live")))
        + [""]
        + _step_table(tree, seq["steps"])
        + [_LEGEND + (f", {seq['blank']} no new label" if seq.get("blank") else "")]
    )
    return "\n".join(line.rstrip() for line in lines)


def apart(arms: Arms) -> str:
    """A sentence on where two searches diverge, and which is which."""
    a, b = (line(name) for name in arms.names)
    where = (
        f"the same up to step {arms.at - 1}, different from step {arms.at} on"
        if arms.at
        else "apart from the first step on"
    )
    return f"A: {a}, B: {b}; {where}"


def of_smaller(seq: Mapping[str, Any]) -> list[str]:
    """Sentences on the largest smaller beam that loses the best hypothesis, and the next one that keeps it."""
    beams = seq.get("smaller") or []
    lost = max((index for index, one in enumerate(beams) if "lost" in one), default=-1)
    return [line(one["text"]) for one in beams[max(lost, 0) : lost + 2]]


def _nbest_table(tree: BeamTree, exponent: float, join: str, live: bool) -> list[str]:
    rows = [["rank", "score", "", "text"]]
    if exponent:
        rows[0][2:2] = [f"score / length^{exponent:g}"]
    if tree.parts:
        signs = ["= ", *["+ "] * len(tree.parts)] if adds_up(tree.parts) else [""] * len(tree.parts)
        rows[0][-2:-2] = [sign + name for sign, name in zip(signs, tree.parts)]
    for rank, node in enumerate(tree.nbest[:_MAX_NBEST], 1):
        path = node.path()
        tag = f"{tree.arms.tag(node) or 'A B'} " if tree.arms else ""
        row = [
            f"{tag}{rank}",
            f"{node.score:.3f}",
            remark(tree, node, live),
            line(prefix(path, join)[:_MOST_TEXT]) or EMPTY,
        ]
        if exponent:
            row[2:2] = [f"{rating(node, exponent):.3f}"]
        if tree.parts:
            row[-2:-2] = [f"{value:.3f}" for value in parts_along(path)]
        rows.append(row)
    lines = aligned(rows, _MOST_CELL)
    if len(tree.nbest) > _MAX_NBEST:
        lines.append(f"... and {len(tree.nbest) - _MAX_NBEST} more")
    return lines


def remark(tree: BeamTree, node: TreeNode, live: bool) -> str:
    """The note on a hypothesis in the n-best list."""
    won = (node.step, node.slot) in tree.ends
    words = ["best so far" if live else "winner"] if won else []
    return ", ".join(words if node.state == "ended" else [*words, "not complete"])


def telling(cuts: Sequence[Cut]) -> list[Cut]:
    """The best cut candidate; if it was not ranked, also the best ranked one."""
    first = next((cut for cut in cuts if cut.why not in ("blocked", "merged")), None)
    return [cut for cut in cuts if cut is first or cut is cuts[0]]


def _step_table(tree: BeamTree, steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line per step with as many slots as fit, followed by the best cut candidates and, for the winner, the best labels."""
    nodes = tree.nodes[:_MAX_STEPS]
    most, best = max(len(row) for row in nodes), tree.won
    heads = [f"slot {slot}" for slot in range(most)]
    if tree.arms:
        nodes, heads = _in_turn(nodes, tree.arms.split, most)
    rows = [[str(index), *(_cell(node, best) for node in row[:_MAX_SLOTS])] for index, row in enumerate(nodes)]
    slots = min(most, _MAX_SLOTS)
    widths = [max((width_of(row[slot + 1]) for row in rows if slot + 1 < len(row)), default=0) for slot in range(slots)]
    while slots > 1 and 6 + sum(widths[:slots]) + 2 * slots + (7 if slots < most else 0) > WIDTH:
        slots -= 1
    more = [f"(+{most - slots})"] if slots < most else []
    table = [["step", *heads[:slots], *more]]
    table += [[*row[: slots + 1], *[""] * (slots + 1 - len(row)), *([""] if more else [])] for row in rows]
    head, *lines = aligned(table, _MOST_CELL)
    out = [head]
    won = dict(tree.best)
    for index, (line_, cuts) in enumerate(zip(lines, tree.cuts)):
        out.append(line_)
        node = tree.nodes[index][won[index]] if index in won else None
        best_of = of_winner(steps[index], node) if node else []
        out += (
            [f"        best labels: {words(best_of)}{taken_from_winner(steps[index], node)}"]
            if node and best_of
            else []
        )
        out += [f"        cut {_arrow(c.parent)}{_token(c.token)} {c.score:.3f}  {c.verdict}" for c in telling(cuts)]
    if len(tree.nodes) > _MAX_STEPS:
        out.append(f"... and {len(tree.nodes) - _MAX_STEPS} more steps")
    return out


def _in_turn(nodes: Sequence[Sequence[TreeNode | None]], split: int, most: int) -> tuple[Rows, list[str]]:
    """The slots of two searches interleaved, the best of both first; and their names."""
    order = sorted(range(most), key=lambda slot: (slot % split, slot))
    heads = [f"{'AB'[slot >= split]} {slot % split}" for slot in order]
    return [[row[slot] if slot < len(row) else None for slot in order] for row in nodes], heads


def _cell(node: TreeNode | None, best: set[tuple[int, int]]) -> str:
    if node is None:
        return "-"
    mark = "*" if (node.step, node.slot) in best else ""
    mark += {"ended": "$", "carried": "=", "dropped": "$x", "dead": "x"}.get(node.state, "")
    return f"{_arrow(node.parent)}{_token(node.token)} {node.score:.3f} {mark}".rstrip()


def _arrow(parent: TreeNode | None) -> str:
    return f"{parent.slot}>" if parent else ""


def _token(token: str) -> str:
    return shortened(visible(token[:100]), 14)
