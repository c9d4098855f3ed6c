"""The places of the files of a lesson: beside the notebook, that is in the kernel's folder, else in the course that is installed."""

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
# A wheel has the course inside of the package, a checkout beside it.
INSTALLED = (_PACKAGE / "course", _PACKAGE.parent / "notebooks")


def folders() -> list[Path]:
    """The folders that may hold the course, the nearest first."""
    here = Path.cwd()
    return [each for each in (here, here / "notebooks", *INSTALLED) if (each / "checks").is_dir()]


SEALED = ".sealed"  # the ending of a file of Python that a copy for students has in the place of .py
_MARK = "Sealed by rfnb, so that nobody reads an answer by chance. Nothing in it is secret to who wants to break it.\n"


def seal(source: str) -> bytes:
    """The source of a module as a file that is no text to be read."""
    return (_MARK + base64.b85encode(zlib.compress(source.encode(), 9)).decode() + "\n").encode()


def source_of(path: Path) -> str | None:
    """The source of a file of the course, sealed or not; None if it is not there."""
    if path.is_file():
        return path.read_text("utf-8")
    sealed = path.with_suffix(SEALED)
    if not sealed.is_file():
        return None
    return zlib.decompress(base64.b85decode(sealed.read_text("utf-8").removeprefix(_MARK).strip())).decode()


def is_sealed(path: Path) -> bool:
    """Whether a file of the course is there as one that is not to be read."""
    return not path.is_file() and path.with_suffix(SEALED).is_file()


def lessons() -> list[str]:
    """The names of all lessons that have checks."""
    found = {path for folder in folders() for path in (folder / "checks").glob("[0-9]*") if path.is_file()}
    return sorted({path.stem for path in found if path.suffix in (".py", SEALED)})


def folder_of(lesson: str) -> Path:
    """The folder in which a lesson has its checks.

    Raises:
        FileNotFoundError: If there is none.
    """
    for folder in folders():
        path = folder / "checks" / f"{lesson}.py"
        if path.is_file() or is_sealed(path):
            return folder
    raise file_not_found_error(
        f'lesson: there is no lesson "{lesson}".',
        [("looked in", Path.cwd()), ("lessons", ", ".join(lessons()) or "none")],
        "A lesson has its checks in the folder checks/ beside the notebook.",
        f'lesson = rf.lesson("{(lessons() or ["07_search"])[0]}")',
    )


def load(path: Path) -> ModuleType:
    """The module of a file of the course, made anew.

    Raises:
        FileNotFoundError: If it is not there, neither as it is nor sealed.
    """
    source = source_of(path)
    if source is None:
        raise FileNotFoundError(missing(path))
    module = ModuleType(f"rfnb_course_{path.parent.name}_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses ask for it
    exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)
    return module


def missing(path: Path) -> str:
    """The sentence on a file of the course that is gone, with the line that brings it back."""
    above = path.absolute().parents
    folder = next((each.parent for each in above if each.name == "notebooks"), Path("FOLDER"))
    return (
        f"{path.name} is not in {path.parent}. "
        f"A command in a terminal brings back what is missing, and changes nothing else: rfnb lab {shlex.quote(str(folder))} --copy"
    )


def reveals_all() -> bool:
    """Whether predictions are revealed without an answer: for sites, teachers and tests."""
    return os.environ.get("RFNB_LESSON") == "reveal"
