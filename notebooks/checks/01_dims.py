"""The exercises of 01_dims.ipynb."""

from __future__ import annotations

import numpy as np
import torch

import rfnb as rf
from rfnb.core.tensor_text import shape_of
from rfnb.teaching import call, check_calls, check_padding, check_same, check_without, exercise, is_same, kind_of, wrong


class Words:
    """Three words with vectors for their letters; what each check needs of them. All sizes differ."""

    def __init__(self, seed: int = 1, lengths: tuple[int, ...] = (2, 5, 1), features: int = 4):
        self.batch, self.feature, self.model = (
            rf.Dim(len(lengths), name="batch"),
            rf.Dim(features, name="feature"),
            rf.Dim(6, name="model"),
        )
        self.letters = rf.ragged_dim(list(lengths), over=self.batch, name="letters")
        self.sounds = rf.ragged_dim([1, 2, 4, 3, 2][: len(lengths)], over=self.batch, name="sounds")
        self.random = np.random.default_rng(seed)
        self.x = self.tensor(self.batch, self.letters, self.feature)

    def tensor(self, *dims: rf.Dim) -> rf.Tensor:
        sizes = [dim.extent for dim in dims]
        return rf.convert_to_tensor(self.random.normal(size=sizes).astype("float32"), dims=dims)


def _tensor(got: object) -> None:
    if not isinstance(got, rf.Tensor):
        wrong(
            "This is no Tensor of rf, so its dims are lost.",
            [("got", kind_of(got))],
            "Stay with the tensors and functions of rf.",
        )


@exercise(
    "Add two readings of the same words",
    hints=[
        "The picture marks two dims that clash. They have the same lengths.",
        "If two dims are the same axis, one is put in the place of the other: rf.replace_dim.",
        "in_dim is the dim that goes, out_dim the one that comes in its place. It gives two results; the first is the tensor.",
    ],
)
def add_readings(answer):
    words = Words()
    frames = rf.ragged_dim([2, 5, 1], over=words.batch, name="frames")
    for order in ([words.batch, frames, words.feature], [words.feature, frames, words.batch]):
        back = words.tensor(*order)
        got = call(answer, words.x, back, words.letters, frames)
        _tensor(got)
        if {words.letters, frames} <= set(got.dims):
            wrong(
                "This adds every letter to every frame: the result has both dims.",
                [("got", shape_of(got))],
                "They are one axis with two names. Replace one of them, and add then.",
            )
        same, _ = rf.replace_dim(back, in_dim=frames, out_dim=words.letters)
        if is_same(got, words.x) or is_same(got, same) or is_same(got, 2 * words.x):
            wrong(
                "Only one of the two readings is in it.",
                [("got", shape_of(got))],
                "ahead and back are both to be added.",
            )
        check_padding(answer, words.x, back, words.letters, frames)
        check_same(got, words.x + same, what="The sum of the readings")


@exercise(
    "Project each letter",
    hints=[
        "The card shows the dims of both operands, and the dim that is to be reduced. Which operand does not have it?",
        "What is summed over has to be in both: it is the one that is used up.",
        "x is {batch, letters, feature}, weight is {feature, model}: one dim is in both.",
    ],
)
def project(answer):
    words = Words()
    for order in ((words.feature, words.model), (words.model, words.feature)):
        weight = words.tensor(*order)
        got = call(answer, words.x, weight, words.feature, words.model)
        _tensor(got)
        if {words.feature, words.model} <= set(got.dims):
            wrong(
                "The products are there, but not their sum: feature is still a dim of the result.",
                [("got", shape_of(got))],
                "A projection sums over the dim that both have.",
            )
        check_same(got, rf.matmul(words.x, weight, reduce=words.feature), what="The projection")


