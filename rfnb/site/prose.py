"""Markdown cells as self-contained HTML: formulas as MathML, embedded pictures, links into the course as text."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from rfnb.site.formula import mathml


def prose_in(folder: Path) -> Callable[[str], str]:
    """The filter `markdown2html` of nbconvert: from a markdown cell to its HTML; picture paths are relative to the folder."""

    def html(source: str) -> str:
        renderer = _Renderer(escape=False, embed_images=True, exclude_anchor_links=True, path=str(folder))
        return str(MarkdownWithMath(renderer=renderer).render(source))

    return html


class _Renderer(IPythonRenderer):
    def inline_math(self, body: str) -> str:
        return _formula(body, as_block=False)

    def block_math(self, body: str) -> str:
        return _formula(body, as_block=True)

    def latex_environment(self, name: str, body: str) -> str:
        return _formula(f"\\begin{{{name}}}{body}\\end{{{name}}}", as_block=True)

    def link(self, text: str, url: str, title: str | None = None) -> str:
        return str(super().link(text, url, title)) if re.match(r"[a-z]+:|#", url) else text

    def _src_to_base64(self, src: str) -> Any:
        # nbconvert embeds no picture from above the notebook's folder, but the pictures of the guides are there.
        path = self._folder_of(src)
        return super()._src_to_base64(src) if path is None else _data_url(path)

    def _folder_of(self, src: str) -> Path | None:
        path = (Path(self.path) / src).resolve()
        return path if path.is_file() else None


def _data_url(path: Path) -> str:
    import base64
    import mimetypes

    return f"data:{mimetypes.guess_type(path.name)[0]};base64,{base64.b64encode(path.read_bytes()).decode()}"


def _formula(text: str, *, as_block: bool) -> str:
    made = mathml(text, as_block=as_block) or f"<code>{escape(text)}</code>"
    return f'<div class="formula">{made}</div>' if as_block else made
