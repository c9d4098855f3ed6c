"""Brings two Tensors with different dims to the same axes; only real cells are compared.

Two runs have different dims even if the code is the same. They are matched by identity, name and kind; a sequence may be selected from
the batch on one side or both. Padding is never a cell, however long it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rfnb.core.beam_dim import is_beam
from rfnb.core.dim import Dim, Dims, HostArray
from rfnb.core.dim_mask import spread
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import dims_text

IndexOfBoth = tuple[int | None, int | None]  # in a and in b


@dataclass(frozen=True)
class Sides:
    """The sequences that are compared, and the batch dims of both recordings.

    Attributes:
        seqs: The sequence of a and of b; None: compare all, by index.
        batch: The dims of a and of b that are over sequences.
    """

    seqs: IndexOfBoth
    batch: tuple[frozenset[Dim], frozenset[Dim]]

    def batch_axis(self, dims: Sequence[Dim], side: int) -> int | None:
        """The axis over sequences."""
        return next((axis for axis, dim in enumerate(dims) if dim in self.batch[side]), None)


@dataclass
class Plan:
    """The way to bring values with given dims on both sides to the same axes.

    Attributes:
        names: Names of the axes.
        dims: The dims of each axis on both sides; None where a side lacks the axis.
        problem: Why the values cannot be compared; None if they can.
        takes: For each side the batch axis from which one sequence is taken.
        orders: For each side the order of its other axes.
        inserts: For each side the places of axes that it lacks.
        sizes: Cells of each axis that both have.
        real: The real cells, broadcastable to `sizes`; None means all. Not for hypotheses, which are matched in each step.
        lengths: The dims with different lengths, as text.
        beam: The axis over hypotheses.
        batch: The axis over sequences.
    """

    names: tuple[str, ...] = ()
    dims: tuple[tuple[Dim | None, Dim | None], ...] = ()
    problem: str | None = None
    takes: IndexOfBoth = (None, None)
    orders: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    inserts: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    sizes: tuple[int, ...] = ()
    real: np.ndarray | None = None
    lengths: str | None = None
    beam: int | None = None
    batch: int | None = None
    padded: tuple[Any, Any] = field(default=(None, None), repr=False)


class Planner:
    """Makes plans, once for each pair of dims."""

    def __init__(self, sides: Sides):
        self.sides = sides
        self._known: dict[Any, Plan] = {}

    def plan(self, a: Tensor, b: Tensor) -> Plan:
        """The plan for the values of two Tensors."""
        key = a.dims, b.dims, _shape(a), _shape(b)
        if key not in self._known:
            self._known[key] = _plan(a, b, self.sides)
        return self._known[key]

    def cells(self, value: Tensor, side: int, lengths: HostArray | None, step: int | None) -> int:
        """The number of real cells of a value on one side."""
        mask = _mask(value.dims, _shape(value), lengths, step)
        axis = self.sides.batch_axis(value.dims, side)
        seq = self.sides.seqs[side]
        shape = list(_shape(value))
        full = np.broadcast_to(np.True_ if mask is None else mask, shape)
        if axis is not None and seq is not None:
            full = full.take(min(seq, shape[axis] - 1), axis)
        return int(np.count_nonzero(full))

    def going_on(self, plan: Plan, dims: Sequence[Dim], side: int, lengths: HostArray | None, step: int | None) -> Any:
        """The cells of sequences that still run in this step, along the axes of a plan; None means all."""
        if lengths is None or step is None:
            return None
        mask = _over(step < lengths[0], lengths[1], dims)
        return None if mask is None else placed(mask, plan, side, self.sides.seqs[side])


def placed(array: np.ndarray, plan: Plan, side: int, seq: int | None, crop: bool = True) -> np.ndarray:
    """An array over the dims of one side, rearranged to the axes of the plan."""
    take = plan.takes[side]
    if take is not None:
        array = array.take(0 if array.shape[take] == 1 else seq or 0, take)
    array = array.transpose(plan.orders[side])
    for axis in plan.inserts[side]:
        array = np.expand_dims(array, axis)
    if not crop:
        return array
    return array[tuple(slice(None) if axis == plan.beam else slice(0, size) for axis, size in enumerate(plan.sizes))]


def batch_dims(tensors: Iterable[Tensor]) -> frozenset[Dim]:
    """The dims over sequences: those named so, or over which lengths are given."""
    found: set[Dim] = set()
    seen: set[Dims] = set()
    for tensor in tensors:
        if tensor.dims in seen:
            continue
        seen.add(tensor.dims)
        for dim in tensor.dims:
            over = dim.length_dims if dim.size is None and dim.is_dim_known() else ()
            found.update(other for other in (dim, *over) if _is_batch(other) or (other in over and not is_beam(other)))
    return frozenset(found)


def _is_batch(dim: Dim) -> bool:
    return dim.is_batch_dim() or dim.name == "batch"


def _plan(a: Tensor, b: Tensor, sides: Sides) -> Plan:
    tensors, takes, left = (a, b), [], []
    for side, tensor in enumerate(tensors):
        axis = sides.batch_axis(tensor.dims, side) if sides.seqs[side] is not None else None
        takes.append(axis)
        left.append([other for other in range(len(tensor.dims)) if other != axis])
    pairs = _pairs(a, b, left, sides)
    if pairs is None:
        return Plan(problem=f"other dims: {dims_text(a.dims)} | {dims_text(b.dims)}")
    names, dims, sizes = list[str](), list[tuple[Dim | None, Dim | None]](), list[int]()
    problem: str | None = None
    beam: int | None = None
    batch: int | None = None
    shapes = _shape(a), _shape(b)
    for number, (axis_a, axis_b) in enumerate(pairs):
        dim_a = None if axis_a is None else a.dims[axis_a]
        dim_b = None if axis_b is None else b.dims[axis_b]
        one: Any = dim_a or dim_b
        size_a = 1 if axis_a is None else shapes[0][axis_a]
        size_b = 1 if axis_b is None else shapes[1][axis_b]
        names.append(one.name)
        dims.append((dim_a, dim_b))
        sizes.append(min(size_a, size_b))
        is_batch = sides.batch_axis((one,), 0 if dim_a is not None else 1) is not None
        if is_beam(one):
            beam = number
        elif is_batch:
            batch = number
        if size_a != size_b and not is_beam(one) and (is_batch or not _may_differ(dim_a, dim_b)):
            problem = f"another size: {dims_text(a.dims)} | {dims_text(b.dims)}"
    plan = Plan(tuple(names), tuple(dims), problem, (takes[0], takes[1]), beam=beam, batch=batch, sizes=tuple(sizes))
    orders, inserts = [], []
    for side in (0, 1):
        own = [pair[side] for pair in pairs]
        kept = [axis for axis in own if axis is not None]
        take = takes[side]
        orders.append(tuple(axis - (take is not None and axis > take) for axis in kept))
        inserts.append(tuple(number for number, axis in enumerate(own) if axis is None))
    plan.orders, plan.inserts = (orders[0], orders[1]), (inserts[0], inserts[1])
    if problem is None:
        _note_real(plan, a, b, sides)
    return plan


def _pairs(a: Tensor, b: Tensor, left: list[list[int]], sides: Sides) -> list[IndexOfBoth] | None:
    """The axes that match, in the order of a, with None for an unmatched axis of size 1; None as a whole if they do not match."""
    free_a, free_b = list(left[0]), list(left[1])
    pairs: list[IndexOfBoth] = []

    def match(test: Any) -> None:
        for axis in list(free_a):
            found = [other for other in free_b if test(a.dims[axis], b.dims[other])]
            if found:
                pairs.append((axis, found[0]))
                free_a.remove(axis)
                free_b.remove(found[0])

    batch = lambda one, other: sides.batch_axis((one,), 0) is not None and sides.batch_axis((other,), 1) is not None  # noqa: E731
    match(lambda one, other: one is other)
    match(batch)
    match(lambda one, other: one.name == other.name and is_beam(one) == is_beam(other))
    match(lambda one, other: is_beam(one) and is_beam(other))
    match(lambda one, other: one.kind is not None and one.kind == other.kind)
    if len(free_a) == 1 and len(free_b) == 1 and is_beam(a.dims[free_a[0]]) == is_beam(b.dims[free_b[0]]):
        pairs.append((free_a.pop(), free_b.pop()))
    shapes = _shape(a), _shape(b)
    for axis in free_a:
        if shapes[0][axis] != 1 and not is_beam(a.dims[axis]):
            return None
        pairs.append((axis, None))
    for axis in free_b:
        if shapes[1][axis] != 1 and not is_beam(b.dims[axis]):
            return None
        pairs.append((None, axis))
    return sorted(pairs, key=lambda pair: (len(a.dims), pair[1]) if pair[0] is None else (pair[0], 0))


def _may_differ(a: Dim | None, b: Dim | None) -> bool:
    """True if this axis may be longer on one side: it is padded, or over something that varies."""
    return any(dim is not None and (dim.size is None or dim.is_spatial_dim()) for dim in (a, b))


def _note_real(plan: Plan, a: Tensor, b: Tensor, sides: Sides) -> None:
    """Store the real cells that both sides have in the plan, and note where only one side has any."""
    whole, cropped, longer = [], [], []
    for side, tensor in enumerate((a, b)):
        mask = _mask(tensor.dims, _shape(tensor), None, None)
        full = np.ones([1] * len(tensor.dims), bool) if mask is None else mask
        full = placed(full, plan, side, sides.seqs[side], crop=False)
        whole.append(full)
        shape = placed(_extents(tensor), plan, side, sides.seqs[side], crop=False).shape
        for axis, size in enumerate(plan.sizes):
            if axis != plan.beam and shape[axis] > size:
                rest = [slice(None)] * len(shape)
                if full.shape[axis] == shape[axis]:
                    rest[axis] = slice(size, None)
                if full[tuple(rest)].any():
                    longer.append(axis)
        crop = tuple(slice(None) if axis == plan.beam else slice(0, size) for axis, size in enumerate(plan.sizes))
        cropped.append(full[crop])
    plan.padded = (whole[0], whole[1])
    if all(mask.all() for mask in cropped):
        real = None
    else:
        widths = [mask.shape[plan.beam] if plan.beam is not None else 1 for mask in cropped]
        if plan.beam is not None and max(widths) > 1:  # lengths by hypothesis
            first = (slice(None),) * plan.beam + (slice(0, min(widths)),)
            cropped = [mask[first] if mask.shape[plan.beam] > 1 else mask for mask in cropped]
        real = cropped[0] & cropped[1]
        other = np.logical_xor(cropped[0], cropped[1]) if plan.beam is None or max(widths) == 1 else np.False_
        if other.any():
            longer += [
                axis for axis in range(len(plan.sizes)) if axis not in (plan.beam, plan.batch) and other.shape[axis] > 1
            ]
    plan.real = real
    if longer:
        plan.lengths = ", ".join(f'"{plan.names[axis]}"' for axis in dict.fromkeys(longer))


def _mask(dims: Sequence[Dim], shape: Sequence[int], lengths: HostArray | None, step: int | None) -> np.ndarray | None:
    """The real cells of a value, broadcastable to its shape; None means all."""
    mask: np.ndarray | None = None
    for axis, dim in enumerate(dims):
        if dim.size is not None or not dim.is_dim_known() or not dim.has_padding():
            continue
        if dim.extent != shape[axis] or not set(dim.length_dims) <= set(dims):
            continue
        own = dim.host_mask(tuple(dims))
        mask = own if mask is None else mask & own
    if lengths is not None and step is not None:
        going_on = _over(step < lengths[0], lengths[1], dims)
        if going_on is not None:
            mask = going_on if mask is None else mask & going_on
    return mask


def _over(array: np.ndarray, over: Sequence[Dim], dims: Sequence[Dim]) -> np.ndarray | None:
    """An array over some dims, broadcastable to `dims`; None if one of its dims is missing there, or is over hypotheses."""
    if not over or any(dim not in dims or is_beam(dim) for dim in over):
        return None
    return spread(array, over, dims)


def _extents(value: Tensor) -> np.ndarray:
    """An array of the shape of a value that occupies no memory."""
    return np.broadcast_to(np.True_, _shape(value))


def _shape(value: Tensor) -> tuple[int, ...]:
    raw = value.raw_tensor
    if raw is not None:
        return tuple(value.backend.get_shape_tuple_raw(raw))
    return tuple(dim.extent if dim.is_dim_known() else 1 for dim in value.dims)
