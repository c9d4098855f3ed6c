"""choice: selects the hypotheses of a search that survive a step.

    for _ in loop:
        log_prob = model.step(loop.state.label, ...)
        label = rf.choice(log_prob, beam_size=5)
        loop.state.label = label
        loop.end(label == eos, include_eos=True)
        labels = loop.stack(label)
    best = rf.decide(labels)

All states of the loop follow their parents automatically. The same line trains (`target=`), scores and searches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Never, overload

import numpy as np

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import runtime_error, value_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.ops import reduce
from rfnb.ops.random import random_uniform
from rfnb.ops.where import where
from rfnb.rec.device_reads import host_value
from rfnb.rec.hold import holding
from rfnb.rec.loop import Loop
from rfnb.rec.selection import align_host
from rfnb.search import rank
from rfnb.search.choose import choose, follow, parts_of, tell_at_end
from rfnb.search.choose_plain import choose_plain
from rfnb.search.operand_checks import check_scores, no_labels_dim
from rfnb.search.options import ChoiceOptions
from rfnb.search.rank import Ranking, flat_of
from rfnb.search.score import Fusion, combined, filtered, fused, gumbel, log_prob_of, only_end_label
from rfnb.search.search_state import Search, host_of, on_backend, place_of
from rfnb.search.several_sources import choose_several


@overload
def choice(scores: Tensor, *, beam_size: int | None = None, axis: Dim | None = None, **options: Any) -> Tensor: ...


@overload
def choice(
    scores: Sequence[Tensor], *, beam_size: int | None = None, axis: Sequence[Dim] | None = None, **options: Any
) -> tuple[Tensor, ...]: ...


@op(decides=True)
def choice(
    scores: Any,
    *extra: Never,
    beam_size: int | None = None,
    axis: Any = None,
    input_type: str = "log_prob",
    target: Any = None,
    search: bool | None = None,
    add_to_beam_scores: bool | None = None,
    scheduled_sampling: bool | Mapping[str, float] = False,
    prob_scale: float = 1.0,
    base_beam_score_scale: float = 1.0,
    random_sample_scale: float = 0.0,
    length_normalization: bool = False,
    length_normalization_exponent: float = 1.0,
    keep_beams: bool = False,
    cheating: bool | str = False,
    source_beam_sizes: Sequence[int] | None = None,
    custom_score_combine: Callable[..., Tensor] | None = None,
    end_label: int | Sequence[int] = 0,
    sampling: bool = False,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    prefix: Tensor | None = None,
    banned: Sequence[int] | Tensor | None = None,
    no_repeat_ngram: int | Sequence[int] = 0,
    allowed: Any = None,
    threshold: float | None = None,
    fusion: Fusion | None = None,
    check: bool = False,
    keep_candidates: int | None = None,
    name: str = "choice",
    **unknown: Never,
) -> Any:
    """Choose the labels of the surviving hypotheses: the `beam_size` best continuations, best first.

    Scores add up: `prob_scale` times the log probability of the label, plus `base_beam_score_scale` times the score of the hypothesis so
    far. An ended hypothesis continues only with `end_label`, at no cost. If there are fewer continuations than `beam_size`, the
    remaining hypotheses are label 0 with score -inf; so a beam may be larger than the vocabulary. A second choice in the same step
    starts from the hypotheses of the first.

    Args:
        scores: {batch, ..., axis}: scores of the next label of each hypothesis. A list: of several sources, see below.
        beam_size: The number of hypotheses; 1 is greedy search.
        axis: The dim of the labels; default: the feature_dim of scores. For several sources a list.
        input_type: "log_prob", of which a sum above 0 is an error; "prob" or "logits"; "score": any numbers, added up as they are;
            "regression": the value itself is passed on, without a choice; in training the target, unless it is sampled.
        target: The reference label of this step, {batch, ...}. For several sources a list.
        search: False chooses the reference labels (training, forced scores). Default: True unless there is a target that is not for
            `cheating`.
        add_to_beam_scores: With search=False, whether every hypothesis continues with the reference label and gets its score.
            Default: True if the loop has searched before.
        scheduled_sampling: With search=False, sample a label from the scores instead of taking the reference, without gradient. A
            dict may give "gold_mixin_prob", the probability of taking the reference after all, drawn per sequence.
        prob_scale, base_beam_score_scale: Factors on the two parts of a score.
        random_sample_scale: Factor on the Gumbel noise added to each score.
        length_normalization: Divide scores by length: those of ended hypotheses while others continue, all of them at the end.
        length_normalization_exponent: Exponent of the length, except in the final division of all scores by the longest length.
        keep_beams: Each hypothesis keeps its own best `beam_size / hypotheses` labels; hypotheses do not compete.
        cheating: The last hypothesis is the reference path; with "exclusive", no other hypothesis may be.
        source_beam_sizes: For several sources, how many labels of each are combined. Default: beam_size.
        custom_score_combine: Called with scores_in {..., axis}, scores_base {...}, t, end_flags, batch_dim, scores_beam_in and
            base_beam_in by name; returns the scores of all continuations, replacing the sum.
        end_label: The label with which an ended hypothesis continues. Default 0, as documented, whatever label ended it. For several
            sources a list; default: the best labels of each.
        sampling: Each hypothesis continues with a label drawn from its distribution; the first step draws `beam_size` of them.
            Scores remain the model's.
        temperature, top_k, top_p: The sampling distribution: log probabilities divided by the temperature, limited to the `top_k`
            best labels, or to the fewest labels with a total probability of top_p.
        prefix: Labels that sequences begin with: {batch, time}, or {batch} for this step, -1 where free. For several sources a list.
        banned: Labels that must not be chosen, or a mask {..., axis}, True where banned. For several sources a list.
        no_repeat_ngram: No hypothesis contains the same n consecutive labels twice; 0 allows it. For several sources one number or a
            list.
        allowed: The rule for hypotheses: a function of the labels so far (a tuple; without the start label, with `prefix`) that
            returns the allowed labels, a bool for each label, bits of int32 values, or None for all; an `rf.Lexicon`,
            `rf.RequiredPhrases` or your own `rf.Constraint`; a set of labels; or a list of these, all of which must hold. `end_label`
            ends a hypothesis; with an automaton, no label is taken from which the end cannot be reached within max_seq_len.
        threshold: Cut every hypothesis that is worse than the best one by more than this, in natural-log probability.
        fusion: name -> (log probabilities of another model {..., axis}, scale): added to the scores.
        check: Whether to check that the probabilities of each hypothesis sum to 1.
        keep_candidates: How many candidates of a step to keep in a trace, cut ones included (default: twice the beam and at least
            8).
        name: Name of this choice in traces.

    Returns:
        int64 {batch, beam}, sparse over axis. For several sources a tuple of these: the best combinations, with scores added and the
            first source slowest; an ended hypothesis repeats the best labels of each. Reference labels are returned as given, sampled
            ones as int64.

    Raises:
        RuntimeError: Outside of a Loop.
        ValueError: For incompatible options, scores that contain NaN, or if no hypothesis is left.
        DimError: If axis is not a dim of scores.

    Probes:
        beams: tokens, parents, scores, ended, the best candidates with their verdicts, and for each hypothesis the best labels with
            their log probabilities (`next_tokens`, `next_log_probs`), including those that no beam took; `taken`: the probability of all
            labels that were not allowed, for each parent hypothesis; `blockers` and `cand_by`: the rule that forbade a candidate.

    Source: Sutskever et al. 2014, section 3.2; scheduled sampling: Bengio et al. 2015; noise: Kool et al. 2019.
    """
    loop = Loop.current()
    if loop is None:
        raise runtime_error(
            "choice: outside of a loop.",
            [],
            "A choice is made in every step of a search.",
            "for _ in loop:\n    label = rf.choice(...)",
        )
    hold = holding()
    if hold is not None and hold.is_narrow and beam_size is not None:
        beam_size = 1
    options = ChoiceOptions(
        beam_size, name, target, prefix, banned, fusion, allowed, input_type, search, add_to_beam_scores, scheduled_sampling, prob_scale,
        base_beam_score_scale, random_sample_scale, length_normalization, length_normalization_exponent, keep_beams, cheating,
        source_beam_sizes, custom_score_combine, end_label, sampling, temperature, top_k, top_p, no_repeat_ngram, threshold, check,
        keep_candidates,
    )  # fmt: skip
    if isinstance(scores, Tensor) and options.are_usual():
        labels = axis or scores._feature_dim
        if labels is not None and labels in scores.dims:
            return choose_plain(loop, scores, labels, options)
    options.check_kind()
    if input_type == "regression":
        return _regressed(scores, options)
    sources = list(scores) if isinstance(scores, (list, tuple)) else None
    axes = _axes(sources or [scores], axis)
    if not options.searches:
        return _trained(loop, scores, axes[0], options)
    options = options.of_search(several=sources is not None)
    return choose(loop, scores, axes[0], options) if sources is None else choose_several(loop, sources, axes, options)


def _axes(sources: list[Tensor], axis: Any) -> list[Dim]:
    given = list(axis) if isinstance(axis, (list, tuple)) else [axis] * len(sources)
    if len(given) != len(sources):
        raise value_error(
            "choice: another number of axes than of sources.",
            {"sources": len(sources), "axes": len(given)},
            "Each source has its labels.",
        )
    out = []
    for scores, dim in zip(sources, given):
        check_scores(scores)
        dim = dim or scores.feature_dim
        if dim is None:
            raise no_labels_dim("choice", scores)
        check_dim("choice", scores, dim, "scores")
        out.append(dim)
    return out


def _trained(loop: Loop, scores: Any, axis: Dim, options: ChoiceOptions) -> Any:
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


def _regressed(value: Any, options: ChoiceOptions) -> Any:
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
            {"labels": axis, "found": f"{labels.min()} to {labels.max()}"},
            "Reference labels are counted from 0, also past the end of a sequence.",
        )
    host = labels + np.arange(size) * axis.extent
    index = flat.backend.from_numpy(host, dtype="int64", device=flat.backend.get_device_raw(flat.raw))
    best = rank.take(flat, index)
    ranked = Ranking(best, index, host_value(best, flat.backend), in_order=False)
    if not ranked.is_known:
        rank.check_later(search.wanted, flat, ranked, total.dims, None, place_of(loop), only_nan=True)
    elif np.isnan(ranked.host).any():
        raise rank.nan_error(total, axis, place_of(loop))
    parts = parts_of(flat, total, total, None, own, base, options, has_ended) if search.is_watched() else None
    out = follow(search, link, flat, ranked)
    if parts is not None:
        tell_at_end(loop, link, flat, ranked, parts, options)
    return out


def _within(target: Tensor, dims: Dims, place: str) -> Tensor:
    if not set(target.dims) <= set(dims):
        raise value_error(
            f"{place}: the target does not fit the scores.",
            {"target": target, "hypotheses": ", ".join(d.short_repr() for d in dims)},
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
            {"gold_mixin_prob": probability, "target": None if target is None else target},
            "It is the probability, 0 to 1, to take the reference label in place of the sample.",
        )
    if not probability or target is None:
        return sample
    of_sequence = [dim for dim in target.dims if dim is not target.feature_dim]
    gold = random_uniform(of_sequence, device=sample.device) < probability
    return where(gold, target, sample, allow_broadcast_all_sources=True)
