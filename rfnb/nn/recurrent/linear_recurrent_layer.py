"""Shared parts of the layers around a linear recurrence: a short convolution, the call for a sequence or one step, the state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from rfnb.core.dim import Dim, Dims, single_step_dim
from rfnb.core.errors import type_error, value_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.init import Glorot
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.recurrent import linear_recurrence
from rfnb.nn.recurrent.linear_recurrence import Writes
from rfnb.nn.recurrent.unit_parts import gated, offer_gates
from rfnb.ops.amp import narrowed, widened
from rfnb.ops.concat import concat
from rfnb.ops.const import zeros
from rfnb.ops.dims import range_over_dim
from rfnb.ops.expand import expand_dim
from rfnb.ops.gather import gather
from rfnb.ops.math import exp, expm1, log, log_sigmoid, safe_log
from rfnb.ops.matmul import matmul
from rfnb.ops.slice import slice as slice_dim
from rfnb.rec.state import State
from rfnb.trace.editing import editing
from rfnb.trace.probe import listening


class ShortConv(Module):
    """Depthwise causal convolution over a few frames: y_t = sum_i weight[i] x_{t - size + 1 + i} + bias.

    Parameters:
        weight: {channels, window}, Glorot uniform. bias: {channels}, zero.

    Source: Gu and Dao 2023, "Mamba", figure 3.
    """

    def __init__(self, dim: Dim, *, size: int):
        if size < 1:
            rule = "The window of the convolution has at least the frame itself."
            raise value_error("ShortConv: a window without frames.", {"conv_size": size}, rule, "conv_size=4")
        self.dim = dim
        self._window, self._past, self._now = (
            Dim(n, name=name) for n, name in ((size, "window"), (size - 1, "past"), (1, "now"))
        )
        self.weight = Parameter((dim, self._window))
        self.weight.initial = Glorot()
        self.bias = Parameter((dim,))

    def __call__(self, source: Tensor, past: Tensor, *, axis: Dim) -> tuple[Tensor, Tensor]:
        """{..., axis, dim}, and the previous frames {..., past, dim}; returns the result and as many frames for the next call."""
        if axis is single_step_dim:
            source = expand_dim(source, self._now)
            frames, _ = concat((past, self._past), (source, self._now), out_dim=self._window, allow_broadcast=True)
            single = matmul(frames, self.weight, reduce=self._window) + self.bias
            return single, slice_dim(frames, axis=self._window, start=1, out_dim=self._past)[0]
        # The past frames are prepended to each sequence, so that its last frames are at its own end.
        frames, whole = concat((past, self._past), (source, axis), allow_broadcast=True)
        out: Any = self.bias
        for index in range(self._window.extent):
            tap, _ = slice_dim(frames, axis=whole, start=index, size=axis)
            out = tap * gather(self.weight, indices=index, axis=self._window) + out
        if not self._past.extent:
            return out, past
        last, _ = slice_dim(frames, axis=whole, start=-self._past.extent, size=self._past)
        return out, last


class LinearRecurrent(Module):
    """The base of layers around a linear recurrence: a subclass defines `_writes` and `_out`. Abstract.

    Probes:
        states: forget_gate and write_gate of a step, as for other units; a loop shows the state.

    Attributes:
        in_dim, out_dim: Features of the input and the output.
        state_dims: Dims of the state apart from its batch dims.
        key_dim: The dim that reading the state contracts, or None.
        conv: The convolution applied to the features first, or None.
    """

    in_dim: Dim
    out_dim: Dim
    state_dims: Dims
    key_dim: Dim | None = None
    conv: ShortConv | None = None

    def _writes(self, source: Tensor, state: State, axis: Dim) -> tuple[Writes, State, Any]:
        """The `Writes` of the frames, the parts of the state apart from the matrix, and the extra values that `_out` takes."""
        raise NotImplementedError(f"{type(self).__name__} does not define _writes.")

    def _out(self, read: Tensor, more: Any) -> Tensor:
        """{..., value} -> {..., out}."""
        raise NotImplementedError(f"{type(self).__name__} does not define _out.")

    @op
    def __call__(self, source: Tensor, *, state: State | None = None, spatial_dim: Dim) -> tuple[Tensor, State]:
        """Run over `spatial_dim`, or one step with `single_step_dim`.

        Args:
            source: {..., spatial_dim, in}
            state: Default: that of `default_initial_state`.
            spatial_dim: Ragged: each sequence stops at its end; later frames are 0.

        Returns:
            {..., spatial_dim, out}, and the state after the last frame of each sequence.

        Raises:
            DimError: If source has no in_dim or no spatial_dim.
            TypeError: One step without a state.
        """
        name, single = type(self).__name__, spatial_dim is single_step_dim
        check_dim(name, source, self.in_dim, "source")
        if not single:
            check_dim(name, source, spatial_dim, "source")
        if state is None:
            if single:
                raise type_error(
                    f"{name}: one step without a state.",
                    {"source": source},
                    "A step continues from the state of the previous step. The first state is made by:",
                    "state = layer.default_initial_state(batch_dims=[batch])",
                )
            batch = [dim for dim in source.dims if dim is not self.in_dim and dim is not spatial_dim]
            state = self.default_initial_state(batch_dims=batch)
        source = source.copy_masked(0)
        writes, more, rest = self._writes(source, state, spatial_dim)
        writes = writes.map(widened)
        if single:
            read, matrix = linear_recurrence.step(_gated(writes), state.matrix, key_dim=self.key_dim)
        elif not spatial_dim.extent:
            shape = (spatial_dim, *(dim for dim in source.dims if dim not in (spatial_dim, self.in_dim)), self.out_dim)
            return zeros(shape, dtype=source.dtype, device=source.device, feature_dim=self.out_dim), state
        else:
            read, matrix = linear_recurrence.over(writes, state.matrix, axis=spatial_dim, key_dim=self.key_dim)
        out = self._out(narrowed(read, source), rest)
        out = out if single else out.copy_masked(0, dims=[spatial_dim])
        out.feature_dim = self.out_dim
        return out, State({**more, "matrix": matrix})

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """Zeros: matrix {*batch_dims, *state_dims}, float32 also in a 16-bit model, and conv {*batch_dims, past,
        channels}, the frames that the window covers.
        """
        like = next(self.parameters())
        made = lambda *dims: zeros((*batch_dims, *dims), dtype=like.dtype, device=like.device)  # noqa: E731
        conv = {} if self.conv is None else {"conv": made(self.conv._past, self.conv.dim)}
        return State(**conv, matrix=widened(made(*self.state_dims)))

    def _convolved(self, source: Tensor, state: State, axis: Dim) -> tuple[Tensor, State]:
        assert self.conv is not None
        out, past = self.conv(source, state.conv, axis=axis)
        order = [*state.conv.dims, *(dim for dim in past.dims if dim not in state.conv.dims)]
        return out, State(conv=past.copy_transpose(order))


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x))."""
    return -log_sigmoid(-x)


