"""The simple recurrent network."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.recurrent.fused import rnn_sequence
from rfnb.nn.recurrent.unit import RecUnit
from rfnb.nn.recurrent.unit_parts import kernel_parts, matrix, product
from rfnb.ops.cast import cast
from rfnb.ops.math import tanh
from rfnb.rec.state import State


class BasicRNNCell(RecUnit):
    """h' = tanh([x; h] kernel + bias).

    Parameters:
        kernel: {in + out, out}, Glorot uniform. bias: {out}, zero.

    Source: Elman 1990, "Finding Structure in Time".
    """

    documented_scope = "basic_rnn_cell/"

    def __init__(self, in_dim: Dim, out_dim: Dim):
        super().__init__(in_dim, out_dim)
        self.kernel = matrix(in_dim + out_dim, out_dim)
        self.bias = Parameter((out_dim,))

    def transform_input(self, source: Tensor) -> Tensor:
        """x kernel[:in] + bias: {..., in} -> {..., out}."""
        return product(source, kernel_parts(self.kernel, self.in_dim, self.out_dim)[0], self.bias, of=self.in_dim)

    def shared(self, state: State) -> Tensor:
        return kernel_parts(self.kernel, self.in_dim, self.out_dim)[1]

    def advance(self, transformed: Tensor, state: State, shared: Tensor) -> tuple[Tensor, State, Any]:
        h = tanh(transformed + product(state.h, shared, of=self.out_dim))
        if h.dtype != state.h.dtype:  # in mixed precision products are of 16 bits, the state is not
            h = cast(h, state.h.dtype)
        h.feature_dim = self.out_dim
        return h, State(h=h), {}

    def has_kernel(self) -> bool:
        return True

    def run_kernel(self, source: Tensor, state: State, shared: Tensor, spatial_dim: Dim) -> tuple[Tensor, State]:
        forward, _ = kernel_parts(self.kernel, self.in_dim, self.out_dim)
        output, h = rnn_sequence(
            type(self).__name__, source, state.h, forward, shared, self.bias,
            in_dim=self.in_dim, out_dim=self.out_dim, spatial_dim=spatial_dim,
        )  # fmt: skip
        return output, State(h=h)
