"""The outputs of a recording as views: scores over a vocabulary that were offered with `rf.probe("outputs", log_probs=...)`.

rf.probe("outputs", logits=logits, reference=targets, axis=vocab)    # or log_probs=, probs=; in each step of a loop too
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import DimError
from rfnb.core.tensor import Tensor
from rfnb.trace.stack import runs_of, stack
from rfnb.viz.distribution.spec import spec as distribution_spec
from rfnb.viz.spec import Spec

KIND = "outputs"
_TYPES = {"logits": "logits", "log_probs": "log-probs", "probs": "probs"}


def outputs(
    trace: Any, path: str, most: int, labels_of: Callable[[Dim], Any], live: bool
) -> list[tuple[Spec, int, int]]:
    """The views of the last runs at a path, each with its number and how many there are.

    Args:
        labels_of: Gives the tokens along a dim, or None.
    """
    runs = runs_of(trace.by_path(KIND)[path])
    made = [(number, _view(trace, path, run, labels_of, live)) for number, run in list(enumerate(runs))[-most:]]
    return [(spec, number, len(runs)) for number, spec in made if spec is not None]


def _view(trace: Any, path: str, run: list[Any], labels_of: Callable[[Dim], Any], live: bool) -> Spec | None:
    values: Mapping[str, Any] = run[0].values
    name = next((name for name in _TYPES if isinstance(values.get(name), Tensor)), None)
    if name is None:
        return None
    title = f"Output: {path or 'output'}"
    scores, reference, axis = values[name], values.get("reference"), values.get("axis")
    step: Dim | None = None
    if run[0].step is not None:
        step = trace.step_dim(run)
        scores = stack([event.values[name] for event in run], step)
        if isinstance(reference, Tensor):
            reference = stack([event.values["reference"] for event in run], step)
    try:
        made = distribution_spec(
            scores, reference if isinstance(reference, Tensor) else None, estimated_type=_TYPES[name],
            axis=axis if isinstance(axis, Dim) else None, step_dim=step, title=title, live=live,
        )  # fmt: skip
    except (DimError, ValueError) as error:  # of a probe of the user's own; the other views are drawn
        nothing = distribution_spec(
            np.zeros((0, 0, 0), np.float32), title=f"{title} — {str(error).splitlines()[0]}", live=live
        )
        return Spec(nothing.kind, {**nothing.head, "seqs": []}, nothing.blocks)
    if made.head["step_dim"] is not None:
        made.head["axis"] = made.head["step_dim"]["name"]
        dims = [dim for dim in scores.dims if dim.name == made.head["step_dim"]["name"]]
        words = labels_of(dims[0]) if len(dims) == 1 else None
        _put_labels(made, words)
    return made


def _put_labels(made: Spec, words: Any) -> None:
    """The tokens that were read in each step, where they are known: a list for each sequence, or one for all."""
    seqs = made.head["seqs"]
    if not words:
        return
    rows = words if isinstance(words[0], (list, tuple)) else [words] * len(seqs)
    if len(rows) == len(seqs) and all(len(row) >= seq["len"] for row, seq in zip(rows, seqs)):
        for row, seq in zip(rows, seqs):
            seq["steps"] = [str(token) for token in row[: seq["len"]]]
