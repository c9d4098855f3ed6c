"""The Transformer: each check names the mistakes that are made there, and the notebook computes what its text says."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from course.harness import Course

import rfnb as rf
from rfnb.teaching.course import load

course = Course("11_transformer")
solution = course.solutions
checks = load(course.folder / "checks/11_transformer.py")


def mistaken(**mistake):
    return lambda query, key, value, **options: checks.attended(query, key, value, **options, **mistake)


def by_torch(query, key, value, *, key_dim, time):
    """The same by torch's function, as a raw array."""
    (batch,) = (dim for dim in query.dims if dim.name == "batch")
    (heads,) = (dim for dim in query.dims if dim.name == "heads")
    (size,) = (dim for dim in value.dims if dim.name == "value")
    raw = [
        x.copy_compatible_to_dims_raw([batch, heads, time, last])
        for x, last in ((query, key_dim), (key, key_dim), (value, size))
    ]
    out = torch.nn.functional.scaled_dot_product_attention(*raw, is_causal=True)
    return rf.convert_to_tensor(out, dims=[batch, heads, time, size])


def halves(count, size):
    angles = np.arange(count)[:, None] * 10000.0 ** (-np.arange(0, size, 2) / size)
    return np.concatenate([np.sin(angles), np.cos(angles)], 1)


def in_place(query, key, value, cache):
    if cache is None:
        cache = [torch.zeros(0, 2, 9), torch.zeros(0, 2, 9)]
    for place, part in enumerate((key, value)):
        cache[place] = torch.cat([cache[place], part[None]])
    result, _ = solution.cached_step(query, key, value, [part[:-1] for part in cache])
    return result, cache


def unscaled(query, key, value, cache):
    return solution.cached_step(query * query.shape[-1] ** 0.5, key, value, cache)


def without_itself(query, key, value, cache):
    _, new = solution.cached_step(query, key, value, cache)
    if cache is None:
        return torch.full_like(query, torch.nan), new
    return torch.einsum(
        "hp,phd->hd", (torch.einsum("hd,phd->hp", query, cache[0]) / query.shape[-1] ** 0.5).softmax(-1), cache[1]
    ), new


def forgetful(query, key, value, cache):
    result, _ = solution.cached_step(query, key, value, cache)
    return result, (key[None], value[None])


def only_first_row(weights):
    return bool((weights[..., 0, 1:] > 0).any())


def only_first_head(weights):
    return solution.looks_ahead(weights[:1, :1])


WRONG = {
    "positions": {
        "Sines and cosines have changed places": lambda count, size: checks.encoded(count, size, swapped=True),
        "All sines come first here": halves,
        "The exponent is twice what it should be": lambda count, size: checks.encoded(count, size, rate=4),
        "A row for each position": lambda count, size: np.zeros((size, count + 1)),
        "The encoding": lambda count, size: checks.encoded(count, size, base=1000.0) + 0.1,
    },
    "self_attention": {
        "not divided by the root of key_dim.size": mistaken(scale=False),
        "the causal mask is missing": mistaken(mask=None),
        "A position does not see itself": mistaken(mask="<"),
        "The mask is upside down": mistaken(mask=">="),
        "The softmax goes over the positions that ask": mistaken(axis="time"),
        "This is no Tensor with dims": lambda *parts, **options: by_torch(*parts, **options).raw_tensor,
    },
    "cached_step": {
        "The cache that it gets is changed": in_place,
        "not divided by the root of the size": unscaled,
        "A position does not see itself": without_itself,
        "the cache is not as long": forgetful,
        "The cache is a pair of tensors": lambda *parts: (lambda made: (made[0], torch.stack(made[1])))(
            solution.cached_step(*parts)
        ),
        "It returns two things": lambda query, key, value, cache: query,
    },
    "previous_score": {
        "It divides by all positions": lambda weights: np.stack(
            [np.sum([one[t, t - 1] for t in range(1, len(one))]) / len(one) for one in weights]
        ),
        "This is the weight on the position itself": lambda weights: np.diagonal(weights, axis1=1, axis2=2).mean(-1),
        "This is the weight on the position after": lambda weights: np.diagonal(weights, 1, 1, 2).mean(-1),
        "The score of each head": lambda weights: weights.max((1, 2)) + 1.0,
    },
    "looks_ahead": {
        "It says so of all weights": lambda weights: bool((weights > 0).any()),
        "It never says so": lambda weights: bool((weights > 1).any()),
        "Somebody who looks ahead is not found": only_first_row,
        "Somebody who does not look ahead is accused": lambda weights: bool((np.tril(weights, -1) > 0).any()),
    },
}

