"""The entries of the table for loops and nested states."""

from __future__ import annotations

from typing import Any

from table import case
from world import World

import rfnb as rf
from rfnb import Dim, Tensor


@case("gather_nested")
def _gather_nested(w: World) -> Any:
    def call(x: Tensor, y: Tensor, indices: Tensor) -> Any:
        return rf.gather_nested({"x": x, "deep": [y]}, indices=indices)

    beams = w.ints(w.batch, w.out, sparse_dim=w.heads)
    inputs = [w.floats(w.batch, w.heads, w.time), w.floats(w.batch, w.time, w.feat), beams]
    return call, inputs


@case("where_nested")
def _where_nested(w: World) -> Any:
    def call(cond: Tensor, a: Tensor, b: Tensor) -> Any:
        return rf.where_nested({"x": a, "y": a}, {"x": b, "y": a}, condition=cond)

    return call, [w.bools(w.batch), w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.time, w.feat)]


@case("masked_select_nested")
def _masked_select_nested(w: World) -> Any:
    out_dim = Dim(None, name="packed")

    def call(mask: Tensor, a: Tensor, b: Tensor) -> Any:
        state, dim, _ = rf.masked_select_nested({"x": a, "y": [b]}, mask=mask, dims=[w.batch], out_dim=out_dim)
        return state, dim

    return call, [w.bools(w.batch), w.floats(w.batch, w.feat), w.floats(w.feat)]


@case("masked_scatter_nested")
def _masked_scatter_nested(w: World) -> Any:
    def call(mask: Tensor, a: Tensor, b: Tensor) -> Any:
        state, dim, dims = rf.masked_select_nested([a, b], mask=mask, dims=[w.batch])
        state = [state[0] * 2, state[1] + 1]
        return rf.masked_scatter_nested(
            state, [a, b], mask=mask, dims=[w.batch], in_dim=dim, masked_select_dim_map=dims
        )

    return call, [w.bools(w.batch), w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.feat)]


@case("mask_nested")
def _mask_nested(w: World) -> Any:
    def call(mask: Tensor, a: Tensor, b: Tensor) -> Any:
        return rf.mask_nested({"x": a, "y": [b]}, mask=mask, mask_value=-1.0)

    return call, [w.bools(w.batch), w.floats(w.batch, w.time, w.feat), w.floats(w.feat)]


@case("cond")
def _cond(w: World) -> Any:
    return lambda flag, x: rf.cond(flag, lambda: x + 1, lambda: x - 1), [w.bools(), w.floats(*w.dims())]


@case("while_loop")
def _while_loop(w: World) -> Any:
    def call(x: Tensor) -> Any:
        def body(state: Any) -> Any:
            return {"i": state["i"] + 1, "x": rf.tanh(state["x"]) + state["i"]}

        return rf.while_loop(lambda state: state["i"] < 3, body, {"i": 0, "x": x})

    return call, [w.floats(*w.dims())]


@case("scan", "over a ragged dim")
def _scan(w: World) -> Any:
    def call(x: Tensor, start: Tensor) -> Any:
        def body(frame: Tensor, h: Tensor) -> Any:
            h = rf.tanh(frame + h)
            return h * 2, h

        return rf.scan(spatial_dim=w.time, xs=x, initial=start, ys=start, body=body)

    return call, [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.feat)]


@case("scan", "until a condition")
def _scan_cond(w: World) -> Any:
    before = bool(w.rng.random() < 0.5)

    def call(limit: Tensor, start: Tensor) -> Any:
        outputs, state, dim = rf.scan(
            cond=lambda _, state: state["i"] < limit,
            cond_dims=[w.batch],
            cond_before_body=before,
            initial={"i": rf.zeros([w.batch], dtype="int32", device=start.device), "h": start},
            ys=start,
            max_seq_len=4,
            body=lambda _, state: (state["h"], {"i": state["i"] + 1, "h": state["h"] * 0.5}),
        )
        return rf.reduce_sum(outputs, axis=dim), state["h"], dim.dyn_size_ext

    return call, [w.ints(w.batch, low=0, high=6), w.floats(w.batch, w.feat)]


@case("TensorArray")
def _tensor_array(w: World) -> Any:
    def call(x: Tensor, more: Tensor) -> Any:
        array = rf.TensorArray.unstack(x, axis=w.heads).push_back(more)
        return array[0], array.stack(axis=w.heads + 1)

    return call, [w.floats(w.batch, w.heads, w.time), w.floats(w.batch, w.time)]


@case("Loop")
def _loop(w: World) -> Any:
    def call(x: Tensor, start: Tensor) -> Any:
        loop = rf.Loop(axis=w.time)
        loop.state.h = start
        for _ in loop:
            loop.state.h = rf.tanh(loop.unstack(x) + loop.state.h)
            out = loop.stack(loop.state.h)
        return out, loop.state.h

    inputs = [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.feat)]
    if w.time.extent == 0:
        return lambda x, start: start, inputs
    return call, inputs
