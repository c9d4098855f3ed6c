"""Outputs in a recording as views: scores over a vocabulary that were sent with `rf.probe("outputs", log_probs=...)`.

rf.probe("outputs", logits=logits, reference=targets, axis=vocab)    # or log_probs=, probs=; also in each step of a loop
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import DimError
from rfnb.core.tensor import Tensor
from rfnb.trace.host_copies import on_host
from rfnb.trace.lookup import SearchEvents
from rfnb.trace.newest_positions import newest
from rfnb.trace.stacked_events import runs_of, stack
from rfnb.viz.axes import RowsOver
from rfnb.viz.distribution.spec import spec as distribution_spec
from rfnb.viz.spec import Spec
from rfnb.viz.trace_labels import RunLabels
from rfnb.viz.trace_search import SearchValues, search_of

_TYPES = {"logits": "logits", "log_probs": "log-probs", "probs": "probs"}


def runs(events: Sequence[Any]) -> list[list[Any]]:
    """The runs of a path: see `one_after_the_other`."""
    found = runs_of(events)
    try:
        return one_after_the_other(found)
    except Exception:  # for values that cannot be computed any more; their part says so
        return found


def part(page: Any, run: Any, own: RunLabels) -> Spec | None:
    """The view of a run; None if it has no scores."""
    search = search_of(run.events, page.searches)
    if search is None:
        run = replace(run, events=newest(run.events))
    made = _outputs(page.trace, run.path, run.events, own.along, page.live, search, own.names())
    if made is not None and made.head.get("step_dim") is not None:
        page.on(made, "step_dim", run, _dim_named(run, made.head["step_dim"]["name"]), search)
    return made


def _outputs(
    trace: Any,
    path: str,
    run: list[Any],
    labels_of: Callable[[Dim], Any],
    live: bool,
    search: SearchEvents | None,
    names: Sequence[str] = (),
) -> Spec | None:
    """The view of a run; None if it has no scores.

    Args:
        run: Its events.
        labels_of: Returns the tokens along a dim, or None.
        search: The search in whose steps it was recorded.
        names: Names of the sequences of the batch.
    """
    values: Mapping[str, Any] = run[0].values
    name = next((name for name in _TYPES if isinstance(values.get(name), Tensor)), None)
    if name is None:
        return None
    title = f"Output: {path or 'output'}"
    try:
        followed = SearchValues.of(search, run, name)
        if followed is not None and len(followed.inner) == 1:
            return _along(followed, run, _TYPES[name], title, live)
        return _whole(trace, run, name, title, labels_of, live, names)
    except (DimError, ValueError) as error:  # a user's own probe; the other views are still drawn
        nothing = distribution_spec(
            np.zeros((0, 0, 0), np.float32), title=f"{title} — {str(error).splitlines()[0]}", live=live
        )
        return Spec(nothing.kind, {**nothing.head, "seqs": []}, nothing.blocks)


def one_after_the_other(runs: list[list[Any]]) -> list[list[Any]]:
    """The runs of a path; merged into one if each is a single frame [batch, label], as for a decoder in a Python loop that
    calls its output layer.

    Without a dim of steps they must be from one call of the model, since a classifier has such outputs in each call.
    """
    events = [event for run in runs for event in run]
    shapes = {_frame(event) for event in events}
    calls = {event.call for event in events}
    if len(runs) < 2 or len(runs) < len(events) or len(shapes) != 1:
        return runs
    (shape,) = shapes
    return [events] if shape is not None and (len(shape[0]) == 3 or (len(calls) == 1 and calls != {0})) else runs


def _frame(event: Any) -> Any:
    """The sizes of the dims of a single frame, and its vocabulary, by which frames are matched; None for anything else."""
    scores = _scores_of(event)
    axis = event.values.get("axis")
    if event.step is not None or scores is None or "reference" in event.values or axis not in scores.dims:
        return None
    others = [dim for dim in scores.dims if dim is not axis]
    inner = [dim for dim in others if dim.kind != "batch"]
    if len(others) - len(inner) != 1 or len(inner) > 1 or any(dim.extent != 1 for dim in inner):
        return None
    return tuple((dim.extent, dim.kind == "batch") for dim in scores.dims), axis


def _scores_of(event: Any) -> Tensor | None:
    return next((event.values[name] for name in _TYPES if isinstance(event.values.get(name), Tensor)), None)


def _frames(run: list[Any], name: str, step: Dim) -> Tensor:
    """The frames of a run as one array {batch, step, label}."""
    axis = run[0].values["axis"]
    dims = [dim for dim in run[0].values[name].dims if dim is axis or dim.kind == "batch"]
    shape = [dim.extent for dim in dims]
    return stack(
        [Tensor("scores", dims, raw_tensor=event.values[name].raw_tensor.reshape(shape)) for event in run], step
    )


def _whole(
    trace: Any, run: list[Any], name: str, title: str, labels_of: Callable[[Dim], Any], live: bool, names: Sequence[str]
) -> Spec:
    values = run[0].values
    scores, reference, axis = values[name], values.get("reference"), values.get("axis")
    step: Dim | None = None
    if run[0].step is not None:
        step = trace.step_dim(run)
        scores = stack([event.values[name] for event in run], step)
        if isinstance(reference, Tensor):
            reference = stack([event.values["reference"] for event in run], step)
    elif len(run) > 1:
        step = Dim(len(run), name="step")
        scores = _frames(run, name, step)
    made = distribution_spec(
        scores, reference if isinstance(reference, Tensor) else None, estimated_type=_TYPES[name],
        axis=axis if isinstance(axis, Dim) else None, step_dim=step, title=title, live=live,
    )  # fmt: skip
    if made.head["step_dim"] is not None and made.head["step_dim"]["kind"] == "batch":
        _put_labels(made, names)
    elif made.head["step_dim"] is not None:
        dims = [dim for dim in scores.dims if dim.name == made.head["step_dim"]["name"]]
        words = labels_of(dims[0]) if len(dims) == 1 else None
        if not isinstance(words, RowsOver) or words.over in scores.dims:
            _put_labels(made, words)
    return made


def _along(followed: SearchValues, run: list[Any], estimated_type: str, title: str, live: bool) -> Spec | None:
    """The scores from which the best hypothesis of each sequence was chosen, [seq, step, label]."""
    array = followed.array()
    if array is None:
        return None
    (vocab,) = followed.inner
    given = {
        event.step: event.values["reference"] for event in run if isinstance(event.values.get("reference"), Tensor)
    }
    reference = None
    if given:
        steps = on_host([given.get(step) for step in range(len(followed.steps))])
        rows = replace(followed, steps=steps, inner=()).rows()
        reference = np.full(array.shape[:2], -1, np.int64)
        for seq, row in enumerate(rows):
            reference[seq, : len(row)] = [-1 if np.isnan(value) else int(value) for value in row]
    return distribution_spec(
        array, reference, estimated_type=estimated_type, dims=["batch", "step", vocab.name], axis=vocab.name, step_dim="step",
        labels=vocab.vocab, lengths=[len(labels) for labels, _, _ in followed.best],
        steps=[labels for labels, _, _ in followed.best], title=f"{title}, best hypothesis", live=live,
    )  # fmt: skip


def _put_labels(made: Spec, words: Any) -> None:
    """Set the tokens read in each step, if known: a list per sequence, or one for all."""
    seqs = made.head["seqs"]
    if not words:
        return
    rows = words if isinstance(words[0], (list, tuple)) else [words] * len(seqs)
    if len(rows) == len(seqs) and all(len(row) >= seq["len"] for row, seq in zip(rows, seqs)):
        for row, seq in zip(rows, seqs):
            seq["steps"] = [str(token) for token in row[: seq["len"]]]


def _dim_named(run: Any, name: str) -> Dim | None:
    dims = {dim for value in run.events[0].values.values() if isinstance(value, Tensor) for dim in value.dims}
    found = [dim for dim in dims if dim.name == name]
    return found[0] if len(found) == 1 else None
