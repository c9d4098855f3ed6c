"""Identify axes that sizes cannot distinguish, by their origins: axes that the model's code reads entry by entry.

for t in range(len(x)): h = self.cell(x[t], h)       # the first axis of x is its time, even if a batch was guessed
self.decoder(self.embed(source), self.embed(target))     # different dims, even if they are equally long
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from rfnb.core.dim import Dim, Dims
from rfnb.interop.seen.axis_flow import PART, AxisNode, Origin, origin
from rfnb.interop.seen.calls import SEARCH, Call

_MOST_NODES = 200


def node_of(call: Call, raw: torch.Tensor) -> AxisNode | None:
    """The node of a tensor if torch calls are observed there, else None."""
    search: Any = call.root.seen.get(SEARCH)
    node: AxisNode | None = None if search is None else search.node(raw)
    return node


def dim_of_origin(call: Call, end: Origin, size: int) -> Dim | None:
    """The dim of the model input axis from which an axis originates."""
    if end.kind != "input":
        return None
    dim = (call.names.of(end.node.args[0]) or [None] * len(end.node.shape))[end.axis]
    return dim if dim is not None and dim.extent == size and dim.kind != "feature" else None


def dims_by_origin(call: Call, raw: torch.Tensor, *, always: bool = False) -> list[Dim | None]:
    """The dims of the axes that originate from model inputs, if several data dims have their size, or `always`."""
    if call.root.seen.get(SEARCH) is None:
        return []
    sizes = [dim.extent for dim in call.root.made]
    node = node_of(call, raw) if always or any([sizes.count(size) > 1 for size in raw.shape]) else None
    if node is None:
        return []
    found = [dim_of_origin(call, origin(node, axis), size) for axis, size in enumerate(raw.shape)]
    return [dim if found.count(dim) == 1 else None for dim in found]


def say_time(
    call: Call, one: Iterable[AxisNode], other: Iterable[AxisNode], stop: Sequence[AxisNode] = ()
) -> dict[Dim, Dim]:
    """Name the axis of which two steps of a recurrence read different entries: it is time, if a guess called it the batch.

    Args:
        one, other: The inputs of the steps.
        stop: Nodes outside of the second step.

    Returns:
        For each such dim the other dim of the same size in its tensor, if there is one: the axis of a state that was named by its size
        is that one, see `carried`.
    """
    before, found = _entries_read(one, ()), dict[Dim, Dim]()
    for key, (end, index) in _entries_read(other, stop).items():
        if key in before and before[key][1] != index:
            dims = call.names.of(end.node.args[0]) or ()
            if len(dims) <= end.axis:
                continue
            time = dims[end.axis]
            if time.guessed and time.kind == "batch":
                call.names.unsettle()
                _is_time(time, [dim for dim in dims if dim is not time and dim.guessed])
            same = (dim for dim in dims if dim is not time and dim.extent == time.extent and dim.kind != "feature")
            if (other_dim := next(same, None)) is not None and time.guessed:
                found[time] = other_dim
    return found


def carried(dims: Sequence[Dim], instead: Mapping[Dim, Dim]) -> Dims:
    """The dims of a state: a dim of which each step reads one entry is replaced by the other one of its size.

    Args:
        instead: As returned by `say_time`.
    """
    return tuple(instead[dim] if dim in instead and instead[dim] not in dims else dim for dim in dims)


def _is_time(dim: Dim, others: Sequence[Dim]) -> None:
    second = next((each for each in others if each.kind == "spatial"), None)
    if second is None:
        dim.name, dim.kind = "time", "spatial"
        return
    (dim.name, dim.kind), (second.name, second.kind) = (second.name, second.kind), (dim.name, dim.kind)


def _entries_read(nodes: Iterable[AxisNode], stop: Sequence[AxisNode]) -> dict[tuple[int, int], tuple[Origin, Any]]:
    """The model input axes of which a single entry is read on the way to some nodes, and which entry."""
    todo, found = list(nodes), dict[tuple[int, int], tuple[Origin, Any]]()
    seen = {id(each) for each in (*todo, *stop)}
    while todo and len(seen) < _MOST_NODES:
        at = todo.pop()
        place = _entry_of(at)
        end = None if place is None else origin(at.inputs[0], place[0])
        if place is not None and end is not None and end.kind == "input":
            found.setdefault((id(end.node), end.axis), (end, place[1]))
            continue
        todo += [each for each in at.inputs if id(each) not in seen]
        seen.update(map(id, at.inputs))
    return found


def _entry_of(node: AxisNode) -> tuple[int, int] | None:
    """The axis of which a call reads one entry, and which entry."""
    if node.op == "getitem":
        index = node.args[1]
        index = index if isinstance(index, tuple) else (index,)
        at = next((axis for axis, each in enumerate(index) if type(each) is int), None)
        is_plain = at is not None and all([isinstance(each, slice) for each in index[:at]])
        return (at, index[at]) if at is not None and is_plain else None
    axis = node.given(1, "dim", 0)
    if node.op == "select" and type(index := node.given(2, "index")) is int:
        return axis % len(node.inputs[0].shape), index
    if node.op == "unbind" and PART in node.kwargs:
        return axis % len(node.inputs[0].shape), node.kwargs[PART]
    return None
