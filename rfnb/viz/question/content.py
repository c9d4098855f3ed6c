"""The `question` view as tables, readable without styles; where a script runs, the live view takes its place."""

from __future__ import annotations

from typing import Any

from rfnb.viz.markup import sentences, table, title
from rfnb.viz.question.spec import shown_boards
from rfnb.viz.visible import line, visible


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
