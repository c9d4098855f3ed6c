"""The columns of an atlas: hide a position, make a head uniform, set a unit to 0, or force a label, as commands of a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rfnb.control.attention_edits import KnownWeights
from rfnb.control.position import Position
from rfnb.control.run import Run
from rfnb.control.why_not import Tries, labels_in
from rfnb.core.errors import index_error, value_error
from rfnb.core.whole_number import whole
from rfnb.trace.beam_analysis import verdicts
from rfnb.trace.match import is_end_of
from rfnb.viz.group.spec import parts_of
from rfnb.viz.trace_page import spec as trace_spec

_LABELS = 12
Command = Mapping[str, Any]


class AtlasColumns(NamedTuple):
    """The columns of an atlas.

    Attributes:
        name: The name of the axis.
        labels: One per column.
        commands: The command of each before a step, in the form of a page (rfnb/control/commands.py).
        words: The commands as text.
        said: A description of the columns.
        companion: The view of the run with the same axes; None if it has not recorded one.
        is_all: Whether these are all.
        by_row: Extra fields of the commands in each step, or None.
    """

    name: str
    labels: list[str]
    commands: list[list[Command]]
    words: list[str]
    said: str
    companion: Any
    is_all: bool = False
    by_row: list[Command] | None = None


def chosen(what: str, given: Sequence[Any] | None, count: int) -> list[int]:
    """The given indices, checked against the count; all if none are given."""
    numbers = list(range(count)) if given is None else [whole(each) for each in given]
    wrong = [each for each, number in zip(given or (), numbers) if number is None or not 0 <= number < count]
    if wrong or not numbers:
        raise index_error(
            f"atlas: no {what} {wrong[0]!r}." if wrong else f"atlas: no {what}s.",
            {f"{what}s": count},
            "They are counted from 0, and there is one or more.",
            f"rf.atlas(run, {'steps' if what == 'step' else 'columns'}=range({count}))",
        )
    return [number for number in numbers if number is not None]


def companion_of(run: Run, kind: str, path: str) -> Any:
    """The view of the run for a path or a part of it; None if it was not recorded."""
    if run.trace is None:
        return None
    for part in parts_of(trace_spec(run.trace, kinds=kind, live=False)):
        own = str(part.head.get("key", "")).split(" ")[1:2]
        names = [f"{own[0]}.{each['label']}" for each in part.head.get("tracks", ())] if own else []
        if part.kind == kind and (path in (*own, *names) or not path):
            return part
    return None


def _looked(tries: Tries, what: Callable[[Position], Any]) -> Any:
    """Read a value at the point before the last step of the search."""
    found: list[Any] = []
    tries.made(tries.history.loop_steps[-1], lambda at: found.append(what(at)))
    return found[0] if found else {}


def _attended(tries: Tries, path: str | None) -> dict[str, Any]:
    """The attention of the run by path: all that is over the same positions."""
    known = _recorded(tries) or _looked(tries, lambda at: dict(at.attention._known()))
    found = {each: one for each, one in known.items() if path is None or is_end_of(path, each)}
    axes = {id(one.axis): one.axis for one in found.values()}
    if len(axes) != 1:
        raise value_error(
            f"atlas: {'attention over several dims' if axes else 'no attention'}{'' if path is None else f' at {path!r}'}.",
            {"attention": ", ".join(found or known) or "none"},
            "Columns are the positions or heads of one attention that rf computes, or several over the same positions.",
            f'rf.atlas(run, path="{next(iter(found or known))}")' if known else 'rf.atlas(run, "label")',
        )
    return found


def _recorded(tries: Tries) -> dict[str, KnownWeights]:
    """The attention that the run recorded in the steps of the search."""
    run, found = tries.run, dict[str, KnownWeights]()
    if run.trace is None:
        return found
    attention = run.trace.attention
    for path in attention:
        event = attention.events(path)[-1]
        place, weights = run.place_of(event.entry), event.values.get("weights")
        axis = attention.axis(path)
        if place is None or weights is None or axis is None:
            continue
        if place[:2] == (tries.place.path, tries.place.nth):
            found[path] = KnownWeights(tuple(dim for dim in weights.dims if dim is not axis), axis, True)
    return found


def _in_seq(tries: Tries, dims: Sequence[Any]) -> dict[str, int]:
    """The index of the sequence, if there are several."""
    batch = [dim for dim in dims if dim.kind == "batch"]
    return {batch[0].name: tries.seq} if batch and tries.history.num_seqs > 1 else {}


def _positions(tries: Tries, rows: list[int], path: str | None, columns: Any) -> AtlasColumns:
    found = _attended(tries, path)
    axis = next(iter(found.values())).axis
    companion = companion_of(tries.run, "attention", next(iter(found)))
    seqs = [] if companion is None else companion.head["seqs"]
    names = seqs[tries.seq]["cols"] if tries.seq < len(seqs) else []
    count = len(names) or int(axis.extent)
    numbers = chosen("position", columns, count)
    labels = [names[number] if names else str(number) for number in numbers]

    def do(number: int) -> list[Command]:
        return [
            {"do": "attention", "path": each, "entries": _in_seq(tries, one.dims), "hide": number}
            for each, one in found.items()
        ]

    return AtlasColumns(
        axis.name,
        labels,
        [do(number) for number in numbers],
        [f"{label} hidden" for label in labels],
        f"one of {axis.name} hidden from {', '.join(found)} in one step",
        companion,
        numbers == list(range(count)),
    )


def _heads(tries: Tries, rows: list[int], path: str | None, columns: Any) -> AtlasColumns:
    every = [
        (each, dim.name, index, _in_seq(tries, one.dims))
        for each, one in _attended(tries, path).items()
        for dim in one.dims
        if "head" in dim.name
        for index in range(dim.extent)
    ]
    if not every:
        raise value_error(
            "atlas: this attention has no heads.",
            {"path": path or "all"},
            "The columns are the heads of a dim named heads. For one head, use positions:",
            "rf.atlas(run)",
        )
    several = len({each for each, *_ in every}) > 1
    heads = [every[number] for number in chosen("head", columns, len(every))]
    labels = [f"{each} {index}" if several else str(index) for each, _, index, _ in heads]
    return AtlasColumns(
        "head",
        labels,
        [
            [{"do": "attention", "path": each, "entries": {**own, name: index}, "uniform": True}]
            for each, name, index, own in heads
        ],
        [f"head {label} even" for label in labels],
        "one head uniform in one step",
        companion_of(tries.run, "attention", heads[0][0]),
    )


def _units(tries: Tries, rows: list[int], path: str | None, columns: Any) -> AtlasColumns:
    states = _looked(tries, lambda at: {each: leaf.dims for each, (_, _, leaf) in at.states._tensors().items()
                                        if leaf.dtype.startswith("float")})  # fmt: skip
    found = {
        each: [dim for dim in dims if dim.kind not in ("batch", "beam")]
        for each, dims in states.items()
        if path is None or is_end_of(path, each)
    }
    found = {each: dims for each, dims in found.items() if len(dims) == 1}
    if len(found) != 1:
        raise value_error(
            f"atlas: {'several states' if found else 'no state'} of one dim{'' if path is None else f' at {path!r}'}.",
            {"states": ", ".join(found or states) or "none"},
            "Columns are the units of one state of the loop.",
            f'rf.atlas(run, "unit", path="{next(iter(found or states), "h")}")',
        )
    ((state, (dim,)),) = found.items()
    own = _in_seq(tries, states[state])
    numbers = chosen("unit", columns, int(dim.extent))
    return AtlasColumns(
        dim.name,
        [str(number) for number in numbers],
        [[{"do": "set", "state": state, "entries": {**own, dim.name: number}, "value": 0}] for number in numbers],
        [f"{state} {number} = 0" for number in numbers],
        f"one unit of {state} 0 before one step",
        companion_of(tries.run, "states", state),
    )


def _labels(tries: Tries, rows: list[int], path: str | None, columns: Any) -> AtlasColumns:
    history, best = tries.history, tries.best
    tokens = _likely(tries) if columns is None else labels_in(history, columns, best, "atlas")
    texts = [history.label(token, 0) for token in tokens]
    before = [" ".join(history.texts(best.tokens[:row])) if row else 0 for row in rows]
    return AtlasColumns(
        "label",
        texts,
        [[{"do": "force", "label": token, "seq": tries.seq, "only": True}] for token in tokens],
        texts,
        "one label forced in one step",
        companion_of(tries.run, "beams", ""),
        by_row=[{"hypothesis": each} for each in before],
    )


def _likely(tries: Tries) -> list[int]:
    """The labels that were most probable in any step of the result."""
    history, seq, most = tries.history, tries.seq, dict[int, float]()
    slot, before = None, 0.0
    for row, own in tries.best.path:
        for item in verdicts(history, seq, row):
            if slot in (None, item.parent) and item.score > -np.inf:
                most[item.token] = max(most.get(item.token, -np.inf), item.score - before)
        slot, before = own, float(history.steps[row]["scores"][seq, own])
    return sorted(most, key=lambda token: -most[token])[:_LABELS]


MAKERS: dict[str, Callable[..., AtlasColumns]] = {
    "position": _positions,
    "label": _labels,
    "unit": _units,
    "head": _heads,
}
