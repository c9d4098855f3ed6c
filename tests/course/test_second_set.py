"""A second set of answers, right and wrong ones, by somebody who had not seen the checks: each is judged rightly, in words for students."""

from __future__ import annotations

import ast
import re
from collections import Counter

import pytest
from course.answers_of import LESSONS, answers_of, verdicts_of
from course.harness import Course
from seed import part_of

# What is no sentence for students: addresses, reprs of our classes, an exception of the check, and floats in full.
INTERNAL = re.compile(r"object at 0x|Tensor\{|<class|NoneType|The check can do nothing|\.\d*?[1-9]\d{7,}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("lesson", part_of(LESSONS, 3))
def test_answers_of_the_second_set_are_judged_rightly_in_words(lesson):
    verdicts = verdicts_of(lesson)
    wrongly = [f"{one.exercise}: {one.words}: {said}" for one, said in verdicts if one.is_right != said.passed]
    assert not wrongly, "\n".join(wrongly)
    vague = [f"{one.exercise}: {one.words}: {said}" for one, said in verdicts if INTERNAL.search(_own(said.message))]
    assert not vague, "\n".join(vague)
    unsolved = [f"{one.exercise}: {one.words}" for one, said in verdicts if said.status == "unsolved"]
    assert not unsolved, "they are answers, and called unsolved:\n" + "\n".join(unsolved)


def _own(message: str) -> str:
    """The message without the line of the answer that it quotes."""
    return "\n".join(line for line in message.splitlines() if not line.startswith("  line "))


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_exercise_has_three_right_answers_and_five_wrong_ones_in_its_own_arguments(lesson):
    course, answers = Course(lesson), answers_of(lesson)
    counts = Counter((one.exercise, one.is_right) for one in answers)
    few = [name for name in course.exercises if counts[name, True] < 3 or counts[name, False] < 5]
    assert not few, f"too few answers: {few}"
    cells = [ast.parse(cell.source) for cell in course.stored.cells if cell.cell_type == "code"]
    asked = {node.name: node for cell in cells for node in cell.body if isinstance(node, ast.FunctionDef)}
    for one in answers:
        (*_, made) = ast.parse(one.source).body
        if isinstance(made, ast.FunctionDef):
            assert ast.dump(made.args) == ast.dump(asked[made.name].args), f"{made.name} has other arguments now"


def test_all_lessons_have_a_file_of_answers():
    checks = Course("01_dims").folder / "checks"
    by_code = {path.stem for path in checks.glob("[0-9]*.py")} - {"00_tour"}  # whose answer is a branch that is dragged
    assert sorted(by_code) == LESSONS
