"""Layers that belong to loops: rec, accessors of loop values, and the step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rfnb.core.errors import dim_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.interop.net.body_scope import BodyScope
from rfnb.interop.net.call_dims import axis_of, marked
from rfnb.interop.net.layer import Layer, computes, layer_class
from rfnb.interop.net.scope import Scope
from rfnb.interop.net.step_network import StepNetworkLayer
from rfnb.interop.net.unit_layers import UnitLayer


@computes("rec_last_output", required=("rec_layer", "sub_layer_name"), references=("rec_layer",), needs_source=False)
def rec_last_output_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """The last real frame of a value in a loop body, which has `need_last`."""
    rec, name = layer.opts["rec_layer"], layer.opts["sub_layer_name"]
    env.get(rec)
    loop, scope = env.layer_of(rec)
    found = scope.last.get((loop.name, name))
    if found is None:
        kept = [part for of, part in scope.last if of == loop.name]
        raise value_error(
            f'{layer.what}: the last frame of "{rec}/{name}" is not collected.',
            {"kept": ", ".join(kept) or "none"},
            "A loop only keeps the last frames that its layers need.",
            f'"{name}": {{..., "need_last": True}}',
        )
    return found


@layer_class("get_rec_accumulated")
class GetRecAccumulatedOutputLayer(Layer):
    """The value "sub_layer" of a loop body over all steps, like "layer/sub_layer"."""

    required = ("sub_layer",)

    def refs(self, search: bool) -> list[str]:
        return [f"{self.sources[0]}/{self.opts['sub_layer']}"]

    def template(self, env: Scope) -> Tensor:
        return self.compute(env, [])

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        return env.get(f"{self.sources[0]}/{self.opts['sub_layer']}")


@computes("rec_unstack", options=("axis", "declare_rec_time"))
def rec_unstack_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """The frame of this step, from a layer outside of the loop."""
    x = layer.concatenated(sources, env)
    if not isinstance(env, BodyScope):
        raise value_error(
            f"{layer.what}: this class only works inside a loop.",
            {"source": x},
            "The layer returns the frame of the current step.",
        )
    given = layer.opts.get("axis")
    axis = env.axis if given is None else axis_of(x, given, env.dims, layer.what)
    if axis is None:
        raise value_error(
            f"{layer.what}: the dim of the loop is unknown.",
            {"source": x, "axis": "none"},
            "A loop without a dim takes the dim of an unstack layer that declares it.",
            f'"{layer.name}": {{..., "axis": time, "declare_rec_time": True}}',
        )
    if axis is not env.axis:
        raise dim_error(
            f"{layer.what}: its dim differs from that of the loop.",
            {
                "axis": axis,
                "loop": env.axis if env.axis else "unknown until the loop ends",
            },
            "All inputs of a loop share its dim.",
        )
    if axis not in x.dims:
        x = env.aligned(layer.sources[0], x)
        if axis not in x.dims:
            raise dim_error(
                f"{layer.what}: the source has no {axis.short_repr()}.",
                {"source": x},
                "The source needs the dim of the loop.",
            )
    out = env.frame(x)
    if x.sparse_dim is not None:
        out.sparse_dim = x.sparse_dim
    return marked(out, x.feature_dim)


@computes("rec_step_info", needs_source=False)
def rec_step_info_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """The index of the step, like ":i"."""
    return env.step_index()


def _rec(name: str, path: str, opts: Mapping[str, Any]) -> Layer:
    unit = opts.get("unit", "lstm")
    if isinstance(unit, Mapping):
        return StepNetworkLayer(name, path, opts)
    return UnitLayer(name, path, opts)


layer_class("rec")(_rec)
