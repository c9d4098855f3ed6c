"""Position: where a run stands, and what can be read and changed there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from rfnb.control.attention_edits import KnownWeights
from rfnb.control.attention_rows import PositionAttention, RowEdit
from rfnb.control.changes import as_given
from rfnb.control.live_runs import PositionMember, RunMember
from rfnb.control.state_value import Make, StateValue
from rfnb.core.errors import NearNames, missing_key_error, nearest, runtime_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.core.tree import leaves, map_nested
from rfnb.rec.selections import LabelDecision
from rfnb.trace.match import is_end_of


class GateStep(Protocol):
    """The step that stands at the gate."""

    def states_now(self) -> Mapping[str, Any]:
        """The states by name, nested as they are."""

    def edit(self, name: str, value: Any) -> None:
        """Replace the current value of a state; called in the run's thread."""

    def decide(self, decided: Sequence[LabelDecision]) -> str:
        """Set decisions for the next choice, all or none; called in the run's thread. Returns the labels as text."""

    def change_length(self, kind: str, seq: int, hypothesis: Any) -> str:
        """ "end" a sequence or hypothesis, or let it "go_on"; called in the run's thread. Returns a description."""

    def attention_known(self) -> Mapping[str, KnownWeights]:
        """The paths that have attended so far in the run."""

    def attend(self, edit: RowEdit, steps: int | None) -> str:
        """Edit attention weights in the next steps, or in all for None; called in the run's thread. Returns a description."""


Change = Callable[["Position"], Any]
"""A function that user code applies to a position; its changes go through `Position.do`."""

Edit = Callable[["Position"], str]
"""One change of a position; returns a description of it."""


class Position(RunMember, NearNames):
    """The place before a step of a loop, with its states.

    Attributes:
        loop: The name of the loop.
        path: The names of the surrounding loops and its own.
        step: The next step, from 0.
        tick: The number of steps of any loop begun before.
        states: Values before the step, by name; may be changed.
        attention: Rows of the weights that the next steps compute, by path; may be changed.
        values: The values given to `rf.gate`.
        edit_model: Replaces values of the recorded model for a number of steps, in the run's thread.
        do: Makes one change, in the run's thread. All changes go through it, so that branches can repeat and describe them.
        is_left: Whether the run has moved on from here.
        is_end: Whether no step follows: the loop has run its last one, and nothing can be changed here.
    """

    def __init__(
        self,
        loop: str,
        path: str,
        step: int,
        tick: int,
        held: GateStep,
        values: Mapping[str, Any] | None = None,
        done: Callable[[Position, Edit, str], None] = lambda at, edit, words: None,
    ):
        self.loop, self.path, self.step, self.tick = loop, path, step, tick
        self.values = values or {}
        self._held, self._done = held, done
        self.states = PositionStates(self)
        self.attention = PositionAttention(self)
        self.do: Callable[[Edit], None] = self.make
        self.edit_model: Callable[[Mapping[str, Any], int | None], str] | None = None
        self.is_left = self.is_end = False

    def __repr__(self) -> str:
        if self.is_left:
            return f"<{self.words()}, which the run has left>"
        names = f", states {', '.join(self.states)}" if len(self.states) else ""
        return f"<{self.words()}{names}>"

    def words(self) -> str:
        """The place as text: 'before step 3 of "decoder"'."""
        return f'{"after the last step" if self.is_end else f"before step {self.step}"} of "{self.path}"'

    def make(self, edit: Edit) -> None:
        """Make one change here and now, and note it. For the run's thread; others use `do`.

        Raises:
            RuntimeError: If the run has moved on.
            Exception: As raised by the change; then nothing was changed.
        """
        if self.is_left:
            raise gone_on(self)
        self._done(self, edit, edit(self))

    def force(self, label: Any, *then: Any, hypothesis: Any = 0, seq: int = 0, only: bool = False) -> None:
        """Let a hypothesis take a label in this step, whatever its rank; it replaces the lowest-ranked survivor.

        Args:
            label: Its index, or its text where the labels have a vocabulary. A list: each of these labels, in separate hypotheses.
            *then: Labels of the same hypothesis in the following steps, one in each; also as one string, "AH L".
            hypothesis: Its place in the beam before this step, best first; or its labels so far, as a string ("AH L") or a list.
            seq: The sequence, if there are several.
            only: Drop all other hypotheses of this sequence in all of these steps.

        Raises:
            ValueError, IndexError: If there is no such label, hypothesis or sequence; then nothing is forced.
        """
        labels = list(label) if isinstance(label, list) else [label]
        if not labels or (len(labels) > 1 and then):
            raise value_error(
                "force: invalid labels.",
                {"label": repr(label), "then": ", ".join(map(repr, then)) or "none"},
                "Give one or several labels of this step, or one label followed by those of later steps.",
                'run.at.force("AH", "L")',
            )

        def edit(at: Position) -> str:
            text = at._held.decide([LabelDecision("force", each, hypothesis, seq, only, then) for each in labels])
            return f"forced {text} for hypothesis {hypothesis} of sequence {seq}{', and nothing else' if only else ''}"

        self.do(edit)

    def ban(self, label: Any, *, hypothesis: Any = None, seq: int = 0) -> None:
        """Forbid a label (or a list of labels) in this step, for all hypotheses or the given one; arguments as in `force`."""
        labels = list(label) if isinstance(label, list) else [label]
        if not labels:
            raise value_error(
                "ban: invalid labels.",
                {"label": "[]"},
                "Give one or several labels of this step.",
                'run.at.ban("AH")',
            )

        def edit(at: Position) -> str:
            text = at._held.decide([LabelDecision("ban", each, hypothesis, seq) for each in labels])
            return f"banned {text} for {'all hypotheses' if hypothesis is None else f'hypothesis {hypothesis}'} of sequence {seq}"

        self.do(edit)

    def edit(self, edits: Mapping[str, Any], *, steps: int | None = 1) -> None:
        """Replace values of the recorded model in the next step.

            run.at.edit({"h.1.attn.weights[head=0]": 0})        # in generate: while it computes the next token

        Args:
            edits: Replacements by place, as for `rf.edit`.
            steps: The number of steps of this loop; None: from here on.

        Raises:
            ValueError: If the run records no model (`record={"model": model}`).
            Exception: As for `rf.edit`, where it begins. A place that a call lacks ends the run with an error.
        """
        given = {text: value if callable(value) else as_given(value) for text, value in edits.items()}

        def edit(at: Position) -> str:
            if at.edit_model is None:
                raise gone_on(at)
            return at.edit_model(given, steps)

        self.do(edit)

    def end(self, seq: int = 0, hypothesis: Any = None) -> None:
        """End a sequence, or one of its hypotheses, before this step: it keeps its state and its current length.

        In a search, a hypothesis ended this way gets no end label and does not pay for one. In a loop over a ragged dim, whose lengths
        are known elsewhere, this is possible only if the loop stacks no values.

        Args:
            seq: The sequence.
            hypothesis: Its place in the beam, or its labels so far; None means all.

        Raises:
            ValueError: If that is not sound, or it has already ended; IndexError: if there is none.
        """
        self.do(lambda at: at._held.change_length("end", seq, hypothesis))

    def go_on(self, seq: int = 0, hypothesis: Any = None) -> None:
        """Resume what ended in the previous step, or was ended by `end`; arguments and errors as in `end`."""
        self.do(lambda at: at._held.change_length("go_on", seq, hypothesis))


