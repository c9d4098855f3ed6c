"""Searches of a reference implementation (tests/golden/README.md), with the same weights."""

import json
from pathlib import Path

import numpy as np
import pytest
from asserting import ragged, tensor

import rfnb as rf
from rfnb import Dim

GOLDEN = Path(__file__).parents[1] / "golden"


class Net:
    """emb and s of the golden networks: s = tanh([prev s; emb(label); ctx] W + b), scores = s W + b."""

    def __init__(self, data):
        self.data = data
        self.batch = Dim(data["in/data"].shape[0], name="batch")
        self.vocab = Dim(data["param/output/rec/p/b"].shape[0], name="vocab")
        feat, time = Dim(4, name="feat"), ragged(data["in_len/data"], self.batch)
        self.lin, emb, self.s_dim = Dim(4, name="lin"), Dim(4, name="emb"), Dim(5, name="s")
        self.emb = rf.Embedding(self.vocab, emb)
        self.emb.weight.assign(tensor(data["param/output/rec/emb/W"], self.vocab, emb))
        self.joined = self.s_dim + emb + self.lin
        self.s = self.linear("output/rec/s", self.joined, self.s_dim)
        self.p = self.linear("output/rec/p", self.s_dim, self.vocab)
        frames = rf.tanh(self.linear("lin", feat, self.lin)(tensor(data["in/data"], self.batch, time, feat)))
        self.ctx = rf.reduce_mean(frames, axis=time)

    def linear(self, path, in_dim, out_dim):
        linear = rf.Linear(in_dim, out_dim)
        linear.weight.assign(tensor(self.data[f"param/{path}/W"], in_dim, out_dim))
        linear.bias.assign(tensor(self.data[f"param/{path}/b"], out_dim))
        return linear

    def step(self, label, s):
        emb = self.emb(label)
        joined, dim = rf.concat((s, self.s_dim), (emb, emb.feature_dim), (self.ctx, self.lin), allow_broadcast=True)
        joined, _ = rf.replace_dim(joined, in_dim=dim, out_dim=self.joined)
        s = rf.tanh(self.s(joined))
        return self.p(s), s

    def search(self, loop, beam_size, *, log_prob, has_end):
        loop.state.label = rf.zeros([self.batch], dtype="int64", sparse_dim=self.vocab) + 1
        loop.state.s = rf.zeros([self.batch, self.s_dim])
        for _ in loop:
            logits, loop.state.s = self.step(loop.state.label, loop.state.s)
            scores = rf.log_softmax(logits, axis=self.vocab) if log_prob else rf.softmax(logits, axis=self.vocab)
            label = rf.choice(
                scores, beam_size=beam_size, axis=self.vocab, input_type="log_prob" if log_prob else "prob"
            )
            loop.state.label = label
            if has_end:
                loop.end(label == 0, include_eos=False)
            labels = loop.stack(label)
        return labels


def beam_of(labels):
    return next(dim for dim in labels.dims if dim.kind == "beam")


@pytest.mark.parametrize("name", ["search_basic", "search_logprob", "search_beam1_greedy"])
def test_a_search_with_an_end_is_that_of_the_reference(name):
    data = np.load(GOLDEN / f"{name}.npz")
    meta = json.loads(str(data["meta"]))
    beam_size = data["beam_scores/output"].shape[1]
    net, loop = Net(data), rf.Loop(max_seq_len=7)
    assert meta["net"]["output"]["max_seq_len"] == 7 and meta["net"]["output"]["unit"]["output"]["initial_output"] == 1
    labels = net.search(loop, beam_size, log_prob=name == "search_logprob", has_end=True)

    beam = beam_of(labels)
    np.testing.assert_allclose(rf.get_beam_scores(labels).numpy(), data["beam_scores/output"], atol=1e-4, rtol=1e-4)
    lengths = loop.axis.dyn_size_ext.copy_transpose([net.batch, beam]).numpy()
    assert lengths.ravel().tolist() == data["out_len/output/1"].tolist()
    got = labels.copy_transpose([net.batch, beam, loop.axis]).numpy().reshape(-1, loop.axis.extent)
    for row, expected, length in zip(got, data["out/output"], lengths.ravel()):
        assert row[:length].tolist() == expected[:length].tolist()

    best = rf.decide(labels)
    time = next(dim for dim in best.dims if dim is not net.batch)
    assert time.lengths.tolist() == data["out_len/decision/1"].tolist()
    for row, expected, length in zip(
        best.copy_transpose([net.batch, time]).numpy(), data["out/decision"], time.lengths
    ):
        assert row[:length].tolist() == expected[:length].tolist()


def test_a_search_of_known_length_is_that_of_the_reference_up_to_each_length():
    """The reference goes on for one step after a sequence's length before it stops adding scores, so that its score depends
    on what else is in the batch; ours are compared with its scores at the length."""
    data = np.load(GOLDEN / "search_fixed_len.npz")
    net = Net(data)
    time = ragged(data["in_len/classes"], net.batch, "classes")
    labels = net.search(rf.Loop(axis=time), 3, log_prob=False, has_end=False)
    scores = rf.get_beam_scores(labels).numpy()
    rows = labels.copy_transpose([net.batch, beam_of(labels), time]).numpy()
    for seq, length in enumerate(data["in_len/classes"]):
        steps = [
            {key: data[f"trace/{step}/0/{key}"][seq] for key in ("labels", "src_beam_idxs", "scores")}
            for step in range(length)
        ]
        np.testing.assert_allclose(scores[seq], steps[-1]["scores"], atol=1e-4, rtol=1e-4)
        for k in range(3):
            expected, position = [], k
            for step in reversed(steps):
                expected.insert(0, int(step["labels"][position]))
                position = int(step["src_beam_idxs"][position])
            assert rows[seq, k, :length].tolist() == expected
