"""The view of a training: its curves, the statistics of its modules, and the same example over time.

rf.show(watch)                                  # a result of rf.watch(model, optimizer); live while the training runs
rf.show(watch, path="encoder.layers.0.*")       # the norms and activations of each of these modules
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rfnb.core.strict_json import JsonObject
from rfnb.trace.match import path_filter
from rfnb.trace.training import ExampleRecording, Training, TrainingTable
from rfnb.viz import trace_page
from rfnb.viz.attention import badges
from rfnb.viz.attention.maps import finished, index_of
from rfnb.viz.curves.spec import is_logarithmic
from rfnb.viz.curves.spec import spec as curves_spec
from rfnb.viz.group import spec as group
from rfnb.viz.group.spec import parts_of
from rfnb.viz.pool import together
from rfnb.viz.spec import Spec

_MOST_LINES, _MOST_GROUPS = (
    8,
    40,
)  # maximal number of modules as distinguishable lines in one panel, and as rows of a strip
_LOG = ("gradient norm", "update ratio")
_SHOWN = {
    "gradient norm": "gradient norm",
    "update ratio": "update ratio",
    "mean": "output mean",
    "std": "output std",
    "zeros": "output zeros",
    "saturated": "output saturated",
    "dead units": "dead units",
}
_SHARES = ("zeros", "saturated", "dead units")  # omitted if all are 0


Labelled = list[tuple[str, Spec]]  # the views of one subject, by example


def spec(
    training: Training,
    *,
    path: str | Sequence[str] | None = None,
    live: bool | None = None,
    title: str | None = None,
    epochs: Epochs | None = None,
) -> Spec:
    """The spec of the record of a training.

    Args:
        training: A result of `rf.watch`, or a loaded one.
        path: Only these modules: one or several patterns ("encoder.*") or suffixes. Default: all, in groups.
        live: Whether more data may arrive. Default: until it is closed.
        epochs: A cache that makes the views of the example, for repeated drawing.
    """
    running = not training.closed if live is None else live
    with training.lock:
        parts = [_curves(training, path, running)]
        examples, said = list(training.examples), training.says[-1:]
    parts += (epochs or Epochs()).parts(examples, training.every, running)
    head = title if title is not None else training.title
    made = group.spec(parts, title=head, live=running, link=f"training {id(training)}")
    remark = " ".join(f"Update {step}: {sentence}" for step, sentence in said)
    return Spec(made.kind, {**made.head, "remark": remark}, made.blocks, made.codes) if remark else made


def _curves(training: Training, path: Any, live: bool) -> Spec:
    """All curves over one axis of updates: the logged values, then the statistics of modules."""
    series = {  # logged values first
        name: (np.array(curve.steps, np.int64), np.array(curve.values))
        for name, curve in sorted(training.curves.items(), key=lambda item: _rank(item[0]))
    }
    log = [name for name, (_, values) in series.items() if "norm" in name or is_logarithmic(values)]
    made = curves_spec(series, x="update", log=log, title="Training", live=live)
    modules = _modules(training, path, live)
    if modules is None:
        return made
    own = {name: f"{name} of modules" for name in modules.blocks}
    entries = [
        {**entry, "x": own[entry["x"]], "y": own[entry["y"]], **_style(entry, modules)}
        for entry in modules.head["series"]
    ]
    blocks = made.blocks | {own[name]: block for name, block in modules.blocks.items()}
    head = {**made.head, "series": [*made.head["series"], *entries], "runs": modules.head["runs"]}
    return Spec("curves", head, blocks)


def _style(entry: JsonObject, of: Spec) -> JsonObject:
    """The fields for how a module is drawn: as a row of a strip if there are many, with no line across updates that were not recorded."""
    at = of.blocks[entry["x"]]
    gap = max(3 * float(np.median(np.diff(at))), float(at[-1] - at[0]) / 5) if len(at) > 1 else 0.0
    many = sum(other["label"] == entry["label"] for other in of.head["series"]) > _MOST_LINES
    return {"gap": gap} | ({"strip": True} if many else {})


def _rank(name: str) -> int:
    return 0 if "loss" in name else 2 if "gradient norm" in name else 3 if "lr" in name.replace(",", " ").split() else 1


def _modules(training: Training, path: Any, live: bool) -> Spec | None:
    """The curves of modules, as runs: one panel per statistic. None without any."""
    tables = training.tables
    series: dict[str, JsonObject] = {}
    order = {path: number for number, path in enumerate(training.types)}
    place: dict[str, int] = {}  # position of a module in the model
    for what, title in _SHOWN.items():
        for (stat, optimizer), table in tables.items():
            weights = tables.get(("weight norm", optimizer))
            for name, columns in groups_of(table.columns, path) if stat == what else ():
                of = training.types.get("" if name == "model" else name)
                label = " ".join(filter(None, [optimizer and f"{optimizer}:", name, of]))
                steps, values = _line(stat, table, columns, weights)
                if len(steps) and (stat not in _SHARES or values.any()):
                    series.setdefault(label, {})[title] = (steps, values)
                    place[label] = order.get(name.split(" to ")[0], len(order))
    if not series:
        return None
    series = dict(sorted(series.items(), key=lambda item: place[item[0]]))
    labels = {title for of in series.values() for title in of}
    log = [title for stat, title in _SHOWN.items() if stat in _LOG and title in labels]
    return curves_spec(series, x="update", log=log, best=dict.fromkeys(labels), live=live)


def groups_of(columns: Sequence[str], path: Any = None) -> list[tuple[str, list[int]]]:
    """Groups of modules that share a line: those in the same part of the model, or each selected module on its own."""
    if path is not None:
        wanted = path_filter(path)
        return [(name or "model", [index]) for index, name in enumerate(columns) if wanted(name, name)]
    found: dict[str, list[int]] = {}
    for depth in range(1, 1 + max((name.count(".") + 1 for name in columns), default=0)):
        finer: dict[str, list[int]] = {}
        for index, name in enumerate(columns):
            finer.setdefault(".".join(name.split(".")[:depth]), []).append(index)
        if found and len(finer) > _MOST_GROUPS:
            break
        found = finer
    if len(found) > _MOST_GROUPS:  # too many to show side by side: merge contiguous groups, in order
        names = list(found)
        ends = np.linspace(0, len(names), _MOST_GROUPS + 1).round().astype(int)
        spans = [names[start:end] for start, end in zip(ends, ends[1:])]
        found = {_span(span): [index for name in span for index in found[name]] for span in spans}
    return [(name or "model", indices) for name, indices in found.items()]


def _span(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def _line(
    stat: str, table: TrainingTable, columns: Iterable[int], weights: TrainingTable | None
) -> tuple[np.ndarray, np.ndarray]:
    """Combine the values of several modules: joint norm for norms, average for fractions and means, maximum for maxima."""
    columns = list(columns)
    steps, part = np.array(table.steps, np.int64), table.array()[:, columns].astype(np.float64)
    if stat in ("gradient norm", "weight norm"):
        there = (part >= 0) | np.isnan(part)
        values = np.sqrt((np.where(there, part, 0) ** 2).sum(1))
        keep = there.any(1)
        return steps[keep], values[keep]
    if stat == "update ratio":
        return _ratios(steps, part, columns, weights)
    known = np.isfinite(part)
    keep = known.any(1)
    with np.errstate(invalid="ignore"):
        values = np.where(known, part, 0).sum(1) / known.sum(1)
    return steps[keep], values[keep]


def _ratios(
    steps: np.ndarray, part: np.ndarray, columns: list[int], weights: TrainingTable | None
) -> tuple[np.ndarray, np.ndarray]:
    """The joint norm of all updates divided by that of the weights."""
    there = (part >= 0) | np.isnan(part)
    keep = there.any(1)
    if len(columns) == 1 or weights is None or weights.steps != steps.tolist():
        count = np.maximum(there.sum(1), 1)
        return steps[keep], (np.where(there, part, 0).sum(1) / count)[keep]
    norms = np.where(there, weights.array()[:, columns].astype(np.float64), 0)
    moved = np.sqrt(((np.where(there, part, 0) * norms) ** 2).sum(1))
    with np.errstate(invalid="ignore", divide="ignore"):
        values = moved / np.sqrt((norms**2).sum(1))
    return steps[keep], values[keep]


_MOST_PARTS, _MOST_SEQS = 6, 48
_KINDS = ("attention", "outputs", "states")
_ONE = (
    "col_axis",
    "axis",
    "batch",
    "key",
    "link",
)  # fields of a single recording; the combination is linked to nothing else


class Epochs:
    """Makes and caches the views: those of a recording do not change."""

    def __init__(self) -> None:
        self._made: weakref.WeakKeyDictionary[Any, list[Spec]] = weakref.WeakKeyDictionary()

    def parts(self, examples: Sequence[ExampleRecording], every: str, live: bool) -> list[Spec]:
        """The views of all examples, by subject."""
        by_title: dict[tuple[str, str], Labelled] = {}
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
            whole = trace_page.spec(trace, kinds=_KINDS, live=False)
            self._made[trace] = [part for part in parts_of(whole) if part.kind in _JOINED and "fault" not in part.head]
        return self._made[trace]


def _attention(given: Labelled, every: str, live: bool) -> Spec | None:
    """The maps of all recordings in one view, with each recording at a slider position."""
    seqs: list[JsonObject] = []
    layers: list[str] = []
    heads: list[str] = []
    maps: list[JsonObject] = []
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


def _rows(given: Labelled, every: str) -> list[tuple[str, Spec, list[int]]]:
    """The sequences shown from each recording: if there are many recordings only the first sequences, the same from each."""
    most = max(1, _MOST_SEQS // len(given))
    return [(f"{every} {label}", part, list(range(min(most, len(part.head["seqs"]))))) for label, part in given]


def _labels(rows: list[tuple[str, Spec, list[int]]]) -> list[JsonObject]:
    """The entries of all sequences, with the epoch in their names; newest first, which a page opens with."""
    return [
        {**part.head["seqs"][index], "label": f"{name}: {part.head['seqs'][index]['label']}"}
        for name, part, indices in rows
        for index in indices
    ]


def _outputs(given: Labelled, every: str, live: bool) -> Spec | None:
    """The outputs of all recordings as sequences of one view, newest first."""
    rows = _rows([(label, part) for label, part in reversed(given) if part.head["seqs"]], every)
    if not rows:
        return None
    names = [name for name in rows[0][1].blocks if all(name in part.blocks for _, part, _ in rows)]
    blocks = {
        name: together(
            [part.blocks[name][indices] for _, part, indices in rows], -1 if name in ("top", "reference") else 0
        )
        for name in names
    }
    tokens = {index: token for _, part, _ in rows for index, token in part.head["tokens"].items()}
    head = {name: value for name, value in rows[0][1].head.items() if name not in _ONE}
    return Spec("distribution", {**head, "live": live, "tokens": tokens, "seqs": _labels(rows)}, blocks)


def _states(given: Labelled, every: str, live: bool) -> Spec | None:
    """The states of all recordings as sequences of one view, newest first."""
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
        blocks[track["block"]] = together([part.blocks[each["block"]][at] for part, each, at in own])
        for what in ("units", "steps"):
            if all(f"{each['block']}/{what}" in part.blocks for part, each, _ in own):
                blocks[f"{track['block']}/{what}"] = together(
                    [part.blocks[f"{each['block']}/{what}"][at] for part, each, at in own]
                )
        ranges = [each["range"] for _, each, _ in own]
        entry = {
            name: value for name, value in track.items() if name not in ("notes", "says", "slots", "before", "held")
        }
        entry["range"] = [min(low for low, _ in ranges), max(high for _, high in ranges)]
        for what in ("notes", "says"):
            said: JsonObject = {}
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
