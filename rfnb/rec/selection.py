"""Selection: the hypotheses that survive a choice, and how all other values follow.

A search has two beam dims: the *carried* one, under which states live between steps, and the one of this step's choice. At the end of a
step, values computed before the choice are gathered by parent, and all values move to the carried beam.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.beam_dim import BeamDim, is_beam
from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import DimError, dim_error
from rfnb.core.layout import PlanCache, full_shape
from rfnb.core.memo import Memo
from rfnb.core.pickling import NotPicklable
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.ops.gather import gather
from rfnb.rec.device_reads import DeviceReads, Value, host_value
from rfnb.rec.state_changes import check_same_device

_plans = PlanCache(by_structure=False)
_ways = PlanCache(by_structure=False)
_renamed = PlanCache(by_structure=False)
_renamed_dims = PlanCache(by_structure=False)


class Selection(NotPicklable):
    """The choices of one step so far: one, or a chain of them.

    Args:
        in_dim: The beam before the choice; None if there was none (one hypothesis).
        out_dim: The beam after it.
        carried: The beam dim after this step, of the same size.
        parents: int {batch dims, out_dim}, sparse over in_dim: which hypothesis each one continues.
        before: The selection of the choice before this one in the same step.

    Attributes:
        start: The beam at the beginning of the step; None if there was none.
        closed: Whether the step is over.
        repicked: Whether a value has received a dim with the lengths of the parents.
        sources: Each beam of this step before the choice -> which of its hypotheses each one after the choice continues.
        again: For later steps that choose in the same way: (raw scores, ended sequences with their dims, or None) -> the selection
            with the chosen `tokens`, or None if the step turns out to be of another kind; `listings()` shows it.
        wanted: Values of all steps that the host will read.
    """

    again: Any = None
    wanted: DeviceReads | None = None

    def __init__(
        self,
        in_dim: Dim | None,
        out_dim: BeamDim,
        carried: BeamDim,
        parents: Tensor,
        *,
        before: Selection | None = None,
    ):
        self.out_dim, self.carried, self.parents = out_dim, carried, parents
        self.start: Dim | None = in_dim if before is None else before.start
        self.sources: dict[Dim, Tensor] = {} if in_dim is None else {in_dim: parents}
        if before is not None and in_dim is not None:
            for dim, earlier in before.sources.items():
                self.sources[dim] = pick(earlier, parents, in_dim, out_dim, out_dim)
        self._beams = (*self.sources, out_dim)
        self._gathered: dict[int, tuple[Tensor, Tensor]] = {}  # id -> (value, gathered): a state is often read twice
        self._rows: dict[Dim, Any] = {}  # beam of `sources` -> which rows of a value under it are continued
        self._host: dict[Dim, np.ndarray | Value] = {}
        self.closed = self.repicked = False
        self._picked_dims: dict[Dim, Dim] = {}

    def source_of(self, value: Tensor) -> Dim | None:
        """The beam before the choice that a value has, or None."""
        for dim in self.sources:
            if dim in value.dims:
                return dim
        return None

    def check(self, value: Any) -> None:
        """Check that a value has at most one beam of the step.

        Raises:
            DimError: If it has several.
        """
        if isinstance(value, Tensor):
            self._beam_of(value)

    def _beam_of(self, value: Tensor) -> Dim | None:
        """The beam of this step that a value has, before or after the choice."""
        dims, found = value.dims, None
        for beam in self._beams:
            if beam in dims:
                if found is not None:
                    raise self._under_several(value)
                found = beam
        return found

    def _under_several(self, value: Tensor) -> DimError:
        found = [beam for beam in self._beams if beam in value.dims]
        return dim_error(
            "A value from before a choice was combined with one from after it.",
            {"value": value, "before": found[0], "after": found[-1]},
            "Hypothesis 0 after the choice need not continue hypothesis 0 before it.\n"
            "A state that is read after the choice follows it, so assign the value to a state before:",
            "loop.state.x = x\nlabel = rf.choice(...)\nx = loop.state.x",
        )

    def bring(self, value: Any) -> Any:
        """Move a value of this step to the beam after the choice."""
        if isinstance(value, Dim):
            picked = self._picked_dim(value)
            return value if picked is value else renamed_dim(picked, self.carried, self.out_dim)
        if isinstance(value, Tensor) and (source := self.source_of(value)) is not None:
            return rename(self._gather(value, source), self.carried, self.out_dim)
        return value

    def to_carried(self, value: Any) -> Any:
        """Move a value of this step to the carried beam."""
        if isinstance(value, Dim):
            picked = self._picked_dim(value)
            return renamed_dim(value, self.out_dim, self.carried) if picked is value else picked
        if not isinstance(value, Tensor):
            return value
        beam = self._beam_of(value)
        if beam is None:
            return value
        return rename(value, beam, self.carried) if beam is self.out_dim else self._gather(value, beam)

    def to_carried_state(self, value: Any) -> Any:
        """The same for a state assigned in this step; a value computed without a beam is shared by all hypotheses.

        So every step but the first sees the same dims. A value without batch dims (a counter) stays as it is.
        """
        if type(value) is not Tensor:
            return self.to_carried(value)
        key = (value._raw.__class__, value.dims, self.parents.dims, self._beams, self.carried)
        try:
            way = _ways[key]
        except KeyError:
            way = _ways.keep(key, self._way_of(value))
        if way.over is not None:
            return self._over_batch(self.to_carried(value), way.over)
        if way.source is not None:
            return self._gather(value, way.source, way.pick)
        return value if way.dims is value.dims else value._like(value._raw, way.dims)

    def _way_of(self, value: Tensor) -> _Way:
        dims, beam = value.dims, self._beam_of(value)
        if beam is None:
            batch = tuple(dim for dim in self.parents.dims if dim is not self.out_dim)
            alone = not dims or self.carried in dims or not set(batch) <= set(dims)
            if alone or any(is_beam(dim) and dim not in batch for dim in dims):
                return _Way(None, None, dims, None)
            return _Way(None, None, dims, batch)
        if beam is self.out_dim:
            return _Way(None, None, _renamed_all(dims, beam, self.carried), None)
        return _Way(beam, _plan_of(value, self.sources[beam], beam, self.out_dim, self.carried), (), None)

    def _over_batch(self, value: Tensor, batch: Dims) -> Tensor:
        rest = tuple(dim for dim in value.dims if dim not in batch)
        return value.copy_compatible_to_dims((*batch, self.carried, *rest), unbroadcast=True)

    def _gather(self, value: Tensor, source: Dim, plan: _Pick | None = None) -> Tensor:
        """The values of the parents, under the carried beam; `source` is the value's current beam."""
        known = self._gathered.get(id(value))
        if known is None:
            index = self.sources[source]
            if plan is None:
                plan = _plan_of(value, index, source, self.out_dim, self.carried)
            if plan.rows is None:
                self.check(value)
                picked = pick(value, index, source, self.out_dim, self.carried)
            else:
                rows = self._rows.get(source)
                if rows is None:
                    rows = self._rows[source] = plan.rows(index._raw)
                try:
                    picked = value._like(plan.take(value._raw, rows), plan.dims)
                except RuntimeError:
                    check_same_device(value, index)
                    raise
            self.repicked = self.repicked or bool(plan.over)
            for dim in plan.over:
                picked = _with_dim(picked, dim, self._picked_dim(dim))
            known = self._gathered[id(value)] = value, picked
        return known[1]

    def _picked_dim(self, dim: Dim) -> Dim:
        """A dim with lengths per hypothesis (a history under a mask), replaced by one with the parents' lengths over the carried beam."""
        source = next((beam for beam in self.sources if beam in dim.length_dims), None)
        if source is None:
            return dim
        known = self._picked_dims.get(dim)
        if known is None:
            parents = self._parents_on_host(source)
            lengths = pick(dim.get_size_tensor(), parents, source, self.out_dim, self.carried)
            known = self._picked_dims[dim] = Dim(lengths, name=dim.name, kind=dim.kind)
        return known

    def carried_dims(self, dims: Dims) -> Dims:
        """These dims, with the carried beam in place of the one after the choice."""
        return tuple(self.carried if dim is self.out_dim else dim for dim in dims)

    def forget(self) -> None:
        """Release the gathered values."""
        self._gathered.clear()
        self._rows.clear()

    def close(self) -> None:
        """End the step; only the parents are still needed."""
        self.forget()
        self.closed = True

    def follow_host(self, value: np.ndarray, dims_in: Dims, dims_out: Dims, beam: Dim | None = None) -> np.ndarray:
        """Reorder a host array over `dims_in`, plus any trailing axes, for the hypotheses after the choice, over `dims_out`.

        Args:
            beam: The beam in `dims_in`. Default: that at the beginning of the step.
        """
        start = self.start if beam is None else beam
        if start is None or start not in dims_in:
            return align_host(value, dims_in, dims_out)
        before = tuple(start if dim is self.out_dim else dim for dim in dims_out)
        parents = align_host(self.host_parents(start), self.parents.dims, dims_out)
        parents = parents.reshape(*parents.shape, *[1] * (value.ndim - len(dims_in)))
        return take_host(align_host(value, dims_in, before), parents, dims_out.index(self.out_dim))

    def after(self, dims: Dims, beam: Dim | None) -> Dims:
        """These dims, with the beam after the choice in place of one before it."""
        return tuple(self.out_dim if dim is beam else dim for dim in dims)

    def host_parents(self, dim: Dim) -> np.ndarray:
        """The surviving hypotheses of the beam `dim`, as a host array over the dims of `parents`."""
        found = self._host.get(dim)
        if found is None:
            found = self._want_parents(dim)
        return found() if isinstance(found, Value) else found

    def want_parents(self) -> None:
        """Fetch the parents together with the next value that the host reads."""
        if self.start is not None and self.start not in self._host:
            self._want_parents(self.start)

    def _want_parents(self, dim: Dim) -> np.ndarray | Value:
        source = self.sources[dim]
        source = source if source.dims == self.parents.dims else source.copy_transpose(self.parents.dims)
        found = self._host[dim] = host_value(source._raw, source.backend)
        if self.wanted is not None and isinstance(found, Value):
            self.wanted.add(found)
        return found

    def _parents_on_host(self, dim: Dim) -> Tensor:
        """The same as a Tensor on the host."""
        source = self.sources[dim]
        if source.backend.is_on_host_raw(source._raw):
            return source
        if self.wanted is not None:
            self.wanted.parents = True  # so will the next steps
        out = new_tensor(
            source.backend.from_numpy(self.host_parents(dim), dtype=source.dtype, device="cpu"), self.parents.dims
        )
        out.sparse_dim = source.sparse_dim
        return out

    def read(self, value: Tensor, *, parents: bool) -> np.ndarray:
        """Read a value of this step on the host, and with it everything else that the host will read, including the parents on request."""
        if self.wanted is None or value.backend.is_on_host_raw(value._raw):
            return value.numpy()
        if parents or self.wanted.parents:
            self.want_parents()
        return self.wanted.add(Value(value._raw, value.backend))()


