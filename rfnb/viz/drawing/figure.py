"""A drawing as matplotlib artists: on existing axes, or on its own figure for a PDF. Imported on first use, without pyplot.

Text is drawn by matplotlib in its fonts, and never parsed as a formula.
"""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np

from rfnb.core.strict_json import JsonObject
from rfnb.viz.drawing.png import dashes, missing_dots
from rfnb.viz.drawing.shapes import Area, Cells, Drawing, Hatch, Lines, Marks, Rect, Shape, Text
from rfnb.viz.drawing.theme import Theme
from rfnb.viz.visible_text import line

HATCHES = {"padding": "////", "mask": "xxxx"}
MARKERS = {"dot": "o", "ring": "o", "square": "s", "up": "^", "down": "v", "cross": "x"}
_HALVES = {"left": "left", "middle": "center", "right": "right"}


def pdf(drawing: Drawing, theme: Theme, scale: float) -> bytes:
    """The bytes of a PDF file, vector except for cells.

    Args:
        scale: Points (1/72 inch) per unit of the drawing.
    """
    import matplotlib
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.figure import Figure

    figure = Figure(figsize=(drawing.width * scale / 72, drawing.height * scale / 72), facecolor=theme.hex("paper"))
    FigureCanvasPdf(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    draw_on(axes, drawing, theme, scale)
    out = io.BytesIO()
    with warnings.catch_warnings(), matplotlib.rc_context({"pdf.fonttype": 42}):  # searchable text
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(out, format="pdf", facecolor=theme.hex("paper"), metadata={"CreationDate": None})
    return out.getvalue()


def draw_on(axes: Any, drawing: Drawing, theme: Theme, scale: float) -> None:
    """Put a drawing on axes, which get its units and no frame.

    Args:
        scale: Points per unit, for line widths and font sizes.
    """
    axes.set_xlim(0, drawing.width)
    axes.set_ylim(drawing.height, 0)
    axes.set_aspect("auto")
    before = set(axes.get_children())
    for number, shape in enumerate(drawing.shapes):
        _Artist(axes, theme, scale, 2 + number * 1e-4).add(shape)
    for artist in set(axes.get_children()) - before:
        artist.set_in_layout(False)  # it is inside the axes; otherwise a layout would reserve more room for it
    axes.set_axis_off()


def color_map(theme: Theme, ramp: str) -> Any:
    """A ramp as a colour map; NaN is transparent."""
    from matplotlib.colors import ListedColormap

    colors = np.array(theme.table(ramp)[1:]) / 255
    return ListedColormap(colors, name=f"rfnb-{ramp}").with_extremes(bad=(1, 1, 1, 0))


class _Artist:
    """Makes the artists of one shape."""

    def __init__(self, axes: Any, theme: Theme, scale: float, zorder: float):
        self.axes, self.theme, self.scale, self.zorder = axes, theme, scale, zorder

    def add(self, shape: Shape) -> None:
        """Put the artists of a shape on the axes."""
        getattr(self, f"_{type(shape).__name__.lower()}")(shape)

    def _rect(self, shape: Rect) -> None:
        from matplotlib.patches import FancyBboxPatch, Rectangle

        inset = shape.line / 2 if shape.stroke else 0.0
        box = (shape.x + inset, shape.y + inset), shape.width - 2 * inset, shape.height - 2 * inset
        if box[1] <= 0 or box[2] <= 0:
            return
        style: JsonObject = {
            "facecolor": self.theme.hex(shape.fill) if shape.fill else "none",
            "edgecolor": self.theme.hex(shape.stroke) if shape.stroke else "none",
            "linewidth": shape.line * self.scale if shape.stroke else 0,
            "zorder": self.zorder,
        }
        if shape.radius:
            radius = min(shape.radius, box[1] / 2, box[2] / 2)
            self.axes.add_patch(FancyBboxPatch(*box, boxstyle=f"round,pad=0,rounding_size={radius:g}", **style))
        else:
            self.axes.add_patch(Rectangle(*box, **style))

    def _cells(self, shape: Cells) -> None:
        if not shape.bytes.size:
            return
        colors = np.array([[*color, 255] for color in self.theme.table(shape.ramp)], np.uint8)
        colors[0, 3] = 0
        box = (shape.x, shape.x + shape.width, shape.y + shape.height, shape.y)
        limits = self.axes.get_xlim(), self.axes.get_ylim()
        # Not resampled: a PDF contains the original cells.
        self.axes.imshow(colors[shape.bytes], extent=box, interpolation="none", aspect="auto", zorder=self.zorder)
        self.axes.set_xlim(limits[0])
        self.axes.set_ylim(limits[1])

    def _lines(self, shape: Lines) -> None:
        from matplotlib.collections import LineCollection

        paths = [piece for path in shape.paths for piece in (dashes(path, shape.dash) if shape.dash else [path])]
        style = {"colors": self.theme.hex(shape.color), "linewidths": shape.width * self.scale, "alpha": shape.alpha}
        self.axes.add_collection(
            LineCollection([np.array(path) for path in paths], capstyle="butt", zorder=self.zorder, **style),
            autolim=False,
        )

    def _area(self, shape: Area) -> None:
        from matplotlib.collections import PolyCollection

        paths = [np.array(path) for path in shape.paths]
        style: JsonObject = {"facecolors": self.theme.hex(shape.color), "edgecolors": "none", "alpha": shape.alpha}
        self.axes.add_collection(PolyCollection(paths, zorder=self.zorder, **style), autolim=False)

    def _marks(self, shape: Marks) -> None:
        if not shape.points:
            return
        color = self.theme.hex(shape.color)
        fill = (
            {"facecolors": self.theme.hex("paper"), "edgecolors": color} if shape.shape == "ring" else {"color": color}
        )
        xs, ys = zip(*shape.points)
        width = 1.4 * self.scale if shape.shape in ("ring", "cross") else 0
        area = (2 * shape.radius * self.scale) ** 2
        self.axes.scatter(xs, ys, s=area, marker=MARKERS[shape.shape], linewidths=width, zorder=self.zorder, **fill)

    def _hatch(self, shape: Hatch) -> None:
        if shape.pattern == "missing":
            self._marks(Marks("hatch", missing_dots(shape), 1.0))
        elif shape.width > 0 and shape.height > 0:
            hatch(self.axes, (shape.x, shape.y, shape.width, shape.height), self.theme, shape.pattern, self.zorder)

    def _text(self, shape: Text) -> None:
        from matplotlib.patheffects import withStroke

        halo = [withStroke(linewidth=3 * self.scale, foreground=self.theme.hex("paper"))] if shape.halo else None
        self.axes.text(
            shape.x, shape.y, line(shape.text), fontsize=shape.size * self.scale, color=self.theme.hex(shape.color),
            ha=_HALVES[shape.anchor], va="center_baseline", rotation=shape.turn, rotation_mode="anchor",
            fontweight="bold" if shape.bold else "normal", family="DejaVu Sans Mono" if shape.mono else "DejaVu Sans",
            path_effects=halo, parse_math=False, zorder=self.zorder,
        )  # fmt: skip


def hatch(axes: Any, box: tuple[float, float, float, float], theme: Theme, pattern: str, zorder: float = 2.0) -> None:
    """Hatch a region of axes without values: x, y, width, height."""
    from matplotlib.patches import Rectangle

    x, y, width, height = box
    style: JsonObject = {"facecolor": "none", "edgecolor": theme.hex("hatch"), "linewidth": 0, "zorder": zorder}
    axes.add_patch(Rectangle((x, y), width, height, hatch=HATCHES[pattern], **style))
