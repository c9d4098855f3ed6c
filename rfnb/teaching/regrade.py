"""Rerun the checks of a lesson on submitted notebooks: each answer in its own process, with limits.

grades = checked(sorted(Path("submitted").rglob("*.ipynb")))
print(grades)                # a table, then the reasons, then answers that are alike
grades.csv()                 # one line per answer

Only the cells of exercises run, with imports and the functions of other cells that they use; stored check results do
not count. Limits keep an endless loop from stopping the others. They are not a sandbox: an answer runs with the rights
of the grader, so answers that access more than an exercise needs are reported.
"""

from __future__ import annotations

import ast
import dis
import linecache
import math
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from io import StringIO
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType
from typing import Any

from rfnb.teaching import course
from rfnb.teaching.grades import Entry, Grade, Grades, read_grades
from rfnb.teaching.judge import judge
from rfnb.teaching.lesson import Lesson
from rfnb.teaching.notebook import cells_of
from rfnb.teaching.similar_answers import Alike, alike
from rfnb.teaching.threads import cores, limit_threads

SECONDS, MEMORY = 30.0, 2 << 30  # per answer; bytes above the memory of an idle process
_WAITING = 10.0  # wall-clock seconds per second of computing, since others use the machine too
# No exercise needs these: the rest of the machine, and the checks.
_SUSPECT = {"os", "sys", "subprocess", "socket", "inspect", "gc", "ctypes", "importlib", "shutil", "pathlib", "__import__",
            "open", "exec", "eval", "globals", "rfnb.teaching", "rf.lesson"}  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """The limits of one answer: computing time in seconds, and memory in bytes."""

    seconds: float = SECONDS
    memory: int = MEMORY


class CheckedGrades(Grades):
    """Grades from rerun checks; `print` also shows the reasons and the answers that are alike."""

    def __init__(self, grades: Iterable[Grade], found: Sequence[Alike] = ()):
        super().__init__(grades)
        self.alike = list(found)

    def __str__(self) -> str:
        parts = [super().__str__()]
        reasons = [
            f"{grade.student}: {entry.exercise} {entry.status}: {_first_lines(entry.message)}"
            for grade in self.grades
            for entry in grade.entries
            if entry.kind == "check"
            and entry.message
            and (entry.status in ("wrong", "error") or "Look at it" in entry.message)
        ]
        parts += ["Reasons:\n" + "\n".join(reasons)] if reasons else []
        parts += ["Answers that are alike:\n" + "\n".join(map(str, self.alike))] if self.alike else []
        return "\n\n".join(parts)


def notebooks_in(paths: Iterable[Path]) -> list[Path]:
    """The notebooks among these paths and in these folders."""
    found = list[Path]()
    for path in paths:
        found += sorted(path.rglob("*.ipynb")) if path.is_dir() else [path]
    return [path for path in found if ".ipynb_checkpoints" not in path.parts]


def checked(paths: Iterable[str | os.PathLike[str]], *, limits: Limits = Limits()) -> CheckedGrades:
    """The grades of notebooks from checks that run now; predictions and explanations are those stored in the notebooks.

    Args:
        paths: The notebooks, as in `read_grades`.
        limits: The limits of each answer.
    """
    held = [(grade, _Submitted.of(grade)) for grade in read_grades(paths).grades]
    context = _context()
    with ThreadPoolExecutor(max_workers=max(1, min(4, cores()))) as pool:
        made = list(pool.map(lambda each: _graded(each[0], each[1], limits, context), held))
    pairs = alike([(grade.student, given.answers) for grade, given in held if given])
    return CheckedGrades([_with_others(grade, pairs) for grade in made], pairs)


def _with_others(grade: Grade, found: Sequence[Alike]) -> Grade:
    """The grade with a note at each answer that others have too, for readers of the CSV."""
    by_name = {each.exercise: each.students for each in found if grade.student in each.students}

    def told(entry: Entry) -> Entry:
        others = (
            [one for one in by_name.get(entry.exercise, []) if one != grade.student] if entry.kind == "check" else []
        )
        return replace(entry, message=f"{entry.message}\nAlike: {', '.join(others)}".lstrip()) if others else entry

    return replace(grade, entries=[told(entry) for entry in grade.entries])


