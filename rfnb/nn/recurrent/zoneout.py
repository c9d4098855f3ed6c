"""The standard LSTM with zoneout.

`rf.ZoneoutLSTM` of the frontend is the same computation in the layout of `rf.LSTM`; both take `zoneout` from one file.
"""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.nn.recurrent.standard_lstm import StandardLSTMCell
from rfnb.nn.recurrent.unit import RecUnit
from rfnb.nn.recurrent.zoneout_mix import check_zoneout_factors, zoneout
from rfnb.rec.state import State


class ZoneoutLSTMCell(RecUnit):
    """`StandardLSTMCell` with forget bias 1, whose units of c and h in training keep their old value with the probability of
    their factor, drawn anew for each step and unit; else

        c' = (1 - zoneout_factor_cell) c_lstm + zoneout_factor_cell c,   h' = (1 - zoneout_factor_output) h_lstm + ... h

    Args:
        zoneout_factor_cell, zoneout_factor_output: Probabilities for c and h.
        use_zoneout_output: False gives out h_lstm; the state is h' all the same.

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
        """The same as of `StandardLSTMCell`."""
        return self.lstm_cell.transform_input(source)

    def shared(self, state: State) -> Any:
        return self.lstm_cell.shared(state)

    def advance(self, transformed: Tensor, state: State, shared: Any) -> tuple[Tensor, State, Any]:
        output, new, gates = self.lstm_cell.advance(transformed, state, shared)
        c = zoneout(state.c, new.c, self.zoneout_factor_cell, func=ZoneoutLSTMCell)
        h = zoneout(state.h, new.h, self.zoneout_factor_output, func=ZoneoutLSTMCell)
        c.feature_dim = h.feature_dim = self.out_dim
        return h if self.use_zoneout_output else output, State(c=c, h=h), gates
