"""Links lead somewhere: those of all pages, every name in the text for assistants, the first picture of each guide."""

import inspect
import operator
import re
import tomllib
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest

import rfnb as rf
from rfnb.viz.kinds import KINDS
from rfnb.viz.terminal import tokens_of

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^( *)```.*?^\1```$|`[^`\n]*`|\$\$.*?\$\$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)(?: \"[^\"]*\")?\)")
CODE_ONLY = {"backend", "coming-from-returnn"}  # how code is written; what it draws is in other guides
GUIDES = [path for path in sorted((ROOT / "docs").glob("*.md")) if path.stem not in CODE_ONLY]
ASSISTANT = (ROOT / "llms.txt").read_text()


def pages() -> dict[Path, str]:
    """The Markdown of all that is read."""
    files = [
        *ROOT.glob("*.md"),
        ROOT / "llms.txt",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "notebooks").rglob("*.md"),
        ROOT / "widgets/README.md",
    ]
    texts = {path: path.read_text() for path in files}
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        texts[path] = "\n\n".join(
            cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"
        )
    return texts


def anchors(text: str) -> set[str]:
    """The headings of a page as links name them; those of JupyterLab keep their capitals and have "-" for each space."""
    titles = [re.sub(r"[`*]", "", title) for title in re.findall(r"^#+ (.+?)$", text, re.MULTILINE)]
    plain = {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
    return plain | {title.strip().replace(" ", "-") for title in titles}


def broken(pages: dict[Path, str]) -> list[str]:
    """Links to files and headings that do not exist."""
    known: dict[Path, set[str]] = {}
    found = []
    for path, text in pages.items():
        for link in LINK.findall(FENCED.sub("", text)):
            target, _, anchor = unquote(link).partition("#")
            if ":" in target or target.startswith("attachment"):
                continue
            file = (path.parent / target).resolve() if target else path
            if not file.exists():
                found.append(f"{path.relative_to(ROOT)}: {link}")
            elif anchor and file in pages:
                if file not in known:
                    known[file] = anchors(pages[file])
                if anchor not in known[file]:
                    found.append(f"{path.relative_to(ROOT)}: {link}")
    return found


def test_every_link_leads_somewhere():
    assert broken(pages()) == []


def test_a_link_that_leads_nowhere_is_seen():
    page = ROOT / "README.md"
    assert len(broken({page: "# Title\n[a](nowhere.md) [b](#title) [c](#other) [d](LICENSE)"})) == 2


def test_every_name_in_the_text_for_assistants_is_there_with_its_arguments():
    names = set(re.findall(r"\brf((?:\.[a-zA-Z_]\w*)+)", ASSISTANT))
    assert len(names) >= 30
    assert [name for name in sorted(names) if not _has(rf, name[1:])] == []
    for name, given in re.findall(r"\brf\.([a-z_.]+)\(([^()]*(?:\([^()]*\)[^()]*)*)\)", ASSISTANT):
        known = inspect.signature(operator.attrgetter(name)(rf)).parameters
        free = any(each.kind is each.VAR_KEYWORD for each in known.values()) and name in ("probe", "explore", "run")
        assert free or set(re.findall(r"\b([a-z_]+)=", re.sub(r"\([^()]*\)", "", given))) <= known.keys(), (name, given)


def _has(of: object, name: str) -> bool:
    try:
        operator.attrgetter(name)(of)
    except AttributeError:
        return False
    return True


@pytest.mark.parametrize("name", ["step", "resume", "at", "from_step"])
def test_what_it_says_of_a_run_is_there(name):
    assert f"run.{name}" in ASSISTANT and hasattr(rf.Run, name)


@pytest.mark.parametrize("name", ["attention", "states", "beams", "events"])
def test_what_it_says_of_a_trace_is_there(name):
    assert f"trace.{name}" in ASSISTANT and hasattr(rf.Trace(), name)


def test_the_text_for_assistants_is_short_and_names_the_python_it_needs():
    assert tokens_of(ASSISTANT) < 3000
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"Python {project['requires-python'].replace('>=', '>= ')}" in ASSISTANT


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_the_first_picture_of_a_guide_is_on_its_first_screen(path):
    """A picture, what code prints, a table or a diagram: something to look at in the first 45 lines."""
    screen = "\n".join(path.read_text().splitlines()[:45])
    assert re.search(r"^!\[|^```(text|mermaid)$|^\| ?-|^<img|^\|-", screen, re.MULTILINE), path.name


def test_the_table_of_hosts_is_about_all_kinds_of_views():
    """`tests/browser/hosts.py` writes it, in minutes and with hosts that CI has not."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (ROOT / "docs/hosts.md").read_text().splitlines()
        if line[:1] == "|"
    ]
    assert rows[0] == ["host", *KINDS] and len(rows) >= 8
    assert {cell for row in rows[2:] for cell in row[1:]} <= {"alive", "picture", "text", "blank", "not here"}
    assert all(len(row) == len(rows[0]) for row in rows)
