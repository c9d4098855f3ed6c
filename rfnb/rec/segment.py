"""Consecutive ops of a recorded step, run as a program over raw arrays where possible.

The first run of a segment is watched, and its array library calls become a program. The program holds for the conditions seen: arrays of
these dims, dtypes and marks, in these circumstances. Others get a program of their own; ops that cannot become one run one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from rfnb.backends import registry
from rfnb.core.pickling import NotPicklable
from rfnb.core.tensor import Tensor, with_raw
from rfnb.rec.lowering import NotLowered
from rfnb.rec.program import Listing, Program
from rfnb.rec.raw_trace import (
    Circumstances,
    DimMap,
    Op,
    RawTrace,
    Registers,
    Run,
    attributes,
    guard,
    input_names,
    note,
    own_array,
)
from rfnb.rec.shared_code import program_of

_VARIANTS = 6  # for so many kinds of steps a segment has programs; whatever else comes runs op by op
Part = Callable[[Registers, DimMap, Circumstances], None]  # runs a segment, or an op by itself
_TRIES = 3  # how often a segment is watched, until what it makes once is there


class Segment(NotPicklable):
    """Ops that may become a program.

    Args:
        needed: Registers that are read outside of this segment.
        names: register -> its name.
    """

    def __init__(self, ops: Sequence[Op], needed: set[int], names: Mapping[int, str]):
        self.ops, self.variants = list(ops), list[Variant]()
        self._needed, self._names = needed, names
        self._parts: list[Part] | None = None  # some of its ops are no part of a program
        self._tries = 0
        made = {register for node, _ in ops for register in node.writes}
        reads = dict.fromkeys(register for node, _ in ops for register in node.reads)
        self._reads = [register for register in reads if register not in made]
        self._writes = [register for node, _ in ops for register in node.writes if register in needed]

    def __call__(self, registers: Registers, dims: DimMap, now: Circumstances) -> None:
        """Run them."""
        for variant in self.variants:
            if variant.fits(registers, now):
                try:
                    return variant(registers, now)
                except Exception:  # op by op, the one that fails says what is wrong
                    return self._by_op(registers, dims)
        if self._parts is not None:
            for part in self._parts:
                part(registers, dims, now)
        elif self._tries < _TRIES and len(self.variants) < _VARIANTS and now.unseen():
            self._watch(registers, dims, now)
        else:
            self._by_op(registers, dims)

    def _by_op(self, registers: Registers, dims: DimMap) -> None:
        for _, run in self.ops:
            run(registers, dims)

    def _watch(self, registers: Registers, dims: DimMap, now: Circumstances) -> None:
        """Run them op by op, and make a program of their calls."""
        given = {register: registers[register] for register in self._reads}
        backend = next((value.backend for value in given.values()), registry.selected())
        watch: Any = backend.trace_calls()
        if watch is None or any(type(value) is not Tensor or value.backend is not backend for value in given.values()):
            self._tries = _TRIES
            return self._by_op(registers, dims)
        for register, value in given.items():
            registers[register] = own_array(value)
        inputs = {
            id(registers[register]._raw): name for register, name in input_names(self._reads, self._names).items()
        }
        seen = RawTrace(self.ops, registers, dims, watch, bool(now.listeners))
        masks = [(index, key) for index, step in enumerate(now.steps) for key in step.masks]
        for number, (index, key) in enumerate(masks):
            inputs[id(now.steps[index].masks[key])] = f"going_on{number}"
        results = [registers[register]._raw for register in self._writes]
        nodes = [node for node, _ in self.ops]
        try:
            made = program_of(seen, inputs, results, partial(note, nodes), [*inputs.values()], backend=backend)
        except NotLowered:
            self._tries += 1
        else:
            if seen.made_dims:
                self._tries = _TRIES
            elif isinstance(made, list):
                self._parts = segments(self.ops, set(made), self._needed, self._names)
            else:
                writes = [(register, attributes(registers[register])) for register in self._writes]
                guards = [(register, guard(value)) for register, value in given.items()]
                self.variants.append(Variant(made, now.key, guards, masks, writes, backend))
        for register, value in given.items():
            registers[register] = value

    def call_for(
        self, registers: Registers, now: Circumstances
    ) -> tuple[Callable[..., Any], list[int], list[int]] | None:
        """For values like these: a function of raw arrays, and the registers of its inputs and results; None if there is none."""
        variant = next((each for each in self.variants if each.fits(registers, now)), None)
        if variant is None or variant.reads_masks:
            return None
        return variant.program.run, variant.reads, self._writes

    def listings(self) -> list[Listing]:
        """The programs for display, in the order of the step."""
        parts = [part for part in self._parts or () if isinstance(part, Segment)]
        return [variant.program.listing for variant in self.variants] + [
            one for part in parts for one in part.listings()
        ]


def segments(ops: Sequence[Op], alone: set[int], needed: set[int], names: Mapping[int, str]) -> list[Part]:
    """Groups consecutive ops of the step; ops numbered in `alone` stand by themselves.

    Args:
        needed: Registers that are read after them.
    """
    last_read = {register: place for place, (node, _) in enumerate(ops) for register in node.reads}
    parts: list[Part] = []
    for by_itself, group in groupby(range(len(ops)), key=alone.__contains__):
        places = list(group)
        if by_itself:
            parts += [_alone(ops[place][1]) for place in places]
            continue
        own = [ops[place] for place in places]
        made = {register for node, _ in own for register in node.writes}
        later = {register for register in made if last_read.get(register, -1) > places[-1]}
        parts.append(Segment(own, needed | later, names))
    return parts


def _alone(run: Run) -> Part:
    """An op outside any program."""
    return lambda registers, dims, now: run(registers, dims)


class Variant(NotPicklable):
    """A program and the conditions that it holds for.

    Args:
        key: Key of the circumstances.
        guards: (register, properties of its value) for each input.
        masks: The masks of ended sequences, in the enclosing steps, that it reads.
        writes: (register, attributes of its value), in the order of the results.
    """

    def __init__(self, program: Program, key: Any, guards: Any, masks: Any, writes: Any, backend: Any):
        self.program = program
        self._key, self._guards, self._masks, self._writes = key, guards, masks, writes
        self.reads = [register for register, _ in guards]
        self._signature = backend.signature_raw

    @property
    def reads_masks(self) -> bool:
        """True if it depends on which sequences have ended."""
        return bool(self._masks)

    def fits(self, registers: Registers, now: Circumstances) -> bool:
        """True if it holds for these values."""
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
        args = [registers[register]._raw for register in self.reads]
        if self._masks:
            args += [now.steps[index].mask_for(*key) for index, key in self._masks]
        for (register, of), raw in zip(self._writes, self.program.run(*args)):
            registers[register] = with_raw(of, raw)