def align_host(value: np.ndarray, dims: Dims, target: Dims) -> np.ndarray:
    """Transpose a host array over `dims` to the order of `target`, with length 1 for missing dims; trailing axes stay."""
    if dims == target:
        return value
    order = [*(dims.index(dim) for dim in target if dim in dims), *range(len(dims), value.ndim)]
    return value.transpose(order).reshape(
        [*(dim.extent if dim in dims else 1 for dim in target), *value.shape[len(dims) :]]
    )


def take_host(value: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    """`np.take_along_axis`, faster in the usual case."""
    if value.ndim == 2 and axis == 1 and len(value) == len(index):  # the usual {batch, beam}
        return value[np.arange(len(value))[:, None], index]
    return np.take_along_axis(value, index, axis)


def rename(value: Tensor, old: Dim, new: Dim) -> Tensor:
    """Replace the dim `old` by `new`, also in dims whose lengths are over it."""
    key = (value.dims, old, new)
    try:
        dims = _renamed[key]
    except KeyError:
        dims = _renamed.keep(key, _renamed_all(*key))
    return value._like(value._raw, dims)


def _renamed_all(dims: Dims, old: Dim, new: Dim) -> Dims:
    return tuple(new if dim is old else renamed_dim(dim, old, new) for dim in dims)


def renamed_dim(dim: Dim, old: Dim, new: Dim) -> Dim:
    """The dim with its lengths over `new` if they were over `old`."""
    if old not in dim.length_dims:
        return dim
    try:
        return _renamed_dims[dim, old, new]
    except KeyError:
        return _renamed_dims.keep((dim, old, new), _make_renamed(dim, old, new))


def _make_renamed(dim: Dim, old: Dim, new: Dim) -> Dim:
    lengths = dim.get_size_tensor()
    over = tuple(new if other is old else other for other in lengths.dims)
    return Dim(lengths._like(lengths._raw, over), name=dim.name, kind=dim.kind)


def _with_dim(value: Tensor, old: Dim, new: Dim) -> Tensor:
    """Replace `old` by `new`, and drop frames that no sequence has any more."""
    axis = value.dims.index(old)
    raw = value.backend.slice_raw(value._raw, axis, 0, new.extent)
    return value._like(raw, (*value.dims[:axis], new, *value.dims[axis + 1 :]))


def pick(value: Tensor, index: Tensor, beam: Dim, index_beam: Dim, new: Dim | None = None) -> Tensor:
    """Pick hypotheses `index` {batch dims, index_beam} of a value {..., beam}; the result has `new` (default: beam) in place of beam."""
    new = beam if new is None else new
    if beam.extent == 1 and index_beam.extent == 1:
        return value if new is beam else rename(value, beam, new)
    plan = _plan_of(value, index, beam, index_beam, new)
    if plan.rows is not None:
        return value._like(plan.take(value._raw, plan.rows(index._raw)), plan.dims)
    twin = index_beam.copy(match_priority=index_beam.match_priority + 1)
    renamed = new_tensor(index._raw, tuple(twin if dim is index_beam else dim for dim in index.dims))
    picked = gather(value, indices=renamed, axis=beam)
    return picked._like(picked._raw, tuple(new if dim is twin else dim for dim in picked.dims))


class _Pick(NamedTuple):
    """The way in which hypotheses are picked.

    Attributes:
        rows: Raw index -> rows of the value, its batch dims and beam taken together. None: it needs a general gather.
        take: Raw value and rows -> raw result.
        dims: Dims of the result.
        over: Dims of the value whose lengths are per hypothesis.
    """

    rows: Callable[[Any], Any] | None
    take: Callable[[Any, Any], Any]
    dims: Dims
    over: Dims


class _Way(NamedTuple):
    """The way in which a state moves to the carried beam.

    Attributes:
        source: The state's beam before the choice, or None; `pick` says how its hypotheses are picked.
        dims: Dims of the result, if nothing is picked.
        over: The batch dims, if it is repeated for all hypotheses.
    """

    source: Dim | None
    pick: _Pick | None
    dims: Dims
    over: Dims | None


def _plan_of(value: Tensor, index: Tensor, beam: Dim, index_beam: Dim, new: Dim) -> _Pick:
    key = (value._raw.__class__, value.dims, index.dims, beam, index_beam, new)
    try:
        return _plans[key]
    except KeyError:
        return _plans.keep(key, _plan_pick(value, index, beam, index_beam, new))


def _plan_pick(value: Tensor, index: Tensor, beam: Dim, index_beam: Dim, new: Dim) -> _Pick:
    dims = tuple(new if dim is beam else dim for dim in value.dims)
    over = tuple(dim for dim in value.dims if beam in dim.length_dims)
    return _Pick(*_plan_rows(value, index, beam, index_beam), dims, over)


def _plan_rows(value: Tensor, index: Tensor, beam: Dim, index_beam: Dim) -> tuple[Any, Any]:
    """Plan the usual order, {batch dims, beam, ...}, as a single row lookup."""
    axis = len(index.dims) - 1
    batch = index.dims[:-1]
    one_to_one = beam.extent == index_beam.extent == 1
    if one_to_one or index.dims[-1] is not index_beam or value.dims[: axis + 1] != (*batch, beam):
        return None, None
    backend = value.backend
    reshape, take = backend.reshape_raw, backend.take_raw
    rest = value.dims[axis + 1 :]
    sizes = full_shape(batch)
    num_batch, shape = math.prod(sizes), (*sizes, index_beam.extent, *full_shape(rest))
    if num_batch == 1:
        return lambda raw_index: reshape(raw_index, (-1,)), lambda raw, rows: take(raw, rows, axis)
    rows_shape = num_batch * beam.extent, *((math.prod(full_shape(rest)),) if rest else ())
    add, starts = backend.binary_tensors_fn("add"), Memo()

    def rows_of(raw_index: Any) -> Any:
        device = backend.device_key_raw(raw_index)
        start = starts.get(device)
        if start is None:
            host = (np.arange(num_batch) * beam.extent).reshape(*sizes, 1)
            start = backend.from_numpy(host, dtype="int64", device=backend.get_device_raw(raw_index))
            starts.keep(device, start)
        return reshape(add(raw_index, start), (-1,))

    return rows_of, lambda raw, rows: reshape(take(reshape(raw, rows_shape), rows, 0), shape)
