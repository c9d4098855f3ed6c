"""Questions that are answered by a choice, a number, a word or a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rfnb.teaching.answer import Answer
from rfnb.teaching.card import blocks

_SHARE = 0.05  # relative tolerance of a fraction


class _Asked(Answer):
    """A question with a form of one field."""

    _fields: Any = None

    def form(self) -> dict[str, Any]:
        try:
            from rfnb.teaching.page import Form
        except ImportError:  # without ipywidgets it is answered by code
            return {}
        self._fields = Form(self)
        how = f"{self.asked()}\nOpen the notebook to answer, or answer by code: its `answer`."
        return {"text/plain": how, "text/html": blocks(how), **self._fields.data()}


class Options(_Asked):
    """A question with options to choose from."""

    def __init__(self, lesson: str, name: str, question: str, options: Sequence[Any]):
        super().__init__(lesson, name, question)
        self.options = [str(option) for option in options]
        if len(set(self.options)) < len(self.options):
            raise ValueError(f'predict: the question "{name}" has an option twice: {self.options}')

    def read(self, value: Any) -> str:
        if str(value) not in self.options:
            raise ValueError(f"{value} is none of the options: {', '.join(self.options)}")
        return str(value)

    def words(self, answer: Any) -> str:
        return str(answer)

    def judge(self, answer: Any, truth: Any) -> tuple[bool | None, str]:
        if str(truth) not in self.options:
            return False, "None of the options is right."
        return answer == str(truth), ""

    def asked(self) -> str:
        return "\n".join([*(f"  ○ {option}" for option in self.options), "Choose one and commit it."])

    def details(self) -> dict[str, Any]:
        return {"options": self.options}


class Number(_Asked):
    """A question that is answered by a number."""

    def __init__(self, lesson: str, name: str, question: str, within: float | None = None):
        super().__init__(lesson, name, question)
        self.within = within

    def read(self, value: Any) -> float:
        if value == "":
            raise ValueError("There is nothing written yet.")
        try:
            number = float(value.replace(",", ".") if isinstance(value, str) else value)
        except (TypeError, ValueError):
            raise ValueError(f"{value} is no number.") from None
        if number != number:
            raise ValueError("nan is no number.")
        return int(number) if number.is_integer() else number

    def as_data(self, answer: Any) -> Any:
        return str(answer) if answer is not None and math.isinf(answer) else answer

    def words(self, answer: Any) -> str:
        return f"{answer:.6g}" if isinstance(answer, float) else str(answer)

    def judge(self, answer: Any, truth: Any) -> tuple[bool | None, str]:
        truth = float(truth)
        within = (
            self.within
            if self.within is not None
            else 0
            if truth.is_integer() or math.isinf(truth)
            else _SHARE * abs(truth)
        )
        apart = abs(answer - truth)
        if answer == truth or apart <= within * (1 + 1e-9):
            return True, ""
        return False, f"That is {'too large' if answer > truth else 'too small'} by {apart:.4g}."

    def asked(self) -> str:
        return "A number."


class Words(_Asked):
    """A question that is answered by a word or two."""

    def read(self, value: Any) -> str:
        text = str(value).strip()
        if not text:
            raise ValueError("There is nothing written yet.")
        return text

    def words(self, answer: Any) -> str:
        return str(answer)

    def judge(self, answer: Any, truth: Any) -> tuple[bool | None, str]:
        return _folded(answer) == _folded(truth), ""

    def asked(self) -> str:
        return "A word or two."


_LEAST_WORDS = 3  # words that an explanation needs, so that one letter does not reveal the teacher's


class Explanation(Words):
    """A question that is answered in a sentence or two, and that is not judged automatically."""

    kind = "explain"

    def read(self, value: Any) -> Any:
        said = super().read(value)
        if len(str(said).split()) < _LEAST_WORDS:
            raise ValueError(f"An explanation is a sentence: {_LEAST_WORDS} words at least.")
        return said

    def judge(self, answer: Any, truth: Any) -> tuple[bool | None, str]:
        return None, ""

    def asked(self) -> str:
        return "In a sentence or two."


def _folded(text: Any) -> str:
    return "".join(str(text).casefold().split())
