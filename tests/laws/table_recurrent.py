"""The entries of the table for recurrent units and what runs them."""

from __future__ import annotations

from typing import Any

from table import case, exempt
from table_layers import of_module
from world import World

import rfnb as rf
from rfnb import Dim, Tensor

exempt("abstract; its units are in the table", "RecUnit")
exempt("another name of NativeLstm2", "VanillaLSTMCell")
exempt("another name of StandardLSTMCell", "BasicLSTMCell")

_UNITS: dict[str, dict[str, Any]] = {
    "NativeLstm2": {},
    "StandardLSTMCell": {},
    "GRUCell": {},
    "TorchGRUCell": {},
    "BasicRNNCell": {},
    "RHNCell": {"depth": 2},
    "LayerNormVariantsLSTMCell": {"variance_epsilon": 0.1},
    "ZoneoutLSTMCell": {"zoneout_factor_cell": 0.2, "zoneout_factor_output": 0.3},
    "BlocksparseLSTMCell": {"block_size": 1, "connectivity": 1},
    "BlocksparseMultiplicativeMultistepLSTMCell": {"layer_norm": False, "always_dense": True, "depth": 3},
}


def _in_dim(w: World, name: str) -> Dim:
    """Block-sparse matrices need sizes that are multiples of each other."""
    return Dim(2 * w.classes.extent, name="in") if name == "BlocksparseLSTMCell" else w.feat


def _batch(w: World) -> tuple[Dim, ...]:
    return (w.batch, w.heads) if w.rng.random() < 0.4 else (w.batch,)


for _name in _UNITS:
    for _kind in ("forward", "backward", "one step", "of labels"):

        @case(_name, _kind)
        def _unit(w: World, name: str = _name, kind: str = _kind) -> Any:
            in_dim, out_dim = _in_dim(w, name), w.classes
            batch = _batch(w)
            parts = getattr(rf, name).state_parts
            own = (w.batch,) if w.rng.random() < 0.5 else batch
            if kind == "one step":  # in each frame by itself: time is one more dim of the batch
                batch = own = (*batch, w.time)
                x = w.floats(*batch, in_dim)
            elif kind == "of labels":
                x = w.ints(*batch, w.time, sparse_dim=in_dim)
            else:
                x = w.floats(*batch, w.time, in_dim)

            def call(unit: Any, x: Tensor, *state: Tensor) -> Any:
                axis = rf.single_step_dim if kind == "one step" else w.time
                direction = -1 if kind == "backward" else 1
                output, final = unit(x, state=dict(zip(parts, state)), spatial_dim=axis, direction=direction)
                return output, dict(final)

            states = [w.floats(*own, out_dim) for _ in parts]
            return of_module(w, lambda: getattr(rf, name)(in_dim, out_dim, **_UNITS[name]), call, [x, *states])


for _options in (
    {"global_norm": False, "per_gate_norm": True, "cell_norm_in_output": False, "hidden_norm": True},
    {"global_norm": False, "global_norm_joined": True, "with_concat": True},
    {"global_norm": False, "with_concat": True, "cell_norm": False},
):

    @case("LayerNormVariantsLSTMCell", " and ".join(key for key, value in _options.items() if value))
    def _layer_norm(w: World, options: dict[str, bool] = _options) -> Any:
        make = lambda: rf.LayerNormVariantsLSTMCell(w.feat, w.out, variance_epsilon=0.1, **options)  # noqa: E731
        return of_module(w, make, lambda unit, x: unit(x, spatial_dim=w.time)[0], [w.floats(w.batch, w.time, w.feat)])


@case("NativeLstm2", "without input projection")
def _without_projection(w: World) -> Any:
    gates = 4 * w.out
    make = lambda: rf.NativeLstm2(gates, w.out, input_projection=False)  # noqa: E731
    return of_module(w, make, lambda unit, x: unit(x, spatial_dim=w.time)[0], [w.floats(w.batch, w.time, gates)])


@case("NativeLstm2", "over words that have characters")
def _over_characters(w: World) -> Any:
    def call(unit: Any, x: Tensor) -> Any:
        output, final = unit(x, spatial_dim=w.char)
        return output, final.h

    return of_module(w, lambda: rf.NativeLstm2(w.feat, w.out), call, [w.floats(w.batch, w.time, w.char, w.feat)])


