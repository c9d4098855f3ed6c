"""Holder: holds the loops of a run at one gate, in the run's thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from rfnb.control.attention_edits import AttentionEdits
from rfnb.control.breakpoints import Breakpoints
from rfnb.control.changes import by, name_of
from rfnb.control.gate import Gate
from rfnb.control.held_step import Decide, HeldEnd, HeldState, HeldStep, HeldValues, Length
from rfnb.control.model_edits import ModelEdits
from rfnb.control.position import Change, Edit, GateStep, Position, gone_on
from rfnb.control.run_steps import StepLog, StepPlaces, numbers
from rfnb.control.state_history import StateHistory
from rfnb.control.step_events import EventCollector, StepEvent
from rfnb.core.errors import index_error
from rfnb.core.whole_number import whole
from rfnb.rec import loop_stack
from rfnb.rec.hold import Hold
from rfnb.trace.match import is_end_of
from rfnb.trace.probe import listen, listening
from rfnb.trace.run_tree import AppliedChange
from rfnb.trace.trace import Trace

if TYPE_CHECKING:
    from rfnb.control.attention_rows import RowEdit
    from rfnb.control.search_rewind import SearchRewind
    from rfnb.core.dim import Dim, Dims
    from rfnb.core.tensor import Tensor
    from rfnb.rec.loop import Loop
    from rfnb.rec.loop_step import Step


_FEW = 4  # loops in a message


class SingleChange:
    """A change that does one thing."""

    def __init__(self, edit: Edit):
        self._edit = edit

    def __call__(self, at: Position) -> None:
        at.do(self._edit)


class Trunk:
    """The steps that a branch shares with its parent run.

    Args:
        end: The first tick of the branch's own.
        around: Changes around the function, as text; "" if none are known.
        is_other: Whether these make it a different computation even if the states are unchanged.
        traces: The recordings of the branch and its ancestors.
    """

    def __init__(
        self,
        steps: StepLog,
        kept: StateHistory,
        end: int,
        around: str = "",
        is_other: bool = False,
        traces: Callable[[], list[Trace]] = list,
    ):
        self._steps, self.kept, self.end, self.traces = steps, kept, end, traces
        self.around, self._is_other = around, is_other

    def step(self, tick: int) -> tuple[str, int]:
        """(path of the loop, step) of a tick."""
        return self._steps[tick]

    def difference(self, tick: int, path: str, step: int, held: GateStep) -> str | None:
        """The first difference before any change, as text; None if none is known, as in a step that is not begun there yet."""
        if tick >= len(self._steps):
            return None
        if (path, step) != self._steps[tick]:
            loop, index = self._steps[tick]
            return f'step {index} of "{loop}" was expected here, but the run is at step {step} of "{path}"'
        state = self.kept.difference(tick, held.states_now)
        if state is not None:
            return f'state "{state}" differs before step {step} of "{path}"'
        if self._is_other and tick == self.end:
            return f'up to step {step} of "{path}" the states are equal, but later values differ'
        return None


class Holder(Hold):
    """Passes each step of each loop through the run's gate.

    Args:
        changes: Tick -> the change before that step; also an attribute.
        trunk: The trunk, for a branch.
        seen: Returns the paths of recorded attention.
        model: The recorded model.
        trace: Returns the recording so far.
        modules: The paths of modules whose calls are steps.

    Attributes:
        steps: (path, step) of each tick so far.
        lengths: Number of steps by path of a loop.
        kept: The states before these steps.
        attention: Edits of attention weights that rf computes.
        model_edits: Edits of the recorded model.
        changed: The changes, as text; for a branch, those after its beginning.
        drifted: The first difference in the trunk, as text.
        halt: For a branch, the tick at which it pauses, and why.
        places: The steps of events.
        heard: Events of the steps, for breakpoints.
        passed: The loops that began where nothing is held, or had no step, as text.
        rewound: Restarts the finished search from one of its steps.
    """

    def __init__(
        self,
        gate: Gate[Position],
        breakpoints: Breakpoints,
        changes: dict[int, list[Change]],
        trunk: Trunk | None = None,
        kept: StateHistory | None = None,
        seen: Callable[[], Iterable[str]] = tuple,
        model: Any = None,
        trace: Callable[[], Trace | None] = lambda: None,
        modules: frozenset[str] = frozenset(),
    ):
        self._gate, self._breakpoints, self.changes, self._trunk = gate, breakpoints, changes, trunk
        self.steps = StepLog()
        self.lengths: dict[str, Length] = {}
        self.kept = kept or StateHistory(trunk=None if trunk is None else (trunk.kept, trunk.end))
        self.changed: list[AppliedChange] = []
        self.drifted: str | None = None
        self.halt: tuple[int, str] | None = None
        self.attention = AttentionEdits(self.refused, lambda: self.steps[-1][0] if self.steps else "", seen)
        before = trunk.traces if trunk is not None else list
        self.traces = lambda: [each for each in (trace(), *before()) if each is not None]
        self.model_edits, self._seen = ModelEdits(model, self.steps, self.refused, self.traces), seen
        self._own_loops: set[str] = set()  # of the user, or another library
        self.heard = EventCollector()
        self._refused: list[str] = []
        self._functions: list[object] = []  # one for the steps of each scan that runs
        self._listens = ExitStack()
        self._own = (
            0 if trunk is None else trunk.end
        )  # what was changed before, the run that it branches from has noted
        self._repeated: Change | None = None
        self.places = StepPlaces(self.steps)
        self.passed: dict[str, str] = {}
        self._modules, self._calls = modules, Counter[str]()
        self.rewound: SearchRewind | None = None

    def around(self, loop: Loop, step: Step) -> Step:
        if self.holds_here():
            self._has_passed(loop.name, "without a step")
            return HeldStep(step, loop, self)
        if not self._gate.is_worker:
            self._has_passed(loop.name, "in a thread started by the function")
        return step

    def _has_passed(self, loop: str, why: str) -> None:
        if not self.steps and len(self.passed) < _FEW:
            self.passed.setdefault(loop, f"{loop} ({why})")

    def step_of(self, function: str, index: int, state: Any, ends: Any = None) -> Any:
        if not self.holds_here():
            if not self._gate.is_worker:
                self._has_passed(function, "in a thread started by the function")
            return state
        if not index:
            self._functions.append(object())
        steps = self._functions[-1]
        if self.attention:
            self.attention.step_over(steps)
        held = HeldState({"state": state}, self, steps, is_first=not index, ends=ends)
        self.before_step(function, function, index, held)
        return held.states_now()["state"]

    def over(self, function: str) -> None:
        if self.holds_here():
            self.attention.over(self._functions.pop())
            self.after_all()

    def step_of_own(
        self,
        index: int,
        values: Mapping[str, Any],
        *,
        loop: str = "loop",
        entry: int = 0,
        decide: Decide | None = None,
    ) -> None:
        """Begin a step of a loop other than `rf.Loop`: a user's own, or another library's.

        Args:
            loop: Its name.
            entry: As in `before_step`.
            decide: Takes decisions for the labels of the step.
        """
        if not self.holds_here():
            return
        if self.attention:
            self.attention.step_over(self)
        is_first = decide is None and loop not in self._own_loops  # who takes decisions is not of rf
        self._own_loops.add(loop)
        held = HeldValues(values, self, self, is_first, decide)
        self.before_step(loop.split(".")[-1], loop, index, held, values, entry)

    def before_call(
        self, path: str, inputs: Callable[[], Mapping[str, Tensor]]
    ) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]] | None:
        if path not in self._modules or not self.holds_here():
            return None
        given, number = inputs(), self._calls[path]
        self._calls[path] += 1
        held = HeldState(given, self, self, is_first=False)
        self.before_step(path.rpartition(".")[2], path, number, held)
        return given, held.states_now()

    def attend(self, edit: RowEdit, owner: object, steps: int | None, *, is_first: bool) -> str:
        """Edit attention weights in the next steps of `owner`; see `AttentionEdits.add`."""
        elsewhere = self.model_edits.add_rows(edit, steps, self._seen(), self.attention.known)
        if elsewhere is not None:
            return elsewhere
        words = self.attention.add(edit, owner, steps, is_first, attends=is_first or self.attended_calls > 0)
        if not listening():  # paths are known where somebody listens
            self._listens.enter_context(listen(lambda *_: None, wants=lambda kind: False))
        return words

    def changes_attention(self) -> bool:
        return bool(self.attention) and self._gate.is_worker

    def edits_attention(self) -> bool:
        return self.changes_attention() and self.attention.wants()

    def note_attention(self, dims: Dims, axis: Dim) -> None:
        if self._gate.is_worker:
            self.attended_calls += 1
            self.attention.note(dims, axis)

    def attended(self, weights: Tensor, axis: Dim, seen: Tensor | None) -> Tensor:
        if not self._gate.is_worker:
            return weights
        self.attended_calls += 1
        return self.attention.changed(weights, axis, seen)

    def close(self) -> None:
        """End the run."""
        self._listens.close()
        self.heard.want(frozenset())

    def holds_here(self) -> bool:
        """True if steps here are held: not in a thread that the function started in a copy of its context, nor where a loop body is
        being recorded, whose values belong to no step.
        """
        return self._gate.is_worker and not loop_stack.are_recorded()

    def refused(self, error: Exception) -> None:
        """Note that a change for a step could not be carried out: the run pauses before the next one and reports it."""
        if self._gate.mode == "stopping":  # no step comes since somebody wants it so
            return
        self._refused.append(str(error))
        tick = len(self.steps) - 1
        self._note(tick, *self.steps[tick], f"failed: {str(error).splitlines()[0]}")

    def before_step(
        self,
        loop: str,
        path: str,
        index: int,
        held: GateStep,
        values: Mapping[str, Any] | None = None,
        entry: int = 0,
    ) -> None:
        """Begin a step; return when it may run.

        Args:
            entry: The entry number of its events, see `Event`; 0 without listeners.
        """
        tick = len(self.steps)
        self.places.note(entry)
        self.steps.append(path, index)
        self.kept.add(tick, held.states_now)
        trunk, found = self._trunk, None
        if trunk is not None:
            found = trunk.difference(tick, path, index, held)
            if found is not None or tick == trunk.end:
                self._trunk = None
        halts = self.halt is not None and self.halt[0] == tick
        watched = halts or self._breakpoints or self.heard.kinds
        if self._gate.is_open and not (found or watched or self._refused or tick in self.changes):
            return
        made = self.heard.take()
        at = Position(loop, path, index, tick, held, values, self._done)
        at.do = lambda edit: self._do(at, edit)
        at.edit_model = self.model_edits.add
        why = ""
        if trunk is not None and found is not None:
            self.drifted = f"{found}; {trunk.around}" if trunk.around else found
            self.kept.leave_trunk(tick)
            self.kept.add(tick, held.states_now)
            why = f"its steps differ from those of its parent run: {self.drifted}"
            if not trunk.around:
                why += ". Something outside of its loops has changed"
        try:
            for change in self.changes.get(tick, ()):
                self._repeat(change, at)
            self._gate.pass_(at, lambda at: self._reason(at, made, why))
        finally:
            at.is_left = True
        self.heard.want(self._breakpoints.kinds)
        self.heard.is_in((path, index))

    def leave_trunk(self) -> None:
        """Stop comparing with the run that this is a branch of."""
        self._trunk = None
        self.kept.leave_trunk(0)

    def after_steps(self, loop: str, path: str, num_steps: int, held: GateStep) -> None:
        """Evaluate breakpoints after the last step of a loop; nothing can be changed here."""
        self.heard.is_in(None)
        if not self._breakpoints:
            return
        at = Position(loop, path, num_steps, len(self.steps), held, None, self._done)
        at.is_end = True
        try:
            why = self._breakpoints.reason(at, self.heard.take())
            if why is not None:
                self._gate.pass_(at, lambda _: why, is_step=False)
        finally:
            at.is_left = True
        self.heard.want(self._breakpoints.kinds)

    def before_all(self) -> None:
        """Begin the function, listening for the events that breakpoints need."""
        self.heard.want(self._breakpoints.kinds)

    def after_all(self) -> None:
        """Evaluate breakpoints after the last step of a function."""
        if self.heard.has_made():
            path, step = self.steps[-1] if self.steps else ("run", -1)
            self.after_steps(path.split(".")[-1], path, step + 1, HeldEnd({}, self, self, False))

    def _do(self, at: Position, edit: Edit) -> None:
        """Let the worker make one change where it stands."""
        if at.is_left:
            raise gone_on(at)
        self._gate.ask(lambda: at.make(edit)).result()

    def _repeat(self, change: Change, at: Position) -> None:
        """Repeat a change that was given for this step."""
        self._repeated, before = change, len(self.changed)
        try:
            change(at)
            if len(self.changed) == before:
                self._note(at.tick, at.path, at.step, f"{name_of(change)} changed nothing")
        finally:
            self._repeated = None

    def _done(self, at: Position, edit: Edit, words: str) -> None:
        """Note a change, and store it for branches."""
        if self._repeated is None:
            self.changes.setdefault(at.tick, []).append(SingleChange(edit))
        elif not isinstance(self._repeated, SingleChange):
            words = by(name_of(self._repeated), words)
        self._note(at.tick, at.path, at.step, words)

    def _note(self, tick: int, path: str, step: int, words: str) -> None:
        if tick >= self._own:
            self.changed.append(AppliedChange(tick, path, step, words))

    def ended(self) -> None:
        """Note that the function has a result and no step follows."""
        self.attention.over(self)  # of a loop of the user's own, which does not say when it is over
        self._refused += self.model_edits.never_came()
        if self._trunk is not None and self._trunk.end >= 0:  # else it was made of a run before its first step
            (path, step), around = self._trunk.step(self._trunk.end), self._trunk.around
            found = f'it ended after {len(self.steps)} steps, before step {step} of "{path}"'
            self._trunk, self.drifted = None, f"{found}; {around}" if around else found
            self._refused.append(f"It never reached its branch point: {self.drifted}.")
        self._refused += self._breakpoints.never_came()

    def tick_of(self, what: str, step: int, path: str | None, nth: int | None) -> int:
        """The tick of a step that the run has begun, for `what`; arguments as in `Run.from_step`.

        Raises:
            IndexError: If there is no such step, or several.
        """
        steps = self.steps
        found = [
            tick
            for tick, (loop, index) in enumerate(steps)
            if index == whole(step) and (path is None or is_end_of(path, loop))
        ]
        if nth is not None:
            runs = numbers(steps, path)
            found = [tick for tick in found if runs[tick] == whole(nth)]
        if len(found) == 1:
            return found[0]
        loops = ", ".join(
            f"{loop} (0 to {max(i for p, i in steps if p == loop)})" for loop in dict.fromkeys(p for p, _ in steps)
        )
        raise index_error(
            f"{what}: {'several steps' if found else 'no step'} {step}{f' of {path}' if path else ''}.",
            {"loops": loops or "none so far"},
            "Several loops have this step, or a loop ran several times. Choose one."
            if found
            else "The run has these steps so far.",
            f'run.{what}({step}, path="{steps[found[-1]][0]}", nth={self.places[found[-1]].nth})' if found else None,
        )

    def has_refused(self) -> bool:
        """True if something could not be carried out."""
        return bool(self._refused)

    def take_refused(self) -> str | None:
        """The failures since the last call, as text; None if there are none."""
        refused, self._refused = self._refused, []
        return "\n".join(refused) or None

    def _reason(self, at: Position, made: Sequence[StepEvent], drifted: str) -> str | None:
        halt = self.halt[1] if self.halt is not None and self.halt[0] == at.tick and not drifted else None
        reasons = [drifted, self.take_refused(), self._breakpoints.reason(at, made), halt]
        return "; ".join(filter(None, reasons)) or None
