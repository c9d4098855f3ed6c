"""The spec of two recordings side by side: their differences over steps and modules, and some of their values.

The block `log` [1, path, step] is log10 of the largest difference, in units of the tolerance: 0 equals the tolerance,
-inf is bitwise equality, inf a non-numeric difference, NaN nothing to compare. `abs` is the largest absolute
difference, infinity or NaN if only one side is.
A pair is a block [side, row, col] of both values along the same axes: at the first difference, at the first and the
largest of each path, and at others while there are few. A page requests further ones by `pair/ROW/COL`
(`rfnb/viz/diff/pairs.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.errors import type_error
from rfnb.core.strict_json import JsonObject
from rfnb.trace import diff_text
from rfnb.trace.diff import Diff, PathDiff, diff
from rfnb.trace.diff_numbers import to_order
from rfnb.trace.diff_rows import Row
from rfnb.viz.diff.pairs import PathStep, note_source, pair_of, places_of
from rfnb.viz.spec import Spec

_MOST_ROWS, _MOST_COLS = 400, 4000
_MOST_PAIRS = 64
_MOST_SEQS = 16
_LONGEST = 2000


def spec(value: Any, other: Any = None, *, title: str = "", **options: Any) -> Spec:
    """The spec of a Diff, or of two recordings.

    Args:
        value: A Diff, or the first recording.
        other: The second one.
        options: Options of `rf.diff`.

    Raises:
        TypeError: If `value` is a Diff and `other` is given.
    """
    if isinstance(value, Diff) and (other is not None or options):
        raise type_error(
            "diff: a Diff takes no second argument.",
            {"given": ", ".join(["Diff", *([type(other).__name__] if other is not None else []), *options])},
            "A Diff already compares two recordings.",
            "rf.viz.diff(d), or rf.viz.diff(trace_a, trace_b, tolerance=1e-3)",
        )
    d = value if isinstance(value, Diff) else diff(value, other, **options)
    paths = _paths(d)
    cols, places = places_of(d, paths)
    log, most = _maps(places, len(paths), len(cols))
    of_row: list[list[PathStep]] = [[] for _ in paths]
    for place in places:
        of_row[place.row].append(place)
    entries = [_entry(path, own) for path, own in zip(paths, of_row)]
    first = next((place for place in places if place.first), None)
    blocks: dict[str, np.ndarray] = {"log": log, "abs": most}
    pairs = _pairs(d, of_row, first, blocks)
    a, b = d.names
    head = {
        "title": title or f"{a} and {b}",
        "live": False,
        "names": [a, b],
        "said": _cut(diff_text.sentence(d) if d.first is None else f"First difference: {diff_text.sentence(d)}"),
        "headline": "" if d.first is None else _cut(_headline(d.first)),
        "hints": [] if d.first is None else list(map(_cut, diff_text.more(d, d.first))),
        "limit": f"A difference is more than {d.tolerance.text()}.",
        "cols": cols,
        "rows": entries,
        "mark": None if first is None else [first.row, first.col],
        "pairs": pairs,
        "searches": _lines(diff_text.searches(d)) if not d.same else [],
        "results": _results(d),
        "notes": _notes(d, len(paths)),
        "next": _lines(diff_text.next_line(d)),
    }
    made = Spec("diff", head, blocks)
    note_source(made, d, places)
    return made


def _headline(row: Row) -> str:
    """The first difference in short form, if it is numeric; the card below has the full form."""
    numbers = row.numbers
    if not np.isfinite(numbers.units) or not numbers.max_abs:
        return ""
    count = f"; {numbers.differing} of {numbers.cells} cells" if numbers.cells > 1 else ""
    return f"{diff_text.place(row)} is the first that differs ({diff_text.number(numbers.max_abs, 3)} at most{count})"


def _paths(d: Diff) -> list[str]:
    """The paths with values; if there are too many, those that differ, then as many others as fit."""
    found = [path for path, each in d.by_path.items() if _has_values(each)]
    if len(found) <= _MOST_ROWS:
        return found
    keep = set(sorted(found, key=lambda path: d.by_path[path].first is None)[:_MOST_ROWS])
    return [path for path in found if path in keep]


def _has_values(each: PathDiff) -> bool:
    return any(row.numbers.cells or row.differs for row in each.rows)


def _maps(places: list[PathStep], rows: int, cols: int) -> tuple[np.ndarray, np.ndarray]:
    log, most = (np.full((1, rows, cols), np.nan, np.float32) for _ in range(2))
    for place in places:
        log[0, place.row, place.col], most[0, place.row, place.col] = place.log, place.max_abs
    return log, most


def _entry(path: str, own: list[PathStep]) -> JsonObject:
    """One path: its label, its first and its largest difference."""
    differ = [place for place in own if place.differs]
    in_numbers = [place for place in differ if place.max_abs or place.log < np.inf]  # not a difference in text or dims
    worst = max(in_numbers, key=lambda place: (to_order(place.max_abs), place.log), default=None)
    return {
        "label": path or (own[0].value.ident.kind if own else "-"),
        "first": differ[0].col if differ else None,
        "worst": None if worst is None else worst.col,
        "differ": len(differ),
        "of": len(own),
        "names": list(dict.fromkeys(place.value.name for place in own))[:20],
    }


def _pairs(
    d: Diff, of_row: list[list[PathStep]], first: PathStep | None, blocks: dict[str, np.ndarray]
) -> list[JsonObject]:
    """The values at the first difference, at the first and the largest of each path, then at others."""
    wanted: dict[tuple[int, int], PathStep] = {} if first is None else {(first.row, first.col): first}
    rows = [differ for own in of_row if (differ := [place for place in own if place.differs])]
    for own in rows:
        for place in (own[0], max(own, key=lambda each: (each.log, to_order(each.max_abs)))):
            wanted.setdefault((place.row, place.col), place)
    for place in (place for own in rows for place in own):
        wanted.setdefault((place.row, place.col), place)
    entries: list[JsonObject] = []
    for place in list(wanted.values())[:_MOST_PAIRS]:
        found = pair_of(d, place.value)
        entry: JsonObject = {"row": place.row, "col": place.col, "words": _cut(words_of(d, place.value))}
        if found is not None:
            values, about = found
            entry |= {"block": f"pair{len(entries)}", **about}
            blocks[entry["block"]] = values
        entries.append(entry)
    return entries


def words_of(d: Diff, row: Row) -> str:
    """A difference as a sentence."""
    return (
        f"{diff_text.place(row)}: {diff_text.what(d, row)}" if row.differs else f"{diff_text.place(row)}: no difference"
    )


def _results(d: Diff) -> list[JsonObject]:
    """The results of searches that differ, with their edits."""
    found: list[JsonObject] = []
    for search in d.searches:
        for seq in search.seqs:
            result = seq.result
            if result is None or result.same or result.edits is None or len(found) >= _MOST_SEQS:
                continue
            label = f"sequence {seq.seq_a}" if seq.seq_a == seq.seq_b else f"sequence {seq.seq_a} | {seq.seq_b}"
            found.append(
                {
                    "label": label,
                    "edits": result.edits,
                    "a": list(result.labels_a or ()),
                    "b": list(result.labels_b or ()),
                    "scores": [_finite(result.score_a), _finite(result.score_b)],
                }
            )
    return found


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _notes(d: Diff, drawn: int) -> list[str]:
    texts = [diff_text.only(d), diff_text.dtypes(d), diff_text.truncated(d)]
    found = [line for text in texts for line in _lines(text)]
    all_paths = sum(map(_has_values, d.by_path.values()))
    if drawn < all_paths:
        found.append(f"{drawn} of {all_paths} paths are drawn, those that differ first.")
    return found


def _lines(text: str) -> list[str]:
    return [_cut(line) for line in text.splitlines()]


def _cut(text: str) -> str:
    """A sentence with long labels shortened."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
