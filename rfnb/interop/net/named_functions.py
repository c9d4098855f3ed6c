"""The functions that a network may name: activations, and functions that `eval` may call as tf.NAME, tf.nn.NAME or tf.math.NAME."""

from __future__ import annotations

import ast
import difflib
import operator
from collections.abc import Callable, Mapping
from typing import Any

from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.interop.net.safe_eval import bounded, combined, parsed, shown
from rfnb.ops import math
from rfnb.ops.cast import cast
from rfnb.ops.const import ones_like, zeros_like
from rfnb.ops.gradient import stop_gradient
from rfnb.ops.softmax import log_softmax, softmax
from rfnb.ops.where import where

Function = Callable[[Tensor], Tensor]


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x))."""
    return -math.log_sigmoid(-x)


def _leaky_relu(x: Tensor, alpha: float = 0.2) -> Tensor:
    return math.maximum(x, x * alpha)


def _sign(x: Tensor) -> Tensor:
    return cast(math.greater(x, 0), x.dtype) - cast(math.less(x, 0), x.dtype)


def _over_features(fn: Any) -> Function:
    def over_features(x: Tensor, axis: int = -1) -> Tensor:
        if x.feature_dim is None or axis != -1:
            raise value_error(
                f"{fn.__name__}: the dim is unknown.",
                {"source": x.dims},
                "The function works along the feature dim.",
            )
        return fn(x, axis=x.feature_dim)

    return over_features


_OF_MATH = (
    "abs ceil cos elu exp expm1 floor gelu identity log log1p log_sigmoid logical_not neg reciprocal relu round rsqrt safe_log selu"
    " sigmoid silu sin sqrt square swish tanh"
).split()
ACTIVATIONS: dict[str, Function] = {
    **{name: getattr(math, name) for name in _OF_MATH},
    "leaky_relu": _leaky_relu,
    "linear": math.identity,
    "log_softmax": _over_features(log_softmax),
    "negative": math.neg,
    "none": math.identity,
    "relu6": lambda x: math.clip_by_value(x, 0.0, 6.0),
    "sign": _sign,
    "softmax": _over_features(softmax),
    "softplus": softplus,
    "softsign": lambda x: x / (math.abs(x) + 1.0),
    "stop_gradient": stop_gradient,
}


def either(kind: str) -> Callable[[Any, Any], Any]:
    """rf.combine of this kind, where a and b may each have dims that the other lacks."""
    return lambda a, b: math.combine_bc(a, kind, b)


def compare(a: Any, kind: str, b: Any) -> Any:
    """rf.compare over the dims of both; also for plain numbers."""
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        return COMPARISONS[kind](a, b)
    return math.compare_bc(a, kind, b)


_BINARY = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "truediv": "truediv", "floordiv": "floordiv",
           "mod": "mod", "floormod": "mod", "pow": "pow", "maximum": "maximum", "minimum": "minimum",
           "logical_and": "logical_and", "logical_or": "logical_or", "squared_difference": "squared_difference"}  # fmt: skip
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le, "greater": operator.gt,
    "greater_equal": operator.ge,
}  # fmt: skip


def _comparing(kind: str) -> Callable[[Any, Any], Any]:
    return lambda a, b: compare(a, kind, b)


def _where(cond: Tensor, a: Any, b: Any) -> Tensor:
    return where(cond, a, b, allow_broadcast_all_sources=True)


_DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool")
_PLAIN: dict[str, Any] = {
    **ACTIVATIONS,
    **{name: either(kind) for name, kind in _BINARY.items()},
    **{kind: _comparing(kind) for kind in COMPARISONS},
    **{dtype: dtype for dtype in _DTYPES},
    "cast": lambda x, dtype: cast(x, dtype),
    "clip_by_value": lambda x, clip_value_min, clip_value_max: math.clip_by_value(x, clip_value_min, clip_value_max),
    "ones_like": ones_like,
    "to_float": lambda x: cast(x, "float32"),
    "to_int32": lambda x: cast(x, "int32"),
    "where": _where,
    "zeros_like": zeros_like,
}
FUNCTIONS: Mapping[str, Any] = {**_PLAIN, "nn": _PLAIN, "math": _PLAIN}


def activation(name: str | None, what: str) -> Function:
    """The function for a name, for names joined by "|" (the first one is applied first), or for an expression of names and
    numbers ("2.0 * sigmoid", "log(softmax)").

    Raises:
        ValueError: An unknown name; the message lists similar ones.
    """
    if name is None or name == "":
        return math.identity
    if callable(name):
        return name
    if name in ACTIVATIONS:
        return ACTIVATIONS[name]
    parts = [part.strip() for part in str(name).split("|")]
    if len(parts) > 1:
        chain = [activation(part, what) for part in parts]
        return _chained(chain)
    tree = parsed(str(name), what)
    try:
        found = _composed(tree, str(name), what, 0)
    except (TypeError, ArithmeticError) as error:
        raise value_error(
            f"{what}: the activation has no value.",
            {"activation": shown(str(name)), "cause": error},
            'An activation is a name, names joined by "|" or composed as in "log(softmax)", or "2.0 * sigmoid".',
        ) from error
    if not callable(found):
        raise _unknown(str(name), name, what)
    return found


def _chained(chain: list[Function]) -> Function:
    def apply(x: Tensor) -> Tensor:
        for fn in chain:
            x = fn(x)
        return x

    return apply


_DEEPEST = 60
_OPERATORS: dict[type, str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.Pow: "pow"}


def _composed(node: ast.AST, text: str, what: str, depth: int) -> Any:
    """The function or number for a part of the text."""
    if depth > _DEEPEST:
        raise ArithmeticError("nested too deeply")
    if isinstance(node, ast.Name):
        if node.id not in ACTIVATIONS:
            raise _unknown(node.id, text, what)
        return ACTIVATIONS[node.id]
    if isinstance(node, ast.Attribute):  # tf.nn.relu
        if node.attr not in ACTIVATIONS or not _is_namespace(node.value):
            raise _unknown(node.attr, text, what)
        return ACTIVATIONS[node.attr]
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return bounded(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _composed(node.operand, text, what, depth + 1)
        return (lambda x: -inner(x)) if callable(inner) else -inner
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        a, b = (_composed(part, text, what, depth + 1) for part in (node.left, node.right))
        if not callable(a) and not callable(b):
            return combined(node.op, a, b)
        kind = _OPERATORS[type(node.op)]
        return lambda x: math.combine_bc(a(x) if callable(a) else a, kind, b(x) if callable(b) else b)
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        outer, inner = (_composed(part, text, what, depth + 1) for part in (node.func, node.args[0]))
        if callable(outer) and callable(inner):
            return lambda x: outer(inner(x))
    raise _unknown(text, text, what)


def _is_namespace(node: ast.AST) -> bool:
    """Whether it is tf, tf.nn or tf.math."""
    if isinstance(node, ast.Attribute) and node.attr in ("nn", "math"):
        node = node.value
    return isinstance(node, ast.Name) and node.id == "tf"


def _unknown(name: str, text: Any, what: str) -> ValueError:
    near = difflib.get_close_matches(name[:80], ACTIVATIONS, n=3) or sorted(ACTIVATIONS)
    return value_error(
        f'{what}: unknown activation "{name[:80]}".',
        {"activation": shown(str(text)), "known": ", ".join(near)},
        'An activation is a name, names joined by "|" or composed as in "log(softmax)", or "2.0 * sigmoid".',
    )
