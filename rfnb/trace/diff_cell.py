"""A cell of two values by the names of its dims, and the index ranges in which two values differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.trace.diff_numbers import Tolerance, different

if TYPE_CHECKING:
    from rfnb.trace.diff_rows import Pair

_MOST = 4  # runs of indices that are named


@dataclass(frozen=True)
class DiffCell:
    """A cell of two values.

    Attributes:
        index: Index by dim name, as in a.
        labels: The same, with label texts where a dim has a vocabulary.
        a, b: The two values.
    """

    index: dict[str, int]
    labels: dict[str, str]
    a: Any
    b: Any

    @property
    def text(self) -> str:
        """The place: `batch 1, time 4, feature 17`."""
        return ", ".join(f"{name} {label}" for name, label in self.labels.items())


def cell_of(pair: Pair, place: int, seqs: tuple[int | None, int | None]) -> DiffCell:
    """The cell with this index in the flat arrays."""
    found = np.unravel_index(place, pair.a.shape)
    index, labels = dict[str, int](), dict[str, str]()
    if None not in seqs:
        one, other = seqs
        index["sequence"] = one or 0
        labels["sequence"] = str(one) if one == other else f"{one} | {other}"
    for name, (dim, other_dim), number in zip(names_of(pair), pair.plan.dims, found):
        index[name] = int(number)
        labels[name] = _label(dim or other_dim, int(number))
    return DiffCell(index, labels, pair.a[found].item(), pair.b[found].item())


def names_of(pair: Pair) -> list[str]:
    """The names of the axes, made unique."""
    found: list[str] = []
    for name in pair.plan.names:
        while name in found:
            name += "'"
        found.append(name)
    return found


def region(pair: Pair, tolerance: Tolerance) -> dict[str, str]:
    """The indices at which two values differ, by dim, as text; without dims in which all differ."""
    other, found = different(pair.a, pair.b, pair.mask, tolerance), dict[str, str]()
    if not other.any():
        return found
    real = np.ones(other.shape, bool) if pair.mask is None else pair.mask
    for axis, (name, (dim, other_dim)) in enumerate(zip(names_of(pair), pair.plan.dims)):
        rest = tuple(one for one in range(other.ndim) if one != axis)
        here, there = np.flatnonzero(other.any(rest)), np.flatnonzero(real.any(rest))
        if len(here) < len(there):
            found[name] = _spans(here.tolist(), dim or other_dim)
    return found


def _spans(numbers: Sequence[int], dim: Any) -> str:
    """`3, 5 to 9, 11`"""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    texts = [
        _label(dim, first) if first == last else f"{_label(dim, first)} to {_label(dim, last)}" for first, last in spans
    ]
    return ", ".join(texts[:_MOST]) + (f" and {len(texts) - _MOST} more" if len(texts) > _MOST else "")


def _label(dim: Any, number: int) -> str:
    vocab = getattr(dim, "vocab", None)
    if vocab is None:
        return str(number)
    labels = getattr(vocab, "labels", vocab)
    return f'"{labels[number]}"' if 0 <= number < len(labels) else str(number)
