"""The `beams` view as a page: a picture of each tree with a description, and its n-best list as a table."""

from __future__ import annotations

from typing import Any

from rfnb.core.strict_json import JsonObject
from rfnb.viz.beams.drawing import MOST_SEQS, description, of_tree
from rfnb.viz.beams.parts import adds_up
from rfnb.viz.beams.text import EMPTY, apart, prefix, remark, telling
from rfnb.viz.beams.tree import BeamTree, grown, parts_along
from rfnb.viz.kinds import WIDE, title_of
from rfnb.viz.markup import Bold, fold, picture, sentences, table, title
from rfnb.viz.page.budget import Room
from rfnb.viz.page.page_spec import finest, lessened
from rfnb.viz.spec import Spec
from rfnb.viz.visible_text import line, visible

_MAX_NBEST, _MAX_CUTS = 10, 60


def problem(spec: Any) -> str | None:
    """The problem with the head of a `beams` spec, as a sentence; None if it can be drawn."""
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


def _arms_fault(arms: Any, step: JsonObject, steps: int) -> str | None:
    """The problem of a sequence that claims to be two searches in one."""
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
    """The text for an empty view; "" for any other."""
    return "" if spec.head["seqs"] else "no sequences"


def page(spec: Any) -> list[str]:
    """The search as HTML."""
    seqs = spec.head["seqs"]
    made = [part for seq in seqs[:MOST_SEQS] for part in _sequence(spec, seq)]
    return made + sentences([f"... and {len(seqs) - MOST_SEQS} more sequences"] if len(seqs) > MOST_SEQS else [])


def _sequence(spec: Any, seq: JsonObject) -> list[str]:
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
    """The reasons why candidates were cut, as a table to unfold."""
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


# Numbers of hypotheses and cut candidates kept per step, from many to few.
_RUNGS = (
    (None, 2),
    (None, 1),
    (None, 0),
    (48, 1),
    (32, 1),
    (24, 1),
    (16, 1),
    (12, 1),
    (8, 1),
    (8, 0),
    (4, 0),
    (2, 0),
    (1, 0),
    (0, 0),
)


def thin(spec: Spec, room: Room) -> Spec:
    """Drop hypotheses and candidates; the kept ones are unchanged."""
    placed = [_placed(seq["steps"]) for seq in spec.head["seqs"]]
    return finest(_RUNGS, lambda rung: _thinned(spec, placed, *rung), lambda _: room.most)


def _thinned(spec: Spec, placed: list[list[JsonObject]], best: int | None, cuts: int) -> Spec:
    seqs = [
        {**seq, "steps": _fewer(seq, seq["steps"] if best is None else steps, best, cuts)}
        for seq, steps in zip(spec.head["seqs"], placed)
    ]
    lanes = max((len(step["scores"]) for seq in spec.head["seqs"] for step in seq["steps"]), default=0)
    top = f"the best {best} of {lanes} hypotheses and those that lead to them" if best else "the result alone"
    said = [] if best is None or best >= lanes else [top]
    found = max((len(step.get("cuts", [])) for seq in spec.head["seqs"] for step in seq["steps"]), default=0)
    said += [f"{cuts or 'none'} of up to {found} candidates that were cut"] if cuts < found else []
    words = f"Of each step the page has {', and '.join(said)}." if said else ""
    return lessened(spec, {"seqs": seqs}, spec.blocks, {}, words)


def _fewer(seq: JsonObject, steps: list[JsonObject], best: int | None, cuts: int) -> list[JsonObject]:
    path = {(step, slot) for step, slot in seq.get("best") or []}
    keep = [
        _best(step["scores"], best) | {slot for at, slot in path if at == index} for index, step in enumerate(steps)
    ]
    for index in range(len(steps) - 1, 0, -1):
        keep[index - 1] |= {steps[index]["parents"][slot] for slot in keep[index]}
    out = []
    for index, step in enumerate(steps):
        there = [cut for cut in step.get("cuts", []) if not index or cut["parent"] in keep[index - 1]]
        made = _without(step, keep[index]) | ({"cuts": there[:cuts]} if "cuts" in step else {})
        if "next" in step and best is not None:
            before = {"all", *map(str, keep[index - 1] if index else {0})}
            made["next"] = {slot: best_of for slot, best_of in step["next"].items() if slot in before}
        out.append(made)
    return out


def _placed(steps: list[JsonObject]) -> list[JsonObject]:
    """The steps with results that a page would compute from all hypotheses: their ranks (from 1, the number ranked, the
    best score), and the last step that a continuation of each reached.
    """
    lasts = [[index] * len(step["scores"]) for index, step in enumerate(steps)]
    for index in range(len(steps) - 1, 0, -1):
        for slot, (parent, score) in enumerate(zip(steps[index]["parents"], steps[index]["scores"])):
            if score is not None:
                lasts[index - 1][parent] = max(lasts[index - 1][parent], lasts[index][slot])
    out = []
    for step, last in zip(steps, lasts):
        there = [slot for slot, score in enumerate(step["scores"]) if score is not None]
        order = sorted(there, key=lambda slot: -step["scores"][slot])
        ranks = {slot: place for place, slot in enumerate(order, 1)}
        place = {"ranks": [ranks.get(slot, 0) for slot in range(len(last))], "lasts": last, "of": len(order)}
        out.append({**step, **place, "top": step["scores"][order[0]] if order else None})
    return out


def _best(scores: list[float | None], best: int | None) -> set[int]:
    there = [slot for slot, score in enumerate(scores) if score is not None]
    return set(sorted(there, key=lambda slot: -(scores[slot] or 0.0))[:best])


def _without(step: JsonObject, keep: set[int]) -> JsonObject:
    """A step in which the slots that are not kept are empty."""
    slots = range(len(step["scores"]))
    nothing = {
        "tokens": "",
        "parents": 0,
        "scores": None,
        "ended": False,
        "left": False,
        "ends": 0,
        "states": None,
        "ranks": 0,
        "lasts": 0,
        "inside": 0,
        "ids": -1,
    }
    made = dict(step)
    for name, empty in nothing.items():
        if name in step:
            made[name] = [value if slot in keep else empty for slot, value in zip(slots, step[name])]
    return made
