"""The ways of elementwise functions with the padding of their operands while gradients are tracked, by their kind; see `finite.py`."""

from __future__ import annotations

from typing import Any

from rfnb.backends.elementwise import BINARY, UNARY
from rfnb.core.finite import finite_raw
from rfnb.core.tensor import Tensor

_KINDS = {**UNARY, **BINARY}
# Finite operands give finite results, so what is known about their padding is known about that of the result.
KEEP_FINITE = {kind for kind, row in _KINDS.items() if row.finite}
# The derivative is computed from the operands. While gradients are tracked, padding that may be NaN there is set before, see
# `core/finite.py`. The others pass 0 on as 0, whatever the operands are.
FROM_OPERANDS = {kind for kind, row in _KINDS.items() if row.derivative == "operand"}
# Even finite operands can give an infinite one: what padding is set to, on the left and on the right.
SAFE: dict[str, tuple[float | None, float | None]] = {
    **{kind: (row.safe, None) for kind, row in UNARY.items() if row.safe is not None},
    **{kind: row.safe for kind, row in BINARY.items() if row.safe is not None},
}
LINEAR_IN_LEFT = {kind for kind, row in BINARY.items() if row.linear}


def safe_operands(kind: str, a: Tensor, b: Tensor) -> tuple[Any, Any, bool]:
    """The raw operands with padding that gradients pass through, so that that of the result is finite."""
    left, right = SAFE.get(kind, (None, None))
    return _safe(a, left), _safe(b, right), True


def safe_operand(kind: str, x: Tensor) -> Any:
    """The raw operand of a function of one, likewise."""
    return _safe(x, SAFE.get(kind, (None, None))[0])


def _safe(x: Tensor, fill: float | None) -> Any:
    """The raw array with `fill` in its padding; None: with 0, unless it is known to be finite."""
    if fill is None:
        return x._raw if x._finite else finite_raw(x)
    return finite_raw(x, fill)


def safe_beside_number(kind: str, x: Tensor, number: Any, left: bool) -> tuple[Any, bool]:
    """The raw array of the tensor in `number kind x` (left) or `x kind number`, and whether the padding of the result is finite."""
    linear = kind in LINEAR_IN_LEFT and (not left or kind == "mul")
    keeps = linear or kind in KEEP_FINITE
    if linear or kind not in FROM_OPERANDS or not x.backend.tracks_gradient_raw(x._raw):
        return x._raw, keeps and x._finite
    fill = SAFE.get(kind, (None, None))[left]
    if kind == "pow" and not left and not isinstance(number, complex) and number >= 1 and float(number).is_integer():
        fill = None  # a polynomial
    return _safe(x, fill), True
