"""Scores over a vocabulary: detect whether they are probabilities, log probabilities or logits, and summarise each row.

The sums of the rows determine which of the three they are. Likely mistakes (all values within 0 to 1 but no sum of 1,
as after a softmax over another dim) are refused rather than taken for logits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rfnb.core.errors import not_one_of, value_error

KINDS = {"probs": "probabilities", "log-probs": "log probabilities", "logits": "logits"}
_CHUNK = 1 << 18  # numbers processed at once
_SORTED = 512  # a vocabulary up to this size is fully sorted
_STRETCH = 64
_LEAST = -750.0  # exp of less underflows in float64
_TINY = 1e-320


@dataclass(frozen=True, eq=False)
class ScoreRows:
    """The summary of rows of scores [row, label]: the best labels, and sums over all labels.

    Attributes:
        top: int32 [row, k], the labels with the best scores, ties in order; -1 in a row with NaN.
        top_log_probs: float64 [row, k], natural logs.
        rest: float64 [row], the probability of all other labels.
        entropy: float64 [row], nats.
        log_prob, rank: float64 and int32 [row], those of the reference; NaN and 0 without one. Rank 1 is the best label.
    """

    top: np.ndarray
    top_log_probs: np.ndarray
    rest: np.ndarray
    entropy: np.ndarray
    log_prob: np.ndarray
    rank: np.ndarray


def kind_of(scores: np.ndarray, given: str | None, *, half: bool = False) -> str:
    """The kind of the scores [row, label], one of `KINDS`: as given, after a check, else detected from the sums of the rows.

    Args:
        half: Whether they were computed in 16 bits, so that sums are less exact.

    Raises:
        ValueError: If the check fails, or the sums are ambiguous.
    """
    if given is not None and given not in KINDS:
        raise not_one_of(f'distribution: unknown estimated_type "{given}".', "estimated_type", given, KINDS)
    if given == "logits":
        return given
    near = 3e-2 if half else 2e-3
    rows, low, high = _usable(scores)
    told = None
    if low >= 0 and _near(_sums(rows), 1.0, near):
        told = "probs"
    elif high <= near and _near(_log_sums(rows), 0.0, near):
        told = "log-probs"
    elif high > 1 + near or low < 0 < high - near or not len(rows):
        told = "logits"
    if given is not None and not len(rows):
        return given
    if told is not None and given in (None, told):
        return told
    sides = [
        ("scores", "all 0 or less" if high <= 0 else "all from 0 to 1" if 0 <= low and high <= 1 else "of both signs or large"),
        ("sums", _span(_sums(rows))),
        ("sums of exp", _span(np.exp(np.clip(_log_sums(rows), -700, 700)))),
    ]  # fmt: skip
    if given is not None:
        raise value_error(
            f"distribution: these are not {KINDS[given]}.",
            sides,
            "Probabilities of all labels sum to 1, and so does exp of their logs. Logits may be any numbers:",
            'rf.viz.distribution(scores, estimated_type="logits")',
        )
    raise value_error(
        "distribution: the scores may be probabilities, their logs or logits.",
        sides,
        "Neither the scores nor their exp sum to 1 over the labels. If that is intended, pass them as logits:",
        'rf.viz.distribution(scores, estimated_type="logits")',
    )


def rows_of(scores: np.ndarray, kind: str, reference: np.ndarray, top: int) -> ScoreRows:
    """The summary of scores [row, label], with a reference label for each row (-1: none)."""
    top = min(top, scores.shape[1])
    parts = [_rows(scores[at], kind, reference[at], top) for at in _chunks(scores)] or [
        _rows(scores, kind, reference, top)
    ]
    joined = (np.concatenate([getattr(part, name) for part in parts]) for name in ScoreRows.__dataclass_fields__)
    return ScoreRows(*joined)


def _rows(scores: np.ndarray, kind: str, reference: np.ndarray, top: int) -> ScoreRows:
    most = scores.max(-1, initial=-np.inf)
    odd = np.isnan(most) | (most == np.inf) | ((most == -np.inf) & (scores.shape[1] > 0))
    scale, total, entropy = _totals(scores, kind, most.astype(np.float64), odd)
    order = _best(scores, top, odd)

    def log_probs(values: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return (np.log if kind == "probs" else np.asarray)(values.astype(np.float64)) - scale[:, None]

    best = log_probs(np.take_along_axis(scores, order, -1))
    with np.errstate(invalid="ignore"):
        rest = np.clip(total - np.exp(best).sum(-1), 0, 1) if top < scores.shape[1] else np.zeros(len(scores))
    known = (reference >= 0) & (reference < scores.shape[1]) & ~odd
    at = np.where(known, reference, 0)[:, None]
    own = np.take_along_axis(scores, at, -1) if scores.shape[1] else np.full((len(scores), 1), np.nan)
    before = np.arange(scores.shape[1]) < at
    # The order of the scores themselves, so that it agrees with argmax.
    rank = 1 + (scores > own).sum(-1, dtype=np.int32) + ((scores == own) & before).sum(-1, dtype=np.int32)
    return ScoreRows(
        np.where(odd[:, None], -1, order).astype(np.int32),
        np.where(odd[:, None], np.nan, best),
        np.where(odd, np.nan, rest),
        np.where(odd, np.nan, np.maximum(entropy, 0)),
        np.where(known, log_probs(own)[:, 0], np.nan),
        np.where(known, rank, 0).astype(np.int32),
    )


def _totals(
    scores: np.ndarray, kind: str, most: np.ndarray, odd: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The offset from scores to log probabilities per row, the sum of the probabilities, and their entropy in nats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if kind == "probs":
            probs = scores.astype(np.float64)
            logs = np.log(np.maximum(probs, _TINY))
            return np.zeros(len(probs)), probs.sum(-1), -_dot(probs, logs)
        shift = np.where(odd, 0.0, most) if kind == "logits" else np.zeros(len(scores))
        # exp of a very small score is 0, and so is its entropy term, even if the score is -inf.
        logs = np.maximum(scores - shift[:, None], _LEAST)
        probs = np.exp(logs)
        total = probs.sum(-1)
        if kind == "log-probs":
            return shift, total, -_dot(probs, logs)
        return shift + np.log(total), np.ones(len(total)), np.log(total) - _dot(probs, logs) / total


def _dot(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("ij,ij->i", one, other))


def _best(scores: np.ndarray, top: int, odd: np.ndarray) -> np.ndarray:
    """The labels with the largest scores of each row, ties in order."""
    count, size = scores.shape
    if size <= _SORTED or 4 * top >= size:
        return np.argsort(-scores, axis=-1, kind="stable")[:, :top]
    out = np.zeros((count, top), np.int64)
    # The maximum of each block bounds the candidates, so that few labels are examined.
    whole = scores[:, : size - size % _STRETCH].reshape(count, -1, _STRETCH).max(-1)
    for row in np.flatnonzero(~odd):
        of = scores[row]
        near = np.arange(size)
        if top <= whole.shape[1]:
            near = np.flatnonzero(of >= np.partition(whole[row], -top)[-top])
        values = of[near]
        least = np.partition(values, -top)[-top]
        above = np.flatnonzero(values > least)
        found = np.sort(np.concatenate([above, np.flatnonzero(values == least)[: top - len(above)]]))
        out[row] = near[found[np.argsort(-values[found], kind="stable")]]
    return out


def _usable(scores: np.ndarray) -> tuple[np.ndarray, float, float]:
    """The rows without NaN and +inf, with their minimum and maximum score."""
    if not scores.size:
        return scores[:0], np.inf, -np.inf
    high = scores.max(-1)
    fine = high < np.inf  # False for NaN
    rows = scores if fine.all() else scores[fine]
    return rows, float(rows.min(initial=np.inf)), float(high[fine].max(initial=-np.inf))


def _sums(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows.sum(-1, dtype=np.float64))


def _log_sums(rows: np.ndarray) -> np.ndarray:
    """Logs of the sums of exp."""
    out = []
    for at in _chunks(rows):
        most = rows[at].max(-1, keepdims=True).astype(np.float64)
        with np.errstate(invalid="ignore"):  # a row of only -inf gives NaN
            out.append((most + np.log(np.exp(rows[at] - most).sum(-1, keepdims=True)))[:, 0])
    return np.concatenate([*out, []])


def _near(values: np.ndarray, wanted: float, by: float) -> bool:
    return bool(len(values)) and bool((np.abs(values - wanted) <= by).all())


def _span(values: np.ndarray) -> str:
    if not len(values):
        return "none"
    low, high = f"{values.min():.3g}", f"{values.max():.3g}"
    return low if low == high else f"{low} to {high}"


def _chunks(scores: np.ndarray) -> Iterator[slice]:
    count = max(1, _CHUNK // max(1, scores.shape[1]))
    return (slice(first, first + count) for first in range(0, len(scores), count))
