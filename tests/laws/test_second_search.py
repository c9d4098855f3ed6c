"""The law of the second batch for searches: with new dims they make no plan anew, and find what they find without any plan."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

import numpy as np
import pytest
import torch
from asserting import ragged
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim
from rfnb.core.layout import PlanCache, clear_plans

STEPS = 6
WORDS = {1: [[5], [3], [4]], 4: [[5, 3, 4, 1], [2, 6, 1, 3], [4, 4, 2, 3]]}  # lengths of the words of three batches


class Searcher(rf.Module):
    """An attention LSTM that may take the attention weights so far into account, or what it has read after the choice."""

    def __init__(self, num_labels: int):
        rf.set_random_seed(5)
        self.labels, self.units, self.emb = Dim(num_labels, name="labels"), Dim(3, name="units"), Dim(2, name="emb")
        self.embedding = rf.Embedding(self.labels, self.emb)
        self.lstm = rf.LSTM(self.emb, self.units)
        self.output = rf.Linear(self.units + self.units, self.labels)
        for parameter in self.parameters():
            parameter.initial = rf.Normal(1.0, truncated=False)

    def new_batch(self, lengths):
        """The words of a batch over dims of their own."""
        rng = np.random.default_rng(lengths)
        batch = Dim(len(lengths), name="batch", kind="batch")
        source = ragged(lengths, batch, "source")
        raw = rng.normal(size=(len(lengths), max(lengths), 3)).astype(np.float32)
        return batch, source, rf.convert_to_tensor(torch.from_numpy(raw), dims=[batch, source, self.units])

    def start(self, batch, source, kind):
        state = rf.State(lstm=self.lstm.default_initial_state(batch_dims=[batch]))
        if kind == "attention":
            state.seen = rf.zeros([batch, source])
        return state

    def step(self, label, state, words, source):
        x, lstm = self.lstm(self.embedding(label), state=state.lstm, spatial_dim=rf.single_step_dim)
        energy = rf.matmul(x, words, reduce=self.units)
        if "seen" in state:
            energy = energy - state.seen
        weights = rf.softmax(energy, axis=source)
        context = rf.matmul(weights, words, reduce=source)
        after = rf.State(lstm=lstm)
        if "seen" in state:
            after.seen = state.seen + weights
        return rf.log_softmax(
            self.output(rf.concat((x, self.units), (context, self.units))[0]), axis=self.labels
        ), after

    def search(self, lengths, *, beam, kind, face):
        """Scores {batch, beam} and labels {batch, beam, step} as host arrays."""
        batch, source, words = self.new_batch(lengths)
        with torch.inference_mode():
            if face == "beam_search":
                found = rf.beam_search(
                    lambda label, state: self.step(label, state, words, source), batch=batch, max_seq_len=STEPS,
                    state=self.start(batch, source, kind), beam_size=beam, axis=self.labels, early_stopping=False,
                )  # fmt: skip
                return [[(round(one.score, 5), *one.tokens) for one in found.nbest(seq)] for seq in range(len(lengths))]
            loop = rf.Loop(max_seq_len=STEPS)
            loop.state.label = rf.zeros([batch], dtype="int64", sparse_dim=self.labels)
            loop.state.decoder = self.start(batch, source, kind)
            if kind == "read":
                loop.state.sum = rf.zeros([batch])

            def body():
                log_prob, loop.state.decoder = self.step(loop.state.label, loop.state.decoder, words, source)
                label = rf.choice(log_prob, axis=self.labels, beam_size=beam)
                if kind == "read":
                    h = loop.state.decoder.lstm.h  # follows the choice
                    loop.state.sum = loop.state.sum + rf.reduce_sum(h, axis=self.units)
                loop.state.label = label
                loop.end(label == 0, include_eos=True)
                return loop.stack(label)

            labels = run_steps(loop, face, body)
            dims = [batch, next(dim for dim in labels.dims if dim.kind == "beam")]
            out = [rf.get_beam_scores(labels).copy_transpose(dims).numpy().round(5)]
            out.append(labels.copy_masked(0).copy_transpose([*dims, loop.axis]).numpy())
            if kind == "read":
                out.append(loop.state.sum.copy_transpose(dims).numpy().round(5))
            return [one.tolist() for one in out]


@contextmanager
def plans_made() -> Iterator[Counter]:
    """The number of plans that are thought out, by the function that does it."""
    made: Counter = Counter()
    make = PlanCache.make

    def counted(self, key, plan, *args):
        made[f"{plan.__module__}.{plan.__qualname__}"] += 1
        return make(self, key, plan, *args)

    PlanCache.make = counted
    try:
        yield made
    finally:
        PlanCache.make = make


@pytest.mark.parametrize(
    ("kind", "face"),
    [*product(("plain", "attention", "read"), ("for", "with")), ("plain", "beam_search"), ("attention", "beam_search")],
)
@pytest.mark.parametrize("beam", [2, 4, 12])
@pytest.mark.parametrize("words", WORDS)
def test_a_second_search_makes_no_plan_and_finds_what_it_finds_without_any(words, beam, kind, face):
    model = Searcher(13 if beam == 12 else 5)
    options = {"beam": beam, "kind": kind, "face": face}
    clear_plans()
    for lengths in WORDS[words]:  # all ways that a search may go: with hypotheses that end, and without
        model.search(lengths, **options)
    with plans_made() as made:
        again = [model.search(lengths, **options) for lengths in WORDS[words]]
    assert not made, made
    for lengths, found in zip(WORDS[words], again):
        clear_plans()
        assert model.search(lengths, **options) == found


def test_plans_of_a_search_with_another_number_of_hypotheses_or_words_do_not_serve_it():
    model = Searcher(13)
    cases = [
        (lengths, beam, kind)
        for beam in (2, 12, 1, 3)
        for kind in ("plain", "attention", "read")
        for lengths in (WORDS[4][0], WORDS[1][1], [4, 4], WORDS[4][1], [1, 1, 1])
    ]
    clear_plans()
    warm = [model.search(lengths, beam=beam, kind=kind, face="for") for lengths, beam, kind in cases]
    for (lengths, beam, kind), found in zip(cases, warm):
        clear_plans()
        assert model.search(lengths, beam=beam, kind=kind, face="for") == found, (lengths, beam, kind)
