"""The views of two runs side by side: both searches in one; attention and states of each side and their difference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core.strict_json import JsonObject
from rfnb.viz.group.spec import parts_of
from rfnb.viz.hypotheses import without_slots
from rfnb.viz.pool import bounds, together
from rfnb.viz.rounding import significant
from rfnb.viz.spec import Spec
from rfnb.viz.trace_page import spec as trace_spec

KINDS = ("beams", "attention", "states")
_OPEN = 2  # views of both that fit on a screen: the search and what it attended to; the rest is folded
SAME = "A and B are the same wherever both have something."
_SIGNS = "Above 0: more in A; below 0: more in B."
_OF_A_SLOT = ("slots", "before", "notes", "remark", "sums")


def sides_of(trace: Any) -> list[Spec]:
    """The views of a recording that can be compared, keyed by `head.key`."""
    parts = parts_of(trace_spec(trace, live=False))
    return [_best_alone(part) for part in parts if part.kind in KINDS and not part.head.get("fault")]


def _best_alone(part: Spec) -> Spec:
    """The view without slots: in a picture of two searches they belong to neither."""
    entries = [(name, part.head[name]) for name in ("maps", "tracks") if name in part.head]
    bare: JsonObject = {
        name: [{key: value for key, value in entry.items() if key not in ("slots", "before")} for entry in listed]
        for name, listed in entries
    }
    return Spec(part.kind, {**part.head, **bare}, without_slots(part).blocks)


def of_both(a: Sequence[Spec], b: Sequence[Spec], names: Sequence[str]) -> list[Spec]:
    """The views of both sides combined, in order: searches in one picture, A - B for attention and states.

    Within a kind the largest difference comes first; views that are equal on both sides come last. `folded` views are closed at first.
    """
    others = {part.head.get("key"): part for part in b}
    found: list[tuple[int, float, str, Spec]] = []
    for one in a:
        key, other = str(one.head.get("key")), others.get(one.head.get("key"))
        if other is None or other.kind != one.kind:
            continue
        if one.kind == "beams":
            made: Spec | None = Spec("beams", merged(one.head, other.head, names))
        else:
            made = {"attention": _attention, "states": _states}[one.kind](one, other)
        if made is not None:
            found.append((len(KINDS) if made.head.get("same") else KINDS.index(made.kind), -_most(made), key, made))
    shown: list[Spec] = []
    for rank, _, key, made in sorted(found, key=lambda entry: entry[:2]):
        more = {"key": key, "compact": True, "folded": len(shown) >= _OPEN or rank == len(KINDS)}
        shown.append(Spec(made.kind, {**made.head, **more}, made.blocks))
    return shown


def missing(a: Sequence[Spec], b: Sequence[Spec]) -> list[str]:
    """Sentences on the views that only one side has."""
    keys: list[dict[str, str]] = [
        {str(part.head.get("key")): str(part.head.get("title", "")) for part in side} for side in (a, b)
    ]
    return [
        f"Only in {letter}: {title}."
        for letter, own, other in (("A", keys[0], keys[1]), ("B", keys[1], keys[0]))
        for key, title in own.items()
        if key not in other
    ]


def _attention(a: Spec, b: Spec) -> Spec | None:
    """A - B of each map, over the rows and columns that both have."""
    seqs: list[JsonObject] = []
    maps: list[JsonObject] = []
    blocks: dict[str, np.ndarray] = {}
    count = min(len(a.head["seqs"]), len(b.head["seqs"]))
    for one, other in zip(a.head["seqs"], b.head["seqs"]):
        sizes = {name: min(one[name], other[name]) for name in ("row_len", "col_len")}
        rows, cols = (
            _both(one[name], other[name], sizes[size]) for name, size in (("rows", "row_len"), ("cols", "col_len"))
        )
        seqs.append({"label": one["label"], "rows": rows, "cols": cols, **sizes})
    known = {_place(entry): entry for entry in b.head["maps"]}
    most = 0.0
    for entry in a.head["maps"]:
        other = known.get(_place(entry))
        if other is None or entry["seqs"] != other["seqs"]:
            continue
        chosen = [index for index, seq in enumerate(entry["seqs"]) if seq < count]
        values = _minus(a.blocks[entry["block"]][chosen], b.blocks[other["block"]][chosen])
        numbers = [entry["seqs"][index] for index in chosen]
        for index, seq in enumerate(numbers):
            values[index, seqs[seq]["row_len"] :] = values[index, :, seqs[seq]["col_len"] :] = np.nan
        most = max(most, max(map(abs, bounds(values))))
        name = f"map{len(maps)}"
        blocks[name] = values
        kept: JsonObject = {field: value for field, value in entry.items() if field not in (*_OF_A_SLOT, "mask")}
        maps.append({**kept, "block": name, "seqs": numbers})
    if not maps:
        return None
    dropped = ("badges", "looks", "remark", "thinned", "causal", "focus")
    head = {field: value for field, value in a.head.items() if field not in dropped}
    head |= {"title": _title(a, most), "seqs": seqs, "maps": maps, "range": _scale(most)}
    return Spec("attention", {**head, "signed": True, **_said(most)}, blocks)


def _states(a: Spec, b: Spec) -> Spec | None:
    """A - B of each track, over the steps that both have."""
    seqs = [
        {
            "label": one["label"],
            "len": (size := min(one["len"], other["len"])),
            "steps": _both(one["steps"], other["steps"], size),
        }
        for one, other in zip(a.head["seqs"], b.head["seqs"])
    ]
    known = {track["label"]: track for track in b.head["tracks"]}
    tracks: list[JsonObject] = []
    blocks: dict[str, np.ndarray] = {}
    every = 0.0
    for track in a.head["tracks"]:
        other = known.get(track["label"])
        one = a.blocks[track["block"]]
        if other is None or one.shape[2] != b.blocks[other["block"]].shape[2]:
            continue
        values = _minus(one[: len(seqs)], b.blocks[other["block"]][: len(seqs)])
        for index, seq in enumerate(seqs):
            values[index, seq["len"] :] = np.nan
        most = max(map(abs, bounds(values)))
        every = max(every, most)
        name = f"track{len(tracks)}"
        blocks[name] = values
        entry = {"label": track["label"], "unit_dim": track["unit_dim"], "block": name, "gate": False}
        tracks.append({**entry, "range": [-(most or 1.0), most or 1.0]})
    if not tracks:
        return None
    kept: JsonObject = {
        field: a.head[field] for field in ("live", "step_dim", "axis", "batch", "key", "link") if field in a.head
    }
    head = {**kept, "title": _title(a, every), "tracks": tracks, "seqs": seqs, "orders": [], **_said(every)}
    return Spec("states", head, blocks)


def _minus(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a - b where both have values; NaN elsewhere."""
    full = together([a[None], b[None]], np.nan)
    with np.errstate(invalid="ignore", over="ignore"):
        made = full[0] - full[1]
    made[(full[0] == full[1]) & np.isinf(full[0])] = 0  # equal infinities do not differ
    return made


