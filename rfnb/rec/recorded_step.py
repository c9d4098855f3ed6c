"""The step of `with loop:`: the first step is recorded while the body runs, all others are replayed from the record.

The body runs once, on the first frame. At the end of the block, each op of the record is assigned one of three places
(`rfnb/rec/loop_plan.py`):

    before   what depends on the frames but not on the state: once, for the whole sequence
    inside   what the state needs: in every step
    after    what only the stacked outputs need: once, for all steps

Since an op finds its dims by identity, the op for all steps is the same op on tensors with one more dim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.core.tree import in_order_of, is_container, values_in
from rfnb.ops.random_state import get_random_state, set_random_state
from rfnb.rec.carried_variables import CarriedByWith
from rfnb.rec.ends import Ends, EndsByCondition, EndsOfAxis
from rfnb.rec.first_step import FirstStep
from rfnb.rec.loop_plan import LoopPlan
from rfnb.rec.loop_step import PlainStep, Step, StepAround
from rfnb.rec.raw_trace import own_array
from rfnb.rec.recorder import copied
from rfnb.rec.recording import Recording
from rfnb.rec.replay import Replay
from rfnb.rec.selections import bring
from rfnb.rec.step_tensor import RecordingError, begin_growing, end_growing, recording_error
from rfnb.trace.probe import offer_again


class RecordedStep(StepAround):
    """Records the body in the first step, and replays the others.

    Args:
        inner: Source and destination of the values of each step.
        ends: Ends of the loop.
    """

    def __init__(self, inner: Step, *, name: str, axis: Dim, ends: Ends, no_steps: bool):
        super().__init__(inner)
        self.recording = Recording(name, axis, isinstance(ends, EndsOfAxis))
        self._ends, self._first = ends, None if no_steps else FirstStep(self.recording)
        self.no_steps = no_steps
        self._generators = get_random_state() if no_steps else None  # which draws nothing
        self._records, self._index = False, -1
        self._replay: Replay | None = None

    # -- for the loop ------------------------------------------------------------------------------------------------------

    def begin(self, index: int) -> None:
        super().begin(index)
        self._index = index
        if self._replay is not None:
            return
        recording, recorder = self.recording, self.recording.recorder
        if self._first is not None and not (
            type(self.inner) is PlainStep and self._first.watch(self.states, self._ends)
        ):
            self._first = None
        for name, value in self.states.now.items():
            recorder.growing.update(leaf for leaf in values_in(value) if isinstance(leaf, Dim))
            recording.states[name] = recorder.wrap(value)
        for dim in recorder.growing:
            begin_growing(dim, recorder.owner)
        recorder.start()
        self._records = True

    @property
    def is_recording(self) -> bool:
        return self._records

    def end_recording(self, carried: CarriedByWith, *, move_out: bool) -> LoopPlan:
        """Plan the other steps at the end of the body.

        Args:
            carried: The names that Python would have to carry.

        Raises:
            RecordingError: If they would differ from the meaning of the body.
        """
        unseen = self.recording.recorder.draws.somebody_unseen()
        self.stop()
        self.recording.recorder.check_generators(unseen)
        if self._generators is not None:
            set_random_state(self._generators)
        self.recording.check()
        carried.check(self.recording)
        # What another step gives as frames is not known before its time.
        plan = LoopPlan(self.recording, move_out=move_out and type(self.inner) is PlainStep)
        if self.no_steps:
            self.outputs.no_step()
        else:
            for node in plan.inside:
                offer_again(node.offers)
        self._replay = Replay(self.recording, plan, self.outputs, self._first)
        return plan

    def stop(self) -> None:
        """Stop recording ops; may be called again."""
        self._records = False
        self.recording.recorder.stop()
        self.recording.recorder.owner.busy = True  # from here on the loop itself looks at the dims

    def run_on(self, index: int, ends: Ends, most: Callable[[], int]) -> int:
        replay, inner = self._replay, self.inner
        if replay is None or type(inner) is not PlainStep:
            return 0
        if isinstance(ends, EndsByCondition):
            return 0 if replay.chosen is None else replay.chosen.run_on(index, most(), ends, inner)
        if replay.stretch is None or not isinstance(ends, EndsOfAxis):
            return 0
        made = replay.stretch.run_on(index, ends, inner)
        if made:
            ends.pass_until(index + made)
            self.states.selections.note_step(made)
        return made

    def commit(self, active: Tensor | None) -> None:
        if self._replay is not None and self._index and type(self.inner) is PlainStep:
            self._replay.commit(self.inner, active)
        else:
            super().commit(active)

    def run(self) -> bool:
        replay = self._replay
        if replay is None:
            return False
        replay.step(self.inner)
        return True

    def finish(self) -> None:
        self.recording.check_late_dims(self.states.with_late_dims())
        assert self._replay is not None
        self._replay.finish(self.outputs.stacked)
        super().finish()

    def close(self) -> None:
        self.stop()
        self.recording.quiet.undo()
        for dim in self.recording.recorder.growing:
            end_growing(dim)
        if self._replay is not None:
            self._replay.close()
            self._replay = None
        super().close()

    # -- for the body ------------------------------------------------------------------------------------------------------

    def read(self, name: str) -> Any:
        states = self.states
        if name not in states.now:
            raise states.missing(name)
        value = (self.recording.next_states if name in states.next else self.recording.states)[name]
        if is_container(value):  # a copy, which the body must not change
            value = self.recording.lend(name, copied(value), value)
        nodes = self.recording.recorder.nodes
        count = len(nodes)
        value = value if states.selections.now is None else bring(states.selections, value)
        self.recording.brought.update(map(id, nodes[count:]))
        self.recording.reads.setdefault(name, []).append(value)
        return value

    def write(self, name: str, value: Any) -> None:
        recorder, recording = self.recording.recorder, self.recording
        if type(self.inner) is not PlainStep:  # which checks by itself
            self.states.check(name, value)
        recorder.note_used(value)
        # The other steps find its parts by their places.
        after = in_order_of(recording.states.get(name), copied(value))
        self.inner.write(name, recorder.unwrapped(after))
        recording.next_states[name] = after
        if is_container(value):
            recording.lend(name, value, copied(value))

    def frame(self, source: Tensor) -> Tensor:
        recorder = self.recording.recorder
        if recorder.owns(source):
            raise recording_error(
                f'Loop "{self.recording.name}", recorded step: unstack of a tensor that was made in the step.',
                {"source": repr(source)},
                "The frames of a loop are those of a tensor from before it.",
            )
        out = recorder.new(self._own(recorder.aside(self.inner.frame, source)))
        self.recording.frames.append((source, out))
        return out

    def index(self) -> Tensor:
        if self.recording.index is None:
            self.recording.index = self.recording.recorder.new(self._own(self.inner.index()))
        return self.recording.index

    def _own(self, value: Tensor) -> Tensor:
        """A value for the body, in its own array if its use is being watched."""
        return value if self._first is None else own_array(value)

    def output(self, value: Tensor, last: bool) -> Tensor:
        recorder = self.recording.recorder
        recorder.note_used(value)
        self.recording.outputs.append((value, last))
        owner = recorder.owner
        owner.busy, before = True, owner.busy
        try:  # the loop itself looks at the dims of the value, and not the body
            return self.inner.output(recorder.unwrapped(value), last)
        finally:
            owner.busy = before

    def end_with(self, cond: Tensor, include_eos: bool) -> None:
        self.recording.recorder.note_used(cond)
        self.recording.end = cond, include_eos
        self.inner.end_with(self.recording.recorder.unwrapped(cond), include_eos)

    def check_known(self, what: str) -> None:
        if self._records and not self.recording.recorder.owner.busy:
            raise RecordingError(
                f'Loop "{self.recording.name}", recorded step: loop.{what} is that of the first step.\nThe body of `with loop:` runs once.'
                " The step as a tensor is loop.iter_idx; or let Python run every step:\n    for _ in loop:"
            )
