"""Axes in options mean dims by what they are, never by the sizes of a batch, of a beam, or of dims that stand beside them."""

from __future__ import annotations

import numpy as np
import pytest
from dict_nets import sigmoid

import rfnb as rf
from rfnb import Dim

BATCH, TIME, HEADS, FEATURES = "<dim global batch:None>", "<dim time:None>", "<dim heads:{}>", "<dim in:{}>"
FACES = ["for", "with"]


def _filled(net, scale=0.7):
    values = {}
    for path, parameter in net.parameters_by_path().items():
        random = np.random.default_rng(sum(map(ord, path)))
        values[path] = random.normal(size=[dim.extent for dim in parameter.dims]).astype("float32") * scale
    net.set_parameters(values)
    return net


def _search(layers, beam, batch):
    """Scores of a search whose label scores are made by `layers`, from "emb" to "r"."""
    unit = {
        "emb": {"class": "linear", "activation": "tanh", "from": "prev:output", "n_out": 4},
        **layers,
        "p": {"class": "softmax", "from": "r", "n_out": 4},
        "output": {"class": "choice", "target": "classes", "beam_size": beam, "from": "p", "initial_output": 1},
        "end": {"class": "compare", "kind": "equal", "from": "output", "value": 0},
    }
    net = {
        "output": {"class": "rec", "from": [], "target": "classes", "max_seq_len": 4, "unit": unit},
        "scores": {"class": "choice_get_beam_scores", "from": "output", "is_output_layer": True},
    }
    extern = {"data": {"dim": 3}, "classes": {"dim": 4, "sparse": True}}
    out = {}
    for face in FACES:
        made = _filled(rf.net_from_dict(net, extern, loop=face, search=True), 2.0)
        out[face] = made({"data": np.zeros((batch, 2, 3), "float32")}, lengths={"data": [2] * batch})["scores"].numpy()
    np.testing.assert_allclose(out["for"], out["with"], rtol=1e-5)
    return out["for"]


@pytest.mark.parametrize(("batch", "beam"), [(2, 3), (3, 3), (4, 4), (1, 4)])
@pytest.mark.parametrize("axis", ["F", "static", "except_batch", "except_time", "dim:4", 1, -1, "stag:emb"])
def test_the_features_in_a_search_are_the_features_by_any_name(axis, batch, beam):
    def scores(axis):
        reduced = {"class": "reduce", "mode": "sum", "axis": axis, "from": "emb"}
        return _search({"r0": reduced, "r": {"class": "combine", "kind": "mul", "from": ["emb", "r0"]}}, beam, batch)

    np.testing.assert_array_equal(scores(axis), scores("F"))


@pytest.mark.parametrize(("batch", "beam"), [(3, 5), (2, 2)])
@pytest.mark.parametrize(
    "axes", ["static", "except_batch", "spatial_and_F", ["dim:2", "F"], ["dim:2", "dim:2"], [1, 2], ["s:0", "F"]]
)
def test_split_features_merged_again_in_a_search_are_what_they_were(axes, batch, beam):
    axes = ["spatial", "F"] if axes == "spatial_and_F" else axes
    split = {"class": "split_dims", "axis": "F", "dims": [2, 2], "from": "emb"}
    merged = {"s": split, "r": {"class": "merge_dims", "axes": axes, "from": "s"}}
    np.testing.assert_array_equal(
        _search(merged, beam, batch), _search({"r": {"class": "copy", "from": "emb"}}, beam, batch)
    )


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("size", [2, 3])
def test_a_dim_by_its_size_is_never_the_batch(size, batch):
    split = {"class": "split_dims", "axis": "F", "dims": [size, 5], "from": "data"}
    last = {"class": "reduce", "mode": "sum", "axis": f"dim:{size}", "from": "s"}
    merged = {"class": "merge_dims", "axes": [f"dim:{size}", "dim:5"], "from": "s", "is_output_layer": True}
    net = rf.net_from_dict({"s": split, "output": last, "merged": merged},
                           {"data": {"shape": (5 * size,), "dim": 5 * size, "time_dim_axis": None}})  # fmt: skip
    x = np.random.default_rng(0).normal(size=(batch, 5 * size)).astype("float32")
    out = net({"data": x})
    np.testing.assert_allclose(out["output"].numpy(), x.reshape(batch, size, 5).sum(1), rtol=1e-5)
    np.testing.assert_array_equal(out["merged"].numpy(), x)


