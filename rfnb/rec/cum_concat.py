"""The history of a loop: in each step, all frames so far.

    keys, history, loop.state.keys = rf.cum_concat(key, axis=rf.single_step_dim, state=loop.state.keys)   # {..., history}
    keys, history, _ = rf.cum_concat(key, axis=time)                                                     # all steps at once

Outside of a loop, the history dim has one length per frame of the loop: 1, 2, 3, ... These lengths mask tensors that also have the loop
dim (energies, weights) to a triangle.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Never

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import dim_error, runtime_error
from rfnb.core.layout import PlanCache
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.ops import dims as dim_ops
from rfnb.ops.concat import concat, cum_concat_step
from rfnb.ops.const import zeros
from rfnb.ops.math import combine_bc
from rfnb.ops.operands import need_tensors
from rfnb.ops.out_dim import check_size, define_size
from rfnb.rec.state import State


@op
def cum_concat(
    source: Tensor,
    *extra: Never,
    axis: Dim,
    out_spatial_dim: Dim | None = None,
    state: State | None = None,
    **unknown: Never,
) -> tuple[Tensor, Dim, State]:
    """All frames up to each one, in order.

    Args:
        source: {..., axis}; of one step {...}.
        axis: Of the loop; `single_step_dim` inside of it.
        out_spatial_dim: Without size it gets it here. Default: the same dim for all calls with the same axis and history, so
            that keys and values share it.
        state: accum {..., axis} and axis: the previous frames. Required in a step: `cum_concat_initial_state` at the beginning.

    Returns:
        {..., out_spatial_dim}, out_spatial_dim, state. In a step, it has one frame more than in the previous step. For all steps at
            once, it has the frames of `axis`, and lengths over `axis`: frame t of the loop sees the first t + 1. Reduce it together with
        axis: a product with weights {..., axis, out_spatial_dim}; what has no axis gets it by `expand_dim`.

    Raises:
        RuntimeError: For a single step without state.
        DimError: If source has no axis, or out_spatial_dim another size.
    """
    need_tensors("cum_concat", source)
    if axis is single_step_dim:
        return _step(source, out_spatial_dim, state)
    check_dim("cum_concat", source, axis, "source")
    before = None if state is None else state.axis
    # The dim of the history does not say what is padding of a sequence, which later frames of others see.
    source = source.copy_masked(0, dims=[axis])
    out_dim = _triangle(before, axis)
    if out_spatial_dim is not None:
        define_size(out_spatial_dim, out_dim)
        out_dim = out_spatial_dim
    both = history_and(before, axis)
    if state is None or before is None or _is_empty(before):
        accum = _renamed(source, axis, both)
    else:
        accum, _ = concat((state.accum, before), (source, axis), out_dim=both, allow_broadcast=True)
    check_size("cum_concat", out_dim, _triangle(before, axis).extent)
    return _renamed(accum, both, out_dim), out_dim, State(accum=accum, axis=both)


def cum_concat_initial_state(
    dims: Sequence[Dim],
    *extra: Never,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    **unknown: Never,
) -> State:
    """The state of `cum_concat` before the first frame: accum {*dims, axis=0}, and axis.

    Args:
        dims: Of a frame.
        dtype: Default: the default float dtype.
        sparse_dim: Of frames that are labels.
    """
    axis = history_dim(0)
    return State(accum=zeros([*dims, axis], dtype=dtype, device=device, sparse_dim=sparse_dim), axis=axis)


@lru_cache(maxsize=4096)
def history_dim(size: int) -> Dim:
    """The dim of a history of this size; shared by all layers and searches, so that cached plans are found again."""
    return Dim(size, name="history", kind="spatial")


@op
def history_and(before: Dim | None, axis: Dim) -> Dim:
    """The dim of the previous frames followed by those of `axis`, as for the keys of self-attention with a state.

    Args:
        before: The dim of the previous frames. None if there are none; then the result is a twin of axis (a tensor holds a dim
            once).
        axis: `single_step_dim` for one frame.
    """
    axis = history_dim(1) if axis is single_step_dim else axis
    if before is None or (_is_empty(before) and axis is not history_dim(1)):
        return axis if axis is history_dim(1) else axis.copy(match_priority=axis.match_priority - 1)
    if axis is history_dim(1):
        # Derived from the dim before, so that a recorded loop knows that it grows.
        try:
            return _longer[(before,)]
        except KeyError:
            return _longer.make((before,), lambda: before + 1)
    if before.is_static() and axis.is_static():
        return history_dim(before.extent + axis.extent)
    return before + axis


_longer = PlanCache()
_triangles = PlanCache()


def _triangle(before: Dim | None, axis: Dim) -> Dim:
    """The dim of the frames visible to each frame of `axis`."""
    try:
        return _triangles[before, axis]
    except KeyError:
        return _triangles.make((before, axis), _make_triangle, before, axis)


def _make_triangle(before: Dim | None, axis: Dim) -> Dim:
    steps = dim_ops.range_over_dim(axis, dtype="int32", device="cpu")
    steps.sparse_dim = None
    lengths = steps + 1
    if before is not None and not _is_empty(before):
        lengths = combine_bc(before.get_size_tensor(), "add", lengths)
    return Dim(lengths, name="history", kind="spatial")


def _step(source: Tensor, out_spatial_dim: Dim | None, state: State | None) -> tuple[Tensor, Dim, State]:
    if state is None:
        raise runtime_error(
            "cum_concat: a single step without state.",
            {"source": source},
            "It appends to the frames of the previous steps, so use it in a loop that carries them:",
            "loop.state.keys = rf.cum_concat_initial_state([batch, feat])\n"
            "for _ in loop:\n"
            "    keys, history, loop.state.keys = rf.cum_concat(\n"
            "        key, axis=rf.single_step_dim, state=loop.state.keys)",
        )
    if state.axis not in state.accum.dims:
        raise dim_error(
            "cum_concat: the state is inconsistent.",
            {"state.accum": state.accum, "state.axis": state.axis},
            "axis is the dim of the frames in accum.",
        )
    both = history_and(state.axis, single_step_dim) if out_spatial_dim is None else out_spatial_dim
    accum, both = cum_concat_step(source, prev_accum=state.accum, axis=state.axis, out_spatial_dim=both)
    return accum, both, State(accum=accum, axis=both)


def _is_empty(dim: Dim) -> bool:
    return dim.is_static() and dim.extent == 0


def _renamed(source: Tensor, old: Dim, new: Dim) -> Tensor:
    return source._like(source._raw, tuple(new if dim is old else dim for dim in source.dims))
