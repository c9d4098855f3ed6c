"""Run a check on an answer and return the verdict; no exception of an answer escapes except a kernel interrupt.

A check uses its own random generators, so that cells compute the same with and without it.
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import linecache
import random
import textwrap
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.errors import message
from rfnb.core.place import in_package
from rfnb.teaching.brief import brief
from rfnb.teaching.compare import inputs_of
from rfnb.teaching.course import missing
from rfnb.teaching.difference import is_answered
from rfnb.teaching.exercises import Exercise, Unsolved, Wrong
from rfnb.teaching.result import Result

_SEED = 1
_MOST = 2000  # characters of the text of an exception


def judge(lesson: str, exercise: Exercise, answer: Any) -> Result:
    """The verdict of an exercise's check on an answer."""
    status, said = _outcome(exercise, answer)
    return Result(lesson, exercise.name, exercise.title, status, said, exercise.points, source_of(answer))


def source_of(answer: Any) -> str:
    """The source of a function or class, else its value on one line."""
    if isinstance(answer, (FunctionType, type)):
        try:
            return textwrap.dedent(inspect.getsource(answer))
        except (OSError, TypeError):  # defined by exec
            return repr(answer)
    return brief(answer, 2000)


def _outcome(exercise: Exercise, answer: Any) -> tuple[str, str]:
    push = f' A first push: lesson.hint("{exercise.name}")' if exercise.hints else ""
    if not is_answered(answer) or _is_empty(answer):
        return "unsolved", "Solve it, and run the cell again." + push
    watched, last = _watched(answer)
    gap = _gap(answer)
    try:
        with _own_generators():
            exercise.check(watched)
    except (Unsolved, NotImplementedError):
        return "unsolved", gap or "There is still a `...` to be replaced." + push
    except Wrong as found:
        return ("unsolved", gap) if gap else ("wrong", str(found))
    except (Exception, SystemExit) as error:
        return (
            ("unsolved", gap) if gap or "ellipsis" in _said(error) else ("error", _crash(exercise, answer, error, last))
        )
    return "passed", exercise.title


@contextmanager
def _own_generators() -> Iterator[None]:
    backend = registry.selected()
    state, of_python, of_numpy = backend.get_random_state(), random.getstate(), np.random.get_state()
    try:
        backend.set_random_seed(_SEED)
        random.seed(_SEED)
        np.random.seed(_SEED)
        yield
    finally:
        backend.set_random_state(state)
        random.setstate(of_python)
        np.random.set_state(of_numpy)


def _watched(answer: Any) -> tuple[Any, list[list[tuple[str, object]]]]:
    """The answer, wrapped to record the arguments of its last call as lines if it is a function."""
    last: list[list[tuple[str, object]]] = []
    if not isinstance(answer, FunctionType):
        return answer, last

    @functools.wraps(answer)
    def watched(*args: Any, **kwargs: Any) -> Any:
        last[:] = [inputs_of(answer, args, kwargs)]
        return answer(*args, **kwargs)

    return watched, last


def _is_empty(answer: Any) -> bool:
    """Whether a function does nothing but return None."""
    if not isinstance(answer, FunctionType):
        return False
    real = [each for each in dis.get_instructions(answer) if each.opname not in ("RESUME", "NOP", "COPY_FREE_VARS")]
    names = [each.opname for each in real]
    return names in (["LOAD_CONST", "RETURN_VALUE"], ["RETURN_CONST"]) and not is_answered(real[0].argval)


def _gap(answer: Any) -> str:
    """A sentence about the first line of a function or class that still has `...`; "" if there is none, or no source."""
    if not isinstance(answer, (FunctionType, type)):
        return ""
    try:
        source = textwrap.dedent(inspect.getsource(answer))
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError):
        return ""
    places = [getattr(node, "lineno", 1) for node in ast.walk(tree) if _is_open(node)]
    if not places:
        return ""
    line = source.splitlines()[min(places) - 1].strip()
    return f"There is still a `...` to be replaced: {line}"


def _is_open(node: ast.AST) -> bool:
    """Whether a statement assigns, returns or passes `...`; as an index or alone on a line it may be part of an answer."""
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.keyword)):
        held = [node.value]
    elif isinstance(node, ast.Call):
        held = list(node.args)
    elif isinstance(node, ast.BinOp):
        held = [node.left, node.right]
    else:
        held = []
    return any(
        isinstance(one, ast.Constant) and one.value is Ellipsis
        for value in held
        for one in (value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value])
    )


def _said(error: BaseException) -> str:
    try:
        return str(error)[:_MOST]
    except Exception:  # for an exception whose str raises
        return ""


def _crash(exercise: Exercise, answer: Any, error: BaseException, last: Sequence[list[tuple[str, object]]]) -> str:
    """The error of an answer as text: the line in the answer, and the input."""
    kind, said = type(error).__name__, _said(error)
    own = list(_own_lines(error.__traceback__, answer, exercise))
    rows: list[tuple[str, object]] = []
    if own:
        number, text = own[-1]
        rows.append((f"line {number}", text))
    rows += last[0] if last else []
    if isinstance(error, FileNotFoundError) and not own:  # raised by the check, not by the answer
        gone = missing(Path(error.filename)) if error.filename else said
        return f"This cannot be checked, whatever the answer is: {gone}"
    what = f"{exercise.name} raises {kind}:" if own else f"The check can do nothing with this answer ({kind}):"
    if not own:
        rows.append(("got", brief(answer) if not callable(answer) else getattr(answer, "__name__", brief(answer))))
    return message(what, rows, said).rstrip("\n")


def _own_lines(tb: TracebackType | None, answer: Any, exercise: Exercise) -> Iterator[tuple[int, str]]:
    """The lines of the answer in a traceback: in the file or cell that defines it, or in cells that it calls."""
    check = exercise.check.__code__.co_filename
    begun = False
    for frame, number in traceback.walk_tb(tb):
        code = frame.f_code
        begun = begun or (code.co_filename == check)
        if begun and code.co_filename != check and not in_package(code) and _is_of_notebook(code.co_filename, answer):
            yield number, linecache.getline(code.co_filename, number).strip() or code.co_name


def _is_of_notebook(filename: str, answer: Any) -> bool:
    code = getattr(answer, "__code__", None) or getattr(getattr(answer, "__init__", None), "__code__", None)
    is_cell = filename.startswith("<") or "ipykernel_" in filename or "ipython-input" in filename
    return is_cell or (code is not None and filename == code.co_filename)
