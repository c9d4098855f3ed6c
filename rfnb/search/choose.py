"""One step of a search with one source of scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.ops import math
from rfnb.ops.where import where
from rfnb.rec.device_reads import host_value
from rfnb.rec.loop import Loop
from rfnb.rec.selection import align_host
from rfnb.rec.selections import LabelDecision
from rfnb.search import rank
from rfnb.search.constraints import NODES, allowed_labels, limit_of, note_nodes, note_written, rule_of
from rfnb.search.finished_hypotheses import rank_unfinished, tell_with_left
from rfnb.search.forced_labels import banned, decisions_for, followed, forced
from rfnb.search.options import ChoiceOptions
from rfnb.search.rank import FlatScores, Ranking, flat_of, out_tensor, split_index
from rfnb.search.report import ChoiceRecord, ScoreParts, num_candidates, tell
from rfnb.search.score import (
    check_log_probs,
    check_sums,
    combined,
    filtered,
    fused,
    gumbel,
    log_prob_of,
    normalized_base,
    only_end_label,
)  # fmt: skip
from rfnb.search.search_state import Link, Search, host_of, on_backend, place_of


def choose(
    loop: Loop, scores: Tensor, axis: Dim, options: ChoiceOptions, *, decided: Sequence[LabelDecision] | None = None
) -> Tensor:
    """Choose the labels of the surviving hypotheses, {batch, beam}.

    Args:
        decided: External decisions about these labels. Default: those of the step.
    """
    search = Search.of(loop)
    link = search.next_link(loop)
    _check_size(link, options.beam_size, loop)
    link.cheats = bool(options.cheating)
    check_end_label(options.end_label, axis, loop)
    in_dim, base = search.begin()
    ended = search.ended(loop)
    has_ended = None if ended is None else on_backend(ended[0], ended[1], scores, "bool")
    log_prob = log_prob_of(scores, axis, options.input_type)
    if options.check:
        check_sums(log_prob, axis, has_ended, place_of(loop))
    own = log_prob
    if options.fusion:
        log_prob = fused(log_prob, options.fusion, axis)
    base_used = base
    if options.length_exponent is not None:
        link.normalized = options.length_exponent
        if base is not None:
            base_used = normalized_base(base, has_ended, loop.num_steps - 1, options.length_exponent)

    def stay(x: Tensor) -> Tensor:
        return x if has_ended is None else only_end_label(x, has_ended, axis, link, options.end_label)

    if options.custom_score_combine is not None:
        total = _custom(options.custom_score_combine, stay(log_prob), base_used, has_ended, loop, axis, in_dim)
    else:
        total = combined(
            log_prob, base_used, has_ended, prob_scale=options.prob_scale, base_scale=options.base_beam_score_scale,
            noise_scale=options.random_sample_scale, stay=stay,
        )  # fmt: skip
    free = total
    limits: dict[str, Tensor] = {}
    allowed = before = rule = nodes = None
    if options.blocks:
        before = search.written(link, 0) if options.no_repeat_ngram else None
        limits = allowed_labels(
            scores, axis, prefix=options.prefix, banned=options.banned, no_repeat_ngram=options.no_repeat_ngram,
            written=before, loop=loop,
        )  # fmt: skip
        if options.allowed is not None:
            rule = rule_of(link, options.allowed, axis, options.end_label, loop)
            nodes = search.written(link, NODES)
            limits[rule.name] = limit_of(rule, nodes, axis, scores)
        if has_ended is not None:
            limits = {name: math.combine_bc(limit, "logical_or", has_ended) for name, limit in limits.items()}
        for limit in limits.values():
            allowed = limit if allowed is None else math.combine_bc(allowed, "logical_and", limit)
        if allowed is not None:
            total = where(allowed, total, float("-inf"), allow_broadcast_all_sources=True)
    flat = flat_of(total, in_dim, axis, search.order_of(total, in_dim, axis))
    if options.threshold is not None:
        flat = _pruned(flat, options.threshold)
    # Of several choices of a step they are for the first one.
    decisions: Sequence[LabelDecision] = ()
    if loop.step.decisions and not link.position:
        decisions = decisions_for(loop, flat, ended, options.beam_size, decided)
        flat = banned(flat, decisions)
    if search.leave:
        ranked, told = rank_unfinished(
            flat, options.beam_size, options.end_label, search, total, place_of(loop), decisions
        )
    else:
        ranked = told = _ranked(flat, total, log_prob, options, in_dim, axis, stay, loop, search)
        if not ranked.is_known:
            given = (scores.dims, scores.dtype) if options.adds_log_probs else None
            rank.check_later(search.wanted, flat, ranked, total.dims, given, place_of(loop))
        elif not ranked.distinct:
            rank.check_ranked(flat, ranked, total, place_of(loop))
        if decisions:
            ranked = told = forced(flat, ranked, decisions)
    if decisions:
        followed(loop, flat, ranked, decisions)
    if options.adds_log_probs and ranked.is_known:
        check_log_probs(ranked.host, flat.rest, scores, lambda: place_of(loop))
    parts = None
    if search.is_watched():  # before the loop follows: from then on values are those of the chosen hypotheses
        parts = parts_of(flat, total, free, limits, own, base_used, options, has_ended)
    labels = follow(search, link, flat, ranked)
    if options.no_repeat_ngram:
        note_written(search, link, 0, labels, before)
    if rule is not None:
        note_nodes(search, link, rule, labels, nodes)
    if parts is not None:
        if told is ranked:
            tell_at_end(loop, link, flat, ranked, parts, options)
        else:
            tell_with_left(loop, link, flat, told, parts, options)
    return labels


def follow(search: Search, link: Link, flat: FlatScores, ranked: Ranking) -> Tensor:
    """Continue the loop with the choice; return the labels."""
    parent, label = split_index(flat, ranked.index)
    out_dim, carried = link.dims(ranked.count)
    in_dim = flat.in_dim
    parents = out_tensor(parent, flat, out_dim, in_dim if in_dim is not None else carried)
    labels = out_tensor(label, flat, out_dim, flat.axis)
    search.decide(link, in_dim, parents, labels, out_tensor(ranked.scores, flat, out_dim))
    return labels


def tell_at_end(
    loop: Loop, link: Link, flat: FlatScores, ranked: Ranking, parts: ScoreParts, options: ChoiceOptions
) -> None:
    """Report all decisions at the end of the step."""
    decision = link.last
    assert decision is not None
    out_dim, dims = decision.out_dim, decision.tokens.dims
    seen = ChoiceRecord(
        options.name, flat, ranked, parts, link, num_candidates(options.keep_candidates, out_dim.extent)
    )
    if link.search.keep is not None:
        seen.want(link.search.wanted)
    host, end_dims = loop.ended_before(), loop.end_dims

    def before() -> tuple[np.ndarray | None, Dims]:
        if host is None:
            return None, ()
        if not set(decision.after(end_dims, decision.start)) <= set(dims):
            return host, end_dims
        shape = [dim.extent for dim in dims]
        return np.broadcast_to(decision.follow_host(host, end_dims, dims), shape), (*dims[:-1], seen.carried)

    loop.call_on_commit(lambda: tell(loop, decision, seen, before))


def check_end_label(end_label: int, axis: Dim, loop: Loop) -> None:
    """Raise a ValueError if the end label is not one of the labels."""
    if not 0 <= end_label < axis.extent:
        raise value_error(
            f"{place_of(loop)}: no such end_label.",
            {"end_label": end_label, "labels": axis},
            "An ended hypothesis continues through one of the labels.",
            f"rf.choice(scores, end_label={axis.extent - 1}, ...)",
        )


def _check_size(link: Link, beam_size: int, loop: Loop) -> None:
    if link.beam_size is None:
        link.beam_size = beam_size
    if link.beam_size != beam_size:
        raise value_error(
            f"{place_of(loop)}: another beam size.",
            {"before": link.beam_size, "now": beam_size},
            "A search keeps its number of hypotheses.",
        )


def _custom(
    combine: Callable[..., Tensor], log_prob: Tensor, base: Tensor | None, has_ended: Tensor | None, loop: Loop, axis: Dim,
    in_dim: Dim | None,
) -> Tensor:  # fmt: skip
    rest = [dim for dim in log_prob.dims if dim is not axis and dim is not in_dim]
    if base is None:
        base = new_tensor(log_prob.backend.full_raw((), 0.0, dtype=log_prob.dtype, device=log_prob.device), ())
    total = combine(
        scores_in=log_prob, scores_base=base, t=loop.num_steps - 1, end_flags=has_ended, batch_dim=rest[0] if rest else None,
        scores_beam_in=in_dim, base_beam_in=in_dim,
    )  # fmt: skip
    needed = {*log_prob.dims, *base.dims}
    if not isinstance(total, Tensor) or set(total.dims) != needed:
        raise value_error(
            f"{place_of(loop)}: custom_score_combine gives other dims.",
            {"scores_in": repr(log_prob), "scores_base": repr(base), "result": repr(total)},
            "It gives the scores of all continuations: the dims of both.",
            "lambda *, scores_in, scores_base, **_: scores_in + scores_base",
        )
    return total


def _pruned(flat: FlatScores, threshold: float) -> FlatScores:
    backend, axis = flat.backend, len(flat.rest)
    best = backend.expand_dims_raw(backend.reduce_raw(flat.raw, "max", (axis,)), axis)
    worse = backend.binary_fn("less")(flat.raw, backend.binary_fn("sub")(best, threshold))
    raw = backend.where_raw(worse, float("-inf"), flat.raw)
    return FlatScores(raw, flat.rest, flat.num_labels, flat.in_dim, flat.axis, backend)


def _ranked(
    flat: FlatScores, total: Tensor, log_prob: Tensor, options: ChoiceOptions, in_dim: Dim | None, axis: Dim,
    stay: Callable[[Tensor], Tensor], loop: Loop, search: Search,
) -> Ranking:  # fmt: skip
    size = options.beam_size
    if options.sampling:
        is_other = bool(loop.step.decisions) or options.threshold is not None  # than the total, in what is left out
        return _sampled(flat, flat.tensor() if is_other else total, stay(log_prob), options, axis, in_dim)
    if options.keep_beams:
        return rank.best_of_each(flat, size, place_of(loop))
    if not options.cheating:
        return rank.best_of(flat, size, num_candidates(options.keep_candidates, size) if search.is_watched() else 0)
    index = _reference_index(flat, options.target, loop, options.end_label)
    ranked = rank.best_of(_without_reference(flat, index) if options.cheating == "exclusive" else flat, size)
    return rank.with_last(flat, ranked, index)


def _sampled(
    flat: FlatScores, total: Tensor, log_prob: Tensor, options: ChoiceOptions, axis: Dim, in_dim: Dim | None
) -> Ranking:
    """Let each hypothesis continue with a label drawn from its distribution (Gumbel-max); its score is the model's."""
    backend, place = flat.backend, len(flat.rest)
    blocked = total == float("-inf")
    drawn_from = where(blocked, float("-inf"), log_prob, allow_broadcast_all_sources=True)
    drawn_from = filtered(drawn_from, axis, temperature=options.temperature, top_k=options.top_k, top_p=options.top_p)
    if in_dim is None:
        draws = Dim(options.beam_size, name="draws")
        noisy = math.combine_bc(drawn_from, "add", gumbel(drawn_from, draws))
    else:
        draws, noisy = in_dim, drawn_from + gumbel(drawn_from)
    raw = noisy.copy_transpose((*flat.rest, draws, axis))._raw
    label = backend.reduce_raw(raw, "argmax", (place + 1,))
    index = label
    if in_dim is not None and in_dim.extent > 1:
        starts = backend.from_numpy(
            np.arange(in_dim.extent) * flat.num_labels, dtype="int64", device=backend.get_device_raw(label)
        )
        index = backend.binary_tensors_fn("add")(label, starts)
    scores = rank.take(flat, index)
    return Ranking(scores, index, host_value(scores, backend), in_order=False)