@exercise(
    "A Tensor of an array",
    hints=[
        "Compare the two columns of the message: what the dims need, and what the array has.",
        "The dims are given in the order of the axes of the array. Which axis is first here?",
        "The first axis has 9 entries and the second 3: which of the dims have these sizes?",
    ],
)
def tensor_of(answer):
    words = Words()
    array = words.random.normal(size=(5, 3, 4)).astype("float32")
    got = call(answer, array.copy(), words.batch, words.letters, words.feature)
    _tensor(got)
    if {words.batch, words.letters, words.feature} != set(got.dims):
        wrong(
            "It has other dims.",
            [("got", shape_of(got))],
            "These dims, and no others, belong to the array: batch, letters, feature.",
        )
    reshaped = rf.convert_to_tensor(array.reshape(3, 5, 4), dims=[words.batch, words.letters, words.feature])
    if is_same(got, reshaped):
        wrong(
            "The letters of the words are mixed up: reshape reads the numbers in memory in another rhythm.",
            [("array", "(5, 3, 4): letters, words, features"), ("got", shape_of(got))],
            "An array keeps its order; it is the dims that are listed in the order of its axes.",
        )
    check_same(got, rf.convert_to_tensor(array, dims=[words.letters, words.batch, words.feature]), what="The Tensor")
    more = Words(lengths=(3, 1, 4, 2, 2), features=2)
    array = more.random.normal(size=(4, 5, 2)).astype("float32")
    expected = rf.convert_to_tensor(array, dims=[more.letters, more.batch, more.feature])
    got = call(answer, array.copy(), more.batch, more.letters, more.feature)
    check_same(got, expected, what="The Tensor of five words")


@exercise(
    "Sum letter by letter",
    hints=[
        "The state changes its dims in the first step. What has been added to it?",
        "A frame of x has batch and feature. The state has to have them from the beginning.",
        "rf.zeros takes a list of dims, as many as the state needs.",
    ],
)
def sum_by_hand(answer):
    words = Words()
    got = call(answer, words.x, words.batch, words.letters, words.feature)
    _tensor(got)
    if words.feature not in got.dims:
        wrong(
            "The features are summed up, too.",
            [("got", shape_of(got)), ("wanted", "{batch, feature}")],
            "It is the state that lacks a dim, not the frame that has one too many.",
        )
    if words.letters in got.dims:
        total = rf.reduce_sum(words.x, axis=words.letters)
        if all(
            is_same(one, total)
            for one in (rf.gather(got, indices=0, axis=words.letters), rf.reduce_max(got, axis=words.letters))
        ):
            wrong(
                "The total is right, and copied to each letter: the state has letters from the beginning.",
                [("got", shape_of(got)), ("wanted", "{batch, feature}")],
                "A frame of x has batch and feature, and so has the sum of frames: rf.zeros([batch, feature])",
            )
        wrong(
            "This is the sum so far after each letter.",
            [("got", shape_of(got)), ("wanted", "{batch, feature}")],
            "After the loop, loop.state.total is the last one.",
        )
    if is_same(got, rf.reduce_mean(words.x, axis=words.letters)):
        wrong("This is the mean, not the sum.", [("got", shape_of(got))])
    check_padding(answer, words.x, words.batch, words.letters, words.feature)
    check_same(got, rf.reduce_sum(words.x, axis=words.letters), what="The sum of the letters")
    more = Words(lengths=(3, 1, 4, 2, 2), features=2)
    got = call(answer, more.x, more.batch, more.letters, more.feature)
    check_same(got, rf.reduce_sum(more.x, axis=more.letters), what="The sum of the letters of five words")


@exercise(
    "The mean over the letters",
    hints=[
        "An axis is never a number here.",
        "The function gets the dim that it needs as an argument.",
        "What stands behind axis= is the dim itself.",
    ],
)
def mean_of_letters(answer):
    words = Words()
    for order in ([0, 1, 2], [1, 2, 0], [2, 0, 1]):
        x = words.tensor(*([words.batch, words.letters, words.feature][place] for place in order))
        got = call(answer, x, words.letters)
        _tensor(got)
        right = rf.reduce_mean(x, axis=words.letters)
        if set(got.dims) != set(right.dims):
            wrong(
                "This is the mean over another dim.",
                [("x", shape_of(x)), ("got", shape_of(got)), ("wanted", shape_of(right))],
                "x comes with its axes in several orders, so no position of an axis is right for all of them.",
            )
        longest = rf.reduce_sum(x, axis=words.letters) / words.letters.extent
        if is_same(got, longest):
            wrong(
                "Each sum is divided by the longest length: short words come out too small.",
                [("lengths", "2, 5, 1"), ("divided by", "5")],
                "Each word has a length of its own. rf.reduce_mean knows it.",
            )
        check_padding(answer, x, words.letters)
        check_same(got, right, what="The mean")


