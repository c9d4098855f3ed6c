"""Mamba, Mamba-2 and RG-LRU: input-dependent linear recurrences per feature or per head."""

from __future__ import annotations

import math
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.nn.attention.self_attention import one_head_of
from rfnb.nn.linear import Linear
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.normalization import RMSNorm
from rfnb.nn.recurrent.linear_recurrence import Writes
from rfnb.nn.recurrent.linear_recurrent_layer import LinearRecurrent, ShortConv, counted, softplus, spread
from rfnb.ops.concat import split
from rfnb.ops.dims import replace_dim
from rfnb.ops.math import exp, sigmoid, silu, sqrt
from rfnb.ops.merge import merge_dims, split_dims
from rfnb.rec.state import State


class Mamba(LinearRecurrent):
    """Selective state space model: each inner feature has a state of `state_dim` numbers.

        u = silu(conv(x input));  r, B, C = u select;  d = softplus(r step);  A = -exp(log_rate)
        S_t = exp(d A) S_{t-1} + d u B;    y = out((S_t . C + skip u) silu(x gate))

    Args:
        in_dim, out_dim: Features of the input and the output.
        inner_dim: The features that have states; usually twice in_dim.
        state_dim: Size of the state of each inner feature.
        step_rank: Rank of the matrix that computes step sizes. Default: in_dim / 16, rounded up.
        conv_size: Frames that the convolution covers.

    Parameters:
        input.weight, gate.weight: {in, inner}. conv: see `ShortConv`, over inner. select.weight: {inner, step_rank + 2 * state}: r, B, C.
        step.weight: {step_rank, inner}. out.weight: {inner, out}. All Glorot uniform. step.bias: {inner}, for which softplus gives
        0.001 to 0.1. log_rate: {inner, state}, the logarithms of 1, 2, ... state. skip: {inner}, one.

    Probes:
        states: see `LinearRecurrent`.

    Source: Gu and Dao 2023, "Mamba", algorithm 2 and section 3.6.
    """

    def __init__(
        self, in_dim: Dim, out_dim: Dim, *, inner_dim: Dim, state_dim: Dim, step_rank: int | Dim | None = None, conv_size: int = 4,
    ):  # fmt: skip
        self.in_dim, self.out_dim, self.inner_dim, self.key_dim = in_dim, out_dim, inner_dim, state_dim
        self.state_dims = inner_dim, state_dim
        rank = -(-in_dim.extent // 16) if step_rank is None else step_rank
        self._parts = [rank if isinstance(rank, Dim) else Dim(rank, name="step_rank"), state_dim.copy(), state_dim]
        self.input, self.gate = (Linear(in_dim, inner_dim, with_bias=False) for _ in range(2))
        self.conv = ShortConv(inner_dim, size=conv_size)
        self._selected = Dim(sum(dim.extent for dim in self._parts), name="selected")
        self.select = Linear(inner_dim, self._selected, with_bias=False)
        self.step = _step(self._parts[0], inner_dim)
        self.log_rate = Parameter((inner_dim, state_dim), initial=counted())
        self.skip = Parameter((inner_dim,), initial=1.0)
        self.out = Linear(inner_dim, out_dim, with_bias=False)

    def _writes(self, source: Tensor, state: State, axis: Dim) -> tuple[Writes, State, Any]:
        u, more = self._convolved(self.input(source), state, axis)
        u = silu(u)
        rank, key, query = split(self.select(u), axis=self._selected, out_dims=self._parts)
        key, _ = replace_dim(key, in_dim=self._parts[1], out_dim=self.key_dim)
        step = softplus(self.step(rank))
        return Writes(-step * exp(self.log_rate), step, u, key, query), more, (u, silu(self.gate(source)))

    def _out(self, read: Tensor, more: Any) -> Tensor:
        u, gate = more
        return self.out((read + self.skip * u) * gate)


class Mamba2(LinearRecurrent):
    """State space duality: each head has a matrix {state, feature} that decays as a whole.

        u, B, C = silu(conv(x uBC));  d = softplus(x step + step.bias);  a = exp(-d exp(log_rate))
        S_t = a S_{t-1} + d B u^T;    y = out(norm((S_t^T C + skip u) silu(x gate)))

    Args:
        in_dim, out_dim: Features of the input and the output.
        inner_dim: Features of all heads; usually twice in_dim.
        state_dim: The dim of B and C, which all heads share.
        num_heads: Each head has its own state {state, inner of a head}.
        conv_size: Frames that the convolution covers.

    Parameters:
        uBC.weight: {in, inner + 2 * state}. conv: see `ShortConv`, over these. step.weight: {in, heads}. gate.weight: {in, inner}.
        out.weight: {inner, out}. All Glorot uniform. step.bias: {heads}, for which softplus gives 0.001 to 0.1.
        log_rate: {heads}, the logarithms of 1 to 16. skip: {heads}, one. norm.scale: {inner}, one.

    Probes:
        states: see `LinearRecurrent`.

    Source: Dao and Gu 2024, "Transformers are SSMs", section 7.1 and figure 6, with one group of heads.
    """

    def __init__(
        self, in_dim: Dim, out_dim: Dim, *, inner_dim: Dim, state_dim: Dim, num_heads: int | Dim, conv_size: int = 4
    ):
        self.in_dim, self.out_dim, self.inner_dim, self.key_dim = in_dim, out_dim, inner_dim, state_dim
        self.num_heads = heads = num_heads if isinstance(num_heads, Dim) else Dim(num_heads, name="heads")
        self.value_dim = one_head_of(inner_dim, heads, "inner")
        self.state_dims = heads, state_dim, self.value_dim
        self._parts = [inner_dim, state_dim.copy(), state_dim]
        self._ubc = Dim(sum(dim.extent for dim in self._parts), name="uBC")
        self.uBC = Linear(in_dim, self._ubc, with_bias=False)
        self.conv = ShortConv(self._ubc, size=conv_size)
        self.step = _step(in_dim, heads)
        self.log_rate = Parameter((heads,), initial=spread(1.0, 16.0))
        self.skip = Parameter((heads,), initial=1.0)
        self.gate = Linear(in_dim, inner_dim, with_bias=False)
        self.norm = RMSNorm(inner_dim)
        self.out = Linear(inner_dim, out_dim, with_bias=False)

    def _writes(self, source: Tensor, state: State, axis: Dim) -> tuple[Writes, State, Any]:
        ubc, more = self._convolved(self.uBC(source), state, axis)
        u, key, query = split(silu(ubc), axis=self._ubc, out_dims=self._parts)
        key, _ = replace_dim(key, in_dim=self._parts[1], out_dim=self.key_dim)
        u = split_dims(u, axis=self.inner_dim, dims=(self.num_heads, self.value_dim))
        step = softplus(self.step(source))
        return Writes(-step * exp(self.log_rate), step, u, key, query), more, (u, silu(self.gate(source)))

    def _out(self, read: Tensor, more: Any) -> Tensor:
        u, gate = more
        read = read + self.skip * u
        read, _ = merge_dims(read, dims=(self.num_heads, self.value_dim), out_dim=self.inner_dim)
        return self.out(self.norm(read * gate))


class RGLRU(LinearRecurrent):
    """Real-gated linear recurrent unit: a vector whose entries decay independently.

        r = sigmoid(x forget);  i = sigmoid(x input);  a = exp(-8 softplus(rate) r);    h_t = a h_{t-1} + sqrt(1 - a^2) i x

    Args:
        dim: Features of the input, the output and the state.

    Parameters:
        forget.weight, input.weight: {dim, dim}, Glorot uniform, and their bias: {dim}, zero.
        rate: {dim}, for which a is 0.9 to 0.999 where r = 1.

    Probes:
        states: see `LinearRecurrent`.

    Source: De et al. 2024, "Griffin", section 2.4.
    """

    def __init__(self, dim: Dim):
        self.in_dim = self.out_dim = dim
        self.state_dims = (dim,)
        self.forget, self.input = Linear(dim, dim), Linear(dim, dim)
        slow, fast = (-math.log(kept) / 8 for kept in (0.999, 0.9))
        self.rate = Parameter((dim,), initial=spread(slow, fast, inverse=True))

    def _writes(self, source: Tensor, state: State, axis: Dim) -> tuple[Writes, State, Any]:
        log_decay = -8.0 * softplus(self.rate) * sigmoid(self.forget(source))
        strength = sqrt(1.0 - exp(2.0 * log_decay)) * sigmoid(self.input(source))
        return Writes(log_decay, strength, source), State(), None

    def _out(self, read: Tensor, more: Any) -> Tensor:
        return read


def _step(in_dim: Dim, out_dim: Dim) -> Linear:
    """The layer that computes step sizes, initially 0.001 to 0.1."""
    made = Linear(in_dim, out_dim)
    assert made.bias is not None
    made.bias.initial = spread(0.001, 0.1, inverse=True)
    return made