@dataclass(frozen=True)
class _Submitted:
    """The answers to a lesson in a notebook.

    Attributes:
        folder: The grader's folder with the checks of the lesson.
        answers: The source of each exercise's cell, by its name; "" if there is none.
        sources: The code that runs for each exercise.
    """

    lesson: str
    folder: Path
    answers: dict[str, str]
    sources: dict[str, str]

    @classmethod
    def of(cls, grade: Grade) -> _Submitted | None:
        lesson = grade.lesson or _named_in(grade.path)
        if lesson not in course.lessons():
            return None
        folder = course.folder_of(lesson)
        bodies = [body for body in map(_parsed, (cell.source for cell in cells_of(grade.path))) if body is not None]
        names = Lesson(lesson, folder).exercises
        own = {name: next((body for body in reversed(bodies) if _checks(body, name)), None) for name in names}
        answers = {name: _source(_answer(name, body, bodies)) for name, body in own.items()}
        return cls(lesson, folder, answers, {name: _program(name, own, bodies) for name in names})


def _graded(grade: Grade, given: _Submitted | None, limits: Limits, context: Any) -> Grade:
    if given is None:
        return grade
    exercises = Lesson(given.lesson, given.folder).exercises
    entries = []
    lacks = (
        "There is no cell of Python that makes and checks it."
        if cells_of(grade.path)
        else "The file is no notebook that can be read."
    )
    for name, exercise in exercises.items():
        answer = given.answers[name]
        status, message = ("not run", lacks) if not answer else (
            _apart(given, name, limits, context)
        )  # fmt: skip
        reaches = _reaches(answer, given.sources[name])
        if reaches:
            message = f"Look at it: it uses {', '.join(reaches)}.\n{message}".rstrip()
        points = exercise.points if status == "passed" else 0
        entries.append(Entry("check", name, status, points, exercise.points, answer, "", message))
    others = [entry for entry in grade.entries if entry.kind != "check"]
    return replace(grade, lesson=given.lesson, entries=[*entries, *others])


def _apart(given: _Submitted, name: str, limits: Limits, context: Any) -> tuple[str, str]:
    """The verdict on an answer, computed in its own process."""
    ours, theirs = context.Pipe(duplex=False)
    job = given.lesson, str(given.folder), name, given.sources[name], limits
    process = context.Process(target=_judged, args=(theirs, *job), daemon=True)
    process.start()
    theirs.close()
    begin, said = time.monotonic(), None
    try:
        if ours.poll(_WAITING * limits.seconds):
            with suppress(EOFError, OSError):
                said = ours.recv()
        late = said is None and time.monotonic() - begin >= _WAITING * limits.seconds
        if said is None and not late:
            process.join(10.0)  # wait for its exit code
            late = process.exitcode == -getattr(signal, "SIGXCPU", 0)
    finally:
        process.kill()
        process.join()
        ours.close()
    if late:
        return "error", f"It took more than {limits.seconds:g} seconds, and was stopped."
    if not (isinstance(said, tuple) and len(said) == 2 and all(isinstance(part, str) for part in said)):
        return "error", "Its process ended before the check did: too much memory, or a crash."
    return said


