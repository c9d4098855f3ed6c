"""The entries of the table for attention, positions, histories, masks and grids of the recurrent layers."""

from __future__ import annotations

from typing import Any

from table import case, exempt
from table_layers import of_module
from world import World

import rfnb as rf
from rfnb import Dim, Tensor

exempt("what dot and concat attention share", "GlobalAttentionContextBase")
exempt("makes a state without frames", "cum_concat_initial_state unmask_initial_state")


# -- attention ---------------------------------------------------------------------------------------------------------
for _name in ("DotAttention", "ConcatAttention"):

    @case(_name)
    def _attention(w: World, name: str = _name) -> Any:
        options = {"energy_factor": 0.5} if name == "DotAttention" else {}

        def call(module: Any, query: Tensor, base: Tensor, ctx: Tensor) -> Any:
            last = module.get_base_weight_last_frame(query, base_ctx=ctx, axis=w.source)
            return module(query, base=base, base_ctx=ctx, axis=w.source), last

        query_dims = (w.batch, w.time, w.feat) if w.rng.random() < 0.5 else (w.batch, w.feat)
        inputs = [w.floats(*query_dims), w.floats(w.batch, w.source, w.out), w.floats(w.batch, w.source, w.feat)]
        return of_module(w, lambda: getattr(rf, name)(w.feat, **options), call, inputs)


@case("dot_attention_weights")
def _dot_weights(w: World) -> Any:
    call = lambda q, k: rf.dot_attention_weights(q, k, key_dim=w.feat, axis=w.source)  # noqa: E731
    return call, [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.source, w.feat)]


@case("additive_attention_weights")
def _additive_weights(w: World) -> Any:
    call = lambda q, k, v: rf.additive_attention_weights(q, k, energy_weight=v, key_dim=w.feat, axis=w.source)  # noqa: E731
    return call, [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.source, w.feat), w.floats(w.feat)]


@case("last_frame")
def _last_frame(w: World) -> Any:
    return lambda x: rf.last_frame(x, axis=w.time), [w.floats(w.batch, w.time, w.feat)]


@case("generic_attention")
def _generic(w: World) -> Any:
    one = Dim(1, name="one")
    call = lambda weights, base: rf.generic_attention(weights, base, axis=w.source)  # noqa: E731
    return call, [w.floats(w.batch, w.time, w.source, w.heads, one), w.floats(w.batch, w.source, w.heads, w.feat)]


@case("gauss_window_attention")
def _gauss_window(w: World) -> Any:
    inner = [None, w.heads][w.rng.integers(2)]
    size = int(w.rng.integers(1, 6))

    def call(position: Tensor, base: Tensor) -> Tensor:
        return rf.gauss_window_attention(position, base, axis=w.source, window_size=size, std=0.8, inner_size=inner)

    return call, [w.floats(w.batch, w.time, low=-1.0, high=4.0), w.floats(w.batch, w.source, w.feat)]


# -- self-attention and positions --------------------------------------------------------------------------------------
def _self_attention(w: World, **options: Any) -> rf.QKVSelfAttention:
    return rf.QKVSelfAttention(
        w.feat, key_dim_total=2 * w.feat, value_dim_total=2 * w.out, num_heads=2, **options
    )  # fmt: skip


@case("QKVSelfAttention", "with shifted keys")
def _shifted(w: World) -> Any:
    left_only = bool(w.rng.integers(2))

    def call(module: Any, x: Tensor, table: Tensor) -> Any:
        encoding = rf.RelativePositionalEncoding(module.key_dim_per_head, clipping=2)
        rows = rf.replace_dim(table, in_dim=w.feat, out_dim=module.key_dim_per_head)[0]
        encoding.encoding_matrix = rf.replace_dim(rows, in_dim=distance, out_dim=encoding.clipped_dim)[0]
        return module(x, w.time, key_shift=encoding(query_spatial_dim=w.time))[0]

    distance = Dim(5, name="distance")
    make = lambda: _self_attention(w, attention_left_only=left_only)  # noqa: E731
    return of_module(w, make, call, [w.floats(w.batch, w.time, w.feat), w.floats(distance, w.feat)])


@case("QKVSelfAttention", "a sequence, another one, a step")
def _parts(w: World) -> Any:
    def call(module: Any, a: Tensor, b: Tensor, c: Tensor) -> Any:
        out_a, state = module(a, w.time, state=module.default_initial_state(batch_dims=[w.batch]))
        out_b, state = module(b, w.source, state=state)
        return out_a, out_b, module(c, rf.single_step_dim, state=state)[0]

    inputs = [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.source, w.feat), w.floats(w.batch, w.feat)]
    return of_module(w, lambda: _self_attention(w, attention_left_only=True), call, inputs)


@case("QKVSelfAttention", "some frames of the state")
def _valid(w: World) -> Any:
    def call(module: Any, a: Tensor, b: Tensor, valid: Tensor) -> Any:
        _, state = module(a, w.time, state=module.default_initial_state(batch_dims=[w.batch]))
        some = rf.minimum(valid, w.time.get_size_tensor(device=valid.device))
        return module(b, w.source, state=state, state_var_lengths=some)[0]

    inputs = [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.source, w.feat), w.ints(w.batch, low=0, high=4)]
    return of_module(w, lambda: _self_attention(w, attention_left_only=True), call, inputs)


