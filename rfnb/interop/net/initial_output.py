"""The value of `prev:x` before the first step."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.interop.net.call_dims import marked, with_feature
from rfnb.interop.net.layer import Layer, LayerDict, owner_in
from rfnb.interop.net.scope import Scope
from rfnb.nn.module.parameter import Parameter
from rfnb.ops.cast import cast
from rfnb.ops.const import full, zeros_like
from rfnb.ops.expand import expand_dims


def initial_of(layers: LayerDict, name: str, env: Scope) -> Tensor:
    """The value of "prev:name" before the first step; name may be that of a part ("output/out_1"), or of an inner layer."""
    owner = owner_in(layers, name)
    assert owner is not None
    template, part = env.get(name), name[len(owner) + 1 :]
    inside = env.inner.get(owner)
    if part and inside is not None and owner_in(inside.layers, part) is not None:
        return initial_of(inside.layers, part, inside)
    return initial_output(layers[owner], template, env)


def initial_output(layer: Layer, template: Tensor, env: Scope) -> Tensor:
    """The initial output of a layer, with the dims of its value.

    Kinds: a number, "zeros", "ones", "var" (a trainable vector of the features, zero at first), "apply(0)" (the layer
    on zeros), or a layer. Default: zeros, for a dense value.

    Args:
        template: A template with the dims and dtype of the layer's value.
        env: A scope of the loop with templates; values from outside the loop are real.

    Raises:
        ValueError: A sparse value without `initial_output`, an unknown kind, or `initial_output` for a layer whose state determines it.
    """
    kind = layer.opts.get("initial_output")
    inside = None if kind is not None else layer.speaks_for(env)
    if inside is not None:
        return initial_output(inside[0], template, inside[1])
    of_state = layer.previous_output(env)
    if of_state is not None:
        if kind is not None:
            raise value_error(
                f"{layer.what}: a layer with a state takes no initial_output.",
                {"initial_output": repr(kind)},
                "Its previous output is part of its state, so the initial state determines it.",
                f'"{layer.name}": {{..., "initial_state": "zeros"}}',
            )
        return fitted(of_state, template, layer)
    if kind is None:
        if template.sparse_dim is not None:
            raise value_error(
                f'Layer "{layer.path}": its labels have no initial value.',
                {
                    "layer": f"{shape_of(template)}, sparse over {template.sparse_dim.short_repr()}",
                    "read as": f'"prev:{layer.name}"',
                },
                "The label before the first step must be given.",
                f'"{layer.name}": {{..., "initial_output": 0}}',
            )
        kind = 0
    if isinstance(kind, Tensor):
        return fitted(kind, template, layer)
    if isinstance(kind, bool) or isinstance(kind, (int, float)):
        return _filled(template, kind)
    if kind in ("zeros", "ones"):
        return _filled(template, 0 if kind == "zeros" else 1)
    if kind == "var":
        return fitted(make_initial_variable(layer, template.feature_dim), template, layer)
    if kind == "apply(0)":
        out = layer(*[zeros_like(x) for x in env.sources(layer)], env=env)
        return fitted(out, template, layer)
    if isinstance(kind, str):
        return fitted(env.get(kind), template, layer)
    raise value_error(
        f"{layer.what}: unknown initial_output.",
        {"initial_output": repr(kind), "known": 'a number, "zeros", "ones", "var", "apply(0)", a layer'},
        "initial_output is the value before the first step.",
    )


def make_initial_variable(layer: Any, feature: Dim | None) -> Parameter:
    """The parameter for "var", created if needed."""
    if not isinstance(getattr(layer, "initial_output", None), Parameter):
        layer.initial_output = Parameter([] if feature is None else [feature])
    return layer.initial_output


def _filled(template: Tensor, value: Any) -> Tensor:
    out = full(dims=template.dims, fill_value=value, dtype=template.dtype, sparse_dim=template.sparse_dim)
    return marked(out, template.feature_dim)


def fitted(value: Tensor, template: Tensor, layer: Layer) -> Tensor:
    """A value broadcast to all dims of the template."""
    if template.feature_dim is not None:
        if value.feature_dim is None and template.feature_dim in value.dims:
            value = marked(value + 0, template.feature_dim)
        value = with_feature(value, template.feature_dim, f"{layer.what}, initial output")
    if value.dtype != template.dtype:
        value = cast(value, template.dtype)
    missing = [dim for dim in template.dims if dim not in value.dims]
    out = marked(expand_dims(value, missing) if missing else value + 0, template.feature_dim)
    if template.sparse_dim is not None:
        out.sparse_dim = template.sparse_dim
    return out
