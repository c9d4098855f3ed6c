"""The `question` view as HTML tables, readable without styles; where a script runs, the live view takes its place."""

from __future__ import annotations

from html import escape
from typing import Any

from rfnb.viz.question.spec import shown_boards
from rfnb.viz.visible import line, visible


def html(spec: Any) -> str:
    """The question without script or style."""
    head = spec.head
    boards = shown_boards(head)
    at = max(0, len(boards) - 1) if head["answer"] else 0
    step = head["steps"][at]
    board = boards[at] if boards else [[0] * len(row) for row in step["solution"]]
    beam = head["form"] == "beam"
    heads = "" if beam else "".join(f'<th scope="col">{escape(visible(str(col)))}</th>' for col in head["cols"])
    body = ""
    for r, (label, cells) in enumerate(zip(step["rows"], board, strict=True)):
        texts = step["texts"][r] if beam else [""] * len(cells)
        shown = "".join(
            f"<td>{escape(line(str(said)))}{'&#9632;' if cell else ''}</td>" for cell, said in zip(cells, texts)
        )
        body += f'<tr><th scope="row">{escape(visible(str(label)))}</th>{shown}</tr>'
    said = "".join(f"<p>{escape(one)}</p>" for one in str(head.get("said") or "").split("\n") if one)
    return (
        f"<p><b>{escape(line(str(head['title'])))}</b></p>"
        f"<table>{f'<tr><td></td>{heads}</tr>' if heads else ''}{body}</table>{said}"
    )
