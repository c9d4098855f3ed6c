"""Whole decoders as people write them in the dict notation, against NumPy: training in all faces, and searches by hand.

Each with sizes that differ and with sizes that are all the same (batch, beam, labels, features, heads, frames).
"""

from __future__ import annotations

import numpy as np
import pytest
from dict_nets import FORMS, of_sequence, sigmoid, softmax

import rfnb as rf

in_all_forms = pytest.mark.parametrize("form", FORMS, ids=["for", "with", "with-in-loop"])


def _linear(source, size, **more):
    return {"class": "linear", "activation": None, "from": source, "n_out": size, **more}


def _built(net, extern, form, scale):
    net = rf.net_from_dict(net, extern, loop=form[0], optimize_move_layers_out=form[1])
    values = {}
    for path, parameter in net.parameters_by_path().items():
        random = np.random.default_rng(sum((i + 1) * ord(c) for i, c in enumerate(path)))
        values[path] = random.normal(size=[dim.extent for dim in parameter.dims]).astype("float32") * scale
    net.set_parameters(values)
    return net, values


def _lstm(x, h, c, w, b, bias_of_forget, order):
    parts = dict(zip(order, np.split(x @ w + b, 4, -1), strict=True))
    c = sigmoid(parts["f"] + bias_of_forget) * c + sigmoid(parts["i"]) * np.tanh(parts["j"])
    return sigmoid(parts["o"]) * np.tanh(c), c


def _under(values, path):
    """The parameters of a layer by their last names."""
    return {name.rpartition("/")[2]: value for name, value in values.items() if name.startswith(f"{path}/")}


def _hypotheses(out):
    """(labels, scores, lengths) with batch and beam first."""
    labels, scores = out["output"], out["scores"]
    batch, beam = (next(dim for dim in labels.dims if dim.kind == kind) for kind in ("batch", "beam"))
    time = next(dim for dim in labels.dims if dim not in (batch, beam))
    sizes = time.dyn_size_ext
    sizes = (
        sizes if beam in sizes.dims else rf.expand_dim(sizes, dim=beam)
    )  # the same for all hypotheses over a known time
    lengths = sizes.copy_transpose([batch, beam]).numpy()
    return labels.copy_transpose([batch, beam, time]).numpy(), scores.copy_transpose([batch, beam]).numpy(), lengths


# -- attention with feedback of its weights --------------------------------------------------------------------------------------


def _attention_decoder(labels):
    unit = {
        "output": {"class": "choice", "target": "classes", "beam_size": 3, "from": "p", "initial_output": 0},
        "end": {"class": "compare", "from": "output", "value": 0},
        "embed": _linear("output", 3, with_bias=False, initial_output=0),
        "feedback": _linear("prev:accum", 4, with_bias=False),
        "query": _linear("s", 4, with_bias=False),
        "energy_in": {"class": "combine", "kind": "add", "from": ["base:enc_ctx", "feedback", "query"], "n_out": 4},
        "energy_tanh": {"class": "activation", "activation": "tanh", "from": "energy_in"},
        "energy": _linear("energy_tanh", 1, with_bias=False),
        "weights": {"class": "softmax_over_spatial", "from": "energy"},
        "accum": {
            "class": "eval",
            "from": ["prev:accum", "weights", "base:fertility"],
            "eval": "source(0) + source(1) * source(2) * 0.5",
            "out_type": {"dim": 1, "shape": (None, 1)},
        },
        "att": {"class": "generic_attention", "weights": "weights", "base": "base:encoder"},
        "s": {"class": "rnn_cell", "unit": "standardlstm", "from": ["prev:embed", "prev:att"], "n_out": 4},
        "readout_in": _linear(["s", "prev:embed", "att"], 6),
        "pieces": {"class": "split_dims", "axis": "F", "dims": [-1, 2], "from": "readout_in"},
        "maxout": {"class": "reduce", "mode": "max", "axis": "F", "from": "pieces"},
        "readout": {"class": "reinterpret_data", "from": "maxout", "set_axes": {"F": "spatial:-1"}},
        "p": {"class": "softmax", "from": "readout", "target": "classes", "is_output_layer": True},
    }
    return {
        "forward": {"class": "rec", "unit": "nativelstm2", "n_out": 2, "direction": 1, "from": "data"},
        "backward": {"class": "rec", "unit": "nativelstm2", "n_out": 2, "direction": -1, "from": "data"},
        "encoder": {"class": "copy", "from": ["forward", "backward"]},
        "enc_ctx": _linear("encoder", 4),
        "fertility": _linear("encoder", 1, activation="sigmoid", with_bias=False),
        "output": {"class": "rec", "from": [], "unit": unit, "target": "classes", "max_seq_len": "max_len_from('base:encoder')"},
    }  # fmt: skip


