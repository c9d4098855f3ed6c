"""Recurrent units against a reference implementation (tests/golden/README.md), with the same parameters."""

import json

import numpy as np
import pytest
from asserting import assert_same, tensor
from golden_data import FOLDER, Golden

import rfnb as rf
from rfnb import Dim

UNITS = sorted(path.stem for path in FOLDER.glob("unit_*.npz") if path.stem != "unit_init_from_encoder")


def make_rec(golden, layer="output"):
    """The Rec of a layer, by its description."""
    net = golden.meta["net"][layer]
    out = Dim(net["n_out"], name="out")
    options = {key: net[key] for key in ("direction", "unit_opts") if key in net}
    rec = rf.Rec(net["unit"], golden.input().dims[-1], out, **options)
    golden.assign(rec.documented_parameters(), layer)
    return rec


@pytest.mark.parametrize("name", UNITS)
def test_outputs_and_final_states(name):
    golden = Golden(name)
    output, state = make_rec(golden)(golden.input(), axis=golden.time)
    golden.check(output, "output")
    for layer, net in golden.meta["net"].items():
        if net["class"] == "get_last_hidden_state":
            golden.check(rf.last_hidden_state(state, key=net["key"], n_out=net["n_out"]), layer)


@pytest.mark.parametrize("name", [name for name in UNITS if not name.endswith("_bwd")])
@pytest.mark.parametrize("recorded", [False, True])
def test_the_same_step_by_step(name, recorded):
    golden = Golden(name)
    rec, x = make_rec(golden), golden.input()
    loop = rf.Loop(axis=golden.time)
    loop.state.rec = rec.default_initial_state(batch_dims=[golden.batch])

    def body():
        out, loop.state.rec = rec(loop.unstack(x), axis=rf.single_step_dim, state=loop.state.rec)
        return loop.stack(out)

    if recorded:
        with loop:
            output = body()
    else:
        for _ in loop:
            output = body()
    golden.check(output, "output")
    assert_same(dict(loop.state.rec), dict(rec(x, axis=golden.time)[1]))


def test_states_from_encoders():
    golden = Golden("unit_init_from_encoder")
    nets, states, values = golden.meta["net"], {}, {}
    for layer in ("fwd", "bwd"):
        output, states[layer] = make_rec(golden, layer)(golden.input(), axis=golden.time)
        golden.check(output, layer)
    for layer in ("last_add", "last_cat", "fwd_c", "bwd_h"):
        net = nets[layer]
        sources = net["from"] if isinstance(net["from"], list) else [net["from"]]
        options = {key: net[key] for key in ("combine", "key", "n_out") if key in net}
        values[layer] = rf.last_hidden_state([states[source] for source in sources], **options)
        golden.check(values[layer], layer)
    decoder = make_rec(golden)
    state = {
        part: rf.replace_dim(values[layer], in_dim=values[layer].feature_dim, out_dim=decoder.out_dim)[0]
        for part, layer in nets["output"]["initial_state"].items()
    }
    golden.check(decoder(golden.input(), axis=golden.time, state=state)[0], "output")
    in_order = [state["c"], state["h"]]
    other = rf.Rec(decoder.unit, initial_state=in_order)
    golden.check(other(golden.input(), axis=golden.time)[0], "output")


def test_a_step_with_two_sources_in_a_loop():
    golden = Golden("rnn_cell_in_loop")
    net = golden.meta["net"]["output"]["unit"]
    x, s_dim, out_dim = golden.input(), Dim(net["s"]["n_out"], name="s"), Dim(net["output"]["n_out"], name="out")
    cell = rf.RnnCell(net["s"]["unit"], x.dims[-1] + out_dim, s_dim)
    params = golden.params("output/rec/s")
    for name, parameter in cell.documented_parameters().items():
        parameter.assign(params[name])
    linear = rf.Linear(s_dim, out_dim)
    linear.weight.assign(golden["param/output/rec/output/W"])
    linear.bias.assign(golden["param/output/rec/output/b"])
    loop = rf.Loop(axis=golden.time)
    loop.state.s = cell.default_initial_state(batch_dims=[golden.batch])
    loop.state.output = rf.zeros([golden.batch, out_dim], feature_dim=out_dim)
    for _ in loop:
        frame = loop.unstack(x)
        frame.feature_dim = x.dims[-1]
        s, loop.state.s = cell([frame, loop.state.output], state=loop.state.s)
        loop.state.output = rf.tanh(linear(s))
        output = loop.stack(loop.state.output)
    golden.check(output, "output")


# -- from the written formula ------------------------------------------------------------------------------------------
def test_blocksparse_lstm():
    golden = Golden("derived_blocksparse_lstm")
    x, out, meta = golden.input(), Dim(golden.meta["num_units"], name="out"), golden.meta
    unit = rf.BlocksparseLSTMCell(
        x.dims[-1], out, block_size=meta["block_size"], connectivity=1, layer_norm=meta["layer_norm"]
    )
    assign_with_masks(unit, golden)
    output, state = unit(x, spatial_dim=golden.time)
    golden.check(output, "output")
    golden.check(state.c, "last_c")
    golden.check(state.h, "last_h")


def test_blocksparse_multiplicative_multistep_lstm():
    golden = Golden("derived_blocksparse_mm_lstm_d2")
    x, out, meta = golden.input(), Dim(golden.meta["num_units"], name="out"), golden.meta
    dense = bool(golden["mask/x1"].all() and golden["mask/x2"].all())
    unit = rf.BlocksparseMultiplicativeMultistepLSTMCell(
        x.dims[-1], out, block_size=meta["block_size"], connectivity=1, layer_norm=meta["layer_norm"],
        depth=meta["depth"], dense_input_transform=dense,
    )  # fmt: skip
    assign_with_masks(unit, golden)
    golden.check(unit(x, spatial_dim=golden.time)[0], "output")


def assign_with_masks(unit, golden):
    for name, parameter in unit.documented_parameters().items():
        key = name.replace("mask_", "mask/") if name.startswith("mask_") else f"param/{name}"
        parameter.assign(golden[key])


def test_zoneout_in_training_with_given_masks(monkeypatch):
    golden = Golden("derived_zoneout_train")
    meta, x, out = golden.meta, golden.input(), Dim(4, name="out")
    factors = {key: meta[key] for key in ("zoneout_factor_cell", "zoneout_factor_output")}
    unit = rf.ZoneoutLSTMCell(x.dims[-1], out, use_zoneout_output=meta["use_zoneout_output"], **factors)
    unit.lstm_cell.kernel.assign(golden["param/kernel"])
    unit.lstm_cell.bias.assign(golden["param/bias"])
    drawn = iter([golden[f"mask/{part}"][:, step] for step in range(golden.time.extent) for part in ("cell", "output")])

    def drop_by_file(value, factor):
        keep = tensor(next(drawn).astype(np.float32), golden.batch, out)
        return value * keep / (1 - factor)

    monkeypatch.setattr("rfnb.nn.recurrent.unit_parts.drop", drop_by_file)
    with rf.get_run_ctx().train_flag_ctx(True):
        output, _ = unit(x, spatial_dim=golden.time)
    golden.check(output, "output")
    assert next(drawn, None) is None


def test_the_files_say_where_they_are_from():
    for path in FOLDER.glob("unit_*.npz"):
        with np.load(path) as file:
            assert json.loads(str(file["meta"]))["source"].startswith("RETURNN")
