"""The NumPy functions for the kinds named in the protocol (`BINARY_KINDS`, ...), with results in the dtypes of torch; random
numbers; entries by indices, and sorting.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import wraps
from statistics import NormalDist
from typing import Any

import numpy as np

from rfnb.backends.elementwise import BINARY, UNARY, functions_of


def same_dtype(*values: Any) -> list[np.ndarray]:
    """The values as arrays of their common dtype."""
    dtype = _common_dtype(*values)
    return [np.asarray(value).astype(dtype) for value in values]


def as_float(value: Any) -> np.ndarray:
    """An array of floats (or complex numbers); float32 if it has none."""
    array = np.asarray(value)
    return array if array.dtype.kind in "fc" else array.astype(np.float32)


def in_float32(fn: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """fn (array, ...) with float16 computed in float32, like torch's kernels that sum many numbers."""

    @wraps(fn)
    def wide(raw: np.ndarray, *more: Any, **options: Any) -> np.ndarray:
        if raw.dtype != np.float16:
            return fn(raw, *more, **options)
        with np.errstate(over="ignore"):
            return np.asarray(fn(raw.astype(np.float32), *more, **options)).astype(np.float16)

    return wide


def of_floats(fn: Callable[..., Any]) -> Callable[..., Any]:
    """fn (array, ...) that refuses numbers other than floats, as torch's kernels do."""

    @wraps(fn)
    def checked(raw: np.ndarray, *more: Any, **options: Any) -> Any:
        if raw.dtype.kind != "f":
            raise TypeError(f"{fn.__name__} of {raw.dtype}")
        return fn(raw, *more, **options)

    return checked


def _common_dtype(*values: Any) -> np.dtype:
    """The common dtype of arrays and Python numbers.

    The highest category decides; within it arrays with axes take precedence over scalar arrays, and those over Python numbers.
    """
    top = max(map(_category, values))
    values = tuple(value for value in values if _category(value) == top)
    arrays = [value for value in values if isinstance(value, (np.ndarray, np.generic))]
    with_axes = [array for array in arrays if array.ndim]
    if arrays:
        return np.result_type(*(array.dtype for array in with_axes or arrays))
    return np.dtype((np.bool_, np.int64, np.float32, np.complex64)[top])


def _category(value: Any) -> int:
    """0 bool, 1 integer, 2 float, 3 complex."""
    return {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}[np.asarray(value).dtype.kind]


def binary_fn(kind: str) -> Callable[[Any, Any], Any]:
    """See `Backend.binary_fn`."""
    fn = _BINARY[kind]

    def binary(a: Any, b: Any) -> Any:
        a, b = same_dtype(a, b)
        _check(kind, a)
        with np.errstate(all="ignore"):  # a log of 0 in the padding is no news
            return fn(a, b)

    return binary


def unary_fn(kind: str) -> Callable[[Any], Any]:
    """See `Backend.unary_fn`."""
    fn, gives = _UNARY[kind], UNARY[kind].gives

    def unary(raw: Any) -> Any:
        _check(kind, raw)
        raw = as_float(raw) if gives == "float" else raw
        with np.errstate(all="ignore"):
            out = fn(raw)
        return out if gives == "bool" or raw.dtype.kind in "cb" else out.astype(raw.dtype)

    return unary


def reduce(raw: Any, kind: str, axes: tuple[int, ...]) -> Any:
    """See `Backend.reduce_raw`."""
    _check(kind, raw)
    with np.errstate(all="ignore"):
        return _REDUCE[kind](raw, tuple(axes))


def sum_dtype(raw: np.ndarray) -> Any:
    """The dtype of a sum: integers of any size and bools are summed in int64."""
    return np.int64 if raw.dtype.kind in "bui" else None


