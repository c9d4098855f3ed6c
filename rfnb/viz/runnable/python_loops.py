"""Loops of Python over the text, found in the records of a call: ops that come again for each letter become the steps of one loop.

    for t in range(x.size(1)):            # 4 letters: 4 times the same ops, 7 letters: 7 times
        h = cell(x[:, t], h)
        outputs.append(out(h))
    return torch.stack(outputs, dim=1)

A value that a turn reads from the turn before it is a state. Numbers that grow in each turn (`t`) are computed from the index of the
step, and turns that are joined (`torch.stack`) are what the loop collects. Whatever else turns read from each other makes no loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from itertools import count as count_from
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.core.tree import values_in
from rfnb.viz.runnable.call_notes import LoopNote, Notes, OpNote, Ref, StepNote
from rfnb.viz.runnable.op_lowering import TWO

FOUND = "over the text"  # the name of a loop made of turns in Python
_MORE = (0, -1, 1, -2)  # turns, beside the number of letters
_LONGEST = 400  # ops of a turn
_ATTEMPTS = 60
_ALONE = ("full", "zeros", "ones", "convert_to_tensor")  # read nothing


class _TurnResult(NamedTuple):
    """The place that makes a value: the loop, the turn, and which result of which op of the turn."""

    loop: LoopNote
    turn: int
    turns: int
    op: int
    result: int

    def every(self) -> list[_TurnResult | None]:
        """The same place in each turn."""
        return [self._replace(turn=at) for at in range(self.turns)]


class _NoLoop(Exception):
    """Turns that make no loop."""


def rolled(records: Sequence[tuple[Notes, Any]], lengths: Sequence[int]) -> bool:
    """Find the loops in the records of several calls, which change; False if what is left still depends on the length.

    Args:
        records: The notes of each call, and what it returned.
        lengths: The number of letters in each call.
    """
    best: tuple[int, list[tuple[_CallRecord, Any]]] | None = None
    for begun, used in product((False, True), repeat=2):
        found = _found(records, lengths, begun, used)
        if found is not None and (best is None or found[0] > best[0]):
            best = found
        if best is not None and not best[0]:
            break
    for call, end in [] if best is None else best[1]:
        call.change(*end)
    return best is not None


def _found(
    records: Sequence[tuple[Notes, Any]], lengths: Sequence[int], begun: bool, used: bool
) -> tuple[int, list[tuple[_CallRecord, Any]]] | None:
    """Return minus the number of turns outside of any loop, and the changed records; None if there is no way.

    Args:
        begun: Whether initial states get the dims that they have in the loop before it.
        used: Whether ops are left out whose values nothing reads, as in the last turn of a loop.
    """
    waiting: list[tuple[int, ...]] = [()]  # which of the possible loops is the right one, for one part after the other
    for _ in range(_ATTEMPTS):
        if not waiting:
            break
        choices = waiting.pop()
        calls = [_CallRecord(*record, begun, used) for record in records]
        missing = 0
        with suppress(_NoLoop):
            for number in count_from(0):
                if len({tuple(call.names) for call in calls}) == 1:
                    break
                places = _places(calls, lengths)
                if number == len(choices):
                    waiting += [(*choices, other) for other in range(len(places) - 1, 0, -1)]
                    choices = (*choices, 0)
                if choices[number] >= len(places):
                    raise _NoLoop
                begin, period, more = places[choices[number]]
                missing += min(more, 0)
                for call, length in zip(calls, lengths):
                    call.roll(begin, period, length + more)
            return missing, [(call, call.end()) for call in calls]
    return None


def _places(calls: Sequence[_CallRecord], lengths: Sequence[int]) -> list[tuple[int, int, int]]:
    """List the possible loops in the first part in which the calls differ: begin, ops of a turn, turns beside the length."""
    shortest = min(len(call.names) for call in calls)
    same = next((at for at in range(shortest) if len({call.names[at] for call in calls}) > 1), shortest)
    found = []
    for period, more, alike in product(range(1, min(_LONGEST, same) + 1), _MORE, (1, 2)):  # two loops may be alike
        turns = [length + more for length in lengths]
        last = same - alike * min(turns) * period
        for begin in range(last, max(-1, last - period - 1), -1) if min(turns) > 1 else ():
            if all(call.repeats(begin, period, alike * count) for call, count in zip(calls, turns)):
                found.append((begin, period, more))
    return found


class _CallRecord:
    """The record of a call, in which parts are replaced by loops."""

    def __init__(self, notes: Notes, result: Any, begun: bool, used: bool):
        self._notes, self._result = notes, result
        leaves = [notes.ref(leaf) for leaf in values_in(result) if isinstance(leaf, Tensor)]
        blocks = _used(notes.blocks, leaves) if used else list(notes.blocks)
        self._blocks = _begun(blocks) if begun else blocks
        self._loops = [block for block in self._blocks if isinstance(block, LoopNote)]  # as refs count them
        self._axes: dict[int, Dim] = {}  # by the number of turns
        ops = [block for block in self._blocks if isinstance(block, OpNote)]
        self._kinds = {number: kind for op in ops for number, kind in zip(op.results, op.kinds, strict=True)}
        self._of_turn: dict[int, _TurnResult] = {}  # by the number of a value
        self.made: dict[
            LoopNote, dict[tuple[int, int], tuple[int, Any]]
        ] = {}  # by op and result: number in the step, kind
        self.names = [_signature(block) for block in self._blocks]

    def repeats(self, begin: int, period: int, turns: int) -> bool:
        """Whether the ops from a place on are repeated in each of these turns."""
        first = self.names[begin : begin + period]
        if any(isinstance(block, LoopNote) for block in self._blocks[begin : begin + period]):
            return False
        return all(self.names[at : at + period] == first for at in range(begin, begin + turns * period, period))

    # -- a loop ------------------------------------------------------------------------------------------------------------

    def roll(self, begin: int, period: int, turns: int) -> None:
        """Replace turns of `period` ops by their loop, whose step has the dims of the last one.

        Raises:
            _NoLoop: If a turn is not like the others.
        """
        body = _TurnBody(self, [self._ops(begin + turn * period, period) for turn in range(turns)])
        loop = body.loop()
        self.made[loop] = body.made
        values = self._notes.values()
        for path, (first, *numbers) in body.turns.items():
            initial = self._notes.constants[first[1]] if first[0] == "constant" else values.get(first[1])
            if initial is not None:
                loop.turns[path] = [initial, *(values[number] for number in numbers)]
        for turn in range(turns):
            for at, op in enumerate(self._ops(begin + turn * period, period)):
                for slot, number in enumerate(op.results):
                    self._of_turn[number] = _TurnResult(loop, turn, turns, at, slot)
        self._blocks[begin : begin + turns * period] = [loop]
        self.names[begin : begin + turns * period] = [_signature(loop)]
        self._loops.append(loop)

    def _ops(self, begin: int, period: int) -> list[OpNote]:
        return [block for block in self._blocks[begin : begin + period] if isinstance(block, OpNote)]

    def axis(self, turns: int) -> Dim:
        return self._axes.setdefault(turns, Dim(turns, name="turn"))

    def turn_of(self, ref: Any) -> _TurnResult | None:
        """The turn of a loop that makes a value."""
        return self._of_turn.get(ref[1]) if ref[0] == "value" else None

    def op_of(self, ref: Any) -> OpNote | None:
        """The op outside of loops that makes a value."""
        found = (block for block in self._blocks if isinstance(block, OpNote))
        return next((block for block in found if ref[0] == "value" and ref[1] in block.results), None)

    def kind_of(self, ref: Any) -> tuple[Any, ...]:
        """Dims, sparse dim and whether a value has whole numbers."""
        if ref[0] == "constant":
            value = self._notes.constants[ref[1]]
            return value.dims, value.sparse_dim, not value.dtype.startswith("float")
        if ref[0] == "output":
            return self._loops[ref[1]].kinds[ref[2]]
        if ref[0] != "value":
            raise _NoLoop
        return self._kinds[ref[1]]

    def is_same(self, refs: Sequence[Any]) -> bool:
        """Whether these are constants that are equal, though each turn has made its own."""
        if any(ref[0] != "constant" for ref in refs):
            return False
        first, *others = [self._notes.constants[ref[1]] for ref in refs]
        return all(
            each is first or (each.dims == first.dims and np.array_equal(each.numpy(), first.numpy()))
            for each in others
        )

    def collected(self, turn: _TurnResult, last: bool) -> Ref:
        """Let a loop return the values that its turns make at one place: all, or that of the last turn."""
        outputs = turn.loop.steps[0].outputs
        number, (dims, sparse, whole) = self.made[turn.loop][turn.op, turn.result]
        wanted = ("value", number), last, None  # in no turn there is no last one
        if wanted not in outputs:
            outputs.append(wanted)
            turn.loop.kinds.append((dims if last else (turn.loop.axis, *dims), sparse, whole))
        return ("output", self._loops.index(turn.loop), outputs.index(wanted))

    # -- the record --------------------------------------------------------------------------------------------------------

    def end(self) -> tuple[list[OpNote | LoopNote], list[tuple[Tensor, Ref]], int]:
        """The blocks in which what is outside of loops reads what they give, with new numbers; the refs of what is returned; the number
        of values.
        """
        blocks: list[OpNote | LoopNote] = []
        count = self._notes.count
        for block in self._blocks:
            if isinstance(block, OpNote) and block.name == "concat":
                for op in self._joined(block, count):
                    count += len(op.results)
                    blocks.append(op)
            else:
                blocks.append(block)
        leaves = [leaf for leaf in values_in(self._result) if isinstance(leaf, Tensor)]
        found = [self._outside(self._notes.ref(leaf)) for leaf in leaves]
        loops = [block for block in blocks if isinstance(block, LoopNote)]
        for block in blocks:  # so that loops know all that they give
            _mapped_block(block, self._outside)
        blocks = [_mapped_block(block, self._outside) for block in blocks]
        ops = [number for block in blocks if isinstance(block, OpNote) for number in block.results]
        numbers = {old: new for new, old in enumerate(ops)}
        order = {self._loops.index(loop): at for at, loop in enumerate(loops)}

        def anew(ref: Ref) -> Ref:
            if ref[0] in ("value", "outer"):
                return (ref[0], numbers[ref[1]])
            return (ref[0], order[ref[1]], *ref[2:]) if ref[0] in ("output", "final") else ref

        ends = [(leaf, anew(ref)) for leaf, ref in zip(leaves, found, strict=True)]
        return [_mapped_block(block, anew, numbers) for block in blocks], ends, len(ops)

    def change(self, blocks: list[OpNote | LoopNote], ends: list[tuple[Tensor, Ref]], count: int) -> None:
        """Change the record to what `end` has found."""
        self._notes.blocks, self._notes.count, self._notes.tokens = blocks, count, {}
        self._notes._where |= {id(leaf): ref for leaf, ref in ends}

    def _outside(self, ref: Ref) -> Ref:
        """A ref outside of loops, or of what they read from there."""
        if ref[0] not in ("value", "outer") or (turn := self._of_turn.get(ref[1])) is None:
            return ref
        if turn.turn != turn.turns - 1:
            raise _NoLoop  # only the last turn is read by itself
        return self.collected(turn, True)

    def _joined(self, op: OpNote, count: int) -> Iterator[OpNote]:
        """An op that joins parts, of which the turns of a loop are one, in their order or from the last one on."""
        sources: list[Any] = []
        parts = list(op.given["sources"])
        every: Ref = ()

        def made(name: str, given: dict[str, Any], kind: Any) -> Iterator[OpNote]:
            nonlocal count, every
            yield OpNote(name, given, (count,), (kind,))
            every, count = ("value", count), count + 1

        while parts:
            turn = self.turn_of(parts[0][0])
            turns = 0 if turn is None else turn.turns
            run = [self.turn_of(ref) for ref, _ in parts[:turns]]
            if turn is None or run not in (turn.every(), turn.every()[::-1]):
                sources.append(parts.pop(0))
                continue
            axis = parts[0 if turn.turn else turns - 1][1]
            del parts[:turns]
            every = self.collected(turn, False)
            _, (dims, sparse, whole) = self.made[turn.loop][turn.op, turn.result]
            over, rest = turn.loop.axis, tuple(dim for dim in dims if dim is not axis)
            if turn.turn:
                back = every
                yield from made("range_over_dim", {"dim": over}, ((over,), None, True))
                yield from made("sub", {"a": turns - 1, "b": every}, ((over,), None, True))
                given = {"source": back, "indices": every, "axis": over}
                yield from made("gather", given, ((over, *dims), sparse, whole))
            merged = Dim(turns * axis.extent, name="axis")
            given = {"source": every, "dims": [over, axis], "out_dim": merged}
            yield from made("merge_dims", given, ((*rest, merged), sparse, whole))
            sources.append([every, merged])
        yield op._replace(given={**op.given, "sources": sources})


class _TurnBody:
    """The step of a loop, from the ops of its turns."""

    def __init__(self, call: _CallRecord, turns: Sequence[Sequence[OpNote]]):
        self._call, self._turns = call, turns
        self._at = {number: (turn, at, slot) for turn, ops in enumerate(turns) for at, op in enumerate(ops)
                    for slot, number in enumerate(op.results)}  # fmt: skip
        self._dims: list[
            tuple[dict[Dim, Dim], dict[Dim, Dim]]
        ] = []  # of one op in each turn, and those of the last turn
        self._states: dict[tuple[int, int, Ref], str] = {}
        self.turns: dict[str, list[Any]] = {}  # of each state the first value, and what each turn makes
        self._begin: list[OpNote] = []  # ops in front of those of a turn
        self._known: dict[Any, Ref] = {}  # what these give
        places = [(at, slot, kind) for at, op in enumerate(turns[-1]) for slot, kind in enumerate(op.kinds)]
        self.made = {(at, slot): (number, kind) for number, (at, slot, kind) in enumerate(places)}
        self._count = len(places)

    def loop(self) -> LoopNote:
        """The loop with one step, which has all."""
        step = StepNote()
        loop = LoopNote(FOUND, self._call.axis(len(self._turns)), True, None)
        ops = []
        for at, op in enumerate(self._turns[-1]):
            every = [turn[at] for turn in self._turns]
            self._dims = [({}, {}) for _ in every]
            for kinds in zip(*(each.kinds for each in every), strict=True):
                self._match([list(kind[0]) for kind in kinds])
            if op.name == "named":  # whose result has dims by position, whatever they were before
                self._dims = [({}, {}) for _ in every]
            results = tuple(self.made[at, slot][0] for slot in range(len(op.results)))
            if op.name == "slice" and any(each.given.get("start") != op.given.get("start") for each in every):
                op, every = self._window(every)
            given = {name: self._given([each.given[name] for each in every], op.name, name) for name in op.given}
            ops.append(op._replace(given=given, results=results, weights=None))
        ends: list[OpNote] = []
        for (at, slot, first), path in self._states.items():
            number, (dims, sparse, whole) = self.made[at, slot]
            initial, _, is_whole = self._call.kind_of(first)
            if [dim.extent for dim in initial] != [dim.extent for dim in dims] or whole is not is_whole:
                raise _NoLoop
            loop.initial[path] = first
            step.next[path] = ("value", self._count)
            self.turns[path] = [first, *(turn[at].results[slot] for turn in self._turns)]
            given = {"source": ("value", number), "from": [*dims], "to": [*initial]}
            ends.append(OpNote("named", given, (self._count,), ((tuple(initial), sparse, whole),)))
            self._count += 1
        step.ops = [*self._begin, *ops, *ends]
        step.count = self._count
        loop.steps = [step]
        return loop

    def _window(self, every: Sequence[OpNote]) -> tuple[OpNote, list[OpNote]]:
        """Turn a slice that moves on in each turn into a lookup of its positions."""
        start, end = ([op.given.get(name, -1) for op in every] for name in ("start", "end"))
        if (
            any(type(each) is not int or each < 0 for each in (*start, *end))
            or "step" in every[0].given
            or "size" in every[0].given
        ):
            raise _NoLoop
        out = every[-1].given["out_dim"]
        if any(last - first != out.extent for first, last in zip(start, end)):
            raise _NoLoop
        kind = (out,), None, True
        places = self._added(("range", out), "range_over_dim", {"dim": out}, kind)
        first = self._given(start, "gather", "indices")
        at = self._added(("window", out, first), "add", {"a": places, "b": first}, kind)
        made = [
            op._replace(
                name="gather", given={"source": op.given["source"], "indices": ("here", at), "axis": op.given["axis"]}
            )
            for op in every
        ]
        return made[-1], made

    def _match(self, values: Sequence[Any]) -> None:
        """Dims in one place, one for each turn."""
        if isinstance(values[0], list):
            for each in zip(*values, strict=True):
                self._match(each)
        elif isinstance(values[0], Dim):
            for turn, dim in enumerate(values):
                self._equal(turn, dim, values[-1])

    def _equal(self, turn: int, dim: Dim, last: Dim) -> None:
        """A dim of an op in a turn stands for one of the last turn: what an op does depends on which of its dims are the same."""
        there, back = self._dims[turn]
        if (
            there.setdefault(dim, last) is not last
            or back.setdefault(last, dim) is not dim
            or dim.extent != last.extent
        ):
            raise _NoLoop

    def _given(self, values: Sequence[Any], op: str, name: str) -> Any:
        first, last = values[0], values[-1]
        if isinstance(first, tuple):
            return self._ref(values)
        if (op, name) == ("named", "to"):
            return last
        if isinstance(first, list):
            if len({len(each) for each in values}) > 1:
                raise _NoLoop
            return [self._given(each, op, name) for each in zip(*values)]
        if isinstance(first, Mapping):
            return {what: self._given([each[what] for each in values], op, name) for what in first}
        if isinstance(first, Dim):
            self._match(values)
            return last
        if isinstance(first, np.ndarray):
            if not all(np.array_equal(each, first) for each in values):
                raise _NoLoop
            return last
        if all(type(each) is type(first) and each == first for each in values):
            return last
        if all(type(each) is int for each in values) and (op in TWO or (op, name) == ("gather", "indices")):
            by = values[1] - first
            if all(value == first + by * turn for turn, value in enumerate(values)):
                return self._number(by, first)
        raise _NoLoop

    def _number(self, by: int, begin: int) -> Ref:
        """begin + by * the index of the step."""
        made: Ref = ("index",)
        for name, other in (("mul", by if by != 1 else None), ("add", begin or None)):
            if other is not None:
                made = self._added((name, made, other), name, {"a": made, "b": other}, ((), None, True))
        return made

    def _added(self, key: Any, name: str, given: dict[str, Any], kind: Any) -> Ref:
        """The result of an op in front of the others."""
        if key not in self._known:
            self._known[key] = ("value", self._count)
            self._begin.append(OpNote(name, given, (self._count,), (kind,)))
            self._count += 1
        return self._known[key]

    def _ref(self, refs: Sequence[Ref]) -> Ref:
        """Return one ref for what each turn reads in one place."""
        first, last = refs[0], refs[-1]
        if first[0] == "here":
            return first[1]
        dims = [list(self._call.kind_of(ref)[0]) for ref in refs]
        if len({len(each) for each in dims}) > 1:
            raise _NoLoop
        self._match(dims)
        if all(ref == first for ref in refs) or self._call.is_same(refs):
            if first[0] == "value" and first[1] in self._at:
                raise _NoLoop  # of the first turn
            return ("outer", *first[1:]) if first[0] == "value" else first
        places = [self._at.get(ref[1]) if ref[0] == "value" else None for ref in refs]
        if places[-1] is not None:
            turn, at, slot = places[-1]
            of = turn - (len(refs) - 1)  # 0: of its own turn
            wanted = [(number + of, at, slot) for number in range(len(refs))]
            if of == 0 and places == wanted:
                return ("value", self.made[at, slot][0])
            if of == -1 and places[1:] == wanted[1:] and places[0] is None:
                return self._state(at, slot, first)
            raise _NoLoop
        turns = [self._call.turn_of(ref) for ref in refs]
        begun = turns[0]
        if begun is not None and turns in (begun.every(), begun.every()[::-1]):
            every = self._call.collected(begun, False)
            if not begun.turn:
                return ("frame", every)
            given = {"source": every, "indices": self._number(-1, len(refs) - 1), "axis": begun.loop.axis}
            return self._added(("reversed", every), "gather", given, self._call.kind_of(last))
        return self._taken(refs, last)

    def _state(self, at: int, slot: int, first: Ref) -> Ref:
        """A value of the turn before, with the dims that it has there."""
        path = self._states.setdefault((at, slot, first), f"state {len(self._states)}")
        kind = self._call.kind_of(first)
        before = self._turns[-2][at].kinds[slot]
        return self._added(
            ("state", path), "named", {"source": ("state", path), "from": [*kind[0]], "to": [*before[0]]}, before
        )

    def _taken(self, refs: Sequence[Ref], last: Ref) -> Ref:
        """Entries along an axis that were taken before, one for each turn (`x.unbind(1)`)."""
        ops = [self._call.op_of(ref) for ref in refs]
        if any(op is None or op.name != "gather" or type(op.given["indices"]) is not int for op in ops):
            raise _NoLoop
        first: Any = ops[0]
        if any(op.given[name] != first.given[name] for op in ops for name in ("source", "axis")):  # type: ignore[union-attr]
            raise _NoLoop
        indices = self._given([op.given["indices"] for op in ops], "gather", "indices")  # type: ignore[union-attr]
        source = first.given["source"]
        given = {
            **first.given,
            "source": ("outer", *source[1:]) if source[0] == "value" else source,
            "indices": indices,
        }
        return self._added(("taken", last), "gather", given, ops[-1].kinds[0])  # type: ignore[union-attr]


def _used(blocks: Sequence[OpNote | LoopNote], results: Sequence[Ref]) -> list[OpNote | LoopNote]:
    """The ops whose values something reads, and all loops."""
    read: set[int] = set()

    def note(ref: Ref) -> Ref:
        if ref[0] in ("value", "outer"):
            read.add(ref[1])
        return ref

    found: list[OpNote | LoopNote] = []
    _mapped(list(results), note)
    for block in reversed(blocks):
        if isinstance(block, LoopNote) or not read.isdisjoint(block.results):
            found.insert(0, block)
            _mapped_block(block, note)
    return found


def _begun(blocks: Sequence[OpNote | LoopNote]) -> list[OpNote | LoopNote]:
    """The blocks, in which zeros and the like get their other dims at once: a state gets them in the first turn only."""
    found: list[OpNote | LoopNote] = []
    behind: dict[int, int] = {}  # by number of a value the count of ops from the place behind it on
    for block in blocks:
        source = block.given["source"] if isinstance(block, OpNote) and block.name == "named" else None
        if source is not None and source[0] == "value" and source[1] in behind:
            found.insert(behind[source[1]], block)
            behind = {number: at + (at >= behind[source[1]]) for number, at in behind.items()}
            continue
        found.append(block)
        if isinstance(block, OpNote) and block.name in _ALONE:
            behind[block.results[0]] = len(found)
    return found


def _signature(block: OpNote | LoopNote) -> Any:
    """A key that is the same for an op in different turns."""
    if isinstance(block, LoopNote):
        return ("loop", block.name, len(block.steps[0].ops) if block.steps else 0)

    def of(value: Any) -> Any:
        if isinstance(value, tuple):
            return "ref"
        if isinstance(value, list):
            return tuple(map(of, value))
        if isinstance(value, Mapping):
            return tuple((name, of(each)) for name, each in value.items())
        return type(value).__name__

    given = dict(block.given)
    if block.name == "concat":
        given["sources"] = [
            *{of([*each]): each for each in given["sources"]}.values()
        ]  # of how many parts depends on the text
    kinds = tuple((len(dims), sparse is None, whole) for dims, sparse, whole in block.kinds)
    return block.name, tuple((name, of(value)) for name, value in given.items()), kinds


def _mapped(value: Any, fn: Callable[[Ref], Ref]) -> Any:
    """Nested arguments with other refs."""
    if isinstance(value, tuple):
        return (value[0], _mapped(value[1], fn)) if value[0] == "frame" else fn(value)
    if isinstance(value, list):
        return [_mapped(each, fn) for each in value]
    if isinstance(value, Mapping):
        return {name: _mapped(each, fn) for name, each in value.items()}
    return value


def _mapped_block(block: OpNote | LoopNote, fn: Callable[[Ref], Ref], numbers: Mapping[int, int] | None = None) -> Any:
    """A block with other refs to what is outside of loops, and other numbers of its results."""
    if isinstance(block, OpNote):
        results = block.results if numbers is None else tuple(numbers[number] for number in block.results)
        return block._replace(given=_mapped(block.given, fn), results=results)
    inside = lambda ref: ref if ref[0] == "value" else fn(ref)  # noqa: E731
    made = copy(block)
    made.initial, made.steps = _mapped(block.initial, fn), [copy(step) for step in block.steps]
    for step in made.steps:
        step.ops = [op._replace(given=_mapped(op.given, inside)) for op in step.ops]
        step.next = _mapped(step.next, inside)
        step.outputs = [(_mapped(ref, inside), last, state) for ref, last, state in step.outputs]
        if step.end is not None:
            step.end = (_mapped(step.end[0], inside), step.end[1])
    return made
