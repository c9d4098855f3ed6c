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

from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import message
from rfnb.core.layout import PlanCache, full_shape, to_order
from rfnb.core.tensor import Tensor, missing_dim, new_tensor, shape_of
from rfnb.ops import math, reduce
from rfnb.ops.cast import cast
from rfnb.ops.const import zeros
from rfnb.ops.default import copy_to_device
from rfnb.ops.gather import gather
from rfnb.rec.loop import Loop
from rfnb.rec.selection import Selection, align_host
from rfnb.trace.probe import listening, probe

INPUT_TYPES = ("log_prob", "prob", "logits")
_plans = PlanCache()


class _Search:
    """What one choice keeps from step to step. It hangs on its beam dim, so whoever has a value with that dim finds it."""

    def __init__(self, beam_size: int):
        self.carried = Dim(beam_size, name="beam", kind="beam")
        self.chosen = Dim(beam_size, name="beam'", kind="beam")
        self.carried.__dict__["search"] = self
        self.scores: Tensor | None = None  # {batch, carried}, natural log
        self.stay: Tensor | None = None  # {labels}: log probabilities after the end


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
    through label 0, which costs nothing. Where there are fewer continuations than `beam_size`, the rest of the hypotheses are
    label 0 with score -inf.

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
        ValueError: For a beam size below 1 or another one than in the step before, an unknown input type, or scores with NaN in
            them.
        DimError: If axis is not a dim of scores.

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
    search: _Search = loop.search
    if search is None:
        search = loop.search = _Search(beam_size)
    if beam_size != search.carried.size:
        raise ValueError(
            message(
                f'choice in loop "{loop.name}", step {loop.num_steps - 1}: another beam size.',
                [("before", search.carried.size), ("now", beam_size)], "A search keeps its number of hypotheses.",
            )
        )  # fmt: skip
    in_dim = search.carried if search.scores is not None else None
    total = _continue(_log_prob(scores, axis, input_type), search, loop, axis)
    values, parents, labels, candidates = _select(
        total, search, loop, in_dim, axis, _num_candidates(keep_candidates, beam_size)
    )
    selection = Selection(in_dim, search.chosen, search.carried, parents)
    search.scores = selection.to_carried(values)
    loop.select(selection)
    if candidates is not None:
        loop.call_on_commit(lambda: _report(loop, selection, name, labels, values, candidates))
    return labels


def _log_prob(scores: Tensor, axis: Dim, input_type: str) -> Tensor:
    if input_type == "logits":
        return math.log_softmax(scores, axis=axis)
    return math.log(math.maximum(scores, 1e-20)) if input_type == "prob" else scores


def _continue(log_prob: Tensor, search: _Search, loop: Loop, axis: Dim) -> Tensor:
    """Scores of all continuations; an ended hypothesis goes on through label 0 alone."""
    ended = loop.ended_before()
    if ended is not None:
        backend = log_prob.backend
        if search.stay is None:
            row = np.full(axis.extent, -np.inf, np.float32)
            row[0] = 0
            search.stay = new_tensor(backend.from_numpy(row, dtype=log_prob.dtype, device=log_prob.device), (axis,))
        has_ended = new_tensor(backend.from_numpy(ended, dtype="bool", device=log_prob.device), loop.end_dims)
        log_prob = math.where(has_ended, search.stay, log_prob, allow_broadcast_all_sources=True)
    if search.scores is None:
        return log_prob
    if search.carried in log_prob.dims:
        return log_prob + search.scores
    return math.combine_bc(log_prob, "add", search.scores)  # the model knows nothing of the hypotheses


def _num_candidates(keep_candidates: int | None, beam_size: int) -> int:
    """How many candidates the trace gets; 0 if nobody listens."""
    if not listening():
        return 0
    return max(beam_size, max(2 * beam_size, 8) if keep_candidates is None else keep_candidates)


def _select(
    total: Tensor, search: _Search, loop: Loop, in_dim: Dim | None, axis: Dim, num_candidates: int
) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor] | None]:
    """The best continuations, best first: score, parent and label {batch, chosen}; and the best candidates for the trace."""
    key = (total._raw.__class__, total.dims, in_dim, axis)
    try:
        order, shape, rest = _plans[key]
    except KeyError:
        axes = (in_dim, axis) if in_dim is not None else (axis,)
        rest = tuple(dim for dim in total.dims if dim not in axes)
        shape = (*full_shape(rest), int(np.prod(full_shape(axes))))
        order, shape, rest = _plans.put(key, (to_order(total.dims, rest + axes, total.backend), shape, rest))
    backend = total.backend
    flat = backend.reshape_raw(total._raw if order is None else order(total._raw), shape)
    best, index = backend.top_k_raw(flat, min(search.chosen.extent, shape[-1]), True)
    candidates = _candidates(flat, index, rest, axis, num_candidates) if num_candidates else None
    missing = search.chosen.extent - shape[-1]
    if missing > 0:
        widths = [(0, 0)] * len(rest) + [(0, missing)]
        best, index = backend.pad_raw(best, widths, float("-inf")), backend.pad_raw(index, widths, 0)
    values = new_tensor(best, (*rest, search.chosen))
    worst = values.numpy().min(initial=0)  # NaN if there is one among the scores: it is first in every ranking
    if np.isnan(worst):
        raise _nan_error(total, loop, axis)
    if worst == -np.inf:  # which of the impossible ones come first is chance: all are label 0 of the best
        index = backend.where_raw(backend.unary_fn("is_neg_infinite")(best), 0, index)
    parents = new_tensor(backend.binary_fn("floordiv")(index, axis.extent), values.dims)
    parents.sparse_dim = search.carried
    labels = new_tensor(backend.binary_fn("mod")(index, axis.extent), values.dims)
    labels.sparse_dim = axis
    return values, parents, labels, candidates


