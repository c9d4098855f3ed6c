"""Expressions in strings, in a small subset of Python. The string is parsed, never executed, and bounded in time and memory.

    evaluate("2 * source(0) + tf.exp(source(1))", names={"source": source, "tf": FUNCTIONS})

Allowed are numbers, True, False, strings, operators, comparisons, calls, and names given by the caller; attributes only
on dicts of such names. Operators work on numbers and tensors, and never repeat or format text. Numbers are limited to
64 bits. Any failure is a ValueError that shows the text.
"""

from __future__ import annotations

import ast
import difflib
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from rfnb.core.errors import value_error

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}
_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: lambda x: x,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
_COMPARE: dict[type, str] = {
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
}
_NO_OPERANDS = (str, bytes, list, tuple, dict, set, frozenset, type(None))
_LONGEST, _DEEPEST, _BITS = 20_000, 60, 64


def evaluate(text: str, *, names: Mapping[str, Any], what: str, compare: Callable[[Any, str, Any], Any]) -> Any:
    """The value of an expression.

    Args:
        names: The available names; a Mapping in it is a namespace ("tf").
        what: The owner of the expression, for messages.
        compare: compare(a, kind, b) for comparisons.

    Raises:
        ValueError: If it is not a valid expression, uses something unsupported, or has no value.
    """
    tree = parsed(text, what)
    try:
        return _Evaluator(text, names, what, compare).value(tree)
    except Exception as error:
        if type(error).__module__.startswith("rfnb.") or (isinstance(error, ValueError) and "\n" in str(error)):
            raise  # it has its own message
        large = isinstance(error, OverflowError)
        cause = "the number is too large" if large else str(error).partition("\n")[0] or type(error).__name__
        raise value_error(
            f"{what}: the expression has no value.",
            {"text": shown(text), "cause": cause},
            "Numbers and sources are combined by operators and known functions.",
        ) from error


def parsed(text: str, what: str) -> ast.expr:
    """The syntax tree of an expression.

    Raises:
        ValueError: If it is invalid, or too long.
    """
    try:
        if len(text) > _LONGEST:
            raise ValueError(f"{len(text)} characters, {_LONGEST} are allowed")
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        # The parser raises the last two for too deep nesting.
        cause = error.args[0] if error.args else "nested too deeply"
        raise value_error(
            f"{what}: invalid expression.",
            {"text": shown(text), "cause": cause},
            "An expression uses the syntax of Python.",
        ) from None


def shown(text: str) -> str:
    """A text, shortened for messages."""
    return repr(text) if len(text) <= 200 else f"{text[:200]!r}... ({len(text)} characters)"


def combined(kind: ast.operator, a: Any, b: Any) -> Any:
    """The value of an operator; a number stays within the range of a tensor.

    Raises:
        TypeError: For text and lists.
        OverflowError: If a number exceeds 64 bits, or is infinite.
    """
    if type(kind) not in _BINARY:
        raise TypeError(f"{type(kind).__name__} is not supported")
    _check_operands(a, b)
    power = isinstance(kind, ast.Pow) and isinstance(a, int) and isinstance(b, int)
    if power and b * (abs(a).bit_length() - 1) > _BITS:
        raise OverflowError("the number is too large")
    out = _BINARY[type(kind)](a, b)
    if isinstance(out, complex):
        raise ArithmeticError("the root of a negative number")
    if isinstance(out, float) and not math.isfinite(out) and _is_finite(a) and _is_finite(b):
        raise OverflowError("the number is too large")
    return bounded(out) if isinstance(out, int) else out


def _check_operands(*operands: Any) -> None:
    for operand in operands:
        if isinstance(operand, _NO_OPERANDS) or callable(operand):
            raise TypeError(f"operators take numbers and sources, not {type(operand).__name__}")


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def bounded(value: Any) -> Any:
    """A number in an expression, or returned by a function.

    Raises:
        OverflowError: If it exceeds 64 bits, or is infinite.
    """
    if (isinstance(value, int) and value.bit_length() > _BITS) or (isinstance(value, float) and math.isinf(value)):
        raise OverflowError("the number is too large")
    return value


class _Evaluator:
    def __init__(self, text: str, names: Mapping[str, Any], what: str, compare: Callable[[Any, str, Any], Any]):
        self.text, self.names, self.what, self.compare = text, names, what, compare
        self.depth = 0

    def value(self, node: ast.AST) -> Any:
        """The value of a part of the expression."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise RecursionError("nested too deeply")
        try:
            return self._sum(node) if isinstance(node, ast.BinOp) else self._single(node)
        finally:
            self.depth -= 1

    def _sum(self, node: ast.AST) -> Any:
        """The sum a + b + c + ..., evaluated iteratively, so that it may be long."""
        right: list[ast.BinOp] = []
        while isinstance(node, ast.BinOp):
            if type(node.op) not in _BINARY:
                raise self._refused(node)
            right.append(node)
            node = node.left
        out = self.value(node)
        for part in reversed(right):
            out = combined(part.op, out, self.value(part.right))
        return out

    def _single(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, bool, str, type(None))):
            return bounded(node.value)
        if isinstance(node, ast.Name):
            return self._name(self.names, node.id)
        if isinstance(node, ast.Attribute):
            scope = self.value(node.value)
            if isinstance(scope, Mapping):
                return self._name(scope, node.attr, prefix=f"{ast.unparse(node.value)}.")
        if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
            operand = self.value(node.operand)
            _check_operands(operand)
            return _UNARY[type(node.op)](operand)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
            left, right = self.value(node.left), self.value(node.comparators[0])
            _check_operands(left, right)
            return self.compare(left, _COMPARE[type(node.ops[0])], right)
        if isinstance(node, (ast.Tuple, ast.List)):
            return [self.value(item) for item in node.elts]
        if isinstance(node, ast.Call) and all(keyword.arg for keyword in node.keywords):
            fn = self.value(node.func)
            if callable(fn):
                args = [self.value(arg) for arg in node.args]
                return bounded(fn(*args, **{str(keyword.arg): self.value(keyword.value) for keyword in node.keywords}))
        raise self._refused(node)

    def _name(self, scope: Mapping[str, Any], name: str, prefix: str = "") -> Any:
        if name in scope:
            return scope[name]
        near = difflib.get_close_matches(name[:80], scope, n=3)
        raise value_error(
            f"{self.what}: unknown name {prefix}{name[:80]}.",
            {"text": shown(self.text), "known": ", ".join(f"{prefix}{key}" for key in near or sorted(scope))},
            "Expressions are parsed, not executed; they may use these names.",
        )

    def _refused(self, node: ast.AST) -> ValueError:
        part = ast.get_source_segment(self.text.strip(), node) or type(node).__name__
        return value_error(
            f"{self.what}: {part if len(part) <= 80 else f'{part[:80]}...'} is not supported.",
            {"text": shown(self.text)},
            "Expressions are parsed, not executed: they consist of numbers, operators, comparisons, and calls of known functions.",
        )
