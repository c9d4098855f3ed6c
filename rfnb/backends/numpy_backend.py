"""The NumPy backend: the reference for what each method means, written to be read. No gradients, CPU only.

Result dtypes are those of torch: bool < int < float, a Python number never widens an array, and a function with fractional
values gives float32 for integers.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rfnb.backends import numpy_attention, numpy_conv, numpy_stft
from rfnb.backends.numpy_ctc import ctc_best_path, ctc_loss
from rfnb.backends.numpy_edit_distance import edit_distance, next_edit_distance_row
from rfnb.backends.numpy_random import (
    GENERATOR,
    generator,
    generator_state,
    get_random_state,
    random,
    set_random_seed,
    set_random_state,
)
from rfnb.backends.numpy_rnn import gru, rnn_tanh
from rfnb.backends.numpy_two_d_lstm import two_d_lstm
from rfnb.backends.protocol import Backend
from rfnb.backends.registry import register_backend_by_tensor_type


# -- dtypes ------------------------------------------------------------------------------------------------------------
def _category(value: Any) -> int:
    """0 bool, 1 integer, 2 float, 3 complex."""
    return {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}[np.asarray(value).dtype.kind]


def _common_dtype(*values: Any) -> np.dtype:
    """The dtype in which arrays and Python numbers meet.

    The highest category decides; within it arrays with axes count before scalar arrays, and those before Python numbers.
    """
    top = max(map(_category, values))
    values = tuple(value for value in values if _category(value) == top)
    arrays = [value for value in values if isinstance(value, (np.ndarray, np.generic))]
    with_axes = [array for array in arrays if array.ndim]
    if arrays:
        return np.result_type(*(array.dtype for array in with_axes or arrays))
    return np.dtype((np.bool_, np.int64, np.float32, np.complex64)[top])


def _same_dtype(*values: Any) -> list[np.ndarray]:
    dtype = _common_dtype(*values)
    return [np.asarray(value).astype(dtype) for value in values]


def _float(value: Any) -> np.ndarray:
    array = np.asarray(value)
    return array if array.dtype.kind in "fc" else array.astype(np.float32)


# -- elementwise -------------------------------------------------------------------------------------------------------
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": lambda a, b: np.divide(_float(a), _float(b)),
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "pow": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "squared_difference": lambda a, b: np.square(a - b),
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "log_add_exp": np.logaddexp,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0, -x))


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
_erf = np.vectorize(math.erf, otypes=[np.float64])
_UNARY_OF_FLOATS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "log_sigmoid": lambda x: -np.logaddexp(0, -x),
    "sin": np.sin,
    "cos": np.cos,
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "selu": lambda x: _SELU_SCALE * np.where(x > 0, x, _SELU_ALPHA * np.expm1(x)),
    "silu": lambda x: x * _sigmoid(x),
    "gelu": lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2,
    "reciprocal": lambda x: 1 / x,
}
_UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "neg": np.negative,
    "square": np.square,
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "round": np.rint,
    "relu": lambda x: np.maximum(x, 0),
    "logical_not": np.logical_not,
    "is_finite": np.isfinite,
    "is_infinite": np.isinf,
    "is_neg_infinite": np.isneginf,
}
_TO_BOOL = ("logical_not", "is_finite", "is_infinite", "is_neg_infinite")


def _log_sum_exp(raw: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    peak = raw.max(axis=axes, keepdims=True, initial=-np.inf)
    peak = np.where(np.isfinite(peak), peak, 0)  # -inf - -inf would be NaN; with 0 the sum is 0 and its log -inf
    return np.log(np.exp(raw - peak).sum(axis=axes)) + peak.squeeze(axes)


_REDUCE: dict[str, Callable[[np.ndarray, tuple[int, ...]], Any]] = {
    "sum": lambda raw, axes: raw.sum(axis=axes),
    "mean": lambda raw, axes: raw.mean(axis=axes),
    "max": lambda raw, axes: raw.max(axis=axes),
    "min": lambda raw, axes: raw.min(axis=axes),
    "logsumexp": _log_sum_exp,
    "any": lambda raw, axes: raw.any(axis=axes),
    "all": lambda raw, axes: raw.all(axis=axes),
    "argmax": lambda raw, axes: raw.argmax(axis=axes[0]),
    "argmin": lambda raw, axes: raw.argmin(axis=axes[0]),
}


class NumpyBackend(Backend):
    """NumPy arrays as raw arrays."""

    name = "numpy"
    RawTensorType = np.ndarray

    # -- what there is -------------------------------------------------------------------------------------------------
    @classmethod
    def get_dtype_name_raw(cls, raw: Any) -> str:
        return raw.dtype.name

    @classmethod
    def as_dtype_raw(cls, dtype_name: str) -> Any:
        try:
            return np.dtype(dtype_name)
        except TypeError:
            raise TypeError(
                f'numpy: no dtype "{dtype_name}".\n  dtype  {dtype_name}\nNumPy has no such dtype.\n    rf.cast(x, "float32")'
            ) from None

    @classmethod
    def get_device_raw(cls, raw: Any) -> str:
        return "cpu"

    # -- in and out ----------------------------------------------------------------------------------------------------
    @classmethod
    def from_numpy(cls, array: np.ndarray, *, dtype: str | None = None, device: str | None = None) -> Any:
        return cls.to_device_raw(np.array(array, dtype=cls.as_dtype_raw(dtype) if dtype else None), device)

    @classmethod
    def raw_to_numpy(cls, raw: Any) -> np.ndarray:
        return np.asarray(raw)

    @classmethod
    def full_raw(cls, shape: Sequence[int], value: Any, *, dtype: str, device: str | None = None) -> Any:
        return cls.to_device_raw(np.full(tuple(shape), value, cls.as_dtype_raw(dtype)), device)

    @classmethod
    def arange_raw(cls, size: int, *, dtype: str, device: str | None = None) -> Any:
        return cls.to_device_raw(np.arange(size, dtype=cls.as_dtype_raw(dtype)), device)

    @classmethod
    def random_raw(
        cls, shape: Sequence[int], distribution: str, *, dtype: str, device: str | None, low: float, high: float,
        generator: Any | None = None,
    ) -> Any:  # fmt: skip
        raw = random(shape, distribution, dtype=dtype, low=low, high=high, generator=generator)
        return cls.to_device_raw(raw, device)

    generator_raw = staticmethod(generator)
    generator_state_raw = staticmethod(generator_state)
    set_random_seed = staticmethod(set_random_seed)
    get_random_state = staticmethod(get_random_state)
    set_random_state = staticmethod(set_random_state)

    @classmethod
    def copy_raw(cls, raw: Any) -> Any:
        return np.array(raw)

    @classmethod
    def cast_raw(cls, raw: Any, dtype: str) -> Any:
        return raw.astype(cls.as_dtype_raw(dtype))

    @classmethod
    def to_device_raw(cls, raw: Any, device: str | None) -> Any:
        if device not in (None, "cpu"):
            raise ValueError(
                f'numpy: no device "{device}".\n  device  {device}\nNumPy arrays are on the CPU.\n    rf.select_backend("torch")'
            )
        return raw

    # -- axes ----------------------------------------------------------------------------------------------------------
    @classmethod
    def transpose_raw(cls, raw: Any, perm: Sequence[int]) -> Any:
        return np.transpose(raw, perm)

    @classmethod
    def reshape_raw(cls, raw: Any, shape: Sequence[int]) -> Any:
        return np.reshape(raw, tuple(shape))

    @classmethod
    def expand_dims_raw(cls, raw: Any, axis: int) -> Any:
        return np.expand_dims(raw, axis)

    @classmethod
    def squeeze_raw(cls, raw: Any, axes: Sequence[int]) -> Any:
        return np.squeeze(raw, tuple(axes))

    @classmethod
    def broadcast_raw(cls, raw: Any, shape: Sequence[int]) -> Any:
        return np.broadcast_to(raw, tuple(shape))

    @classmethod
    def slice_raw(cls, raw: Any, axis: int, start: int, end: int) -> Any:
        return raw[(slice(None),) * axis + (slice(start, end),)]

    @classmethod
    def select_raw(cls, raw: Any, axis: int, index: int) -> Any:
        return raw[(slice(None),) * axis + (index,)]

    @classmethod
    def flip_raw(cls, raw: Any, axis: int) -> Any:
        return np.flip(raw, axis)

    @classmethod
    def concat_raw(cls, raws: Sequence[Any], axis: int) -> Any:
        return np.concatenate(_same_dtype(*raws), axis)

    @classmethod
    def stack_raw(cls, raws: Sequence[Any], axis: int) -> Any:
        return np.stack(_same_dtype(*raws), axis)

    @classmethod
    def pad_raw(cls, raw: Any, widths: Sequence[tuple[int, int]], value: Any) -> Any:
        return np.pad(raw, list(widths), constant_values=value)

    # -- maths ---------------------------------------------------------------------------------------------------------
    @classmethod
    def binary_fn(cls, kind: str) -> Callable[[Any, Any], Any]:
        fn = _BINARY[kind]

        def binary(a: Any, b: Any) -> Any:
            with np.errstate(all="ignore"):  # a log of 0 in the padding is no news
                return fn(*_same_dtype(a, b))

        return binary

    @classmethod
    def unary_fn(cls, kind: str) -> Callable[[Any], Any]:
        fn, of_floats = (_UNARY_OF_FLOATS[kind], True) if kind in _UNARY_OF_FLOATS else (_UNARY[kind], False)

        def unary(raw: Any) -> Any:
            raw = _float(raw) if of_floats else raw
            with np.errstate(all="ignore"):
                out = fn(raw)
            return out if kind in _TO_BOOL or raw.dtype.kind == "c" else out.astype(raw.dtype)

        return unary

    @classmethod
    def where_raw(cls, mask: Any, true: Any, false: Any) -> Any:
        return np.where(mask, *_same_dtype(true, false))

    @classmethod
    def clip_raw(cls, raw: Any, low: float | None, high: float | None) -> Any:
        out = np.clip(raw, low, high)
        return out.astype(raw.dtype) if raw.dtype.kind == "f" else out

    @classmethod
    def reduce_raw(cls, raw: Any, kind: str, axes: tuple[int, ...]) -> Any:
        with np.errstate(all="ignore"):
            return _REDUCE[kind](raw, tuple(axes))

    @classmethod
    def softmax_raw(cls, raw: Any, axis: int) -> Any:
        return np.exp(cls.log_softmax_raw(raw, axis))

    @classmethod
    def log_softmax_raw(cls, raw: Any, axis: int) -> Any:
        with np.errstate(all="ignore"):
            raw = raw - raw.max(axis=axis, keepdims=True, initial=-np.inf)
            return raw - np.log(np.exp(raw).sum(axis=axis, keepdims=True))

    @classmethod
    def layer_norm_raw(cls, raw: Any, scale: Any, bias: Any | None, eps: float) -> Any:
        axes = tuple(range(-scale.ndim, 0))
        mean, variance = raw.mean(axes, keepdims=True), raw.var(axes, keepdims=True)
        return (raw - mean) / np.sqrt(variance + eps) * scale + (0 if bias is None else bias)

    @classmethod
    def matmul_raw(cls, a: Any, b: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.matmul(a, b)

    @classmethod
    def take_raw(cls, raw: Any, indices: Any, axis: int) -> Any:
        return np.take(raw, indices, axis)

    @classmethod
    def batched_take_raw(cls, raw: Any, indices: Any, num_batch: int) -> Any:
        # Every batch entry has its own array and its own indices into it.
        out = np.empty(indices.shape + raw.shape[num_batch + 1 :], raw.dtype)
        for entry in np.ndindex(*raw.shape[:num_batch]):
            out[entry] = raw[entry][indices[entry]]
        return out

    @classmethod
    def scatter_raw(cls, raw: Any, indices: Any, size: int, kind: str, neutral: Any) -> Any:
        out = np.full((raw.shape[0], size, raw.shape[2]), neutral, raw.dtype)
        combine = {"sum": np.add, "max": np.maximum, "min": np.minimum}[kind]
        for batch in range(raw.shape[0]):
            for entry in range(raw.shape[1]):
                place = indices[batch, entry]
                out[batch, place] = combine(out[batch, place], raw[batch, entry])
        return out

    @classmethod
    def sort_raw(cls, raw: Any, axis: int, descending: bool, stable: bool) -> tuple[Any, Any]:
        if descending:  # as in top_k_raw: of equal ones the first stays first
            order = raw.shape[axis] - 1 - np.flip(np.argsort(np.flip(raw, axis), axis, kind="stable"), axis)
        else:
            order = np.argsort(raw, axis, kind="stable")
        return np.take_along_axis(raw, order, axis), order.astype(np.int64)

    @classmethod
    def search_sorted_raw(cls, sorted_raw: Any, values: Any, right: bool) -> Any:
        rows = [np.searchsorted(row, value, "right" if right else "left") for row, value in zip(sorted_raw, values)]
        return np.asarray(rows, np.int64).reshape(values.shape)

    @classmethod
    def top_k_raw(cls, raw: Any, k: int, sorted: bool) -> tuple[Any, Any]:
        # Sorting the mirrored array upwards and mirroring the order back: on ties the lower index comes first.
        order = raw.shape[-1] - 1 - np.argsort(raw[..., ::-1], axis=-1, kind="stable")[..., ::-1]
        indices = order[..., :k].astype(np.int64)
        return np.take_along_axis(raw, indices, -1), indices

    @classmethod
    def cumsum_raw(cls, raw: Any, axis: int) -> Any:
        return np.cumsum(raw, axis)

    @classmethod
    def one_hot_raw(cls, raw: Any, size: int, on: float, off: float, dtype: str) -> Any:
        return np.where(raw[..., None] == np.arange(size), on, off).astype(cls.as_dtype_raw(dtype))

    @classmethod
    def dropout_raw(cls, raw: Any, drop_prob: float, noise_shape: Sequence[int] | None) -> Any:
        keep = GENERATOR.random(raw.shape if noise_shape is None else tuple(noise_shape)) >= drop_prob
        return raw * (keep / (1 - drop_prob)).astype(raw.dtype)

    @classmethod
    def cross_entropy_raw(cls, logits: Any, targets: Any, label_smoothing: float, mask: Any | None) -> Any:
        if mask is not None:
            losses = cls.cross_entropy_raw(logits[mask], targets[mask], label_smoothing, None)
            out = np.zeros(mask.shape, logits.dtype)
            out[mask] = losses
            return out
        log_prob = cls.log_softmax_raw(logits, 1)
        of_target = np.take_along_axis(log_prob, targets.astype(np.int64)[:, None], 1)[:, 0]
        return -(1 - label_smoothing) * of_target - label_smoothing * log_prob.mean(axis=1)

    # -- convolution ---------------------------------------------------------------------------------------------------
    conv_raw = staticmethod(numpy_conv.conv)
    transposed_conv_raw = staticmethod(numpy_conv.transposed_conv)
    pool_raw = staticmethod(numpy_conv.pool)
    stft_raw = staticmethod(numpy_stft.stft)

    @classmethod
    def make_complex_raw(cls, real: Any, imag: Any) -> Any:
        out = np.empty(np.broadcast_shapes(real.shape, imag.shape), np.result_type(real.dtype, np.complex64))
        out.real, out.imag = real, imag
        return out

    @classmethod
    def real_as_complex_raw(cls, raw: Any) -> Any:
        return cls.make_complex_raw(raw[..., 0], raw[..., 1])

    @classmethod
    def complex_as_real_raw(cls, raw: Any) -> Any:
        return np.stack([raw.real, raw.imag], -1)

    ctc_loss_raw = staticmethod(ctc_loss)
    ctc_best_path_raw = staticmethod(ctc_best_path)
    edit_distance_raw = staticmethod(edit_distance)
    next_edit_distance_row_raw = staticmethod(next_edit_distance_row)

    attention_raw = staticmethod(numpy_attention.attention)

    # -- recurrence ----------------------------------------------------------------------------------------------------
    @classmethod
    def lstm_raw(
        cls, x: Any, h: Any, c: Any, ff_weight: Any, rec_weight: Any, bias: Any | None, mask: Any | None
    ) -> tuple[Any, Any, Any]:
        y = np.zeros((*x.shape[:2], h.shape[-1]), h.dtype)
        for time in range(x.shape[0]):
            real = np.ones((x.shape[1], 1), bool) if mask is None else mask[time, :, None]
            new_h, new_c = cls.lstm_step_raw(x[time], h, c, ff_weight, rec_weight, bias)
            y[time] = np.where(real, new_h, 0)
            h, c = np.where(real, new_h, h), np.where(real, new_c, c)
        return y, h, c

    @classmethod
    def lstm_step_raw(
        cls, x: Any, h: Any, c: Any, ff_weight: Any, rec_weight: Any, bias: Any | None
    ) -> tuple[Any, Any]:
        gates = x @ ff_weight.T + h @ rec_weight.T + (0 if bias is None else bias)
        i, f, cell, o = np.split(gates, 4, axis=-1)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(cell)
        return _sigmoid(o) * np.tanh(c), c

    gru_raw = staticmethod(gru)
    rnn_tanh_raw = staticmethod(rnn_tanh)

    two_d_lstm_raw = staticmethod(two_d_lstm)

    # -- gradients and parameters --------------------------------------------------------------------------------------
    @classmethod
    def parameter_raw(cls, raw: Any, trainable: bool) -> Any:
        return np.array(raw)

    @classmethod
    def assign_raw(cls, param: Any, value: Any) -> None:
        param[...] = value

    @classmethod
    def assign_at_raw(cls, param: Any, indices: tuple[Any, ...], value: Any, mask: np.ndarray | None) -> None:
        if mask is not None:
            indices = tuple(np.broadcast_to(part, mask.shape)[mask] for part in indices)
            value = np.broadcast_to(value, mask.shape)[mask]
        param[indices] = value

    @classmethod
    def convert_parameter_raw(cls, param: Any, dtype: str | None, device: str | None) -> Any:
        return param if dtype is None else param.astype(dtype)

    @classmethod
    def set_requires_gradient_raw(cls, raw: Any, flag: bool) -> None:
        if flag:
            raise _no_gradients("set_requires_gradient")

    @classmethod
    def gradient_raw(cls, y: Any, x: Any) -> Any:
        raise _no_gradients("gradient")

    @classmethod
    def autocast_raw(cls, dtype: str) -> Any:
        raise NotImplementedError(
            f"set_amp_policy: no mixed precision with NumPy.\n  backend  numpy\n  dtype    {dtype}\n"
            'NumPy is the reference, which computes in the dtype of its arrays.\n    rf.select_backend("torch")'
        )

    @classmethod
    def no_grad(cls) -> Any:
        return contextlib.nullcontext()


def _no_gradients(what: str) -> NotImplementedError:
    return NotImplementedError(
        f'{what}: no gradients with NumPy.\n  backend  numpy\nNumPy computes values, torch also gradients.\n    rf.select_backend("torch")'
    )


register_backend_by_tensor_type(np.ndarray, NumpyBackend)
register_backend_by_tensor_type(np.generic, NumpyBackend)
BACKEND = NumpyBackend
