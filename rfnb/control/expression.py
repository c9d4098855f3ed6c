"""Expression: a condition as a short text, as in `run.break_when("h.abs_max() > 5 and step > 3")` and the toolbar.

Python's parser parses the text, and only the constructs listed here are accepted: functions called with numbers. Nothing is evaluated as
Python and no attribute is looked up; without loops and large integers, evaluation takes bounded time.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rfnb.control.conditions import CONDITIONS, ConditionContext, MissingReference, NamedNumbers, entropy, value_of
from rfnb.control.live_runs import RunMember
from rfnb.control.numbers import Numbers, place_words
from rfnb.core.errors import type_error, value_error

MOST_CHARACTERS = 300
MOST_PARTS = 100

Value = Callable[[ConditionContext], Any]
Said = Callable[[ConditionContext], str]

_COMPARISONS: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Lt: ("<", operator.lt), ast.LtE: ("<=", operator.le), ast.Gt: (">", operator.gt), ast.GtE: (">=", operator.ge),
    ast.Eq: ("==", operator.eq), ast.NotEq: ("!=", operator.ne),
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_METHODS = ("max", "min", "mean", "sum", "norm", "abs", "abs_max")
_TRUTHS = ("any", "all", "is_finite")
_PLACES = ("step", "tick", "loop", "path")


class Expression(RunMember):
    """A condition given as text.

    Args:
        text: The condition.

    Attributes:
        kinds: The kinds of events that it needs.
        names: The states that it refers to.

    Raises:
        ValueError: If it is invalid; the message shows the part that is not understood.
    """

    def __init__(self, text: str):
        self.text = text.strip()
        self.kinds: frozenset[str] = frozenset()
        self.names: set[str] = set()
        if len(self.text) > MOST_CHARACTERS:
            raise self._error(f"{len(self.text)} characters; at most {MOST_CHARACTERS} are allowed")
        try:
            tree = ast.parse(self.text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            where = f" at character {error.offset}" if isinstance(error, SyntaxError) and error.offset else ""
            raise self._error(f"{getattr(error, 'msg', None) or error}{where}") from None
        if sum(1 for _ in ast.walk(tree)) > MOST_PARTS:
            raise self._error(f"more than {MOST_PARTS} parts")
        self._said = self._condition(tree)

    def __call__(self, asked: ConditionContext) -> str:
        """Describe what holds here; "" if the condition does not hold.

        Raises:
            MissingReference: If something that it refers to does not exist.
            Exception: If a value cannot be computed.
        """
        return self._said(asked)

    # -- conditions --------------------------------------------------------------------------------------------------------

    def _condition(self, node: ast.expr) -> Said:
        if isinstance(node, ast.BoolOp):
            parts = [self._condition(value) for value in node.values]
            return _all_of(parts) if isinstance(node.op, ast.And) else _one_of(parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner, text = self._condition(node.operand), ast.unparse(node)
            return lambda asked: "" if inner(asked) else text
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        if isinstance(node, ast.Name) and node.id in CONDITIONS:
            return self._named(node.id, ast.Call(node, [], []))
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in CONDITIONS:
                return self._named(node.func.id, node)
            if isinstance(node.func, ast.Attribute) and node.func.attr in _TRUTHS:
                value, text = self._method(node, node.func, _TRUTHS), ast.unparse(node)
                return lambda asked: text if _truth(value(asked), text) else ""
        raise self._not_a_condition(node)

    def _named(self, name: str, node: ast.Call) -> Said:
        fn, kinds, names = CONDITIONS[name]
        arguments = self._arguments(node, names, needs=names[:1] if name == "label" else ())
        self.kinds |= kinds
        return lambda asked: fn(asked, **arguments)

    def _comparison(self, node: ast.Compare) -> Said:
        ops = [self._operator(op) for op in node.ops]
        nodes = [node.left, *node.comparators]
        values = [self._value(each) for each in nodes]
        texts = [
            ast.unparse(each) if any(isinstance(part, ast.Name) for part in ast.walk(each)) else None for each in nodes
        ]
        if not any(texts):
            raise self._not_a_condition(node)
        return lambda asked: _compared([value(asked) for value in values], texts, ops)

    def _operator(self, op: ast.cmpop) -> tuple[str, Callable[[Any, Any], Any]]:
        found = _COMPARISONS.get(type(op))
        if found is None:
            raise self._error("unsupported comparison; the operators are < <= > >= == !=")
        return found

    # -- values ------------------------------------------------------------------------------------------------------------

    def _value(self, node: ast.expr) -> Value:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str)):
            constant = node.value
            return lambda asked: constant
        if isinstance(node, ast.Name) and node.id in _PLACES:
            return operator.attrgetter(f"at.{node.id}")
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._state(self._dotted(node))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self._value(node.operand)
            return lambda asked: -_number(inner(asked))
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            fn, left, right = _ARITHMETIC[type(node.op)], self._value(node.left), self._value(node.right)
            return lambda asked: fn(_number(left(asked)), _number(right(asked)))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            base, exponent = self._value(node.left), self._value(node.right)
            return lambda asked: _power(base(asked), exponent(asked))
        if isinstance(node, ast.Compare) and len(node.ops) == 1:  # for (h > 5).all()
            _, compare = self._operator(node.ops[0])
            first, second = self._value(node.left), self._value(node.comparators[0])
            return lambda asked: compare(_number(first(asked)), _number(second(asked)))
        if isinstance(node, ast.Subscript):
            return self._entries(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        raise self._error(f"unsupported expression: {ast.unparse(node)}")

    def _dotted(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.Attribute):
            if node.attr in (*_METHODS, *_TRUTHS):
                raise self._error(f"{ast.unparse(node)} is a method: write {ast.unparse(node)}()")
            return f"{self._dotted(node.value)}.{node.attr}"
        raise self._error(f"unsupported expression: {ast.unparse(node)}")

    def _state(self, name: str) -> Value:
        if any(part.startswith("_") for part in name.split(".")):
            raise self._error(f"names must not begin with an underscore: {name}")

        self.names.add(name)

        def find(asked: ConditionContext) -> Any:
            found = value_of(asked, name)
            if found is None:
                states = ", ".join((*asked.at.states, *asked.at.values)) or "none"
                raise MissingReference(f'no state "{name}" in "{asked.at.path}" (it has {states})')
            return found

        return find

    def _call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            return self._method(node, node.func, _METHODS)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "state":
            return self._state(str(self._arguments(node, ("path",), needs=("path",))["path"]))
        if name == "entropy":
            arguments = self._arguments(node, ("path",))
            self.kinds |= {"attention"}
            return lambda asked: entropy(asked, **arguments)
        if name == "abs" and len(node.args) == 1 and not node.keywords:
            inner = self._value(node.args[0])
            return lambda asked: _absolute(inner(asked))
        if name in ("min", "max") and len(node.args) > 1 and not node.keywords:
            several = [self._value(each) for each in node.args]
            pick: Any = min if name == "min" else max
            return lambda asked: pick(_single(each(asked)) for each in several)
        raise self._error(f"no such function: {ast.unparse(node)}")

    def _method(self, node: ast.Call, func: ast.Attribute, known: tuple[str, ...]) -> Value:
        inner, name = self._value(func.value), func.attr
        arguments = self._arguments(node, () if name in ("abs", "is_finite") else ("axis",))

        def call(asked: ConditionContext) -> Any:
            value = inner(asked)
            if isinstance(value, bool) and name in _TRUTHS:
                return value
            if not isinstance(value, Numbers):
                raise type_error(
                    f"break_when: {name} is only for states.",
                    {"condition": self.text, "value": _shown(value)},
                    "Reductions take the values of a state.",
                )
            return getattr(value, name)(**arguments)

        return call

    def _entries(self, node: ast.Subscript) -> Value:
        inner, entries = self._value(node.value), self._constant(node.slice)
        if not isinstance(entries, dict) or not all(isinstance(at, int) for at in entries.values()):
            raise self._error(f'entries are selected by dim and index, as in h[{{"batch": 0}}]: {ast.unparse(node)}')
        return lambda asked: _entries_of(inner(asked), entries)

    def _arguments(self, node: ast.Call, names: tuple[str, ...], needs: tuple[str, ...] = ()) -> dict[str, Any]:
        text = ast.unparse(node)
        given = dict(zip(names, map(self._constant, node.args)))
        if len(node.args) > len(names):
            raise self._error(f"too many arguments: {text}")
        for keyword in node.keywords:
            if keyword.arg not in names or keyword.arg in given:
                raise self._error(f"no such argument: {text}; it has {', '.join(names) or 'none'}")
            given[keyword.arg] = self._constant(keyword.value)
        if not set(needs) <= given.keys():
            raise self._error(f"{needs[0]} is missing: {text}")
        for name, value in given.items():
            if value is not None and not isinstance(value, _TYPES[name]):
                raise self._error(f"invalid {name} {value!r}: {text}")
        return given

    def _constant(self, node: ast.expr) -> Any:
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError):
            raise self._error(f"not a plain value: {ast.unparse(node)}") from None

    def _not_a_condition(self, node: ast.expr) -> ValueError:
        return self._error(f"neither true nor false: {ast.unparse(node)}")

    def _error(self, what: str) -> ValueError:
        return value_error(
            "break_when: this text is not a condition.",
            {"text": self.text[:80] + ("..." if len(self.text) > 80 else ""), "but": what},
            'A condition uses states (h.max(), min, mean, sum, norm, abs_max, of some entries h[{"batch": 0}]), step, tick, loop, path,'
            " comparisons, + - * / **, and, or, not, and\n"
            'nan(), inf(), not_finite(), ended(), label("AH", rank=0), entropy("att").',
            'run.break_when("h.abs_max() > 5 and step > 3")',
        )


_TYPES: dict[str, Any] = {
    "label": (str, int), "rank": int, "seq": int, "path": str, "axis": (str, tuple, list),
}  # fmt: skip


def _all_of(parts: list[Said]) -> Said:
    def said(asked: ConditionContext) -> str:
        found = []
        for part in parts:
            words = part(asked)
            if not words:
                return ""
            found.append(words)
        return " and ".join(found)

    return said


def _one_of(parts: list[Said]) -> Said:
    return lambda asked: next((words for part in parts if (words := part(asked))), "")


def _compared(values: list[Any], texts: list[str | None], ops: list[tuple[str, Callable[[Any, Any], Any]]]) -> str:
    """Describe where a chain of comparisons holds; of several numbers, one is enough."""
    several = next((place for place, value in enumerate(values) if isinstance(value, tuple)), None)
    if several is not None:
        each = ([*values[:several], one, *values[several + 1 :]] for one in values[several])
        return next((said for one in each if (said := _compared(one, texts, ops))), "")
    named = next((value for value in values if isinstance(value, NamedNumbers)), None)
    if named is not None:
        texts = [value.name if isinstance(value, NamedNumbers) else text for value, text in zip(values, texts)]
        values = [value.numbers if isinstance(value, NamedNumbers) else value for value in values]
    each_holds = [compare(left, right) for (_, compare), left, right in zip(ops, values, values[1:])]
    masks = [holds for holds in each_holds if isinstance(holds, Numbers)]
    if not all(isinstance(holds, Numbers) or holds for holds in each_holds):
        return ""
    where = "" if named is None else named.where
    if not masks:
        return " ".join(_operands(values, texts, ops, None)) + where
    place = _extreme(functools.reduce(lambda a, b: a.with_(b, np.logical_and), masks), values, ops[0][0])
    if place is None:
        return ""
    at = place_words(list(place), list(place.values()))
    return " ".join(_operands(values, texts, ops, place)) + where + (f", {at}" if at else "")


def _extreme(holds: Numbers, values: list[Any], op: str) -> dict[Any, int] | None:
    """The most telling entry: the largest one for "> 5"."""
    mask = holds.host if holds.real is None else holds.host & holds.real
    if not mask.any():
        return None
    left = next(value for value in values if isinstance(value, Numbers))
    index = np.argwhere(mask)
    if left.dims == holds.dims and op[0] in "<>":
        order = left.host[mask]
        index = index[[int(np.argmax(order) if op[0] == ">" else np.argmin(order))]]
    return dict(zip(holds.dims, map(int, index[0])))


def _operands(
    values: list[Any], texts: list[str | None], ops: list[tuple[str, Any]], place: Mapping[Any, int] | None
) -> list[str]:
    words = []
    for number, (value, text) in enumerate(zip(values, texts)):
        if isinstance(value, Numbers):
            value = value.host[tuple((place or {})[dim] for dim in value.dims)]
        words.append(_shown(value) if text is None else f"{text} {_shown(value)}")
        words += [ops[number][0]] if number < len(ops) else []
    return words


def _shown(value: Any) -> str:
    return f"{float(value):.4g}" if isinstance(value, (float, np.floating)) else str(value)


def _number(value: Any) -> Any:
    if isinstance(value, (str, tuple)):
        raise type_error("break_when: not a number.", {"value": _shown(value)}, "Arithmetic operators take numbers.")
    return value


def _single(value: Any) -> Any:
    if not isinstance(value, (int, float)):
        raise type_error(
            "break_when: min and max take single numbers.", {"value": _shown(value)}, "Reduce a state: h.max()"
        )
    return value


def _absolute(value: Any) -> Any:
    return value.abs() if isinstance(value, Numbers) else abs(_number(value))


def _power(base: Any, exponent: Any) -> Any:
    """A power in floats, which takes constant time."""
    exponent = float(_single(exponent))
    if isinstance(base, Numbers):
        return base.with_(exponent, lambda host, by: np.power(host.astype(np.float64), by))
    out = float(_single(base)) ** exponent
    if isinstance(out, complex):
        raise value_error(
            "break_when: the result is not a real number.",
            {"power": f"{base} ** {exponent}"},
            "A negative number has no real root.",
        )
    return out


def _entries_of(value: Any, entries: Mapping[Any, int]) -> Numbers:
    if not isinstance(value, Numbers):
        raise type_error(
            "break_when: only states have entries.", {"value": _shown(value)}, "Entries are selected from a state."
        )
    return value.at(entries)


def _truth(value: Any, text: str) -> bool:
    if isinstance(value, Numbers):
        raise type_error(
            "break_when: several values have no truth value.",
            {"condition": text},
            "Over all dims, one is enough: any()",
        )
    return bool(value)