@exercise(
    "Outer product",
    hints=[
        "a * b is refused if they have no dim in common, so that nobody makes an outer product by accident.",
        "The message of that error has the function in its last line.",
        'It takes the op as a word between its operands, as "add" or "mul".',
    ],
)
def outer(answer):
    words = Words()
    size, other = rf.Dim(2, name="size"), rf.Dim(3, name="other")
    pairs = [
        (words.tensor(size), words.tensor(other)),
        (words.tensor(size, other), words.tensor(other, words.model)),
        (words.tensor(words.batch, words.letters), words.tensor(words.model)),
        (words.tensor(words.batch, words.letters), words.tensor(words.sounds, words.batch)),
    ]
    for a, b in pairs:
        got = call(answer, a, b)
        _tensor(got)
        if set(got.dims) < set(a.dims) | set(b.dims):
            wrong(
                "A dim is gone: something was summed up.",
                [("a", shape_of(a)), ("b", shape_of(b)), ("got", shape_of(got))],
                "An outer product keeps all dims of both, and sums nothing.",
            )
        if is_same(got, rf.combine_bc(a, "add", b)):
            wrong("These are sums, not products.", [("a", shape_of(a)), ("b", shape_of(b)), ("got", shape_of(got))])
    check_calls(answer, lambda a, b: rf.combine_bc(a, "mul", b), pairs, what="The outer product")


@exercise(
    "matmul by hand",
    hints=[
        "Two steps: all products first, then one sum.",
        "The products are your outer product: dims that both have are matched in it.",
        "rf.reduce_sum takes what is summed, and the dim.",
    ],
)
def matmul_by_hand(answer):
    words = Words()
    inner, left, right = rf.Dim(2, name="inner"), rf.Dim(3, name="left"), rf.Dim(5, name="right")
    calls = [
        (words.tensor(inner), words.tensor(inner), inner),
        (words.tensor(left, inner), words.tensor(inner, right), inner),
        (words.tensor(right, inner), words.tensor(left, inner), inner),
        (words.x, words.tensor(words.model, words.feature), words.feature),
        (words.tensor(words.letters, words.batch), words.x, words.letters),
        (words.x, words.tensor(words.batch, words.sounds, words.feature), words.feature),
    ]
    for a, b, reduce in calls:
        got = call(answer, a, b, reduce)
        _tensor(got)
        if reduce in got.dims:
            wrong(
                f"{reduce.name} is still there: the products are not summed up.",
                [("a", shape_of(a)), ("b", shape_of(b)), ("reduce", reduce.name), ("got", shape_of(got))],
                "The dim that is reduced is gone from the result.",
            )
        if is_same(got, rf.reduce_mean(rf.combine_bc(a, "mul", b), axis=reduce)):
            wrong(
                "This is the mean of the products, not their sum.",
                [("a", shape_of(a)), ("b", shape_of(b)), ("reduce", reduce.name)],
            )
    check_without(
        answer,
        calls[1],
        ("matmul", "dot", "einsum", "mm", "bmm"),
        'All products first, rf.combine_bc(a, "mul", b), and then one sum.',
    )
    check_padding(answer, words.tensor(words.letters, words.batch), words.x, words.letters)
    check_calls(answer, lambda a, b, reduce: rf.matmul(a, b, reduce=reduce), calls, what="The product")