class PositionStates(PositionMember, Mapping[str, StateValue]):
    """The states at a run's position, by dotted path or any unique end of it."""

    def __init__(self, position: Position):
        self._position = position

    def __repr__(self) -> str:
        at = self._position
        states = ", ".join(f"{path} {shape_of(leaf)} {leaf.dtype}" for path, (_, _, leaf) in self._tensors().items())
        return f'<states before step {at.step} of "{at.path}": {states or "none"}>'

    def _tensors(self) -> dict[str, tuple[str, int, Tensor]]:
        if self._position.is_left:
            raise gone_on(self._position)
        found: dict[str, tuple[str, int, Tensor]] = {}
        for name, root in self._position._held.states_now().items():
            for place, (path, leaf) in enumerate(leaves(root, name)):
                if isinstance(leaf, Tensor):
                    found[path] = name, place, leaf
        if self._position.is_left:  # it was let go meanwhile: what was found may be of the next step
            raise gone_on(self._position)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors())

    def __len__(self) -> int:
        return len(self._tensors())

    def __getitem__(self, path: str) -> StateValue:
        full, _, _, tensor = self._find(path)
        return StateValue(full, tensor, lambda make, words: self._put(full, make, words))

    def __setitem__(self, path: str, value: Any) -> None:
        self[path][...] = value

    def _find(self, path: str) -> tuple[str, str, int, Tensor]:
        tensors = self._tensors()
        ends = [each for each in tensors if isinstance(path, str) and is_end_of(path, each)]
        found = [path] if path in ends else ends
        if len(found) != 1:
            raise missing_key_error(
                f'run: {"several states end in" if found else "no state"} "{path}".',
                {"states": ", ".join(found or tensors) or "none"},
                "A state is addressed by its path, or by a unique end of it.",
                f'run.at.states["{nearest(path, found or tensors)}"]'
                if tensors
                else "run.step()    # until there are states",
            )
        return (found[0], *tensors[found[0]])

    def _put(self, path: str, make: Make, words: str) -> None:
        def edit(at: Position) -> str:
            full, name, place, _ = at.states._find(path)
            new = make(at.states[full])
            count = iter(range(place + 1))
            held = at._held
            held.edit(
                name, map_nested(lambda leaf: new if next(count, None) == place else leaf, held.states_now()[name])
            )
            return words

        self._position.do(edit)


def gone_on(position: Position) -> RuntimeError:
    """The error for a position that the run has left."""
    return runtime_error(
        "run: it has continued from here.",
        {"position": repr(position)},
        "A position can be read and changed while the run is paused there.",
        f"branch = run.from_step({position.step})",
    )
