"""The steps of held loops, which begin when the run lets them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rfnb.control.attention_edits import fewer_steps
from rfnb.control.length_edits import change_length
from rfnb.core.dim import Dim, Dims, HostArray
from rfnb.core.errors import value_error
from rfnb.rec import loop_stack
from rfnb.rec.loop_step import Step, StepAround
from rfnb.rec.selections import LabelDecision
from rfnb.rec.while_loop import check_state
from rfnb.search.forced_labels import check, resolved
from rfnb.search.labels import hypothesis_index
from rfnb.trace.probe import listening, trace_context

if TYPE_CHECKING:
    from rfnb.control.attention_edits import KnownWeights
    from rfnb.control.attention_rows import RowEdit
    from rfnb.control.holder import Holder
    from rfnb.rec.loop import Loop


class Length(NamedTuple):
    """The number of steps of a loop, as far as known when it begins.

    Attributes:
        steps: The number or maximum of steps; None if unknown.
        exact: Whether it runs exactly this many.
        axis: The name of the dim that it runs over.
    """

    steps: int | None
    exact: bool
    axis: str


class HeldStep(StepAround):
    """The held step of a Loop.

    Args:
        holder: The holder of the run's loops.
    """

    def __init__(self, inner: Step, loop: Loop, holder: Holder):
        super().__init__(inner)
        self._loop, self._holder = loop, holder
        self._decisions: list[LabelDecision] = []
        self._next: list[LabelDecision] = []  # of the step after
        self._is_asked = False  # whether a choice of this step has looked at its decisions
        self._is_held = True
        self._begun = 0
        self._path, self._index = loop.name, -1
        self.ended_before: HostArray | None = None  # what had, for conditions

    @property
    def decisions(self) -> Sequence[LabelDecision]:
        self._is_asked = True
        return self._decisions

    def begin(self, index: int) -> None:
        if self._decisions:
            self._choice_is_over()
        self._decisions, self._next, self._begun = self._next, [], self._begun + 1
        self._is_asked = False
        if not index:
            self._is_held = self._holder.holds_here()
        if self._is_held:
            self._wait(index)
        super().begin(index)

    def goes_on(self, more: bool) -> bool:
        rewound = self._holder.rewound
        return more if rewound is None else rewound.goes_on(self, self._loop, more)

    def _length(self) -> Length:
        axis, most = self._loop.given_axis, self._loop.max_seq_len
        if axis is not None:
            return Length(axis.extent, True, axis.name)
        return Length(most if isinstance(most, int) else None, False, self._loop.axis.name)

    def _wait(self, index: int) -> None:
        holder, loop = self._holder, self._loop
        if holder.attention:
            holder.attention.step_over(self)
        self._path, self._index = ".".join(loop_stack.names()), index
        if not index:
            holder.lengths[self._path] = self._length()
        if holder.heard.kinds:
            holder.heard.note_ended(loop, self._path, index - 1)
        entry = trace_context.place.entry if listening() else 0
        holder.before_step(loop.name, self._path, index, self, entry=entry)
        if holder.heard.kinds:
            host = loop.ended_before()
            self.ended_before = None if host is None else (host, loop.end_dims)

    def _choice_is_over(self) -> None:
        if not self._is_asked:
            self.refuse(nothing_chooses(self._decisions[0]))

    def finish(self) -> None:
        if self._decisions:
            self._choice_is_over()
            self._decisions = []
        for one in self._next:
            link = self._loop.search.links[0]
            self.refuse(_no_step_comes(one, link.sources or link.last.tokens.sparse_dim))
        if self._is_held:
            if self._holder.heard.kinds:
                self._holder.heard.note_ended(self._loop, self._path, self._index)
            self._holder.after_steps(
                self._loop.name, self._path, self._index + 1, HeldEnd(self.states_now(), self._holder, self, False)
            )
        super().finish()

    def refuse(self, error: Exception) -> None:
        self._holder.refused(error)

    def close(self) -> None:
        if self._holder.attention:
            self._holder.attention.over(self)
        super().close()

    # -- while it stands ---------------------------------------------------------------------------------------------------

    def states_now(self) -> Mapping[str, Any]:
        """The states before the step."""
        beside = self._loop.beside
        return self.states.now if beside is None else {**self.states.now, **beside.now()}

    def edit(self, name: str, value: Any) -> None:
        """Replace the current value of a state."""
        beside = self._loop.beside
        if beside is not None and name not in self.states.now:
            beside.edit(name, value)
        else:
            self.states.edit(name, value)

    def decide(self, decided: Sequence[LabelDecision]) -> str:
        """Set decisions for the next choice; return their labels as text. They are checked as far as the search is known."""
        search = self._loop.search
        last, labels = search.last if search is not None else None, None
        if last is None and self._begun > 1:
            raise nothing_chooses(decided[0], f'no step of "{self._path}" so far')
        first = search.links[0].last if search is not None and search.links else None  # of several choices of a step
        if last is not None and first is not None and first.tokens.sparse_dim is not None:
            host = self._loop.ended_before()
            ended = None if host is None else (host, self._loop.end_dims)
            labels = search.links[0].sources or first.tokens.sparse_dim
            for one in decided:
                check(resolved(one, labels, self._loop), search.batch_dims(), last.carried, ended)
        self._decisions += decided
        then = "".join(f", then {label_words(label, labels)}" for label in decided[0].then)
        return " and ".join(label_words(one.label, labels) for one in decided) + then

    def decide_next(self, decided: LabelDecision) -> None:
        search = self._loop.search
        if len(search.links) > 1:
            self.refuse(
                value_error(
                    f"{decided.kind}: only the first label can be changed.",
                    {"then": repr(decided.label)},
                    "A step chooses several times in this search: after the first choice, a label may be replaced.",
                )
            )
        else:
            self._next.append(decided)

    def attention_known(self) -> Mapping[str, KnownWeights]:
        """The paths that have attended so far."""
        return dict(self._holder.attention.known)  # others read it

    def attend(self, edit: RowEdit, steps: int | None) -> str:
        """Edit attention weights in the next `steps` steps, checked as far as known."""
        most = self._length().steps
        if most is not None and steps is not None and steps > most - self._index:
            raise fewer_steps(edit, steps, f"{most}, and step {self._index} comes next: {most - self._index} at most")
        return self._holder.attend(edit, self, steps, is_first=self._begun == 1)

    def change_length(self, kind: str, seq: int, hypothesis: Any) -> str:
        """End or resume a sequence or hypothesis."""
        loop, search = self._loop, self._loop.search
        if search is not None and search.leave:
            raise value_error(
                f"{kind}: not possible here.",
                {"seq": seq, "hypothesis": hypothesis},
                "An ended hypothesis leaves the beam of this search. The end label ends a hypothesis:",
                "run.force(end_label, hypothesis=0)",
            )
        batch = None if search is None or search.last is None else search.batch_dims()
        place = hypothesis_index(LabelDecision(kind, None, hypothesis, seq), loop)
        return change_length(kind, loop.ends, batch, seq, place, loop.stacks)


Decide = Callable[[Sequence[LabelDecision]], str]


class HeldValues:
    """A step of a loop other than `rf.Loop`: its values can be read but not changed.

    Args:
        values: Values by name; Tensors are its states.
        holder: The holder of the run's loops.
        steps: An object that represents all steps of this loop.
        is_first: Whether this is the first of them.
        decide: As `decide` of `GateStep`, if it chooses labels.
    """

    def __init__(
        self, values: Mapping[str, Any], holder: Holder, steps: object, is_first: bool, decide: Decide | None = None
    ):
        self._values, self._holder, self._steps, self._is_first = values, holder, steps, is_first
        self._decide = decide

    def states_now(self) -> Mapping[str, Any]:
        """The given values."""
        return self._values

    def edit(self, name: str, value: Any) -> None:
        """Refuse the change."""
        raise value_error(
            f'run: "{name}" cannot be changed here.',
            {"loop": "of your own"},
            "Only states of a Loop can be changed. Make it one:",
            f"loop.state.{name} = ...",
        )

    def decide(self, decided: Sequence[LabelDecision]) -> str:
        """Set decisions for the labels of the step, if it chooses any."""
        if self._decide is None:
            raise nothing_chooses(decided[0])
        return self._decide(decided)

    def attention_known(self) -> Mapping[str, KnownWeights]:
        """The paths that have attended so far."""
        return dict(self._holder.attention.known)  # others read it

    def attend(self, edit: RowEdit, steps: int | None) -> str:
        """Edit attention weights in the next steps."""
        return self._holder.attend(edit, self._steps, steps, is_first=self._is_first)

    def change_length(self, kind: str, seq: int, hypothesis: Any) -> str:
        """Refuse the change."""
        raise value_error(
            f"{kind}: not possible here.",
            {"seq": seq, "hypothesis": hypothesis},
            "This loop ends for all sequences at once, by its own condition.",
        )


class HeldEnd(HeldValues):
    """The end of a loop: its states can be read, but nothing can be changed."""

    def edit(self, name: str, value: Any) -> None:
        """Refuse the change."""
        raise _at_the_end(f'"{name}"')

    def attend(self, edit: RowEdit, steps: int | None) -> str:
        """Refuse the change."""
        raise _at_the_end("attention")

    def change_length(self, kind: str, seq: int, hypothesis: Any) -> str:
        """Refuse the change."""
        raise _at_the_end("a length")


def _no_step_comes(decided: LabelDecision, labels: Dim | Dims | None) -> ValueError:
    return value_error(
        "force: no step is left for the following labels.",
        {
            "then": ", ".join(label_words(label, labels) for label in (decided.label, *decided.then)),
            "seq": decided.seq,
        },
        "The search ends before it.",
    )


def _at_the_end(what: str) -> ValueError:
    return value_error(
        f"run: {what} cannot be changed here.",
        {"here": "after the last step"},
        "A change affects the next step. Go back to one:",
        "branch = run.from_step(...)",
    )


class HeldState(HeldValues):
    """A step of a function that carries one state, such as `scan`; or a call of another library's module, with its inputs as states."""

    def __init__(self, values: Mapping[str, Any], holder: Holder, steps: object, is_first: bool, ends: Any = None):
        super().__init__(values, holder, steps, is_first)
        self._ends = ends

    def edit(self, name: str, value: Any) -> None:
        """Replace the state for the step; structure, dims and dtypes must be the same."""
        check_state("run", self._values[name], value)
        self._values = {**self._values, name: value}

    def change_length(self, kind: str, seq: int, hypothesis: Any) -> str:
        """End or resume a sequence, if sequences end individually."""
        if self._ends is None:
            return super().change_length(kind, seq, hypothesis)
        return change_length(kind, self._ends, None, seq, hypothesis, self._ends.stacks)


def label_words(label: Any, labels: Dim | Dims | None) -> str:
    """The text of a label, if known; for several sources the texts of all."""
    if isinstance(label, tuple):
        each = labels if isinstance(labels, tuple) else (None,) * len(label)
        return " + ".join("any" if one is None else label_words(one, dim) for one, dim in zip(label, each))
    if isinstance(label, str):
        return label
    vocab = getattr(labels, "vocab", None)
    return f"label {label}" if vocab is None else str(vocab[int(label)])


def nothing_chooses(decided: LabelDecision, who: str = "nothing") -> ValueError:
    """The error for a run's position where no label is chosen."""
    return value_error(
        f"{decided.kind}: there is no choice here.",
        {"label": repr(decided.label), "chooses": who},
        "Labels are chosen by rf.choice in a step of a Loop, or by rf.beam_search.",
        "label = rf.choice(log_probs, axis=vocab, beam_size=4)    # in a step of the loop that the run holds",
    )
