"""The torch functions for the kinds named in the protocol (`BINARY_KINDS`, ...), `where`, the dtypes by name, and entries by
indices.
"""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from rfnb.backends import elementwise
from rfnb.backends.constants import kept
from rfnb.backends.elementwise import functions_of

OfTwo = Callable[[Any, Any], Any]  # a function of two arrays, or of an array and a number


def _with_numbers(fn: OfTwo) -> OfTwo:
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


BINARY: dict[str, OfTwo] = {
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
BINARY_TENSORS: dict[str, OfTwo] = {
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


def _to_bool(fn: OfTwo) -> OfTwo:
    """Convert the result to bool; torch returns uint8 for uint8, from the time before it had bools."""
    return lambda raw, axis: fn(raw if raw.dtype is not torch.uint8 else raw != 0, axis)


_REDUCE: dict[str, OfTwo] = {
    **{kind: getattr(torch, kind) for kind in "sum mean logsumexp argmax argmin".split()},
    **{kind: _to_bool(getattr(torch, kind)) for kind in ("any", "all")},
    "max": torch.amax,
    "min": torch.amin,
}


def reduce_fn(kind: str, axes: tuple[int, ...]) -> tuple[OfTwo, Any]:
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


_INDEX = frozenset((torch.int64, torch.int32))


def take(raw: Any, indices: Any, axis: int) -> Any:
    """See `Backend.take_raw`."""
    if indices.dtype not in _INDEX:
        indices = _as_index(indices)
    if not indices.dim() and indices.is_cpu and not raw.is_cpu:
        return raw.select(axis, int(indices))  # a number of the host, as the counter of a loop is
    if not indices.dim() and not indices.is_cpu:
        return raw.index_select(axis, indices.reshape(1)).squeeze(axis)  # as a number it would be waited for
    if axis == 0:
        return torch.embedding(raw, indices) if raw.dim() == 2 else raw[indices]
    if indices.dim() <= 1:
        return raw.index_select(axis, indices) if indices.dim() else raw.select(axis, int(indices))
    shape = raw.shape[:axis] + indices.shape + raw.shape[axis + 1 :]
    return raw.index_select(axis, indices.reshape(-1)).reshape(shape)


def batched_take(raw: Any, indices: Any, num_batch: int) -> Any:
    """See `Backend.batched_take_raw`."""
    if indices.dtype not in _INDEX:
        indices = _as_index(indices)
    if raw.dim() == num_batch + 1:  # quicker, and an index below 0 is an error
        if indices.dim() == num_batch:
            return raw.gather(num_batch, indices.long().unsqueeze(num_batch)).squeeze(num_batch)
        picked = raw.gather(num_batch, indices.long().flatten(num_batch))
        return picked if indices.dim() == num_batch + 1 else picked.reshape(indices.shape)
    if num_batch == 1:  # the usual one, without tuples of sizes
        return raw[_grid(raw.shape[0], 0, indices.dim(), raw.device), indices]
    device, ndim = raw.device, indices.dim()
    return raw[(*(_grid(raw.shape[axis], axis, ndim, device) for axis in range(num_batch)), indices)]


def _as_index(indices: Any) -> Any:
    """Small integers converted for kernels; torch would interpret uint8, like bool, as a mask."""
    if indices.dtype == torch.bool or indices.dtype.is_floating_point or indices.dtype.is_complex:
        raise IndexError(f"indices of {indices.dtype}")
    return indices.long()


@kept(256)
def _grid(size: int, axis: int, ndim: int, device: torch.device) -> Any:
    """An index along a batch axis that broadcasts against `ndim` axes."""
    with torch.inference_mode(False):  # else a later training could not use it
        return torch.arange(size, device=device).view([-1 if other == axis else 1 for other in range(ndim)])


def scatter(raw: Any, indices: Any, size: int, kind: str, neutral: Any) -> Any:
    """See `Backend.scatter_raw`."""
    out = raw.new_full((raw.shape[0], size, raw.shape[2]), neutral)
    indices = indices.long().unsqueeze(-1).expand(raw.shape)
    if kind == "sum":
        if raw.dtype in HALF:  # one by one in 16 bits, 2048 + 1 is 2048
            return out.float().scatter_add(1, indices, raw.float()).to(raw.dtype)
        return out.scatter_add(1, indices, raw)
    return out.scatter_reduce(1, indices, raw, {"max": "amax", "min": "amin"}[kind])


def one_hot(raw: Any, size: int, on: float, off: float, dtype: str) -> Any:
    """See `Backend.one_hot_raw`."""
    out = torch.full((*raw.shape, size), off, dtype=DTYPES[dtype], device=raw.device)
    return out.scatter_(-1, raw.long().unsqueeze(-1), on)


def first_top_k(raw: Any, k: int) -> tuple[Any, Any]:
    """See `Backend.first_top_k_raw`: sorts by numbers that combine the order of values with that of places."""
    if raw.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        best, index = torch.sort(raw, dim=-1, descending=True, stable=True)
        return best[..., :k], index[..., :k]
    size = raw.shape[-1]
    scores = raw.detach().float() + 0.0  # -0.0 is no less than 0.0
    bits = torch.where(scores == scores, scores, torch.nan).contiguous().view(torch.int32)  # NaN may have a sign
    bits = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()  # numbers below 0 count down
    keys = bits * 2**32 + torch.arange(size - 1, -1, -1, device=raw.device)
    index = size - 1 - torch.topk(keys, k, -1)[0] % 2**32
    return raw.gather(-1, index), index
