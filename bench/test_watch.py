"""What watching a training costs: a step with it as a ratio to the same step without, in turns."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf

LIMIT = 1.05


class Tagger(torch.nn.Module):
    """A small recurrent model: two layers of 128."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(64, 128)
        self.lstm = torch.nn.LSTM(128, 128, num_layers=2, batch_first=True)
        self.out = torch.nn.Linear(128, 64)

    def forward(self, ids):
        return self.out(self.lstm(self.embedding(ids))[0])


class Encoder(torch.nn.Module):
    """A transformer of four layers of 256."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(64, 256)
        layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.out = torch.nn.Linear(256, 64)

    def forward(self, ids):
        return self.out(self.layers(self.embedding(ids)))


def step_of(make):
    """A training step of a model that is made anew, and its optimizer."""
    torch.manual_seed(1)
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    ids = torch.randint(0, 64, (32, 64))

    def step():
        optimizer.zero_grad()
        logits = model(ids)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return model, optimizer, step


@pytest.mark.parametrize("make, turns", [(Tagger, 41), (Encoder, 15)])
def test_watching_costs_at_most_a_twentieth_of_a_step(overhead, make, turns):
    _, _, plain = step_of(make)
    model, optimizer, step = step_of(make)

    def of_both(watch):
        def watched():
            loss = step()
            watch.log(loss=loss)
            return loss

        return watched

    with rf.watch(model, optimizer) as watch:
        # The two models are dropped out differently: only what both cost is compared.
        zero = torch.zeros(())
        overhead(
            f"watched step, {make.__name__}",
            lambda: (of_both(watch)(), zero)[1],
            lambda: (plain(), zero)[1],
            limit=LIMIT,
            turns=turns,
            warmup=3,
        )
    assert watch.counts["updates"] > turns
