"""Beam search against a well-written one in raw torch with the same model: G2P of one word, and an attention LSTM over a batch.

The breakdown at the end says where the time of rfnb goes: step of the model, choice, bookkeeping of the loop.
"""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch
from asserting import ragged
from device import clock, device, quick
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim
from rfnb.models import g2p_search
from rfnb.models.g2p import G2P, label_dim

SOURCE, UNITS, LABELS = (9, 8, 31) if quick() else (40, 256, 8000)


def raw_beam(step, state, batch, beam, labels, *, steps, start, end=0):
    """Log probabilities {batch, beam} and labels [batch, beam, steps] of a search as it is written by hand.

    step(label [n], state) -> (log_prob [n, labels], state); state is a tuple of tensors [n, ...].
    """
    label = torch.full((batch,), start, device=device())
    scores, ended = torch.zeros(batch, 1, device=device()), None
    rows = torch.zeros(batch, beam, steps, dtype=torch.long, device=device())
    stay = torch.full((labels,), float("-inf"), device=device())
    stay[0] = 0
    offsets = (torch.arange(batch, device=device()) * beam)[:, None]
    for index in range(steps):
        log_prob, state = step(label, state)
        width = scores.shape[1]
        log_prob = log_prob.view(batch, width, labels)
        if ended is not None:
            log_prob = torch.where(ended[..., None], stay, log_prob)
        total = (log_prob + scores[..., None]).view(batch, -1)
        scores, flat = total.topk(beam)
        parents, label = flat // labels, flat % labels
        if width == 1:
            rows_before = (offsets // beam + parents).view(-1)
        else:
            rows_before = (offsets + parents).view(-1)
            rows = rows.view(batch * beam, steps).index_select(0, rows_before).view(batch, beam, steps)
        state = tuple(part.index_select(0, rows_before) for part in state)
        rows[:, :, index] = label
        now = label == end
        ended = now if ended is None else ended.view(-1)[rows_before].view(batch, beam) | now
        label = label.view(-1)
        if bool(ended.all()):
            rows = rows[:, :, : index + 1]
            break
    return scores, rows


class Decoder(rf.Module):
    """Luong-style: attention after the LSTM, its context fed back."""

    def __init__(self):
        self.labels, self.units, self.ctx_dim = (
            Dim(LABELS, name="labels"),
            Dim(UNITS, name="units"),
            Dim(UNITS, name="ctx"),
        )
        self.emb_dim = Dim(UNITS, name="emb")
        self.embedding = rf.Embedding(self.labels, self.emb_dim)
        self.lstm = rf.LSTM(self.emb_dim + self.ctx_dim, self.units)
        self.query = rf.Linear(self.units, self.ctx_dim)
        self.readout = rf.Linear(self.units + self.ctx_dim, Dim(UNITS, name="readout"))
        self.logits = rf.Linear(self.readout.out_dim, self.labels)

    def step(self, label, state, encoder, source):
        x = rf.concat_features(self.embedding(label), state.context)
        h, lstm = self.lstm(x, state=state.lstm, spatial_dim=rf.single_step_dim)
        context = rf.dot_attention(self.query(h), encoder, encoder, key_dim=self.ctx_dim, axis=source)
        context.feature_dim = self.ctx_dim
        logits = self.logits(rf.tanh(self.readout(rf.concat_features(h, context))))
        return rf.log_softmax(logits, axis=self.labels), rf.State(lstm=lstm, context=context)


class World:
    """The decoder and a batch."""

    def __init__(self, batch, steps=25):
        rf.set_random_seed(3)
        self.steps, self.model, self.batch = steps, Decoder(), Dim(batch, name="batch", kind="batch")
        for weight in (self.model.logits.weight, self.model.embedding.weight):
            weight.initial = rf.Normal(0.3, truncated=False)
        self.source = ragged([SOURCE - index % 7 for index in range(batch)], self.batch, "source")
        self.encoder = rf.random_normal([self.batch, self.source, self.model.ctx_dim])
        self.encoder.feature_dim = self.model.ctx_dim

    def rfnb(self, beam):
        model, batch = self.model, self.batch
        with torch.inference_mode():
            loop = rf.Loop(max_seq_len=self.steps, name="search")
            loop.state.label = rf.zeros([batch], dtype="int64", sparse_dim=model.labels)
            loop.state.decoder = rf.State(
                lstm=model.lstm.default_initial_state(batch_dims=[batch]),
                context=rf.zeros([batch, model.ctx_dim], feature_dim=model.ctx_dim),
            )
            for _ in loop:
                log_prob, loop.state.decoder = model.step(
                    loop.state.label, loop.state.decoder, self.encoder, self.source
                )
                label = rf.choice(log_prob, axis=model.labels, beam_size=beam)
                loop.state.label = label
                loop.end(label == 0, include_eos=True)
                labels = loop.stack(label)
            dims = [batch, next(dim for dim in labels.dims if dim.kind == "beam"), loop.axis]
            return rf.get_beam_scores(labels).copy_transpose(dims[:2]), labels.copy_transpose(dims)

    def raw(self, beam):
        model = self.model
        get = lambda parameter: parameter.raw_tensor  # noqa: E731
        zeros = torch.zeros(4 * UNITS, device=device())
        weights = (get(model.lstm.ff_weight), get(model.lstm.rec_weight), get(model.lstm.bias), zeros)
        mask = self.source.get_mask([self.batch, self.source]).raw_tensor.to(device())
        encoder = self.encoder.copy_transpose([self.batch, self.source, model.ctx_dim]).raw_tensor
        size = self.batch.size
        emb, start = get(model.embedding.weight), torch.zeros(size, UNITS, device=device())
        bias = torch.zeros(mask.shape, device=device()).masked_fill(~mask, float("-inf"))[:, None]

        def step(label, state):
            h, c, context = state
            x = torch.cat([emb[label], context], -1)
            h, c = torch.lstm_cell(x, (h, c), *weights)
            query = (h @ get(model.query.weight) + get(model.query.bias)).view(size, -1, UNITS)
            energy = torch.baddbmm(bias, query, encoder.transpose(1, 2), alpha=UNITS**-0.5)
            context = torch.bmm(torch.softmax(energy, -1), encoder).view(-1, UNITS)
            readout = torch.tanh(torch.cat([h, context], -1) @ get(model.readout.weight) + get(model.readout.bias))
            logits = torch.addmm(get(model.logits.bias), readout, get(model.logits.weight))
            return torch.log_softmax(logits, -1), (h, c, context)

        with torch.inference_mode():
            return raw_beam(step, (start, start, start), size, beam, LABELS, steps=self.steps, start=0)


class Word:
    """One word and the G2P model, encoded."""

    steps = 30

    def __init__(self, word="PHONETICIANS"):
        rf.set_random_seed(1)
        self.model = G2P()
        self.model.decoder.output.weight.initial = rf.Normal(0.3, truncated=False)
        with torch.inference_mode():
            self.batch, self.encoded = g2p_search.encode_batch(self.model, [word])

    def with_new_dims(self):
        """The encoded word as another batch has it: over dims of its own."""
        old, letters = self.encoded, self.encoded.letters_dim
        batch = Dim(1, name="batch", kind="batch")
        new = {self.batch: batch, letters: rf.ragged_dim(letters.lengths, over=batch, name="letters")}

        def over(x):
            dims = [new.get(dim, dim) for dim in x.dims]
            return rf.convert_to_tensor(x.raw_tensor, dims=dims, feature_dim=x.feature_dim)

        start = type(old.start)(h=over(old.start.h), c=over(old.start.c))
        return batch, type(old)(
            letters_dim=new[letters], states=over(old.states), att_keys=over(old.att_keys), start=start
        )

    def rfnb(self, beam, face="for"):
        model = self.model
        with torch.inference_mode():
            batch, encoded = self.with_new_dims()
            loop = rf.Loop(max_seq_len=self.steps, name="search")
            loop.state.label = rf.zeros([batch], dtype="int64", sparse_dim=label_dim)
            loop.state.decoder = encoded.start

            def body():
                state = loop.state.decoder
                logits, loop.state.decoder = model.decoder(
                    loop.state.label, encoded, state=state, spatial_dim=rf.single_step_dim
                )
                label = rf.choice(rf.log_softmax(logits, axis=label_dim), axis=label_dim, beam_size=beam)
                loop.state.label = label
                loop.end(label == 0, include_eos=True)
                return loop.stack(label)

            labels = run_steps(loop, face, body)
            dims = [batch, next(dim for dim in labels.dims if dim.kind == "beam"), loop.axis]
            return rf.get_beam_scores(labels).copy_transpose(dims[:2]), labels.copy_transpose(dims)

    def raw(self, beam):
        decoder, encoded = self.model.decoder, self.encoded
        get = lambda parameter: parameter.raw_tensor  # noqa: E731
        lstm, size = decoder.lstm, encoded.start.h.dims[-1].size
        weights = (get(lstm.ff_weight), get(lstm.rec_weight), get(lstm.bias), torch.zeros(4 * size, device=device()))
        letters = encoded.letters_dim
        keys = encoded.att_keys.copy_transpose([self.batch, letters, decoder.att.query_dim]).raw_tensor[0].T
        values = encoded.states.copy_transpose([self.batch, letters, encoded.states.feature_dim]).raw_tensor[0]
        emb = get(decoder.embedding.weight)
        readout, output = decoder.readout, decoder.output

        def step(label, state):
            h, c = torch.lstm_cell(emb[label], state, *weights)
            context = torch.softmax((h @ keys) * size**-0.5, -1) @ values
            both = torch.tanh(torch.addmm(get(readout.bias), torch.cat([h, context], -1), get(readout.weight)))
            return torch.log_softmax(torch.addmm(get(output.bias), both, get(output.weight)), -1), (h, c)

        with torch.inference_mode():
            start = (encoded.start.h.raw_tensor.view(1, -1), encoded.start.c.raw_tensor.view(1, -1))
            return raw_beam(step, start, 1, beam, label_dim.size, steps=self.steps, start=0)


def breakdown(name, search, world, beam):
    """Where the time goes: the raw model alone, and what choice and loop add, in percent."""
    import cProfile
    import pstats

    profile = cProfile.Profile()
    profile.enable()
    search(beam)
    profile.disable()
    stats = pstats.Stats(profile).stats
    named = lambda part, fn: sum(v[3] for k, v in stats.items() if k[0].endswith(part) and k[2] == fn)  # noqa: E731
    total = max(v[3] for v in stats.values())
    chosen = named("search/choice.py", "choice") or named("", "choice")
    books = sum(named("rec/loop.py", fn) for fn in ("_commit", "_begin_step", "_finish", "end", "stack"))
    print(
        f"\n{name}: choice {100 * chosen / total:.0f} %, bookkeeping {100 * books / total:.0f} %, step of the model"
        f" {100 * (total - chosen - books) / total:.0f} %"
    )


@pytest.mark.parametrize(("face", "limit"), [("for", 2.3), ("with", 2.5)])  # the goals are 1.5 and 1.3
def test_g2p_one_word(overhead, capsys, face, limit):
    # New dims for each word, so that the plans of its ops are looked up as those of another batch.
    # What is over the goals, in parts of the raw search. For: Python around the kernels of the model 0.3, choice and what follows it
    # over their raw counterparts 0.15, the first two steps, which find plans for the dims of the word and of its beam, 0.1, dims and
    # first states 0.05, what is stacked and its way back 0.05. With: the steps from the third one on are as quick as the raw ones;
    # the recorded step and its plan 0.35, the second step, which is watched, 0.25, and the rest as with for.
    word, name = Word(), f"G2P, one word, beam 4, {face}"
    with capsys.disabled():
        breakdown(name, lambda beam: word.rfnb(beam, face), word, 4)
    overhead(name, lambda: word.rfnb(4, face), lambda: word.raw(4), limit=limit)


def test_g2p_one_word_by_beam_search(overhead):
    # With the history of the search, that every step is told to and that no raw search has: the same again as the loop.
    word = Word()

    def found():
        batch, encoded = word.with_new_dims()

        def step(label, state):
            logits, state = word.model.decoder(label, encoded, state=state, spatial_dim=rf.single_step_dim)
            return rf.log_softmax(logits, axis=label_dim), state

        with torch.inference_mode():
            result = rf.beam_search(
                step, batch=batch, max_seq_len=word.steps, state=encoded.start, beam_size=4, axis=label_dim
            )
        steps = result.history.steps
        return tuple(torch.from_numpy(steps[-1][name]).to(device()) for name in ("scores", "tokens"))

    def raw():
        scores, labels = word.raw(4)
        return scores, labels[:, :, -1]

    overhead("G2P, one word, beam 4, rf.beam_search", found, raw, limit=4.5)


@pytest.mark.parametrize(("batch", "steps"), [(16, 25), (64, 8)])
@pytest.mark.parametrize("beam", [4, 12])
def test_attention_lstm(overhead, batch, steps, beam, capsys):
    world, name = World(batch, steps), f"attention LSTM, batch {batch}, beam {beam}"
    with capsys.disabled():
        breakdown(name, world.rfnb, world, beam)
    overhead(name, lambda: world.rfnb(beam), lambda: world.raw(beam), limit=1.2, warmup=1, turns=7)


def cost_of_history(name, search, beam, turns, capsys):
    """Median over turns of time with a recording / time without; of the beams alone, and with attention and states."""
    ratios = []
    for turn in range(turns + 1):
        times = []
        for kinds in ([], ["beams"], ["beams", "attention", "states"]):
            start = clock()
            with rf.record(kinds=kinds) if kinds else contextlib.nullcontext():
                search(beam)
            times.append(clock() - start)
        if turn:
            ratios.append([one / times[0] for one in times[1:]])
    beams, everything = np.median(ratios, 0)
    with capsys.disabled():
        print(
            f"\nhistory, {name}: beams {100 * (beams - 1):+.0f} %, with attention and states {100 * (everything - 1):+.0f} %"
        )
    return beams, everything


def test_history_of_a_small_search(capsys):
    beams, everything = cost_of_history("G2P, one word", Word().rfnb, 4, 41, capsys)
    assert beams < 1.5
    assert everything < 1.8  # the goal is 1.25: each recorded value costs as much as an op of the step


def test_history_of_a_large_search(capsys):
    _, everything = cost_of_history("attention LSTM, batch 16", World(16, steps=10).rfnb, 4, 7, capsys)
    assert everything < 1.1
