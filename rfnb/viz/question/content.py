"""The `question` view as tables, readable without styles; where scripts run, the live view replaces them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.viz.drawing import labels
from rfnb.viz.drawing.shapes import Cells, Drawing, Lines, Text
from rfnb.viz.markup import sentences, table, title
from rfnb.viz.question.spec import Board, shown_boards
from rfnb.viz.terminal import aligned, shortened
from rfnb.viz.visible_text import line, visible


def page(spec: Any) -> list[str]:
    """The question as HTML."""
    head = spec.head
    boards = shown_boards(head)
    at = max(0, len(boards) - 1) if head["answer"] else 0
    step = head["steps"][at]
    board = boards[at] if boards else [[0] * len(row) for row in step["solution"]]
    beam = head["form"] == "beam"
    rows = []
    for r, (label, cells) in enumerate(zip(step["rows"], board, strict=True)):
        texts = step["texts"][r] if beam else [""] * len(cells)
        shown = [f"{line(str(said))}{'■' if cell else ''}" for cell, said in zip(cells, texts)]
        rows.append([visible(str(label)), *shown])
    heads = [] if beam else ["", *(visible(str(col)) for col in head["cols"])]
    said = sentences(filter(None, str(head.get("said") or "").split("\n")))
    return [title(line(str(head["title"]))), table(rows, heads, named=True), *said]


_MOST, _LABEL = 36, 100  # columns of a line; characters of a label
_NO_SENSE = "This question lacks what it asks about."


def text(spec: Any) -> str:
    """The question in lines."""
    head = spec.head
    lines = [line(str(head["title"]))]
    boards = shown_boards(head)
    at = max(0, len(boards) - 1) if head["answer"] else 0
    board = boards[at] if boards else [[0] * len(row) for row in head["steps"][0]["solution"]]
    if head["form"] == "beam":
        lines.append(f"step {at + head.get('first', 0)}: {int(head['steps'][at]['size'])} stay")
    lines += board_lines(head, at, board)
    said = str(head.get("said") or "")
    return "\n".join([*lines, *said.split("\n")] if said else lines)


def board_lines(head: dict[str, Any], at: int, board: Board) -> list[str]:
    """The cells of one step: ■ is drawn or picked."""
    step = head["steps"][at]
    rows = [shortened(visible(str(row)[:_LABEL]), 40) for row in step["rows"]]
    if len(board) != len(rows):
        raise ValueError(_NO_SENSE)
    if head["form"] == "beam":
        made = [
            [
                row,
                *(
                    f"{'■' if picked else '·'} {shortened(line(str(cell)[:_LABEL]), 24)}"
                    for cell, picked in zip(cells, picks, strict=True)
                ),
            ]
            for row, cells, picks in zip(rows, step["texts"], board, strict=True)
        ]
        most = max(map(len, made))
        return aligned([[*row, *[""] * (most - len(row))] for row in made])
    cols = [visible(str(col)[:_LABEL]) for col in head["cols"]]
    if any(len(row) != len(cols) for row in board):
        raise ValueError(_NO_SENSE)
    short = all(len(col) <= 3 for col in cols) and len(cols) <= 20
    top = [["", *cols]] if short else [["", *(str(number % 10) for number in range(min(len(cols), _MOST)))]]
    body = [[row, *("■" if cell else "·" for cell in _some(cells))] for row, cells in zip(rows, board)]
    more = [f"... and {len(cols) - _MOST} more columns"] if len(cols) > _MOST else []
    return aligned([*top, *body]) + more


def _some(cells: Sequence[int]) -> Sequence[int]:
    return cells[:_MOST]


_LINE, _CELL = 18.0, 22.0


def drawing(spec: Any, width: float) -> Drawing:
    """The question as a drawing."""
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