def test_a_size_that_two_dims_have_says_nothing():
    split = {"class": "split_dims", "axis": "F", "dims": [2, 2], "from": "data"}
    with pytest.raises(rf.DimError) as caught:
        rf.net_from_dict(
            {"s": split, "output": {"class": "reduce", "mode": "sum", "axis": "dim:2", "from": "s"}},
            {"data": {"dim": 4}},
        )
    assert str(caught.value) == (
        'Layer "output" of class "reduce": 2 dims of the source have the size of axis \'dim:2\'.\n'
        "  source  [batch=2, time<=2, s:0=2, s:1=2]\n"
        "A size identifies a dim only if no other one has it. Name it:\n"
        '    "stag:s:0"'
    )


@pytest.mark.parametrize("axis", ["dim:x", "dim:", "spatial:one", "s:1.5", "dim:" + "9" * 5000])
def test_an_axis_without_its_number_is_refused(axis):
    with pytest.raises(rf.DimError, match=r'^Layer "output" of class "reduce": axis .* lacks a number\.\n  source '):
        rf.net_from_dict(
            {"output": {"class": "reduce", "mode": "sum", "axis": axis, "from": "data"}}, {"data": {"dim": 4}}
        )


# -- two times ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [[5, 3], [4, 3]])
@pytest.mark.parametrize("kind", ["combine", "eval", "compare", "switch"])
def test_two_times_stay_two_times_also_if_their_lengths_are_equal(kind, lengths):
    layers = {
        "combine": {"class": "combine", "kind": "add", "from": ["a", "b"]},
        "eval": {"class": "eval", "eval": "tf.add(source(0), source(1))", "from": ["a", "b"]},
        "compare": {"class": "compare", "kind": "less", "from": ["a", "b"]},
        "switch": {"class": "switch", "condition": "c", "true_from": "a", "false_from": "b"},
    }
    net = rf.net_from_dict(
        {
            "a": {"class": "reduce", "mode": "sum", "axis": "F", "from": "data"},
            "b": {"class": "reduce", "mode": "sum", "axis": "F", "from": "data:trg"},
            "c": {"class": "compare", "kind": "greater", "from": "a", "value": 0.0},
            "output": layers[kind],
        },
        {"data": {"dim": 4}, "trg": {"dim": 2}},
    )
    data = {"data": np.ones((2, 5, 4), "float32"), "trg": np.ones((2, max(lengths), 2), "float32")}
    out = net(data, lengths={"data": [5, 3], "trg": lengths})["output"]
    assert sorted(dim.name for dim in out.dims) == ["batch", "time", "trg:time"]


@pytest.mark.parametrize("kind", ["copy", "linear", "rec"])
def test_sources_with_two_times_are_not_concatenated(kind):
    more = {"copy": {}, "linear": {"n_out": 3}, "rec": {"unit": "nativelstm2", "n_out": 3}}[kind]
    with pytest.raises(rf.DimError) as caught:
        rf.net_from_dict(
            {"output": {"class": kind, "from": ["data", "data:trg"], **more}}, {"data": {"dim": 4}, "trg": {"dim": 2}}
        )
    assert str(caught.value) == (
        f'Layer "output" of class "{kind}": the sources have different time dims.\n'
        "  data      [batch=2, time<=2, data:feature=4]\n"
        "  data:trg  [batch=2, trg:time<=2, trg:feature=2]\n"
        "Features are concatenated frame by frame, and different dims mean different frames, even if their lengths are equal. "
        "If the frames are the same, declare it by a reinterpret_data layer; concat with allow_broadcast pairs all frames.\n"
        '    "same": {"class": "reinterpret_data", "from": "data:trg", "size_base": "data"}'
    )


def test_sources_whose_times_are_said_to_be_the_same_are_concatenated():
    same = {"class": "reinterpret_data", "from": "data:trg", "size_base": "data"}
    net = rf.net_from_dict(
        {"same": same, "output": {"class": "copy", "from": ["data", "same"]}}, {"data": {"dim": 4}, "trg": {"dim": 2}}
    )
    random = np.random.default_rng(0)
    data = {
        "data": random.normal(size=(2, 5, 4)).astype("float32"),
        "trg": random.normal(size=(2, 5, 2)).astype("float32"),
    }
    out = net(data, lengths={"data": [5, 3], "trg": [5, 3]})["output"]
    np.testing.assert_array_equal(out.numpy()[0], np.concatenate([data["data"], data["trg"]], -1)[0])


# -- heads beside the time ---------------------------------------------------------------------------------------------------

