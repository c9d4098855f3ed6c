"""choice: which hypotheses of a search go on. decide: the best one in the end.

    for _ in loop:
        log_prob = model.step(loop.state.label, ...)
        label = rf.choice(log_prob, beam_size=5)
        loop.state.label = label
        loop.end(label == eos, include_eos=True)
        labels = loop.stack(label)
    best = rf.decide(labels)

All states of the loop follow their parents by themselves.
"""

from __future__ import annotations

import weakref

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import message
from rfnb.core.tensor import Tensor, missing_dim, new_tensor, shape_of
from rfnb.ops import array, math, reduce
from rfnb.ops.const import zeros
from rfnb.rec.loop import Loop
from rfnb.rec.selection import Selection
from rfnb.trace.probe import listening, probe

_NEVER = -1e30  # log probability of leaving the end of a hypothesis
_searches: weakref.WeakKeyDictionary[Dim, _Search] = weakref.WeakKeyDictionary()
INPUT_TYPES = ("log_prob", "prob", "logits")


class _Search:
    """What one choice keeps from step to step."""

    def __init__(self, beam_size: int):
        self.carried = Dim(beam_size, name="beam", kind="beam")
        self.chosen = Dim(beam_size, name="beam'", kind="beam")
        self.scores: Tensor | None = None  # {batch, carried}, natural log
        self.loop: Loop | None = None


def choice(
    scores: Tensor,
    *,
    beam_size: int,
    axis: Dim | None = None,
    input_type: str = "log_prob",
    keep_candidates: int | None = None,
    name: str = "choice",
) -> Tensor:
    """The labels of the hypotheses that go on: the `beam_size` best continuations, best first.

    Scores add up: log probability of the hypothesis so far plus that of the label. A hypothesis that has ended goes on only
    through label 0, which costs nothing.

    Args:
        scores: {batch, ..., axis}: scores of the next label of each hypothesis.
        beam_size: How many hypotheses; 1 is greedy search.
        axis: The labels; default: the feature_dim of scores.
        input_type: "log_prob", "prob" or "logits".
        keep_candidates: How many candidates of a step to keep in a trace (default: twice the beam and at least 8), the cut
            ones included.
        name: Of this choice in traces.

    Returns:
        int64 {batch, beam}, sparse over axis.

    Raises:
        RuntimeError: Outside of a Loop.
        ValueError: For a beam size below 1, an unknown input type, or scores with NaN in them.

    Probes:
        beams: tokens, parents, scores, ended, and the best candidates with what became of them.

    Source: Sutskever et al. 2014, section 3.2.
    """
    loop = Loop.current()
    if loop is None:
        raise RuntimeError(
            "choice: outside of a loop.\nA choice is made in every step of a search.\n    for _ in loop:\n        label = rf.choice(...)"
        )
    if beam_size < 1:
        raise ValueError(
            f"choice: beam_size {beam_size}.\nAt least one hypothesis goes on.\n    rf.choice(scores, beam_size=5)"
        )
    if input_type not in INPUT_TYPES:
        raise ValueError(
            message(f'choice: input_type "{input_type}".', [("known", ", ".join(INPUT_TYPES))], "It is one of these.")
        )
    axis = axis or scores.feature_dim
    if axis is None or axis not in scores.dims:
        raise missing_dim("choice", scores, axis or Dim(0, name="labels"), "scores")
    search = loop.__dict__.setdefault("search", None) or _start(loop, beam_size)
    log_prob = _log_prob(scores, axis, input_type)
    _check_finite(log_prob, loop, axis)
    in_dim = search.carried if search.carried in scores.dims else None
    if in_dim is None and search.scores is not None:
        in_dim = search.carried
        log_prob = array.expand_dim(log_prob, in_dim)
    total = _continue(log_prob, search, loop, axis)
    values, parents, labels = _select(total, search, in_dim, axis)
    selection = Selection(in_dim, search.chosen, search.carried, parents)
    search.scores = selection.to_carried(values)
    loop.select(selection)
    if listening():
        candidates = _candidates(total, in_dim, axis, keep_candidates or max(2 * beam_size, 8))
        loop.call_on_commit(lambda: _report(loop, name, labels, parents, values, candidates))
    return labels


