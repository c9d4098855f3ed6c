"""Orders of units that reveal their function: by first activation, by correlation with a feature of the steps, clustered.

An order is a block float32 [seq or 1, 2, unit]: the units from top to bottom, and the sort key of each. It uses the
exact values of all sequences, without steps after their ends. Small states have the blocks of all orders in their spec;
for large ones they are computed when a page requests them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_MOST_LABELS = 6
_EASY = 50_000_000  # multiplications for all tracks that a spec may cost


def orders_of(head: Mapping[str, Any]) -> list[dict[str, str]]:
    """The orders available for these sequences: name, title, and the meaning of the sort key."""
    seqs = head["seqs"]
    steps = sum(seq["len"] for seq in seqs)
    if steps < 2:
        return []
    r = "correlation"
    made = [
        {"name": "first", "label": "by first activation", "number": "first step at half of its largest magnitude"},
        {"name": "cluster", "label": "clustered", "number": f"{r} with the unit above"},
        {"name": "position", "label": "by correlation with position", "number": f"{r} with the position"},
    ]
    words = any(_boundaries(seq["steps"]) is not None for seq in seqs)
    end = "end of word" if words else "end of sequence"
    made.append({"name": "end", "label": f"by correlation with {end}", "number": f"{r} with {end}"})
    counts = Counter(label for seq in seqs for label in seq["steps"][: seq["len"]])
    if _has_labels(seqs) and 1 < len(counts) < steps:
        made.append({"name": "label", "label": "by label", "number": "share of its variance that the label explains"})
        several = [label for label, count in counts.most_common() if 1 < count < steps]
        made += [{"name": f"label {label}", "label": f"by correlation with “{label}”", "number": f"{r} with the label “{label}”"}
                 for label in several[:_MOST_LABELS]]  # fmt: skip
    return made


def order_of(values: np.ndarray, seqs: Sequence[Mapping[str, Any]], name: str) -> np.ndarray | None:
    """The block of an order of a track [seq, step, unit]; None if the order is unknown."""
    if name == "first":
        return np.stack([_first(values[seq, : entry["len"]]) for seq, entry in enumerate(seqs)])
    rows = np.concatenate([values[seq, : entry["len"]] for seq, entry in enumerate(seqs)]).astype(np.float64)
    known = ~np.isnan(rows).all(-1)
    rows = np.where(np.isfinite(rows), rows, 0.0)[known]
    if name == "cluster":
        return np.stack(clustered(rows))[None].astype(np.float32)
    if name == "label":
        labels = [label for entry in seqs for label in entry["steps"][: entry["len"]]]
        return _block(_explained(rows, np.asarray(labels, object)[known]), absent=-1.0)
    feature = feature_of(seqs, name)
    return None if feature is None else _block(correlation(rows, feature[known]), absent=0.0)


def feature_of(seqs: Sequence[Mapping[str, Any]], name: str) -> np.ndarray | None:
    """A number per step of all sequences, concatenated; None if the feature is unknown."""
    if name == "position":
        return np.concatenate([np.arange(entry["len"], dtype=np.float64) for entry in seqs])
    if name == "end":
        return np.concatenate([ends_of_words(entry["steps"][: entry["len"]]) for entry in seqs])
    if name.startswith("label "):
        wanted = name.removeprefix("label ")
        return np.array([label == wanted for entry in seqs for label in entry["steps"][: entry["len"]]], np.float64)
    return None


def ends_of_words(labels: Sequence[str]) -> np.ndarray:
    """1 for a label that ends a word, by the markers of the labels; without markers, for the last label."""
    ends = _boundaries(labels)
    out = np.zeros(len(labels)) if ends is None else np.asarray(ends, np.float64)
    out[-1:] = 1.0
    return out


_STARTS, _SPACES = ("▁", "Ġ", " "), {" ", "␣", "|", "_", "<space>", "▁"}


def _boundaries(labels: Sequence[str]) -> list[bool] | None:
    """Whether each label except the last ends a word; None without word markers."""
    after = [*labels[1:], ""]
    if any(label in _SPACES for label in labels):
        return [other in _SPACES and label not in _SPACES for label, other in zip(labels, after)]
    if any(label.startswith(_STARTS) for label in labels):
        return [other.startswith(_STARTS) for other in after]
    if any(label.endswith("@@") for label in labels):
        return [not label.endswith("@@") for label in labels]
    if any(label.startswith("##") for label in labels):
        return [not other.startswith("##") for other in after]
    return None


def _has_labels(seqs: Sequence[Mapping[str, Any]]) -> bool:
    return any(label != str(step) for entry in seqs for step, label in enumerate(entry["steps"][: entry["len"]]))


def _first(real: np.ndarray) -> np.ndarray:
    """Units by the first step at which they reach half of their largest magnitude; units that are always 0 come last, with key NaN."""
    size = np.abs(np.where(np.isfinite(real), real, 0.0).astype(np.float64))
    most = size.max(0) if len(size) else np.zeros(real.shape[1])
    step = np.where(most > 0, (2 * size >= most).argmax(0) if len(size) else 0, np.nan)
    order = np.argsort(step, kind="stable")  # NaN is last
    return np.stack([order, step[order]]).astype(np.float32)


def correlation(rows: np.ndarray, feature: np.ndarray) -> np.ndarray:
    """The correlation of each unit of {step, unit} with a number per step; NaN if one of them is constant."""
    if not len(rows):
        return np.full(rows.shape[1], np.nan)
    moved, other = rows - rows.mean(0), feature - feature.mean()
    size = np.sqrt(np.square(moved).sum(0)) * np.sqrt(np.square(other).sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(size > 1e-12 * (1 + np.abs(rows).max()), moved.T @ other / size, np.nan)


def _explained(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The fraction of each unit's variance between labels (the squared correlation ratio)."""
    if not len(rows):
        return np.full(rows.shape[1], np.nan)
    names, which = np.unique(labels.astype(str), return_inverse=True)
    sums = np.zeros((len(names), rows.shape[1]))
    moved = rows - rows.mean(0)
    np.add.at(sums, which, moved)
    between = (np.square(sums) / np.bincount(which)[:, None]).sum(0)
    total = np.square(moved).sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 1e-12, between / total, np.nan)


