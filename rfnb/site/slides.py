"""Slides of a notebook: one offline page with live views, controlled by keys and mouse, printed one slide per page.

    slides("notebooks/07_search.ipynb", "search.html")

A slide begins at a heading of a notebook, or as set by `slideshow` metadata, and at each cell that draws: a picture has
its own slide, with its code folded below. The output of a lesson about answers (checks, hints, solutions) is omitted;
the truth of a prediction is behind a button. For a page of theory (`docs/theory/05_attention.md`) the slides are those
of `board`, with pictures that its lesson makes in a run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from rfnb.site.board import board, picture_of
from rfnb.site.notebook_runs import FOR_A_PAGE, SiteError, executed
from rfnb.site.source_tree import without_kernel

_STATIC = Path(__file__).parent / "deck"
_LESSON = "application/vnd.rfnb.lesson+json"
_HEADING = re.compile(r"#{1,3} +(.+)")
_VIEW = "rfnb-output"  # in the HTML of a view, also of a question
_PICTURES = ("text/html", "image/png", "image/svg+xml", "image/jpeg")


@dataclass
class Slide:
    """The content of a slide.

    Attributes:
        title: Its heading, or that of the section that it continues.
        cells: Cells of the notebook, in order, each with a flag whether it waits for a key.
        notes: Notes for the speaker.
        begins: Whether its first cell has the heading.
    """

    title: str
    cells: list[tuple[Any, bool]] = field(default_factory=list)
    notes: list[Any] = field(default_factory=list)
    begins: bool = False


def slides(
    notebook: str | Path,
    output: str | Path,
    *,
    env: Mapping[str, str] = FOR_A_PAGE,
    cache: Path | None = None,
    run: Callable[..., Any] = executed,
) -> Path:
    """Make the slides of a notebook as one page.

    Args:
        notebook: The path of the notebook, or of a page of theory in Markdown.
        output: The file to write.
        env: Environment variables of the kernel. Default: predictions are revealed, each behind a button.
        cache: Where runs are cached. Default: the cache folder of the user.
        run: A function that returns the executed notebook.

    Returns:
        The file.

    Raises:
        FileNotFoundError: The notebook, a lesson with a picture of the page, or the folder for the slides does not exist.
        FileExistsError: The slides would replace the notebook.
        SiteError: A cell raised an error, or made no picture where a page of theory has one.
    """
    path, output = Path(notebook), Path(output)
    if not path.is_file():
        raise FileNotFoundError(
            f"slides: there is no notebook {path}.\n"
            "Say where it is:\n    rfnb slides notebooks/07_search.ipynb -o slides.html"
        )
    if output.is_dir() or not output.parent.is_dir():
        what = "is a folder" if output.is_dir() else "cannot be written: its folder is not there"
        raise FileNotFoundError(
            f"slides: {output} {what}.\nSlides are one file:\n    rfnb slides {path} -o slides.html"
        )
    if output.exists() and output.samefile(path):
        raise FileExistsError(
            f"slides: the slides would replace the notebook {path}.\nTake another name:\n    rfnb slides {path} -o slides.html"
        )

    def picture(lesson: str, cell: str) -> str:
        if not (path.parent / lesson).is_file():
            raise FileNotFoundError(
                f"slides: {path.name} has a picture of {lesson}, which is not there.\n"
                "Keep notebooks/ beside docs/, as in a copy of the course:\n    rfnb lab course"
            )
        found = picture_of(run(path.parent / lesson, env=env, cache=cache), cell)
        if not found:
            raise SiteError(f"{path.name}: the cell {cell} of {lesson} makes no picture.")
        return found

    made = (
        board(path.read_text("utf-8"), picture)
        if path.suffix == ".md"
        else without_kernel(run(path, env=env, cache=cache))
    )
    output.write_text(page(made, path), encoding="utf-8")
    return output


def page(notebook: Any, path: Path) -> str:
    """The page of an executed notebook."""
    found = cut(notebook)
    render = _renderer(path)
    shown = "\n".join(_section(slide, number, len(found), render) for number, slide in enumerate(found, 1))
    title = found[0].title if found else path.stem
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_highlighting()}{_text('slides.css')}</style></head>\n"
        f'<body>\n<main aria-label="Slides">{shown}</main>\n{_text("bar.html")}\n<script>{_text("slides.js")}</script></body></html>\n'
    )


def cut(notebook: Any) -> list[Slide]:
    """The slides of a notebook: by its slideshow metadata if any cell has some, else by headings and pictures."""
    cells = [cell for cell in (_without_answers(cell) for cell in notebook.cells) if cell is not None]
    if any(_kind(cell) for cell in cells):
        return _by_metadata(cells)
    found: list[Slide] = []
    parts = [part for cell in cells for part in _at_headings(cell)]
    for cell in parts:
        heading = _heading(cell)
        if heading or not found:
            found.append(Slide(heading, begins=bool(heading)))
        elif _is_picture(cell) and any(_is_picture(other) for other, _ in found[-1].cells) or _is_full(found[-1], cell):
            found.append(Slide(found[-1].title))
        found[-1].cells.append((cell, False))
    return found


def _at_headings(cell: Any) -> list[Any]:
    """The parts of a markdown cell, each with its heading first; any other cell unchanged."""
    if cell.cell_type != "markdown":
        return [cell]
    parts: list[list[str]] = [[]]
    in_code = False
    for line in cell.source.splitlines():
        in_code ^= line.lstrip().startswith("```")
        if _HEADING.match(line) and not in_code and any(parts[-1]):
            parts.append([])
        parts[-1].append(line)
    return [type(cell)({**cell, "source": "\n".join(lines).strip()}) for lines in parts]


def _heading(cell: Any) -> str:
    """The heading at the beginning of a cell, or ""."""
    match = _HEADING.match(cell.source.lstrip()) if cell.cell_type == "markdown" else None
    return match[1] if match else ""


def _by_metadata(cells: list[Any]) -> list[Slide]:
    found: list[Slide] = []
    for cell in cells:
        kind = _kind(cell)
        heading = _heading(cell)
        if kind == "skip":
            continue
        if kind in ("slide", "subslide") or not found:
            found.append(Slide(heading or (found[-1].title if found else ""), begins=bool(heading)))
        if kind == "notes":
            found[-1].notes.append(cell)
        else:
            found[-1].cells.append((cell, kind == "fragment"))
    return found


def _kind(cell: Any) -> str:
    return str(cell.metadata.get("slideshow", {}).get("slide_type", "")).replace("-", "")


def _is_picture(cell: Any) -> bool:
    """Whether a cell has a picture; cards of a lesson count as text."""
    data = [output.get("data", {}) for output in cell.get("outputs", [])]
    return any(
        kind in part and (_LESSON not in part or _VIEW in str(part[kind])) for part in data for kind in _PICTURES
    )


def _draws(cell: Any) -> bool:
    return any(kind in output.get("data", {}) for output in cell.get("outputs", []) for kind in _PICTURES)


def _is_full(slide: Slide, cell: Any) -> bool:
    """Whether a cell would overflow the slide; a short text about a picture stays with it."""
    lines = sum(_lines(other) for other, _ in slide.cells)
    return lines > 0 and lines + _lines(cell) > 22 and not (_is_picture(slide.cells[-1][0]) and _lines(cell) < 4)


def _lines(cell: Any) -> int:
    if cell.cell_type == "markdown":
        return sum(1 + len(line) // 80 for line in cell.source.splitlines() if line)
    if _is_picture(cell):
        return 12
    said = [str(output["data"].get("text/plain", "")) for output in cell.get("outputs", []) if _said(output)]
    return (
        sum(text.count("\n") + 1 for text in said) or int(cell.source.count("\n")) + 1
    )  # the code beside it is folded


def _without_answers(cell: Any) -> Any:
    """The cell without the output of a lesson about answers; None if nothing else is in it."""
    if cell.cell_type != "code":
        return cell
    outputs = [output for output in cell.get("outputs", []) if _said(output) not in ("check", "hint", "solution")]
    outputs = [output for output in outputs if not str(output.get("text", "")).startswith("Going on with ")]
    asks_only = re.fullmatch(r"\s*lesson\.(solution|hint)\(.*\)\s*;?\s*", cell.source, re.DOTALL)
    return None if asks_only else type(cell)({**cell, "outputs": outputs})


def _said(output: Any) -> str:
    return str(output.get("data", {}).get(_LESSON, {}).get("kind", ""))


def _reveals(output: Any) -> bool:
    said = output.get("data", {}).get(_LESSON, {})
    return said.get("kind") == "reveal" or bool(said.get("revealed"))


def _section(slide: Slide, number: int, count: int, render: Callable[[Any], tuple[str, str]]) -> str:
    shown = "" if slide.begins or not slide.title else f'<h2 class="again">{_inline(slide.title)}</h2>'
    for cell, waits in slide.cells:
        code, result = render(cell)
        if cell.cell_type == "code" and any(_reveals(output) for output in cell.get("outputs", [])):
            result = f"<details class=answer><summary>Show the answer</summary>{result}</details>"
        if code and _draws(cell):
            code = f"<details class=code><summary>Code</summary>{code}</details>"
            body = result + code
        else:
            body = code + result
        shown += f'<div class="cell{" waits" if waits else ""}">{body}</div>'
    notes = "".join(render(cell)[1] for cell in slide.notes)
    spoken = " spoken" if notes else ""
    aside = f'<aside class="notes" aria-label="Notes">{notes}</aside>' if notes else ""
    return (
        f'<section class="slide{spoken}" id="{number}" aria-roledescription="slide" aria-label="{number} of {count}">'
        f'<div class="inside">{shown}</div>{aside}</section>'
    )


def _inline(heading: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(heading.strip("# ")))


def _renderer(path: Path) -> Callable[[Any], tuple[str, str]]:
    """A function from a cell to its code and its result, as HTML."""
    import nbformat
    from nbconvert.exporters.html import HTMLExporter

    from rfnb.site.prose import prose_in

    exporter = HTMLExporter(
        template_name="basic", embed_images=True, exclude_input_prompt=True, exclude_output_prompt=True
    )
    exporter.register_filter("markdown2html", prose_in(path.parent))

    def part(cell: Any, **without: bool) -> str:
        exporter.exclude_input, exporter.exclude_output = without.get("code", False), without.get("result", False)
        resources = {"metadata": {"path": str(path.parent)}}
        return str(exporter.from_notebook_node(nbformat.v4.new_notebook(cells=[cell]), resources)[0])

    def render(cell: Any) -> tuple[str, str]:
        if cell.cell_type != "code":
            return "", part(cell)
        folded = cell.metadata.get("jupyter", {}).get("source_hidden")  # it contains an answer
        code = part(cell, result=True) if cell.source.strip() and not folded else ""
        return code, part(cell, code=True) if cell.get("outputs") else ""

    return render


def _text(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")


def _highlighting() -> str:
    from pygments.formatters import HtmlFormatter

    light = HtmlFormatter(style="friendly").get_style_defs(".highlight")
    dark = HtmlFormatter(style="github-dark").get_style_defs("[data-theme=dark] .highlight")
    return str(light) + str(dark)
