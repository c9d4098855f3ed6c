"""Networks in the dict notation against NumPy written for one sequence, in both forms of loops."""

from __future__ import annotations

import numpy as np
import pytest
from dict_nets import EXTERN, FORMS, LENGTHS, built, inputs, of_sequence, run, sigmoid, softmax, weights

import rfnb as rf

MEAN = {"class": "reduce", "mode": "mean", "axis": "T", "from": "data"}
in_all_forms = pytest.mark.parametrize("form", FORMS, ids=["for", "with", "with-in-loop"])


def _linear(name, n_out, *sources, activation=None, **options):
    return {name: {"class": "linear", "n_out": n_out, "activation": activation, "from": list(sources), **options}}


def _check(out, expected, name="output"):
    for index in range(3):
        np.testing.assert_allclose(of_sequence(out[name], index), expected(index), rtol=1e-4, atol=1e-4)


def _frames(index):
    return inputs()["data"][index, : LENGTHS["data"][index]]


def _labels(index):
    return inputs()["classes"][index, : LENGTHS["classes"][index]]


# -- attention decoder ---------------------------------------------------------------------------------------------------
DECODER = {
    **_linear("value", 4, "data"),
    "heads": {"class": "split_dims", "axis": "F", "dims": (2, -1), "from": "value"},
    **_linear("ctx", 5, "data", with_bias=False),
    **_linear("fertility", 2, "ctx", activation="sigmoid", with_bias=False),
    "output": {
        "class": "rec",
        "from": [],
        "target": "classes",
        "unit": {
            "label": {"class": "choice", "target": "classes", "beam_size": 3, "from": "p", "initial_output": 0},
            **_linear("emb", 3, "prev:label"),
            **_linear("s", 5, "emb", "prev:s", "prev:att", activation="tanh"),
            **_linear("feedback", 5, "prev:acc", with_bias=False),
            "e_in": {"class": "combine", "kind": "add", "from": ["base:ctx", "feedback", "s"]},
            "e_tanh": {"class": "activation", "activation": "tanh", "from": "e_in"},
            **_linear("e", 2, "e_tanh", with_bias=False),
            "w": {"class": "softmax_over_spatial", "from": "e"},
            "acc": {
                "class": "eval",
                "from": ["prev:acc", "w", "base:fertility"],
                "eval": "source(0) + source(1) * 0.5 * source(2)",
                "out_type": {"dim": 2, "shape": (None, 2)},
            },
            "att0": {"class": "generic_attention", "weights": "w", "base": "base:heads"},
            "att": {"class": "merge_dims", "axes": "except_batch", "from": "att0", "is_output_layer": True},
            "p": {"class": "softmax", "from": ["s", "att"], "target": "classes", "loss": "ce"},
            "output": {"class": "copy", "from": "p"},
            "end": {"class": "compare", "from": "label", "value": 0},
        },
    },
}


def _decoder(w, index):
    def of(name, *sources):
        x = np.concatenate(sources, -1) @ w[f"{name}/W"]
        return x + w[f"{name}/b"] if f"{name}/b" in w else x

    x, rec = _frames(index), "output/rec"
    value, ctx = of("value", x), of("ctx", x)
    fertility = sigmoid(of("fertility", ctx))
    s, att, acc, label, out, atts = np.zeros(5), np.zeros(4), np.zeros((len(x), 2)), 0, [], []
    for target in _labels(index):
        emb = w[f"{rec}/emb/W"][label] + w[f"{rec}/emb/b"]
        s = np.tanh(of(f"{rec}/s", emb, s, att))
        energy = of(f"{rec}/e", np.tanh(ctx + of(f"{rec}/feedback", acc) + s))
        attention = softmax(energy, axis=0)
        acc = acc + attention * 0.5 * fertility
        att = np.concatenate([attention[:, head] @ value[:, 2 * head : 2 * head + 2] for head in range(2)])
        out.append(softmax(of(f"{rec}/p", s, att)))
        atts.append(att)
        label = target
    return np.array(out), np.array(atts)


