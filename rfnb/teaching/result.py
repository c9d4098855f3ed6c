"""The result of a check: a card in a notebook, text in a terminal, data for a grader."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rfnb.teaching.card import MIME, card

_MARKS = {"passed": "✓", "wrong": "✗", "error": "✗", "unsolved": "○"}
_WORDS = {"passed": "passed", "wrong": "not yet right", "error": "stopped with an error", "unsolved": "not solved yet"}


@dataclass(frozen=True)
class Result:
    """The verdict of a check.

    Attributes:
        lesson, exercise, title: The checked exercise.
        status: "passed", "wrong", "error" (the answer raised one) or "unsolved".
        message: A description of what is wrong.
        points: The points of the exercise in a grade.
        answer: The source of a function or class, else its repr.
    """

    lesson: str
    exercise: str
    title: str
    status: str
    message: str
    points: float = 1
    answer: str = ""

    @property
    def passed(self) -> bool:
        """Whether the answer is right."""
        return self.status == "passed"

    @property
    def headline(self) -> str:
        """`✓ beam_step: passed`"""
        return f"{_MARKS[self.status]} {self.exercise}: {_WORDS[self.status]}"

    def data(self) -> dict[str, Any]:
        """The data that the notebook keeps for a grader."""
        return {
            "kind": "check", "lesson": self.lesson, "exercise": self.exercise, "title": self.title,
            "passed": self.passed, "status": self.status, "message": self.message, "points": self.points,
            "answer": self.answer,
        }  # fmt: skip

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return f"{self.headline}\n{self.message}"

    def _repr_mimebundle_(self, include: Iterable[str] | None = None, exclude: Iterable[str] | None = None) -> Any:
        tone = {"passed": "good", "unsolved": "open"}.get(self.status, "bad")
        return {"text/plain": repr(self), "text/html": card(self.headline, self.message, tone), MIME: self.data()}
