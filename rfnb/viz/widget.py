"""The widget of a view: the only file that imports anywidget and ipywidgets.

One *carrier* model holds the bundle for all views of a kernel; a view itself carries only a loader of 200 bytes, its style sheet
and its frame. Saved notebooks thus hold the bundle once, and all views of a page share one module (and so one selection).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets
from ipywidgets import Widget, widget_serialization

STATIC = Path(__file__).parent / "static"

# ipywidgets' reference (so that saved state follows it), turned into anywidget's.
_LOADER = """export default { async render({ model, el, signal, host }) {
  const ref = String(model.get("_carrier")).replace("IPY_MODEL_", "anywidget:");
  return (await host.getWidget(ref)).exports.render({ model, el, signal });
} };"""


class Carrier(anywidget.AnyWidget):
    """Holds the bundle; never displayed."""

    _esm = STATIC / "rfnb.js"


class ViewWidget(anywidget.AnyWidget):
    """Shows one frame."""

    _esm = _LOADER
    _css = STATIC / "rfnb.css"  # each view its own: the carrier's is not seen inside a shadow root (marimo)
    _carrier = traitlets.Instance(Widget).tag(sync=True, **widget_serialization)
    frame = traitlets.Bytes(b"").tag(sync=True)


_carrier: Carrier | None = None


def make_widget(frame: bytes) -> ViewWidget:
    """A widget that shows `frame`; assign `widget.frame` to show another."""
    global _carrier
    if _carrier is None or _carrier.comm is None:
        _carrier = Carrier()
    return ViewWidget(_carrier=_carrier, frame=frame)


def view_data(widget: ViewWidget) -> dict[str, Any]:
    """The data that a display message needs to refer to the widget."""
    return {
        "application/vnd.jupyter.widget-view+json": {
            "version_major": 2,
            "version_minor": 0,
            "model_id": widget.model_id,
        }
    }
