"""save_html: views as one file that works without kernel, network and Jupyter."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from rfnb.core.errors import message
from rfnb.viz.show import view_of
from rfnb.viz.spec import pack

_STATIC = Path(__file__).parent / "static"
_PAGE_STYLE = (
    ":root{color-scheme:light dark}body{margin:0 auto;padding:16px;max-width:1100px;background:#fff}"
    "@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}}"
    "section{margin:0 0 20px}pre{white-space:pre-wrap}"
)


def save_html(path: str | os.PathLike[str], views: Any, *, title: str = "rfnb") -> Path:
    """Write views into one self-contained page; without scripts it shows their pictures.

    Args:
        path: Of the file; an existing one is replaced.
        views: One View (or what `show` takes), or a list of them.
        title: Of the page.

    Returns:
        The path.

    Raises:
        TypeError: If there is no view for something in the list.
        ValueError: If there are none.
    """
    many = (
        list(views)
        if isinstance(views, Iterable)
        and not isinstance(views, (str, bytes, dict))
        and not hasattr(views, "dims")
        and not hasattr(views, "plan")
        else [views]
    )
    if not many:
        raise ValueError(
            message(
                "save_html: nothing to save.",
                [("views", "an empty list")],
                "A page has one view or more.",
                "rf.save_html(path, [view])",
            )
        )
    sections = "\n".join(_section(view_of(view)) for view in many)
    style, script = ((_STATIC / name).read_text(encoding="utf-8") for name in ("rfnb.css", "rfnb-static.js"))
    # An explicit body: without it browsers put the sections into the head, and nothing is seen.
    page = (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_PAGE_STYLE}\n{style}</style></head>\n<body>\n{sections}\n"
        f'<script type="module">{_in_script(script)}</script>\n</body>\n</html>\n'
    )
    target = Path(path)
    target.write_text(page, encoding="utf-8")
    return target


def _section(view: Any) -> str:
    label = escape(json.dumps(str(view.spec.head.get("title") or view.kind))[1:-1], quote=True)
    if not view.has_widget:
        return f'<section aria-label="{label}">{view.html()}</section>'
    frame = base64.b64encode(pack(view.spec)).decode()
    return (
        f'<section aria-label="{label}"><div class="rfnb-picture">{view.html()}</div>'
        f'<script type="application/octet-stream" class="rfnb-frame">{frame}</script></section>'
    )


def _in_script(code: str) -> str:
    """Code that cannot end the script element it is in."""
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")