LAST = {
    "rec": {"class": "rec", "unit": "nativelstm2", "n_out": 4, "from": "h"},
    "rnn_cell": {"class": "rnn_cell", "unit": "gru", "n_out": 4, "from": "h"},
    "self_attention": {"class": "self_attention", "num_heads": 2, "total_key_dim": 4, "n_out": 4, "attention_left_only": True, "from": "h"},
    "positional_encoding": {"class": "positional_encoding", "add_to_input": True, "from": "h"},
    "cum_concat": {"class": "reduce", "mode": "sum", "axis": "<dim history:None>", "from": "keys"},
    "linear": {"class": "linear", "activation": None, "n_out": 4, "from": "h"},
    "masked rec": {"class": "masked_computation", "mask": "yes", "from": "h", "unit": {"class": "rec", "unit": "nativelstm2", "n_out": 4}},
    "rec in subnetwork": {"class": "subnetwork", "from": "h",
                          "subnetwork": {"output": {"class": "rec", "unit": "nativelstm2", "n_out": 4}}},
    "split and merged": {"class": "merge_dims", "axes": ["stag:split:0", "F"], "from": "split"},
}  # fmt: skip


def _in_loop(layer, data, lengths, extra, face):
    unit = {
        "h": {"class": "linear", "activation": "tanh", "n_out": 4, "from": ["data:source", "prev:h"]},
        "one": {"class": "eval", "from": ":i", "eval": "source(0) * 0"},
        "yes": {"class": "compare", "kind": "equal", "from": "one", "value": 0},
        "keys": {"class": "cum_concat", "from": "h", "out_spatial_dim": "<dim history:None>"},
        "split": {"class": "split_dims", "axis": "F", "dims": [2, 2], "from": "h"},
        "k": layer,
        "output": {"class": "copy", "from": "k"},
    }
    tags = [BATCH, TIME, *extra, FEATURES.format(data.shape[-1])]
    net = rf.net_from_dict(
        {"output": {"class": "rec", "from": "data", "unit": unit}}, {"data": {"dim_tags": tags}}, loop=face
    )
    out = _filled(net)({"data": data}, lengths={"data": lengths})["output"]
    order = [dim for name in ("batch", "time", "heads") for dim in out.dims if dim.name == name]
    return out.copy_transpose([*order, out.feature_dim]).numpy()


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("heads", [3, 2, 4])  # of no other dim; the batch; the features
@pytest.mark.parametrize("name", LAST)
def test_heads_ride_along_in_a_loop_as_if_each_were_alone(name, heads, face):
    x = np.random.default_rng(0).normal(size=(2, 4, heads, 4)).astype("float32")
    lengths = [4, 2]
    together = _in_loop(LAST[name], x, lengths, [HEADS.format(heads)], face)
    for head in range(heads):
        alone = _in_loop(LAST[name], x[:, :, head], lengths, [], face)
        for index, length in enumerate(lengths):
            np.testing.assert_allclose(together[index, :length, head], alone[index, :length], rtol=1e-4, atol=1e-5)


def test_a_static_time_that_a_loop_runs_over_is_a_time_in_it():
    """The attended sequence and the loop have 5 frames each, without lengths."""
    unit = {
        "e": {"class": "dot", "from": ["base:data", "data:source"], "reduce": "F"},
        "w": {"class": "softmax_over_spatial", "from": "e"},
        "output": {"class": "generic_attention", "weights": "w", "base": "base:data"},
    }
    net = {"output": {"class": "rec", "from": "data", "unit": unit}}
    x = np.random.default_rng(0).normal(size=(5, 5, 5)).astype("float32")
    for face in FACES:
        made = rf.net_from_dict(net, {"data": {"shape": (5, 5), "dim": 5}}, loop=face)
        out = made({"data": x})["output"]
        time, batch = out.dims[:2]
        assert time.name != "batch" and batch.name == "batch"
        energy = np.exp(np.einsum("btf,bsf->bts", x, x))
        expected = np.einsum("bts,bsf->btf", energy / energy.sum(-1, keepdims=True), x)
        np.testing.assert_allclose(out.copy_transpose([batch, time, out.feature_dim]).numpy(), expected, rtol=1e-4)


# -- static dims of the same size ----------------------------------------------------------------------------------------------


def _split(source, *sizes):
    return {"class": "split_dims", "axis": "F", "dims": list(sizes), "from": source}


