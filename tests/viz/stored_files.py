"""Compare a result with a stored file of tests/viz/fixtures/; RFNB_STORE=1 writes the files instead (then read the difference)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "fixtures"


def assert_stored(name: str, actual: Any) -> None:
    """`actual` (text for .txt, else JSON data) is what the file holds."""
    path = _FOLDER / name
    text = actual if name.endswith(".txt") else json.dumps(actual, indent=1, ensure_ascii=False)
    if os.environ.get("RFNB_STORE"):
        path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    assert path.is_file(), f"{name} is missing: run once with RFNB_STORE=1"
    assert text.rstrip("\n") == path.read_text(encoding="utf-8").rstrip("\n")
