"""Dependencies: the needed layers and previous values, and their order, derived from what each layer reads before anything runs.

The search is iterative, so that networks may be thousands of layers deep.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator

from rfnb.core.dim import Dim
from rfnb.interop.net.layer import LayerDict, owner_in


class Dependencies:
    """The layers and values that the roots depend on.

    Attributes:
        layers: Names in the order in which they are first needed.
        previous: Layers whose previous value is read.
        base: Names read from outside, without "base:".
        others: Names that are not layers here.
    """

    def __init__(self, layers: LayerDict, roots: Iterable[str], *, search: bool):
        found: dict[str, None] = {}
        previous: dict[str, None] = {}
        base: dict[str, None] = {}
        others: dict[str, None] = {}
        left = [iter(roots)]
        while left:
            ref = next(left[-1], None)
            if ref is None:
                left.pop()
                continue
            ref = ref.removeprefix("layer:")
            if ref.startswith("base:"):
                base[ref.removeprefix("base:")] = None
                continue
            if ref.startswith("prev:"):
                ref = ref.removeprefix("prev:")
                previous[ref] = None
            name = owner_in(layers, ref)
            if name is None:
                others[ref] = None
            elif name not in found:
                found[name] = None
                left.append(iter(_reads(layers, name, search)))
        self.layers, self.previous, self.base, self.others = list(found), list(previous), list(base), list(others)


def in_step_order(layers: LayerDict, root: str, *, search: bool, done: Container[str]) -> list[str]:
    """The layers that a layer depends on in the same step, followed by it, each after its inputs; without those in `done`."""
    order: dict[str, None] = {}
    seen = {root}
    for name, left in _depth_first(layers, root, seen, search, lambda name: name not in done):
        if left:
            order[name] = None
    return list(order)


def _depth_first(
    layers: LayerDict, root: str, seen: set[str], search: bool, enters: Callable[[str], bool]
) -> Iterator[tuple[str, bool]]:
    """(name, False) when a layer is entered, (name, True) when it is left."""
    stack = [(root, iter(_reads(layers, root, search)))]
    yield root, False
    while stack:
        name, refs = stack[-1]
        ref = next(refs, None)
        if ref is None:
            stack.pop()
            yield name, True
            continue
        found = owner_in(layers, ref.removeprefix("layer:"))
        if found is not None and found not in seen and enters(found):
            seen.add(found)
            stack.append((found, iter(_reads(layers, found, search))))
            yield found, False


def is_deep(layers: LayerDict, name: str, *, search: bool) -> bool:
    """Whether the chain of dependencies of a layer is too long to compute recursively."""
    if search not in layers.deep:
        layers.deep[search] = _deep_layers(layers, search)
    return name in layers.deep[search]


_DEEP = 20


def _deep_layers(layers: LayerDict, search: bool) -> frozenset[str]:
    depth: dict[str, int] = {}
    seen: set[str] = set()
    for root in layers.by_name:
        if root in seen:
            continue
        seen.add(root)
        for name, left in _depth_first(layers, root, seen, search, lambda name: True):
            if left:
                below = (owner_in(layers, ref.removeprefix("layer:")) for ref in _reads(layers, name, search))
                depth[name] = 1 + max((depth.get(other, 0) for other in below if other is not None), default=0)
    return frozenset(name for name, count in depth.items() if count > _DEEP)


def reads_in_step(layers: LayerDict, name: str, other: str, *, search: bool) -> bool:
    """Whether a layer depends on another one in the same step."""
    return name != other and other in in_step_order(layers, name, search=search, done=())


def makers_of_dims(layers: LayerDict, name: str) -> list[str]:
    """The layers that create the dims that an entry names as those of its keys."""
    wanted = layers[name].opts.get("key_value_spatial_dim")
    if not isinstance(wanted, Dim):
        return []
    return [other for other, layer in layers.by_name.items() if layer.opts.get("out_spatial_dim") is wanted]


def _reads(layers: LayerDict, name: str, search: bool) -> list[str]:
    return [*layers[name].refs(search), *makers_of_dims(layers, name)]
