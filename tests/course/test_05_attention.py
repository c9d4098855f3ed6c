"""05_attention: its checks tell right from wrong, and what the notebook says is what its cells compute."""

from __future__ import annotations

import re

import pytest
import torch
from course.harness import Course, weights_in

course = Course("05_attention")


def scores_of(query, keys):
    return query @ keys.transpose(1, 2) / keys.shape[-1] ** 0.5


def padding_of(scores, lengths):
    return (torch.arange(scores.shape[-1]) >= lengths[:, None, None]).expand_as(scores)


def masked(scores, lengths):
    return scores.masked_fill(padding_of(scores, lengths), -torch.inf)


def attend(scores, values, lengths):
    weights = masked(scores, lengths).softmax(-1)
    return weights @ values, weights


def unmasked(query, keys, values, lengths):
    weights = scores_of(query, keys).softmax(-1)
    return weights @ values, weights


def masked_after(query, keys, values, lengths):
    scores = scores_of(query, keys)
    weights = scores.softmax(-1).masked_fill(padding_of(scores, lengths), 0)
    return weights @ values, weights


def over_the_target(query, keys, values, lengths):
    weights = masked(scores_of(query, keys), lengths).softmax(1).nan_to_num()
    return weights @ values, weights


def undefined_columns(query, keys, values, lengths):
    weights = masked(scores_of(query, keys), lengths).softmax(1)
    return weights @ values, weights


def zero_scores(query, keys, values, lengths):
    scores = scores_of(query, keys)
    weights = scores.masked_fill(padding_of(scores, lengths), 0).softmax(-1)
    return weights @ values, weights


def renormalized(query, keys, values, lengths):
    _, weights = masked_after(query, keys, values, lengths)
    weights = weights / weights.sum(-1, keepdim=True)
    return weights @ values, weights


def by_einsum(query, keys, values, lengths):
    scores = torch.einsum("btk,bsk->bts", query, keys) * keys.shape[-1] ** -0.5
    scores = torch.where(padding_of(scores, lengths), torch.tensor(-1e9), scores)
    weights = torch.nn.functional.softmax(scores, dim=2)
    return torch.einsum("bts,bsv->btv", weights, values), weights


def additive(query, keys, values, v, lengths):
    return attend(torch.tanh(query[:, :, None] + keys[:, None]) @ v, values, lengths)


WRONG = {
    "scaled_scores": {
        "without the scale": lambda query, keys: query @ keys.transpose(1, 2),
        "divided by the size of a key": lambda query, keys: query @ keys.transpose(1, 2) / keys.shape[-1],
        "It is turned": lambda query, keys: keys @ query.transpose(1, 2) / keys.shape[-1] ** 0.5,
        "the number of source positions": lambda query, keys: query @ keys.transpose(1, 2) / keys.shape[1] ** 0.5,
        "These are weights already": lambda query, keys: scores_of(query, keys).softmax(-1),
        "With keys of size 4": lambda query, keys: query @ keys.transpose(1, 2) / 6,
        "right for one size of a key alone": lambda query, keys: query @ keys.transpose(1, 2) / 16,
        "What you got is half of what is expected, in every cell": lambda query, keys: scores_of(query, keys) / 2,
        "no torch tensor": lambda query, keys: scores_of(query, keys).numpy(),
        "scaled_scores raises": lambda query, keys: query @ keys,
    },
    "masked_scores": {
        "Nothing is masked": lambda scores, lengths: scores,
        "The scores of the padding are 0": lambda scores, lengths: scores * ~padding_of(scores, lengths),
        "the wrong way round": lambda scores, lengths: scores.masked_fill(~padding_of(scores, lengths), -torch.inf),
        "over the target, the second axis": lambda scores, lengths: scores.masked_fill(
            torch.arange(scores.shape[1])[:, None] >= lengths[:, None, None], -torch.inf
        ),
        "One position of padding is left": lambda scores, lengths: masked(scores, lengths + 1),
        "no torch tensor": lambda scores, lengths: masked(scores, lengths).tolist(),
        "not small enough": lambda scores, lengths: scores.masked_fill(padding_of(scores, lengths), -100.0),
        "plus infinity": lambda scores, lengths: scores.masked_fill(padding_of(scores, lengths), torch.inf),
        "There is NaN": lambda scores, lengths: scores + padding_of(scores, lengths) * -torch.inf,
    },
    "dot_attention": {
        "There is no mask": unmasked,
        "The mask comes after the softmax": masked_after,
        "The softmax is over the target": over_the_target,
        "the columns sum to 1, not the rows": undefined_columns,
        "With other sizes": lambda query, keys, values, lengths: attend(
            query @ keys.transpose(1, 2) / 6, values, lengths
        ),
        "The scores of the padding are 0": zero_scores,
        "The scale is missing": lambda query, keys, values, lengths: attend(
            query @ keys.transpose(1, 2), values, lengths
        ),
        "the context is not finite: the padding takes part before the mask": renormalized,
        "It returns one thing": lambda *given: by_einsum(*given)[0].sum(),
        "in the wrong order": lambda *given: by_einsum(*given)[::-1],
        "No gradient comes back": lambda *given: tuple(one.detach() for one in by_einsum(*given)),
    },
    "additive_attention": {
        "The tanh is missing": lambda query, keys, values, v, lengths: attend(
            (query[:, :, None] + keys[:, None]) @ v, values, lengths
        ),
        "The scores are scaled": lambda query, keys, values, v, lengths: attend(
            torch.tanh(query[:, :, None] + keys[:, None]) @ v / keys.shape[-1] ** 0.5, values, lengths
        ),
        "after the product with v": lambda query, keys, values, v, lengths: attend(
            torch.tanh((query[:, :, None] + keys[:, None]) @ v), values, lengths
        ),
        "There is no mask": lambda query, keys, values, v, lengths: additive(
            query, keys, values, v, torch.full_like(lengths, keys.shape[1])
        ),
        "additive_attention raises": lambda query, keys, values, v, lengths: attend(
            torch.tanh(query + keys) @ v, values, lengths
        ),
        "It returns one thing": lambda *given: additive(*given)[1].sum(),
    },
    "diagnosis": {
        "A is something else": {"A": "mask after the softmax", "B": "no scale", "C": "softmax over the target"},
        "B is something else": {"A": "softmax over the target", "B": "no mask", "C": "no scale"},
        "When did it come?": {"A": "softmax over the target", "B": "no scale", "C": "no mask"},
        "is none of the four": {"A": "softmax over the target", "B": "too sharp", "C": "no mask"},
        "an entry for each of A, B and C": {"A": "no scale"},
    },
}

