"""Loop: one step written once, run over a dim or until every sequence has ended.

    loop = rf.Loop(axis=time)
    loop.state.h = rf.zeros([batch, hidden])
    for _ in loop:
        x_t = loop.unstack(x)
        loop.state.h = step(x_t, loop.state.h)
        out = loop.stack(loop.state.h)
    out                       # {time, batch, hidden}, once the loop is done

The body is plain Python: print, set breakpoints, branch. A sequence that has ended keeps its state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.beam_dim import is_beam
from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, message
from rfnb.core.finite import around_step
from rfnb.core.layout import explain_mismatch
from rfnb.core.pickling import NotPicklable
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_text import dims_text, shape_of
from rfnb.ops.const import zeros_like
from rfnb.ops.frames import frames, marked_like, no_frame
from rfnb.ops.operands import as_tensor
from rfnb.ops.random_state import get_random_state
from rfnb.ops.where import where
from rfnb.rec.carried import CarriedByFor, CarriedByWith, caller
from rfnb.rec.ends import Ends
from rfnb.rec.loop_plan import LoopPlan
from rfnb.rec.loop_state import LoopState
from rfnb.rec.nested import leaves
from rfnb.rec.output import Output, handle_of
from rfnb.rec.recording import Recording
from rfnb.rec.replay import Replay
from rfnb.rec.selection import pick
from rfnb.rec.selections import Selections
from rfnb.rec.stacked import expanded, fill, stacked
from rfnb.rec.step_tensor import RecordingError
from rfnb.trace.probe import listening, offer_again, probe, trace_context

_running: ContextVar[tuple[Loop, ...]] = ContextVar("rfnb_loops", default=())  # the innermost last


class Loop(NotPicklable):
    """Runs a step over `axis`, or until `end`. Left early (`break`, an exception), it stacks nothing.

    Args:
        max_seq_len: Upper bound of the number of steps; needed with `end`. int or scalar Tensor.
        axis: The dim to run over; ragged: each sequence stops at its length. None: made by the loop, its lengths from `end`.
        include_eos: Whether the lengths of `axis` count the step that ends a sequence. If not, a search scores one label more after
            a sequence's length, that of its end, where the loop still runs for longer sequences. Without an axis, `end` says it.
        optimize_move_layers_out, unroll, debug: Accepted; they never change a result.
        name: In traces and messages.
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
        self.name = name
        self.max_seq_len = max_seq_len
        self._given_axis = axis
        self.axis = axis if axis is not None else Dim(None, name=f"{name}:time")
        self.selections = Selections()
        self._state = LoopState(name, axis, self.selections)
        self._index = -1
        self._phase = "before"  # "before", "in", "after"
        self._ends = Ends(0 if include_eos else 1)
        self._end: tuple[Tensor, bool] | None = None
        self._outputs: list[Output] = []
        self._calls = 0
        self.search: Any = None  # what a choice keeps from step to step
        self._on_commit: list[Callable[[], None]] = []
        self._frames: dict[tuple[int, bool], tuple[Tensor, list[Tensor]]] = {}
        self._move_out = optimize_move_layers_out is not False
        self._recording: Recording | None = None
        self._entered: Any = None
        self._carried: CarriedByWith | None = None
        self.plan: LoopPlan | None = None

    @staticmethod
    def current() -> Loop | None:
        """The innermost loop that is running in this context."""
        stack = _running.get()
        return stack[-1] if stack else None

    @property
    def state(self) -> LoopState:
        """What is carried: assign before the loop (initial) and inside (next); read inside (previous) and after (final)."""
        return self._state

    @state.setter
    def state(self, value: Any) -> None:
        for name, item in value.items():
            self._state[name] = item

    @property
    def has_entered_scope(self) -> bool:
        """Whether the loop has begun."""
        return self._phase != "before"

    @property
    def num_steps(self) -> int:
        """How many steps have been done or begun."""
        self._not_recorded("num_steps")
        return self._index + 1

    @property
    def num_steps_begun(self) -> int:
        """As `num_steps`, for messages also while a step is recorded."""
        return self._index + 1

    @property
    def has_ended(self) -> bool:
        """Whether no step comes any more."""
        return self._phase == "after"

    @property
    def iter_idx(self) -> Tensor:
        """Index of this step, an int32 scalar from 0, sparse over the axis."""
        self._need_inside("iter_idx")
        index = self._index_tensor()
        return index if self._recording is None else self._recording.step_index(index)

    def _index_tensor(self) -> Tensor:
        out = as_tensor(self._index, "iter_idx")
        out.sparse_dim = self.axis
        return out

    def unstack(self, source: Tensor, *, name: str | None = None) -> Tensor:
        """The frame of this step: {axis, ...} -> {...}; 0 where the sequence has ended.

        Raises:
            ValueError: If the loop has no axis.
            DimError: If source does not have it.
        """
        self._need_inside("unstack")
        if self._given_axis is None:
            raise ValueError(
                message(f'Loop "{self.name}": unstack without axis.', [("source", shape_of(source))],
                        "A loop that unstacks says over which dim.", "rf.Loop(axis=time)")
            )  # fmt: skip
        if self._recording is not None:
            return self._recording.frame(source, lambda: self._frame(source))
        return self._frame(source)

    def _frame(self, source: Tensor) -> Tensor:
        key = id(source), source.backend.grad_enabled()
        found = self._frames.get(key)
        if found is None:
            found = self._frames[key] = (source, self.frames_of(source))
        steps = found[1]
        return steps[self._index] if steps else no_frame(source, axis=self.axis)

    def frames_of(self, source: Tensor) -> list[Tensor]:
        """The frames of all steps."""
        source.axis_of(self.axis, f'Loop "{self.name}": unstack')
        return frames(source, axis=self.axis)

    def stack(self, source: Tensor, *, name: str | None = None) -> Tensor:
        """Collect a value of each step; the result {axis, ...} has values once the loop is done."""
        return self._collect(source, name, last=False)

    def last(self, source: Tensor, *, name: str | None = None) -> Tensor:
        """The value at each sequence's last step; has values once the loop is done. Called in every step."""
        return self._collect(source, name, last=True)

    def end(self, source: Tensor, *, include_eos: bool) -> None:
        """A sequence for which `source` is True has ended.

        Args:
            source: bool {batch-like dims, beam}.
            include_eos: Whether the step that ends a sequence still belongs to it.

        Raises:
            ValueError: Without `max_seq_len`, or twice in a step.
            TypeError: If it is not bool.
        """
        self._need_inside("end")
        if self._end is not None:
            raise ValueError(f'Loop "{self.name}": end was called twice in step {self._index}. One condition decides.')
        if self._given_axis is None and self.max_seq_len is None:
            raise ValueError(
                f'Loop "{self.name}": end without max_seq_len.\nA loop that never ends has to be cut somewhere.\n'
                f"    rf.Loop(max_seq_len=50, ...)"
            )
        if source.dtype != "bool":
            raise TypeError(
                message(f'Loop "{self.name}": end needs a bool.', [("cond", f"{shape_of(source)} {source.dtype}")],
                        "It says for each sequence whether it has ended.", "loop.end(labels == eos, include_eos=True)")
            )  # fmt: skip
        self._end = (source if self._recording is None else self._recording.end_with(source, include_eos), include_eos)

    # -- for search: a choice selects which hypotheses go on --------------------------------------------------------------

    def ended_before(self) -> np.ndarray | None:
        """Which hypotheses had ended before this step, over `end_dims`; None if none."""
        self._not_recorded("ended_before()")
        return self._ends.host if self._ends.some else None

    @property
    def end_dims(self) -> tuple[Dim, ...]:
        """The dims of the end condition, with the carried beam dim."""
        return self._ends.dims

    @property
    def ended(self) -> np.ndarray | None:
        """Which hypotheses have ended after the last finished step, over `end_dims`."""
        self._not_recorded("ended")
        return self._ends.host

    @property
    def step_lengths(self) -> np.ndarray | None:
        """How many steps each hypothesis has so far, over `end_dims`."""
        self._not_recorded("step_lengths")
        return self._ends.lengths

    def longest_with_end(self) -> int:
        """The longest sequence or hypothesis, with the step that ended it."""
        if self._given_axis is not None:
            return self.axis.extent + self._ends.past_length
        lengths = self._ends.lengths
        longest = int(lengths.max(initial=0)) if lengths is not None else 0
        return longest if self._end is not None and self._end[1] else longest + 1

    def call_on_commit(self, fn: Callable[[], None]) -> None:
        """Call `fn` at the end of this step, when it is known what has ended."""
        self._on_commit.append(fn)

    # -- running -----------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[int]:
        if self._phase != "before":
            raise RuntimeError(f'Loop "{self.name}" has run already. A loop runs once; make a new one.')
        self._phase = "in"
        carried: CarriedByFor | None = CarriedByFor(self.name, caller(1))
        try:
            while self._index + 1 < self._max_steps() and not self._all_ended():
                self._index += 1
                self._begin_step()
                _running.set((*_running.get(), self))
                try:  # as `_in_step`, which costs more
                    if listening():
                        with trace_context.loop(self.name, self._index, self.axis), self._around():
                            yield self._index
                            self._commit()
                    elif self._ends.some:
                        with self._around():
                            yield self._index
                            self._commit()
                    else:
                        yield self._index
                        self._commit()
                finally:
                    _leave(self)
                if carried is not None:
                    carried.check(self.axis)
                    carried = None
                self._check_length()
            self._finish()
        finally:
            self._phase = "after"
            self._state._finish()

    def __enter__(self) -> Loop:
        """Record the first step; see `rfnb/rec/recording.py`."""
        if self._phase != "before":
            raise RuntimeError(f'Loop "{self.name}" has run already. A loop runs once; make a new one.')
        self._phase, self._index = "in", 0
        with contextlib.ExitStack() as stack:
            self._begin_step()
            stack.enter_context(self._in_step())
            random = get_random_state() if self._has_no_steps() else None
            self._recording = Recording(self, random).__enter__()
            self._state._record(self._recording)
            self._carried = CarriedByWith(self.name, caller(1), self.axis)
            self._entered = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        recording, self._recording = self._recording, None
        carried, self._carried = self._carried, None
        assert recording is not None and carried is not None
        self._state._record(None)
        try:
            with self._entered:
                recording.__exit__(None, None, None)
                if error[0] is not None:
                    return
                carried.check(recording.recorder.used)
                self.plan = recording.plan(move_out=self._move_out)
                steps = not self._has_no_steps()
                if steps:
                    for node in self.plan.inside:
                        offer_again(node.offers)
                    self._commit()
                else:
                    self._index = -1  # the step that was recorded was none
                    if self.selections.now is not None:
                        for output in self._outputs:
                            output.values[:] = map(self.selections.now.to_carried, output.values)
            self._check_length()
            replay = Replay(recording, self.plan, self._outputs)
            while steps and self._index + 1 < self._max_steps() and not self._all_ended():
                self._index += 1
                self._begin_step()
                with self._in_step():
                    replay.step(self._index, self._state, self._index_tensor())
                    self._end, self._calls = replay.end(), len(self._outputs)
                    self._commit()
            recording.check_late_dims(self._state._names_with_late_dims())
            self._finish(replay.finish)
        finally:
            recording.close()
            self._phase = "after"
            self._state._finish()

    def _has_no_steps(self) -> bool:
        return (self._given_axis is not None or self.max_seq_len is not None) and self._max_steps() == 0

    @contextlib.contextmanager
    def _in_step(self) -> Iterator[None]:
        """This loop is the innermost one."""
        _running.set((*_running.get(), self))
        try:
            if listening():
                with trace_context.loop(self.name, self._index, self.axis), self._around():
                    yield
            else:
                with self._around():
                    yield
        finally:
            _leave(self)

    def _around(self) -> contextlib.AbstractContextManager[Any]:
        return around_step(self._ends.dims, self._ends.host if self._ends.some else None)

    def _check_length(self) -> None:
        if self._given_axis is None and self._ends.host is None and self._index == 0:
            raise ValueError(
                f'Loop "{self.name}": how long does it run?\nA loop without axis needs an end in its body.\n'
                "    loop.end(condition, include_eos=True)"
            )

    @property
    def has_given_axis(self) -> bool:
        """Whether the loop runs over a dim that was there before."""
        return self._given_axis is not None

    def _all_ended(self) -> bool:
        return self._given_axis is None and self._ends.all()

    def _max_steps(self) -> int:
        if self._given_axis is not None:
            return self.axis.extent
        if self.max_seq_len is None:
            return 1  # the first step tells what is missing: an end (which then asks for max_seq_len)
        limit = self.max_seq_len  # looked at in every step, since a body may set it
        return int(limit.numpy().max()) if isinstance(limit, Tensor) else int(limit)

    def _begin_step(self) -> None:
        if self._index == 0:
            check_frames(f'Loop "{self.name}"', self._given_axis)
        self._end, self._calls = None, 0
        self._on_commit.clear()
        self._state._begin_step(self._index)
        if self._given_axis is not None and self.axis.lengths is not None and self.axis.length_dims:
            self._ends.begin_step_of(self.axis, self._index)

    def _collect(self, source: Tensor, name: str | None, *, last: bool) -> Tensor:
        self._need_inside("last" if last else "stack")
        if self.axis in source.dims:
            raise self._not_a_frame("last" if last else "stack", source)
        if self._calls == len(self._outputs):
            if self._index > 0:
                raise ValueError(
                    f'Loop "{self.name}", step {self._index}: one more stack or last than in step 0.\n'
                    "Every step collects the same values, in the same order."
                )
            name = name or f"{self.name}:output{self._calls}"
            handle = handle_of(self, "last" if last else "stack", name, source.dtype)
            self._outputs.append(Output(handle, last))
            self._outputs[-1].initial = self._state._initial_of(source) if last else None
        output = self._outputs[self._calls]
        self._calls += 1
        if self._recording is not None:
            source = self._recording.output(source, last)
        selection = self.selections.now
        if selection is not None:
            if self._recording is None:
                selection.check(source)
            else:
                self._recording.by_loop(selection.check, source)
        output.values.append(source)
        return output.handle

    def _not_a_frame(self, what: str, source: Tensor) -> DimError:
        return DimError(
            message(f'Loop "{self.name}", step {self._index}: {what} of all frames.', [("source", shape_of(source)),
                                                                                      ("axis", self.axis.short_repr())],
                    "A step works on one frame, and the loop puts those of all steps together. Unstack what has the axis of the loop:",
                    f"x_t = loop.unstack(x)      # of each x with {self.axis.name}")
        )  # fmt: skip

    def _commit(self) -> None:
        if self._calls != len(self._outputs):
            raise ValueError(f'Loop "{self.name}", step {self._index}: fewer stack or last calls than in step 0.')
        self.selections.note_step()
        active = self._update_ends()
        for output in self._outputs:
            if output.last:
                self._update_last(output, active)
        self._state._commit(active)
        for fn in self._on_commit:
            fn()
        self.selections.end_step()
        if listening("states"):
            values = {path: leaf for path, leaf in leaves(self._state._values_now()) if isinstance(leaf, Tensor)}
            if values:
                probe("states", **values)

    def _update_ends(self) -> Tensor | None:
        """Which sequences this step counts for, as bool Tensor; None: all."""
        if self._given_axis is not None:
            return self._update_ends_of_axis()
        if self._end is None:
            raise ValueError(
                f'Loop "{self.name}", step {self._index}: no end.\nEvery step says what has ended.\n'
                "    loop.end(condition, include_eos=True)"
            )
        cond, include_eos = self._end
        counted = self._ends.update(cond, include_eos, self.selections.now, self._index)
        return None if counted is None else self._on_backend(counted, self._ends.dims, cond)

    def _update_ends_of_axis(self) -> Tensor | None:
        if self.axis.lengths is None or not self.axis.length_dims:
            return None
        counted = self._ends.end_step_of(self.axis, self._index)
        if counted is None:
            return None
        values = [leaf for _, leaf in leaves(self._state._values_now())] + [
            output.values[-1] for output in self._outputs
        ]
        return self._on_backend(
            counted, self.axis.length_dims, next((x for x in values if isinstance(x, Tensor)), None)
        )

    def _on_backend(self, host: np.ndarray, dims: tuple[Dim, ...], like: Tensor | None) -> Tensor:
        backend, device = (like.backend, like.device) if like is not None else (registry.selected(), None)
        return new_tensor(backend.from_numpy(host, dtype="bool", device=device), dims)

    def _update_last(self, output: Output, active: Tensor | None) -> None:
        value, before = output.values.pop(), output.last_value
        selection = self.selections.now
        if selection is not None:
            value, before = selection.to_carried(value), selection.to_carried(before)
        if active is not None:  # a sequence without any step has no last value: that of before the loop, else 0
            before = (zeros_like(value) if output.initial is None else output.initial) if before is None else before
            self._check_last(output, before, value, active)
            out = where(active, value, before, allow_broadcast_all_sources=True)
            value = marked_like(out, value)
        output.last_value = value

    def _check_last(self, output: Output, before: Tensor, value: Tensor, active: Tensor) -> None:
        if set(before.dims) - set(value.dims) - set(active.dims) or before.dtype != value.dtype:
            raise DimError(
                message(f'Loop "{self.name}", step {self._index}: a last value changed its dims or dtype.',
                        [("before", f"{shape_of(before)} {before.dtype}"), ("now", f"{shape_of(value)} {value.dtype}")],
                        "Each sequence keeps that of its own last step, so it has the same dims and dtype in every step.")
            )  # fmt: skip

    def _finish(self, complete: Callable[[Callable[[Any], Tensor | None]], None] | None = None) -> None:
        if self._given_axis is None:
            self._set_axis_lengths()
        if self.search is not None:
            self.search.finish(self)
        if complete is not None:
            complete(self._stacked)
        for output in self._outputs:
            result = output.result
            if output.last:
                result = self._value_without_steps(output) if output.last_value is None else output.last_value
            elif result is None:
                result = self._stacked(output)
            if result is not None:
                fill(output.handle, result)
                if result.sparse_dim is not None and listening():
                    probe("tokens", ids=result)  # what was written labels the steps, as what was read does
            output.values.clear()
        self.selections.forget_way_back()

    def _value_without_steps(self, output: Output) -> Tensor | None:
        """The last value of a recorded loop that makes no step."""
        if not output.values:
            return None
        return zeros_like(output.values[-1]) if output.initial is None else output.initial

    def _set_axis_lengths(self) -> None:
        lengths = self._ends.lengths if self._ends.lengths is not None else np.zeros((), np.int32)
        raw = registry.selected().from_numpy(lengths, dtype="int32", device="cpu")
        self.axis.dyn_size_ext = new_tensor(raw, self._ends.dims)

    def _stacked(self, output: Output) -> Tensor | None:
        values = output.values
        if not values:
            return None
        last = self.selections.last if self.selections.steps else None  # a recorded loop may make no step
        if last is not None:
            values, positions, position_dims = self.selections.back(values)
            # Before the first choice a value has no beam: it is the same for all hypotheses.
            values = expanded(values, list({dim: None for value in values for dim in value.dims if is_beam(dim)}))
        first = values[0]
        later = self._ends.dims if output.inner else ()
        out = stacked(values, axis=self.axis, loop_name=self.name, later=later)
        values = values[: self.axis.extent]  # without the ending frame there may be one step more than frames
        if not values:
            return out
        if last is None or last.carried not in first.dims:
            return out
        host = positions[: len(values)]
        index = new_tensor(
            first.backend.from_numpy(host, dtype="int64", device=first.device), (self.axis, *position_dims)
        )
        return pick(out, index, last.carried, last.carried)

    def _not_recorded(self, what: str) -> None:
        if self._recording is not None and not self._recording.recorder.busy:
            raise RecordingError(
                f'Loop "{self.name}", recorded step: loop.{what} is that of the first step.\nThe body of `with loop:` runs once.'
                " The step as a tensor is loop.iter_idx; or let Python run every step:\n    for _ in loop:"
            )

    def _need_inside(self, what: str) -> None:
        if self._phase != "in":
            raise RuntimeError(
                f'Loop "{self.name}": {what} is used inside of the loop.\n    for _ in loop:\n        ... loop.{what}(...)'
            )


