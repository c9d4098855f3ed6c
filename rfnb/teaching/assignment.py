"""Assignments for nbgrader, built from a notebook of the course, its checks and its solutions.

python -m rfnb.teaching.assignment 07_search COURSE     # writes COURSE/source/07_search/ and COURSE/nbgrader_config.py

In the source of an assignment each exercise has its solution, between marks that nbgrader removes for students, and a
locked cell below that runs the check and gives the points. Building it does not need nbgrader.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rfnb.core.errors import value_error
from rfnb.teaching import course
from rfnb.teaching.lesson import Lesson
from rfnb.teaching.sources import source_with_needs

# The text that nbgrader puts in place of a solution: the `...` above it stays, and marks the exercise as unsolved.
_STUB = "# Write your answer in place of the dots."
_CONFIG = f"""c = get_config()
c.CourseDirectory.course_id = "rfnb"
c.ClearSolutions.code_stub = {{"python": {_STUB!r}}}
"""
_SCHEMA = 3  # version of the cell metadata


def assignment(lesson: str, folder: Path) -> Path:
    """Write the source of an assignment; returns its folder.

    Args:
        lesson: e.g. "07_search".
        folder: The folder of the nbgrader course. Its nbgrader_config.py is written if it is missing.

    Raises:
        FileNotFoundError: If there is no such lesson.
        ValueError: If an exercise has no cell or no solution.
    """
    found = Lesson(lesson, course.folder_of(lesson))
    target = folder / "source" / lesson
    (target / "checks").mkdir(parents=True, exist_ok=True)
    notebook = json.loads((found.folder / f"{lesson}.ipynb").read_text("utf-8"))
    notebook["cells"] = _with_marks(notebook["cells"], found)
    (target / f"{lesson}.ipynb").write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")
    checks = found.folder / "checks" / f"{lesson}.py"
    (target / "checks" / checks.with_suffix(course.SEALED).name).write_bytes(
        course.seal(course.source_of(checks) or "")
    )
    for name in _data_of(found):
        _copy_data(found.folder / name, target / name)
    if not (folder / "nbgrader_config.py").exists():
        (folder / "nbgrader_config.py").write_text(_CONFIG, "utf-8")
    return target


def _data_of(lesson: Lesson) -> set[str]:
    """The data files that the notebook and the checks of a lesson read, and the files that these read."""
    left = [lesson.folder / f"{lesson.name}.ipynb", lesson.folder / "checks" / f"{lesson.name}.py"]
    found = set[str]()
    while left:
        path = left.pop()
        names = set(re.findall(r"data/[\w.-]*\w", course.source_of(path) or "")) - found
        names = {name for name in names if (lesson.folder / name).is_file()}
        found |= names
        left += [lesson.folder / name for name in names if name.endswith(".py")]
    return found


def _copy_data(path: Path, target: Path) -> None:
    """Copy data unchanged and modules sealed, since modules contain answers."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".py":
        target.with_suffix(course.SEALED).write_bytes(course.seal(path.read_text("utf-8")))
    else:
        shutil.copy(path, target)


def _with_marks(cells: Sequence[dict[str, Any]], lesson: Lesson) -> list[dict[str, Any]]:
    """The cells with the solutions inserted into those of the exercises, and a locked cell below each."""
    solutions = (lesson.folder / "solutions" / f"{lesson.name}.py").read_text("utf-8")
    left, made = dict(lesson.exercises), list[dict[str, Any]]()
    for cell in cells:
        made.append(cell)
        text = "".join(cell["source"])
        name = next((each for each in left if cell["cell_type"] == "code" and f'lesson.check("{each}"' in text), None)
        if name is None:
            continue
        exercise, solution = left.pop(name), source_with_needs(solutions, name)
        if not solution:
            raise _lacking(lesson, name, "solution")
        cell["source"] = _solved(text, name, solution)
        cell["metadata"]["nbgrader"] = _metadata(name, solution=True)
        test = f'result = lesson.check("{name}", {_asked(text, name)})\nassert result.passed, result.message'
        metadata = _metadata(f"{name}-check", grade=True, locked=True) | {"points": exercise.points}
        made.append(_cell(f"{cell['id']}-check"[:64], test, {"nbgrader": metadata}))
    if left:
        raise _lacking(lesson, next(iter(left)), "cell with its check")
    return made


def _cell(name: str, source: str, metadata: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {"cell_type": "code", "execution_count": None, "outputs": []}
    return empty | {"id": name, "metadata": metadata, "source": source}


def _asked(text: str, name: str) -> str:
    """The argument that the cell of an exercise passes to its check, as source."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and len(node.args) == 2]
    for node in calls:
        first = node.args[0]
        if ast.unparse(node.func) == "lesson.check" and isinstance(first, ast.Constant) and first.value == name:
            return ast.unparse(node.args[1])
    return name


def _solved(text: str, name: str, solution: str) -> str:
    """The source of the cell of an exercise with the solution above its check."""
    before, check, after = text.partition(f'lesson.check("{name}"')
    start = before.rfind("\n") + 1  # start of the line with the check
    marked = f"### BEGIN SOLUTION\n{solution}\n### END SOLUTION\n"
    return before[:start] + marked + before[start:] + check + after


def _metadata(grade_id: str, *, solution: bool = False, grade: bool = False, locked: bool = False) -> dict[str, Any]:
    return {
        "schema_version": _SCHEMA, "grade_id": grade_id, "solution": solution, "grade": grade, "locked": locked, "task": False,
    } | ({"cell_type": "code"} if locked else {})  # fmt: skip


def _lacking(lesson: Lesson, name: str, what: str) -> ValueError:
    return value_error(
        f'assignment: the exercise "{name}" has no {what}.',
        {"lesson": lesson.name, "exercises": ", ".join(lesson.exercises)},
        "Each exercise of an assignment is asked in the notebook and solved in solutions/.",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the sources of the assignments named on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m rfnb.teaching.assignment", description="Write sources of nbgrader assignments."
    )
    parser.add_argument("lesson", nargs="+", help="as 07_search")
    parser.add_argument("course", type=Path, help="the folder of the nbgrader course")
    given = parser.parse_args(arguments)
    for lesson in given.lesson:
        print(assignment(lesson, given.course))
    print(f"Next, in {given.course}:  nbgrader generate_assignment {given.lesson[0]}")


if __name__ == "__main__":
    main()
