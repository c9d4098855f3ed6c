"""Runs the steps of a recorded loop from its plan."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rfnb.core import tree
from rfnb.core.dim import Dim
from rfnb.core.dim_math import substituted
from rfnb.core.pickling import NotPicklable
from rfnb.core.tensor import Tensor
from rfnb.core.tree import items_of, made_of, map_nested, values_in
from rfnb.ops.concat import stack
from rfnb.ops.frames import frames
from rfnb.rec.first_step import FirstStep
from rfnb.rec.loop_plan import LoopPlan
from rfnb.rec.loop_plan_text import value_names
from rfnb.rec.modes import modes_again
from rfnb.rec.output import Output
from rfnb.rec.raw_trace import Circumstances, DimMap, Op, Registers, Run
from rfnb.rec.recorder import Masked, Node, Recorder, dims_of_leaf
from rfnb.rec.search_steps import Body, SearchSteps
from rfnb.rec.segment import Part, Segment, segments
from rfnb.rec.step_tensor import StepTensor
from rfnb.rec.stretch import Stretch
from rfnb.trace.probe import probe, trace_context

if TYPE_CHECKING:
    from rfnb.rec.loop_step import PlainStep, Step
    from rfnb.rec.outputs import Outputs
    from rfnb.rec.recording import Recording

Filler = Callable[[Registers, DimMap], Any]


class Replay(NotPicklable):
    """Runs each step on `registers`, a list of the register values in this step."""

    def __init__(self, recording: Recording, plan: LoopPlan, outputs: Outputs, first: FirstStep | None):
        self.recording, self.plan = recording, plan
        self.registers: Registers = [None] * len(recording.recorder.registers)
        self.dims: DimMap = {}
        owns = recording.recorder.owns
        self._reads = [(name, _places(read)) for name, read in recording.states.items()]
        self._next = [(name, _filler(value, owns)) for name, value in recording.next_states.items()]
        self._end = None if recording.end is None else (_filler(recording.end[0], owns), recording.end[1])
        self._ops, self._names = _Ops(plan.inside, recording.recorder), value_names(plan)
        self._alone = {
            number for number, node in enumerate(plan.inside) if not _may_be_lowered(node, recording.recorder)
        }
        self._sources = self._sources_in_steps()
        made = {register for node in plan.after for register in node.writes} | plan.whole.keys()
        self._stacked = [Output(Tensor(), last=False, inner=True) for _ in plan.stacked]
        for register, output in zip(plan.stacked, self._stacked, strict=True):
            output.values.append(recording.recorder.registers[register].value)
        self._collected: list[tuple[Filler, Output]] = []
        self._given: list[tuple[Output, int | None]] = []  # the same, with the registers of their values
        self._whole: list[tuple[int, Output]] = []
        for (value, last), output in zip(recording.outputs, outputs.all, strict=True):
            if not last and recording.recorder.owns(value) and value.register in made:
                self._whole.append((value.register, output))
            else:
                self._collected.append((_filler(value, owns), output))
                self._given.append((output, value.register if owns(value) else None))
        self.stretch = self._stretch(first)

    @cached_property
    def _parts(self) -> list[Part]:
        """The ops of a step, for steps that run one by one."""
        return segments(self._ops.all, self._alone, self._needed(), self._names)

    def _stretch(self, first: FirstStep | None) -> Stretch | None:
        """The program for many steps in one call, where possible."""
        recording = self.recording
        if (
            not self.plan.inside
            or self._alone
            or not recording.over_axis
            or not recording.states
            or recording.recorder.growing
        ):
            return None
        outputs = [output for _, output in self._collected]
        return Stretch(
            self._ops,
            self._sources,
            recording.index.register if recording.index is not None else None,
            [output for output in outputs if not output.last] + self._stacked,
            [output for output in outputs if output.last],
            self._names,
            first,
        )

    @cached_property
    def chosen(self) -> SearchSteps | None:
        """The steps of a search in one call, where possible."""
        recording, end = self.recording, self.recording.end
        owns, reads = recording.recorder.owns, recording.recorder.reads
        if (
            recording.over_axis
            or recording.recorder.growing
            or end is None
            or not owns(end[0])
            or len(self._alone) != 1
        ):
            return None
        (place,) = self._alone
        choice = self.plan.inside[place]
        scores, labels = choice.args[0] if choice.args else None, choice.result
        if not choice.op.decides or not owns(scores) or not owns(labels) or choice.reads != [scores.register]:
            return None
        marked = labels.was_marked or scores.was_marked
        if choice.modes is not None or marked or any(output.last for output, _ in self._given):
            return None
        segments = [part for part in self._parts if isinstance(part, Segment)]
        count = 1 if isinstance(self._parts[0], Segment) else 0
        outputs = [*self._given, *((output, register) for register, output in zip(self.plan.stacked, self._stacked))]
        states = [place for _, places in self._reads for place in places if isinstance(place, int)]
        index = None if recording.index is None else recording.index.register
        nexts = {register: self._names[register] for register in sorted(reads(recording.next_states))}
        body = Body(
            segments[:count], segments[count:], scores.register, labels.register, states, index, nexts, self._next, outputs,
            (end[0].register, end[1]),
        )  # fmt: skip
        return SearchSteps(body)

    def _needed(self) -> set[int]:
        """The registers that are read after the ops of a step."""
        reads = self.recording.recorder.reads([value for value, _ in self.recording.outputs])
        return self.recording.roots() | reads | set(self.plan.stacked)

    def _sources_in_steps(self) -> list[tuple[int, Tensor]]:
        """The registers of frames that the steps read, and of values known for all steps."""
        recording, plan = self.recording, self.plan
        reads = {register for node in plan.inside for register in node.reads}
        reads |= recording.recorder.reads(
            [recording.next_states, recording.end, [value for value, _ in recording.outputs]]
        )
        sources = {frame.register: source for source, frame in recording.frames} | plan.whole
        index = recording.index.register if recording.index is not None else None
        return [(register, value) for register, value in sources.items() if register in reads and register != index]

    def step(self, step: Step) -> None:
        """Run one step: its states, outputs and end, from the previous states."""
        registers, dims, recording = self.registers, self.dims, self.recording
        dims.clear()
        watching = self.stretch if self.stretch is not None and self.stretch.watching else None
        if watching is not None:
            watching.begin(step)
        for name, places in self._reads:
            _bind(places, step.states.now[name], registers, dims)
        for register, source in self._sources:
            registers[register] = step.frame(source)
        if recording.index is not None:
            registers[recording.index.register] = step.index()
        if watching is not None:
            watching.run(registers, dims)
        else:
            now = Circumstances()
            for part in self._parts:
                part(registers, dims, now)
        for name, fill in self._next:
            step.states.next[name] = fill(registers, dims)
        for fill, output in self._collected:
            output.values.append(fill(registers, dims))
        for register, output in zip(self.plan.stacked, self._stacked, strict=True):
            output.values.append(registers[register])
        step.outputs.all_given()
        if self._end is not None:
            cond, include_eos = self._end
            step.end_with(cond(registers, dims), include_eos)

    def commit(self, step: PlainStep, active: Tensor | None) -> None:
        """Commit a step that was run op by op."""
        if self.stretch is not None and self.stretch.watching:
            self.stretch.commit(step, active)
        elif self.chosen is not None:
            self.chosen.commit(step, active, self.registers)
        else:
            step.commit(active)

    def close(self) -> None:
        """Leave the loop."""
        self.plan.forget()
        if self.stretch is not None:
            self.stretch.close()
        if self.chosen is not None:
            self.chosen.close()

    def finish(self, stacked: Callable[[Output], Tensor | None]) -> None:
        """Run the ops after the loop on the values of all steps."""
        plan = self.plan
        parts = self.__dict__.get("_parts", ())  # none, if no step was made by itself
        plan.listings = [listing for part in parts if isinstance(part, Segment) for listing in part.listings()]
        plan.listings += [] if self.stretch is None else self.stretch.listings()
        plan.listings += [] if self.chosen is None else self.chosen.listings()
        whole = dict(plan.whole)
        for register, output in zip(plan.stacked, self._stacked, strict=True):
            value = stacked(output)
            assert value is not None  # the first step was recorded
            whole[register] = value
        for node in plan.after:
            result = plan.run_whole(node, whole, plan.axis)
            whole.update(self._run_each(node, whole) if result is None else result)
        for register, output in self._whole:
            value = whole[register]
            output.result = value.copy_transpose([plan.axis, *(dim for dim in value.dims if dim is not plan.axis)])

    def _run_each(self, node: Node, whole: dict[int, Tensor]) -> dict[int, Tensor]:
        """Run an op step by step that cannot work on all steps at once after all, e.g. because they do not fit into memory."""
        axis = self.plan.axis
        run = _runner(node, self.recording.recorder, Masked())
        values_of = {register: frames(whole[register], axis=axis) for register in node.reads}
        values: dict[int, list[Tensor]] = {register: [] for register in node.writes}
        registers = list(self.registers)
        for index in range(axis.extent):
            for register, steps in values_of.items():
                registers[register] = steps[index]
            run(registers, {})
            for register in node.writes:
                values[register].append(registers[register])
        return {register: stack(steps, out_dim=axis)[0] for register, steps in values.items()}


class _Ops:
    """The ops of a step; how each runs on the registers is worked out when it first runs."""

    def __init__(self, nodes: list[Node], recorder: Recorder):
        self.nodes, self._recorder = nodes, recorder

    @cached_property
    def all(self) -> list[Op]:
        """Each node and the function that runs it."""
        recorder = self._recorder
        return [(node, _observed(node, _runner(node, recorder, recorder.masked))) for node in self.nodes]


def _may_be_lowered(node: Node, recorder: Recorder) -> bool:
    """True if the op may consist of array library calls alone, the same ones in all steps."""
    if node.random or node.new_dims or node.sized or node.modes is not None:
        return False
    if not node.fn.__module__.startswith(("rfnb.ops.", "rfnb.nn.", "rfnb.core.", "rfnb.trace.")):
        return False
    found = [*node.given, *values_in(node.result)]
    if any(leaf.__class__ is StepTensor and leaf.owner is not recorder.owner for leaf in found):
        return False  # of the recording of a loop around this one
    return not recorder.growing or not any(recorder.grows(dim) for leaf in found for dim in dims_of_leaf(leaf))


def _observed(node: Node, run: Run) -> Run:
    """Let events of the op have the place where it was recorded."""
    place = node.run_place
    if place is None:
        return run

    def run_there(registers: Registers, dims: DimMap) -> None:
        with trace_context.again(place):
            run(registers, dims)

    return run_there


def _places(read: Any) -> list[int | Dim | None]:
    """For each leaf that the body read, where its value in a step belongs: a register, or in place of a dim."""
    return [
        leaf.register if isinstance(leaf, StepTensor) else leaf if isinstance(leaf, Dim) else None
        for leaf in values_in(read)
    ]


def _bind(places: list[int | Dim | None], value: Any, registers: Registers, dims: DimMap) -> None:
    """Put the leaves of a value where the body read those at the same places."""
    for place, now in zip(places, values_in(value), strict=True):
        if isinstance(place, int):
            registers[place] = now
        elif place is not None and place is not now:
            dims[place] = now


def _filler(value: Any, owns: Callable[[Any], bool]) -> Filler:
    """A function that fills a nested structure of the body with the values of a step."""
    if owns(value):
        register = value.register
        return lambda registers, dims: registers[register]
    if isinstance(value, Dim):
        return lambda registers, dims: current(value, dims) if dims else value
    if not isinstance(value, tree.containers):
        return lambda registers, dims: value
    kind: Any = type(value)
    if isinstance(value, dict):
        items = [(key, _filler(item, owns)) for key, item in value.items()]
        return lambda registers, dims: kind({key: fill(registers, dims) for key, fill in items})
    parts = [_filler(item, owns) for _, item in items_of(value)]
    return lambda registers, dims: made_of(kind, [fill(registers, dims) for fill in parts])


def current(dim: Dim, dims: DimMap) -> Dim:
    """The dim of this step that corresponds to a dim of the first step."""
    found = dims.get(dim)
    return found if found is not None else substituted(dim, dims)


def _runner(node: Node, recorder: Recorder, masked: Masked) -> Run:
    """A function that computes the results of a node from the registers."""
    fn, result = node.fn, node.result
    args, kwargs = masked(fn, node.args, node.kwargs)
    single, places = result.register if recorder.owns(result) else None, _places(result)
    flat = not any([isinstance(arg, tree.containers) for arg in (*args, *kwargs.values())])

    returned = {leaf for leaf in values_in(result) if isinstance(leaf, Dim)} if node.new_dims else ()
    hidden = [dim for dim in node.new_dims if dim not in returned and dim not in node.sized]

    def store(out: Any, registers: Registers, dims: DimMap) -> None:
        if single is not None:
            registers[single] = out
        else:
            _bind(places, out, registers, dims)
        for tensor in node.step_tensors if marked else ():
            tensor.mark(registers[tensor.register])
        for tensor in node.step_tensors if hidden else ():
            new = (dim for dim in registers[tensor.register].dims if dim not in tensor.dims)
            dims.update((dim, next(new)) for dim in tensor.dims if dim in hidden)

    def call(registers: Registers, dims: DimMap) -> None:
        def of_step(leaf: Any) -> Any:
            if recorder.owns(leaf):
                return registers[leaf.register]
            return current(leaf, dims) if dims and isinstance(leaf, Dim) else leaf

        for dim in node.sized:
            dims[dim] = Dim(None, name=dim.name, kind=dim.kind)
        with modes_again(node.modes):
            out = fn(*map_nested(of_step, args), **map_nested(of_step, kwargs))
        store(out, registers, dims)

    def call_same(registers: Registers, dims: DimMap) -> None:
        fn(*args, **kwargs)

    if fn is probe and not node.reads and not recorder.growing and node.modes is None:
        return call_same
    marked = any(tensor.was_marked for tensor in node.step_tensors)
    if not flat or single is None or marked or recorder.growing or node.modes is not None:
        return call
    # The usual op: tensors among the positional arguments, one result.
    if kwargs and (hidden or any(map(recorder.owns, kwargs.values()))):
        return call
    slots = [arg.register if recorder.owns(arg) else None for arg in node.args]
    if len(slots) == 1 and slots[0] is not None:
        only, target = slots[0], single

        def call_one(registers: Registers, dims: DimMap) -> None:
            registers[target] = fn(registers[only], **kwargs)

        return call_one
    pairs = list(zip(slots, args, strict=True))

    def call_flat(registers: Registers, dims: DimMap) -> None:
        registers[single] = fn(*[arg if slot is None else registers[slot] for slot, arg in pairs], **kwargs)

    return call_flat
