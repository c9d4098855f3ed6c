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
