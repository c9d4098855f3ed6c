"""Stacks the events of one run of a loop into one Tensor, with the step as a dim.

Dims are matched by identity. A dim that differs from step to step (a growing beam, a growing history) becomes one dim of the result, as
long as the longest, if it has the same name in each step, or a size computed from the same dim (time + 1, time + 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.beam_dim import is_beam
from rfnb.core.dim import Dim, Dims
from rfnb.core.tensor import Tensor
from rfnb.trace.event import Event
from rfnb.trace.probe import Later


def runs_of(events: Sequence[Event], *, chained: bool = False) -> list[list[Event]]:
    """The events of one path, split into runs of its loop; an event outside of loops is its own run.

    A module called twice in each step of a loop has two runs, one of the first calls and one of the second.

    Args:
        chained: Whether the events of a step form one run instead: consecutive choices in a step.
    """
    runs: list[list[Event]] = []
    latest: dict[Any, list[Event]] = {}
    calls: dict[int, int] = {}
    for event in events:
        if event.step is None:
            runs.append([event])
            continue
        call = 0 if chained else calls.get(event.entry, -1) + 1
        calls[event.entry] = call
        key = (id(loop_dim_of(event)), event.steps[:-1], call)
        run = latest.get(key)
        goes_on = run is not None and chained and run[-1].entry == event.entry
        if run is None or run[-1].step is None or (run[-1].step >= event.step and not goes_on):
            run = latest[key] = []
            runs.append(run)
        run.append(event)
    return runs


def loop_dim_of(event: Event) -> Dim | None:
    """The dim of the loop: the `dim` value of the event, or the dim given by the loop."""
    dim = None if isinstance(event.values, Later) else event.values.get("dim")  # nobody who offers values later says it
    return dim if isinstance(dim, Dim) else event.loop_dim


def step_dim_of(run: Sequence[Event]) -> Dim:
    """The loop's own dim if the run has a value for each of its steps, else a new static dim of the same name.

    A search's own dim has the lengths of the final hypotheses; values in beam slots cannot have it.
    """
    dim = loop_dim_of(run[0])
    steps = [event.step for event in run]
    if dim is not None and steps == list(range(len(run))) and dim.is_dim_known() and dim.extent == len(run):
        if not any(is_beam(over) for over in dim.length_dims):
            return dim
    return Dim(len(run), name=dim.name if dim is not None else "step", kind="spatial")


def stack(tensors: Sequence[Tensor], step_dim: Dim, zero: Sequence[Dim | None] = ()) -> Tensor:
    """One Tensor {step_dim, ...} from one per step.

    Args:
        tensors: One per step. A missing dim is broadcast: the value is shared by all entries.
        step_dim: The new dim; replaced by its twin if the tensors have it already (a loop over the dim attended over).
        zero: Per step, the dim that is filled with 0 where it is shorter than in other steps. Other dims are filled with NaN
            (integers and bools with 0), since there are no values.
    """
    columns = _columns(tensors)
    out_dims = tuple(_common(column, tensors) for column in columns)
    backend = tensors[0].backend
    raws = [_aligned(tensor, columns, out_dims, zero[i] if i < len(zero) else None) for i, tensor in enumerate(tensors)]
    if step_dim in out_dims:
        step_dim = step_dim.copy(match_priority=1)
    first = tensors[0]
    return first._like(backend.stack_raw(raws, 0), (step_dim, *out_dims))


def _columns(tensors: Sequence[Tensor]) -> list[list[Dim]]:
    """Dims that form one axis of the result: the same dim, or dims that are `alike` in other steps."""
    columns: list[list[Dim]] = []
    for tensor in sorted(tensors, key=lambda tensor: -len(tensor.dims)):
        free = [column for column in columns if not any(dim in column for dim in tensor.dims)]
        for dim in tensor.dims:
            if any(dim in column for column in columns):
                continue
            column = next((column for column in free if alike(column[0], dim)), None)
            if column is None:
                columns.append([dim])
            else:
                column.append(dim)
                free.remove(column)
    return columns


def alike(one: Dim, other: Dim) -> bool:
    """Whether dims of two steps are the same one as it grows."""
    return bool(names_of(one) & names_of(other))


def names_of(dim: Dim) -> set[str]:
    """The name of a dim, and of those that its size is computed from."""
    return {base.name for base in dim.get_derived_bases_set()}


def _common(column: list[Dim], tensors: Sequence[Tensor]) -> Dim:
    lengths = {
        tensor.raw_tensor.shape[tensor.dims.index(dim)] for tensor in tensors for dim in column if dim in tensor.dims
    }
    if len(column) == 1 and len(lengths) == 1:
        return column[0]
    first, own = column[0], {dim.name for dim in column}
    name = first.name if len(own) == 1 else min(set.intersection(*map(names_of, column)), key=len, default=first.name)
    return Dim(max(lengths), name=name, kind=first.kind, vocab=first.vocab)


def _aligned(tensor: Tensor, columns: list[list[Dim]], out_dims: Dims, zero: Dim | None) -> Any:
    """The raw array with one axis per column, each of full length."""
    backend = tensor.backend
    own = [next((dim for dim in column if dim in tensor.dims), None) for column in columns]
    raw = tensor.copy_transpose([dim for dim in own if dim is not None]).raw_tensor
    for axis, dim in enumerate(own):
        if dim is None:
            raw = backend.expand_dims_raw(raw, axis)
    shape = [dim.extent for dim in out_dims]
    nothing = float("nan") if tensor.dtype.startswith(("float", "bfloat")) else 0
    # Zeros first: NaN covers them where both are.
    order = sorted(range(len(own)), key=lambda axis: own[axis] is not zero)
    for axis in order:
        dim = own[axis]
        missing = shape[axis] - backend.get_shape_tuple_raw(raw)[axis] if dim is not None else 0
        if missing:
            widths = [(0, missing if other == axis else 0) for other in range(len(own))]
            raw = backend.pad_raw(raw, widths, 0 if dim is zero else nothing)
    return backend.broadcast_raw(raw, shape)
