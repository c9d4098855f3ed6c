"""beam_search: a complete search for a step function of rfnb or of plain torch.

def step(labels, state):            # torch: labels (n,), state: tensors (n, ...), nested as you like
    logits, state = decoder(labels, state)
    return logits.log_softmax(-1), state

result = rf.beam_search(step, batch=16, state=start, beam_size=5, max_seq_len=50)
result.nbest(0)                     # a table: rank, score, parts, tokens, text
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from inspect import Signature, signature
from numbers import Real
from types import FrameType
from typing import Any

import numpy as np

from rfnb.core.call_errors import arguments_of, explain_call
from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import ErrorOf, nearest, parts_of, shape_error, type_error, value_error
from rfnb.core.kept_signature import keep_signature
from rfnb.core.tensor import Tensor
from rfnb.lm.ngram import NGramLM
from rfnb.ops.const import convert_to_tensor, zeros
from rfnb.rec.loop import Loop
from rfnb.search.choice import choice
from rfnb.search.coverage import Coverage
from rfnb.search.decide import Found, NBest, get_src_beams
from rfnb.search.early_stop import RULES, EarlyStop, scores_only_fall
from rfnb.search.finished_hypotheses import leaves
from rfnb.search.label_rules import check_allowed
from rfnb.search.operand_checks import no_labels_dim
from rfnb.search.options import ChoiceOptions
from rfnb.search.progress import Bar, SearchProgress
from rfnb.search.raw_model import RawModel
from rfnb.search.raw_states import RawStates
from rfnb.search.search_state import Search
from rfnb.trace.beam_diagnosis import Diagnosis
from rfnb.trace.beam_labels import label_names
from rfnb.trace.beams import BeamHistory, Hypothesis
from rfnb.trace.probe import Later

Step = Callable[[Any, Any], Any]
_SHOWN = 4  # sequences in the note of an error


@dataclass
class SearchResult:
    """The result of a search.

    Attributes:
        steps: Number of steps run.
        stopped_early: Whether the search stopped because nothing later could have changed the result, or by another rule of
            `early_stopping`.
        decided: For each sequence, the number of steps after which its best results were certain; None if they never were, or were
            not checked.
    """

    steps: int
    stopped_early: bool
    _hypotheses: BeamHistory = field(repr=False)  # without candidates: all that the results need
    _watch: _SearchWatch | None = field(repr=False)
    length_exponent: float = 0.0
    join: str = " "
    end_label: int = 0
    decided: tuple[int | None, ...] = ()
    _coverage: Coverage | None = field(default=None, repr=False)

    @cached_property
    def history(self) -> BeamHistory:
        """All steps with their candidates: verdicts, smaller beams, other length exponents, search errors."""
        assert self._watch is not None
        return self._watch.history()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "history": self.history, "_watch": None}

    def nbest(self, seq: int = 0, *, length_exponent: float | None = None, unfinished: bool = False) -> NBest:
        """The complete hypotheses of a sequence, best first, including those that have left the beam; unfinished ones only if there are
        no others.

        Only hypotheses that were complete when the sequence's best results became certain are listed, so that the result does not depend
        on the rest of the batch.

        Args:
            seq: Index in the batch.
            length_exponent: Replaces the search's own exponent without another run. Hypotheses skipped by an early stop are missing;
                use `early_stopping=False` to keep them.
            unfinished: Whether hypotheses cut at max_seq_len are ranked with the complete ones.
        """
        exponent = self.length_exponent if length_exponent is None else length_exponent
        found = self._hypotheses.finished(seq)
        limit = self.decided[seq] if self.decided else None
        items = [item for item in found if limit is None or len(item.tokens) <= limit]
        cut = not self.stopped_early and limit in (None, self.steps)
        if (unfinished and cut) or not items:
            items += [item for item in self._hypotheses.nbest(seq) if not item.ended]
        return NBest(sorted((self._row(seq, item, exponent) for item in items), key=lambda row: -row.score))

    def best(self, seq: int = 0) -> Found:
        """The first entry of `nbest`."""
        return self.nbest(seq)[0]

    def diagnose(self, seq: int, reference: Sequence[Any], *, score: float | None = None) -> Diagnosis:
        """Tell whether the search or the model is to blame if the best result is not the reference, see `BeamHistory.diagnose`; a
        coverage penalty is ignored.
        """
        best = self.best(seq).tokens
        items = [*self.history.finished(seq), *self.history.nbest(seq)]
        item = next(item for item in items if item.tokens == best)
        return self.history.diagnose(seq, reference, score=score, length_exponent=self.length_exponent, best=item)

    def _row(self, seq: int, item: Hypothesis, exponent: float) -> Found:
        parts = dict(item.parts)
        score = item.score / len(item.tokens) ** exponent
        if exponent:
            parts["length"] = float(len(item.tokens))
        if self._coverage is not None:
            parts["coverage"] = self._coverage.penalty(seq, item)
            score += parts["coverage"]
        text = _text_of(self._hypotheses, item, self.join, self.end_label)
        return Found(item.tokens, text, score, parts, item.ended)

    def __repr__(self) -> str:
        return "\n\n".join(f"sequence {seq}\n{self.nbest(seq)!r}" for seq in range(self._hypotheses.num_seqs))


def beam_search(
    step: Step,
    *,
    batch: int | Dim | Sequence[Dim],
    max_seq_len: int,
    state: Any = None,
    beam_size: int = 5,
    start_label: Any = 0,
    end_label: int = 0,
    axis: Dim | None = None,
    vocab: Sequence[str] | None = None,
    input_type: str = "log_prob",
    length_exponent: float = 0.0,
    num_best: int = 1,
    early_stopping: bool | str = True,
    ended: str = "stay",
    fusion: Mapping[str, tuple[Step, Any, float]] | None = None,
    coverage: float = 0.0,
    no_repeat_ngram: int = 0,
    progress: bool | Callable[[SearchProgress], None] = False,
    join: str = " ",
    name: str = "search",
    **options: Any,
) -> SearchResult:
    """Find the best label sequences with a step function.

    A sequence ends when `end_label` is chosen. Finished hypotheses are collected even if they fall out of the beam. Sequences of a batch
    are independent; where their sources have different lengths, the step function must mask (rf attention does).

    Args:
        step: (labels, state) -> (scores, state), or (scores, state, attention weights) for `coverage`. With `batch` as Dims all are
            Tensors, labels {batch, beam}, and scores {batch, beam, axis}; with `batch` as int they are raw: labels (n,), scores (n,
            labels), state anything nested with arrays (n, ...), where n is batch times hypotheses; arrays without n rows are left
            unchanged, and objects with a method `reorder_cache(rows)` receive the surviving rows (caches of `transformers`).
        batch: The batch dims, or the number of sequences.
        max_seq_len: Limit of steps. A hypothesis that has not ended by then is returned only if there is no other, and is marked as
            unfinished.
        state: The state before the first step, nested; without beam.
        start_label: The label before the first one; {batch}, raw (batch,) or one for all.
        axis: The dim of the labels; default: the feature_dim of the scores. Start labels are sparse over it, which an Embedding
            requires, so it must be given if the step function has one.
        vocab: Text of each label; default: the vocab of axis.
        input_type: Type of the scores, see `choice`.
        length_exponent: The final ranking is by score / length ** exponent; pruning is not affected.
        num_best: How many results must be certain before the search stops.
        early_stopping: Stop as soon as no unfinished hypothesis can be among the best `num_best`: its score can only fall, and is
            divided by at most max_seq_len ** exponent. This never changes the best results. It needs scores that are log probabilities.
            With options by which scores may grow (scales below 0, `base_beam_score_scale` below 1, noise, an own combination), or as
            soon as a score does grow, the search runs to the end. Two rules of other toolkits stop sooner and may miss the best:
            "complete" stops once `num_best` hypotheses are complete; "likely" once these are as good as the unfinished ones would be if
            they ended now.
        ended: "stay": a hypothesis that has ended keeps its place in the beam until better ones push it out, as `choice` has it.
            "leave": if it is among the best `beam_size` it becomes a result and leaves the beam, which always keeps `beam_size`
            unfinished ones, as in `transformers`. This searches wider for the same beam_size, and stops later.
        fusion: name -> (step function, state, scale) of other models over the same labels; of an n-gram model (lm.step, None, scale).
        coverage: Weight of the coverage penalty in the final ranking (Wu et al. 2016, equation 14).
        no_repeat_ngram: No hypothesis contains the same n consecutive labels twice; 0 allows it.
        progress: True draws a bar on stderr; or a function that is called with a `SearchProgress` after each step.
        join: Separator of labels in the text.
        **options: Further options of `choice`: prefix (with `batch` as int raw (batch, time), -1 where free), banned, allowed,
            threshold, sampling, ...

    Returns:
        The n-best lists and the history of the search.

    Raises:
        TypeError: If a step function does not return a pair, or fusion lacks a step function with state and scale.
        ValueError: If the scores of the step function have another shape, or coverage is requested without attention weights; see
            also `choice`. An error in a step carries the results of the previous steps as a note and as `error.history`.

    Source: Sutskever et al. 2014, section 3.2; early stopping: Huang et al. 2017, "When to Finish?", section 3.
    """
    if not options.keys() <= set(ChoiceOptions._fields):
        raise _unknown_option(sys._getframe())
    if not np.isfinite(length_exponent):
        raise value_error(
            f"beam_search: length_exponent {length_exponent}.",
            [],
            "A score is divided by length ** exponent, a finite number.",
        )
    if isinstance(early_stopping, str) and early_stopping not in RULES:
        raise value_error(
            f'beam_search: early_stopping="{early_stopping}".',
            {"known": f"True, False, {', '.join(RULES)}"},
            "It is one of these.",
            f'early_stopping="{nearest(early_stopping, RULES)}"',
        )
    if num_best < 1:
        raise value_error(
            f"beam_search: num_best {num_best}.", [], "At least the best result has to be sure before the search stops."
        )
    if max_seq_len is None or max_seq_len < 1:
        raise value_error(
            f"beam_search: max_seq_len {max_seq_len}.", [], "At least one step is made, and the search ends some time."
        )
    check_allowed(options.get("allowed"), len(vocab or ()) if axis is None else axis.extent, end_label, max_seq_len)
    raw = isinstance(batch, (int, np.integer))
    if isinstance(batch, (int, np.integer)):
        dims: Dims = (Dim(int(batch), name="batch", kind="batch"),)
    else:
        dims = (batch,) if isinstance(batch, Dim) else tuple(batch)
    models = {"": (step, state, 1.0), **_models(fusion)}
    raw_models = {key: RawModel(fn, dims[0], vocab, key) for key, (fn, _, _) in models.items()} if raw else {}
    for key, other in raw_models.items():
        other.vocab_of = raw_models[""] if key else None
    steps: dict[str, Any] = {key: raw_models.get(key, fn) for key, (fn, _, _) in models.items()}
    loop = Loop(max_seq_len=max_seq_len, name=name)
    search = Search.of(loop)
    search.leave = leaves(ended, {"coverage": coverage, **options})
    loop.state.label = _start(start_label, dims, axis)
    if raw and options.get("prefix") is not None:
        options["prefix"] = _raw_prefix(options["prefix"], dims[0])
    for key, (_, initial, _) in models.items():
        if not raw:
            loop.state["model" + key] = initial if initial is not None else {}
        else:
            raw_models[key].state = initial
    if raw:
        loop.beside = RawStates(raw_models, loop)
    cover = Coverage(coverage, search.wanted) if coverage else None
    scales = {key: model[2] for key, model in models.items() if key}
    rule = early_stopping if isinstance(early_stopping, str) else "sure"
    stops = bool(early_stopping) and (
        rule != "sure" or (input_type != "score" and scores_only_fall(scales=scales, coverage=coverage, **options))
    )
    stop = search.stop = EarlyStop(length_exponent, num_best, max_seq_len, stops, scales, cover, rule)
    watch = _SearchWatch(search, stop, vocab, join, end_label, Bar() if progress is True else progress or None)
    loop.after_step = watch.goes_on
    try:
        for _ in loop:
            label = loop.state.label
            scores = {}
            for key, fn in steps.items():
                out = fn(label, None if raw else loop.state["model" + key])
                out = out if raw else RawModel.checked(out)
                scores[key] = out[0]
                if not raw:
                    loop.state["model" + key] = out[1] if out[1] is not None else {}
                if cover is not None and not key:
                    cover.attend(out, label, raw, raw_models.get(""))
            if (labels_dim := axis or scores[""].feature_dim) is None:
                raise no_labels_dim("beam_search", scores[""])
            fused = {key: (scores[key], scales[key]) for key in scores if key}
            try:
                label = choice(
                    scores[""], axis=labels_dim, beam_size=beam_size, input_type=input_type, end_label=end_label, fusion=fused or None,
                    no_repeat_ngram=no_repeat_ngram, **options,
                )  # fmt: skip
            except (TypeError, ValueError) as error:
                raise _in_own_words(error, "" if axis is None else "axis=axis, ") from None
            loop.state.label = label
            parents = get_src_beams(label)
            for fn in raw_models.values():
                fn.follow(parents)
            if cover is not None:
                cover.follow(parents)
                loop.call_on_commit(cover.settle)
            loop.end(label == end_label, include_eos=True)
    except Exception as error:
        watch.tell(error)
        raise
    finally:
        watch.close()
    sure = tuple(stop.decided) if stop.safe else ()
    return SearchResult(
        len(watch.values), watch.stopped, watch.hypotheses(), watch, length_exponent, join, end_label, sure, cover,
    )  # fmt: skip


keep_signature(beam_search, options_of=("rfnb.search.choice:choice",))


def _unknown_option(frame: FrameType) -> TypeError:
    """The error for an option that neither the search nor `choice` has, read from the frame of the search."""
    known = [each for each in signature(beam_search).parameters.values() if each.kind is not each.VAR_KEYWORD]
    error = explain_call("beam_search", "rf.beam_search", Signature(known), *arguments_of(frame))
    assert error is not None
    return error


def _in_own_words(error: TypeError | ValueError, further: str) -> TypeError | ValueError:
    """An error of `choice`, reworded for the search that called it."""
    what, rows, rule, fix = parts_of(error) or ("", [], "", None)
    if not what.startswith(("choice:", "choice in loop ")):
        return error
    line = (
        None
        if fix is None
        else fix.replace("rf.choice(scores, ", f"rf.beam_search(step, batch=batch, max_seq_len=max_seq_len, {further}")
    )
    return ErrorOf(type(error))(
        what.replace("choice", "beam_search", 1), rows, rule, line and line.replace(", ...)", ")")
    )


def _models(fusion: Any) -> Mapping[str, tuple[Step, Any, float]]:
    """The fused models, each with its state and scale."""
    fusion = {} if fusion is None else fusion
    if not isinstance(fusion, Mapping):
        raise type_error(
            "beam_search: fusion names no models.",
            {"fusion": type(fusion).__name__},
            "Each model has a name, under which its part of the scores is shown.",
            'rf.beam_search(..., fusion={"lm": (lm_step, lm_state, 0.3)})',
        )
    for name, model in fusion.items():
        if not isinstance(model, (tuple, list)) or len(model) != 3 or not isinstance(model[2], Real):
            given = ", ".join(type(part).__name__ for part in model) if isinstance(model, (tuple, list)) else ""
            raise type_error(
                f'beam_search: fusion "{name}" is no step function with state and scale.',
                {"given": f"({given})" if given else type(model).__name__},
                "Without a state it is None.",
                f'rf.beam_search(..., fusion={{"{name}": (lm_step, None, 0.3)}})',
            )
        if isinstance(model[0], NGramLM):
            raise type_error(
                f'beam_search: fusion "{name}" is an n-gram model, not its step function.',
                {"given": model[0]},
                "Its step function leaves the start label out.",
                f'rf.beam_search(..., fusion={{"{name}": (lm.step, None, {model[2]})}})',
            )
    return fusion


def _text_of(history: BeamHistory, item: Hypothesis, join: str, end_label: int) -> str:
    """The text of a hypothesis without its end label."""
    shown = item.tokens[:-1] if item.ended and item.tokens[-1] == end_label else item.tokens
    return join.join(map(history.label, shown))


def _start(label: Any, dims: Dims, axis: Dim | None) -> Tensor:
    if isinstance(label, Tensor):
        return label
    if len(getattr(label, "shape", ())) == 1:
        return convert_to_tensor(label, dims=dims)
    out = zeros(dims, dtype="int64") + int(label)
    if axis is not None:
        out.sparse_dim = axis
    return out


def _raw_prefix(prefix: Any, batch: Dim) -> Tensor:
    if isinstance(prefix, Tensor):
        return prefix
    prefix = np.asarray(prefix)
    if prefix.ndim != 2 or len(prefix) != batch.extent or prefix.dtype.kind not in "iu":
        raise shape_error(
            "beam_search: the prefix does not fit the sequences.",
            {"prefix": f"{prefix.shape} {prefix.dtype}", "needs": f"({batch.extent}, time) int64"},
            "It is the labels that each sequence begins with, -1 where it is free.",
        )
    return convert_to_tensor(prefix, dims=[batch, Dim(prefix.shape[1], name="prefix")])


class _SearchWatch:
    """Observes the decisions of each step and reports progress."""

    def __init__(
        self,
        search: Search,
        stop: EarlyStop,
        vocab: Sequence[str] | None,
        join: str,
        end_label: int,
        progress: Callable[[SearchProgress], None] | None,
    ):
        self.stop, self.vocab, self.join, self.end_label, self.progress = stop, vocab, join, end_label, progress
        self.values: list[Later] = []  # of each step that is over
        self.steps: list[Mapping[str, np.ndarray]] = []  # the same on the host, each moved once
        self.kept: list[Mapping[str, np.ndarray]] = []  # without candidates
        self.stopped = False  # before the last step that could be made
        self._search = search
        search.keep = self

    def __call__(self, told: Later) -> None:
        """Keep the decision of a choice."""
        self.values.append(told)

    def hypotheses(self) -> BeamHistory:
        """The history so far without candidates, which saves sorting them."""
        link, labels = self._search.links[-1], self.vocab
        if labels is None and link.last is not None:
            labels = label_names(link.last.tokens.sparse_dim)
        return BeamHistory(self.kept, labels, length_exponent=link.normalized or 0.0)

    def history(self) -> BeamHistory:
        """The history so far."""
        if self.steps:
            for index in range(len(self.steps), len(self.values)):
                self.steps.append(BeamHistory.of_values(self.values[index : index + 1]).steps[0])
            history = BeamHistory.of_values(self.values, steps=self.steps)
        else:
            history = BeamHistory.of_values(self.values)
            self.steps = list(history.steps)
        if self.vocab is not None:
            history.labels = list(self.vocab)
        return history

    def goes_on(self, step: int, more: bool) -> bool:
        """True if another step follows this many, given that the loop allows more."""
        self.stopped = self._is_done(step) and more
        return more and not self.stopped

    def _is_done(self, step: int) -> bool:
        """True if the search can stop after this many steps."""
        stop = self.stop
        if not self.values:
            return False
        last = self.values[-1]
        if last.host is None:
            self.history()
        self.kept.append(self.steps[-1] if last.host is None else last.host())
        stop.after_step(step, self.kept[-1])
        if self.progress is not None:
            history = self.hypotheses()
            best = tuple(
                _text_of(history, history.best(seq, length_exponent=stop.exponent), self.join, self.end_label)
                for seq in range(history.num_seqs)
            )
            decided = sum(found is not None for found in stop.decided)
            self.progress(SearchProgress(step, stop.max_steps, tuple(map(len, stop.finished)), decided, best))
        return stop.safe and None not in stop.decided

    def tell(self, error: Exception) -> None:
        """Attach the results so far to an error."""
        if not self.values:
            return
        history = self.history()
        error.__dict__["history"] = history
        shown = min(history.num_seqs, _SHOWN)
        tables = "\n\n".join(map(history.text, range(shown)))
        more = f"\n\n... and {history.num_seqs - shown} more sequences" if history.num_seqs > shown else ""
        steps = f"{history.num_steps} step{'s' * (history.num_steps > 1)}"
        error.add_note(f"\nWhat the search had found in {steps}; all of it is error.history:\n\n{tables}{more}")

    def close(self) -> None:
        """End the search."""
        if isinstance(self.progress, Bar):
            self.progress.close()
