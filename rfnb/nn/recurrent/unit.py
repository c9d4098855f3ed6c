"""RecUnit: the interface of recurrent units.

    unit = rf.NativeLstm2(in_dim, out_dim)
    output, state = unit(x, spatial_dim=time)                      # all steps
    output, state = unit(x_t, state=state, spatial_dim=rf.single_step_dim)

Your own unit defines `step`, and `transform_input` for the part that does not need the state:

    class Leaky(rf.RecUnit):
        def __init__(self, in_dim, out_dim):
            super().__init__(in_dim, out_dim)
            self.linear = rf.Linear(in_dim, out_dim)

        def transform_input(self, source):
            return self.linear(source)

        def step(self, transformed, state):
            h = 0.9 * state.h + 0.1 * rf.tanh(transformed)
            return h, rf.State(h=h)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.recurrent.flat_batch import batch_dims_of, check_lengths
from rfnb.nn.recurrent.initial_state import given_state
from rfnb.nn.recurrent.steps import Series, run_steps, split_masks
from rfnb.nn.recurrent.unit_parts import offer_gates
from rfnb.nn.run import run_ctx
from rfnb.ops.const import zeros
from rfnb.ops.defaults import get_default_device, get_default_float_dtype
from rfnb.ops.gradient import stop_gradient_scope
from rfnb.ops.shift import reverse_sequence
from rfnb.rec.hold import holding
from rfnb.rec.state import State
from rfnb.trace.editing import gates_edits
from rfnb.trace.probe import listening, probe


class RecUnit(Module):
    """The base of recurrent units; the documented BaseRNNCell.

    Attributes:
        in_dim, out_dim: Features of the input, and of the output and each part of the state.
        state_parts: Names of the parts of the state, in the documented order.
        documented_scope: Prefix of the documented parameter names, e.g. "lstm_cell/".
    """

    state_parts: tuple[str, ...] = ("h",)
    documented_scope = ""

    def __init__(self, in_dim: Dim, out_dim: Dim):
        self.in_dim, self.out_dim = in_dim, out_dim

    # -- what a unit defines -----------------------------------------------------------------------------------------------
    def transform_input(self, source: Tensor) -> Tensor:
        """The part of a step that does not need the state, for all frames at once: {..., in} -> {..., the input of `step`}."""
        return source

    def step(self, transformed: Tensor, state: State) -> tuple[Tensor, State]:
        """One step: a frame of the result of `transform_input`, and the previous state -> output {..., out}, next state."""
        if type(self).advance is RecUnit.advance:
            raise NotImplementedError(f"{type(self).__name__} does not define step.")
        parts, masks = split_masks(state)
        shared = self.shared(state if masks else State({**state, **self.draw_masks(state[self.state_parts[0]])}))
        output, new, gates = self.advance(transformed, parts, shared)
        if gates and listening("states"):
            offer_gates(gates)
        return output, State({**new, **masks}) if masks else new

    def shared(self, state: State) -> Any:
        """Values that all steps of a call share, e.g. parts of parameters and dropout masks."""
        return None

    def advance(self, transformed: Tensor, state: State, shared: Any) -> tuple[Tensor, State, Series]:
        """A step with the shared values; also returns its gates by name, for recordings."""
        return (*self.step(transformed, state), {})

    def draw_masks(self, like: Tensor) -> State:
        """In training, dropout masks that all steps share; their names end with "_mask". `like`: a part of the state."""
        return State()

    def has_kernel(self) -> bool:
        """Whether `run_kernel` is available."""
        return False

    def run_kernel(self, source: Tensor, state: State, shared: Any, spatial_dim: Dim) -> tuple[Tensor, State]:
        """All steps in one kernel of the backend, forward: source {..., spatial_dim, in} -> output, final state."""
        raise NotImplementedError(f"{type(self).__name__} has no kernel.")

    # -- calls -------------------------------------------------------------------------------------------------------------
    def __call__(
        self, source: Tensor, *, state: Any = None, spatial_dim: Dim, direction: int | None = 1
    ) -> tuple[Tensor, State]:
        """Run over `spatial_dim`, or one step with `single_step_dim`.

        Args:
            source: {..., spatial_dim, in}, or int {..., spatial_dim}, sparse over in: as if it were one-hot.
            state: The parts of the state {..., out} by name, or as a list in order, or the tensor of a single part. Default: zeros.
            spatial_dim: Ragged: each sequence stops at its end; later frames are 0.
            direction: -1: each sequence from its last frame to its first. The output stays where its frame is.

        Returns:
            The output of every step {spatial_dim, ..., out}, and the state after the last step of each sequence.

        Raises:
            DimError: If source has no in_dim or no spatial_dim.
            ValueError: Another direction, -1 for one step, or a state with other parts.

        Probes:
            states: The parts of the state and the gates {spatial_dim, ..., out}; axis. For one step only the gates: a loop shows the state.
        """
        name, single = type(self).__name__, spatial_dim is single_step_dim
        check_direction(name, direction, single=single)
        if source.sparse_dim is not self.in_dim:
            check_dim(name, source, self.in_dim, "source")
        if not single:
            check_dim(name, source, spatial_dim, "source")
        if state is None:
            batch = tuple(dim for dim in source.dims if dim is not self.in_dim and dim is not spatial_dim)
            zero = self._zero(batch, source)
            state = State((part, zero) for part in self.state_parts)
        else:
            state = given_state(name, self.state_parts, state, self.out_dim)
            for part, value in state.items():
                state[part] = _without_padding(value, None)
        # A kernel masks the frames itself; otherwise NaN in padding, of frames or of batch-like dims, would enter the
        # gradient of shared parameters.
        kernel = not single and self.has_kernel() and self.in_dim in source.dims
        source = _without_padding(source, spatial_dim if kernel else None)
        if single:
            return self.step(self.transform_input(source), state)
        return self._sequence(source, state, spatial_dim, -1 if direction == -1 else 1)

    def _sequence(self, source: Tensor, state: State, spatial_dim: Dim, direction: int) -> tuple[Tensor, State]:
        hold = holding()
        if hold is not None and (made := hold.run_unit(self, source, state, spatial_dim, direction)) is not None:
            return made
        if not self.has_kernel() or self.in_dim not in source.dims or gates_edits():
            return self._in_steps(source, state, spatial_dim, direction)
        parts, masks = split_masks(state)
        drawn = masks or self.draw_masks(parts[self.state_parts[0]])
        state = State({**parts, **drawn}) if drawn else parts
        if listening():  # the kernel for all steps does not return gates
            with stop_gradient_scope():
                self._in_steps(source, state, spatial_dim, direction)
        if direction == -1:
            source = reverse_sequence(source, axis=spatial_dim)
        output, final = self.run_kernel(source, state, self.shared(state), spatial_dim)
        if direction == -1:
            output = reverse_sequence(output, axis=spatial_dim)
        return output, State({**final, **masks}) if masks else final

    def _in_steps(self, source: Tensor, state: State, spatial_dim: Dim, direction: int) -> tuple[Tensor, State]:
        """All steps one by one, with their input transformed at once."""
        batch = batch_dims_of(source, state[self.state_parts[0]], skip=(self.in_dim, spatial_dim), out_dim=self.out_dim)
        check_lengths(type(self).__name__, source, spatial_dim, batch)
        transformed, watched = self.transform_input(source), listening()
        output, final, series = run_steps(
            self, transformed, state, batch=batch, spatial_dim=spatial_dim, direction=direction, watched=watched
        )
        if series:
            probe("states", **series, axis=spatial_dim)
        return output, final

    # -- the state ---------------------------------------------------------------------------------------------------------
    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """Zeros {*batch_dims, out}; in training with the dropout masks that all steps share."""
        state = State((part, self._zero(batch_dims, None)) for part in self.state_parts)
        if is_training(type(self)):
            state.update(self.draw_masks(state[self.state_parts[0]]))
        return state

    def _zero(self, batch_dims: Sequence[Dim], source: Tensor | None) -> Tensor:
        like: Any = next(self.parameters(), source)
        dtype, device = get_default_float_dtype(), get_default_device()
        if like is not None:
            dtype, device = like.dtype, like.device
        return zeros((*batch_dims, self.out_dim), dtype=dtype, device=device, feature_dim=self.out_dim)

    # -- parameters --------------------------------------------------------------------------------------------------------
    def documented_parameters(self) -> dict[str, Parameter]:
        """The parameters by their documented names, below the scope "rec" of a layer, e.g. "W_re" or
        "gru_cell/gates/kernel". Kernels are (in, out).
        """
        return {self.documented_scope + name.replace(".", "/"): value for name, value in self.named_parameters()}

    def role_of(self, name: str) -> str:
        """The role of a parameter by its attribute path: "forward" (of the input), "recurrent", "joint" (rows of the input, then of
        the state), "bias", or "" (e.g. the gain of a norm). Initializers use it."""
        return _ROLES.get(name.rpartition(".")[2], "")


_ROLES = {
    "W": "forward", "W_ff": "forward", "W_re": "recurrent", "kernel": "joint", "W_ff_re": "joint",
    "b": "bias", "b_re": "bias", "bias": "bias", "bias_ff": "bias", "bias_ff_re": "bias",
}  # fmt: skip


def _without_padding(value: Tensor, but: Dim | None) -> Tensor:
    """Zeros in the padding of all dims except one."""
    dims = [dim for dim in value.dims if dim is not but and dim.has_padding()]
    return value.copy_masked(0, dims=dims) if dims else value


def is_training(cls: type) -> bool:
    """Whether dropout of units of this class is active."""
    return run_ctx.get_run_ctx().is_train_flag_enabled(func=cls)


def check_direction(what: str, direction: Any, *, single: bool = False) -> None:
    """Raise a ValueError for an invalid direction, or for a single step backward."""
    if direction not in (None, 1, -1) or isinstance(direction, bool):
        raise value_error(
            f"{what}: no direction.",
            {"direction": repr(direction), "known": "None or 1 forward, -1 backward"},
            "A sequence is read from its first frame on, or from its last one back.",
            f"rf.{what}(..., direction=-1)",
        )
    if single and direction == -1:
        raise value_error(
            f"{what}: one step backward.",
            {"direction": direction, "axis": "single_step_dim"},
            "The end of a sequence is only known over its whole dim.",
            f"rf.{what}(..., direction=1)",
        )


def check_size(what: str, name: str, dim: Dim, needed: str, size: int) -> None:
    """Raise a ValueError if a dim has another size."""
    if dim.extent != size:
        raise value_error(
            f"{what}: {name} has another size.",
            [(name, dim), ("needed", f"{needed} = {size}")],
            "The sizes of a unit fit together.",
            f"Dim({size}, name={dim.name!r})",
        )
