"""A question about weights or an alignment: which sources does each target attend to?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.errors import value_error
from rfnb.search.label_alignment import LabelAlignment, is_alignments
from rfnb.viz.question.grid import grid_of
from rfnb.viz.question.spec import QuestionStep, named
from rfnb.viz.question.spec import spec as question
from rfnb.viz.spec import Spec

_ASKED = "Draw where you expect each row to look: one cell or several. It is then compared with what was recorded."
_FORWARD = "Draw the columns that each row takes, from left to right. It is then compared with the best alignment."


def alignment_spec(
    name: str,
    expected: Any,
    *,
    target: Sequence[Any] | None = None,
    source: Sequence[Any] | None = None,
    asked: str | None = None,
    enough: float = 0.7,
    forward: bool | None = None,
    **options: Any,
) -> Spec:
    """The question about the location of the weight in each row.

    Args:
        expected: {target, source}: weights, not negative, or an alignment of labels to frames (`ctc.align(text)`). Rows
            without weight are skipped.
        target, source: Labels. Default: those of the alignment, else numbers.
        enough: The mean agreement of the rows needed to pass, 0 to 1.
        forward: Whether rows must be monotonic. Default: for alignments of labels to frames, and for monotonic ones of 0 and 1.
        **options: `target_dim`, `source_dim`, `dims` as in `rf.viz.attention`.

    Raises:
        ValueError: If weights are negative or not finite, or all 0; or enough is not within 0 to 1.
        ShapeError: If it has several sequences or heads.
    """
    if is_alignments(expected):
        array, target, source = _of_labels(expected, target, source)
        rows, cols, forward = list(map(str, target)), list(map(str, source)), forward is not False
    else:
        array, rows, cols = grid_of("place_alignment", expected, target, source, **options)
    weights = np.asarray(array, np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise value_error(
            f'place_alignment: "{name}" has no weights to compare with.',
            {"shape": weights.shape, "finite": bool(np.isfinite(weights).all()), "any": bool(weights.any())},
            "Weights are not negative, and not all 0.",
            "rf.softmax(energies, axis=source)",
        )
    if not 0 <= enough <= 1:
        raise value_error(
            f'place_alignment: "{name}" cannot be passed so.',
            {"enough": enough},
            "An agreement is within 0 (nothing in common) and 1 (no drawing has more).",
            "enough=0.7",
        )
    shares = weights / np.maximum(weights.sum(1, keepdims=True), 1e-30)
    best = [_best(row) for row in shares]
    col_names = named("column", cols)
    says = [[f"{_most(row, col_names)}."] * len(cols) for row in shares]
    step = QuestionStep(
        rows,
        named("row", rows),
        [board for board, _ in best],
        says,
        more={"most": [round(most, 7) for _, most in best]},
    )
    if forward is None:
        forward = _goes_forward(weights)
    return question(
        "alignment", name, asked or (_FORWARD if forward else _ASKED), [step], cols=cols, col_names=col_names,
        blocks={"weights": shares.astype(np.float32)}, forward=bool(forward), enough=float(enough),
    )  # fmt: skip


def _best(shares: np.ndarray) -> tuple[list[int], float]:
    """The drawing with the largest overlap with a row, and the overlap: its heaviest cells, as many as help."""
    order = np.argsort(-shares, kind="stable")
    board, most = np.zeros(len(shares), int), 0.0
    for count in range(1, len(order) + 1):
        common = float(np.minimum(1 / count, shares[order[:count]]).sum())
        if common > most + 1e-6:  # tolerance for float32 weights
            board[:], most = 0, common
            board[order[:count]] = 1
    return board.tolist(), most


def _most(shares: np.ndarray, names: list[str]) -> str:
    """The columns with the largest weights of a row, as text."""
    most = [names[at] for at in np.flatnonzero(shares == shares.max())]
    if shares.max() > 0.5:
        return f"most of its weight is on {most[0]}"
    more = f", {len(most) - 4:,} more" if len(most) > 4 else ""
    return f"its largest weight{'s are' if len(most) > 1 else ' is'} on {', '.join(most[:4])}{more}"


def _goes_forward(weights: np.ndarray) -> bool:
    """Whether it is a hard alignment in which no row begins before the previous one ends."""
    if not np.isin(weights, (0, 1)).all():
        return False
    columns = [np.flatnonzero(row) for row in weights if row.any()]
    return all(before[-1] <= after[0] for before, after in zip(columns, columns[1:]))


def _of_labels(value: Any, target: Any, source: Any) -> tuple[np.ndarray, Sequence[Any], Sequence[Any]]:
    """The frames of each label, without blanks."""
    every = [value] if isinstance(value, LabelAlignment) else list(value)
    if len(every) != 1:
        raise value_error(
            "place_alignment: these are alignments of several sequences.",
            {"sequences": len(every)},
            "One draws in one grid.",
            "lesson.place_alignment(name, alignments[0])",
        )
    one = every[0]
    array = np.zeros((len(one.labels), one.frames))
    for row, span in enumerate(one.labels):
        array[row, span.start : max(span.end, span.start + 1)] = 1
    return array, target or [span.text for span in one.labels], source or [str(frame) for frame in range(one.frames)]
