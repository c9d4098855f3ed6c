"""The lines of the `dims` view about values: bytes, and statistics over real frames (never the padding)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.dim_mask import real_entries
from rfnb.core.foreign_arrays import refusal
from rfnb.core.strict_json import JsonObject
from rfnb.viz.dims import table as words
from rfnb.viz.rounding import significant
from rfnb.viz.spec import single
from rfnb.viz.terminal import clip, columns_of
from rfnb.viz.visible_text import visible

MOST_CELLS = 1 << 26  # beyond this, values are not copied to the host just to be described


def bytes_of(tensor: Any) -> int | None:
    """Bytes of the raw array, including padding; None if a size or the dtype is unknown."""
    width = _width(tensor.dtype)
    if width is None or not all(dim.is_dim_known() for dim in tensor.dims):
        return None
    return int(np.prod([dim.extent for dim in tensor.dims], dtype=np.int64)) * width


def stats_of(tensor: Any) -> JsonObject | None:
    """Statistics for the spec; None for a template, an empty, very large or non-numeric tensor.

    `min`, `max`, `mean` are over the finite real values (None if there are none); `nan` and `inf` are counts; `cells`
    counts all cells, `valid` those outside the padding, `padding_odd` NaN and infinity in the padding, if there are
    any.
    """
    raw = tensor.raw_tensor
    if raw is None or refusal(raw) or int(np.prod([dim.extent for dim in tensor.dims], dtype=np.int64)) > MOST_CELLS:
        return None
    values = np.asarray(tensor.numpy())
    if values.dtype.kind not in "biuf":
        return None
    return array_stats(values, real_entries(tensor.dims))


def array_stats(values: np.ndarray, mask: np.ndarray | None = None) -> JsonObject:
    """The same for an array; `mask` is True where a value is real."""
    real = values if mask is None else values[np.broadcast_to(mask, values.shape)]
    real = real.astype(np.float64).ravel()
    finite = real[np.isfinite(real)]
    nan, inf = int(np.isnan(real).sum()), int(np.isinf(real).sum())
    odd = int((~np.isfinite(values)).sum()) - nan - inf if values.dtype.kind == "f" and mask is not None else 0
    known = {"min": finite.min, "max": finite.max, "mean": finite.mean} if finite.size else {}
    return {
        **{name: float(known[name]()) if known else None for name in ("min", "max", "mean")},
        "nan": nan,
        "inf": inf,
        "valid": int(real.size),
        "cells": int(values.size),
        **({"padding_odd": odd} if odd else {}),
    }


def lengths_of(dim: Dim) -> list[int] | None:
    """The lengths of a ragged dim, one per sequence; None for other dims."""
    if dim.is_static() or dim.lengths is None or not dim.length_dims:
        return None
    mask = real_entries(dim.length_dims)
    lengths = np.asarray(dim.lengths)
    return [int(length) for length in (lengths.ravel() if mask is None else lengths[mask])]


def _width(dtype: str | None) -> int | None:
    if dtype == "bfloat16":
        return 2
    try:
        return np.dtype(dtype).itemsize if dtype else None
    except TypeError:
        return None


MOST, MOST_COLUMNS, MOST_DIMS = 400, 24, 3  # cells, cells per row, dims


def values_table(tensor: Any, ids: list[int]) -> tuple[JsonObject | None, dict[str, np.ndarray]]:
    """The head of the table and its blocks; None for a scalar, whose value is in the row, and for a large tensor."""
    sizes = [dim.extent for dim in tensor.dims]
    if not 1 <= len(sizes) <= MOST_DIMS or not 0 < np.prod(sizes) <= MOST or sizes[-1] > MOST_COLUMNS:
        return None, {}
    values = np.asarray(tensor.numpy())
    whole = values.dtype.kind in "biu"
    if whole and (np.abs(values.astype(np.float64)) >= 1 << 24).any():  # not exact as float32
        return None, {}
    mask = real_entries(tensor.dims)
    real = np.ones(sizes, np.uint8) if mask is None else mask.astype(np.uint8)
    head: JsonObject = {"dims": list(ids), "block": "values", "real": "real"}
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
    """(the fixed coordinates of a table, its rows with their coordinates): the last dim runs to the right."""
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
    """Four significant digits; NaN and infinities by name."""
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e7 else significant(float(value), 4)


def lines(spec: Any) -> list[str]:
    """The tables for terminals with 80 columns."""
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