@in_all_forms
def test_decoder_with_two_heads_and_feedback(form):
    net = built(DECODER, form=form)
    out, w = run(net), weights(net)
    _check(out, lambda index: _decoder(w, index)[0])
    _check(out, lambda index: _decoder(w, index)[1], "output/att")


# -- loops ---------------------------------------------------------------------------------------------------------------
def _until(include_eos, limit):
    return {
        "red": MEAN,
        "pos": {"class": "activation", "activation": "abs", "from": "red"},
        "output": {
            "class": "rec",
            "from": [],
            "max_seq_len": limit,
            "include_eos": include_eos,
            "unit": {
                "step": {"class": "reduce", "mode": "sum", "axis": "F", "from": "base:pos"},
                "acc": {"class": "combine", "kind": "add", "from": ["step", "prev:acc"], "need_last": True},
                "end": {"class": "compare", "kind": "greater", "from": "acc", "value": 6.0},
                **_linear("h", 3, "base:pos", "prev:h", activation="tanh"),
                "output": {"class": "copy", "from": "h"},
            },
        },
        "last": {"class": "rec_last_output", "rec_layer": "output", "sub_layer_name": "acc", "is_output_layer": True},
    }


@in_all_forms
@pytest.mark.parametrize("include_eos", [False, True])
def test_end_says_how_long_a_loop_runs(form, include_eos):
    # 2 * 7 - 9 = 5: the slowest sequence is cut.
    net = built(_until(include_eos, "2 * max_len_from('base:data') - 9"), form=form)
    out, w = run(net), weights(net)

    def expected(index):
        step = np.abs(_frames(index).mean(0))
        acc, h, outs, accs = 0.0, np.zeros(3), [], [0.0]
        for _ in range(5):
            ended, acc = acc > 6.0, acc + step.sum()
            h = np.tanh(np.concatenate([step, h]) @ w["output/rec/h/W"] + w["output/rec/h/b"])
            if ended or (acc > 6.0 and not include_eos):
                break
            outs.append(h)
            accs.append(acc)
        return np.reshape(outs, (-1, 3)), accs[-1]

    _check(out, lambda index: expected(index)[0])
    _check(out, lambda index: expected(index)[1], "last")
    assert len({len(expected(index)[0]) for index in range(3)}) > 1


@in_all_forms
def test_limit_by_a_layer(form):
    network = _until(True, None)
    network["output"]["max_seq_len_via"] = "limit"
    network["limit"] = {"class": "constant", "value": 2, "dtype": "int32"}
    assert run(built(network, form=form))["output"].dims[0].extent == 2


@in_all_forms
def test_initial_outputs_of_all_kinds(form):
    kinds = {"number": 0.5, "zeros": "zeros", "ones": "ones", "var": "var", "apply": "apply(0)", "layer": "base:first"}
    unit = {"output": {"class": "copy", "from": [f"prev:{name}" for name in kinds]}}
    for name, kind in kinds.items():
        unit.update(_linear(name, 2, "data:source", f"prev:{name}", activation="tanh", initial_output=kind))
    net = built(
        {"red": MEAN, **_linear("first", 2, "red"), "output": {"class": "rec", "from": "data", "unit": unit}}, form=form
    )
    out, w = run(net), weights(net)

    def expected(index):
        x, parts = _frames(index), []
        initial = {"number": 0.5, "zeros": 0.0, "ones": 1.0, "var": w["output/rec/var/initial_output"]}
        initial["apply"] = np.tanh(w["output/rec/apply/b"])
        initial["layer"] = x.mean(0) @ w["first/W"] + w["first/b"]
        for name in kinds:
            h, values = np.zeros(2) + initial[name], []
            for frame in x:
                values.append(h)
                h = np.tanh(np.concatenate([frame, h]) @ w[f"output/rec/{name}/W"] + w[f"output/rec/{name}/b"])
            parts.append(np.array(values))
        return np.concatenate(parts, -1)

    _check(out, expected)