def _most(made: Spec) -> float:
    """The upper end of the scale of a difference: its magnitude."""
    ranges = [entry["range"] for entry in (made.head, *made.head.get("tracks", [])) if "range" in entry]
    return float(max((high for _, high in ranges), default=0.0))


def _title(a: Spec, most: float) -> str:
    return f"{a.head.get('title', '')}{', A − B' if most else ': the same in A and B'}"


def _scale(most: float) -> list[float]:
    """Both ends of a scale, with two digits: -0.99997 is not a readable label."""
    if not most:
        return [-1.0, 1.0]
    step = 10.0 ** (math.floor(math.log10(most)) - 1)
    end = float(f"{math.ceil(most / step * (1 - 1e-9)) * step:.6g}")
    return [-end, end]


def _said(most: float) -> JsonObject:
    return (
        {"remark": f"{_SIGNS} The largest difference is {significant(most, 3)}."}
        if most
        else {"remark": SAME, "same": True}
    )


def _both(a: Sequence[str], b: Sequence[str], count: int) -> list[str]:
    """The labels of both, separated by a bar where they differ."""
    return [one if one == other else f"{one}|{other}" for one, other in zip(a[:count], b[:count])]


def _place(entry: Mapping[str, Any]) -> Any:
    return entry.get("label"), tuple(entry.get("at") or ()), entry.get("step")


_SAME = ("tokens", "parents", "ended", "scores")  # as stored, with five digits
_FILL: JsonObject = {
    "tokens": "", "parents": 0, "scores": None, "ended": False, "states": None, "left": False, "ends": 0.0,
}  # fmt: skip
_STATES = ("dead", "dropped", "carried", "alive", "ended")  # a node in both arms gets the better of the two


