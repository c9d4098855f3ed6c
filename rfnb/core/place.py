"""Places in user code: the first line outside of this package up the stack."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import warnings
from types import CodeType, FrameType

Place = tuple[CodeType, int]  # a line is looked up only when somebody wants to read it

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
DOORS: set[CodeType] = set()  # of functions that only call the one that the user means, see `core/door.py`
_NOT_OF_USERS = _PACKAGE, contextlib.__file__  # what a with-block of ours does at its end is called by the latter


def in_package(code: CodeType) -> bool:
    """True if code belongs to this package rather than to a user."""
    return code.co_filename.startswith(_PACKAGE)


def user_frame(depth: int) -> tuple[FrameType, FrameType | None]:
    """The frame of user code that led here, and the frame that it called; at least `depth` frames up."""
    frame, called = sys._getframe(depth + 1), None
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_OF_USERS):
        called = called if frame.f_code in DOORS else frame
        frame = frame.f_back
    return frame, called


def place_of_user(depth: int, *, but: tuple[str, ...] = ()) -> Place:
    """The place in user code; files that start with one of `but` do not count."""
    return place_above(sys._getframe(depth + 1), (_PACKAGE, *but))


def place_above(frame: FrameType, but: str | tuple[str, ...] = _PACKAGE) -> Place:
    """The place of a frame if it is user code, else of the first such frame above it."""
    code = frame.f_code
    while code.co_filename.startswith(but) and frame.f_back is not None:
        frame = frame.f_back
        code = frame.f_code
    return code, frame.f_lasti


def place_and_way(frame: FrameType) -> tuple[Place, tuple[CodeType, ...]]:
    """The same, with the codes of this package's frames on the way. Cheap enough for every new Dim."""
    code = frame.f_code
    way: tuple[CodeType, ...] = ()
    while code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        way += (code,)
        frame = frame.f_back
        code = frame.f_code
    return (code, frame.f_lasti), way


def warn_user(text: str, kind: type[Warning] = UserWarning) -> None:
    """Warn at the line of user code that led here; Python shows it once per line."""
    frame, _ = user_frame(1)
    warn_at(text, frame, frame.f_lineno, kind)


def warn_at(text: str, frame: FrameType, line: int, kind: type[Warning] = UserWarning) -> None:
    """Warn at a line of a frame's code."""
    shown = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, kind, frame.f_code.co_filename, line, registry=shown)


def line_of(frame: FrameType) -> str:
    """The current `file:line` of a frame."""
    return place_text((frame.f_code, frame.f_lasti))


def line_number(place: Place) -> int:
    """The number of the line in its file."""
    code, instruction = place
    line = next((line for start, end, line in code.co_lines() if start <= instruction < end), None)
    return code.co_firstlineno if line is None else line


def source_line(place: Place) -> str:
    """The text of the line; "" where the source is not there."""
    return linecache.getline(place[0].co_filename, line_number(place)).strip()


def place_text(place: Place | str) -> str:
    """`file:line`; in a cell of a notebook `cell 3, line 9`."""
    if isinstance(place, str):
        return place
    code, line = place[0], line_number(place)
    cell = _cell_of(code.co_filename)
    return f"{os.path.basename(code.co_filename)}:{line}" if cell is None else f"cell {cell}, line {line}"


def _cell_of(file: str) -> int | None:
    """The number of the notebook cell with this file name in IPython, as in its tracebacks; None if it is not a cell."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    return getattr(getattr(shell, "compile", None), "_filename_map", {}).get(file)
