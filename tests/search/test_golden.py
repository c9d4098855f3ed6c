"""Searches of a reference implementation (tests/golden/README.md), with the same weights: results, and every step of the search."""

import json
from pathlib import Path

import numpy as np
import pytest
from asserting import ragged, tensor
from golden_search import IMPOSSIBLE, StepsCompared
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim

GOLDEN = Path(__file__).parents[1] / "golden"


class Net:
    """The golden networks: s = tanh([prev s; emb(label); ctx] W + b), p = softmax(s W + b)."""

    def __init__(self, name):
        self.data = data = np.load(GOLDEN / f"{name}.npz")
        self.meta = json.loads(str(data["meta"]))
        self.batch = Dim(data["in/data"].shape[0], name="batch")
        self.vocab = Dim(6, name="vocab")
        self.feat, self.time, self.lin = (
            Dim(4, name="feat"),
            ragged(data["in_len/data"], self.batch),
            Dim(4, name="lin"),
        )
        self.frames = rf.tanh(
            self.linear("lin", tensor(data["in/data"], self.batch, self.time, self.feat), [self.feat], self.lin)
        )
        self.ctx = rf.reduce_mean(self.frames, axis=self.time)
        self.s_dim = Dim(5, name="s")

    def linear(self, path, inputs, in_dims, out_dim):
        """Of the concatenation of inputs."""
        inputs = inputs if isinstance(inputs, list) else [inputs]
        weight, bias, start, out = self.data[f"param/{path}/W"], f"param/{path}/b", 0, 0.0
        for value, dim in zip(inputs, in_dims):
            rows = rf.dim_match_priority_when_needed(dim, out_dim)  # a weight may be square
            product = rf.matmul(value, tensor(weight[start : start + dim.size], rows, out_dim), reduce=dim)
            out, start = product if start == 0 else rf.combine_bc(out, "add", product), start + dim.size
        return out + tensor(self.data[bias], out_dim) if bias in self.data.files else out

    def embed(self, path, label, vocab, dim):
        table = tensor(self.data[f"param/output/rec/{path}/W"], vocab, dim)
        return rf.gather(table, indices=label, axis=vocab)

    def body(self, state, label, vocab=None):
        emb_dim = Dim(4, name="emb")
        emb = self.embed("emb", label, vocab or self.vocab, emb_dim)
        s = rf.tanh(self.linear("output/rec/s", [state, emb, self.ctx], [self.s_dim, emb_dim, self.lin], self.s_dim))
        return s, self.linear("output/rec/p", s, [self.s_dim], self.vocab)

    def start(self, loop, **more):
        loop.state.label = rf.zeros([self.batch], dtype="int64", sparse_dim=self.vocab) + 1
        loop.state.s = rf.zeros([self.batch, self.s_dim])

    def options(self, layer="output"):
        given = {"length_normalization": True, **self.meta["net"]["output"]["unit"][layer]}
        names = ["beam_size", "prob_scale", "base_beam_score_scale", "length_normalization"]
        return {"keep_candidates": 1000, **{name: given[name] for name in names if name in given}}


def compared(net, *layers):
    """Compares each step, with all candidates."""
    given = [net.options(layer) for layer in layers or ["output"]]
    scales = [(options.get("prob_scale", 1), options.get("base_beam_score_scale", 1)) for options in given]
    return StepsCompared(net.data, all_candidates=True, scales=scales)


def beam_of(labels):
    return next(dim for dim in labels.dims if dim.kind == "beam")


def check_result(net, labels, axis, *, key="output"):
    data, beam = net.data, beam_of(labels)
    scores = rf.get_beam_scores(labels).numpy()
    real = data["beam_scores/output"] > IMPOSSIBLE
    np.testing.assert_allclose(scores[real], data["beam_scores/output"][real], atol=1e-4, rtol=1e-4)
    lengths = rf.expand_dims(axis.dyn_size_ext, [dim for dim in (beam,) if dim not in axis.dyn_size_ext.dims])
    lengths = lengths.copy_transpose([net.batch, beam]).numpy()
    got = labels.copy_transpose([net.batch, beam, axis]).numpy()
    wanted = data[f"out/{key}"].reshape(*got.shape[:2], -1)
    wanted_lengths = data[f"out_len/{key}/1"].reshape(lengths.shape)
    for place in zip(*np.nonzero(real)):
        assert lengths[place] == wanted_lengths[place]
        assert got[place][: lengths[place]].tolist() == wanted[place][: lengths[place]].tolist()


def check_decision(net, labels):
    best = rf.decide(labels)
    time = next(dim for dim in best.dims if dim is not net.batch)
    assert time.lengths.tolist() == net.data["out_len/decision/1"].tolist()
    rows = best.copy_transpose([net.batch, time]).numpy()
    for row, expected, length in zip(rows, net.data["out/decision"], time.lengths):
        assert row[:length].tolist() == expected[:length].tolist()


