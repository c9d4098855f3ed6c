"""No sentence that students get tells an answer: prose, titles, hints, docstrings, file names, exports, site, slides (`telling.py`)."""

from __future__ import annotations

import ast
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from course.harness import NOTEBOOKS, Course
from course.telling import asked_in, codes, in_other_words, page_text, shown_of, squeezed, stems, told_in, truths
from course.test_leaks import LEAST, LESSONS, RUN
from waiting import SLOWNESS

from rfnb.cli import course as course_files
from rfnb.site.notebook_runs import executed
from rfnb.site.slides import page
from rfnb.site.source_tree import SiteTree, without_kernel
from rfnb.teaching.assignment import assignment

ROOT = NOTEBOOKS.parent
# What tells nothing, though it has the words, by place and by what it seems to tell.
NOTHING = {
    ("01_dims.ipynb:01-play", "ends"): "the question says as much",
    ("08_errors.ipynb:08-guard-q", "check_search"): "how a search is called",
    ("09_ctc.ipynb:09-forward", "five"): "another 2",
    ("docs/contracts/seen.md", "explain"): "of other masks",
    ("11_transformer.ipynb:11-attention", "self_attention"): "how a dim is replaced",
}


def told(texts: Iterator[tuple[str, str, str]]) -> list[str]:
    """The answers told by texts, by place; each with its lesson, "" for none."""
    found = []
    for place, own, text in texts:
        for lesson in LESSONS:
            every = told_in(text, lesson, own=lesson == own)
            every += in_other_words(text, lesson) if lesson == own or place.startswith(lesson) else []
            found += [f"{place}: {one.name}: {one.sentence}" for one in every if (place, one.name) not in NOTHING]
    return found


def cells(path: Path, ran: Any = None) -> Iterator[tuple[str, str, str]]:
    """The readable content of a notebook: text, words of code, the first line of folded cells, and outputs."""
    lesson = path.stem
    for cell in (ran or nbformat.read(path, as_version=4)).cells:
        place = f"{path.name}:{cell.id}"
        folded = cell.metadata.get("jupyter", {}).get("source_hidden")
        if cell.cell_type == "markdown":
            yield place, lesson, cell.source
        else:
            released = re.sub(
                r"### BEGIN SOLUTION.*?### END SOLUTION", "...", cell.source, flags=re.DOTALL
            )  # by nbgrader
            yield place, lesson, cell.source.splitlines()[0] if folded else shown_of(released)
            yield f"{place}, asked", lesson, asked_in(released)
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            for text in (output.get("text", ""), data.get("text/plain", ""), page_text(data.get("text/html", ""))):
                yield f"{place}, output", "", text


