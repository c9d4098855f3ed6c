"""Checks, hints and solutions of a lesson, in a plain script: everything is text."""

import random
import textwrap

import numpy as np
import pytest
import torch
from asserting import raises_message

import rfnb as rf
from rfnb.teaching import exercise
from rfnb.teaching.card import MIME
from rfnb.teaching.lesson import Lesson


def says(result, text):
    assert repr(result) == textwrap.dedent(text).strip("\n")


def test_a_right_answer_passes_and_says_so_in_green_text_and_data(lesson, capsys):
    result = lesson.check("add", lambda a, b: b + a)
    assert result.passed and bool(result)
    says(result, "✓ add: passed\nThe sum of two numbers")
    assert capsys.readouterr().out == repr(result) + "\n"  # no notebook here
    bundle = result._repr_mimebundle_()
    assert "✓ add: passed" in bundle["text/html"] and bundle["text/plain"] == repr(result)
    data = bundle[MIME]
    assert (data["lesson"], data["exercise"], data["passed"], data["points"]) == ("99_small", "add", True, 2)


def test_a_wrong_answer_is_told_the_smallest_input_that_fails(lesson):
    says(
        lesson.check("add", lambda a, b: a * b),
        """
        ✗ add: not yet right
        The result is another number:
          a         1
          b         2
          got       2
          expected  3
        """,
    )


def empty(a, b): ...


def with_docstring(a, b):
    """The sum."""


def passes(a, b):
    pass


def raises(a, b):
    raise NotImplementedError


def gives_dots(a, b):
    return ...


def halfway(a, b):
    total = ...
    return total + a


@pytest.mark.parametrize("answer", [..., None, empty, with_docstring, passes, raises, gives_dots, halfway])
def test_what_is_not_written_yet_is_unsolved_and_not_wrong(lesson, answer):
    result = lesson.check("add", answer)
    assert (result.status, result.passed) == ("unsolved", False)
    assert result.headline == "○ add: not solved yet"


def test_the_line_that_is_still_open_is_shown(lesson):
    assert lesson.check("add", halfway).message == "There is still a `...` to be replaced: total = ..."


def test_dots_that_are_part_of_an_answer_do_not_count(lesson):
    def add(a, b):
        "The sum."
        return np.array([a + b])[..., 0]

    def wrong(a, b):
        return np.array([a - b])[..., 0]

    assert lesson.check("add", add).passed
    assert lesson.check("add", wrong).status == "wrong"


def helper(a):
    return a / 0


def crashes(a, b):
    return helper(a)


def test_an_error_of_the_answer_is_shown_with_its_line_and_the_input(lesson):
    line = helper.__code__.co_firstlineno + 1
    says(
        lesson.check("add", crashes),
        f"""
        ✗ add: stopped with an error
        add raises ZeroDivisionError:
          line {line}  return a / 0
          a{" " * len(f"line {line}"[1:])}  1
          b{" " * len(f"line {line}"[1:])}  2
        division by zero
        """,
    )


def too_few(a):
    return a


def leaves(a, b):
    raise SystemExit("bye")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (too_few, "takes 1 positional argument but 2 were given"),
        (leaves, "bye"),
        (3, "This is no function."),
        ("text", "This is no function."),
        (lambda a, b: print(a + b), "It returns None."),
        (lambda a, b: "3", "no number"),
    ],
)
def test_no_answer_lets_a_check_raise(lesson, answer, said):
    result = lesson.check("add", answer)
    assert not result.passed and said in result.message


class Odd:
    def __repr__(self):
        raise RuntimeError("no words")

    def __eq__(self, other):
        raise RuntimeError("not to be compared")


class OddError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def raises_odd(a, b):
    raise OddError


def endless(a, b):
    return endless(a, b)


@pytest.mark.parametrize(
    "answer", [Odd(), Odd, lambda a, b: Odd(), raises_odd, endless, [Odd()], np.zeros(3), {1: ...}]
)
@pytest.mark.parametrize("name", ["add", "prime"])
def test_whatever_is_answered_something_is_said(lesson, name, answer):
    result = lesson.check(name, answer)
    assert not result.passed and result.message and repr(result)


def test_a_huge_answer_is_shown_in_part(lesson):
    assert len(lesson.check("prime", list(range(100_000))).message) < 300


def test_an_unknown_exercise_is_said(lesson):
    result = lesson.check("ad", 3)
    assert not result.passed and 'there is no exercise "ad"' in result.message and "add, prime" in result.message


def test_a_value_is_checked_as_a_function_is(lesson):
    assert lesson.check("prime", 7).passed
    says(lesson.check("prime", 5), "✗ prime: not yet right\nThere is a larger one.\n  got  5")


def test_use_goes_on_with_what_passes_else_with_the_solution(lesson, capsys):
    def own(a, b):
        return b + a

    assert lesson.use("add", own) is own
    assert lesson.use("add", empty)(2, 3) == 5
    assert lesson.use("add", crashes)(2, 3) == 5
    assert capsys.readouterr().out.splitlines() == [
        "Going on with your add.",
        "Going on with the solution of add: yours is not solved yet.",
        "Going on with the solution of add: yours does not pass its check yet.",
    ]


def test_without_solutions_checks_work_and_use_says_what_is_missing(folder):
    (folder / "solutions/99_small.py").unlink()
    lesson = rf.lesson("99_small")
    assert lesson.check("add", lambda a, b: a + b).passed
    assert "the solution is not here" in repr(lesson.solution("add"))
    with raises_message(
        RuntimeError,
        """
        use: add does not pass its check, and there is no solution of it here.
          exercise  The sum of two numbers
          check     ○ add: not solved yet
        The cells below need it.
            lesson.check("add", add)
        """,
    ):
        lesson.use("add", None)


