"""An answer given before the truth is shown: the base class of all questions except code exercises.

A kind of question defines `read` (parses an answer, or raises a ValueError with a sentence), `words` (an answer as text), `judge`
(whether it is right, and what is wrong), `asked` (how to answer, as text), and `form` (the live form in a page). A question that is
judged at once passes its truth to `__init__`; others get it from `reveal`. The answer is stored as data in the output of the notebook,
and is kept when the cell runs again.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from rfnb.core.errors import runtime_error
from rfnb.teaching.card import MIME, Said, card
from rfnb.teaching.course import reveals_all
from rfnb.viz import display
from rfnb.viz.show import show

_NO_TRUTH: Any = object()


class Answer(ABC):
    """A question with its answer.

    Attributes:
        kind: The kind of question, in the data for a grader.
        lesson, name, question: The lesson, the name in it, and the text of the question.
        revealed: Whether the truth was shown; the answer is then final.
        newer: The same question, asked again; an answer given here counts for that one.
        tell: Called when the answer changes, or the truth is revealed.

    Args:
        truth: For a question that is judged at once; a function is called to get it.
    """

    kind = "predict"

    def __init__(self, lesson: str, name: str, question: str, *, truth: Any = _NO_TRUTH):
        self.lesson, self.name, self.question = lesson, name, question
        self.revealed = False
        self.newer: Answer | None = None
        self.tell: Callable[[], None] = lambda: None
        self._answer: Any = None
        self._given_truth = truth
        self._card: Any = None  # of the displayed outputs
        self._form: Any = None
        self._shown_in: int | None = None

    @abstractmethod
    def read(self, value: Any) -> Any:
        """The answer that a value stands for.

        Raises:
            ValueError: If it is not an answer, with a sentence that says why.
        """

    @abstractmethod
    def words(self, answer: Any) -> str:
        """An answer, or the truth, as text."""

    @abstractmethod
    def judge(self, answer: Any, truth: Any) -> tuple[bool | None, str]:
        """Whether an answer is right (None if no rule can tell), and what is wrong with it; "" if nothing needs to be said."""

    @abstractmethod
    def asked(self) -> str:
        """Instructions on how to answer, as lines of text."""

    def form(self) -> dict[str, Any]:
        """MIME data of the live form, with text and HTML as fallbacks; {} if there is no form."""
        return {}

    def closed_form(self) -> dict[str, Any]:
        """The MIME data that replaces the form once the truth is revealed."""
        return {"text/plain": ""}

    def as_data(self, answer: Any) -> Any:
        """The answer in a form that JSON can hold and `read` accepts."""
        return answer

    def details(self) -> dict[str, Any]:
        """Further entries of the data for a grader."""
        return {}

    @property
    def answer(self) -> Any:
        """The committed answer, or None. Assign to it to answer by code."""
        return self._answer

    @answer.setter
    def answer(self, value: Any) -> None:
        self.commit(value)

    def commit(self, value: Any) -> None:
        """Record an answer; it may be changed until the truth is revealed.

        Raises:
            ValueError: If it is not an answer to the question.
            RuntimeError: If the truth was revealed already.
        """
        if self.newer is not None:
            self.newer.commit(value)
            self.go_on(self.newer.data())
            self.refresh()
            return
        if self.revealed:
            raise runtime_error(
                f'The question "{self.name}" is answered: its truth was revealed.',
                {"answer": self.words(self._answer) if self._answer is not None else "none"},
                "A prediction is made before.",
            )
        self._answer = self.read(value)
        self.refresh()
        self.tell()

    @property
    def passed(self) -> bool | None:
        """Whether the answer is right; None before the truth is known, or if no rule can decide."""
        if self._given_truth is _NO_TRUTH:
            return None
        return False if self._answer is None else self.judge(self._answer, self._truth())[0]

    def reveal(self, truth: Any = _NO_TRUTH, why: Any = None) -> Said:
        """Show the answer beside the truth; without an answer, say so and do not show the truth.

        Args:
            truth: A value, or a function that returns it, e.g. from a recording. Not needed if the question is judged at once.
            why: An explanation: a text, a value that `rf.show` draws, or a tuple of these. It is also hidden without an answer.

        Raises:
            TypeError: If there is no truth.
        """
        known = self._given_truth if truth is _NO_TRUTH else truth
        if known is _NO_TRUTH:
            raise TypeError(f'reveal: the question "{self.name}" needs its truth: reveal(truth)')
        if self._answer is None and not reveals_all():
            said = Said(
                f"○ {self.name}: no answer yet", f"{self.question}\nAnswer it first, above; then run this cell again.",
                self._record("reveal"), "open",
            )  # fmt: skip
        else:
            known = known() if callable(known) else known
            if self._answer is not None:  # otherwise the question can still be answered
                self._given_truth, self.revealed = known, True
                self.tell()
            said = self._verdict(known, why)
            for part in _parts(why):
                if not isinstance(part, str):
                    show(part)
            self.refresh()
        if display.shell() is None and not hasattr(sys, "ps1"):
            print(said)
        return said

    def data(self) -> dict[str, Any]:
        """The data that the notebook keeps for a grader."""
        return self._record(self.kind)

    def go_on(self, data: dict[str, Any]) -> None:
        """Restore the previous answer from `data`; ignore entries that do not fit the question any more."""
        try:
            self._answer = None if data.get("answer") is None else self.read(data["answer"])
        except ValueError:
            return
        self.revealed = bool(data.get("revealed")) and self._answer is not None

    def show(self) -> Answer:
        """Display the question: in a notebook a card and a form below it, else as text. Returns itself."""
        if display.shell() is None:
            print(self.text())
            return self
        form = {} if self.revealed else self.form()
        # Two outputs: committing an answer updates the card, and the form keeps the keyboard focus.
        self._card, self._form = display.publish(self._card_bundle(bool(form))), None
        if form:
            self._form = display.publish(form)
        self._shown_in = display.execution_count()
        return self

    def refresh(self) -> None:
        """Update the displayed outputs, and so the data in the notebook."""
        if self._card is not None:
            display.republish(self._card, self._card_bundle(self._form is not None))
        if self._form is not None and self.revealed:
            display.republish(self._form, self.closed_form())
            self._form = None

    def text(self) -> str:
        """The question, how to answer it, and the answer if there is one."""
        return f"{self._headline()}\n{self._body(with_form=False)}".rstrip()

    def _card_bundle(self, with_form: bool) -> dict[str, Any]:
        headline, body = self._headline(with_form=with_form), self._body(with_form=with_form)
        text = f"{headline}\n{body}".rstrip()
        return {"text/plain": text, "text/html": card(headline, body, self._tone()), MIME: self.data()}

    def _headline(self, *, with_form: bool = False) -> str:
        mark = {True: "✓", False: "✗", None: "●"}[self.passed] if self._answer is not None else "○"
        return f"{mark} {self.question}"

    def _tone(self) -> str:
        return {True: "good", False: "bad", None: "plain"}[self.passed] if self._answer is not None else "open"

    def _body(self, *, with_form: bool) -> str:
        if self._answer is None:
            return "" if with_form else self.asked()
        lines = [f"Your answer: {self.words(self._answer)}"]
        truth = self._truth()
        if truth is not _NO_TRUTH:
            lines += [f"It is: {self.words(truth)}"] if self.revealed else []
            lines.append(self.judge(self._answer, truth)[1])
        elif not self.revealed:
            lines.append("You may change it until the truth is revealed.")
        return "\n".join(line for line in lines if line)

    def _verdict(self, truth: Any, why: Any) -> Said:
        passed, wrong = (None, "") if self._answer is None else self.judge(self._answer, truth)
        lines = [] if self._answer is None else [f"Your answer: {self.words(self._answer)}"]
        lines += [f"It is: {self.words(truth)}", wrong]
        lines += [part for part in _parts(why) if isinstance(part, str)]
        mark, said, tone = {
            True: ("✓", "your answer was right", "good"), False: ("✗", "your answer was wrong", "bad"), None: ("●", "revealed", "plain"),
        }[passed]  # fmt: skip
        body = "\n".join([self.question, *(line for line in lines if line)])
        record = self._record("reveal") | {"truth": self.words(truth)}
        return Said(f"{mark} {self.name}: {said}", body, record, tone)

    def _truth(self) -> Any:
        if callable(self._given_truth):
            self._given_truth = self._given_truth()
        return self._given_truth

    def _record(self, kind: str) -> dict[str, Any]:
        known = self._given_truth is not _NO_TRUTH and self._answer is not None
        return {
            "kind": kind, "lesson": self.lesson, "exercise": self.name, "question": self.question,
            "answer": self.as_data(self._answer), "committed": self._answer is not None, "revealed": self.revealed,
            "passed": self.passed if known else None, "truth": self.words(self._truth()) if known else None,
            **self.details(),
        }  # fmt: skip

    def _repr_mimebundle_(self, include: Iterable[str] | None = None, exclude: Iterable[str] | None = None) -> Any:
        return self._card_bundle(False)

    def _ipython_display_(self) -> None:
        display.show_once(self)

    def __repr__(self) -> str:
        return self.text()


def _parts(why: Any) -> tuple[Any, ...]:
    return why if isinstance(why, tuple) else () if why is None else (why,)
