"""The facts about each elementwise function: one row, from which everything else is derived.

    Unary("log1p", "log(1 + a), accurate near 0.", gives="float", finite=False, derivative="operand", safe=0, domain=(-0.9, 3))

A row and `log1p = unary("log1p")` in `ops/math.py` define an op: gradients in torch, values in NumPy, and its cases in the laws. Both
libraries are searched for a function of this name; if theirs has another name, it is listed in `torch_functions.py`,
`numpy_functions.py`. No fact has a default that would be wrong if it is forgotten: while gradients are tracked, padding is replaced
before a function whose derivative would be NaN there (`core/finite_padding.py`), and the laws try each row on its domain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

Fn = TypeVar("Fn", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Elementwise:
    """A row.

    Attributes:
        name, doc: Name and docstring of the op.
        gives: The dtype of its result: that of the operand, floats even for integers, or bool.
        finite: Whether finite operands give finite results.
        derivative: The values that the derivative is computed from; with "operand", padding that may be NaN is replaced first.
        refuses: Kinds of dtypes that are refused, by NumPy's letters: b bool, i and u integers, c complex.
    """

    name: str
    doc: str
    gives: Literal["same", "float", "bool"]
    finite: bool
    derivative: Literal["constant", "result", "operand"]
    refuses: str = ""

    def _check_safe(self, safe: object) -> None:
        if (self.derivative == "operand" and not self.finite) != (safe is not None):
            raise TypeError(
                f'The row "{self.name}": `safe` is what padding is set to where finite operands may give an infinite derivative, which is\n'
                'so with finite=False and derivative="operand", and not otherwise.'
            )


@dataclass(frozen=True, kw_only=True)
class Unary(Elementwise):
    """A function of one operand.

    Attributes:
        safe: The replacement for padding where a finite operand can have an infinite derivative.
        domain: The range from which the laws draw operands.
    """

    safe: float | None
    domain: tuple[float, float]

    def __post_init__(self) -> None:
        self._check_safe(self.safe)


@dataclass(frozen=True, kw_only=True)
class Binary(Elementwise):
    """A function of two operands.

    Attributes:
        safe: The same for the left and the right operand; None: 0.
        linear: Whether it is linear in the left operand.
    """

    safe: tuple[float | None, float | None] | None
    linear: bool = False

    def __post_init__(self) -> None:
        self._check_safe(self.safe)


_all = (-3.0, 3.0)
_above_0 = (0.1, 3.0)
_rows = (
    Unary(name="neg", doc="-a.", gives="same", finite=True, derivative="constant", safe=None, domain=_all, refuses="b"),
    Unary(name="exp", doc="e to the a.", gives="float", finite=False, derivative="operand", safe=0, domain=_all),
    Unary(name="expm1", doc="exp(a) - 1, accurate near 0.", gives="float", finite=False, derivative="operand", safe=0, domain=_all),
    Unary(name="log", doc="Natural logarithm.", gives="float", finite=False, derivative="operand", safe=1, domain=_above_0),
    Unary(name="log1p", doc="log(1 + a), accurate near 0.", gives="float", finite=False, derivative="operand", safe=0, domain=(-0.9, 3)),
    Unary(name="sqrt", doc="Square root.", gives="float", finite=False, derivative="operand", safe=1, domain=_above_0),
    Unary(name="rsqrt", doc="1 / sqrt(a).", gives="float", finite=False, derivative="operand", safe=1, domain=_above_0),
    Unary(name="square", doc="a².", gives="same", finite=True, derivative="operand", safe=None, domain=_all),
    Unary(name="abs", doc="Absolute value.", gives="same", finite=True, derivative="operand", safe=None, domain=_all, refuses="b"),
    Unary(name="tanh", doc="Hyperbolic tangent.", gives="float", finite=True, derivative="operand", safe=None, domain=_all),
    Unary(name="sigmoid", doc="1 / (1 + exp(-a)).", gives="float", finite=True, derivative="operand", safe=None, domain=_all),
    Unary(name="log_sigmoid", doc="log(sigmoid(a)), stable.", gives="float", finite=True, derivative="operand", safe=None, domain=_all,
          refuses="biuc"),
    Unary(name="sin", doc="Sine of radians.", gives="float", finite=True, derivative="operand", safe=None, domain=_all),
    Unary(name="cos", doc="Cosine of radians.", gives="float", finite=True, derivative="operand", safe=None, domain=_all),
    Unary(name="ceil", doc="Rounded up; stays float.", gives="same", finite=True, derivative="constant", safe=None,
          domain=_all, refuses="bc"),
    Unary(name="floor", doc="Rounded down; stays float.", gives="same", finite=True, derivative="constant", safe=None, domain=_all,
          refuses="bc"),
    Unary(name="round", doc="Rounded, half to even; stays float.", gives="same", finite=True, derivative="constant",
          safe=None, domain=_all,
          refuses="bc"),
    Unary(name="relu", doc="max(a, 0).", gives="same", finite=True, derivative="result", safe=None, domain=_all, refuses="bc"),
    Unary(name="elu", doc="a above 0, exp(a) - 1 below.", gives="float", finite=True, derivative="operand", safe=None, domain=_all,
          refuses="biuc"),
    Unary(name="selu", doc="Scaled elu (Klambauer et al. 2017).", gives="float", finite=True, derivative="operand",
          safe=None, domain=_all,
          refuses="biuc"),
    Unary(name="silu", doc="a * sigmoid(a).", gives="float", finite=True, derivative="operand", safe=None, domain=_all, refuses="biu"),
    Unary(name="gelu", doc="a * Phi(a), exact (Hendrycks and Gimpel 2016).", gives="float", finite=True, derivative="operand", safe=None,
          domain=_all, refuses="biuc"),
    Unary(name="reciprocal", doc="1 / a.", gives="float", finite=False, derivative="operand", safe=1, domain=_above_0),
    Unary(name="logical_not", doc="not a; bool.", gives="bool", finite=True, derivative="constant", safe=None, domain=_all),
    Unary(name="is_finite", doc="Neither infinite nor NaN; bool.", gives="bool", finite=True, derivative="constant",
          safe=None, domain=_all),
    Unary(name="is_infinite", doc="Infinite, of either sign; bool.", gives="bool", finite=True, derivative="constant", safe=None,
          domain=_all),
    Unary(name="is_neg_infinite", doc="-inf; bool.", gives="bool", finite=True, derivative="constant", safe=None, domain=_all,
          refuses="c"),
    Binary(name="add", doc="a + b, elementwise over the union of the dims.", gives="same", finite=True, derivative="constant", safe=None),
    Binary(name="sub", doc="a - b, elementwise over the union of the dims.", gives="same", finite=True, derivative="constant", safe=None,
           refuses="b"),
    Binary(name="mul", doc="a * b, elementwise over the union of the dims.", gives="same", finite=True, derivative="operand", safe=None,
           linear=True),
    Binary(name="truediv", doc="a / b, elementwise over the union of the dims.", gives="float", finite=False, derivative="operand",
           safe=(None, 1), linear=True),
    Binary(name="floordiv", doc="a // b, rounded down, elementwise over the union of the dims.", gives="same", finite=False,
           derivative="constant", safe=None, refuses="bc"),
    Binary(name="mod", doc="Remainder with the sign of b, elementwise over the union of the dims.", gives="same", finite=False,
           derivative="operand", safe=(None, 1), linear=True, refuses="bc"),
    Binary(name="pow", doc="a ** b, elementwise over the union of the dims.", gives="same", finite=False, derivative="operand", safe=(1, 1),
           refuses="b"),
    Binary(name="maximum", doc="The larger of a and b.", gives="same", finite=True, derivative="constant", safe=None, refuses="c"),
    Binary(name="minimum", doc="The smaller of a and b.", gives="same", finite=True, derivative="constant", safe=None, refuses="c"),
    Binary(name="squared_difference", doc="(a - b)², elementwise over the union of the dims.", gives="same", finite=True,
           derivative="operand", safe=None, refuses="b"),
    Binary(name="logical_and", doc="a and b; both bool.", gives="bool", finite=True, derivative="constant", safe=None),
    Binary(name="logical_or", doc="a or b; both bool.", gives="bool", finite=True, derivative="constant", safe=None),
    Binary(name="log_add_exp", doc="log(exp(a) + exp(b)), stable.", gives="float", finite=True, derivative="operand", safe=None,
           refuses="biuc"),
    *(
        Binary(name=name, doc=f"a {sign} b, bool.", gives="bool", finite=True, derivative="constant", safe=None, refuses=refuses)
        for name, sign, refuses in (
            ("equal", "==", ""), ("not_equal", "!=", ""), ("less", "<", "c"), ("less_equal", "<=", "c"), ("greater", ">", "c"),
            ("greater_equal", ">=", "c"),
        )
    ),
)  # fmt: skip
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
UNARY = {row.name: row for row in _rows if isinstance(row, Unary)}
BINARY = {row.name: row for row in _rows if isinstance(row, Binary)}


def functions_of(library: Any, rows: Mapping[str, Elementwise], own: Mapping[str, Fn]) -> dict[str, Fn]:
    """The function of each row: its own, else the library's function of that name.

    Raises:
        TypeError: If there is none.
    """
    found: dict[str, Any] = {name: own.get(name) or getattr(library, name, None) for name in rows}
    lacking = [name for name, fn in found.items() if fn is None]
    if lacking:
        raise TypeError(
            f"{library.__name__} has no {', '.join(lacking)}: say what computes it, in {library.__name__}_functions.py."
        )
    return found
