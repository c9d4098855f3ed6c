"""Runs many steps of a recorded loop over a given axis in one call.

If every op of a step belongs to a program and nothing listens or chooses, no value of a step is visible outside: a program takes the
frames of all steps, carries the states and returns the stacked outputs; ended sequences keep their state inside it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from rfnb.core.finite_padding import StepWithEnded, steps_now
from rfnb.core.pickling import NotPicklable
from rfnb.core.tensor import Tensor, new_tensor, with_raw
from rfnb.core.tree import leaves, values_in
from rfnb.rec.ends import EndsOfAxis
from rfnb.rec.first_step import FEWEST, FirstStep, are_together, program_of_steps
from rfnb.rec.output import Output
from rfnb.rec.program import Listing, Program
from rfnb.rec.raw_trace import (
    Circumstances,
    DimMap,
    RawTrace,
    Registers,
    attributes,
    guard,
    note,
    own_array,
)

if TYPE_CHECKING:
    from rfnb.rec.loop_step import PlainStep, Step

_TRIES = 3  # how often a step is watched
_ANY = "any"  # the kind of all steps together
_END = "what has ended keeps its state"


class Stretch(NotPicklable):
    """The programs of a loop: one for the steps before the first sequence ends, and one for those after.

    Args:
        ops: All ops of a step: `ops.nodes`, and `ops.all` with the functions that run them.
        sources: (register, Tensor) whose frames the steps read.
        index: The register of the step index; None if it is not read.
        stacked: Outputs that get a value in each step.
        lasts: Outputs that keep the last one.
        names: register -> its name.
        first: The recorded step, if it was watched.
    """

    def __init__(
        self,
        ops: Any,
        sources: Sequence[tuple[int, Tensor]],
        index: int | None,
        stacked: Sequence[Output],
        lasts: Sequence[Output],
        names: dict[int, str],
        first: FirstStep | None,
    ):
        self._first = first
        self.ops, self.sources, self.index, self.stacked, self.lasts, self.names = (
            ops,
            sources,
            index,
            stacked,
            lasts,
            names,
        )
        self._programs: dict[Any, _ManySteps] = {}
        self._tries = 0
        self._together: bool | None = None  # one program for all steps, also those before the first sequence has ended
        self._watch: _WatchedStep | None = None

    def run_on(self, index: int, ends: EndsOfAxis, step: PlainStep) -> int:
        """Run the steps from `index` on that have a program; return how many."""
        self._watch = None
        if self._tries >= _TRIES:
            return 0
        kind: Any
        kind, until, now = ends.kind(index), ends.same_until(index), Circumstances()
        if self._together is None:
            self._together = are_together(ends, index)
        if self._together:
            kind, until = _ANY, ends.axis.extent
        first, self._first = self._first, None
        if first is not None and kind == (False, False):
            self._begin_with(first, kind, step)
        steps = self._programs.get(kind)
        if steps is not None and steps.fit(now, index, step):
            if steps.run(range(index, until), ends, step):
                return until - index
            self._tries = _TRIES
        elif until - index >= FEWEST and now.unseen() and not now.listeners:
            backend = next(iter(_carried(step, self.lasts).values())).backend
            if backend.trace_calls() is None:
                self._tries = _TRIES
            else:
                self._watch = _WatchedStep(self, kind, now, backend, ends, index)
        return 0

    def _begin_with(self, first: FirstStep, kind: Any, step: PlainStep) -> None:
        """Make a program of the recorded step if it resembles those that follow."""
        registers = [register for register, _ in self.sources] + ([] if self.index is None else [self.index])
        nodes, stacked = self.ops.nodes, [output.values[-1] for output in self.stacked]
        if not self.lasts:
            carried = _carried(step, ())
            made = first.program(nodes, registers, self.names, carried, stacked, partial(note, nodes))
            if made is not None:
                program, key, carried, given = made
                self._programs[kind] = _ManySteps(program, key, self, carried, stacked, given, (), False)

    @property
    def watching(self) -> bool:
        """True if this step is watched and therefore runs op by op."""
        return self._watch is not None

    def begin(self, step: Step) -> None:
        """Begin a watched step."""
        assert self._watch is not None
        self._watch.begin(step)

    def run(self, registers: Registers, dims: DimMap) -> None:
        """Run the ops of a watched step."""
        assert self._watch is not None
        self._watch.run(registers, dims)

    def commit(self, step: Step, active: Tensor | None) -> None:
        """End a watched step and make a program of it."""
        assert self._watch is not None
        watch, self._watch = self._watch, None
        self._tries += 1
        if watch.kind == _ANY and not watch.may_keep(step):
            self._together = False
            return step.commit(active)
        steps = watch.commit(step, active)
        if steps is not None:
            self._programs[watch.kind] = steps
            self._tries = 0

    def close(self) -> None:
        """Release the arrays when the loop is left, without waiting for the garbage collector."""
        self._programs.clear()
        self._watch = self._first = None

    def listings(self) -> list[Listing]:
        """The programs for display."""
        return [steps.program.listing for steps in self._programs.values()]


class _WatchedStep:
    """A step that is watched from beginning to end."""

    def __init__(self, of: Stretch, kind: Any, now: Circumstances, backend: Any, ends: EndsOfAxis, index: int):
        self._of, self.kind, self._now, self._backend = of, kind, now, backend
        self._ends, self._index = ends, index
        self._steps: tuple[StepWithEnded, ...] = ()

    def begin(self, step: Step) -> None:
        step.states.replace(own_array)
        for output in self._of.lasts:
            output.last_value = None if output.last_value is None else own_array(output.last_value)
        self._before = _carried(step, self._of.lasts)

    def run(self, registers: Registers, dims: DimMap) -> None:
        of = self._of
        self._registers = registers
        ended = self._ends.some or self.kind != _ANY or not self._backend.grad_enabled()
        with nullcontext() if ended else self._ends.step_with_ended(self._index):
            self._seen = RawTrace(of.ops.all, registers, dims, self._backend.trace_calls())
            self._steps = steps_now()[len(self._now.steps) :]
        given = [register for register, _ in of.sources] + ([] if of.index is None else [of.index])
        self._given = {register: registers[register] for register in given}

    def may_keep(self, step: Step) -> bool:
        """True if values already have the length dims, which they otherwise get when the first sequence ends."""
        values = [leaf for leaf in values_in(step.states.next) if isinstance(leaf, Tensor)]
        values += [*self._before.values(), *(output.values[-1] for output in self._of.lasts)]
        return all(set(self._ends.dims) <= set(value.dims) for value in values)

    def commit(self, step: Step, active: Tensor | None) -> _ManySteps | None:
        """Let `step` commit, and make a program, or None."""
        of, backend = self._of, self._backend
        stacked = [output.values[-1] for output in of.stacked]
        if active is None and self.kind == _ANY:
            like = next(iter(self._before.values()))
            (raw,) = self._ends.active_in(range(self._index, self._index + 1), like)
            active = new_tensor(raw, self._ends.dims)
        with backend.trace_calls() as calls:
            step.commit(active)
        after = _carried(step, of.lasts)
        before = self._before
        if self._seen.made_dims or before.keys() != after.keys():
            return None
        if any(guard(value) != guard(after[path]) for path, value in before.items()):
            return None  # e.g. gradients are tracked from this step on
        masks = [key for one in self._steps for key in one.masks]
        further = {f"going_on{number}": self._steps[0].masks[key] for number, key in enumerate(masks)}
        if active is not None:
            further["active"] = active._raw
        results, text = (*after.values(), *stacked), partial(_note, of.ops.nodes)
        program = program_of_steps(self._seen, self._given, before, results, of.names, text, further, calls)
        return (
            None
            if program is None
            else _ManySteps(program, self._now.key, of, before, stacked, self._given, masks, active is not None)
        )


class _ManySteps:
    """A program for many steps and the conditions that it holds for.

    Args:
        key: Key of the circumstances.
        carried: Path -> a value like those that it carries.
        stacked: Values like those that a step gives to each output.
        given: register -> a value like those that a step gets.
        masks: The masks of unfinished sequences that it reads.
        active: Whether it depends on the sequences that a step counts for.
    """

    def __init__(
        self,
        program: Program,
        key: Any,
        of: Stretch,
        carried: dict[str, Tensor],
        stacked: Sequence[Tensor],
        given: dict[int, Tensor],
        masks: Sequence[Any],
        active: bool,
    ):
        self.program, self._key, self._of, self._masks, self._active = program, key, of, masks, active
        self._guards = {path: guard(value) for path, value in carried.items()}
        self._given = {register: guard(value) for register, value in given.items()}
        self._carried = [attributes(value) for value in carried.values()]
        self._stacked = [attributes(value) for value in stacked]

    def fit(self, now: Circumstances, index: int, step: PlainStep) -> bool:
        """True if the program holds for the steps from `index` on."""
        of, carried = self._of, _carried(step, self._of.lasts)
        if now.key != self._key or not now.unseen() or carried.keys() != self._guards.keys():
            return False
        if any(guard(value) != self._guards[path] for path, value in carried.items()):
            return False
        return all(guard(step.frames(source)[index]) == self._given[register] for register, source in of.sources)

    def run(self, indices: range, ends: EndsOfAxis, step: PlainStep) -> bool:
        """Run the steps. Returns False on any error; the caller then reruns op by op to get a proper message."""
        of, columns = self._of, list[list[Any]]()
        for _, source in of.sources:
            columns.append(list(step.raw_frames(source)[indices.start : indices.stop]))
        if of.index is not None:
            columns.append([step.index_at(index)._raw for index in indices])
        if self._masks:
            steps = [ends.step_with_ended(index) for index in indices]
            columns += [[one.mask_for(*key) for one in steps] for key in self._masks]
        carried = _carried(step, of.lasts)
        if self._active:
            columns.append(ends.active_in(indices, next(iter(carried.values()))))
        kept: list[list[Any]] = [[] for _ in of.stacked]
        keep, inputs = [one.append for one in kept], [value._raw for value in carried.values()]
        try:
            raws = self.program.run_steps(columns, len(indices), keep, inputs)
        except Exception:
            return False
        for output, raws_of_output, like in zip(of.stacked, kept, self._stacked, strict=True):
            output.further.append((with_raw(like, raws_of_output[-1]), raws_of_output))
        values = iter([with_raw(like, raw) for like, raw in zip(self._carried, raws, strict=True)])
        step.states.replace(lambda _: next(values))
        for output in of.lasts:
            output.last_value = next(values)
        return True


def _carried(step: Step, lasts: Sequence[Output]) -> dict[str, Tensor]:
    """The values carried from step to step: the states and the last values."""
    out = {path: leaf for path, leaf in leaves(step.states.now, "state") if isinstance(leaf, Tensor)}
    return out | {
        f"last {number}": output.last_value for number, output in enumerate(lasts) if output.last_value is not None
    }


def _note(nodes: Sequence[Any], place: int) -> str:
    return note(nodes, place) if place < len(nodes) else _END
