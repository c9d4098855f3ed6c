"""The torch backend: eager, CPU or GPU, with gradients."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from rfnb.backends import torch_conv, torch_stft
from rfnb.backends.protocol import Backend
from rfnb.backends.registry import register_backend_by_tensor_type
from rfnb.backends.torch_autocast import autocast
from rfnb.backends.torch_checkpoint import CheckpointScope
from rfnb.backends.torch_ctc import ctc_best_path, ctc_loss
from rfnb.backends.torch_edit_distance import edit_distance, next_edit_distance_row
from rfnb.backends.torch_gradient import scaled_gradient
from rfnb.backends.torch_graph import graph_inputs, graph_order, graph_place
from rfnb.backends.torch_lstm import lstm, lstm_step
from rfnb.backends.torch_random import (
    generator,
    generator_state,
    get_random_state,
    random,
    set_random_seed,
    set_random_state,
)
from rfnb.backends.torch_rnn import gru, rnn_tanh
from rfnb.backends.torch_two_d_lstm import two_d_lstm


class _Dtypes(dict[str, torch.dtype]):
    """dtypes of torch by name."""

    def __missing__(self, name: str) -> torch.dtype:
        known = "bool int8 int16 int32 int64 uint8 float16 bfloat16 float32 float64 complex64 complex128"
        raise TypeError(f"No dtype {name!r}.\n  known  {known}\nA dtype is the name that NumPy and torch have for it.")


_DTYPES = _Dtypes(
    {str(value).removeprefix("torch."): value for value in vars(torch).values() if isinstance(value, torch.dtype)}
)
_NAMES = {dtype: str(dtype).removeprefix("torch.") for dtype in _DTYPES.values()}


def _with_numbers(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Let a tensor function take a Python number on either side."""

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
    return torch.as_tensor(number, device=like.device).to(torch.result_type(like, number))


def _apart(value: torch.Tensor, param: torch.Tensor) -> torch.Tensor:
    """The value, copied if it is a view of the parameter that it is written to (a shift, a transposition)."""
    return value.clone() if value.untyped_storage().data_ptr() == param.untyped_storage().data_ptr() else value


def _squared_difference(a: Any, b: Any) -> Any:
    return (a - b).square()


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": _floor_divide,
    "mod": _mod,
    "pow": operator.pow,
    "maximum": _with_numbers(torch.maximum),
    "minimum": _with_numbers(torch.minimum),
    "squared_difference": _squared_difference,
    "logical_and": _with_numbers(torch.logical_and),
    "logical_or": _with_numbers(torch.logical_or),
    "log_add_exp": _with_numbers(torch.logaddexp),
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
# Tensor x tensor: the plain torch functions, which skip Python's operator dispatch.
_BINARY_TENSORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "truediv": torch.div,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "log_add_exp": torch.logaddexp,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "equal": torch.eq,
    "not_equal": torch.ne,
    "less": torch.lt,
    "less_equal": torch.le,
    "greater": torch.gt,
    "greater_equal": torch.ge,
}
_UNARY: dict[str, Callable[[Any], Any]] = {
    **{
        kind: getattr(torch, kind)
        for kind in "neg exp expm1 log log1p sqrt rsqrt square abs tanh sigmoid sin cos".split()
    },
    **{kind: getattr(torch, kind) for kind in "ceil floor round relu selu reciprocal logical_not".split()},
    "elu": F.elu,
    "silu": F.silu,
    "gelu": F.gelu,
    "log_sigmoid": F.logsigmoid,
    "is_finite": torch.isfinite,
    "is_infinite": torch.isinf,
    "is_neg_infinite": torch.isneginf,
}


def _reduce_any(raw: Any, axes: tuple[int, ...]) -> Any:
    for axis in sorted(axes, reverse=True):
        raw = raw.any(axis)
    return raw


def _reduce_all(raw: Any, axes: tuple[int, ...]) -> Any:
    for axis in sorted(axes, reverse=True):
        raw = raw.all(axis)
    return raw


_constants: dict[Any, Any] = {}


def _where(mask: Any, true: Any, false: Any) -> Any:
    """torch.where; for the values that fill padding, 0 and the infinities, with an array that is made once: torch would make
    one in each call, which costs as much as the op."""
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


_INF = float("inf")
_REDUCE: dict[str, Callable[[Any, tuple[int, ...]], Any]] = {
    "sum": torch.sum,
    "mean": torch.mean,
    "max": torch.amax,
    "min": torch.amin,
    "logsumexp": torch.logsumexp,
    "any": _reduce_any,
    "all": _reduce_all,
    "argmax": lambda raw, axes: torch.argmax(raw, axes[0]),
    "argmin": lambda raw, axes: torch.argmin(raw, axes[0]),
}


