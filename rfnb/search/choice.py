"""choice: which hypotheses of a search go on.

    for _ in loop:
        log_prob = model.step(loop.state.label, ...)
        label = rf.choice(log_prob, beam_size=5)
        loop.state.label = label
        loop.end(label == eos, include_eos=True)
        labels = loop.stack(label)
    best = rf.decide(labels)

All states of the loop follow their parents by themselves. The same line trains (`target=`), scores and searches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from rfnb.core.dim import Dim
from rfnb.core.errors import message
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import missing_dim
from rfnb.rec.loop import Loop
from rfnb.rec.recorder import decides
from rfnb.search.choose import Options, choose
from rfnb.search.choose_plain import choose_plain
from rfnb.search.option_checks import check_limits, check_scores, no_labels_dim, whole_beam_size
from rfnb.search.reference import gold_mixed, reference, sampled
from rfnb.search.score import INPUT_TYPES, Fusion, check_finite_options
from rfnb.search.several import choose_several


@overload
def choice(scores: Tensor, *, beam_size: int | None = None, axis: Dim | None = None, **options: Any) -> Tensor: ...


@overload
def choice(
    scores: Sequence[Tensor], *, beam_size: int | None = None, axis: Sequence[Dim] | None = None, **options: Any
) -> tuple[Tensor, ...]: ...


@decides
def choice(
    scores: Any,
    *,
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
    end_label: int = 0,
    sampling: bool = False,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    prefix: Tensor | None = None,
    banned: Sequence[int] | Tensor | None = None,
    no_repeat_ngram: int = 0,
    threshold: float | None = None,
    fusion: Fusion | None = None,
    check: bool = False,
    keep_candidates: int | None = None,
    name: str = "choice",
) -> Any:
    """The labels of the hypotheses that go on: the `beam_size` best continuations, best first.

    Scores add up: `prob_scale` times the log probability of the label, and `base_beam_score_scale` times the score of the
    hypothesis so far. A hypothesis that has ended goes on only through `end_label`, which costs nothing. Where there are fewer
    continuations than `beam_size`, the rest of the hypotheses are label 0 with score -inf; so a beam may be larger than the
    vocabulary. A second choice in the same step starts from the hypotheses of the first.

    Args:
        scores: {batch, ..., axis}: scores of the next label of each hypothesis. A list: of several sources, see below.
        beam_size: How many hypotheses; 1 is greedy search.
        axis: The labels; default: the feature_dim of scores. Of several sources a list.
        input_type: "log_prob", of which a sum above 0 is an error; "prob" or "logits"; "score": any numbers, added up as they are;
            "regression": the value itself is passed on, there is nothing to choose; in training the target, unless it is sampled.
        target: The reference label of this step, {batch, ...}. Of several sources a list.
        search: False: the reference labels are what is chosen (training, forced scores). Default: unless there is a target that is
            not for `cheating`.
        add_to_beam_scores: With search=False, whether every hypothesis goes on through the reference label and gets its score.
            Default: if the loop has searched before.
        scheduled_sampling: With search=False: a label sampled from the scores instead of the reference, without gradient; as dict
            with "gold_mixin_prob", the probability to take the reference all the same, drawn per sequence.
        prob_scale, base_beam_score_scale: Factors on both parts of a score.
        random_sample_scale: Factor on Gumbel noise that is added to each score.
        length_normalization: Scores are divided by their length: those of ended hypotheses while others go on, all in the end.
        length_normalization_exponent: Of the length, except in the last division of all scores by the longest length.
        keep_beams: Each hypothesis gets its own best `beam_size / hypotheses` labels; they do not compete.
        cheating: The last hypothesis is the reference path; "exclusive": and no other one is.
        source_beam_sizes: Of several sources, how many labels of each are combined. Default: beam_size.
        custom_score_combine: Called with scores_in {..., axis}, scores_base {...}, t, end_flags, batch_dim, scores_beam_in and
            base_beam_in by name; returns the scores of all continuations, in place of the sum.
        end_label: How an ended hypothesis goes on. Default 0, as documented, whatever ends it. Of several sources a list; default:
            the best labels of each.
        sampling: Each hypothesis goes on through a label drawn from its distribution; the first step draws `beam_size` of them.
            Scores are those of the model.
        temperature, top_k, top_p: What is sampled from: log probabilities divided by the temperature, of the `top_k` best labels,
            or of the fewest labels that together have the probability top_p.
        prefix: Labels that sequences begin with: {batch, time}, or {batch} for this step, -1 where free. Of several sources a list.
        banned: Labels that are not chosen, or a mask {..., axis}, True where banned. Of several sources a list.
        no_repeat_ngram: No hypothesis has the same n labels in a row twice; 0: it may. Of several sources the same, or a list.
        threshold: A hypothesis is cut that is worse than the best one by more than this, in natural-log probability.
        fusion: name -> (log probabilities of another model {..., axis}, scale): added to the scores.
        check: Whether the probabilities of each hypothesis have to sum to 1.
        keep_candidates: How many candidates of a step to keep in a trace (default: twice the beam and at least 8), the cut
            ones included.
        name: Of this choice in traces.

    Returns:
        int64 {batch, beam}, sparse over axis. Of several sources a tuple of them: the best combinations, scores added, the first
        source the slowest; an ended hypothesis repeats the best labels of each. The reference labels as given; what was sampled as
        int64.

    Raises:
        RuntimeError: Outside of a Loop.
        ValueError: For options that do not fit together, or scores with NaN in them, or if no hypothesis is left.
        DimError: If axis is not a dim of scores.

    Probes:
        beams: tokens, parents, scores, ended, and the best candidates with what became of them.

    Source: Sutskever et al. 2014, section 3.2; scheduled sampling: Bengio et al. 2015; noise: Kool et al. 2019.
    """
    loop = Loop.current()
    if loop is None:
        raise RuntimeError(
            "choice: outside of a loop.\nA choice is made in every step of a search.\n    for _ in loop:\n        label = rf.choice(...)"
        )
    if (
        isinstance(scores, Tensor) and input_type == "log_prob" and target is None and search is None and beam_size.__class__ is int
        and beam_size > 0 and not scheduled_sampling and prob_scale == 1 and base_beam_score_scale == 1 and not random_sample_scale
        and not length_normalization and not keep_beams and cheating is False and source_beam_sizes is None
        and custom_score_combine is None and end_label == 0 and not sampling and temperature == 1 and top_k is None
        and top_p is None and prefix is None and banned is None and not no_repeat_ngram and threshold is None and not fusion
        and not check and keep_candidates is None
        and ((axis is None and scores._feature_dim is not None) or (isinstance(axis, Dim) and axis in scores.dims))
    ):  # fmt: skip
        labels: Any = axis or scores._feature_dim
        return choose_plain(loop, scores, labels, beam_size, name)
    if input_type not in INPUT_TYPES:
        raise ValueError(
            message(f'choice: input_type "{input_type}".', [("known", ", ".join(INPUT_TYPES))], "It is one of these.")
        )
    if cheating not in (False, True, "exclusive"):
        raise ValueError(
            message(f"choice: cheating={cheating!r}.", [("known", 'False, True, "exclusive"')], "It is one of these.")
        )
    if search is None:
        search = target is None or bool(cheating)
    if scheduled_sampling and search:
        raise ValueError(
            "choice: scheduled_sampling in a search.\nIt is for training, where the reference is known.\n"
            "    rf.choice(scores, target=labels, scheduled_sampling=True)"
        )
    if input_type == "regression":
        return _regression(scores, beam_size, None if search else target, scheduled_sampling)
    sources = list(scores) if isinstance(scores, (list, tuple)) else None
    axes = _axes(sources or [scores], axis)
    if not search:
        if scheduled_sampling:
            mix = scheduled_sampling.get("gold_mixin_prob") if isinstance(scheduled_sampling, Mapping) else None
            return sampled(
                scores, axes[0], target, input_type,
                gold_mixin_prob=mix, temperature=temperature, top_k=top_k, top_p=top_p,
            )  # fmt: skip
        if target is None:
            raise ValueError(
                "choice: search=False without target.\nThen the reference labels are chosen.\n    rf.choice(scores, target=labels)"
            )
        adds = add_to_beam_scores
        if adds is None:
            adds = loop.search is not None and loop.search.scores is not None
        if not adds:
            return target
        if length_normalization or random_sample_scale or custom_score_combine or sources is not None:
            raise ValueError(
                "choice: add_to_beam_scores with length_normalization, noise, custom_score_combine or several sources.\n"
                "The score of a reference label is added as it is.\n    rf.choice(scores, target=labels, add_to_beam_scores=False)"
            )
        return reference(
            loop,
            scores,
            axes[0],
            target,
            input_type,
            prob_scale,
            base_beam_score_scale,
            end_label,
            name,
            fusion,
            keep_candidates,
        )
    beam_size = whole_beam_size(beam_size)
    exponent = length_normalization_exponent if length_normalization else None
    check_limits(
        threshold=threshold, no_repeat_ngram=no_repeat_ngram, keep_candidates=keep_candidates, length_exponent=exponent,
        end_label=end_label,
    )  # fmt: skip
    if prob_scale != 1 or base_beam_score_scale != 1 or random_sample_scale:
        check_finite_options(
            prob_scale=prob_scale, base_beam_score_scale=base_beam_score_scale, random_sample_scale=random_sample_scale
        )
    if not sampling and (temperature != 1 or top_k is not None or top_p is not None):
        raise ValueError(
            "choice: temperature, top_k or top_p without sampling.\nThey say what a label is sampled from.\n"
            "    rf.choice(scores, beam_size=1, sampling=True, temperature=0.7)"
        )
    if temperature <= 0 or (top_k is not None and top_k < 1) or (top_p is not None and not 0 < top_p <= 1):
        raise ValueError(
            message("choice: there is nothing to sample from.", [("temperature", temperature), ("top_k", top_k), ("top_p", top_p)],
                    "temperature is above 0, top_k at least 1, and 0 < top_p <= 1.")
        )  # fmt: skip
    if cheating and (target is None or sources is not None):
        raise ValueError(
            "choice: cheating without target.\nThe reference label is put into the beam, of a single source.\n"
            "    rf.choice(scores, beam_size=5, cheating=True, target=labels)"
        )
    options = Options(
        beam_size, input_type, prob_scale, base_beam_score_scale, random_sample_scale,
        exponent, keep_beams, cheating, target if cheating else None,
        custom_score_combine, end_label, sampling, temperature, top_k, top_p, prefix, banned, no_repeat_ngram, threshold, fusion,
        check, keep_candidates, name,
    )  # fmt: skip
    if sources is not None:
        return choose_several(loop, sources, axes, source_beam_sizes, options)
    if source_beam_sizes is not None:
        raise ValueError(
            "choice: source_beam_sizes of a single source.\nThey are for a list of scores.\n"
            "    rf.choice([a, b], source_beam_sizes=[4, 2], ...)"
        )
    return choose(loop, scores, axes[0], options)


def _axes(sources: list[Tensor], axis: Any) -> list[Dim]:
    given = list(axis) if isinstance(axis, (list, tuple)) else [axis] * len(sources)
    if len(given) != len(sources):
        raise ValueError(
            message("choice: another number of axes than of sources.", [("sources", len(sources)), ("axes", len(given))],
                    "Each source has its labels.")
        )  # fmt: skip
    out = []
    for scores, dim in zip(sources, given):
        check_scores(scores)
        dim = dim or scores.feature_dim
        if dim is None:
            raise no_labels_dim("choice", scores)
        if dim not in scores.dims:
            raise missing_dim("choice", scores, dim, "scores")
        out.append(dim)
    return out


def _regression(value: Any, beam_size: int | None, target: Any, scheduled_sampling: bool | Mapping[str, float]) -> Any:
    if beam_size not in (None, 1):
        raise ValueError(
            f"choice: regression with beam_size {beam_size}.\nA value that is no label has one continuation: itself.\n"
            '    rf.choice(value, input_type="regression", beam_size=1)'
        )
    if target is None or not scheduled_sampling:
        return value if target is None else target
    mix = scheduled_sampling.get("gold_mixin_prob") if isinstance(scheduled_sampling, Mapping) else None
    return gold_mixed(value, target, mix)
