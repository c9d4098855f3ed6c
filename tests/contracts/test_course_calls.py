"""Every `lesson.name(...)` in a notebook of the course is a method of Lesson."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rfnb.teaching.lesson import Lesson

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("[01][0-9]_*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_calls_what_a_lesson_has(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    source = "\n".join("".join(cell["source"]) for cell in cells)
    called = set(re.findall(r"\blesson\.(\w+)\(", source))
    assert called or path.stem == "00_tour"
    assert {name for name in called if not callable(getattr(Lesson, name, None))} == set()
