"""Documented Backend methods that are not simply functions of rfnb: their signature differs, or they belong to graph mode."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.backends import protocol, registry
from rfnb.core.dim import Dim
from rfnb.core.errors import not_implemented_error, not_one_of, shape_error, value_error
from rfnb.core.layout import full_shape
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.nn.module.parameter import Parameter
from rfnb.ops import concat, const, loss, math
from rfnb.ops.out_dim import define_size


# -- one Tensor ----------------------------------------------------------------------------------------------------------
def full(dims: Sequence[Dim], fill_value: Any, *, dtype: str, **options: Any) -> Tensor:
    """`rf.full`."""
    return const.full(dims=dims, fill_value=fill_value, dtype=dtype, **options)


def activation(tensor: Tensor, func: str) -> Tensor:
    """An elementwise function by name: "relu", "tanh", ...; those of `rf.backends.protocol.UNARY_KINDS`.

    Raises:
        ValueError: Unknown name.
    """
    if func not in protocol.UNARY_KINDS:
        raise not_one_of(f'activation: unknown function "{func}".', "func", func, protocol.UNARY_KINDS)
    return getattr(math, func)(tensor)


@op
def flip_no_mask(source: Tensor, *, axis: Dim) -> Tensor:
    """The raw array reversed along `axis`, so that the padding of a ragged one comes first; see `rf.reverse_sequence`."""
    index = source.axis_of(axis, "flip_no_mask")
    return source._like(source.backend.flip_raw(source._raw, index), source.dims)


def make_output_tensor(tensor: Tensor, dims: Sequence[Dim], *, name: str) -> Tensor:
    """The Tensor with its dims in this order and with this name."""
    return tensor.copy_transpose(dims).copy(name)


def get_device(x: Tensor) -> str | None:
    """The device of a Tensor; None for a template."""
    return x.device


def softmax_cross_entropy_with_logits(*, logits: Tensor, targets: Tensor, axis: Dim) -> Tensor:
    """`rf.cross_entropy` of logits."""
    return loss.cross_entropy(estimated=logits, target=targets, axis=axis, estimated_type="logits")


@op
def runtime_sanity_checks(tensor: Tensor) -> None:
    """Check that the raw array fits the dims.

    Raises:
        ShapeError: If it does not.
    """
    tensor.raw_tensor = tensor.raw_tensor


# -- layers with the parameters of somebody else -------------------------------------------------------------------------
def batch_norm(
    source: Tensor,
    *,
    in_dim: Dim,
    running_mean: Parameter | None,
    running_variance: Parameter | None,
    gamma: Tensor | None,
    beta: Tensor | None,
    epsilon: float,
    momentum: float,
    affine: bool,
    use_mask: bool,
) -> Tensor:
    """`rf.BatchNorm` with these parameters; in training it updates the running statistics."""
    from rfnb.nn.batch_norm import BatchNorm

    layer = BatchNorm.__new__(BatchNorm)
    layer.in_dim, layer.momentum, layer.eps, layer.use_mask = in_dim, momentum, epsilon, use_mask
    layer.running_mean, layer.running_variance = running_mean, running_variance
    layer.gamma, layer.beta = (gamma, beta) if affine else (None, None)  # type: ignore[assignment]
    return layer(source)


def lstm(
    source: Tensor,
    *,
    state_h: Tensor,
    state_c: Tensor,
    ff_weight: Tensor,
    rec_weight: Tensor,
    bias: Tensor | None,
    spatial_dim: Dim,
    in_dim: Dim,
    out_dim: Dim,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """`rf.LSTM` with these parameters: outputs, and the last (h, c)."""
    from rfnb.nn.recurrent.lstm import LSTM, LstmState

    layer = LSTM.__new__(LSTM)
    layer.in_dim, layer.out_dim = in_dim, out_dim
    layer.ff_weight, layer.rec_weight, layer.bias = ff_weight, rec_weight, bias  # type: ignore[assignment]
    out, state = layer(source, state=LstmState(h=state_h, c=state_c), spatial_dim=spatial_dim)
    return out, (state.h, state.c)


# -- parameters ----------------------------------------------------------------------------------------------------------
def create_parameter_raw(tensor: Tensor, *, device: str | None = None) -> Any:
    """The raw parameter of the selected backend for a template, zeros."""
    backend = registry.selected()
    raw = backend.full_raw(full_shape(tensor.dims), 0, dtype=tensor.dtype, device=device)
    return backend.parameter_raw(raw, getattr(tensor, "trainable", tensor.dtype.startswith(("float", "bfloat"))))


def set_parameter_initial_value(param: Parameter, value: Any) -> None:
    """`param.initial = value`."""
    param.initial = value


def set_parameter_trainable(param: Parameter, trainable: bool) -> None:
    """`param.trainable = trainable`."""
    param.trainable = trainable


def parameter_assign(param: Parameter, value: Any, *, op: str = "assign") -> None:
    """New values ("assign"), or added ones ("add"), in place.

    Raises:
        ValueError: Another op.
    """
    _check_op("parameter_assign", op)
    if op == "add":
        param.assign_add(value)
    else:
        param.assign(value)


@op
def parameter_assign_key(
    param: Parameter, key: Any, value: Any, *, op: str = "assign", axis: Any = None, key_dim: Any = None
) -> None:
    """New values for some entries; see `rf.Parameter.assign_key`. With "add" they are added to the old ones.

    Raises:
        ValueError: Another op, or "add" with a key that is not an index into one axis.
    """
    _check_op("parameter_assign_key", op)
    axis = param.dims[0] if axis is None else axis
    if op == "add":
        if not isinstance(axis, Dim) or not isinstance(key, int):
            raise value_error(
                'parameter_assign_key: "add" is for one entry of one axis.',
                {"key": type(key).__name__},
                "For an index that occurs twice, the sum is ambiguous. Gather, add, and assign:",
                "param.assign_key(axis, key, key_dim, rf.gather(param, indices=key, axis=axis) + value)",
            )
        backend = param.backend
        old = backend.select_raw(backend.detach_raw(param._raw), param.axis_of(axis), key)
        value = new_tensor(old, tuple(dim for dim in param.dims if dim is not axis)) + value
    param.assign_key(axis, key, key_dim, value)


def parameter_move_to(param: Parameter, *, device: str | None = None, dtype: str | None = None) -> None:
    """`param.to(...)`."""
    param.to(device=device, dtype=dtype)


def _check_op(what: str, op: str) -> None:
    if op not in ("assign", "add"):
        raise not_one_of(f'{what}: unknown op "{op}".', "op", op, ("assign", "add"))


# -- arrays of Tensors ---------------------------------------------------------------------------------------------------
def tensor_array_create() -> list[Tensor]:
    """An empty list of Tensors."""
    return []


def tensor_array_unstack(tensor: Tensor, *, axis: Dim) -> list[Tensor]:
    """The frames of `axis`, including padding."""
    return list(concat.unstack(tensor, axis=axis))


def tensor_array_stack(tensor_array: list[Tensor], *, axis: Dim, tensor_template: Tensor) -> Tensor:
    """All Tensors stacked along `axis`; zeros over the dims of the template if the list is empty."""
    if tensor_array:
        return concat.stack(tensor_array, out_dim=axis)[0]
    define_size(axis, 0)
    return const.zeros((axis, *tensor_template.dims), dtype=tensor_template.dtype)


def tensor_array_push_back(tensor_array: list[Tensor], value: Tensor) -> list[Tensor]:
    """A copy of the list with this value appended."""
    return [*tensor_array, value]


def tensor_array_get_item(tensor_array: list[Tensor], index: int | Tensor) -> Tensor:
    """The Tensor at an index, an int or a scalar Tensor."""
    return tensor_array[int(index.numpy()) if isinstance(index, Tensor) else index]


# -- raw arrays: for all backends the same -------------------------------------------------------------------------------
def fill_raw(shape: Sequence[int], value: float | int | bool) -> Any:
    """A raw array of one value, of the selected backend."""
    dtype = "bool" if isinstance(value, bool) else "int32" if isinstance(value, int) else "float32"
    return registry.selected().full_raw(shape, value, dtype=dtype)


def get_new_dim_raw(raw_tensor: Any, axis: int, *, name: str) -> Dim:
    """A static dim of the length of an axis."""
    return Dim(_backend_of(raw_tensor).get_shape_tuple_raw(raw_tensor)[axis], name=name)


def set_known_shape_raw(raw_tensor: Any, shape: Sequence[int | None]) -> None:
    """Check the shape; None allows any length.

    Raises:
        ShapeError: If it differs.
    """
    got = _backend_of(raw_tensor).get_shape_tuple_raw(raw_tensor)
    if len(got) != len(shape) or any(want not in (None, have) for want, have in zip(shape, got)):
        raise shape_error(
            "set_known_shape_raw: another shape.",
            {"array": got, "known": tuple(shape)},
            "An array has the shape that it has; to change it, use reshape_raw.",
        )


def should_pickle_tensor(raw_tensor: Any) -> bool:
    """Whether the array is on the CPU."""
    return _backend_of(raw_tensor).get_device_raw(raw_tensor) == "cpu"


def have_sequence_mask_raw() -> bool:
    """True."""
    return True


def sequence_mask_raw(lengths: Any, *, batch_major: bool = True) -> Any:
    """lengths [batch] -> bool [batch, longest], True before the end of each sequence; [longest, batch] unless batch_major."""
    backend = _backend_of(lengths)
    host = backend.raw_to_numpy(lengths)
    mask = np.arange(host.max(initial=0)) < host[:, None]
    return backend.from_numpy(mask if batch_major else mask.T, dtype="bool", device=backend.get_device_raw(lengths))


def have_edit_distance() -> bool:
    """True."""
    return True


def sdpa_varlen_raw(**_arrays: Any) -> None:
    """None: attention over packed sequences is not offered; the caller composes it from ops."""
    return None


def ctc_loss_packed_raw(**_arrays: Any) -> Any:
    """Raises NotImplementedError: documented, but not offered."""
    raise _not_offered("ctc_loss_packed_raw", "Sequences are padded here.", "rf.ctc_loss(...)")


def reduce_distributed(source: Tensor, *, mode: str) -> Tensor:
    """Raises NotImplementedError: documented, but not offered."""
    raise _not_offered(
        "reduce_distributed", "A Tensor is of one process.", "torch.distributed.all_reduce(x.raw_tensor)"
    )


# -- graph mode, which there is not --------------------------------------------------------------------------------------
def create_placeholder_raw(tensor: Tensor) -> Any:
    """Raises NotImplementedError: documented, but not offered."""
    raise _not_offered("create_placeholder_raw", "Values are there from the start.", "rf.zeros(dims)")


def name_scope_raw(name: str) -> Any:
    """A context manager without effect."""
    return contextlib.nullcontext()


def control_dependencies_raw(dependencies: Sequence[Any]) -> Any:
    """A context manager without effect: eager execution follows the order of the program."""
    return contextlib.nullcontext()


def identity_with_control_dependencies_raw(raw_tensor: Any, dependencies: Sequence[Any]) -> Any:
    """The array itself."""
    return raw_tensor


def is_valid_in_current_graph(tensor: Tensor) -> bool:
    """True."""
    return True


def format_graph_output(raw_tensor: Any, *, max_depth: int | None = None) -> str:
    """ "<no-graph>"."""
    return "<no-graph>"


def _backend_of(raw: Any) -> Any:
    return registry.get_backend_by_raw_tensor_type(type(raw))


def _not_offered(what: str, rule: str, fix: str) -> NotImplementedError:
    return not_implemented_error(
        f"{what}: documented, but not offered.", {"backend": registry.selected().name}, rule, fix
    )
