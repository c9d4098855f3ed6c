"""Selection: which hypotheses a choice lets go on, and how everything else follows.

A search has two beam dims: the *carried* one, under which states live between steps, and the one of the choice in this step.
At the end of a step what was computed before the choice is gathered by parent, and everything is carried on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, message
from rfnb.core.layout import PlanCache, full_shape
from rfnb.core.tensor import Tensor, new_tensor, shape_of
from rfnb.ops.gather import gather

_plans = PlanCache()
_renamed = PlanCache()


class Selection:
    """One choice of one step.

    Args:
        in_dim: The beam before the choice; None in the first step (one hypothesis).
        out_dim: The beam after it.
        carried: The beam dim between steps.
        parents: int {batch dims, out_dim}, sparse over in_dim: which hypothesis each one continues.
    """

    def __init__(self, in_dim: Dim | None, out_dim: Dim, carried: Dim, parents: Tensor):
        self.in_dim, self.out_dim, self.carried, self.parents = in_dim, out_dim, carried, parents
        self._gathered: dict[int, tuple[Tensor, Tensor]] = {}  # id -> (value, gathered): a state is often read twice
        self._host: np.ndarray | None = None

    def check(self, value: Any) -> None:
        """A value is under the beam before the choice or under the one after it, not under both.

        Raises:
            DimError: If it has both.
        """
        if (
            isinstance(value, Tensor)
            and self.in_dim is not None
            and self.out_dim in value.dims
            and self.in_dim in value.dims
        ):
            raise DimError(
                message(
                    "A value from before a choice was combined with one from after it.",
                    [
                        ("value", shape_of(value)),
                        ("before", self.in_dim.short_repr()),
                        ("after", self.out_dim.short_repr()),
                    ],
                    "Hypothesis 0 after the choice need not continue hypothesis 0 before it.\n"
                    "A state that is read after the choice follows it, so put the value into one before:",
                    "loop.state.x = x\nlabel = rf.choice(...)\nx = loop.state.x",
                )
            )

    def bring(self, value: Any) -> Any:
        """A value of this step under the beam after the choice."""
        if isinstance(value, Tensor) and self.in_dim is not None and self.in_dim in value.dims:
            return _rename(self._gather(value), self.in_dim, self.out_dim)
        return value

    def to_carried(self, value: Any) -> Any:
        """A value of this step under the carried beam."""
        if not isinstance(value, Tensor):
            return value
        if self.out_dim in value.dims:
            self.check(value)
            return _rename(value, self.out_dim, self.carried)
        if self.in_dim is not None and self.in_dim in value.dims:
            return self._gather(value)
        return value

    def _gather(self, value: Tensor) -> Tensor:
        """The values of the parents; the beam dim is still called in_dim."""
        known = self._gathered.get(id(value))
        if known is None:
            self.check(value)
            assert self.in_dim is not None
            known = self._gathered[id(value)] = value, pick(value, self.parents, self.in_dim, self.out_dim)
        return known[1]

    def close(self) -> None:
        """Forget what was gathered: the step is over, and only the parents are still needed."""
        self._gathered.clear()

    def follow_host(self, value: np.ndarray, dims_in: tuple[Dim, ...], dims_out: tuple[Dim, ...]) -> np.ndarray:
        """A host array over `dims_in` (with the carried beam) for the hypotheses after the choice, over `dims_out`."""
        before = tuple(self.carried if dim is self.out_dim else dim for dim in dims_out)
        if self.in_dim is None or self.in_dim not in dims_in:
            return align_host(value, dims_in, before)
        parents = align_host(self.host_parents, self.parents.dims, dims_out)
        return _take_host(align_host(value, dims_in, before), parents, dims_out.index(self.out_dim))

    @property
    def host_parents(self) -> np.ndarray:
        """`parents` as a host array."""
        if self._host is None:
            self._host = self.parents.numpy()
        return self._host


def align_host(value: np.ndarray, dims: tuple[Dim, ...], target: tuple[Dim, ...]) -> np.ndarray:
    """A host array over `dims` with its axes in the order of `target`, of length 1 for those that it lacks."""
    if dims == target:
        return value
    order = [dims.index(dim) for dim in target if dim in dims]
    return value.transpose(order).reshape([dim.extent if dim in dims else 1 for dim in target])


def _take_host(value: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    if value.ndim == 2 and axis == 1 and len(value) == len(index):  # the usual {batch, beam}
        return value[np.arange(len(value))[:, None], index]
    return np.take_along_axis(value, index, axis)


def _rename(value: Tensor, old: Dim, new: Dim) -> Tensor:
    key = (value.dims, old, new)
    try:
        dims = _renamed[key]
    except KeyError:
        dims = _renamed.put(key, tuple(new if dim is old else dim for dim in value.dims))
    return value._like(value._raw, dims)


def pick(value: Tensor, index: Tensor, beam: Dim, index_beam: Dim) -> Tensor:
    """value {..., beam} at hypotheses `index` {batch dims, index_beam}; the result has `beam` in place of index_beam."""
    if beam.extent == 1 and index_beam.extent == 1:
        return value
    key = (value._raw.__class__, value.dims, index.dims, beam, index_beam)
    try:
        fn = _plans[key]
    except KeyError:
        fn = _plans.put(key, _plan_pick(value, index, beam, index_beam))
    if fn is not None:
        return value._like(fn(value._raw, index._raw), value.dims)
    twin = beam.copy(match_priority=beam.match_priority + 1)
    renamed = new_tensor(index._raw, tuple(twin if dim is index_beam else dim for dim in index.dims))
    picked = gather(value, indices=renamed, axis=beam)
    return picked._like(picked._raw, tuple(beam if dim is twin else dim for dim in picked.dims))


def _plan_pick(value: Tensor, index: Tensor, beam: Dim, index_beam: Dim) -> Any:
    """The usual order, {batch dims, beam, ...}, is one look-up of rows; None for any other."""
    axis = len(index.dims) - 1
    batch = index.dims[:-1]
    if index.dims[-1] is not index_beam or value.dims[: axis + 1] != (*batch, beam) or beam.extent != index_beam.extent:
        return None
    backend = value.backend
    reshape, take = backend.reshape_raw, backend.take_raw
    shape, rest, num_batch = full_shape(value.dims), full_shape(value.dims[axis + 1 :]), math.prod(full_shape(batch))
    if num_batch == 1:
        return lambda raw, raw_index: take(raw, reshape(raw_index, (-1,)), axis)
    rows_shape = (num_batch * beam.extent, math.prod(rest)) if rest else (num_batch * beam.extent,)
    add = backend.binary_tensors_fn("add")
    host = (np.arange(num_batch) * beam.extent).reshape(*full_shape(batch), 1)
    starts: dict[Any, Any] = {}

    def fn(raw: Any, raw_index: Any) -> Any:
        device = getattr(raw_index, "device", None)
        start = starts.get(device)
        if start is None:
            start = starts[device] = backend.from_numpy(host, dtype="int64", device=backend.get_device_raw(raw_index))
        rows = reshape(add(raw_index, start), (-1,))
        return reshape(take(reshape(raw, rows_shape), rows, 0), shape)

    return fn


def backtrack(
    values: Sequence[Tensor], history: Sequence[Selection | None]
) -> tuple[list[Tensor], list[np.ndarray], tuple[Dim, ...]]:
    """Which hypothesis of every step each final one goes through.

    Args:
        values: One per step, under the beam before or after the choice of that step, or without beam.
        history: The selection of each step; None in a step without choice. At least one is not.

    Returns:
        The values with the carried beam in place of theirs; for each step the index of the hypothesis to take there; the dims
        of these indices, {batch dims, carried}.
    """
    first = next(selection for selection in history if selection is not None)
    carried = first.carried
    dims = tuple(carried if dim is first.out_dim else dim for dim in first.parents.dims)
    shape = [dim.extent for dim in dims]
    axis = dims.index(carried)
    position = np.broadcast_to(np.arange(carried.extent).reshape([-1 if dim is carried else 1 for dim in dims]), shape)
    renamed, positions = [], []
    for value, selection in zip(reversed(values), reversed(history)):
        after = position
        if selection is not None:
            selection.check(value)
            own = tuple(carried if dim is selection.out_dim else dim for dim in selection.parents.dims)
            parents = np.broadcast_to(align_host(selection.host_parents, own, dims), shape)
            position = _take_host(parents, position, axis)
            if selection.out_dim in value.dims:
                value = _rename(value, selection.out_dim, carried)
            else:
                after = position
        renamed.append(value)
        positions.append(after)
    return renamed[::-1], positions[::-1], dims
