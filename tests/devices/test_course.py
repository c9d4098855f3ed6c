"""Checks and questions of the course where answers are on a device: they compare values, wherever these are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from course.harness import NOTEBOOKS, Course
from seed import part_of
from simulated import NAME

import rfnb as rf
from rfnb.teaching import check_calls, check_gradient, check_padding, check_same, with_padding
from rfnb.teaching.exercises import Wrong
from rfnb.teaching.lesson import Lesson

BATCH = rf.Dim(2, name="batch")
TIME = rf.ragged_dim([3, 2], over=BATCH, name="time")
COURSES = [Course(path.stem) for path in sorted((NOTEBOOKS / "solutions").glob("*.py"))]
LONG = {"steal", "lying_word"}  # one trains for a minute, one searches many words
EXERCISES = part_of([(course, name) for course in COURSES for name in course.exercises if name not in LONG], 4)


@pytest.fixture
def on_device():
    with rf.set_default_device_ctx(NAME):
        yield


@pytest.fixture
def lesson(tmp_path):
    return Lesson("99_small", tmp_path)


def numbers(device: str) -> rf.Tensor:
    return rf.convert_to_tensor(np.arange(6, dtype=np.float32).reshape(2, 3), dims=[BATCH, TIME], device=device)


@pytest.mark.parametrize(("course", "name"), EXERCISES, ids=[f"{course.name} {name}" for course, name in EXERCISES])
def test_the_solution_passes_where_the_device_is_the_default(course, name, on_device):
    result = course.judged(name, getattr(course.solutions, name))
    assert result.passed, result


@pytest.mark.parametrize("form", [lambda x: x, lambda x: x.raw_tensor, lambda x: [x, 1.0]])
@pytest.mark.parametrize(("got", "expected"), [(NAME, "cpu"), ("cpu", NAME), (NAME, NAME)])
def test_values_are_compared_wherever_they_are(form, got, expected):
    check_same(form(numbers(got)), form(numbers(expected)))
    with pytest.raises(Wrong, match="differs in 1 of"):
        other = numbers(got)
        other.raw_tensor[0, 1] += 1
        check_same(form(other), form(numbers(expected)))


def test_other_padding_stays_on_the_device_of_the_argument():
    for device in (NAME, "cpu"):
        with rf.set_default_device_ctx("cpu" if device == NAME else NAME):
            assert with_padding(numbers(device)).raw_tensor.device.type == torch.device(device).type


def test_padding_and_gradients_are_looked_at():
    x = numbers(NAME)
    check_padding(lambda x: rf.reduce_sum(x * numbers(NAME), axis=TIME), x, nan=True)
    with pytest.raises(Wrong, match="You looked at padding"):
        check_padding(lambda x: x.raw_tensor.sum(1), x)
    x.raw_tensor.requires_grad_()
    check_gradient(rf.reduce_sum(x, axis=TIME), {"x": x})
    with pytest.raises(Wrong, match="No gradient reaches x"):
        check_gradient(rf.reduce_sum(x, axis=TIME) * 0.0, {"x": x})


def test_a_function_is_called_with_what_is_on_the_device():
    check_calls(lambda x: x.sum(), lambda x: x.sum().cpu(), [(torch.ones(2, device=NAME),)])
    with pytest.raises(Wrong, match=r"x +\[1.0, 1.0\]"):
        check_calls(lambda x: x.sum() + 1, lambda x: x.sum(), [(torch.ones(2, device=NAME),)])


def test_questions_take_answers_and_truths_that_are_on_the_device(lesson):
    lower = torch.ones(3, 3, device=NAME).tril()
    drawn = lesson.draw_mask("mask", lower > 0)
    drawn.answer = lower
    assert drawn.passed
    placed = lesson.place_alignment("place", lower / lower.sum(1, keepdim=True))
    placed.answer = rf.convert_to_tensor(lower, dims=[rf.Dim(3, name="target"), rf.Dim(3, name="source")])
    assert placed.passed
    number = lesson.predict("number", "How many?", number=True)
    number.answer = lower.sum()
    number.reveal(lower.sum())
    assert number.passed and number.answer == 6
