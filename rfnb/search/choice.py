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
from typing import Any, Never, overload

from rfnb.core.dim import Dim
from rfnb.core.errors import runtime_error, value_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import missing_dim
from rfnb.rec.hold import holding
from rfnb.rec.loop import Loop
from rfnb.search.choose import choose
from rfnb.search.choose_plain import choose_plain
from rfnb.search.operand_checks import check_scores, no_labels_dim
from rfnb.search.options import ChoiceOptions
from rfnb.search.reference_choice import regressed, trained
from rfnb.search.score import Fusion
from rfnb.search.several import choose_several


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
        allowed: What a hypothesis may be: a function of its labels so far (a tuple; without the start label, with `prefix`) that gives the
            labels that may come, a bool for each label, 32 of them as bits of an int32, or None for all; an `rf.Lexicon`,
            `rf.RequiredPhrases` or `rf.Constraint` of your own; a set of labels; or a list of these, which hold all. What ends is
            `end_label`; of an automaton no label is taken from which the end cannot be reached within max_seq_len.
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
        beams: tokens, parents, scores, ended, the best candidates with what became of them, and of each hypothesis the best labels
            with their log probabilities (`next_tokens`, `next_log_probs`), also those that no beam took; `taken`: of the hypothesis that
            each continues, the probability of all labels that were not allowed; `blockers` and `cand_by`: what has forbidden a candidate.

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
        return regressed(scores, options)
    sources = list(scores) if isinstance(scores, (list, tuple)) else None
    axes = _axes(sources or [scores], axis)
    if not options.searches:
        return trained(loop, scores, axes[0], options)
    options = options.of_search(several=sources is not None)
    return choose(loop, scores, axes[0], options) if sources is None else choose_several(loop, sources, axes, options)


def _axes(sources: list[Tensor], axis: Any) -> list[Dim]:
    given = list(axis) if isinstance(axis, (list, tuple)) else [axis] * len(sources)
    if len(given) != len(sources):
        raise value_error(
            "choice: another number of axes than of sources.",
            [("sources", len(sources)), ("axes", len(given))],
            "Each source has its labels.",
        )
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
