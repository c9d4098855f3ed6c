"""Beams of many steps and lanes: the best hypotheses of each step, all that leads to them, and fewer of those that were cut.

A slot whose hypothesis is left out is like one that has none; the others keep their slots.
"""

from __future__ import annotations

from typing import Any

from rfnb.viz.page.budget import Room
from rfnb.viz.page.finest import finest
from rfnb.viz.page.heads import lessened
from rfnb.viz.spec import Spec

# So many hypotheses and so many cut candidates of each step, from much to little.
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


def thin_beams(spec: Spec, room: Room) -> Spec:
    """Every hypothesis that is left is as it was."""
    placed = [_placed(seq["steps"]) for seq in spec.head["seqs"]]
    return finest(_RUNGS, lambda rung: _thinned(spec, placed, *rung), lambda _: room.most)


def _thinned(spec: Spec, placed: list[list[dict[str, Any]]], best: int | None, cuts: int) -> Spec:
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


def _fewer(seq: dict[str, Any], steps: list[dict[str, Any]], best: int | None, cuts: int) -> list[dict[str, Any]]:
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


def _placed(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The steps with what a page works out of all hypotheses where it has all: their ranks (from 1, of how many, the best score), and the
    last step that a continuation of each has reached."""
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


def _without(step: dict[str, Any], keep: set[int]) -> dict[str, Any]:
    """A step in which the slots that are not kept have no hypothesis."""
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
