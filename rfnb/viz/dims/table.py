"""The `dims` spec as a table: unique names, one column per dim. `widgets/src/dims/layout.ts` is the same in TypeScript."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rfnb.core.strict_json import JsonObject
from rfnb.viz.rounding import percent, significant

GLYPHS = "●■▲◆★✚▼⬟"  # the widget adds one of 8 hues each; the glyph alone is enough
_OWN_COLUMNS = 6  # up to this many dims, each has its own column
_BARS = "▁▂▃▄▅▆▇█"


def names_of(entries: Sequence[JsonObject]) -> dict[int, str]:
    """The name of each dim by id; different dims of equal name become time#1, time#2."""
    names = [str(entry["name"]) for entry in entries]
    counts = Counter(names)
    seen: dict[str, int] = {}
    out = {}
    for entry, name in zip(entries, names):
        seen[name] = seen.get(name, 0) + 1
        out[entry["id"]] = f"{name}#{seen[name]}" if counts[name] > 1 else name
    return out


def size_text(entry: JsonObject, name: str) -> str:
    """`batch=3`, `time<=7`, `time=?`."""
    if entry.get("lengths"):
        return f"{name}<={max(entry['lengths'])}"
    return f"{name}={entry['size'] if entry.get('size') is not None else '?'}"


def sizes_of(entries: Sequence[JsonObject]) -> dict[int, str]:
    """The text of each dim by id."""
    names = names_of(entries)
    return {entry["id"]: size_text(entry, names[entry["id"]]) for entry in entries}


def about(entry: JsonObject) -> str:
    """Facts about a dim apart from its size: whether it clashes, its kind, where it was made."""
    return ", ".join(filter(None, ["clashes" if entry.get("clash") else "", entry.get("kind"), entry.get("origin")]))


def columns_of(rows: Sequence[JsonObject]) -> dict[int, int]:
    """The column of each dim, such that rows of equal order align; with many dims, dims that never occur together share columns."""
    order = _order(rows)
    if len(order) <= _OWN_COLUMNS:
        return {dim: column for column, dim in enumerate(order)}
    column: dict[int, int] = {}
    for dim in order:
        using = [row["dims"] for row in rows if dim in row["dims"]]
        taken = {column[other] for dims in using for other in dims if other in column}
        lowest = max(
            (column[other] + 1 for dims in using for other in dims[: dims.index(dim)] if other in column), default=0
        )
        column[dim] = next(place for place in range(lowest, lowest + len(taken) + 1) if place not in taken)
    return column


def _order(rows: Sequence[JsonObject]) -> list[int]:
    """An order of all dims that as many rows as possible agree with; earlier rows have priority."""
    follow: dict[int, set[int]] = {}
    for dims in dict.fromkeys(tuple(row["dims"]) for row in rows):
        for dim in dims:
            follow.setdefault(dim, set())
        if not any(_leads(follow, later, dim) for axis, dim in enumerate(dims) for later in dims[axis + 1 :]):
            for dim, later in zip(dims, dims[1:]):
                follow[dim].add(later)
    order: list[int] = []
    left = list(follow)
    while left:
        first = next(dim for dim in left if not any(dim in follow[other] for other in left))
        order.append(first)
        left.remove(first)
    return order


def _leads(follow: dict[int, set[int]], start: int, end: int) -> bool:
    """Whether `end` must come after `start`."""
    seen, todo = {start}, [start]
    while todo:
        for dim in follow[todo.pop()]:
            if dim not in seen:
                seen.add(dim)
                todo.append(dim)
    return end in seen - {start}


def is_permuted(row: JsonObject, columns: dict[int, int]) -> bool:
    """Whether the axes of a row are not in the order of the columns."""
    places = [columns[dim] for dim in row["dims"]]
    return places != sorted(places)


def stored(row: JsonObject, columns: dict[int, int], names: dict[int, str]) -> str:
    """`stored as [...]` if the axes are not in the order of the columns."""
    return f"stored as {compact(row, names)}" if is_permuted(row, columns) else ""


def compact(row: JsonObject, names: dict[int, str]) -> str:
    """`[batch=3, time<=7]`."""
    return "[" + ", ".join(names[dim] for dim in row["dims"]) + "]"


def remarks(row: JsonObject, names: dict[int, str], order: str) -> str:
    """Notes on a row, problems with its values first.

    Args:
        order: The order of its dims as text, if it differs.
    """
    sparse = f"indices into {names[row['sparse']]}" if row.get("sparse") is not None else ""
    stats = row.get("stats")
    return ", ".join(filter(None, [alarm_text(stats), row.get("note"), order, sparse, padding_text(stats)]))


