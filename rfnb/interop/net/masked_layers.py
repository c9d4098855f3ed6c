"""Layers on selected frames: masked_computation, and unmask."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import dim_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.interop.net.call_dims import marked, time_dim
from rfnb.interop.net.initial_output import initial_output
from rfnb.interop.net.layer import Layer, LayerDict, layer_class
from rfnb.interop.net.scope import Scope, UnitScope, frame_zeros
from rfnb.interop.net.wrapper_layers import StepUnitScope, Wrapper
from rfnb.nn.masked_computation import masked_computation
from rfnb.nn.unmask import unmask, unmask_initial_state
from rfnb.ops.mask_packing import masked_select
from rfnb.rec.state import State


class _PackedScope(UnitScope):
    """The unit of a masked computation over whole sequences; its outside inputs are packed like its source."""

    def __init__(self, layers: LayerDict, parent: Scope, source: Tensor | None, pack: Any, neighbours: frozenset[str]):
        super().__init__(layers, parent, source, neighbours=neighbours)
        self._pack, self.in_loop = pack, False

    def state(self, layer: Layer) -> Any:
        return None

    def set_state(self, layer: Layer, state: Any) -> None:
        return None

    def beside(self, ref: str) -> Any:
        return self._pack(super().beside(ref))


@layer_class("masked_computation")
class MaskedComputationLayer(Wrapper):
    """A layer on the frames where the mask is True, as if the others did not exist."""

    required = ("unit",)
    options = ("in_spatial_dim", "out_spatial_dim")
    references = ("mask", "masked_from")

    def begin(self) -> None:
        if self.opts.get("initial_output") is not None:
            raise value_error(
                f"{self.what}: initial_output is not an option of this class.",
                {"initial_output": repr(self.opts["initial_output"])},
                "The unit determines the initial value. Set it there:",
                f'"unit": {{..., "initial_output": {self.opts["initial_output"]!r}}}',
            )
        unit = dict(self.network_of("unit"))
        for key in ("n_out", "out_dim"):
            if key in self.opts and key not in unit:
                unit[key] = self.opts[key]
        self.inner = LayerDict({self.name: unit}, self.path.removesuffix(self.name))

    @property
    def unit(self) -> Layer:
        return self.inner[self.name]

    def inner_output(self) -> str:
        return self.name

    def refs(self, search: bool) -> list[str]:
        needs = self.needs(search)
        beside = [name for name in needs.others if name != ":i" and not name.startswith("data")]
        # Where base: leads from a unit is resolved at run time: a sibling layer, or an enclosing one. See UnitScope.
        around = [ref for name in needs.base for ref in (name, f"base:{name}")]
        return [*Layer.refs(self, search), *beside, *around, *self._previous_outside(needs)]

    def _mask(self, env: Scope) -> Tensor | None:
        mask = env.get(self.opts.get("mask"))
        if mask is not None and mask.dtype != "bool":
            raise value_error(
                f"{self.what}: the mask is not bool.",
                {"mask": f"{shape_of(mask)} {mask.dtype}"},
                "The mask is True for the frames to compute.",
                '"mask": {"class": "compare", ...}',
            )
        return mask

    def _source(self, env: Scope, sources: list[Tensor]) -> Tensor | None:
        return self.concatenated(sources, env) if sources else None

    # -- in a loop -----------------------------------------------------------------------------------------------------------
    def _in_steps(self, mask: Tensor | None, env: Scope) -> bool:
        return env.in_loop and (mask is None or time_dim(mask, env.dims) is None)

    def _step_scope(self, env: Scope, source: Tensor | None, states: Any) -> StepUnitScope:
        return StepUnitScope(self.inner, env, source, states, self.neighbours)

    def infer(self, env: Scope, sources: list[Tensor]) -> Tensor:
        mask = self._mask(env)
        if not self._in_steps(mask, env):
            return self.compute(env, sources)
        scope = self._step_scope(env, self._source(env, sources), State())
        out = self.run_inside(scope)
        env.finals.update(scope.finals)
        return out

    def initial_state(self, env: Scope) -> State | None:
        mask = self._mask(env)
        if not self._in_steps(mask, env):
            return None
        scope = self._step_scope(env, self._source(env, env.sources(self)), State())
        states = self.initial_states(scope)
        return State(output=initial_output(self.unit, env.get(self.name), scope), unit=states)

    def previous_output(self, env: Scope) -> Tensor | None:
        state = self.initial_state(env)
        return None if state is None else state.output

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        mask, source = self._mask(env), self._source(env, sources)
        if self._in_steps(mask, env):
            return self._step(mask, source, env)
        return self._packed(mask, source, env)

    def _step(self, mask: Tensor | None, source: Tensor | None, env: Scope) -> Tensor:
        state, feature = env.state(self), None

        def run(states: Any) -> tuple[Tensor, Any]:
            nonlocal feature
            scope = self._step_scope(env, source, states)
            out = self.run_inside(scope)
            feature = out.feature_dim
            return out, scope.next_states

        if mask is None:
            out, unit = run(state.unit)
            state = State(output=out, unit=unit)
        else:
            out, state = masked_computation(run, mask=mask, state=state)
        env.set_state(self, state)
        env.finals[self.name] = state.unit.get(self.unit.path, state.unit)
        return marked(out, feature)

    # -- of whole sequences ----------------------------------------------------------------------------------------------------
    def _packed(self, mask: Tensor | None, source: Tensor | None, env: Scope) -> Tensor:
        given = self.opts.get("masked_from")
        if mask is None:
            return self._run(env, source, lambda x: x)
        frames = self.opts.get("in_spatial_dim")
        packed = self.opts.get("out_spatial_dim")
        if frames is None or packed is None:
            raise value_error(
                f"{self.what}: in_spatial_dim and out_spatial_dim are missing.",
                {"in_spatial_dim": str(frames), "out_spatial_dim": str(packed), "mask": mask},
                "The frames of in_spatial_dim where the mask is True become those of out_spatial_dim.",
                '"in_spatial_dim": time, "out_spatial_dim": Dim(None, name="packed")',
            )
        axis = env.dims(frames)
        if axis not in mask.dims:
            raise value_error(
                f"{self.what}: the mask has no dim {axis.short_repr()}.",
                {"mask": mask, "in_spatial_dim": axis},
                "The mask has one entry per frame.",
            )
        if given is not None:
            source = env.get(given)
            out_dim = time_dim(source, env.dims)
        else:
            out_dim = Dim(None, name=packed.name)
        assert out_dim is not None

        def pack(x: Any) -> Any:
            if not isinstance(x, Tensor) or axis not in x.dims:
                return x
            out, _ = masked_select(x, mask=mask, dims=[axis], out_dim=out_dim)
            return marked(out.copy_masked(0, dims=[out_dim]), x.feature_dim)

        source = source if given is not None else pack(source)
        env.dims.bind(packed, out_dim)
        return self._run(env, source, pack)

    def _run(self, env: Scope, source: Tensor | None, pack: Any) -> Tensor:
        scope = _PackedScope(self.inner, env, source, pack, self.neighbours)
        out = scope.get(self.name)
        env.finals.update(scope.finals)
        frame = frame_zeros(out, time_dim(out, env.dims))
        if frame.sparse_dim is None or self.unit.opts.get("initial_output") is not None:
            env.parts[self.name, "initial"] = initial_output(self.unit, frame, self._first(env, source))
        return out

    def _first(self, env: Scope, source: Tensor | None) -> Scope:
        """A scope for the unit's first step."""
        frame = None if source is None else frame_zeros(source, time_dim(source, env.dims))
        first = UnitScope(self.inner, env, frame, neighbours=self.neighbours)
        first.in_loop = True
        return first

    def speaks_for(self, env: Scope) -> tuple[Layer, Scope] | None:
        if self._in_steps(self._mask(env), env):
            return None
        return self.unit, self._first(env, self._source(env, env.sources(self)))


