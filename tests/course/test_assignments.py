"""Each lesson makes an assignment, in which the solution of each exercise stands by itself."""

import pytest
from course.harness import NOTEBOOKS, Course

from rfnb.teaching.assignment import assignment
from rfnb.teaching.sources import source_with_needs

LESSONS = sorted(path.stem for path in (NOTEBOOKS / "solutions").glob("[0-9]*.py"))


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_makes_an_assignment_whose_solutions_pass(name, tmp_path, monkeypatch):
    monkeypatch.chdir(NOTEBOOKS)
    course = Course(name)
    assert (assignment(name, tmp_path) / f"{name}.ipynb").is_file()
    text = (NOTEBOOKS / "solutions" / f"{name}.py").read_text()
    for exercise in course.exercises:
        space: dict = {}
        exec(source_with_needs(text, exercise), space)
        result = course.judged(exercise, space[exercise])
        assert result.passed, f"{exercise}: {result}"
