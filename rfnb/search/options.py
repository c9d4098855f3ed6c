"""The options of a choice: defaults and valid values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.errors import not_one_of, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.whole_number import whole
from rfnb.search.score import INPUT_TYPES, Fusion


class ChoiceOptions(NamedTuple):
    """The options of `rf.choice` by their documented names; for several sources also the label of each in each combination, as
    `tokens`.

    A named tuple, since one is made in each step of a search and a frozen dataclass costs three times as much.
    """

    beam_size: Any = None
    name: str = "choice"
    target: Any = None
    prefix: Tensor | None = None
    banned: Sequence[int] | Tensor | None = None
    fusion: Fusion | None = None
    allowed: Any = None
    input_type: str = "log_prob"
    search: bool | None = None
    add_to_beam_scores: bool | None = None
    scheduled_sampling: bool | Mapping[str, float] = False
    prob_scale: float = 1.0
    base_beam_score_scale: float = 1.0
    random_sample_scale: float = 0.0
    length_normalization: bool = False
    length_normalization_exponent: float = 1.0
    keep_beams: bool = False
    cheating: bool | str = False
    source_beam_sizes: Sequence[int] | None = None
    custom_score_combine: Callable[..., Tensor] | None = None
    end_label: Any = 0
    sampling: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    no_repeat_ngram: Any = 0
    threshold: float | None = None
    check: bool = False
    keep_candidates: int | None = None
    tokens: tuple[Tensor, ...] = ()

    def are_usual(self) -> bool:
        """True if only a beam size, a name and a rule about labels are set."""
        given = self.target is None and self.prefix is None and self.banned is None and self.fusion is None
        return given and self.beam_size.__class__ is int and self.beam_size > 0 and self[7:] == _USUAL

    @property
    def searches(self) -> bool:
        """True if hypotheses are chosen rather than the reference."""
        return (self.target is None or bool(self.cheating)) if self.search is None else self.search

    @property
    def length_exponent(self) -> float | None:
        """The exponent of the length normalization, or None."""
        return self.length_normalization_exponent if self.length_normalization else None

    @property
    def gold_mixin_prob(self) -> float | None:
        """The probability of the reference where a label is sampled in its place."""
        return self.scheduled_sampling.get("gold_mixin_prob") if isinstance(self.scheduled_sampling, Mapping) else None

    @property
    def blocks(self) -> bool:
        """True if some labels are forced or banned."""
        return (
            self.prefix is not None or self.banned is not None or bool(self.no_repeat_ngram) or self.allowed is not None
        )

    @property
    def adds_log_probs(self) -> bool:
        """True if scores are sums of log probabilities only, and therefore at most 0."""
        scales = self.prob_scale >= 0 and self.base_beam_score_scale >= 0 and not self.random_sample_scale
        return scales and self.input_type != "score" and self.custom_score_combine is None and not self.fusion

    def check_kind(self) -> None:
        """Check that the kind of choice exists.

        Raises:
            ValueError: If it does not.
        """
        if self.input_type not in INPUT_TYPES:
            raise not_one_of(f'choice: input_type "{self.input_type}".', "input_type", self.input_type, INPUT_TYPES)
        if self.cheating not in (False, True, "exclusive"):
            raise value_error(
                f"choice: cheating={self.cheating!r}.",
                {"known": 'False, True, "exclusive"'},
                "It is one of these.",
                'cheating="exclusive"',
            )
        if self.scheduled_sampling and self.searches:
            raise value_error(
                "choice: scheduled_sampling in a search.",
                [],
                "It is for training, where the reference is known.",
                "rf.choice(scores, target=labels, scheduled_sampling=True)",
            )

    def of_search(self, several: bool) -> ChoiceOptions:
        """The options with an int as beam size.

        Args:
            several: Whether there are several sources.

        Raises:
            ValueError: If a search does not support these options, or not together.
        """
        size = whole(self.beam_size)
        if size is None or size < 1:
            raise value_error(
                f"choice: {'no beam_size' if self.beam_size is None else f'beam_size {self.beam_size!r}'}.",
                {"beam_size": repr(self.beam_size)},
                "At least one hypothesis must survive.",
                "rf.choice(scores, beam_size=5)",
            )
        self._check_limits()
        for name in ("prob_scale", "base_beam_score_scale", "random_sample_scale"):
            scale = getattr(self, name)
            if not np.isfinite(scale):
                raise value_error(f"choice: {name}={scale}.", [], "A scale is a finite number.")
        self._check_sampling()
        if self.cheating and (self.target is None or several):
            raise value_error(
                "choice: cheating without target.",
                [],
                "The reference label is put into the beam, of a single source.",
                "rf.choice(scores, beam_size=5, cheating=True, target=labels)",
            )
        if self.source_beam_sizes is not None and not several:
            raise value_error(
                "choice: source_beam_sizes of a single source.",
                [],
                "They are for a list of scores.",
                "rf.choice([a, b], source_beam_sizes=[4, 2], ...)",
            )
        if self.allowed is not None and several:
            raise value_error(
                "choice: allowed of several sources.",
                [],
                "It is for the labels of a single source. Of each source some labels can be banned:",
                "rf.choice([a, b], banned=[[1, 2], None], ...)",
            )
        return self._replace(beam_size=size)

    def _check_limits(self) -> None:
        """Check the ranges of limits."""
        if self.threshold is not None and not self.threshold >= 0:
            raise value_error(
                f"choice: threshold {self.threshold}.",
                [],
                "It is how much worse than the best hypothesis another one may be, 0 or more.",
                "rf.choice(scores, beam_size=8, threshold=5.0)",
            )
        ngrams = self.no_repeat_ngram
        for length in ngrams if isinstance(ngrams, (list, tuple)) else [ngrams]:
            if length is not None and (whole(length) is None or length < 0):
                raise value_error(
                    f"choice: no_repeat_ngram {length}.",
                    [],
                    "It is a number of labels in a row, or 0.",
                    "rf.choice(scores, no_repeat_ngram=3, ...)",
                )
        keep = self.keep_candidates
        if keep is not None and (whole(keep) is None or keep < 0):
            raise value_error(f"choice: keep_candidates {keep}.", [], "It is a number of candidates, 0 or more.")
        if not isinstance(self.end_label, (list, tuple)) and whole(self.end_label) is None:
            raise value_error(
                f"choice: end_label {self.end_label!r}.",
                [],
                "It is the index of a label.",
                "rf.choice(scores, end_label=0, ...)",
            )
        exponent = self.length_exponent
        if exponent is not None and not np.isfinite(exponent):
            raise value_error(
                f"choice: length_normalization_exponent={exponent}.", [], "An exponent is a finite number."
            )

    def _check_sampling(self) -> None:
        """Check that the sampling options define a distribution."""
        temperature, top_k, top_p = self.temperature, self.top_k, self.top_p
        if not self.sampling and (temperature != 1 or top_k is not None or top_p is not None):
            raise value_error(
                "choice: temperature, top_k or top_p without sampling.",
                [],
                "They say what a label is sampled from.",
                "rf.choice(scores, beam_size=1, sampling=True, temperature=0.7)",
            )
        if temperature <= 0 or (top_k is not None and top_k < 1) or (top_p is not None and not 0 < top_p <= 1):
            raise value_error(
                "choice: there is nothing to sample from.",
                {"temperature": temperature, "top_k": top_k, "top_p": top_p},
                "temperature is above 0, top_k at least 1, and 0 < top_p <= 1.",
            )


_USUAL = tuple(ChoiceOptions())[7:]