@pytest.mark.parametrize("beam", [2, 3])
def test_heads_of_weights_and_values_are_the_same_beside_a_beam_of_their_size(beam):
    layers = {
        "q": _split("emb", 2, 2),
        "k": _split("base:k0", 2, 2),
        "e": {"class": "dot", "from": ["k", "q"], "reduce": "F"},
        "w": {"class": "softmax_over_spatial", "from": "e", "axis": "T"},
        "a": {"class": "generic_attention", "weights": "w", "base": "k"},
        "r": {"class": "merge_dims", "axes": "static", "from": "a"},
    }
    unit = {
        "emb": {"class": "linear", "activation": None, "from": "prev:output", "n_out": 4},
        **layers,
        "p": {"class": "softmax", "from": "r", "n_out": 4},
        "output": {"class": "choice", "target": "classes", "beam_size": beam, "from": "p", "initial_output": 1,
                   "length_normalization": False},
    }  # fmt: skip
    net = {
        "k0": {"class": "linear", "activation": None, "n_out": 4, "from": "data"},
        "output": {"class": "rec", "from": "data:classes", "unit": unit},
        "scores": {"class": "choice_get_beam_scores", "from": "output", "is_output_layer": True},
    }
    random = np.random.default_rng(1)
    x = random.normal(size=(2, 2, 3)).astype("float32")
    for face in FACES:
        made = _filled(
            rf.net_from_dict(net, {"data": {"dim": 3}, "classes": {"dim": 4, "sparse": True}}, loop=face, search=True),
            1.5,
        )
        w = {path: value.numpy() for path, value in made.parameters_by_path().items()}
        out = made({"data": (x, [2, 2]), "classes": (np.zeros((2, 1), "int32"), [1, 1])})
        keys = (x @ w["k0/W"] + w["k0/b"]).reshape(2, 2, 2, 2)  # batch, time, head, feature

        def log_probs(label, index, w=w, keys=keys):
            query = (w["output/rec/emb/W"][label] + w["output/rec/emb/b"]).reshape(2, 2)
            energy = np.exp(np.einsum("thf,hf->th", keys[index], query))
            att = np.einsum("th,thf->hf", energy / energy.sum(0), keys[index]).reshape(4)
            logits = att @ w["output/rec/p/W"] + w["output/rec/p/b"]
            return logits - np.log(np.exp(logits).sum())

        best = [sorted(log_probs(1, index), reverse=True)[:beam] for index in range(2)]
        np.testing.assert_allclose(out["scores"].numpy(), best, rtol=1e-4)


def test_dims_that_are_declared_are_not_the_same_because_of_their_size():
    a, b = Dim(2, name="a"), Dim(2, name="b")
    net = {
        "p": {"class": "split_dims", "axis": "F", "dims": [a, -1], "from": "data"},
        "q": {"class": "split_dims", "axis": "F", "dims": [b, -1], "from": "data"},
        "output": {"class": "combine", "kind": "mul", "from": ["p", "q"]},
    }
    x = np.random.default_rng(0).normal(size=(2, 1, 6)).astype("float32")
    out = rf.net_from_dict(net, {"data": {"dim": 6}})({"data": (x, [1, 1])})["output"]
    batch, time = (next(dim for dim in out.dims if dim.name == name) for name in ("batch", "time"))
    got = out.copy_transpose([batch, time, a, b, out.feature_dim]).numpy()
    np.testing.assert_allclose(
        got, np.einsum("btaf,btcf->btacf", x.reshape(2, 1, 2, 3), x.reshape(2, 1, 2, 3)), rtol=1e-6
    )


def test_dims_of_numbers_that_have_one_size_are_the_same_in_their_order():
    net = {
        "p": _split("data", 2, 2, 3),
        "q": {"class": "eval", "eval": "source(0) ** 2", "from": "p2"},
        "p2": _split("data", 2, 2, 3),
        "output": {"class": "combine", "kind": "mul", "from": ["p", "q"]},
    }
    x = np.random.default_rng(0).normal(size=(2, 1, 12)).astype("float32")
    out = rf.net_from_dict(net, {"data": {"dim": 12}})({"data": (x, [1, 1])})["output"]
    np.testing.assert_allclose(out.numpy().reshape(2, 1, 12), x**3, rtol=1e-5)


def test_a_dim_that_may_be_either_of_two_is_refused():
    net = {"p": _split("data", 2, 2, 3), "q": _split("data", 2, 6), "r": {"class": "reduce", "mode": "sum", "axis": "F", "from": "q"},
           "output": {"class": "combine", "kind": "mul", "from": ["p", "r"]}}  # fmt: skip
    with pytest.raises(rf.DimError) as caught:
        rf.net_from_dict(net, {"data": {"dim": 12}})
    assert str(caught.value) == (
        'Layer "output" of class "combine": it is ambiguous which dims are the same.\n'
        "  first      [batch=2, time<=2, p:0=2, p:1=2, p:2=3]\n"
        "  second     [batch=2, time<=2, q:0=2]\n"
        "  same size  [Dim{p:0=2}, Dim{p:1=2}] and [Dim{q:0=2}]\n"
        "Dims given as numbers are distinguished only by size. Declare them, with the same names in both layers:\n"
        '    "dims": ["<dim q:0:2>", ...]'
    )


