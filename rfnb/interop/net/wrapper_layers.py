"""Layers with inner layers, and the subnetwork."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rfnb.core.tensor import Tensor
from rfnb.interop.net.body_scope import like_before
from rfnb.interop.net.dependencies import Dependencies
from rfnb.interop.net.initial_output import initial_of
from rfnb.interop.net.layer import Layer, LayerDict, Unknown, layer_class, owner_in
from rfnb.interop.net.scope import Scope, UnitScope
from rfnb.nn.module.parameter import Parameter
from rfnb.rec.state import State


class Wrapper(Layer):
    """A layer with inner layers, whose "data" is its source."""

    inner: LayerDict
    own_feature = False

    def sublayers(self) -> Iterable[Layer]:
        return self.inner.all_layers()

    def own_parameters(self) -> dict[str, Parameter]:
        return {}

    def inner_output(self) -> str:
        """The inner layer whose value is the result."""
        raise NotImplementedError

    def refs(self, search: bool) -> list[str]:
        needs = self.needs(search)
        return [*super().refs(search), *needs.base, *self._previous_outside(needs)]

    def needs(self, search: bool) -> Dependencies:
        """The inner layers that the value depends on."""
        return Dependencies(self.inner, [self.inner_output()], search=search)

    def _previous_outside(self, needs: Dependencies) -> list[str]:
        return [f"prev:{name}" for name in needs.previous if owner_in(self.inner, name) is None]

    def previous_inside(self, env: Scope) -> list[str]:
        """The inner layers whose previous value is read inside."""
        return [name for name in self.needs(env.call.search).previous if owner_in(self.inner, name) is not None]

    def initial_states(self, scope: StepUnitScope) -> State:
        """All states of the inner layers: their own, and the previous values that are read."""
        found = State()
        for name in self.needs(scope.call.search).layers:
            scope.get(name)
            state = self.inner[name].initial_state(scope)
            if state is not None:
                found[self.inner[name].path] = state
        for name in self.previous_inside(scope):
            found[scope.previous_key(name)] = initial_of(self.inner, name, scope)
        return found

    def run_inside(self, scope: StepUnitScope) -> Tensor:
        """The value of a step, and the values that the next step reads."""
        previous = self.previous_inside(scope)
        try:
            out = scope.get(self.inner_output())
        finally:
            for name in previous if scope.dry else ():
                try:
                    scope.inner_previous[scope.previous_key(name)] = scope.get(name)
                except Unknown:
                    continue
        for name in previous if not scope.dry else ():
            key = scope.previous_key(name)
            scope.next_states[key] = like_before(scope.get(name), scope.states[key])
        return out

    def partial(self, env: Scope, known: list[Tensor]) -> Tensor:
        inner: Layer = self
        while isinstance(inner, Wrapper):
            inner = inner.inner[inner.inner_output()]
        if inner.out_dim is None or not (known or env.guess):
            raise Unknown(self.path)
        return inner._over_sources(env, known)


@layer_class("subnetwork")
class SubnetworkLayer(Wrapper):
    """The layer "output" of an inner network; others as "name/layer"."""

    required = ("subnetwork",)
    options = ("concat_sources", "load_on_init", "rec_previous_layer")

    def begin(self) -> None:
        self.inner = LayerDict(self.network_of("subnetwork"), f"{self.path}/")

    def inner_output(self) -> str:
        return "output"

    def infer(self, env: Scope, sources: list[Tensor]) -> Tensor:
        return self.compute(env, sources)

    def _scope(self, env: Scope, sources: list[Tensor], states: Any = None) -> UnitScope:
        source = self.concatenated(sources, env) if sources else None
        if not env.in_loop:
            return UnitScope(self.inner, env, source)
        return StepUnitScope(self.inner, env, source, State() if states is None else states)

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        states = None if env.dry or not env.in_loop else env.state(self)
        scope = env.inner[self.name] = self._scope(env, sources, states)
        if not isinstance(scope, StepUnitScope):
            return scope.get("output")
        out = self.run_inside(scope)
        if states is not None:
            env.set_state(self, scope.next_states)
        return out

    def initial_state(self, env: Scope) -> State | None:
        scope = self._scope(env, env.sources(self))
        found = self.initial_states(scope) if isinstance(scope, StepUnitScope) else None
        return found if found else None

    def speaks_for(self, env: Scope) -> tuple[Layer, Scope] | None:
        inside = env.inner.get(self.name)
        return self.inner["output"], self._scope(env, env.sources(self)) if inside is None else inside

    def sub(self, env: Scope, name: str) -> Any:
        if self.name not in env.inner:
            raise Unknown(self.path)
        return env.inner[self.name].get(name)


class StepUnitScope(UnitScope):
    """Inner layers in a step of a loop; their states are part of the wrapper's state."""

    def __init__(
        self,
        layers: LayerDict,
        parent: Scope,
        source: Tensor | None,
        states: Any,
        neighbours: frozenset[str] | None = None,
    ):
        super().__init__(layers, parent, source, neighbours=neighbours)
        self.states, self.next_states = states, State(states)

    def previous_key(self, name: str) -> str:
        """The key of the previous value of an inner layer."""
        return f"{self.layers.prefix}{name}:previous"

    def previous(self, name: str) -> Any:
        if owner_in(self.layers, name) is None:
            return self.around.previous(name)
        found, key = self.inner_previous if self.dry else self.states, self.previous_key(name)
        if key not in found:
            raise Unknown(name)
        return found[key]

    def state(self, layer: Layer) -> Any:
        return layer.initial_state(self) if self.dry else self.states.get(layer.path)

    def set_state(self, layer: Layer, state: Any) -> None:
        self.next_states[layer.path] = state
        self.finals[layer.name] = state
