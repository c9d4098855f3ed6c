"""What `with loop:` does: record the first step, plan, run the other steps from the record.

The body runs once, on the first frame. On leaving, each op of the record has one of three places (`rfnb/rec/loop_plan.py`):

    before   what depends on the frames but not on the state: once, for the whole sequence
    inside   what the state needs: in every step
    after    what only the stacked outputs need: once, for all steps

Since an op finds its dims by identity, the op for all steps is the same op on tensors with one more dim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rfnb.core.dim import Dim
from rfnb.core.errors import message
from rfnb.core.pickling import NotPicklable
from rfnb.core.tensor import Tensor
from rfnb.ops.random_state import set_random_state
from rfnb.rec.loop_plan import LoopPlan
from rfnb.rec.nested import leaves
from rfnb.rec.recorder import Recorder, copied
from rfnb.rec.step_tensor import RecordingError, StepTensor, begin_growing, end_growing

if TYPE_CHECKING:
    from rfnb.rec.loop import Loop


class Recording(NotPicklable):
    """One recorded loop: what its body reads and writes.

    Attributes:
        recorder: The ops of the first step.
        states: name -> what the body reads, with a StepTensor for each Tensor.
        next_states: name -> what the body assigned.
        frames: (source, StepTensor) of each `unstack`.
        index: StepTensor of `iter_idx`, if it was asked for.
        outputs: (value, last) of each `stack` and `last`, in order.
        end: (condition, include_eos) if there is one.
    """

    def __init__(self, loop: Loop, random: dict[str, bytes] | None = None):
        self.loop = loop
        self._random = random  # a loop without any step draws nothing
        self.recorder = Recorder(loop.name)
        self.states: dict[str, Any] = {}
        self.next_states: dict[str, Any] = {}
        self.frames: list[tuple[Tensor, StepTensor]] = []
        self.index: StepTensor | None = None
        self.outputs: list[tuple[Any, bool]] = []
        self.end: tuple[Any, bool] | None = None
        self._context: Any = None
        self._given: list[
            tuple[str, Any, Any]
        ] = []  # (name, what the body has, what it was): of each state read or written

    def __enter__(self) -> Recording:
        for name, value in self.loop.state._values_now().items():
            self.recorder.growing.update(leaf for _, leaf in leaves(value) if isinstance(leaf, Dim))
            self.states[name] = self.recorder.wrap(value)
        for dim in self.recorder.growing:
            begin_growing(dim, self.recorder)
        self._context = self.recorder.recording()
        self._context.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """Stop recording; no further ops are seen."""
        self._context.__exit__(*error)
        self.recorder.busy = True  # from here on the loop itself looks at the dims

    def close(self) -> None:
        """The loop is over: the dims of the state are plain dims again."""
        for dim in self.recorder.growing:
            end_growing(dim)

    # -- what the body sees ------------------------------------------------------------------------------------------------

    def read_state(self, name: str, assigned: bool) -> Any:
        """What a body finds that reads this state: the next value if it has assigned one, else the previous one."""
        return self._lent(name, self.next_states[name] if assigned else self.states[name])

    def write_state(self, name: str, value: Any) -> Any:
        """Note a new value; returns it with the values of the first step."""
        self.recorder.note_used(value)
        self.next_states[name] = copied(value)
        self._given.append((name, value, self.next_states[name]))
        return self.recorder.unwrapped(value)

    def _lent(self, name: str, value: Any) -> Any:
        """A copy, which the body must not change."""
        if not isinstance(value, (dict, list, tuple)):
            return value
        out = copied(value)
        self._given.append((name, out, value))
        return out

    def frame(self, source: Tensor, value: Callable[[], Tensor]) -> StepTensor:
        """The StepTensor of a frame of `source`."""
        if self.recorder.owns(source):
            raise RecordingError(
                message(
                    f'Loop "{self.loop.name}", recorded step: unstack of a tensor that was made in the step.',
                    [("source", repr(source))],
                    "The frames of a loop are those of a tensor from before it.",
                )
            )
        out = self.recorder.new(value())
        self.frames.append((source, out))
        return out

    def step_index(self, value: Tensor) -> StepTensor:
        """The index of the step, as a value that differs from step to step."""
        if self.index is None:
            self.index = self.recorder.new(value)
        return self.index

    def output(self, value: Any, last: bool) -> Any:
        """Note an output; returns its value in the first step."""
        self.recorder.note_used(value)
        self.outputs.append((value, last))
        return self.recorder.unwrapped(value)

    def by_loop(self, fn: Callable[[Any], None], value: Any) -> None:
        """fn(value), where the loop itself looks at the dims of the value, and not the body."""
        recorder = self.recorder
        recorder.busy, before = True, recorder.busy
        try:
            fn(value)
        finally:
            recorder.busy = before

    def end_with(self, cond: Any, include_eos: bool) -> Any:
        """Note the end condition; returns its value in the first step."""
        self.recorder.note_used(cond)
        self.end = (cond, include_eos)
        return self.recorder.unwrapped(cond)

    # -- on leaving --------------------------------------------------------------------------------------------------------

    def plan(self, *, move_out: bool) -> LoopPlan:
        """Where each op goes.

        Raises:
            RecordingError: If a state is a plain number that changes, or was changed in place; if others than ops drew random numbers.
        """
        self.recorder.check_generators()
        if self._random is not None:
            set_random_state(self._random)
        for name, given, before in self._given:
            if not _same_leaves(given, before):
                raise RecordingError(
                    message(
                        f'Loop "{self.loop.name}", recorded step: state "{name}" was changed in place.',
                        [("before", _paths(before)), ("now", _paths(given))],
                        "The loop sees what is assigned. Assign a new value:",
                        f"loop.state.{name} = rf.State(...)",
                    )
                )
        for name, value in self.next_states.items():
            before = dict(leaves(self.states[name]))
            for path, leaf in leaves(value):
                if isinstance(before.get(path), Tensor):
                    continue  # the state says by itself that it has changed its structure
                if not isinstance(leaf, (Tensor, Dim)) and leaf != before.get(path):
                    raise RecordingError(
                        message(
                            f'Loop "{self.loop.name}", recorded step: state "{name}" is a plain value that changes.',
                            [("before", before.get(path)), ("now", leaf)],
                            "The body of `with loop:` runs once, so the other steps would not change it. Make it a tensor:",
                            f"loop.state.{name} = rf.constant({before.get(path)!r}, dims=[])",
                        )
                    )
        return LoopPlan(self, move_out=move_out)

    def check_late_dims(self, names: list[str]) -> None:
        """Raise a RecordingError if the body has looked at dims that are others in later steps: those of values from the states
        `names`, which got the dims of the lengths when the first sequence ended."""
        late = {register for name in names for register in self.recorder.reads(self.states[name])}
        for node in self.recorder.nodes:
            if late & set(node.reads):
                late.update(node.writes)
        seen = next((x for x in self.recorder.registers if x.register in late and x.dims_seen), None)
        if seen is not None:
            raise RecordingError(
                message(
                    f'Loop "{self.loop.name}", recorded step: the body looks at the dims of a tensor that gets another one later.',
                    [("tensor", repr(seen)), ("state", ", ".join(names))],
                    "A state gets the dims of the lengths when the first sequence ends. Give its initial value these dims:",
                    f"loop.state.{names[0]} = rf.expand_dims(initial, dims=[...])",
                )
            )

    def roots(self) -> set[int]:
        """The registers that the recurrence needs: new states, the end, values of the last step."""
        values: list[Any] = [self.next_states, [value for value, last in self.outputs if last]]
        if self.end is not None:
            values.append(self.end[0])
        return self.recorder.reads(values)


def _same_leaves(a: Any, b: Any) -> bool:
    """Whether two structures hold the same objects."""
    one, other = list(leaves(a)), list(leaves(b))
    return len(one) == len(other) and all(
        path == path_b and leaf is leaf_b for (path, leaf), (path_b, leaf_b) in zip(one, other)
    )


def _paths(value: Any) -> str:
    return ", ".join(f"{path} {leaf!r}" if path else repr(leaf) for path, leaf in leaves(value)) or "nothing"