def parts_of(
    flat: FlatScores, total: Tensor, free: Tensor, limits: dict[str, Tensor] | None, own: Tensor, base: Tensor | None,
    options: ChoiceOptions, has_ended: Tensor | None,
) -> ScoreParts:  # fmt: skip
    """The parts of the scores that are reported to listeners."""

    def same(x: Tensor) -> Any:
        if set(x.dims) != set(total.dims):
            x = math.combine_bc(x, "add", _zeros_like(total, x.dtype))
        return flat.like(x)

    parts = ScoreParts(same(own), base, {}, has_ended, threshold=options.threshold)
    parts.tokens = [(same(tokens), tokens.sparse_dim) for tokens in options.tokens]
    for name, (value, _) in (options.fusion or {}).items():
        parts.fused[name] = same(value)
    if not limits and options.threshold is None:
        return parts
    parts.unblocked = same(free)
    if limits:
        parts.blockers, every = tuple(limits), None
        for limit in limits.values():
            if set(limit.dims) != set(total.dims):
                every = _zeros_like(total, "bool") if every is None else every
                limit = math.combine_bc(limit, "logical_or", every)
            parts.limits.append(flat.like(limit))
    return parts


def _zeros_like(total: Tensor, dtype: str) -> Tensor:
    raw = total.backend.full_raw([dim.extent for dim in total.dims], 0, dtype=dtype, device=total.device)
    return new_tensor(raw, total.dims)