@exercise(
    "softmax by hand",
    hints=[
        "exp first, then divide by the sum of the exps over the axis.",
        "exp(1000) is infinite. A softmax stays the same if a number is subtracted from all values of the axis.",
        "Subtract rf.reduce_max(x, axis=axis) before rf.exp.",
    ],
)
def softmax_by_hand(answer):
    words = Words()
    few = rf.Dim(2, name="few")
    plain = words.tensor(few)
    calls = [
        (plain, few),
        (words.tensor(words.model, few), few),
        (words.tensor(few, words.model), few),
        (words.x, words.feature),
        (words.x, words.letters),
    ]
    for x, axis in calls:
        got = call(answer, x, axis)
        _tensor(got)
        if axis not in got.dims:
            wrong(
                f"{axis.name} is gone, but a softmax keeps its axis.",
                [("x", shape_of(x)), ("axis", axis.name), ("got", shape_of(got))],
                "It makes one weight for each entry; they sum to 1.",
            )
        if is_same(got, rf.exp(x)):
            wrong(
                "The weights do not sum to 1: this is only exp(x).",
                [("x", shape_of(x))],
                "Divide by the sum of the exps over the axis.",
            )
        others = [dim for dim in x.dims if dim is not axis]
        if others and is_same(got, rf.exp(x) / rf.reduce_sum(rf.exp(x), axis=x.dims)):
            wrong(
                "All values together sum to 1, not those of each row over the axis.",
                [("x", shape_of(x)), ("axis", axis.name)],
                "The sum goes over the axis alone.",
            )
        for other in others:
            if is_same(got, rf.softmax(x, axis=other)):
                wrong(f"This is the softmax over {other.name}.", [("x", shape_of(x)), ("axis", axis.name)])
    check_without(answer, calls[0], ("softmax", "log_softmax"), "exp first, then divide by the sum over the axis.")
    check_calls(answer, lambda x, axis: rf.softmax(x, axis=axis), calls, what="The softmax")
    check_padding(answer, words.x, words.letters)
    for shift in (1000.0, -1000.0):
        got = call(answer, plain + shift, few)
        if not bool(np.isfinite(got.numpy()).all()):
            wrong(
                f"With values near {shift:.0f} it is {got.numpy().flat[0]}: exp of them is {'infinite' if shift > 0 else '0'} in float32.",
                [("x", "near " + str(shift)), ("got", got.numpy().tolist())],
                "A softmax does not change if the same number is subtracted from all values. Subtract the largest.",
            )
        check_same(got, rf.softmax(plain + shift, axis=few), what=f"The softmax of values near {shift:.0f}")
    rows = rf.convert_to_tensor(np.array([[1.0, 2.0], [1001.0, 1002.0]], "float32"), dims=[rf.Dim(2, name="rows"), few])
    got = call(answer, rows, few)
    if not bool(np.isfinite(got.numpy()).all()):
        wrong(
            "One row is near 0 and the other near 1000: the small one is lost.",
            [("x", rows.numpy().tolist()), ("got", got.numpy().tolist())],
            "Each row over the axis has a largest value of its own. Subtract that one, not the largest of all.",
        )
    check_same(got, rf.softmax(rows, axis=few), what="The softmax of rows near 0 and near 1000")
    for values in ([0.0, 1000.0], [1000.0, 0.0], [-1000.0, 0.0]):
        wide = rf.convert_to_tensor(np.array(values, "float32"), dims=[few])
        got = call(answer, wide, few)
        if not bool(np.isfinite(got.numpy()).all()):
            wrong(
                "In a row that reaches from 0 to 1000 exp of something is infinite.",
                [("x", values), ("got", got.numpy().tolist())],
                "After subtracting the largest value nothing is above 0. The mean or the smallest one is not enough.",
            )
        check_same(got, rf.softmax(wide, axis=few), what="The softmax of a row from 0 to 1000")