def spread(low: float, high: float, *, inverse: bool = False) -> Any:
    """Initial values along the last dim, logarithmically spaced from low to high: their logarithms or, with `inverse`,
    their preimages under softplus.

    Mamba draws the decays and step sizes of its heads from such a range. Here they are spaced evenly, so that a few heads cover all of it.
    """
    return partial(_spread, math.log(low), math.log(high), inverse)


def counted() -> Any:
    """Initial values log(1), log(2), ... along the last dim."""
    return _counted


def _counted(
    dims: Sequence[Dim], dtype: str | None = None, *, sparse_dim: Any = None, device: str | None = None
) -> Tensor:
    return log(range_over_dim(dims[-1], dtype=dtype, device=device) + 1)


def _spread(
    low: float, high: float, inverse: bool, dims: Sequence[Dim], dtype: str | None = None, *, sparse_dim: Any = None,
    device: str | None = None,
) -> Tensor:  # fmt: skip
    index = range_over_dim(dims[-1], dtype=dtype, device=device)
    values = index * ((high - low) / max(dims[-1].extent - 1, 1)) + low
    return log(expm1(exp(values))) if inverse else values


def _gated(writes: Writes) -> Writes:
    """The `Writes` with the effective gates, which are sent to listeners."""
    if not (editing.get() or listening("states")):
        return writes
    gates = gated(forget_gate=exp(writes.log_decay), write_gate=writes.strength)
    if listening("states"):
        offer_gates(gates)
    if not editing.get():
        return writes
    return writes._replace(log_decay=safe_log(gates["forget_gate"]), strength=gates["write_gate"])
