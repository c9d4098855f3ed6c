"""Known limitations of notebook hosts (Colab, VS Code, ...) for held runs, according to their documentation."""

from __future__ import annotations

import sys
from functools import cache


@cache
def note() -> str:
    """A sentence for the toolbar; "": all of it works."""
    if "google.colab" in sys.modules:
        return "Colab hears buttons and shows what changes only while no other cell runs, or in a cell with run.wait(poll=True)."
    version = _ipykernel()
    if version is None or version >= (7, 1):
        return ""
    if version >= (7, 0):
        return "ipykernel 7.0 ends a thread that shows something. Install 7.1 or newer, and restart the kernel."
    return (
        "This ipykernel hears buttons when no cell runs: end the cell with `run`, or wait with run.wait(poll=True). "
        "From ipykernel 7.1 on it always does."
    )


def _ipykernel() -> tuple[int, int] | None:
    """The version of the kernel that this runs in, or None."""
    if "ipykernel.kernelapp" not in sys.modules:
        return None
    major, minor = sys.modules["ipykernel"].__version__.split(".")[:2]
    return int(major), int(minor)
