"""The views of two runs side by side: of both searches one, of attention and states each side and their difference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.viz.beams.arms import merged
from rfnb.viz.group.spec import parts_of
from rfnb.viz.hypotheses import without_slots
from rfnb.viz.of_trace import spec as trace_spec
from rfnb.viz.pool import bounds, together
from rfnb.viz.rounding import significant
from rfnb.viz.spec import Spec

KINDS = ("beams", "attention", "states")
_OPEN = 2  # views of both that fit on a screen, the search and what it looked at; the rest unfolds
SAME = "A and B are the same wherever both have something."
_SIGNS = "Above 0: more in A; below 0: more in B."
_OF_A_SLOT = ("slots", "before", "notes", "remark", "sums")


def sides_of(trace: Any) -> list[Spec]:
    """The views of a recording that can be compared, by `head.key`."""
    parts = parts_of(trace_spec(trace, live=False))
    return [_best_alone(part) for part in parts if part.kind in KINDS and not part.head.get("fault")]


def _best_alone(part: Spec) -> Spec:
    """The view without slots: those of two searches in one picture are no slots of either."""
    entries = [(name, part.head[name]) for name in ("maps", "tracks") if name in part.head]
    bare: dict[str, Any] = {
        name: [{key: value for key, value in entry.items() if key not in ("slots", "before")} for entry in listed]
        for name, listed in entries
    }
    return Spec(part.kind, {**part.head, **bare}, without_slots(part).blocks)


def of_both(a: Sequence[Spec], b: Sequence[Spec], names: Sequence[str]) -> list[Spec]:
    """The views of both sides in one, as they stand below each other: searches in one picture, of attention and states A - B.

    Of a kind what differs most comes first, what is the same in both at the end of all; `folded` is what is not in sight at first.
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
    """A - B of each map: the rows and columns that both have."""
    seqs: list[dict[str, Any]] = []
    maps: list[dict[str, Any]] = []
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
        kept: dict[str, Any] = {field: value for field, value in entry.items() if field not in (*_OF_A_SLOT, "mask")}
        maps.append({**kept, "block": name, "seqs": numbers})
    if not maps:
        return None
    dropped = ("badges", "looks", "remark", "thinned", "causal", "focus")
    head = {field: value for field, value in a.head.items() if field not in dropped}
    head |= {"title": _title(a, most), "seqs": seqs, "maps": maps, "range": _scale(most)}
    return Spec("attention", {**head, "signed": True, **_said(most)}, blocks)


def _states(a: Spec, b: Spec) -> Spec | None:
    """A - B of each track, in the steps that both have."""
    seqs = [
        {
            "label": one["label"],
            "len": (size := min(one["len"], other["len"])),
            "steps": _both(one["steps"], other["steps"], size),
        }
        for one, other in zip(a.head["seqs"], b.head["seqs"])
    ]
    known = {track["label"]: track for track in b.head["tracks"]}
    tracks: list[dict[str, Any]] = []
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
    kept: dict[str, Any] = {
        field: a.head[field] for field in ("live", "step_dim", "axis", "batch", "key", "link") if field in a.head
    }
    head = {**kept, "title": _title(a, every), "tracks": tracks, "seqs": seqs, "orders": [], **_said(every)}
    return Spec("states", head, blocks)


def _minus(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a - b where both have something; NaN elsewhere."""
    full = together([a[None], b[None]], np.nan)
    with np.errstate(invalid="ignore", over="ignore"):
        made = full[0] - full[1]
    made[(full[0] == full[1]) & np.isinf(full[0])] = 0  # equal infinities are no difference
    return made


def _most(made: Spec) -> float:
    """The end of the scale of a difference: how much there is to it."""
    ranges = [entry["range"] for entry in (made.head, *made.head.get("tracks", [])) if "range" in entry]
    return float(max((high for _, high in ranges), default=0.0))


def _title(a: Spec, most: float) -> str:
    return f"{a.head.get('title', '')}{', A − B' if most else ': the same in A and B'}"


def _scale(most: float) -> list[float]:
    """Both ends of a scale, with two digits: -0.99997 is no number for a ramp."""
    if not most:
        return [-1.0, 1.0]
    step = 10.0 ** (math.floor(math.log10(most)) - 1)
    end = float(f"{math.ceil(most / step * (1 - 1e-9)) * step:.6g}")
    return [-end, end]


def _said(most: float) -> dict[str, Any]:
    return (
        {"remark": f"{_SIGNS} The largest difference is {significant(most, 3)}."}
        if most
        else {"remark": SAME, "same": True}
    )


def _both(a: Sequence[str], b: Sequence[str], count: int) -> list[str]:
    """The labels of both, where they differ with a bar between."""
    return [one if one == other else f"{one}|{other}" for one, other in zip(a[:count], b[:count])]


def _place(entry: Mapping[str, Any]) -> Any:
    return entry.get("label"), tuple(entry.get("at") or ()), entry.get("step")
