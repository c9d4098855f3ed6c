"""What a recording shows: a part for the searches, the attentions and the states in it, all linked by one selection.

Under a beam search the attention of a step is in slots of the beam, and a hypothesis moves between slots. Here the rows of a map
follow the best hypothesis of each sequence, not a slot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.viz import group
from rfnb.viz.attention import spec as attention_spec
from rfnb.viz.axes import Axis, Named
from rfnb.viz.beams import spec as beams_spec
from rfnb.viz.dims import spec as dims_spec
from rfnb.viz.spec import Spec
from rfnb.viz.states import spec as states_spec

_MOST_PARTS = 12


def spec(trace: Any, *, labels: Mapping[Any, Sequence[Any]] | None = None, live: bool | None = None, title: str | None = None) -> Spec:
    """The spec of all that a trace has.

    Args:
        trace: A Trace.
        labels: Tokens by dim (a Dim or its name): a list for all sequences, or a list per sequence.
        live: Whether more may come. Default: while the trace is not closed.
        title: Default says how much there is.
    """
    labels = labels or {}
    running = not trace.closed if live is None else live
    histories = {path: trace.beams.runs(path)[-1] for path in trace.beams}
    parts = [beams_spec(history, title=f"Beam search: {path or 'search'}", live=running) for path, history in histories.items()]
    parts += [made for path in trace.attention if (made := _attention(trace, path, histories, labels, running)) is not None]
    parts += [made for path in trace.states if (made := _states(trace, path, histories, labels, running)) is not None]
    if not parts and trace.modules:
        parts = [dims_spec(trace, live=running)]
    counts = ", ".join(f"{count} {kind}" for kind, count in trace.counts().items())
    cut = " (cut off at the limit)" if trace.truncated is not None else ""
    return group.spec(
        parts[:_MOST_PARTS], title=title or f"Trace: {counts or 'no events'}{cut}", live=running, link=f"trace {id(trace)}"
    )


def _attention(trace: Any, path: str, histories: Mapping[str, Any], labels: Mapping[Any, Any], live: bool) -> Spec | None:
    weights = trace.attention.runs(path)[-1]
    axis, step = trace.attention.axis(path, -1), trace.attention.step_dim(path, -1)
    history = _history_of(path, histories) if step is not None else None
    title = f"Attention: {path or 'attention'}"
    source_axis = Axis(axis.name, axis.extent, axis) if axis is not None else None
    batch = next((dim for dim in weights.dims if Axis(dim.name, 1, dim).kind == "batch"), None)
    source = _labels(labels, axis)
    if history is not None and any(_is_beam(dim) for dim in weights.dims):
        return _along(trace, path, history, source_axis, batch, source, title, live)
    step_or_none = next((dim for dim in weights.dims if step is not None and (dim is step or dim.name == step.name)), None)
    options: dict[str, Any] = {"source_dim": axis, "target_dim": step_or_none, "title": title, "live": live}
    target = _labels(labels, step_or_none)
    return attention_spec({"": weights}, source=source, target=target, **options)


def _along(
    trace: Any, path: str, history: Any, axis: Axis | None, batch: Dim | None, source: Any, title: str, live: bool
) -> Spec | None:
    """The maps of the best hypothesis of each sequence, [seq, target, head, source]."""
    steps = trace.attention.steps(path, -1)[: history.num_steps]
    best = [_best(history, seq) for seq in range(history.num_seqs)]
    rows = [history.along(steps[: len(one[0])], seq, one[2], step=one[1]) if one[0] else [] for seq, one in enumerate(best)]
    rest = [dim for dim in steps[0].dims if dim is not batch and not _is_beam(dim)]
    if not any(rows) or axis is None or not rest:
        return None
    shape = [max(array.shape[i] for one in rows for array in one) for i in range(len(rest))]
    out = np.full((len(rows), max(map(len, rows)), *shape), np.nan, np.float32)
    for seq, one in enumerate(rows):
        for index, array in enumerate(one):
            out[(seq, index, *map(slice, array.shape))] = array
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
    return made


def _states(trace: Any, path: str, histories: Mapping[str, Any], labels: Mapping[Any, Any], live: bool) -> Spec | None:
    tracks = trace.states.runs(path)[-1]
    step = trace.states.step_dim(path, -1)
    if not tracks or step is None:
        return None
    shown = {name: value for name, value in tracks.items() if isinstance(value, Tensor) and _has(value, step) and _is_float(value)}
    # One track may lack the batch (a counter): it holds for all, and says nothing about one.
    most = max((len(Named.of(value).seq_axes([])) for value in shown.values()), default=0)
    shown = {name: value for name, value in shown.items() if len(Named.of(value).seq_axes([])) == most}
    if not shown:
        return None
    options: dict[str, Any] = {"step_dim": step.name, "title": f"States: {path or 'loop'}", "live": live}
    return states_spec(shown, steps=_labels(labels, step), **options)


def _best(history: Any, seq: int) -> tuple[list[str], int, int]:
    """Labels of the best hypothesis so far, and its last step and slot."""
    top = history.nbest(seq)
    if not top:
        return [], 0, 0
    step, slot = top[0].path[-1]
    return list(top[0].labels), step, slot


def _history_of(path: str, histories: Mapping[str, Any]) -> Any:
    """The search around an attention: the one with the longest common path; the only one if there is one."""
    common = lambda other: sum(a == b for a, b in zip(path.split("."), other.split(".")))  # noqa: E731
    return histories[max(histories, key=common)] if histories else None


def _labels(labels: Mapping[Any, Any], dim: Dim | None) -> Any:
    if dim is None:
        return None
    return next((value for key, value in labels.items() if key is dim or key == dim.name or getattr(key, "name", None) == dim.name), None)


def _is_beam(dim: Dim) -> bool:
    return Axis(dim.name, 1, dim).kind == "beam"


def _has(value: Tensor, dim: Dim) -> bool:
    return sum(other.name == dim.name for other in value.dims) == 1


def _is_float(value: Tensor) -> bool:
    return value.dtype.startswith(("float", "bfloat"))
