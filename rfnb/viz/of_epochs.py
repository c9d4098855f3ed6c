"""The views of one example that was recorded again and again: attention with a slider, outputs and states with a sequence per epoch."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.trace.training import ExampleRecording
from rfnb.viz import of_trace
from rfnb.viz.attention import badges
from rfnb.viz.attention.maps import finished, index_of
from rfnb.viz.group.spec import parts_of
from rfnb.viz.spec import Spec

_MOST_PARTS, _MOST_SEQS = 6, 48
_KINDS = ("attention", "outputs", "states")
_ONE = ("col_axis", "axis", "batch", "key", "link")  # of one recording; the whole is linked with nothing else


class Epochs:
    """Makes the views. What a recording shows does not change, so it is made once, and kept as long as the recording."""

    def __init__(self) -> None:
        self._made: weakref.WeakKeyDictionary[Any, list[Spec]] = weakref.WeakKeyDictionary()

    def parts(self, examples: Sequence[ExampleRecording], every: str, live: bool) -> list[Spec]:
        """The views of all examples, by what they are of."""
        by_title: dict[tuple[str, str], list[tuple[str, Spec]]] = {}
        for one in examples:
            for part in self._of(one.trace):
                by_title.setdefault((part.kind, str(part.head["title"])), []).append((one.label, part))
        return [
            made
            for (kind, _), given in list(by_title.items())[:_MOST_PARTS]
            if (made := _JOINED[kind](given, every, live)) is not None
        ]

    def _of(self, trace: Any) -> list[Spec]:
        if trace not in self._made:
            whole = of_trace.spec(trace, kinds=_KINDS, live=False)
            self._made[trace] = [part for part in parts_of(whole) if part.kind in _JOINED and "fault" not in part.head]
        return self._made[trace]


def _attention(given: list[tuple[str, Spec]], every: str, live: bool) -> Spec | None:
    """The maps of all recordings in one view, each recording a place of the slider."""
    seqs: list[dict[str, Any]] = []
    layers: list[str] = []
    heads: list[str] = []
    maps: list[dict[str, Any]] = []
    blocks: dict[str, np.ndarray] = {}
    found: list[np.ndarray] = []
    for step, (_, part) in enumerate(given):
        head = part.head
        none = np.full((len(head["maps"]), len(head["seqs"]), len(badges.NAMES)), np.nan)
        found += list(part.blocks.get("badges", none))
        blocks |= {f"{step}.{name}": block for name, block in part.blocks.items() if name != "badges"}
        numbers = []
        for seq in head["seqs"]:
            if seq not in seqs:
                seqs.append(seq)
            numbers.append(seqs.index(seq))
        for entry in head["maps"]:
            layer, which = entry["at"]
            at = [index_of(layers, head["layers"][layer]), index_of(heads, head["heads"][which])]
            own = {name: f"{step}.{entry[name]}" for name in ("block", "mask", "slots") if name in entry}
            maps.append({**entry, **own, "at": at, "step": step, "seqs": [numbers[index] for index in entry["seqs"]]})
    last = {name: value for name, value in given[-1][1].head.items() if name not in (*_ONE, "looks", "badges")}
    head = {
        **last, "live": live, "layers": layers, "heads": heads, "maps": maps, "seqs": seqs,
        "slider": {"name": every, "labels": [label for label, _ in given]},
    }  # fmt: skip
    return finished(head, blocks, found)


def _rows(given: list[tuple[str, Spec]], every: str) -> list[tuple[str, Spec, list[int]]]:
    """The sequences that are shown of each recording: of many recordings the first sequences, of all the same ones."""
    most = max(1, _MOST_SEQS // len(given))
    return [(f"{every} {label}", part, list(range(min(most, len(part.head["seqs"]))))) for label, part in given]


def _labels(rows: list[tuple[str, Spec, list[int]]]) -> list[dict[str, Any]]:
    """The entries of all sequences, their epoch in their name; the newest first, which a page opens with."""
    return [
        {**part.head["seqs"][index], "label": f"{name}: {part.head['seqs'][index]['label']}"}
        for name, part, indices in rows
        for index in indices
    ]


def _padded(arrays: list[np.ndarray], fill: float) -> np.ndarray:
    """Arrays [seq, ...] of different sizes as one, their sequences after each other."""
    shape = np.max([array.shape[1:] for array in arrays], axis=0)
    out = np.full((sum(map(len, arrays)), *shape), fill, arrays[0].dtype)
    start = 0
    for array in arrays:
        out[(slice(start, start + len(array)), *(slice(size) for size in array.shape[1:]))] = array
        start += len(array)
    return out


def _outputs(given: list[tuple[str, Spec]], every: str, live: bool) -> Spec | None:
    """The outputs of all recordings as sequences of one view, the newest first."""
    rows = _rows([(label, part) for label, part in reversed(given) if part.head["seqs"]], every)
    if not rows:
        return None
    names = [name for name in rows[0][1].blocks if all(name in part.blocks for _, part, _ in rows)]
    blocks = {
        name: _padded(
            [part.blocks[name][indices] for _, part, indices in rows], -1 if name in ("top", "reference") else 0
        )
        for name in names
    }
    tokens = {index: token for _, part, _ in rows for index, token in part.head["tokens"].items()}
    head = {name: value for name, value in rows[0][1].head.items() if name not in _ONE}
    return Spec("distribution", {**head, "live": live, "tokens": tokens, "seqs": _labels(rows)}, blocks)


def _states(given: list[tuple[str, Spec]], every: str, live: bool) -> Spec | None:
    """The states of all recordings as sequences of one view, the newest first."""
    rows = _rows([(label, part) for label, part in reversed(given) if part.head["tracks"]], every)
    if not rows:
        return None
    first = rows[0][1].head
    same = [
        row
        for row in rows
        if [track["label"] for track in row[1].head["tracks"]] == [t["label"] for t in first["tracks"]]
    ]
    tracks, blocks = [], {}
    for index, track in enumerate(first["tracks"]):
        own = [(part, part.head["tracks"][index], indices) for _, part, indices in same]
        blocks[track["block"]] = _padded([part.blocks[each["block"]][at] for part, each, at in own], 0)
        for what in ("units", "steps"):
            if all(f"{each['block']}/{what}" in part.blocks for part, each, _ in own):
                blocks[f"{track['block']}/{what}"] = _padded(
                    [part.blocks[f"{each['block']}/{what}"][at] for part, each, at in own], 0
                )
        ranges = [each["range"] for _, each, _ in own]
        entry = {
            name: value for name, value in track.items() if name not in ("notes", "says", "slots", "before", "held")
        }
        entry["range"] = [min(low for low, _ in ranges), max(high for _, high in ranges)]
        for what in ("notes", "says"):
            said: dict[str, Any] = {}
            start = 0
            for _, each, at in own:
                said |= {str(start + seq): each[what][str(seq)] for seq in at if str(seq) in each.get(what, {})}
                start += len(at)
            if said:
                entry[what] = said
        tracks.append(entry)
    head = {name: value for name, value in first.items() if name not in (*_ONE, "best", "slots_of_best", "hands")}
    return Spec("states", {**head, "live": live, "orders": [], "tracks": tracks, "seqs": _labels(same)}, blocks)


_JOINED = {"attention": _attention, "distribution": _outputs, "states": _states}
