"""Matches the slots of two searches that hold the same hypothesis: values in slots are compared by the labels that led there, not by
rank.

Values computed in a step before its choice are in the slots left by the previous step; later ones are in the step's own slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rfnb.trace.beams import BeamHistory
from rfnb.trace.event import Event
from rfnb.trace.lookup import SearchEvents


class Slots:
    """The matching slots of two recordings."""

    def __init__(self, searches: Sequence[Iterable[SearchEvents]]):
        self._by_entry = [{entry: search for search in each for entry in search.choices} for each in searches]
        self._known: dict[Any, tuple[np.ndarray, np.ndarray] | None] = {}

    def in_search(self, event: Event, side: int) -> bool:
        """True if an event is in a step of a search."""
        return event.step is not None and event.entry in self._by_entry[side]

    def is_over(self, event: Event, side: int, seq: int | None) -> bool:
        """True if an event is in a step of a search after the end of a sequence (None: of any)."""
        search = self._by_entry[side].get(event.entry) if event.step is not None else None
        if search is None:
            return False
        number = search.choices[event.entry][0][1]
        seqs = range(search.history.num_seqs) if seq is None else [seq]
        return number > 0 and not any(going_on(search.history, one, number - 1, False) for one in seqs)

    def of(self, a: Event, b: Event, seqs: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray] | None:
        """For each sequence and slot of a, the slot of b with the same hypothesis, and whether there is an unfinished one; None if the
        events are in no step of a search, or between two choices of a step.

        Args:
            seqs: The indices of the compared sequences in a and in b.
        """
        places = self._place(a, 0), self._place(b, 1)
        if places[0] is None or places[1] is None:
            return None
        key = *places, tuple(seqs)
        if key not in self._known:
            if len(self._known) > 4:  # of steps that are done
                self._known.clear()
            self._known[key] = self._matched(places[0], places[1], seqs)
        return self._known[key]

    def _place(self, event: Event, side: int) -> tuple[int, int | None, bool] | None:
        """The entry of a step, the choice after which an event's slots are numbered, and whether that is the choice of its own step."""
        search = self._by_entry[side].get(event.entry) if event.step is not None else None
        if search is None:
            return None
        choices = search.choices[event.entry]
        (first, number), (last, latest) = choices[0], choices[-1]
        if event.index < first.index:
            return event.entry, number - 1, False
        return (event.entry, latest, True) if event.index >= last.index else None

    def _matched(self, a: Any, b: Any, seqs: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray] | None:
        sides = [(self._by_entry[side][place[0]].history, place[1], place[2]) for side, place in enumerate((a, b))]
        if any(index < 0 for _, index, _ in sides):
            return None  # before the first choice hypotheses have no labels
        width = sides[0][0].beam_size(sides[0][1])
        slots, there = np.zeros((len(seqs), width), np.intp), np.zeros((len(seqs), width), bool)
        for row, pair in enumerate(seqs):
            mine, other = (going_on(history, seq, index, after) for (history, index, after), seq in zip(sides, pair))
            for labels, own in mine.items():
                for slot, found in zip(own, other.get(labels, ())):
                    slots[row, slot], there[row, slot] = found, True
        return slots, there


def going_on(history: BeamHistory, seq: int, index: int, after: bool) -> dict[tuple[str, ...], list[int]]:
    """The slots after a choice by the labels that led there, without empty and ended ones.

    Args:
        after: Whether the values belong to the step of that choice; then hypotheses that end with it count.
    """
    found: dict[tuple[str, ...], list[int]] = {}
    seq = min(seq, history.num_seqs - 1)
    fields = history.steps[index]
    for slot in np.flatnonzero(fields["scores"][seq] > -np.inf).tolist():
        if fields["ended"][seq, slot]:
            if not after:
                continue
            if index and history.steps[index - 1]["ended"][seq, int(fields["parents"][seq, slot])]:
                continue
        found.setdefault(labels_of(history, seq, slot, index), []).append(slot)
    return found


def labels_of(history: BeamHistory, seq: int, slot: int, index: int) -> tuple[str, ...]:
    """The labels of the hypothesis in a slot, as text if possible, since another run may order the vocabulary differently."""
    tokens = history.prefix(seq, slot, index)
    if history.labels_of(0) is None:
        return tuple(map(str, tokens))
    return history.texts(tokens)