def _check(kind: str, raw: Any) -> None:
    if raw.dtype.kind in _REFUSED.get(kind, ""):
        raise TypeError(f"{kind} of {raw.dtype}")


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), without overflow."""
    return 1 / (1 + np.exp(-x)) if x.dtype.kind == "c" else np.exp(-np.logaddexp(0, -x))


def cumsum(raw: np.ndarray, axis: int) -> np.ndarray:
    """See `Backend.cumsum_raw`."""
    return np.cumsum(raw, axis, dtype=sum_dtype(raw))


def softmax(raw: np.ndarray, axis: int) -> np.ndarray:
    """See `Backend.softmax_raw`."""
    return np.exp(log_softmax(raw, axis))


def log_softmax(raw: np.ndarray, axis: int) -> np.ndarray:
    """See `Backend.log_softmax_raw`."""
    if raw.dtype.kind != "f":
        raise TypeError(f"softmax of {raw.dtype}")
    with np.errstate(all="ignore"):
        raw = raw - raw.max(axis=axis, keepdims=True, initial=-np.inf)
        return raw - np.log(np.exp(raw).sum(axis=axis, keepdims=True))


def layer_norm(raw: np.ndarray, scale: np.ndarray, bias: np.ndarray | None, eps: float) -> np.ndarray:
    """See `Backend.layer_norm_raw`."""
    axes = tuple(range(-scale.ndim, 0))
    mean, variance = raw.mean(axes, keepdims=True), raw.var(axes, keepdims=True)
    return (raw - mean) / np.sqrt(variance + eps) * scale + (0 if bias is None else bias)


def rms_norm(raw: np.ndarray, scale: np.ndarray, bias: np.ndarray | None, eps: float) -> np.ndarray:
    """See `Backend.rms_norm_raw`."""
    squares = np.square(raw).mean(tuple(range(-scale.ndim, 0)), keepdims=True)
    return raw / np.sqrt(squares + eps) * scale + (0 if bias is None else bias)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    **{kind: getattr(np, kind) for kind in ("add", "mod", "maximum", "minimum", "logical_and", "logical_or")},
    **{kind: getattr(np, kind) for kind in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")},
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": lambda a, b: np.divide(as_float(a), as_float(b)),
    "floordiv": np.floor_divide,
    "pow": np.power,
    "squared_difference": lambda a, b: np.square(a - b),
    "log_add_exp": np.logaddexp,
}
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
_erf = np.vectorize(math.erf, otypes=[np.float64])
_UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = functions_of(
    np,
    UNARY,
    {
        "square": lambda x: np.square(x.astype(np.int64) if x.dtype == bool else x),
        "neg": np.negative,
        "round": np.rint,
        "relu": lambda x: np.maximum(x, 0),
        "is_finite": np.isfinite,
        "is_infinite": np.isinf,
        "is_neg_infinite": np.isneginf,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "sigmoid": sigmoid,
        "log_sigmoid": lambda x: -np.logaddexp(0, -x),
        "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
        "selu": lambda x: _SELU_SCALE * np.where(x > 0, x, _SELU_ALPHA * np.expm1(x)),
        "silu": lambda x: x * sigmoid(x),
        "gelu": lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2,
        "reciprocal": lambda x: 1 / x,
    },
)
# Kinds of NumPy's dtypes for which torch has no kernel: b bool, i and u integers, c complex.
_REFUSED = {
    **{kind: row.refuses for kind, row in (UNARY | BINARY).items()},
    **dict.fromkeys(("argmax", "argmin"), "bc"),
    **dict.fromkeys(("max", "min"), "c"),
}


def _log_sum_exp(raw: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    raw = as_float(raw)
    peak = raw.max(axis=axes, keepdims=True, initial=-np.inf)
    peak = np.where(np.isfinite(peak), peak, 0)  # -inf - -inf would be NaN; with 0 the sum is 0 and its log -inf
    return np.log(np.exp(raw - peak).sum(axis=axes)) + peak.squeeze(axes)


_REDUCE: dict[str, Callable[[np.ndarray, tuple[int, ...]], Any]] = {
    "sum": in_float32(lambda raw, axes: raw.sum(axis=axes, dtype=sum_dtype(raw))),
    "mean": in_float32(lambda raw, axes: raw.mean(axis=axes)),
    "max": lambda raw, axes: raw.max(axis=axes),
    "min": lambda raw, axes: raw.min(axis=axes),
    "logsumexp": in_float32(_log_sum_exp),
    "any": lambda raw, axes: raw.any(axis=axes),
    "all": lambda raw, axes: raw.all(axis=axes),
    "argmax": lambda raw, axes: raw.argmax(axis=axes[0]),
    "argmin": lambda raw, axes: raw.argmin(axis=axes[0]),
}


GENERATOR = np.random.default_rng()
_STATE_LENGTH = 1024  # a state is JSON, whose numbers may be longer or shorter: blanks fill it up


def random(
    shape: Sequence[int], distribution: str, *, dtype: str, low: float, high: float, generator: Any | None = None
) -> Any:
    """See `Backend.random_raw`."""
    source, shape = GENERATOR if generator is None else generator, tuple(shape)
    if distribution == "truncated_normal":
        raw = _truncated_normal(shape, low, high, source)
    elif distribution == "normal":
        raw = source.normal(low, high, shape)
    elif np.dtype(dtype).kind == "f":
        raw = source.uniform(low, high, shape)
    else:
        raw = source.integers(int(low), int(high), shape)
    return np.asarray(raw).astype(dtype)


def _truncated_normal(shape: tuple[int, ...], low: float, high: float, source: Any) -> np.ndarray:
    """Draw by the inverse of the distribution function."""
    mirrored = low + high > 0  # probabilities near 0 are precise, those near 1 are not
    low, high = (-high, -low) if mirrored else (low, high)
    below = [math.erfc(-value / math.sqrt(2)) / 2 for value in (low, high)]
    inverse = np.vectorize(NormalDist().inv_cdf, otypes=[np.float64])
    out = np.clip(inverse(np.maximum(source.uniform(*below, shape), 1e-300)), low, high)
    return -out if mirrored else out


def generator(device: str | None, *, seed: int | None = None, state: bytes | None = None) -> Any:
    """See `Backend.generator_raw`."""
    out = np.random.default_rng(seed)
    if state is not None:
        out.bit_generator.state = json.loads(state)
    return out


def generator_state(generator: Any) -> bytes:
    """See `Backend.generator_state_raw`."""
    return json.dumps(generator.bit_generator.state).ljust(_STATE_LENGTH).encode()


def set_random_seed(seed: int) -> None:
    """See `Backend.set_random_seed`."""
    GENERATOR.bit_generator.state = type(GENERATOR.bit_generator)(seed).state


def get_random_state() -> dict[str, bytes]:
    """See `Backend.get_random_state`."""
    return {"cpu": generator_state(GENERATOR)}


def set_random_state(state: dict[str, bytes]) -> None:
    """See `Backend.set_random_state`."""
    GENERATOR.bit_generator.state = json.loads(state["cpu"])


def take(raw: Any, indices: Any, axis: int) -> Any:
    """See `Backend.take_raw`."""
    _refuse_others(indices)
    return np.take(raw, indices, axis)


def _refuse_others(indices: Any) -> None:
    if indices.dtype.kind not in "iu":  # NumPy would take bool for a mask, or for 0 and 1
        raise IndexError(f"indices of {indices.dtype}")


def batched_take(raw: Any, indices: Any, num_batch: int) -> Any:
    """See `Backend.batched_take_raw`."""
    _refuse_others(indices)
    # Every batch entry has its own array and its own indices into it.
    out = np.empty(indices.shape + raw.shape[num_batch + 1 :], raw.dtype)
    for entry in np.ndindex(*raw.shape[:num_batch]):
        out[entry] = raw[entry][indices[entry]]
    return out


def scatter(raw: Any, indices: Any, size: int, kind: str, neutral: Any) -> Any:
    """See `Backend.scatter_raw`."""
    out = np.full((raw.shape[0], size, raw.shape[2]), neutral, raw.dtype)
    combine = {"sum": np.add, "max": np.maximum, "min": np.minimum}[kind]
    for batch in range(raw.shape[0]):
        for entry in range(raw.shape[1]):
            place = indices[batch, entry]
            out[batch, place] = combine(out[batch, place], raw[batch, entry])
    return out


def sort(raw: Any, axis: int, descending: bool, stable: bool) -> tuple[Any, Any]:
    """See `Backend.sort_raw`."""
    if descending:  # as in top_k_raw: of equal ones the first stays first
        order = raw.shape[axis] - 1 - np.flip(np.argsort(np.flip(raw, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(raw, axis, kind="stable")
    return np.take_along_axis(raw, order, axis), order.astype(np.int64)


def search_sorted(sorted_raw: Any, values: Any, right: bool) -> Any:
    """See `Backend.search_sorted_raw`."""
    rows = [np.searchsorted(row, value, "right" if right else "left") for row, value in zip(sorted_raw, values)]
    return np.asarray(rows, np.int64).reshape(values.shape)


def top_k(raw: Any, k: int, sorted: bool) -> tuple[Any, Any]:
    """See `Backend.top_k_raw`."""
    if k > raw.shape[-1]:
        raise ValueError(f"{k} of {raw.shape[-1]}")
    # Sorting the mirrored array upwards and mirroring the order back: on ties the lower index comes first.
    order = raw.shape[-1] - 1 - np.argsort(raw[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    indices = order[..., :k].astype(np.int64)
    return np.take_along_axis(raw, indices, -1), indices
