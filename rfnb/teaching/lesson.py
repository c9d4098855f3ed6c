"""A lesson: the questions of a course notebook, with checks, hints and solutions from files beside it.

lesson = rf.lesson("07_search")
lesson.check("beam_step", beam_step)                     # says what is wrong
beam_step = lesson.use("beam_step", beam_step)           # the answer if it passes, else the solution
winner = lesson.predict("winner", "Which one wins?", options=["A", "B"])
winner.reveal("B")                                       # in a later cell
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from rfnb.core.errors import message, missing_key_error, runtime_error
from rfnb.teaching import answer_store, course, order
from rfnb.teaching.answer import Answer
from rfnb.teaching.card import Said
from rfnb.teaching.exercises import Exercise
from rfnb.teaching.judge import judge
from rfnb.teaching.notebook import answers_in, notebook_file
from rfnb.teaching.predict import Explanation, Number, Options, Words
from rfnb.teaching.result import Result
from rfnb.teaching.sources import source_in
from rfnb.teaching.threads import limit_threads
from rfnb.viz import display
from rfnb.viz.show import show


class Lesson:
    """The exercises of a notebook; `rf.lesson` makes it.

    Attributes:
        name: The name of the notebook file.
        folder: The folder of checks/ and solutions/.
    """

    def __init__(self, name: str, folder: Path):
        self.name, self.folder = name, folder
        self._hinted: dict[str, int] = {}
        self._solved: set[str] = set()  # exercises with a correct answer or a shown solution
        self._answers: dict[str, Answer] = {}
        # Answers from before the kernel was started, so that running the notebook again loses none. Read now, since the
        # page soon clears them.
        path = notebook_file(name) if display.shell() is not None else None
        self._stored_answers = (answers_in(path, name) if path else {}) | answer_store.load(name)

    def take_over(self, before: Lesson | None) -> None:
        """Continue with the answers of an earlier lesson object."""
        if before is not None:
            self._hinted, self._solved, self._answers = before._hinted, before._solved, before._answers

    @cached_property
    def exercises(self) -> dict[str, Exercise]:
        """The exercises by name, in the order of the file."""
        module = course.load(self.folder / "checks" / f"{self.name}.py")
        return {each.name: each for each in vars(module).values() if isinstance(each, Exercise)}

    def check(self, name: str, answer: Any) -> Result:
        """Say what is wrong with an answer; the last line of an exercise's cell. Never raises.

        Args:
            name: The name of the exercise.
            answer: A function, class or value, as the exercise asks for.
        """
        try:
            exercise = self._exercise(name)
        except Exception as error:  # a broken checks file is not the student's fault
            result = Result(self.name, name, name, "error", f"This cannot be checked: {error}")
        else:
            result = self._judge(exercise, answer)
        if display.shell() is None and not hasattr(sys, "ps1"):
            print(result)
        return result

    def use(self, name: str, answer: Any) -> Any:
        """Return the answer if it passes its check, else the solution; print one line that says which.

        Raises:
            KeyError: If there is no such exercise.
            RuntimeError: If it does not pass and there is no solution.
        """
        result = self._judge(self._exercise(name), answer)
        if result.passed:
            print(f"Going on with your {name}.")
            return answer
        if self._solutions is None or not hasattr(self._solutions, name):
            raise runtime_error(
                f"use: {name} does not pass its check, and there is no solution of it here.",
                {"exercise": result.title, "check": result.headline},
                "The cells below need it.",
                f'lesson.check("{name}", {name})',
            )
        why = "is not solved yet" if result.status == "unsolved" else "does not pass its check yet"
        print(f"Going on with the solution of {name}: yours {why}.")
        return getattr(self._solutions, name)

    def hint(self, name: str) -> Said:
        """The next hint of an exercise.

        Raises:
            KeyError: If there is no such exercise.
        """
        hints = self._exercise(name).hints
        given = min(self._hinted.get(name, 0) + 1, len(hints))
        self._hinted[name] = given
        if not hints:
            return self._said("hint", name, f"{name}: there are no hints.", "")
        lines = [f"{number}. {hint}" for number, hint in enumerate(hints[:given], 1)]
        last = (
            "That is all."
            if course.is_sealed(self._solutions_file)
            else f'That is all. The answer: lesson.solution("{name}")'
        )
        left = last if given == len(hints) else "Run it again for the next one."
        return self._said("hint", name, f"Hint {given} of {len(hints)}: {name}", "\n".join([*lines, left]), given)

    def solution(self, name: str) -> Said:
        """The source of the solution of an exercise.

        Raises:
            KeyError: If there is no such exercise.
        """
        self._exercise(name)
        path = self._solutions_file
        if course.is_sealed(path):
            said = "The solutions are sealed in this copy. Ask the person who gave it to you; lesson.use still works with them."
            return self._said("solution", name, f"{name}: the solution is not shown here.", said)
        source = source_in(course.source_of(path) or "", name)
        if not source:
            return self._said(
                "solution", name, f"{name}: the solution is not here.", "Ask the person who gave you this notebook."
            )
        self._solved.add(name)
        return self._said("solution", name, f"Solution: {name}", "\n".join("  " + line for line in source.splitlines()))

    def predict(
        self,
        name: str,
        question: str,
        *,
        options: Sequence[Any] | None = None,
        number: bool = False,
        text: bool = False,
        within: float | None = None,
    ) -> Answer:
        """Ask a question that must be answered before the result is shown. Displays it.

        Args:
            name: The name of the question, for graders and for the solutions file.
            question: One sentence.
            options: The options to choose from; or
            number: True if the answer is a number; or
            text: True if it is one or two words, compared without case and spaces.
            within: Tolerance of a number. Default: 0 for whole numbers, 5 % for others.

        Returns:
            The question, with `answer`, which code can also set, and `reveal(truth)` for a later cell.

        Raises:
            ValueError: If not exactly one of the three kinds is chosen, or there are fewer than two options.
        """
        made: Answer
        _check_kind(name, options, number, text)
        if options is not None:
            made = Options(self.name, name, question, options)
        elif number:
            made = Number(self.name, name, question, within)
        else:
            made = Words(self.name, name, question)
        return self.ask(made)

    def explain(self, name: str, question: str) -> Answer:
        """Ask a question that is answered in a sentence or two; `reveal(truth)` shows a model answer beside it. Displays it."""
        return self.ask(Explanation(self.name, name, question))

    def draw_mask(
        self,
        name: str,
        expected: Any,
        *,
        target: Sequence[Any] | None = None,
        source: Sequence[Any] | None = None,
        asked: str | None = None,
        why: Callable[[int, int], str | None] | None = None,
        **options: Any,
    ) -> Answer:
        """Ask for a mask, drawn in a view and judged at once: the feedback says which cell is wrong, and why. Displays it.

        Args:
            name: The name of the question.
            expected: {target, source}: true or 1 where a target may attend to a source; a Tensor, an array or nested lists.
            target, source: Labels. Default: numbers.
            asked: The task, in a sentence.
            why: Returns the reason for a wrong cell by row and column, or None. Default: a reason derived from the mask.
            **options: `target_dim`, `source_dim` of a Tensor, as in `rf.viz.attention`.

        Returns:
            As in `predict`; its `reveal()` needs no truth.

        Raises:
            ValueError: If it is not a mask, or has too many cells to draw by hand.
            ShapeError: If it has several sequences or heads.
        """
        from rfnb.teaching.view_questions import InView  # imported with its views at the first question of this kind
        from rfnb.viz.question.mask import mask_spec

        made = mask_spec(name, expected, target=target, source=source, asked=asked, why=why, **options)
        return self.ask(InView(self.name, made, options))

    def place_alignment(
        self,
        name: str,
        expected: Any,
        *,
        target: Sequence[Any] | None = None,
        source: Sequence[Any] | None = None,
        asked: str | None = None,
        enough: float = 0.7,
        forward: bool | None = None,
        **options: Any,
    ) -> Answer:
        """Ask for an alignment, drawn in a view and then compared row by row with the real one. Displays it.

        The agreement of a row is the overlap (sum of minima) of the weights and the drawing, spread evenly over its
        cells, relative to the best possible drawing, which has agreement 1.

        Args:
            name: The name of the question.
            expected: {target, source}: weights, or an alignment of labels to frames (`ctc.align(text)`). Rows without weight are skipped.
            target, source: Labels. Default: those of the alignment, else numbers.
            asked: The task, in a sentence.
            enough: The mean agreement needed to pass.
            forward: Whether rows must be monotonic. Default: True for alignments of labels, and for those of 0 and 1 that are monotonic.
            **options: `target_dim`, `source_dim` of a Tensor, as in `rf.viz.attention`.

        Returns:
            As in `predict`; its `reveal()` needs no truth.

        Raises:
            ValueError: If these are not weights, or have too many cells to draw by hand.
            ShapeError: If it has several sequences or heads.
        """
        from rfnb.teaching.view_questions import InView
        from rfnb.viz.question.alignment import alignment_spec

        made = alignment_spec(
            name, expected, target=target, source=source, asked=asked, enough=enough, forward=forward, **options
        )
        return self.ask(InView(self.name, made, options))

    def be_the_beam(self, name: str, search: Any, *, steps: int = 3, **options: Any) -> Answer:
        """Ask to do steps of a search by hand in a view: which continuations survive? Judged at once. Displays it.

        Args:
            name: The name of the question.
            search: A trace, a result of `rf.beam_search`, a history, a view of a search, or a dict of fields as in `rf.viz.beams`.
            steps: The number of steps.
            **options: `first` (the first step, default 0), `top` (minimal number of labels shown per hypothesis,
                default 5), `seq` (index in the batch, default 0), `path` (for a trace with several searches), `asked`.

        Returns:
            As in `predict`; its `reveal()` needs no truth.

        Raises:
            ValueError: If it does not keep the best sums of log probabilities, or no pruned candidate is recorded.
            KeyError: If the trace has no such search.
        """
        from rfnb.teaching.view_questions import InView
        from rfnb.viz.question.beam import beam_spec

        return self.ask(InView(self.name, beam_spec(name, search, steps=steps, **options)))

    def ask(self, answer: Answer) -> Answer:
        """Display a question of any kind, with the answer committed when its cell ran before."""
        before = self._answers.get(answer.name)
        self._answers[answer.name] = answer
        answer.tell = self._keep
        if before is not None:  # its form may still exist, e.g. if a cell was copied
            before.newer = answer
        answer.go_on(before.data() if before is not None else self._stored_answers.get(answer.name, {}))
        return answer.show()

    def _keep(self) -> None:
        """Store all answers, so that none is lost if the kernel dies."""
        given = {name: each.data() for name, each in self._answers.items() if each.answer is not None}
        answer_store.save(self.name, self._stored_answers | given)

    def file(self, name: str) -> Path:
        """The path of a file of the course, e.g. "data/dates.json".

        Raises:
            FileNotFoundError: If it does not exist.
        """
        path = self.folder / name
        if not path.exists():
            raise FileNotFoundError(f'lesson "{self.name}": {course.missing(path)}')
        return path

    def module(self, name: str) -> ModuleType:
        """The module of a Python file beside the notebook, e.g. "data/clinic.py".

        Raises:
            FileNotFoundError: If it does not exist.
        """
        return course.load(self.folder / name)

    def after(self, name: str | Sequence[str], *what: Any) -> Said | None:
        """Show material that gives away the answer to a question, such as a view of it; until that is allowed, show only a placeholder.

        Args:
            name: The question, which must be revealed or passed first, since its answer may be changed until then; or
                an exercise, which must be solved first; or several of them.
            what: Texts, values that `rf.show` draws, and functions that show something.

        Raises:
            KeyError: If the question has not been asked yet.
        """
        for one in [name] if isinstance(name, str) else name:
            if (first := self._first(one)) and not course.reveals_all():
                said = f"{first} above; then run this cell again."
                return self._said("after", one, "○ To be seen after an answer", said)
        for part in what:
            if isinstance(part, str):
                print(part)
            elif callable(part) and not isinstance(part, type):
                part()
            else:
                show(part)
        return None

    def _first(self, name: str) -> str:
        """The sentence that says what to do first before the answer to a question or exercise may be shown; "" if it may be."""
        asked = self._answers.get(name)
        if asked is not None:
            waits = not (asked.revealed or asked.passed)
            return f"{asked.question}\n{'Answer it' if asked.answer is None else 'Reveal its truth'}" if waits else ""
        if name in self.exercises:
            return "" if name in self._solved else f"{self.exercises[name].title}\nSolve it"
        raise missing_key_error(
            f'Lesson "{self.name}": the question "{name}" was not asked yet.',
            {"asked": ", ".join(self._answers) or "none"},
            "Its cell is above: run that first.",
        )

    def _judge(self, exercise: Exercise, answer: Any) -> Result:
        result = judge(self.name, exercise, answer)
        if result.passed:
            self._solved.add(exercise.name)
        return result

    def _exercise(self, name: str) -> Exercise:
        found = self.exercises.get(name)
        if found is None:
            raise missing_key_error(
                f'Lesson "{self.name}": there is no exercise "{name}".',
                {"exercises": ", ".join(self.exercises)},
                "An exercise has the name of the function that checks it.",
                f'lesson.check("{next(iter(self.exercises), "name")}", ...)',
            )
        return found

    @property
    def _solutions_file(self) -> Path:
        return self.folder / "solutions" / f"{self.name}.py"

    @cached_property
    def _solutions(self) -> ModuleType | None:
        return course.load(self._solutions_file) if course.source_of(self._solutions_file) is not None else None

    def _said(self, kind: str, name: str, headline: str, body: str, number: int | None = None) -> Said:
        data = {"kind": kind, "lesson": self.name, "exercise": name} | ({"number": number} if number else {})
        said = Said(headline, body, data)
        if display.shell() is None and not hasattr(sys, "ps1"):
            print(said)
        return said

    def __repr__(self) -> str:
        return f'<Lesson "{self.name}": {", ".join(self.exercises)}>'


def lesson(name: str) -> Lesson:
    """The lesson of a course notebook: its checks, hints, predictions and solutions.

    In a notebook, a NameError from cells run out of order then also names the cell that defines the name.

    Args:
        name: The name of the notebook, e.g. "07_search". Its checks are in the kernel's folder, else in the installed course.

    Raises:
        FileNotFoundError: If there is no such lesson.
    """
    found = Lesson(name, course.folder_of(name))
    shell = display.shell()
    if shell is not None:  # the first cell was run again: keep the answers
        lessons = vars(shell).setdefault("_rfnb_lessons", {})
        found.take_over(lessons.get(name))
        lessons[name] = found
    order.install(name)
    limit_threads()
    return found


def _check_kind(name: str, options: Sequence[Any] | None, number: bool, text: bool) -> None:
    if (options is not None) + number + text != 1 or (options is not None and len(options) < 2):
        raise ValueError(
            message(
                f'predict: the question "{name}" is answered in one way.',
                {"options": options, "number": number, "text": text},
                "There are two options or more to choose from, a number, or a word or two.",
                f'lesson.predict("{name}", "Which one?", options=["this", "that"])',
            )
        )
