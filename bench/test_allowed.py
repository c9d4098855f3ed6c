"""Cost of a rule about labels, as a ratio: a search with one that allows everything against the same search without it."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf

LABELS, STEPS = 1000, 30


def model(seqs: int, width: int):
    """A step of an LSTM over labels, in plain torch."""
    torch.manual_seed(0)
    cell, embed, out = (
        torch.nn.LSTMCell(width, width),
        torch.nn.Embedding(LABELS, width),
        torch.nn.Linear(width, LABELS),
    )

    def step(labels, state):
        state = cell(embed(labels), state)
        return out(state[0]).log_softmax(-1), state

    return step, (torch.zeros(seqs, width), torch.zeros(seqs, width))


@pytest.mark.parametrize(("seqs", "width"), [(4, 1024)])
def test_a_function_of_the_labels(overhead, seqs, width):
    step, state = model(seqs, width)
    everything = set(range(LABELS))
    options = {"batch": seqs, "state": state, "beam_size": 5, "max_seq_len": STEPS, "early_stopping": False}

    def search(**more):
        with torch.no_grad():
            result = rf.beam_search(step, **options, **more)
        return torch.tensor([result.best(seq).score for seq in range(seqs)])

    overhead(
        f"search with a rule, {seqs} sequences",
        lambda: search(allowed=lambda labels: everything),
        search,
        limit=1.1,
        turns=11,
        warmup=1,
    )
