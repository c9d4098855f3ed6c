"""The stored output of a view: interactive HTML wherever scripts run, and a picture everywhere else.

It has a picture as `<img>`, then the frame and the bundle as base64, then a short loader. It needs no network: the page
inflates the bundle and runs it as an inline script, since VS Code's notebooks may not import one. Outputs of one kind
share a script, and all outputs of a page share one selection. JupyterLab shows only the picture until a notebook is
trusted; so does GitHub.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from functools import cache
from pathlib import Path

from rfnb.viz.page.budget import Room

STATIC = Path(__file__).parents[1] / "static"
MARK = 'class="rfnb-output"'  # marks outputs that need no widget
_LOADER = """(() => {
  const key = Symbol.for("rfnb %s"), here = document.currentScript?.closest(".rfnb-output") ?? document;
  const load = async () => {
    const data = here.querySelector(".rfnb-bundle").dataset.bytes;
    const packed = new Blob([Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0))]);
    const text = await new Response(packed.stream().pipeThrough(new DecompressionStream("deflate"))).text();
    const [css, code] = text.split("\\0"), script = document.createElement("script");
    script.textContent = code;
    document.head.append(script);
    script.remove();
    return (part) => script.show(part, css);
  };
  (globalThis[key] ??= load()).then((show) => show(here)).catch(() => delete globalThis[key]);
})();"""


def alive(kind: str, picture: str, frame: bytes) -> str:
    """A picture that an interactive view of this kind replaces."""
    bundle, key = _bundle(kind)
    return (
        f'<div {MARK}><div class="rfnb-picture">{picture}</div>\n'
        + held("frame", base64.b64encode(frame).decode())
        + held("bundle", bundle)
        + f"<script>{_LOADER % key}</script></div>"
    )


def held(name: str, data: str) -> str:
    """Base64 data as an invisible element that leaves no trace after sanitizing: an attribute is removed, while some
    sanitizers keep the text of a removed script.
    """
    return f'<div class="rfnb-{name}" hidden data-bytes="{data}"></div>'


def room_beside(kind: str, picture: str, room: Room) -> Room:
    """The room for a frame in an output of the given size."""
    return room.frame_beside(len(alive(kind, picture, b"")) + 16)


@cache
def _bundle(kind: str) -> tuple[str, str]:
    """The style sheet and the script as base64, and a name that identifies their version.

    The script of one kind is at most half the size of the script of all kinds, which a group of views uses.
    """
    script = STATIC / f"rfnb-static-{kind}.js"
    is_drawn = script.is_file() and kind != "question"  # a group may contain questions
    script = script if script.is_file() else STATIC / "rfnb-static.js"
    style = STATIC / ("rfnb-drawn.css" if is_drawn else "rfnb.css")
    css, code = (path.read_text(encoding="utf-8") for path in (style, script))
    packed = zlib.compress(f"{css}\0{code}".encode(), 9)
    return base64.b64encode(packed).decode(), hashlib.sha256(packed).hexdigest()[:12]
