"""The usual choice over raw arrays, as lines of a program: scores are added, and the best of all continuations are taken.

`for` loops run them, and recorded ones as a part of their step, where `loop.plan.program` shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from rfnb.rec.lowering import LoweredCall
from rfnb.rec.program import Program, ProgramCode

RESULTS = "best", "parents", "labels", "total"


def ranking(
    backend: Any,
    *,
    order: Callable[[Any], Any] | None,
    before: Sequence[int] | None,
    stay: Any,
    shape: Sequence[int],
    count: int,
    num_labels: int,
    reads: bool,
) -> Program:
    """A function (scores, scores before, mask of what has ended) -> (the best sums, parents, labels, the best sums), without the
    arguments that there are not.

    Args:
        order: Brings the scores into the order {batch dims, hypothesis, label}; None: they are so.
        before: The shape in which the scores before are added; None: there are none.
        stay: The scores of a hypothesis that has ended; None: none has.
        shape: Of the sums, {batch dims, hypothesis * label}.
        count: How many go on.
        reads: Whether the host looks if some are equal: then the first result has one more. Else of equal sums the first are taken.
    """
    axis = len(shape) - 1
    values = {
        "order": order, "where": backend.where_raw, "reshape": backend.reshape_raw, "add": backend.binary_tensors_fn("add"),
        "top_k": backend.top_k_raw, "part": backend.slice_raw, "divide": backend.binary_fn("floordiv"),
        "remainder": backend.binary_fn("mod"), "stay": stay, "before_shape": before, "shape": tuple(shape), "axis": axis,
        "count": count, "count_and_next": count + 1, "num_labels": num_labels, "first_top_k": backend.first_top_k_raw,
        "is_impossible": backend.unary_fn("is_neg_infinite"),
    }  # fmt: skip
    code, bound = _code(order is not None, before is not None, stay is not None, reads)
    return Program(code, {name: values[name] for name in bound}, lambda place: "choice")


@lru_cache(maxsize=16)
def _code(ordered: bool, adds: bool, ends: bool, reads: bool) -> tuple[ProgramCode, list[str]]:
    """The lines, and what they need."""
    lines: list[LoweredCall] = []
    bound: dict[str, None] = {}

    def line(targets: str, fn: str, uses: Sequence[str], *given: str) -> None:
        bound.update(dict.fromkeys([fn, *(name for name in given if name.isidentifier() and name != "True")]))
        names = tuple(targets.split(", "))
        lines.append(
            LoweredCall(names, f"{fn}({', '.join([*uses, *given])})", frozenset(uses), len(names) == 1, False, 0)
        )

    scores, inputs = "scores", ["scores", *(["before"] if adds else []), *(["ended"] if ends else [])]
    if ordered:
        line("ordered", "order", [scores])
        scores = "ordered"
    if ends:
        lines.append(
            LoweredCall(("going_on",), f"where(ended, stay, {scores})", frozenset(["ended", scores]), True, False, 0)
        )
        bound.update({"where": None, "stay": None})
        scores = "going_on"
    if adds:
        line("added", "reshape", ["before"], "before_shape")
        line("sums", "add", [scores, "added"])
        scores = "sums"
    line("flat", "reshape", [scores], "shape")
    if reads:
        line("best, index", "top_k", ["flat"], "count_and_next", "True")
        line("chosen", "part", ["index"], "axis", "0", "count")
    else:
        line("best, index", "first_top_k", ["flat"], "count")
        line("impossible", "is_impossible", ["best"])
        lines.append(
            LoweredCall(("chosen",), "where(impossible, 0, index)", frozenset(["impossible", "index"]), True, False, 0)
        )
        bound["where"] = None
    line("parents", "divide", ["chosen"], "num_labels")
    line("labels", "remainder", ["chosen"], "num_labels")
    line("total", "part", ["best"], "axis", "0", "count")
    return ProgramCode(lines, bound, inputs, RESULTS), list(bound)