@case("GRUCell", "over words that have characters")
def _gru_over_characters(w: World) -> Any:
    def call(unit: Any, x: Tensor) -> Any:
        output, final = unit(x, spatial_dim=w.char)
        return output, final.h

    return of_module(w, lambda: rf.GRUCell(w.feat, w.out), call, [w.floats(w.batch, w.time, w.char, w.feat)])


@case("NativeLstm")
def _native_lstm(w: World) -> Any:
    def call(unit: Any, x: Tensor) -> Any:
        output, final = unit(x, spatial_dim=w.time, direction=-1)
        return output, dict(final)

    return of_module(w, lambda: rf.NativeLstm(w.feat, w.out), call, [w.floats(w.batch, w.time, w.feat)])


@case("Rec")
def _rec(w: World) -> Any:
    initial = ["zeros", "ones", "var"][w.rng.integers(3)]
    make = lambda: rf.Rec("lstm", w.feat, w.out, direction=-1, initial_state=initial)  # noqa: E731

    def call(rec: Any, x: Tensor) -> Any:
        output, final = rec(x, axis=w.time)
        return output, dict(final)

    return of_module(w, make, call, [w.floats(w.batch, w.time, w.feat)])


@case("RnnCell")
def _rnn_cell(w: World) -> Any:
    make = lambda: rf.RnnCell("LSTMBlock", w.feat + w.heads, w.out)  # noqa: E731

    def call(cell: Any, a: Tensor, b: Tensor) -> Any:
        a.feature_dim, b.feature_dim = w.feat, w.heads
        output, final = cell([a, b])
        return output, dict(final)

    return of_module(w, make, call, [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.time, w.heads)])


@case("last_hidden_state")
def _last_hidden_state(w: World) -> Any:
    key, combine = [("*", "concat"), ("c", "add"), ("flat", "add"), ("h", "concat")][w.rng.integers(4)]
    result = Dim(w.out.extent * (2 if key in ("*", "flat") else 1) * (2 if combine == "concat" else 1), name="result")

    def call(*parts: Tensor) -> Tensor:
        for part in parts:
            part.feature_dim = w.out
        states = [rf.State(c=parts[0], h=parts[1]), rf.State(c=parts[2], h=parts[3])]
        return rf.last_hidden_state(states, key=key, combine=combine, out_dim=result)

    return call, [w.floats(w.batch, w.time, w.out) for _ in range(4)]


# -- linear recurrences ------------------------------------------------------------------------------------------------------------
def _linear(w: World, name: str) -> Any:
    heads = {"num_heads": 2}
    if name == "GatedDeltaNet":
        options = {"key_dim_total": 2 * w.out, "value_dim_total": 2 * w.classes, **heads}
    else:
        options = {"inner_dim": 2 * w.out, "state_dim": w.classes, **(heads if name == "Mamba2" else {})}
    return lambda: rf.RGLRU(w.feat) if name == "RGLRU" else getattr(rf, name)(w.feat, w.heads, **options)


for _name in ("GatedDeltaNet", "Mamba", "Mamba2", "RGLRU"):

    @case(_name)
    def _linear_recurrent(w: World, name: str = _name) -> Any:
        call = lambda layer, x: layer(x, spatial_dim=w.time)[0]  # noqa: E731
        return of_module(w, _linear(w, name), call, [w.floats(w.batch, w.time, w.feat)])

    @case(_name, "a sequence, another one, a step")
    def _linear_recurrent_parts(w: World, name: str = _name) -> Any:
        def call(layer: Any, a: Tensor, b: Tensor, c: Tensor) -> Any:
            out_a, state = layer(a, spatial_dim=w.time)
            out_b, state = layer(b, state=state, spatial_dim=w.source)
            return out_a, out_b, layer(c, state=state, spatial_dim=rf.single_step_dim)[0]

        inputs = [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.source, w.feat), w.floats(w.batch, w.feat)]
        return of_module(w, _linear(w, name), call, inputs)
