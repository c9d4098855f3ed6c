"""The `dims` view as plain HTML tables, readable without styles."""

from __future__ import annotations

from html import escape
from typing import Any

from rfnb.viz.dims import small, table
from rfnb.viz.dims.folds import folded


def html(spec: Any) -> str:
    """The dims as HTML without script or style."""
    head = spec.head
    fault = table.problem(head)
    if fault:
        return f"<p>{escape(fault)}</p>"
    parts = [f"<pre>{escape(str(head['failure']))}</pre>"] if head.get("failure") else []
    parts.append(f"<p><b>{escape(str(head.get('title', 'Dims')))}</b></p>")
    if head["rows"]:
        parts.append(_tensors({**head, "rows": folded(head)}))
    if not head["rows"] or any(
        entry.get("lengths") or entry.get("kind") or entry.get("origin") for entry in head["dims"]
    ):
        parts.append(_legend(head["dims"]))
    parts += small.html_tables(spec)
    parts += [f"<pre>{escape(str(head['mend']))}</pre>"] if head.get("mend") else []
    return "\n".join(parts)


def _legend(entries: list[dict[str, Any]]) -> str:
    names = table.names_of(entries)
    rows = []
    for entry in entries:
        lengths = entry.get("lengths") or []
        cells = [
            f"{table.GLYPHS[entry['id'] % 8]}\u00a0{table.size_text(entry, names[entry['id']])}",
            ", ".join(filter(None, ["clashes" if entry.get("clash") else "", entry.get("kind"), entry.get("origin")])),
            f"{table.bars(lengths)} {table.lengths_text(lengths)}" if lengths else "",
            table.waste_text(lengths),
        ]
        rows.append(cells)
    return _table(["dim", "kind", "lengths", "padding"], rows)


def _tensors(head: dict[str, Any]) -> str:
    names = table.names_of(head["dims"])
    columns = table.columns_of(head["rows"])
    plain = {e["id"]: table.size_text(e, names[e["id"]]) for e in head["dims"]}
    short = {id: f"{table.GLYPHS[id % 8]}\u00a0{text}" for id, text in plain.items()}
    count = max(columns.values(), default=-1) + 1
    rows = []
    for row in head["rows"]:
        cells = [""] * count
        for dim in row["dims"]:
            cells[columns[dim]] = short[dim]
        order = (
            "stored as [" + ", ".join(plain[dim] for dim in row["dims"]) + "]"
            if table.is_permuted(row, columns)
            else ""
        )
        sparse = f"indices into {plain[row['sparse']]}" if row.get("sparse") is not None else ""
        stats = row.get("stats")
        said = [table.alarm_text(stats), row.get("note"), order, sparse, table.padding_text(stats)]
        label = "\u2003" * row.get("indent", 0) + str(row.get("label", ""))
        kind = [
            row.get("dtype") or "",
            row.get("device") or "",
            table.bytes_text(row.get("bytes")).replace(" ", "\u00a0"),
        ]
        rows.append([label, *cells, *kind, table.stats_text(stats), ", ".join(filter(None, said))])
    titles = [f"dim {index + 1}" if count > 1 else "dim" for index in range(count)]
    return _table(["", *titles, "dtype", "device", "bytes", "values", ""], rows)


def _table(titles: list[str], rows: list[list[str]]) -> str:
    """An HTML table without the columns in which nothing is said."""
    keep = [column for column in range(len(titles)) if any(row[column] for row in rows)]
    top = "".join(f"<th>{escape(titles[column])}</th>" for column in keep)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(row[column])}</td>" for column in keep) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>\n{body}\n</tbody></table>"