@case("PositionalEncoding")
def _position(w: World) -> Any:
    add = bool(w.rng.integers(2))
    constant = int(w.rng.integers(-1, 2))

    def call(x: Tensor, frame: Tensor, offset: Tensor) -> Any:
        module = rf.PositionalEncoding(w.feat, add_to_input=add, in_dim=w.feat, constant=constant)
        state = module.default_initial_state(batch_dims=[w.batch], device=x.device)
        out, state = module(x, axis=w.time, state=state, offset=offset)
        fresh = module(x, axis=w.time)[1]
        return out, *(module(frame, axis=rf.single_step_dim, state=each)[0] for each in (state, fresh))

    return call, [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.feat), w.ints(w.batch, low=0)]


@case("RelativePositionalEncoding")
def _relative(w: World) -> Any:
    fixed = bool(w.rng.integers(2))

    def call(module: Any, offset: Tensor) -> Any:
        return (
            module(query_spatial_dim=w.time, device=offset.device),
            module(query_spatial_dim=w.time, key_value_spatial_dim=w.source, query_offset=offset),
            module(query_spatial_dim=None, key_value_spatial_dim=w.heads, device=offset.device),
        )

    make = lambda: rf.RelativePositionalEncoding(w.feat, clipping=2, fixed=fixed)  # noqa: E731
    return of_module(w, make, call, [w.ints(w.batch, low=0, high=4)])


@case("cum_concat")
def _history(w: World) -> Any:
    def call(query: Tensor, key: Tensor, frame: Tensor) -> Any:
        keys, history, state = rf.cum_concat(key, axis=w.time)
        weights = rf.softmax(rf.matmul(query, keys, reduce=w.feat), axis=history)
        out = rf.matmul(weights, keys, reduce=history)
        longer, last, _ = rf.cum_concat(frame, axis=rf.single_step_dim, state=state)
        total = rf.reduce_sum(rf.expand_dim(keys, dim=w.time), axis=history)
        return out, total, rf.reduce_sum(longer, axis=last)

    return call, [*(w.floats(w.batch, w.time, w.feat) for _ in range(2)), w.floats(w.batch, w.feat)]


# -- masks -------------------------------------------------------------------------------------------------------------
@case("MaskedComputation")
def _masked(w: World) -> Any:
    packed = Dim(None, name="packed")

    def call(module: Any, x: Tensor, frame: Tensor, mask: Tensor, now: Tensor) -> Any:
        out, state = module(x, mask=mask, in_spatial_dim=w.time, out_spatial_dim=packed)
        return out, module(frame, mask=now, in_spatial_dim=rf.single_step_dim, state=state)[0]

    inputs = [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.feat), w.bools(w.batch, w.time), w.bools(w.batch)]
    return of_module(w, lambda: rf.MaskedComputation(rf.LSTM(w.feat, w.out)), call, inputs)


@case("masked_computation")
def _masked_step(w: World) -> Any:
    def call(x: Tensor, before: Tensor, mask: Tensor) -> Any:
        state = rf.State(output=before, unit=rf.State(total=before))
        fn = lambda unit: (unit.total * 2.0, rf.State(total=unit.total + x))  # noqa: E731
        out, state = rf.masked_computation(fn, mask=mask, state=state)
        return out, state.output, state.unit.total

    return call, [*(w.floats(w.batch, w.time, w.feat) for _ in range(2)), w.bools(w.batch)]


@case("unmask")
def _unmask(w: World) -> Any:
    def call(x: Tensor, mask: Tensor, initial: Tensor) -> Any:
        packed, dim = rf.masked_select(x, mask=mask, dims=[w.time])
        out, state = rf.unmask(packed, mask=mask, axis=w.time, in_spatial_dim=dim, initial=initial)
        again, state = rf.unmask(packed, mask=mask, axis=w.time, in_spatial_dim=dim)
        return out, again, state.index

    return call, [w.floats(w.batch, w.time, w.feat), w.bools(w.batch, w.time), w.floats(w.feat)]


# -- grid --------------------------------------------------------------------------------------------------------------
for _label, _options in (
    ("last", {}),
    ("average", {"pooling": "average"}),
    ("max", {"pooling": "max"}),
    ("max, masked", {"pooling": "max", "mask_pooling": True}),
    ("weighted", {"pooling": "weighted"}),
    ("weighted, masked", {"pooling": "weighted", "mask_pooling": True}),
):

    @case("TwoDLSTM", _label)
    def _grid(w: World, options: Any = _options) -> Any:
        def call(module: Any, x: Tensor, y: Tensor, frame: Tensor) -> Any:
            out, state = module(x, y, x_axis=w.source, y_axis=w.time)
            one, state = module(x, frame, x_axis=w.source, y_axis=rf.single_step_dim, state=state)
            return out, one, state.h

        inputs = [
            w.floats(w.batch, w.source, w.feat),
            w.floats(w.batch, w.time, w.classes),
            w.floats(w.batch, w.classes),
        ]
        return of_module(w, lambda: rf.TwoDLSTM(w.feat, w.classes, w.out, **options), call, inputs)
