"""Locations of the files of a lesson: beside the notebook, that is, in the kernel's folder, else in the installed course."""

from __future__ import annotations

import base64
import os
import shlex
import sys
import zlib
from pathlib import Path
from types import ModuleType

from rfnb.core.errors import file_not_found_error

_PACKAGE = Path(__file__).parents[1]
# A wheel has the course inside the package, a checkout beside it.
INSTALLED = (_PACKAGE / "course", _PACKAGE.parent / "notebooks")


def folders() -> list[Path]:
    """The folders that may contain the course, nearest first."""
    here = Path.cwd()
    return [each for each in (here, here / "notebooks", *INSTALLED) if (each / "checks").is_dir()]


SEALED = ".sealed"  # extension that replaces .py in a copy for students
_MARK = (
    "Sealed by rfnb, so that no answer is read by accident. It is not encryption: anyone who wants to can undo it.\n"
)


def seal(source: str) -> bytes:
    """The source of a module, encoded so that it is not readable as text."""
    return (_MARK + base64.b85encode(zlib.compress(source.encode(), 9)).decode() + "\n").encode()


def source_of(path: Path) -> str | None:
    """The source of a file of the course, sealed or not; None if it does not exist."""
    if path.is_file():
        return path.read_text("utf-8")
    sealed = path.with_suffix(SEALED)
    if not sealed.is_file():
        return None
    return zlib.decompress(base64.b85decode(sealed.read_text("utf-8").removeprefix(_MARK).strip())).decode()


def is_sealed(path: Path) -> bool:
    """Whether a file of the course exists in sealed form."""
    return not path.is_file() and path.with_suffix(SEALED).is_file()


def lessons() -> list[str]:
    """The names of all lessons that have checks."""
    found = {path for folder in folders() for path in (folder / "checks").glob("[0-9]*") if path.is_file()}
    return sorted({path.stem for path in found if path.suffix in (".py", SEALED)})


def folder_of(lesson: str) -> Path:
    """The folder in which a lesson has its checks.

    Raises:
        FileNotFoundError: If there is no such folder.
    """
    for folder in folders():
        path = folder / "checks" / f"{lesson}.py"
        if path.is_file() or is_sealed(path):
            return folder
    raise file_not_found_error(
        f'lesson: there is no lesson "{lesson}".',
        {"looked in": Path.cwd(), "lessons": ", ".join(lessons()) or "none"},
        "A lesson has its checks in the folder checks/ beside the notebook.",
        f'lesson = rf.lesson("{(lessons() or ["07_search"])[0]}")',
    )


def load(path: Path) -> ModuleType:
    """The module of a file of the course, newly executed.

    Raises:
        FileNotFoundError: If it does not exist, neither readable nor sealed.
    """
    source = source_of(path)
    if source is None:
        raise FileNotFoundError(missing(path))
    module = ModuleType(f"rfnb_course_{path.parent.name}_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look it up there
    exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)
    return module


def missing(path: Path) -> str:
    """The message about a missing file of the course, with the line that restores it."""
    above = path.absolute().parents
    folder = next((each.parent for each in above if each.name == "notebooks"), Path("FOLDER"))
    return (
        f"{path.name} is not in {path.parent}. "
        f"A command in a terminal brings back what is missing, and changes nothing else: rfnb lab {shlex.quote(str(folder))} --copy"
    )


def reveals_all() -> bool:
    """Whether predictions are revealed without an answer, for sites, teachers and tests."""
    return os.environ.get("RFNB_LESSON") == "reveal"
