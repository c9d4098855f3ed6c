"""A training step of an attention-LSTM decoder, teacher forced: `rf.Loop` in both faces and `rf.scan` against raw torch.

All of them compute the same: the body of the loop says everything that a step does, down to the loss of its label.
Raw torch comes in two versions. *Naive*: everything that is written in the body is done in every step (the encoder is projected to
keys, the label embedded, logits and cross entropy made). *Hoisted* by hand, as an expert writes for training: keys and embeddings
once before the loop, readout, logits and loss once after it.

With a trace the goal is 1.1 of the loop without one, and it takes 1.5 to 1.6. A third of the rest are the gates of the LSTM, computed a
second time since the kernel does not return them (as one computation, which on a CPU gives equal bits, it would be 1.5). Attention with
weights takes a tenth, and so do the 500 events, of 180 calls each. Besides, a traced step computes alone what the loop without a trace
computes for all steps at once: the product of the LSTM with the embedded labels.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from asserting import ragged
from device import device, quick

import rfnb as rf
from rfnb import Dim

BATCH, STEPS, SOURCE, UNITS, LABELS = (2, 4, 9, 8, 11) if quick() else (32, 50, 50, 256, 1000)


class Decoder(rf.Module):
    """Attention after the LSTM, its context fed back."""

    def __init__(self, labels: Dim, units: Dim):
        self.labels, self.units = labels, units
        self.emb_dim, self.ctx_dim, self.key_dim = (
            Dim(UNITS, name="emb"),
            Dim(UNITS, name="ctx"),
            Dim(UNITS, name="key"),
        )
        self.embedding = rf.Embedding(labels, self.emb_dim)
        self.lstm = rf.LSTM(self.emb_dim + self.ctx_dim, units)
        self.key = rf.Linear(self.ctx_dim, self.key_dim)
        self.query = rf.Linear(units, self.key_dim)
        self.readout = rf.Linear(units + self.ctx_dim, Dim(UNITS, name="readout"))
        self.logits = rf.Linear(self.readout.out_dim, labels)

    def step(self, label, target, state, encoder, source):
        """One step: its loss {batch}, and the next state."""
        x = rf.concat_features(self.embedding(label), state.context)
        h, lstm = self.lstm(x, state=state.lstm, spatial_dim=rf.single_step_dim)
        keys = self.key(encoder)
        context = rf.dot_attention(self.query(h), keys, encoder, key_dim=self.key_dim, axis=source)
        context.feature_dim = self.ctx_dim
        logits = self.logits(rf.tanh(self.readout(rf.concat_features(h, context))))
        loss = rf.cross_entropy(estimated=logits, target=target, axis=self.labels, estimated_type="logits")
        return loss, rf.State(lstm=lstm, context=context)

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
        self.inputs, self.targets = (
            rf.random_uniform([self.batch, self.time], dtype="int64", minval=0, maxval=LABELS, sparse_dim=self.labels)
            for _ in range(2)
        )
        self.mask = self.source.get_mask([self.batch, self.source]).raw_tensor.to(device())

    def _loop(self):
        loop = rf.Loop(axis=self.time)
        loop.state.decoder = self.model.start(self.batch)
        return loop

    def _body(self, loop):
        loss, loop.state.decoder = self.model.step(
            loop.unstack(self.inputs), loop.unstack(self.targets), loop.state.decoder, self.encoder, self.source
        )
        return loop.stack(loss)

    def recorded(self):
        loop = self._loop()
        with loop:
            losses = self._body(loop)
        return rf.reduce_mean(losses, axis=losses.dims).raw_tensor

    def stepped(self):
        loop = self._loop()
        for _ in loop:
            losses = self._body(loop)
        return rf.reduce_mean(losses, axis=losses.dims).raw_tensor

    def scanned(self):
        def body(frame, state):
            return self.model.step(*frame, state, self.encoder, self.source)

        losses, _, _ = rf.scan(
            spatial_dim=self.time, xs=(self.inputs, self.targets), initial=self.model.start(self.batch), body=body
        )
        return rf.reduce_mean(losses, axis=losses.dims).raw_tensor

    def traced(self):
        """As `recorded`, while a trace takes the states and attention weights of all steps."""
        with rf.record():
            return self.recorded()

    # -- the same in raw torch ---------------------------------------------------------------------------------------------

    def _raw_start(self):
        encoder = self.encoder.raw_tensor
        bias = torch.zeros(self.mask.shape, device=encoder.device).masked_fill(~self.mask, -torch.inf)
        return encoder, bias, encoder.new_zeros(BATCH, UNITS), encoder.new_zeros(4 * UNITS)

    def _raw_keys(self, encoder):
        return F.linear(encoder, self.model.key.weight.raw_tensor.t(), self.model.key.bias.raw_tensor)

    def _raw_step(self, x, h, c, context, keys, encoder, bias, no_bias):
        """The recurrence: LSTM and attention."""
        lstm, query = self.model.lstm, self.model.query
        h, c = torch.lstm_cell(
            torch.cat([x, context], -1), (h, c), lstm.ff_weight.raw_tensor, lstm.rec_weight.raw_tensor,
            lstm.bias.raw_tensor, no_bias,
        )  # fmt: skip
        asked = torch.addmm(query.bias.raw_tensor, h, query.weight.raw_tensor) * UNITS**-0.5
        energy = torch.bmm(keys, asked.unsqueeze(-1)).squeeze(-1) + bias
        return h, c, torch.bmm(energy.softmax(-1).unsqueeze(1), encoder).squeeze(1)

    def _raw_logits(self, features):
        readout, out = self.model.readout, self.model.logits
        inner = F.linear(features, readout.weight.raw_tensor.t(), readout.bias.raw_tensor).tanh()
        return F.linear(inner, out.weight.raw_tensor.t(), out.bias.raw_tensor)

    def raw_naive(self):
        encoder, bias, zero, no_bias = self._raw_start()
        h = c = context = zero
        losses = []
        for label, target in zip(self.inputs.raw_tensor.unbind(1), self.targets.raw_tensor.unbind(1), strict=True):
            x = F.embedding(label, self.model.embedding.weight.raw_tensor)
            h, c, context = self._raw_step(x, h, c, context, self._raw_keys(encoder), encoder, bias, no_bias)
            logits = self._raw_logits(torch.cat([h, context], -1))
            losses.append(F.cross_entropy(logits, target, reduction="none"))
        return torch.stack(losses).mean()

    def raw_hoisted(self):
        encoder, bias, zero, no_bias = self._raw_start()
        h = c = context = zero
        hidden, contexts = [], []
        keys = self._raw_keys(encoder)
        for x in F.embedding(self.inputs.raw_tensor.t(), self.model.embedding.weight.raw_tensor).unbind(0):
            h, c, context = self._raw_step(x, h, c, context, keys, encoder, bias, no_bias)
            hidden.append(h)
            contexts.append(context)
        logits = self._raw_logits(torch.cat([torch.stack(hidden), torch.stack(contexts)], -1))
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
    ("with loop / hoisted by hand", "recorded", "raw_hoisted", 1.15),
    ("with loop / naive raw torch", "recorded", "raw_naive", 0.5),
    ("for in loop / naive raw torch", "stepped", "raw_naive", 1.3),
    ("scan / naive raw torch", "scanned", "raw_naive", 1.3),
    ("with loop, traced / not traced", "traced", "recorded", 1.1),
]


@pytest.mark.parametrize(("name", "ours", "raw", "limit"), CASES, ids=[case[0] for case in CASES])
def test_decoder(overhead, world, name, ours, raw, limit):
    sides = (world.training_step(getattr(world, side)) for side in (ours, raw))
    overhead(name, *sides, limit=limit, turns=15, warmup=2)
