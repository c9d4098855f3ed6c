"""Measurements as lines of JSON, each written when it is known: of a run that is ended in the middle they are still there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_row(path: Path, **row: Any) -> None:
    """Add a line."""
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """All that were written; the last one may have been cut off."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]
