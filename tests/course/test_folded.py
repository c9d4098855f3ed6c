"""Cells that reveal an answer, or judge a drawn one, are folded: their code contains the answer and its reason."""

from __future__ import annotations

import re

import pytest
from course.harness import NOTEBOOKS, Course

LESSONS = sorted(path.stem for path in NOTEBOOKS.glob("[01]?_*.ipynb") if path.stem != "00_tour")


@pytest.mark.parametrize("lesson", LESSONS)
def test_cells_that_reveal_are_folded_and_others_are_not(lesson):
    cells = [cell for cell in Course(lesson).stored.cells if cell.cell_type == "code"]
    tells = re.compile(r"\.reveal\(|^reveal\(|lesson\.(draw_mask|place_alignment)\(")
    reveal = {cell.id for cell in cells if tells.search(cell.source)}
    folded = {cell.id for cell in cells if cell.metadata.get("jupyter", {}).get("source_hidden")}
    makes_the_puzzles, others = (
        {"01-puzzle-tools"},
        {"05-break-views", "03-torch-parts", "05-spoken"},
    )  # broken on purpose; plumbing
    assert folded - others == reveal - makes_the_puzzles


@pytest.mark.parametrize("lesson", [lesson for lesson in LESSONS if lesson >= "07"])
def test_a_cell_that_reveals_shows_nothing_before_there_is_an_answer(lesson):
    cells = [cell for cell in Course(lesson).stored.cells if cell.cell_type == "code" and ".reveal(" in cell.source]
    assert not [cell.id for cell in cells if ".show(" in cell.source or "print(" in cell.source]


MOST_LINES = 38  # of a cell that is to be read: a whole model with a fault in it, in lesson 2


@pytest.mark.parametrize("lesson", ["00_tour", *LESSONS])
def test_an_idea_fits_on_one_screen(lesson):
    cells = [cell for cell in Course(lesson).stored.cells if cell.cell_type == "code"]
    open_ = [cell for cell in cells if not cell.metadata.get("jupyter", {}).get("source_hidden")]
    assert not [cell.id for cell in open_ if cell.source.count("\n") >= MOST_LINES]
