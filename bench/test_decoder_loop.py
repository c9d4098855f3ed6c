"""A training step of an attention-LSTM decoder, teacher forced: both faces of `rf.Loop` against raw torch.

Raw torch comes in two versions: stepped (all ops in every step), and hoisted by hand (the embeddings before the loop, readout, logits
and loss after it), which is what people write for training beside a stepped one for decoding.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from asserting import ragged

import rfnb as rf
from rfnb import Dim

BATCH, STEPS, SOURCE, UNITS, LABELS = 32, 50, 50, 256, 1000


class Decoder(rf.Module):
    """Luong-style: attention after the LSTM, its context fed back."""

    def __init__(self, labels: Dim, units: Dim):
        self.units = units
        self.emb_dim, self.ctx_dim = Dim(UNITS, name="emb"), Dim(UNITS, name="ctx")
        self.embedding = rf.Embedding(labels, self.emb_dim)
        self.lstm = rf.LSTM(self.emb_dim + self.ctx_dim, units)
        self.query = rf.Linear(units, self.ctx_dim)
        self.readout = rf.Linear(units + self.ctx_dim, Dim(UNITS, name="readout"))
        self.logits = rf.Linear(self.readout.out_dim, labels)

    def step(self, label, state, encoder, source):
        """One step: logits and the next state."""
        x = rf.concat_features(self.embedding(label), state.context)
        h, lstm = self.lstm(x, state=state.lstm, spatial_dim=rf.single_step_dim)
        context = rf.dot_attention(self.query(h), encoder, encoder, key_dim=self.ctx_dim, axis=source)
        context.feature_dim = self.ctx_dim
        logits = self.logits(rf.tanh(self.readout(rf.concat_features(h, context))))
        return logits, rf.State(lstm=lstm, context=context)

    def start(self, batch):
        return rf.State(
            lstm=self.lstm.default_initial_state(batch_dims=[batch]),
            context=rf.zeros([batch, self.ctx_dim], feature_dim=self.ctx_dim),
        )


class World:
    """A model and a batch, as rfnb and as raw torch, with the same weights."""

    def __init__(self):
        rf.set_random_seed(3)
        self.batch, self.units, self.labels = (
            Dim(BATCH, name="batch"),
            Dim(UNITS, name="units"),
            Dim(LABELS, name="labels"),
        )
        self.source = ragged([SOURCE - index % 7 for index in range(BATCH)], self.batch, "source")
        self.time = Dim(STEPS, name="time")
        self.model = Decoder(self.labels, self.units)
        self.parameters = [parameter.raw_tensor for parameter in self.model.parameters()]
        self.encoder = rf.random_normal([self.batch, self.source, self.model.ctx_dim])
        self.inputs = rf.random_uniform(
            [self.batch, self.time], dtype="int64", minval=0, maxval=LABELS, sparse_dim=self.labels
        )
        self.targets = rf.random_uniform(
            [self.batch, self.time], dtype="int64", minval=0, maxval=LABELS, sparse_dim=self.labels
        )
        self.mask = self.source.get_mask([self.batch, self.source]).raw_tensor

    def _loss(self, logits):
        loss = rf.cross_entropy(estimated=logits, target=self.targets, axis=self.labels, estimated_type="logits")
        return rf.reduce_mean(loss, axis=loss.dims).raw_tensor

    def recorded(self):
        loop = rf.Loop(axis=self.time)
        loop.state.decoder = self.model.start(self.batch)
        with loop:
            logits, loop.state.decoder = self.model.step(
                loop.unstack(self.inputs), loop.state.decoder, self.encoder, self.source
            )
            logits = loop.stack(logits)
        return self._loss(logits)

    def stepped(self):
        loop = rf.Loop(axis=self.time)
        loop.state.decoder = self.model.start(self.batch)
        for _ in loop:
            logits, loop.state.decoder = self.model.step(
                loop.unstack(self.inputs), loop.state.decoder, self.encoder, self.source
            )
            out = loop.stack(logits)
        return self._loss(out)

    def scanned(self):
        def body(label, state):
            return self.model.step(label, state, self.encoder, self.source)

        logits, _, _ = rf.scan(spatial_dim=self.time, xs=self.inputs, initial=self.model.start(self.batch), body=body)
        return self._loss(logits)

    # -- the same in raw torch ---------------------------------------------------------------------------------------------

    def _raw_attention(self, query, encoder, bias):
        energy = torch.bmm(encoder, query.unsqueeze(-1)).squeeze(-1) * UNITS**-0.5 + bias
        return torch.bmm(energy.softmax(-1).unsqueeze(1), encoder).squeeze(1)

    def _raw_prepare(self):
        encoder = self.encoder.raw_tensor
        bias = torch.zeros(self.mask.shape).masked_fill(~self.mask, -torch.inf)
        zero = torch.zeros(BATCH, UNITS)
        return encoder, bias, zero

    def raw_stepped(self):
        model, (encoder, bias, zero) = self.model, self._raw_prepare()
        lstm, query, readout, out = model.lstm, model.query, model.readout, model.logits
        h = c = context = zero
        logits = []
        no_bias = torch.zeros(4 * UNITS)
        for label in self.inputs.raw_tensor.unbind(1):
            x = torch.cat([F.embedding(label, model.embedding.weight.raw_tensor), context], -1)
            h, c = torch.lstm_cell(
                x, (h, c), lstm.ff_weight.raw_tensor, lstm.rec_weight.raw_tensor, lstm.bias.raw_tensor, no_bias
            )
            context = self._raw_attention(torch.addmm(query.bias.raw_tensor, h, query.weight.raw_tensor), encoder, bias)
            inner = torch.addmm(readout.bias.raw_tensor, torch.cat([h, context], -1), readout.weight.raw_tensor).tanh()
            logits.append(torch.addmm(out.bias.raw_tensor, inner, out.weight.raw_tensor))
        return F.cross_entropy(torch.stack(logits, 1).flatten(0, 1), self.targets.raw_tensor.flatten())

    def raw_hoisted(self):
        model, (encoder, bias, zero) = self.model, self._raw_prepare()
        lstm, query, readout, out = model.lstm, model.query, model.readout, model.logits
        h = c = context = zero
        hidden, contexts = [], []
        no_bias = torch.zeros(4 * UNITS)
        embedded = F.embedding(self.inputs.raw_tensor.t(), model.embedding.weight.raw_tensor)
        for x in embedded.unbind(0):
            h, c = torch.lstm_cell(
                torch.cat([x, context], -1), (h, c), lstm.ff_weight.raw_tensor, lstm.rec_weight.raw_tensor,
                lstm.bias.raw_tensor, no_bias,
            )  # fmt: skip
            context = self._raw_attention(torch.addmm(query.bias.raw_tensor, h, query.weight.raw_tensor), encoder, bias)
            hidden.append(h)
            contexts.append(context)
        features = torch.cat([torch.stack(hidden), torch.stack(contexts)], -1)
        inner = F.linear(features, readout.weight.raw_tensor.t(), readout.bias.raw_tensor).tanh()
        logits = F.linear(inner, out.weight.raw_tensor.t(), out.bias.raw_tensor)
        return F.cross_entropy(logits.flatten(0, 1), self.targets.raw_tensor.t().flatten())

    def training_step(self, loss):
        """A function that computes loss and gradients."""

        def run():
            for parameter in self.parameters:
                parameter.grad = None
            value = loss()
            value.backward()
            return [value, *(parameter.grad for parameter in self.parameters)]

        return run


@pytest.fixture(scope="module")
def world():
    return World()


CASES = [
    ("with loop, training", "recorded", "raw_hoisted", 1.15),
    ("for in loop, training", "stepped", "raw_stepped", 1.3),
    ("scan, training", "scanned", "raw_stepped", 1.3),
    ("with loop / stepped raw torch", "recorded", "raw_stepped", 0.5),
]


@pytest.mark.parametrize(("name", "ours", "raw", "limit"), CASES, ids=[case[0] for case in CASES])
def test_decoder(overhead, world, name, ours, raw, limit):
    overhead(name, world.training_step(getattr(world, ours)), world.training_step(getattr(world, raw)), limit=limit)
