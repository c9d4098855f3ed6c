"""The `question` view as a drawing: its cells, with what was drawn in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.viz.drawing import labels
from rfnb.viz.drawing.shapes import Cells, Drawing, Lines, Text
from rfnb.viz.question.spec import shown_boards
from rfnb.viz.question.text import text

_LINE, _CELL = 18.0, 22.0


def drawing(spec: Any, width: float) -> Drawing:
    """The question on paper."""
    head, alt = spec.head, text(spec)
    if head["form"] == "beam":
        lines = alt.split("\n")
        made = Drawing(width, _LINE * len(lines) + 8, alt)
        for number, line in enumerate(lines):
            made.add(Text(4, 13 + _LINE * number, labels.fitted(line, width - 8), mono=number > 1, bold=not number))
        return made
    step, boards = head["steps"][0], shown_boards(head)
    board = np.array(boards[0] if boards else np.zeros((len(step["rows"]), len(head["cols"]))), np.uint8)
    count_rows, count_cols = board.shape
    cell = min(_CELL, (width - 140) / count_cols)
    left_labels = labels.rows(step["rows"], cell)
    top_labels = labels.columns(head["cols"], cell)
    left, top = left_labels.room + 10, top_labels.room + _LINE + 8
    high, wide = count_rows * cell, count_cols * cell
    made = Drawing(width, top + high + 6, alt)
    made.add(Text(4, 11, labels.fitted(str(head["title"]), width - 8), bold=True))
    made.add(Cells(left, top, wide, high, board * 190, "sequential"))
    across = [[(left, top + r * cell), (left + wide, top + r * cell)] for r in range(count_rows + 1)]
    down = [[(left + c * cell, top), (left + c * cell, top + high)] for c in range(count_cols + 1)]
    made.add(Lines("line", 0.8, [*across, *down]))
    labels.draw_rows(made, left_labels, left - 6, top, cell)
    labels.draw_columns(made, top_labels, left, top, cell)
    said = [line for line in str(head.get("said") or "").split("\n") if line]
    made.notes += said
    return made
