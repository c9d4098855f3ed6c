"""PrefixSearch: a step of a search over prefixes, each scored by the sum over its alignments, with the parts of its score for the
`beams` event.

The log probability of a step is the change in the log of the sum over alignments relative to the parent prefix. So the steps add up to
that sum, even where the alignments of two prefixes were added.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rfnb.search.fused_lm import FusedLM
from rfnb.search.label_rules import AllowedPrefixes
from rfnb.search.prefix_beam import NEVER, PrefixBeam, PrefixStep, best, best_labels
from rfnb.trace.beam_fields import NUM_NEXT


class PrefixSearch:
    """The prefixes of a search.

    Attributes:
        lm, fuses: The scores of other models, and whether there are any.
        rule: The labels that are allowed; None: all.
        total: The log of the sum over the alignments of each prefix, float64 [batch, beam].
        steps: The steps so far.
    """

    lm: FusedLM
    fuses = False
    rule: AllowedPrefixes | None = None

    def __init__(self, batch: int, beam_size: int, blank: int):
        self.prefixes = PrefixBeam(batch, beam_size, blank)
        self.total = self.prefixes.scores
        self.steps: list[PrefixStep] = []

    def choose(
        self, frame: np.ndarray, scores: np.ndarray, pairs: tuple[np.ndarray, np.ndarray, np.ndarray], own: np.ndarray,
        allowed: np.ndarray | None, num_candidates: int,
    ) -> tuple[PrefixStep, np.ndarray, np.ndarray]:  # fmt: skip
        """End a step: select the prefixes that survive.

        Args:
            frame: Log probabilities of the labels.
            scores: The sums over the alignments of each candidate [batch, beam, labels]; -inf where it was merged.
            pairs: The prefixes that another prefix of the beam has grown into; see `PrefixBeam.pairs`.
            own: The sums that these contribute.

        Returns:
            The step, the flat slots of the parents, and whether each prefix has grown.
        """
        child, parent, label = pairs
        ranked, brought, added = scores, own, None
        if self.fuses:
            added = self.lm.of_next()
            ranked = scores + (added if added.ndim == 3 else added[None, None]) + self.lm.scores[:, :, None]
            brought = own + self.lm.scores.take(child)
        before, size = self.prefixes.scores, scores.shape[2]
        step, rows, grown = self.prefixes.select(ranked, (child, parent, label, brought), num_candidates, allowed)
        if self.rule is not None:
            self.rule.follow(step.parents, grown, step.tokens)
        if num_candidates:
            step.next = best_labels(frame, NUM_NEXT)
            parts, merged = self.lm.parts() if self.fuses else {}, (parent * size + label, own)
            add_parts(step, before=before, total_before=self.total, totals=scores, merged=merged, parts=parts)
        self.total = scores.reshape(-1).take(rows * size + step.tokens)
        if added is not None:
            self.lm.follow(rows, grown, step.tokens, added)
        self.steps.append(step)
        return step, rows, grown

    def finish(self, lm_end: bool) -> tuple[np.ndarray, np.ndarray]:
        """The scores of the prefixes, best first, and their slots."""
        scores = self.prefixes.scores + (self.lm.end_scores() if lm_end else 0)
        if self.rule is not None:
            scores = self.rule.only_ended(scores)
        order = best(scores, scores.shape[1])
        return np.take_along_axis(scores, order, 1), order


def add_parts(
    step: PrefixStep,
    *,
    before: np.ndarray,
    total_before: np.ndarray,
    totals: np.ndarray,
    merged: tuple[np.ndarray, np.ndarray],
    parts: Mapping[str, np.ndarray],
) -> None:
    """Add `base`, `log_probs` and `part:NAME` to a step and its candidates.

    Args:
        step: A step with candidates.
        before: The scores by which the previous step ranked the prefixes [batch, beam].
        total_before: The log of the sum over their alignments.
        totals: The same for each candidate [batch, beam, labels]; -inf where it was merged.
        merged: Flat places in `totals` of merged candidates, and their contributions.
        parts: Scores of other models by name: unscaled, for each label after each prefix, [batch, beam, labels] or fewer leading
            axes.
    """
    assert step.candidates is not None
    totals = totals.copy()
    totals.reshape(-1)[merged[0]] = merged[1]
    step.parts["base"] = _at(before[:, :, None], step.parents, np.zeros_like(step.tokens))
    named = {"": (step.parents, step.tokens, step.scores)}
    found = step.candidates
    named["cand_"] = found["cand_parents"], found["cand_tokens"], found["cand_scores"]
    for prefix, (parents, tokens, scores) in named.items():
        real = scores > NEVER
        after = np.where(real, _at(totals, parents, tokens), 0.0)
        earlier = np.where(real, _at(total_before[:, :, None], parents, np.zeros_like(parents)), 0.0)
        own = {"log_probs": np.where(real, after - earlier, NEVER)}
        for name, values in parts.items():
            own[f"part:{name}"] = _at(np.broadcast_to(values, totals.shape), parents, tokens)
        (found if prefix else step.parts).update({prefix + name: values for name, values in own.items()})


def _at(values: np.ndarray, parents: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """values [batch, beam, labels] at parents and tokens [batch, n]."""
    return values[np.arange(len(values))[:, None], parents, tokens]
