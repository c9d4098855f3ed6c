"""Checks of 11_transformer: positions, attention with a causal mask, a cache, badges, and a look at the mask."""

from __future__ import annotations

import numpy as np
import torch

import rfnb as rf
from rfnb.teaching import call, check_gradient, check_padding, check_same, exercise, kind_of, truth_of, wrong
from rfnb.teaching.difference import difference


def same(got, other):
    """Whether two results are the same up to rounding, whatever the order of their dims."""
    return difference(got, other, 1e-4) is None


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
        if same(got, wanted):
            continue
        if same(got, encoded(count, size, swapped=True)):
            wrong("Sines and cosines have changed places.", given, "Columns 0, 2, 4, ... have the sine.")
        angles = np.arange(count)[:, None] * 10000.0 ** (-np.arange(0, size, 2) / size)
        if size > 2 and same(got, np.concatenate([np.sin(angles), np.cos(angles)], 1)):
            wrong(
                "All sines come first here.",
                given,
                "They alternate: the sine in column 2i, the cosine of the same angle in 2i + 1.",
            )
        if size > 2 and same(got, encoded(count, size, rate=4)):
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
        if same(got, wanted):
            continue
        for name, mistake in MISTAKES.items():
            if same(got, attended(query, key, value, **options, **mistake)):
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
        if np.shape(got) == wanted.shape and not same(got, wanted):
            if same(got, wanted * (time - 1) / time):
                wrong(
                    "It divides by all positions.",
                    given,
                    "The first position has none before it: the mean is over time - 1 of them.",
                )
            if same(got, np.array([np.mean([one[t, t] for t in range(time)]) for one in weights])):
                wrong(
                    "This is the weight on the position itself.", given, "One place to the left: weights[h, t, t - 1]."
                )
            if same(got, np.array([np.mean([one[t - 1, t] for t in range(1, time)]) for one in weights])):
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
