"""The usual choice, log probabilities added and the best of all kept: as `choose` with no other option, in fewer calls.

In a search of one sentence a step of the model takes a few hundred microseconds, so each call of Python is felt. What no step changes
is prepared once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.layout import full_shape, to_order
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.rec.loop import Loop
from rfnb.search import rank
from rfnb.search.choose import choose, follow, parts_of, tell_at_end
from rfnb.search.decision import Decision
from rfnb.search.options import Options
from rfnb.search.rank import Flat
from rfnb.search.report import num_candidates
from rfnb.search.score import only_end_label
from rfnb.search.search_state import Link, Search, on_backend


def choose_plain(loop: Loop, scores: Tensor, axis: Dim, options: Options) -> Tensor:
    """The labels of the best hypotheses, {batch, beam}.

    Args:
        scores: Log probabilities {..., axis}.
    """
    search = Search.of(loop)
    link, last = search.next_link(loop), search.last
    plain = link.plain
    if plain is None or last is None or not plain.fits(scores, last, axis, options):
        plain = link.plain = _prepared(search, link, last, scores, axis, options)
    if plain is None or link.cheats or (last is None and search.is_watched()):
        return choose(loop, scores, axis, options)
    ended, given, has_ended = search.ended(loop), scores, None
    if ended is not None:
        has_ended = on_backend(*ended, scores, "bool")
        scores = only_end_label(scores, has_ended, axis, link, 0)
        if scores.dims != given.dims:
            scores = scores.copy_transpose(given.dims)
    raw = scores._raw if plain.order is None else plain.order(scores._raw)
    reshape, slice_raw = plain.backend.reshape_raw, plain.backend.slice_raw
    if last is not None:
        raw = plain.add(raw, reshape(last.scores._raw, plain.base_shape))
    total = reshape(raw, plain.shape)
    count, place = options.beam_size, len(plain.shape) - 1
    if search.is_watched():
        flat = Flat(total, plain.dims[:-1], axis.extent, plain.in_dim, axis, plain.backend)
        ranked, base = rank.best_of(flat, count, num_candidates(None, count)), search.begin()[1]
        if not ranked.distinct or ranked.host.max() > 0:
            return choose(loop, given, axis, options)
        labels = follow(search, link, flat, ranked)
        tell_at_end(
            loop, link, flat, ranked, parts_of(flat, scores, scores, None, given, base, options, has_ended), options
        )
        return labels
    best, index = plain.backend.top_k_raw(total, count + 1, True)
    host = plain.backend.raw_to_numpy(best)
    if not rank.falls(host, count + 1) or host.item(0) > 0 or (host.size > count + 1 and host.max() > 0):
        return choose(loop, given, axis, options)  # equal ones, or something to tell: seldom
    index = slice_raw(index, place, 0, count)
    parents = new_tensor(plain.divide(index, axis.extent), plain.dims)
    parents.sparse_dim = plain.parents_dim
    labels = new_tensor(plain.remainder(index, axis.extent), plain.dims)
    labels.sparse_dim = axis
    search.decide(link, plain.in_dim, parents, labels, new_tensor(slice_raw(best, place, 0, count), plain.dims))
    return labels


@dataclass(slots=True)
class _Plain:
    """The common part of the steps of a search.

    Attributes:
        kind, scores, axis, in_dim, base, options: What it is for: class of raw array, dims of the scores, labels, beam before the
            choice (None: one hypothesis), dims of the scores before it, options of the choice.
        order: Brings a raw array of scores into the order {batch dims, in_dim, axis}; None: it is so.
        base_shape, shape: Of the scores before, to be added; of the sums {batch dims, hypothesis * label}.
        dims: Of the results.
        parents_dim: The beam that parents index into.
    """

    kind: type
    scores: tuple[Dim, ...]
    axis: Dim
    in_dim: Dim | None
    base: tuple[Dim, ...]
    options: Options
    order: Any
    base_shape: tuple[int, ...]
    shape: tuple[int, ...]
    dims: tuple[Dim, ...]
    parents_dim: Dim
    backend: Any
    add: Any
    divide: Any
    remainder: Any

    def fits(self, scores: Tensor, last: Decision, axis: Dim, options: Options) -> bool:
        """Whether it is for this step."""
        in_dim = last.carried if last.closed else last.out_dim
        return (
            self.in_dim is in_dim and self.axis is axis and self.scores == scores.dims and self.base == last.scores.dims
            and self.kind is scores._raw.__class__ and self.options.beam_size == options.beam_size
        )  # fmt: skip


def _prepared(
    search: Search, link: Link, last: Decision | None, scores: Tensor, axis: Dim, options: Options
) -> _Plain | None:
    """None if `scores` are not over all hypotheses, or those before in another order, or if it takes more than the usual."""
    if link.beam_size is None:  # the first step
        link.beam_size = options.beam_size
    if search.leave or link.beam_size != options.beam_size or axis.extent <= options.beam_size:
        return None
    in_dim = None if last is None else last.carried if last.closed else last.out_dim
    rest = tuple(dim for dim in scores.dims if dim is not in_dim and dim is not axis)
    base: tuple[Dim, ...] = ()
    if last is not None:
        base = last.scores.dims
        if in_dim not in scores.dims or base != (*rest, last.out_dim):
            return None
    axes = (axis,) if in_dim is None else (in_dim, axis)
    backend, (out_dim, carried) = scores.backend, link.dims(options.beam_size)
    order = to_order(scores.dims, (*rest, *axes), backend)
    return _Plain(
        scores._raw.__class__, scores.dims, axis, in_dim, base, options, order, (*full_shape(base), 1),
        (*full_shape(rest), math.prod(full_shape(axes))), (*rest, out_dim), carried if in_dim is None else in_dim,
        backend, backend.binary_tensors_fn("add"), backend.binary_fn("floordiv"), backend.binary_fn("mod"),
    )  # fmt: skip