RIGHT = {
    "self_attention": {"by torch": by_torch},
    "cached_step": {"the cache as a list": lambda *parts: (lambda made: (made[0], list(made[1])))(solution.cached_step(*parts))},
    "previous_score": {"a list": lambda weights: [float(np.mean([w[t, t - 1] for t in range(1, len(w))])) for w in weights]},
    "looks_ahead": {
        "by what is left for the past": lambda weights: not np.allclose(np.tril(weights).sum(-1), 1),
        "row by row": lambda weights: any(
            weights[..., row, row + 1 :].sum() > 0 for row in range(weights.shape[-1])
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("exercise", course.exercises)
def test_the_check_tells_right_from_wrong(exercise):
    course.assert_judges(exercise, WRONG[exercise], right=RIGHT.get(exercise))


def test_a_check_of_one_head_is_not_enough():
    assert "not found" in course.judged("looks_ahead", only_first_head).message


def share(text):
    return [int(number) / 100 for number in re.findall(r"(\d+)%", text)]


@pytest.mark.notebook
def test_it_has_no_problems(ran):
    assert ran.problems() == []


@pytest.mark.notebook
def test_the_truths_are_those_of_the_solutions(ran):
    names = ["where", "weakest", "better_loss", "better_writing", "first"]
    assert [ran.truth(name) for name in names] == [str(solution.PREDICTIONS[name]) for name in names]


@pytest.mark.notebook
def test_the_answer_is_there_after_layer_1_and_not_before(ran):
    (low, of), (high, _) = re.findall(r"layer \d: (\d+) of (\d+) right", ran.printed("11-cell-view"))
    assert int(low) < int(of) / 2 and high == of


@pytest.mark.notebook
def test_the_rows_of_the_untrained_model_are_almost_even(ran):
    (text,) = [text for text in ran.shown("11-untrained") if "Before the training" in text]
    looks = re.findall(r"self_att, head \d .* on h, (looks \w+)", text)
    assert len(looks) == 4 and looks.count("looks evenly") >= 3


@pytest.mark.notebook
def test_own_attention_and_the_cache_give_what_the_layer_gives(ran):
    assert float(ran.printed("11-attention-use").split()[-1]) < 1e-5
    assert "are the same within the tolerance" in ran.printed("11-cache-use")


@pytest.mark.notebook
def test_what_looks_back_most_is_needed_most(ran):
    lines = "".join(ran.shown("11-reveal-prune")).splitlines()
    rows = [re.findall(r"(layer \d head \d) +(\d+)% right +looks back ([\d.]+)", line) for line in lines]
    table = [(name, int(right), float(back)) for ((name, right, back),) in filter(None, rows)]
    assert len(table) == 4 and share(ran.printed("11-prune").splitlines()[-1])[0] > 0.95
    assert min(table, key=lambda row: row[1])[0] == max(table, key=lambda row: row[2])[0]
    assert max(table, key=lambda row: row[1])[0] == ran.truth("weakest")


@pytest.mark.notebook
def test_without_the_mask_the_loss_is_lower_and_the_writing_worse(ran):
    with_mask, without = map(float, re.findall(r"loss (\d\.\d+)", "".join(ran.shown("11-reveal-mask"))))
    assert without < with_mask and any("Too good?" in text for text in ran.shown("11-reveal-mask"))
    right, wrong = map(int, re.findall(r"the mask (\d+)% of the letters", "".join(ran.shown("11-reveal-writes"))))
    assert wrong < 50 < 95 < right
    assert re.findall("True|False", ran.printed("11-leak-use")) == ["False", "False", "True", "True"]


@pytest.mark.notebook
def test_the_broken_cache_differs_from_position_1_on(ran):
    assert "Positions that differ: 1 to 16" in "".join(ran.shown("11-reveal-first"))


@pytest.mark.notebook
def test_the_mask_that_is_drawn_is_the_causal_one(ran):
    rows = [line.split()[1:] for line in ran.truth("draw").splitlines()[2:]]
    assert [[cell == "■" for cell in row] for row in rows] == np.tril(np.ones((5, 5), bool)).tolist()
