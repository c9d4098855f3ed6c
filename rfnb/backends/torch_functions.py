"""The torch functions for the kinds named in the protocol (`BINARY_KINDS`, ...), `where`, and the dtypes by name."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from rfnb.backends import elementwise
from rfnb.backends.elementwise import functions_of


def _with_numbers(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Let a tensor function accept a Python number on either side."""

    def call(a: Any, b: Any) -> Any:
        if not isinstance(b, torch.Tensor):
            b = _array(b, a)
        elif not isinstance(a, torch.Tensor):
            a = _array(a, b)
        return fn(a, b)

    return call


# The operators // and % of torch have no derivative for some kinds of operands; these have.
def _floor_divide(a: Any, b: Any) -> Any:
    return torch.div(a if isinstance(a, torch.Tensor) else _array(a, b), b, rounding_mode="floor")


def _mod(a: Any, b: Any) -> Any:
    return torch.remainder(a if isinstance(a, torch.Tensor) else _array(a, b), b)


def _array(number: Any, like: Any) -> Any:
    return torch.full((), number, dtype=torch.result_type(like, number), device=like.device)


def _squared_difference(a: Any, b: Any) -> Any:
    return (a - b).square()


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    **{kind: getattr(operator, kind) for kind in ("add", "sub", "mul", "truediv", "pow")},
    **{kind: _with_numbers(getattr(torch, kind)) for kind in ("maximum", "minimum", "logical_and", "logical_or")},
    "floordiv": _floor_divide,
    "mod": _mod,
    "squared_difference": _squared_difference,
    "log_add_exp": _with_numbers(torch.logaddexp),
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
# Tensor x tensor: the plain torch functions, which skip Python's operator dispatch.
BINARY_TENSORS: dict[str, Callable[[Any, Any], Any]] = {
    **{kind: getattr(torch, kind) for kind in "add sub mul maximum minimum logical_and logical_or".split()},
    "truediv": torch.div,
    "log_add_exp": torch.logaddexp,
    "equal": torch.eq,
    "not_equal": torch.ne,
    "less": torch.lt,
    "less_equal": torch.le,
    "greater": torch.gt,
    "greater_equal": torch.ge,
}
UNARY: dict[str, Callable[[Any], Any]] = functions_of(
    torch,
    elementwise.UNARY,
    {
        "elu": F.elu,
        "silu": F.silu,
        "gelu": F.gelu,
        "log_sigmoid": F.logsigmoid,
        "is_finite": torch.isfinite,
        "is_infinite": torch.isinf,
        "is_neg_infinite": torch.isneginf,
    },
)


def _to_bool(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Convert the result to bool; torch returns uint8 for uint8, from the time before it had bools."""
    return lambda raw, axis: fn(raw if raw.dtype is not torch.uint8 else raw != 0, axis)


_REDUCE: dict[str, Callable[[Any, Any], Any]] = {
    **{kind: getattr(torch, kind) for kind in "sum mean logsumexp argmax argmin".split()},
    **{kind: _to_bool(getattr(torch, kind)) for kind in ("any", "all")},
    "max": torch.amax,
    "min": torch.amin,
}


def reduce_fn(kind: str, axes: tuple[int, ...]) -> tuple[Callable[[Any, Any], Any], Any]:
    """See `Backend.reduce_fn`. A single axis is passed as a number, which torch parses faster than a tuple, by a tenth of the op."""
    fn = _REDUCE[kind]
    if len(axes) == 1:
        return fn, axes[0]
    return (_one_by_one(fn) if kind in ("any", "all") else fn), axes


def _one_by_one(fn: Callable[[Any, int], Any]) -> Callable[[Any, tuple[int, ...]], Any]:
    def call(raw: Any, axes: tuple[int, ...]) -> Any:
        for axis in sorted(axes, reverse=True):
            raw = fn(raw, axis)
        return raw

    return call


_INF = float("inf")
_constants: dict[Any, Any] = {}


def where(mask: Any, true: Any, false: Any) -> Any:
    """torch.where; for the usual fill values, 0 and the infinities, with a cached array, since torch would create one in each call,
    which costs as much as the op.
    """
    kind = false.__class__
    if (kind is int and false == 0) or (kind is float and (false == -_INF or false == _INF)):
        if not isinstance(true, torch.Tensor):
            return torch.where(mask, true, false)
        key = (false, true.dtype, true.device)
        try:
            false = _constants[key]
        except KeyError:
            with torch.inference_mode(False):  # else a later training could not use it
                dtype = torch.result_type(true, false)
                false = _constants[key] = torch.full((), false, dtype=dtype, device=true.device)
    return torch.where(mask, true, false)


class _ByName(dict[str, torch.dtype]):
    """The dtypes of torch by name."""

    def __missing__(self, name: str) -> torch.dtype:
        known = "bool int8 int16 int32 int64 uint8 float16 bfloat16 float32 float64 complex64 complex128"
        text = str(getattr(name, "__name__", name)).removeprefix("torch.")
        near = {"int": "int64", "half": "float16", "double": "float64", "long": "int64"}.get(text)
        meant = near or (difflib.get_close_matches(text, known.split(), n=1, cutoff=0.4) or ["float32"])[0]
        rule = "A dtype is the name that NumPy and torch have for it:"
        raise TypeError(f'No dtype {name!r}.\n  known  {known}\n{rule}\n    dtype="{meant}"')


DTYPES = _ByName(
    {str(value).removeprefix("torch."): value for value in vars(torch).values() if isinstance(value, torch.dtype)}
)
NAMES = {dtype: str(dtype).removeprefix("torch.") for dtype in DTYPES.values()}
HALF = (torch.float16, torch.bfloat16)
