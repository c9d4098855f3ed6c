"""What an n-gram model of order 4 adds to a step of a beam search, as a share of what the step of the model itself costs.

Once with the G2P model and an n-gram model that is one table on the device, and once with 8000 labels and a model whose rows are made on
the host. The cost is the difference of searches with and without it, so whatever the choice and the loop do more for it is in it.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import pytest
import torch
from ngram_models import random_arpa, write_arpa
from test_search import Word, World

import rfnb as rf
from rfnb import Dim
from rfnb.models.g2p import label_dim


class SearchedWord(Word):
    """The G2P model on one word, with scores added to its own."""

    def __init__(self):
        super().__init__()
        self.labels = label_dim

    def start(self, dims):
        state = self.encoded.start
        return rf.State(
            {key: rf.expand_dims(value, [dim for dim in dims if dim not in value.dims]) for key, value in state.items()}
        )

    def model_step(self, label, state):
        logits, state = self.model.decoder(label, self.encoded, state=state, spatial_dim=rf.single_step_dim)
        return rf.log_softmax(logits, axis=label_dim), state


class SearchedBatch(World):
    """The attention LSTM with 8000 labels, batch 16."""

    def __init__(self):
        super().__init__(16, steps=15)
        self.labels = self.model.labels

    def start(self, dims):
        return rf.State(
            lstm=self.model.lstm.default_initial_state(batch_dims=dims),
            context=rf.zeros([*dims, self.model.ctx_dim], feature_dim=self.model.ctx_dim),
        )

    def model_step(self, label, state):
        return self.model.step(label, state, self.encoder, self.source)


def search(world, beam, lm=None):
    with torch.inference_mode():
        loop = rf.Loop(axis=Dim(world.steps, name="steps"), name="search")
        loop.state.label = rf.zeros([world.batch], dtype="int64", sparse_dim=world.labels)
        loop.state.decoder = world.start([world.batch])
        if lm is not None:
            loop.state.lm = lm.default_initial_state(batch_dims=[world.batch])
        for _ in loop:
            scores, loop.state.decoder = world.model_step(loop.state.label, loop.state.decoder)
            if lm is not None:
                scores = scores + 0.3 * lm.next_scores(loop.state.lm)
            label = rf.choice(scores, axis=world.labels, beam_size=beam)
            if lm is not None:
                _, loop.state.lm = lm(label, state=loop.state.lm)
            loop.state.label = label
            labels = loop.stack(label)
        return labels


def steps_alone(world, beam):
    with torch.inference_mode():
        dims = [world.batch, Dim(beam, name="beam")]
        label, state = rf.zeros(dims, dtype="int64", sparse_dim=world.labels), world.start(dims)
        for _ in range(world.steps):
            _, state = world.model_step(label, state)


def share(world, beam, lm, turns):
    """Median of (search with lm - search without) / steps of the model, measured in turns."""
    found = []
    for _ in range(turns + 2):
        times = []
        for fn in (lambda: search(world, beam, lm), lambda: search(world, beam), lambda: steps_alone(world, beam)):
            start = time.process_time()
            fn()
            times.append(time.process_time() - start)
        found.append((times[0] - times[1]) / times[2])
    return statistics.median(found[2:])


@pytest.mark.parametrize("beam", [4, 12])
def test_a_small_model_in_a_search_of_one_word(tmp_path, beam, record_property):
    texts = [str(text) for text in label_dim.vocab]
    random_arpa(tmp_path / "x.arpa", ["<unk>", "<s>", "</s>", *texts[1:]], order=4, per_context=10)
    lm = rf.NGramLM(tmp_path / "x.arpa", label_dim, end=texts[0])
    assert lm.order == 4
    found = share(SearchedWord(), beam, lm, 31)
    record_property("ratio", found)
    print(f"\nn-gram model of order 4 / step of the G2P model, beam {beam}: {found:.2f}")
    assert found < 1


def large_arpa(path, words, count):
    """`count` n-grams of each order from 2 to 4, most of whose contexts a search meets by back-off only."""
    rng = np.random.default_rng(0)
    listed = {(word,): (-float(rng.uniform(1, 5)), -float(rng.uniform(0, 1))) for word in words}
    last = [gram for gram in listed if gram != ("</s>",)]
    for order in (2, 3, 4):
        made = {
            (*last[a], words[b]) for a, b in zip(rng.integers(0, len(last), count), rng.integers(2, len(words), count))
        }
        listed.update({gram: (-float(rng.uniform(0.1, 3)), -float(rng.uniform(0, 1)) * (order < 4)) for gram in made})
        last = [gram for gram in made if gram[-1] != "</s>"]
    write_arpa(path, listed, 4)


@pytest.mark.parametrize("beam", [4, 12])
def test_a_large_model_in_a_search_of_a_batch(tmp_path, beam, record_property):
    world = SearchedBatch()
    words = [f"w{index}" for index in range(world.labels.size)]
    large_arpa(tmp_path / "x.arpa", ["<unk>", "<s>", "</s>", *words], 50_000)
    world.labels.vocab = words
    lm = rf.NGramLM(tmp_path / "x.arpa", world.labels)
    found = share(world, beam, lm, 5)
    record_property("ratio", found)
    print(f"\nn-gram model of order 4 / step of the attention LSTM, 8000 labels, batch 16, beam {beam}: {found:.2f}")
    assert found < 1
