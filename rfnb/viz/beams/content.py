"""The `beams` view as a page: one picture of each tree with a description, and its n-best list as a table."""

from __future__ import annotations

from typing import Any

from rfnb.viz.beams.drawing import MOST_SEQS, description, of_tree
from rfnb.viz.beams.parts import adds_up
from rfnb.viz.beams.text import EMPTY, apart, prefix, remark, telling
from rfnb.viz.beams.tree import BeamTree, grown, parts_along
from rfnb.viz.kinds import WIDE, title_of
from rfnb.viz.markup import Bold, fold, picture, sentences, table, title
from rfnb.viz.visible import line, visible

_MAX_NBEST, _MAX_CUTS = 10, 60


def problem(spec: Any) -> str | None:
    """The fault of the head of a `beams` spec, as a sentence; None if it can be drawn."""
    seqs = spec.head.get("seqs")
    if not isinstance(seqs, list):
        return "This beam search cannot be drawn: it has no list of sequences."
    for index, seq in enumerate(seqs):
        steps = seq.get("steps") if isinstance(seq, dict) else None
        if not isinstance(steps, list):
            return f"This beam search cannot be drawn: sequence {index} has no list of steps."
        before = None
        for number, step in enumerate(steps):
            fault = _fault(step, before) or _arms_fault(seq.get("arms"), step, len(steps))
            if fault:
                return f"This beam search cannot be drawn: sequence {index}, step {number}: {fault}."
            before = len(step["tokens"])
    return None


def _arms_fault(arms: Any, step: dict[str, Any], steps: int) -> str | None:
    """The fault of a sequence that says that it is two searches in one."""
    if arms is None:
        return None
    known = isinstance(arms, dict) and {"at", "split", "names", "ends", "best"} <= arms.keys()
    if not known or not all(isinstance(arms[name], int) and arms[name] >= 0 for name in ("at", "split")):
        return "arms have at, split, names, ends and best"
    if not all(isinstance(arms[name], list) and len(arms[name]) == 2 for name in ("names", "ends")):
        return "names and ends of arms are one for each of two"
    if not isinstance(arms["best"], list) or not all(0 <= int(place[0]) < steps for place in arms["best"]):
        return "the path of the second winner leaves the search"
    if not isinstance(step.get("states"), list) or len(step["states"]) != len(step["tokens"]):
        return "a step of two searches has a state for each hypothesis"
    return None


def _fault(step: Any, before: int | None) -> str | None:
    fields = ("tokens", "parents", "scores", "ended")
    if not isinstance(step, dict) or not all(isinstance(step.get(name), list) for name in fields):
        return "tokens, parents, scores and ended must be lists"
    sizes = [len(step[name]) for name in fields]
    if len(set(sizes)) > 1:
        return "tokens, parents, scores and ended have " + ", ".join(map(str, sizes)) + " entries"
    parents = step["parents"] + [cut["parent"] for cut in step.get("cuts") or []]
    if before is not None:
        for parent in parents:
            if not (isinstance(parent, int) and 0 <= parent < before):
                return f"a parent is {parent}, but the step before has {before} hypotheses"
    return None


def missing(spec: Any) -> str:
    """The words for a view with nothing in it; "" for any other."""
    return "" if spec.head["seqs"] else "no sequences"


def page(spec: Any) -> list[str]:
    """The search as HTML."""
    seqs = spec.head["seqs"]
    made = [part for seq in seqs[:MOST_SEQS] for part in _sequence(spec, seq)]
    return made + sentences([f"... and {len(seqs) - MOST_SEQS} more sequences"] if len(seqs) > MOST_SEQS else [])


def _sequence(spec: Any, seq: dict[str, Any]) -> list[str]:
    head = spec.head
    tree = grown(head, seq)
    caption = f"{title_of(spec)}, {seq.get('label', 'sequence')}"
    if not tree.nodes:
        return sentences([f"{caption}: nothing yet"])
    drawing = of_tree(tree, WIDE, seq)
    drawing.alt = description(head, seq, tree)
    rows = []
    for rank, node in enumerate(tree.nbest[:_MAX_NBEST], 1):
        path = node.path()
        text = line(prefix(path, head.get("join", " "))) or EMPTY
        text = Bold(text) if (node.step, node.slot) in tree.ends else text
        parts = [f"{value:.3f}" for value in parts_along(path)]
        tag = f"{tree.arms.tag(node) or 'A B'} " if tree.arms else ""
        rows.append([f"{tag}{rank}", f"{node.score:.3f}", *parts, text, remark(tree, node, bool(head.get("live")))])
    made = table(rows, ["rank", "score", *tree.parts, "text", ""])
    arms = sentences([apart(tree.arms)] if tree.arms else [])
    return [title(caption), *arms, *picture(drawing), made, *_reasons(tree)]


def _reasons(tree: BeamTree) -> list[str]:
    """The reasons why candidates did not go on, as a table to unfold."""
    found = [cut for cuts in tree.cuts for cut in telling(cuts)]
    if not found:
        return []
    rows = [
        [str(cut.step), "" if cut.parent is None else str(cut.parent.slot), visible(cut.token), f"{cut.score:.3f}",
         *(f"{value:.3f}" for value in cut.parts), cut.verdict]
        for cut in found[:_MAX_CUTS]
    ]  # fmt: skip
    adds = adds_up(tree.parts)
    of_token = [f"{'+ ' if adds else ''}{name}" for name in tree.parts]
    added = " (+ what the token has added to the score)" if tree.parts and adds else ""
    more = sentences([f"... and {len(found) - len(rows)} more"] if len(found) > len(rows) else [])
    made = table(rows, ["step", "continues slot", "token", "score", *of_token, "verdict"])
    return [fold(f"The best candidates that were not kept, and why{added}", [made, *more])]