BASIC = [
    "search_basic",
    "search_logprob",
    "search_beam1_greedy",
    "search_lennorm",
    "search_scales",
    "search_src_beams_split",
]


@pytest.mark.parametrize("face", ["for", "with"])
@pytest.mark.parametrize("name", BASIC)
def test_a_search_with_an_end_is_that_of_the_reference(name, face):
    net, loop = Net(name), rf.Loop(max_seq_len=7)
    net.start(loop)

    def body():
        s, logits = net.body(loop.state.s, loop.state.label)
        log_prob = name == "search_logprob"
        scores = rf.log_softmax(logits, axis=net.vocab) if log_prob else rf.softmax(logits, axis=net.vocab)
        label = rf.choice(scores, axis=net.vocab, input_type="log_prob" if log_prob else "prob", **net.options())
        loop.state.label, loop.state.s = label, s
        loop.end(label == 0, include_eos=False)
        raw = rf.decide_keep_beam(label), rf.decide_keep_beam(rf.get_src_beams(label))
        return loop.stack(label), *map(loop.stack, raw)

    with compared(net):
        labels, raw, parents = run_steps(loop, face, body)
    check_result(net, labels, loop.axis)
    check_decision(net, labels)
    if name != "search_src_beams_split":
        return
    split = rf.split_batch_beam(labels)
    assert split.dims[0] is net.batch and split.dims[1].size == 3
    for got, key in ((raw, "labk"), (parents, "sbk")):
        (slot,) = got.remaining_dims([net.batch, loop.axis])
        rows = got.copy_transpose([net.batch, slot, loop.axis]).numpy().reshape(9, -1)
        for row, expected, length in zip(rows, net.data[f"out/output/{key}"], net.data[f"out_len/output/{key}/1"]):
            assert row[:length].tolist() == expected[:length].tolist()


@pytest.mark.parametrize("face", ["for", "with"])
def test_an_attention_decoder_is_that_of_the_reference(face):
    net, loop = Net("search_att_decoder_vis"), rf.Loop(max_seq_len=7)
    net.start(loop)
    data, lin, s_dim = net.data, net.lin, net.s_dim
    loop.state.c, loop.state.cell = rf.zeros([net.batch, lin]), rf.zeros([net.batch, s_dim])
    gates, emb_dim, one = Dim(20, name="gates"), Dim(4, name="emb"), Dim(1, name="one")
    parts = [Dim(5, name=name) for name in "ijfo"]
    kernel, path = data["param/output/rec/s/rec/lstm_cell/kernel"], "output/rec/"

    def body():
        emb = net.embed("emb", loop.state.label, net.vocab, emb_dim)
        z, start = tensor(data["param/output/rec/s/rec/lstm_cell/bias"], gates), 0
        for value, dim in ((emb, emb_dim), (loop.state.c, lin), (loop.state.s, s_dim)):
            z = rf.combine_bc(
                rf.matmul(value, tensor(kernel[start : start + dim.size], dim, gates), reduce=dim), "add", z
            )
            start += dim.size
        i, j, f, o = (
            rf.replace_dim(part, in_dim=dim, out_dim=s_dim)[0]
            for part, dim in zip(rf.split(z, axis=gates, out_dims=parts), parts)
        )
        cell = rf.sigmoid(f + 1.0) * loop.state.cell + rf.sigmoid(i) * rf.tanh(j)
        s = rf.sigmoid(o) * rf.tanh(cell)
        e_t = rf.tanh(rf.combine_bc(net.frames, "add", net.linear(path + "s_t", s, [s_dim], lin)))
        e = rf.squeeze(net.linear(path + "e", e_t, [lin], one), axis=one)
        c = rf.matmul(rf.softmax(e, axis=net.time), net.frames, reduce=net.time)
        logits = net.linear(path + "p", [s, c], [s_dim, lin], net.vocab)
        label = rf.choice(rf.softmax(logits, axis=net.vocab), axis=net.vocab, input_type="prob", **net.options())
        loop.state.label, loop.state.s, loop.state.c, loop.state.cell = label, s, c, cell
        loop.end(label == 0, include_eos=False)
        return loop.stack(label)

    with compared(net):
        labels = run_steps(loop, face, body)
    check_result(net, labels, loop.axis)
    check_decision(net, labels)


