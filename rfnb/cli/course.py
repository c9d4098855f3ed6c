"""The course: where it lies, and a copy of it to work on.

In a checkout it is the folders `notebooks/` and `docs/`. A wheel has them inside the package, which should not be written to.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import rfnb.cli
from rfnb.teaching.course import SEALED, seal

CONTENTS = "notebooks/README.md"
_PACKAGE = Path(rfnb.cli.__file__).parents[1]
# Where a wheel has what a checkout has beside the package, as `widgets/hatch_build.py` puts it there.
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
        FileNotFoundError: The package has none.
    """
    root = checkout()
    found = {name: root / name for name in _IN_WHEEL} if root is not None else _IN_WHEEL
    if not (found["notebooks"] / Path(CONTENTS).name).is_file():
        raise FileNotFoundError(
            f"This rfnb came without its course: there is no {found['notebooks']}.\n"
            "Wheels of rfnb have it. Install it again:\n    pip install --force-reinstall --no-deps rfnb"
        )
    return found


@dataclass(frozen=True)
class Copied:
    """The files of a copy by what became of them, as paths from its folder.

    Attributes:
        new: Files that were not there.
        same: Files that were there already, as in the course.
        kept: Files that were there with other content: they are the user's, and stay.
    """

    new: list[Path]
    same: list[Path]
    kept: list[Path]


def copy(folder: Path, *, teacher: bool = False) -> Copied:
    """Put the course into a folder. No file that is there is changed.

    Args:
        teacher: With the pages for teachers, and with checks and solutions that can be read. Without it these are sealed.

    Raises:
        OSError: The folder cannot be written, or is a file.
    """
    found, done = sources(), Copied([], [], [])
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in found.items():
        for file in _files(source, _PATTERNS[name]):
            path = Path(name) / file.relative_to(source)
            data = file.read_bytes()
            if not teacher and _is_for_teachers(path):
                continue
            if not teacher and _has_answers(path):
                if (folder / path).is_file():  # of an older copy, or of a teacher's
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
    """Whether it is a page for teachers, or made data of a lesson and says how."""
    return path.parts[:2] == ("docs", "teaching") or path == Path("docs/teaching.md") or path.name.startswith("make_")


def _has_answers(path: Path) -> bool:
    """True for a course file with Python that a lesson runs but students should not read first: checks, solutions, patients."""
    return path.parts[0] == "notebooks" and path.suffix == ".py"


def _files(source: Path, pattern: str) -> list[Path]:
    return [
        file
        for file in sorted(source.rglob(pattern))
        if file.is_file() and not _NOT_COURSE & set(file.relative_to(source).parts)
    ]


def _write_new(target: Path, data: bytes) -> bool:
    """Write a file that is not there yet; False: something is there, if only a link to nowhere."""
    try:
        with open(target, "xb") as file:
            try:
                file.write(data)
                file.flush()
            except BaseException:  # a full disk, Ctrl+C: half a file would count as the user's the next time
                target.unlink()
                raise
    except FileExistsError:
        return False
    return True
