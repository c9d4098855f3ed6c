"""Rec: a recurrent unit by name, over a sequence in either direction, or step by step.

encoder = rf.Rec("lstm", in_dim, out_dim, direction=-1)
output, state = encoder(x, axis=time)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tree import map_nested
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.recurrent.initial_state import InitialState
from rfnb.nn.recurrent.initializers import init_parameters
from rfnb.nn.recurrent.native_lstm import NativeLstm
from rfnb.nn.recurrent.unit import RecUnit, check_direction
from rfnb.nn.recurrent.unit_names import make_unit
from rfnb.ops.gradient import stop_gradient
from rfnb.rec.state import State


class WithUnit(Module):
    """A module around a recurrent unit, with its initial state. Abstract."""

    unit: RecUnit
    initial_state: InitialState

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """The initial state of a call without `state`, {*batch_dims, out} per part."""
        zeros = self.unit.default_initial_state(batch_dims=batch_dims)
        return State({**zeros, **self._started(zeros)})

    def _started(self, zeros: State) -> State:
        return self.initial_state(State((part, zeros[part]) for part in self.unit.state_parts))

    def documented_parameters(self) -> dict[str, Parameter]:
        """The parameters by their documented names, below the name of the layer: "rec/W_re", ..."""
        own = {f"rec/{name}": parameter for name, parameter in self.unit.documented_parameters().items()}
        learned = {f"rec/initial_{name}": parameter for name, parameter in self.initial_state.named_parameters()}
        return {**own, **learned}


class Rec(WithUnit):
    """A recurrent unit with a direction and an initial state; the documented RecLayer with a predefined unit.

    Args:
        unit: A documented name ("lstm", "GRU", "StandardLSTMCell", ...; case does not matter), a class derived from
            `RecUnit`, or an instance.
        in_dim, out_dim: Features of the input and the output. May be omitted for an instance.
        direction: None or 1: forward. -1: each sequence from its last frame to its first.
        initial_state: See `InitialState`: None, 0, "zeros"; 1, "ones"; "var"; "keep_over_epoch"; "keep_over_epoch_no_init";
            "placeholder"; a tensor; a dict or list of these for the parts.
        unit_opts: Options of the unit.
        input_projection: False, native LSTM only: the input is x W + b already, of size 4 * out.
        forward_weights_init, recurrent_weights_init, bias_init: See `init_parameters`. Default: Glorot uniform, and 0.
        max_seq_len: With `unroll` only: the maximal allowed length of a sequence.
        unroll: Has no effect except for that check.
        back_prop: False: no gradient flows back through the unit.
        debug, cheating, use_global_rec_step_offset, optimize_move_layers_out: Accepted; they never change a result.

    Raises:
        ValueError: Unknown names, directions and states; a state for the unit "NativeLstm"; max_seq_len without unroll, or unroll
            without max_seq_len.
        TypeError: Options that the unit does not accept.
    """

    def __init__(
        self, unit: str | type[RecUnit] | RecUnit = "lstm", in_dim: Dim | None = None, out_dim: Dim | None = None, *,
        direction: int | None = None, initial_state: Any = None, unit_opts: dict[str, Any] | None = None,
        input_projection: bool = True, forward_weights_init: Any = None, recurrent_weights_init: Any = None,
        bias_init: Any = None, max_seq_len: int | None = None, unroll: bool = False, back_prop: bool | None = None,
        debug: bool | None = None, cheating: bool = False, use_global_rec_step_offset: bool = False,
        optimize_move_layers_out: bool | None = None,
    ):  # fmt: skip
        check_direction("Rec", direction)
        options = dict(unit_opts or {})
        if not input_projection:
            options["input_projection"] = False
        _check_unroll(max_seq_len, unroll)
        self.unit = make_unit(unit, in_dim, out_dim, options, what="Rec")
        self.in_dim, self.out_dim, self.direction = self.unit.in_dim, self.unit.out_dim, direction
        if isinstance(self.unit, NativeLstm) and initial_state is not None:
            raise value_error(
                "Rec: an initial state for NativeLstm.",
                {"initial_state": repr(initial_state)},
                "This version starts from zeros. The same with a state:",
                'rf.Rec("NativeLstm2", ...)',
            )
        self.initial_state = InitialState("Rec", initial_state, parts=self.unit.state_parts, out_dim=self.out_dim)
        self._from_zeros = self.initial_state.is_zero
        init_parameters(self.unit, forward=forward_weights_init, recurrent=recurrent_weights_init, bias=bias_init)
        self.max_seq_len, self.back_prop = max_seq_len, back_prop

    def __call__(self, source: Tensor, *, axis: Dim, state: Any = None) -> tuple[Tensor, State]:
        """Run over `axis`, or one step with `single_step_dim`.

        Args:
            source: {..., axis, in}, or int {..., axis}, sparse over in: as if it were one-hot.
            axis: Ragged: each sequence stops at its end; later frames are 0.
            state: The state before the first step, instead of the initial one. In a loop: that of the previous step.

        Returns:
            The output {axis, ..., out}, and the state after the last step of each sequence: its parts {..., out} by name.

        Raises:
            DimError: If source has no in_dim or no axis.
            ValueError: If the axis is longer than max_seq_len, the direction is -1 for a single step, the state has other parts, or
                is missing with initial_state="placeholder".
        """
        if self.max_seq_len is not None and axis is not single_step_dim and axis.extent > self.max_seq_len:
            raise value_error(
                "Rec: longer than max_seq_len.",
                {"axis": axis, "max_seq_len": self.max_seq_len},
                "An unrolled recurrence has the given number of steps.",
                f"rf.Rec(..., unroll=True, max_seq_len={axis.extent})",
            )
        if state is None and not self._from_zeros:
            zeros = self.unit.default_initial_state(batch_dims=[d for d in source.dims if d not in (self.in_dim, axis)])
            state = self._started(zeros)
        output, final = self.unit(source, state=state, spatial_dim=axis, direction=self.direction)
        if self.back_prop is False:
            output = stop_gradient(output)
            final = map_nested(stop_gradient, final)
        self.initial_state.keep(final)
        return output, final


def _check_unroll(max_seq_len: int | None, unroll: bool) -> None:
    if unroll == (max_seq_len is not None):
        return
    rows = [("unroll", unroll), ("max_seq_len", max_seq_len)]
    if unroll:
        what, rule, fix = "unroll without max_seq_len", "State the number of steps.", "max_seq_len=100"
    else:
        what, rule, fix = (
            "max_seq_len without unroll",
            "The input determines how long a predefined unit runs.",
            "unroll=True",
        )
    raise value_error(f"Rec: {what}.", rows, rule, f"rf.Rec(..., {fix})")
