"""Pictures for where no widget runs: PNG in an `<img>`, the only form that every viewer of notebooks shows.

The paper is opaque white, so that a picture is readable on a dark page too. matplotlib is loaded when a picture is made, without
pyplot: nothing changes in the user's own figures.
"""

from __future__ import annotations

import base64
import contextlib
import io
import warnings
from collections.abc import Iterator
from html import escape
from typing import Any

from rfnb.viz.visible import line, visible

INK, MUTED, LINE = "#1f2328", "#59636e", "#d8dee4"
# The ramps of widgets/src/color.ts at equal distances: one hue, evenly darker; blue to orange through the paper.
SEQUENTIAL = ("#f3f8ff", "#cfe4fc", "#a6cdf6", "#78b4ee", "#4a99e0", "#267dca", "#1061ab", "#094785", "#062c58")
DIVERGING = ("#014e8e", "#2a76c3", "#6da5e4", "#b6d2f3", "#f7f7f7", "#f4c4a4", "#df8a4b", "#af5b0b", "#753b07")
DPI = 110


def color_map(colors: tuple[str, ...]) -> Any:
    """A matplotlib colour map; NaN is transparent."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("rfnb", colors).with_extremes(bad=(1, 1, 1, 0))


def new_figure(width: float, height: float) -> Any:
    """An empty figure, sizes in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def hatch(axes: Any, left: float, top: float, right: float, bottom: float, pattern: str = "////") -> None:
    """Mark a part that holds no values."""
    from matplotlib.patches import Rectangle

    if right > left and bottom > top:
        area = Rectangle(
            (left, top),
            right - left,
            bottom - top,
            facecolor="#f6f8fa",
            edgecolor="#c4cbd2",
            hatch=pattern,
            linewidth=0,
            zorder=2,
        )
        axes.add_patch(area)


def frameless(axes: Any) -> None:
    """Thin grey frame, no tick marks, quiet labels."""
    axes.tick_params(length=0, labelcolor=INK)
    for spine in axes.spines.values():
        spine.set_color(LINE)


def ticks(labels: list[str], room: float) -> tuple[list[int], list[str]]:
    """The positions that get their label when `room` many fit."""
    every = max(1, -(-len(labels) // max(int(room), 1)))
    at = list(range(0, len(labels), every))
    return at, [plain(_short(visible(labels[index]))) for index in at]


def plain(text: str) -> str:
    """A text for matplotlib: all of it is seen, and a single $ is a letter, not the start of a formula."""
    return line(text).replace("$", r"\$")


def _short(label: str, most: int = 14) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Draw without alarm where matplotlib's font lacks a script (boxes are drawn), or long labels leave no room."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        warnings.filterwarnings("ignore", message="constrained_layout not applied")
        yield


def img(figure: Any, alt: str) -> str:
    """The figure as an `<img>` with its description."""
    buffer = io.BytesIO()
    with quiet():
        figure.savefig(buffer, format="png", metadata={"Software": None})
    data = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="{escape(alt, quote=True)}" src="data:image/png;base64,{data}">'