def _judged(out: Connection, lesson: str, folder: str, name: str, source: str, limits: Limits) -> None:
    """Runs in the process of an answer."""
    with suppress(AttributeError, OSError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_threads(1)
    _limit(limits)
    of = Lesson(lesson, Path(folder))
    exercise = of.exercises[name]
    file = f"<cell of {name}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    space: dict[str, Any] = {"__name__": "__main__", "lesson": _LessonOf(of, name)}
    with tempfile.TemporaryDirectory() as place, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        os.chdir(place)
        try:
            exec(compile(source, file, "exec"), space)
        except BaseException as error:  # includes SystemExit
            said = "error", f"Its cell raises {type(error).__name__}: {str(error)[:300]}"
            if isinstance(error, MemoryError) or _NO_MEMORY in str(error):
                said = "error", _too_large(limits)
        else:
            result = judge(lesson, exercise, space.get(name))
            said = result.status, "" if result.passed else result.message
            if "raises MemoryError" in result.message or _NO_MEMORY in result.message:
                said = "error", _too_large(limits)
        os.chdir("/")
    out.send(said)
    out.close()


class _LessonOf:
    """Stands in for the lesson: provides its files, and the answers to earlier exercises that an answer builds on."""

    def __init__(self, lesson: Lesson, exercise: str):
        self.file, self.module, self._lesson, self._exercise = lesson.file, lesson.module, lesson, exercise

    def use(self, name: str, answer: Any) -> Any:
        if name == self._exercise:
            raise AttributeError(f'lesson.use("{name}"): the solution is no answer')
        return self._lesson.use(name, answer)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"lesson.{name}: an answer stands for itself, without the lesson")


_NO_MEMORY = "can't allocate memory"  # the message of torch


def _too_large(limits: Limits) -> str:
    return f"It needs more than {limits.memory / 2**30:g} GiB of memory."


def _limit(limits: Limits) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    with suppress(OSError, ValueError):
        computed = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(computed + limits.seconds), resource.RLIM_INFINITY))
    with suppress(OSError, ValueError, IndexError):
        used = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + limits.memory, used + limits.memory))


def _context() -> Any:
    """A context whose processes have imported what answers need, and share no state with the grader, if the platform supports it."""
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload(["torch", "rfnb", "rfnb.models", "IPython.display", __name__])
    return context


def _answer(name: str, body: list[ast.stmt] | None, bodies: list[list[ast.stmt]]) -> list[ast.stmt]:
    """The statements that define an answer: in the cell that checks it, and in earlier cells that it uses."""
    if body is None:
        return []
    statements = _without_calls(body, name)
    if any(name in _names_of(node) for node in statements):
        return statements
    cells = bodies[: bodies.index(body)]
    above = [node for each in cells for node in _without_calls(each, name) if name in _names_of(node)]
    return above[-1:] + statements


def _program(name: str, own: dict[str, list[ast.stmt] | None], bodies: list[list[ast.stmt]]) -> str:
    """Imports of the notebook, the code of earlier cells that the answer uses, and the answer."""
    body = own[name]
    if body is None:
        return ""
    statements = _answer(name, body, bodies)
    above = [node for each in bodies[: bodies.index(body)] for node in _without_calls(each, name)]
    made = _makers(above)
    needed, left = list[ast.stmt](), [*statements]
    while left:
        one = left.pop()
        of_itself = {name for node in statements for name in _names_of(node)} if one in statements else set[str]()
        for node in (node for read in sorted((_globals_of(one) - of_itself) & set(made)) for node in made[read]):
            if node not in needed and node not in statements:
                needed, left = [*needed, node], [*left, node]
    needed.sort(key=above.index)
    imports: list[ast.stmt] = [
        ast.Try([node], [ast.ExceptHandler(ast.Name("ImportError", ast.Load()), None, [ast.Pass()])], [], [])
        for each in bodies
        for node in each
        if isinstance(node, (ast.Import, ast.ImportFrom)) and getattr(node, "module", "") != "__future__"
    ]
    return _source([*imports, *needed, *statements])


