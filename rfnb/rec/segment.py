"""Ops of a recorded step that follow each other, as a program over raw arrays where that is possible.

The first time that a segment runs its calls of the array library are watched, and a program is made of them. It holds for what was seen:
for arrays of these dims, dtypes and marks, in these circumstances. Others get a program of their own, and what cannot be one runs
op by op.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from rfnb.backends import registry
from rfnb.backends.raw_calls import RawCall
from rfnb.core.dim import Dim
from rfnb.core.finite import StepWithEnded, steps_now
from rfnb.core.intercept import is_intercepted
from rfnb.core.pickling import NotPicklable
from rfnb.core.place import place_text
from rfnb.core.tensor import Tensor
from rfnb.rec.lowering import Lowering, NotLowered, Ref
from rfnb.rec.modes import modes_now
from rfnb.rec.nested import map_nested
from rfnb.rec.program import Listing, Program
from rfnb.rec.recorder import Node
from rfnb.trace.probe import Offer, held_back, listeners, offer_again, offer_here

Registers = list[Any]
Run = Callable[[Registers, dict[Dim, Dim]], None]
_VARIANTS = 6  # for so many kinds of steps a segment has programs; whatever else comes runs op by op
_TRIES = 3  # how often a segment is watched, until what it makes once is there


class Circumstances:
    """What ops look at besides their arguments, as it is in this step. In equal ones they do the same."""

    def __init__(self) -> None:
        self.steps: tuple[StepWithEnded, ...] = steps_now()
        self.key = modes_now(), tuple([step.dims for step in self.steps]), listeners()

    @property
    def listeners(self) -> tuple[Any, ...]:
        """Those who hear what ops offer."""
        return self.key[2]

    def unseen(self) -> bool:
        """Whether nobody looks at what ops do: no recording of a loop around this one, no debugging switch."""
        return not is_intercepted() and not isinstance(Tensor.__dict__["_raw"], property)


class Segment(NotPicklable):
    """Ops that may become a program.

    Args:
        nodes: With the function that runs each of them from the registers.
        needed: Registers that somebody outside of this segment reads.
        names: register -> what to call it.
    """

    def __init__(self, nodes: Sequence[tuple[Node, Run]], needed: set[int], names: Mapping[int, str]):
        self.nodes, self.variants = list(nodes), list[Variant]()
        self._needed, self._names = needed, names
        self._parts: list[Any] | None = None  # some of its ops are no part of a program
        self._tries = 0
        made = {register for node, _ in nodes for register in node.writes}
        reads = dict.fromkeys(register for node, _ in nodes for register in node.reads)
        self._reads = [register for register in reads if register not in made]
        self._writes = [register for node, _ in nodes for register in node.writes if register in needed]

    def __call__(self, registers: Registers, dims: dict[Dim, Dim], now: Circumstances) -> None:
        """Run them."""
        for variant in self.variants:
            if variant.fits(registers, now):
                return variant(registers, now)
        if self._parts is not None:
            for part in self._parts:
                part(registers, dims, now)
        elif self._tries < _TRIES and len(self.variants) < _VARIANTS and now.unseen():
            self._watch(registers, dims, now)
        else:
            self._by_op(registers, dims)

    def _by_op(self, registers: Registers, dims: dict[Dim, Dim]) -> None:
        for _, run in self.nodes:
            run(registers, dims)

    def _watch(self, registers: Registers, dims: dict[Dim, Dim], now: Circumstances) -> None:
        """Run them op by op, and make a program of what they call."""
        given = {register: registers[register] for register in self._reads}
        backend = next((value.backend for value in given.values()), registry.selected())
        watch: Any = backend.trace_calls()
        if watch is None or any(type(value) is not Tensor or value.backend is not backend for value in given.values()):
            self._tries = _TRIES
            return self._by_op(registers, dims)
        for register, value in given.items():  # arrays of their own: two registers may hold the same one in this step
            registers[register] = _with_raw(value.__dict__, backend.reshape_raw(value._raw, value._raw.shape))
        inputs = {id(registers[register]._raw): name for register, name in self._input_names().items()}
        before, seen = dict(dims), list[tuple[list[RawCall], list[Offer]]]()
        with watch as calls:
            for _, run in self.nodes:
                calls.clear()
                context: Any = held_back() if now.listeners else nullcontext([])
                with context as offers:
                    run(registers, dims)
                seen.append((list(calls), offers))
                offer_again(offers)
        masks = [(index, key) for index, step in enumerate(now.steps) for key in step.masks]
        for number, (index, key) in enumerate(masks):
            inputs[id(now.steps[index].masks[key])] = f"going_on{number}"
        lowering = Lowering(inputs, backend.RawTensorType)
        try:
            refused = [
                place for place in range(len(seen)) if not self._lowered(place, *seen[place], registers, lowering)
            ]
        except NotLowered:
            self._tries += 1
        else:
            if dims != before:
                self._tries = _TRIES
            elif refused:
                self._split(refused)
            else:
                results = [lowering.value(registers[register]._raw) for register in self._writes]
                program = Program(
                    lowering, [*inputs.values()], results, partial(_note, [node for node, _ in self.nodes])
                )
                writes = [(register, _attributes(registers[register])) for register in self._writes]
                guards = [(register, _guard(value, backend)) for register, value in given.items()]
                self.variants.append(Variant(program, now.key, guards, masks, writes, backend))
        registers[:] = [given.get(register, value) for register, value in enumerate(registers)]

    def _lowered(
        self, place: int, calls: list[RawCall], offers: list[Offer], registers: Registers, lowering: Lowering
    ) -> bool:
        """Whether an op has become lines of the program; NotLowered, if it may in a later step."""
        try:
            lowering.add(calls, place)
            for register in self.nodes[place][0].writes:
                lowering.value(registers[register]._raw)
            for offer in offers:
                _lower_offer(lowering, offer, place)
        except NotLowered as error:
            if error.later:
                raise
            return False
        return True

    def _split(self, refused: list[int]) -> None:
        """Those that are refused run by themselves, the others are programs."""
        self._parts, rest = [], list[tuple[Node, Run]]()
        for place, (node, run) in enumerate(self.nodes):
            if place in refused:
                self._parts += [rest, Alone(run)] if rest else [Alone(run)]
                rest = []
            else:
                rest.append((node, run))
        self._parts += [rest] if rest else []
        for number, part in enumerate(self._parts):
            if isinstance(part, list):
                own = {id(node) for node, _ in part}
                read = {register for node, _ in self.nodes if id(node) not in own for register in node.reads}
                self._parts[number] = Segment(part, self._needed | read, self._names)

    def _input_names(self) -> dict[int, str]:
        """For each register that it reads a name of its own."""
        names: dict[int, str] = {}
        for register in self._reads:
            name = re.sub(r"\W+", "_", self._names.get(register, "x").replace("#", "op")).strip("_")
            names[register] = name if name.isidentifier() and name not in names.values() else f"x{register}"
        return names

    def listings(self) -> list[Listing]:
        """Its programs to read, in the order of the step."""
        parts = [part for part in self._parts or () if isinstance(part, Segment)]
        return [variant.program.listing for variant in self.variants] + [
            one for part in parts for one in part.listings()
        ]


class Alone:
    """An op that is no part of a program."""

    def __init__(self, run: Run):
        self._run = run

    def __call__(self, registers: Registers, dims: dict[Dim, Dim], now: Circumstances) -> None:
        self._run(registers, dims)


class Variant(NotPicklable):
    """A program, and what it holds for.

    Args:
        key: Of the circumstances.
        guards: (register, what its value is like), of what it reads.
        masks: Which masks of the steps around it reads, of those who have ended.
        writes: (register, attributes of its value), in the order of the results.
    """

    def __init__(self, program: Program, key: Any, guards: Any, masks: Any, writes: Any, backend: Any):
        self.program = program
        self._key, self._guards, self._masks, self._writes = key, guards, masks, writes
        self._reads = [register for register, _ in guards]
        self._signature = backend.signature_raw

    def fits(self, registers: Registers, now: Circumstances) -> bool:
        """Whether it holds for these values."""
        if now.key != self._key:
            return False
        signature = self._signature
        for register, (dims, sparse_dim, feature_dim, finite, raw) in self._guards:
            value = registers[register]
            if (
                type(value) is not Tensor
                or value.dims != dims
                or value._finite is not finite
                or value.sparse_dim is not sparse_dim
                or value._feature_dim is not feature_dim
                or signature(value._raw) != raw
            ):
                return False
        return now.unseen()

    def __call__(self, registers: Registers, now: Circumstances) -> None:
        """Run it."""
        args = [registers[register]._raw for register in self._reads]
        if self._masks:
            args += [now.steps[index].mask_for(*key) for index, key in self._masks]
        for (register, attributes), raw in zip(self._writes, self.program.run(*args)):
            registers[register] = _with_raw(attributes, raw)


def _note(nodes: Sequence[Node], place: int) -> str:
    return f"{nodes[place].name}  {place_text(nodes[place].place)}".rstrip()


def _guard(value: Tensor, backend: Any) -> Any:
    return value.dims, value.sparse_dim, value._feature_dim, value._finite, backend.signature_raw(value._raw)


def _attributes(value: Tensor) -> dict[str, Any]:
    return {key: item for key, item in value.__dict__.items() if key != "_raw"}


def _with_raw(attributes: Mapping[str, Any], raw: Any) -> Tensor:
    """A Tensor with these attributes around another array."""
    out = Tensor.__new__(Tensor)
    out.__dict__.update(attributes)
    out._raw = raw
    return out


def _lower_offer(lowering: Lowering, offer: Offer, place: int) -> None:
    """A line that offers the values of each step to listeners."""
    _, at, values = offer
    if type(values) is not dict:
        raise NotLowered("offers what is made later")
    raws: list[Any] = []

    def taken(leaf: Any) -> Any:
        if isinstance(leaf, Tensor) and leaf._raw is not None:
            raw = lowering.value(leaf._raw)
            if isinstance(raw, Ref):
                raws.append(raw)
                return _Slot(len(raws) - 1, _attributes(leaf))
        elif not isinstance(leaf, (Tensor, Dim, str, int, float, type(None))):
            raise NotLowered(f"offers a {type(leaf).__name__}")
        return leaf

    template = map_nested(taken, values)

    def offered(*now: Any) -> None:
        offer_here(
            offer,
            map_nested(
                lambda leaf: _with_raw(leaf.attributes, now[leaf.index]) if isinstance(leaf, _Slot) else leaf, template
            ),
        )

    offered.__name__ = "offer"
    lowering.effect(offered, raws, place)


class _Slot:
    def __init__(self, index: int, attributes: dict[str, Any]):
        self.index, self.attributes = index, attributes
