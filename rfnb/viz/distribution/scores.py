"""Scores over a vocabulary: whether they are probabilities, their logs or logits, and what is shown of each row.

Which of the three they are is told by the sums of the rows. What could be an accident (all in 0 to 1 and no sum of 1, as after a softmax
over another dim) is refused, not taken for logits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rfnb.core.errors import value_error

KINDS = {"probs": "probabilities", "log-probs": "log probabilities", "logits": "logits"}
_CHUNK = 1 << 22  # numbers that are looked at together
_SORTED = 512  # a vocabulary up to this size is sorted whole


@dataclass(frozen=True, eq=False)
class Rows:
    """The summary of rows of scores [row, label]: the best labels, and numbers that are sums over all of them.

    Attributes:
        top: int32 [row, k], the labels with the best scores, of equal ones the first; -1 in a row with NaN.
        top_log_probs: float64 [row, k], natural logs.
        rest: float64 [row], the probability of all other labels.
        entropy: float64 [row], nats.
        log_prob, rank: float64 and int32 [row] of the reference; NaN and 0 where there is none. Rank 1: it is the best label.
    """

    top: np.ndarray
    top_log_probs: np.ndarray
    rest: np.ndarray
    entropy: np.ndarray
    log_prob: np.ndarray
    rank: np.ndarray


def kind_of(scores: np.ndarray, given: str | None, *, half: bool = False) -> str:
    """The kind of the scores [row, label], of `KINDS`: what was said, if it is true, else what the sums of the rows say.

    Args:
        half: Whether they were computed in 16 bits, so that sums are less exact.

    Raises:
        ValueError: If it is not true, or the sums do not tell.
    """
    if given is not None and given not in KINDS:
        raise value_error(
            f'distribution: estimated_type "{given}".', [("known", ", ".join(KINDS))], "It is one of these."
        )
    near = 3e-2 if half else 2e-3
    sums, logs, low, high = _extent(scores)
    told = None
    if low >= 0 and _near(sums, 1.0, near):
        told = "probs"
    elif high <= near and _near(logs, 0.0, near):
        told = "log-probs"
    elif high > 1 + near or low < 0 < high - near or not len(sums):
        told = "logits"
    if given == "logits" or (given is not None and not len(sums)):
        return given
    if told is not None and given in (None, told):
        return told
    sides = [
        ("scores", "all 0 or less" if high <= 0 else "all from 0 to 1" if 0 <= low and high <= 1 else "of both signs or large"),
        ("sums", _span(sums)),
        ("sums of exp", _span(np.exp(np.clip(logs, -700, 700)))),
    ]  # fmt: skip
    if given is not None:
        raise value_error(
            f"distribution: these are no {KINDS[given]}.",
            sides,
            "Probabilities of all labels sum to 1, and so does exp of their logs. Of logits nothing is asked:",
            'rf.viz.distribution(scores, estimated_type="logits")',
        )
    raise value_error(
        "distribution: the scores may be probabilities, their logs or logits.",
        sides,
        "Neither they nor exp of them sum to 1 over the labels. If that is meant, they are logits:",
        'rf.viz.distribution(scores, estimated_type="logits")',
    )


def rows_of(scores: np.ndarray, kind: str, reference: np.ndarray, top: int) -> Rows:
    """The summary of scores [row, label], with a reference label for each row (-1: none)."""
    parts = [
        _rows(scores[at], kind, reference[at], min(top, scores.shape[1])) for at in _chunks(scores)
    ] or [_rows(scores.astype(np.float64), kind, reference, min(top, scores.shape[1]))]  # fmt: skip
    joined = (np.concatenate([getattr(part, name) for part in parts]) for name in Rows.__dataclass_fields__)
    return Rows(*joined)


def _rows(scores: np.ndarray, kind: str, reference: np.ndarray, top: int) -> Rows:
    logs = _log_probs(scores.astype(np.float64), kind)
    odd = np.isnan(logs).any(-1)
    order = np.stack([_best(row, top) for row in logs]) if len(logs) else np.zeros((0, top), np.int64)
    best = np.take_along_axis(logs, order, -1)
    shares = np.exp(logs)
    inside = np.take_along_axis(shares, order, -1).sum(-1)
    rest = np.clip(shares.sum(-1) - inside, 0, 1) if top < logs.shape[1] else np.zeros(len(logs))
    entropy = -np.where(shares > 0, shares * np.where(shares > 0, logs, 0.0), 0.0).sum(-1)
    known = (reference >= 0) & (reference < logs.shape[1]) & ~odd
    at = np.where(known, reference, 0)[:, None]
    own = np.take_along_axis(logs, at, -1) if logs.shape[1] else np.full((len(logs), 1), np.nan)
    before = np.arange(logs.shape[1])[None] < at
    rank = 1 + (logs > own).sum(-1) + ((logs == own) & before).sum(-1)
    return Rows(
        np.where(odd[:, None], -1, order).astype(np.int32),
        np.where(odd[:, None], np.nan, best),
        np.where(odd, np.nan, rest),
        np.where(odd, np.nan, np.maximum(entropy, 0)),
        np.where(known, own[:, 0], np.nan),
        np.where(known, rank, 0).astype(np.int32),
    )


def _log_probs(scores: np.ndarray, kind: str) -> np.ndarray:
    """Natural logs; a row with NaN or infinite scores has NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if kind == "probs":
            return np.log(scores)
        if kind == "log-probs":
            return scores
        return scores - _log_sum(scores)[:, None]


def _log_sum(scores: np.ndarray) -> np.ndarray:
    most = scores.max(-1, keepdims=True, initial=-np.inf)
    with np.errstate(invalid="ignore"):  # nothing but -inf, or +inf: NaN
        return np.asarray((most + np.log(np.exp(scores - most).sum(-1, keepdims=True)))[:, 0])


def _best(row: np.ndarray, top: int) -> np.ndarray:
    """The indices of the largest, of equal ones the first."""
    if len(row) <= _SORTED or top >= len(row) or np.isnan(row).any():
        return np.argsort(-row, kind="stable")[:top]
    least = np.partition(row, len(row) - top)[len(row) - top]
    above = np.flatnonzero(row > least)
    found = np.sort(np.concatenate([above, np.flatnonzero(row == least)[: top - len(above)]]))
    return np.asarray(found[np.argsort(-row[found], kind="stable")])


def _extent(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Sums, logs of the sums of exp, least and largest score; of the rows without NaN and +inf."""
    sums, logs, low, high = [], [], np.inf, -np.inf
    for at in _chunks(scores):
        rows = scores[at].astype(np.float64)
        rows = rows[~(np.isnan(rows) | (rows == np.inf)).any(-1)]
        if rows.size:
            sums.append(rows.sum(-1))
            logs.append(_log_sum(rows))
            low, high = min(low, float(rows.min())), max(high, float(rows.max()))
    return np.concatenate([*sums, []]), np.concatenate([*logs, []]), low, high


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
