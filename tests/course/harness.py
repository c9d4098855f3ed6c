"""Helpers for tests of the course: checks tried on unsolved, wrong and right answers, and a notebook executed once.

course = Course("07_search")

WRONG = {"beam_step": {"The scores are not summed": lambda scores, beam: ...}}      # what the check has to say: the answer

@pytest.mark.parametrize("exercise", course.exercises)
def test_the_check_tells_right_from_wrong(exercise):
    course.assert_judges(exercise, WRONG[exercise])

`ran` (conftest.py) is the notebook of the file's `course`, executed.
"""

from __future__ import annotations

import ast
import base64
import functools
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from notebooks.runner import problems
from PIL import Image
from waiting import SLOWNESS

import rfnb as rf
from rfnb.site.board import picture_of
from rfnb.site.notebook_runs import FOR_A_PAGE, executed
from rfnb.teaching.card import MIME
from rfnb.teaching.course import load
from rfnb.teaching.judge import judge
from rfnb.teaching.lesson import Lesson
from rfnb.teaching.result import Result

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
LEAST_WRONG = 3  # typical wrong answers that a check tells apart


class Course:
    """A lesson of the course with all of its files.

    Args:
        name: As "07_search".
        folder: That holds the notebook, checks/ and solutions/.
    """

    def __init__(self, name: str, folder: Path = NOTEBOOKS):
        self.name, self.folder = name, folder
        self.lesson = Lesson(name, folder)

    @property
    def path(self) -> Path:
        """The notebook."""
        return self.folder / f"{self.name}.ipynb"

    @property
    def exercises(self) -> list[str]:
        """The names of its exercises."""
        return list(self.lesson.exercises)

    @functools.cached_property
    def stored(self) -> nbformat.NotebookNode:
        """The notebook as it is stored."""
        return nbformat.read(self.path, as_version=4)

    @functools.cached_property
    def solutions(self) -> Any:
        """The module of its solutions."""
        return load(self.folder / "solutions" / f"{self.name}.py")

    def judged(self, exercise: str, answer: Any) -> Result:
        """The verdict of the check on an answer."""
        return judge(self.name, self.lesson.exercises[exercise], answer)

    def unsolved(self, exercise: str, **names: Any) -> Any:
        """The value of the name in the exercise's own cell of the stored notebook.

        Args:
            names: That the cell needs beside `rf`, `lesson`, and what cells above import.
        """
        (at,) = [i for i, cell in enumerate(self.stored.cells) if _checks(cell, exercise)]
        others = dict.fromkeys(self.exercises, ...)  # that it may go on with
        space: dict[str, Any] = {"rf": rf, **others, **self._imported(at), **names, "lesson": _Silent()}
        exec(compile(self.stored.cells[at].source, f"<cell of {exercise}>", "exec"), space)
        return space[exercise]

    def _imported(self, before: int) -> dict[str, Any]:
        """The imports of the cells above."""
        space: dict[str, Any] = {}
        for cell in self.stored.cells[:before]:
            if cell.cell_type == "code" and not cell.source.lstrip().startswith("%"):
                found = [node for node in ast.parse(cell.source).body if isinstance(node, (ast.Import, ast.ImportFrom))]
                exec(compile(ast.Module(found, []), "<imports>", "exec"), space)
        return space

    def assert_judges(
        self,
        exercise: str,
        wrong: Mapping[str, Any],
        *,
        right: Mapping[str, Any] | None = None,
        broken: str = "",
        **names: Any,
    ) -> None:
        """The unsolved cell fails as unsolved, each wrong answer fails with the words that name its mistake, the solution passes.

        Args:
            wrong: Part of the message: answer that gets it; three at least, each with other words.
            right: Further answers that are right in another form, by any name.
            broken: Of an exercise whose cell has code to be mended: part of what its check says of that code.
            names: As of `unsolved`.
        """
        unsolved = self.judged(exercise, self.unsolved(exercise, **names))
        assert (unsolved.status == "unsolved") is not bool(broken), f"the unsolved cell of {exercise} is {unsolved}"
        assert not unsolved.passed and broken in unsolved.message, f"the unsolved cell of {exercise} is {unsolved}"
        assert len(wrong) >= LEAST_WRONG, f"{exercise}: {len(wrong)} wrong answers"
        for words, answer in wrong.items():
            assert len(words) >= 8, f"{exercise}: {words!r} names no mistake"
            result = self.judged(exercise, answer)
            assert result.status in ("wrong", "error"), f"{exercise}: the answer for {words!r} is {result}"
            assert words in result.message, f"{exercise}: said is\n{result.message}\nnot {words!r}"
        for name, answer in {"solution": getattr(self.solutions, exercise), **(right or {})}.items():
            result = self.judged(exercise, answer)
            assert result.passed, f"{exercise}: {name} does not pass: {result}"

    def executed(self, **environment: str) -> Executed:
        """The notebook after a run from top to bottom with everything revealed; run once, also for the site and other tests."""
        return _executed(self.path, tuple(sorted(environment.items())))


