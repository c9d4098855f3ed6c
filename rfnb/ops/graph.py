"""The Tensors that others were computed from, for debugging.

In eager mode only the gradient graph is kept. So dependencies are known only for Tensors that are tracked for gradients and still
referenced in Python: an unreferenced Tensor is skipped in favour of its inputs. Nothing is known about integers, bools, stopped
gradients, results of `stop_gradient_scope`, graphs freed by backward, or NumPy.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any, Never

from rfnb.backends import registry
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.ops.operands import need_tensors


@op
def get_tensor_dependencies(x: Tensor, *extra: Never, **unknown: Never) -> list[Tensor]:
    """The Tensors that x was directly computed from, as far as known (see above), in the order of the arguments.

    A leaf (a Parameter, or a Tensor passed to `set_requires_gradient`) has none. Inspects all Python objects: slow.
    """
    need_tensors("get_tensor_dependencies", x)
    graph = _Graph(x.backend)
    place = x.backend.graph_place_raw(x._raw)
    return [] if place is None else graph.dependencies(place)


@op
def get_tensor_consumers(x: Tensor, *extra: Never, **unknown: Never) -> list[Tensor]:
    """The Tensors that were directly computed from x, as far as known (see above), oldest first. Inspects all Python objects: slow."""
    need_tensors("get_tensor_consumers", x)
    place = x.backend.graph_place_raw(x._raw)
    return [] if place is None else _Graph(x.backend).consumers().get(place, [])


@op
def walk_tensor_consumers(
    seed: Tensor | Sequence[Tensor],
    *extra: Never,
    filter_outputs: Callable[[Tensor], bool] | None = None,
    ending_condition: Callable[[Tensor], bool] | None = None,
    **unknown: Never,
) -> list[Tensor]:
    """All Tensors that were computed from `seed`, directly or not, nearest first; as far as known (see above).

    Args:
        seed: One Tensor or several; not in the result.
        filter_outputs: Keep only Tensors for which it is true; the walk continues from the others too.
        ending_condition: The walk ends with the first Tensor for which it is true, which is included.
    """
    need_tensors("walk_tensor_consumers")
    seeds = [seed] if isinstance(seed, Tensor) else list(seed)
    if not seeds:
        return []
    backend = seeds[0].backend
    consumers = _Graph(backend).consumers()
    queue = [backend.graph_place_raw(tensor._raw) for tensor in seeds]
    seen, found = set(queue), []
    while queue:
        for tensor in consumers.get(queue.pop(0), []):
            place = backend.graph_place_raw(tensor._raw)
            if place in seen:
                continue
            seen.add(place)
            queue.append(place)
            if filter_outputs is None or filter_outputs(tensor):
                found.append(tensor)
            if ending_condition is not None and ending_condition(tensor):
                return found
    return found


class _Graph:
    """The existing Tensors of one backend, by their place in the graph."""

    def __init__(self, backend: Any):
        self.backend = backend
        self.tensors: dict[Any, Tensor] = {}
        for thing in gc.get_objects():
            # `vars`: a tensor of a step of a recorded loop does not show its array, and is not a tensor of its own.
            if issubclass(type(thing), Tensor) and self._has(vars(thing).get("_raw")):
                place = backend.graph_place_raw(thing._raw)
                # Of several Tensors with one array that with a name, e.g. the Parameter.
                if place is not None and (place not in self.tensors or self.tensors[place].name is None):
                    self.tensors[place] = thing

    def _has(self, raw: Any) -> bool:
        try:
            return raw is not None and registry.BY_TYPE[type(raw)] is self.backend
        except TypeError:  # of a backend that was registered for a while
            return False

    def dependencies(self, place: Any) -> list[Tensor]:
        found, seen, queue = [], {place}, self.backend.graph_inputs_raw(place)
        while queue:
            other = queue.pop(0)
            if other in seen:
                continue
            seen.add(other)
            if other in self.tensors:
                found.append(self.tensors[other])
            else:
                queue += self.backend.graph_inputs_raw(other)
        return found

    def consumers(self) -> dict[Any, list[Tensor]]:
        found: dict[Any, list[Tensor]] = {}
        for place in sorted(self.tensors, key=self.backend.graph_order_raw):
            for tensor in self.dependencies(place):
                found.setdefault(self.backend.graph_place_raw(tensor._raw), []).append(self.tensors[place])
        return found
