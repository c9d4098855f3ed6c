"""Solutions of 11_transformer."""

import numpy as np
import torch

import rfnb as rf


def positions(count, size):
    rates = 10000.0 ** (-np.arange(0, size, 2) / size)
    angles = np.arange(count)[:, None] * rates
    encoding = np.zeros((count, size))
    encoding[:, 0::2], encoding[:, 1::2] = np.sin(angles), np.cos(angles)
    return encoding


def self_attention(query, key, value, *, key_dim, time):
    keys, earlier = rf.replace_dim(key, in_dim=time)
    values, _ = rf.replace_dim(value, in_dim=time, out_dim=earlier)
    energy = rf.matmul(query, keys, reduce=key_dim) / key_dim.size**0.5
    seen = rf.compare_bc(rf.range_over_dim(earlier), "<=", rf.range_over_dim(time))
    energy = rf.where(seen, energy, -1e30, allow_broadcast_all_sources=True)
    return rf.matmul(rf.softmax(energy, axis=earlier), values, reduce=earlier)


def cached_step(query, key, value, cache):
    keys, values = (torch.zeros(0, *part.shape) for part in (key, value)) if cache is None else cache
    keys, values = torch.cat([keys, key[None]]), torch.cat([values, value[None]])
    energy = torch.einsum("hd,phd->hp", query, keys) / query.shape[-1] ** 0.5
    return torch.einsum("hp,phd->hd", energy.softmax(-1), values), (keys, values)


def norm(x, weight, bias, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred**2).mean(-1, keepdim=True)
    return centred / (variance + eps) ** 0.5 * weight + bias


def block(x, states, parts):
    x = x + parts.self_attention(parts.norms[0](x))
    if states is not None:
        x = x + parts.cross_attention(parts.norms[1](x), states)
    return x + parts.outer(torch.relu(parts.inner(parts.norms[-1](x))))


def transformer(source, target, encoder, decoder):
    states = source
    for one in encoder.blocks:
        states = one(states, None)
    states = encoder.norm(states)
    for one in decoder.blocks:
        target = one(target, states)
    return decoder.norm(target)


def previous_score(weights):
    return np.diagonal(np.asarray(weights), offset=-1, axis1=1, axis2=2).mean(-1)


def looks_ahead(weights):
    return bool((np.triu(np.asarray(weights), 1) > 0).any())


class PortedAttention(torch.nn.Module):
    def __init__(self, theirs):
        super().__init__()
        self.qkv, self.out = theirs.qkv, theirs.out
        self.heads, self.groups, self.size = theirs.heads, theirs.groups, theirs.size
        self.base = theirs.base

    def turned(self, x):
        rates = self.base ** (-torch.arange(0, self.size, 2) / self.size)
        angles = torch.outer(torch.arange(x.shape[2]), rates)
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos()
        return torch.stack(turned, -1).flatten(-2)

    def forward(self, x):
        sizes = [self.heads * self.size, self.groups * self.size, self.groups * self.size]
        parts = self.qkv(x).split(sizes, -1)
        query, key, value = (part.unflatten(-1, (-1, self.size)).transpose(1, 2) for part in parts)
        query, key = self.turned(query), self.turned(key)
        key, value = (part.repeat_interleave(self.heads // self.groups, 1) for part in (key, value))
        scores = query @ key.mT / self.size**0.5
        ahead = torch.ones(scores.shape[2:], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(ahead, -torch.inf).softmax(-1)
        return self.out((weights @ value).transpose(1, 2).flatten(2))


PREDICTIONS = {
    "draw": np.tril(np.ones((5, 5), int)).tolist(),
    "where": "where this letter was read",
    "shared": "the scores",
    "kind": "cross-attention of layer 1",
    "weakest": "layer 0 head 0",
    "better_loss": "without the mask",
    "better_writing": "with the mask",
    "first": 1,
    "two_layers": "One brings each letter its neighbour, the other finds the letter that was written and takes that.",
    "mask": "The answer is in the input; it has to be seen writing on its own.",
}
