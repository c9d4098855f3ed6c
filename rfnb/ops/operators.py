"""Binds the operators of Tensor (`+`, `<`, `&`, ...) to the ops that compute them."""

from __future__ import annotations

from typing import Any

from rfnb.core.errors import type_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.ops import math


def _reflected(op: Any) -> Any:
    return lambda self, other: op(other, self)


def _equality(op: Any, if_foreign: bool) -> Any:
    """`x == None`, and comparison with anything that is not a tensor or number, returns a plain bool."""

    def compare(self: Tensor, other: Any) -> Any:
        if isinstance(other, (Tensor, int, float)):
            return op(self, other)
        return if_foreign

    return compare


def _invert(self: Tensor) -> Tensor:
    """`~mask`. For numbers the operator differs between libraries: all bits in Python, refused in torch for floats."""
    if self.dtype != "bool":
        raise type_error(
            f"~ of {self.dtype}.",
            {"tensor": f"{shape_of(self)} {self.dtype}"},
            "Only bools can be inverted. Say when a value counts as True:",
            "~(x != 0)    # or x == 0",
        )
    return math.logical_not(self)


def bind() -> None:
    """Install the ops as the operators of Tensor."""
    for name, op in {
        "add": math.add, "sub": math.sub, "mul": math.mul, "truediv": math.true_divide, "floordiv": math.floor_divide,
        "mod": math.mod, "pow": math.pow, "and": math.logical_and, "or": math.logical_or,
    }.items():  # fmt: skip
        setattr(Tensor, f"__{name}__", op)
        setattr(Tensor, f"__r{name}__", _reflected(op))
    for name, op in {
        "lt": math.less, "le": math.less_equal, "gt": math.greater, "ge": math.greater_equal,
        "eq": _equality(math.equal, False), "ne": _equality(math.not_equal, True),
        "neg": math.neg, "abs": math.abs, "invert": _invert, "ceil": math.ceil, "floor": math.floor,
    }.items():  # fmt: skip
        setattr(Tensor, f"__{name}__", op)


bind()
