"""BeamHistory: all steps of a search on the host; which hypothesis came from which.

    history = trace.beams["decoder"]
    history.best(seq=0).labels                          # the winner
    history.along(trace.attention.steps("att"), seq=0, k=0)     # its attention: beam slots are not hypotheses

A *slot* is a place in the beam of one step; a hypothesis moves through slots, from parent to child.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import NearNames, index_error, type_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.whole_number import is_place, whole
from rfnb.trace import beam_analysis, beam_diagnosis, smaller_beam
from rfnb.trace.beam_analysis import Fate, Verdict
from rfnb.trace.beam_diagnosis import Diagnosis
from rfnb.trace.beam_fields import FIELDS, BeamDims, check_steps, host_fields
from rfnb.trace.beam_labels import CombinedLabels, Labels, labels_of, num_labels
from rfnb.trace.event_fields import MOST_EXPONENT
from rfnb.trace.host_copies import on_host
from rfnb.trace.probe import Later
from rfnb.trace.smaller_beam import SmallerBeam


@dataclass(frozen=True)
class Hypothesis:
    """One hypothesis of one sequence.

    Attributes:
        tokens: Its labels as ints, up to and with the one that ended it; without blanks. Of several sources the number of each
            combination, see `BeamHistory.split`.
        labels: The same as text.
        score: natural-log probability, summed over steps; without the length normalization of a choice.
        ended: Whether it is complete.
        kept: Whether it is still in the beam of the last step, or has left the beam because it was complete.
        path: (step, slot) of each of its tokens.
        parts: What the score is made of, summed over steps: "log_prob" of the model, and other models by name, unscaled.
        end: (step, slot) of its last step; of a search over alignments it may have written nothing there.
    """

    tokens: tuple[int, ...]
    labels: tuple[str, ...]
    score: float
    ended: bool
    kept: bool
    path: tuple[tuple[int, int], ...]
    parts: Mapping[str, float] = field(default_factory=dict, compare=False)
    end: tuple[int, int] = (0, 0)

    def rating(self, length_exponent: float) -> float:
        """score / length ** length_exponent."""
        return self.score / max(len(self.tokens), 1) ** length_exponent


class BeamHistory(NearNames):
    """All steps of one search.

    Args:
        steps: One dict of NumPy arrays per step: tokens, parents, scores, ended {batch, beam} in this order, and cand_tokens,
            cand_parents, cand_scores, cand_kept {batch, candidate}. `ended` may be missing (never), so may the candidates.
        labels: Text of each token.
        dims: The dims that Tensors of this search have; for `along` with Tensors.
        step_labels: Text of the tokens of each step, if not all steps are over the same vocabulary (two choices in a step).
        blank: Of a search over alignments the token of a hypothesis that stays as it is.
        length_exponent: Of the length normalization of the choice.
        threshold: By how much a hypothesis may be worse than the best one of its step.
        by_rank: For each step whether what was kept are the best of all candidates.
        num_labels: For each step how many labels may continue a hypothesis; None if unknown.
        loop_steps: For each step that of its loop. Two choices in a step of a loop are two steps here.
        each_step: What a step is, "frame" in a search over alignments that reads a frame in each.
        rank_exponent: In the end, not while they are pruned, hypotheses are ranked by score / length ** rank_exponent, and those that
            the limit of steps has cut are results too; None: neither.
        blockers: The limits that made candidates impossible, as text, by the number in `cand_by` from 1.
        about: The search options as text: "num_beams=4, length_penalty=1.0".
        remark: What is not known of the search, in a sentence.

    Attributes:
        steps, labels, blank, length_exponent, threshold, by_rank, num_labels, loop_steps, each_step, rank_exponent, blockers,
            about, remark: As given. Scores are natural-log probabilities, summed over steps; -inf marks a slot without hypothesis.
    """

    def __init__(
        self,
        steps: Sequence[Mapping[str, np.ndarray]],
        labels: Sequence[str] | None = None,
        *,
        dims: BeamDims | None = None,
        step_labels: Sequence[Labels] | None = None,
        blank: int | None = None,
        length_exponent: float = 0.0,
        threshold: float | None = None,
        by_rank: Sequence[bool] | None = None,
        num_labels: Sequence[int | None] | None = None,
        loop_steps: Sequence[int] | None = None,
        each_step: str = "step",
        rank_exponent: float | None = None,
        blockers: Sequence[str] = (),
        about: str = "",
        remark: str = "",
    ):
        self.steps = [{"ended": np.zeros(step["tokens"].shape, bool), **step} for step in steps]
        self.labels: Labels = labels if labels is None or isinstance(labels, CombinedLabels) else list(labels)
        self.blank, self.length_exponent, self.threshold = blank, length_exponent, threshold
        self.num_labels = [None] * len(self.steps) if num_labels is None else list(num_labels)
        self.by_rank = [True] * len(self.steps) if by_rank is None else list(by_rank)
        self.loop_steps = list(range(len(self.steps))) if loop_steps is None else list(loop_steps)
        self.each_step = each_step
        self.blockers = list(blockers)
        self.rank_exponent, self.about, self.remark = rank_exponent, about, remark
        self._step_labels = step_labels
        self._dims = dims or BeamDims()
        self._prefixes: dict[tuple[int, int, int], tuple[int, ...]] = {}
        self._texts: list[str] = []

    @classmethod
    def of_values(
        cls,
        values: Sequence[Mapping[str, Any]],
        loop_steps: Sequence[int | None] | None = None,
        *,
        steps: Sequence[Mapping[str, np.ndarray]] | None = None,
    ) -> BeamHistory:
        """A history from the values of `beams` events, one per step.

        Args:
            loop_steps: The step of each in its loop. Default: one after the other.
            steps: The same as arrays, from a history of them, if they are known.

        Raises:
            ValueError: If a field is missing, or is none of such a step.
        """
        values = [fields.made() if isinstance(fields, Later) else fields for fields in values]
        for index, fields in enumerate(values):
            missing = [name for name in FIELDS if name not in fields]
            if missing:
                raise value_error(
                    f"beams, step {index}: {missing[0]} is missing.",
                    {"given": ", ".join(fields)},
                    f"A step of a search has {', '.join(FIELDS)}.",
                )
        dims = BeamDims.of_values(values)
        sparse = {fields["tokens"].sparse_dim for fields in values}
        each = [labels_of(fields) for fields in values] if len(sparse) > 1 else None
        last = values[-1] if values else {}
        if steps is None:
            steps = host_fields(values, dims)
            check_steps(steps, len(last.get("blockers", ())))
        return cls(
            steps,
            labels_of(values[0]) if values else None,
            dims=dims,
            step_labels=each,
            blank=last.get("blank"),
            length_exponent=last.get("length_exponent", 0.0),
            threshold=last.get("threshold"),
            by_rank=[fields.get("by_rank", True) for fields in values],
            num_labels=[num_labels(fields) for fields in values],
            loop_steps=None if loop_steps is None else [step or 0 for step in loop_steps],
            each_step=last.get("each_step", "step"),
            rank_exponent=last.get("rank_exponent"),
            blockers=last.get("blockers", ()),
            about=last.get("about", ""),
            remark=last.get("remark", ""),
        )

    @property
    def num_steps(self) -> int:
        """The number of steps so far."""
        return len(self.steps)

    @property
    def num_seqs(self) -> int:
        """The size of the batch."""
        return int(self.steps[0]["tokens"].shape[0]) if self.steps else 0

    def beam_size(self, step: int = -1) -> int:
        """The number of slots after a step, -1: the last one."""
        if step != -1 or whole(step) is None:
            self._check_all([("step", step, self.num_steps)])
        return int(self.steps[step]["tokens"].shape[1])

    def labels_of(self, step: int | None = None) -> Labels:
        """The text of the tokens of a step (None: of the first one)."""
        if self._step_labels is None or step is None:
            return self.labels
        self._check_all([("step", step, self.num_steps)])
        return self._step_labels[step]

    def label(self, token: int, step: int | None = None) -> str:
        """The text of a token (of that step); its number if there are no labels."""
        labels = self.labels_of(step)
        if labels is not None and 0 <= token < len(labels):
            return str(labels[token])
        return str(token)

    def split(self, token: int) -> tuple[int, ...]:
        """The labels of all sources that a token of a choice of several sources stands for; of one source itself."""
        return self.labels.split(token) if isinstance(self.labels, CombinedLabels) else (token,)

    def path(self, seq: int, k: int, step: int | None = None) -> list[tuple[int, int]]:
        """The (step, slot) pairs, up to `step`, along which the hypothesis in slot `k` of `step` was built.

        Args:
            seq: Index in the batch.
            k: Slot in the beam after `step`, not a rank.
            step: Default: the last step.

        Raises:
            IndexError: If there is no such sequence, slot or step.
        """
        last = self.num_steps - 1 if step is None else step
        self._check(seq, k, last)
        path = []
        for index in range(last, -1, -1):
            path.append((index, int(k)))
            k = int(self.steps[index]["parents"][seq, k])
        return path[::-1]

    def parents_along(self, seq: int, item: Hypothesis) -> tuple[int, ...]:
        """The slot before each step of a hypothesis, up to its end."""
        return tuple(
            int(self.steps[step]["parents"][seq, slot]) for step, slot in self.path(seq, item.end[1], item.end[0])
        )

    def hypothesis(self, seq: int, k: int, step: int | None = None) -> list[int]:
        """The tokens of the hypothesis in slot `k` after `step`, up to and including its end; without blanks."""
        return [int(self.steps[index]["tokens"][seq, slot]) for index, slot in self._written(seq, k, step)]

    def prefix(self, seq: int, k: int, step: int) -> tuple[int, ...]:
        """`hypothesis` as a tuple, cached."""
        key = seq, k, step
        if key not in self._prefixes:
            before = self._parent_of(*key)  # that of the step before is mostly known
            if before is None or before not in self._prefixes:
                self._prefixes[key] = tuple(self.hypothesis(seq, k, step))
            else:
                token = int(self.steps[step]["tokens"][seq, k])
                over = self.steps[before[2]]["ended"][before[0], before[1]] or token == self.blank
                self._prefixes[key] = self._prefixes[before] if over else (*self._prefixes[before], token)
        return self._prefixes[key]

    def _parent_of(self, seq: int, k: int, step: int) -> tuple[int, int, int] | None:
        self._check(seq, k, step)
        return (seq, int(self.steps[step]["parents"][seq, k]), step - 1) if step else None

    def texts(self, tokens: Sequence[int]) -> tuple[str, ...]:
        """The texts of the tokens of a hypothesis."""
        if self._step_labels is None and isinstance(self.labels, (list, tuple)):
            known, most = self._texts, max(tokens, default=-1)
            while len(known) <= min(most, len(self.labels) - 1):
                known.append(str(self.labels[len(known)]))
            if 0 <= min(tokens, default=0) and most < len(known):
                return tuple(map(known.__getitem__, tokens))
        steps = range(len(tokens)) if self.blank is None else [0] * len(tokens)
        return tuple(self.label(token, step) for token, step in zip(tokens, steps))

    def finished(self, seq: int) -> list[Hypothesis]:
        """All hypotheses that have ended, including those that later fell out of the beam, best score first."""
        final = {self._until_end(seq, k, step)[-1] for step, k in self._final(seq)}
        found = []
        for index, fields in enumerate(self.steps):
            for k in self._real(seq, index):
                before = index > 0 and self.steps[index - 1]["ended"][seq, fields["parents"][seq, k]]
                if fields["ended"][seq, k] and not before:
                    found.append(self._make(seq, k, index, kept=(index, k) in final))
        return sorted(found, key=lambda item: -item.score)

    def nbest(self, seq: int, *, length_exponent: float | None = None) -> list[Hypothesis]:
        """The hypotheses in the beam after the last step, and those that left it complete, best first.

        Args:
            length_exponent: Rank by score / length ** exponent; 0: by score, 1: by score per token. Default: the ranking of the
                search.
        """
        _check_exponent(length_exponent)
        if not self.steps:
            return []
        found = [(self._own_score(seq, k, step), self._make(seq, k, step, kept=True)) for step, k in self._final(seq)]
        length_exponent = self.rank_exponent or None if length_exponent is None else length_exponent
        if length_exponent is None:
            return [item for _, item in sorted(found, key=lambda pair: -pair[0])]
        return sorted((item for _, item in found), key=lambda item: -item.rating(length_exponent))

    def best(self, seq: int, *, length_exponent: float | None = None) -> Hypothesis:
        """The first of `nbest`.

        Raises:
            ValueError: If there is none.
        """
        nbest = self.nbest(seq, length_exponent=length_exponent)
        if not nbest:
            raise ValueError(
                f"BeamHistory: sequence {seq} has no hypothesis after {_count(self.num_steps, 'step', 'steps')}: all scores are -inf."
            )
        return nbest[0]

    def rerank(self, seq: int, *, length_exponent: float) -> list[Hypothesis]:
        """All finished hypotheses, including those that later fell out of the beam, and the unfinished ones of the last step, by score
        / length ** length_exponent, best first. Nothing is run again.
        """
        _check_exponent(length_exponent)
        found = self.finished(seq)
        found += [item for item in self.nbest(seq) if not item.ended]
        return sorted(found, key=lambda item: -item.rating(length_exponent))

    def from_slot(self, seq: int, k: int, step: int | None = None) -> Hypothesis:
        """The hypothesis in slot `k` after `step` (default: the last one)."""
        step = self.num_steps - 1 if step is None else step
        return self._make(seq, k, step, kept=step == self.num_steps - 1)

    def verdicts(self, seq: int, step: int) -> list[Verdict]:
        """The verdict on each stored candidate of a step, kept ones first."""
        self._check(seq, 0, step)
        return beam_analysis.verdicts(self, seq, step)

    def fate(self, seq: int, k: int, step: int) -> Fate:
        """The fate of the hypothesis in slot `k` after `step`: whether it was continued, and why."""
        return beam_analysis.fate(self, seq, k, step)

    def smaller(self, seq: int, beam_size: int) -> SmallerBeam:
        """The hypotheses that a smaller beam would have kept in each step, as far as this search can tell."""
        if self.steps:
            self._check(seq, 0, 0)
        return smaller_beam.smaller(self, seq, beam_size)

    def diagnose(
        self,
        seq: int,
        reference: Sequence[Any],
        *,
        score: float | None = None,
        length_exponent: float | None = None,
        best: Hypothesis | None = None,
    ) -> Diagnosis:
        """Tell whether the search or the model is to blame if the best hypothesis is not the reference.

        Args:
            seq: Index in the batch.
            reference: Labels as numbers or texts, including the end label. For several sources a tuple of labels per step; for a
                search over alignments without blanks.
            score: The model's own score of the reference (`rf.choice(scores, target=..., search=False, add_to_beam_scores=True)`
                computes it); only needed if it fell out of the beam before its end.
            length_exponent: Compare scores as score / length ** exponent. Default: the exponent of the search.
            best: The result of the search. Default: the first of `nbest`, or of the ended hypotheses if these leave the beam.

        Raises:
            ValueError: If there is nothing to compare, or the reference lacks its end.
        """
        return beam_diagnosis.diagnose(self, seq, reference, score, length_exponent, best)

    def along(
        self, values: Sequence[Any] | Tensor, seq: int, k: int, *, step: int | None = None, before_choice: bool = True
    ) -> list[Any]:
        """The values that one hypothesis saw: given values in beam slots for each step, select its own slot in each step.

        Args:
            values: One per step: Tensors {batch, beam, ...} (without a beam dim: shared by all slots), or arrays in the order batch,
                beam, ... (with beam size 1: shared by all slots); None for a step without a value.
            seq: Index in the batch.
            k: Slot in the beam after `step`.
            step: Default: the last one.
            before_choice: Whether the values were computed before the choice of their step (attention, logits) and are in the
                parent's slot. Values computed after it (the new state) are in the hypothesis's own slot.

        Returns:
            One array per step of the loop up to the end of the hypothesis, without batch and beam; None for None.

        Raises:
            ValueError: If there are fewer values than tokens.
            TypeError: For a single Tensor.
        """
        if isinstance(values, Tensor):
            raise type_error(
                "BeamHistory.along: one Tensor for all steps.",
                {"values": repr(values)},
                "The slots of a step mean something only in that step, so there is one value per step.",
                "history.along(trace.attention.steps(path), seq, k)",
            )
        values = on_host(values)
        path = self._until_end(seq, k, step)
        if len(values) <= max((self.loop_steps[index] for index, _ in path), default=-1):
            raise value_error(
                "BeamHistory.along: fewer values than tokens.",
                {"values": f"{len(values)}", "tokens": f"{len(path)}"},
                "There is one value for each step of the search, from step 0.",
            )
        out = []
        for place, (index, slot) in enumerate(path):
            step = self.loop_steps[index]
            neighbour = place - 1 if before_choice else place + 1  # of several choices of a step the first, or the last
            if 0 <= neighbour < len(path) and self.loop_steps[path[neighbour][0]] == step:
                continue
            slot = int(self.steps[index]["parents"][seq, slot]) if before_choice else slot
            out.append(None if values[step] is None else self._dims.pick(values[step], seq, slot))
        return out

    def in_slots(self, values: Sequence[Tensor | None]) -> list[np.ndarray | None]:
        """The values of all slots, from which `along` selects: for each Tensor an array {batch, slot, ...}, with a single slot if the
        value is shared; None for None.
        """
        return [None if value is None else self._dims.all_slots(value, self.num_seqs) for value in on_host(values)]

    @property
    def batch(self) -> tuple[Dim, ...]:
        """The batch dims of a search on Tensors."""
        return self._dims.batch

    def slot_dims(self, value: Tensor) -> tuple[Dim, ...]:
        """The dim over beam slots of a Tensor, if any."""
        return self._dims.slots_of(value)

    def inner_dims(self, value: Tensor) -> tuple[Dim, ...]:
        """The dims of a Tensor other than batch and slots."""
        slots = self._dims.slots_of(value)
        return tuple(dim for dim in value.dims if dim not in self._dims.batch and dim not in slots)

    def labels_along(self, seq: int, k: int, *, step: int | None = None) -> list[str]:
        """The text that a hypothesis emitted in each step of the loop up to its end, indexed as in `along`: several choices in a step
        are joined by "|"; in a search over alignments "" where the prefix stayed.
        """
        found: dict[int, list[str]] = {}
        for index, slot in self._until_end(seq, k, step):
            token = int(self.steps[index]["tokens"][seq, slot])
            text = "" if token == self.blank else self.label(token, index)
            found.setdefault(self.loop_steps[index], []).append(text)
        return ["|".join(texts) for texts in found.values()]

    def text(self, seq: int | None = None, *, length_exponent: float | None = None) -> str:
        """The n-best list of one sequence, or of all, as a table."""
        seqs = range(self.num_seqs) if seq is None else [seq]
        return "\n\n".join(self._table(seq, length_exponent) for seq in seqs)

    def __repr__(self) -> str:
        sizes = sorted({self.beam_size(step) for step in range(self.num_steps)})
        return f"<BeamHistory: {self.num_seqs} sequences, {self.num_steps} steps, beam {'-'.join(map(str, sizes[:1] + sizes[1:][-1:]))}>"

    def _table(self, seq: int, length_exponent: float | None) -> str:
        nbest = self.nbest(seq, length_exponent=length_exponent)
        lines = [
            f"sequence {seq}: {_count(len(nbest), 'hypothesis', 'hypotheses')} after {_count(self.num_steps, 'step', 'steps')}",
            "rank    score  ended  labels",
        ]
        for rank, item in enumerate(nbest):
            lines.append(
                f"{rank + 1:>4} {item.score:>8.3f}  {'yes' if item.ended else 'no':<5}  {' '.join(item.labels)}"
            )
        return "\n".join(lines)

    def _make(self, seq: int, k: int, step: int, *, kept: bool) -> Hypothesis:
        path, written = self._until_end(seq, k, step), self._written(seq, k, step)
        tokens = tuple(int(self.steps[index]["tokens"][seq, slot]) for index, slot in written)
        fields = self.steps[step]
        labels = tuple(self.label(token, index) for token, (index, _) in zip(tokens, written))
        names = [name for name in fields if name == "log_probs" or name.startswith("part:")]
        parts = {
            "log_prob" if name == "log_probs" else name[len("part:") :]: float(
                sum(self.steps[i][name][seq, slot] for i, slot in path if name in self.steps[i])
            )
            for name in names
        }
        ended, end = bool(fields["ended"][seq, k]), path[-1] if path else (step, k)
        for name in fields if ended else ():
            if name.startswith("end_part:"):
                parts[name[len("end_part:") :]] += float(fields[name][seq, k])
        # A normalized choice rescales the score of what has ended in every step.
        place = end if self.length_exponent else (step, k)
        return Hypothesis(
            tokens, labels, self._own_score(seq, place[1], place[0]), ended, kept, tuple(written), parts, end
        )

    def _own_score(self, seq: int, k: int, step: int) -> float:
        """The score of a slot; for a complete hypothesis including the score of its end."""
        fields = self.steps[step]
        score = float(fields["scores"][seq, k])
        return score + float(fields["end_scores"][seq, k]) if "end_scores" in fields else score

    def _written(self, seq: int, k: int, step: int | None) -> list[tuple[int, int]]:
        """The part of the path in which labels were emitted."""
        path = self._until_end(seq, k, step)
        if self.blank is None:
            return path
        return [(index, slot) for index, slot in path if self.steps[index]["tokens"][seq, slot] != self.blank]

    def _until_end(self, seq: int, k: int, step: int | None) -> list[tuple[int, int]]:
        path = self.path(seq, k, step)
        for position, (index, slot) in enumerate(path):
            if self.steps[index]["ended"][seq, slot]:
                return path[: position + 1]
        return path

    def _final(self, seq: int) -> list[tuple[int, int]]:
        """The (step, slot) pairs of a search's results: the slots of the last step, and those that left the beam earlier."""
        if not self.steps:
            return []
        last = self.num_steps - 1
        left = [(step, k) for step in range(last) for k in self.left(seq, step)]
        return left + [(last, k) for k in self._real(seq, last)]

    def left(self, seq: int, step: int) -> list[int]:
        """The slots of hypotheses that ended in a step and left the beam (`rf.beam_search(..., ended="leave")`)."""
        self._check(seq, 0, step)
        left = self.steps[step].get("left")
        return [] if left is None else np.flatnonzero(left[seq]).tolist()

    def _real(self, seq: int, step: int) -> list[int]:
        """The slots that hold a hypothesis."""
        self._check(seq, 0, step)
        return [int(k) for k in np.flatnonzero(self.steps[step]["scores"][seq] > -np.inf)]

    def _check(self, seq: int, k: int, step: int) -> None:
        ranges = [("seq", seq, self.num_seqs), ("step", step, self.num_steps)]
        if is_place(step, self.num_steps):
            ranges.append(("k", k, int(self.steps[step]["tokens"].shape[1])))
        self._check_all(ranges)

    def _check_all(self, ranges: Sequence[tuple[str, Any, int]]) -> None:
        """Check each (name, number, count): the number must be below the count."""
        wrong = [name for name, value, size in ranges if not is_place(value, size)]
        if wrong:
            raise index_error(
                f"BeamHistory: no such {wrong[0]}.",
                [(name, f"{value} of {size}") for name, value, size in ranges],
                "All three are counted from 0; k is a slot of the beam after that step.",
            )


def _check_exponent(exponent: Any) -> None:
    """Check a length exponent; None is allowed."""
    number = isinstance(exponent, (int, float, np.number)) and not isinstance(exponent, bool)
    if exponent is not None and not (number and -MOST_EXPONENT <= exponent <= MOST_EXPONENT):
        raise value_error(
            "BeamHistory: no exponent of a length.",
            {"length_exponent": repr(exponent)},
            f"Hypotheses are ranked by score / length ** exponent, a number up to {MOST_EXPONENT}; 0: by score.",
            "history.nbest(0, length_exponent=1.0)",
        )


def _count(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"
