"""Attention to an encoder against golden data (tests/golden/README.md), also inside of decoders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from golden_data import Golden
from loop_faces import FACES, run_face

import rfnb as rf
from rfnb import Dim, Tensor


def linear(golden: Golden, layer: str, in_dim: Dim, out_dim: Dim) -> rf.Linear:
    values = golden.params(layer)
    module = rf.Linear(in_dim, out_dim, with_bias="b" in values)
    module.weight.assign(values["W"])
    if "b" in values:
        module.bias.assign(values["b"])
    return module


@pytest.mark.parametrize("name", ["att_dot", "att_concat"])
def test_attention_of_one_query(name):
    golden = Golden(name)
    data, query = golden.input("data"), golden.input("q")
    key_dim = query.dims[1]
    ctx = linear(golden, "ctx", data.dims[2], key_dim)(data)
    golden.check(ctx, "ctx")
    attention = (rf.DotAttention if name == "att_dot" else rf.ConcatAttention)(key_dim, out_dim=data.dims[2])
    golden.assign(dict(attention.named_parameters()), "output")
    golden.check(attention(query, base=data, base_ctx=ctx, axis=golden.time), "output")
    weights = attention.get_base_weights(query, base_ctx=ctx, axis=golden.time)
    golden.check(weights, "base_weights")
    last = attention.get_base_weight_last_frame(query, base_ctx=ctx, axis=golden.time)
    expected = golden["out/base_weights"][np.arange(3), golden["in_len/data"] - 1]
    np.testing.assert_allclose(last.numpy(), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "inner", "layer"),
    [("att_gauss_window", None, "output"), ("derived_gauss_window_inner5", 5, "centered")],
)
def test_gauss_window(name, inner, layer):
    golden = Golden(name)
    out = rf.gauss_window_attention(
        golden.input("t"), golden.input("data"), axis=golden.time, window_size=5, std=1.0, inner_size=inner
    )
    golden.check(out, layer)


class Decoder:
    """emb -> s (an LSTM cell with the context of the step before) -> attention -> prob."""

    def __init__(self, name: str):
        golden = self.golden = Golden(name)
        data, self.labels = golden.input("data"), golden.input("classes")
        self.base, self.base_dim = data, data.dims[2]
        self.vocab, emb, self.key = self.labels.sparse_dim, Dim(5, name="emb"), Dim(6, name="s")
        assert self.vocab is not None
        self.ctx = linear(golden, "ctx", self.base_dim, self.key)(data)
        self.emb = rf.Embedding(self.vocab, emb)
        self.emb.weight.assign(golden.params("output/rec/emb")["W"])
        self.cell = rf.StandardLSTMCell(emb + self.base_dim, self.key)
        for part in ("kernel", "bias"):
            getattr(self.cell, part).assign(golden.params("output/rec/s")[f"rec/lstm_cell/{part}"])
        self.prob = linear(golden, "output/rec/prob", self.key + self.base_dim, self.vocab)

    def initial(self) -> dict[str, Any]:
        batch = self.golden.batch
        label = rf.zeros([batch], dtype="int32", sparse_dim=self.vocab)
        context = rf.zeros([batch, self.base_dim], feature_dim=self.base_dim)
        return {"label": label, "context": context, "cell": self.cell.default_initial_state(batch_dims=[batch])}

    def step(self, loop: rf.Loop, attend: Any) -> tuple[Tensor, Tensor]:
        emb, before = self.emb(loop.state.label), loop.state.context
        source, _ = rf.concat((emb, self.emb.out_dim), (before, self.base_dim))
        s, loop.state.cell = self.cell(source, state=loop.state.cell, spatial_dim=rf.single_step_dim)
        context = attend(loop, s)
        loop.state.context = context
        both, _ = rf.concat((s, self.key), (context, self.base_dim))
        prob = rf.softmax(self.prob(both), axis=self.vocab)
        loop.state.label = loop.unstack(self.labels)  # of the reference
        return loop.stack(prob), loop.stack(context)

    def check(self, outputs: tuple[Tensor, Tensor]) -> None:
        for value, layer in zip(outputs, ("output", "output/c"), strict=True):
            self.golden.check(value, layer)


@pytest.mark.parametrize("face", FACES)
def test_decoder_with_dot_attention(face):
    decoder = Decoder("dec_dot")
    attention = rf.DotAttention(decoder.key)

    def attend(loop: rf.Loop, query: Tensor) -> Tensor:
        return attention(query, base=decoder.base, base_ctx=decoder.ctx, axis=decoder.golden.time)

    time = decoder.labels.dims[1]
    outputs, _ = run_face(face, lambda loop: decoder.step(loop, attend), axis=time, **decoder.initial())
    decoder.check(outputs)


@pytest.mark.parametrize("face", FACES)
def test_decoder_with_weight_feedback(face):
    decoder = Decoder("dec_generic_mlp_fertility")
    golden, key, source = decoder.golden, decoder.key, decoder.golden.time
    one = Dim(1, name="one")
    s_t, wfb = (
        linear(golden, f"output/rec/{n}", d, key) for n, d in (("s_t", key.copy(match_priority=1)), ("wfb", one))
    )
    energy = linear(golden, "output/rec/e", key, one)

    def attend(loop: rf.Loop, query: Tensor) -> Tensor:
        query, _ = rf.replace_dim(query, in_dim=key, out_dim=s_t.in_dim)
        hidden = rf.tanh(rf.combine_bc(decoder.ctx + wfb(loop.state.acc_w), "add", s_t(query)))
        weights = rf.softmax(energy(hidden), axis=source)
        loop.state.acc_w = loop.state.acc_w + weights
        return rf.generic_attention(weights, decoder.base, axis=source)

    initial = {**decoder.initial(), "acc_w": rf.zeros([golden.batch, source, one])}
    outputs, _ = run_face(face, lambda loop: decoder.step(loop, attend), axis=decoder.labels.dims[1], **initial)
    decoder.check(outputs)
