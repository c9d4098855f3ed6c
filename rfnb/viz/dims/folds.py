"""Repeats among the rows of a `dims` spec: layers that are alike but for their number are one, "x 4"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Fold = dict[str, int]  # first: the number of its heading; rows: in one of the repeats; count: of the repeats


def folds_of(rows: Sequence[dict[str, Any]], entries: Sequence[dict[str, Any]]) -> list[Fold]:
    """The repeats, also inside of the first of others. Those of one are next to each other, and have a number as label."""
    dims = {entry["id"]: (entry["name"], entry["size"], str(entry["lengths"])) for entry in entries}
    keys = [_key(row, dims) for row in rows]
    found: list[Fold] = []
    at = 0
    while at < len(rows):
        size = _size(rows, at)
        count = 1
        while size > 1 and str(rows[at]["label"]).isdigit() and _alike(rows, keys, at, at + count * size, size):
            count += 1
        if count > 1:
            found.append({"first": at, "rows": size, "count": count})
            inner = folds_of(rows[at + 1 : at + size], entries)
            found += [{**fold, "first": fold["first"] + at + 1} for fold in inner]
            at += count * size
        else:
            at += 1
    return found


def folded(head: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows without those that are the same again; a heading says how often."""
    rows: list[dict[str, Any] | None] = list(head["rows"])
    for fold in head.get("folds") or []:
        first, size, count = fold["first"], fold["rows"], fold["count"]
        top = rows[first]
        if top is None:
            continue
        last = head["rows"][first + (count - 1) * size]["label"]
        words = f"{top['label']} to {last} are alike"
        if any(row["stats"] for row in head["rows"][first : first + size]):
            words += f", values are those of {top['label']}"
        rows[first] = {
            **top,
            "label": f"{top['label']} × {count}",
            "note": _joined(top, words),
        }
        rows[first + size : first + count * size] = [None] * ((count - 1) * size)
    return [row for row in rows if row is not None]


def _joined(row: dict[str, Any], words: str) -> str:
    return ", ".join(filter(None, [row.get("note"), words]))


def _size(rows: Sequence[dict[str, Any]], at: int) -> int:
    """The number of rows of a heading and what is below it."""
    end = at + 1
    while end < len(rows) and rows[end]["indent"] > rows[at]["indent"]:
        end += 1
    return end - at


def _alike(rows: Sequence[dict[str, Any]], keys: list[Any], first: int, other: int, size: int) -> bool:
    return (
        other < len(rows)
        and rows[other]["indent"] == rows[first]["indent"]
        and str(rows[other]["label"]).isdigit()
        and _size(rows, other) == size
        and keys[first][1:] == keys[other][1:]
        and keys[first + 1 : first + size] == keys[other + 1 : other + size]
    )


def _key(row: dict[str, Any], dims: dict[int, Any]) -> Any:
    sparse = None if row["sparse"] is None else dims[row["sparse"]]
    odd = [(row["stats"] or {}).get(name) for name in ("nan", "inf", "padding_odd")]  # never hidden in a fold
    about = row["dtype"], row["device"], row["note"], sparse, odd
    return row["label"], row["indent"], [dims[dim] for dim in row["dims"]], *about
