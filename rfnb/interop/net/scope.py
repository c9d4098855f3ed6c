"""Name resolution: the values of layers, data, `base:`, `prev:` and the step, in a network or a loop body."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.interop.net.call_dims import CallDims, marked
from rfnb.interop.net.dependencies import in_step_order, is_deep
from rfnb.interop.net.layer import Layer, LayerDict, Unknown, owner_in
from rfnb.ops.cast import cast
from rfnb.ops.const import zeros
from rfnb.ops.dims import set_sparse_dim
from rfnb.rec.state import State

if TYPE_CHECKING:
    from rfnb.rec.loop import Loop


class NetCall:
    """One call of a network.

    Attributes:
        data: The inputs by key.
        search: Whether choices search; else they return the targets.
        face: "with" or "for": how loops run.
        move_out: Whether loops may move out ops that do not depend on the state; None: the option in the dict.
        keys: The declared inputs, with the labels of each; None for a dense one.
        weights: Layer path -> the function for its attention weights, and the attended dim.
    """

    def __init__(
        self, data: dict[str, Tensor], *, search: bool, face: str, move_out: bool | None, keys: Mapping[str, Dim | None]
    ):
        self.data, self.search, self.face, self.move_out, self.keys = data, search, face, move_out, keys
        self.weights: dict[str, tuple[Callable[[], Tensor], Dim]] = {}


class Scope:
    """The values of one network, each computed once on demand.

    Attributes:
        dry: Whether values are only templates: zeros with the right dims.
        guess: Whether a template may guess unknown dims.
        finals: Final states of layers by name.
        parts: (layer, name) -> values of the parts of layers.
        last: (layer, name) -> last frames.
        inner: layer -> the scope of its inner layers.
        loop: The loop whose body this is, or None.
        inner_previous: While templates are made: path -> the template of the previous value of an inner layer.
    """

    in_loop = False
    guess = False
    makes = True  # whether templates create parameters

    def __init__(
        self, layers: LayerDict, call: NetCall, dims: CallDims, *, parent: Scope | None = None, dry: bool = False
    ):
        self.layers, self.call, self.dims, self.parent, self.dry = layers, call, dims, parent, dry
        self.values: dict[str, Any] = {}
        self.finals: dict[str, State] = {}
        self.parts: dict[tuple[str, str], Any] = {}
        self.last: dict[tuple[str, str], Any] = {}
        self.inner: dict[str, Scope] = {}
        self.loop: Loop | None = None
        self.inner_previous: dict[str, Any] = {} if parent is None else parent.inner_previous
        self._running: list[str] = []
        self._unknown_now: set[str] = set()

    # -- names -------------------------------------------------------------------------------------------------------------
    def get(self, ref: Any) -> Any:
        """The value of a reference; anything that is no text is a value itself.

        Raises:
            ValueError: If it is unknown here, or if layers depend on each other in the same step.
        """
        if not isinstance(ref, str):
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
            return self._in_order(ref)
        if ref == "data" or ref.startswith("data:"):
            return self.data(ref.partition(":")[2])
        name, _, part = ref.partition("/")
        while part and name not in self.layers:
            head, _, part = part.partition("/")
            name = f"{name}/{head}"
        if part and name in self.layers:
            self._in_order(name)
            if (name, part) in self.parts:
                return self.parts[name, part]
            return self.layers[name].sub(self, part)
        return self._elsewhere(ref)

    def _elsewhere(self, ref: str) -> Any:
        """The value for a name that is not a layer here."""
        raise self._unknown(ref)

    def knows(self, ref: str) -> bool:
        """Whether a reference can be resolved here."""
        return self.meaning(ref) is not None

    def meaning(self, ref: str) -> tuple[Scope, str] | None:
        """The scope and the name in it to which a reference leads; None if it cannot be resolved."""
        ref = ref.removeprefix("layer:").removeprefix("prev:")
        if ref.startswith("base:"):
            return None if self.parent is None else self.parent.meaning(ref.removeprefix("base:"))
        known = owner_in(self.layers, ref) is not None or ref == "data" or ref.startswith(("data:", ":"))
        return (self, ref) if known else None

    @property
    def network(self) -> Scope:
        """The scope of the network that contains this unit."""
        return self

    def beside(self, ref: str) -> Any:
        """The value for a name in a unit, resolved in the network that contains it."""
        return self.get(ref)

    def seen_inside(self, ref: str) -> Any:
        """The value for base:ref in an inner network."""
        return self.get(ref)

    def layer_of(self, ref: str) -> tuple[Layer, Scope]:
        """The layer that a reference names, and its scope."""
        if ref.startswith("layer:"):
            return self.layer_of(ref.removeprefix("layer:"))
        if ref.startswith("base:") and self.parent is not None:
            return self.parent.layer_of(ref.removeprefix("base:"))
        if ref not in self.layers:
            raise self._unknown(ref)
        return self.layers[ref], self

    def _in_order(self, name: str) -> Any:
        """The value of a layer. For a long chain of dependencies, the layers are computed iteratively instead of recursively."""
        search = self.call.search
        if name not in self.values and is_deep(self.layers, name, search=search):
            for before in in_step_order(self.layers, name, search=search, done=self.values)[:-1]:
                self._before(before)
        return self._value(name)

    def _before(self, name: str) -> None:
        try:
            self._value(name)
        except Unknown:  # the reader reports it
            return

    def _value(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        if name in self._unknown_now:
            raise Unknown(name)
        if name in self._running:
            cycle = [*self._running[self._running.index(name) :], name]
            raise value_error(
                f'Layer "{self.layers.prefix}{name}" depends on itself.',
                {"cycle": " <- ".join(cycle)},
                "The layers of a step cannot depend on each other in a circle. To read the value of the previous step:",
                f'"prev:{name}"',
            )
        self._running.append(name)
        try:
            value = self.values[name] = self._evaluate(self.layers[name])
        except Unknown:
            self._unknown_now.add(name)
            raise
        except Exception as error:
            if not hasattr(error, "__notes__"):  # the innermost layer adds it
                error.add_note(f"in {self.layers[name].what}")
            raise
        finally:
            self._running.pop()
        return value

    def _evaluate(self, layer: Layer) -> Any:
        if self.dry:
            value = layer.template(self)
            if self.makes:
                layer.make_once(self, self.sources(layer))
            return value
        return layer(*self.sources(layer), env=self)

    def sources(self, layer: Layer) -> list[Any]:
        """The values from which a layer computes its own."""
        return [self.get(ref) for ref in layer.reads(self)]

    def chosen(self) -> None:
        """Handle a choice: from here on in this step, the surviving hypotheses continue."""

    def _base(self, ref: str) -> Any:
        if self.parent is None:
            raise value_error(
                f'"{ref}": there is no network around this one.',
                {"network": self.layers.prefix or "the whole"},
                '"base:" reads from the network around a loop or a subnetwork.',
            )
        return self.parent.seen_inside(ref.removeprefix("base:"))

    def _unknown(self, ref: str) -> ValueError:
        names = [*self.layers.by_name, *(f"data:{key}" for key in self.call.keys)]
        near = difflib.get_close_matches(ref, names, n=4)
        where = f'in "{self.layers.prefix.rstrip("/")}"' if self.layers.prefix else "in the network"
        return value_error(
            f'There is no layer "{ref}" {where}.',
            {"near": ", ".join(near) or "none", "known": ", ".join(names)},
            'A layer reads layers of its own network; "base:" reads from the network around a loop, "prev:" from the previous step.',
            f'{{"from": "{(near or names)[0]}"}}',
        )

    # -- defined by each kind of scope ---------------------------------------------------------------------------------------
    def previous(self, name: str) -> Any:
        """The value of the previous step."""
        raise value_error(
            f'"prev:{name}" is used outside a loop.',
            {"network": self.layers.prefix or "the whole"},
            "Only a step of a loop has a previous step.",
        )

    def step_index(self) -> Any:
        """The index of the step, an int32 scalar."""
        raise value_error(
            '":i" is used outside a loop.',
            {"network": self.layers.prefix or "the whole"},
            '":i" is the index of a step of a loop.',
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
            raise value_error(
                f'The network needs the input "{key}".',
                {"given": ", ".join(self.call.data) or "nothing"},
                "Each input that a layer uses must be given.",
                f'net({{"{key}": (array, lengths), ...}})',
            )
        raise self._unknown(f"data:{key}")

    def target(self, key: str) -> Tensor:
        """The reference that a choice returns in training."""
        return self.get(key) if ":" in key else self.data(key)

    def state(self, layer: Layer) -> Any:
        """The state that a layer carries from the previous step; None outside of loops."""
        return None

    def set_state(self, layer: Layer, state: Any) -> None:
        """Set the state that a layer carries to the next step."""

    def axis_of_loop(self) -> Dim | None:
        """The dim of the enclosing loop, if known."""
        return None

    def batch_dims(self) -> list[Dim]:
        """The batch dim of the call."""
        return [self.dims.batch] if self.dims.batch is not None else []


class UnitScope(Scope):
    """The network of a layer that wraps others: "data" is its input.

    Attributes:
        neighbours: For a wrapper whose unit is not a network itself: the names of its sibling layers, which its unit may read too.
    """

    def __init__(
        self, layers: LayerDict, parent: Scope, source: Tensor | None, *, neighbours: frozenset[str] | None = None
    ):
        super().__init__(layers, parent.call, parent.dims, parent=parent, dry=parent.dry)
        self.source, self.in_loop, self.guess, self.loop = source, parent.in_loop, parent.guess, parent.loop
        self.makes, self.neighbours = parent.makes, neighbours

    @property
    def around(self) -> Scope:
        """The scope of the wrapping layer."""
        assert self.parent is not None
        return self.parent

    @property
    def network(self) -> Scope:
        return self if self.neighbours is None else self.around.network

    def beside(self, ref: str) -> Any:
        return super().beside(ref) if self.neighbours is None else self.around.beside(ref)

    def _elsewhere(self, ref: str) -> Any:
        return super()._elsewhere(ref) if self.neighbours is None else self.beside(ref)

    def _base(self, ref: str) -> Any:
        return super()._base(ref) if self.neighbours is None else self.beside(self._from_unit(ref))

    def _from_unit(self, ref: str) -> str:
        """The meaning of base:... in a unit that is not a network itself, as a name in the network that contains it.

        As in any layer, base: leads out of that network. One extra base: per enclosing masked computation is accepted if it is unambiguous.

        Raises:
            ValueError: If it is ambiguous.
        """
        inner = ref.removeprefix("base:")
        if inner.rpartition("base:")[2].startswith(("data", ":")):
            return inner  # every network has it; "data" is the input of the unit, so base: is needed
        unit: Scope = self
        ways = [ref]
        while ways[-1].startswith("base:") and isinstance(unit, UnitScope) and unit is not self.network:
            ways.append(ways[-1].removeprefix("base:"))
            unit = unit.around
        meant = {meaning: way for way in ways if (meaning := self.network.meaning(way)) is not None}
        if len(meant) > 1:
            around, *_, beside = meant.values()
            raise value_error(
                f'"{ref}" is ambiguous.',
                {"beside": f'"{beside}"', "around": f'"{around}"'},
                "The unit of a masked computation is not a separate network: it reads the layers beside it by their names.",
                f'"{beside}"',
            )
        return next(iter(meant.values()), ref)

    def seen_inside(self, ref: str) -> Any:
        if self.neighbours is None:
            return super().seen_inside(ref)
        in_every_network = ref.rpartition("base:")[2].startswith(("data", ":"))
        return self._base(ref) if ref.startswith("base:") and not in_every_network else self.beside(ref)

    def meaning(self, ref: str) -> tuple[Scope, str] | None:
        if self.neighbours is None:
            return super().meaning(ref)
        return self.network.meaning(self._from_unit(ref) if ref.startswith("base:") else ref)

    def data(self, key: str) -> Tensor:
        if key in ("", "data", "source") and self.source is not None:
            return self.source
        return self.around.data(key)

    def target(self, key: str) -> Tensor:
        return super().target(key) if ":" in key else self.around.target(key)

    def previous(self, name: str) -> Any:
        return super().previous(name) if owner_in(self.layers, name) is not None else self.around.previous(name)

    def step_index(self) -> Any:
        return self.around.step_index()

    def axis_of_loop(self) -> Dim | None:
        return self.around.axis_of_loop()

    def chosen(self) -> None:
        self.around.chosen()

    def state(self, layer: Layer) -> Any:
        return layer.initial_state(self) if self.dry and self.in_loop else self.around.state(layer)

    def set_state(self, layer: Layer, state: Any) -> None:
        self.around.set_state(layer, state)


def lengths_text(dim: Dim) -> str:
    """The text for messages."""
    return f"{dim.short_repr()}{'' if dim.lengths is None else ': ' + ', '.join(map(str, dim.lengths.ravel()[:8]))}"


def frame_zeros(whole: Tensor, axis: Dim | None) -> Tensor:
    """Zeros like one frame over `axis`."""
    dims = [dim for dim in whole.dims if dim is not axis]
    return marked(zeros(dims, dtype=whole.dtype, sparse_dim=whole.sparse_dim), whole.feature_dim)


def plain_index(index: Tensor) -> Tensor:
    """A step index that is a number, not a label."""
    return set_sparse_dim(cast(index, "int32"), None)
