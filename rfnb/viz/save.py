"""save_html: views in one file that works without kernel, network and Jupyter."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from rfnb.core.atomic_file import write_whole
from rfnb.core.errors import type_error, value_error
from rfnb.viz.page.budget import MOST, Room
from rfnb.viz.page.output import STATIC, held
from rfnb.viz.show import view_of
from rfnb.viz.visible_text import line

_PAGE_STYLE = (
    ":root{color-scheme:light dark}body{margin:0 auto;padding:16px;max-width:1100px;background:#fff}"
    "@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}}"
    "h1{font:600 18px/1.3 system-ui,sans-serif;margin:0 0 12px}section{margin:0 0 20px}pre{white-space:pre-wrap}"
    ".rfnb-picture{overflow-x:auto}"
    # said where no script has taken it away
    ".rfnb-page-still{font-weight:600;animation:rfnb-page-still 0s 3s both}@keyframes rfnb-page-still{from{visibility:hidden}}"
)
_STILL = (
    "This is a picture of what the page shows: its script has not run. The browser is too old for it or allows no scripts, "
    "or the file is damaged; save it again."
)


def save_html(
    path: str | os.PathLike[str],
    views: Any,
    *,
    title: str = "rfnb",
    runs: bool = False,
    fields: Mapping[str, Any] | None = None,
    weights: str = "float16",
    card: str = "",
) -> Path:
    """Write views to one self-contained page; without scripts it shows their pictures.

    Args:
        path: The path of the file; an existing one is replaced atomically, and unchanged after an error.
        views: One View (or any argument of `rf.show`), or a list of them.
        title: The title of the page.
        runs: Whether the model runs in the page: for a run of `rf.run` (including a search) or a result of
            `rf.explore`. A person types another text, and the views follow.
        fields: With `runs`, further arguments of the function with a field: a range of numbers, as in `rf.explore`.
        weights, card: With `runs`: the format of the weights ("float32", "float16", "int8"), and information about the
            model, shown on request.

    Returns:
        The path.

    Raises:
        TypeError: If something in the list has no view, or a page cannot run the computation.
        ValueError: If the list is empty.
        OSError: If the file cannot be written.
    """
    if runs:
        return _save_running(path, views, fields or {}, {"title": title, "weights": weights, "card": card})
    many = (
        list(views)
        if isinstance(views, Iterable)
        and not isinstance(views, (str, bytes, dict))
        and not hasattr(views, "dims")
        and not hasattr(views, "plan")
        else [views]
    )
    if not many:
        raise value_error(
            "save_html: nothing to save.",
            {"views": "an empty list"},
            "A page needs at least one view.",
            "rf.save_html(path, [view])",
        )
    views = [view_of(view) for view in many]
    names = [line(str(view.spec.head.get("title") or view.kind)) for view in views]
    names = [f"{number}: {name}" if names.count(name) > 1 else name for number, name in enumerate(names, 1)]
    sections = "\n".join(_section(view, name) for view, name in zip(views, names))
    return write_page(path, title, sections)


def _save_running(path: str | os.PathLike[str], what: Any, fields: Mapping[str, Any], options: dict[str, Any]) -> Path:
    from rfnb.control.run import Run
    from rfnb.viz.explore.explorer import Explorer
    from rfnb.viz.runnable.page import save_run  # imported at the first page that runs

    if isinstance(what, Explorer) and not fields:
        return what.save(path, runs=True, **options)
    if isinstance(what, Run):
        return save_run(path, what, fields, **options)
    raise type_error(
        f"save_html: a page cannot run a {type(what).__name__}.",
        {"given": type(what).__name__, "fields": ", ".join(fields) or "none", "runs": "True"},
        "A page calls a function again; a run has one, but a view or a recording does not.",
        'rf.save_html("page.html", rf.run(search, word="phonetics"), runs=True)',
    )


def write_page(
    path: str | os.PathLike[str],
    title: str,
    body: str,
    *,
    script: str | tuple[str, ...] = "rfnb-static.js",
    runs: bool = False,
) -> Path:
    """Write a page around a body.

    Args:
        body: HTML.
        script: The one script of the page; or the names of files beside it, which pages share.
        runs: Whether it computes, in its own worker and in wasm.
    """
    style = (STATIC / "rfnb.css").read_text(encoding="utf-8")
    if isinstance(script, str):
        code = _in_script((STATIC / script).read_text(encoding="utf-8"))
        scripts, allowed = f"<script>{code}</script>", _hash_of(code)
    else:
        scripts, allowed = "".join(f'<script src="{name}"></script>' for name in script), "'self' file:"
    still = f'<p class="rfnb-page-still">{_STILL}</p>\n' if runs else ""  # first, so that a file that was cut has it
    # An explicit body: without it browsers move the sections into the head, and nothing is shown.
    page = (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">{_policy(allowed, runs)}<title>{escape(line(title))}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_PAGE_STYLE}</style></head>\n<body>\n"
        f'<main class="rfnb-page">\n<h1>{escape(line(title))}</h1>\n{still}<style>{style}</style>\n{body}\n</main>\n'
        f"{scripts}\n</body>\n</html>\n"
    )
    write_whole(path, page.encode("utf-8"))
    return Path(path)


def _hash_of(code: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode('utf-8')).digest()).decode()}'"


def _policy(script: str, runs: bool) -> str:
    """The content security policy of the page: it may show its embedded pictures and run its own script, also as a worker,
    without network.
    """
    more = " 'wasm-unsafe-eval'; worker-src blob:" if runs else ""
    rules = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {script}{more}; base-uri 'none'; form-action 'none'"
    return f'<meta http-equiv="Content-Security-Policy" content="{rules}">'


def _section(view: Any, name: str) -> str:
    label = escape(name, quote=True)
    from rfnb.viz.page.page_spec import frame_of  # imported at the first page

    frame = base64.b64encode(frame_of(view.spec, Room(MOST, MOST).frame_beside(0))).decode()
    return (
        f'<section aria-label="{label}"><div class="rfnb-picture">{view.html()}</div>{held("frame", frame)}</section>'
    )


def _in_script(code: str) -> str:
    """Code that cannot end its own script element."""
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")
