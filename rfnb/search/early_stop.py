"""Early stopping: when a search has its results for certain, or by a rule that only makes them likely.

A score made of log probabilities only falls as the hypothesis grows. So an unfinished hypothesis ends with at most its current score,
divided by at most the largest length to the power of the exponent, and a coverage penalty only lowers it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rfnb.rec.selection import take_host
from rfnb.search.coverage import Coverage

_ROUNDING = 1e-6  # how far above 0 the logarithm of a rounded probability may be


RULES = ("likely", "complete")  # of `early_stopping`, besides being sure


def scores_only_fall(
    *, scales: Mapping[str, float], coverage: float, prob_scale: float = 1.0, base_beam_score_scale: float = 1.0,
    random_sample_scale: float = 0.0, custom_score_combine: Any = None, **_: Any,
) -> bool:  # fmt: skip
    """True if the options of a search let scores of log probabilities only fall.

    Args:
        scales: Scales of the fused models, by name.
        coverage: Weight of the coverage penalty.
        prob_scale, base_beam_score_scale, random_sample_scale, custom_score_combine, _: Options of `choice`.
    """
    return (
        all(scale >= 0 for scale in scales.values())
        and coverage >= 0
        and prob_scale >= 0
        and base_beam_score_scale >= 1
        and not random_sample_scale
        and custom_score_combine is None
    )


class EarlyStop:
    """Determines for each sequence the number of steps after which its results are certain.

    Args:
        exponent: Exponent of the length in the final ranking.
        num_best: How many results must be certain.
        max_steps: The length limit of hypotheses.
        safe: Whether, according to the options, scores can only fall.
        scales: Scales of the fused models; those of scale 0 are ignored.
        cover: Gives the coverage penalty of a hypothesis made by the last step: added to the final score, at most 0.
        rule: "sure"; "likely": no unfinished hypothesis would be among the best if it ended as it is; "complete": there are enough
            finished ones.

    Attributes:
        exponent, num_best, safe, cover, rule: As given.
        finished: For each sequence the final scores of its finished hypotheses, best first.
        decided: For each sequence the number of steps after which its results were certain; None: not yet.
    """

    def __init__(
        self,
        exponent: float,
        num_best: int,
        max_steps: int,
        safe: bool,
        scales: Mapping[str, float],
        cover: Coverage | None,
        rule: str = "sure",
    ):
        self.exponent, self.num_best, self.max_steps, self.safe = exponent, num_best, max_steps, safe
        self._parts = ("log_probs", *(f"part:{name}" for name, scale in scales.items() if scale))
        self.cover, self.rule = cover, rule
        self.finished: list[list[float]] = []
        self.decided: list[int | None] = []
        self._falls: list[bool] = []
        self._ended: np.ndarray | None = None  # in the step before
        self._largest = np.zeros(0)  # by how much a score of each sequence has grown in a step, by rounding

    def after_step(self, length: int, fields: Mapping[str, np.ndarray]) -> None:
        """Process a step.

        Args:
            length: Number of steps run so far.
            fields: Fields of the last step: scores, parents, ended, base, log_probs and the parts, as arrays [batch, beam].
        """
        scores, ended, real = fields["scores"], fields["ended"], fields["scores"] > -np.inf
        if not self.finished:
            self.finished, self.decided = [[] for _ in scores], [None] * len(scores)
            self._falls, self._largest = [True] * len(scores), np.zeros(len(scores))
        before = np.zeros((len(scores), 1), bool) if self._ended is None else self._ended
        self._ended = ended
        ran = real & ~take_host(before, fields["parents"], 1)
        for seq, found in enumerate(self.finished):
            self._watch_growth(fields, seq, ran[seq])
            if self.decided[seq] is not None:
                continue
            for slot in np.flatnonzero(ended[seq] & ran[seq]):
                penalty = 0.0 if self.cover is None else self.cover.after_last_step(seq, fields["parents"][seq, slot])
                found.append(float(scores[seq, slot]) / length**self.exponent + penalty)
            found.sort(reverse=True)
            going = scores[seq][~ended[seq] & real[seq]]
            if not going.size or (
                len(found) >= self.num_best and self._is_done(found, float(going.max()), length, seq)
            ):
                self.decided[seq] = length

    def _watch_growth(self, fields: Mapping[str, np.ndarray], seq: int, ran: np.ndarray) -> None:
        """Warn if scores grow, which log probabilities cannot."""
        if not ran.any():
            return
        grown = (fields["scores"][seq][ran] - fields["base"][seq][ran]).max()
        self._largest[seq] = max(self._largest[seq], grown)
        if grown > _ROUNDING or any((fields[name][seq][ran] > _ROUNDING).any() for name in self._parts):
            self._falls[seq] = False

    def _is_done(self, found: list[float], going: float, length: int, seq: int) -> bool:
        if self.rule == "complete":
            return True
        if self.rule == "likely":
            return found[self.num_best - 1] >= going / length**self.exponent
        return self._falls[seq] and self._is_sure(found, going, length, seq)

    def _is_sure(self, found: list[float], going: float, length: int, seq: int) -> bool:
        most = going + self._largest[seq] * (self.max_steps - length)
        # Of what is below 0; of exponents below 0 the length only hurts.
        bound = most / self.max_steps ** max(self.exponent, 0.0)
        return self.safe and found[self.num_best - 1] >= max(bound, most if most > 0 else bound)
