"""The `question` view: a question about a mask, an alignment or a search, answered by drawing or picking cells.

A question has steps (only a search has several), each a grid with its solution, a message for each wrong cell, and
common mistakes as whole boards. An answer is a list of boards, one per answered step: rows of 0 and 1.
`rfnb/teaching/judgement.py` judges it, and in a page `widgets/src/question/layout.ts`, which therefore contains the
solution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rfnb.core.errors import value_error
from rfnb.core.strict_json import JsonObject
from rfnb.viz.spec import Spec

Board = list[list[int]]
TITLES = {"mask": "Draw the mask", "alignment": "Place the alignment", "beam": "Be the beam"}
MOST_CELLS = 4096  # cells that one can draw by hand


@dataclass
class QuestionStep:
    """A grid that is answered at once.

    Attributes:
        rows: Labels of the rows.
        names: Names of the rows in sentences.
        solution: The right cells.
        says: The sentence for each wrong cell; for an alignment, where the weight of each row is.
        right: The message for a right answer.
        known: Common mistakes, and their explanations.
        more: For a step of a search `texts`, `after`, `ties`, `size`, for an alignment `most` (see widgets/src/question/layout.ts).
    """

    rows: Sequence[str]
    names: Sequence[str]
    solution: Board
    says: Sequence[Sequence[str]]
    right: str = ""
    known: Sequence[tuple[Board, str]] = ()
    more: JsonObject = field(default_factory=dict)

    def entry(self) -> JsonObject:
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
        name: The name of the question in its lesson.
        asked: The task, in a sentence.
        cols, col_names: Labels of columns, and their names in sentences; a step of a search has none.
        **more: `forward` and `enough` of an alignment; `first` of a search: the index of its first step in the search.

    Raises:
        ValueError: If it has no cells, or too many to draw by hand.
    """
    count = max((sum(map(len, step.solution)) for step in steps), default=0)
    if not 0 < count <= MOST_CELLS:
        raise value_error(
            f'{TITLES[form]}: "{name}" has {count or "no"} cells to answer in.',
            {"cells": count, "at most": MOST_CELLS},
            "It is drawn by hand, so it must be small.",
            "take fewer positions, e.g. a shorter sequence",
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
    """The question with an answer, the feedback, and by step the first wrong answer."""
    shown = spec.head["revealed"] if revealed is None else revealed
    given = {"answer": list(answer), "missed": list(missed), "said": said, "revealed": shown}
    return Spec("question", {**spec.head, **given}, spec.blocks)


def shown_boards(head: JsonObject) -> list[Board]:
    """The boards to draw: the answer, or the solution if it is revealed without an answer."""
    if head["revealed"] and not head["answer"]:
        return [step["solution"] for step in head["steps"]]
    return list(head["answer"])


def named(role: str, labels: Sequence[str]) -> list[str]:
    """The names of rows or columns in sentences: 'row 3 "cat"', or 'row 3' if the label is a number."""
    return [f"{role} {at}" if label == str(at) else f'{role} {at} "{label}"' for at, label in enumerate(labels)]
