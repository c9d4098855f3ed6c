"""Decisions: labels that a held run forces or bans in a step of `generate`.

They change the scores of the labels after all processors of the generation config. So in a beam search a forced
hypothesis is the only one of its sequence to continue (`only=True`): a hypothesis worse than others cannot be kept
beside them.

This file also records which labels the logits processors of `generate` make impossible in a step, by processor.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch

from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.rec.selections import LabelDecision
from rfnb.search.labels import check_number, label_index, place_of_labels, spelled


class Decisions:
    """The decisions for the steps of one call.

    Args:
        vocab: The labels.
        batch, beams: Numbers of sequences, and of hypotheses of each.
        prompt: Number of initial labels of the hypotheses.
    """

    def __init__(self, vocab: Dim, batch: int, beams: int, prompt: int, *, is_beam: bool):
        self._vocab, self._batch, self._beams, self._prompt, self._is_beam = vocab, batch, beams, prompt, is_beam
        self._ids: torch.Tensor | None = None
        self._now: list[LabelDecision] = []

    def begin(self, ids: torch.Tensor | None) -> None:
        """Start a step with these hypotheses (rows, time)."""
        self._ids = ids

    def decide(self, decided: Sequence[LabelDecision]) -> str:
        """Set decisions for the next choice, all or none; returns the labels as text.

        Raises:
            IndexError: If there is no such label, hypothesis or sequence.
            ValueError: If this search does not support it.
        """
        found = [self._resolved(each) for each in decided]
        self._now += found
        return ", ".join(" ".join(map(self._text, (each.label, *each.then))) for each in found)

    def applied(self, scores: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
        """The scores of a step with the decisions applied; labels after a forced label apply to the next step.

        Args:
            scores: The scores before processing.
        """
        if not self._now:
            return result
        now, self._now = self._now, []
        made = result.clone()
        for one in now:
            if one.kind == "ban":
                rows = range(self._beams) if one.hypothesis is None else [one.hypothesis]
                for row in rows:
                    made[one.seq * self._beams + row, one.label] = -torch.inf
        forced: dict[int, list[LabelDecision]] = {}
        for one in now:
            if one.kind == "force":
                forced.setdefault(one.seq, []).append(one)
        for seq, each in forced.items():
            # Samples of a prompt continue independently.
            rows = range(self._beams) if self._is_beam else sorted({one.hypothesis for one in each})
            for row in rows:
                made[seq * self._beams + row] = -torch.inf
            for one in each:
                at = seq * self._beams + one.hypothesis, one.label
                made[at] = result[at] if result[at] > -torch.inf else scores[at]
                if one.then:
                    place = 0 if self._is_beam else one.hypothesis
                    self._now.append(one._replace(label=one.then[0], then=one.then[1:], hypothesis=place))
        return made

    def _resolved(self, decided: LabelDecision) -> LabelDecision:
        decided = spelled(decided, self._vocab)
        check_number(decided.kind, "sequence", decided.seq, self._batch)
        label = label_index(decided, self._vocab)
        then = tuple(label_index(decided._replace(label=each), self._vocab) for each in decided.then)
        if decided.kind == "force" and self._is_beam and not decided.only:
            raise value_error(
                "force: generate keeps only the best hypotheses.",
                {"label": self._text(label), "hypothesis": decided.hypothesis, "seq": decided.seq},
                "In its beam search, a forced hypothesis is the only one of its sequence that survives:",
                f"run.at.force({decided.label!r}, hypothesis={decided.hypothesis!r}, seq={decided.seq}, only=True)",
            )
        return decided._replace(label=label, then=then, hypothesis=self._place(decided))

    def _place(self, decided: LabelDecision) -> int | None:
        """The slot of a hypothesis given by slot, or by its labels so far."""
        given: Any = decided.hypothesis
        if given is None:
            return None
        if isinstance(given, (str, list, tuple)):
            assert self._ids is not None
            rows = self._ids[decided.seq * self._beams : (decided.seq + 1) * self._beams, self._prompt :].tolist()
            return place_of_labels(decided, rows, [list(map(self._text, row)) for row in rows])
        check_number(decided.kind, "hypothesis", given, self._beams)
        return int(given)

    def _text(self, label: Any) -> str:
        vocab = self._vocab.vocab
        return str(vocab[label]) if vocab is not None else str(label)


# The corresponding arguments of `generate`.
_NAMES = {
    "TopKLogitsWarper": "top_k", "TopPLogitsWarper": "top_p", "MinPLogitsWarper": "min_p", "TypicalLogitsWarper": "typical_p",
    "EpsilonLogitsWarper": "epsilon_cutoff", "EtaLogitsWarper": "eta_cutoff", "TopHLogitsWarper": "top_h",
    "NoRepeatNGramLogitsProcessor": "no_repeat_ngram_size", "NoBadWordsLogitsProcessor": "bad_words_ids",
    "MinLengthLogitsProcessor": "min_length", "MinNewTokensLengthLogitsProcessor": "min_new_tokens",
    "PrefixConstrainedLogitsProcessor": "prefix_allowed_tokens_fn", "SuppressTokensLogitsProcessor": "suppress_tokens",
    "SuppressTokensAtBeginLogitsProcessor": "begin_suppress_tokens", "ForcedBOSTokenLogitsProcessor": "forced_bos_token_id",
    "ForcedEOSTokenLogitsProcessor": "forced_eos_token_id", "EncoderNoRepeatNGramLogitsProcessor": "encoder_no_repeat_ngram_size",
}  # fmt: skip
DECIDED = "an external decision"


class Blocked:
    """The labels that something made impossible in a step.

    Attributes:
        by: (rows, labels): 0, or the index in `names` of the cause, from 1.
        names: Descriptions of the causes.
    """

    def __init__(self) -> None:
        self.by: torch.Tensor | None = None
        self.names: list[str] = []

    def watched(self, processors: Any) -> Any:
        """The same list, with processors that report the labels that they make impossible; starts a new step."""
        self.by = None
        seen = copy.copy(processors)
        seen[:] = [_Watched(processor, self) for processor in processors]
        return seen

    def note(self, name: str, before: torch.Tensor, after: torch.Tensor) -> None:
        """Record labels that were possible before, bool (rows, labels), and are not after."""
        gone = before & ~(after > -torch.inf)
        if not bool(gone.any()):
            return
        if name not in self.names:
            self.names.append(name)
        if self.by is None:
            self.by = torch.zeros(gone.shape, dtype=torch.uint8, device=gone.device)
        self.by.masked_fill_(gone, self.names.index(name) + 1)


class _Watched:
    def __init__(self, processor: Any, blocked: Blocked):
        self._processor, self._blocked = processor, blocked
        self.__dict__["__call__"] = processor.__call__  # its signature is inspected

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        before = scores > -torch.inf  # some change scores in place
        result = self._processor(input_ids, scores, **kwargs)
        if isinstance(result, torch.Tensor) and result.shape == before.shape:
            kind = type(self._processor).__name__
            self._blocked.note(_NAMES.get(kind, kind), before, result)
        return result
