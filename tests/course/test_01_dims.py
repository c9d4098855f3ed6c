"""The lesson on dims: its checks name mistakes, and what its prose says is what its cells compute."""

from __future__ import annotations

import re

import pytest
import torch
from course.harness import Course

import rfnb as rf

course = Course("01_dims")


def summed(x, batch, letters, feature, start, update):
    loop = rf.Loop(axis=letters, name="sum")
    loop.state.total = rf.zeros(start)
    for _ in loop:
        loop.state.total = update(loop.state.total, loop.unstack(x))
    return loop.state.total


def not_stable(x, axis):
    return rf.exp(x) / rf.reduce_sum(rf.exp(x), axis=axis)


def weights(query, keys, key_dim):
    energies = rf.matmul(query, keys, reduce=key_dim) / key_dim.size**0.5
    return rf.softmax(energies, axis=energies.dims[-1])


TO_MEND = {
    "add_readings": "letters<=5 and frames<=5 are two different ragged dims",
    "project": "matmul: a has no dim model=6 to reduce.",
    "tensor_of": "raw shape (5, 3, 4) does not fit its dims",
    "sum_by_hand": 'state "total" changed its dims or dtype',
    "mean_of_letters": "reduce_mean: 1 is not a Dim.",
}
WRONG = {
    "add_readings": {
        "the result has both dims": lambda a, b, letters, frames: rf.combine_bc(a, "add", b),
        "Only one of the two readings": lambda a, b, letters, frames: a,
        "This is no Tensor": lambda a, b, letters, frames: a.raw_tensor,
    },
    "project": {
        "feature is still a dim of the result": lambda x, w, feature, model: rf.combine_bc(x, "mul", w),
        "matmul: a has no dim model=6 to reduce": lambda x, w, feature, model: rf.matmul(x, w, reduce=model),
        "This is no Tensor": lambda x, w, feature, model: x.raw_tensor @ torch.ones(4, 6),
        "model is missing": lambda x, w, feature, model: rf.reduce_sum(x, axis=feature),
    },
    "tensor_of": {
        "reshape reads the numbers in memory in another rhythm": lambda array, batch, letters, feature: (
            rf.convert_to_tensor(array.reshape(3, 5, 4), dims=[batch, letters, feature])
        ),
        "This is no Tensor": lambda array, batch, letters, feature: array,
        "It has other dims": lambda array, batch, letters, feature: rf.convert_to_tensor(
            array, dims=[rf.Dim(5, name="letters"), batch, feature]
        ),
    },
    "sum_by_hand": {
        "The features are summed up, too": lambda x, batch, letters, feature: summed(
            x, batch, letters, feature, [batch], lambda total, frame: total + rf.reduce_sum(frame, axis=feature)
        ),
        "the sum so far after each letter": lambda x, batch, letters, feature: rf.cumsum(x, spatial_dim=letters),
        "copied to each letter": lambda x, batch, letters, feature: rf.expand_dim(
            rf.reduce_sum(x, axis=letters), dim=letters
        ),
        "This is the mean, not the sum": lambda x, batch, letters, feature: rf.reduce_mean(x, axis=letters),
        "You looked at padding": lambda x, batch, letters, feature: rf.reduce_sum(x, axis=letters, use_mask=False),
    },
    "mean_of_letters": {
        "no position of an axis is right for all of them": lambda x, letters: rf.reduce_mean(x, axis=x.dims[1]),
        "divided by the longest length": lambda x, letters: rf.reduce_sum(x, axis=letters) / letters.extent,
        "the mean over another dim": lambda x, letters: rf.reduce_mean(x, axis=x.dims),
        "You looked at padding": lambda x, letters: rf.reduce_mean(x, axis=letters, use_mask=False),
    },
    "outer": {
        "a and b have no dim in common": lambda a, b: a * b,
        "something was summed up": lambda a, b: rf.reduce_sum(rf.combine_bc(a, "mul", b), axis=a.dims[0]),
        "These are sums, not products": lambda a, b: rf.combine_bc(a, "add", b),
    },
    "matmul_by_hand": {
        "the products are not summed up": lambda a, b, reduce: rf.combine_bc(a, "mul", b),
        "It calls matmul": lambda a, b, reduce: rf.matmul(a, b, reduce=reduce),
        "combine_bc": lambda a, b, reduce: rf.reduce_sum(a * b, axis=reduce),
        "the mean of the products": lambda a, b, reduce: rf.reduce_mean(rf.combine_bc(a, "mul", b), axis=reduce),
        "no dim in common": lambda a, b, reduce: rf.reduce_sum(a, axis=reduce) * rf.reduce_sum(b, axis=reduce),
        "You looked at padding": lambda a, b, reduce: rf.reduce_sum(
            rf.combine_bc(a, "mul", b), axis=reduce, use_mask=False
        ),
    },
    "softmax_by_hand": {
        "this is only exp(x)": lambda x, axis: rf.exp(x),
        "exp of them is infinite": not_stable,
        "Subtract that one, not the largest of all": lambda x, axis: not_stable(
            x - rf.reduce_max(x, axis=x.dims), axis
        ),
        "It calls softmax": lambda x, axis: rf.softmax(x, axis=axis),
        "The mean or the smallest one is not enough": lambda x, axis: not_stable(
            x - rf.reduce_mean(x, axis=axis), axis
        ),
        "All values together sum to 1": lambda x, axis: rf.exp(x) / rf.reduce_sum(rf.exp(x), axis=x.dims),
        "This is the softmax over model": lambda x, axis: rf.softmax(x, axis=x.dims[0]),
        "few is gone": lambda x, axis: rf.reduce_sum(rf.softmax(x, axis=axis), axis=axis),
    },
    "energies": {
        "The scale is missing": lambda query, keys, key_dim: rf.matmul(query, keys, reduce=key_dim),
        "not by its square root": lambda query, keys, key_dim: rf.matmul(query, keys, reduce=key_dim) / key_dim.size,
        "key is still there": lambda query, keys, key_dim: query * keys / key_dim.size**0.5,
        "These are the weights": weights,
    },
    "telling_sizes": {
        "There are 5 targets and 5 sources": (5, 5, 8, 3),
        "There are 4 targets and 4 sources": [4, 4, 4, 4],
        "Four whole numbers above 0": (2, 3, 5),
        "whole numbers": (2.5, 3, 5, 7),
    },
    "mended_attention": {
        "The bug is still there": lambda q, k, v: torch.softmax(k @ q.T / q.shape[-1] ** 0.5, -1) @ v,
        "The scale is missing": lambda q, k, v: torch.softmax(q @ k.T, -1) @ v,
        "each column sums to 1": lambda q, k, v: torch.softmax(q @ k.T / q.shape[-1] ** 0.5, 0) @ v,
        "With 2 targets and 3 sources torch refuses it": lambda q, k, v: (
            torch.softmax(q @ k.T / q.shape[-1] ** 0.5, -1) @ v
            if len(q) == len(k)
            else torch.softmax(k @ q.T / q.shape[-1] ** 0.5, -1) @ v
        ),
    },
}
RIGHT = {
    "tensor_of": {
        "the axes moved first": lambda array, batch, letters, feature: rf.convert_to_tensor(
            array.transpose(1, 0, 2), dims=[batch, letters, feature]
        )
    },
    "sum_by_hand": {
        "without a loop": lambda x, batch, letters, feature: rf.reduce_sum(x, axis=letters),
        "a body that is recorded": lambda x, batch, letters, feature: recorded_sum(x, batch, letters, feature),
    },
    "outer": {"a product where it may be one": lambda a, b: rf.combine_bc(b, "mul", a)},
    "matmul_by_hand": {
        "a product of arrays": lambda a, b, reduce: rf.reduce_sum(rf.combine_bc(b, "mul", a), axis=reduce),
    },
    "softmax_by_hand": {
        "in logarithms": lambda x, axis: rf.exp(x - rf.reduce_logsumexp(x, axis=axis)),
    },
    "energies": {
        "scaled first": lambda query, keys, key_dim: rf.matmul(keys / key_dim.size**0.5, query, reduce=key_dim)
    },
    "telling_sizes": {"a list": [1, 2, 1, 1]},
    "mended_attention": {
        "by torch": lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]
    },
}


