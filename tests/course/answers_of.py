"""Answers to the exercises of a lesson, right and wrong ones, written by somebody who had not seen the checks: `answers/01_dims.txt`.

    = outer(a, b)                     an exercise; with arguments, what follows is the body of the function
    + said with combine_bc            a right answer, in words; the lines below are its code
    return rf.combine_bc(a, "*", b)
    - works only where one has all dims   a wrong one
    return a * b

for answer in answers_of("01_dims"):
    print(answer.exercise, answer.is_right, answer.words)
verdicts = verdicts_of("01_dims")     # by answer: what the check says, each answer in a cell of its own
"""

from __future__ import annotations

import ast
import dis
import io
import linecache
import textwrap
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from course.harness import Course

import rfnb as rf
from rfnb.teaching.result import Result

FOLDER = Path(__file__).parent / "answers"
LESSONS = sorted(path.stem for path in FOLDER.glob("*.txt"))


@dataclass(frozen=True)
class Answer:
    """An answer to one exercise, as the source of its cell."""

    exercise: str
    is_right: bool
    words: str
    source: str


def answers_of(lesson: str) -> list[Answer]:
    """The answers of a lesson, in the order of its file."""
    found, head, body = list[Answer](), "", list[str]()
    for line in [*(FOLDER / f"{lesson}.txt").read_text("utf-8").splitlines(), "= "]:
        if line[:2] not in ("= ", "+ ", "- "):
            body.append(line)
            continue
        if head and body and found:
            exercise, arguments, _ = head.partition("(")
            code = "\n".join(body).strip("\n")
            source = f"def {head}:\n{textwrap.indent(code, '    ')}\n" if arguments else code + "\n"
            found[-1] = Answer(exercise, found[-1].is_right, found[-1].words, source)
        body = []
        if line[0] == "=":
            head = line[2:].strip()
        else:
            found.append(Answer("", line[0] == "+", line[2:], ""))
    return found


def verdicts_of(lesson: str) -> list[tuple[Answer, Result]]:
    """The verdicts of a lesson's checks on each answer, with the variables of the cells above as in a kernel."""
    course, answers = Course(lesson), answers_of(lesson)
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        above = _made_above(course, answers)
        return [(answer, _verdict(course, answer, above)) for answer in answers]


def _verdict(course: Course, answer: Answer, above: dict[str, Any]) -> Result:
    file = f"<cell of {answer.exercise}>"
    linecache.cache[file] = len(answer.source), None, answer.source.splitlines(True), file
    space = dict(above)
    exec(compile(answer.source, file, "exec"), space)
    return course.lesson.check(answer.exercise, space[answer.exercise])


def _made_above(course: Course, answers: Iterable[Answer]) -> dict[str, Any]:
    """The names that answers find in a kernel: imports, solutions of other exercises, and what cells have made that they read."""
    cells = [cell.source for cell in course.stored.cells if cell.cell_type == "code"]
    bodies = [ast.parse(cell).body for cell in cells]
    made = [
        ast.Module([node for node in body if not isinstance(node, (ast.Import, ast.ImportFrom))], []) for body in bodies
    ]
    makers = {name: at for at, cell in enumerate(made) for name in _names(cell)[1]}
    needed, left = set[int](), [answer.source for answer in answers]
    while left:
        read = _names(left.pop())[0] - set(course.exercises)
        new = {makers[name] for name in read if name in makers} - needed
        needed |= new
        left += [cells[at] for at in new]
    space: dict[str, Any] = {"rf": rf, "lesson": course.lesson, "__name__": "__main__"}
    space |= {name: getattr(course.solutions, name) for name in course.exercises}
    for at, body in enumerate(bodies):
        run = [node for node in body if at in needed or isinstance(node, (ast.Import, ast.ImportFrom))]
        exec(compile(ast.Module(run, []), f"<cell {at}>", "exec"), space)
        space |= {name: getattr(course.solutions, name) for name in course.exercises}
    return space


def _names(source: str | ast.Module) -> tuple[set[str], set[str]]:
    """The names that a cell reads, also in its functions, and those that it makes."""
    read, made, codes = set[str](), set[str](), [compile(source, "<cell>", "exec")]
    while codes:
        code = codes.pop()
        for one in dis.get_instructions(code):
            if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                read.add(one.argval)
            elif one.opname in ("STORE_GLOBAL", "STORE_NAME") and code.co_name == "<module>":
                made.add(one.argval)
        codes += [one for one in code.co_consts if isinstance(one, CodeType)]
    return read, made
