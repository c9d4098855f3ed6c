"""The ways of elementwise functions with the padding of their operands while gradients are tracked, by their kind; see `finite.py`."""

from __future__ import annotations

from typing import Any

from rfnb.core.finite import finite_raw
from rfnb.core.tensor import Tensor

# Finite operands give finite results, so what is known about their padding is known about that of the result.
KEEP_FINITE = set(
    "add sub mul maximum minimum squared_difference log_add_exp neg square abs tanh sigmoid log_sigmoid sin cos ceil floor round"
    " relu elu selu silu gelu".split()
)
# The derivative is computed from the operands. While gradients are tracked, padding that may be NaN there is set before, see
# `core/finite.py`. The others pass 0 on as 0, whatever the operands are.
FROM_OPERANDS = set(
    "mul truediv mod pow squared_difference log_add_exp abs square tanh sigmoid log_sigmoid sin cos elu selu silu gelu exp expm1"
    " log log1p sqrt rsqrt reciprocal".split()
)
# Even finite operands can give an infinite one: what padding is set to, on the left and on the right.
SAFE: dict[str, tuple[float | None, float | None]] = {
    "truediv": (None, 1), "mod": (None, 1), "pow": (1, 1), "exp": (0, None), "expm1": (0, None), "log": (1, None),
    "log1p": (0, None), "sqrt": (1, None), "rsqrt": (1, None), "reciprocal": (1, None),
}  # fmt: skip
LINEAR_IN_LEFT = ("mul", "truediv", "mod")


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