def _candidates(flat: Any, kept: Any, rest: tuple[Dim, ...], axis: Dim, count: int) -> dict[str, Tensor]:
    """The best continuations, whether they are kept or cut."""
    backend = new_tensor(flat, ()).backend
    size = min(count, backend.get_shape_tuple_raw(flat)[-1])
    scores, index = backend.top_k_raw(flat, size, True)
    same = backend.binary_fn("equal")(
        backend.expand_dims_raw(index, len(rest) + 1), backend.expand_dims_raw(kept, len(rest))
    )
    was_kept = backend.reduce_raw(same, "any", (len(rest) + 1,))
    dims = (*rest, Dim(size, name="candidate"))
    tokens = new_tensor(backend.binary_fn("mod")(index, axis.extent), dims)
    tokens.sparse_dim = axis
    parents = new_tensor(backend.binary_fn("floordiv")(index, axis.extent), dims)
    return {
        "cand_tokens": tokens,
        "cand_parents": parents,
        "cand_scores": new_tensor(scores, dims),
        "cand_kept": new_tensor(was_kept, dims),
    }


def _nan_error(total: Tensor, loop: Loop, axis: Dim) -> ValueError:
    dims = tuple(dim for dim in total.dims if dim is not axis)
    bad = np.isnan(total.copy_transpose((*dims, axis)).numpy()).any(-1)
    where = ", ".join(f"{dim.name} {index}" for dim, index in zip(dims, np.argwhere(bad)[0]))
    return ValueError(
        message(
            f'choice in loop "{loop.name}", step {loop.num_steps - 1}: the scores contain NaN.',
            [("scores", shape_of(total)), ("first", where)],
            "A NaN cannot be ranked. Find the first op that makes one, e.g. a log of 0 or a division by 0.",
        )
    )  # fmt: skip


def _report(
    loop: Loop, selection: Selection, name: str, labels: Tensor, values: Tensor, candidates: dict[str, Tensor]
) -> None:
    """The `beams` event of this step: what was kept, what was cut, what has ended."""
    tokens = selection.to_carried(labels)
    if loop.ended is None:
        ended = zeros(tokens.dims, dtype="bool", device=labels.device)
    else:
        shape = [dim.extent for dim in tokens.dims]
        host = np.broadcast_to(align_host(loop.ended, loop.end_dims, tokens.dims), shape)
        ended = new_tensor(labels.backend.from_numpy(host, dtype="bool", device=labels.device), tokens.dims)
    probe(
        "beams",
        name=name,
        tokens=tokens,
        parents=selection.to_carried(selection.parents),
        scores=selection.to_carried(values),
        ended=ended,
        **candidates,
    )


def _search_of(x: Tensor, what: str) -> _Search:
    for dim in x.dims:
        if "search" in dim.__dict__:
            return dim.__dict__["search"]
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

    Raises:
        ValueError: If x is not from a search, or lengths are needed to normalise the scores and there are none.
    """
    if not any("search" in dim.__dict__ for dim in x.dims):
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
        lengths = cast(ragged[0].get_size_tensor(), scores.dtype)
        ranked = scores / copy_to_device(math.maximum(lengths, 1), scores.device)
    best = reduce.reduce_argmax(ranked, axis=beam)
    out = gather(x, indices=best, axis=beam)
    for dim in ragged:
        out = _shortened(out, dim, best, beam)
    return out


def _shortened(x: Tensor, dim: Dim, best: Tensor, beam: Dim) -> Tensor:
    """x over a dim with the lengths of the chosen hypotheses."""
    size = dim.get_size_tensor()
    index = best._like(best.backend.to_device_raw(best._raw, "cpu"), best.dims)
    new = Dim(gather(size, indices=index, axis=beam), name=dim.name)
    place = x.dims.index(dim)
    raw = x.backend.slice_raw(x._raw, place, 0, new.extent)
    return x._like(raw, (*x.dims[:place], new, *x.dims[place + 1 :]))