class Executed:
    """An executed notebook.

    Args:
        theory: The page of theory whose slides have its pictures, "" for none.
    """

    def __init__(self, notebook: nbformat.NotebookNode, theory: str = ""):
        self.notebook, self.theory = notebook, theory

    def problems(self) -> list[str]:
        """Its problems, one line each."""
        truths = [
            data for data in self.records("reveal") if data.get("options") and data["truth"] not in data["options"]
        ]
        found = [f"{data['exercise']}: its truth {data['truth']} is none of the options" for data in truths]
        for cell in re.findall(r'\.ipynb "([\w-]+)"\)', self.theory):
            if not (picture := picture_of(self.notebook, cell)):
                found.append(f"{cell}: no picture for its slide")
            elif (size := letters_on_a_slide(picture)) < LEAST_LETTERS:
                found.append(f"{cell}: letters of {size:.0f} pixels on a slide; draw fewer rows or columns")
        return problems(self.notebook) + found

    def cell(self, text: str) -> nbformat.NotebookNode:
        """The cell of code with this text or id."""
        (found,) = [
            cell
            for cell in self.notebook.cells
            if cell.cell_type == "code" and (text == cell.id or text in cell.source)
        ]
        return found

    def printed(self, text: str) -> str:
        """The printed output of that cell."""
        return "".join(o.text for o in self.cell(text).outputs if o.output_type == "stream" and o.name == "stdout")

    def shown(self, text: str) -> list[str]:
        """The texts of what that cell displayed, one of each output."""
        return [o.data.get("text/plain", "") for o in self.cell(text).outputs if "data" in o]

    def records(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The records for a grader in all cells, optionally of one kind ("check", "predict", "reveal", ...)."""
        found = [
            o.data[MIME] for cell in self.notebook.cells for o in cell.get("outputs", []) if MIME in o.get("data", {})
        ]
        return [dict(data) for data in found if kind in (None, data["kind"])]

    def asked(self) -> set[str]:
        """The names of the questions that are predicted or explained."""
        return {data["exercise"] for kind in ("predict", "explain") for data in self.records(kind)}

    def truth(self, question: str) -> str:
        """The revealed truth of a prediction."""
        (found,) = {data["truth"] for data in self.records("reveal") if data["exercise"] == question}
        return found

    def assert_truths(self, predictions: Mapping[str, Any], *, but: tuple[str, ...] = ("why",)) -> None:
        """Nothing is wrong with it, and what it reveals of each question is what the solutions predict; not of those that begin so."""
        assert self.problems() == []
        truths = {data["exercise"]: data["truth"] for data in self.records("reveal")}
        for question, answer in predictions.items():
            if not question.startswith(but):
                assert truths[question] == str(answer), question

    def prose(self) -> str:
        """All text cells."""
        return "\n\n".join(cell.source for cell in self.notebook.cells if cell.cell_type == "markdown")


LEAST_LETTERS = 13  # pixels, which the last row of a room can read


def letters_on_a_slide(picture: str) -> float:
    """The height in pixels of the letters of a picture, as HTML, on a slide of 1280 x 720: as `slides.css` fits it in."""
    image = Image.open(io.BytesIO(base64.b64decode(re.search(r"base64,([^\"]+)", picture)[1])))
    units = re.search(r' width="(\d+)"', picture)
    drawn = 11 * image.width / int(units[1]) if units else 10 / 72 * image.info["dpi"][0]  # of views, and of matplotlib
    room = min(0.7 * 720 / image.height, 0.92 * 1280 / image.width)
    return float(drawn * min(room, max(1, 0.58 * 720 / image.height)))


def weights_in(text: str) -> list[list[float]]:
    """The weights of a map in the text of a view; "<.01" is half of that, and ">.99" likewise."""
    rows = [re.findall(r"[·░▒▓█](\d\.\d\d|<\.01|>\.99)", line) for line in text.splitlines()]
    rounded = {"<.01": 0.005, ">.99": 0.995}
    return [[rounded.get(number) or float(number) for number in row] for row in rows if len(row) > 1]


class _Silent:
    """Stands for the lesson in a cell whose names are wanted, not its checks."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: args[-1] if name == "use" else None


def _checks(cell: nbformat.NotebookNode, exercise: str) -> bool:
    return cell.cell_type == "code" and f'lesson.check("{exercise}"' in cell.source


@functools.cache
def _executed(path: Path, environment: tuple[tuple[str, str], ...]) -> Executed:
    page = NOTEBOOKS.parent / "docs/theory" / f"{path.stem}.md"
    theory = page.read_text("utf-8") if page.is_file() else ""
    return Executed(executed(path, env={**FOR_A_PAGE, **dict(environment)}, seconds=300 * SLOWNESS), theory)
