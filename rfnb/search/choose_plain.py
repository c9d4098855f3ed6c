"""The usual choice, log probabilities added and the best of all kept: as `choose` with no other option, in fewer calls.

In a search of one sentence a step of the model takes a few hundred microseconds, so each call of Python is felt.
"""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.layout import PlanCache, full_shape, to_order
from rfnb.core.tensor import Tensor
from rfnb.rec.loop import Loop
from rfnb.search import rank
from rfnb.search.choose import choose, follow, parts_of, tell_at_end
from rfnb.search.options import Options
from rfnb.search.rank import Flat
from rfnb.search.report import num_candidates
from rfnb.search.score import check_log_probs, only_end_label
from rfnb.search.search_state import Search, on_backend, place_of

_plans = PlanCache()


def choose_plain(loop: Loop, scores: Tensor, axis: Dim, options: Options) -> Tensor:
    """The labels of the best hypotheses, {batch, beam}.

    Args:
        scores: Log probabilities {..., axis}.
    """
    search, beam_size = Search.of(loop), options.beam_size
    link = search.next_link(loop)
    in_dim, base = search.begin()
    if base is None or search.leave or link.beam_size != beam_size or link.cheats or axis.extent <= beam_size:
        return choose(loop, scores, axis, options)
    key = scores._raw.__class__, scores.dims, base.dims, in_dim, axis
    try:
        plan = _plans[key]
    except KeyError:
        plan = _plans.put(key, _plan(scores, base, in_dim, axis))
    if plan is None:
        return choose(loop, scores, axis, options)
    add, reshape, order, base_shape, shape, rest = plan
    ended = search.ended(loop)
    has_ended, own = None, scores
    if ended is not None:
        has_ended = on_backend(ended[0], ended[1], scores, "bool")
        scores = only_end_label(scores, has_ended, axis, link, 0)
        if scores.dims != own.dims:
            scores = scores.copy_transpose(own.dims)
    raw = scores._raw if order is None else order(scores._raw)
    flat = Flat(
        reshape(add(raw, reshape(base._raw, base_shape)), shape), rest, axis.extent, in_dim, axis, scores.backend
    )
    told = search.is_watched()
    ranked = rank.best_of(flat, beam_size, num_candidates(None, beam_size) if told else 0)
    if not ranked.distinct:
        rank.check_ranked(flat, ranked, scores + base, place_of(loop))
    check_log_probs(ranked.host, rest, own, lambda: place_of(loop))
    labels = follow(search, link, flat, ranked)
    if told:
        parts = parts_of(flat, scores, scores, None, own, base, options, has_ended)
        tell_at_end(loop, link, flat, ranked, parts, options)
    return labels


def _plan(scores: Tensor, base: Tensor, in_dim: Dim | None, axis: Dim) -> Any:
    """How to add the scores of the hypotheses before, and to bring everything to {batch dims, hypothesis * label}; None if `scores`
    are not over all of these dims, or the scores before in another order."""
    rest = tuple(dim for dim in scores.dims if dim is not in_dim and dim is not axis)
    if in_dim is None or in_dim not in scores.dims or base.dims != (*rest, in_dim):
        return None
    backend = scores.backend
    order = to_order(scores.dims, (*rest, in_dim, axis), backend)
    shape = (*full_shape(rest), in_dim.extent * axis.extent)
    return backend.binary_tensors_fn("add"), backend.reshape_raw, order, (*full_shape(base.dims), 1), shape, rest
