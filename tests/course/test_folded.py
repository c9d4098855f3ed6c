"""Cells that reveal an answer, or judge one that is drawn, are folded: their code has the truth and why it is so."""

from __future__ import annotations

import re

import pytest
from course.harness import Course


@pytest.mark.parametrize(
    "lesson", ["01_dims", "02_ragged", "03_loops", "04_encoder_decoder", "05_attention", "06_explanation"]
)
def test_cells_that_reveal_are_folded_and_others_are_not(lesson):
    cells = [cell for cell in Course(lesson).stored.cells if cell.cell_type == "code"]
    tells = re.compile(r"\.reveal\(|^reveal\(|lesson\.(draw_mask|place_alignment)\(")
    reveal = {cell.id for cell in cells if tells.search(cell.source)}
    folded = {cell.id for cell in cells if cell.metadata.get("jupyter", {}).get("source_hidden")}
    makes_the_puzzles = {"01-puzzle-tools"}
    assert folded == reveal - makes_the_puzzles
