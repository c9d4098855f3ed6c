"""Two searches in one picture: a trunk up to the step in which they part, from there on two arms, A above B.

The merged sequence is one of a `beams` spec like any other, and is drawn like any other: in the steps of the arms it has the slots of
A, and after them those of B. Its `arms` say where that begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_SAME = ("tokens", "parents", "ended", "scores")  # as they are written, in five digits
_FILL: dict[str, Any] = {
    "tokens": "", "parents": 0, "scores": None, "ended": False, "states": None, "left": False, "ends": 0.0,
}  # fmt: skip
_STATES = ("dead", "dropped", "carried", "alive", "ended")  # what is in both arms leads to the better end of the two


def merged(a: Mapping[str, Any], b: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The head of a `beams` spec with two searches in one, sequence by sequence."""
    seqs = [_merged(one, other, names) for one, other in zip(a["seqs"], b["seqs"])]
    most = max(len(a["seqs"]), len(b["seqs"]))
    said = [] if len(seqs) == most else [f"Only {len(seqs)} of {most} sequences are in both searches."]
    said += [] if any("arms" in seq for seq in seqs) or not seqs else ["Both searches are the same."]
    head = {**a, "seqs": seqs, "live": bool(a.get("live") or b.get("live"))}
    head.pop("remark", None)
    return head | ({"remark": " ".join(said)} if said else {})


def parting(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> int | None:
    """The first step in which two searches keep different hypotheses or scores; None if there is none."""
    for index, (one, other) in enumerate(zip(a, b)):
        if any(one[name] != other[name] for name in _SAME):
            return index
    return min(len(a), len(b)) if len(a) != len(b) else None


def _merged(a: Mapping[str, Any], b: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    sides = [_plain(a), _plain(b)]
    steps = [side["steps"] for side in sides]
    at = parting(*steps)
    if at is None:
        return sides[0]
    parts = a.get("parts") if a.get("parts") == b.get("parts") else None
    split = max((len(step["tokens"]) for step in steps[0]), default=0)
    trunk = [_trunk(*pair) for pair in zip(steps[0][:at], steps[1][:at])]
    arms = [
        _arms([side[index] if index < len(side) else {} for side in steps], split, index > at, bool(parts))
        for index in range(at, max(map(len, steps)))
    ]
    best = [[step, slot + (split if step >= at else 0)] for step, slot in b.get("best") or []]
    made = {**sides[0], "steps": trunk + arms}
    made.pop("parts", None)
    told = {"names": list(map(str, names)), "at": at, "split": split, "ends": [len(side) - 1 for side in steps]}
    results = [str(side.get("result", "")) for side in (a, b)]
    result = " | ".join(f"{arm}: {text}" for arm, text in zip("AB", results))
    return {**made, "result": result, "arms": {**told, "best": best}} | ({"parts": parts} if parts else {})


def _plain(seq: Mapping[str, Any]) -> dict[str, Any]:
    """A sequence without what is of one search alone: the reference, smaller beams."""
    steps = [{name: value for name, value in step.items() if name != "inside"} for step in seq["steps"]]
    return {**{name: value for name, value in seq.items() if name not in ("reference", "smaller")}, "steps": steps}


def _trunk(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """A step of both: each hypothesis has the better of its two ends."""
    states = [
        max(filter(None, pair), key=_STATES.index, default=None)
        for pair in zip(a.get("states") or [], b.get("states") or [])
    ]
    return {**a, **({"states": states} if states else {})}


def _arms(sides: Sequence[Mapping[str, Any]], split: int, apart: bool, parts: bool) -> dict[str, Any]:
    """A step of two arms: the slots of A, filled up to `split`, then those of B.

    Args:
        apart: Whether the step before has two arms too.
    """
    a, b = sides
    count = len(b.get("tokens", ()))
    before = split if apart else 0
    step: dict[str, Any] = {}
    for name, fill in _FILL.items():
        if any(name in side for side in sides) or name in ("tokens", "parents", "scores", "ended"):
            own, other = (list(side.get(name) or [fill] * len(side.get("tokens", ()))) for side in sides)
            moved = [parent + before for parent in other] if name == "parents" else other
            step[name] = own + [fill] * (split - len(own)) + moved
    if parts:
        numbers = max(len(side.get("parts") or ()) for side in sides)
        step["parts"] = [[*_row(a, index, split), *_row(b, index, count)] for index in range(numbers)]
    tags = ("", "") if apart else ("A", "B")  # before they part, both hang under the same
    cuts = [_moved_cuts(a, 0, 0, tags[0]), _moved_cuts(b, before, split, tags[1])]
    longest = max(map(len, cuts))
    step["cuts"] = [side[index] for index in range(longest) for side in cuts if index < len(side)]
    if any(side.get("by_rank") is False for side in sides):
        step["by_rank"] = False
    nexts = [_next(a, 0, split if apart else None), _next(b, before, count if apart else None)]
    following = nexts[0] | nexts[1]
    if not apart:  # both are told of the same hypotheses: what is of one of them alone has no name
        following = {
            slot: best for slot, best in following.items() if all(each.get(slot, best) == best for each in nexts)
        }
    if following:
        step["next"] = following
    return step


def _row(side: Mapping[str, Any], index: int, count: int) -> list[float]:
    rows = side.get("parts") or []
    row = list(rows[index]) if index < len(rows) else []
    return row + [0.0] * (count - len(row))


def _moved_cuts(side: Mapping[str, Any], before: int, here: int, tag: str) -> list[dict[str, Any]]:
    return [
        {
            **cut,
            "parent": cut["parent"] + before,
            **({"into": cut["into"] + here} if "into" in cut else {}),
            **({"arm": tag} if tag else {}),
        }
        for cut in side.get("cuts") or []
    ]


def _next(side: Mapping[str, Any], before: int, slots: int | None) -> dict[str, Any]:
    """The best labels by slot of the step before; those of all slots are those of each of its arm."""
    found = side.get("next") or {}
    if "all" in found and slots is not None:
        return {str(slot + before): found["all"] for slot in range(slots)}
    return {key if key == "all" else str(int(key) + before): value for key, value in found.items()}
