"""What a name means where it is used: the values of layers, data, `base:`, `prev:` and the step, in a network or a loop body."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rfnb.core.dim import Dim
from rfnb.core.errors import message
from rfnb.core.tensor import Tensor
from rfnb.interop.net.dims import CallDims, time_dim
from rfnb.interop.net.layer import Layer, LayerDict
from rfnb.ops.cast import cast
from rfnb.ops.const import zeros
from rfnb.rec.state import State

if TYPE_CHECKING:
    from rfnb.rec.loop import Loop


class Call:
    """One call of a network.

    Attributes:
        data: The inputs by key.
        search: Whether choices search; else they give the targets.
        face: "with" or "for": how loops run.
        move_out: Whether loops may move what does not need the state; None: as the dict says.
        keys: The inputs that are declared, and the labels of each; None if it is dense.
        weights: Layer path -> what computes its attention weights.
    """

    def __init__(
        self, data: dict[str, Tensor], *, search: bool, face: str, move_out: bool | None, keys: Mapping[str, Dim | None]
    ):
        self.data, self.search, self.face, self.move_out, self.keys = data, search, face, move_out, keys
        self.weights: dict[str, Callable[[], Tensor]] = {}


class Scope:
    """The values of one network, computed when they are asked for, each once.

    Attributes:
        dry: Whether values are only templates: zeros with the right dims.
        guess: Whether a template may guess what nothing tells.
        finals: Final states of layers by name.
        parts: (layer, name) -> values of the parts of layers.
        last: (layer, name) -> last frames.
        inner: layer -> the scope of the layers inside of it.
        loop: The loop whose body this is, None outside of loops.
    """

    in_loop = False
    guess = False
    makes = True  # whether templates make parameters

    def __init__(
        self, layers: LayerDict, call: Call, dims: CallDims, *, parent: Scope | None = None, dry: bool = False
    ):
        self.layers, self.call, self.dims, self.parent, self.dry = layers, call, dims, parent, dry
        self.values: dict[str, Any] = {}
        self.finals: dict[str, State] = {}
        self.parts: dict[tuple[str, str], Any] = {}
        self.last: dict[tuple[str, str], Any] = {}
        self.inner: dict[str, Scope] = {}
        self.loop: Loop | None = None
        self._running: list[str] = []

    # -- names -------------------------------------------------------------------------------------------------------------
    def get(self, ref: Any) -> Any:
        """The value of a reference.

        Raises:
            ValueError: If it means nothing here, or if layers need each other in the same step.
        """
        if isinstance(ref, Tensor):
            return ref
        if ref.startswith("layer:"):
            return self.get(ref.removeprefix("layer:"))
        if ref.startswith("base:"):
            return self._base(ref)
        if ref.startswith("prev:"):
            return self.previous(ref.removeprefix("prev:"))
        if ref == ":i":
            return self.step_index()
        if ref in self.layers:
            return self._value(ref)
        if ref == "data" or ref.startswith("data:"):
            return self.data(ref.partition(":")[2])
        name, _, part = ref.partition("/")
        while part and name not in self.layers:
            head, _, part = part.partition("/")
            name = f"{name}/{head}"
        if part and name in self.layers:
            self._value(name)
            if (name, part) in self.parts:
                return self.parts[name, part]
            return self.layers[name].sub(self, part)
        raise self._unknown(ref)

    def layer_of(self, ref: str) -> tuple[Layer, Scope]:
        """The layer that a reference means, and its scope."""
        if ref.startswith("layer:"):
            return self.layer_of(ref.removeprefix("layer:"))
        if ref.startswith("base:") and self.parent is not None:
            return self.parent.layer_of(ref.removeprefix("base:"))
        if ref not in self.layers:
            raise self._unknown(ref)
        return self.layers[ref], self

    def _value(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        if name in self._running:
            cycle = [*self._running[self._running.index(name) :], name]
            raise ValueError(
                message(f'Layer "{self.layers.prefix}{name}" needs itself.', [("cycle", " <- ".join(cycle))],
                        "Within a step, layers need each other in an order. The value of the previous step is:", f'"prev:{name}"')
            )  # fmt: skip
        self._running.append(name)
        try:
            value = self.values[name] = self._evaluate(self.layers[name])
        except Exception as error:
            if not hasattr(error, "__notes__"):  # the innermost layer says it
                error.add_note(f"in {self.layers[name].what}")
            raise
        finally:
            self._running.pop()
        return value

    def _evaluate(self, layer: Layer) -> Any:
        if self.dry:
            value = layer.template(self)
            if self.makes:
                layer.make_once(self, [self.get(ref) for ref in layer.reads(self)])
            return value
        return layer(*self._sources(layer), env=self)

    def _sources(self, layer: Layer) -> list[Any]:
        return [self.get(ref) for ref in layer.reads(self)]

    def chosen(self) -> None:
        """A choice has been made: in this step, other hypotheses go on from here."""

    def _base(self, ref: str) -> Any:
        if self.parent is None:
            raise ValueError(
                message(f'"{ref}": there is no network around this one.', [("network", self.layers.prefix or "the whole")],
                        "base: reads from outside of a loop or a sub network.")
            )  # fmt: skip
        return self.parent.get(ref.removeprefix("base:"))

    def _unknown(self, ref: str) -> ValueError:
        names = [*self.layers.by_name, *(f"data:{key}" for key in self.call.keys)]
        near = difflib.get_close_matches(ref, names, n=4)
        where = f'in "{self.layers.prefix.rstrip("/")}"' if self.layers.prefix else "in the network"
        return ValueError(
            message(f'There is no layer "{ref}" {where}.', [("near", ", ".join(near) or "none"), ("known", ", ".join(names))],
                    "A layer reads layers of its own network; base: reads from around a loop, prev: the previous step.")
        )  # fmt: skip

    # -- what differs from scope to scope ------------------------------------------------------------------------------------
    def previous(self, name: str) -> Any:
        """The value of the previous step."""
        raise ValueError(
            message(f'"prev:{name}" outside of a loop.', [("network", self.layers.prefix or "the whole")],
                    "Only the steps of a loop have a previous one.")
        )  # fmt: skip

    def step_index(self) -> Any:
        """The index of the step, an int32 scalar."""
        raise ValueError(
            message(
                '":i" outside of a loop.',
                [("network", self.layers.prefix or "the whole")],
                "Only the steps of a loop are counted.",
            )
        )

    def data(self, key: str) -> Tensor:
        """An input of the network."""
        return self.whole_data(key or "data")

    def whole_data(self, key: str) -> Tensor:
        """An input of the network with all its frames."""
        if self.parent is not None:
            return self.parent.whole_data(key)
        if key in self.call.data:
            return self.call.data[key]
        if key in self.call.keys:
            raise ValueError(
                message(f'The network needs the input "{key}".', [("given", ", ".join(self.call.data) or "nothing")],
                        "An input that is used has to be given.", f'net({{"{key}": (array, lengths), ...}})')
            )  # fmt: skip
        raise self._unknown(f"data:{key}")

    def target(self, key: str) -> Tensor:
        """The reference that a choice gives out in training."""
        return self.get(key) if ":" in key else self.data(key)

    def state(self, layer: Layer) -> Any:
        """What a layer carries from the previous step; None outside of loops."""
        return None

    def set_state(self, layer: Layer, state: Any) -> None:
        """What a layer carries to the next step."""

    def axis_of_loop(self) -> Dim | None:
        """The dim of the loop around, if it is known."""
        return None

    def get_feature(self, layer: Layer) -> Dim | None:
        """The feature dim of a layer's value, from its template."""
        return None

    def batch_dims(self) -> list[Dim]:
        """The batch dim of the call."""
        return [self.dims.batch] if self.dims.batch is not None else []


