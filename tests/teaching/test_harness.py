"""The harness of the course's tests: it runs a notebook once, and finds what a test has to find."""

import nbformat
import numpy as np
import pytest
from course.harness import Course, Executed

import rfnb as rf

WRONG = {
    "got       2\n  expected  3": lambda a, b: a * b,
    "It returns None": lambda a, b: print(a + b, end=""),
    "got       -1\n  expected  3": lambda a, b: a - b,
}


@pytest.fixture
def course(folder):
    return Course("99_small", folder)


def test_a_check_that_tells_right_from_wrong_goes_through(course):
    course.assert_judges("add", WRONG, right={"sum": lambda *both: sum(both)})


def test_a_wrong_answer_that_passes_is_found(course):
    with pytest.raises(AssertionError, match="got .* is ✓ add: passed"):
        course.assert_judges("add", {**WRONG, "got something": lambda a, b: a + b})


def test_other_words_than_expected_are_found(course):
    with pytest.raises(AssertionError, match="not 'multiplied'"):
        course.assert_judges("add", {**WRONG, "multiplied": lambda a, b: a * b})


def test_a_right_answer_that_fails_is_found(course):
    with pytest.raises(AssertionError, match="add: text does not pass"):
        course.assert_judges("add", WRONG, right={"text": lambda a, b: str(a + b)})


def test_less_than_three_wrong_answers_are_found(course):
    with pytest.raises(AssertionError, match="add: 1 wrong answers"):
        course.assert_judges("add", {"It returns None": lambda a, b: print(end="")})


def test_a_cell_that_is_solved_in_the_notebook_is_found(course):
    course.stored.cells[2].source = 'def add(a, b):\n    return a + b\nlesson.check("add", add)'
    with pytest.raises(AssertionError, match="the unsolved cell of add is ✓ add: passed"):
        course.assert_judges("add", WRONG)


def test_code_to_be_mended_is_not_unsolved_and_says_what_is_wrong(course):
    course.stored.cells[2].source = 'def add(a, b):\n    return a * b\nlesson.check("add", add)'
    course.assert_judges("add", WRONG, broken="got       2")
    with pytest.raises(AssertionError, match="the unsolved cell of add is ✗ add"):
        course.assert_judges("add", WRONG, broken="got       7")
    with pytest.raises(AssertionError, match="the unsolved cell of add is ✗ add"):
        course.assert_judges("add", WRONG)


def test_an_unsolved_cell_is_no_code_to_be_mended(course):
    with pytest.raises(AssertionError, match="the unsolved cell of add is ○ add"):
        course.assert_judges("add", WRONG, broken="is still a")


@pytest.mark.notebook
def test_a_notebook_is_run_once_and_read(course):
    ran = course.executed()
    assert ran.problems() == []
    assert course.executed() is ran
    assert ran.printed("total = ").splitlines()[-1] == "5"
    assert [(each["exercise"], each["status"]) for each in ran.records("check")] == [
        ("add", "unsolved"),
        ("prime", "unsolved"),
    ]
    assert ran.truth("winner") == "A"
    assert "It is: A" in ran.shown("99-4")[0]


@pytest.mark.parametrize(
    ("rows", "found"), [(70, ["99-map: letters of 9 pixels on a slide; draw fewer rows or columns"]), (12, [])]
)
def test_a_picture_whose_letters_are_too_small_on_a_slide_is_found(rows, found):
    view = rf.viz.attention(np.full((rows, 30), 1 / 30), source=[*"abcdefghij" * 3], target=["T"] * rows)
    cell = nbformat.v4.new_code_cell(
        outputs=[nbformat.v4.new_output("display_data", view._repr_mimebundle_())], id="99-map"
    )
    ran = Executed(nbformat.v4.new_notebook(cells=[cell]), '[A map](../99.ipynb "99-map"): of many rows.')
    assert [one for one in ran.problems() if "letters" in one] == found
    cell.outputs = []
    assert ran.problems() == ["99-map: no picture for its slide"]
