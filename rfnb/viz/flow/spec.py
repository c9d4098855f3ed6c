"""The `flow` view: how dims flow through the calls of a model. A dim is a line; the calls of modules and ops are its stations.

    with rf.record(ops=True) as trace:
        model(x)
    rf.viz.flow(trace)

A line begins at the call that makes its dim, and ends at the last call that takes it. Similar calls are combined, "×
12"; a box with calls inside opens. Without `ops=True` the data flow is unknown: a line then connects each call that has
the dim to the next one, and the view says so.

The spec: `head = {title, live, dims: [dim entry + mark], legend, levels: [{label, up, stations, graph}], remark}`; the
first level is the whole model, each other one is the inside of a station of the level `up`. A station is `{id, shape,
label, module, path, count, takes, gives, makes,
ends, reads, opens, raised, chained, change, words}`: dims by id, `reads` the sources of its lines, `opens` the level
that shows its inside. `graph` is the layout (`viz/parts/graph.py`), by Graphviz `dot` if that is installed. There are
no blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rfnb.core.errors import type_error
from rfnb.core.strict_json import JsonObject
from rfnb.viz.dims.entries import Entries
from rfnb.viz.dims.table import names_of, sizes_of
from rfnb.viz.drawing.labels import short
from rfnb.viz.drawing.theme import HUES
from rfnb.viz.flow.calls import Flow, FlowCall, flow_of
from rfnb.viz.flow.layout import layouts
from rfnb.viz.flow.stations import Scene, Station, dims_of, scene_of
from rfnb.viz.spec import Spec

MOST_LEVELS, MOST_STATIONS = 60, 600  # over all pictures of a view
_IN_ORDER = "The data flow was not recorded: a line connects each call that has its dim to the next one. rf.record(ops=True) records it."


def spec(trace: Any, *, title: str | None = None, live: bool = False, dot: bool | None = None) -> Spec:
    """The spec of the flow of dims through the calls in a trace.

    Args:
        trace: A Trace, ideally of `rf.record(ops=True)`, or a list of its events.
        title: Default: the name of the model.
        live: Whether more data may arrive.
        dot: Whether to use Graphviz `dot` for the layout. Default: if it is installed.

    Raises:
        TypeError: If it is not a trace.
    """
    flow = flow_of(_events(trace))
    known = Entries()
    levels = _Levels(flow, known).levels
    for level in levels:
        for station in level["stations"]:
            station["reads"] = list(
                dict.fromkeys(edge["from"] for edge in level["edges"] if edge["to"] == station["id"])
            )
    marks = marks_of(known.entries)
    names = names_of(known.entries)
    text = sizes_of(known.entries)
    for level in levels:
        for station in level["stations"]:
            station["change"] = change_of(station, names)
            station["words"] = words_of(station, text)
    graphs = layouts(levels, known.entries, marks, dot=dot)
    kept = ("label", "up", "stations")
    head: JsonObject = {
        "title": title or _title(flow),
        "live": live,
        "dims": [{**entry, "mark": marks[entry["id"]]} for entry in known.entries],
        "legend": legend_of(known.entries, text, marks),
        "levels": [{**{name: level[name] for name in kept}, "graph": graph} for level, graph in zip(levels, graphs)],
        "remark": "" if flow.known or not flow.calls else _IN_ORDER,
    }
    return Spec("flow", head)


def _events(trace: Any) -> list[Any]:
    events = getattr(trace, "events", trace)
    if isinstance(events, Iterable) and not isinstance(events, (str, bytes)) and not hasattr(events, "dims"):
        events = list(events)
        if all(hasattr(event, "kind") and hasattr(event, "values") for event in events):
            return events
    raise type_error(
        "flow: this is not a recording.",
        {"given": type(trace).__name__},
        "The view draws the calls made during a recording:",
        "with rf.record(ops=True) as trace:\n    model(x)\nrf.viz.flow(trace)",
    )


def _title(flow: Flow) -> str:
    modules = [call.module for call in flow.calls if call.module]
    return f"Flow of dims through {modules[0] if len(set(modules)) == 1 else 'the calls'}"


class _Levels:
    """Collects the levels: the whole first, then the insides of its stations, and so on."""

    def __init__(self, flow: Flow, dims: Entries):
        self._flow, self._dims = flow, dims
        self._scenes: dict[FlowCall | None, Scene] = {}
        self.levels: list[JsonObject] = []
        self._todo: list[tuple[FlowCall | None, str, int | None, JsonObject | None]] = []
        self._room = MOST_STATIONS
        self._todo.append((self._top(), "all", None, None))
        at = 0
        while at < len(self._todo):
            self._add(*self._todo[at])
            at += 1

    def _scene(self, call: FlowCall | None) -> Scene:
        if call not in self._scenes:
            self._scenes[call] = scene_of(self._flow, call)
        return self._scenes[call]

    def _calls(self, call: FlowCall | None) -> list[Station]:
        return [station for station in self._scene(call).stations if station.shape == "op"]

    def _top(self) -> FlowCall | None:
        """The single outermost call of the recording; None if there are several."""
        top: FlowCall | None = None
        while len(inner := self._calls(top)) == 1 and len(inner[0].calls) == 1 and self._calls(inner[0].calls[0]):
            top = inner[0].calls[0]
        return top

    def _inmost(self, call: FlowCall) -> tuple[FlowCall, int, bool]:
        """The call, or the innermost one in a chain of single calls; the number of repetitions, and whether they are chained."""
        count, chained = 1, False
        while len(inner := self._calls(call)) == 1 and inner[0].calls[0].parts:
            call, count, chained = inner[0].shown, count * len(inner[0].calls), chained or inner[0].chained
        return call, count, chained

    def _add(self, call: FlowCall | None, label: str, up: int | None, door: JsonObject | None) -> None:
        scene = self._scene(call)
        if door is not None and (len(self.levels) >= MOST_LEVELS or len(scene.stations) > self._room):
            return
        number = len(self.levels)
        self._room -= len(scene.stations)
        if door is not None:
            door["opens"] = number
        ids = {station: f"s{index}" for index, station in enumerate(scene.stations)}
        stations = [self._station(station, ids[station], number, scene) for station in scene.stations]
        edges = [
            {"from": ids[high], "to": ids[low], "dims": sorted(map(self._dims.id_of, dims))}
            for (high, low), dims in scene.lines.items()
        ]
        self.levels.append({"label": label, "up": up, "stations": stations, "edges": edges})

    def _station(self, station: Station, id_: str, level: int, scene: Scene) -> JsonObject:
        made: JsonObject = {"id": id_, "shape": station.shape, "label": station.label, "module": "", "count": 1}
        made |= {"opens": None, "raised": "", "chained": station.chained}
        if station.shape != "op":
            dims = [self._dims.id_of(dim) for dim in dims_of([("", tensor) for tensor in station.tensors])]
            return {**made, "takes": [], "gives": dims, "makes": [], "ends": []}
        first, last = station.calls[0], station.calls[-1]
        takes, gives = self._taken(first), self._given(last)
        made["module"], made["path"] = first.module, first.path
        made["raised"] = next((call.raised for call in station.calls if call.raised), "")
        if station.cut:
            takes = {dim: None for (_, low), dims in scene.lines.items() if low is station for dim in dims}
            gives = {dim: None for (high, _), dims in scene.lines.items() if high is station for dim in dims}
            made["module"] = ""
        else:
            inmost, inside, chained = self._inmost(station.shown)
            made |= {"count": len(station.calls) * inside, "chained": station.chained or chained}
            if len(self._calls(inmost)) > 1:
                self._todo.append((inmost, self._label(station, made["count"]), level, made))
        feature = {id(tensor.feature_dim) for _, tensor in (*first.inputs, *last.outputs)}
        known = lambda dims: [self._dims.id_of(dim, "feature" if id(dim) in feature else None) for dim in dims]  # noqa: E731
        made |= {
            "takes": known(takes),
            "gives": known(gives),
            "makes": known(dim for dim in gives if dim not in takes),
            "ends": known(dim for dim in takes if dim not in gives) if not made["raised"] else [],
        }
        return made  # not a copy, since the level that it opens is set later

    def _taken(self, call: FlowCall) -> dict[Any, None]:
        """The dims of the tensors that a call takes, without parameters."""
        if not self._flow.known:
            return dims_of(call.inputs)
        numbers = call.needs if call.is_step else call.reads
        return dims_of([("", self._flow.tensors[number]) for number in numbers if number in self._flow.tensors])

    def _given(self, call: FlowCall) -> dict[Any, None]:
        """The dims of the tensors that a call returns; for a step of a loop those that it makes."""
        if not call.is_step:
            return dims_of(call.outputs)
        return {dim: None for part in call.parts for dim in self._given(part)}

    @staticmethod
    def _label(station: Station, count: int) -> str:
        return f"{station.label} × {count}" if count > 1 else station.label


_MOST, _LETTERS = 12, 60  # dims in a sentence, characters of a name


def marks_of(entries: Sequence[JsonObject]) -> dict[int, str]:
    """A unique mark for each dim by id: its first letter, with a number if needed."""
    marks: dict[int, str] = {}
    count: dict[str, int] = {}
    for entry in entries:
        letter = next((sign for sign in str(entry["name"]) if sign.isalpha()), "d")
        count[letter] = count.get(letter, 0) + 1
        marks[entry["id"]] = letter if count[letter] == 1 else f"{letter}{count[letter]}"
    return marks


def legend_of(entries: Sequence[JsonObject], texts: dict[int, str], marks: dict[int, str]) -> list[JsonObject]:
    """The entries of the legend: `text`, `glyph`, `hue`, `ragged`."""
    return [
        {"text": texts[dim], "glyph": marks[dim], "hue": dim % len(HUES), "ragged": bool(entry["lengths"])}
        for dim, entry in enumerate(entries)
    ]


def change_of(station: JsonObject, names: dict[int, str]) -> str:
    """The change of the dims in a station, in short: "model → ff", "makes heads", "ends time"; "" without a change."""
    ends, makes = (_few([short(names[dim], 24) for dim in station[side]], 4) for side in ("ends", "makes"))
    if ends and makes:
        return f"{ends} → {makes}"
    return f"makes {makes}" if makes else f"ends {ends}" if ends else ""


def words_of(station: JsonObject, texts: dict[int, str]) -> str:
    """The description of a station as a sentence."""
    names = lambda ids: _few([short(texts[dim], _LETTERS) for dim in ids[:_MOST]], _MOST, len(ids))  # noqa: E731
    dims = lambda ids: f"[{names(ids)}]"  # noqa: E731
    label, count = short(station["label"], _LETTERS), station["count"]
    if station["shape"] != "op":
        return f"{label}: {dims(station['gives'])}"
    said = [f"{label} × {count}" if count > 1 else label]
    if station["module"]:
        said[0] += f", {short(station['module'], _LETTERS)}"
    parts = [f"in {dims(station['takes'])}"]
    parts += [] if station["raised"] else [f"out {dims(station['gives'])}"]
    if station["ends"] and station["makes"]:
        verb = "renames" if station["label"] == "replace_dim" else "makes"
        of = (names(station["ends"]), names(station["makes"]))
        parts.append(f"renames {of[0]} to {of[1]}" if verb == "renames" else f"makes {of[1]} of {of[0]}")
    elif station["makes"]:
        parts.append(f"makes {names(station['makes'])}")
    elif station["ends"]:
        parts.append(f"{names(station['ends'])} {'ends' if len(station['ends']) == 1 else 'end'} here")
    parts += ["each reads what the one before has made"] if station["chained"] and count > 1 else []
    parts += [f"raised {short(station['raised'], _LETTERS)}"] if station["raised"] else []
    return f"{said[0]}: {'; '.join(parts)}"


def _few(words: list[str], most: int, count: int | None = None) -> str:
    """The words as a list; of many, the first ones and the number of others."""
    more = (len(words) if count is None else count) - most
    return ", ".join(words[:most]) + (f", {more:,} more" if more > 0 else "")
