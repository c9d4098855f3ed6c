"""The answers of a running notebook, kept beside the kernel's own files: a kernel that was killed goes on with them, saved or not.

Jupyter starts a kernel that has died again under its old name, so that name is where the answers are looked for. They are gone
with the kernel, when the notebook is closed: from then on the file of the notebook has them.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from rfnb.viz import display


def load(lesson: str) -> dict[str, dict[str, Any]]:
    """The answers of a lesson that were given to this kernel, or to the one before it of the same name; {} if there are none."""
    place = _place()
    return _read(place).get(lesson, {}) if place else {}


def save(lesson: str, answers: dict[str, dict[str, Any]]) -> None:
    """Keep the answers of a lesson; where there is no room for them, nothing is said."""
    place = _place()
    if place is None:
        return
    with contextlib.suppress(OSError, TypeError, ValueError):
        _forget_others(place.parent)
        place.write_text(json.dumps(_read(place) | {lesson: answers}), "utf-8")


def _place() -> Path | None:
    """The file of this kernel: beside the one that says how to reach it."""
    app = getattr(getattr(display.shell(), "kernel", None), "parent", None)
    connection = getattr(app, "abs_connection_file", "")
    return Path(connection).with_suffix(_ENDING) if connection else None


_ENDING = ".rfnb-answers"


def _read(place: Path) -> dict[str, Any]:
    try:
        found = json.loads(place.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _forget_others(folder: Path) -> None:
    """Delete what is left of kernels that are no more: Jupyter has deleted their connection."""
    for old in folder.glob(f"*{_ENDING}"):
        if not old.with_suffix(".json").exists():
            old.unlink(missing_ok=True)
