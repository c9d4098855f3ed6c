"""Run a unit over all frames, step by step, in either direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rfnb.core.dim import Dim, Dims
from rfnb.core.tensor import Tensor
from rfnb.ops.const import zeros
from rfnb.ops.expand import expand_dims
from rfnb.ops.frames import frames, from_frames
from rfnb.rec.ended_states import active_in_steps, kept
from rfnb.rec.state import State

if TYPE_CHECKING:
    from rfnb.nn.recurrent.unit import RecUnit

Series = dict[str, Tensor]


def run_steps(
    unit: RecUnit,
    transformed: Tensor,
    state: State,
    *,
    batch: Dims,
    spatial_dim: Dim,
    direction: int,
    watched: bool,
) -> tuple[Tensor, State, Series]:
    """All steps of `unit`.

    Args:
        transformed: The result of `transform_input` for all frames.
        batch: The batch-like dims of the frames and the state.
        direction: -1: from the last frame to the first. The padding then comes first, and a sequence starts at its last frame.
        watched: Whether the states are observed.

    Returns:
        The output of each frame {spatial_dim, *batch, out}, 0 in the padding; the final state; if `watched`, the parts of the
        state and the gates of each frame.
    """
    dims = (*batch, unit.out_dim)
    state, masks = split_masks(state)
    state = State((part, expanded(value, dims)) for part, value in state.items())
    first = state[unit.state_parts[0]]
    if not spatial_dim.extent:
        none = zeros((spatial_dim, *dims), dtype=first.dtype, device=first.device, feature_dim=unit.out_dim)
        return none, State({**state, **masks}), {}
    shared = unit.shared(State({**state, **(masks or unit.draw_masks(first))}))
    steps = frames(transformed, axis=spatial_dim)
    active = active_in_steps(spatial_dim, transformed.backend, transformed.device)
    outputs: list[Tensor] = []
    watch: dict[str, list[Tensor]] = {}
    for index in range(len(steps))[::direction]:
        output, new, gates = unit.advance(steps[index], state, shared)
        now = active[index]
        state = new if now is None else State((part, kept(now, value, state[part])) for part, value in new.items())
        outputs.append(output)
        for part, value in (*state.items(), *gates.items()) if watched else ():
            watch.setdefault(part, []).append(value)
    stacked = _stacked(outputs[::direction], dims, spatial_dim)
    series = {part: _stacked(values[::direction], dims, spatial_dim) for part, values in watch.items()}
    final = State((part, expanded(value, dims)) for part, value in state.items())
    return stacked, State({**final, **masks}), series


def split_masks(state: State) -> tuple[State, State]:
    """The parts of a state, and the dropout masks that it carries."""
    masks = State((part, value) for part, value in state.items() if part.endswith("_mask"))
    if not masks:
        return state, masks
    return State((part, value) for part, value in state.items() if part not in masks), masks


def expanded(value: Tensor, dims: Dims) -> Tensor:
    """A part of the state broadcast to all these dims, in this order; the last one is the feature dim."""
    if value.dims == dims:
        return value
    out = expand_dims(value, [dim for dim in dims if dim not in value.dims]).copy_transpose(dims)
    out.feature_dim = dims[-1]
    return out


def _stacked(values: list[Tensor], dims: Dims, spatial_dim: Dim) -> Tensor:
    """{spatial_dim, *dims}, 0 in the padding."""
    values = [value if set(value.dims) == set(dims) else expanded(value, dims) for value in values]
    out = from_frames(values, axis=spatial_dim, like=expanded(values[0], dims)).copy_masked(0, dims=[spatial_dim])
    out.feature_dim = dims[-1]
    return out
