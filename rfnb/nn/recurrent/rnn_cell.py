"""RnnCell: one step of a recurrent unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import dim_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.nn.recurrent.initial_state import InitialState
from rfnb.nn.recurrent.initializers import init_parameters
from rfnb.nn.recurrent.native_lstm import NativeLstm
from rfnb.nn.recurrent.rec import WithUnit
from rfnb.nn.recurrent.unit import RecUnit
from rfnb.nn.recurrent.unit_names import make_unit
from rfnb.ops.concat import concat
from rfnb.ops.dims import replace_dim
from rfnb.rec.loop import Loop
from rfnb.rec.state import State


class RnnCell(WithUnit):
    """One step of a recurrent unit; the documented RnnCellLayer.

        loop.state.s = cell.default_initial_state(batch_dims=[batch])
        for _ in loop:
            output, loop.state.s = cell([loop.unstack(x), context], state=loop.state.s)

    Args:
        unit: See `Rec`. "LSTMBlock", "LSTMBlockFused" and "CudnnLSTM" are the standard LSTM here.
        in_dim: Features of the input, summed over several sources.
        unit_opts: Options of the unit.
        initial_state: See `Rec`.
        weights_init: Initial values of all matrices, see `init_parameters`.

    Raises:
        ValueError: As in `Rec`; and for "NativeLstm", which has no single steps.
    """

    def __init__(
        self, unit: str | type[RecUnit] | RecUnit, in_dim: Dim | None = None, out_dim: Dim | None = None, *,
        unit_opts: dict[str, Any] | None = None, initial_state: Any = None, weights_init: Any = "glorot",
    ):  # fmt: skip
        made = isinstance(unit, RecUnit)
        self.unit = make_unit(unit, in_dim, out_dim, unit_opts, what="RnnCell", in_steps=True)
        if isinstance(self.unit, NativeLstm):
            raise value_error(
                "RnnCell: NativeLstm makes no single steps.",
                {"unit": repr(unit)},
                "It runs over whole sequences. The same step by step:",
                'rf.RnnCell("NativeLstm2", ...)',
            )
        self.in_dim, self.out_dim = self.unit.in_dim, self.unit.out_dim
        self.initial_state = InitialState("RnnCell", initial_state, parts=self.unit.state_parts, out_dim=self.out_dim)
        if not made and weights_init not in ("glorot", None):  # "glorot" is the default of the units
            init_parameters(self.unit, forward=weights_init, recurrent=weights_init)

    def __call__(
        self, source: Tensor | Sequence[Tensor], *, state: Any = None, axis: Dim = single_step_dim
    ) -> tuple[Tensor, State]:
        """One step, or all steps over `axis`, forward.

        Args:
            source: {..., in}, or several whose features are concatenated in this order.
            state: That of the previous step. Default: the initial state.

        Returns:
            The output {..., out}, and the next state.

        Raises:
            DimError: If source has no in_dim, or, in a loop, still has the dim of the loop.
        """
        joined = source if isinstance(source, Tensor) else self._joined(source)
        loop = Loop.current()
        if axis is single_step_dim and loop is not None and loop.axis in joined.dims:
            raise dim_error(
                f'RnnCell: the source of a step still has the dim of loop "{loop.name}".',
                {"source": joined},
                "A step gets one frame.",
                "x_t = loop.unstack(x)",
            )
        if state is None:
            batch = [dim for dim in joined.dims if dim is not self.in_dim and dim is not axis]
            state = self.default_initial_state(batch_dims=batch)
        output, final = self.unit(joined, state=state, spatial_dim=axis)
        self.initial_state.keep(final)
        return output, final

    def _joined(self, sources: Sequence[Tensor]) -> Tensor:
        if len(sources) == 1:
            return sources[0]
        lacking = [source for source in sources if source.feature_dim is None]
        if lacking:
            raise dim_error(
                "RnnCell: a source without feature_dim.",
                {"source": lacking[0]},
                "Of several sources the features are concatenated.",
                "source.feature_dim = feat",
            )
        parts: list[Any] = [(source, source.feature_dim) for source in sources]
        out, dim = concat(*parts, allow_broadcast=True)
        return out if dim is self.in_dim else replace_dim(out, in_dim=dim, out_dim=self.in_dim)[0]
