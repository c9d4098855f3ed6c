"""Step: where the values of a step of a loop come from, and where they go.

A Loop knows the order of steps and what ends; whatever a body reads and gives goes through its `step`. So a step that waits between
two steps, edits a state, or gives the values of an earlier run is an object in the place of `loop.step` (a `StepAround` the one that is
there), and no change in Loop. In each step, the loop calls

    begin       the step begins
    run_on      how many steps from the next one on are made at once; the following is only for the others
    run         True: the step was made without the body, by calls as the body would make them
    (body)      read, write, frame, index, output, end_with
    commit      it is known what has ended: next values become present ones

then `finish`, unless the loop is left early; and `close` in any case, more than once if it comes to that.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.intercept import is_intercepted
from rfnb.core.pickling import NotPicklable
from rfnb.core.tensor import Tensor
from rfnb.core.tree import map_nested
from rfnb.ops.frames import Frames, frames, no_frame
from rfnb.ops.operands import as_tensor
from rfnb.rec.ends import Ends
from rfnb.rec.outputs import Outputs
from rfnb.rec.selections import Decided
from rfnb.rec.states import States

_MISSING = object()


class Step(NotPicklable):
    """The step of a Loop: where values come from and go to.

    Attributes:
        states: What is carried.
        outputs: What is collected.
        no_steps: The loop makes none: its body runs for what it would collect.
    """

    no_steps = False

    def __init__(self, states: States, outputs: Outputs):
        self.states, self.outputs = states, outputs

    @property
    def decisions(self) -> Sequence[Decided]:
        """The decisions from outside for the choice of this step."""
        return ()

    @property
    def is_recording(self) -> bool:
        """Whether the body runs once for all steps, and does so now."""
        return False

    def refuse(self, error: Exception) -> None:
        """One of the decisions cannot be done, and is left out."""
        raise error

    def decide_next(self, decided: Decided) -> None:
        """A decision for the choice of the next step, which comes of one for this step."""
        raise AssertionError("who has decisions for a step has them for the next one too")

    def goes_on(self, more: bool) -> bool:
        """Whether a step comes, where the loop has one left or not: who holds it may have put it back, or end it."""
        return more

    @abstractmethod
    def begin(self, index: int) -> None:
        """Step `index` begins."""

    @abstractmethod
    def run(self) -> bool:
        """Make this step without the body; False: the body makes it."""

    def run_on(self, index: int, ends: Ends, most: Callable[[], int]) -> int:
        """Make steps from `index` on at once, as they would be one by one; gives how many, mostly none. `most` gives their number
        if none ends before."""
        return 0

    @abstractmethod
    def read(self, name: str) -> Any:
        """A state: the next value once it is assigned, else the previous one; after a choice, that of the chosen hypotheses."""

    @abstractmethod
    def write(self, name: str, value: Any) -> None:
        """Assign the next value of a state."""

    @abstractmethod
    def frame(self, source: Tensor) -> Tensor:
        """The frame of this step."""

    @abstractmethod
    def index(self) -> Tensor:
        """The index of this step, an int32 scalar, sparse over the axis."""

    @abstractmethod
    def output(self, value: Tensor, last: bool) -> Tensor:
        """The value that the loop collects where the body gives `value` to `stack` (or `last`)."""

    @abstractmethod
    def end_with(self, cond: Tensor, include_eos: bool) -> None:
        """This condition says what has ended."""

    @property
    @abstractmethod
    def end(self) -> tuple[Tensor, bool] | None:
        """The condition of this step, and its `include_eos`, once there is one."""

    @abstractmethod
    def check_known(self, what: str) -> None:
        """Raise a RecordingError if `what`, a plain value of this step, would be taken for that of all steps."""

    @abstractmethod
    def commit(self, active: Tensor | None) -> None:
        """The step is over; it counts for the sequences that are `active`, None: all."""

    @abstractmethod
    def finish(self) -> None:
        """All steps are done, and the axis has its lengths: what was collected gets its values."""

    @abstractmethod
    def close(self) -> None:
        """The loop is left. Whatever was set for its time is as before; may be called again."""


class PlainStep(Step):
    """A step that Python runs.

    Args:
        axis: What `frame` takes frames of.
    """

    def __init__(self, states: States, outputs: Outputs, axis: Dim, loop_name: str):
        super().__init__(states, outputs)
        self._axis, self._loop_name = axis, loop_name
        self._index = -1
        self._end: tuple[Tensor, bool] | None = None
        # id -> the source, which keeps its id, whether gradients are followed, and for both answers the frames made then
        self._frames: dict[int, tuple[Tensor, Callable[[], bool], dict[bool, Sequence[Tensor]]]] = {}

    def begin(self, index: int) -> None:
        self._index, self._end = index, None
        self.states.begin(index)
        self.outputs.begin(index)

    def run(self) -> bool:
        return False

    def read(self, name: str) -> Any:
        states = self.states
        value = states.next.get(name, _MISSING)
        if value is _MISSING:
            value = states.now.get(name, _MISSING)
            if value is _MISSING:
                raise states.missing(name)
        selection = states.selections.now
        return value if selection is None else map_nested(selection.bring, value)

    def write(self, name: str, value: Any) -> None:
        self.states.assign(name, value)

    def frame(self, source: Tensor) -> Tensor:
        steps = self.frames(source)
        return steps[self._index] if steps else no_frame(source, axis=self._axis)

    def frames(self, source: Tensor) -> Sequence[Tensor]:
        """The frames of all steps."""
        found = self._frames.get(id(source))
        if found is None:
            source.axis_of(self._axis, f'Loop "{self._loop_name}": unstack')
            found = self._frames[id(source)] = (source, source.backend.grad_enabled, {})
        _, grad_enabled, by_mode = found
        steps = by_mode.get(grad_enabled())  # frames that were made without gradients have none
        if steps is None:
            make: Any = frames if is_intercepted() else Frames
            steps = by_mode[grad_enabled()] = make(source, axis=self._axis)
        return steps

    def raw_frames(self, source: Tensor) -> Sequence[Any]:
        """The raw arrays of these."""
        steps = self.frames(source)
        return steps.raws if isinstance(steps, Frames) else [each._raw for each in steps]

    def index(self) -> Tensor:
        return self.index_at(self._index)

    def index_at(self, index: int) -> Tensor:
        """The index of a step."""
        out = as_tensor(index, "iter_idx")
        out.sparse_dim = self._axis
        return out

    def output(self, value: Tensor, last: bool) -> Tensor:
        selection = self.states.selections.now
        if selection is not None:
            selection.check(value)
        return value

    def end_with(self, cond: Tensor, include_eos: bool) -> None:
        self._end = cond, include_eos

    @property
    def end(self) -> tuple[Tensor, bool] | None:
        return self._end

    def check_known(self, what: str) -> None:
        pass

    def commit(self, active: Tensor | None) -> None:
        self.outputs.commit(active)
        self.states.commit(active)

    def finish(self) -> None:
        self.outputs.finish()

    def close(self) -> None:
        self._frames.clear()
        self._end = None
        self.outputs.close()
        self.states.close()


def _passed_on(name: str) -> Any:
    return lambda step, *args: getattr(step.inner, name)(*args)


class StepAround(Step):
    """Passes everything on to the step that it is put around. What it is for says a class made of it.

    Args:
        inner: Another step.
    """

    def __init__(self, inner: Step):
        super().__init__(inner.states, inner.outputs)
        self.inner = inner

    decisions: Any = property(attrgetter("inner.decisions"))
    end: Any = property(attrgetter("inner.end"))
    refuse, decide_next = _passed_on("refuse"), _passed_on("decide_next")
    begin, run, commit = _passed_on("begin"), _passed_on("run"), _passed_on("commit")
    read, write, frame, index = _passed_on("read"), _passed_on("write"), _passed_on("frame"), _passed_on("index")
    output, end_with, check_known = _passed_on("output"), _passed_on("end_with"), _passed_on("check_known")
    finish, close = _passed_on("finish"), _passed_on("close")
