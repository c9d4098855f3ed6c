"""The table of contents of the course has every notebook once, under its own title; no link of the course leads nowhere."""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
from cli.command import ROOT
from lesson_minutes import minutes

from rfnb.cli import course

NOTEBOOKS = ROOT / "notebooks"
CONTENTS = ROOT / course.CONTENTS
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
PAGES = sorted([*NOTEBOOKS.glob("*.ipynb"), CONTENTS])


def markdown(page: Path) -> str:
    """The prose of a page or of a notebook."""
    if page.suffix != ".ipynb":
        return page.read_text()
    cells = json.loads(page.read_text())["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def title(notebook: Path) -> str:
    """The first heading."""
    heading = re.search(r"^# (.+)$", markdown(notebook), re.MULTILINE)
    assert heading, f"{notebook.name} has no title"
    return heading[1].strip()


def rows(text: str) -> list[tuple[str, str]]:
    """The notebooks of a table of contents: (words of the link, name of the file)."""
    return [(words, target) for words, target in LINK.findall(text) if target.endswith(".ipynb")]


def test_every_notebook_is_in_the_table_once_and_the_tour_is_the_first():
    listed = [target for _, target in rows(CONTENTS.read_text())]
    there = sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))
    assert sorted(listed) == there, "a row for each notebook in notebooks/README.md, please"
    assert listed == sorted(listed), "the tour, the lessons by their number, then models of one's own"
    assert listed[0] == "00_tour.ipynb"


def test_a_lesson_has_its_title_in_the_table():
    lessons = [(words, target) for words, target in rows(CONTENTS.read_text()) if re.match(r"(?!00)\d\d_", target)]
    assert lessons == [(title(NOTEBOOKS / target), target) for _, target in lessons]


def test_a_lesson_takes_the_minutes_that_its_teacher_counts():
    text = CONTENTS.read_text()
    said = dict(re.findall(r"\(((?!00)\d\d_\w+)\.ipynb\).*\| (\d+) \|$", text, re.MULTILINE))
    lessons = sorted(path.stem for path in NOTEBOOKS.glob("[0-9][0-9]_*.ipynb") if not path.name.startswith("00"))
    pages = {lesson: (ROOT / "docs/teaching" / f"{lesson}.md").read_text() for lesson in lessons}
    assert {lesson: int(number) for lesson, number in said.items()} == {
        name: minutes(page) for name, page in pages.items()
    }


def imported(page: Path) -> set[str]:
    """The packages that the code of a notebook imports, without those of Python."""
    cells = json.loads(page.read_text())["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names


@pytest.mark.parametrize("page", [page for page in PAGES if page.suffix == ".ipynb"], ids=lambda page: page.name)
def test_a_package_that_rfnb_does_not_bring_is_named_before_it_is_imported(page):
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    brought = {"rfnb", "IPython", *(re.match(r"[\w-]+", line)[0] for line in asked)}
    lacking = imported(page) - brought
    assert [name for name in sorted(lacking) if f"`pip install {name}`" not in markdown(page)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_that_a_copy_has(page, tmp_path_factory):
    copied = tmp_path_factory.getbasetemp() / "course"
    course.copy(copied)
    text = re.sub(r"`[^`]*`", "", markdown(page))
    targets = [target.partition("#")[0] for _, target in LINK.findall(text)]
    local = [target for target in targets if target and not re.match(r"[a-z]+:", target)]
    assert [target for target in local if not (copied / "notebooks" / target).is_file()] == []


def test_the_readme_names_the_course_before_its_first_heading():
    first_screen = (ROOT / "README.md").read_text().partition("\n## ")[0].replace("\n", " ")
    assert "course of fifteen lessons" in first_screen and f"]({course.CONTENTS})" in first_screen
    assert len(list(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))) == 15 + 1, "fifteen lessons and the tour"