def _reference_index(flat: FlatScores, target: Tensor, loop: Loop, end_label: int) -> np.ndarray:
    """The index in `flat` of the reference label on the reference path, int64 {batch dims}."""
    labels = np.clip(host_of(target, flat.rest), 0, flat.num_labels - 1).astype(np.int64)
    ended = loop.ended_before()
    dims = loop.end_dims
    if ended is not None and dims and set(dims) <= set(flat.rest):  # past the end there is the end
        labels = np.where(align_host(ended, dims, flat.rest), end_label, labels)
    if flat.in_dim is None:
        return labels
    return _path(flat, labels, loop) * flat.num_labels + labels


def _path(flat: FlatScores, labels: np.ndarray, loop: Loop) -> np.ndarray:
    """The hypothesis on the reference path: the last one; after a choice of this step that does not cheat, the best continuation of
    what was last before it.
    """
    assert flat.in_dim is not None
    count = flat.in_dim.extent
    before = loop.selections.now
    if before is None or before.out_dim is not flat.in_dim:
        return np.full_like(labels, count - 1)
    if before.out_dim.choice.cheats:
        return np.full_like(labels, count - 1)
    parents = host_of(before.parents, (*flat.rest, flat.in_dim))
    start = before.parents.sparse_dim
    assert start is not None
    last = start.extent - 1 if start in before.sources else 0  # in the first step there is one hypothesis
    backend = flat.backend
    scores = backend.raw_to_numpy(flat.raw).reshape(*labels.shape, count, flat.num_labels)
    own = np.take_along_axis(scores, labels[..., None, None], -1)[..., 0]
    own = np.where(parents == last, np.maximum(own, np.finfo(own.dtype).min), -np.inf)
    return own.argmax(-1)


def _without_reference(flat: FlatScores, index: np.ndarray) -> FlatScores:
    """flat with -inf at the reference, so that it is not found twice."""
    backend = flat.backend
    here = np.zeros(backend.get_shape_tuple_raw(flat.raw), bool)
    np.put_along_axis(here, index[..., None], True, -1)
    mask = backend.from_numpy(here, dtype="bool", device=backend.get_device_raw(flat.raw))
    raw = backend.where_raw(mask, float("-inf"), flat.raw)
    return FlatScores(raw, flat.rest, flat.num_labels, flat.in_dim, flat.axis, backend)
