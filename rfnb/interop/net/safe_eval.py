"""Expressions in strings, of a small part of Python. The string is parsed, never executed.

    evaluate("2 * source(0) + tf.exp(source(1))", names={"source": source, "tf": FUNCTIONS})

Known are numbers, True, False, strings, operators, comparisons, calls, and the names that the caller gives; attributes only of
dicts of such names.
"""

from __future__ import annotations

import ast
import difflib
import operator
from collections.abc import Callable, Mapping
from typing import Any

from rfnb.core.errors import message

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
_LARGEST_POWER = 64


def evaluate(text: str, *, names: Mapping[str, Any], what: str, compare: Callable[[Any, str, Any], Any]) -> Any:
    """The value of an expression.

    Args:
        names: What it may refer to; a Mapping in it is a namespace ("tf").
        what: Whose expression it is, for messages.
        compare: compare(a, kind, b) for comparisons.

    Raises:
        ValueError: If it is no expression, or does what is not known here.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        raise ValueError(
            message(f"{what}: this is no expression.", [("text", repr(text)), ("cause", error.args[0])],
                    "It is one expression in the notation of Python.")
        ) from None  # fmt: skip
    return _Evaluator(text, names, what, compare).value(tree.body)


class _Evaluator:
    def __init__(self, text: str, names: Mapping[str, Any], what: str, compare: Callable[[Any, str, Any], Any]):
        self.text, self.names, self.what, self.compare = text, names, what, compare

    def value(self, node: ast.AST) -> Any:
        """The value of a part of the expression."""
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, bool, str, type(None))):
            return node.value
        if isinstance(node, ast.Name):
            return self._name(self.names, node.id)
        if isinstance(node, ast.Attribute):
            scope = self.value(node.value)
            if isinstance(scope, Mapping):
                return self._name(scope, node.attr, prefix=f"{ast.unparse(node.value)}.")
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            a, b = self.value(node.left), self.value(node.right)
            if isinstance(node.op, ast.Pow) and isinstance(b, (int, float)) and b > _LARGEST_POWER:
                raise self._refused(node)
            return _BINARY[type(node.op)](a, b)
        if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
            return _UNARY[type(node.op)](self.value(node.operand))
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
            return self.compare(self.value(node.left), _COMPARE[type(node.ops[0])], self.value(node.comparators[0]))
        if isinstance(node, (ast.Tuple, ast.List)):
            return [self.value(item) for item in node.elts]
        if isinstance(node, ast.Call) and all(keyword.arg for keyword in node.keywords):
            fn = self.value(node.func)
            if callable(fn):
                args = [self.value(arg) for arg in node.args]
                return fn(*args, **{str(keyword.arg): self.value(keyword.value) for keyword in node.keywords})
        raise self._refused(node)

    def _name(self, scope: Mapping[str, Any], name: str, prefix: str = "") -> Any:
        if name in scope:
            return scope[name]
        near = difflib.get_close_matches(name, scope, n=3)
        raise ValueError(
            message(f"{self.what}: what is {prefix}{name}?",
                    [("text", repr(self.text)), ("known", ", ".join(f"{prefix}{key}" for key in near or sorted(scope)))],
                    "The text is parsed, not executed; these names are known.")
        )  # fmt: skip

    def _refused(self, node: ast.AST) -> ValueError:
        return ValueError(
            message(f"{self.what}: {ast.unparse(node)} is not possible here.", [("text", repr(self.text))],
                    "The text is parsed, not executed: numbers, operators, comparisons, and calls of known functions.")
        )  # fmt: skip