@exercise(
    "Energies of an attention",
    hints=[
        "A dot product of each query with each key: which dim is summed over?",
        "rf.matmul sums over the dim that it is told; all other dims of both stay.",
        "Divide by key_dim.size ** 0.5",
    ],
)
def energies(answer):
    words = Words()
    key, asks, asked = rf.Dim(5, name="key"), rf.Dim(2, name="asks"), rf.Dim(3, name="asked")
    calls = [
        (words.tensor(asks, key), words.tensor(asked, key), key),
        (words.tensor(key, asks), words.tensor(key, asked), key),
        (words.tensor(key), words.tensor(asked, key), key),
        (words.tensor(words.batch, words.sounds, words.feature), words.x, words.feature),
    ]
    for query, keys, key_dim in calls:
        got = call(answer, query, keys, key_dim)
        _tensor(got)
        given = [("query", shape_of(query)), ("keys", shape_of(keys)), ("got", shape_of(got))]
        if key_dim in got.dims:
            wrong(f"{key_dim.name} is still there: a dot product sums over it.", given)
        product = rf.matmul(query, keys, reduce=key_dim)
        if is_same(got, product):
            wrong(
                "The scale is missing: these are the plain dot products.",
                given,
                f"Divide by the square root of the size of {key_dim.name}, here {key_dim.size}.",
            )
        if is_same(got, product / key_dim.size):
            wrong(
                "Divided by the size, not by its square root.",
                given,
                "The spread of a sum of n products grows with √n.",
            )
        if is_same(got, product * key_dim.size**0.5):
            wrong("Multiplied by the square root instead of divided.", given)
        asked_of = [dim for dim in keys.dims if dim not in query.dims]
        if any(is_same(got, rf.softmax(product / key_dim.size**0.5, axis=dim)) for dim in asked_of):
            wrong("These are the weights. The energies are what the softmax gets.", given)
    check_calls(
        answer,
        lambda query, keys, key_dim: rf.matmul(query, keys, reduce=key_dim) / key_dim.size**0.5,
        calls,
        what="The tensor of energies",
    )


def _planted(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return torch.softmax(keys @ query.T / query.shape[-1] ** 0.5, -1) @ values


@exercise(
    "Sizes for a test that tells",
    hints=[
        "Where the function raises, a test finds the bug at once. Which two sizes does torch compare?",
        "The energies are (sources, targets) instead of (targets, sources).",
        "Take four different numbers: then no two axes can be mixed up.",
    ],
)
def telling_sizes(answer):
    try:
        targets, sources, key, feature = (int(size) for size in answer)
        whole = all(float(size) == int(size) and size > 0 for size in answer)
    except (TypeError, ValueError):
        targets = sources = key = feature = 0
        whole = False
    if not whole:
        wrong(
            "Four whole numbers above 0 are wanted.",
            [("got", answer), ("wanted", "(targets, sources, key, feature)")],
        )
    given = [("targets, sources, key, feature", (targets, sources, key, feature))]
    try:
        _planted(torch.ones(targets, key), torch.ones(sources, key), torch.ones(sources, feature))
    except RuntimeError:
        return
    wrong(
        "With these sizes the wrong function runs, and its result has the right shape.",
        given,
        f"There are {targets} targets and {sources} sources, so a transposed matrix of energies has the same shape.",
    )


@exercise(
    "Attention in plain torch, fixed",
    hints=[
        "Which of the two should be the rows of the energies: those that ask, or those that are asked?",
        "The softmax goes over the last axis, so the sources have to be there.",
        "The rows of a product are those of its first operand.",
    ],
)
def mended_attention(answer):
    generator = torch.Generator().manual_seed(1)

    def random(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, generator=generator)

    def reference(query, keys, values):
        return torch.softmax(query @ keys.T / query.shape[-1] ** 0.5, -1) @ values

    for targets, sources, key, feature in [(5, 5, 8, 4), (4, 4, 4, 4), (2, 3, 5, 7), (1, 3, 2, 2)]:
        query, keys, values = random(targets, key), random(sources, key), random(sources, feature)
        given = [("query", (targets, key)), ("keys", (sources, key)), ("values", (sources, feature))]
        try:
            got = call(answer, query, keys, values)
        except RuntimeError as error:
            wrong(
                f"With {targets} targets and {sources} sources torch refuses it.",
                [*given, ("error", str(error).splitlines()[0])],
                "The energies have a row for each target and a column for each source.",
            )
        if targets == sources and is_same(got, _planted(query, keys, values)):
            wrong(
                "The bug is still there: each row belongs to a key, and looks at the queries.",
                given,
                "The energies have a row for each target and a column for each source.",
            )
        if targets == sources and is_same(got, torch.softmax(query @ keys.T / key**0.5, 0) @ values):
            wrong(
                "The softmax goes over the targets: each column sums to 1 instead of each row.",
                given,
                "Each target spreads its attention over the sources.",
            )
        if is_same(got, torch.softmax(query @ keys.T, -1) @ values):
            wrong("The scale is missing.", given, "Divide by the square root of the size of a key.")
        check_same(got, reference(query, keys, values), what="The attention", given=given)