def files(folder: Path) -> Iterator[tuple[str, str, str]]:
    """The readable content of a folder, with file names and without sealed files."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        yield (
            "names",
            next((lesson for lesson in LESSONS if lesson in name), ""),
            name.replace("_", " ").replace("/", ". "),
        )
        if path.suffix == ".ipynb":
            yield from cells(path)
        elif path.is_file() and path.suffix in (".md", ".py", ".txt", ".json", ".html"):
            text = path.read_text("utf-8")
            yield (
                name,
                "",
                shown_of(text) if path.suffix == ".py" else page_text(text) if path.suffix == ".html" else text,
            )


def docstrings(folder: Path) -> Iterator[tuple[str, str, str]]:
    """The docstrings of a package, which `help` and the reference show."""
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        held = [node for node in ast.walk(tree) if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef))]
        yield path.relative_to(folder).as_posix(), "", "\n\n".join(ast.get_docstring(node) or "" for node in held)


def hints(lesson: str) -> Iterator[tuple[str, str, str]]:
    """Hints, the titles of exercises among them, which a card shows before an answer."""
    for exercise in Course(lesson).lesson.exercises.values():
        for text in (exercise.title, *exercise.hints):
            yield f"{lesson}, {exercise.name}", lesson, text


@pytest.fixture
def copied(tmp_path):
    """The copy that `rfnb lab` gives to a student."""
    course_files.copy(tmp_path / "student")
    return tmp_path / "student"


def test_no_file_of_the_copy_of_a_student_tells_an_answer(copied):
    found = list(files(copied))
    assert len(found) > 500
    assert told(iter(found)) == []


@pytest.mark.parametrize("lesson", LESSONS)
def test_no_hint_and_no_title_of_an_exercise_tells_an_answer(lesson):
    assert told(hints(lesson)) == []


def test_no_docstring_of_what_students_import_tells_an_answer():
    assert told(docstrings(ROOT / "rfnb")) == []


@pytest.mark.parametrize("lesson", LESSONS)
def test_no_file_of_an_assignment_tells_an_answer(lesson, tmp_path, monkeypatch):
    monkeypatch.chdir(NOTEBOOKS)
    assert told(files(assignment(lesson, tmp_path))) == []


def site_of(folder: Path, ran=lambda path: nbformat.read(path, as_version=4)) -> Path:
    """The tree of the site that students may have."""
    SiteTree(ROOT, folder, ran, teacher=False).make()
    return folder


def test_no_page_of_the_site_of_students_tells_an_answer(tmp_path):
    found = list(files(site_of(tmp_path)))
    assert len([place for place, *_ in found if place.startswith("reference/")]) > 10
    assert told(iter(found)) == []


@pytest.mark.notebook
@pytest.mark.parametrize("lesson", RUN)
def test_no_output_of_a_run_on_the_site_and_no_slide_of_an_unanswered_run_tells_an_answer(lesson, tmp_path):
    """The site is of a run with everything revealed; the slides of one that a student has made, nothing answered."""
    here = NOTEBOOKS / f"{lesson}.ipynb"

    def ran(path):
        stored = nbformat.read(path, as_version=4)
        return executed(path, seconds=300 * SLOWNESS) if path == here else stored

    site = site_of(tmp_path, ran) / "notebooks" / here.name
    assert any("output" in place for place, *_ in cells(site))
    assert told(cells(site)) == []
    unanswered = executed(here, env={}, seconds=300 * SLOWNESS)
    assert told(cells(here, unanswered)) == []
    slides = squeezed(page_text(page(without_kernel(unanswered), here)))
    folded = [cell for cell in unanswered.cells if cell.metadata.get("jupyter", {}).get("source_hidden")]
    open_ = {squeezed(line) for cell in unanswered.cells if cell not in folded for line in cell.source.splitlines()}
    lines = {squeezed(line) for cell in folded for line in cell.source.splitlines()} - open_
    assert len(folded) > 2 and not [line for line in lines if len(line) >= LEAST and line in slides]


def planted(lesson: str) -> Iterator[tuple[str, str]]:
    """For each answer a sentence that tells it in other words than the solution."""
    for truth in truths(lesson):
        if truth.kind in ("sentence", "reason"):
            short = len(stems(truth.answer)) < 4 or truth.kind == "reason"
            yield truth.name, " ".join(word for at, word in enumerate(truth.answer.split()) if short or at % 5 != 3)
        else:
            others = stems(" ".join(truth.others)) - stems(truth.answer)
            asked = [word for word in truth.question.rstrip("?").split() if word.isdigit() or stems(word) - others]
            yield truth.name, f"As for {' '.join(asked[len(asked) // 4 :])}, look at {truth.answer}."
    for name, every in codes(lesson).items():
        yield from ((name, f"Then `{code}` is what you need.") for code in sorted(every))


@pytest.mark.parametrize("lesson", LESSONS)
def test_each_answer_that_is_told_in_a_sentence_is_found(lesson):
    every = list(planted(lesson))
    assert len(every) > 5
    blind = [
        text for name, text in every if name not in {one.name for one in told_in(f"First. {text} And on.", lesson)}
    ]
    assert not blind


def write_cell(folder: Path, **cell: object) -> None:
    path = next(folder.rglob("07_search.ipynb"))
    notebook = nbformat.read(path, as_version=4)
    made = nbformat.v4.new_code_cell if "outputs" in cell or "code" in cell else nbformat.v4.new_markdown_cell
    source = cell.pop("code", cell.pop("text", ""))
    notebook.cells.insert(5, made(source, id="planted", **cell))
    nbformat.write(notebook, path)


GREEDY = "Greedy search writes P EH R AH CH UW T for this word"
FLIP = "whiplash flips at 0.61"
LEAKS = {
    "a sentence": lambda folder: write_cell(folder, text=f"Good to know. {GREEDY}, by the way."),
    "a list": lambda folder: write_cell(folder, text=f"- one thing\n- {GREEDY}"),
    "a caption": lambda folder: write_cell(folder, text=f"![{GREEDY}](picture.png)"),
    "a title": lambda folder: write_cell(folder, code=f"rf.viz.curves(x, title={FLIP!r})"),
    "a comment": lambda folder: write_cell(folder, code=f"x = 1  # {GREEDY}"),
    "a docstring": lambda folder: write_cell(folder, code=f'def f():\n    """{GREEDY}."""'),
    "a line of the solution": lambda folder: write_cell(folder, text="Try `scores[:, None] + log_probs`, flat."),
    "a printed line": lambda folder: write_cell(
        folder, outputs=[nbformat.v4.new_output("stream", name="stdout", text=f"{GREEDY}\n")]
    ),
    "a view": lambda folder: write_cell(
        folder, outputs=[nbformat.v4.new_output("display_data", {"text/html": "<p>At the flip: <b>0.61</b></p>"})]
    ),
    "the first line of a folded cell": lambda folder: write_cell(
        folder, code=f"# {GREEDY}\nx = 1", metadata={"jupyter": {"source_hidden": True}}
    ),
    "a file name": lambda folder: (folder / "notebooks/data/07_search_whiplash_flip_0.61.txt").write_text(""),
    "what code of another page prints": lambda folder: (folder / "docs/further.md").write_text(
        f"# Further\n\nGreedy search:\n\n```python\nprint(found)\n```\n\n```text\n1  {GREEDY.removeprefix('Greedy search writes ')}\n```\n"
    ),
    "another page": lambda folder: (folder / "docs/further.md").write_text(f"# Further\n\n{GREEDY}.\n"),
    "another lesson": lambda folder: shutil.move(
        folder / "notebooks/07_search.ipynb", folder / "notebooks/13_more.ipynb"
    ),
    "a module": lambda folder: (folder / "notebooks/data/tools.py").write_text(f'"""{GREEDY}."""\n'),
}  # fmt: skip


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """Of the copy of a student one lesson and the pages, and what is to be read there: nothing tells an answer."""
    folder = tmp_path_factory.mktemp("clean") / "student"
    course_files.copy(folder)
    keep = {folder / "notebooks/07_search.ipynb", *folder.glob("docs/*.md")}
    for path in [path for path in folder.rglob("*") if path.is_file() and path not in keep]:
        path.unlink()
    texts = list(files(folder))
    assert not told(iter(texts))
    return folder, set(texts)


@pytest.mark.parametrize("channel", LEAKS)
def test_an_answer_that_is_planted_in_the_copy_is_found(clean, channel, tmp_path):
    without, told_nothing = clean
    folder = shutil.copytree(without, tmp_path / "student")
    if channel == "another lesson":
        write_cell(folder, text=f"As you know, {GREEDY[0].lower()}{GREEDY[1:]}.")
    LEAKS[channel](folder)
    (found,) = told(each for each in files(folder) if each not in told_nothing)
    assert "greedy" in found or "alpha_flip" in found or "beam_step" in found


def test_an_answer_that_is_planted_in_docstrings_and_hints_is_found(tmp_path):
    (tmp_path / "g2p.py").write_text(f'def pronounce():\n    """The phonemes.\n\n    {GREEDY}.\n    """\n')
    assert len(told(docstrings(tmp_path))) == 1
    assert len(told(iter([("07_search, beam_step", "07_search", f"First this. {GREEDY}.")]))) == 1


def test_the_place_of_an_option_tells_nothing():
    """Neither does the longest option: who takes always the same of them is right in less than two thirds of the questions."""
    places: dict[int, Counter[int]] = {}
    for lesson in LESSONS:
        for truth in truths(lesson):
            if truth.options:
                places.setdefault(len(truth.options), Counter())[truth.options.index(truth.answer)] += 1
    assert sum(sum(each.values()) for each in places.values()) > 40
    for count, each in places.items():
        assert len(each) == count and max(each.values()) < 2 / 3 * sum(each.values()), (count, each)