def _makers(above: list[ast.stmt]) -> dict[str, list[ast.stmt]]:
    """The last statement that defines each name, and the later statements that fill it, such as a loop that adds to a dict."""
    made: dict[str, list[ast.stmt]] = {}
    for node in above:
        inside = [one for one in ast.walk(node) if isinstance(one, (ast.Name, ast.Subscript, ast.Attribute))]
        filled = {
            one.value.id
            for one in inside
            if isinstance(one, (ast.Subscript, ast.Attribute))
            and isinstance(one.value, ast.Name)
            and (isinstance(one.ctx, ast.Store) or (isinstance(one, ast.Attribute) and one.attr in _FILLS))
        }
        blocks = isinstance(node, (ast.For, ast.While, ast.With, ast.If, ast.Try, ast.AugAssign))
        stored = (
            {one.id for one in inside if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
            if blocks
            else set[str]()
        )
        for name in _names_of(node):
            made[name] = [*(made.get(name, []) if name in _globals_of(node) else []), node]
        for name in sorted(stored | filled):
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                made.setdefault(name, []).append(node)
    return made


_FILLS = {"append", "add", "update", "extend", "setdefault", "insert", "pop", "remove", "sort", "reverse", "shuffle"}


def _globals_of(statement: ast.stmt) -> set[str]:
    """The notebook names that a statement, or a function in it, reads."""
    codes = [compile(ast.fix_missing_locations(ast.Module([statement], [])), "<cell>", "exec")]
    found = set[str]()
    while codes:
        code = codes.pop()
        found |= {str(one.argval) for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        codes += [one for one in code.co_consts if isinstance(one, CodeType)]
    return found


def _source(statements: list[ast.stmt]) -> str:
    return "\n".join(ast.unparse(ast.fix_missing_locations(node)) for node in statements)


def _names_of(node: ast.stmt) -> list[str]:
    """The names that a statement defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        names = [one for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)]
        return [one.id for one in names if isinstance(one.ctx, ast.Store)]
    return []


def _without_calls(body: list[ast.stmt], name: str) -> list[ast.stmt]:
    """The statements without those that call the lesson, e.g. to check this exercise, or only show something."""
    return [node for node in body if not ((isinstance(node, ast.Expr) and not _fills(node)) or _asks(node, name))]


def _fills(node: ast.Expr) -> bool:
    """Whether it has the form `found.append(one)`."""
    call = node.value
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _FILLS


def _asks(node: ast.stmt, name: str) -> bool:
    if not isinstance(node, ast.Assign):
        return False
    calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
    names = [ast.unparse(one.func) for one in calls if not _goes_on(one, name)]
    return "rf.lesson" in names or any(one.startswith("lesson.") for one in names)


def _goes_on(call: ast.Call, name: str) -> bool:
    """Whether an answer may use this call of the lesson: for a file, or for the answer to another exercise."""
    asked = ast.unparse(call.func)
    other = asked == "lesson.use" and call.args and ast.unparse(call.args[0]) != repr(name)
    return bool(other) or asked in ("lesson.file", "lesson.module")


def _parsed(source: str) -> list[ast.stmt] | None:
    lines = ["" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines()]
    try:
        return ast.parse("\n".join(lines)).body
    except (SyntaxError, ValueError):
        return None


def _calls(body: list[ast.stmt]) -> Iterator[ast.Call]:
    for statement in body:
        yield from (node for node in ast.walk(statement) if isinstance(node, ast.Call))


def _checks(body: list[ast.stmt], name: str) -> bool:
    return any(
        ast.unparse(call.func) == "lesson.check" and call.args and ast.unparse(call.args[0]) == repr(name)
        for call in _calls(body)
    )


def _named_in(path: Path) -> str:
    """The lesson that a notebook starts."""
    for cell in cells_of(path):
        for call in _calls(_parsed(cell.source) or []):
            if (
                ast.unparse(call.func) in ("rf.lesson", "lesson")
                and call.args
                and isinstance(call.args[0], ast.Constant)
            ):
                return str(call.args[0].value)
    return ""


def _reaches(answer: str, program: str) -> list[str]:
    """The names that no exercise needs, used in an answer or in code of other cells that it uses."""
    found = set[str]()
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "rf.lesson":
            found.add("rf.lesson")
        elif isinstance(node, ast.Attribute) and node.attr.startswith("__"):
            found.add("__import__") if node.attr == "__import__" else found.add("globals")
    for node in ast.walk(ast.parse(answer)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found |= {"rfnb.teaching" if one.startswith("rfnb.teaching") else one.split(".")[0] for one in names}
    return sorted(found & _SUSPECT)


def _first_lines(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip() and not line.startswith("  ")]
    return " ".join(lines[:2])