def recorded_sum(x, batch, letters, feature):
    loop = rf.Loop(axis=letters)
    loop.state.total = rf.zeros([feature, batch])
    with loop:
        loop.state.total = loop.state.total + loop.unstack(x)
    return loop.state.total


@pytest.mark.parametrize("exercise", [name for name in course.exercises if name not in TO_MEND])
def test_the_check_tells_right_from_wrong(exercise):
    course.assert_judges(exercise, WRONG[exercise], right=RIGHT.get(exercise))


@pytest.mark.parametrize("exercise", TO_MEND)
def test_the_check_of_what_is_to_be_mended_tells_right_from_wrong(exercise):
    course.assert_judges(exercise, WRONG[exercise], right=RIGHT.get(exercise), broken=TO_MEND[exercise])


@pytest.mark.notebook
def test_it_has_no_problems(ran):
    assert ran.problems() == []


@pytest.mark.notebook
def test_the_predictions_of_the_solutions_are_what_the_cells_compute(ran):
    told = {name: str(answer) for name, answer in course.solutions.PREDICTIONS.items()}
    assert {name: ran.truth(name) for name in ran.asked()} == told


@pytest.mark.notebook
def test_the_flow_has_vectors_of_letters_and_then_of_words(ran):
    (flow,) = ran.shown("01-flow")
    assert re.search(r"reduce_mean +\[l b e\] → \[b e\] +ends letters", flow)


