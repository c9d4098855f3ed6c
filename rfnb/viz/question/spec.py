"""The `question` view: what is asked about a mask, an alignment or a search, answered by drawing or picking cells.

A question has steps (of a search; the others have one), each a grid with what is right in it, what is said of a wrong cell, and usual
mistakes as a whole. An answer is a list of boards, one per step that was answered: rows of 0 and 1. What is wrong with one is found by
`rfnb/teaching/judged.py`, and in a page by `widgets/src/question/layout.ts`, which therefore has what is right in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rfnb.core.errors import value_error
from rfnb.viz.spec import Spec

Board = list[list[int]]
TITLES = {"mask": "Draw the mask", "alignment": "Place the alignment", "beam": "Be the beam"}
MOST_CELLS = 4096  # that one draws in by hand


@dataclass
class QuestionStep:
    """A grid that is answered at once.

    Attributes:
        rows: Labels of the rows.
        names: Of the rows in sentences.
        solution: What is right.
        says: Of each cell the sentence where it is wrong; of an alignment of each row where its weight is.
        right: What is said where nothing is wrong.
        known: Usual mistakes, and what they are.
        more: Of a step of a search `texts`, `after`, `ties`, `size`, of an alignment `most` (see widgets/src/question/layout.ts).
    """

    rows: Sequence[str]
    names: Sequence[str]
    solution: Board
    says: Sequence[Sequence[str]]
    right: str = ""
    known: Sequence[tuple[Board, str]] = ()
    more: dict[str, Any] = field(default_factory=dict)

    def entry(self) -> dict[str, Any]:
        """The step as plain data."""
        return {
            "rows": list(self.rows), "names": list(self.names), "solution": self.solution, "says": [list(row) for row in self.says],
            "right": self.right, "known": [[board, said] for board, said in self.known], **self.more,
        }  # fmt: skip


def spec(
    form: str,
    name: str,
    asked: str,
    steps: Sequence[QuestionStep],
    *,
    cols: Sequence[str] = (),
    col_names: Sequence[str] = (),
    blocks: dict[str, np.ndarray] | None = None,
    **more: Any,
) -> Spec:
    """The spec of a question.

    Args:
        form: "mask", "alignment" or "beam".
        name: Of the question in its lesson.
        asked: What is to be done, in a sentence.
        cols, col_names: Labels of columns, and their names in sentences; a step of a search has none.
        **more: `forward` and `enough` of an alignment, of a search `first`: the number that its first step here has there.

    Raises:
        ValueError: If it has no cells, or more than can be drawn by hand.
    """
    count = max((sum(map(len, step.solution)) for step in steps), default=0)
    if not 0 < count <= MOST_CELLS:
        raise value_error(
            f'{TITLES[form]}: "{name}" has {count or "no"} cells to answer in.',
            [("cells", count), ("at most", MOST_CELLS)],
            "It is answered by hand, so it is as small as a hand can draw.",
            "take fewer positions, as of a shorter sequence",
        )
    head = {
        "title": asked, "live": False, "form": form, "name": name, "asked": asked,
        "cols": list(cols), "col_names": list(col_names), "steps": [step.entry() for step in steps],
        "answer": [], "missed": [], "revealed": False, "said": "", **more,
    }  # fmt: skip
    return Spec("question", head, blocks or {})


def answered(
    spec: Spec,
    answer: Sequence[Board],
    said: str,
    *,
    missed: Sequence[Board | None] = (),
    revealed: bool | None = None,
) -> Spec:
    """The same question with an answer, what is said of it, and by step the first answer that was wrong."""
    shown = spec.head["revealed"] if revealed is None else revealed
    given = {"answer": list(answer), "missed": list(missed), "said": said, "revealed": shown}
    return Spec("question", {**spec.head, **given}, spec.blocks)


def shown_boards(head: dict[str, Any]) -> list[Board]:
    """The boards that a picture has drawn: the answer, or what is right where that is revealed and nothing was answered."""
    if head["revealed"] and not head["answer"]:
        return [step["solution"] for step in head["steps"]]
    return list(head["answer"])


def named(role: str, labels: Sequence[str]) -> list[str]:
    """The names of rows or columns in sentences: 'row 3 "cat"', of a number alone 'row 3'."""
    return [f"{role} {at}" if label == str(at) else f'{role} {at} "{label}"' for at, label in enumerate(labels)]
