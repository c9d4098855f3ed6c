"""The calls in a recording as a tree, and what flows between them.

A call of a module comes after all that it has called, and says how deep it is: so the tree is what was called inside of what. Its
tensors have numbers, if calls of ops were recorded too. Else it is not known what went where.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor


@dataclass(eq=False)
class FlowCall:
    """A call of a module or of an op.

    Attributes:
        path: Of the module, with the names of loops; of an op that of the module that it is in.
        module: The name of the class; of an op "".
        inputs, outputs: Its Tensors without values, by their names.
        reads, writes: Their numbers; empty if they are not known.
        raised: The name of the error that it ended with.
        steps: Of the loops that it is in, outermost first.
        loop: The name of the dim of the innermost one.
        parts: What it called; of a step of a loop what is called in it.
        needs: The numbers of the tensors from outside that it or its parts read.
        made: The numbers of those that it or its parts made.
    """

    path: str
    name: str
    module: str
    inputs: list[tuple[str, Tensor]]
    outputs: list[tuple[str, Tensor]]
    reads: list[int]
    writes: list[int]
    raised: str = ""
    steps: tuple[int, ...] = ()
    loop: str = ""
    is_step: bool = False
    parts: list[FlowCall] = field(default_factory=list)
    needs: dict[int, None] = field(default_factory=dict)
    made: set[int] = field(default_factory=set)
    alike: int = 0  # of calls that are alike but for a number in their names

    @property
    def is_op(self) -> bool:
        """Whether it is a call of an op."""
        return not self.module and not self.is_step


@dataclass
class Flow:
    """The calls of a recording.

    Attributes:
        calls: The outermost ones.
        known: Whether it is known what goes where.
        tensors: By number: the tensors that were computed with; not parameters and constants.
        made: The numbers of those that calls have made.
    """

    calls: list[FlowCall]
    known: bool
    tensors: dict[int, Tensor]
    made: set[int]


def flow_of(events: Iterable[Any]) -> Flow:
    """The calls in the "module" and "op" events of a recording."""
    stack: list[tuple[int, FlowCall]] = []
    everything: list[FlowCall] = []
    known = False
    alike: dict[Any, int] = {}
    born: set[int] = set()
    looks: dict[Dim, Any] = {}
    for event in events:
        if event.kind not in ("module", "op"):
            continue
        call, depth = _call_of(event), event.depth + (event.kind == "op")
        known = known or "reads" in event.values
        start = len(stack)
        while start and stack[start - 1][0] > depth:
            start -= 1
        call.parts = _in_steps([part for _, part in stack[start:]], len(call.steps), alike)
        del stack[start:]
        _finish(call, alike, born, looks)
        stack.append((depth, call))
        everything.append(call)
    calls = _in_steps([call for _, call in stack], 0, alike)
    return Flow(calls, known, _tensors(calls, everything), born)


def _call_of(event: Any) -> FlowCall:
    values = event.values
    op = values.get("op")
    name = str(op).lstrip("_") if op is not None else _name_of(event.path)
    inputs, outputs = (
        [(str(label), tensor) for label, tensor in values.get(side) or [] if isinstance(tensor, Tensor)]
        for side in ("inputs", "outputs")
    )
    reads, writes = ([int(number) for number in values.get(side) or []] for side in ("reads", "writes"))
    module = "" if op is not None else str(values.get("module") or "Module")
    loop = event.loop_dim.name if event.loop_dim is not None else ""
    raised = str(values.get("raised") or "")
    return FlowCall(event.path, name, module, inputs, outputs, reads, writes, raised, event.steps, loop)


def _name_of(path: str) -> str:
    """The last part of a path; of one of several the number alone says little."""
    parts = path.split(".")
    return ".".join(parts[-2:]) if parts[-1].isdigit() else parts[-1]


def _in_steps(calls: list[FlowCall], level: int, alike: dict[Any, int]) -> list[FlowCall]:
    """The calls, those in a step of a loop as one.

    Args:
        level: How many loops are around them all.
    """
    made: list[FlowCall] = []
    for key, group in itertools.groupby(
        calls, lambda call: call.steps[: level + 1] if len(call.steps) > level else None
    ):
        parts = list(group)
        if key is None:
            made += parts
            continue
        loop = next((call.loop for call in parts if len(call.steps) == level + 1), "")
        step = FlowCall("", f"step over {loop}" if loop else "step", "", [], [], [], [], steps=key[:-1], is_step=True)
        step.parts = _in_steps(parts, level + 1, alike)
        step.raised = next((part.raised for part in step.parts if part.raised), "")
        _finish(step, alike, set(), {})
        step.alike = alike.setdefault(("step", step.name, step.raised), len(alike))  # also where sequences have ended
        made.append(step)
    return made


def _finish(call: FlowCall, alike: dict[Any, int], born: set[int], looks: dict[Dim, Any]) -> None:
    """Work out what is known of a call when its parts are.

    Args:
        alike: Numbers of what calls look like.
        born: The numbers of all tensors that were made before.
        looks: What dims look like.
    """
    for part in call.parts:
        call.needs.update((number, None) for number in part.needs if number not in call.made)
        call.made |= part.made
    # Of the calls of a recorded loop the event of a module is that of the first step, its parts are those of each one.
    if call.is_op or not call.parts:
        call.needs.update((number, None) for number in call.reads)
    call.made |= set(call.writes) - set(call.reads) - born
    born |= call.made
    name = call.name.rstrip("0123456789") if call.name[-1:].isdigit() and "." in call.name else call.name
    look = tuple(
        (label, tensor.dtype, *(looks.get(dim) or looks.setdefault(dim, _look(dim)) for dim in tensor.dims))
        for tensors in (call.inputs, call.outputs)
        for label, tensor in tensors
    )
    key = name, call.module, look, call.raised, tuple(part.alike for part in call.parts)
    call.alike = alike.setdefault(key, len(alike))


def _look(dim: Dim) -> Any:
    lengths = dim.lengths
    size = dim.extent if dim.is_dim_known() else None
    return dim.name, size, None if lengths is None else lengths.tobytes()


def _tensors(calls: list[FlowCall], everything: list[FlowCall]) -> dict[int, Tensor]:
    """The tensors that are computed with, not parameters and constants: what is made of the inputs of modules, or these are made of."""
    look: dict[int, Tensor] = {}
    for call in everything:
        for numbers, tensors in ((call.reads, call.inputs), (call.writes, call.outputs)):
            look.update((number, tensor) for number, (_, tensor) in zip(numbers, tensors) if number not in look)
    outside = list(_outside(calls))
    modules = [call for call in everything if call.module]
    if modules:
        found = {number for call in modules for number in call.reads}
        for call in reversed(outside):
            if found & set(call.writes):
                found |= set(call.reads)
    else:  # functions only: all
        found = set(look)
    for call in everything:
        if call.module or found & set(call.reads):
            found |= set(call.writes)
    return {number: look[number] for number in found if number in look}


def _outside(calls: Iterable[FlowCall]) -> Iterator[FlowCall]:
    """The calls of ops that are in no module."""
    for call in calls:
        if call.is_op:
            yield call
        elif call.is_step:
            yield from _outside(call.parts)