def _start(loop: Loop, beam_size: int) -> _Search:
    search = _Search(beam_size)
    search.loop = loop
    loop.search = search  # type: ignore[attr-defined]
    _searches[search.carried] = search
    return search


def _log_prob(scores: Tensor, axis: Dim, input_type: str) -> Tensor:
    if input_type == "logits":
        return math.log_softmax(scores, axis=axis)
    return math.log(math.maximum(scores, 1e-20)) if input_type == "prob" else scores


def _check_finite(log_prob: Tensor, loop: Loop, axis: Dim) -> None:
    best = reduce.reduce_max(log_prob, axis=axis).numpy()  # NaN wins every maximum
    if np.isnan(best).any():
        where = ", ".join(
            f"{dim.name} {index}"
            for dim, index in zip([d for d in log_prob.dims if d is not axis], np.argwhere(np.isnan(best))[0])
        )
        raise ValueError(
            message(f'choice in loop "{loop.name}", step {loop.num_steps - 1}: the scores contain NaN.', [("scores", shape_of(log_prob)), ("first", where)],
                    "A NaN cannot be ranked. Find the first op that makes one, e.g. a log of 0 or a division by 0.")
        )  # fmt: skip


def _continue(log_prob: Tensor, search: _Search, loop: Loop, axis: Dim) -> Tensor:
    """Scores of all continuations; an ended hypothesis goes on through label 0 alone."""
    ended = loop.ended_before()
    if ended is not None:
        backend = log_prob.backend
        row = np.full(axis.extent, _NEVER, np.float32)
        row[0] = 0
        stay = new_tensor(backend.from_numpy(row, dtype=log_prob.dtype, device=log_prob.device), (axis,))
        has_ended = new_tensor(backend.from_numpy(ended, dtype="bool", device=log_prob.device), loop.end_dims)
        log_prob = math.where(has_ended, stay, log_prob, allow_broadcast_all_sources=True).copy_transpose(log_prob.dims)
    return log_prob if search.scores is None else log_prob + search.scores


