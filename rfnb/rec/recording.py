"""The record of a loop body's reads and writes, as plain data: the basis of the plan, its text and the replay."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.pickling import NotPicklable
from rfnb.core.tensor import Tensor
from rfnb.core.tree import leaves, map_nested
from rfnb.rec.dry_run import DryRun
from rfnb.rec.recorder import Recorder
from rfnb.rec.step_tensor import StepTensor, recording_error


class Recording(NotPicklable):
    """One recorded body.

    Attributes:
        name: The name of the loop.
        axis: The dim of the loop; `over_axis`: whether it was given.
        recorder: The ops of the first step.
        states: name -> what the body reads, with a StepTensor for each Tensor.
        next_states: name -> what the body assigned.
        frames: (source, StepTensor) of each `unstack`.
        index: StepTensor of `iter_idx`, if it was requested.
        outputs: (value, last) of each `stack` and `last`, in order.
        end: (condition, include_eos) if there is one.
        quiet: What `second_step` runs the body in.
        reads: name -> what the body got each time that it read a state, and `brought`: ids of the ops that brought it to the
            hypotheses of a choice.
    """

    def __init__(self, name: str, axis: Dim, over_axis: bool):
        self.name, self.axis, self.over_axis = name, axis, over_axis
        self.recorder = Recorder(name)
        self.states: dict[str, Any] = {}
        self.next_states: dict[str, Any] = {}
        self.frames: list[tuple[Tensor, StepTensor]] = []
        self.index: StepTensor | None = None
        self.outputs: list[tuple[Any, bool]] = []
        self.end: tuple[Any, bool] | None = None
        self.reads: dict[str, list[Any]] = {}
        self.brought: set[int] = set()
        self.quiet = DryRun()
        self._lent: list[tuple[str, Any, Any]] = []

    def lend(self, name: str, value: Any, original: Any) -> Any:
        """Lend a state's `value` to the body, which must leave it equal to `original`; return it."""
        self._lent.append((name, value, original))
        return value

    def roots(self) -> set[int]:
        """The registers that the recurrence needs: new states, the end, values of the last step."""
        values: list[Any] = [self.next_states, [value for value, last in self.outputs if last]]
        if self.end is not None:
            values.append(self.end[0])
        return self.recorder.reads(values)

    def way(self) -> tuple[Any, ...]:
        """The path that the body took: its ops, by their place in the user's code."""
        return tuple([(node.op.name, id(node.place[0]), node.place[1]) for node in self.recorder.nodes])

    def check(self) -> None:
        """Raise a RecordingError if a state is a plain number that changes, or was changed in place."""
        for name, given, before in self._lent:
            if not _same_leaves(given, before):
                raise recording_error(
                    f'Loop "{self.name}", recorded step: state "{name}" was changed in place.',
                    {"before": _paths(before), "now": _paths(given)},
                    "The loop only notices assignments. Assign a new value:",
                    f"loop.state.{name} = rf.State(...)",
                )
        for name, value in self.next_states.items():
            before = dict(leaves(self.states[name]))
            for path, leaf in leaves(value):
                if isinstance(before.get(path), Tensor):
                    continue  # the state says by itself that it has changed its structure
                if not isinstance(leaf, (Tensor, Dim)) and leaf != before.get(path):
                    raise recording_error(
                        f'Loop "{self.name}", recorded step: state "{name}" is a plain value that changes.',
                        {"before": before.get(path), "now": leaf},
                        "The body of `with loop:` runs once, so the other steps would not change it. Make it a tensor:",
                        f"loop.state.{name} = rf.constant({before.get(path)!r}, dims=[])",
                    )

    def forget(self) -> None:
        """Keep the ops and release all values."""
        owns = self.recorder.owns
        self.frames = [(Tensor(source.name, source.dims, source.dtype), frame) for source, frame in self.frames]
        self.states, self.next_states = map_nested(lambda x: x if owns(x) else None, (self.states, self.next_states))
        self.outputs = [(value if owns(value) else None, last) for value, last in self.outputs]
        self.end = None if self.end is None or not owns(self.end[0]) else self.end
        self._lent.clear()
        self.reads.clear()
        self.recorder.forget()

    def check_late_dims(self, names: list[str]) -> None:
        """Raise a RecordingError if the body has read dims that differ in later steps: those of values from the states `names`, which
        got the length dims when the first sequence ended.
        """
        late = {register for name in names for register in self.recorder.reads(self.states[name])}
        for node in self.recorder.nodes:
            if late & set(node.reads):
                late.update(node.writes)
        seen = next((x for x in self.recorder.registers if x.register in late and x.dims_seen), None)
        if seen is not None:
            raise recording_error(
                f'Loop "{self.name}", recorded step: the body reads the dims of a tensor that gets another dim later.',
                {"tensor": repr(seen), "state": ", ".join(names)},
                "A state gets the dims of the lengths when the first sequence ends. Give its initial value these dims:",
                f"loop.state.{names[0]} = rf.expand_dims(initial, dims=[...])",
            )


def _same_leaves(a: Any, b: Any) -> bool:
    """True if two structures hold the same objects."""
    one, other = leaves(a), leaves(b)
    return len(one) == len(other) and all(
        path == path_b and leaf is leaf_b for (path, leaf), (path_b, leaf_b) in zip(one, other)
    )


def _paths(value: Any) -> str:
    return ", ".join(f"{path} {leaf!r}" if path else repr(leaf) for path, leaf in leaves(value)) or "nothing"
