"""The course: its location, and a copy of it to work on.

In a checkout it consists of the folders `notebooks/` and `docs/`. A wheel has them inside the package, which should not be modified.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import rfnb.cli
from rfnb.teaching.course import SEALED, seal

CONTENTS = "notebooks/README.md"
_PACKAGE = Path(rfnb.cli.__file__).parents[1]
# Location in a wheel of the folders that a checkout has beside the package; `widgets/hatch_build.py` puts them there.
_IN_WHEEL = {"notebooks": _PACKAGE / "course", "docs": _PACKAGE / "docs"}
_PATTERNS = {"notebooks": "*", "docs": "*.md"}
_NOT_COURSE = {".ipynb_checkpoints", "__pycache__"}


def checkout() -> Path | None:
    """The folder of the checkout that contains the package; None if it is installed from a wheel."""
    root = _PACKAGE.parent
    return root if (root / CONTENTS).is_file() and (root / "pyproject.toml").is_file() else None


def sources() -> dict[str, Path]:
    """The folders of the course, by their names in a copy.

    Raises:
        FileNotFoundError: The package has no course.
    """
    root = checkout()
    found = {name: root / name for name in _IN_WHEEL} if root is not None else _IN_WHEEL
    if not (found["notebooks"] / Path(CONTENTS).name).is_file():
        raise FileNotFoundError(
            f"This installation of rfnb lacks the course: there is no {found['notebooks']}.\n"
            "Wheels of rfnb include it. Install one again:\n    pip install --force-reinstall --no-deps rfnb"
        )
    return found


@dataclass(frozen=True)
class CopyResult:
    """The files of a copy by outcome, as paths relative to its folder.

    Attributes:
        new: Files that did not exist.
        same: Files that existed with the content of the course.
        kept: Files that existed with other content: they are the user's and are not changed.
    """

    new: list[Path]
    same: list[Path]
    kept: list[Path]


def copy(folder: Path, *, teacher: bool = False) -> CopyResult:
    """Copy the course into a folder. Existing files are not changed.

    Args:
        teacher: Include the pages for teachers, and readable checks and solutions. Otherwise these are sealed.

    Raises:
        OSError: The folder cannot be written, or is a file.
    """
    found, done = sources(), CopyResult([], [], [])
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in found.items():
        for file in _files(source, _PATTERNS[name]):
            path = Path(name) / file.relative_to(source)
            data = file.read_bytes()
            if not teacher and _is_for_teachers(path):
                continue
            if not teacher and _has_answers(path):
                if (folder / path).is_file():  # from an older copy, or a teacher's
                    (done.same if (folder / path).read_bytes() == data else done.kept).append(path)
                    continue
                path, data = path.with_suffix(SEALED), seal(data.decode("utf-8"))
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if _write_new(target, data):
                done.new.append(path)
            else:
                (done.same if target.is_file() and target.read_bytes() == data else done.kept).append(path)
    return done


def _is_for_teachers(path: Path) -> bool:
    """Whether it is a page for teachers, or a script that shows how the data of a lesson was made."""
    return path.parts[:2] == ("docs", "teaching") or path == Path("docs/teaching.md") or path.name.startswith("make_")


def _has_answers(path: Path) -> bool:
    """Whether a lesson runs this Python file but students should not read it first: checks, solutions, patients."""
    return path.parts[0] == "notebooks" and path.suffix == ".py"


def _files(source: Path, pattern: str) -> list[Path]:
    return [
        file
        for file in sorted(source.rglob(pattern))
        if file.is_file() and not _NOT_COURSE & set(file.relative_to(source).parts)
    ]


def _write_new(target: Path, data: bytes) -> bool:
    """Write a new file; False if the path exists, even as a broken link."""
    try:
        with open(target, "xb") as file:
            try:
                file.write(data)
                file.flush()
            except BaseException:  # full disk or Ctrl+C: a partial file would count as the user's next time
                target.unlink()
                raise
    except FileExistsError:
        return False
    return True