def _select(total: Tensor, search: _Search, in_dim: Dim | None, axis: Dim) -> tuple[Tensor, Tensor, Tensor]:
    beam = search.chosen
    axes = (in_dim, axis) if in_dim is not None else (axis,)
    available = axis.extent * (in_dim.extent if in_dim is not None else 1)
    if available < beam.extent:  # fewer continuations than hypotheses: the rest is label 0 with score -inf
        total, axis_padded = _padded(total, axis, -(-beam.extent // (available // axis.extent)))
        axes = (*axes[:-1], axis_padded)
    values, indices = _best(total, axes, beam)
    labels = indices[-1]
    if in_dim is not None:
        parents = indices[0]
    else:
        parents = zeros(labels.dims, dtype="int64", device=labels.device)
        parents.sparse_dim = search.carried
    if axes[-1] is not axis:
        real = labels < axis.extent
        labels = math.where(real, labels, 0)
        if in_dim is not None:
            parents = math.where(real, parents, 0)
            parents.sparse_dim = in_dim
    labels.sparse_dim = axis
    return values, parents, labels


def _best(total: Tensor, axes: tuple[Dim, ...], k_dim: Dim) -> tuple[Tensor, list[Tensor]]:
    values, indices, _ = reduce.top_k(total, axis=axes, k_dim=k_dim)
    return values, indices if isinstance(indices, list) else [indices]


def _padded(total: Tensor, axis: Dim, size: int) -> tuple[Tensor, Dim]:
    padded = Dim(size, name=f"{axis.name}+none")
    out, _ = array.pad(total, axes=[axis], padding=[(0, size - axis.extent)], out_dims=[padded], value=float("-inf"))
    return out, padded


def _candidates(total: Tensor, in_dim: Dim | None, axis: Dim, count: int) -> dict[str, Tensor]:
    axes = (in_dim, axis) if in_dim is not None else (axis,)
    available = axis.extent * (in_dim.extent if in_dim is not None else 1)
    scores, indices = _best(total, axes, Dim(min(count, available), name="candidate"))
    parents = indices[0] if in_dim is not None else zeros(scores.dims, dtype="int64", device=scores.device)
    return {"cand_tokens": indices[-1], "cand_parents": parents, "cand_scores": scores}


def _report(
    loop: Loop, name: str, labels: Tensor, parents: Tensor, values: Tensor, candidates: dict[str, Tensor]
) -> None:
    """The `beams` event of this step: what was kept, what was cut, what has ended."""
    selection = loop.selection
    assert selection is not None
    ended = loop.ended
    dims = tuple(selection.carried if dim is selection.out_dim else dim for dim in labels.dims)
    if ended is None:
        ended_tensor = zeros(dims, dtype="bool", device=labels.device)
    else:
        raw = labels.backend.from_numpy(ended, dtype="bool", device=labels.device)
        ended_tensor = new_tensor(raw, loop.end_dims).copy_transpose(dims)
    rank = candidates["cand_scores"].dims[-1]
    kept = np.broadcast_to(
        np.arange(rank.extent) < selection.out_dim.extent, [dim.extent for dim in candidates["cand_scores"].dims]
    )
    kept_raw = labels.backend.from_numpy(kept, dtype="bool", device=labels.device)
    probe(
        "beams",
        name=name,
        tokens=selection.to_carried(labels),
        parents=selection.to_carried(parents),
        scores=selection.to_carried(values),
        ended=ended_tensor,
        cand_kept=new_tensor(kept_raw, candidates["cand_scores"].dims),
        **candidates,
    )


def _search_of(x: Tensor, what: str) -> _Search:
    for dim in x.dims:
        if dim in _searches:
            return _searches[dim]
    raise ValueError(
        message(f"{what}: no search has made this.", [("value", shape_of(x))], "A value of a search has its beam dim.",
                "labels = loop.stack(rf.choice(...))   # then, after the loop: rf.decide(labels)")
    )  # fmt: skip


def get_beam_scores(x: Tensor) -> Tensor:
    """The scores of the final hypotheses that `x` belongs to: natural-log probability, summed over steps; {batch, beam}.

    Raises:
        ValueError: If x has no beam dim of a search.
    """
    scores = _search_of(x, "get_beam_scores").scores
    assert scores is not None
    return scores


def decide(x: Tensor, *, length_normalization: bool = False) -> Tensor:
    """The value of the best hypothesis: {..., beam} -> {...}; x itself if it has no beam dim.

    Args:
        x: A value collected from a search, usually `loop.stack(label)` {time, batch, beam}.
        length_normalization: Divide each score by its length first.

    Returns:
        Without the beam; a ragged time dim is a new one, with the lengths of the best hypotheses.
    """
    if not any(dim in _searches for dim in x.dims):
        return x
    search = _search_of(x, "decide")
    beam, scores = search.carried, search.scores
    assert scores is not None
    ragged = [dim for dim in x.dims if dim.lengths is not None and beam in dim.length_dims]
    ranked = scores
    if length_normalization:
        if not ragged:
            raise ValueError(
                message(
                    "decide: length_normalization without lengths.",
                    [("value", shape_of(x))],
                    "x needs a dim with a length for each hypothesis.",
                )
            )
        lengths = array.cast(ragged[0].get_size_tensor(), scores.dtype)
        ranked = scores / array._on_device(math.maximum(lengths, 1), scores)
    best = reduce.reduce_argmax(ranked, axis=beam)
    out = array.gather(x, indices=best, axis=beam)
    for dim in ragged:
        out = _shortened(out, dim, best, beam)
    return out


def _shortened(x: Tensor, dim: Dim, best: Tensor, beam: Dim) -> Tensor:
    """x over a dim with the lengths of the chosen hypotheses."""
    index = best.numpy()
    over = tuple(other for other in dim.length_dims if other is not beam)
    axis = dim.length_dims.index(beam)
    picked = np.take_along_axis(
        dim.lengths, np.expand_dims(index.reshape([d.extent for d in over]), axis), axis
    ).squeeze(axis)
    lengths = new_tensor(best.backend.from_numpy(picked, dtype="int32", device="cpu"), over)
    new = Dim(lengths, name=dim.name)
    place = x.dims.index(dim)
    raw = x.backend.slice_raw(x._raw, place, 0, new.extent)
    return x._like(raw, (*x.dims[:place], new, *x.dims[place + 1 :]))
