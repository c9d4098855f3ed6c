"""Judges answers to questions of the `question` view, in words. The mirror image of widgets/src/question/layout.ts."""

from __future__ import annotations

from dataclasses import dataclass, field

from rfnb.viz.question.spec import Board
from rfnb.viz.spec import Spec

_SOME = 3  # wrong cells that are named


@dataclass
class Judged:
    """A judgement of one board.

    Attributes:
        marks: By cell: 0 nothing, 1 right, 2 wrong, 3 missed. Of weights, right is what the best drawing has, wrong what has no weight.
        notes: By row: of an alignment its agreement.
    """

    passed: bool
    message: str
    marks: Board
    notes: list[str] = field(default_factory=list)


def judged(spec: Spec, at: int, board: Board) -> Judged:
    """Judge the board of one step."""
    step = spec.head["steps"][at]
    solution, size = step["solution"], step.get("size")
    nothing = [[0] * len(row) for row in solution]
    count = sum(map(sum, board))
    if size and count != size:
        return Judged(False, f"{size} stay, and {count} {'is' if count == 1 else 'are'} picked.", nothing)
    if not count and any(map(any, solution)):
        return Judged(False, "Nothing is drawn yet.", nothing)
    if "most" in step:
        return _agreement(spec, board, nothing)
    ties = step.get("ties", nothing)
    marks = [
        [drawn if drawn == wanted or tie else 3 - drawn for wanted, drawn, tie in zip(*rows)]
        for rows in zip(solution, board, ties)
    ]
    wrong = [said for row, says in zip(marks, step["says"]) for mark, said in zip(row, says) if mark > 1]
    if not wrong:
        return Judged(True, step["right"], marks)
    usual = [said for other, said in step["known"] if other == board]
    if usual:
        return Judged(False, usual[0], marks)
    rest = [f"{len(wrong) - _SOME} more are marked."] if len(wrong) > _SOME else []
    many = "1 place" if len(wrong) == 1 else f"{len(wrong)} places"
    return Judged(False, "\n".join([f"Wrong in {many}:", *wrong[:_SOME], *rest]), marks)


def _agreement(spec: Spec, board: Board, nothing: Board) -> Judged:
    """Judge what the rows of a drawing have in common with weights."""
    head, weights = spec.head, spec.blocks["weights"].tolist()
    step = head["steps"][0]
    names, most, says = step["names"], step["most"], step["says"]
    rows = [r for r, best in enumerate(most) if best > 0]
    for before, r in zip([None, *rows], rows):
        if 1 not in board[r]:
            return Judged(False, f"{names[r]} has no cell yet: draw at least one in each row.", nothing)
        if head["forward"] and before is not None and board[r].index(1) < _last(board[before]):
            message = f"{names[r]} begins before {names[before]} ends: this alignment only goes forward."
            return Judged(False, message, nothing)
    agreed = {r: _common(board[r], weights[r]) / most[r] for r in rows}
    mean, least, enough = sum(agreed.values()) / len(rows), min(rows, key=agreed.__getitem__), head["enough"]
    passed = mean >= enough
    message = f"Agreement {mean:.2f}, {'enough' if passed else 'too little'}: it passes from {enough:.2f}."
    if agreed[least] < 0.995:
        message += f"\nLeast in {names[least]}, {agreed[least]:.2f}: {says[least][0]}"
    marks = [
        [(1 if wanted else 0 if weight else 2) if drawn and r in agreed else 0 for drawn, wanted, weight in zip(*rows)]
        for r, rows in enumerate(zip(board, step["solution"], weights))
    ]
    return Judged(passed, message, marks, [f"{agreed[r]:.2f}" if r in agreed else "" for r in range(len(board))])


def _last(row: list[int]) -> int:
    return len(row) - 1 - row[::-1].index(1)


def _common(drawn: list[int], weights: list[float]) -> float:
    """The sum of the smaller shares: of a row of weights, and of a drawn row that is spread evenly over its cells."""
    count = sum(drawn)
    return sum(min(1 / count, weight) for weight, is_drawn in zip(weights, drawn) if is_drawn)