@pytest.mark.notebook
def test_the_lens_shows_lengths_and_padding(ran):
    (lens,) = ran.shown("01-lens")
    assert "lengths 3, 9, 6" in lens and "33 % of the cells are padding" in lens


@pytest.mark.notebook
@pytest.mark.parametrize("exercise", TO_MEND)
def test_the_picture_of_each_error_is_shown_and_the_notebook_goes_on(ran, exercise):
    (picture,) = ran.shown(f"{exercise}_view = ")
    assert picture.startswith(
        {
            "add_readings": "add: the dims of the operands do not match.",
            "project": "matmul: a has no dim model=6 to reduce.",
            "tensor_of": "Tensor: raw shape (9, 3, 4) does not fit its dims.",
            "sum_by_hand": 'Loop "sum", step 0: state "total" changed its dims or dtype.',
            "mean_of_letters": "reduce_mean: 1 is not a Dim.",
        }[exercise]
    )
    assert f"Going on with the solution of {exercise}" in ran.printed(f"{exercise}_view = ")


@pytest.mark.notebook
def test_rows_of_the_attention_sum_to_one_without_weight_on_padding(ran):
    attention = ran.shown("01-attention")[0]
    rows = [[float(number) for number in re.findall(r"[·░▒▓█](\d\.\d\d)", line)] for line in attention.splitlines()]
    rows = [row for row in rows if row]
    assert len(rows) == 3 and all(sum(row) == pytest.approx(1, abs=0.03) for row in rows)
    assert "padding" not in attention


@pytest.mark.notebook
def test_the_wrong_result_has_the_right_shape_and_other_weights(ran):
    assert ran.shown("01-planted") == ["torch.Size([5, 4])"]
    wrong, right = (
        [max(range(5), key=row.__getitem__) for row in rows if len(row) == 5]
        for rows in (
            [[float(number) for number in re.findall(r"[·░▒▓█](\d\.\d\d)", line)] for line in text.splitlines()]
            for text in ran.shown("01-break-dims")
        )
    )
    assert len(wrong) == len(right) == 5 and wrong != right
    assert ran.printed("01-break-dims").endswith("by dims, both orders agree with the fixed function: [True, True]\n")
