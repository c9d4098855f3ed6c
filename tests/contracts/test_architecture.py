"""docs/architecture.md and docs/contracts/ name files and symbols that exist."""

import ast
import re
from pathlib import Path

import pytest
from contracts.picture import MAY_IMPORT

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
PAGES = [PAGE, *sorted((ROOT / "docs" / "contracts").glob("*.md"))]
FILE = re.compile(r"`((?:[\w.-]+/)*[\w*.-]+\.(?:py|ts|md|css|json))`")
ROW = re.compile(r"^\|.*\| `([\w./-]+)` \| (`[^|]+`) \|$", re.MULTILINE)


def lacking_files(text: str) -> list[str]:
    """Files that a text names and that there are not: with their folder from rfnb/ or the root on, or by their name alone."""

    def is_there(name: str) -> bool:
        if "/" in name:
            return any(any(folder.glob(name)) for folder in (ROOT, ROOT / "rfnb"))
        return any(any((ROOT / top).rglob(name)) for top in ("rfnb", "tests", "widgets/src", "docs"))

    return [name for name in dict.fromkeys(FILE.findall(text)) if not is_there(name)]


def names_in(path: Path) -> set[str]:
    """Functions, classes and methods (`Class.method`) that a file defines."""
    text = path.read_text()
    if path.suffix == ".ts":
        return set(re.findall(r"^export (?:abstract )?(?:function|class|const) (\w+)", text, re.MULTILINE))
    found = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
            found |= {
                f"{node.name}.{item.name}" for item in getattr(node, "body", []) if isinstance(item, ast.FunctionDef)
            }
    return found


def lacking_names(text: str) -> list[str]:
    """Rows of the walks whose file lacks a name of them."""
    found = []
    for file, names in ROW.findall(text):
        path = next((folder / file for folder in (ROOT / "rfnb", ROOT) if (folder / file).is_file()), None)
        there = names_in(path) if path else set()
        found += [f"{file}: {name}" for name in re.findall(r"`([^`]+)`", names) if name not in there]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_files_that_a_page_names_are_there(page):
    assert lacking_files(page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_names_in_the_walks_are_defined_there():
    text = PAGE.read_text()
    assert len(ROW.findall(text)) == text.count("\n|") - 2 * text.count("| step | file | name |") > 30
    assert lacking_names(text) == []


def test_every_page_of_contracts_is_named_in_the_architecture():
    text = PAGE.read_text()
    assert [page.name for page in PAGES[1:] if f"contracts/{page.name}" not in text] == []


def test_every_layer_is_in_the_picture_and_in_the_table():
    picture, table = PAGE.read_text().split("```")[1], (ROOT / "docs" / "contracts" / "layers.md").read_text()
    for text in (picture, table):
        assert {folder for folder in MAY_IMPORT if f"{folder}/" not in text} == set()


def test_what_is_not_there_is_found():
    assert lacking_files("`core/dim.py`, `tests/waiting.py`, `loop.py`, `backends/torch*.py`") == []
    assert lacking_files("`core/no_dim.py`, `no_such_file.py`") == ["core/no_dim.py", "no_such_file.py"]
    row = "| what | `core/dim.py` | `Dim` `Dim.no_method` |\n| what | `core/no_dim.py` | `Dim` |"
    assert lacking_names(row) == ["core/dim.py: Dim.no_method", "core/no_dim.py: Dim"]
