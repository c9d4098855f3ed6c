"""Slides of a page of theory: one formula, table or list per slide in large type, with the surrounding prose as speaker's notes.

    notebook = board(Path("docs/theory/05_attention.md").read_text())        # `rfnb.site.slides` renders it

Prose goes with the next picture; prose after the last picture of a section goes with that one. For a list, the slide
shows the bold beginning of each item. Nothing of the page is lost: text that no slide shows is in the notes.
"""

from __future__ import annotations

import re
from typing import Any

_HEADING = re.compile(r"^#{1,2} +(.+)$")
_PICTURE = re.compile(r"\$\$|\||```")
_LIST = re.compile(r"(?:-|\d+\.) ")
_LEAD = re.compile(r"^((?:-|\d+\.) )\*\*(.+?)\*\*", re.MULTILINE)
_READ_LATER = {"Sources", "Further reading"}  # they go into the notes of the last slide


def board(text: str) -> Any:
    """A page as a notebook of text cells marked as slides and notes."""
    from nbformat.v4 import new_markdown_cell, new_notebook

    cells = [
        new_markdown_cell(words, metadata={"slideshow": {"slide_type": kind}})
        for shown, notes in _slides(text)
        for words, kind in ((shown, "slide"), (notes, "notes"))
        if words
    ]
    return new_notebook(cells=cells)


def _slides(text: str) -> list[tuple[str, str]]:
    """The slides as pairs of content and notes."""
    found: list[tuple[str, list[str]]] = []
    for section in filter(str.strip, re.split(r"^(?=#{1,2} )", text, flags=re.MULTILINE)):
        head, *blocks = re.split(r"\n{2,}", section.strip())
        title = _HEADING.match(head)
        if found and title and title[1] in _READ_LATER:
            found[-1][1].extend([f"**{title[1]}**", *blocks])
            continue
        own: list[tuple[str, list[str]]] = []
        said: list[str] = []
        for block in blocks:
            shown = _shown(block)
            if shown:
                own.append((f"{head}\n\n{shown}", [*said, *([] if shown == block else [block])]))
                said = []
            else:
                said.append(block)
        if own:
            own[-1][1].extend(said)
        else:
            own.append((head, said))
        found += own
    return [(shown, "\n\n".join(notes)) for shown, notes in found]


def _shown(block: str) -> str:
    """The part of a block that is shown: a picture unchanged, the beginnings of list items, no prose."""
    if _PICTURE.match(block):
        return block
    if not _LIST.match(block):
        return ""
    leads = _LEAD.findall(block)
    return "\n".join(f"{mark}**{words}**" for mark, words in leads) if leads else block
