"""Solutions of 05_attention."""

import torch


def scaled_scores(query, keys):
    return query @ keys.transpose(1, 2) / keys.shape[-1] ** 0.5


def masked_scores(scores, lengths):
    padding = torch.arange(scores.shape[-1]) >= lengths[:, None, None]  # (batch, 1, source)
    return scores.masked_fill(padding, -torch.inf)


def dot_attention(query, keys, values, lengths):
    weights = masked_scores(scaled_scores(query, keys), lengths).softmax(-1)
    return weights @ values, weights


def additive_attention(query, keys, values, v, lengths):
    pairs = torch.tanh(query[:, :, None] + keys[:, None])  # (batch, target, source, key)
    weights = masked_scores(pairs @ v, lengths).softmax(-1)
    return weights @ values, weights


diagnosis = {"A": "softmax over the target", "B": "no scale", "C": "mask after the softmax"}

PREDICTIONS = {
    "survives": "3",
    "month": "march",
    "year": "less than half",
    "maps": "about the same in both",
    "without": "start from the encoder",
    "largest": "above 0.9",
}