def _block(numbers: np.ndarray, *, absent: float) -> np.ndarray:
    """Units from the largest to the smallest key; those without a key count as `absent`."""
    order = np.argsort(-np.nan_to_num(numbers, nan=absent), kind="stable")
    return np.stack([order, numbers[order]])[None].astype(np.float32)


def is_easy(shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether the orders for tracks with these shapes are computed at once."""
    return sum(seqs * steps * units * units for seqs, steps, units in shapes) <= _EASY


def clustered(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The order of the units of {step, unit}, and the correlation of each with the previous one in that order (NaN for the first).

    Constant units come last, in their original order.
    """
    moved = values - values.mean(0) if len(values) else values
    size = np.sqrt(np.square(moved).sum(0))
    alive = np.flatnonzero(size > 1e-9 * (1 + np.abs(values).max(initial=0.0)))
    shapes = moved[:, alive] / size[alive]
    near = np.clip(shapes.T @ shapes, -1.0, 1.0)
    order = _leaves(1 - near)
    with_before = np.full(values.shape[1], np.nan)
    with_before[1 : len(order)] = near[order[:-1], order[1:]]
    still = np.setdiff1d(np.arange(values.shape[1]), alive)
    return np.concatenate([alive[order], still]).astype(np.int64), with_before


def _leaves(distances: np.ndarray) -> np.ndarray:
    count = len(distances)
    if not count:
        return np.zeros(0, np.int64)
    left = distances.copy()
    np.fill_diagonal(left, np.inf)
    groups: dict[int, list[int]] = {index: [index] for index in range(count)}
    chain: list[int] = []
    while len(groups) > 1:
        if not chain:
            chain.append(min(groups))
        last, before = chain[-1], chain[-2] if len(chain) > 1 else -1
        nearest = int(left[last].argmin())
        # The second test is for rounding: a chain is never longer than the number of groups.
        if before >= 0 and (left[last, before] <= left[last, nearest] or len(chain) > len(groups)):
            del chain[-2:]
            one, other = sorted((last, before))
            _join(left, groups, one, other, distances)
        else:
            chain.append(nearest)
    return np.asarray(next(iter(groups.values())), np.int64)


def _join(left: np.ndarray, groups: dict[int, list[int]], one: int, other: int, distances: np.ndarray) -> None:
    """Merge the group `other` into the group `one`."""
    first, second = groups[one], groups.pop(other)
    mean = (len(first) * left[one] + len(second) * left[other]) / (len(first) + len(second))
    left[one], left[:, one] = mean, mean
    left[other], left[:, other] = np.inf, np.inf
    left[one, one] = np.inf
    turns = [(a, b) for a in (first, first[::-1]) for b in (second, second[::-1])]
    ends = [distances[a[-1], b[0]] for a, b in turns]
    best = turns[int(np.argmin(ends))]
    groups[one] = [*best[0], *best[1]]


def derived(spec: Any, name: str) -> np.ndarray | None:
    """The block with this name, or None."""
    track, _, rest = name.partition("/")
    what, _, which = rest.partition("/")
    values, seqs = spec.blocks.get(track), spec.head.get("seqs")
    if values is None or values.ndim != 3 or not seqs:
        return None
    if what == "order":
        known = any(order["name"] == which for order in spec.head.get("orders") or [])
        return order_of(values, seqs, which) if known else None
    brush = _brush(which, values.shape, seqs) if what in ("on", "elsewhere") else None
    if brush is None:
        return None
    return (counts if what == "on" else elsewhere)(values, [seq["len"] for seq in seqs], brush)


def _brush(text: str, shape: tuple[int, ...], seqs: Any) -> Brush | None:
    try:
        seq, start, stop, threshold = text.split("/")
        brush = Brush(int(seq), int(start), int(stop), float(threshold))
    except ValueError:
        return None
    fits = (
        0 <= brush.seq < len(seqs) and 0 <= brush.start < brush.stop <= shape[1] and brush.threshold == brush.threshold
    )
    return brush if fits else None


@dataclass(frozen=True)
class Brush:
    """The steps from `start` to `stop` (exclusive) of a sequence."""

    seq: int
    start: int
    stop: int
    threshold: float


def is_on(values: np.ndarray, threshold: float) -> np.ndarray:
    """Whether each value counts as on."""
    with np.errstate(invalid="ignore"):
        return np.asarray(values >= threshold if threshold >= 0 else values <= threshold)


def counts(values: np.ndarray, lengths: Sequence[int], brush: Brush) -> np.ndarray:
    """float32 [2, unit]: the number of steps in the range in which each unit is on, and the number of other such steps of the sequence."""
    on = is_on(values[brush.seq, : lengths[brush.seq]], brush.threshold)
    here = on[brush.start : brush.stop].sum(0)
    return np.stack([here, on.sum(0) - here]).astype(np.float32)


def elsewhere(values: np.ndarray, lengths: Sequence[int], brush: Brush) -> np.ndarray:
    """float32 [seq, step]: of the units that are on in the whole range, the fraction that is on in each step; NaN after
    ends, and if there are none.
    """
    out = np.full(values.shape[:2], np.nan, np.float32)
    stop = min(brush.stop, lengths[brush.seq])
    chosen = np.flatnonzero(counts(values, lengths, brush)[0] == stop - brush.start)
    if len(chosen) and stop > brush.start:
        for seq, length in enumerate(lengths):
            out[seq, :length] = is_on(values[seq, :length][:, chosen], brush.threshold).mean(-1)
    return out