@layer_class("unmask")
class UnmaskLayer(Layer):
    """From packed frames to all frames: each is repeated until the next one."""

    required = ("mask",)
    references = ("mask",)
    options = ("skip_initial",)

    def _counts(self, x: Tensor, env: Scope) -> bool:
        """Whether it steps through a packed source."""
        return env.in_loop and time_dim(x, env.dims) is not None

    def initial_state(self, env: Scope) -> State | None:
        if not self._counts(env.get(self.sources[0]), env):
            return None
        return unmask_initial_state(batch_dims=env.get(self.opts["mask"]).dims)

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        x, mask = sources[0], env.get(self.opts["mask"])
        if mask.dtype != "bool":
            raise value_error(
                f"{self.what}: the mask is not bool.",
                {"mask": f"{shape_of(mask)} {mask.dtype}"},
                "The mask is True where the next frame begins.",
                '"mask": {"class": "compare", ...}',
            )
        packed = time_dim(x, env.dims)
        if env.in_loop and packed is None:
            return x
        axis = time_dim(mask, env.dims)
        if packed is None or (axis is None and not env.in_loop):
            raise dim_error(
                f"{self.what}: a time dim is missing.",
                {"source": x, "mask": mask},
                "Source and mask each need a time dim.",
            )
        initial: Any = 0.0 if x.sparse_dim is None else 0
        layer, scope = env.layer_of(self.sources[0])
        while (layer.name, "initial") not in scope.parts and (inside := layer.speaks_for(scope)) is not None:
            layer, scope = inside
        initial = scope.parts.get((layer.name, "initial"), initial)
        if axis is None:
            out, state = unmask(
                x, mask=mask, axis=single_step_dim, in_spatial_dim=packed, initial=initial, state=env.state(self)
            )
            env.set_state(self, state)
        else:
            out, _ = unmask(x, mask=mask, axis=axis, in_spatial_dim=packed, initial=initial)
            env.parts[self.name, "initial"] = initial
        return marked(out, x.feature_dim)