def _attention_by_hand(w, x, labels):
    def encoded(name, frames):
        own = _under(w, name)
        h, c, out = np.zeros(2), np.zeros(2), {}
        for frame in frames:
            z = np.concatenate([x[frame], h])
            h, c = _lstm(z, h, c, np.concatenate([own["W"], own["W_re"]]), own["b"], 0, "jifo")
            out[frame] = h
        return np.array([out[frame] for frame in range(len(x))])

    enc = np.concatenate([encoded("forward", range(len(x))), encoded("backward", reversed(range(len(x))))], -1)
    keys, fertility = enc @ w["enc_ctx/W"] + w["enc_ctx/b"], sigmoid(enc @ w["fertility/W"])
    part = {
        name: _under(w, f"output/rec/{name}")
        for name in ("embed", "feedback", "query", "energy", "s", "readout_in", "p")
    }
    embed, att, accum, h, c, out = np.zeros(3), np.zeros(4), np.zeros((len(x), 1)), np.zeros(4), np.zeros(4), []
    for label in labels:
        h, c = _lstm(np.concatenate([embed, att, h]), h, c, part["s"]["kernel"], part["s"]["bias"], 1, "ijfo")
        energy = np.tanh(keys + accum @ part["feedback"]["W"] + h @ part["query"]["W"]) @ part["energy"]["W"]
        weights = softmax(energy, 0)
        accum = accum + weights * fertility * 0.5
        att = (weights * enc).sum(0)
        readout = (
            (np.concatenate([h, embed, att]) @ part["readout_in"]["W"] + part["readout_in"]["b"]).reshape(3, 2).max(-1)
        )
        out.append(softmax(readout @ part["p"]["W"] + part["p"]["b"]))
        embed = part["embed"]["W"][label]
    return np.array(out)


@in_all_forms
@pytest.mark.parametrize("lengths", [(7, 4, 2), (3, 3, 3)])
def test_an_attention_decoder_with_feedback_of_its_weights(lengths, form):
    net, w = _built(_attention_decoder(5), {"data": {"dim": 3}, "classes": {"dim": 5, "sparse": True}}, form, 0.7)
    random = np.random.default_rng(0)
    x = random.normal(size=(3, max(lengths), 3)).astype("float32")
    labels, label_lengths = random.integers(0, 5, (3, 4)).astype("int32"), [4, 2, 3]
    out = net({"data": (x, lengths), "classes": (labels, label_lengths)})["output/p"]
    for index in range(3):
        expected = _attention_by_hand(w, x[index, : lengths[index]], labels[index, : label_lengths[index]])
        np.testing.assert_allclose(of_sequence(out, index), expected, rtol=1e-3, atol=1e-5)


# -- self-attention over the labels so far ---------------------------------------------------------------------------------------


