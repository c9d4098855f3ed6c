"""The answers to 01_dims.ipynb."""

import torch

import rfnb as rf

PREDICTIONS = {
    "ends": "letters",
    "puzzle_1": "{batch, feature}",
    "puzzle_2": "{batch, feature, letters}",
    "puzzle_3": "{feature}",
    "puzzle_4": "{batch, feature, letters}",
    "puzzle_5": "an error",
    "puzzle_6": "an error",
    "puzzle_7": "{batch, letters, model}",
    "puzzle_8": "{batch, letters, sounds}",
    "puzzle_9": "{batch, letters}",
    "puzzle_10": "{batch, letters, model}",
    "puzzle_11": "{batch, letters, vocab}",
    "puzzle_12": "{batch, letters}",
    "puzzle_13": "{batch, heads, letters, per_head}",
    "puzzle_14": "{batch, feature, letters+sounds}",
    "puzzle_15": "an error",
    "notices": "only if there are more or fewer targets than sources",
    "twins": "an error",
    "order": "no",
    "explain": (
        "torch knows sizes only, and a transposed square has the same size. "
        "If all sizes differ, an axis in the wrong place does not fit anywhere."
    ),
}


def add_readings(ahead, back, letters, frames):
    back, _ = rf.replace_dim(back, in_dim=frames, out_dim=letters)
    return ahead + back


def project(x, weight, feature, model_dim):
    return rf.matmul(x, weight, reduce=feature)


def tensor_of(array, batch, letters, feature):
    return rf.convert_to_tensor(array, dims=[letters, batch, feature])


def sum_by_hand(x, batch, letters, feature):
    loop = rf.Loop(axis=letters, name="sum")
    loop.state.total = rf.zeros([batch, feature])
    for _ in loop:
        loop.state.total = loop.state.total + loop.unstack(x)
    return loop.state.total


def mean_of_letters(x, letters):
    return rf.reduce_mean(x, axis=letters)


def outer(a, b):
    return rf.combine_bc(a, "mul", b)


def matmul_by_hand(a, b, reduce):
    return rf.reduce_sum(rf.combine_bc(a, "mul", b), axis=reduce)


def softmax_by_hand(x, axis):
    powers = rf.exp(x - rf.reduce_max(x, axis=axis))
    return powers / rf.reduce_sum(powers, axis=axis)


def energies(query, keys, key_dim):
    return rf.matmul(query, keys, reduce=key_dim) / key_dim.size**0.5


telling_sizes = (2, 3, 5, 7)


def mended_attention(query, keys, values):
    energies = query @ keys.T / query.shape[-1] ** 0.5
    return torch.softmax(energies, -1) @ values
