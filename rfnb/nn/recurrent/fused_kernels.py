"""Whole sequences in one kernel of the backend: LSTM, GRU with the reset gate after its product, simple RNN.

The parameters keep their documented layout; the conversion to that of the kernel is differentiable.
"""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim, Dims
from rfnb.core.finite_padding import padding_mask
from rfnb.core.layout import full_shape
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.nn.recurrent.flat_batch import batch_dims_of, flat_mask_raw, flat_raw

_KERNEL_ORDER = "ifjo"  # order of the gates in `Backend.lstm_raw`


@op
def lstm_sequence(
    what: str, source: Tensor, h: Tensor, c: Tensor, forward: Tensor, recurrent: Tensor, bias: Tensor, *,
    order: str, forget_bias: float, in_dim: Dim, out_dim: Dim, spatial_dim: Dim,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """All steps of an LSTM.

    Args:
        what: Name of the unit, for messages.
        source: {..., spatial_dim, in}
        h, c: {..., out}
        forward, recurrent, bias: {in, 4 * out}, {out, 4 * out}, {4 * out}
        order: Order of the blocks in 4 * out, see `lstm_update`.

    Returns:
        h of every step {spatial_dim, ..., out}, the last h and c.
    """
    backend = source.backend
    call = _KernelCall(what, source, h, in_dim, out_dim, spatial_dim)
    raw_bias = backend.split_raw(bias._raw, [out_dim.extent] * 4, 0)
    blocks = dict(zip(order, raw_bias))
    if forget_bias:
        blocks["f"] = backend.combine_raw(blocks["f"], "add", forget_bias)
    y, last_h, last_c = backend.lstm_raw(
        call.frames, call.flat(h), call.flat(c),
        _reordered(backend, forward._raw, order, out_dim), _reordered(backend, recurrent._raw, order, out_dim),
        backend.concat_raw([blocks[part] for part in _KERNEL_ORDER], 0), call.mask,
    )  # fmt: skip
    return call.sequence(y), call.part(last_h), call.part(last_c)


@op
def gru_sequence(
    what: str, source: Tensor, h: Tensor, forward: Tensor, recurrent: Tensor, bias: Tensor, recurrent_bias: Tensor, *,
    in_dim: Dim, out_dim: Dim, spatial_dim: Dim,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """All steps of `TorchGRUCell`: its parameters, {in, 3 * out}, {out, 3 * out} and {3 * out}, in the order r, z, n.

    Returns:
        h of every step {spatial_dim, ..., out}, and the last h.
    """
    call = _KernelCall(what, source, h, in_dim, out_dim, spatial_dim)
    return call.run(source.backend.gru_raw, h, forward, recurrent, bias._raw, recurrent_bias._raw)


@op
def rnn_sequence(
    what: str, source: Tensor, h: Tensor, forward: Tensor, recurrent: Tensor, bias: Tensor, *,
    in_dim: Dim, out_dim: Dim, spatial_dim: Dim,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """All steps of `BasicRNNCell`: the two parts of its kernel, {in, out} and {out, out}, and its bias {out}.

    Returns:
        h of every step {spatial_dim, ..., out}, and the last h.
    """
    call = _KernelCall(what, source, h, in_dim, out_dim, spatial_dim)
    return call.run(source.backend.rnn_tanh_raw, h, forward, recurrent, bias._raw)


class _KernelCall:
    """Adapts one call to the kernel: time first, all batch-like dims in one axis; and back."""

    def __init__(self, what: str, source: Tensor, state: Tensor, in_dim: Dim, out_dim: Dim, spatial_dim: Dim):
        self.backend, self.spatial_dim = source.backend, spatial_dim
        batch = batch_dims_of(source, state, skip=(in_dim, spatial_dim), out_dim=out_dim)
        self.dims, self.lead = (*batch, out_dim), (spatial_dim.extent,)
        self.shape = None if len(batch) == 1 else full_shape(self.dims)
        self.frames = flat_raw(source, (spatial_dim, *batch, in_dim), self.lead)
        self.mask = flat_mask_raw(what, source, spatial_dim, batch)

    def run(self, kernel: Any, h: Tensor, forward: Tensor, recurrent: Tensor, *biases: Any) -> tuple[Tensor, Tensor]:
        weights = (self.backend.transpose_raw(weight._raw, (1, 0)) for weight in (forward, recurrent))
        y, last = kernel(self.frames, self.flat(h), *weights, *biases, self.mask)
        return self.sequence(y), self.part(last)

    def flat(self, value: Tensor) -> Any:
        return flat_raw(value, self.dims, ())

    def part(self, raw: Any) -> Tensor:
        if self.shape is not None:
            raw = self.backend.reshape_raw(raw, self.shape)
        return self._tensor(raw, self.dims)

    def sequence(self, raw: Any) -> Tensor:
        if self.shape is not None:
            raw = self.backend.reshape_raw(raw, (*self.lead, *self.shape))
        out = self._tensor(raw, (self.spatial_dim, *self.dims))
        out._finite = padding_mask(self.dims, self.backend) is None  # 0 after the end of each sequence
        return out

    def _tensor(self, raw: Any, dims: Dims) -> Tensor:
        out = new_tensor(raw, dims)
        out._feature_dim = dims[-1]
        return out


def _reordered(backend: Any, weight: Any, order: str, out_dim: Dim) -> Any:
    """(rows, 4 * out) in our order of blocks -> (4 * out, rows) in the order of the kernel."""
    blocks = dict(zip(order, backend.split_raw(backend.transpose_raw(weight, (1, 0)), [out_dim.extent] * 4, 0)))
    return backend.concat_raw([blocks[part] for part in _KERNEL_ORDER], 0)