def _transformer(labels, size, heads, beam):
    def split(source):
        return {"class": "split_dims", "axis": "F", "dims": [heads, size // heads], "from": source}

    scale, merged = (size // heads) ** -0.5, {"class": "merge_dims", "axes": "static"}
    unit = {
        "emb": _linear("prev:output", size),
        "x0": {"class": "positional_encoding", "add_to_input": True, "from": "emb"},
    }
    for block in (0, 1):
        x, own, history = f"x{block}", f"b{block}_", f"<dim history{block}:None>"
        unit |= {own + name: _linear(x, size) for name in "qkv"}
        unit |= {f"{own}{name}h": split(own + name) for name in "qkv"}
        unit |= {
            f"{own}{name}s": {"class": "cum_concat", "from": f"{own}{name}h", "out_spatial_dim": history}
            for name in "kv"
        }
        unit |= {
            own + "e": {"class": "dot", "from": [own + "qh", own + "ks"], "red1": "F", "red2": "F", "var1": None, "var2": history},
            own + "w": {"class": "softmax_over_spatial", "from": own + "e", "axis": history, "energy_factor": scale},
            own + "a": {"class": "dot", "from": [own + "w", own + "vs"], "red1": history, "red2": history, "var1": None, "var2": "F"},
            own + "m": {**merged, "from": own + "a"},
            own + "o": _linear(own + "m", size),
            own + "r": {"class": "combine", "kind": "add", "from": [x, own + "o"]},
            own + "c": _linear(own + "r", size),
            own + "ch": split(own + "c"),
            own + "ce": {"class": "dot", "from": ["base:keys", own + "ch"], "red1": "F", "red2": "F", "var1": "T", "var2": None},
            own + "cw": {"class": "softmax_over_spatial", "from": own + "ce", "axis": "T", "energy_factor": scale},
            own + "ca": {"class": "generic_attention", "weights": own + "cw", "base": "base:values"},
            own + "cm": {**merged, "from": own + "ca"},
            f"x{block + 1}": {"class": "combine", "kind": "add", "from": [own + "r", own + "cm"]},
        }  # fmt: skip
    unit |= {
        "p": {"class": "softmax", "from": "x2", "n_out": labels, "is_output_layer": True},
        "output": {"class": "choice", "target": "classes", "beam_size": beam, "from": "p",
                   "initial_output": 1, "length_normalization": False},
        "end": {"class": "compare", "kind": "equal", "value": 0, "from": "output"},
    }  # fmt: skip
    return {
        "enc": _linear("data", size, activation="tanh"),
        "k": _linear("enc", size),
        "v": _linear("enc", size),
        "keys": split("k"),
        "values": split("v"),
        "output": {
            "class": "rec",
            "from": [],
            "target": "classes",
            "unit": unit,
            "max_seq_len": 5,
            "include_eos": True,
        },
        "scores": {"class": "choice_get_beam_scores", "from": "output"},
    }


def _transformer_by_hand(w, x, labels, size, heads):
    def linear(name, value, where="output/rec/"):
        return value @ w[f"{where}{name}/W"] + w[f"{where}{name}/b"]

    def attended(query, keys, values):
        weights = softmax(np.einsum("hd,thd->th", query.reshape(heads, -1), keys) * (size // heads) ** -0.5, 0)
        return np.einsum("th,thd->hd", weights, values).reshape(size)

    enc = np.tanh(linear("enc", x, ""))
    enc_keys, enc_values = (linear(name, enc, "").reshape(len(x), heads, -1) for name in "kv")
    keys, values, out, previous, half = ([], []), ([], []), [], 1, size // 2
    for step, label in enumerate(labels):
        angles = step * 10000.0 ** (-np.arange(half) / max(half - 1, 1))
        s = w["output/rec/emb/W"][previous] + w["output/rec/emb/b"] + np.concatenate([np.sin(angles), np.cos(angles)])
        for block in (0, 1):
            own = f"b{block}_"
            keys[block].append(linear(own + "k", s).reshape(heads, -1))
            values[block].append(linear(own + "v", s).reshape(heads, -1))
            s = s + linear(own + "o", attended(linear(own + "q", s), np.array(keys[block]), np.array(values[block])))
            s = s + attended(linear(own + "c", s), enc_keys, enc_values)
        out.append(softmax(linear("p", s)))
        previous = label
    return np.array(out)


SIZES = {
    "different": {"labels": 5, "size": 6, "heads": 3, "beam": 4, "lengths": (7, 4)},
    "same": {"labels": 4, "size": 4, "heads": 4, "beam": 4, "lengths": (4, 4, 2, 1)},
    "pairs": {"labels": 2, "size": 4, "heads": 2, "beam": 2, "lengths": (2, 2)},
}


@in_all_forms
@pytest.mark.parametrize("sizes", SIZES)
def test_a_transformer_decoder_in_training_and_in_search(sizes, form):
    labels, size, heads, beam, lengths = SIZES[sizes].values()
    net, w = _built(
        _transformer(labels, size, heads, beam),
        {"data": {"dim": 3}, "classes": {"dim": labels, "sparse": True}},
        form,
        0.6,
    )
    random = np.random.default_rng(0)
    x = random.normal(size=(len(lengths), max(lengths), 3)).astype("float32")
    target, target_lengths = random.integers(0, labels, (len(lengths), 4)).astype("int32"), [4, 2, 3, 1][: len(lengths)]
    given = net({"data": (x, lengths), "classes": (target, target_lengths)}, outputs=["output/p"])["output/p"]
    found, scores, ends = _hypotheses(net({"data": (x, lengths)}, search=True, outputs=["output", "scores"]))
    for index, length in enumerate(lengths):

        def probabilities(labels, frames=x[index, :length]):
            return _transformer_by_hand(w, frames, labels, size, heads)

        expected = probabilities(target[index, : target_lengths[index]])
        np.testing.assert_allclose(of_sequence(given, index), expected, rtol=1e-3, atol=1e-5)
        hypotheses = [((), 0.0)]
        for _ in range(5):
            ended = [each for each in hypotheses if 0 in each[0]]
            going = [each for each in hypotheses if 0 not in each[0]]
            log_probs = [np.log(probabilities([*sofar, 0])[-1]) for sofar, _ in going]
            longer = [
                ((*sofar, label), score + own[label])
                for (sofar, score), own in zip(going, log_probs, strict=True)
                for label in range(labels)
            ]
            hypotheses = sorted([*ended, *longer], key=lambda each: -each[1])[:beam]
        by_hand = [sofar for sofar, _ in hypotheses]
        assert [tuple(found[index, k, : ends[index, k]]) for k in range(beam)] == by_hand
        np.testing.assert_allclose(scores[index], [score for _, score in hypotheses], rtol=1e-3)


# -- a transducer: the label model makes a step where a label was emitted -----------------------------------------------------------


def _transducer(labels, size):
    label_model = {
        "lstm": {"class": "rec", "unit": "nativelstm2", "n_out": size, "from": ["data", "base:quarter"]},
        "output": _linear("lstm", size, activation="tanh"),
    }
    unit = {
        "am": {"class": "copy", "from": "data:source"},
        "quarter": {"class": "eval", "from": "am0", "eval": "source(0) * 0.0 + 0.25"},
        "am0": {"class": "slice", "axis": "F", "slice_start": 0, "slice_end": 1, "from": "am"},
        "embed": _linear("label", size, with_bias=False, initial_output=0),
        "label": {"class": "reinterpret_data", "from": "output", "set_sparse_dim": labels},
        "lm_masked": {
            "class": "masked_computation",
            "mask": "prev:emit",
            "from": "prev:embed",
            "unit": {"class": "subnetwork", "from": "data", "subnetwork": label_model},
        },
        "lm": {"class": "unmask", "from": "lm_masked", "mask": "prev:emit"},
        "readout": _linear(["am", "lm"], size, activation="relu"),
        "p": {"class": "softmax", "from": "readout", "n_out": labels, "is_output_layer": True},
        "output": {"class": "choice", "target": "align", "beam_size": labels, "from": "p",
                   "initial_output": 0, "length_normalization": False},
        "emit": {"class": "compare", "kind": "not_equal", "from": "output", "value": 0, "initial_output": True},
    }  # fmt: skip
    return {
        "encoder": _linear("data", size, activation="tanh"),
        "output": {"class": "rec", "from": "encoder", "target": "align", "unit": unit, "include_eos": True},
        "scores": {"class": "choice_get_beam_scores", "from": "output"},
    }


def _transducer_by_hand(w, x, labels, size):
    part = {name: _under(w, f"output/rec/{name}") for name in ("embed", "readout", "p")}
    lstm = {name.rpartition("/")[2]: value for name, value in w.items() if "lstm/" in name}
    last = {name.rpartition("/")[2]: value for name, value in w.items() if "lm_masked" in name and "lstm/" not in name}
    am = np.tanh(x @ w["encoder/W"] + w["encoder/b"])
    h, c, lm, embed, emit, out = np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(size), True, []
    for frame, label in zip(am, labels, strict=True):
        if emit:
            z = np.concatenate([embed, [0.25], h])
            h, c = _lstm(z, h, c, np.concatenate([lstm["W"], lstm["W_re"]]), lstm["b"], 0, "jifo")
            lm = np.tanh(h @ last["W"] + last["b"])
        readout = np.maximum(np.concatenate([frame, lm]) @ part["readout"]["W"] + part["readout"]["b"], 0)
        out.append(softmax(readout @ part["p"]["W"] + part["p"]["b"]))
        embed, emit = part["embed"]["W"][label], label != 0
    return np.array(out)


@in_all_forms
@pytest.mark.parametrize(("labels", "size", "lengths"), [(5, 4, (6, 3, 2)), (4, 4, (4, 4, 4, 4))])
def test_a_transducer_whose_label_model_is_masked(labels, size, lengths, form):
    """In a search, the score of each hypothesis is that of its labels."""
    tags = ["<dim batch:None>", "<dim t:None>"]
    extern = {"data": {"dim_tags": [*tags, "<dim f:3>"]}, "align": {"dim_tags": tags, "dim": labels, "sparse": True}}
    net, w = _built(_transducer(labels, size), extern, form, 0.7)
    random = np.random.default_rng(0)
    x = random.normal(size=(len(lengths), max(lengths), 3)).astype("float32")
    align = random.integers(0, 3, (len(lengths), max(lengths))).astype("int32")
    given = net({"data": (x, lengths), "align": (align, lengths)}, outputs=["output/p"])["output/p"]
    found, scores, ends = _hypotheses(net({"data": (x, lengths)}, search=True, outputs=["output", "scores"]))
    for index, length in enumerate(lengths):
        expected = _transducer_by_hand(w, x[index, :length], align[index, :length], size)
        np.testing.assert_allclose(of_sequence(given, index), expected, rtol=1e-3, atol=1e-5)
        for k in range(labels):
            own = found[index, k, :length]
            assert ends[index, k] == length
            score = np.log(_transducer_by_hand(w, x[index, :length], own, size)[np.arange(length), own]).sum()
            np.testing.assert_allclose(scores[index, k], score, rtol=1e-3)
