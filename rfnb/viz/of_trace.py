"""The view of a recording: a part for the searches, the attentions and the states in it, all linked by one selection.

Under a beam search the attention and the states of a step are in slots of the beam, and a hypothesis moves between slots. Here the
rows of a map and the columns of a state follow the best hypothesis of each sequence, not a slot. Axes are labelled with the tokens
that were embedded along them (`tokens` events) or that the search wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import DimError
from rfnb.core.tensor import Tensor
from rfnb.trace.match import kind_filter, path_filter
from rfnb.viz.attention.layers import joined_layers, layer_of
from rfnb.viz.attention.spec import maps_of
from rfnb.viz.attention.spec import spec as attention_spec
from rfnb.viz.axes import Axis, Named
from rfnb.viz.beams.spec import spec as beams_spec
from rfnb.viz.dims.spec import spec as dims_spec
from rfnb.viz.group import spec as group
from rfnb.viz.hypotheses import in_slots, with_slots
from rfnb.viz.of_names import named
from rfnb.viz.of_outputs import KIND, outputs
from rfnb.viz.roles import attention_axes
from rfnb.viz.spec import Spec
from rfnb.viz.states.spec import spec as states_spec
from rfnb.viz.states.tracks import joined

_MOST_PARTS, _MOST_RUNS = 12, 4
_STATES = "States: "
_SEARCH = ""  # the axis of the steps of a search; views that run over another dim have its name as their `head.axis`


def spec(
    trace: Any,
    *,
    kinds: str | Sequence[str] | None = None,
    path: str | Sequence[str] | None = None,
    labels: Mapping[Any, Sequence[Any]] | None = None,
    live: bool | None = None,
    title: str | None = None,
) -> Spec:
    """The spec of what a trace has.

    Args:
        trace: A Trace.
        kinds: What to show: "attention", "states", "beams", "outputs", "module", or several. Default: all but the modules, which are
            shown if there is nothing else.
        path: Only these paths: a pattern ("encoder.*"), or the end of a path ("att"); one or several.
        labels: Tokens by dim (a Dim or its name): a list for all sequences, or a list per sequence. Default: what was embedded.
        live: Whether more may come. Default: while the trace is not closed.
        title: Default says how much there is, unless `kinds` or `path` choose.
    """
    labels = {**_tokens(trace), **(labels or {})}
    running = not trace.closed if live is None else live
    searches = _searches(trace)

    def paths(kind: str, lookup: Any) -> list[str]:
        if kinds is not None and not kind_filter(kinds)(kind):
            return []
        return [each for each in lookup if path is None or path_filter(path)(each, each)]

    parts: list[Spec] = []
    for each in paths("beams", trace.beams):
        runs = [search for search in searches if search.path == each]
        for run, search in list(enumerate(runs))[-_MOST_RUNS:]:
            heading = f"Beam search: {each or 'search'}{_run_of(run, len(runs))}"
            parts.append(beams_spec(search.history, title=heading, live=running))
    for each in paths(KIND, trace.by_path(KIND)):
        for output, run, count in outputs(trace, each, _MOST_RUNS, lambda dim: _labels(labels, dim), running):
            heading = output.head["title"] + _run_of(run, count)
            parts.append(Spec(output.kind, {**output.head, "title": heading}, output.blocks))
    layered: dict[Any, tuple[int, list[str]]] = {}
    for kind, lookup, make in (("attention", trace.attention, _attention), ("states", trace.states, _states)):
        for each in paths(kind, lookup):
            count = lookup.num_runs(each)
            for run in range(max(0, count - _MOST_RUNS), count):
                made = make(trace, each, run, searches, labels, running)
                if made is not None and count > 1:
                    made = Spec(
                        made.kind, {**made.head, "title": made.head["title"] + _run_of(run, count)}, made.blocks
                    )
                if made is not None and made.kind == "attention" and _layered(parts, layered, made, each, (run, count)):
                    continue
                if made is not None and count > 1:
                    parts.append(made)
                elif made is not None and not _joined(parts, made):
                    parts.append(made)
    if paths("module", trace.modules) and (not parts or kinds is not None):
        parts.append(dims_spec(trace, live=running))
    counts = ", ".join(f"{count} {kind}" for kind, count in trace.counts().items())
    cut = " (cut off at the limit)" if trace.truncated is not None else ""
    if title is None:  # of a choice, the parts say themselves what they are
        chosen = kinds is not None or path is not None
        title = "" if chosen and parts and not cut else f"Trace: {counts or 'no events'}{cut}"
    if len(parts) > _MOST_PARTS:
        few = f'the first {_MOST_PARTS} of {len(parts)} views; others: rf.show(trace, path="...")'
        title = f"{title} — {few}" if title else few
    parts = named(parts[:_MOST_PARTS], trace, labels)
    return group.spec(parts, title=title, live=running, link=f"trace {id(trace)}")


class _Search(NamedTuple):
    """One run of a search. `entries`: of its steps, which the events of the same steps have too."""

    path: str
    entries: frozenset[int]
    history: Any


def _searches(trace: Any) -> list[_Search]:
    return [
        _Search(path, frozenset(event.entry for event in trace.beams.events(path, run)), history)
        for path in trace.beams
        for run, history in enumerate(trace.beams.runs(path))
    ]


def _run_of(run: int, count: int) -> str:
    return f", run {run + 1} of {count}" if count > 1 else ""


def _attention(
    trace: Any, path: str, run: int, searches: Sequence[_Search], labels: Mapping[Any, Any], live: bool
) -> Spec | None:
    weights = trace.attention.runs(path)[run]
    events = trace.attention.events(path, run)
    history = _history_of(path, events[0].entry, searches) if events[0].step is not None else None
    title = f"Attention: {path or 'attention'}"
    axis = trace.attention.axis(path, run)
    if history is not None and axis is not None and any(_is_beam(dim) for dim in weights.dims):
        return _along(trace, path, run, history, Axis(axis.name, axis.extent, axis), _labels(labels, axis), title, live)
    try:
        source, target = attention_axes(Named.of(weights), weights, None, None)
    except DimError as error:  # of a probe of the user's own; the other views are drawn
        return Spec("attention", {"title": title, "live": live, "maps": [], "seqs": [], "fault": str(error)})
    made = attention_spec(
        weights, source_dim=source.dim, target_dim=target.dim if target is not None else None, title=title, live=live,
        source=_labels(labels, source.dim), target=_labels(labels, target.dim if target is not None else None),
    )  # fmt: skip
    for entry in made.head["maps"][:1]:
        rows = _SEARCH if history is not None else entry["row_dim"]["name"]
        made.head.update(axis=rows, col_axis=entry["col_dim"]["name"])
    return made


def _along(
    trace: Any, path: str, run: int, history: Any, axis: Axis, source: Any, title: str, live: bool
) -> Spec | None:
    """The maps of the best hypothesis of each sequence, [seq, target, head, source]."""
    steps = trace.attention.steps(path, run)[: history.num_steps]
    batch = next((dim for dim in steps[0].dims if Axis(dim.name, 1, dim).kind == "batch"), None)
    best = [_best(history, seq) for seq in range(history.num_seqs)]
    rows = [
        history.along(steps[: len(one[0])], seq, one[2], step=one[1]) if one[0] else [] for seq, one in enumerate(best)
    ]
    rest = [dim for dim in steps[0].dims if dim is not batch and not _is_beam(dim)]
    if not any(rows) or not rest:
        return None
    shape = [max(array.shape[i] for one in rows for array in one) for i in range(len(rest))]
    out = np.full((len(rows), max(map(len, rows)), *shape), np.nan, np.float32)
    for seq, one in enumerate(rows):
        for index, array in enumerate(one):
            # Where other steps attend over more frames (of what was written so far), this one attends to nothing.
            out[
                (
                    seq,
                    index,
                    *(slice(None) if dim.name == axis.name else slice(0, size) for dim, size in zip(rest, array.shape)),
                )
            ] = 0
            place: tuple[Any, ...] = (seq, index, *(slice(0, size) for size in array.shape))
            out[place] = array
    names = ["batch", "target", *("source" if dim.name == axis.name else dim.name for dim in rest)]
    source_lengths = None
    if axis.ragged and axis.dim is not None and axis.dim.lengths is not None and axis.dim.lengths.size == len(rows):
        source_lengths = np.ravel(axis.dim.lengths)
    made = attention_spec(
        out, dims=names, source_dim="source", target_dim="target", source=source, target=[one[0] for one in best],
        source_lengths=source_lengths, target_lengths=[len(one) for one in rows], title=f"{title}, best hypothesis", live=live,
    )  # fmt: skip
    for entry in made.head["maps"]:
        entry["col_dim"]["name"] = axis.name
    sources = [index for index, dim in enumerate(rest) if dim.name == axis.name]
    slots = None if live else in_slots(history, steps, fill_axis=sources[0] if sources else None)
    if slots is not None:
        flat = slots.swapaxes(1, 2).reshape(-1, slots.shape[1], *slots.shape[3:])
        maps = maps_of(flat, names).reshape(*slots.shape[:1], slots.shape[2], -1, slots.shape[1], out.shape[-1])
        with_slots(made.head["maps"], made.blocks, list(np.moveaxis(maps, 2, 0).swapaxes(2, 3)))
    made.head.update(col_axis=axis.name, best=True)
    return made


def _layered(
    parts: list[Spec], layered: dict[Any, tuple[int, list[str]]], new: Spec, path: str, run: tuple[int, int]
) -> bool:
    """Put the maps of a layer into the view of the layers before it, which has a path that differs in numbers only.

    Args:
        layered: Of what was put together so far, by what it has in common: the number of the part, and the labels of the layers.
    """
    layer = layer_of(path)
    if layer is None or not new.head["maps"] or "fault" in new.head:
        return False
    key = (layer[0], run, *(str(new.head.get(name)) for name in ("axis", "col_axis", "best")))
    if key not in layered:
        layered[key] = (len(parts), [layer[1]])
        return False
    index, labels = layered[key]
    labels.append(layer[1])
    joined = joined_layers(parts[index], new, labels)
    title = f"Attention: {layer[0]}"
    joined.head["title"] = title + str(new.head["title"]).removeprefix(f"Attention: {path}")
    parts[index] = joined
    return True


def _states(
    trace: Any, path: str, run: int, searches: Sequence[_Search], labels: Mapping[Any, Any], live: bool
) -> Spec | None:
    tracks = trace.states.runs(path)[run]
    step = trace.states.step_dim(path, run)
    if not tracks or step is None:
        return None
    entry = trace.states.events(path, run)[0].entry
    history = _history_of(path, entry, [search for search in searches if search.path == path])
    if history is not None and any(_is_beam(dim) for value in tracks.values() for dim in value.dims):
        return _states_along(trace, path, run, history, tracks, step, live)
    shown = {
        name: value
        for name, value in tracks.items()
        if isinstance(value, Tensor) and _has(value, step) and _is_float(value)
    }
    # One track may lack the batch (a counter): it holds for all, and says nothing about one.
    most = max((len(Named.of(value).seq_axes([])) for value in shown.values()), default=0)
    shown = {name: value for name, value in shown.items() if len(Named.of(value).seq_axes([])) == most}
    if not shown:
        return None
    options: dict[str, Any] = {"step_dim": step.name, "title": f"{_STATES}{path or 'loop'}", "live": live}
    made = states_spec(shown, steps=_labels(labels, step), **options)
    made.head["axis"] = _SEARCH if history is not None else step.name
    return made


def _joined(parts: list[Spec], new: Spec) -> bool:
    """Put the tracks of states into the part before, if that runs over the same steps of the same sequences (layers of an encoder)."""
    last = parts[-1] if parts else None
    if last is None or new.kind != "states" or last.kind != "states":
        return False
    if any(last.head.get(name) != new.head.get(name) for name in ("seqs", "axis")) or not new.head["tracks"]:
        return False
    paths = [str(spec.head["title"]).removeprefix(_STATES) for spec in (last, new)]
    common = _common(*paths)
    named = [(path[len(common) :].strip("."), spec) for path, spec in zip(paths, (last, new))]
    parts[-1] = joined(named, f"{_STATES}{common or 'several'}")
    return True


def _common(one: str, other: str) -> str:
    """The path that both begin with."""
    same = [a for a, b in zip(one.split("."), other.split(".")) if a == b]
    return ".".join(same if one.split(".")[: len(same)] == same else [])


def _states_along(
    trace: Any, path: str, run: int, history: Any, tracks: Mapping[str, Tensor], step: Dim, live: bool
) -> Spec | None:
    """The states of the best hypothesis of each sequence, [seq, step, unit]."""
    best = [_best(history, seq) for seq in range(history.num_seqs)]
    lengths = [len(one[0]) for one in best]
    shown: dict[str, np.ndarray] = {}
    slots: list[np.ndarray | None] = []
    for name in tracks:
        steps = trace.states.steps(path, name, run)[: history.num_steps]
        units = [dim for dim in steps[-1].dims if Axis(dim.name, 1, dim).kind not in ("batch", "beam")]
        if len(units) != 1 or not _is_float(steps[-1]):
            continue
        out = np.full((len(best), max(lengths, default=0), units[0].extent), np.nan, np.float32)
        for seq, (labels, last, slot) in enumerate(best):
            rows = history.along(steps[: len(labels)], seq, slot, step=last, before_choice=False) if labels else []
            for index, row in enumerate(rows):
                out[seq, index] = row
        shown[name] = out
        slots.append(None if live else in_slots(history, steps))
    if not shown or not any(lengths):
        return None
    title = f"States: {path or 'loop'}, best hypothesis"
    made = states_spec(
        shown, dims=["batch", step.name, "unit"], step_dim=step.name, steps=[one[0] for one in best], lengths=lengths,
        title=title, live=live,
    )  # fmt: skip
    made.head["best"] = True
    known = [one for one in slots if one is not None]
    if len(known) == len(made.head["tracks"]):
        with_slots(made.head["tracks"], made.blocks, known)
    return made


def _tokens(trace: Any) -> dict[Dim, list[Any]]:
    """Labels by dim, from what was embedded along it: indices into a vocabulary with labels, over that dim and at most a batch dim."""
    labels: dict[Dim, list[Any]] = {}
    for event in trace.select(kind="tokens"):
        ids = event.values["ids"]
        vocab = ids.sparse_dim.vocab if ids.sparse_dim is not None else None
        along = [
            dim for dim in ids.dims if dim.kind != "batch" and not any(dim in other.length_dims for other in ids.dims)
        ]
        if vocab is None or len(along) != 1 or len(ids.dims) > 2 or _is_beam(along[0]):
            continue
        rows = ids.copy_transpose([*(dim for dim in ids.dims if dim is not along[0]), along[0]]).numpy()
        names = np.asarray(vocab, dtype=object)[np.clip(rows, 0, len(vocab) - 1)]
        labels[along[0]] = names.tolist()
    return labels


def _best(history: Any, seq: int) -> tuple[list[str], int, int]:
    """Labels of the best hypothesis so far in each step, and its last step and slot."""
    top = history.nbest(seq)
    if not top:
        return [], 0, 0
    step, slot = top[0].end
    return history.labels_along(seq, slot, step=step), step, slot


def _history_of(path: str, entry: int, searches: Sequence[_Search]) -> Any:
    """The search in whose steps something happened: the one with that step, else the one with the longest common path, if it ran once."""
    own = [search for search in searches if entry in search.entries]
    if own:
        return own[0].history
    common = lambda other: sum(a == b for a, b in zip(path.split("."), other.path.split(".")))  # noqa: E731
    near = [search for search in searches if common(search) == max(map(common, searches))]
    return near[0].history if len(near) == 1 else None


def _labels(labels: Mapping[Any, Any], dim: Dim | None) -> Any:
    """The tokens along a dim: its own, those of the dim that it is a twin of, or those of one of the same name and size."""
    if dim is None:
        return None
    for key, value in labels.items():
        if key is dim or key is dim.twin_of or key == dim.name:
            return value
    same = [(key, value) for key, value in labels.items() if isinstance(key, Dim) and key.name == dim.name]
    fitting = [value for key, value in same if dim.is_dim_known() and _same_lengths(key, dim)]
    return fitting[0] if len(fitting) == 1 else None


def _same_lengths(one: Dim, other: Dim) -> bool:
    lengths = [np.ravel(dim.extent if dim.lengths is None else dim.lengths).tolist() for dim in (one, other)]
    return lengths[0] == lengths[1]


def _is_beam(dim: Dim) -> bool:
    return Axis(dim.name, 1, dim).kind == "beam"


def _has(value: Tensor, dim: Dim) -> bool:
    return sum(other.name == dim.name for other in value.dims) == 1


def _is_float(value: Tensor) -> bool:
    return value.dtype.startswith(("float", "bfloat"))
