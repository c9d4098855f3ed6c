"""Judge answers to the `question` view; the counterpart of widgets/src/question/layout.ts."""

from __future__ import annotations

from dataclasses import dataclass, field

from rfnb.viz.question.spec import Board
from rfnb.viz.spec import Spec

_SOME = 3  # wrong cells named in a message
_SUM = "What counts is the sum: the score of a hypothesis, and the log probability of its next label."


@dataclass
class Judged:
    """The judgement of one board.

    Attributes:
        marks: By cell: 0 nothing, 1 right, 2 wrong, 3 missed. For weights, cells of the best drawing are right, cells without weight wrong.
        notes: By row: the agreement of an alignment.
        whole: Whether the board is a complete answer; else the message says what is left to do.
        told: Whether sums, ranks and weights may be shown: for a right answer, and from the second miss on.
    """

    passed: bool
    message: str
    marks: Board
    notes: list[str] = field(default_factory=list)
    whole: bool = True
    told: bool = True


def judged(spec: Spec, at: int, board: Board, *, first: bool = False) -> Judged:
    """Judge the board of one step; after a first miss the message says how to find the mistake, without the answer."""
    step = spec.head["steps"][at]
    solution, size = step["solution"], step.get("size")
    nothing = [[0] * len(row) for row in solution]
    count = sum(map(sum, board))
    if size and count != size:
        return _unfinished(f"{size} stay, and {count} {'is' if count == 1 else 'are'} picked.", nothing)
    if not count and any(map(any, solution)):
        return _unfinished("Nothing is drawn yet.", nothing)
    if "most" in step:
        return _agreement(spec, board, nothing, first)
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
        return Judged(False, usual[0], nothing if first else marks, told=not first)
    if first and size:
        out = sum(row.count(2) for row in marks)
        said = (
            f"{out} of the {size} that you picked {'goes' if out == 1 else 'go'}."
            if out
            else "A better one is left out."
        )
        return Judged(False, f"{said} {_SUM}", nothing, told=False)
    if first and len(wrong) > 1:
        one = next((r, c) for r, row in enumerate(marks) for c, mark in enumerate(row) if mark > 1)
        alone = [[mark if (r, c) == one else 0 for c, mark in enumerate(row)] for r, row in enumerate(marks)]
        return Judged(False, f"Wrong in {len(wrong)} places, one of them:\n{wrong[0]}", alone, told=False)
    rest = [f"{len(wrong) - _SOME} more are marked."] if len(wrong) > _SOME else []
    many = "1 place" if len(wrong) == 1 else f"{len(wrong)} places"
    return Judged(False, "\n".join([f"Wrong in {many}:", *wrong[:_SOME], *rest]), marks)


def _unfinished(message: str, nothing: Board) -> Judged:
    return Judged(False, message, nothing, whole=False, told=False)


def _agreement(spec: Spec, board: Board, nothing: Board, first: bool) -> Judged:
    """Judge the agreement between the rows of a drawing and the weights."""
    head, weights = spec.head, spec.blocks["weights"].tolist()
    step = head["steps"][0]
    names, most, says = step["names"], step["most"], step["says"]
    rows = [r for r, best in enumerate(most) if best > 0]
    for before, r in zip([None, *rows], rows):
        if 1 not in board[r]:
            return _unfinished(f"{names[r]} has no cell yet: draw at least one in each row.", nothing)
        if head["forward"] and before is not None and board[r].index(1) < _last(board[before]):
            message = f"{names[r]} begins before {names[before]} ends: this alignment only goes forward."
            return _unfinished(message, nothing)
    agreed = {r: _common(board[r], weights[r]) / most[r] for r in rows}
    mean, least, enough = sum(agreed.values()) / len(rows), min(rows, key=agreed.__getitem__), head["enough"]
    passed = mean >= enough
    message = f"Agreement {mean:.2f}, {'enough' if passed else 'too little'}: it passes from {enough:.2f}."
    if agreed[least] < 0.995:
        where = f": {says[least][0]}" if passed or not first else "."
        message += f"\nLeast in {names[least]}, {agreed[least]:.2f}{where}"
    notes = [f"{agreed[r]:.2f}" if r in agreed else "" for r in range(len(board))]
    if first and not passed:
        return Judged(False, message, nothing, notes, told=False)
    marks = [
        [(1 if wanted else 0 if weight else 2) if drawn and r in agreed else 0 for drawn, wanted, weight in zip(*rows)]
        for r, rows in enumerate(zip(board, step["solution"], weights))
    ]
    return Judged(passed, message, marks, notes)


def _last(row: list[int]) -> int:
    return len(row) - 1 - row[::-1].index(1)


def _common(drawn: list[int], weights: list[float]) -> float:
    """The overlap (sum of minima) of a row of weights and a drawn row that is spread evenly over its cells."""
    count = sum(drawn)
    return sum(min(1 / count, weight) for weight, is_drawn in zip(weights, drawn) if is_drawn)