class UnitScope(Scope):
    """The network of one layer that wraps others: "data" is what it was given."""

    def __init__(self, layers: LayerDict, parent: Scope, source: Tensor | None):
        super().__init__(layers, parent.call, parent.dims, parent=parent, dry=parent.dry)
        self.source, self.in_loop, self.guess, self.loop = source, parent.in_loop, parent.guess, parent.loop
        self.makes = parent.makes

    def data(self, key: str) -> Tensor:
        if key in ("", "data", "source") and self.source is not None:
            return self.source
        assert self.parent is not None
        return self.parent.data(key)

    def previous(self, name: str) -> Any:
        assert self.parent is not None
        return self.parent.previous(name)

    def step_index(self) -> Any:
        assert self.parent is not None
        return self.parent.step_index()

    def chosen(self) -> None:
        assert self.parent is not None
        self.parent.chosen()

    def state(self, layer: Layer) -> Any:
        assert self.parent is not None
        return layer.initial_state(self) if self.dry and self.in_loop else self.parent.state(layer)

    def set_state(self, layer: Layer, state: Any) -> None:
        assert self.parent is not None
        self.parent.set_state(layer, state)


def lengths_text(dim: Dim) -> str:
    """For messages."""
    return f"{dim.short_repr()}{'' if dim.lengths is None else ': ' + ', '.join(map(str, dim.lengths.ravel()[:8]))}"


def frame_zeros(whole: Tensor) -> Tensor:
    """Zeros like one frame."""
    axis = time_dim(whole)
    dims = [dim for dim in whole.dims if dim is not axis]
    feature = whole.feature_dim if whole.feature_dim in dims else None
    return zeros(dims, dtype=whole.dtype, sparse_dim=whole.sparse_dim, feature_dim=feature)


def plain_index(index: Tensor) -> Tensor:
    """A step index that is a number, not a label."""
    out = cast(index, "int32") + 0
    out.sparse_dim = None
    return out
