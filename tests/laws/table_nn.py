"""The entries of the table for Linear, Embedding, LSTM and what holds modules."""

from __future__ import annotations

from typing import Any

from table import case
from world import SETS, World

import rfnb as rf
from rfnb import Tensor


@case("Linear")
def _linear(w: World) -> Any:
    out_dim = w.feat if w.rng.random() < 0.3 else w.out

    def call(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        with rf.set_default_device_ctx(x.device):
            linear = rf.Linear(w.feat, out_dim)
        linear.weight.assign(weight)
        linear.bias.assign(bias)
        return linear(x)

    in_dim = w.feat.copy(match_priority=1) if out_dim is w.feat else w.feat
    return call, [w.floats(*w.named(SETS[w.rng.choice([0, 2, 5, 6])])), w.floats(in_dim, out_dim), w.floats(out_dim)]


@case("Embedding")
def _embedding(w: World) -> Any:
    def call(ids: Tensor, weight: Tensor) -> Tensor:
        with rf.set_default_device_ctx(ids.device):
            embedding = rf.Embedding(w.classes, w.out)
        embedding.weight.assign(weight)
        return embedding(ids)

    return call, [w.ints(*w.dims(), sparse_dim=w.classes), w.floats(w.classes, w.out)]


for _name in ("over time", "one step"):

    @case("LSTM", _name)
    def _lstm(w: World, single: bool = _name == "one step") -> Any:
        gates = 4 * w.out

        def call(x: Tensor, h: Tensor, c: Tensor, ff: Tensor, rec: Tensor, bias: Tensor) -> Any:
            with rf.set_default_device_ctx(x.device):
                lstm = rf.LSTM(w.feat, w.out)
            for param, value in ((lstm.ff_weight, ff), (lstm.rec_weight, rec), (lstm.bias, bias)):
                param.assign(value)
            axis = rf.single_step_dim if single else w.time
            y, state = lstm(x, state=rf.LstmState(h=h, c=c), spatial_dim=axis)
            return y, state.h, state.c

        batch = (w.batch, w.heads) if w.rng.random() < 0.4 else (w.batch,)
        if single and w.rng.random() < 0.5:
            batch = (w.batch, w.time)
        x = w.floats(*batch, w.feat) if single else w.floats(*batch, w.time, w.feat)
        state = (w.batch, w.out) if w.rng.random() < 0.5 else (*batch, w.out)
        return call, [
            x,
            w.floats(*state),
            w.floats(*state),
            w.floats(gates, w.feat),
            w.floats(gates, w.out),
            w.floats(gates),
        ]


@case("dot_attention")
def _dot_attention(w: World) -> Any:
    query = [(w.batch, w.feat), (w.batch, w.time, w.feat), (w.batch, w.heads, w.source, w.feat)][w.rng.integers(3)]
    axis = w.source  # the third query is self-attention

    def call(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return rf.dot_attention(query, keys, values, key_dim=w.feat, axis=axis)

    return call, [w.floats(*query), w.floats(w.batch, w.source, w.feat), w.floats(w.batch, w.source, w.out)]


@case("additive_attention")
def _additive_attention(w: World) -> Any:
    def call(query: Tensor, keys: Tensor, values: Tensor, weight: Tensor) -> Tensor:
        return rf.additive_attention(query, keys, values, energy_weight=weight, key_dim=w.feat, axis=w.source)

    query = (w.batch, w.feat) if w.rng.random() < 0.5 else (w.batch, w.heads, w.feat)
    return call, [
        w.floats(*query),
        w.floats(w.batch, w.source, w.feat),
        w.floats(w.batch, w.source, w.out),
        w.floats(w.feat),
    ]


@case("dropout")
def _dropout(w: World) -> Any:  # outside of training; what it does in training is random
    return lambda x: rf.dropout(x, 0.5), [w.floats(*w.dims())]


for _name in ("sequential", "Sequential"):

    @case(_name)
    def _sequential(w: World, name: str = _name) -> Any:
        return (
            lambda x: (
                getattr(rf, name)(rf.relu, rf.exp)(x) if name == "Sequential" else rf.sequential(x, rf.relu, rf.exp)
            ),
            [w.floats(*w.dims())],
        )
