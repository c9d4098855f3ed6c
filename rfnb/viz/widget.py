"""The widget of a view: the only file that imports anywidget and ipywidgets.

One *carrier* model holds the bundle for all views of a kernel; a view itself has only a small loader and its style
sheet. A saved notebook thus stores the bundle once, and all views of a page share one module (and so one selection). In
marimo each view has its own carrier: a comm there ends with the cell that opened it, and belongs to one visitor of an
app. Its page identifies modules by their text.

Frames and messages use a *channel*, a plain ipywidgets model: an anywidget model silently stops receiving if its page
took longer than two seconds to load it (0.11), and a view would keep its first frame. A page requests exact values by a
custom message, and gets them as one buffer; synced traits would be stored with the notebook.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from ipywidgets import CoreWidget, Widget, widget_serialization

STATIC = Path(__file__).parent / "static"

# References in the form of ipywidgets (so that saved state includes them), converted to those of anywidget, which waits
# ten seconds for the bundle.
_LOADER = """export default {
  initialize: ({ model }) => void (async () => model.send({ rfnb: "here" }))().catch(() => {}),
  async render({ model, el, signal, host }) {
    const say = (text) => void (el.textContent = text);
    if (!host?.getWidget)
      return say("This view needs anywidget 0.11 where JupyterLab runs: pip install --upgrade anywidget there, then reload the page.");
    const ref = (name) => String(model.get(name)).replace("IPY_MODEL_", "anywidget:");
    for (let left = 12; !signal.aborted; left--)
      try {
        const [carrier, channel] = [await host.getWidget(ref("_carrier")), await host.getModel(ref("_channel"))];
        return carrier.exports.render({ model: channel, el, signal });
      } catch (error) {
        if (!left && !signal.aborted) return say(`This view was not loaded: ${error}. Reload the page, or run the cell again.`);
      }
  },
};"""


class Carrier(anywidget.AnyWidget):
    """Holds the bundle; never displayed."""

    _esm = STATIC / "rfnb.js"


class Channel(CoreWidget):
    """The model through which a view and its pages exchange messages; in a saved page it keeps the bytes of the frame."""

    _model_name = traitlets.Unicode("ImageModel").tag(sync=True)
    _model_module = traitlets.Unicode("@jupyter-widgets/controls").tag(sync=True)
    value = traitlets.Bytes(b"").tag(sync=True)


class ViewWidget(anywidget.AnyWidget):
    """Shows the newest frame of its channel."""

    _esm = _LOADER
    _css = STATIC / "rfnb.css"  # each view has its own: that of the carrier is invisible inside a shadow root (marimo)
    _carrier = traitlets.Instance(Widget).tag(sync=True, **widget_serialization)
    _channel = traitlets.Instance(Widget).tag(sync=True, **widget_serialization)
    _is_here = _ends = False

    @property
    def frame(self) -> bytes:
        """The current frame."""
        return self._channel.value

    @frame.setter
    def frame(self, frame: bytes) -> None:
        self._channel.value = frame

    def send(self, content: Any, buffers: Any = None) -> None:
        """Send a message to its pages."""
        self._channel.send(content, buffers)

    def close(self) -> None:
        """Close both comms."""
        self._channel.close()
        super().close()

    @property
    def is_closed(self) -> bool:
        """Whether the host closed it: marimo does so when the cell that displayed it runs again."""
        return bool(getattr(self.comm, "_closed", True))

    def end(self) -> None:
        """Close it once a page has loaded it: closing it while anywidget loads it would cause an error in the console."""
        self._ends = True
        if self._is_here:
            self.close()

    def loaded(self, *_: Any) -> None:
        """Called when a page has loaded it."""
        self._is_here = True
        if self._ends:
            self.close()


_carrier: Carrier | None = None


_NOBODY = {  # the answer to a page whose view is gone: no values, and the reason
    "exact": {"rfnb": "exact"},
    "whole": {"rfnb": "whole"},
    "do": {"rfnb": "did", "said": "This run no longer exists."},
}
Hear = Callable[[dict[str, Any], Callable[..., None]], None]


def make_widget(frame: bytes, hear: Hear) -> ViewWidget:
    """A widget that shows `frame`; assign `widget.frame` to show another.

    Args:
        hear: A bound method, called with a message of a page and a function that sends one. Its object is held weakly.
    """
    widget = ViewWidget(_carrier=_carrier_of_host(), _channel=(channel := Channel(value=frame)))
    widget.on_msg(ViewWidget.loaded)
    _answer_at_once(channel)
    heard = weakref.WeakMethod(hear)

    def asked(channel: Channel, content: Any, buffers: Any) -> None:
        now = heard()
        if not isinstance(content, dict):
            return
        if now is not None:
            now(content, channel.send)
        else:
            channel.send(_NOBODY.get(str(content.get("rfnb")), {}) | {"id": content.get("id")})

    channel.on_msg(asked)
    return widget


def _carrier_of_host() -> Carrier:
    global _carrier
    marimo = sys.modules.get("marimo")
    if marimo is not None and marimo.running_in_notebook():
        return Carrier()
    if _carrier is None or getattr(_carrier.comm, "_closed", True):
        _carrier = Carrier()
    return _carrier


def _answer_at_once(channel: Channel) -> None:
    """Let a page choose the thread that handles its messages, so that a running cell does not delay them.

    ipykernel 7.4 routes a message to the (sub)shell that last published on its comm, which is that of the cell that
    made the widget, as long as it runs. The method that decides this is private; versions without it need no change.
    """
    comm = channel.comm
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