def merged(a: Mapping[str, Any], b: Mapping[str, Any], names: Sequence[str]) -> JsonObject:
    """The head of a `beams` spec with two searches in one, sequence by sequence."""
    seqs = [_merged(one, other, names) for one, other in zip(a["seqs"], b["seqs"])]
    most = max(len(a["seqs"]), len(b["seqs"]))
    said = [] if len(seqs) == most else [f"Only {len(seqs)} of {most} sequences are in both searches."]
    said += [] if any("arms" in seq for seq in seqs) or not seqs else ["Both searches are the same."]
    head = {**a, "seqs": seqs, "live": bool(a.get("live") or b.get("live"))}
    head.pop("remark", None)
    return head | ({"remark": " ".join(said)} if said else {})


def parting(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> int | None:
    """The first step in which two searches keep different hypotheses or scores, or None."""
    for index, (one, other) in enumerate(zip(a, b)):
        if any(one[name] != other[name] for name in _SAME):
            return index
    return min(len(a), len(b)) if len(a) != len(b) else None


def _merged(a: Mapping[str, Any], b: Mapping[str, Any], names: Sequence[str]) -> JsonObject:
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


def _plain(seq: Mapping[str, Any]) -> JsonObject:
    """A sequence without fields about one search: the reference, smaller beams."""
    steps = [{name: value for name, value in step.items() if name != "inside"} for step in seq["steps"]]
    return {**{name: value for name, value in seq.items() if name not in ("reference", "smaller")}, "steps": steps}


def _trunk(a: Mapping[str, Any], b: Mapping[str, Any]) -> JsonObject:
    """A step that both share: each hypothesis gets the better of its two states."""
    states = [
        max(filter(None, pair), key=_STATES.index, default=None)
        for pair in zip(a.get("states") or [], b.get("states") or [])
    ]
    return {**a, **({"states": states} if states else {})}


def _arms(sides: Sequence[Mapping[str, Any]], split: int, apart: bool, parts: bool) -> JsonObject:
    """A step of two arms: the slots of A, padded to `split`, then those of B.

    Args:
        apart: Whether the previous step also has two arms.
    """
    a, b = sides
    count = len(b.get("tokens", ()))
    before = split if apart else 0
    step: JsonObject = {}
    for name, fill in _FILL.items():
        if any(name in side for side in sides) or name in ("tokens", "parents", "scores", "ended"):
            own, other = (list(side.get(name) or [fill] * len(side.get("tokens", ()))) for side in sides)
            moved = [parent + before for parent in other] if name == "parents" else other
            step[name] = own + [fill] * (split - len(own)) + moved
    if parts:
        numbers = max(len(side.get("parts") or ()) for side in sides)
        step["parts"] = [[*_row(a, index, split), *_row(b, index, count)] for index in range(numbers)]
    tags = ("", "") if apart else ("A", "B")  # before they diverge, both have the same parents
    cuts = [_moved_cuts(a, 0, 0, tags[0]), _moved_cuts(b, before, split, tags[1])]
    longest = max(map(len, cuts))
    step["cuts"] = [side[index] for index in range(longest) for side in cuts if index < len(side)]
    if any(side.get("by_rank") is False for side in sides):
        step["by_rank"] = False
    nexts = [_next(a, 0, split if apart else None), _next(b, before, count if apart else None)]
    following = nexts[0] | nexts[1]
    if not apart:  # both have the same parents, so fields of one arm have no unique key
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


def _moved_cuts(side: Mapping[str, Any], before: int, here: int, tag: str) -> list[JsonObject]:
    return [
        {
            **cut,
            "parent": cut["parent"] + before,
            **({"into": cut["into"] + here} if "into" in cut else {}),
            **({"arm": tag} if tag else {}),
        }
        for cut in side.get("cuts") or []
    ]


def _next(side: Mapping[str, Any], before: int, slots: int | None) -> JsonObject:
    """The best labels by slot of the previous step; those of "all" are expanded to the slots of the arm."""
    found = side.get("next") or {}
    if "all" in found and slots is not None:
        return {str(slot + before): found["all"] for slot in range(slots)}
    return {key if key == "all" else str(int(key) + before): value for key, value in found.items()}
