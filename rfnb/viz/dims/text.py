"""The `dims` view as text: the dims, then one aligned line per tensor in the notation `[batch=3, time<=7, model=512]`."""

from __future__ import annotations

from typing import Any

from rfnb.viz.dims import table


def text(spec: Any) -> str:
    """The dims as text for a terminal."""
    head = spec.head
    fault = table.problem(head)
    if fault:
        return fault
    lines = [str(head["failure"]), ""] if head.get("failure") else []
    lines += [str(head.get("title", "Dims"))]
    lines += _legend(head["dims"])
    if head["rows"]:
        lines += [""] + _rows(head)
    return "\n".join(line.rstrip() for line in lines)


def aligned(rows: list[list[str]]) -> list[str]:
    """The rows as lines whose columns begin at the same place."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    keep = [column for column, width in enumerate(widths) if width]
    return ["  ".join(f"{row[column]:<{widths[column]}}" for column in keep).rstrip() for row in rows]


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
        rows.append(
            [
                " " + table.GLYPHS[entry["id"] % 8],
                table.size_text(entry, names[entry["id"]]),
                entry.get("kind") or "",
                note,
            ]
        )
    return aligned(rows) if rows else []


def _rows(head: dict[str, Any]) -> list[str]:
    by_id = {entry["id"]: entry for entry in head["dims"]}
    names = table.names_of(head["dims"])
    columns = table.columns_of(head["rows"])
    short = {dim: table.size_text(entry, names[dim]) for dim, entry in by_id.items()}
    widths = [0] * (max(columns.values(), default=-1) + 1)
    for row in head["rows"]:
        for dim in row["dims"]:
            widths[columns[dim]] = max(widths[columns[dim]], len(short[dim]))
    out = []
    for row in head["rows"]:
        permuted = table.is_permuted(row, columns)
        dims = _compact(row, short) if permuted else _spread(row, short, columns, widths)
        sparse = f"indices into {short[row['sparse']]}" if row.get("sparse") is not None else ""
        stats = row.get("stats")
        order = "other order" if permuted else ""
        remarks = [table.alarm_text(stats), row.get("note") or "", order, sparse, table.padding_text(stats)]
        label = "  " * row.get("indent", 0) + str(row.get("label", ""))
        heading = row.get("dtype") is None and not row["dims"]
        out.append(
            [
                label,
                "" if heading else dims,
                row.get("dtype") or "",
                row.get("device") or "",
                table.bytes_text(row.get("bytes")),
                table.stats_text(row.get("stats")),
                ", ".join(filter(None, remarks)),
            ]
        )
    return aligned(out)


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
