"""The torch backend: eager, CPU or GPU, with gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from rfnb.backends import torch_conv, torch_devices, torch_functions, torch_parameter
from rfnb.backends.protocol import Backend
from rfnb.backends.registry import register_backend_by_tensor_type
from rfnb.backends.torch_compilation import compile_function
from rfnb.backends.torch_devices import brought, check_name, refuse_device
from rfnb.backends.torch_frame_products import JOIN, PRODUCTS, product_ahead
from rfnb.backends.torch_functions import DTYPES, HALF, NAMES
from rfnb.backends.torch_labels import ctc_best_path, ctc_loss, edit_distance, next_edit_distance_row
from rfnb.backends.torch_lstm import lstm, lstm_step
from rfnb.backends.torch_modes import autocast, current_modes, full_precision, settings
from rfnb.backends.torch_parameter import graph_inputs, graph_order, graph_place, scaled_gradient
from rfnb.backends.torch_random import (
    generator,
    generator_state,
    get_random_state,
    random,
    set_random_seed,
    set_random_state,
)
from rfnb.backends.torch_read_only import read_only
from rfnb.backends.torch_recompute import CheckpointScope
from rfnb.backends.torch_rnn import gru, rnn_tanh, two_d_lstm
from rfnb.backends.torch_trace import note_made, signature, trace_calls, watch_draws

_grad_enabled = torch.is_grad_enabled


class TorchBackend(Backend):
    """torch tensors as raw arrays."""

    name = "torch"
    RawTensorType = torch.Tensor

    @staticmethod
    def get_dtype_name_raw(raw: Any) -> str:
        return NAMES[raw.dtype]

    dtype_key_raw: Any = staticmethod(attrgetter("dtype"))

    @classmethod
    def as_dtype_raw(cls, dtype_name: str) -> Any:
        return DTYPES[dtype_name]

    @staticmethod
    def get_device_raw(raw: Any) -> str:
        return str(raw.device)

    device_key_raw: Any = staticmethod(attrgetter("device"))
    num_bytes_raw: Any = staticmethod(attrgetter("nbytes"))

    @staticmethod
    def is_on_host_raw(raw: Any) -> bool:
        return raw.is_cpu

    @staticmethod
    def is_finite_raw(raw: Any) -> bool:
        return math.isfinite(raw.sum().item())  # a fifth of the time of asking each number

    @classmethod
    def from_numpy(cls, array: np.ndarray, *, dtype: str | None = None, device: str | None = None) -> Any:
        if torch.is_inference_mode_enabled():
            # Masks and tables are kept, and a later training could not use them else. The guard inside of torch.inference_mode, which
            # takes four times as long: a search makes some masks in every step.
            with torch._C._InferenceMode(False):
                return cls.from_numpy(array, dtype=dtype, device=device)
        raw = torch.from_numpy(np.array(array, order="C"))  # a copy: the caller may go on changing its array
        wanted = raw.dtype if dtype is None else DTYPES[dtype]
        place = torch.get_default_device() if device is None else device
        if raw.dtype is not wanted or str(place) != "cpu":
            try:
                raw = brought(raw, torch.device(place), wanted)
            except Exception as error:
                refuse_device(error, device)
                raise
        return note_made(raw)

    @classmethod
    def raw_to_numpy(cls, raw: Any) -> np.ndarray:
        return (raw.float() if raw.dtype == torch.bfloat16 else raw).numpy(force=True)

    raws_to_numpy: Any = staticmethod(torch_devices.on_host)

    check_device_name = staticmethod(check_name)

    @classmethod
    def full_raw(cls, shape: Sequence[int], value: Any, *, dtype: str, device: str | None = None) -> Any:
        try:
            return torch.full(tuple(shape), value, dtype=DTYPES[dtype], device=device)
        except Exception as error:
            refuse_device(error, device)
            raise

    @classmethod
    def arange_raw(cls, size: int, *, dtype: str, device: str | None = None) -> Any:
        try:
            return torch.arange(size, dtype=DTYPES[dtype], device=device)
        except Exception as error:
            refuse_device(error, device)
            raise

    random_raw = staticmethod(random)
    generator_raw = staticmethod(generator)
    generator_state_raw = staticmethod(generator_state)
    set_random_seed = staticmethod(set_random_seed)
    get_random_state = staticmethod(get_random_state)
    set_random_state = staticmethod(set_random_state)

    read_only_raw = staticmethod(read_only)

    @classmethod
    def cast_raw(cls, raw: Any, dtype: str) -> Any:
        return raw.to(DTYPES[dtype])

    @classmethod
    def to_device_raw(cls, raw: Any, device: str) -> Any:
        try:
            if raw.is_cpu and not raw.requires_grad:
                return brought(raw, torch.device(device))
            return raw.to(device)
        except Exception as error:
            refuse_device(error, device)
            raise

    # The functions of torch themselves, where the arguments are the same: a wrapper would be a tenth of a small op.
    copy_raw: Any = staticmethod(torch.clone)
    transpose_raw: Any = staticmethod(torch.permute)
    reshape_raw: Any = staticmethod(torch.reshape)
    expand_dims_raw: Any = staticmethod(torch.unsqueeze)

    @classmethod
    def squeeze_raw(cls, raw: Any, axes: Sequence[int]) -> Any:
        return raw.squeeze(tuple(axes))

    broadcast_raw: Any = staticmethod(torch.Tensor.expand)

    @classmethod
    def slice_raw(cls, raw: Any, axis: int, start: int, end: int) -> Any:
        return raw.narrow(axis, start, end - start)

    split_raw: Any = staticmethod(torch.split_with_sizes)

    select_raw: Any = staticmethod(torch.select)
    # Its gradient is one stack; that of each `select` would be an array of the full size.
    unbind_raw: Any = staticmethod(torch.unbind)

    @classmethod
    def flip_raw(cls, raw: Any, axis: int) -> Any:
        return raw.flip(axis)

    concat_raw: Any = staticmethod(torch.cat)
    stack_raw: Any = staticmethod(torch.stack)

    @classmethod
    def pad_raw(cls, raw: Any, widths: Sequence[tuple[int, int]], value: Any) -> Any:
        flat = [width for pair in reversed(list(widths)) for width in pair]
        return F.pad(raw, flat, value=value)

    @classmethod
    def binary_fn(cls, kind: str) -> Callable[[Any, Any], Any]:
        return torch_functions.BINARY[kind]

    @classmethod
    def binary_tensors_fn(cls, kind: str) -> Callable[[Any, Any], Any]:
        return torch_functions.BINARY_TENSORS.get(kind) or torch_functions.BINARY[kind]

    @classmethod
    def unary_fn(cls, kind: str) -> Callable[[Any], Any]:
        return torch_functions.UNARY[kind]

    where_raw: Any = staticmethod(torch_functions.where)
    clip_raw: Any = staticmethod(torch.clamp)

    @classmethod
    def reduce_raw(cls, raw: Any, kind: str, axes: tuple[int, ...]) -> Any:
        fn, extra = torch_functions.reduce_fn(kind, axes)
        return fn(raw, extra)

    reduce_fn: Any = staticmethod(torch_functions.reduce_fn)

    softmax_raw: Any = staticmethod(torch.softmax)
    log_softmax_raw: Any = staticmethod(torch.log_softmax)

    @classmethod
    def layer_norm_raw(cls, raw: Any, scale: Any, bias: Any | None, eps: float) -> Any:
        return torch.layer_norm(raw, scale.shape, scale, bias, eps)

    @classmethod
    def rms_norm_raw(cls, raw: Any, scale: Any, bias: Any | None, eps: float) -> Any:
        if raw.dtype is scale.dtype:
            out = torch.rms_norm(raw, scale.shape, scale, eps)
            return out if bias is None else out + bias
        # 16 bits, with a scale in float32: the dtype of `layer_norm_raw`.
        out = torch.rms_norm(raw, scale.shape, None, eps)
        return (out * scale if bias is None else out * scale + bias).to(out.dtype)

    matmul_raw: Any = staticmethod(torch.matmul)

    batched_matmul_raw: Any = staticmethod(torch.bmm)

    take_raw = staticmethod(torch_functions.take)
    batched_take_raw = staticmethod(torch_functions.batched_take)
    scatter_raw = staticmethod(torch_functions.scatter)
    one_hot_raw = staticmethod(torch_functions.one_hot)

    @classmethod
    def sort_raw(cls, raw: Any, axis: int, descending: bool, stable: bool) -> tuple[Any, Any]:
        return torch.sort(raw, dim=axis, descending=descending, stable=stable)

    @classmethod
    def search_sorted_raw(cls, sorted_raw: Any, values: Any, right: bool) -> Any:
        return torch.searchsorted(sorted_raw.contiguous(), values.contiguous(), right=right)

    @classmethod
    def top_k_raw(cls, raw: Any, k: int, sorted: bool) -> tuple[Any, Any]:
        return torch.topk(raw, k, -1, True, sorted)

    first_top_k_raw = staticmethod(torch_functions.first_top_k)

    cumsum_raw: Any = staticmethod(torch.cumsum)

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
                logits = torch_functions.where(mask.unsqueeze(-1), logits, 0)
        dtype = logits.dtype
        if label_smoothing and dtype in HALF:  # torch adds up the log probabilities of all classes in 16 bits
            loss = F.cross_entropy(logits.float(), targets.long(), reduction="none", label_smoothing=label_smoothing)
            return loss.to(dtype)
        return F.cross_entropy(logits, targets.long(), reduction="none", label_smoothing=label_smoothing)

    conv_raw = staticmethod(torch_conv.conv)
    transposed_conv_raw = staticmethod(torch_conv.transposed_conv)
    pool_raw = staticmethod(torch_conv.pool)
    stft_raw = staticmethod(torch_conv.stft)
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

    @classmethod
    def attention_and_weights_raw(
        cls, query: Any, keys: Any, values: Any, bias: Any | None, scale: float
    ) -> tuple[Any, Any]:
        dtype = query.dtype
        if dtype in HALF:  # as the fused kernel: energies in float32, in float16 they would be infinite from 65520 on
            query, keys, values = query.float(), keys.float(), values.float()
        energy = torch.bmm(query, keys).mul_(scale)
        weights = torch.softmax(energy if bias is None else energy.add_(bias), -1)
        out = torch.bmm(weights, values)
        return (out.to(dtype), weights.to(dtype)) if dtype in HALF else (out, weights)

    lstm_raw = staticmethod(lstm)
    lstm_step_raw = staticmethod(lstm_step)
    two_d_lstm_raw = staticmethod(two_d_lstm)
    gru_raw = staticmethod(gru)
    rnn_tanh_raw = staticmethod(rnn_tanh)

    detach_raw: Any = staticmethod(torch.Tensor.detach)  # a fifth quicker than torch.detach
    kept_raw = staticmethod(torch_parameter.kept)
    parameter_raw = staticmethod(torch_parameter.parameter)
    assign_raw = staticmethod(torch_parameter.assign)
    assign_at_raw = staticmethod(torch_parameter.assign_at)
    convert_parameter_raw = staticmethod(torch_parameter.convert_parameter)

    set_requires_gradient_raw: Any = staticmethod(torch.Tensor.requires_grad_)

    @staticmethod
    def tracks_gradient_raw(raw: Any) -> bool:
        return _grad_enabled() and raw.requires_grad

    @staticmethod
    def tracks_gradients_raw(a: Any, b: Any) -> bool:
        return _grad_enabled() and (a.requires_grad or b.requires_grad)

    @classmethod
    def gradient_raw(cls, y: Any, x: Any) -> Any:
        if not y.requires_grad or not x.requires_grad:
            raise ValueError(
                f"gradient: nothing was tracked.\n  y tracked  {y.requires_grad}\n  x tracked  {x.requires_grad}\n"
                "Ask for gradients of x before y is computed from it.\n    rf.set_requires_gradient(x)"
            )
        return torch.autograd.grad(y, x, create_graph=True)[0]

    grad_enabled = staticmethod(_grad_enabled)

    graph_place_raw = staticmethod(graph_place)
    graph_inputs_raw = staticmethod(graph_inputs)
    graph_order_raw = staticmethod(graph_order)
    scaled_gradient_raw = staticmethod(scaled_gradient)
    checkpoint_scope = CheckpointScope
    watch_draws = staticmethod(watch_draws)
    trace_calls = trace_calls
    products_raw, join_raw, product_ahead_raw = PRODUCTS, staticmethod(JOIN), staticmethod(product_ahead)
    compile_raw = staticmethod(compile_function)
    current_modes = staticmethod(current_modes)
    settings = staticmethod(settings)
    signature_raw = staticmethod(signature)

    @classmethod
    def autocast_raw(cls, dtype: str) -> Any:
        return autocast(DTYPES[dtype])

    full_precision = staticmethod(full_precision)
    no_grad = staticmethod(torch.no_grad)


register_backend_by_tensor_type(torch.Tensor, TorchBackend)
BACKEND = TorchBackend
