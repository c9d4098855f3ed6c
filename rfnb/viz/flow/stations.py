"""The stations of a picture: the calls in a call, with similar ones combined, and the lines of dims between them.

An op that neither changes the dims nor combines several tensors is skipped. A tensor made by raw code in an op for a
module that it calls is "unseen". If the data flow is unknown, the line of a dim goes from each call that has it to the
next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.viz.flow.calls import Flow, FlowCall

MOST = 40  # stations per picture
_PERIOD = 64  # maximal period of repeated calls
_ENDS = 8  # stations kept at the end when some are omitted


@dataclass(eq=False)
class Station:
    """A call, or several similar ones; also an input from outside or an output to it.

    Attributes:
        calls: The calls in order; empty for inputs and outputs.
        shape: "op", "value" (from outside) or "result" (to outside).
        label: Its label.
        cut: Whether it stands for omitted calls, which are not similar.
        chained: Whether later calls read the results of earlier ones.
    """

    label: str
    shape: str = "op"
    calls: list[FlowCall] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    cut: bool = False
    chained: bool = False

    @property
    def shown(self) -> FlowCall:
        """The call that represents all of them, since not all steps of a loop do the same."""
        return max(self.calls, key=lambda call: len(call.parts))


Lines = dict[tuple[Station, Station], dict[Dim, None]]


@dataclass
class Scene:
    """The stations and lines of one picture."""

    stations: list[Station]
    lines: Lines


def dims_of(tensors: Sequence[tuple[str, Tensor]]) -> dict[Dim, None]:
    """The dims of all of these, in order; a twin counts as its original."""
    return dict.fromkeys(dim.twin_of or dim for _, tensor in tensors for dim in tensor.dims)


def scene_of(flow: Flow, around: FlowCall | None) -> Scene:
    """The stations in a call; None for the outermost ones."""
    calls = flow.calls if around is None else around.parts
    made = (_known if flow.known else _in_order)(flow, calls, around)
    return _cut(_folded(made))


def _known(flow: Flow, calls: Sequence[FlowCall], around: FlowCall | None) -> Scene:
    """The stations, with lines by the numbers of the tensors between them."""
    source: dict[int, Station] = {}
    stations: list[Station] = []
    outside: list[Station] = []
    lines: Lines = {}
    names = dict(zip(around.reads, _inputs(around))) if around is not None else {}

    def source_of(number: int) -> Station:
        if number not in source:
            tensor = flow.tensors[number]
            unknown = "input" if around is None else "outside" if number in flow.made else "unseen"
            label = names.get(number) or tensor.name or unknown
            source[number] = Station(label, "value", tensors=[tensor])
            outside.append(source[number])
        return source[number]

    def join(number: int, low: Station) -> None:
        high = source_of(number)
        if high is not low:
            lines.setdefault((high, low), {}).update(dims_of([("", flow.tensors[number])]))

    for call in calls:
        needs = [number for number in call.needs if number in flow.tensors]
        if call.is_op and not call.raised and not call.parts:
            before = list(dict.fromkeys(source_of(number) for number in needs))
            dims = dims_of([("", flow.tensors[number]) for number in needs])
            if (len(before) < 2 and set(dims) == set(dims_of(call.outputs))) or not needs:
                source.update((number, before[0]) for number in call.writes if before)
                continue
        station = Station(call.name, calls=[call])
        stations.append(station)
        for number in needs:
            join(number, station)
        source.update((number, station) for number in (*call.made, *(set(call.writes) & set(call.needs))))
    results: list[Station] = []
    if around is not None:
        for (label, tensor), number in zip(around.outputs, around.writes):
            if number in flow.tensors and (number in source or number in around.needs):
                results.append(Station(_result(label), "result", tensors=[tensor]))
                join(number, results[-1])
    return Scene([*outside, *stations, *results], lines)


def _in_order(flow: Flow, calls: Sequence[FlowCall], around: FlowCall | None) -> Scene:
    """The stations, with lines by the order of the calls: each leads to the next call that has its dim."""
    last: dict[Dim, Station] = {}
    lines: Lines = {}
    stations = []
    if around is not None:
        for label, (_, tensor) in zip(_inputs(around), around.inputs):
            stations.append(Station(label, "value", tensors=[tensor]))
            last.update(dict.fromkeys(dims_of([("", tensor)]), stations[-1]))

    def visit(dims: dict[Dim, None], station: Station) -> None:
        for dim in dims:
            if dim in last:
                lines.setdefault((last[dim], station), {})[dim] = None

    for call in calls:
        station = Station(call.name, calls=[call])
        stations.append(station)
        visit(dims_of(call.inputs), station)
        last.update(dict.fromkeys([*dims_of(call.inputs), *dims_of(call.outputs)], station))
    for label, tensor in around.outputs if around is not None else []:
        stations.append(Station(_result(label), "result", tensors=[tensor]))
        visit(dims_of([("", tensor)]), stations[-1])
    return Scene(stations, lines)


def _inputs(call: FlowCall) -> list[str]:
    """The names of a call's inputs: those of its arguments, else numbers."""
    several = len(call.inputs) > 1
    return [
        (f"input {int(label) + 1}" if several else "input") if label.isdigit() else label or tensor.name or "input"
        for label, tensor in call.inputs
    ]


