"""The values of a small tensor as tables with named coordinates; rows end where a sequence ends.

table = {dims: [id, ...], block}: the block "values" is float32 in the order of the dims; NaN past the end of a sequence is padding
lengths = the block "real", uint8 of the same shape: 1 for what is no padding
labels = of dims that are vocabularies, by place: what their coordinates are called
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rfnb.viz.dims import table as words
from rfnb.viz.dims.values import valid_mask
from rfnb.viz.rounding import significant
from rfnb.viz.spec import single
from rfnb.viz.terminal import clip, columns_of
from rfnb.viz.visible import visible

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
    head: dict[str, Any] = {"dims": list(ids), "block": "values", "real": "real"}
    vocabs = [getattr(dim, "vocab", None) for dim in tensor.dims]
    if labels := {
        str(i): [str(vocab[at]) for at in range(size)]
        for i, (vocab, size) in enumerate(zip(vocabs, sizes))
        if vocab is not None and len(vocab) >= size
    }:
        head["labels"] = labels
    return head, {
        "values": single(values),
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
    names, given = words.names_of(spec.head["dims"]), table.get("labels") or {}
    dims = [names[dim] for dim in table["dims"]]
    labels = [[visible(label) for label in given.get(str(i), [])] for i in range(len(dims))]
    if values.ndim == 1:
        values, real, dims, labels = values[None], real[None], ["", *dims], [[], *labels]

    def called(dim: int, at: int) -> str:
        return labels[dim][at] if at < len(labels[dim]) else str(at)

    for place in np.ndindex(values.shape[:-2]):
        title = ", ".join(f"{name} {called(dim, at)}" for dim, (name, at) in enumerate(zip(dims, place)))
        top = [f"{dims[-1]} →", *(called(len(dims) - 1, at) for at in range(values.shape[-1]))]
        rows = [top]
        for number, (line, is_real) in enumerate(zip(values[place], real[place])):
            cells = [cell_text(value) if there else "" for value, there in zip(line, is_real)]
            rows.append([f"{dims[-2]} {called(len(dims) - 2, number)}" if dims[-2] else "", *cells])
        yield title, rows


def cell_text(value: float) -> str:
    """Four significant digits; what is no number by its name."""
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e7 else significant(float(value), 4)


def lines(spec: Any) -> list[str]:
    """The tables for terminals, of 80 columns."""
    out: list[str] = []
    for title, rows in tables(spec):
        widths = [max(columns_of(row[column]) for row in rows) for column in range(len(rows[0]))]
        pad = lambda cell, wide: " " * (wide - columns_of(cell))  # noqa: E731
        out += ["", *([title] if title else [])]
        for row in rows:
            cells = [pad(cell, wide) + cell for cell, wide in zip(row[1:], widths[1:])]
            line = "  ".join([row[0] + pad(row[0], widths[0]), *cells])
            out.append(line.rstrip() if columns_of(line) <= 80 else clip(line, 80).rstrip())
    return out
