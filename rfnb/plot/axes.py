"""The axes that a plot is put on, and their size."""

from __future__ import annotations

from typing import Any


def axes_or_current(ax: Any) -> Any:
    """The given axes; without any the current ones of pyplot, which is loaded for that alone."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.gca()


def size_in_points(ax: Any) -> tuple[float, float]:
    """Width and height, in 1/72 inch, as they are now."""
    box = ax.get_window_extent()
    return box.width * 72 / ax.figure.dpi, box.height * 72 / ax.figure.dpi
