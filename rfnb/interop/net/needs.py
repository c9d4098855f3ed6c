"""Which layers of a loop body are needed, and which previous values: found from what each layer reads, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable

from rfnb.core.dim import Dim
from rfnb.interop.net.layer import LayerDict


class Needs:
    """What the roots need.

    Attributes:
        layers: Names in the order they are first needed.
        previous: Those whose previous value is read.
        base: What is read from outside, without "base:".
    """

    def __init__(self, layers: LayerDict, roots: Iterable[str], *, search: bool):
        self._layers, self._search = layers, search
        self.layers: list[str] = []
        self.previous: list[str] = []
        self.base: list[str] = []
        for root in roots:
            self._need(root)

    def _need(self, ref: str) -> None:
        ref = ref.removeprefix("layer:")
        if ref.startswith("prev:"):
            name = ref.removeprefix("prev:")
            if name not in self.previous:
                self.previous.append(name)
            self._need(name)
        elif ref.startswith("base:"):
            if ref.removeprefix("base:") not in self.base:
                self.base.append(ref.removeprefix("base:"))
        else:
            name = ref
            while name not in self._layers and "/" in name:
                name = name.rpartition("/")[0]
            if name in self._layers and name not in self.layers:
                self.layers.append(name)
                for inner in [*self._layers[name].refs(self._search), *makers_of_dims(self._layers, name)]:
                    self._need(inner)


def reads_in_step(layers: LayerDict, name: str, other: str, *, search: bool) -> bool:
    """Whether a layer needs another one in the same step."""
    seen, left = {name}, [name]
    while left:
        for ref in layers[left.pop()].refs(search):
            found = ref.removeprefix("layer:")
            while found not in layers and "/" in found:
                found = found.rpartition("/")[0]
            if found in layers and found not in seen:
                seen.add(found)
                left.append(found)
    return other in seen - {name}


def makers_of_dims(layers: LayerDict, name: str) -> list[str]:
    """The layers that make the dims which an entry names as those of its keys."""
    wanted = layers[name].opts.get("key_value_spatial_dim")
    if not isinstance(wanted, Dim):
        return []
    return [other for other, layer in layers.by_name.items() if layer.opts.get("out_spatial_dim") is wanted]
