"""From packed frames to all frames: each value is repeated until the next one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import value_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.core.tensor_text import shape_of
from rfnb.ops.cast import cast
from rfnb.ops.const import full
from rfnb.ops.cumsum import cumsum
from rfnb.ops.gather import gather
from rfnb.ops.math import clip_by_value, combine_bc
from rfnb.ops.operands import need_tensors
from rfnb.ops.pad import pad
from rfnb.ops.where import where
from rfnb.rec.state import State


@op
def unmask(
    source: Tensor,
    *extra: Never,
    mask: Tensor,
    axis: Dim,
    in_spatial_dim: Dim,
    initial: Tensor | float = 0.0,
    state: State | None = None,
    **unknown: Never,
) -> tuple[Tensor, State]:
    """The frames of `source` where `mask` is True, each repeated until the next one.

        out[t] = source[n_t - 1],  n_t = number of True in mask[0 .. t];  initial where n_t is 0

    This undoes the packing of `MaskedComputation`. In a step of a loop the output of `MaskedComputation` is already unmasked.

    Args:
        source: {..., in_spatial_dim}, packed.
        mask: bool {..., axis}; for one step {...}. Its padding counts as False.
        axis: The dim of all frames; `single_step_dim` for one frame.
        in_spatial_dim: Its length is the number of True in mask.
        initial: Value before the first frame: a number, or {...}.
        state: index: index of the last frame, int32 {...}, -1 before the first. None: `unmask_initial_state`.

    Returns:
        {..., axis}, and the state after the last frame.

    Raises:
        DimError: If source has no in_spatial_dim or mask no axis.
        ValueError: If mask is not bool, or a single step has no state.
    """
    need_tensors("unmask", source, mask)
    single = axis is single_step_dim
    _check(source, mask, axis, in_spatial_dim, state)
    mask = cast(mask.copy_masked(False), "int32")
    index = mask if single else cast(cumsum(mask, spatial_dim=axis), "int32")
    before = -1 if state is None else state.index
    index = combine_bc(index, "add", before)
    if not in_spatial_dim.extent:
        source, (in_spatial_dim,) = pad(source, axes=[in_spatial_dim], padding=[(0, 1)])
    frames = gather(source, indices=clip_by_value(index, 0, in_spatial_dim.extent - 1), axis=in_spatial_dim)
    out = where(index >= 0, frames, initial, allow_broadcast_all_sources=True)
    if source.feature_dim is not None and source.feature_dim in out.dims:
        out.feature_dim = source.feature_dim
    out.sparse_dim = source.sparse_dim
    return out, State(index=index if single else _last(index, axis, before, mask))


def unmask_initial_state(
    *extra: Never, batch_dims: Sequence[Dim], device: str | None = None, **unknown: Never
) -> State:
    """The state of `unmask` before the first frame: index {*batch_dims}, -1."""
    return State(index=full(dims=list(batch_dims), fill_value=-1, dtype="int32", device=device))


def _last(index: Tensor, axis: Dim, before: Tensor | int, mask: Tensor) -> Tensor:
    """The index after each sequence's last frame; mask is 0 in the padding, so the last value of the whole axis is correct."""
    if axis.extent:
        return gather(index, indices=axis.extent - 1, axis=axis)
    dims = [dim for dim in mask.dims if dim is not axis]
    start = full(dims=dims, fill_value=0, dtype="int32", device=mask.device)
    return combine_bc(start, "add", before)


def _check(source: Tensor, mask: Tensor, axis: Dim, in_spatial_dim: Dim, state: State | None) -> None:
    check_dim("unmask", source, in_spatial_dim, "source")
    if mask.dtype != "bool":
        raise value_error(
            "unmask: the mask is not bool.",
            {"mask": f"{shape_of(mask)} {mask.dtype}"},
            "It is True where the next frame begins.",
            "mask = labels != blank",
        )
    if axis is not single_step_dim:
        check_dim("unmask", mask, axis, "mask")
    elif state is None:
        raise value_error(
            "unmask: a single step without state.",
            {"source": source, "mask": mask},
            "Which frame it is depends on how many came before.",
            "state = rf.unmask_initial_state(batch_dims=[batch])",
        )