def _result(label: str) -> str:
    return f"result {label}".strip() if not label or label[0].isdigit() else label


def _folded(scene: Scene) -> Scene:
    """The scene with repeats combined: similar calls, or periods of several."""
    inner = [station for station in scene.stations if station.shape == "op"]
    looks = [station.calls[0].alike for station in inner]
    into: dict[Station, Station] = {}
    at = 0
    while at < len(inner):
        size, count = _repeat(looks, at)
        for index in range(size):
            repeats = [inner[at + index + size * number] for number in range(count)]
            for other in repeats[1:]:
                into[other] = repeats[0]
                repeats[0].calls += other.calls
        at += size * count
    return _as_one(_merged(scene, into))


def _as_one(scene: Scene) -> Scene:
    """Combine inputs from outside that look the same and go to the same stations."""
    goes: dict[Station, list[Station]] = {}
    for high, low in scene.lines:
        goes.setdefault(high, []).append(low)
    first: dict[Any, Station] = {}
    into: dict[Station, Station] = {}
    for station in scene.stations:
        if station.shape == "value":
            dims = tuple(dims_of([("", tensor) for tensor in station.tensors]))
            same = first.setdefault((station.label, dims, tuple(goes.get(station, ()))), station)
            if same is not station:
                into[station] = same
                same.tensors += station.tensors
    return _merged(scene, into)


def _repeat(looks: Sequence[int], at: int) -> tuple[int, int]:
    """The length of the period that repeats from here on, and its number of repetitions."""
    for size in range(1, min(_PERIOD, (len(looks) - at) // 2) + 1):
        if looks[at] != looks[at + size]:
            continue
        count = 1
        while looks[at : at + size] == looks[at + size * count : at + size * (count + 1)]:
            count += 1
        if count > 1:
            return size, count
    return 1, 1


def _cut(scene: Scene) -> Scene:
    """The scene with at most the given number of stations; those in the middle are combined into one."""
    inner = [station for station in scene.stations if station.shape == "op"]
    into: dict[Station, Station] = {}
    if len(inner) > MOST:
        middle = inner[MOST - _ENDS - 1 : -_ENDS]
        calls = [call for station in middle for call in station.calls]
        one = Station(f"{len(calls):,} more calls", calls=calls, cut=True)
        into = dict.fromkeys(middle, one)
    for shape in ("value", "result"):
        many = [station for station in scene.stations if station.shape == shape]
        if len(many) > 6:
            rest = Station(
                f"{len(many) - 5} more", shape, tensors=[tensor for each in many[5:] for tensor in each.tensors]
            )
            into.update(dict.fromkeys(many[5:], rest))
    return _merged(scene, into)


def _merged(scene: Scene, into: dict[Station, Station]) -> Scene:
    """The scene with stations replaced; lines only go forward."""
    stations = list(dict.fromkeys(into.get(station, station) for station in scene.stations))
    place = {station: index for index, station in enumerate(stations)}
    lines: Lines = {}
    for (high, low), dims in scene.lines.items():
        ends = into.get(high, high), into.get(low, low)
        if place[ends[0]] < place[ends[1]]:
            lines.setdefault(ends, {}).update(dims)
        else:
            ends[1].chained = True
    return Scene(stations, lines)
