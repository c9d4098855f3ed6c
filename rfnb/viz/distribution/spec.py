"""The `distribution` view: the output distribution of a model in each step, and whether it is right.

    rf.viz.distribution(log_probs, reference=targets)           # Tensors know dims, lengths and labels of the vocabulary
    rf.viz.distribution(logits, reference=[2, 0, 1], labels=["a", "b", "c"])    # arrays {step, label} or {batch, step, label}

A spec has the exact values of the best labels of each step and of the reference, and the total probability of the rest.
The widget draws the same spec in `widgets/src/distribution/`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.errors import dim_error, shape_error, value_error
from rfnb.core.foreign_arrays import is_array
from rfnb.core.strict_json import JsonObject
from rfnb.core.tensor import Tensor
from rfnb.viz.axes import Axis, NamedArray, given_lengths, seq_labels, tokens_of
from rfnb.viz.distribution.scores import ScoreRows, kind_of, rows_of
from rfnb.viz.roles import step_axis
from rfnb.viz.spec import Spec, host
from rfnb.viz.states.check import since
from rfnb.viz.view_inputs import of_output, stacked_steps

_WHERE = "distribution"
_OF_STEPS = "A tuple has one array {batch, label} for each step, as generate gives its scores; a list has one for each sequence."


_USUAL = {1: ["label"], 2: ["step", "label"], 3: ["batch", "step", "label"]}  # axes of plain arrays


def spec(
    scores: Any,
    reference: Any = None,
    *,
    estimated_type: str | None = None,
    axis: Any = None,
    step_dim: Any = None,
    dims: str | Sequence[str] | None = None,
    labels: Sequence[Any] | None = None,
    lengths: Any = None,
    steps: Sequence[Any] | None = None,
    names: Sequence[str] | None = None,
    top: int = 20,
    title: str = "Output",
    live: bool = False,
) -> Spec:
    """The spec of the distribution over a vocabulary in each step.

    Args:
        scores: {step, axis, ...} probabilities, their natural logs, or logits: a Tensor or an array; the output of a model of transformers;
            or a tuple with an array {batch, axis} for each step, as in the scores of `generate` (a list has one per sequence).
        reference: The right label of each step: a Tensor sparse over the vocabulary, or indices or labels, a list for all sequences or a
            list per sequence. An index below 0 means no reference in this step.
        estimated_type: "probs", "log-probs" or "logits", as in `rf.cross_entropy`. Default: detected from the sums over
            the labels, and shown in the view.
        axis: The dim of the vocabulary, a Dim or a name. Default: the sparse dim of the reference, else the dim with
            labels, else the feature dim; for a plain array the last one.
        step_dim: The dim of the steps. Default: that of the recording, else one with a characteristic name or lengths,
            else the only candidate, which may be the batch.
        dims: Names of the axes of a plain array. Default: [batch,] [step,] label.
        labels: Labels of the vocabulary. Default: those of its dim, else numbers.
        lengths: Number of steps per sequence. Default: those of the dim, else of the reference.
        steps: Label of each step, or a list of labels per sequence. Default: numbers.
        names: One label per sequence.
        top: Number of best labels kept per step.
        live: Whether more data may arrive.

    Raises:
        DimError: If a given dim is not a dim of the scores, or the dim is ambiguous.
        ShapeError: If the scores, labels or lengths do not fit together.
        ValueError: If the scores are not of the given kind, or their kind is ambiguous.
    """
    if isinstance(top, bool) or not isinstance(top, int) or top < 1:
        rule = "At least the best label of each step is kept."
        raise value_error(f"{_WHERE}: top is not a count.", {"top": repr(top)}, rule, "top=20")
    scores = of_output(scores, "logits", _WHERE, "return_dict=True")
    half = _is_half(scores)
    scores, of_steps = stacked_steps(scores, dims)
    named = NamedArray.of(scores, dims, _USUAL, where=_WHERE)
    vocab = _vocab(named, reference, axis)
    seqs, step = _others(named, scores, vocab, step_dim)
    known = labels if labels is not None else getattr(vocab.dim, "vocab", None)
    tokens = None if known is None else [str(label) for label in known]
    if tokens is not None and len(tokens) < vocab.size:
        raise shape_error(
            f"{_WHERE}: the vocabulary has too few labels.",
            {"scores": named.describe(), "labels": len(tokens)},
            "Each index into the vocabulary needs a label.",
            f"labels=[...]    # {vocab.size} of them",
        )
    right = None if reference is None else reference_of(reference, seqs, step, tokens)
    ragged = reference if isinstance(reference, (list, tuple)) else None
    own = given_lengths(lengths, ragged, step, seqs, where=_WHERE, role="step")
    if not seqs and step is None:
        own = np.ones(1, np.int32)
    array = named.arranged(seqs, [step] if step is not None else [], [vocab])
    real = np.arange(array.shape[1])[None] < own[:, None]
    wanted = np.full(array.shape[:2], -1) if right is None else right
    scored = array.reshape(math.prod(array.shape[:2]), array.shape[2]) if real.all() else array[real]
    scored = scored if scored.dtype.kind == "f" else scored.astype(np.float64)
    kind = kind_of(scored, estimated_type, half=half)
    rows = rows_of(scored, kind, wanted[real], top)
    blocks = _blocks(rows, real, wanted if right is not None else None)
    seen = np.unique(np.concatenate([blocks["top"].ravel(), wanted[real].ravel()]))
    entry = step.entry(0) if step is not None else None
    head: JsonObject = {
        "title": title, "live": live, "step_dim": entry, "vocab_dim": {**vocab.entry(1), "size": vocab.size}, "estimated_type": kind,
        "found": estimated_type is None, "reference": right is not None,
        "tokens": {
            str(index): tokens[index] if tokens is not None else str(index) for index in seen.tolist() if 0 <= index < vocab.size
        },
    }  # fmt: skip
    if of_steps:
        head["remark"] = _OF_STEPS
    alone = "the batch" if step is not None and step.kind == "batch" else "sequence 0"
    seq_names = seq_labels(seqs, names, alone)
    words = tokens_of(steps, own, seqs, where=_WHERE, role="step")
    head["seqs"] = [
        {"label": label, "len": int(length), "steps": row, **_summary(blocks, seq, int(length), vocab.size)}
        for seq, (label, length, row) in enumerate(zip(seq_names, own, words))
    ]
    return Spec("distribution", head, blocks)


def _is_half(scores: Any) -> bool:
    """Whether the numbers have low precision, so that sums are less exact."""
    while isinstance(scores, tuple) and scores and not is_array(scores):
        scores = scores[0]
    return str(getattr(scores, "dtype", "")).endswith(("float16", "bfloat16"))


def _vocab(named: NamedArray, reference: Any, given: Any) -> Axis:
    """The axis of the labels."""
    if given is not None:
        return named.find(given, where=_WHERE, role="axis")
    sparse = reference.sparse_dim if isinstance(reference, Tensor) else None
    choices = [
        [axis for axis in named.axes if sparse is not None and axis.dim is sparse],
        [axis for axis in named.axes if getattr(axis.dim, "vocab", None) is not None],
        [axis for axis in named.axes if axis.kind == "feature"],
        named.axes[-1:] if named.plain else [],
    ]
    found = next((choice for choice in choices if choice), [])
    if len(found) == 1:
        return found[0]
    raise dim_error(
        f"{_WHERE}: the vocabulary dim is ambiguous.",
        {"scores": named.describe(), "possible": ", ".join(axis.describe() for axis in found) or "none that tells"},
        "The vocabulary is the sparse dim of the reference, the dim with labels, or the feature dim. Name it:",
        f'rf.viz.distribution(scores, axis="{(found or named.axes)[-1].name}")' if named.axes else None,
    )


def _others(named: NamedArray, scores: Any, vocab: Axis, given: Any) -> tuple[list[Axis], Axis | None]:
    """The axes of the sequences, and that of the steps."""
    rest = NamedArray(named.array, [axis for axis in named.axes if axis is not vocab], named.plain)
    step = rest.find(given, where=_WHERE, role="step_dim") if given is not None else step_axis(rest, scores, _WHERE)
    if step is None and len(rest.axes) == 1 and rest.axes[0].kind != "beam":
        step = rest.axes[0]  # a classifier: one output per example
    return rest.sorted([axis for axis in rest.axes if axis is not step]), step


def _blocks(rows: ScoreRows, real: np.ndarray, reference: np.ndarray | None) -> dict[str, np.ndarray]:
    """The values as blocks [seq, step, ...], filled with -1 and NaN after the end of a sequence."""

    def spread(values: np.ndarray, dtype: Any, fill: float) -> np.ndarray:
        out = np.full((*real.shape, *values.shape[1:]), fill, dtype)
        out[real] = values
        return out

    out = {
        "top": spread(rows.top, np.int32, -1),
        "top_log_probs": spread(rows.top_log_probs, np.float32, np.nan),
        "rest": spread(rows.rest, np.float32, np.nan),
        "entropy": spread(rows.entropy, np.float32, np.nan),
    }
    if reference is not None:
        out["reference"] = np.where(real, np.clip(reference, -1, 2**31 - 1), -1).astype(np.int32)
        out["log_prob"] = spread(rows.log_prob, np.float32, np.nan)
        out["rank"] = spread(rows.rank, np.int32, 0)
    return out


def _summary(blocks: dict[str, np.ndarray], seq: int, length: int, size: int) -> JsonObject:
    """A summary of one sequence as text: the number of right and of known labels, their mean loss in nats, and anomalies."""
    out: JsonObject = {}
    said = []
    broken = np.flatnonzero(blocks["top"][seq, :length, :1].min(-1, initial=0) < 0)
    if len(broken):
        said.append(f"no distribution (NaN or infinity) {since(broken, length)}")
    if "reference" in blocks:
        reference, rank = blocks["reference"][seq, :length], blocks["rank"][seq, :length]
        known = rank > 0
        losses = -blocks["log_prob"][seq, :length][known].astype(np.float64)
        out = {"right": int((rank == 1).sum()), "known": int(known.sum())}
        out["loss"] = float(losses.mean()) if len(losses) and np.isfinite(losses).all() else None
        outside = np.flatnonzero(reference >= size)
        if len(outside):
            said.append(f"the reference is outside the vocabulary of {size} {since(outside, length)}")
        never = np.flatnonzero(known & np.isneginf(blocks["log_prob"][seq, :length]))
        if len(never):
            said.append(f"the reference has probability 0 {since(never, length)}, so its loss is infinite")
    return {**out, "note": "; ".join(said)} if said else out


_NONE = -1  # no reference in this step


def reference_of(given: Any, seqs: Sequence[Axis], step: Axis | None, labels: Sequence[str] | None) -> np.ndarray:
    """int64 [seq, step]; below 0 without a reference.

    Args:
        given: A Tensor whose dims are among those of the scores; else indices or labels: for all sequences, or a list of them for each.
        labels: Labels of the vocabulary.

    Raises:
        DimError, ShapeError, ValueError: If it does not fit the scores.
    """
    shape = (int(np.prod([axis.size for axis in seqs], dtype=np.int64)), step.size if step is not None else 1)
    if isinstance(given, Tensor):
        return _of_tensor(given, [*seqs, *([step] if step is not None else [])], shape)
    if is_array(given):
        ids = host(given)
        if ids.ndim == 1 and step is None and len(ids) == shape[0]:
            ids = ids[:, None]
    else:
        ids = _of_lists(given, labels)
    if (
        ids.dtype.kind not in "iu"
        or ids.ndim not in (1, 2)
        or ids.shape[-1] > shape[1]
        or (ids.ndim == 2 and ids.shape[0] != shape[0])
    ):
        raise shape_error(
            "distribution: the reference does not fit the scores.",
            {"scores": f"{shape[0]} sequences, {shape[1]} steps", "reference": f"{ids.dtype} {ids.shape}"},
            "The reference has one index into the vocabulary per step: one list for all sequences, or one list per sequence.",
            "reference=[[...], [...]]",
        )  # fmt: skip
    out = np.full(shape, _NONE, np.int64)
    out[:, : ids.shape[-1]] = ids
    return out


def _of_tensor(given: Tensor, axes: list[Axis], shape: tuple[int, int]) -> np.ndarray:
    named = NamedArray.of(given)
    foreign = [axis for axis in named.axes if all(axis.dim is not other.dim for other in axes)]
    if foreign:
        dims = ", ".join(axis.describe() for axis in axes)
        raise dim_error(
            f"distribution: the reference has a dim {foreign[0].describe()} that the scores do not have.",
            {"scores": f"[{dims}], without the vocabulary", "reference": named.describe()},
            "The dims of the reference are among those of the scores.",
            "rf.viz.distribution(scores, reference=targets)    # of the same batch and the same steps",
        )
    if named.array.dtype.kind not in "iu":
        raise value_error(
            "distribution: the reference does not contain indices.",
            {"reference": f"{named.describe()} {given.dtype}"},
            "The reference consists of integers, sparse over the vocabulary.",
            "rf.viz.distribution(scores, reference=rf.reduce_argmax(targets, axis=vocab))",
        )
    found = [next((axis for axis in named.axes if axis.dim is other.dim), None) for other in axes]
    array = named.array.transpose([named.axes.index(axis) for axis in found if axis is not None])
    array = array.reshape([1 if axis is None else axis.size for axis in found])
    return np.broadcast_to(array, [axis.size for axis in axes]).reshape(shape).astype(np.int64)


def _of_lists(given: Any, labels: Sequence[str] | None) -> np.ndarray:
    rows = [
        list(row) if isinstance(row, (list, tuple)) or (is_array(row) and len(row.shape)) else None for row in given
    ]
    nested = bool(rows) and all(row is not None for row in rows)
    table: dict[str, int] = {}
    for index, label in enumerate(labels or ()):
        table.setdefault(label, index)
    lists = [[_index(item, table) for item in row] for row in (rows if nested else [list(given)]) if row is not None]
    out = np.full((len(lists), max(map(len, lists), default=0)), _NONE, np.int64)
    for row, items in zip(out, lists):
        row[: len(items)] = items
    return out if nested else out[0]


def _index(item: Any, table: dict[str, int]) -> int:
    if item is None:
        return _NONE
    if not isinstance(item, str):
        return int(item)
    if item not in table:
        raise value_error(
            f"distribution: the reference has a label {item!r} that the vocabulary does not have.",
            {"vocabulary": f"{len(table)} labels" if table else "without labels"},
            "The reference has labels of the vocabulary, or indices into it.",
            "rf.viz.distribution(scores, reference=..., labels=[...])",
        )
    return table[item]
