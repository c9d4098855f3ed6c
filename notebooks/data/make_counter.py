"""Trains the model that counts and writes counter.json: an LSTM with four units that reads "#aaabbb#", and says which letter comes next.

python notebooks/data/make_counter.py      # a few seconds
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import nn

LETTERS = "#ab"
UNITS = 4
GATES = ("input", "forget", "new", "output")  # the order in which torch has the rows of a weight


class Counter(nn.Module):
    """{batch, time} of letters -> {batch, time, letter}: logits of the next one."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(len(LETTERS), UNITS, batch_first=True)
        self.out = nn.Linear(UNITS, len(LETTERS))

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(nn.functional.one_hot(letters, len(LETTERS)).float())[0])


def batch_of(counts: list[int]) -> torch.Tensor:
    """#aaabbb# for each number, filled up with -1."""
    words = [[0, *[1] * count, *[2] * count, 0] for count in counts]
    return torch.tensor([word + [-1] * (2 * max(counts) + 2 - len(word)) for word in words])


def knows(model: Counter, count: int) -> bool:
    """Whether every letter after the first b is predicted, the end among them."""
    word = batch_of([count])
    with torch.no_grad():
        said = model(word[:, :-1]).argmax(-1)
    return bool((said[0, count + 1 :] == word[0, count + 2 :]).all())


def trained(seed: int = 3, most: int = 12) -> Counter:
    """A model that counts up to `most`, three times in a row; with another seed several units may share the count."""
    torch.manual_seed(seed)
    model, right = Counter(), 0
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for update in range(1, 2001):
        word = batch_of(torch.randint(1, most + 1, (32,)).tolist())
        logits = model(word[:, :-1].clamp(min=0))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), word[:, 1:].flatten(), ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 50 == 0 and all(knows(model, count) for count in range(1, most + 1)):
            right += 1
            if right == 3:
                return model
    raise RuntimeError(f"seed {seed}: not learned in {update} updates")


def weights(model: Counter) -> dict[str, object]:
    """Rows and columns as lists: of each gate what the letter, the state and nothing (the bias) adds; and of the read-out."""
    found: dict[str, object] = {}
    lstm, order = model.lstm, [2, 3, 0, 1]  # that the unit which counts is not the first one
    for place, gate in enumerate(GATES):
        rows = slice(place * UNITS, (place + 1) * UNITS)
        found[gate] = {
            "letter": lstm.weight_ih_l0[rows][order].tolist(),
            "state": lstm.weight_hh_l0[rows][order][:, order].tolist(),
            "bias": (lstm.bias_ih_l0 + lstm.bias_hh_l0)[rows][order].tolist(),
        }
    found["out"] = {"state": model.out.weight[:, order].tolist(), "bias": model.out.bias.tolist()}
    return found


if __name__ == "__main__":
    Path(__file__).with_name("counter.json").write_text(json.dumps(weights(trained()), indent=1) + "\n", "utf-8")
