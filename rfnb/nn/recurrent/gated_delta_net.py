"""Gated DeltaNet: a matrix per head that decays as a whole, and is corrected along one key in each step."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.nn.attention.self_attention import one_head_of
from rfnb.nn.linear import Linear
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.normalization import RMSNorm
from rfnb.nn.recurrent.linear_recurrence import Writes
from rfnb.nn.recurrent.linear_recurrent_layer import LinearRecurrent, ShortConv, softplus, spread
from rfnb.ops.concat import split
from rfnb.ops.math import exp, rsqrt, sigmoid, silu
from rfnb.ops.merge import merge_dims, split_dims
from rfnb.ops.reduce import reduce_sum
from rfnb.rec.state import State


class GatedDeltaNet(LinearRecurrent):
    """Linear attention whose state decays by a gate and is corrected by the delta rule.

        q, k, v = silu(conv(x qkv));  q, k of length 1;  a = exp(-exp(log_rate) softplus(x decay + decay_bias));  b = sigmoid(x write)
        S_t = a S_{t-1} (1 - b k k^T) + b v k^T;    y = out(norm(S_t q) silu(x gate))

    Args:
        in_dim, out_dim: Features of the input and the output.
        key_dim_total, value_dim_total: Summed over all heads.
        num_heads: Each head has its own state {key, value}.
        conv_size: Frames that the convolution covers.

    Parameters:
        qkv.weight: {in, qkv}: all queries, keys, values. conv: see `ShortConv`, over qkv.
        decay.weight, write.weight: {in, heads}. gate.weight: {in, value_total}. out.weight: {value_total, out}. All Glorot uniform.
        log_rate: {heads}, the logarithms of 1 to 16. decay_bias: {heads}, for which softplus gives 0.001 to 0.1.
        norm.scale: {value}, one.

    Probes:
        states: see `LinearRecurrent`.

    Source: Yang et al. 2024, "Gated Delta Networks", equation (10) and figure 1.
    """

    def __init__(
        self, in_dim: Dim, out_dim: Dim, *, key_dim_total: Dim, value_dim_total: Dim, num_heads: int | Dim, conv_size: int = 4,
    ):  # fmt: skip
        self.in_dim, self.out_dim = in_dim, out_dim
        self.key_dim_total, self.value_dim_total = key_dim_total, value_dim_total
        self.num_heads = heads = num_heads if isinstance(num_heads, Dim) else Dim(num_heads, name="heads")
        self.key_dim = key_dim = one_head_of(key_dim_total, heads, "key")
        self.value_dim = one_head_of(value_dim_total, heads, "value")
        self.state_dims, self._key = (heads, key_dim, self.value_dim), key_dim
        self._query_dim_total = key_dim_total.copy()
        self._parts = [self._query_dim_total, key_dim_total, value_dim_total]
        self._qkv = Dim(sum(dim.extent for dim in self._parts), name="qkv")
        self.qkv = Linear(in_dim, self._qkv, with_bias=False)
        self.conv = ShortConv(self._qkv, size=conv_size)
        self.decay, self.write = (Linear(in_dim, heads, with_bias=False) for _ in range(2))
        self.log_rate = Parameter((heads,), initial=spread(1.0, 16.0))
        self.decay_bias = Parameter((heads,), initial=spread(0.001, 0.1, inverse=True))
        self.gate = Linear(in_dim, value_dim_total, with_bias=False)
        self.norm = RMSNorm(self.value_dim)
        self.out = Linear(value_dim_total, out_dim, with_bias=False)

    def _writes(self, source: Tensor, state: State, axis: Dim) -> tuple[Writes, State, Any]:
        heads, (qkv, more) = self.num_heads, self._convolved(self.qkv(source), state, axis)
        query, key, value = split(silu(qkv), axis=self._qkv, out_dims=self._parts)
        query = _of_length_1(split_dims(query, axis=self._query_dim_total, dims=(heads, self._key)), self._key)
        key = _of_length_1(split_dims(key, axis=self.key_dim_total, dims=(heads, self._key)), self._key)
        value = split_dims(value, axis=self.value_dim_total, dims=(heads, self.value_dim))
        log_decay = -exp(self.log_rate) * softplus(self.decay(source) + self.decay_bias)
        writes = Writes(log_decay, sigmoid(self.write(source)), value, key, query, delta=True)
        return writes, more, silu(self.gate(source))

    def _out(self, read: Tensor, more: Any) -> Tensor:
        read, _ = merge_dims(self.norm(read), dims=(self.num_heads, self.value_dim), out_dim=self.value_dim_total)
        return self.out(read * more)


def _of_length_1(x: Tensor, axis: Dim) -> Tensor:
    return x * rsqrt(reduce_sum(x * x, axis=axis) + 1e-6)
