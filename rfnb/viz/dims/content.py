"""The `dims` view as plain HTML tables, readable without styles."""

from __future__ import annotations

from typing import Any

from rfnb.core.strict_json import JsonObject
from rfnb.viz.dims import table, values
from rfnb.viz.dims.table import folded
from rfnb.viz.kinds import title_of
from rfnb.viz.markup import code, sentences, title
from rfnb.viz.markup import table as html_table
from rfnb.viz.terminal import WIDTH, aligned, width_of

_DEEPEST = 40  # maximal indentation of rows


def _indent(row: JsonObject) -> int:
    """The level of a row; a damaged spec may contain any value."""
    return min(row.get("indent", 0), _DEEPEST)


def problem(spec: Any) -> str | None:
    """The problem with the head of a `dims` spec, as a sentence; None if it can be drawn."""
    head = spec.head
    if not isinstance(head.get("dims"), list) or not isinstance(head.get("rows"), list):
        return "These dims cannot be drawn: the lists of dims and rows are missing."
    ids = {entry.get("id") for entry in head["dims"] if isinstance(entry, dict)}
    for index, row in enumerate(head["rows"]):
        if not isinstance(row, dict) or not isinstance(row.get("dims"), list):
            return f"These dims cannot be drawn: row {index} has no list of dims."
        for dim in [*row["dims"], *([] if row.get("sparse") is None else [row["sparse"]])]:
            if dim not in ids:
                return f"These dims cannot be drawn: row {index} names dim {dim}, which is not in the list of dims."
    for fold in head.get("folds") or []:
        whole = isinstance(fold, dict) and all(isinstance(fold.get(name), int) for name in ("first", "rows", "count"))
        if not whole or not 0 <= fold["first"] < fold["first"] + fold["rows"] * fold["count"] <= len(head["rows"]):
            return "These dims cannot be drawn: rows are folded that are not there."
    return None


def page(spec: Any) -> list[str]:
    """The dims as HTML."""
    head = spec.head
    parts = [*code(str(head.get("failure") or "")), title(title_of(spec))]
    if head["rows"]:
        parts.append(_tensors({**head, "rows": folded(head)}))
    if table.has_legend(head):
        parts.append(_legend(head["dims"]))
    for name, (top, *rows) in values.tables(spec):
        parts += [*sentences([name] if name else []), html_table(rows, top, named=True)]
    return [*parts, *code(str(head.get("mend") or ""))]


def _legend(entries: list[JsonObject]) -> str:
    sizes, rows = table.sizes_of(entries), []
    for entry in entries:
        lengths = entry.get("lengths") or []
        cells = [
            f"{table.GLYPHS[entry['id'] % 8]}\u00a0{sizes[entry['id']]}",
            table.about(entry),
            f"{table.bars(lengths)} {table.lengths_text(lengths)}" if lengths else "",
            table.waste_text(lengths),
        ]
        rows.append(cells)
    return _table(["dim", "kind", "lengths", "padding"], rows)


def _tensors(head: JsonObject) -> str:
    plain, columns = table.sizes_of(head["dims"]), table.columns_of(head["rows"])
    short = {id: f"{table.GLYPHS[id % 8]}\u00a0{text}" for id, text in plain.items()}
    count = max(columns.values(), default=-1) + 1
    rows = []
    for row in head["rows"]:
        cells = [""] * count
        for dim in row["dims"]:
            cells[columns[dim]] = short[dim]
        said = table.remarks(row, plain, table.stored(row, columns, plain))
        label = "\u2003" * _indent(row) + str(row.get("label", ""))
        rows.append([label, *cells, *_kind(row, "\u00a0"), table.stats_text(row.get("stats")), said])
    titles = [f"dim {index + 1}" if count > 1 else "dim" for index in range(count)]
    return _table(["", *titles, "dtype", "device", "bytes", "values", ""], rows)


def _table(titles: list[str], rows: list[list[str]]) -> str:
    """A table without its empty columns."""
    keep = [column for column in range(len(titles)) if any(row[column] for row in rows)]
    return html_table([[row[column] for column in keep] for row in rows], [titles[column] for column in keep])


_MOST_NAME, _MOST_DIMS = 32, 60


def text(spec: Any) -> str:
    """The dims as text for a terminal."""
    head = spec.head
    lines = [str(head["failure"]), ""] if head.get("failure") else []
    lines += [title_of(spec)]
    lines += _legend_lines(head["dims"])
    if head["rows"]:
        lines += [""] + _rows({**head, "rows": folded(head)})
    lines += values.lines(spec)
    lines += ["", str(head["mend"])] if head.get("mend") else []
    return "\n".join(line.rstrip() for line in lines)


def _legend_lines(entries: list[JsonObject]) -> list[str]:
    sizes, rows = table.sizes_of(entries), []
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
                sizes[entry["id"]],
                entry.get("kind") or "",
                note,
            ]
        )
    return aligned(rows, _MOST_NAME)


def _rows(head: JsonObject) -> list[str]:
    short, columns = table.sizes_of(head["dims"]), table.columns_of(head["rows"])
    widths = [0] * (max(columns.values(), default=-1) + 1)
    for row in head["rows"]:
        for dim in row["dims"]:
            widths[columns[dim]] = max(widths[columns[dim]], len(short[dim]))
    out, details = [], []
    for row in head["rows"]:
        permuted = table.is_permuted(row, columns)
        dims = table.compact(row, short) if permuted else _spread(row, short, columns, widths)
        indent = "  " * _indent(row)
        heading = row.get("dtype") is None and not row["dims"]
        out.append([indent + str(row.get("label", "")), "" if heading else dims, *_kind(row, " ")])
        details.append(
            [table.stats_text(row.get("stats")), table.remarks(row, short, "other order" if permuted else "")]
        )
    whole = aligned([[*first, *second] for first, second in zip(out, details)], _MOST_DIMS)
    if max(width_of(line, WIDTH + 1) for line in whole) <= WIDTH:
        return whole
    # Too wide for a terminal: the statistics follow below.
    lines = []
    for row, first, second in zip(head["rows"], aligned(out, _MOST_DIMS), details):
        said = ", ".join(filter(None, second))
        lines += [first, *([f"{'  ' * _indent(row)}    {said}"] if said else [])]
    return lines


def _kind(row: JsonObject, space: str) -> list[str]:
    """The dtype, the device and the bytes of a row."""
    return [row.get("dtype") or "", row.get("device") or "", table.bytes_text(row.get("bytes")).replace(" ", space)]


def _spread(row: JsonObject, short: dict[int, str], columns: dict[int, int], widths: list[int]) -> str:
    """Like `table.compact`, with each dim in its column."""
    cells = ["" for _ in widths]
    for axis, dim in enumerate(row["dims"]):
        cells[columns[dim]] = short[dim] + (", " if axis < len(row["dims"]) - 1 else "]")
    return (
        "["
        + "".join(f"{cell:<{width + 2}}" for cell, width in zip(cells, widths)).rstrip()
        + ("]" if not row["dims"] else "")
    )
