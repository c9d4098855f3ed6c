"""The answers to 02_ragged.ipynb."""

import random

import torch

PREDICTIONS = {
    "waste": 40,
    "random_waste": 43,
    "trap": "yes: the convolution reads padding",
    "forward": "none",
    "backward": "all",
    "final": "wrong",
    "explain": (
        "What mixes positions (convolutions, attention, recurrence from the right, means, norms over time) carries padding "
        "into real positions before the end. A mask at the end takes away what stands at padding, not what has come from there."
    ),
}


def mask_of(lengths, longest):
    return torch.arange(longest) < lengths[:, None]


def mean_of(x, lengths):
    real = torch.arange(x.shape[1]) < lengths[:, None]
    return x.masked_fill(~real[..., None], 0.0).sum(1) / lengths[:, None]


def masked_softmax(energies, mask):
    energies = energies.masked_fill(~mask, float("-inf"))
    largest = energies.max(-1, keepdim=True).values
    powers = torch.exp(energies - largest.masked_fill(largest == float("-inf"), 0.0))
    total = powers.sum(-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)


def last_frame(x, lengths):
    return x[torch.arange(len(x)), lengths - 1]


def waste(batches, lengths):
    letters = sum(lengths[number] for batch in batches for number in batch)
    cells = sum(len(batch) * max(lengths[number] for number in batch) for batch in batches)
    return 1 - letters / cells


def make_batches(lengths, size, seed):
    # Words at random fall into windows of 16 batches, are sorted there, and the batches are shuffled.
    generator = random.Random(seed)
    order = list(range(len(lengths)))
    generator.shuffle(order)
    batches = []
    for start in range(0, len(order), 16 * size):
        window = sorted(order[start : start + 16 * size], key=lambda number: lengths[number])
        batches += [window[at : at + size] for at in range(0, len(window), size)]
    generator.shuffle(batches)
    return batches


culprit = "reduce_max"


def rate_mended(model, ids, lengths):
    real = torch.arange(ids.shape[1]) < lengths[:, None]
    x = model.embedding(ids) * real[..., None]
    x = torch.tanh(model.conv(x.mT).mT)
    h, _ = model.gru(x)
    h = model.norm(h) * real[..., None]
    return model.output(h.sum(1) / lengths[:, None])[:, 0]