@in_all_forms
def test_loop_in_a_loop(form):
    inner = {
        "class": "rec",
        "from": "base:data",
        "unit": _linear("output", 3, "data:source", "base:q", "prev:output", activation="tanh"),
    }
    unit = {**_linear("q", 2, "data:source", "prev:output"), "inner": inner}
    unit["output"] = {"class": "reduce", "mode": "mean", "axis": "T", "from": "inner"}
    net = built({"output": {"class": "rec", "from": "data", "unit": unit}}, form=form)
    out, w = run(net), weights(net)

    def expected(index):
        x, outs, before = _frames(index), [], np.zeros(3)
        for frame in x:
            q = np.concatenate([frame, before]) @ w["output/rec/q/W"] + w["output/rec/q/b"]
            h, values = np.zeros(3), []
            for other in x:
                joined = np.concatenate([other, q, h])
                h = np.tanh(joined @ w["output/rec/inner/rec/output/W"] + w["output/rec/inner/rec/output/b"])
                values.append(h)
            before = np.mean(values, 0)
            outs.append(before)
        return np.array(outs)

    _check(out, expected)


@in_all_forms
def test_backward_loop_begins_at_the_last_frame_of_each_sequence(form):
    unit = _linear("output", 3, "data:source", "prev:output", activation="tanh")
    net = built({"output": {"class": "rec", "direction": -1, "from": "data", "unit": unit}}, form=form)
    out, w = run(net), weights(net)

    def expected(index):
        h, outs = np.zeros(3), []
        for frame in _frames(index)[::-1]:
            h = np.tanh(np.concatenate([frame, h]) @ w["output/rec/output/W"] + w["output/rec/output/b"])
            outs.append(h)
        return np.array(outs[::-1])

    _check(out, expected)


@in_all_forms
def test_step_index_and_a_counter_of_integers(form):
    count = {"class": "eval", "from": "prev:count", "eval": "source(0) + 2", "initial_output": -1}
    count["out_type"] = {"dtype": "int32", "shape": ()}
    unit = {
        "count": count,
        "output": {"class": "eval", "from": ["count", ":i"], "eval": "tf.cast(source(0) * 10 + source(1), tf.float32)"},
    }
    out = run(built({"output": {"class": "rec", "from": "data", "unit": unit}}, form=form))
    _check(out, lambda index: np.arange(LENGTHS["data"][index]) * 21.0 + 10)


@in_all_forms
@pytest.mark.parametrize("rule", ["axis", "input", "size_target", "target", "unstack"])
def test_rules_of_the_length(form, rule):
    unit = {
        "output": {"class": "eval", "from": [":i", "base:m"], "eval": "tf.cast(source(0), 'float32') + 0.0 * source(1)"}
    }
    loop = {"class": "rec", "from": [], "unit": unit}
    loop.update(
        {"axis": {"axis": "<dim t:None>", "target": "classes"}, "input": {"from": "data", "target": "classes"}}.get(
            rule, {}
        )
    )
    if rule in ("size_target", "target"):
        loop[rule] = "classes"
        unit["end"] = {
            "class": "compare",
            "kind": "equal",
            "from": ":i",
            "value": 0,
        }  # not asked when the length is known
    if rule == "unstack":
        unit["x"] = {"class": "rec_unstack", "from": "base:data", "axis": "T", "declare_rec_time": True}
    extern = {"data": {"dim_tags": ["<dim batch:None>", "<dim t:None>", "<dim f:4>"]}, "classes": EXTERN["classes"]}
    m = {"class": "reduce", "mode": "sum", "axis": ["T", "F"], "from": "data"}
    out = run(built({"m": m, "output": loop}, form=form, extern=extern))
    key = "classes" if rule in ("size_target", "target") else "data"
    _check(out, lambda index: np.arange(LENGTHS[key][index]))


