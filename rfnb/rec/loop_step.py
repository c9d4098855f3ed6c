"""Step: where the values of a loop's step come from, and where they go.

A Loop knows the order of steps and what ends; whatever a body reads and gives goes through its `step`. So a step that pauses, edits a
state, or replays an earlier run replaces `loop.step` (usually a `StepAround` that wraps it), without a change in Loop. In each step, the
loop calls

    begin       the step begins
    run_on      how many steps from the next one on run at once; the calls below are only for the others
    run         True if the step was run without the body, by the calls that the body would make
    (body)      read, write, frame, index, output, end_with
    commit      the ended sequences are known; next values become current ones

then `finish`, unless the loop is left early; and `close` in any case, possibly more than once.
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
from rfnb.rec.selections import LabelDecision
from rfnb.rec.states import States

_MISSING = object()


class Step(NotPicklable):
    """The step of a Loop: the source and destination of its values.

    Attributes:
        states: The carried values.
        outputs: The collected values.
        no_steps: The loop runs no steps; its body runs only to find out what it would collect.
    """

    no_steps = False

    def __init__(self, states: States, outputs: Outputs):
        self.states, self.outputs = states, outputs

    @property
    def decisions(self) -> Sequence[LabelDecision]:
        """The external decisions for the choice of this step."""
        return ()

    @property
    def is_recording(self) -> bool:
        """True while the body runs once on behalf of all steps."""
        return False

    def refuse(self, error: Exception) -> None:
        """Report that a decision cannot be carried out and is skipped."""
        raise error

    def decide_next(self, decided: LabelDecision) -> None:
        """A decision for the next step's choice that follows from one for this step."""
        raise AssertionError("who has decisions for a step has them for the next one too")

    def goes_on(self, more: bool) -> bool:
        """Whether a step follows. `more` says whether the loop has one left; a hold may rewind or end the loop."""
        return more

    @abstractmethod
    def begin(self, index: int) -> None:
        """Begin step `index`."""

    @abstractmethod
    def run(self) -> bool:
        """Run this step without the body; False if the body must run it."""

    def run_on(self, index: int, ends: Ends, most: Callable[[], int]) -> int:
        """Run steps from `index` on at once, with the results of single steps; return how many, usually 0. `most` is the number of
        steps if none ends earlier.
        """
        return 0

    @abstractmethod
    def read(self, name: str) -> Any:
        """A state: the next value once assigned, else the previous one; after a choice, that of the chosen hypotheses."""

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
        """The value that the loop collects when the body passes `value` to `stack` (or `last`)."""

    @abstractmethod
    def end_with(self, cond: Tensor, include_eos: bool) -> None:
        """Set the condition that ends sequences."""

    @property
    @abstractmethod
    def end(self) -> tuple[Tensor, bool] | None:
        """The end condition of this step and its `include_eos`, once set."""

    @abstractmethod
    def check_known(self, what: str) -> None:
        """Raise a RecordingError if `what`, a plain value of this step, would be used for all steps."""

    @abstractmethod
    def commit(self, active: Tensor | None) -> None:
        """End the step; it counts for the `active` sequences, None means all."""

    @abstractmethod
    def finish(self) -> None:
        """Fill the collected outputs; all steps are done and the axis has its lengths."""

    @abstractmethod
    def close(self) -> None:
        """Leave the loop and restore all temporary settings; may be called again."""


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
        self.states.check(name, value)
        self.states.next[name] = value

    def frame(self, source: Tensor) -> Tensor:
        try:
            return self.frames(source)[self._index]
        except IndexError:  # there is none
            return no_frame(source, axis=self._axis)

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
        """Their raw arrays."""
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
    """Forwards everything to the step that it wraps; subclasses override what they need.

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
