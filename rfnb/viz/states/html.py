"""The `states` view as a picture: per track a strip of units by steps, with the norm below."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from rfnb.viz import picture
from rfnb.viz.states.check import warnings
from rfnb.viz.states.text import norms, problem

_MOST_SEQS = 3


def html(spec: Any) -> str:
    """The states as HTML without script, style or inline SVG: a picture per sequence."""
    head = spec.head
    fault = problem(spec)
    if fault:
        return f"<p>{escape(fault)}</p>"
    title = escape(str(head.get("title", "States")))
    if not head["tracks"] or not head["seqs"]:
        return f"<p>{title}: no states{' yet' if head.get('live') else ''}</p>"
    parts = [f"<p><b>{title}</b></p>"]
    for index, seq in enumerate(head["seqs"][:_MOST_SEQS]):
        parts.append(
            f"<p>{escape(str(seq['label']))}</p>\n{picture.img(_figure(spec, index), description(spec, index))}"
        )
    if len(head["seqs"]) > _MOST_SEQS:
        parts.append(f"<p>{_MOST_SEQS} of {len(head['seqs'])} sequences</p>")
    parts += [f"<p><b>!</b> {escape(warning)}</p>" for warning in warnings(spec)]
    return "\n".join(parts)


def description(spec: Any, index: int) -> str:
    """The picture in words."""
    seq = spec.head["seqs"][index]
    words = f"States of {seq['label']} over {seq['len']} steps."
    for track in spec.head["tracks"]:
        values = spec.blocks[track["block"]][index, : seq["len"]]
        finite = values[np.isfinite(values)]
        span = f"values from {finite.min():.3g} to {finite.max():.3g}" if finite.size else "no values"
        words += f" {track['label']}: {track['unit_dim']['name']}={values.shape[1]}, {span}."
    return words


def _figure(spec: Any, index: int) -> Any:
    head = spec.head
    seq = head["seqs"][index]
    total = max(spec.blocks[track["block"]].shape[1] for track in head["tracks"])
    width = min(max(0.3 * total, 2.5), 8.5)
    heights: list[float] = []
    for track in head["tracks"]:
        heights += [min(max(0.028 * spec.blocks[track["block"]].shape[2], 0.7), 2.4), 0.5]
    figure = picture.new_figure(width + 1.9, sum(heights) + 0.55 * len(head["tracks"]) + 0.5)
    grid = np.atleast_1d(figure.subplots(len(heights), 1, sharex=True, gridspec_kw={"height_ratios": heights}))
    for number, track in enumerate(head["tracks"]):
        values = spec.blocks[track["block"]][index]
        _strip(figure, grid[2 * number], values, seq, track)
        _norm(grid[2 * number + 1], values, seq)
    labels = [*seq["steps"]][: seq["len"]]
    at, texts = picture.ticks(labels, width / 0.2)
    turned = max((len(text) for text in texts), default=0) * 0.07 > width / max(total, 1) * max(
        1, len(labels) // max(len(at), 1)
    )
    grid[-1].set_xticks(at, texts, rotation=90 if turned else 0, fontsize=8.5)
    return figure


def _strip(figure: Any, axes: Any, values: np.ndarray, seq: dict[str, Any], track: dict[str, Any]) -> None:
    steps, units = values.shape
    shown = values.astype(np.float64)
    shown[seq["len"] :] = np.nan
    finite = shown[np.isfinite(shown)]
    most = float(np.abs(finite).max(initial=0.0)) or 1.0
    shown = shown / most  # matplotlib computes in the type of the array, which the span of huge values exceeds
    image = axes.imshow(
        shown.T, cmap=picture.color_map(picture.DIVERGING), vmin=-1, vmax=1, aspect="auto",
        interpolation="nearest", extent=(-0.5, max(steps, 1) - 0.5, max(units, 1) - 0.5, -0.5), zorder=1,
    ) if shown.size else None  # fmt: skip
    picture.hatch(axes, seq["len"] - 0.5, -0.5, steps - 0.5, units - 0.5)
    axes.set_title(
        picture.plain(f"{track['label']}: {track['unit_dim']['name']}={units}"),
        fontsize=9,
        loc="left",
        color=picture.INK,
    )
    picture.frameless(axes)
    axes.set_yticks([0, units - 1] if units > 1 else [0])
    axes.tick_params(labelsize=7.5)
    if image is not None:
        bar = figure.colorbar(image, ax=axes, fraction=0.05, pad=0.01, aspect=12)
        bar.outline.set_visible(False)
        bar.set_ticks([-1, 0, 1])
        bar.ax.set_yticklabels([f"{-most:.2g}", "0", f"{most:.2g}"])
        bar.ax.tick_params(length=0, labelsize=7.5, labelcolor=picture.MUTED)


def _norm(axes: Any, values: np.ndarray, seq: dict[str, Any]) -> None:
    norm = norms(values[: seq["len"]])
    axes.plot(
        range(len(norm)),
        norm,
        color=picture.SEQUENTIAL[6],
        linewidth=1.2,
        marker="o" if len(norm) < 40 else "",
        markersize=3,
    )
    finite = norm[np.isfinite(norm)]
    axes.set_ylim(0, (float(finite.max(initial=0.0)) or 1.0) * 1.15)
    axes.set_ylabel("norm", fontsize=7.5, color=picture.MUTED)
    axes.tick_params(labelsize=7.5)
    picture.frameless(axes)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