def waste(lengths: Sequence[int]) -> float:
    """Fraction of cells that are padding, 0 to 1."""
    cells = len(lengths) * max(lengths, default=0)
    return 1 - sum(lengths) / cells if cells else 0.0


def waste_text(lengths: Sequence[int]) -> str:
    """`33 % of the cells`, or nothing for a dim without lengths."""
    return f"{percent(waste(lengths))} of the cells" if lengths else ""


def bars(lengths: Sequence[int], most: int = 24) -> str:
    """The lengths as a small text bar chart."""
    top = max(lengths, default=0)
    shown = "".join(_BARS[round(7 * length / top)] if top else _BARS[0] for length in lengths[:most])
    return shown + ("…" if len(lengths) > most else "")


def lengths_text(lengths: Sequence[int], most: int = 8) -> str:
    """The lengths, shortened if there are many."""
    return ", ".join(map(str, lengths[:most])) + (f", ... ({len(lengths)} in all)" if len(lengths) > most else "")


def bytes_text(count: int | None) -> str:
    """`42 kB`: three digits, decimal units."""
    if count is None:
        return ""
    value, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.0f} {units[0]}" if units[0] == "B" or value >= 99.5 else f"{value:.3g} {units[0]}"


def number_text(value: float | None) -> str:
    """Three significant digits; whole numbers, and from 100 to a million the whole part, as they are."""
    if value is None:
        return "-"
    if (value == int(value) or abs(value) >= 99.95) and abs(value) < 1e6:
        return f"{value:.0f}"
    return significant(value, 3)


def stats_text(stats: JsonObject | None) -> str:
    """`min -1 mean 0.1 max 2`; for one value only that value."""
    if not stats:
        return ""
    if not stats["valid"]:
        return "no values"
    if stats["valid"] == 1 and stats["mean"] is not None:
        return f"value {number_text(stats['mean'])}"
    return " ".join(f"{name} {number_text(stats[name])}" for name in ("min", "mean", "max") if stats[name] is not None)


def alarm_text(stats: JsonObject | None) -> str:
    """`1 NaN 2 inf`, or nothing."""
    return (
        " ".join(f"{stats[key]} {word}" for key, word in (("nan", "NaN"), ("inf", "inf")) if stats[key])
        if stats
        else ""
    )


def padding_text(stats: JsonObject | None) -> str:
    """The fraction of a tensor that is padding, and the NaN and infinities there, or nothing."""
    if not stats or stats["cells"] == stats["valid"]:
        return ""
    odd = f" with {stats['padding_odd']} NaN or inf" if stats.get("padding_odd") else ""
    return f"{percent(1 - stats['valid'] / stats['cells'])} padding{odd}"


def has_legend(head: JsonObject) -> bool:
    """Whether the dims have facts beyond those in the rows."""
    return not head["rows"] or any(
        entry.get("lengths") or entry.get("kind") or entry.get("origin") for entry in head["dims"]
    )


Fold = dict[str, int]  # first: the index of its heading; rows: in one repeat; count: of repeats


def folds_of(rows: Sequence[JsonObject], entries: Sequence[JsonObject]) -> list[Fold]:
    """The repeats, including nested ones in the first of each. Repeats are adjacent and have numbers as labels."""
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


def folded(head: JsonObject) -> list[JsonObject]:
    """The rows without repeats; a heading has their count."""
    rows: list[JsonObject | None] = list(head["rows"])
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


def _joined(row: JsonObject, words: str) -> str:
    return ", ".join(filter(None, [row.get("note"), words]))


def _size(rows: Sequence[JsonObject], at: int) -> int:
    """The number of rows of a heading and what is below it."""
    end = at + 1
    while end < len(rows) and rows[end]["indent"] > rows[at]["indent"]:
        end += 1
    return end - at


def _alike(rows: Sequence[JsonObject], keys: list[Any], first: int, other: int, size: int) -> bool:
    return (
        other < len(rows)
        and rows[other]["indent"] == rows[first]["indent"]
        and str(rows[other]["label"]).isdigit()
        and _size(rows, other) == size
        and keys[first][1:] == keys[other][1:]
        and keys[first + 1 : first + size] == keys[other + 1 : other + size]
    )


def _key(row: JsonObject, dims: dict[int, Any]) -> Any:
    sparse = None if row["sparse"] is None else dims[row["sparse"]]
    odd = [(row["stats"] or {}).get(name) for name in ("nan", "inf", "padding_odd")]  # never hide these in a fold
    about = row["dtype"], row["device"], row["note"], sparse, odd
    return row["label"], row["indent"], [dims[dim] for dim in row["dims"]], *about
