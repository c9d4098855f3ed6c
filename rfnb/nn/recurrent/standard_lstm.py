"""Units with one kernel for input and state: the standard LSTM, which adds a constant to its forget gate, and the simple RNN."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.recurrent.fused_kernels import lstm_sequence, rnn_sequence
from rfnb.nn.recurrent.unit import RecUnit
from rfnb.nn.recurrent.unit_parts import kernel_parts, lstm_update, matrix, product
from rfnb.ops.cast import cast
from rfnb.ops.math import tanh
from rfnb.rec.state import State


class _OneKernel(RecUnit):
    """A unit with one `kernel` {in + out, blocks} for input and state, and a `bias` {blocks}."""

    kernel: Parameter
    bias: Parameter

    def transform_input(self, source: Tensor) -> Tensor:
        """x kernel[:in] + bias: {..., in} -> {..., blocks}."""
        return product(source, kernel_parts(self.kernel, self.in_dim, self.out_dim)[0], self.bias, of=self.in_dim)

    def shared(self, state: State) -> Tensor:
        return kernel_parts(self.kernel, self.in_dim, self.out_dim)[1]

    def has_kernel(self) -> bool:
        return True


class StandardLSTMCell(_OneKernel):
    """LSTM with one kernel for input and state.

        i, j, f, o = split4([x; h] kernel + bias)
        c' = sigmoid(f + forget_bias) c + sigmoid(i) tanh(j);  h' = sigmoid(o) tanh(c')

    Args:
        forget_bias: Added to f in every step, not part of the bias. Default 1: at first, c is mostly kept.

    Parameters:
        kernel: {in + out, 4 * out}, Glorot uniform. bias: {4 * out}, zero.

    Source: Hochreiter and Schmidhuber 1997; forget_bias: Jozefowicz et al. 2015, "An Empirical Exploration of Recurrent Network
    Architectures", section 2.2.
    """

    state_parts = ("c", "h")
    documented_scope = "lstm_cell/"
    order = "ijfo"

    def __init__(self, in_dim: Dim, out_dim: Dim, *, forget_bias: float = 1.0):
        super().__init__(in_dim, out_dim)
        self.forget_bias = forget_bias
        self.kernel = matrix(in_dim + out_dim, 4 * out_dim)
        self.bias = Parameter((4 * out_dim,))

    def advance(self, transformed: Tensor, state: State, shared: Tensor) -> tuple[Tensor, State, Any]:
        gates = transformed + product(state.h, shared, of=self.out_dim)
        return lstm_update(gates, state.c, order=self.order, out_dim=self.out_dim, forget_bias=self.forget_bias)

    def run_kernel(self, source: Tensor, state: State, shared: Tensor, spatial_dim: Dim) -> tuple[Tensor, State]:
        forward, _ = kernel_parts(self.kernel, self.in_dim, self.out_dim)
        output, h, c = lstm_sequence(
            type(self).__name__, source, state.h, state.c, forward, shared, self.bias, order=self.order,
            forget_bias=self.forget_bias, in_dim=self.in_dim, out_dim=self.out_dim, spatial_dim=spatial_dim,
        )  # fmt: skip
        return output, State(c=c, h=h)


class BasicLSTMCell(StandardLSTMCell):
    """`StandardLSTMCell` under another name; the documented scope of its parameters is "basic_lstm_cell"."""

    documented_scope = "basic_lstm_cell/"


class BasicRNNCell(_OneKernel):
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

    def advance(self, transformed: Tensor, state: State, shared: Tensor) -> tuple[Tensor, State, Any]:
        h = tanh(transformed + product(state.h, shared, of=self.out_dim))
        if h.dtype != state.h.dtype:  # in mixed precision products have 16 bits, the state does not
            h = cast(h, state.h.dtype)
        h.feature_dim = self.out_dim
        return h, State(h=h), {}

    def run_kernel(self, source: Tensor, state: State, shared: Tensor, spatial_dim: Dim) -> tuple[Tensor, State]:
        forward, _ = kernel_parts(self.kernel, self.in_dim, self.out_dim)
        output, h = rnn_sequence(
            type(self).__name__, source, state.h, forward, shared, self.bias,
            in_dim=self.in_dim, out_dim=self.out_dim, spatial_dim=spatial_dim,
        )  # fmt: skip
        return output, State(h=h)
