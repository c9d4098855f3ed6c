"""Searches of dict networks with all kinds of states: every hypothesis has the score that the network itself gives to its labels."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from golden_nets import FOLDER, GoldenNet

import rfnb as rf

ATTENTION = GoldenNet("search_att_decoder_vis").meta["net"]["output"]["unit"]
LSTM = {"class": "rec", "unit": "nativelstm2", "n_out": 5}
SELF_ATTENTION = {
    "class": "self_attention",
    "num_heads": 1,
    "total_key_dim": 4,
    "n_out": 5,
    "attention_left_only": True,
}
HISTORY = "<dim history:None>"


def linear(source, n_out, activation="tanh", **options):
    return {"class": "linear", "activation": activation, "from": source, "n_out": n_out, **options}


def masked(source, unit, label="prev:output"):
    """Runs for labels other than 2 alone."""
    return {
        "mask": {"class": "compare", "kind": "not_equal", "from": label, "value": 2},
        "s": {"class": "masked_computation", "mask": "mask", "from": source, "unit": {**unit, "from": "data"}},
    }


S0 = linear(["prev:s0", "emb", "base:ctx"], 5)
BODIES = {
    "linear": {"s": linear(["prev:s", "emb", "base:ctx"], 5)},
    "lstm": {"s": {**LSTM, "from": ["emb", "base:ctx"]}},
    "lstm with a trained state": {"s": {**LSTM, "from": ["emb", "base:ctx"], "initial_state": "var"}},
    "zoneout": {"s": {"class": "rnn_cell", "unit": "zoneoutlstm", "n_out": 5, "from": ["emb", "base:ctx"],
                      "unit_opts": {"zoneout_factor_cell": 0.2, "zoneout_factor_output": 0.1}}},
    "self attention": {"s0": S0, "s": {**SELF_ATTENTION, "from": "s0"}},
    "positions": {"pos": {"class": "positional_encoding", "from": "emb", "add_to_input": True},
                  "s": linear(["prev:s", "pos", "base:ctx"], 5)},
    "histories": {
        "s0": S0,
        "keys": {"class": "cum_concat", "from": "s0", "out_spatial_dim": HISTORY},
        "energy": {"class": "dot", "from": ["s0", "keys"], "reduce": "F", "var1": "auto", "var2": "auto"},
        "weights": {"class": "softmax_over_spatial", "from": "energy", "axis": HISTORY},
        "context": {"class": "dot", "from": ["weights", "keys"], "reduce": HISTORY},
        "s": {"class": "combine", "kind": "add", "from": ["s0", "context"]},
    },
    "masked lstm": masked(["emb", "base:ctx"], LSTM),
    "masked self attention": {"s0": S0, **masked("s0", SELF_ATTENTION)},
    "state after the choice": {
        "after": linear("output", 3, with_bias=False),
        "sum": {"class": "combine", "kind": "add", "from": ["prev:sum", "after"]},
        "s": linear(["prev:sum", "emb", "base:ctx"], 5),
    },
    "state in a subnetwork": {
        "s": {"class": "subnetwork", "from": ["emb", "base:ctx"],
              "subnetwork": {"in": linear("data", 4), "output": {**LSTM, "from": "in"}}},
    },
    "attention with feedback": {
        "accumulated": {"class": "combine", "kind": "add", "from": ["prev:accumulated", "w"]},
        "feedback": linear("prev:accumulated", 4, None, with_bias=False),
        "s_t": linear(["emb", "prev:c"], 4),
        "e_in": {"class": "combine", "kind": "add", "from": ["base:lin", "s_t", "feedback"]},
        **{name: ATTENTION[name] for name in ("e_t", "e", "w", "c")},
        "s": linear(["c", "s_t"], 5),
    },
}  # fmt: skip
VOCAB = ["</s>", "the", "cat", "sat", "dog", "hello"]
LM = {"class": "kenlm", "lm_file": FOLDER / "tiny.arpa", "vocab_file": VOCAB, "vocab_unknown_label": None, "from": "prev:output",
      "dense_output": True}  # fmt: skip
PARTS = ["</s>", "th@@", "e", "c@@", "at", "cat"]


def network(name):
    """`scores` are log probabilities; "end" is label 0, which counts."""
    golden = GoldenNet("search_basic").meta["net"]
    body = {
        "emb": golden["output"]["unit"]["emb"],
        **copy.deepcopy(BODIES.get(name, BODIES["linear"])),
        "p": linear("s", 6, "log_softmax"),
        "scores": {"class": "copy", "from": "p", "is_output_layer": True},
        "output": {**golden["output"]["unit"]["output"], "from": "scores", "input_type": "log_prob"},
        "end": golden["output"]["unit"]["end"],
    }
    if name.startswith("n-gram"):
        parts = {"vocab_file": PARTS, "bpe_merge_symbol": "@@"} if name.endswith("parts") else {}
        body["lm"] = {**LM, **parts}
        body["scores"] = {"class": "combine", "kind": "add", "from": ["p", "lm"], "is_output_layer": True}
    loop = {"class": "rec", "from": [], "target": "classes", "max_seq_len": 6, "include_eos": True, "unit": body}
    return {"lin": golden["lin"], "ctx": golden["ctx"], "output": loop}


@pytest.mark.parametrize("loop", ["for", "with"])
@pytest.mark.parametrize("name", [*BODIES, "n-gram model", "n-gram model over parts"])
def test_hypotheses_have_the_scores_of_the_network(name, loop):
    golden = GoldenNet("search_basic")
    net = rf.net_from_dict(network(name), golden.meta["extern_data"], search=True, loop=loop)
    rng = np.random.default_rng(3)
    shapes = {path: [dim.extent for dim in x.dims] for path, x in net.parameters_by_path().items()}
    values = {path: 2 * rng.standard_normal(shape) for path, shape in shapes.items()}
    values["output/rec/p/b"] = np.array([-4.0, 0, 0.5, 0.2, 0.3, 0.1])  # the end is rare, what is masked is not
    net.set_parameters(values)
    data, lengths = golden.part("in")["data"], golden.part("in_len")["data"]
    found = net({"data": (data, lengths)}, outputs=["output"])["output"]
    labels, counts, totals = hypotheses(found)
    assert counts.max() > 2  # so that there is something to follow
    for k in range(labels.shape[1]):
        inputs = {"data": (data, lengths), "classes": (labels[:, k, : counts[:, k].max()], counts[:, k])}
        own = net(inputs, outputs=["output/scores"], search=False)["output/scores"]
        (batch,) = (dim for dim in own.dims if dim.kind == "batch")
        (time,) = (dim for dim in own.dims if dim not in (batch, own.feature_dim))
        values = own.copy_transpose([batch, time, own.feature_dim]).numpy()
        for seq, count in enumerate(counts[:, k]):
            expected = values[seq, np.arange(count), labels[seq, k, :count]].sum()
            assert totals[seq, k] == pytest.approx(expected, abs=1e-3), (seq, k)


def hypotheses(value):
    """Labels and lengths [batch, beam], scores."""
    batch, beam = (next(dim for dim in value.dims if dim.kind == kind) for kind in ("batch", "beam"))
    (time,) = (dim for dim in value.dims if dim not in (batch, beam))
    labels = value.copy_transpose([batch, beam, time]).numpy()
    lengths = time.get_size_tensor().copy_transpose([batch, beam]).numpy()
    return labels, lengths, rf.get_beam_scores(value).copy_transpose([batch, beam]).numpy()
