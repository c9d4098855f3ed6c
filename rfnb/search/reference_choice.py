"""A choice that does not search: the reference labels, forced onto the hypotheses of a search, or mixed with samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.ops import reduce
from rfnb.ops.random import random_uniform
from rfnb.ops.where import where
from rfnb.rec.loop import Loop
from rfnb.rec.selection import align_host
from rfnb.rec.wanted import host_value
from rfnb.search import rank
from rfnb.search.choose import follow, parts_of, tell_at_end
from rfnb.search.options import ChoiceOptions
from rfnb.search.rank import Ranked, flat_of
from rfnb.search.score import combined, filtered, fused, gumbel, log_prob_of, only_end_label
from rfnb.search.search_state import Search, host_of, on_backend, place_of


def trained(loop: Loop, scores: Any, axis: Dim, options: ChoiceOptions) -> Any:
    """The result of a choice without a search: the reference labels, a sample in their place, or the hypotheses with their scores."""
    if options.scheduled_sampling:
        return _sampled(scores, axis, options)
    if options.target is None:
        raise value_error(
            "choice: search=False without target.",
            [],
            "Then the reference labels are chosen.",
            "rf.choice(scores, target=labels)",
        )
    adds = options.add_to_beam_scores
    if adds is None:
        adds = loop.selections.last is not None
    if not adds:
        return options.target
    several = isinstance(scores, (list, tuple))
    if options.length_normalization or options.random_sample_scale or options.custom_score_combine or several:
        raise value_error(
            "choice: add_to_beam_scores with length_normalization, noise, custom_score_combine or several sources.",
            [],
            "The score of a reference label is added as it is.",
            "rf.choice(scores, target=labels, add_to_beam_scores=False)",
        )
    return _reference(loop, scores, axis, options)


def regressed(value: Any, options: ChoiceOptions) -> Any:
    """A value that is not a label: itself; in training the target, unless it is sampled."""
    if options.beam_size not in (None, 1):
        raise value_error(
            f"choice: regression with beam_size {options.beam_size}.",
            [],
            "A value that is no label has one continuation: itself.",
            'rf.choice(value, input_type="regression", beam_size=1)',
        )
    target = None if options.searches else options.target
    if target is None or not options.scheduled_sampling:
        return value if target is None else target
    return _gold_mixed(value, target, options.gold_mixin_prob)


def _reference(loop: Loop, scores: Tensor, axis: Dim, options: ChoiceOptions) -> Tensor:
    """Continue every hypothesis with the reference label and add its score. Before a search there is one hypothesis.

    After its end a sequence continues with `end_label`, at no cost.
    """
    search = Search.of(loop)
    link = search.next_link(loop)
    in_dim, base = search.begin()
    ended = search.ended(loop)
    has_ended = None if ended is None else on_backend(ended[0], ended[1], scores, "bool")
    own, end_label = log_prob_of(scores, axis, options.input_type), options.end_label

    def stay(x: Tensor) -> Tensor:
        return x if has_ended is None else only_end_label(x, has_ended, axis, link, end_label)

    total = combined(
        fused(own, options.fusion, axis), base, has_ended, prob_scale=options.prob_scale,
        base_scale=options.base_beam_score_scale, noise_scale=0.0, stay=stay,
    )  # fmt: skip
    flat = flat_of(total, in_dim, axis)
    size = 1 if in_dim is None else in_dim.extent
    dims = flat.rest if in_dim is None else (*flat.rest, in_dim)
    labels = host_of(_within(options.target, dims, place_of(loop)), dims).astype(np.int64)
    if ended is not None and set(ended[1]) <= set(dims):
        labels = np.where(align_host(*ended, dims), end_label, labels)
    labels = labels.reshape([*(dim.extent for dim in flat.rest), size])
    if labels.size and not 0 <= labels.min() <= labels.max() < axis.extent:
        raise value_error(
            f"{place_of(loop)}: a reference label is none.",
            [("labels", axis.short_repr()), ("found", f"{labels.min()} to {labels.max()}")],
            "Reference labels are counted from 0, also past the end of a sequence.",
        )
    host = labels + np.arange(size) * axis.extent
    index = flat.backend.from_numpy(host, dtype="int64", device=flat.backend.get_device_raw(flat.raw))
    best = rank.take(flat, index)
    ranked = Ranked(best, index, host_value(best, flat.backend), in_order=False)
    if not ranked.is_known:
        rank.check_later(search.wanted, flat, ranked, total.dims, None, place_of(loop), only_nan=True)
    elif np.isnan(ranked.host).any():
        raise rank.nan_error(total, axis, place_of(loop))
    parts = parts_of(flat, total, total, None, own, base, options, has_ended) if search.is_watched() else None
    out = follow(search, link, flat, ranked)
    if parts is not None:
        tell_at_end(loop, link, flat, ranked, parts, options)
    return out


def _within(target: Tensor, dims: tuple[Dim, ...], place: str) -> Tensor:
    if not set(target.dims) <= set(dims):
        raise value_error(
            f"{place}: the target does not fit the scores.",
            [("target", shape_of(target)), ("hypotheses", ", ".join(d.short_repr() for d in dims))],
            "The target of a step is one label for each sequence.",
            "target=loop.unstack(labels)",
        )
    return target


def _sampled(scores: Tensor, axis: Dim, options: ChoiceOptions) -> Any:
    """A label drawn from the scores, without gradient; with probability `gold_mixin_prob` the reference of a sequence."""
    log_prob = log_prob_of(scores, axis, options.input_type)
    likely = filtered(log_prob, axis, temperature=options.temperature, top_k=options.top_k, top_p=options.top_p)
    label = reduce.reduce_argmax(likely + gumbel(log_prob), axis=axis)
    label = _gold_mixed(label, options.target, options.gold_mixin_prob)
    label.sparse_dim = axis
    return label


def _gold_mixed(sample: Tensor, target: Tensor | None, probability: float | None) -> Tensor:
    """The sample, or with the given probability the reference of a sequence."""
    if probability is not None and (target is None or not 0 <= probability <= 1):
        raise value_error(
            "choice: gold_mixin_prob does not fit.",
            [("gold_mixin_prob", probability), ("target", None if target is None else shape_of(target))],
            "It is the probability, 0 to 1, to take the reference label in place of the sample.",
        )
    if not probability or target is None:
        return sample
    of_sequence = [dim for dim in target.dims if dim is not target.feature_dim]
    gold = random_uniform(of_sequence, device=sample.device) < probability
    return where(gold, target, sample, allow_broadcast_all_sources=True)
