"""The summary of a training: what its norms and activations say about it, module by module, in sentences.

The thresholds are rules of thumb, and are said with each sentence: updates of about 1e-3 of the weights are usual (1e-4 to 1e-2 passes
here), a gradient that is 1000 times smaller or larger than the median of the modules has vanished or exploded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LOW_RATIO, HIGH_RATIO, FAR, RECENT = 1e-4, 1e-2, 1e3, 20
_MOST = 6


def summary(training: Any) -> str:
    """A sentence per finding, below a line of counts."""
    counts = training.counts
    lines = [
        f"{training.title}: {_count(counts.get('updates', 0), 'update')}, {_count(counts.get('batches', 0), 'batch')}"
    ]
    loss = training.curves.get("loss")
    if loss is not None and loss.values:
        lines.append(f"loss: first {loss.values[0]:.4g}, last {loss.values[-1]:.4g}, lowest {_lowest(loss.values)}")
    lines += training.facts
    if counts.get("skipped"):
        lines.append(f"skipped by the GradScaler: {_count(counts['skipped'], 'update')}")
    if counts.get("clipped"):
        lines.append(f"gradients clipped in {_count(counts['clipped'], 'update')}")
    for name in dict.fromkeys(optimizer for _, optimizer in training.tables):
        of = f" ({name})" if name else ""
        lines += [line + of for line in [*_gradients(training, name), *_ratios(training, name)]]
    lines += _activations(training)
    lines += [f"update {step}: {sentence}" for step, sentence in training.says]
    return "\n".join(lines)


def _gradients(training: Any, name: str) -> list[str]:
    table = training.tables.get(("gradient norm", name))
    if table is None or not table.rows:
        return []
    recent = table.array()[-RECENT:]
    has = (recent >= 0).any(0) | np.isnan(recent).any(0)
    out = []
    none = [path for path, there in zip(table.columns, has) if not there]
    if none:
        out.append(f"no gradient so far: {_names(none)}")
    middle = np.array([_median(column) for column in recent.T])
    real = middle[np.isfinite(middle) & (middle > 0)]
    zero = [path for path, value in zip(table.columns, middle) if value == 0]
    if zero:
        out.append(f"gradient is exactly zero: {_names(zero)}")
    if len(real) > 1:
        usual = float(np.median(real))
        low = [(path, value) for path, value in zip(table.columns, middle) if 0 < value < usual / FAR]
        high = [(path, value) for path, value in zip(table.columns, middle) if value > usual * FAR]
        if low:
            out.append(f"gradients vanish, below 1/{FAR:.0f} of the median {usual:.2g}: {_valued(low)}")
        if high:
            out.append(f"gradients explode, above {FAR:.0f} times the median {usual:.2g}: {_valued(high)}")
    bad = [path for path, column in zip(table.columns, recent.T) if not np.isfinite(column).all()]
    if bad:
        out.append(f"gradients are NaN or infinite: {_names(bad)}")
    return out


def _ratios(training: Any, name: str) -> list[str]:
    table = training.tables.get(("update ratio", name))
    if table is None or not table.rows:
        return []
    middle = [(path, _median(column)) for path, column in zip(table.columns, table.array()[-RECENT:].T)]
    out = []
    for words, found in (
        (f"updates below {LOW_RATIO:g} of the weights (learning rate too low?)", [x for x in middle if 0 <= x[1] < LOW_RATIO]),
        (f"updates above {HIGH_RATIO:g} of the weights (learning rate too high?)", [x for x in middle if x[1] > HIGH_RATIO]),
    ):  # fmt: skip
        if found:
            out.append(f"{words}: {_valued(found)}")
    return out


def _activations(training: Any) -> list[str]:
    out = []
    for stat, least, words in (
        ("dead units", 0.0, "units that are zero for a whole batch"),
        ("saturated", 0.5, "more than half of the outputs are saturated"),
        ("zeros", 0.95, "more than 95 % of the outputs are zero"),
    ):
        table = training.tables.get((stat, ""))
        if table is None or not table.rows:
            continue
        recent = table.array()[-RECENT:]
        # A unit that is dead for good is so in each row; the smallest share is that.
        with np.errstate(invalid="ignore"):
            share = np.where(
                np.isfinite(recent).any(0), np.nanmin(np.where(np.isfinite(recent), recent, np.inf), 0), np.nan
            )
        found = [(path, value) for path, value in zip(table.columns, share) if value > least]
        if found:
            out.append(f"{words}: " + _valued(found, "{:.0%}"))
    return out


def _median(column: np.ndarray) -> float:
    known = column[np.isfinite(column) & (column >= 0)]
    return float(np.median(known)) if len(known) else float("nan")


def _lowest(values: list[float]) -> str:
    finite = [value for value in values if np.isfinite(value)]
    return f"{min(finite):.4g}" if finite else "none"


def _valued(found: list[tuple[str, float]], form: str = "{:.2g}") -> str:
    return _names([f"{path or 'the model'} {form.format(value)}" for path, value in found])


def _names(names: list[str]) -> str:
    shown = ", ".join(name or "the model" for name in names[:_MOST])
    return shown + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")


def _count(number: int, word: str) -> str:
    plural = {"batch": "batches"}.get(word, f"{word}s")
    return f"{number} {word if number == 1 else plural}"
