"""The NumPy backend: the readable reference for each method. No gradients, CPU only.

Result dtypes are those of torch, see `numpy_functions.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rfnb.backends import numpy_functions, numpy_layers
from rfnb.backends.numpy_functions import (
    GENERATOR,
    generator,
    generator_state,
    get_random_state,
    in_float32,
    of_floats,
    random,
    same_dtype,
    set_random_seed,
    set_random_state,
)
from rfnb.backends.numpy_labels import ctc_best_path, ctc_loss, edit_distance, next_edit_distance_row
from rfnb.backends.numpy_layers import gru, rnn_tanh, two_d_lstm
from rfnb.backends.protocol import Backend
from rfnb.backends.registry import register_backend_by_tensor_type


class NumpyBackend(Backend):
    """NumPy arrays as raw arrays."""

    name = "numpy"
    RawTensorType = np.ndarray

    # -- what there is -------------------------------------------------------------------------------------------------
    @classmethod
    def get_dtype_name_raw(cls, raw: Any) -> str:
        return "string" if raw.dtype.kind in "USO" else raw.dtype.name

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

    raw_to_numpy: Any = staticmethod(np.asarray)

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

    copy_raw: Any = staticmethod(np.array)

    @classmethod
    def read_only_raw(cls, raw: Any, refused: Callable[[], Exception]) -> Any:
        out = raw.view() if isinstance(raw, np.ndarray) else np.array(raw)
        out.flags.writeable = False
        return out

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
    transpose_raw: Any = staticmethod(np.transpose)
    reshape_raw: Any = staticmethod(np.reshape)
    expand_dims_raw: Any = staticmethod(np.expand_dims)

    @classmethod
    def squeeze_raw(cls, raw: Any, axes: Sequence[int]) -> Any:
        return np.squeeze(raw, tuple(axes))

    broadcast_raw: Any = staticmethod(np.broadcast_to)

    @classmethod
    def slice_raw(cls, raw: Any, axis: int, start: int, end: int) -> Any:
        return raw[(slice(None),) * axis + (slice(start, end),)]

    @classmethod
    def select_raw(cls, raw: Any, axis: int, index: int) -> Any:
        return raw[(slice(None),) * axis + (index,)]

    flip_raw: Any = staticmethod(np.flip)

    @classmethod
    def concat_raw(cls, raws: Sequence[Any], axis: int) -> Any:
        return np.concatenate(same_dtype(*raws), axis)

    @classmethod
    def stack_raw(cls, raws: Sequence[Any], axis: int) -> Any:
        return np.stack(same_dtype(*raws), axis)

    @classmethod
    def pad_raw(cls, raw: Any, widths: Sequence[tuple[int, int]], value: Any) -> Any:
        cut = tuple(slice(max(-left, 0), size - max(-right, 0)) for size, (left, right) in zip(raw.shape, widths))
        return np.pad(raw[cut], [(max(left, 0), max(right, 0)) for left, right in widths], constant_values=value)

    # -- maths ---------------------------------------------------------------------------------------------------------
    binary_fn = staticmethod(numpy_functions.binary_fn)
    unary_fn = staticmethod(numpy_functions.unary_fn)
    reduce_raw = staticmethod(numpy_functions.reduce)

    @classmethod
    def where_raw(cls, mask: Any, true: Any, false: Any) -> Any:
        return np.where(mask, *same_dtype(true, false))

    @classmethod
    def clip_raw(cls, raw: Any, low: float | None, high: float | None) -> Any:
        out = np.clip(raw, low, high)
        return out.astype(raw.dtype) if raw.dtype.kind == "f" else out

    softmax_raw = staticmethod(in_float32(numpy_functions.softmax))
    log_softmax_raw = staticmethod(in_float32(numpy_functions.log_softmax))
    layer_norm_raw = staticmethod(of_floats(in_float32(numpy_functions.layer_norm)))
    rms_norm_raw = staticmethod(of_floats(in_float32(numpy_functions.rms_norm)))

    @classmethod
    def matmul_raw(cls, a: Any, b: Any) -> Any:
        with np.errstate(all="ignore"):
            if a.dtype == b.dtype == np.float16:
                return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(np.float16)
            if a.dtype.kind != b.dtype.kind:
                raise TypeError(f"matmul of {a.dtype} and {b.dtype}")
            return np.matmul(a, b)

    take_raw = staticmethod(numpy_functions.take)
    batched_take_raw = staticmethod(numpy_functions.batched_take)
    scatter_raw = staticmethod(numpy_functions.scatter)
    sort_raw = staticmethod(numpy_functions.sort)
    search_sorted_raw = staticmethod(numpy_functions.search_sorted)
    top_k_raw = staticmethod(numpy_functions.top_k)

    cumsum_raw = staticmethod(in_float32(numpy_functions.cumsum))

    @classmethod
    def one_hot_raw(cls, raw: Any, size: int, on: float, off: float, dtype: str) -> Any:
        if raw.size and (raw.min() < 0 or raw.max() >= size):
            raise IndexError("a label is out of range")
        return np.where(raw[..., None] == np.arange(size), on, off).astype(cls.as_dtype_raw(dtype))

    @classmethod
    def dropout_raw(cls, raw: Any, drop_prob: float, noise_shape: Sequence[int] | None) -> Any:
        keep = GENERATOR.random(raw.shape if noise_shape is None else tuple(noise_shape)) >= drop_prob
        return raw * (keep / (1 - drop_prob)).astype(raw.dtype)

    @classmethod
    def cross_entropy_raw(cls, logits: Any, targets: Any, label_smoothing: float, mask: Any | None) -> Any:
        if logits.dtype == np.float16:
            wide = logits.astype(np.float32)
            return cls.cross_entropy_raw(wide, targets, label_smoothing, mask).astype(np.float16)
        if mask is not None:
            losses = cls.cross_entropy_raw(logits[mask], targets[mask], label_smoothing, None)
            out = np.zeros(mask.shape, logits.dtype)
            out[mask] = losses
            return out
        log_prob = cls.log_softmax_raw(logits, 1)
        of_target = np.take_along_axis(log_prob, targets.astype(np.int64)[:, None], 1)[:, 0]
        return -(1 - label_smoothing) * of_target - label_smoothing * log_prob.mean(axis=1)

    # -- convolution ---------------------------------------------------------------------------------------------------
    conv_raw = staticmethod(numpy_layers.conv)
    transposed_conv_raw = staticmethod(numpy_layers.transposed_conv)
    pool_raw = staticmethod(numpy_layers.pool)
    stft_raw = staticmethod(numpy_layers.stft)

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

    ctc_loss_raw = staticmethod(in_float32(ctc_loss))
    ctc_best_path_raw = staticmethod(ctc_best_path)
    edit_distance_raw = staticmethod(edit_distance)
    next_edit_distance_row_raw = staticmethod(next_edit_distance_row)

    attention_raw = staticmethod(of_floats(numpy_layers.attention))
    attention_and_weights_raw = staticmethod(of_floats(numpy_layers.attention_and_weights))

    # -- recurrence ----------------------------------------------------------------------------------------------------
    lstm_raw = staticmethod(of_floats(numpy_layers.lstm))
    lstm_step_raw = staticmethod(of_floats(numpy_layers.lstm_step))
    gru_raw = staticmethod(of_floats(gru))
    rnn_tanh_raw = staticmethod(of_floats(rnn_tanh))
    two_d_lstm_raw = staticmethod(of_floats(two_d_lstm))

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

    no_grad = staticmethod(contextlib.nullcontext)


def _no_gradients(what: str) -> NotImplementedError:
    return NotImplementedError(
        f'{what}: no gradients with NumPy.\n  backend  numpy\nNumPy computes values, torch also gradients.\n    rf.select_backend("torch")'
    )


register_backend_by_tensor_type(np.ndarray, NumpyBackend)
register_backend_by_tensor_type(np.generic, NumpyBackend)
BACKEND = NumpyBackend
