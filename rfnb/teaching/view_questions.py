"""Questions that are answered in a view, by mouse or keyboard, and judged at once: a mask, an alignment, the steps of a search.

lesson.draw_mask("causal", np.tril(np.ones((5, 5))))       # cells that may be seen
lesson.place_alignment("attention", weights)               # what each row attends to
lesson.be_the_beam("beam", trace)                          # the hypotheses that survive
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.strict_json import JsonObject
from rfnb.core.tensor import Tensor
from rfnb.teaching.answer import Answer
from rfnb.teaching.judgement import Judged, judged
from rfnb.viz import display
from rfnb.viz.question.content import board_lines
from rfnb.viz.question.grid import grid_of
from rfnb.viz.question.spec import TITLES, Board, answered
from rfnb.viz.spec import Spec
from rfnb.viz.view import Send, View


class InView(Answer):
    """A question whose form is a view.

    Attributes:
        view: Of kind "question".

    Args:
        spec: What is asked (`rfnb/viz/question/`).
        grid_options: Options for a mask or weights, used to read an answer that is a Tensor.
    """

    def __init__(self, lesson: str, spec: Spec, grid_options: JsonObject | None = None):
        head = spec.head
        self.kind = head["form"]
        self._spec, self._options = spec, grid_options or {}
        solutions = [step["solution"] for step in head["steps"]]
        super().__init__(lesson, head["name"], head["asked"], truth=lambda: self._told(solutions))
        self.view = View(spec, hear=self._hear)
        self._by_page = False
        self._missed: list[Board | None] = [None] * len(solutions)  # by step: the first wrong answer

    def read(self, value: Any) -> Any:
        return self._told(self._boards(value))

    def words(self, answer: Any) -> str:
        return "".join(
            f"\n  {line}"
            for at, board in enumerate(self._boards(answer))
            for line in board_lines(self._spec.head, at, board)
        )

    def judge(self, answer: Any, truth: Any) -> tuple[bool | None, str]:
        boards, steps = self._boards(answer), self._spec.head["steps"]
        found = [self._judged(at, board) for at, board in enumerate(boards)]
        wrong = [at for at, one in enumerate(found) if not one.passed]
        at = wrong[0] if wrong else len(found) - 1
        if len(steps) == 1:
            return found[0].passed, found[0].message
        if not found:
            return False, "Nothing is picked yet."
        message = f"Step {at}: {found[at].message}"
        if not wrong and len(found) < len(steps):
            message += f"\n{len(found)} of {len(steps)} steps are right; continue with the next one."
        return not wrong and len(found) == len(steps), message

    def commit(self, value: Any) -> None:
        boards = [] if self.revealed else self._boards(self.read(value))
        for at, board in enumerate(boards):
            found = self._judged(at, board)
            if found.whole and not found.passed and self._missed[at] is None:
                self._missed[at] = board
        super().commit(value)

    def details(self) -> JsonObject:
        return {"missed": self._missed} if any(self._missed) else {}

    def _judged(self, at: int, board: Board) -> Judged:
        """Judge a board. A first miss gets less feedback: otherwise a student could click the right answer and pass."""
        first = not self.revealed and self._missed[at] in (None, board)
        return judged(self._spec, at, board, first=first)

    def _goes_on(self) -> bool:
        """Whether all steps so far are right and some are left, so the result is still open."""
        steps, boards = self._spec.head["steps"], [] if self._answer is None else self._boards(self._answer)
        right = all(self._judged(at, board).passed for at, board in enumerate(boards))
        return not self.revealed and right and 0 < len(boards) < len(steps)

    def _headline(self, *, with_form: bool = False) -> str:
        line = f"● {self.question}" if self._goes_on() else super()._headline(with_form=with_form)
        if not with_form:
            return line
        # The view below shows the question, the answer and the feedback.
        boards, steps = [] if self._answer is None else self._boards(self._answer), len(self._spec.head["steps"])
        right = sum(self._judged(at, board).passed for at, board in enumerate(boards))
        of_steps = f"{right} of {steps} steps {'is' if right == 1 else 'are'} right"
        said = (
            "not answered yet"
            if not boards
            else "right"
            if self.passed
            else "not right yet"
            if steps == 1
            else of_steps
        )
        return f"{line[0]} {TITLES[self.kind]}: {said}"

    def _body(self, *, with_form: bool) -> str:
        return "" if with_form else super()._body(with_form=False)

    def _tone(self) -> str:
        return "plain" if self._goes_on() else super()._tone()

    def asked(self) -> str:
        how = {
            "mask": "by code: a 0-1 array, its rows what looks: `answer = [[1, 0], [1, 1]]`",
            "alignment": "by code: the columns of each row: `answer = [0, [1, 2], 2]`",
            "beam": 'by code: by step what stays, as lane and label: `answer = [[(0, "A"), (0, "B")]]`',
        }[self.kind]
        return f"Answer in the view, or {how}."

    def form(self) -> JsonObject:
        return self.view._repr_mimebundle_()

    def closed_form(self) -> JsonObject:
        return self.view._repr_mimebundle_()

    def refresh(self) -> None:
        boards = [] if self._answer is None else self._boards(self._answer)
        said = "" if self._answer is None else self.judge(self._answer, None)[1]
        self.view.draw(answered(self._spec, boards, said, missed=self._missed, revealed=self.revealed))
        if self._form is not None and not self._by_page and not self.revealed:
            display.republish(
                self._form, self.form()
            )  # update the notebook's copy; the page that answered already has it, and the focus
        super().refresh()

    def go_on(self, data: JsonObject) -> None:
        super().go_on(data)
        missed = data.get("missed")
        if isinstance(missed, list) and len(missed) == len(self._missed):
            self._missed = [board if isinstance(board, list) else None for board in missed]
        self.refresh()

    def _hear(self, content: JsonObject, send: Send) -> None:
        """Process the answer that a page sends."""
        if content.get("rfnb") != "do":
            return
        said: str | None = None
        if content.get("do") == "answer":
            self._by_page = True
            try:
                self.commit(self._told(_checked(content.get("boards"), self._spec.head["steps"])))
            except (ValueError, RuntimeError) as error:
                said = str(error).splitlines()[0]
            finally:
                self._by_page = False
        send({"rfnb": "did", "id": content.get("id"), "said": said})

    def _told(self, boards: Sequence[Board]) -> Any:
        """The answer as data: for a search the lanes and labels by step, else the rows."""
        if self.kind != "beam":
            return boards[0] if boards else []
        return [
            [[lanes[r], labels[r][c]] for r, row in enumerate(board) for c, picked in enumerate(row) if picked]
            for board, lanes, labels in (
                (board, step["lanes"], step["labels"]) for board, step in zip(boards, self._spec.head["steps"])
            )
        ]

    def _boards(self, answer: Any) -> list[Board]:
        """The boards of an answer.

        Raises:
            ValueError: If it is not a valid answer.
        """
        if self.kind == "beam":
            return _picked(answer, self._spec.head["steps"])
        solution = self._spec.head["steps"][0]["solution"]
        shape = len(solution), len(solution[0])
        if self.kind == "alignment" and not isinstance(answer, Tensor):
            columns = _columns(answer, shape)
            if columns is not None:
                return [columns]
        dims = self._options if isinstance(answer, Tensor) else {}
        array, _, _ = grid_of(f"{self.kind} {self.name}", answer, None, None, **dims)
        if array.shape != shape:
            turned = " It is turned: rows are what looks." if array.shape == shape[::-1] else ""
            raise ValueError(f"The answer has the shape {array.shape}, and the question {shape}.{turned}")
        if not np.isin(array, (0, 1)).all():
            raise ValueError("The answer has other values than 0 and 1 (or false and true).")
        return [array.astype(int).tolist()]


def _columns(answer: Any, shape: tuple[int, int]) -> Board | None:
    """The board for a list with one or more columns per row; None for any other list."""
    rows = answer.tolist() if hasattr(answer, "tolist") else answer
    if not isinstance(rows, (list, tuple)):
        raise ValueError(f"An answer has the columns of each row, and this is {type(answer).__name__}.")
    listed = [list(row) if isinstance(row, (list, tuple)) else [row] for row in rows]
    nested = [isinstance(row, (list, tuple)) for row in rows]
    if all(nested) and all(len(row) == shape[1] and set(row) <= {0, 1} for row in listed):
        return None  # rows of 0 and 1, not columns
    if len(listed) != shape[0]:
        raise ValueError(f"The answer has {len(listed)} rows, and the question {shape[0]}.")
    board = [[0] * shape[1] for _ in listed]
    for r, row in enumerate(listed):
        for column in row:
            if isinstance(column, bool) or not isinstance(column, int) or not 0 <= column < shape[1]:
                raise ValueError(f"Row {r} has the column {column!r:.20}; there are 0 to {shape[1] - 1}.")
            board[r][column] = 1
    return board


def _picked(answer: Any, steps: Sequence[JsonObject]) -> list[Board]:
    """The boards of the survivors by step: lane and label, or a label that occurs only once."""
    if not isinstance(answer, (list, tuple)) or not all(isinstance(step, (list, tuple)) for step in answer):
        raise ValueError('An answer is a list of steps, each a list of what stays: [[(0, "A"), (0, "B")], ...].')
    if len(answer) > len(steps):
        raise ValueError(f"The answer has {len(answer)} steps, and the question {len(steps)}.")
    boards = []
    for at, (picks, step) in enumerate(zip(answer, steps)):
        board = [[0] * len(row) for row in step["solution"]]
        for pick in picks:
            lane, label = pick if isinstance(pick, (list, tuple)) and len(pick) == 2 else (None, pick)
            found = [
                (r, c)
                for r, labels in enumerate(step["labels"])
                for c, other in enumerate(labels)
                if other == str(label) and lane in (None, step["lanes"][r])
            ]
            if len(found) != 1:
                count = "no continuation" if not found else f"{len(found)} continuations"
                where = "" if lane is None else f" of lane {lane}"
                raise ValueError(f'Step {at} shows {count} "{label}"{where}.')
            board[found[0][0]][found[0][1]] = 1
        boards.append(board)
    return boards


def _checked(boards: Any, steps: Sequence[JsonObject]) -> list[Board]:
    """Validate the boards that a page sent."""
    good = isinstance(boards, list) and 0 < len(boards) <= len(steps)
    if good:
        for board, step in zip(boards, steps):
            shape = [len(row) for row in step["solution"]]
            good = good and isinstance(board, list) and all(isinstance(row, list) for row in board)
            good = (
                good and [len(row) for row in board] == shape and all(cell in (0, 1) for row in board for cell in row)
            )
    if not good:
        raise ValueError("This is no answer to the question.")
    return boards