def _leave(loop: Loop) -> None:
    """The loop runs no longer, nor does any in it that an interrupt has not let end. A generator (`for _ in loop`) that another
    thread's garbage collector closes finds no loops there."""
    loops = _running.get()
    if loop in loops:
        _running.set(loops[: loops.index(loop)])


def check_frames(what: str, axis: Dim | None) -> None:
    """Raise a DimError for steps over an `axis` whose lengths are over that of a running loop: a step of that one has one of them."""
    around = () if axis is None or not axis.has_padding() else _running.get()
    for loop in around:
        if axis is not None and loop._given_axis in axis.length_dims and loop._given_axis is not axis:
            frames, outer = (dim.name if dim.name.isidentifier() else "..." for dim in (axis, loop.axis))
            raise DimError(
                message(
                    f"{what}: the lengths of {axis.short_repr()} are over {outer}.",
                    [
                        ("around", f'Loop "{loop.name}" over {loop.axis.short_repr()}'),
                        ("lengths", dims_text(axis.length_dims)),
                    ],
                    f"A step of the loop around has one frame of {outer}, with frames of its own. Cut them out, in Python steps:",
                    f"x_t, {frames}_t = rf.slice(loop.unstack(x), axis={frames}, size=loop.unstack({frames}.dyn_size_ext))"
                    f'      # loop "{loop.name}"',
                )
            )


@explain_mismatch
def _forgotten_unstack(operands: Sequence[tuple[str, tuple[Dim, ...]]]) -> tuple[str, str] | None:
    """Of operands in a step, one of which has all frames."""
    for loop in reversed(_running.get()):
        whole = [label for label, dims in operands if loop._given_axis in dims]
        if loop._given_axis is not None and whole and len(whole) < len(operands):
            has = " and ".join(whole)
            rule = f'{has} has all frames of {loop.axis.name}; a step of loop "{loop.name}" works on one. Unstack it before:'
            return rule, "\n".join(f"{label}_t = loop.unstack({label})" for label in whole)
    return None
