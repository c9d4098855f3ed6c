"""Shared by tests of traces: a search of two sequences that can be followed by hand, and loops that send probes."""

from types import SimpleNamespace

import numpy as np
import pytest
from asserting import tensor

from rfnb import Dim
from rfnb.trace.probe import probe, trace_context

LABELS = ["a", "b", "c", "end"]

# Sequence 0: step 0 keeps a, b. Step 1 continues b twice. Step 2 swaps: slot 0 ends what was in slot 1.
# Sequence 1: "end" at once in slot 0; it stays in the beam, repeating token 0.
TOKENS = [[[0, 1], [3, 2]], [[2, 0], [0, 1]], [[3, 1], [0, 3]]]
PARENTS = [[[0, 0], [0, 0]], [[1, 1], [0, 1]], [[1, 0], [0, 1]]]
SCORES = [[[-1.0, -2.0], [-0.5, -1.5]], [[-2.5, -3.0], [-0.5, -2.0]], [[-3.5, -4.0], [-0.5, -2.5]]]
ENDED = [[[0, 0], [1, 0]], [[0, 0], [1, 0]], [[1, 0], [1, 1]]]


@pytest.fixture
def probe_steps():
    """A function: one event per step, as a Loop makes them; `values` is one dict per step."""

    def offer(kind, values, axis=None, name="loop"):
        for step, fields in enumerate(values):
            with trace_context.loop(name, step, axis):
                probe(kind, **fields)

    return offer


@pytest.fixture
def search():
    """The dims of that search, and `values`, one dict of a `beams` event per step."""
    batch, beam = Dim(2, name="batch"), Dim(2, name="beam", kind="beam")
    vocab = Dim(4, name="vocab", vocab=LABELS)
    values = [
        {
            "tokens": tensor(np.array(tokens), batch, beam, sparse_dim=vocab),
            "parents": tensor(np.array(parents), batch, beam, sparse_dim=beam),
            "scores": tensor(np.array(scores, np.float32), batch, beam),
            "ended": tensor(np.array(ended, bool), batch, beam),
        }
        for tokens, parents, scores, ended in zip(TOKENS, PARENTS, SCORES, ENDED)
    ]
    return SimpleNamespace(batch=batch, beam=beam, vocab=vocab, values=values)
