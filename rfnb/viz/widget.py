"""The widget of a view: the only file that imports anywidget and ipywidgets.

One *carrier* model holds the bundle for all views of a kernel; a view itself carries only a loader of 200 bytes, its style sheet
and its frame. Saved notebooks thus hold the bundle once, and all views of a page share one module (and so one selection).
A page asks for exact values by a custom message, and gets them as one buffer; synced traits would be stored with the notebook.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
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


_NOBODY = {  # to a page whose view is gone: no values, and why nothing is done
    "exact": {"rfnb": "exact"},
    "whole": {"rfnb": "whole"},
    "do": {"rfnb": "did", "said": "Nobody has this run any more."},
}
Hear = Callable[[dict[str, Any], Callable[..., None]], None]


def make_widget(frame: bytes, hear: Hear) -> ViewWidget:
    """A widget that shows `frame`; assign `widget.frame` to show another.

    Args:
        hear: A bound method: gets a message of a page, and a function that sends another one. What it is bound to may go away.
    """
    global _carrier
    if _carrier is None or _carrier.comm is None:
        _carrier = Carrier()
    widget = ViewWidget(_carrier=_carrier, frame=frame)
    _answer_at_once(widget)
    heard = weakref.WeakMethod(hear)

    def asked(widget: ViewWidget, content: Any, buffers: Any) -> None:
        now = heard()
        if not isinstance(content, dict):
            return
        if now is not None:
            now(content, widget.send)
        else:
            widget.send(_NOBODY.get(str(content.get("rfnb")), {}) | {"id": content.get("id")})

    widget.on_msg(asked)
    return widget


def _answer_at_once(widget: ViewWidget) -> None:
    """Let the page choose the thread that its messages are handled in, so that a running cell does not hold them up.

    ipykernel 7.4 routes a message to the (sub)shell that has last published on its comm, which is the one of the cell that made the
    widget, as long as that runs. Its method to decide that is private; where there is none, nothing needs to be done.
    """
    comm = widget.comm
    if comm is not None and hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda data, default: default


def view_data(widget: ViewWidget) -> dict[str, Any]:
    """The data that a display message needs to refer to the widget."""
    return {
        "application/vnd.jupyter.widget-view+json": {
            "version_major": 2,
            "version_minor": 0,
            "model_id": widget.model_id,
        }
    }
