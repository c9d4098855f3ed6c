"""Loops of small models, where every call of Python is felt; each batch has dims of its own.

*Decoder*: 50 steps of an attention LSTM without gradients, against the same steps in raw torch: both faces of `rf.Loop`, `rf.scan`, and
a loop over rfnb that is written by hand (80 calls of Python functions per step; `for` has 117, `with` 63 in its first step and its
program, divided by the steps). *Teaching*: a training step of a small sequence to sequence model, as in a first lesson.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import rfnb as rf
from rfnb import Dim

BATCH, STEPS, SOURCE = 8, 50, 30


class Decoder(rf.Module):
    """Attention after the LSTM, its context fed back."""

    def __init__(self, labels: Dim, units: Dim, ctx_dim: Dim):
        self.labels, self.ctx_dim = labels, ctx_dim
        self.emb_dim, self.key_dim = Dim(units.size, name="emb"), Dim(units.size, name="key")
        self.embedding = rf.Embedding(labels, self.emb_dim)
        self.lstm = rf.LSTM(self.emb_dim + ctx_dim, units)
        self.key = rf.Linear(ctx_dim, self.key_dim)
        self.query = rf.Linear(units, self.key_dim)
        self.readout = rf.Linear(units + ctx_dim, Dim(units.size, name="readout"))
        self.logits = rf.Linear(self.readout.out_dim, labels)

    def step(self, label, state, keys, encoder, source):
        """One step: its logits {batch, labels}, and the next state."""
        x = rf.concat_features(self.embedding(label), state.context)
        h, lstm = self.lstm(x, state=state.lstm, spatial_dim=rf.single_step_dim)
        context = rf.dot_attention(self.query(h), keys, encoder, key_dim=self.key_dim, axis=source)
        context.feature_dim = self.ctx_dim
        logits = self.logits(rf.tanh(self.readout(rf.concat_features(h, context))))
        return logits, rf.State(lstm=lstm, context=context)

    def start(self, batch):
        return rf.State(
            lstm=self.lstm.default_initial_state(batch_dims=[batch]),
            context=rf.zeros([batch, self.ctx_dim], feature_dim=self.ctx_dim),
        )

    # -- the same in raw torch ---------------------------------------------------------------------------------------------

    def raw_keys(self, encoder):
        return F.linear(encoder, self.key.weight.raw_tensor.t(), self.key.bias.raw_tensor)

    def raw_steps(self, labels, keys, encoder, bias):
        """The logits of all steps."""
        lstm, query, readout, out = self.lstm, self.query, self.readout, self.logits
        h = c = encoder.new_zeros(encoder.shape[0], lstm.out_dim.size)
        context = encoder.new_zeros(encoder.shape[0], encoder.shape[2])
        no_bias, scale = lstm.bias.raw_tensor.new_zeros(lstm.bias.raw_tensor.shape), query.out_dim.size**-0.5
        logits = []
        for label in labels.unbind(1):
            x = torch.cat([F.embedding(label, self.embedding.weight.raw_tensor), context], -1)
            h, c = torch.lstm_cell(
                x, (h, c), lstm.ff_weight.raw_tensor, lstm.rec_weight.raw_tensor, lstm.bias.raw_tensor, no_bias
            )
            asked = F.linear(h, query.weight.raw_tensor.t(), query.bias.raw_tensor) * scale
            energy = torch.bmm(keys, asked.unsqueeze(-1)).squeeze(-1) + bias
            context = torch.bmm(energy.softmax(-1).unsqueeze(1), encoder).squeeze(1)
            inner = F.linear(torch.cat([h, context], -1), readout.weight.raw_tensor.t(), readout.bias.raw_tensor).tanh()
            logits.append(F.linear(inner, out.weight.raw_tensor.t(), out.bias.raw_tensor))
        return torch.stack(logits)


def in_loop(decoder, face, labels, time, batch, encoder, source):
    """Logits {time, batch, labels} of all steps, in one of the ways to write them."""
    keys = decoder.key(encoder)
    if face == "by hand":
        state, logits = decoder.start(batch), []
        for frame in labels.raw_tensor.unbind(1):
            label = rf.convert_to_tensor(frame, dims=[batch], sparse_dim=decoder.labels)
            out, state = decoder.step(label, state, keys, encoder, source)
            logits.append(out)
        return rf.stack(logits, out_dim=time)[0]
    if face == "scan":

        def body(label, state):
            return decoder.step(label, state, keys, encoder, source)

        return rf.scan(spatial_dim=time, xs=labels, initial=decoder.start(batch), body=body)[0]
    loop = rf.Loop(axis=time)
    loop.state.decoder = decoder.start(batch)
    if face in ("with", "compiled"):
        with rf.compile_loops("inductor" if face == "compiled" else None), loop:
            out, loop.state.decoder = decoder.step(loop.unstack(labels), loop.state.decoder, keys, encoder, source)
            logits = loop.stack(out)
    else:
        for _ in loop:
            out, loop.state.decoder = decoder.step(loop.unstack(labels), loop.state.decoder, keys, encoder, source)
            logits = loop.stack(out)
    return logits


def ragged(batch, longest, seed, name):
    """A dim of its own, of sequences from half of the frames to all of them."""
    lengths = np.random.default_rng(seed).integers(longest // 2, longest + 1, batch.size)
    lengths[0] = longest
    return rf.ragged_dim(lengths.tolist(), over=batch, name=name)


class Decoding:
    """The decoder over an encoder output, in inference."""

    def __init__(self):
        rf.set_random_seed(3)
        units, self.ctx_dim, self.vocab = Dim(128, name="units"), Dim(128, name="ctx"), Dim(50, name="labels")
        self.decoder = Decoder(self.vocab, units, self.ctx_dim)
        self.encoder = torch.randn(BATCH, SOURCE, 128)
        self.labels = torch.randint(0, 50, (BATCH, STEPS))
        self.turns = itertools.count()

    def ours(self, face, *, ragged_steps=False):
        def run():
            batch, turn = Dim(BATCH, name="batch"), next(self.turns)
            source = ragged(batch, SOURCE, turn, "source")
            time = ragged(batch, STEPS, turn, "time") if ragged_steps else Dim(STEPS, name="time")
            encoder = rf.convert_to_tensor(self.encoder, dims=[batch, source, self.ctx_dim])
            labels = rf.convert_to_tensor(self.labels, dims=[batch, time], sparse_dim=self.vocab)
            with torch.no_grad():
                in_loop(self.decoder, face, labels, time, batch, encoder, source)
            return torch.zeros(())  # the sources of two batches are not the same; see test_values

        return run

    def raw(self):
        lengths = np.random.default_rng(next(self.turns)).integers(SOURCE // 2, SOURCE + 1, BATCH)
        mask = torch.arange(SOURCE) < torch.from_numpy(lengths)[:, None]
        bias = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
        with torch.no_grad():
            self.decoder.raw_steps(self.labels, self.decoder.raw_keys(self.encoder), self.encoder, bias)
        return torch.zeros(())


FACES = {"by hand": None, "for": 1.25, "scan": 1.25, "with": 1.0, "compiled": None}


@pytest.mark.parametrize("face", FACES)
def test_decoder(face, overhead):
    world = Decoding()
    overhead(f"decoder, {face}", world.ours(face), world.raw, limit=FACES[face], turns=25, warmup=3)


@pytest.mark.parametrize("face", ["for", "scan", "with"])
def test_decoder_over_ragged_steps(face, overhead):
    """Sequences that have ended keep their state; raw torch computes all of them to the end."""
    world = Decoding()
    overhead(f"decoder, ragged, {face}", world.ours(face, ragged_steps=True), world.raw, turns=15, warmup=3)


class Teaching:
    """Encoder LSTM, attention decoder, cross entropy, SGD."""

    batch, source_len, target_len, units = 16, 20, 15, 64

    def __init__(self):
        rf.set_random_seed(3)
        self.vocab, units, ctx = Dim(30, name="labels"), Dim(self.units, name="units"), Dim(self.units, name="ctx")
        self.in_vocab = Dim(25, name="letters")
        self.embedding = rf.Embedding(self.in_vocab, Dim(self.units, name="letter_emb"))
        self.encoder = rf.LSTM(self.embedding.out_dim, ctx)
        self.decoder = Decoder(self.vocab, units, ctx)
        self.raw_lstm = torch.nn.LSTM(self.units, self.units, batch_first=True)
        self.parameters = [p.raw_tensor for m in (self.embedding, self.encoder, self.decoder) for p in m.parameters()]
        self.source = torch.randint(0, 25, (self.batch, self.source_len))
        self.target = torch.randint(0, 30, (self.batch, self.target_len))
        self.turns = itertools.count()

    def ours(self, face):
        optimizer = torch.optim.SGD(self.parameters, lr=1e-3)

        def step():
            optimizer.zero_grad(set_to_none=True)
            batch, turn = Dim(self.batch, name="batch"), next(self.turns)
            source = ragged(batch, self.source_len, turn, "source")
            time = ragged(batch, self.target_len, turn, "time")
            letters = rf.convert_to_tensor(self.source, dims=[batch, source], sparse_dim=self.in_vocab)
            target = rf.convert_to_tensor(self.target, dims=[batch, time], sparse_dim=self.vocab)
            state = self.encoder.default_initial_state(batch_dims=[batch])
            encoder, _ = self.encoder(self.embedding(letters), state=state, spatial_dim=source)
            labels = rf.shift_right(target, axis=time, pad_value=0)
            logits = in_loop(self.decoder, face, labels, time, batch, encoder, source)
            loss = rf.cross_entropy(estimated=logits, target=target, axis=self.vocab, estimated_type="logits")
            rf.reduce_mean(loss, axis=loss.dims).raw_tensor.backward()
            optimizer.step()
            return torch.zeros(())

        return step

    def raw(self):
        decoder = self.decoder
        parameters = [*self.raw_lstm.parameters(), self.embedding.weight.raw_tensor]
        parameters += [p.raw_tensor for p in decoder.parameters()]
        optimizer = torch.optim.SGD(parameters, lr=1e-3)

        def step():
            optimizer.zero_grad(set_to_none=True)
            lengths = np.random.default_rng(next(self.turns)).integers(
                [self.source_len // 2, self.target_len // 2],
                [self.source_len + 1, self.target_len + 1],
                (self.batch, 2),
            )
            lengths[0] = self.source_len, self.target_len
            ins, outs = torch.from_numpy(lengths).unbind(1)
            packed = torch.nn.utils.rnn.pack_padded_sequence(
                F.embedding(self.source, self.embedding.weight.raw_tensor), ins, batch_first=True, enforce_sorted=False
            )
            encoder, _ = torch.nn.utils.rnn.pad_packed_sequence(self.raw_lstm(packed)[0], batch_first=True)
            mask = torch.arange(self.source_len) < ins[:, None]
            bias = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
            labels = F.pad(self.target[:, :-1], (1, 0))
            logits = decoder.raw_steps(labels, decoder.raw_keys(encoder), encoder, bias)
            loss = F.cross_entropy(logits.transpose(0, 1).flatten(0, 1), self.target.flatten(), reduction="none")
            real = (torch.arange(self.target_len) < outs[:, None]).flatten()
            (loss * real).sum().div(real.sum()).backward()
            optimizer.step()
            return torch.zeros(())

        return step


@pytest.mark.parametrize("face", ["for", "scan", "with"])
def test_teaching_model_in_training(face, overhead):
    world = Teaching()
    limit = {"for": None, "scan": None, "with": 1.15}[face]
    overhead(f"teaching, {face}", world.ours(face), world.raw(), limit=limit, turns=25, warmup=3)


@pytest.mark.parametrize("face", FACES)
def test_values(face):
    """All sides compute the same."""
    world = Decoding()
    batch = Dim(BATCH, name="batch")
    source, time = ragged(batch, SOURCE, 0, "source"), Dim(STEPS, name="time")
    encoder = rf.convert_to_tensor(world.encoder, dims=[batch, source, world.ctx_dim])
    labels = rf.convert_to_tensor(world.labels, dims=[batch, time], sparse_dim=world.vocab)
    bias = torch.zeros(BATCH, SOURCE).masked_fill(~source.get_mask([batch, source]).raw_tensor, -torch.inf)
    with torch.no_grad():
        logits = in_loop(world.decoder, face, labels, time, batch, encoder, source)
        expected = world.decoder.raw_steps(world.labels, world.decoder.raw_keys(world.encoder), world.encoder, bias)
    torch.testing.assert_close(logits.copy_transpose([time, batch, world.vocab]).raw_tensor, expected)
