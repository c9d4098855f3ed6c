"""Loop: one step written once, run over a dim or until every sequence has ended.

    loop = rf.Loop(axis=time)
    loop.state.h = rf.zeros([batch, hidden])
    for _ in loop:
        x_t = loop.unstack(x)
        loop.state.h = step(x_t, loop.state.h)
        out = loop.stack(loop.state.h)
    out                       # {time, batch, hidden}, once the loop is done

The body is plain Python: print, set breakpoints, branch. A sequence that has ended keeps its state.
The loop knows the order of the steps and what has ended; values come from its step and go there (`rfnb/rec/loop_step.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.block import Exit, block_of
from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, NearNames, dim_error, runtime_error, type_error, value_error
from rfnb.core.finite_padding import around_step
from rfnb.core.pickling import NotPicklable
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import dims_text, shape_of
from rfnb.rec import loop_stack
from rfnb.rec.carried_variables import CarriedByFor, CarriedByWith, caller
from rfnb.rec.ends import Ends, EndsByCondition, EndsOfAxis
from rfnb.rec.hold import ValuesBeside, holding
from rfnb.rec.loop_state import LoopState
from rfnb.rec.loop_step import PlainStep, Step
from rfnb.rec.output import handle_of
from rfnb.rec.outputs import Outputs
from rfnb.rec.selections import Selections
from rfnb.rec.states import States
from rfnb.rec.thread_snapshot import ThreadSnapshot
from rfnb.trace.probe import _open, listening, probe, trace_context

if TYPE_CHECKING:
    from rfnb.rec.loop_plan import LoopPlan
    from rfnb.rec.recorded_step import RecordedStep

_nothing = contextlib.nullcontext()


class _Recorded:
    """A with-block whose body is recorded."""

    def __init__(self, block: Any, steps: Generator[int], step: RecordedStep, before: ThreadSnapshot):
        self.block, self.steps, self.step, self.before = block, steps, step, before
        self.carried: CarriedByWith | None = None


class Loop(NotPicklable, NearNames):
    """Runs a step over `axis`, or until `end`. A loop left early (`break`, an exception) stacks nothing.

    Args:
        max_seq_len: Upper bound of the number of steps; needed with `end`. int or scalar Tensor.
        axis: The dim to run over; if it is ragged, each sequence stops at its length. None: the loop creates the dim, with lengths
            from `end`.
        include_eos: Whether the lengths of `axis` count the step that ends a sequence. If not, a search scores one more label after
            a sequence's length, its end label, while the loop still runs for longer sequences. Without an axis, `end` decides.
        optimize_move_layers_out, unroll, debug: Accepted; they never change a result.
        name: In traces and messages.

    Attributes:
        given_axis: The dim to run over, if it existed before the loop.
        step: Where the values of a step come from and where they go (`rfnb/rec/loop_step.py`).
        plan: The plan of `with loop:`; None before it is made.
        beside: Values carried beside the states; None if there are none or they are unknown.
        after_step: (steps made, whether the loop allows another) -> whether another follows. Called after each step; None: not called.
    """

    def __init__(
        self,
        *,
        max_seq_len: int | Tensor | None = None,
        optimize_move_layers_out: bool | None = None,
        unroll: bool = False,
        axis: Dim | None = None,
        include_eos: bool = True,
        debug: bool | None = None,
        name: str = "loop",
    ):
        if axis is not None and not isinstance(axis, Dim):
            raise type_error(
                f'Loop "{name}": the axis is no Dim.',
                {"axis": repr(axis) if isinstance(axis, str) else type(axis).__name__},
                "A loop has no tensor yet in which a name could be looked up; it takes the Dim itself.",
                "rf.Loop(axis=x.dims[1])",
            )
        if isinstance(max_seq_len, int) and max_seq_len < 0:
            raise value_error(
                f'Loop "{name}": max_seq_len is below zero.',
                {"max_seq_len": max_seq_len},
                "It is the largest number of steps, 0 or more.",
                f"rf.Loop(max_seq_len={-max_seq_len})",
            )
        self.name = name
        self.max_seq_len = max_seq_len
        self.given_axis = axis
        self.axis = axis if axis is not None else Dim(None, name=f"{name}:time")
        self._limit: tuple[Any, int] | None = None  # the raw array of max_seq_len, and its largest value
        self._index = -1
        self._phase = "before"  # "before", "in", "after"
        self._ends: EndsByCondition | EndsOfAxis = (
            EndsByCondition() if axis is None else EndsOfAxis(axis, 0 if include_eos else 1)
        )
        self.selections = Selections()
        self._states = States(name, axis, self.selections)
        self._face = LoopState(self._states)
        self._outputs = Outputs(self.axis, self._ends, self.selections, name)
        self.step: Step = PlainStep(self._states, self._outputs, self.axis, name)
        self.search: Any = None  # what a choice keeps from step to step
        self.beside: ValuesBeside | None = None
        self.after_step: Callable[[int, bool], bool] | None = None
        self._on_commit: list[Callable[[], None]] = []
        self._move_out = optimize_move_layers_out is not False
        self._recorded: _Recorded | None = None
        self.plan: LoopPlan | None = None

    def __repr__(self) -> str:
        axis, most = self.axis, self.max_seq_len
        none = self.given_axis is None and self._phase != "after"
        parts = ["no axis before its end" if none else f"over {dims_text([axis, *axis.length_dims])}"]
        if most is not None:
            parts.append(f"at most {'a tensor of' if isinstance(most, Tensor) else most} steps")
        if self._recorded is not None or self.plan is not None:
            parts.append("recorded")
        steps = f"{self._index + 1} step{'' if self._index == 0 else 's'}"
        parts.append(
            {"before": "before its first step", "in": f"in step {self._index}"}.get(self._phase, f"after {steps}")
        )
        return f'<Loop "{self.name}": {", ".join(parts)}>'

    @staticmethod
    def current() -> Loop | None:
        """The innermost loop running in this context, or None."""
        return loop_stack.innermost()

    @property
    def state(self) -> LoopState:
        """The states that are carried: assign before the loop (initial) and inside (next); read inside (previous) and after (final)."""
        return self._face

    @state.setter
    def state(self, value: Any) -> None:
        for name, item in value.items():
            self._face[name] = item

    @property
    def has_entered_scope(self) -> bool:
        """True once the loop has begun."""
        return self._phase != "before"

    @property
    def num_steps(self) -> int:
        """The number of steps done or begun."""
        self.step.check_known("num_steps")
        return self._index + 1

    @property
    def num_steps_begun(self) -> int:
        """Like `num_steps`, but also valid for messages while a step is recorded."""
        return self._index + 1

    @property
    def has_ended(self) -> bool:
        """True if no step follows."""
        return self._phase == "after"

    @property
    def iter_idx(self) -> Tensor:
        """The index of this step, an int32 scalar from 0, sparse over the axis."""
        if self._phase != "in":
            raise self._outside("iter_idx")
        return self.step.index()

    def unstack(self, source: Tensor, *, name: str | None = None) -> Tensor:
        """The frame of this step: {axis, ...} -> {...}; 0 where the sequence has ended.

        Raises:
            ValueError: If the loop has no axis.
            DimError: If source does not have it.
        """
        if self._phase != "in":
            raise self._outside("unstack")
        if self.given_axis is None:
            raise value_error(
                f'Loop "{self.name}": unstack without axis.',
                {"source": source},
                "A loop that unstacks needs its axis.",
                "rf.Loop(axis=time)",
            )
        return self.step.frame(source)

    def stack(self, source: Tensor, *, name: str | None = None) -> Tensor:
        """Collect a value of each step; the result {axis, ...} has values once the loop is done."""
        return self._collect(source, name, last=False)

    def last(self, source: Tensor, *, name: str | None = None) -> Tensor:
        """The value at each sequence's last step; it has values once the loop is done. Call it in every step."""
        return self._collect(source, name, last=True)

    def end(self, source: Tensor, *, include_eos: bool) -> None:
        """End every sequence for which `source` is True.

        Args:
            source: bool {batch-like dims, beam}.
            include_eos: Whether the step that ends a sequence still belongs to it.

        Raises:
            ValueError: Without `max_seq_len`, or twice in a step.
            TypeError: If it is not bool.
        """
        if self._phase != "in":
            raise self._outside("end")
        if self.step.end is not None:
            raise value_error(
                f'Loop "{self.name}", step {self._index}: end was called twice.',
                {"first": self.step.end[0], "now": source},
                "A step has one condition. If either of two ends a sequence:",
                "loop.end(rf.logical_or(first, second), include_eos=True)",
            )
        if self.given_axis is None and self.max_seq_len is None:
            raise self._no_end("end without max_seq_len", "A loop that never ends has to be cut somewhere:")
        if source.dtype != "bool":
            raise type_error(
                f'Loop "{self.name}": end needs a bool.',
                {"cond": f"{shape_of(source)} {source.dtype}"},
                "It says for each sequence whether it has ended.",
                "loop.end(labels == eos, include_eos=True)",
            )
        self.step.end_with(source, include_eos)

    # -- for search: a choice selects which hypotheses go on --------------------------------------------------------------

    def ended_before(self) -> np.ndarray | None:
        """The hypotheses that had ended before this step, over `end_dims`; None if there are none."""
        self.step.check_known("ended_before()")
        return self._ends.host if self._ends.some else None

    @property
    def end_dims(self) -> tuple[Dim, ...]:
        """The dims of the end condition, with the carried beam dim."""
        return self._ends.dims

    @property
    def ended(self) -> np.ndarray | None:
        """The hypotheses that had ended after the last finished step, over `end_dims`."""
        self.step.check_known("ended")
        return self._ends.host

    @property
    def ends(self) -> Ends:
        """The ends of the loop's sequences or hypotheses."""
        return self._ends

    @property
    def stacks(self) -> bool | None:
        """True if the loop collects a value of each step; None before its first step, when this is unknown."""
        return any(not output.last for output in self._outputs.all) if self._index > 0 else None

    @property
    def step_lengths(self) -> np.ndarray | None:
        """The number of steps of each hypothesis so far, over `end_dims`."""
        self.step.check_known("step_lengths")
        return self._ends.lengths

    def longest_with_end(self) -> int:
        """The length of the longest sequence or hypothesis, including the step that ended it."""
        if isinstance(self._ends, EndsOfAxis):
            return self.axis.extent + self._ends.past_length
        lengths, end = self._ends.lengths, self.step.end
        longest = int(lengths.max(initial=0)) if lengths is not None else 0
        return longest if end is not None and end[1] else longest + 1

    def call_on_commit(self, fn: Callable[[], None]) -> None:
        """Call `fn` at the end of this step, once the ended sequences are known."""
        self._on_commit.append(fn)

    # -- running -----------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[int]:
        return self._steps(ThreadSnapshot(), in_python=True)

    def __enter__(self) -> Loop:
        """Record the first step; see `rfnb/rec/recorded_step.py`."""
        from rfnb.rec.recorded_step import RecordedStep  # a third of this folder, which `for` does not need

        block = block_of(self)
        self._check_new()
        self._let_hold()
        over_axis = self.given_axis is not None
        none = (over_axis or self.max_seq_len is not None) and self._max_steps() == 0
        step = RecordedStep(self.step, name=self.name, axis=self.axis, ends=self._ends, no_steps=none)
        # Until it is known how the block is left.
        before = ThreadSnapshot(interrupted=True)
        steps = self._steps(before, in_python=False)
        self._recorded = _Recorded(block, steps, step, before)
        try:
            # Before anybody watches: what it asks of arrays would be seen.
            self._recorded.carried = CarriedByWith(self, caller(1))
            self.step = step
            next(steps)
        except BaseException as error:
            before.interrupted = not isinstance(error, Exception)
            self._close_recorded()
            raise
        return self

    def _leave_with(self, *error: Any) -> None:
        recorded = self._recorded
        assert recorded is not None and recorded.carried is not None
        try:
            try:
                if error[0] is None:
                    self.plan = recorded.step.end_recording(recorded.carried, move_out=self._move_out)
                    for _ in recorded.steps:
                        raise AssertionError("a step of a recorded loop is made without its body")
                recorded.before.interrupted = error[0] is not None and not issubclass(error[0], Exception)
            except Exception:
                recorded.before.interrupted = False
                raise
            finally:
                self._close_recorded()
        finally:
            self._close_recorded()

    def _over(self, block: Any) -> None:
        if self._recorded is not None and self._recorded.block is block:
            self._close_recorded()

    def _close_recorded(self) -> None:
        """Leave the with-block; a second call does nothing."""
        recorded = self._recorded
        if recorded is not None:
            recorded.steps.close()
            self.step = recorded.step.inner
            recorded.before.restore()
            self._recorded = None

    __exit__: Any = Exit(_leave_with, _over)

    def _steps(self, before: ThreadSnapshot, *, in_python: bool) -> Generator[int]:
        """Run all steps; yield the index of each step that the body makes."""
        self._check_new()
        if in_python:
            self._let_hold()
        carried = CarriedByFor(self.name, caller(1)) if in_python else None
        self._phase = "in"
        self._states.step = step = self.step
        try:
            try:
                loop_stack.enter(self)
                while step.no_steps or step.goes_on(self._goes_on()):
                    made = step.run_on(self._index + 1, self._ends, self._max_steps)
                    if made:
                        self._index += made
                        continue
                    self._index += 1
                    if self._index == 0:
                        loop_stack.check_frames(f'Loop "{self.name}"', self.given_axis)
                    self._ends.begin_step(self._index)
                    with self._around():
                        step.begin(self._index)
                        if not step.run():
                            yield self._index
                        if step.no_steps:
                            self._index = -1
                            break
                        self._commit()
                    if carried is not None:
                        carried.check(self.axis)
                        carried = None
                loop_stack.leave(self)
                if isinstance(self._ends, EndsByCondition):
                    self._ends.set_lengths(self.axis)
                if self.search is not None:
                    self.selections.wanted.make_checks(of_all=True)
                    self.search.finish(self)
                step.finish()
            except BaseException as error:
                before.note(error)
                raise
            finally:
                self._close(step, before)
        finally:
            self._close(step, before)

    def _close(self, step: Step, before: ThreadSnapshot) -> None:
        """Leave the loop. An interrupt may strike here too, so this runs twice."""
        loop_stack.leave(self)
        self._phase = "after"
        step.close()
        before.restore()

    def _let_hold(self) -> None:
        """Let the hold of this context wrap the steps."""
        hold = holding()
        if hold is not None:
            self.step = hold.around(self, self.step)

    def _check_new(self) -> None:
        if self._phase != "before":
            raise runtime_error(
                f'Loop "{self.name}" has run already.',
                {"over": dims_text([self.axis, *self.axis.length_dims])},
                "A loop runs once. To run it again, make a new one, with its own initial states:",
                self._again(),
            )

    def _again(self) -> str:
        """Code that makes a new loop like this one."""
        return f"loop = rf.Loop({'axis=loop.axis' if self.given_axis is not None else 'max_seq_len=loop.max_seq_len'})"

    def _around(self) -> contextlib.AbstractContextManager[Any]:
        """The context of a step: its place in a trace, and the sequences that have ended."""
        ends = self._ends
        if not ends.some and not _open:
            return _nothing
        ended = around_step(ends.dims, lambda: ends.host if ends.some else None)
        if not listening():
            return ended
        stack = contextlib.ExitStack()
        stack.enter_context(trace_context.loop(self.name, self._index, self.axis))
        stack.enter_context(ended)
        return stack

    def _goes_on(self) -> bool:
        """True if a further step follows."""
        more = self._index + 1 < self._max_steps() and not self._ends.all()
        return more if self.after_step is None or self._index < 0 else self.after_step(self._index + 1, more)

    def _max_steps(self) -> int:
        if self.given_axis is not None:
            return self.axis.extent
        if self.max_seq_len is None:
            return 1  # the first step tells what is missing: an end (which then asks for max_seq_len)
        limit = self.max_seq_len  # looked at in every step, since a body may set it
        if not isinstance(limit, Tensor):
            return int(limit)
        if self._limit is None or self._limit[0] is not limit._raw:
            self._limit = limit._raw, int(limit.numpy().max())
        return self._limit[1]

    def _commit(self) -> None:
        step, ends = self.step, self._ends
        self._outputs.check_complete()
        self.selections.note_step()
        if isinstance(ends, EndsOfAxis):
            active = ends.end_step(self._index, self._any_tensor)
        else:
            if step.end is None:
                raise self._no_end("no end", "Every step calls loop.end, or the loop runs over a dim (axis=...):")
            active = ends.end_step(*step.end, self.selections.now, self._index)
            self.selections.wanted.make_checks()
        step.commit(active)
        if self._on_commit:
            for fn in self._on_commit:
                fn()
            self._on_commit.clear()
        self.selections.end_step()
        if _open and listening("states"):
            values = self._states.tensors()
            if values:
                probe("states", **values)

    def _any_tensor(self) -> Tensor | None:
        """Some Tensor of this step, or None."""
        return next(iter(self._states.tensors().values()), self._outputs.any_value())

    def _collect(self, source: Tensor, name: str | None, *, last: bool) -> Tensor:
        what = "last" if last else "stack"
        if self._phase != "in":
            raise self._outside(what)
        if self.axis in source.dims:
            raise self._not_a_frame(what, source)
        value = self.step.output(source, last)
        output = self._outputs.next()
        if output is None:
            name = name or f"{self.name}:output{len(self._outputs.all)}"
            output = self._outputs.new(handle_of(self, what, name, value.dtype), last)
            output.initial = self._states.initial_of(value) if last else None
        output.values.append(value)
        return output.handle

    def _not_a_frame(self, what: str, source: Tensor) -> DimError:
        return dim_error(
            f'Loop "{self.name}", step {self._index}: {what} of all frames.',
            {"source": source, "axis": self.axis},
            "A step works on one frame, and the loop collects those of all steps. Unstack values that have the axis of the loop:",
            f"x_t = loop.unstack(x)      # of each x with {self.axis.name}",
        )

    def _no_end(self, what: str, rule: str) -> ValueError:
        limit = 50 if self.max_seq_len is None else self.max_seq_len if isinstance(self.max_seq_len, int) else "limit"
        return value_error(
            f'Loop "{self.name}", step {self._index}: {what}.',
            {"axis": "None", "max_seq_len": self.max_seq_len},
            rule,
            f"loop = rf.Loop(max_seq_len={limit})\nfor _ in loop:\n    loop.end(ended, include_eos=True)",
        )

    def _outside(self, what: str) -> RuntimeError:
        over = self._phase == "after"
        lines = {
            "unstack": "x_t = loop.unstack(x)",
            "end": "loop.end(ended, include_eos=True)",
            "iter_idx": "i = loop.iter_idx",
        }
        return runtime_error(
            f'Loop "{self.name}": {what} is used inside of the loop.',
            {"loop": repr(self)},
            "A step reads and writes its values while it runs"
            + (". This loop is over, and runs once; a new one:" if over else ":"),
            f"{self._again() + chr(10) if over else ''}for _ in loop:\n    {lines.get(what, f'out = loop.{what}(value)')}",
        )
