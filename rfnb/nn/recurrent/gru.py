"""GRU units: that of the original paper, and that of torch and cuDNN."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.recurrent.fused_kernels import gru_sequence
from rfnb.nn.recurrent.unit import RecUnit
from rfnb.nn.recurrent.unit_parts import gated, kernel_parts, matrix, product
from rfnb.ops.concat import concat, split
from rfnb.ops.math import sigmoid, tanh
from rfnb.rec.state import State


class KernelAndBias(Module):
    """kernel {in + out, result} (Glorot uniform) and bias {result} for one part of a unit."""

    def __init__(self, in_dim: Dim, result_dim: Dim, *, bias: float = 0.0):
        self.kernel = matrix(in_dim, result_dim)
        self.bias = Parameter((result_dim,))
        self.bias.initial = bias


class GRUCell(RecUnit):
    """Gated recurrent unit that applies the reset gate before the product.

        r, u = split2(sigmoid([x; h] gates.kernel + gates.bias))
        n = tanh([x; r h] candidate.kernel + candidate.bias);  h' = u h + (1 - u) n

    Parameters:
        gates.kernel: {in + out, 2 * out}, Glorot uniform. gates.bias: {2 * out}, one: at first, h is mostly kept.
        candidate.kernel: {in + out, out}, Glorot uniform. candidate.bias: {out}, zero.

    Source: Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder", section 2.3.
    """

    documented_scope = "gru_cell/"

    def __init__(self, in_dim: Dim, out_dim: Dim):
        super().__init__(in_dim, out_dim)
        self.gates = KernelAndBias(in_dim + out_dim, 2 * out_dim, bias=1.0)
        self.candidate = KernelAndBias(in_dim + out_dim, out_dim)
        self._all_dim = Dim(3 * out_dim.extent, name=f"3*{out_dim.name}")

    def transform_input(self, source: Tensor) -> Tensor:
        """The contributions of x to gates and candidate: {..., in} -> {..., 3 * out}."""
        parts = []
        for part in (self.gates, self.candidate):
            forward, _ = kernel_parts(part.kernel, self.in_dim, self.out_dim)
            parts.append((product(source, forward, part.bias, of=self.in_dim), part.bias.dims[0]))
        out, _ = concat(*parts, out_dim=self._all_dim)
        out.feature_dim = self._all_dim
        return out

    def shared(self, state: State) -> Any:
        return [kernel_parts(part.kernel, self.in_dim, self.out_dim)[1] for part in (self.gates, self.candidate)]

    def advance(self, transformed: Tensor, state: State, shared: Any) -> tuple[Tensor, State, Any]:
        out_dim, two = self.out_dim, 2 * self.out_dim
        gates, candidate = split(transformed, axis=self._all_dim, out_dims=[two, out_dim])
        gates = sigmoid(gates + product(state.h, shared[0], of=out_dim))
        r, u = split(gates, axis=two, out_dims=[out_dim, out_dim])
        made = gated(reset_gate=r, update_gate=u)
        r, u = made.values()
        n = tanh(candidate + product(r * state.h, shared[1], of=out_dim))
        h = n + u * (state.h - n)
        h.feature_dim = out_dim
        return h, State(h=h), made


class TorchGRUCell(RecUnit):
    """Gated recurrent unit as in torch and cuDNN, which applies the reset gate after the product.

        r, z, n = split3(x W + b),  rr, rz, rn = split3(h W_re + b_re)
        r, z = sigmoid(r + rr), sigmoid(z + rz);  h' = z h + (1 - z) tanh(n + r rn)

    Parameters:
        W: {in, 3 * out}, Glorot uniform. W_re: {out, 3 * out}, Glorot uniform. b, b_re: {3 * out}, zero.

    Source: Cho et al. 2014, version 1 of the paper at arXiv 1406.1078; documentation of torch.nn.GRU.
    """

    def __init__(self, in_dim: Dim, out_dim: Dim):
        super().__init__(in_dim, out_dim)
        self.W, self.W_re = matrix(in_dim, 3 * out_dim), matrix(out_dim, 3 * out_dim)
        self.b, self.b_re = Parameter((3 * out_dim,)), Parameter((3 * out_dim,))

    def transform_input(self, source: Tensor) -> Tensor:
        """x W + b: {..., in} -> {..., 3 * out}."""
        return product(source, self.W, self.b, of=self.in_dim)

    def advance(self, transformed: Tensor, state: State, shared: Any) -> tuple[Tensor, State, Any]:
        out_dim, three = self.out_dim, 3 * self.out_dim
        r, z, n = split(transformed, axis=three, out_dims=[out_dim] * 3)
        recurrent = product(state.h, self.W_re, self.b_re, of=out_dim)
        recurrent_r, recurrent_z, recurrent_n = split(recurrent, axis=three, out_dims=[out_dim] * 3)
        made = gated(reset_gate=sigmoid(r + recurrent_r), update_gate=sigmoid(z + recurrent_z))
        r, z = made.values()
        n = tanh(n + r * recurrent_n)
        h = n + z * (state.h - n)
        h.feature_dim = out_dim
        return h, State(h=h), made

    def has_kernel(self) -> bool:
        return True

    def run_kernel(self, source: Tensor, state: State, shared: Any, spatial_dim: Dim) -> tuple[Tensor, State]:
        output, h = gru_sequence(
            type(self).__name__, source, state.h, self.W, self.W_re, self.b, self.b_re,
            in_dim=self.in_dim, out_dim=self.out_dim, spatial_dim=spatial_dim,
        )  # fmt: skip
        return output, State(h=h)