def test_hints_come_one_at_a_time(lesson):
    says(lesson.hint("add"), "Hint 1 of 2: add\n1. Which sign is it?\nRun it again for the next one.")
    last = 'Hint 2 of 2: add\n1. Which sign is it?\n2. It is +.\nThat is all. The answer: lesson.solution("add")'
    says(lesson.hint("add"), last)
    says(lesson.hint("add"), last)
    says(lesson.hint("prime"), "prime: there are no hints.")


def test_the_source_of_a_solution_is_shown_with_its_comment(lesson):
    assert repr(lesson.solution("add")) == "\n".join(
        ["Solution: add", "  # One line is enough.", "  def add(a, b):", "      return a + b"]
    )
    assert repr(lesson.solution("prime")) == "Solution: prime\n  prime = 7"


def test_a_lesson_that_is_not_there_is_said_with_those_that_are(folder):
    with pytest.raises(FileNotFoundError) as caught:
        rf.lesson("98_small")
    said = str(caught.value).splitlines()
    assert said[0] == 'lesson: there is no lesson "98_small".' and "99_small" in said[2]


def test_a_check_leaves_the_random_numbers_of_the_notebook_alone(lesson):
    def draws(a, b):
        return a + b + 0 * (random.random() + np.random.rand() + torch.rand(()).item())

    def next_ones():
        return random.random(), np.random.rand(), torch.rand(()).item()

    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(3)
    undisturbed = next_ones()
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(3)
    assert lesson.check("add", draws).passed
    assert next_ones() == undisturbed


def test_a_broken_file_of_checks_is_said_and_does_not_raise(folder):
    (folder / "checks/99_small.py").write_text("1 / 0")
    result = rf.lesson("99_small").check("add", 3)
    assert result.message == "This cannot be checked: division by zero"


def test_an_exercise_needs_texts_and_points():
    with raises_message(
        TypeError,
        """
        exercise: the title is a text, and the hints are a list of texts.
          title  str
          hints  str
        It stands above the function that checks an answer:
            @exercise("One step of the search", hints=["Begin with ..."])
            def beam_step(answer): ...
        """,
    ):
        exercise("A title", hints="one")
    with pytest.raises(ValueError, match="the points are no positive number"):
        exercise("A title", points=0)


def test_what_a_student_writes_is_shown_and_not_run_by_the_page(lesson):
    html = lesson.check("prime", "<script>alert(1)</script>")._repr_mimebundle_()["text/html"]
    assert "<script" not in html and "&lt;script&gt;" in html


def test_what_tells_an_answer_is_shown_after_there_is_one(lesson, capsys):
    lesson.predict("winner", "Which one wins?", options=["A", "B"])
    said = lesson.after("winner", "It is A, by far.")
    assert "Answer it above" in repr(said)
    lesson._answers["winner"].answer = "B"
    assert "Reveal its truth above" in repr(lesson.after("winner", "It is A, by far."))  # else B could become A
    assert "by far" not in capsys.readouterr().out
    lesson._answers["winner"].reveal("A")
    assert lesson.after("winner", "It is A, by far.") is None
    shown = []
    for answer in (..., lambda a, b: a - b):  # a wrong one may be tried again
        lesson.check("add", answer)
        assert "Solve it above" in repr(lesson.after("add", lambda: shown.append(1))) and not shown
    lesson.check("add", lambda a, b: a + b)
    assert lesson.after(("winner", "add"), lambda: shown.append(1)) is None and shown == [1]
    assert "Solve it above" in repr(lesson.after(("winner", "prime"), "It is 7.")) and lesson.solution("prime")
    assert lesson.after("prime", "It is 7.") is None
    assert "by far" in capsys.readouterr().out
    with pytest.raises(KeyError, match='the question "loser" was not asked yet'):
        lesson.after("loser", "x")


def test_a_file_that_is_missing_is_told_with_the_command_that_brings_it(lesson):
    with pytest.raises(FileNotFoundError, match="rfnb lab .* --copy"):
        lesson.file("data/gone.json")
    with pytest.raises(FileNotFoundError, match="rfnb lab .* --copy"):
        lesson.module("data/gone.py")


def test_a_function_of_the_same_work_is_named(lesson):
    from rfnb.teaching import check_without
    from rfnb.teaching.exercises import Wrong

    check_without(lambda x: x.exp() / x.exp().sum(), (torch.ones(2),), ("softmax",), "By hand.")
    for forbidden in (lambda x: x.softmax(0), lambda x: torch.softmax(x, 0)):
        with pytest.raises(Wrong, match="It calls softmax"):
            check_without(forbidden, (torch.ones(2),), ("softmax",), "By hand.")


def test_a_check_whose_data_are_gone_blames_nobody_and_says_how_to_get_them_back(folder):
    (folder / "notebooks/checks").mkdir(parents=True)
    (folder / "notebooks/data").mkdir()
    (folder / "notebooks/checks/99_small.py").write_text(
        "from pathlib import Path\nfrom rfnb.teaching import exercise\n"
        "@exercise('The words')\ndef words(answer):\n    Path(__file__).parents[1].joinpath('data/words.txt').read_text()\n"
    )
    lesson = Lesson("99_small", folder / "notebooks")
    assert lesson.check("words", 1).message == (
        f"This cannot be checked, whatever the answer is: words.txt is not in {folder}/notebooks/data. "
        f"A command in a terminal brings back what is missing, and changes nothing else: rfnb lab {folder} --copy"
    )