def test_what_nobody_needs_is_not_computed():
    unit = {
        "output": {"class": "copy", "from": "data:source"},
        "other": {"class": "linear", "from": "data:nowhere", "n_out": 3},
    }
    network = {"output": {"class": "rec", "from": "data", "unit": unit}, "unused": {"class": "copy", "from": "nobody"}}
    net = built(network)
    _check(run(net), _frames)
    assert net.needed_parameters() == {}


# -- units ---------------------------------------------------------------------------------------------------------------
@in_all_forms
def test_units_in_a_loop_carry_their_states(form):
    """A unit that reads the input only is the unit over the whole sequence; states of the same step come out."""
    state = {"c": "base:first", "h": "zeros"}
    unit = {
        "lstm": {"class": "rec", "unit": "nativelstm2", "n_out": 3, "from": "data:source", "initial_state": state},
        "gru": {"class": "rnn_cell", "unit": "gru", "n_out": 2, "from": ["data:source", "prev:lstm"]},
        "c": {"class": "get_last_hidden_state", "from": "lstm", "key": "c", "n_out": 3},
        "all": {"class": "get_last_hidden_state", "from": ["lstm", "gru"], "key": "*", "n_out": 8},
        "output": {"class": "copy", "from": ["lstm", "c", "all"]},
    }
    net = built(
        {"red": MEAN, **_linear("first", 3, "red"), "output": {"class": "rec", "from": "data", "unit": unit}}, form=form
    )
    out, w = run(net), weights(net)

    def expected(index):
        x, outs = _frames(index), []
        c, h, g = x.mean(0) @ w["first/W"] + w["first/b"], np.zeros(3), np.zeros(2)
        lstm, cell = "output/rec/lstm/rec/", "output/rec/gru/rec/gru_cell/"
        for frame in x:
            before = h
            j, i, f, o = np.split(frame @ w[lstm + "W"] + h @ w[lstm + "W_re"] + w[lstm + "b"], 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(j)
            h = sigmoid(o) * np.tanh(c)
            source = np.concatenate([frame, before])
            r, u = np.split(sigmoid(np.concatenate([source, g]) @ w[cell + "gates/kernel"] + w[cell + "gates/bias"]), 2)
            new = np.tanh(np.concatenate([source, r * g]) @ w[cell + "candidate/kernel"] + w[cell + "candidate/bias"])
            g = u * g + (1 - u) * new
            outs.append(np.concatenate([h, c, c, h, g]))
        return np.array(outs)

    _check(out, expected)


def test_final_states_are_given_out():
    out = run(built({"output": {"class": "rec", "unit": "lstm", "n_out": 3, "from": "data", "initial_state": "ones"}}))
    for index in range(3):
        np.testing.assert_allclose(
            out.states["output"].h.numpy()[index], of_sequence(out["output"], index)[-1], atol=1e-6
        )


def test_labels_as_input_are_rows_of_the_matrix():
    network = {"output": {"class": "rec", "unit": "gru", "n_out": 3, "from": "data:classes"}}
    sparse = built(network)
    batch = rf.net_from_dict({"output": {**network["output"], "from": "data"}}, {"data": {"dim": 6}})
    batch.set_parameters(sparse.parameters_by_path())
    labels = inputs()["classes"]
    dense = batch({"data": np.eye(6, dtype="float32")[labels]}, lengths={"data": LENGTHS["classes"]})
    got = run(sparse)
    for index in range(3):
        np.testing.assert_allclose(of_sequence(got["output"], index), of_sequence(dense["output"], index), atol=1e-6)


# -- masks ---------------------------------------------------------------------------------------------------------------
def _masked(unit, n_out, in_loop):
    mask = {
        "s": {"class": "reduce", "mode": "sum", "axis": "F"},
        "mask": {"class": "compare", "kind": "greater", "from": "s", "value": 0.0},
    }
    masked = {"class": "masked_computation", "mask": "mask", "unit": {"n_out": n_out, "from": "data", **unit}}
    mask_of = {"s": {**mask["s"], "from": "data:source" if in_loop else "data"}, "mask": mask["mask"]}
    if in_loop:
        body = {
            **mask_of,
            "masked": {**masked, "from": "data:source"},
            "output": {"class": "unmask", "from": "masked", "mask": "mask"},
        }
        return {"output": {"class": "rec", "from": "data", "unit": body}}
    masked.update({"in_spatial_dim": "<dim t:None>", "out_spatial_dim": "<dim m:None>", "from": "data"})
    return {**mask_of, "masked": masked, "output": {"class": "unmask", "from": "masked", "mask": "mask"}}


UNITS = {
    "lstm": ({"class": "rec", "unit": "nativelstm2", "initial_state": "ones"}, 3),
    "linear": ({"class": "linear", "activation": "tanh", "initial_output": 2.0}, 3),
    "self_attention": ({"class": "self_attention", "num_heads": 2, "total_key_dim": 4, "attention_left_only": True}, 6),
    "positions": ({"class": "positional_encoding", "add_to_input": True}, 4),
}


@in_all_forms
@pytest.mark.parametrize("name", UNITS)
def test_masked_computation_is_the_same_inside_and_outside(form, name):
    unit, n_out = UNITS[name]
    extern = {"data": {"dim_tags": ["<dim batch:None>", "<dim t:None>", "<dim f:4>"]}}
    outside, inside = (built(_masked(unit, n_out, loop), form=form, extern=extern) for loop in (False, True))
    inside.set_parameters(
        {path.replace("masked/", "output/rec/masked/"): v for path, v in outside.parameters_by_path().items()}
    )
    expected, got = run(outside), run(inside)
    for index in range(3):
        np.testing.assert_allclose(of_sequence(got["output"], index), of_sequence(expected["output"], index), atol=1e-5)


# -- one sequence and many -----------------------------------------------------------------------------------------------
@in_all_forms
@pytest.mark.parametrize(
    "network", [DECODER, _until(True, 5), _masked(*UNITS["self_attention"], True)], ids=["decoder", "end", "masked"]
)
def test_a_sequence_alone_gives_the_same(form, network):
    net = built(network, form=form)
    batch = run(net)
    for index in range(3):
        alone = run(net, only=index)
        for name in batch:
            np.testing.assert_allclose(
                of_sequence(alone[name], 0), of_sequence(batch[name], index), rtol=1e-4, atol=1e-5
            )


# -- what goes around a network ------------------------------------------------------------------------------------------
def test_gradients_are_the_same_in_all_forms():
    found = []
    for form in FORMS:
        net = built(DECODER, form=form)
        out = run(net)["output"]
        rf.reduce_sum(rf.square(out.copy_masked(0)), axis=list(out.dims), use_mask=False).raw_tensor.backward()
        found.append({path: value.raw_tensor.grad.numpy() for path, value in net.parameters_by_path().items()})
    for path, expected in found[0].items():
        assert np.abs(expected).max() > 0
        for other in found[1:]:
            np.testing.assert_allclose(other[path], expected, atol=1e-5, err_msg=path)


@in_all_forms
def test_attention_of_a_loop_is_in_the_trace_once(form):
    with rf.record() as trace:
        net = built(DECODER, form=form)
        run(net)
    assert len(trace.select(kind="attention")) == 5  # one per step; none of finding out the dims
    weights_of = trace.attention["layers.output.body.att0"]
    assert {dim.name for dim in weights_of.dims} >= {"batch", "time"}


def test_dropout_is_drawn_in_training_only():
    network = {**_linear("output", 3, "data", dropout=0.5)}
    net = built(network)
    same = [run(net)["output"].numpy() for _ in range(2)]
    assert (same[0] == same[1]).all()
    rf.init_train_step_run_ctx(train_flag=True)
    try:
        other = run(net)["output"].numpy()
    finally:
        rf.init_forward_step_run_ctx()
    assert (other != same[0]).any()