@pytest.mark.parametrize("face", ["for", "with"])
def test_two_choices_in_a_step_are_those_of_the_reference(face):
    net, loop = Net("search_two_choices"), rf.Loop(max_seq_len=7)
    net.start(loop)
    first, emb_dim, emb1_dim = Dim(4, name="first"), Dim(4, name="emb"), Dim(3, name="emb1")
    loop.state.first = rf.zeros([net.batch], dtype="int64", sparse_dim=first)
    path, s_dim = "output/rec/", net.s_dim

    def body():
        emb = net.embed("emb", loop.state.label, net.vocab, emb_dim)
        s = rf.tanh(net.linear(path + "s", [loop.state.s, emb, net.ctx], [s_dim, emb_dim, net.lin], s_dim))
        emb1 = net.embed("emb1", loop.state.first, first, emb1_dim)
        loop.state.s = s
        q = rf.softmax(net.linear(path + "q", [s, emb1], [s_dim, emb1_dim], first), axis=first)
        chosen = rf.choice(q, axis=first, input_type="prob", **net.options("lab1"))
        loop.state.first = chosen
        emb2 = net.embed("emb2", chosen, first, emb1_dim)
        s2 = rf.tanh(net.linear(path + "s2", [loop.state.s, emb2], [s_dim, emb1_dim], s_dim))
        p = rf.softmax(net.linear(path + "p", s2, [s_dim], net.vocab), axis=net.vocab)
        label = rf.choice(p, axis=net.vocab, input_type="prob", **net.options())
        loop.state.label = label
        loop.end(label == 0, include_eos=False)
        return loop.stack(label), loop.stack(chosen)

    with compared(net, "lab1", "output"):
        labels, firsts = run_steps(loop, face, body)
    check_result(net, labels, loop.axis)
    check_result(net, firsts, loop.axis, key="output/lab1")
    check_decision(net, labels)


@pytest.mark.parametrize("face", ["for", "with"])
def test_a_choice_of_two_sources_is_that_of_the_reference(face):
    net, loop = Net("search_multi_source_default"), rf.Loop(max_seq_len=7)
    net.start(loop)
    second, emb_dim, emb1_dim = Dim(5, name="second"), Dim(4, name="emb"), Dim(3, name="emb1")
    loop.state.second = rf.zeros([net.batch], dtype="int64", sparse_dim=second)
    path, s_dim = "output/rec/", net.s_dim

    def body():
        emb, emb1 = (
            net.embed("emb", loop.state.label, net.vocab, emb_dim),
            net.embed("emb1", loop.state.second, second, emb1_dim),
        )
        s = rf.tanh(
            net.linear(path + "s", [loop.state.s, emb, emb1, net.ctx], [s_dim, emb_dim, emb1_dim, net.lin], s_dim)
        )
        p = rf.softmax(net.linear(path + "p", s, [s_dim], net.vocab), axis=net.vocab)
        q = rf.softmax(net.linear(path + "q", s, [s_dim], second), axis=second)
        label, other = rf.choice([p, q], axis=[net.vocab, second], input_type="prob", **net.options())
        loop.state.label, loop.state.second, loop.state.s = label, other, s
        loop.end(label == 0, include_eos=False)
        return loop.stack(label), loop.stack(other)

    with compared(net):
        labels, others = run_steps(loop, face, body)
    check_result(net, labels, loop.axis)
    check_result(net, others, loop.axis, key="output/out_1")
    check_decision(net, labels)


def test_in_training_a_choice_is_the_reference_labels():
    net = Net("choice_train")
    time = ragged(net.data["in_len/classes"], net.batch, "classes")
    target = tensor(net.data["in/classes"].astype(np.int64), net.batch, time, sparse_dim=net.vocab)
    loop = rf.Loop(axis=time)
    for _ in loop:
        scores = rf.zeros([net.batch, net.vocab])
        labels = loop.stack(
            rf.choice(scores, axis=net.vocab, beam_size=3, input_type="logits", target=loop.unstack(target))
        )
    assert set(labels.dims) == {net.batch, time}
    rows = labels.copy_transpose([net.batch, time]).numpy()
    for row, expected, length in zip(rows, net.data["out/output"], net.data["in_len/classes"]):
        assert row[:length].tolist() == expected[:length].tolist()


@pytest.mark.parametrize("face", ["for", "with"])
def test_a_search_of_known_length_is_that_of_the_reference(face):
    """Its lengths do not count the end: one label more after the length of a sequence has a score, where the loop still runs."""
    net = Net("search_fixed_len")
    loop = rf.Loop(axis=ragged(net.data["in_len/classes"], net.batch, "classes"), include_eos=False)
    net.start(loop)

    def body():
        s, logits = net.body(loop.state.s, loop.state.label)
        label = rf.choice(rf.softmax(logits, axis=net.vocab), axis=net.vocab, input_type="prob", **net.options())
        loop.state.label, loop.state.s = label, s
        return loop.stack(label)

    with compared(net):
        labels = run_steps(loop, face, body)
    check_result(net, labels, loop.axis)
    check_decision(net, labels)
