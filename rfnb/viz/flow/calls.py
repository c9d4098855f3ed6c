"""The calls in a recording as a tree, and the tensors that flow between them.

The event of a module's call follows those of all calls inside it, and has its depth, which determines the tree. Its
tensors are numbered if calls of ops were recorded too; otherwise the data flow is unknown.
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
    """A call of a module or an op.

    Attributes:
        path: The path of the module, with the names of loops; for an op that of its module.
        module: The name of the class; "" for an op.
        inputs, outputs: Its Tensors without values, by their names.
        reads, writes: Their numbers; empty if unknown.
        raised: The name of the error that it raised.
        steps: The steps of the enclosing loops, outermost first.
        loop: The name of the dim of the innermost loop.
        parts: The calls inside it; for a step of a loop, the calls in the step.
        needs: The numbers of the outside tensors that it or its parts read.
        made: The numbers of the tensors that it or its parts made.
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
    alike: int = 0  # id shared by calls that differ only in a number in their names

    @property
    def is_op(self) -> bool:
        """Whether it is a call of an op."""
        return not self.module and not self.is_step


@dataclass
class Flow:
    """The calls of a recording.

    Attributes:
        calls: The outermost ones.
        known: Whether the data flow is known.
        tensors: By number: the tensors in the computation, without parameters and constants.
        made: The numbers of the tensors that calls made.
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
    """The last part of a path; for an item of several, with its parent, since the number alone says little."""
    parts = path.split(".")
    return ".".join(parts[-2:]) if parts[-1].isdigit() else parts[-1]


def _in_steps(calls: list[FlowCall], level: int, alike: dict[Any, int]) -> list[FlowCall]:
    """The calls, with those in a step of a loop combined.

    Args:
        level: The number of loops around all of them.
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
        step.alike = alike.setdefault(("step", step.name, step.raised), len(alike))  # also if some sequences have ended
        made.append(step)
    return made


def _finish(call: FlowCall, alike: dict[Any, int], born: set[int], looks: dict[Dim, Any]) -> None:
    """Set the fields of a call that depend on its parts.

    Args:
        alike: Ids of the signatures of calls.
        born: The numbers of all tensors made earlier.
        looks: Signatures of dims.
    """
    for part in call.parts:
        call.needs.update((number, None) for number in part.needs if number not in call.made)
        call.made |= part.made
    # In a recorded loop, a module has one event, for the first step, but its parts have one in each step.
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
    """The tensors in the computation, without parameters and constants: those computed from inputs of modules, or from
    which these are computed.
    """
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
    else:  # functions without modules: all tensors
        found = set(look)
    for call in everything:
        if call.module or found & set(call.reads):
            found |= set(call.writes)
    return {number: look[number] for number in found if number in look}


def _outside(calls: Iterable[FlowCall]) -> Iterator[FlowCall]:
    """The calls of ops outside any module."""
    for call in calls:
        if call.is_op:
            yield call
        elif call.is_step:
            yield from _outside(call.parts)
