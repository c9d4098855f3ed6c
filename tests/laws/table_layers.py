"""The entries of the table for modules: inputs and parameters are all drawn, and all go through the laws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from table import case, exempt
from world import World

import rfnb as rf
from rfnb import Dim, Tensor

exempt("a type; what makes it is in the table", "CausalSelfAttentionState")
exempt("what the kinds of self-attention share", "SelfAttentionBase")


def of_module(
    w: World, make: Callable[[], rf.Module], call: Callable[..., Any], inputs: list[Tensor], low: float = -1.0
) -> Any:
    """(call, inputs) where the parameters of the module that `make` makes come after `inputs`; masks of blocks stay as they are."""
    pattern = _to_be_drawn(make())

    def run(*values: Tensor) -> Any:
        with rf.set_default_device_ctx(values[-1].device if values else None):
            module = make()
        for parameter, like, value in zip(_to_be_drawn(module), pattern, values[len(inputs) :], strict=True):
            raw = value.copy_transpose(like.dims).raw_tensor
            parameter.assign(Tensor(dims=parameter.dims, raw_tensor=raw))
        return call(module, *values[: len(inputs)])

    return run, [*inputs, *(w.floats(*parameter.dims, low=low, high=1.0) for parameter in pattern)]


def _to_be_drawn(module: rf.Module) -> list[rf.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.dtype != "bool"]


# -- normalisation -----------------------------------------------------------------------------------------------------
@case("moments")
def _moments(w: World) -> Any:
    axis = [w.time, (w.batch, w.time), w.feat][w.rng.integers(3)]
    correction = int(w.rng.integers(2))
    return lambda x: rf.moments(x, axis, correction=correction), [w.floats(w.batch, w.time, w.feat)]


@case("normalize")
def _normalize(w: World) -> Any:
    axis = [w.time, (w.time, w.feat), w.feat][w.rng.integers(3)]
    return lambda x: rf.normalize(x, axis=axis, epsilon=0.01), [w.floats(w.batch, w.time, w.feat)]


@case("normalize", "over the batch")
def _normalize_batch(w: World) -> Any:
    axis = w.shuffled((w.batch, w.time))
    return lambda x: rf.normalize(x, axis=axis, epsilon=0.01), [w.floats(w.batch, w.time, w.feat)]


@case("Normalize")
def _normalize_module(w: World) -> Any:
    def call(module: Any, x: Tensor) -> Tensor:
        return module(x, axis=w.time)

    make = lambda: rf.Normalize(param_dims=w.feat, epsilon=0.01)  # noqa: E731
    return of_module(w, make, call, [w.floats(w.batch, w.time, w.feat)])


for _name in ("LayerNorm", "RMSNorm"):

    @case(_name)
    def _norm(w: World, name: str = _name) -> Any:
        in_dim = w.feat if w.rng.random() < 0.7 else [w.heads, w.feat]
        inputs = [w.floats(w.batch, w.time, w.heads, w.feat)]
        return of_module(w, lambda: getattr(rf, name)(in_dim, eps=0.01), lambda module, x: module(x), inputs)


for _name in ("GroupNorm", "GroupNormSpatial"):

    @case(_name)
    def _group_norm(w: World, name: str = _name) -> Any:
        in_dim, options = 2 * w.feat, {} if name == "GroupNorm" else {"spatial_dim": w.time}
        make = lambda: getattr(rf, name)(in_dim, num_groups=2, eps=0.01)  # noqa: E731
        return of_module(w, make, lambda module, x: module(x, **options), [w.floats(w.batch, w.time, in_dim)])


for _name, _training in (("outside of training", False), ("in training", True)):

    @case("BatchNorm", _name)
    def _batch_norm(w: World, training: bool = _training) -> Any:
        def call(module: Any, x: Tensor) -> Any:
            with rf.get_run_ctx().train_flag_ctx(training):
                out = module(x)
            return out, rf.copy(module.running_mean), rf.copy(module.running_variance)

        return of_module(w, lambda: rf.BatchNorm(w.feat), call, [w.floats(w.batch, w.time, w.feat)], low=0.1)


# -- attention ---------------------------------------------------------------------------------------------------------
@case("dot_attention", "causal")
def _dot_attention_causal(w: World) -> Any:
    def call(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return rf.dot_attention(
            query, keys, values, key_dim=w.feat, axis=w.source, causal_query_spatial_dim=query_dim
        )  # fmt: skip

    query_dim = w.time if w.rng.random() < 0.5 else w.source
    return call, [
        w.floats(w.batch, query_dim, w.heads, w.feat),
        w.floats(w.batch, w.source, w.feat),
        w.floats(w.batch, w.source, w.out),
    ]


def _attention_options(w: World) -> dict[str, Any]:
    return {"key_dim_total": 2 * w.feat, "value_dim_total": 2 * w.out, "num_heads": 2}


@case("SelfAttention")
def _self_attention(w: World) -> Any:
    make = lambda: rf.SelfAttention(w.feat, w.classes, **_attention_options(w))  # noqa: E731
    return of_module(w, make, lambda module, x: module(x, axis=w.time), [w.floats(w.batch, w.time, w.feat)])


@case("CausalSelfAttention")
def _causal_self_attention(w: World) -> Any:
    make = lambda: rf.CausalSelfAttention(w.feat, w.classes, **_attention_options(w))  # noqa: E731
    return of_module(w, make, lambda module, x: module(x, w.time)[0], [w.floats(w.batch, w.time, w.feat)])


@case("CausalSelfAttention", "a sequence, another one, a step")
def _causal_self_attention_parts(w: World) -> Any:
    def call(module: Any, a: Tensor, b: Tensor, c: Tensor) -> Any:
        out_a, state = module(a, w.time, state=module.default_initial_state(batch_dims=[w.batch]))
        out_b, state = module(b, w.source, state=state)
        return out_a, out_b, module(c, rf.single_step_dim, state=state)[0]

    make = lambda: rf.CausalSelfAttention(w.feat, w.classes, **_attention_options(w))  # noqa: E731
    inputs = [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.source, w.feat), w.floats(w.batch, w.feat)]
    return of_module(w, make, call, inputs)


@case("CrossAttention")
def _cross_attention(w: World) -> Any:
    def call(module: Any, query: Tensor, encoder: Tensor) -> Tensor:
        return module(query, module.transform_encoder(encoder, axis=w.source))

    query = [(w.batch, w.feat), (w.batch, w.time, w.feat), (w.batch, w.source, w.feat)][w.rng.integers(3)]
    make = lambda: rf.CrossAttention(w.heads, w.feat, w.classes, **_attention_options(w))  # noqa: E731
    return of_module(w, make, call, [w.floats(*query), w.floats(w.batch, w.source, w.heads)])


# -- positions ---------------------------------------------------------------------------------------------------------
@case("sinusoidal_encoding")
def _sinusoidal_encoding(w: World) -> Any:
    return lambda indices: rf.sinusoidal_encoding(indices, feat_dim=w.out), [w.ints(w.batch, w.time)]


@case("sinusoidal_positional_encoding")
def _sinusoidal_positional_encoding(w: World) -> Any:
    def call(offset: Tensor) -> Any:
        options = {"spatial_dim": w.time, "feat_dim": w.out, "device": offset.device}
        return [rf.sinusoidal_positional_encoding(**options, offset=each) for each in (None, offset)]

    return call, [w.ints(w.batch)]


@case("relative_positional_encoding", "added to a tensor")
def _relative_positional_encoding(w: World) -> Any:
    distance = Dim(max(w.heads.extent + w.time.extent - 1, 0), name="distance")

    def call(x: Tensor) -> Any:
        dims = {"query_spatial_dim": w.heads, "key_value_spatial_dim": w.time, "feat_dim": w.out}
        encoding, own = rf.relative_positional_encoding(**dims, query_offset=1, device=x.device)
        return x + rf.replace_dim(encoding, in_dim=own, out_dim=distance)[0]

    return call, [w.floats(distance, w.out)]


# -- transformer -------------------------------------------------------------------------------------------------------
for _name in ("FeedForward", "FeedForwardGated"):

    @case(_name)
    def _feed_forward(w: World, name: str = _name) -> Any:
        make = lambda: getattr(rf, name)(w.feat, ff_dim=3)  # noqa: E731
        return of_module(w, make, lambda module, x: module(x), [w.floats(w.batch, w.time, w.feat)])


@case("TransformerEncoderLayer")
def _encoder_layer(w: World) -> Any:
    dim = 2 * w.feat
    make = lambda: rf.TransformerEncoderLayer(dim, num_heads=2, norm=_soft_norm)  # noqa: E731
    return of_module(w, make, lambda module, x: module(x, spatial_dim=w.time), [w.floats(w.batch, w.time, dim)])


@case("TransformerEncoder")
def _encoder(w: World) -> Any:
    make = lambda: rf.TransformerEncoder(w.classes, 2 * w.feat, num_layers=1, num_heads=2, norm=_soft_norm)  # noqa: E731
    ids = w.ints(w.batch, w.time, sparse_dim=w.classes)
    return of_module(w, make, lambda module, x: module(x, spatial_dim=w.time), [ids])


@case("TransformerDecoderLayer")
def _decoder_layer(w: World) -> Any:
    dim = 2 * w.feat

    def call(module: Any, x: Tensor, encoder: Tensor) -> Tensor:
        state = module.default_initial_state(batch_dims=[w.batch])
        return module(x, spatial_dim=w.time, state=state, encoder=module.transform_encoder(encoder, axis=w.source))[0]

    make = lambda: rf.TransformerDecoderLayer(w.out, dim, num_heads=2, norm=_soft_norm)  # noqa: E731
    return of_module(w, make, call, [w.floats(w.batch, w.time, dim), w.floats(w.batch, w.source, w.out)])


@case("TransformerDecoder")
def _decoder(w: World) -> Any:
    def call(module: Any, ids: Tensor, step: Tensor) -> Any:
        state = module.default_initial_state(batch_dims=[w.batch])
        logits, state = module(ids, spatial_dim=w.time, state=state)
        return logits, module(step, spatial_dim=rf.single_step_dim, state=state)[0]

    make = lambda: rf.TransformerDecoder(None, w.classes, 2 * w.feat, num_layers=1, num_heads=2, norm=_soft_norm)  # noqa: E731
    inputs = [w.ints(w.batch, w.time, sparse_dim=w.classes), w.ints(w.batch, sparse_dim=w.classes)]
    return of_module(w, make, call, inputs)


# Two features may be almost equal by chance; the default eps would magnify rounding then.
_soft_norm = {"class": rf.LayerNorm, "eps": 0.1}
exempt("builds a module from a class, computes nothing", "make_norm")


# -- recurrence --------------------------------------------------------------------------------------------------------
@case("ZoneoutLSTM")
def _zoneout_lstm(w: World) -> Any:
    def call(module: Any, x: Tensor, h: Tensor, c: Tensor) -> Any:
        out, state = module(x, state=rf.LstmState(h=h, c=c), spatial_dim=w.time)
        return out, state.h, state.c

    make = lambda: rf.ZoneoutLSTM(w.feat, w.out, zoneout_factor_cell=0.2, zoneout_factor_output=0.3)  # noqa: E731
    inputs = [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.out), w.floats(w.batch, w.out)]
    return of_module(w, make, call, inputs)
