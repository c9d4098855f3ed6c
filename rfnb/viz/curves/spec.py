"""The `curves` view: values over the steps of a training, in panels over a common axis of steps.

Series with the same unit share a panel, and so do names that differ only in a number or in "train", "valid", "test".

    rf.viz.curves({"loss": [4.6, 3.1, 2.2]})                                  # steps 0, 1, 2
    rf.viz.curves({"loss": [(10, 4.6), (20, 3.1)], "rate": (steps, rates)})   # points, or an array of x and one of y
    rf.viz.curves({"train": {"loss": train}, "valid": {"loss": valid}})       # runs: equal labels share a panel
    view = rf.viz.curves({"loss": []}, live=True).show()                      # then view.update(curves(...).spec) during training

The widget draws the same spec in `widgets/src/curves/`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from rfnb.core.errors import shape_error, type_error, value_error
from rfnb.core.foreign_arrays import is_array, together
from rfnb.core.strict_json import JsonObject
from rfnb.viz.spec import Spec, host

_EXAMPLE = 'rf.viz.curves({"loss": [(10, 4.6), (20, 3.1)]})'
_RISING = ("accuracy", "acc", "bleu", "f1", "recall", "precision", "reward")
_FALLING = (
    "loss",
    "error",
    "errors",
    "perplexity",
    "ppl",
    "nll",
    "ce",
    "ctc",
    "mse",
    "mae",
    "wer",
    "cer",
    "per",
    "ter",
    "entropy",
    "bpc",
)
_NEUTRAL = ("learning rate", "lr", "momentum", "beam size", "batch size", "epoch")
_PART = re.compile(r"(?<![a-z])(train(ing)?|valid(ation)?|val|dev|test|eval)(?![a-z])[ _/.:-]*", re.IGNORECASE)
_FEW = 6  # series that can be taken in at a glance


def spec(
    series: Mapping[str, Any],
    *,
    x: str = "step",
    units: Mapping[str, str] | None = None,
    best: Mapping[str, str | None] | None = None,
    log: Iterable[str] | None = None,
    title: str = "Curves",
    live: bool = False,
) -> Spec:
    """The spec of curves.

    Args:
        series: By label: a list of (x, y), an array of shape (points, 2), a tuple of an array of x and one of y, or
            only the y (x is then 0, 1, 2, ...). NaN and None are gaps. Points are sorted by x. Series may have different x,
            and may be empty. Or runs: a dict of such dicts by the name of a run (a seed, "train" and "valid"); equal labels
            share a panel.
        x: The name of the x axis.
        units: By label: the unit of y, e.g. "%" or "nats".
        best: By label: "min", "max" or None: which point to mark as the best. Default: by the label, "max" for accuracy
            and the like, "min" for losses and errors, else None: a small gradient norm is not the best one.
        log: Labels of the series with a logarithmic axis; the widget has a button to switch. Default: those that span
            at least three decades and whose maximum is at least 30 times the median.
        live: Whether more data may arrive.

    Raises:
        TypeError: If series is not a dict, a series is not numeric, or runs and series are mixed.
        ShapeError: If x and y of a series differ in length, or points are not pairs.
        ValueError: If an x is not finite, units, best or log name an unknown series, or best is not "min", "max" or None.
    """
    if not isinstance(series, Mapping):
        raise type_error(
            "curves: the series have no labels.",
            {"series": type(series).__name__},
            "Series are a dict: label -> points.",
            'rf.viz.curves({"loss": points})',
        )
    units, best = dict(units or {}), dict(best or {})
    asked = [] if log is None else [log] if isinstance(log, str) else list(log)
    runs = _runs(series)
    labels = list(dict.fromkeys(str(label) for of in runs.values() for label in of))
    for option, names in (("units", units), ("best", best), ("log", asked)):
        _check_labels(option, list(names), labels)
    for label, choice in best.items():
        _check_best(label, choice)
    entries: list[JsonObject] = []
    blocks: dict[str, np.ndarray] = {}
    named = {(run, str(label)): points for run, of in runs.items() for label, points in of.items()}
    points = {
        (run, label): _points(label if run is None else f"{run}: {label}", named[run, label])
        for label in labels
        for run in runs
        if (run, label) in named
    }
    broken = {label for (_, label), (_, ys) in points.items() if is_broken(ys)}
    if len(labels) > _FEW:  # broken series must be seen first
        points = dict(sorted(points.items(), key=lambda item: item[0][1] not in broken))
    chosen = {label for (_, label), (_, ys) in points.items() if is_logarithmic(ys)} if log is None else {*asked}
    panels = {} if None not in runs else _panels(labels, units)
    for number, ((run, label), (xs, ys)) in enumerate(points.items()):
        blocks[f"x{number}"], blocks[f"y{number}"] = _as_block(xs), _narrow(ys)
        entry: JsonObject = {
            "label": label,
            "unit": str(units.get(label, "")),
            "x": f"x{number}",
            "y": f"y{number}",
        }
        entry |= {"best": best[label] if label in best else _best_of(label), "log": label in chosen}
        entry |= {} if run is None else {"run": run}
        entries.append(entry | ({"panel": panels[label]} if label in panels else {}))
    head: JsonObject = {"title": title, "live": live, "x": str(x), "series": entries}
    if log is not None and (said := _not_logarithmic(entries, blocks)):
        head["remark"] = said
    return Spec("curves", head if None in runs else {**head, "runs": list(runs)}, blocks)


def is_broken(ys: np.ndarray) -> bool:
    """Whether a nonempty series has infinities, or ends in NaN."""
    return bool(np.isinf(ys).any()) or (len(ys) > 1 and bool(np.isnan(ys[-2:]).all()))


def is_logarithmic(ys: np.ndarray) -> bool:
    """Whether a logarithmic axis shows more: over three decades, and the maximum is 30 times the median."""
    known = ys[np.isfinite(ys)]
    return (
        bool(len(known))
        and bool(known.min() > 0)
        and bool(known.max() >= max(1e3 * known.min(), 30 * np.median(known)))
    )


def _panels(labels: list[str], units: Mapping[str, str]) -> dict[str, str]:
    """The panel names of series that share a panel, by label: those with one unit, or with similar names."""
    groups: dict[tuple[str, str], list[str]] = {}
    for label in labels:
        unit = str(units.get(label, ""))
        groups.setdefault(("", unit) if unit else (_alike(label), ""), []).append(label)
    named: dict[str, str] = {}
    for (alike, unit), group in groups.items():
        names = {_alike(label) for label in group}
        if len(group) > 1:
            named |= dict.fromkeys(group, names.pop() if len(names) == 1 else alike or unit)
    return named


def _alike(label: str) -> str:
    """The name without its numbers and data split: "loss" for "valid loss", "run #" for "run 7"."""
    return re.sub(r"\d+", "#", _PART.sub("", label[:200])).strip(" _/.:-") or label


def _not_logarithmic(entries: list[JsonObject], blocks: dict[str, np.ndarray]) -> str:
    """A sentence on the series for which a logarithmic axis was requested but is impossible."""
    low = {entry["label"]: int((blocks[entry["y"]] <= 0).sum()) for entry in entries if entry["log"]}
    said = [f"{label} ({count} value{'s' * (count != 1)} of 0 or less)" for label, count in low.items() if count]
    return f"A logarithmic axis cannot show {', '.join(said)}: linear." if said else ""


def _runs(series: Mapping[str, Any]) -> dict[str | None, Mapping[str, Any]]:
    """The series by run; under None without runs."""
    nested = [label for label, points in series.items() if isinstance(points, Mapping)]
    if not nested:
        return {None: series}
    alone = [label for label in series if label not in nested]
    if alone:
        raise type_error(
            "curves: only some of the series are runs.",
            {"runs": ", ".join(map(str, nested)), "series": ", ".join(map(str, alone))},
            "Either each entry is a run, a dict of its series, or each is a series.",
            f'rf.viz.curves({{"{nested[0]}": {{...}}, "other": {{"{alone[0]}": points}}}})',
        )
    return {str(run): points for run, points in series.items()}


def _points(label: str, points: Any) -> tuple[np.ndarray, np.ndarray]:
    """x and y as float64, sorted by x."""
    if isinstance(points, tuple) and len(points) == 2 and all(_is_many(part) for part in points):
        xs, ys = (_numbers(label, part) for part in points)
        if len(xs) != len(ys):
            raise shape_error(
                f'curves: series "{label}": x and y differ in length.',
                {"x": len(xs), "y": len(ys)},
                "Each x needs one y; NaN marks a missing one.",
                f'rf.viz.curves({{"{label}": (x[:{min(len(xs), len(ys))}], y[:{min(len(xs), len(ys))}])}})',
            )
    else:
        xs, ys = _pairs(label, points)
    if not np.isfinite(xs).all():
        raise value_error(
            f'curves: series "{label}": an x is not finite.',
            {"points": len(xs), "not finite": int((~np.isfinite(xs)).sum())},
            "An x is a step or a time; only a y may be NaN.",
            _EXAMPLE,
        )
    order = np.argsort(xs, kind="stable")
    return xs[order], ys[order]


def _pairs(label: str, points: Any) -> tuple[np.ndarray, np.ndarray]:
    if is_array(points) or hasattr(points, "raw_tensor"):
        array = np.asarray(host(points))
        if array.ndim < 2:
            return np.arange(array.size, dtype=np.float64), _numbers(label, array)
        if array.shape[1:] == (2,):
            return _numbers(label, array[:, 0]), _numbers(label, array[:, 1])
        rows: list[Any] = list(array)
    elif isinstance(points, (str, bytes, Mapping)) or not isinstance(points, Iterable):
        raise _no_numbers(label, points)
    else:
        rows = list(points)
    many = [_is_many(row) for row in rows]
    if not any(many):
        return np.arange(len(rows), dtype=np.float64), _numbers(label, rows)
    wrong = next((index for index, row in enumerate(rows) if not many[index] or len(row) != 2), None)
    if wrong is not None:
        size = len(rows[wrong]) if many[wrong] else 1
        raise shape_error(
            f'curves: series "{label}": point {wrong} is not a pair.',
            [("points", len(rows)), (f"point {wrong}", f"{size} number{'s' * (size != 1)}")],
            "Either all points are (x, y), or all are y.",
            _EXAMPLE,
        )
    return _numbers(label, [row[0] for row in rows]), _numbers(label, [row[1] for row in rows])


def _is_many(value: Any) -> bool:
    """Whether it is several numbers; a 0-d tensor or array is one."""
    if isinstance(value, (str, bytes)):
        return False
    shape = getattr(value, "shape", None)
    return (
        len(shape) > 0 if isinstance(shape, tuple) else hasattr(value, "__len__") and not hasattr(value, "raw_tensor")
    )


def _numbers(label: str, values: Any) -> np.ndarray:
    try:
        if hasattr(values, "shape") or hasattr(values, "raw_tensor"):
            return np.array(host(values), dtype=np.float64).reshape(-1)
        raws = together([value.raw_tensor if hasattr(value, "raw_tensor") else value for value in values])
        return np.array([_number(value) for value in raws], dtype=np.float64)
    except (TypeError, ValueError):
        wrong = next((value for value in values if not isinstance(value, (int, float, type(None)))), values)
        raise _no_numbers(label, wrong) from None


def _number(value: Any) -> float:
    if isinstance(value, (float, np.integer, np.floating)):
        return float(value)
    return math.nan if value is None else float(host(value))


def _no_numbers(label: str, value: Any) -> TypeError:
    return type_error(
        f'curves: series "{label}" does not contain numbers.',
        {"given": type(value).__name__},
        "A series is a list of (x, y), a tuple of arrays x and y, or a list of y.",
        _EXAMPLE,
    )


def _as_block(xs: np.ndarray) -> np.ndarray:
    """int32 for steps: float32 is exact only up to 16 777 216."""
    whole = (xs == np.round(xs)).all() and (np.abs(xs) < 2**31).all()
    return xs.astype(np.int32) if whole else _narrow(xs)


def _narrow(values: np.ndarray) -> np.ndarray:
    """float32, or float64 if float32 would overflow, underflow, change an integer, or merge two values."""
    with np.errstate(over="ignore"):
        made = values.astype(np.float32)
    other = made != values
    other &= ~np.isnan(values)
    lost = np.isinf(made) | (made == 0) | (values == np.round(values))
    same = (np.diff(made) == 0) & (np.diff(values) != 0)
    return values if bool((other & lost).any() or same.any()) else made


def _best_of(label: str) -> str | None:
    words = label.lower().replace("_", " ").replace("-", " ")
    has = lambda names: any(f" {name} " in f" {words} " for name in names)  # noqa: E731
    return None if has(_NEUTRAL) else "max" if has(_RISING) else "min" if has(_FALLING) else None


def _check_labels(option: str, names: list[Any], labels: list[str]) -> None:
    unknown = [str(name) for name in names if name not in labels]
    if unknown:
        raise value_error(
            f'curves: {option} names an unknown series: "{unknown[0]}".',
            [("series", ", ".join(labels) or "none"), (option, ", ".join(map(str, names)))],
            f"{option} refers to the labels of the series.",
            (f'{option}=["{labels[0]}"]' if option == "log" else f'{option}={{"{labels[0]}": ...}}')
            if labels
            else None,
        )


def _check_best(label: str, choice: Any) -> None:
    if choice not in ("min", "max", None):
        raise value_error(
            f'curves: best of series "{label}" is not one of the choices.',
            {"best": repr(choice), "choices": '"min", "max", None'},
            "The best point is the lowest, the highest, or there is none.",
            f'best={{"{label}": "max"}}',
        )
