"""The `question` view as text: the cells to answer in, what was answered, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.viz.question.spec import Board, shown_boards
from rfnb.viz.terminal import aligned, shortened
from rfnb.viz.visible import line, visible

_MOST, _LABEL = 36, 100  # columns of a line; letters of a label that are looked at
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
    """The cells of one step: ■ is drawn, or picked."""
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
