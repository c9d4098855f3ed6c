"""States in a recording as views: for one run, for the best hypothesis of a search, and with several tracks over the same
steps in one view.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.trace.host_copies import all_on_host
from rfnb.trace.lookup import SearchEvents
from rfnb.viz.axes import NamedArray
from rfnb.viz.edit_handles import best_slots, sizes
from rfnb.viz.hypotheses import MOST_LIVE, with_slots
from rfnb.viz.spec import Spec
from rfnb.viz.states.spec import axes_of as states_axes_of
from rfnb.viz.states.spec import spec as states_spec
from rfnb.viz.states.tracks import joined
from rfnb.viz.trace_labels import RunLabels
from rfnb.viz.trace_search import SearchValues, search_of

_STATES = "States: "
_MOST_CELLS = 1 << 22  # of the matrix states of a search, in a view
_UNITS = ("head", "channel")  # dims whose name says what a unit is
_SHARED = (
    "seqs",
    "axis",
    "batch",
    "best",
    "remark",
    "slots_of_best",
)  # fields that views must share to be merged


def part(page: Any, run: Any, own: RunLabels) -> Spec | None:
    """The view of a run; None if it has no state of its loop."""
    tracks = page.trace.states[run.path, run.number]
    step = page.trace.states.step_dim(run.path, run.number)
    if not tracks or step is None:
        return None
    search, title = search_of(run.events, page.searches), f"{_STATES}{run.path or 'loop'}"
    if search is not None:
        made = _along(page, search, run, step, title)
        if made is not None:
            return made
    shown = {
        name: value
        for name, value in tracks.items()
        if isinstance(value, Tensor) and _has(value, step) and _is_float(value)
    }
    shown = all_on_host(shown)
    # A track may lack the batch (a counter): it then holds for all sequences, and does not determine the batch.
    most = max((len(NamedArray.of(value).seq_axes([])) for value in shown.values()), default=0)
    shown = {name: value for name, value in shown.items() if len(NamedArray.of(value).seq_axes([])) == most}
    if not shown:
        return None
    made = states_spec(shown, step_dim=step.name, steps=own.along(step), title=title, live=page.live)
    page.on(made, "step_dim", run, step, search)
    for entry in made.head["tracks"]:
        name = entry["label"]
        seqs, units = states_axes_of(name, shown[name], step.name)
        if len(units) == 1 and (names := own.of_units(units[0])):
            entry["names"] = names
        _held_track(page, made, entry, run.events, sizes(seqs), sizes(units))
    return page.of_slots(made, *shown.values())


def _held_track(
    page: Any, made: Spec, entry: dict[str, Any], events: Sequence[Any], seqs: Any, units: Any, slot: str | None = None
) -> None:
    """Store in a track which steps and entries its rows are, if it is a state of the loop."""
    if page.handles is None:
        return
    made.head["hands"] = page.handles.marks(events)
    one = next(event for event in events if event is not None)
    last = {event.entry: event for event in page.trace.by_path("states")[one.path]}
    # The loop sends its own states at the end of a step.
    if all(event is None or last[event.entry] is event for event in events):
        held = page.handles.of_state(events, entry["label"], seqs, units, slot)
        cannot = None if held else page.handles.cannot(events, entry["label"])
        entry |= {name: value for name, value in (("held", held), ("cannot", cannot)) if value}


def _along(page: Any, search: SearchEvents, run: Any, step: Dim, title: str) -> Spec | None:
    """The states of the best hypothesis of each sequence, [seq, step, unit]; None if they are not in slots."""
    shown: dict[str, np.ndarray] = {}
    found: dict[str, SearchValues] = {}
    for name, value in run.events[0].values.items():
        if not isinstance(value, Tensor) or not _is_float(value) or any(name not in each.values for each in run.events):
            continue
        followed = SearchValues.of(search, run.events, name)
        array = followed.array() if followed is not None and _is_shown(page, followed) else None
        if followed is not None and array is not None:
            shown[name], found[name] = array.reshape(*array.shape[:2], -1), followed
    if not shown:
        return None
    best = next(iter(found.values())).best
    made = states_spec(
        shown, dims=["batch", "step", "unit"], step_dim="step", steps=[labels for labels, _, _ in best],
        lengths=[len(labels) for labels, _, _ in best], title=f"{title}, best hypothesis", live=page.live,
    )  # fmt: skip
    page.on(made, "step_dim", run, step, search)
    made.head["best"] = True
    given = {} if page.live and not page.handles else {name: found[name].in_slots(live=page.live) for name in shown}
    slots = {name: array.reshape(*array.shape[:3], -1) for name, array in given.items() if array is not None}
    if len(slots) == len(shown):
        for entry in made.head["tracks"]:
            name = entry["label"]
            with_slots([entry], made.blocks, [slots[name]], before=found[name].before)
    for entry in made.head["tracks"]:
        own = found[entry["label"]]
        units = [(dim.name, dim.extent) for dim in own.inner]
        if len(units) > 1 or units[0][0] in _UNITS:
            entry["unit_dim"]["name"] = " × ".join(name for name, _ in units)
        if page.handles and own.is_whole:
            made.head["slots_of_best"] = best_slots(own)
            _held_track(page, made, entry, own.events(run.events), own.seqs, units, own.slot)
    return made


def _is_shown(page: Any, followed: SearchValues) -> bool:
    """Whether values have a track: of several dims only if it is a matrix of one size (not keys and values, of which each step has more),
    and not too large, since norms and gates are beside it.
    """
    sizes = [dim.extent for dim in followed.inner]
    steps = [followed.history.inner_dims(each) for each in followed.steps if each is not None]
    if len(sizes) > 1 and any(
        dim.is_dynamic() or dim.extent != size for dims in steps for dim, size in zip(dims, sizes)
    ):
        return False
    cells = math.prod([len(followed.steps), followed.history.num_seqs, *sizes])
    return len(sizes) == 1 or len(sizes) > 1 and cells <= (MOST_LIVE if page.live else _MOST_CELLS)


def put_into(_: Any, parts: list[Spec], new: Spec, run: Any) -> bool:
    """Add tracks to the previous part, if it runs over the same steps of the same sequences (layers of an encoder)."""
    last = parts[-1] if parts else None
    if run.count > 1 or last is None or new.kind != "states" or last.kind != "states" or not new.head["tracks"]:
        return False
    if any(last.head.get(name) != new.head.get(name) for name in _SHARED):
        return False
    ends = [", best hypothesis" if spec.head.get("best") else "" for spec in (last, new)]
    known = [
        spec.head.get("paths") or [str(spec.head["title"]).removeprefix(_STATES).removesuffix(end)]
        for spec, end in zip((last, new), ends)
    ]
    paths = [path for own in known for path in own]
    common = _common(paths)
    named = [(_common(own)[len(common) :].strip("."), spec) for own, spec in zip(known, (last, new))]
    first = f"{paths[0]} and {paths[1] if len(paths) == 2 else f'{len(paths) - 1} more'}"
    parts[-1] = joined(named, f"{_STATES}{common or (first if len(first) < 60 else 'several')}{ends[0]}")
    parts[-1].head["paths"] = paths
    return True


def _common(paths: Sequence[str]) -> str:
    """The common prefix of paths; the path itself if there is only one."""
    split = [path.split(".") for path in paths]
    alike = [len(set(parts)) == 1 for parts in zip(*split)]
    return ".".join(split[0][: [*alike, False].index(False)])


def _has(value: Tensor, dim: Dim) -> bool:
    return sum(other.name == dim.name for other in value.dims) == 1


def _is_float(value: Tensor) -> bool:
    return value.dtype.startswith(("float", "bfloat"))
