"""The stored output of a view: HTML that is alive wherever scripts run, and a picture everywhere else.

A picture as `<img>`, then the frame and the bundle as base64, then a loader of a few lines. It asks nothing of a network: the bundle
is deflated, the page inflates it. The outputs of one kind share a module, all of a page share one selection. JupyterLab shows the
picture alone until a notebook is trusted; so does GitHub.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from functools import cache
from pathlib import Path

from rfnb.viz.page.budget import Room

STATIC = Path(__file__).parents[1] / "static"
MARK = 'class="rfnb-output"'  # of the outputs that need no widget
_LOADER = """(() => {
  const key = Symbol.for("rfnb %s"), here = document.currentScript?.closest(".rfnb-output") ?? document;
  const load = async () => {
    const data = here.querySelector(".rfnb-bundle").textContent;
    const packed = new Blob([Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0))]);
    const text = await new Response(packed.stream().pipeThrough(new DecompressionStream("deflate"))).text();
    const [css, code] = text.split("\\0");
    return { css, page: await import(URL.createObjectURL(new Blob([code], { type: "text/javascript" }))) };
  };
  (globalThis[key] ??= load()).then(({ css, page }) => page.show(here, css), () => delete globalThis[key]);
})();"""


def alive(kind: str, picture: str, frame: bytes) -> str:
    """A picture that a view of a kind takes the place of."""
    bundle, key = _bundle(kind)
    data = '<script type="application/octet-stream" class="rfnb-{}">{}</script>'
    return (
        f'<div {MARK}><div class="rfnb-picture">{picture}</div>\n'
        + data.format("frame", base64.b64encode(frame).decode())
        + data.format("bundle", bundle)
        + f"<script>{_LOADER % key}</script></div>"
    )


def room_beside(kind: str, picture: str, room: Room) -> Room:
    """The room for the bytes of a frame, in an output of a size."""
    return room.minus(len(alive(kind, picture, b"")) + 16).in_base64()


@cache
def _bundle(kind: str) -> tuple[str, str]:
    """The style sheet and the module as base64, and a name for just these: another version is another module.

    The module of one kind takes half as much as that of all, or less; which a group of views has.
    """
    module = STATIC / f"rfnb-static-{kind}.js"
    module = module if module.is_file() else STATIC / "rfnb-static.js"
    css, code = (path.read_text(encoding="utf-8") for path in (STATIC / "rfnb.css", module))
    packed = zlib.compress(f"{css}\0{code}".encode(), 9)
    return base64.b64encode(packed).decode(), hashlib.sha256(packed).hexdigest()[:12]