RIGHT = {
    "scaled_scores": {"in float64": lambda query, keys: scores_of(query.double(), keys.double()),
    "scaled before": lambda query, keys: (query * keys.shape[-1] ** -0.5) @ keys.mT},
    "masked_scores": {
        "in place": lambda scores, lengths: scores.masked_fill_(padding_of(scores, lengths), -torch.inf),
        "in float64": lambda scores, lengths: masked(scores.double(), lengths),
        "-1e4": lambda scores, lengths: scores.masked_fill(padding_of(scores, lengths), -1e4),
        "a large number": lambda scores, lengths: scores.masked_fill(padding_of(scores, lengths), -1e9),
        "added": lambda scores, lengths: scores + torch.where(padding_of(scores, lengths), -torch.inf, 0.0),
    },
    "dot_attention": {
        "by einsum": by_einsum,
        "in float64": lambda query, keys, values, lengths: attend(
            scores_of(query.double(), keys.double()), values.double(), lengths
        ),
    },
    "additive_attention": {"by einsum": lambda query, keys, values, v, lengths: attend(
        torch.einsum("btsk,k->bts", (query.unsqueeze(2) + keys.unsqueeze(1)).tanh(), v), values, lengths
    )},
    "diagnosis": {"in capitals": {"A": "Softmax over the  target", "B": "No scale", "C": "Mask after the softmax"}},
}  # fmt: skip


@pytest.mark.parametrize("exercise", course.exercises)
def test_the_check_tells_right_from_wrong(exercise):
    course.assert_judges(exercise, WRONG[exercise], right=RIGHT[exercise])


@pytest.mark.notebook
def test_it_runs_without_problems(ran):
    assert ran.problems() == []


@pytest.mark.notebook
def test_the_predictions_of_the_solutions_are_what_is_computed(ran):
    assert {name: ran.truth(name) for name in course.solutions.PREDICTIONS} == course.solutions.PREDICTIONS


@pytest.mark.notebook
def test_a_mask_and_an_alignment_are_drawn_in_a_view(ran):
    assert [data["exercise"] for data in ran.records("mask")] == ["tea_mask"]
    assert [data["exercise"] for data in ran.records("alignment")] == ["drawn"]


@pytest.mark.notebook
def test_the_padding_has_scores_of_0_before_the_mask_and_no_weight_after_it(ran):
    (weights,) = ran.shown("05-panels-cell")
    _, scores, scaled, hidden = re.split(r"\d (?:scores|scaled|masked) .*", ran.printed("05-panels-cell"))
    assert [part.split()[0] for part in scaled.strip().splitlines()] == ["T", "IY", "<end>"]
    assert scores.count(" 0.00") == scaled.count(" 0.00") >= 12 and hidden.count("-inf") == 12
    numbers = [[float(number) for number in re.findall(r"-?\d+\.\d\d", part)] for part in (scores, scaled)]
    assert numbers[0] == pytest.approx([16 * number for number in numbers[1]], abs=0.1)
    rows = weights_in(weights)
    assert len(rows) == 3 and all(sum(row) == pytest.approx(1, abs=0.02) and not any(row[3:]) for row in rows)


@pytest.mark.notebook
def test_the_students_attention_is_that_of_rf(ran):
    assert float(ran.printed("05-same-cell")) < 1e-5


@pytest.mark.notebook
def test_the_model_of_dates_is_right_and_looks_where_the_characters_come_from(ran):
    assert "2021-03-03" in ran.shown("05-align-view")[-1]
    assert int(re.search(r"(\d+) %", ran.printed("05-align-share-cell"))[1]) >= 90


@pytest.mark.notebook
def test_both_starts_are_as_good_until_the_attention_is_taken_away(ran):
    text = ran.printed("05-zeros-without-view")
    ends = {
        start: tuple(map(float, re.search(rf"from {start}: +(\S+) % .* (\S+) %", text).groups()))
        for start in ("encoder", "zeros")
    }
    assert abs(ends["encoder"][0] - ends["zeros"][0]) < 3
    assert ends["encoder"][1] > ends["zeros"][1] + 10


@pytest.mark.notebook
def test_the_three_versions_have_the_sums_that_the_hints_say(ran):
    _, sharp, after = (weights_in(text) for text in ran.shown("05-break-views"))
    assert all(sum(row) == pytest.approx(1, abs=0.02) for row in sharp)
    assert any(sum(row) < 0.9 for row in after)


@pytest.mark.notebook
def test_without_the_scale_the_gradient_falls_as_keys_grow(ran):
    text = ran.shown("05-scale-view")[1]
    (first, last) = map(float, re.search(r"no scale .*first (\S+), last (\S+)", text).groups())
    assert last < first / 5
    (first, last) = map(float, re.search(r"scaled .*first (\S+), last (\S+)", text).groups())
    assert last > first / 2
