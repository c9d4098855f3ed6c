"""Checks of 11_transformer: positions, attention with a causal mask, a cache, two stacks of blocks, badges, and a look at the mask."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import rfnb as rf
from rfnb.teaching import (
    call,
    check_gradient,
    check_padding,
    check_same,
    check_without,
    exercise,
    is_same,
    kind_of,
    truth_of,
    wrong,
)
from rfnb.teaching.course import load


def encoded(count, size, *, rate=2, swapped=False, base=10000.0):
    """Sines and cosines, interleaved; the options are mistakes."""
    angles = np.arange(count)[:, None] * base ** (-rate / 2 * np.arange(0, size, 2) / size)
    made = np.zeros((count, size))
    made[:, 0::2], made[:, 1::2] = (np.cos(angles), np.sin(angles)) if swapped else (np.sin(angles), np.cos(angles))
    return made


@exercise(
    "Encodings of positions",
    hints=[
        "One rate for each pair of columns: 10000 ** (-np.arange(0, size, 2) / size).",
        "An angle is a position times a rate: (count, 1) times (size / 2,). Columns [:, 0::2] get the sines, [:, 1::2] the cosines.",
    ],
)
def positions(answer):
    for count, size in ((1, 2), (5, 2), (3, 6), (7, 4)):
        got, wanted = call(answer, count, size), encoded(count, size)
        given = [("count", count), ("size", size)]
        if np.shape(got) != wanted.shape:
            wrong("A row for each position and a column for each feature are wanted.",
                  [*given, ("yours", np.shape(got)), ("wanted", wanted.shape)])  # fmt: skip
        if is_same(got, wanted):
            continue
        if is_same(got, encoded(count, size, swapped=True)):
            wrong("Sines and cosines have changed places.", given, "Columns 0, 2, 4, ... have the sine.")
        angles = np.arange(count)[:, None] * 10000.0 ** (-np.arange(0, size, 2) / size)
        if size > 2 and is_same(got, np.concatenate([np.sin(angles), np.cos(angles)], 1)):
            wrong(
                "All sines come first here.",
                given,
                "They alternate: the sine in column 2i, the cosine of the same angle in 2i + 1.",
            )
        if size > 2 and is_same(got, encoded(count, size, rate=4)):
            wrong(
                "The exponent is twice what it should be.",
                given,
                "With i = 0, 1, 2, ... the exponent is 2i / size; np.arange(0, size, 2) has the 2 already.",
            )
        check_same(got, wanted, what="The encoding", given=given)


def attended(query, key, value, *, key_dim, time, scale=True, mask="<=", axis="earlier"):
    """Causal self-attention; the options are mistakes."""
    keys, earlier = rf.replace_dim(key, in_dim=time)
    values, _ = rf.replace_dim(value, in_dim=time, out_dim=earlier)
    energy = rf.matmul(query, keys, reduce=key_dim) / (key_dim.size**0.5 if scale else 1.0)
    if mask:
        seen = rf.compare_bc(rf.range_over_dim(earlier), mask, rf.range_over_dim(time))
        energy = rf.where(seen, energy, -1e30, allow_broadcast_all_sources=True)
    weights = rf.softmax(energy, axis=earlier if axis == "earlier" else time)
    return rf.matmul(weights, values, reduce=earlier)


MISTAKES = {
    "The energies are not divided by the root of key_dim.size.": {"scale": False},
    "Every position sees the whole sequence: the causal mask is missing.": {"mask": None},
    "A position does not see itself.": {"mask": "<"},
    "The mask is upside down: a position sees what is ahead of it, and nothing before.": {"mask": ">="},
    "The softmax goes over the positions that ask.": {"axis": "time"},
}
RULES = {
    "The energies are not divided by the root of key_dim.size.": "energy / key_dim.size**0.5",
    "Every position sees the whole sequence: the causal mask is missing.": "What is ahead gets -1e30 before the softmax.",
    "A position does not see itself.": 'earlier "<=" time: the first one would see nothing else.',
    "The mask is upside down: a position sees what is ahead of it, and nothing before.": "earlier <= time is what may be seen.",
    "The softmax goes over the positions that ask.": "Weights sum to 1 over the positions that are asked: axis=earlier.",
}


@exercise(
    "Causal self-attention",
    hints=[
        "The values stand at the positions that are asked, as the keys do: rf.replace_dim has out_dim= for a dim that is there.",
        "Which of the two ranges has to be the smaller one: that of those who ask, or of those who are asked?",
        "A position gives away all its weight among the positions that are asked, and sums over them.",
    ],
    points=3,
)
def self_attention(answer):
    batch, heads, key_dim, value_dim = (
        rf.Dim(size, name=name) for size, name in ((2, "batch"), (3, "heads"), (9, "key"), (5, "value"))
    )
    for time in (rf.Dim(1, name="time"), rf.Dim(6, name="time"), rf.ragged_dim([7, 4], over=batch, name="time")):
        rf.set_random_seed(7)
        query, key = (rf.random_normal([batch, time, heads, key_dim]) for _ in range(2))
        value = rf.random_normal([batch, time, heads, value_dim])
        options = {"key_dim": key_dim, "time": time}
        wanted = attended(query, key, value, **options)
        got = call(answer, query, key, value, **options)
        shown = [("query, key", query), ("value", value)]
        if not isinstance(got, rf.Tensor):
            wrong(
                "This is no Tensor with dims.",
                [*shown, ("got", kind_of(got))],
                "rf.convert_to_tensor(array, dims=[...])",
            )
        if is_same(got, wanted):
            continue
        for name, mistake in MISTAKES.items():
            if is_same(got, attended(query, key, value, **options, **mistake)):
                wrong(name, shown, RULES[name])
        check_same(got, wanted, what="The result", given=shown)
    check_padding(lambda q, k, v: answer(q, k, v, **options), query, key, value)
    raw = key.raw_tensor.requires_grad_()
    check_gradient(answer(query, key, value, **options), {"key": raw})


def stepped(parts, *, scale=True, itself=True, over_heads=False):
    """Results (positions, heads, size) of a sequence; the options are mistakes."""
    results = []
    for place in range(len(parts[0])):
        query, keys, values = parts[0][place], *(part[: place + itself] for part in parts[1:])
        energy = torch.einsum("hd,phd->hp", query, keys) / (query.shape[-1] ** 0.5 if scale else 1.0)
        weights = energy.softmax(0 if over_heads else -1)
        results.append(torch.einsum("hp,phd->hd", weights, values))
    return torch.stack(results)


@exercise(
    "A step with a cache",
    hints=[
        "keys = key[None] without a cache, else torch.cat([cache[0], key[None]]); values in the same way.",
        "One energy for each head and position: torch.einsum names the axes (h, p, d). The softmax is over the positions.",
    ],
    points=2,
)
def cached_step(answer):
    for count in (1, 5):
        parts = torch.randn(3, count, 2, 9, generator=torch.Generator().manual_seed(count))
        cache, results, caches = None, [], []
        for place in range(count):
            before = None if cache is None else [part.clone() for part in cache]
            made = call(answer, *parts[:, place], cache)
            if not isinstance(made, (tuple, list)) or len(made) != 2:
                wrong("It returns two things: the result of this position, and the cache.", [("yours", made)])
            if before is not None and not all(
                old.shape == own.shape and torch.equal(old, own) for old, own in zip(cache, before)
            ):
                wrong(
                    "The cache that it gets is changed.",
                    rule="Another hypothesis may go on from it: make a new one with torch.cat.",
                )
            result, cache = made
            if (
                not isinstance(cache, (tuple, list))
                or len(cache) != 2
                or not all(isinstance(part, torch.Tensor) and part.shape[1:] == (2, 9) for part in cache)
            ):
                kinds = cache if isinstance(cache, (tuple, list)) else [cache]
                wrong(
                    "The cache is a pair of tensors, keys and values, each (positions, heads, size).",
                    [
                        (
                            "yours",
                            ", ".join(
                                f"{tuple(getattr(part, 'shape', ()))} {kind_of(part)}"
                                if hasattr(part, "shape")
                                else kind_of(part)
                                for part in kinds
                            ),
                        )
                    ],
                    "keys, values = torch.cat([keys, key[None]]), torch.cat([values, value[None]])",
                )
            sizes = [tuple(part.shape) for part in cache]
            if any(len(part) != place + 1 for part in cache):
                wrong(
                    f"After {place + 1} position{'s' * (place > 0)} the cache is not as long.",
                    [("yours", sizes), ("wanted", [(place + 1, 2, 9)] * 2)],
                    "The new key and value are added at the end; nothing that was there goes away.",
                )
            results.append(torch.as_tensor(result).to(parts.dtype))
            caches.append(cache)
        got, wanted = torch.stack(results), stepped(parts)
        shown = [("positions", count), ("heads, size", (2, 9))]
        if got.shape == wanted.shape and not torch.allclose(got, wanted, atol=1e-5):

            def like(after=0, **mistake):
                return torch.allclose(got[after:], stepped(parts, **mistake)[after:], atol=1e-5)  # noqa: B023

            if count > 1 and like(scale=False):
                wrong(
                    "The energies are not divided by the root of the size.",
                    shown,
                    "As in self_attention: query.shape[-1] ** 0.5.",
                )
            blind = bool((got.isnan() | (got == 0)).all()) if count == 1 else like(itself=False, after=1)
            if blind:
                wrong(
                    "A position does not see itself.",
                    shown,
                    "Its own key and value go into the cache before it attends.",
                )
            if like(over_heads=True):
                wrong(
                    "The softmax goes over the heads.",
                    shown,
                    "Each head has weights of its own, which sum to 1 over the positions.",
                )
        check_same(got, wanted, what="The tensor of all results", given=shown)
        if not torch.equal(torch.as_tensor(caches[-1][0]), parts[1]) or not torch.equal(
            torch.as_tensor(caches[-1][1]), parts[2]
        ):
            wrong("The cache has not the keys and the values of all positions in their order.", shown)


def normed(x, weight, bias, eps=1e-5, *, mean=True, spread="variance", axis=-1):
    """A layer norm; the options are mistakes."""
    centred = x - x.mean(axis, keepdim=True) if mean else x
    if spread == "variance":
        scale = ((centred**2).mean(axis, keepdim=True) + eps).sqrt()
    elif spread == "unbiased":
        scale = (x.var(axis, keepdim=True) + eps).sqrt()
    elif spread == "outside":
        scale = (centred**2).mean(axis, keepdim=True).sqrt() + eps
    elif spread == "no eps":
        scale = (centred**2).mean(axis, keepdim=True).sqrt()
    else:
        scale = (centred**2).mean(axis, keepdim=True) + eps
    return centred / scale * weight + bias


NORM_MISTAKES = {
    "The variance is divided by size - 1.": (
        {"spread": "unbiased"},
        "x.var(-1, correction=0) is the mean of the squared differences.",
    ),
    "It is divided by the variance, not by its root.": ({"spread": "squared"}, "sqrt(variance + eps)"),
    "eps is added to the standard deviation.": (
        {"spread": "outside"},
        "It is added to the variance, before the root is taken.",
    ),
    "eps is left out.": (
        {"spread": "no eps"},
        "sqrt(variance + eps): numbers that are all the same have the variance 0.",
    ),
    "The mean is not subtracted.": ({"mean": False}, "x - mean, divided by the root of variance + eps."),
    "It normalises over the positions.": (
        {"axis": -2},
        "Each position alone: the mean and the variance are of its last axis, with keepdim=True.",
    ),
    "It normalises all positions together.": (
        {"axis": None},
        "Each position alone: the mean and the variance are of its last axis, with keepdim=True.",
    ),
}


@exercise(
    "A layer norm",
    hints=[
        "mean = x.mean(-1, keepdim=True), and the variance is the mean of (x - mean) ** 2.",
        "Divide by (variance + eps) ** 0.5. Weight and bias are broadcast over all axes but the last.",
    ],
)
def norm(answer):
    for shape, eps in (((3,), 1e-5), ((2, 4), 1e-5), ((2, 3, 5), 1e-5), ((4, 3, 6), 1e-5), ((2, 3, 5), 0.5)):
        draws = torch.Generator().manual_seed(len(shape))
        x = 2 * torch.randn(shape, generator=draws) + 3
        if shape[0] == 4:
            x[0, 0] = 2.0  # nothing but eps keeps it from a division by 0
            x[1] *= 0.002
        weight, bias = torch.rand(2, shape[-1], generator=draws) + 0.5
        options = {} if eps == 1e-5 else {"eps": eps}
        before = x.clone()
        got, wanted = call(answer, x, weight, bias, **options), normed(x, weight, bias, eps)
        given = [("x", before), ("eps", eps)]
        if not torch.equal(x, before):
            wrong(
                "x itself is changed.", given, "The sum of a residual needs it as it was: x - mean makes a new tensor."
            )
        if is_same(got, wanted):
            continue
        if eps != 1e-5 and is_same(got, normed(x, weight, bias)):
            wrong("It does not use the eps that it is given.", given, "eps is an argument.")
        for name, (mistake, rule) in NORM_MISTAKES.items():
            if "axis" in mistake and x.ndim < 2:
                continue
            if is_same(got, normed(x, weight, bias, eps, **mistake)):
                wrong(name, given, rule)
        ones, zeros = torch.ones_like(weight), torch.zeros_like(bias)
        for name, other in {"weight": (ones, bias), "bias": (weight, zeros), "weight nor bias": (ones, zeros)}.items():
            if is_same(got, normed(x, *other, eps)):
                wrong(f"It uses no {name}.", given, "normalised * weight + bias")
        check_same(got, wanted, what="The normalised tensor", given=given)
    check_without(
        answer, (x, weight, bias), ("layer_norm", "native_layer_norm", "LayerNorm"), "Write it with means and a root."
    )
    leaves = {"x": torch.randn(2, 3, 5, requires_grad=True), "weight": torch.rand(5, requires_grad=True),
              "bias": torch.rand(5, requires_grad=True)}  # fmt: skip
    check_gradient((answer(*leaves.values()) * torch.arange(5)).sum(), leaves)


class Parts:
    """Parts of a block with weights of their own, and what is asked of them."""

    def __init__(self, size, seed, *, cross=True):
        draws = torch.Generator().manual_seed(seed)

        def weights(*shape):
            return torch.randn(shape, generator=draws) / shape[-1] ** 0.5

        own, query, value = weights(size, size), weights(size, size), weights(size, size)
        inner, outer = weights(size, 2 * size), weights(2 * size, size)
        scales = [(weights(size) + 1, weights(size)) for _ in range(2 + cross)]
        self.norms = [lambda x, scale=scale: normed(x, *scale) for scale in scales]
        self.inner, self.outer = (lambda x: x @ inner), (lambda x: x @ outer)
        self._own, self._query, self._value, self._cross = own, query, value, cross

    def self_attention(self, x):
        """A mean of what is so far, which depends on the order of the positions."""
        count = torch.arange(1, x.shape[1] + 1)[:, None]
        return x.cumsum(1) / count @ self._own

    def cross_attention(self, x, states):
        """What x finds in states."""
        if not self._cross:
            wrong(
                "A block of an encoder has no cross-attention.",
                [("states", states)],
                "Without states, the second line is left out.",
            )
        if states is None:
            wrong("Cross-attention gets no states.", rule="parts.cross_attention(x, states)")
        return (x @ self._query @ states.transpose(1, 2)).softmax(-1) @ states @ self._value


def put_together(
    x,
    states,
    parts,
    *,
    norm="before",
    residual="sum",
    first="attention",
    activation="relu",
    states_normed=False,
    swapped=False,
    norms="own",
):
    """A block; the options are mistakes."""
    cross = (
        (lambda x: parts.cross_attention(x, parts.norms[1](states) if states_normed else states))
        if not swapped
        else (lambda x: parts.cross_attention(x, x))
    )
    active = {"relu": torch.relu, "none": lambda x: x, "gelu": torch.nn.functional.gelu, "tanh": torch.tanh}[activation]
    lines = [parts.self_attention, cross, lambda x: parts.outer(active(parts.inner(x)))]
    if states is None:
        del lines[1]
    if first == "feed-forward":
        lines = lines[::-1]
    elif first == "cross" and states is not None:
        lines = [lines[1], lines[0], lines[2]]
    own = {"own": parts.norms, "first": [parts.norms[0]] * 3, "turned": parts.norms[::-1]}[norms]
    at_first = x
    for line, scaled in zip(lines, own):
        if norm == "after":
            x = scaled(x + line(x))
        elif norm == "of the result":
            x = x + scaled(line(x))
        else:
            asked = scaled(x) if norm == "before" else x
            on = {"sum": x, "none": 0, "of the norm": asked, "of the input": at_first}[residual]
            x = on + line(asked)
    return x


BLOCK_MISTAKES = {
    "The norm comes after the sum.": (
        {"norm": "after"},
        "That is the order of the first paper. Here each line is x + f(norm(x)).",
    ),
    "What is added is normalised, not what is read.": (
        {"norm": "of the result"},
        "x + f(norm(x)): the sum itself never passes a norm.",
    ),
    "There is no norm.": ({"norm": "none"}, "x + f(norm(x)), with the norm of the line."),
    "The residuals are missing: each line gives only what it computes.": (
        {"residual": "none"},
        "x + f(norm(x)): what was there stays.",
    ),
    "What is normalised is added, not x.": (
        {"residual": "of the norm"},
        "x + f(norm(x)): the path from x to the end passes no norm.",
    ),
    "Each line adds to the input of the block.": (
        {"residual": "of the input"},
        "Each line goes on with the x of the line before it.",
    ),
    "The feed-forward comes first.": ({"first": "feed-forward"}, "Self-attention, cross-attention, feed-forward."),
    "Cross-attention comes before self-attention.": (
        {"first": "cross"},
        "Self-attention, cross-attention, feed-forward.",
    ),
    "Between the two maps of the feed-forward nothing is set to 0.": (
        {"activation": "none"},
        "parts.outer(torch.relu(parts.inner(...)))",
    ),
    "Between the two maps stands a GELU.": ({"activation": "gelu"}, "Here it is a ReLU: negative numbers become 0."),
    "The states of the encoder are normalised once more.": (
        {"states_normed": True},
        "The encoder has its own last norm: parts.cross_attention(norm(x), states).",
    ),
    "Cross-attention looks at the decoder's own positions.": (
        {"swapped": True},
        "x asks, and states are what it looks at: parts.cross_attention(norm(x), states).",
    ),
    "All lines use the first norm.": ({"norms": "first"}, "parts.norms has one for each line, in their order."),
    "The norms are used from the last to the first.": (
        {"norms": "turned"},
        "parts.norms has one for each line, in their order.",
    ),
}


@exercise(
    "A block",
    hints=[
        "Each line reads x through its norm, and adds what it computes to the x that it has read.",
        "Without states there are two norms, so the one of the feed-forward is the last of the list in both cases.",
    ],
    points=2,
)
def block(answer):
    for size, cross, time in ((4, False, 1), (5, True, 3), (4, False, 5), (3, True, 2)):
        draws = torch.Generator().manual_seed(size + time)
        parts = Parts(size, time, cross=cross)
        x, states = (
            torch.randn(2, time, size, generator=draws),
            torch.randn(2, 4, size, generator=draws) if cross else None,
        )
        before = x.clone()
        got, wanted = call(answer, x, states, parts), put_together(x, states, parts)
        given = [("x", before), ("states", "None" if states is None else states)]
        if not torch.equal(x, before):
            wrong(
                "x itself is changed.",
                given,
                "It belongs to the caller: x = x + ... makes a new tensor, x += ... does not.",
            )
        if is_same(got, wanted):
            continue
        for name, (mistake, rule) in BLOCK_MISTAKES.items():
            if (mistake.keys() & {"states_normed", "swapped"} or mistake.get("first") == "cross") and not cross:
                continue
            if is_same(got, put_together(x, states, parts, **mistake)):
                wrong(name, given, rule)
        if cross and is_same(got, put_together(x, None, Without(parts))):
            wrong("Cross-attention is missing.", given, "With states, the second line comes between the others.")
        check_same(got, wanted, what="The result", given=given)
    x = torch.randn(2, 3, 3, requires_grad=True)
    states = torch.randn(2, 4, 3, requires_grad=True)
    check_gradient(answer(x, states, parts), {"x": x, "states": states})


class Without:
    """Parts of a block whose cross-attention is left out."""

    def __init__(self, parts):
        self.norms = [parts.norms[0], parts.norms[2]]
        self.self_attention, self.inner, self.outer = parts.self_attention, parts.inner, parts.outer


class Stack:
    """Blocks that mix what they get, and a norm."""

    def __init__(self, name, size, count, *, cross):
        self.blocks = [lambda x, states, at=at: self._block(x, states, at) for at in range(count)]
        self._name, self._cross = name, cross
        self._weights = torch.randn(count, size, size, generator=torch.Generator().manual_seed(count)) / size**0.5
        ones = torch.ones(size)
        self.norm = lambda x: normed(x, ones * 0.7, ones * (0.2 if cross else 0.1))

    def _block(self, x, states, at):
        if self._cross and states is None:
            wrong(
                f"Block {at} of the decoder gets no states.",
                rule="decoder.blocks[i](target, states), with what the encoder gives.",
            )
        if not self._cross and states is not None:
            wrong(f"Block {at} of the encoder gets states.", rule="It has no cross-attention: block(source, None).")
        found = torch.tanh(x.cumsum(1) @ self._weights[at])
        return x + found + (states.mean(1, keepdim=True) * (at + 1) if self._cross else 0)


def both_stacks(
    source,
    target,
    encoder,
    decoder,
    *,
    encoder_norm=True,
    decoder_norm=True,
    looks_at="states",
    blocks="all",
    into="target",
):
    """Two stacks; the options are mistakes."""
    x, depths = source, [source]
    for one in encoder.blocks[:1] if blocks == "first" else encoder.blocks:
        x = one(x, None)
        depths.append(x)
    states = encoder.norm(x) if encoder_norm else x
    x = states if into == "states" else target
    for at, one in enumerate(decoder.blocks[:1] if blocks == "first" else decoder.blocks):
        seen = {"states": states, "source": source, "depth": depths[min(at + 1, len(depths) - 1)], "itself": x}[
            looks_at
        ]
        x = one(x, seen)
    return decoder.norm(x) if decoder_norm else x


STACK_MISTAKES = {
    "The encoder's last norm is left out.": (
        {"encoder_norm": False},
        "states = encoder.norm(...) behind its last block.",
    ),
    "The decoder's last norm is left out.": (
        {"decoder_norm": False},
        "return decoder.norm(...) behind its last block.",
    ),
    "Both last norms are left out.": (
        {"encoder_norm": False, "decoder_norm": False},
        "Each stack ends with a norm of its own.",
    ),
    "The decoder looks at the source, before the encoder.": (
        {"looks_at": "source"},
        "Its states are what comes out of the encoder.",
    ),
    "A block of the decoder looks at the block of the encoder that is as deep.": (
        {"looks_at": "depth"},
        "All of them get the same states: those behind the encoder's last norm.",
    ),
    "The decoder looks at its own positions.": (
        {"looks_at": "itself"},
        "Its states are what comes out of the encoder.",
    ),
    "Only the first block of each stack is used.": ({"blocks": "first"}, "for one in encoder.blocks: ..."),
    "The decoder goes on with the states of the encoder, and nobody reads the target.": (
        {"into": "states"},
        "The first block of the decoder gets the target; the states are its second argument.",
    ),
}


@exercise(
    "Two stacks",
    hints=[
        "The blocks of the encoder run one after the other, without states; its norm comes once, behind the last of them.",
        "Each block of the decoder gets the same states, and what the block before it has made of the target.",
    ],
    points=2,
)
def transformer(answer):
    for size, counts, times in ((4, (2, 3), (3, 3)), (3, (1, 1), (2, 2)), (5, (3, 2), (4, 2))):
        draws = torch.Generator().manual_seed(size)
        source, target = (torch.randn(2, time, size, generator=draws) for time in times)
        encoder, decoder = (
            Stack(name, size, count, cross=name == "decoder") for name, count in zip(("encoder", "decoder"), counts)
        )
        given = [("source", source), ("target", target), ("blocks", " and ".join(map(str, counts)))]
        got, wanted = call(answer, source, target, encoder, decoder), both_stacks(source, target, encoder, decoder)
        if is_same(got, wanted):
            continue
        for name, (mistake, rule) in STACK_MISTAKES.items():
            if is_same(got, both_stacks(source, target, encoder, decoder, **mistake)):
                wrong(name, given, rule)
        check_same(got, wanted, what="The result", given=given)


@exercise(
    "A badge: who looks back",
    hints=[
        "The weights on the position before are the diagonal right below the main one: weights[h, t, t - 1].",
        "np.diagonal takes offset=, axis1= and axis2=; the mean is over what it gives.",
    ],
)
def previous_score(answer):
    for heads, time in ((1, 2), (3, 5), (2, 7)):
        rng = np.random.default_rng(time)
        weights = np.tril(rng.random((heads, time, time)) + 0.1)
        weights /= weights.sum(-1, keepdims=True)
        wanted = np.array([np.mean([one[t, t - 1] for t in range(1, time)]) for one in weights])
        got, given = call(answer, weights), [("weights", weights)]
        if np.shape(got) == wanted.shape and not is_same(got, wanted):
            if is_same(got, wanted * (time - 1) / time):
                wrong(
                    "It divides by all positions.",
                    given,
                    "The first position has none before it: the mean is over time - 1 of them.",
                )
            if is_same(got, np.array([np.mean([one[t, t] for t in range(time)]) for one in weights])):
                wrong(
                    "This is the weight on the position itself.", given, "One place to the left: weights[h, t, t - 1]."
                )
            if is_same(got, np.array([np.mean([one[t - 1, t] for t in range(1, time)]) for one in weights])):
                wrong(
                    "This is the weight on the position after.",
                    given,
                    "Rows look, columns are looked at: weights[h, t, t - 1].",
                )
        check_same(got, wanted, what="The score of each head", given=given)


@exercise(
    "Does anybody look ahead?",
    hints=[
        "A row is a position that looks, a column one that is looked at: ahead is right of the diagonal.",
        "np.triu(weights, 1) keeps what is right of the diagonal in the last two axes. Is anything of it above 0?",
    ],
)
def looks_ahead(answer):
    rng = np.random.default_rng(3)
    causal = np.tril(rng.random((2, 3, 5, 5)) + 0.1)
    causal /= causal.sum(-1, keepdims=True)

    def with_one(batch, head, row, column):
        other = causal.copy()
        other[batch, head, row, column] = 1e-3
        return other / other.sum(-1, keepdims=True)

    cases = [
        ("causal weights", causal, False),
        ("each position looks at itself alone", np.broadcast_to(np.eye(4), (1, 2, 4, 4)), False),
        ("no mask at all", np.full((1, 1, 4, 4), 0.25), True),
        ("one weight ahead, in the first row", with_one(0, 0, 0, 1), True),
        ("one weight ahead, in the last head of the second sequence", with_one(1, 2, 1, 4), True),
        ("one weight ahead, right beside the diagonal", with_one(0, 1, 3, 4), True),
    ]
    said = [(name, truth_of(answer, weights.copy()), truth) for name, weights, truth in cases]
    if all(got for _, got, _ in said):
        wrong(
            "It says so of all weights.",
            [("also of", said[0][0])],
            "What is on the diagonal or left of it is not ahead.",
        )
    if not any(got for _, got, _ in said):
        wrong(
            "It never says so.",
            [("not even of", said[2][0])],
            "Right of the diagonal, in any row, is a position ahead.",
        )
    for name, got, truth in said:
        if truth and not got:
            wrong(
                "Somebody who looks ahead is not found.",
                [("weights", name)],
                "All rows of all heads of all sequences count.",
            )
        if got and not truth:
            wrong(
                "Somebody who does not look ahead is accused.",
                [("weights", name)],
                "A row is a position that looks, a column one that is looked at.",
            )


ports = load(Path(__file__).parents[1] / "data/ports.py")


@exercise(
    "A port of an attention with rotary positions",
    hints=[
        "Cut what qkv gives into three parts of other widths (torch.split takes a list of sizes), and each part into heads.",
        "x[..., 0::2] and x[..., 1::2] are the coordinates of all points. Only queries and keys are turned.",
        "Each group serves heads // groups heads that are neighbours: repeat_interleave along the axis of heads.",
    ],
    points=2,
)
def PortedAttention(answer):
    sizes = ((4, 2, 4, 100.0, 5), (2, 2, 2, 50.0, 3), (6, 2, 4, 1000.0, 6), (3, 1, 6, 10.0, 1))
    cases = [
        (ports.drawn(ports.Attention(heads, groups, size, base), seed), ports.inputs(2, time, heads * size, seed=seed))
        for seed, (heads, groups, size, base, time) in enumerate(sizes)
    ]
    ports.judge(answer, cases)
