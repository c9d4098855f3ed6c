"""RecUnit: what a recurrent unit is.

    unit = rf.NativeLstm2(in_dim, out_dim)
    output, state = unit(x, spatial_dim=time)                      # all steps
    output, state = unit(x_t, state=state, spatial_dim=rf.single_step_dim)

A unit of your own defines `step`, and `transform_input` for what of it needs no state:

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
from rfnb.core.tensor_text import missing_dim
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.recurrent.flat_batch import batch_dims_of, check_lengths
from rfnb.nn.recurrent.initial_state import given_state
from rfnb.nn.recurrent.steps import Series, run_steps, split_masks
from rfnb.nn.recurrent.unit_parts import offer_gates
from rfnb.nn.run import run_ctx
from rfnb.ops.const import zeros
from rfnb.ops.default import get_default_device, get_default_float_dtype
from rfnb.ops.gradient import stop_gradient_scope
from rfnb.ops.shift import reverse_sequence
from rfnb.rec.state import State
from rfnb.trace.editing import gates_edits
from rfnb.trace.probe import listening, probe


class RecUnit(Module):
    """The base of recurrent units; the documented BaseRNNCell.

    Attributes:
        in_dim, out_dim: Of the frames, and of the output and each part of the state.
        state_parts: Names of the parts of the state, in the documented order.
        documented_scope: What stands before the documented names of the parameters, e.g. "lstm_cell/".
    """

    state_parts: tuple[str, ...] = ("h",)
    documented_scope = ""

    def __init__(self, in_dim: Dim, out_dim: Dim):
        self.in_dim, self.out_dim = in_dim, out_dim

    # -- what a unit defines -----------------------------------------------------------------------------------------------
    def transform_input(self, source: Tensor) -> Tensor:
        """{..., in} -> {..., whatever the step takes}: the part of a step that needs no state, for all frames at once."""
        return source

    def step(self, transformed: Tensor, state: State) -> tuple[Tensor, State]:
        """One step: a frame of what `transform_input` gives, and the previous state -> output {..., out}, next state."""
        if type(self).advance is RecUnit.advance:
            raise NotImplementedError(f"{type(self).__name__} does not define step.")
        parts, masks = split_masks(state)
        shared = self.shared(state if masks else State({**state, **self.draw_masks(state[self.state_parts[0]])}))
        output, new, gates = self.advance(transformed, parts, shared)
        if gates and listening("states"):
            offer_gates(gates)
        return output, State({**new, **masks}) if masks else new

    def shared(self, state: State) -> Any:
        """The values that all steps of a call have in common, e.g. parts of parameters and masks of dropout."""
        return None

    def advance(self, transformed: Tensor, state: State, shared: Any) -> tuple[Tensor, State, Series]:
        """A step with what is common to all steps; also gives its gates by name, for who looks."""
        return (*self.step(transformed, state), {})

    def draw_masks(self, like: Tensor) -> State:
        """In training: masks that stay the same in all steps; their names end with "_mask". `like`: a part of the state."""
        return State()

    def has_kernel(self) -> bool:
        """Whether `run_kernel` is there for all steps at once."""
        return False

    def run_kernel(self, source: Tensor, state: State, shared: Any, spatial_dim: Dim) -> tuple[Tensor, State]:
        """All steps in a kernel of the backend, forward: source {..., spatial_dim, in} -> output, final state."""
        raise NotImplementedError(f"{type(self).__name__} has no kernel.")

    # -- calls -------------------------------------------------------------------------------------------------------------
    def __call__(
        self, source: Tensor, *, state: Any = None, spatial_dim: Dim, direction: int | None = 1
    ) -> tuple[Tensor, State]:
        """Run over `spatial_dim`, or one step with `single_step_dim`.

        Args:
            source: {..., spatial_dim, in}, or int {..., spatial_dim}, sparse over in: as if it were one-hot.
            state: The parts of the state {..., out} by name, or as list in order; a single part alone. Default: zeros.
            spatial_dim: Ragged: each sequence stops at its end, what comes after is 0.
            direction: -1: each sequence from its last frame to its first. The output stays where its frame is.

        Returns:
            The output of every step {spatial_dim, ..., out}, and the state after each sequence's last step.

        Raises:
            DimError: If source has no in_dim or no spatial_dim.
            ValueError: Another direction, -1 for one step, or a state of other parts.

        Probes:
            states: The parts of the state and the gates {spatial_dim, ..., out}; axis. Of one step only the gates: a loop shows its state.
        """
        name, single = type(self).__name__, spatial_dim is single_step_dim
        check_direction(name, direction, single=single)
        if source.sparse_dim is not self.in_dim and self.in_dim not in source.dims:
            raise missing_dim(name, source, self.in_dim, "source")
        if not single and spatial_dim not in source.dims:
            raise missing_dim(name, source, spatial_dim, "source")
        if state is None:
            batch = tuple(dim for dim in source.dims if dim is not self.in_dim and dim is not spatial_dim)
            zero = self._zero(batch, source)
            state = State((part, zero) for part in self.state_parts)
        else:
            state = given_state(name, self.state_parts, state, self.out_dim)
            for part, value in state.items():
                state[part] = _without_padding(value, None)
        # A kernel masks the frames by itself; else NaN from padding, of frames or of dims that are like a batch, comes back as
        # gradient of what all share.
        kernel = not single and self.has_kernel() and self.in_dim in source.dims
        source = _without_padding(source, spatial_dim if kernel else None)
        if single:
            return self.step(self.transform_input(source), state)
        return self._sequence(source, state, spatial_dim, -1 if direction == -1 else 1)

    def _sequence(self, source: Tensor, state: State, spatial_dim: Dim, direction: int) -> tuple[Tensor, State]:
        if not self.has_kernel() or self.in_dim not in source.dims or gates_edits():
            return self._in_steps(source, state, spatial_dim, direction)
        parts, masks = split_masks(state)
        drawn = masks or self.draw_masks(parts[self.state_parts[0]])
        state = State({**parts, **drawn}) if drawn else parts
        if listening():  # a kernel for all steps gives no gates
            with stop_gradient_scope():
                self._in_steps(source, state, spatial_dim, direction)
        if direction == -1:
            source = reverse_sequence(source, axis=spatial_dim)
        output, final = self.run_kernel(source, state, self.shared(state), spatial_dim)
        if direction == -1:
            output = reverse_sequence(output, axis=spatial_dim)
        return output, State({**final, **masks}) if masks else final

    def _in_steps(self, source: Tensor, state: State, spatial_dim: Dim, direction: int) -> tuple[Tensor, State]:
        """All steps one by one, their input transformed at once."""
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
        """Zeros {*batch_dims, out}; in training with the masks of dropout that is the same in all steps."""
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
        """The parameters by the names that they have in the documentation, below the scope "rec" of a layer, e.g. "W_re" or
        "gru_cell/gates/kernel". Kernels are (in, out)."""
        return {self.documented_scope + name.replace(".", "/"): value for name, value in self.named_parameters()}

    def role_of(self, name: str) -> str:
        """The role of a parameter by its attribute path: "forward" (of the input), "recurrent", "joint" (rows of the input, then of
        the state), "bias", or "" (e.g. the gain of a norm). Initializers go by it."""
        return _ROLES.get(name.rpartition(".")[2], "")


_ROLES = {
    "W": "forward", "W_ff": "forward", "W_re": "recurrent", "kernel": "joint", "W_ff_re": "joint",
    "b": "bias", "b_re": "bias", "bias": "bias", "bias_ff": "bias", "bias_ff_re": "bias",
}  # fmt: skip


def _without_padding(value: Tensor, but: Dim | None) -> Tensor:
    """0 in the padding of all dims but one."""
    dims = [dim for dim in value.dims if dim is not but and dim.has_padding()]
    return value.copy_masked(0, dims=dims) if dims else value


def is_training(cls: type) -> bool:
    """Whether dropout of units of this class drops."""
    return run_ctx.get_run_ctx().is_train_flag_enabled(func=cls)


def check_direction(what: str, direction: Any, *, single: bool = False) -> None:
    """ValueError if it is none, or if a single step is to go backward."""
    if direction not in (None, 1, -1) or isinstance(direction, bool):
        raise value_error(
            f"{what}: no direction.",
            [("direction", repr(direction)), ("known", "None or 1 forward, -1 backward")],
            "A sequence is read from its first frame on, or from its last one back.",
            f"rf.{what}(..., direction=-1)",
        )
    if single and direction == -1:
        raise value_error(
            f"{what}: one step backward.",
            [("direction", direction), ("axis", "single_step_dim")],
            "Where a sequence ends is known over its whole dim only.",
            f"rf.{what}(..., direction=1)",
        )


def check_size(what: str, name: str, dim: Dim, needed: str, size: int) -> None:
    """ValueError if a dim has another size."""
    if dim.extent != size:
        raise value_error(
            f"{what}: {name} of another size.",
            [(name, dim.short_repr()), ("needed", f"{needed} = {size}")],
            "The sizes of a unit fit together.",
            f"Dim({size}, name={dim.name!r})",
        )
