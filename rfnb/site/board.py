"""Slides of a page of theory: one formula, picture, table or list per slide in large type, with the surrounding prose as notes.

    notebook = board(Path("docs/theory/05_attention.md").read_text(), picture)        # `rfnb.site.slides` renders it

Prose goes with the next formula, picture, table or list; prose after the last one of a section goes with that one. For a
list, the slide shows the bold beginning of each item. Nothing of the page is lost: text that no slide shows is in the notes.

A paragraph that begins with a link to a cell of a lesson stands for the picture that the cell makes:

    [Weights of an untrained model](../../notebooks/05_attention.ipynb "05-play"): each row sums to 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from typing import Any

_HEADING = re.compile(r"^#{1,2} +(.+)$")
_PICTURE = re.compile(r"\$\$|\||```")
_LIST = re.compile(r"(?:-|\d+\.) ")
_CELL = re.compile(r'\[([^\]]+)\]\((\S+\.ipynb) "([\w-]+)"\)')
_IMAGE = re.compile(r"<img [^>]*>")
_LEAD = re.compile(r"^((?:-|\d+\.) )\*\*(.+?)\*\*", re.MULTILINE)
_READ_LATER = {"Sources", "Further reading"}  # they go into the notes of the last slide


def board(text: str, picture: Callable[[str, str], str]) -> Any:
    """A page as a notebook of cells marked as slides and notes.

    Args:
        text: The page.
        picture: A function from the path of a lesson, as in the link, and the id of a cell to the picture in HTML.
    """
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

    cells = []
    for shown, notes in _slides(text):
        link = _CELL.search(shown)
        words = shown[: link.start()].rstrip() if link else shown
        cells.append(new_markdown_cell(words, metadata={"slideshow": {"slide_type": "slide"}}))
        if link:
            html = f"<figure>{picture(link[2], link[3])}<figcaption>{escape(link[1])}</figcaption></figure>"
            cells.append(new_code_cell(outputs=[new_output("display_data", data={"text/html": html})]))
        if notes:
            cells.append(new_markdown_cell(notes, metadata={"slideshow": {"slide_type": "notes"}}))
    return new_notebook(cells=cells)


def picture_of(notebook: Any, cell: str) -> str:
    """The first picture in the outputs of a cell of an executed notebook, as HTML; "" if there is none."""
    for output in (one for each in notebook.cells if each.get("id") == cell for one in each.get("outputs", [])):
        data = output.get("data", {})
        if image := _IMAGE.search(str(data.get("text/html", ""))):
            return image[0]
        if "image/png" in data:
            return f'<img alt="{escape(str(data.get("text/plain", "")))}" src="data:image/png;base64,{data["image/png"].strip()}">'
    return ""


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
    """The part of a block that is shown: a formula or table unchanged, the link of a picture, the beginnings of list items, no prose."""
    if _PICTURE.match(block):
        return block
    if link := _CELL.match(block):
        return link[0]
    if not _LIST.match(block):
        return ""
    leads = _LEAD.findall(block)
    return "\n".join(f"{mark}**{words}**" for mark, words in leads) if leads else block
