"""The native LSTM: an input matrix, a recurrent matrix, and the gates in the order j, i, f, o."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dim import Dim, Dims, single_step_dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.recurrent.fused_kernels import lstm_sequence
from rfnb.nn.recurrent.unit import RecUnit, check_size, is_training
from rfnb.nn.recurrent.unit_parts import lstm_update, matrix, product
from rfnb.ops.const import ones_like
from rfnb.ops.dims import replace_dim
from rfnb.ops.random import drop
from rfnb.rec.state import State


class NativeLstm2(RecUnit):
    """LSTM; also known as VanillaLSTMCell.

        j, i, f, o = split4(x W + h W_re + b);  c' = sigmoid(f) c + sigmoid(i) tanh(j);  h' = sigmoid(o) tanh(c')

    Args:
        input_projection: False: no W and b, the input {..., 4 * out} is x W + b itself.
        rec_weight_dropout: In training each entry of W_re is 0 with this probability, for a whole call; the rest is scaled up.
        rec_weight_dropout_shape: (out, 4 * out), where a 1 means that entries along this axis are dropped together.
        forget_bias: 0. A bias of the forget gate is part of `b`.

    Parameters:
        W: {in, 4 * out}, Glorot uniform. W_re: {out, 4 * out}, Glorot uniform. b: {4 * out}, zero.

    Raises:
        ValueError: If an option is out of its range, or in_dim is not 4 * out without input projection.

    Source: Hochreiter and Schmidhuber 1997; with forget gate, Gers et al. 2000; rec_weight_dropout: Merity et al. 2018,
    "Regularizing and Optimizing LSTM Language Models", section 2.
    """

    state_parts: tuple[str, ...] = ("c", "h")
    order = "jifo"

    def __init__(
        self, in_dim: Dim, out_dim: Dim, *, input_projection: bool = True, rec_weight_dropout: float = 0.0,
        rec_weight_dropout_shape: Sequence[int | None] | None = None, forget_bias: float = 0.0,
    ):  # fmt: skip
        super().__init__(in_dim, out_dim)
        what = type(self).__name__
        if forget_bias:
            raise value_error(
                f"{what}: a forget bias.",
                {"forget_bias": forget_bias},
                "The bias of this unit is a parameter of its own. Start it with another value:",
                "unit.b.assign(...)      # the gates are in the order j, i, f, o",
            )
        if not 0 <= rec_weight_dropout < 1:
            raise value_error(
                f"{what}: no probability to drop a weight.",
                {"rec_weight_dropout": rec_weight_dropout},
                "A probability from 0 up to, not including, 1.",
                f"rf.{what}(..., rec_weight_dropout=0.1)",
            )
        gates = 4 * out_dim
        self.rec_weight_dropout, self.input_projection = rec_weight_dropout, input_projection
        self.W: Parameter | None = None
        self.b: Parameter | None = None
        if input_projection:
            self.W, self.b = matrix(in_dim, gates), Parameter((gates,))
        else:
            check_size(f"{what}(input_projection=False)", "in_dim", in_dim, "4 * out_dim", gates.extent)
        self.W_re = matrix(out_dim, gates)
        self._drop_axes = _free_axes(what, self.W_re.dims, rec_weight_dropout_shape)

    def transform_input(self, source: Tensor) -> Tensor:
        """x W + b: {..., in} -> {..., 4 * out}."""
        if self.W is not None:
            return product(source, self.W, self.b, of=self.in_dim)
        check_dim("NativeLstm2(input_projection=False)", source, self.in_dim, "source")
        gates = 4 * self.out_dim
        out = source if self.in_dim is gates else replace_dim(source, in_dim=self.in_dim, out_dim=gates)[0]
        out.feature_dim = gates
        return out

    def draw_masks(self, like: Tensor) -> State:
        if not self.rec_weight_dropout or not is_training(type(self)):
            return State()
        return State(W_re_mask=drop(ones_like(self.W_re), self.rec_weight_dropout, axis=self._drop_axes))

    def shared(self, state: State) -> Tensor:
        return self.W_re * state.W_re_mask if "W_re_mask" in state else self.W_re

    def advance(self, transformed: Tensor, state: State, shared: Tensor) -> tuple[Tensor, State, Any]:
        gates = transformed + product(state.h, shared, of=self.out_dim)
        return lstm_update(gates, state.c, order=self.order, out_dim=self.out_dim)

    def has_kernel(self) -> bool:
        return self.W is not None

    def run_kernel(self, source: Tensor, state: State, shared: Tensor, spatial_dim: Dim) -> tuple[Tensor, State]:
        assert self.W is not None and self.b is not None
        output, h, c = lstm_sequence(
            type(self).__name__, source, state.h, state.c, self.W, shared, self.b, order=self.order,
            forget_bias=0.0, in_dim=self.in_dim, out_dim=self.out_dim, spatial_dim=spatial_dim,
        )  # fmt: skip
        return output, State(c=c, h=h)


VanillaLSTMCell = NativeLstm2


class NativeLstm(NativeLstm2):
    """The first version of `NativeLstm2`: the same computation, but only over whole sequences, from zeros, with only c as its state.

    Raises:
        ValueError: For a single step, or if a state is passed.
    """

    def __call__(
        self, source: Tensor, *, state: Any = None, spatial_dim: Dim, direction: int | None = 1
    ) -> tuple[Tensor, State]:
        """`NativeLstm2` without an initial state: {..., spatial_dim, in} -> {spatial_dim, ..., out}, and only c as the final state."""
        if state is not None or spatial_dim is single_step_dim:
            raise value_error(
                "NativeLstm: an initial state." if state is not None else "NativeLstm: a single step.",
                {"spatial_dim": spatial_dim, "state": "None" if state is None else "given"},
                "This version runs over whole sequences, from zeros. The same with a state:",
                "rf.NativeLstm2(in_dim, out_dim)",
            )
        output, final = super().__call__(source, spatial_dim=spatial_dim, direction=direction)
        return output, State(c=final.c)


def _free_axes(what: str, dims: Dims, shape: Sequence[int | None] | None) -> list[Dim]:
    """The dims of W_re along which entries are dropped independently."""
    if shape is None:
        return list(dims)
    sizes = [dim.extent for dim in dims]
    if len(shape) != 2 or any(size not in (None, 1, full) for size, full in zip(shape, sizes)):
        raise value_error(
            f"{what}: rec_weight_dropout_shape has another size.",
            {"shape": tuple(shape), "W_re": tuple(sizes)},
            "Each entry is that of W_re (or None), or 1 where the entries are dropped together.",
            f"rf.{what}(..., rec_weight_dropout_shape=({sizes[0]}, 1))",
        )
    return [dim for dim, size in zip(dims, shape) if size != 1]