# -- tensors as inputs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
@pytest.mark.parametrize("size", [3, 5])
def test_a_tensor_is_taken_by_its_dims_whatever_their_order_and_sizes(size, order):
    """The batch is not marked as one; heads and features have one size, which is also that of the batch."""
    batch, heads, features = Dim(size, name="b"), Dim(size, name="heads"), Dim(size, name="features")
    time = rf.ragged_dim([4] + [2] * (size - 1), over=batch, name="t")
    x = rf.random_normal([batch, time, heads, features])
    x = x.copy_transpose([x.dims[axis] for axis in order])
    x.feature_dim = features
    sums = {
        axis: {"class": "reduce", "mode": "sum", "axis": axis, "from": "data", "is_output_layer": True}
        for axis in ("F", "stag:heads")
    }
    net = rf.net_from_dict(
        {"f": sums["F"], "h": sums["stag:heads"], "s": {**sums["F"], "axis": "static"}},
        {"data": {"dim_tags": [BATCH, TIME, f"<dim heads:{size}>", f"<dim in:{size}>"]}},
    )
    out = net({"data": x})
    for name, axis in (("f", features), ("h", heads), ("s", [heads, features])):
        expected = rf.reduce_sum(x, axis=axis)
        got = out[name]
        if name == "f":
            got, _ = rf.replace_dim(got, in_dim=next(d for d in got.dims if d.name == "heads"), out_dim=heads)
        if name == "h":
            got, _ = rf.replace_dim(got, in_dim=got.feature_dim, out_dim=features)
        np.testing.assert_allclose(
            got.copy_transpose(expected.dims).copy_masked(0).numpy(), expected.copy_masked(0).numpy(), atol=1e-5
        )


def test_a_tensor_whose_dims_nothing_tells_apart_is_refused():
    batch, a, b = Dim(2, name="batch", kind="batch"), Dim(3, name="a"), Dim(3, name="b")
    net = rf.net_from_dict(
        {"output": {"class": "copy", "from": "data"}}, {"data": {"dim_tags": [BATCH, "<dim c:3>", "<dim d:3>"]}}
    )
    with pytest.raises(rf.DimError) as caught:
        net({"data": rf.zeros([batch, a, b])})
    assert str(caught.value) == (
        'Input "data": it is ambiguous which dim is c.\n'
        "  given     [batch=2, a=3, b=3]\n"
        "  declared  [batch=?, c=3, d=3]\n"
        "Dims are matched by batch, features, names, lengths and sizes, never by their order.\n"
        '    x, _ = rf.replace_dim(x, in_dim=..., out_dim=Dim(..., name="c"))'
    )


# -- parameters of checkpoints --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["output/rec/init_h_var", "output/init_h_var", "output/rec/h/init_h_var", "output/rec/h/initial_output"]
)
def test_the_initial_value_of_a_checkpoint_goes_where_it_belongs(path):
    unit = {"h": {"class": "linear", "activation": "sigmoid", "n_out": 2, "from": "prev:h", "initial_output": "var"},
            "output": {"class": "copy", "from": "h"}}  # fmt: skip
    net = rf.net_from_dict({"output": {"class": "rec", "from": "data", "unit": unit}}, {"data": {"dim": 3}})
    w, b, h = (
        np.array([[1.0, 2], [-1, 0.5]], "float32"),
        np.array([0.1, -0.2], "float32"),
        np.array([3.0, -1], "float32"),
    )
    net.set_parameters({"output/rec/h/W": w, "output/rec/h/b": b, path: h})
    out = net({"data": (np.zeros((1, 2, 3), "float32"), [2])})["output"].numpy().reshape(2, 2)
    np.testing.assert_allclose(out, [sigmoid(h @ w + b), sigmoid(sigmoid(h @ w + b) @ w + b)], rtol=1e-5)


def test_an_initial_value_of_no_layer_is_unexpected():
    net = rf.net_from_dict(
        {"output": {"class": "linear", "n_out": 2, "from": "data", "with_bias": False}}, {"data": {"dim": 3}}
    )
    with pytest.raises(ValueError) as caught:
        net.set_parameters({"output/W": np.zeros((3, 2), "float32"), "output/rec/init_h_var": np.zeros(2, "float32")})
    assert str(caught.value) == (
        "The parameters do not match the network.\n"
        "  unexpected  output/rec/init_h_var\n"
        "Each parameter that the outputs depend on needs a value, given by its path.\n"
        "    net.parameters_by_path()"
    )
