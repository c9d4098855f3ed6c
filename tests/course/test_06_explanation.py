"""06_explanation: its checks tell right from wrong, and what the notebook says is what its cells compute."""

from __future__ import annotations

import re

import numpy as np
import pytest
from course.harness import Course, weights_in

course = Course("06_explanation")


def moved(row, position, mass):
    new = (1 - mass) * np.array(row)
    new[position] += mass
    return new


def added(row, position, mass):
    new = np.array(row)
    new[position] += mass
    return new


def in_place(row, position, mass):
    row *= 1 - mass
    row[position] += mass
    return row


def replaced(row, position, mass):
    new = (1 - mass) * np.array(row)
    new[position] = mass
    return new


def expected_positions(weights):
    return np.asarray(weights) @ np.arange(weights.shape[2])


def sharpest(weights):
    return int(weights.max(-1).mean(-1).argmax())


def by_corrcoef(weights):
    rows = range(weights.shape[1])
    found = [np.corrcoef(rows, each)[0, 1] if np.ptp(each) > 1e-9 else 0 for each in expected_positions(weights)]
    return max(range(len(found)), key=lambda head: found[head])


WRONG = {
    "total_variation": {
        "twice the total variation": lambda p, q: np.abs(p - q).sum(-1),
        "The differences cancel": lambda p, q: (p - q).sum(-1),
        "These are squares": lambda p, q: ((p - q) ** 2).sum(-1) / 2,
        "This is the mean over the labels": lambda p, q: np.abs(p - q).mean(-1),
        "one number for two pairs": lambda p, q: np.abs(p - q).sum() / 2,
    },
    "move_mass": {
        "The rest is not scaled": added,
        "divided by its sum afterwards": lambda *given: added(*given) / added(*given).sum(),
        "The row that was given is changed": in_place,
        "What was at the position before is lost": replaced,
        "All other weight is gone": lambda row, position, mass: np.eye(len(row))[position] * mass,
    },
    "steal": {
        "Nothing changes, and more mass does not help": {"step": 5, "mass": 0.9},
        "Another date was written": {"step": 3, "mass": 0.9},
        "the mass is too little": {"step": 6, "mass": 0.2},
        "less is enough": {"step": 6, "mass": 0.8},
        "There are the steps 0 to 9": {"step": 10, "mass": 0.5},
        "It needs a step and a mass": (6, 0.5),
    },
    "most_monotonic": {
        "This head goes backwards": lambda weights: by_corrcoef(weights[:, ::-1]),
        "This head is sharper, and jumps": lambda weights: int(
            np.where(expected_positions(weights)[:, -1] > expected_positions(weights)[:, 0], weights.max(-1).mean(-1), 0).argmax()
        ),
        "always looks at the first position": lambda weights: int(weights[:, :, 0].mean(-1).argmax()),
        "This head is uniform": lambda weights: int(weights.max(-1).mean(-1).argmin()),
        "The index of one head is wanted": lambda weights: expected_positions(weights)[0],
    },
}  # fmt: skip

RIGHT = {
    "total_variation": {
        "by minimum": lambda p, q: 1 - np.minimum(p, q).sum(-1),
        "by maximum": lambda p, q: np.maximum(p - q, 0).sum(axis=-1),
    },
    "move_mass": {"between two rows": lambda row, position, mass: row + mass * (np.eye(len(row))[position] - row)},
    "steal": {"one thousandth more": {"step": 6, "mass": 0.465}, "text of a form": {"step": 6.0, "mass": "0.46"}},
    "most_monotonic": {"by corrcoef": by_corrcoef},
}


@pytest.mark.parametrize("exercise", course.exercises)
def test_the_check_tells_right_from_wrong(exercise):
    course.assert_judges(exercise, WRONG[exercise], right=RIGHT[exercise])


def ends(text: str, label: str) -> tuple[float, float]:
    first, last = re.search(rf"{label}.*?first (\S+), last (\S+)", text).groups()
    return float(first), float(last)


@pytest.mark.notebook
def test_it_runs_without_problems(ran):
    assert ran.problems() == []


@pytest.mark.notebook
def test_the_predictions_of_the_solutions_are_what_is_computed(ran):
    assert {name: ran.truth(name) for name in course.solutions.PREDICTIONS} == course.solutions.PREDICTIONS


@pytest.mark.notebook
def test_the_first_row_of_the_date_looks_at_not_most(ran):
    text = ran.shown("06-dates")[-1]
    assert "2021-03-03" in text.splitlines()[0]
    assert int(np.argmax(weights_in(text)[0])) == "3 march not 5 may 2021".split().index("not")


@pytest.mark.notebook
def test_all_rows_move_far_and_the_first_output_does_not(ran):
    text = ran.shown("06-rows-view")[0]
    assert min(ends(text, "the row")) > 0.4
    assert ends(text, "the output")[0] < 0.01


@pytest.mark.notebook
def test_the_output_moves_where_the_model_chooses_between_words(ran):
    (spark,) = re.findall(r"the output moved +([▁-█]{10})", ran.shown("06-rows-view")[0])
    said = "the last digits of the year, the second one of the month, the last one of the day"
    assert said in "".join(ran.shown("06-rows-reveal")) and [
        step for step, height in enumerate(spark) if height != "▁"
    ] == [2, 3, 6, 9]


@pytest.mark.notebook
def test_one_row_steals_the_month_some_break_something_else_and_some_do_nothing(ran):
    rows = [re.findall("[●·]", line) for line in ran.printed("06-steal-grid").splitlines()]
    stolen, other = rows[1:5], rows[6:10]
    by_step = [["●" in column for column in zip(*table)] for table in (stolen, other)]
    assert [step for step, hit in enumerate(by_step[0]) if hit] == [course.solutions.steal["step"]]
    assert len(by_step[1]) == 10 and 0 < sum(map(bool, by_step[1])) < 5


@pytest.mark.notebook
def test_less_than_half_of_a_row_steals_the_month_and_all_of_it_leaves_no_doubt(ran):
    assert course.solutions.steal["mass"] < 0.5
    text = ran.shown("06-steal-view")[0]
    assert ends(text, "3")[0] > 0.9 > 0.1 > ends(text, "3")[1] and ends(text, "5")[0] < 0.1 < 0.9 < ends(text, "5")[1]


@pytest.mark.notebook
def test_each_single_head_can_be_taken_away(ran):
    kept = ran.printed("06-heads-lost")
    most = float(re.search(r"at most (-?\d+\.\d) %", kept)[1])
    assert most < 5


@pytest.mark.notebook
def test_not_gets_its_weight_where_nothing_depends_on_it_and_none_where_the_month_is_written(ran):
    uniform = ends(ran.shown("06-not-view")[0], "uniform")[0]
    first, last = ends(ran.shown("06-not-view")[0], "on “not”")
    assert first > 2 * uniform and last < 0.05
    months = re.search(r"in the rows of the month (\d\.\d+)", ran.printed("06-not-view"))[1]
    assert float(months) < 0.01
