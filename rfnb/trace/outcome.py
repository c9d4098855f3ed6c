"""Outcome: what a run has come to, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rfnb.trace.beams import BeamHistory, Hypothesis
from rfnb.trace.event import same_numbers
from rfnb.trace.trace import Trace


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        text: In one line; "" if there is nothing yet.
        seqs: Of each sequence the labels, if there are any: those that the function gives, else those of the best hypotheses.
        scores: Of each of them the natural-log probability, where it is known.
        values: The Tensors among the result, by name.
    """

    text: str = ""
    seqs: tuple[tuple[str, ...], ...] = ()
    scores: tuple[float | None, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Outcome):
            return NotImplemented
        one, two = dict(self.values), dict(other.values)
        said = (self.text, self.seqs, self.scores, list(one)) == (other.text, other.seqs, other.scores, list(two))
        return said and all(same_numbers(value, two[name]) for name, value in one.items())


def best_so_far(trace: Trace) -> Outcome:
    """The best hypotheses of the last search in a recording."""
    paths = list(trace.beams)
    return best_of(trace.beams[paths[-1], -1]) if paths else Outcome()


def best_of(history: BeamHistory) -> Outcome:
    """The best hypothesis of each sequence, without the label that ends it."""
    if not history.num_steps:
        return Outcome()
    found = [history.nbest(seq)[:1] for seq in range(history.num_seqs)]
    return Outcome(
        "",
        tuple(_without_end(best[0]) if best else () for best in found),
        tuple(best[0].score if best else None for best in found),
    )


def _without_end(best: Hypothesis) -> tuple[str, ...]:
    return best.labels[:-1] if best.ended else best.labels
