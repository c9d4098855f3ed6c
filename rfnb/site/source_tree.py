"""The source tree of the site: the files of the repository in their places, and an index for each group of pages.

The folder layout is kept, so a link from a guide to a notebook is the same on GitHub, in JupyterLab and in the site.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rfnb.site.lesson_pages import told_of
from rfnb.site.reference import pages

PACKAGE = Path(__file__).parents[1]
_LINK = re.compile(r"(?P<text>!?\[[^\[\]]*\]|\])\((?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
_SOURCE = re.compile(r"""\b(?:src|href)=["']([^"'#:]+)["']""")
_CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


_FOR_TEACHERS = {("docs", "teaching"), ("docs", "teaching.md"), ("notebooks", "checks"), ("notebooks", "solutions")}
_TELLS = re.compile(r"\.reveal\(|^reveal\(|\blesson\.(?:after|solution)\(", re.MULTILINE)
_ASKED_FIRST = "○ What it is comes after your answer, in the notebook: rfnb lab"
_TOOLKIT = "toolkit.md"  # the README, where the course is the first page
_FRONT = "# rfnb\n\nSee inside sequence models while they run: a course in notebooks, guides, and all public names."  # for a wheel


@dataclass(frozen=True)
class Group:
    """Pages grouped in the sidebar: a caption, and which files; the first match comes first."""

    caption: str
    patterns: tuple[str, ...]


GROUPS = (
    Group(
        "The course",
        ("notebooks/README.md", "notebooks/index.*", "notebooks/[0-9]*.ipynb", "notebooks/*.ipynb", "docs/theory/*.md"),
    ),
    Group("Guides", ("docs/*.md",)),
    Group("For teachers", ("docs/teaching/README.md", "docs/teaching.md", "docs/teaching/*.md")),
    Group("How it is built", ("docs/architecture.md", "docs/contracts/*.md", "CONTRIBUTING.md", "CHANGELOG.md")),
)


def root(place: Path) -> Path:
    """The folder of notebooks and guides: the checkout; else a copy of what a wheel has.

    Args:
        place: A folder for the copy, which must not exist yet.

    Raises:
        FileNotFoundError: Neither exists.
    """
    if (PACKAGE.parent / "notebooks").is_dir():
        return PACKAGE.parent
    if (PACKAGE / "course").is_dir():
        shutil.copytree(PACKAGE / "course", place / "notebooks")
        if (PACKAGE / "docs").is_dir():
            shutil.copytree(PACKAGE / "docs", place / "docs")
        return place
    raise FileNotFoundError(
        "site: the course was not found.\n"
        f"  in a checkout  {PACKAGE.parent / 'notebooks'}\n"
        f"  installed      {PACKAGE / 'course'}\n"
        "The site is made of the notebooks and guides, which a checkout has, and a wheel that ships the course.\n"
        "Run it in a checkout:\n    make site"
    )


class SiteTree:
    """The folder that Sphinx builds the site from.

    Args:
        source: The root of the repository, or of the installed course.
        folder: The folder of the tree; it must be empty.
        ran: A function that returns an executed notebook.
        teacher: Include the pages for teachers, and the answers to all questions.
        live: The address at which a notebook can be run, with `{notebook}` for its path, as of Binder or a JupyterHub. "": none.
    """

    def __init__(self, source: Path, folder: Path, ran: Callable[[Path], Any], *, teacher: bool = True, live: str = ""):
        self.source, self.folder, self._ran, self.teacher, self.live = source.resolve(), folder, ran, teacher, live
        self._readme, self._course = self.source / "README.md", self.source / "notebooks/README.md"
        self.groups: dict[str, list[Path]] = {}
        self._indices: dict[Path, list[Path]] = {}  # folders without README.md, and their contents
        self._to_do: list[Path] = []

    def make(self) -> None:
        """Write all pages, the indices, and every file that a page links to."""
        self._sort_into_groups()
        listed = {file for files in self.groups.values() for file in files}
        self._indices = _without_readme(listed)
        self._to_do = sorted(listed)
        self._front()
        self._reference()
        for folder, files in self._indices.items():
            links = [f"- [{title_of(file)}]({file.relative_to(folder).as_posix()})" for file in sorted(files)]
            self._write(
                folder / "index.md", f"---\norphan: true\n---\n\n# {folder.name.capitalize()}\n\n" + "\n".join(links)
            )
        done: set[Path] = set()
        while self._to_do:
            file = self._to_do.pop()
            if file not in done:
                done.add(file)
                self._copy(file, listed=file in listed)

    def _sort_into_groups(self) -> None:
        taken: set[Path] = set()
        for group in reversed(GROUPS):  # later groups are narrower, and their files belong to no wider one
            every = dict.fromkeys(file for pattern in group.patterns for file in sorted(self.source.glob(pattern)))
            found = [file for file in every if not self._is_left_out(file)]
            self.groups[group.caption] = [file for file in found if file not in taken and file != self._course]
            taken.update(found)

    def _is_left_out(self, file: Path) -> bool:
        """Whether students do not get the file: pages for teachers, checks and solutions."""
        parts = file.relative_to(self.source).parts[:2]
        return not self.teacher and parts in _FOR_TEACHERS

    def _front(self) -> None:
        """Write the first page, which is the course, with the contents of the sidebar; the README becomes a page of its own."""
        fronts = [file for file in (self._course, self._readme) if file.is_file()]
        first, others = fronts[0] if fronts else None, fronts[1:]
        text = self._with_links(first.read_text(encoding="utf-8"), first, self.source) if first else _FRONT
        entries = {
            group.caption: [file.relative_to(self.source).as_posix() for file in self.groups[group.caption]]
            for group in GROUPS
        }
        for readme in others:
            self._write(self.source / _TOOLKIT, self._with_links(readme.read_text(encoding="utf-8"), readme))
            entries["Guides"].insert(0, _TOOLKIT)
        bars = [_toctree(caption, files) for caption, files in entries.items() if files]
        bars.insert(min(2, len(bars)), _toctree("Reference", ["reference/index.md"]))
        self._write(self.source / "index.md", "\n\n".join([text, *bars]))

    def _reference(self) -> None:
        found = pages()
        lead = "Every public name, by subject; `{batch, time}` are dims in any order, `[batch=3, time<=7]` those of a tensor in its order."
        rows = [
            f"- [{page.title}]({page.slug}.md): " + ", ".join(f"`{name.path}`" for name in page.names) for page in found
        ]
        bar = _toctree("", [f"{page.slug}.md" for page in found])
        text = "\n\n".join(["# Reference", lead, "\n".join(rows), bar])
        self._write(self.source / "reference/index.md", text)
        for page in found:
            self._write(self.source / f"reference/{page.slug}.md", page.text())

    def _write(self, file: Path, text: str) -> None:
        target = self.folder / file.relative_to(self.source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def _copy(self, file: Path, *, listed: bool) -> None:
        if file.suffix == ".ipynb":
            self._notebook(file)
        elif file.suffix == ".md":
            text = self._with_links(file.read_text(encoding="utf-8"), file)
            if (
                "teaching" in file.relative_to(self.source).parts
                and (self.source / "notebooks" / f"{file.stem}.ipynb").is_file()
            ):
                text = text.replace("# ", "# For teachers: ", 1)  # the lesson has the same title
            self._write(file, text if listed else f"---\norphan: true\n---\n\n{text}")
        else:
            target = self.folder / file.relative_to(self.source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)

    def _notebook(self, file: Path) -> None:
        import nbformat

        notebook = without_kernel(self._ran(file))
        if not self.teacher:
            hide_answers(notebook)
        for cell in notebook.cells:
            for output in cell.get("outputs", []):  # data for programs, such as answers for a grader
                for kind in [kind for kind in output.get("data", {}) if kind.startswith("application/vnd.")]:
                    del output["data"][kind]
            if cell.cell_type == "markdown":
                cell.source = self._with_links(cell.source, file)
        about = (
            f'<p class="rfnb-about">This page is a notebook as it ran: <a href="{file.name}" download>download this '
            f"{'lesson' if re.match(r'[0-9]', file.name) else 'notebook'}</a>. Its views answer to mouse and keyboard; "
            "to run cells and have exercises checked, open it with <code>rfnb lab</code>"
            f"{self._live(file)}.{told_of(file.stem)}</p>"
        )
        first = notebook.cells[0] if notebook.cells else None
        if first is not None and first.cell_type == "markdown" and first.source.startswith("# "):
            title, _, rest = first.source.partition("\n")
            first.source = f"{title}\n\n{about}\n\n{rest.lstrip()}"
        else:
            notebook.cells.insert(0, nbformat.v4.new_markdown_cell(f"# {file.stem}\n\n{about}"))
        self._write(file, nbformat.writes(notebook))

    def _live(self, file: Path) -> str:
        """The link that runs a notebook elsewhere, if there is one."""
        if not self.live:
            return ""
        address = escape(self.live.replace("{notebook}", quote(file.relative_to(self.source).as_posix(), safe="")))
        return f', or <a class="rfnb-live" href="{address}">open it live</a>'

    def _with_links(self, text: str, file: Path, at: Path | None = None) -> str:
        """The text with links to folders pointing to their first page, and without links to missing files.

        Args:
            file: Where the text is from.
            at: The folder of its page. Default: that of the file.
        """
        at = at or file.parent

        def link(match: re.Match[str]) -> str:
            path = self._led(match["path"], file, at)
            if path is None:
                return match["text"].strip("![]") if match["text"] != "]" else match[0]
            return f"{match['text']}({path}{match['anchor'] or ''})"

        parts = _CODE.split(text)
        parts[::2] = [_LINK.sub(link, part) for part in parts[::2]]
        for path in _SOURCE.findall(text):
            self._led(path, file, at)
        return "".join(parts)

    def _led(self, path: str, file: Path, at: Path) -> str | None:
        """The target of a link inside the site, or None; copies a linked file into the site."""
        target = (file.parent / path).resolve()
        if (target / "README.md").is_file() and target not in self._indices:
            target /= "README.md"
        front = self._course if self._course.is_file() else self._readme
        if target in (self._readme, self._course):
            target = self.source / ("index.md" if target == front else _TOOLKIT)
        elif target in self._indices:
            target /= "index.md"
        elif not target.is_file() or not target.is_relative_to(self.source) or self._is_left_out(target):
            return None
        else:
            self._to_do.append(target)
        return Path(os.path.relpath(target, at)).as_posix()


def title_of(file: Path) -> str:
    """The first heading of a page, or of the first cell of a notebook."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        text = "\n".join(
            "".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"
        )
    match = re.search(r"^# (.+)$", text, re.MULTILINE)
    return match[1] if match else file.stem


def hide_answers(notebook: Any) -> None:
    """Remove everything that gives away an answer from a notebook run with answers revealed, and the code of folded cells."""
    import nbformat

    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        if _TELLS.search(cell.source):
            cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=_ASKED_FIRST)]
        if cell.metadata.get("jupyter", {}).get("source_hidden"):
            cell.source = "# This code has an answer in it, and is in the notebook."


def without_kernel(notebook: Any) -> Any:
    """A copy of a notebook without widgets that need a kernel; their static forms are shown."""
    from rfnb.viz.page.exporter import without_widgets  # imports nbconvert

    notebook = without_widgets(notebook)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
    notebook.metadata.pop("widgets", None)
    return notebook


def _without_readme(files: set[Path]) -> dict[Path, list[Path]]:
    folders: dict[Path, list[Path]] = {}
    for file in files:
        folders.setdefault(file.parent, []).append(file)
    return {folder: found for folder, found in folders.items() if not (folder / "README.md").is_file()}


def _toctree(caption: str, entries: list[str]) -> str:
    said = f":caption: {caption}\n" if caption else ""
    return f"```{{toctree}}\n:hidden:\n{said}\n" + "\n".join(entries) + "\n```"
