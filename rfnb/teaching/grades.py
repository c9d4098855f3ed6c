"""Read results from the outputs of submitted notebooks, as a table and as CSV. No code of theirs is run.

grades = read_grades(sorted(Path("submitted").glob("*/07_search/07_search.ipynb")))
print(grades)                # one line per notebook
grades.csv()                 # one line per answer

The outputs of a notebook can be edited; nbgrader reruns the checks (`assignment.py`).
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rfnb.teaching import course
from rfnb.teaching.lesson import Lesson
from rfnb.teaching.notebook import records_in
from rfnb.viz.terminal import aligned
from rfnb.viz.visible_text import line

_MARKS = {"passed": "✓", "wrong": "✗", "error": "✗", "unsolved": "○", "not run": "–"}
_COLUMNS = ["student", "lesson", "kind", "exercise", "status", "points", "of", "answer", "truth", "message"]


@dataclass(frozen=True)
class Entry:
    """One answer.

    Attributes:
        kind: "check", "predict", "explain", or another kind of question.
        exercise: Its name.
        status: For a check "passed", "wrong", "error", "unsolved", "not run"; for others "right", "not right", "answered", "open".
        points, of: Points earned and possible; 0 of 0 if there are no points.
        answer, truth, message: As text, or "".
    """

    kind: str
    exercise: str
    status: str
    points: float = 0
    of: float = 0
    answer: str = ""
    truth: str = ""
    message: str = ""


@dataclass(frozen=True)
class Grade:
    """The answers in one notebook.

    Attributes:
        student: From the folder, or from the name of the file.
        lesson: "" if the notebook has no lesson.
        path: The path of the notebook.
        entries: In the order of the notebook, then exercises that were not run.
    """

    student: str
    lesson: str
    path: Path
    entries: list[Entry] = field(default_factory=list)

    @property
    def points(self) -> float:
        """The points of all passed checks."""
        return sum(entry.points for entry in self.entries)

    @property
    def of(self) -> float:
        """The number of possible points."""
        return sum(entry.of for entry in self.entries)


class Grades:
    """The answers of several notebooks; `print` shows a table."""

    def __init__(self, grades: Iterable[Grade]):
        self.grades = list(grades)

    def csv(self) -> str:
        """One line per answer, with a header; for spreadsheets and pandas."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for grade in self.grades:
            for entry in grade.entries:
                row = [grade.student, grade.lesson, *(getattr(entry, name) for name in _COLUMNS[2:])]
                writer.writerow([_harmless(each) for each in row])
        return out.getvalue()

    def __str__(self) -> str:
        if not self.grades:
            return "No notebooks."
        rows = [["student", "lesson", "points", "exercises", "predictions"]]
        for grade in self.grades:
            checks = [entry for entry in grade.entries if entry.kind == "check"]
            others = [entry for entry in grade.entries if entry.kind != "check"]
            right = sum(entry.status == "right" for entry in others)
            answered = sum(entry.status != "open" for entry in others)
            rows.append(
                [
                    line(grade.student), grade.lesson or "no lesson in it",
                    f"{grade.points:g}/{grade.of:g}" if checks else "",
                    " ".join(f"{_MARKS[entry.status]}{entry.exercise}" for entry in checks),
                    f"{right} right, {answered} of {len(others)} answered" if others else "",
                ]
            )  # fmt: skip
        return "\n".join(aligned(rows))

    __repr__ = __str__


def read_grades(paths: Iterable[str | os.PathLike[str]]) -> Grades:
    """Read the answers in submitted notebooks.

    Args:
        paths: The notebooks. For a file named like a lesson the folder gives the student (`ada/07_search.ipynb`,
            `submitted/ada/07_search/07_search.ipynb`), else the name of the file (`ada.ipynb`).
    """
    return Grades(_grade(Path(path)) for path in paths)


def _grade(path: Path) -> Grade:
    records = records_in(path)
    lesson = next((each["lesson"] for each in records), "")
    if not lesson and re.match(r"\d\d_", path.stem):
        lesson = path.stem  # nothing was run
    # If a question was answered several times, the last answer counts.
    last = {(each["kind"], each["exercise"]): each for each in records if each["lesson"] == lesson}
    entries = [_entry(each) for each in last.values() if each["kind"] not in ("reveal", "hint", "solution")]
    known = {entry.exercise for entry in entries if entry.kind == "check"}
    entries += [
        Entry("check", name, "not run", 0, points) for name, points in _points(lesson).items() if name not in known
    ]
    return Grade(_student(path, lesson), lesson, path, entries)


def _entry(data: dict[str, Any]) -> Entry:
    truth, answer = (_text(data.get(name)) for name in ("truth", "answer"))
    name, message = data["exercise"], _text(data.get("message"))
    if data["kind"] == "check":
        of = data.get("points", 1)
        of = of if isinstance(of, (int, float)) and of > 0 else 1
        status = str(data.get("status"))
        status = status if status in _MARKS else "wrong"
        return Entry("check", name, status, of if status == "passed" else 0, of, answer, "", message)
    passed = data.get("passed")
    judged = "right" if passed else "not right"
    status = "open" if not data.get("committed") else judged if isinstance(passed, bool) else "answered"
    return Entry(data["kind"], name, status, 0, 0, answer, truth, message)


def _points(lesson: str) -> dict[str, float]:
    """The points of all exercises of a lesson; {} if the lesson is not installed."""
    try:
        return {each.name: each.points for each in Lesson(lesson, course.folder_of(lesson)).exercises.values()}
    except OSError:
        return {}


def _student(path: Path, lesson: str) -> str:
    if path.stem != lesson:
        return path.stem
    parents = [each.name for each in path.resolve().parents if each.name != lesson]
    return parents[0] if parents else path.stem


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _harmless(value: Any) -> Any:
    """A text that no spreadsheet interprets as a formula."""
    return "'" + value if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