@functools.lru_cache(maxsize=256)
def _grids(sizes: tuple[int, ...], ndim: int, device: torch.device) -> tuple[Any, ...]:
    """An index along each batch axis that broadcasts against `ndim` axes."""
    with torch.inference_mode(False):  # else a later training could not use them
        return tuple(
            torch.arange(size, device=device).view([-1 if other == axis else 1 for other in range(ndim)])
            for axis, size in enumerate(sizes)
        )


class TorchBackend(Backend):
    """torch tensors as raw arrays."""

    name = "torch"
    RawTensorType = torch.Tensor

    @classmethod
    def get_dtype_name_raw(cls, raw: Any) -> str:
        return _NAMES[raw.dtype]

    @classmethod
    def as_dtype_raw(cls, dtype_name: str) -> Any:
        return _DTYPES[dtype_name]

    @classmethod
    def get_device_raw(cls, raw: Any) -> str:
        return str(raw.device)

    @classmethod
    def from_numpy(cls, array: np.ndarray, *, dtype: str | None = None, device: str | None = None) -> Any:
        # torch.tensor copies: the caller may go on changing its array
        with torch.inference_mode(False):  # masks and tables are kept, and a later training could not use them else
            return torch.tensor(
                np.ascontiguousarray(array), dtype=_DTYPES[dtype] if dtype else None, device=device
            ).reshape(array.shape)

    @classmethod
    def raw_to_numpy(cls, raw: Any) -> np.ndarray:
        raw = raw.detach().cpu()
        return (raw.float() if raw.dtype == torch.bfloat16 else raw).numpy()

    @classmethod
    def full_raw(cls, shape: Sequence[int], value: Any, *, dtype: str, device: str | None = None) -> Any:
        return torch.full(tuple(shape), value, dtype=_DTYPES[dtype], device=device)

    @classmethod
    def arange_raw(cls, size: int, *, dtype: str, device: str | None = None) -> Any:
        return torch.arange(size, dtype=_DTYPES[dtype], device=device)

    random_raw = staticmethod(random)
    generator_raw = staticmethod(generator)
    generator_state_raw = staticmethod(generator_state)
    set_random_seed = staticmethod(set_random_seed)
    get_random_state = staticmethod(get_random_state)
    set_random_state = staticmethod(set_random_state)

    @classmethod
    def copy_raw(cls, raw: Any) -> Any:
        return raw.clone()

    @classmethod
    def cast_raw(cls, raw: Any, dtype: str) -> Any:
        return raw.to(_DTYPES[dtype])

    @classmethod
    def to_device_raw(cls, raw: Any, device: str) -> Any:
        return raw.to(device)

    # The functions of torch themselves, where the arguments are the same: a wrapper would be a tenth of a small op.
    transpose_raw: Any = staticmethod(torch.permute)
    reshape_raw: Any = staticmethod(torch.reshape)
    expand_dims_raw: Any = staticmethod(torch.unsqueeze)

    @classmethod
    def squeeze_raw(cls, raw: Any, axes: Sequence[int]) -> Any:
        return raw.squeeze(tuple(axes))

    @classmethod
    def broadcast_raw(cls, raw: Any, shape: Sequence[int]) -> Any:
        return raw.expand(tuple(shape))

    @classmethod
    def slice_raw(cls, raw: Any, axis: int, start: int, end: int) -> Any:
        return raw.narrow(axis, start, end - start)

    split_raw: Any = staticmethod(torch.split_with_sizes)

    @classmethod
    def select_raw(cls, raw: Any, axis: int, index: int) -> Any:
        return raw.select(axis, index)

    @classmethod
    def unbind_raw(cls, raw: Any, axis: int) -> Sequence[Any]:
        return raw.unbind(axis)  # its gradient is one stack; that of each `select` would be an array of the full size

    @classmethod
    def flip_raw(cls, raw: Any, axis: int) -> Any:
        return raw.flip(axis)

    concat_raw: Any = staticmethod(torch.cat)

    @classmethod
    def stack_raw(cls, raws: Sequence[Any], axis: int) -> Any:
        return torch.stack(tuple(raws), axis)

    @classmethod
    def pad_raw(cls, raw: Any, widths: Sequence[tuple[int, int]], value: Any) -> Any:
        flat = [width for pair in reversed(list(widths)) for width in pair]
        return F.pad(raw, flat, value=value)

    @classmethod
    def binary_fn(cls, kind: str) -> Callable[[Any, Any], Any]:
        return _BINARY[kind]

    @classmethod
    def binary_tensors_fn(cls, kind: str) -> Callable[[Any, Any], Any]:
        return _BINARY_TENSORS.get(kind) or _BINARY[kind]

    @classmethod
    def unary_fn(cls, kind: str) -> Callable[[Any], Any]:
        return _UNARY[kind]

    where_raw: Any = staticmethod(_where)
    clip_raw: Any = staticmethod(torch.clamp)

    @classmethod
    def reduce_raw(cls, raw: Any, kind: str, axes: tuple[int, ...]) -> Any:
        return _REDUCE[kind](raw, axes)

    @classmethod
    def reduce_fn(cls, kind: str) -> Callable[[Any, tuple[int, ...]], Any]:
        return _REDUCE[kind]

    softmax_raw: Any = staticmethod(torch.softmax)
    log_softmax_raw: Any = staticmethod(torch.log_softmax)

    @classmethod
    def layer_norm_raw(cls, raw: Any, scale: Any, bias: Any | None, eps: float) -> Any:
        return torch.layer_norm(raw, scale.shape, scale, bias, eps)

    matmul_raw: Any = staticmethod(torch.matmul)

    batched_matmul_raw: Any = staticmethod(torch.bmm)

    @classmethod
    def take_raw(cls, raw: Any, indices: Any, axis: int) -> Any:
        if axis == 0:
            return torch.embedding(raw, indices) if raw.dim() == 2 else raw[indices]
        if indices.dim() <= 1:
            return raw.index_select(axis, indices) if indices.dim() else raw.select(axis, int(indices))
        shape = raw.shape[:axis] + indices.shape + raw.shape[axis + 1 :]
        return raw.index_select(axis, indices.reshape(-1)).reshape(shape)

    @classmethod
    def batched_take_raw(cls, raw: Any, indices: Any, num_batch: int) -> Any:
        return raw[(*_grids(raw.shape[:num_batch], indices.dim(), raw.device), indices)]

    @classmethod
    def scatter_raw(cls, raw: Any, indices: Any, size: int, kind: str, neutral: Any) -> Any:
        out = raw.new_full((raw.shape[0], size, raw.shape[2]), neutral)
        indices = indices.long().unsqueeze(-1).expand(raw.shape)
        if kind == "sum":
            return out.scatter_add(1, indices, raw)
        return out.scatter_reduce(1, indices, raw, {"max": "amax", "min": "amin"}[kind])

    @classmethod
    def sort_raw(cls, raw: Any, axis: int, descending: bool, stable: bool) -> tuple[Any, Any]:
        return torch.sort(raw, dim=axis, descending=descending, stable=stable)

    @classmethod
    def search_sorted_raw(cls, sorted_raw: Any, values: Any, right: bool) -> Any:
        return torch.searchsorted(sorted_raw.contiguous(), values.contiguous(), right=right)

    @classmethod
    def top_k_raw(cls, raw: Any, k: int, sorted: bool) -> tuple[Any, Any]:
        return torch.topk(raw, k, -1, True, sorted)

    cumsum_raw: Any = staticmethod(torch.cumsum)

    @classmethod
    def one_hot_raw(cls, raw: Any, size: int, on: float, off: float, dtype: str) -> Any:
        out = torch.full((*raw.shape, size), off, dtype=_DTYPES[dtype], device=raw.device)
        return out.scatter_(-1, raw.long().unsqueeze(-1), on)

    @classmethod
    def dropout_raw(cls, raw: Any, drop_prob: float, noise_shape: Sequence[int] | None) -> Any:
        if noise_shape is None:
            return F.dropout(raw, drop_prob, training=True)
        keep = torch.empty(tuple(noise_shape), dtype=raw.dtype, device=raw.device).bernoulli_(1 - drop_prob)
        return raw * keep.div_(1 - drop_prob)

    @classmethod
    def cross_entropy_raw(cls, logits: Any, targets: Any, label_smoothing: float, mask: Any | None) -> Any:
        if mask is not None:
            targets = torch.where(mask, targets, -100)  # what torch ignores: loss and gradient are 0
            if logits.requires_grad:  # the gradient of a row of NaN is NaN, even times 0
                logits = _where(mask.unsqueeze(-1), logits, 0)
        return F.cross_entropy(logits, targets.long(), reduction="none", label_smoothing=label_smoothing)

    conv_raw = staticmethod(torch_conv.conv)
    transposed_conv_raw = staticmethod(torch_conv.transposed_conv)
    pool_raw = staticmethod(torch_conv.pool)
    stft_raw = staticmethod(torch_stft.stft)
    make_complex_raw: Any = staticmethod(torch.complex)

    @classmethod
    def real_as_complex_raw(cls, raw: Any) -> Any:
        try:
            return torch.view_as_complex(raw)
        except RuntimeError:  # the two are not side by side in memory
            return torch.complex(raw[..., 0], raw[..., 1])

    complex_as_real_raw: Any = staticmethod(torch.view_as_real)

    ctc_loss_raw = staticmethod(ctc_loss)
    ctc_best_path_raw = staticmethod(ctc_best_path)
    edit_distance_raw = staticmethod(edit_distance)
    next_edit_distance_row_raw = staticmethod(next_edit_distance_row)

    @classmethod
    def assert_raw(cls, condition: Any, text: str) -> None:
        if condition.is_cuda:
            torch._assert_async(condition, text)
        elif not condition:
            raise AssertionError(text)

    add_matmul_raw: Any = staticmethod(torch.addmm)

    @classmethod
    def attention_raw(cls, query: Any, keys: Any, values: Any, bias: Any | None, causal: bool, scale: float) -> Any:
        return F.scaled_dot_product_attention(query, keys, values, bias, 0.0, causal, scale=scale)

    lstm_raw = staticmethod(lstm)
    lstm_step_raw = staticmethod(lstm_step)
    two_d_lstm_raw = staticmethod(two_d_lstm)
    gru_raw = staticmethod(gru)
    rnn_tanh_raw = staticmethod(rnn_tanh)

    @classmethod
    def detach_raw(cls, raw: Any) -> Any:
        return raw.detach()

    @classmethod
    def parameter_raw(cls, raw: Any, trainable: bool) -> Any:
        if isinstance(raw, torch.nn.Parameter):  # an optimizer may hold this very object
            return raw.requires_grad_(trainable)
        return torch.nn.Parameter(raw, requires_grad=trainable)

    @classmethod
    def assign_raw(cls, param: Any, value: Any) -> None:
        with torch.no_grad():
            param.copy_(_apart(value, param))

    @classmethod
    def assign_at_raw(cls, param: Any, indices: tuple[Any, ...], value: Any, mask: np.ndarray | None) -> None:
        if mask is not None:
            places = torch.from_numpy(mask).to(param.device)
            parts = (
                part.to(param.device).expand(places.shape) if isinstance(part, torch.Tensor) else part
                for part in indices
            )
            indices = tuple(part[places] if isinstance(part, torch.Tensor) else part for part in parts)
            value = value.expand(places.shape)[places]
        with torch.no_grad():
            param[indices] = _apart(value, param).to(param.device, param.dtype)

    @classmethod
    def convert_parameter_raw(cls, param: Any, dtype: str | None, device: str | None) -> Any:
        # As torch.nn.Module.to: the object stays, so that optimizers and other holders of it go on.
        for tensor in (param, param.grad):
            if tensor is not None:
                tensor.data = tensor.data.to(device=device, dtype=None if dtype is None else _DTYPES[dtype])
        return param

    @classmethod
    def set_requires_gradient_raw(cls, raw: Any, flag: bool) -> None:
        raw.requires_grad_(flag)

    @classmethod
    def tracks_gradient_raw(cls, raw: Any) -> bool:
        return raw.requires_grad and torch.is_grad_enabled()

    @classmethod
    def gradient_raw(cls, y: Any, x: Any) -> Any:
        if not y.requires_grad or not x.requires_grad:
            raise ValueError(
                f"gradient: nothing was tracked.\n  y tracked  {y.requires_grad}\n  x tracked  {x.requires_grad}\n"
                "Ask for gradients of x before y is computed from it.\n    rf.set_requires_gradient(x)"
            )
        return torch.autograd.grad(y, x, create_graph=True)[0]

    @classmethod
    def grad_enabled(cls) -> bool:
        return torch.is_grad_enabled()

    graph_place_raw = staticmethod(graph_place)
    graph_inputs_raw = staticmethod(graph_inputs)
    graph_order_raw = staticmethod(graph_order)
    scaled_gradient_raw = staticmethod(scaled_gradient)
    checkpoint_scope = CheckpointScope

    @classmethod
    def autocast_raw(cls, dtype: str) -> Any:
        return autocast(_DTYPES[dtype])

    @classmethod
    def no_grad(cls) -> Any:
        return torch.no_grad()


register_backend_by_tensor_type(torch.Tensor, TorchBackend)
BACKEND = TorchBackend
