"""The places of the files of a lesson: beside the notebook, that is in the kernel's folder, else in the course that is installed."""

from __future__ import annotations

import importlib.util
import os
import sys
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


def lessons() -> list[str]:
    """The names of all lessons that have checks."""
    return sorted({path.stem for folder in folders() for path in (folder / "checks").glob("[0-9]*.py")})


def folder_of(lesson: str) -> Path:
    """The folder in which a lesson has its checks.

    Raises:
        FileNotFoundError: If there is none.
    """
    for folder in folders():
        if (folder / "checks" / f"{lesson}.py").is_file():
            return folder
    raise file_not_found_error(
        f'lesson: there is no lesson "{lesson}".',
        [("looked in", Path.cwd()), ("lessons", ", ".join(lessons()) or "none")],
        "A lesson has its checks in the folder checks/ beside the notebook.",
        f'lesson = rf.lesson("{(lessons() or ["07_search"])[0]}")',
    )


def load(path: Path) -> ModuleType:
    """The module of a file of the course, made anew."""
    name = f"rfnb_course_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses ask for it
    spec.loader.exec_module(module)
    return module


def reveals_all() -> bool:
    """Whether predictions are revealed without an answer: for sites, teachers and tests."""
    return os.environ.get("RFNB_LESSON") == "reveal"
