"""Exercises as the author of a check writes them: a function that takes an answer and says what is wrong with it.

from rfnb.teaching import exercise, wrong

@exercise("One step of the search", hints=["Look at all continuations of all hypotheses at once."])
def beam_step(answer):
    if answer(scores) != (2, 0):
        wrong("The best continuation is not the first one.")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from rfnb.core.dim import Dim
from rfnb.core.errors import message, type_error, value_error
from rfnb.teaching.brief import brief

_MANY, _MOST = 30, 1000  # entries, and letters, of a value in a message


class Wrong(Exception):
    """The answer is wrong; the message says why."""


class Unsolved(Exception):
    """There is no answer yet."""


class Exercise:
    """A question with its check; `@exercise` makes it.

    Attributes:
        name: The name of the function, and of the answer in the notebook.
        title: The subject.
        hints: Shown one after the other.
        points: Its points in a grade.
        check: Takes an answer; returns if it is right, else calls `wrong`.
    """

    def __init__(self, check: Callable[[Any], object], title: str, hints: Sequence[str], points: float):
        self.name, self.check = check.__name__, check
        self.title, self.hints, self.points = title, tuple(hints), points

    def __call__(self, answer: Any) -> None:
        self.check(answer)

    def __repr__(self) -> str:
        return f'<Exercise {self.name}: "{self.title}">'


def exercise(
    title: str, *, hints: Sequence[str] = (), points: float = 1
) -> Callable[[Callable[[Any], object]], Exercise]:
    """Turn a function that checks an answer, and calls `wrong` if it is wrong, into an exercise.

    Args:
        title: The subject, in a few words.
        hints: From the first push to almost the answer; `lesson.hint` gives one at a time.
        points: Its points in a grade.

    Raises:
        TypeError: If the title or a hint is not a string.
        ValueError: If the points are not a positive number.
    """
    if not isinstance(title, str) or isinstance(hints, str) or not all(isinstance(hint, str) for hint in hints):
        raise type_error(
            "exercise: the title is a text, and the hints are a list of texts.",
            {"title": type(title).__name__, "hints": type(hints).__name__},
            "It stands above the function that checks an answer:",
            '@exercise("One step of the search", hints=["Begin with ..."])\ndef beam_step(answer): ...',
        )
    if not points > 0:
        raise value_error(
            "exercise: the points are no positive number.",
            {"title": title, "points": points},
            "Each exercise counts something:",
            f'@exercise("{title}", points=1)',
        )
    return lambda check: Exercise(check, title, hints, points)


def wrong(what: str, values: Sequence[tuple[str, object]] = (), rule: str = "") -> NoReturn:
    """End a check: the answer is wrong.

    Args:
        what: A sentence that says what is wrong.
        values: (label, value) pairs that show it, one per line: the input, the result, the expected result.
        rule: A rule that explains the mistake.
    """
    rows = [(label, _text(value)) for label, value in values]
    raise Wrong(message(what, rows, rule).rstrip("\n"))


def _text(value: object) -> str:
    if isinstance(value, (list, tuple, dict, set)):
        return brief(value, 120 if len(value) > _MANY else _MOST)
    return str(value)[:_MOST] if isinstance(value, (str, Dim)) else brief(value, _MOST)
