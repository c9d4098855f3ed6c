"""The `dims` view as text: the dims, then one aligned line per tensor in the notation `[batch=3, time<=7, model=512]`."""

from __future__ import annotations

from typing import Any

from rfnb.viz.dims import small, table
from rfnb.viz.dims.folds import folded
from rfnb.viz.kinds import title_of
from rfnb.viz.terminal import WIDTH, aligned, width_of

_MOST_NAME, _MOST_DIMS = 32, 60


def text(spec: Any) -> str:
    """The dims as text for a terminal."""
    head = spec.head
    lines = [str(head["failure"]), ""] if head.get("failure") else []
    lines += [title_of(spec)]
    lines += _legend(head["dims"])
    if head["rows"]:
        lines += [""] + _rows({**head, "rows": folded(head)})
    lines += small.lines(spec)
    lines += ["", str(head["mend"])] if head.get("mend") else []
    return "\n".join(line.rstrip() for line in lines)


def _legend(entries: list[dict[str, Any]]) -> list[str]:
    names = table.names_of(entries)
    rows = []
    for entry in entries:
        lengths = entry.get("lengths") or []
        note = (
            f"lengths {table.lengths_text(lengths)}  {table.bars(lengths)}  {table.waste_text(lengths)} are padding"
            if lengths
            else ""
        )
        note = "  ".join(filter(None, ["clashes" if entry.get("clash") else "", entry.get("origin"), note]))
        rows.append(
            [
                " " + table.GLYPHS[entry["id"] % 8],
                table.size_text(entry, names[entry["id"]]),
                entry.get("kind") or "",
                note,
            ]
        )
    return aligned(rows, _MOST_NAME) if rows else []


def _rows(head: dict[str, Any]) -> list[str]:
    by_id = {entry["id"]: entry for entry in head["dims"]}
    names = table.names_of(head["dims"])
    columns = table.columns_of(head["rows"])
    short = {dim: table.size_text(entry, names[dim]) for dim, entry in by_id.items()}
    widths = [0] * (max(columns.values(), default=-1) + 1)
    for row in head["rows"]:
        for dim in row["dims"]:
            widths[columns[dim]] = max(widths[columns[dim]], len(short[dim]))
    out, details = [], []
    for row in head["rows"]:
        permuted = table.is_permuted(row, columns)
        dims = _compact(row, short) if permuted else _spread(row, short, columns, widths)
        sparse = f"indices into {short[row['sparse']]}" if row.get("sparse") is not None else ""
        stats = row.get("stats")
        order = "other order" if permuted else ""
        remarks = [table.alarm_text(stats), row.get("note") or "", order, sparse, table.padding_text(stats)]
        indent = "  " * row.get("indent", 0)
        heading = row.get("dtype") is None and not row["dims"]
        kind = [row.get("dtype") or "", row.get("device") or "", table.bytes_text(row.get("bytes"))]
        out.append([indent + str(row.get("label", "")), "" if heading else dims, *kind])
        details.append([table.stats_text(stats), ", ".join(filter(None, remarks))])
    whole = aligned([[*first, *second] for first, second in zip(out, details)], _MOST_DIMS)
    if max(width_of(line, WIDTH + 1) for line in whole) <= WIDTH:
        return whole
    # Too wide for a terminal: what is said of the values is below.
    lines = []
    for row, first, second in zip(head["rows"], aligned(out, _MOST_DIMS), details):
        said = ", ".join(filter(None, second))
        lines += [first, *([f"{'  ' * row.get('indent', 0)}    {said}"] if said else [])]
    return lines


def _compact(row: dict[str, Any], short: dict[int, str]) -> str:
    return "[" + ", ".join(short[dim] for dim in row["dims"]) + "]"


def _spread(row: dict[str, Any], short: dict[int, str], columns: dict[int, int], widths: list[int]) -> str:
    """Like `_compact`, with each dim under its column."""
    cells = ["" for _ in widths]
    for axis, dim in enumerate(row["dims"]):
        cells[columns[dim]] = short[dim] + (", " if axis < len(row["dims"]) - 1 else "]")
    return (
        "["
        + "".join(f"{cell:<{width + 2}}" for cell, width in zip(cells, widths)).rstrip()
        + ("]" if not row["dims"] else "")
    )
