"""The `attention` view as a picture: one panel per map, or per sequence where there is one map."""

from __future__ import annotations

import math
from html import escape
from typing import Any

import numpy as np

from rfnb.viz import picture
from rfnb.viz.attention.check import remarks, warnings
from rfnb.viz.attention.text import problem, real, top
from rfnb.viz.visible import visible

_MOST_PANELS = 12


def html(spec: Any) -> str:
    """The weights as HTML without script, style or inline SVG."""
    head = spec.head
    fault = problem(spec)
    if fault:
        return f"<p>{escape(fault)}</p>"
    title = escape(str(head.get("title", "Attention")))
    panels = [(entry, index) for entry in head["maps"] for index in range(len(entry["seqs"]))]
    if len(head["maps"]) > 1:
        panels = [(entry, index) for entry, index in panels if index == 0]
    shown = panels[:_MOST_PANELS]
    if not shown:
        return f"<p>{title}: no weights{' yet' if head.get('live') else ''}</p>"
    figure = _figure(spec, shown)
    note = f"<p>{len(shown)} of {len(panels)} maps</p>" if len(panels) > len(shown) else ""
    notes = [f"<p><b>!</b> {escape(warning)}</p>" for warning in warnings(spec)]
    notes += [f"<p>{escape(remark)}</p>" for remark in remarks(spec)]
    return f"<p><b>{title}</b></p>\n{picture.img(figure, description(spec, shown))}{note}{''.join(notes)}"


def description(spec: Any, panels: list[tuple[dict[str, Any], int]]) -> str:
    """The picture in words: for each target, where most of the weight is."""
    entry, index = panels[0]
    seq = spec.head["seqs"][entry["seqs"][index]]
    values = real(spec, entry, index)
    words = (
        f"Attention, {entry['label']}, {seq['label']}: {seq['row_len']} target by {seq['col_len']} source positions."
    )
    rows = [row for row in range(values.shape[0]) if values.shape[1] and np.isfinite(values[row]).any()]
    most = [
        f"{visible(seq['rows'][row])} to {visible(seq['cols'][int(np.nanargmax(values[row]))])} {np.nanmax(values[row]):.2f}"
        for row in rows[:24]
    ]
    if most:
        words += f" Largest weights: {', '.join(most)}{', ...' if len(rows) > 24 else ''}."
    return words + (
        f" {len(panels)} panels: {', '.join(_label(spec, *panel) for panel in panels)}." if len(panels) > 1 else ""
    )


def _values(spec: Any, entry: dict[str, Any], index: int) -> np.ndarray:
    return spec.blocks[entry["block"]][index]


def _label(spec: Any, entry: dict[str, Any], index: int) -> str:
    names = [entry["label"]] if len(spec.head["maps"]) > 1 else []
    if len(entry["seqs"]) > 1 or not names:
        names.append(spec.head["seqs"][entry["seqs"][index]]["label"])
    return ", ".join(map(str, names))


def _figure(spec: Any, panels: list[tuple[dict[str, Any], int]]) -> Any:
    across = min(len(panels), 4 if len(panels) > 6 else 3 if len(panels) > 4 else 2)
    down = math.ceil(len(panels) / across)
    rows = max(_values(spec, *panel).shape[0] for panel in panels)
    cols = max(_values(spec, *panel).shape[1] for panel in panels)
    width, height = (_inches(size, across) for size in (cols, rows))
    figure = picture.new_figure(across * (width + 0.8) + 0.8, down * (height + 0.9))
    full = max(top(real(spec, *panel)) for panel in panels)
    grid = np.atleast_1d(figure.subplots(down, across, squeeze=False)).ravel()
    image = None
    for axes, panel in zip(grid, panels):
        image = _panel(axes, spec, *panel, full, (width, height), _label(spec, *panel)) or image
    for axes in grid[len(panels) :]:
        axes.axis("off")
    if image is not None:
        bar = figure.colorbar(image, ax=list(grid), shrink=min(1.0, 2.6 / (down * height)), aspect=22, pad=0.015)
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0, labelsize=7.5, labelcolor=picture.MUTED)
        bar.set_ticks([share * share for share in (0, 0.25, 0.5, 0.75, 1)])
        bar.ax.set_yticklabels([f"{share * share * full:.2g}" for share in (0, 0.25, 0.5, 0.75, 1)])
    return figure


def _inches(size: int, across: int) -> float:
    return min(max(0.3 * size, 0.6), 6.0 / min(across, 2) if across < 4 else 1.9)


def _panel(
    axes: Any, spec: Any, entry: dict[str, Any], index: int, full: float, size: tuple[float, float], label: str
) -> Any:
    from matplotlib.colors import PowerNorm

    seq = spec.head["seqs"][entry["seqs"][index]]
    values = _values(spec, entry, index).astype(np.float64) / full  # in float32 the span of huge values overflows
    rows, cols = values.shape
    row_len, col_len = min(seq["row_len"], rows), min(seq["col_len"], cols)
    axes.set_title(picture.plain(label), fontsize=9, color=picture.INK, loc="left")
    picture.frameless(axes)
    if not values.size:
        axes.text(0.5, 0.5, "empty", ha="center", va="center", color=picture.MUTED, transform=axes.transAxes)
        axes.set_xticks([])
        axes.set_yticks([])
        return None
    values[row_len:] = np.nan
    values[:, col_len:] = np.nan
    low = values[np.isfinite(values)].min(initial=0.0)
    norm = PowerNorm(0.5, vmin=float(low), vmax=1)
    aspect = "equal" if max(rows, cols) <= 4 * min(rows, cols) else "auto"
    image = axes.imshow(
        values, cmap=picture.color_map(picture.SEQUENTIAL), norm=norm, aspect=aspect, interpolation="nearest", zorder=1
    )
    picture.hatch(axes, col_len - 0.5, -0.5, cols - 0.5, rows - 0.5)
    picture.hatch(axes, -0.5, row_len - 0.5, col_len - 0.5, rows - 0.5)
    for row in range(row_len):
        if col_len and np.isnan(values[row, :col_len]).all() and rows <= 100:
            picture.hatch(axes, -0.5, row - 0.5, col_len - 0.5, row + 0.5, "..")
    at, labels = picture.ticks([*seq["cols"]][:col_len], size[0] / 0.17)
    turned = max((len(text) for text in labels), default=0) * 0.085 > size[0] / max(cols, 1) * max(
        1, cols // max(len(at), 1)
    )
    axes.set_xticks(at, labels, rotation=90 if turned else 0, fontsize=8.5)
    axes.xaxis.tick_top()
    axes.set_yticks(*picture.ticks([*seq["rows"]][:row_len], size[1] / 0.17), fontsize=8.5)
    # Thin lines between cells where cells are large.
    if max(rows, cols) <= 40:
        axes.set_xticks(np.arange(-0.5, cols), minor=True)
        axes.set_yticks(np.arange(-0.5, rows), minor=True)
        axes.grid(which="minor", color="white", linewidth=0.6)
        axes.tick_params(which="minor", length=0, top=False)
    return image
