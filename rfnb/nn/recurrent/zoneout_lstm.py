"""LSTMs whose units randomly keep their previous value: `rf.ZoneoutLSTM`, and the cell `ZoneoutLSTMCell`, the same
computation in another layout.
"""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.recurrent.lstm import LSTM, LstmState
from rfnb.nn.recurrent.standard_lstm import StandardLSTMCell
from rfnb.nn.recurrent.unit import RecUnit
from rfnb.nn.recurrent.unit_parts import check_zoneout_factors, gated, offer_gates, zoneout
from rfnb.ops.concat import split
from rfnb.ops.const import zeros
from rfnb.ops.math import sigmoid, tanh
from rfnb.ops.matmul import matmul
from rfnb.rec.loop import Loop
from rfnb.rec.state import State
from rfnb.trace.probe import listening


class ZoneoutLSTM(LSTM):
    """LSTM with zoneout. In training every unit of c and of h keeps its old value with the probability of its factor; else

        c' = (1 - zoneout_factor_cell) c_lstm + zoneout_factor_cell c,   h' = (1 - zoneout_factor_output) h_lstm + ... h

    Args:
        zoneout_factor_cell, zoneout_factor_output: Probabilities for c and h.
        use_zoneout_output: False outputs h_lstm; the state is still h'.
        forget_bias: Added to the forget gate before its sigmoid.
        parts_order: Order of the gates in the weights: i input, f forget, o output, and c, g or j, the cell's input.

    Parameters:
        ff_weight, rec_weight, bias: as in `LSTM`.

    Raises:
        ValueError: If a factor is not in [0, 1], or parts_order does not have each of the four once.

    Source: Krueger et al. 2017, "Zoneout", section 3.2.
    """

    def __init__(
        self,
        in_dim: Dim,
        out_dim: Dim,
        *,
        with_bias: bool = True,
        zoneout_factor_cell: float = 0.0,
        zoneout_factor_output: float = 0.0,
        use_zoneout_output: bool = True,
        forget_bias: float = 0.0,
        parts_order: str = "ifco",
    ):
        check_zoneout_factors("ZoneoutLSTM", zoneout_factor_cell, zoneout_factor_output)
        if sorted(_gates(parts_order)) != sorted("ifco"):
            rule = "Each of the four gates has its letter once: i, f, o, and c, g or j for the input of the cell."
            fix = 'rf.ZoneoutLSTM(..., parts_order="ifco")'
            raise value_error("ZoneoutLSTM: no order of the gates.", {"parts_order": parts_order}, rule, fix)
        super().__init__(in_dim, out_dim, with_bias=with_bias)
        self.zoneout_factor_cell, self.zoneout_factor_output = zoneout_factor_cell, zoneout_factor_output
        self.use_zoneout_output, self.forget_bias, self.parts_order = use_zoneout_output, forget_bias, parts_order

    def __call__(self, source: Tensor, *, state: LstmState, spatial_dim: Dim) -> tuple[Tensor, LstmState]:
        """Like `LSTM`, but a whole sequence is computed step by step.

        {..., spatial_dim, in} -> {..., spatial_dim, out}, state.
        """
        check_dim("ZoneoutLSTM", source, self.in_dim, "source")
        if spatial_dim is single_step_dim:
            return self._step(source, state)
        check_dim("ZoneoutLSTM", source, spatial_dim, "source")
        if spatial_dim.extent == 0:
            dims = (spatial_dim, *state.h.dims)
            return zeros(dims, dtype=source.dtype, device=source.device, feature_dim=self.out_dim), state
        loop = Loop(axis=spatial_dim)
        loop.state.lstm = state
        for _ in loop:
            out, loop.state.lstm = self._step(loop.unstack(source), loop.state.lstm)
            stacked = loop.stack(out)
        return stacked, loop.state.lstm

    def _step(self, source: Tensor, state: LstmState) -> tuple[Tensor, LstmState]:
        gates = matmul(source, self.ff_weight, reduce=self.in_dim) + matmul(
            state.h, self.rec_weight, reduce=self.out_dim
        )
        gates = gates if self.bias is None else gates + self.bias
        parts = dict(zip(_gates(self.parts_order), split(gates, axis=4 * self.out_dim, out_dims=[self.out_dim] * 4)))
        made = gated(
            input_gate=sigmoid(parts["i"]), forget_gate=sigmoid(parts["f"] + self.forget_bias),
            cell_input=tanh(parts["c"]), output_gate=sigmoid(parts["o"]),
        )  # fmt: skip
        i, f, j, o = made.values()
        c = f * state.c + i * j
        h = o * tanh(c)
        if listening("states"):
            offer_gates(made)
        new = LstmState(
            h=zoneout(state.h, h, self.zoneout_factor_output, func=ZoneoutLSTM),
            c=zoneout(state.c, c, self.zoneout_factor_cell, func=ZoneoutLSTM),
        )
        out = new.h if self.use_zoneout_output else h
        out._feature_dim = self.out_dim
        return out, new


def _gates(parts_order: str) -> str:
    """The order of the gates, with one letter for the cell input, which papers call c, g or j."""
    return parts_order.translate(str.maketrans("gj", "cc"))


class ZoneoutLSTMCell(RecUnit):
    """`StandardLSTMCell` with forget bias 1 and zoneout. In training each unit of c and h keeps its previous value with
    the probability of its factor, drawn for each step and unit; else

        c' = (1 - zoneout_factor_cell) c_lstm + zoneout_factor_cell c,   h' = (1 - zoneout_factor_output) h_lstm + ... h

    Args:
        zoneout_factor_cell, zoneout_factor_output: Probabilities for c and h.
        use_zoneout_output: False outputs h_lstm; the state is still h'.

    Parameters:
        lstm_cell.kernel: {in + out, 4 * out}. lstm_cell.bias: {4 * out}.

    Raises:
        ValueError: If a factor is not in [0, 1].

    Source: Krueger et al. 2017, "Zoneout", section 3.2.
    """

    state_parts = ("c", "h")

    def __init__(
        self, in_dim: Dim, out_dim: Dim, *, zoneout_factor_cell: float = 0.0, zoneout_factor_output: float = 0.0,
        use_zoneout_output: bool = True,
    ):  # fmt: skip
        super().__init__(in_dim, out_dim)
        check_zoneout_factors("ZoneoutLSTMCell", zoneout_factor_cell, zoneout_factor_output)
        self.zoneout_factor_cell, self.zoneout_factor_output = zoneout_factor_cell, zoneout_factor_output
        self.use_zoneout_output = use_zoneout_output
        self.lstm_cell = StandardLSTMCell(in_dim, out_dim)

    def transform_input(self, source: Tensor) -> Tensor:
        """The `transform_input` of `StandardLSTMCell`."""
        return self.lstm_cell.transform_input(source)

    def shared(self, state: State) -> Any:
        return self.lstm_cell.shared(state)

    def advance(self, transformed: Tensor, state: State, shared: Any) -> tuple[Tensor, State, Any]:
        output, new, gates = self.lstm_cell.advance(transformed, state, shared)
        c = zoneout(state.c, new.c, self.zoneout_factor_cell, func=ZoneoutLSTMCell)
        h = zoneout(state.h, new.h, self.zoneout_factor_output, func=ZoneoutLSTMCell)
        c.feature_dim = h.feature_dim = self.out_dim
        return h if self.use_zoneout_output else output, State(c=c, h=h), gates
