"""The values of a small tensor as tables with named coordinates; rows end where a sequence ends.

table = {dims: [id, ...], block}: the block "values" is float32 in the order of the dims; NaN past the end of a sequence is padding
lengths = the block "real", uint8 of the same shape: 1 for what is no padding
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import numpy as np

from rfnb.viz.dims import table as words
from rfnb.viz.dims.values import valid_mask
from rfnb.viz.terminal import clip

MOST, MOST_COLUMNS, MOST_DIMS = 400, 24, 3  # cells, cells in a row


def values_table(tensor: Any, ids: list[int]) -> tuple[dict[str, Any] | None, dict[str, np.ndarray]]:
    """The head of the table and its blocks; None for a scalar, which says its value, and for a tensor that is not small."""
    sizes = [dim.extent for dim in tensor.dims]
    if not 1 <= len(sizes) <= MOST_DIMS or not 0 < np.prod(sizes) <= MOST or sizes[-1] > MOST_COLUMNS:
        return None, {}
    values = np.asarray(tensor.numpy())
    whole = values.dtype.kind in "biu"
    if whole and (np.abs(values.astype(np.float64)) >= 1 << 24).any():  # not exact as float32
        return None, {}
    mask = valid_mask(tensor.dims)
    real = np.ones(sizes, np.uint8) if mask is None else mask.astype(np.uint8)
    return {"dims": list(ids), "block": "values", "real": "real"}, {
        "values": values.astype(np.float32),
        "real": real,
    }


def tables(spec: Any) -> Iterator[tuple[str, list[list[str]]]]:
    """(what is the same for all of a table, its rows with their coordinates): the last dim goes to the right."""
    table = spec.head.get("table")
    if not table:
        return
    values, real = (spec.blocks.get(table.get(name)) for name in ("block", "real"))
    if values is None or real is None or values.shape != real.shape or len(values.shape) != len(table["dims"]):
        return
    names = words.names_of(spec.head["dims"])
    dims = [names[dim] for dim in table["dims"]]
    if values.ndim == 1:
        values, real, dims = values[None], real[None], ["", *dims]
    for place in np.ndindex(values.shape[:-2]):
        title = ", ".join(f"{name} {index}" for name, index in zip(dims, place))
        top = [f"{dims[-1]} →", *(str(index) for index in range(values.shape[-1]))]
        rows = [top]
        for number, (line, is_real) in enumerate(zip(values[place], real[place])):
            cells = [cell_text(value) if there else "" for value, there in zip(line, is_real)]
            rows.append([f"{dims[-2]} {number}" if dims[-2] else "", *cells])
        yield title, rows


def cell_text(value: float) -> str:
    """Four significant digits; what is no number by its name."""
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e7 else f"{value:.4g}"


def lines(spec: Any) -> list[str]:
    """The tables for terminals, of 80 columns."""
    out: list[str] = []
    for title, rows in tables(spec):
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        out += ["", *([title] if title else [])]
        for row in rows:
            line = "  ".join([row[0].ljust(widths[0]), *(cell.rjust(wide) for cell, wide in zip(row[1:], widths[1:]))])
            out.append(line.rstrip() if len(line) <= 80 else clip(line, 80).rstrip())
    return out


def html_tables(spec: Any) -> list[str]:
    """The tables as HTML."""
    out = []
    for title, (top, *rows) in tables(spec):
        out += [f"<p>{escape(title)}</p>"] if title else []
        heads = "".join(f"<th>{escape(cell)}</th>" for cell in top)
        body = "\n".join(
            f"<tr><th>{escape(row[0])}</th>" + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:]) + "</tr>"
            for row in rows
        )
        out.append(f"<table><thead><tr>{heads}</tr></thead><tbody>\n{body}\n</tbody></table>")
    return out
