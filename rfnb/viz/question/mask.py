"""A question about a mask: which sources may each target attend to?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rfnb.core.errors import value_error
from rfnb.viz.question.grid import grid_of
from rfnb.viz.question.spec import Board, QuestionStep, named
from rfnb.viz.question.spec import spec as question
from rfnb.viz.spec import Spec

Why = Callable[[int, int], "str | None"]


def mask_spec(
    name: str,
    expected: Any,
    *,
    target: Sequence[Any] | None = None,
    source: Sequence[Any] | None = None,
    asked: str | None = None,
    why: Why | None = None,
    **options: Any,
) -> Spec:
    """The question which cells of a mask are true.

    Args:
        expected: {target, source} bool, or numbers 0 and 1: a Tensor, an array or nested lists.
        target, source: Labels.
        asked: The task. Default: to draw the cells that each row may see.
        why: Called with row and column of a wrong cell; returns the reason as text, or None. Default, and for None: a
            reason derived from the mask: later positions, positions too far back, or positions hidden from all rows.
        **options: `target_dim`, `source_dim`, `dims` as in `rf.viz.attention`.

    Raises:
        ValueError: If it has other values, or all values are equal.
        ShapeError: If it has several sequences or heads.
    """
    array, rows, cols = grid_of("draw_mask", expected, target, source, **options)
    if not np.isin(array, (0, 1)).all():
        raise value_error(
            f'draw_mask: the mask "{name}" has values that are neither true nor false.',
            {"shape": array.shape},
            "A mask is true (or 1) where a row may see a column, and false (or 0) elsewhere.",
            "rf.logical_not(mask)    # of one that is true where nothing may be seen; energies > -1e9 of one that is added",
        )
    mask = array.astype(bool)
    reasons = _reasons(mask)
    row_names, col_names = named("row", rows), named("column", cols)

    def sentence(r: int, c: int) -> str:
        reason = (why(r, c) if why is not None else None) or reasons(r, c)
        verb = "must" if mask[r, c] else "may not"
        return f"{row_names[r]} {verb} see {col_names[c]}{f': {reason}' if reason else ''}."

    says = [[sentence(r, c) for c in range(mask.shape[1])] for r in range(mask.shape[0])]
    step = QuestionStep(rows, row_names, _board(mask), says, f"All {mask.size} cells are right.", _known(mask))
    return question("mask", name, asked or _ASKED, [step], cols=cols, col_names=col_names)


_ASKED = "Draw what each row may see: rows look, columns are seen."


def _known(mask: np.ndarray) -> list[tuple[Board, str]]:
    """Common mistakes as whole boards, without those that are correct here."""
    made = [(~mask, "This is the inverse: you drew what may not be seen.")]
    if mask.shape[0] == mask.shape[1]:
        made.append((mask.T, "This is mirrored: a row is what looks, a column is what is seen."))
        diagonal = np.eye(len(mask), dtype=bool)
        if (mask & diagonal).any():
            made.append((mask & ~diagonal, "The diagonal is missing: each position may see itself."))
        else:
            made.append((mask | diagonal, "Remove the diagonal: no position may see itself."))
    return [(_board(other), said) for other, said in made if (other != mask).any() and other.any()]


def _board(mask: np.ndarray) -> Board:
    return mask.astype(int).tolist()


def _reasons(mask: np.ndarray) -> Callable[[int, int], str]:
    """The reason for a cell, derived from the mask: only reasons that hold for the whole mask."""
    padding: np.ndarray
    idle: np.ndarray
    padding, idle = ~np.any(mask, axis=0), ~np.any(mask, axis=1)  # columns, rows
    back: np.ndarray = np.subtract.outer(np.arange(mask.shape[0]), np.arange(mask.shape[1]))
    causal = mask.shape[0] > 1 and not mask[back < 0].any() and mask[back == 0].any()
    lags = back[mask & (back >= 0)]
    far = int(lags.max()) if lags.size else 0
    windowed = bool((back > far).any())
    ahead = int(-back[mask & (back <= 0)].min()) if (mask & (back <= 0)).any() else 0
    two_sided = not causal and bool((-back > ahead).any()) and mask.shape[0] == mask.shape[1]

    def reason(r: int, c: int) -> str:
        lag = r - c
        if mask[r, c]:
            return (
                "it is itself" if causal and lag == 0 else "it is earlier" if causal and lag > 0 else "nothing hides it"
            )
        if padding[c]:
            return "no row sees it, as padding"
        if idle[r]:
            return "this row sees nothing, as padding"
        if causal and lag < 0:
            return "it is later"
        if windowed and lag > far:
            return f"it is {lag} back, and the window has {far}"
        if two_sided and -lag > ahead:
            return f"it is {-lag} ahead, and the window has {ahead}"
        return ""

    return reason
