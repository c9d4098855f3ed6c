"""Records the arguments of the ops in a call, and the values that loops carry from step to step, as plain references.

Ops that a page supports are recorded directly (`op_lowering.py`); others are replaced by the ops inside them. Values
computed only from constants are constants.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.beam_dim import is_beam
from rfnb.core.dim import Dim
from rfnb.core.errors import type_error
from rfnb.core.intercept import Intercepted
from rfnb.core.op import Op
from rfnb.core.place import place_of_user, place_text
from rfnb.core.tensor import Tensor, new_tensor, with_raw
from rfnb.core.tree import leaves, map_nested, values_in
from rfnb.nn.attention.weight_hook import attended
from rfnb.nn.recurrent.flat_batch import batch_dims_of
from rfnb.nn.recurrent.steps import expanded
from rfnb.ops.defaults import has_fractions
from rfnb.ops.shift import reverse_sequence
from rfnb.rec.hold import Hold, held_by
from rfnb.rec.loop import Loop
from rfnb.rec.loop_step import StepAround
from rfnb.rec.state import State
from rfnb.search.raw_states import RawStates
from rfnb.trace.probe import Place, listen, probe, trace_context
from rfnb.trace.record import models_of
from rfnb.viz.runnable.op_lowering import DTYPES, MAKES_DIM, ONE, OTHER, OVER, POSITIONS, TWO, is_read, known, lowered
from rfnb.viz.runnable.op_rewrites import WRITTEN
from rfnb.viz.runnable.raw_search import RawSearch

_MOST = 2**31 - 1
Ref = tuple[Any, ...]  # ("value", number) of a block, ("outer", number), ("state", path), ("constant", number), ...


class OpNote(NamedTuple):
    """The record of one op.

    Attributes:
        name: Its name in the page.
        given: Arguments by parameter: Refs, Dims and plain values.
        results: The numbers of its results.
        kinds: For each result its dims, its sparse dim, and whether it has integers.
        offers: The events inside it, by kind, path and name: attention, states.
        weights: What attends in it, if it is only that: {..., target, axis}.
    """

    name: str
    given: Mapping[str, Any]
    results: tuple[int, ...]
    kinds: tuple[tuple[tuple[Dim, ...], Dim | None, bool], ...]
    offers: tuple[tuple[str, str, str], ...] = ()
    weights: Tensor | None = None


class StepNote:
    """One step of a loop: its ops, and the values that it reads, returns and ends with.

    Attributes:
        ops: The ops in order.
        count: The number of their results.
        next: The next value of each state, by path.
        outputs: (value, whether only the last one counts, the state that it is assigned to).
        end: The condition, and whether the ending step belongs to the sequence.
        path: Path of the loop, under which its states are recorded.
        dims, next_dims: Dims in the states before and after it, by path: a history grows.
    """

    def __init__(self) -> None:
        self.ops: list[OpNote] = []
        self.count = 0
        self.next: dict[str, Ref] = {}
        self.outputs: list[tuple[Ref, bool, str | None]] = []
        self.end: tuple[Ref, bool] | None = None
        self.path = ""  # of the loop
        self.dims: dict[str, Dim] = {}
        self.next_dims: dict[str, Dim] = {}


class LoopNote:
    """A loop: the initial values of its states, its steps, and the step at which a search inside it stops early."""

    def __init__(self, name: str, axis: Dim, given: bool, most: Any):
        self.name, self.axis, self.given, self.most = name, axis, given, most
        self.initial: dict[str, Ref] = {}
        self.steps: list[StepNote] = []
        self.stop: dict[str, Any] | None = None
        self.kinds: list[tuple[tuple[Dim, ...], Dim | None, bool]] = []  # of what it gives
        self.turns: dict[
            str, list[Tensor]
        ] = {}  # of a loop of Python the values of a state before the first turn and after each


class Notes(Hold):
    """The record of a call's computation.

    Attributes:
        blocks: Ops and loops outside of loops, in order.
        constants: Arrays that exist before the call, such as parameters.
        tokens: By dim the labels that name its entries, if ops outside of loops have made them.
    """

    def __init__(self, until: int | None = None) -> None:
        self._until = until
        self.blocks: list[OpNote | LoopNote] = []
        self.count = 0
        self.constants: list[Tensor] = []
        self.tokens: dict[Dim, Ref] = {}
        self._where: dict[int, Ref] = {}  # id of a Tensor -> its Ref
        self._of_raw: dict[int, Tensor] = {}  # id of a raw array -> its Tensor
        self._kept: list[Any] = []  # keeps these ids valid
        self._hidden: dict[int, tuple[str, str]] = {}  # results of unsupported ops: name and line of the op
        self._loop: LoopNote | None = None
        self._step: StepNote | None = None
        self._of_steps: list[int] = []  # constants computed in steps of the loop
        self.between = False  # between two steps, while the loop passes on its values
        self._inside: list[tuple[str, str, str]] | None = None  # events sent inside an op
        self.limits: dict[Dim, dict[str, Any]] = {}  # of the sizes for which the record holds
        self.is_decided = False  # while other code than the user's looks at sizes
        self.places: list[str] | None = None  # where user code called the ops, if that is wanted
        self.follower: Any = None  # of the calls of another library, see `follow_by`

    # -- values ------------------------------------------------------------------------------------------------------------

    def ref(self, value: Tensor) -> Ref:
        """The Ref of a value."""
        found = self._where.get(id(value))
        same = None if found is not None else self.same_as(value._raw)
        if same is not None and not self.is_constant(same):  # the same array with other dims
            source = self.ref(same)
            self.made("named", {"source": source, "from": [*same.dims], "to": [*value.dims]}, value)
            found = self._where[id(value)]
        if found is None:
            if id(value) in self._hidden:
                raise _not_there(*self._hidden[id(value)])
            self._kept.append(value)
            found = self._where[id(value)] = ("constant", self._numbered(value))
        if found[0] == "in":
            return self._of_step(*found[1:])
        return ("outer", *found[1:]) if self._step is not None and found[0] == "value" else found

    def _numbered(self, value: Tensor) -> int:
        """The number of a constant; those created again in each step of a loop share one."""
        array = None
        for number in self._of_steps if self._step is not None else ():
            other = self.constants[number]
            if other.dims == value.dims and other.sparse_dim is value.sparse_dim and other.dtype == value.dtype:
                array = value.numpy() if array is None else array
                if np.array_equal(other.numpy(), array, equal_nan=other.dtype.startswith("float")):
                    return number
        self.constants.append(value)
        if self._step is not None:
            self._of_steps.append(len(self.constants) - 1)
        return len(self.constants) - 1

    def _of_step(self, ref: Ref, step: StepNote) -> Ref:
        """A value of a step: of this one, or of an earlier one of the same loop."""
        if step is self._step:
            return ref
        if self._loop is not None and self._step is not None and any(step is each for each in self._loop.steps):
            return ("earlier", *ref)
        raise type_error(
            "A page cannot run this: a value of a step is used outside the loop.",
            {"used in": place_text(place_of_user(1)), "loop": self._loop.name if self._loop else "over"},
            "A loop returns stacked values, last values and states:",
            "last = loop.last(value)",
        )

    def of_raw(self, raw: Any) -> Tensor | None:
        """The Tensor for an array that recorded ops have computed."""
        return self._of_raw.get(id(raw))

    def same_as(self, raw: Any) -> Tensor | None:
        """The same, which has the values that the array has now."""
        found = self._of_raw.get(id(raw))
        if found is not None and self.follower is not None and found._raw is not raw:
            self.follower.of(raw)
        return found

    def limit(self, dim: Dim, least: int | None, most: int | None, but: int | None) -> None:
        """Record that user code has decided by the size of a dim, and so is known for these sizes only."""
        if self.is_decided:
            return
        own = self.limits.setdefault(dim, {"least": 0, "most": None, "but": []})
        if least is not None:
            own["least"] = max(own["least"], least)
        if most is not None:
            own["most"] = most if own["most"] is None else min(own["most"], most)
        if but is not None and but not in own["but"]:
            own["but"].append(but)

    def put_raw(self, raw: Any, value: Tensor) -> None:
        """Record that an array has the values of a Tensor, with its dims in order."""
        self._of_raw[id(raw)] = value
        self._kept += (raw, value)

    def counterpart(self, raw: Any) -> Tensor:
        """The Tensor for an array of another library, whose calls are followed.

        Raises:
            TypeError: If they are not.
        """
        if self.follower is None:
            raise self.not_there(f"a step function on arrays of type {type(raw).__name__}")
        return self.follower.of(raw)

    def made(self, name: str, given: Mapping[str, Any], value: Tensor) -> Tensor:
        """Record an op with this result."""
        self.add(OpNote(name, given, (self.new(value),), (kind_of_value(value),)))
        return value

    def renamed(self, value: Tensor, dims: Sequence[Dim]) -> Tensor:
        """The same values with other dims, by position."""
        if len(dims) == len(value.dims) and all(one is two for one, two in zip(value.dims, dims)):
            return value
        source = self.ref(value)
        return self.made(
            "named", {"source": source, "from": [*value.dims], "to": [*dims]}, new_tensor(value._raw, tuple(dims))
        )

    def next_state(self, path: str, value: Tensor, before: Sequence[Dim], after: Sequence[Dim]) -> None:
        """Record the next value of a state that the loop does not carry itself, and its dims before and after the step."""
        assert self._step is not None
        self._step.next[path] = self.ref(value)
        self._step.dims |= {f"{path}:{at}": dim for at, dim in enumerate(before)}
        self._step.next_dims |= {f"{path}:{at}": dim for at, dim in enumerate(after)}

    def not_there(self, what: str) -> TypeError:
        """The error for a computation that a page does not support."""
        return _not_there(what)

    def is_constant(self, value: Tensor) -> bool:
        """Whether a value does not depend on recorded ops."""
        if id(value) not in self._where and id(value._raw) in self._of_raw:
            value = self._of_raw[id(value._raw)]
        return self._where.get(id(value), ("constant",))[0] == "constant" and id(value) not in self._hidden

    def put(self, value: Tensor, ref: Ref) -> None:
        """Record the Ref of a value; one of a step holds in this step only."""
        in_step = self._step is not None and ref[0] != "final"
        before = self._of_raw.get(id(value._raw))
        is_known = before is not None and before._raw is value._raw and self._where.get(id(before), ("in",))[0] != "in"
        if not (in_step and ref[0] == "value" and is_known):  # an array from outside the step holds in other steps, too
            self._of_raw[id(value._raw)] = value
        self._where[id(value)] = ("in", ref, self._step) if in_step else ref
        self._kept += (value, value._raw)

    def values(self) -> dict[int, Tensor]:
        """The results of ops outside of loops, by number."""
        refs = [(self._where.get(id(each), ("",)), each) for each in self._kept if isinstance(each, Tensor)]
        return {ref[1]: each for ref, each in refs if ref[0] == "value"}

    def new(self, value: Tensor) -> int:
        """A number for the result of an op."""
        block: Any = self if self._step is None else self._step
        number = block.count
        block.count += 1
        self.put(value, ("value", number))
        return number

    def add(self, op: OpNote) -> None:
        (self.blocks if self._step is None else self._step.ops).append(op)
        if self.places is not None and self._step is None:
            self.places.append(place_text(place_of_user(1, but=libraries())))
        if self._until is not None and len(self.blocks) > self._until:
            raise Enough

    # -- ops ---------------------------------------------------------------------------------------------------------------

    def call(self, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if op.fn is probe or self.between:
            if op.fn is probe and not self.between:
                self._probed(*args, **kwargs)
            return op.plain(*args, **kwargs)
        all_given = list(values_in((args, kwargs)))
        given = [leaf for leaf in all_given if isinstance(leaf, Tensor)]
        its_name = known(op)
        is_long = any(
            isinstance(leaf, Dim) and leaf.size is None and not _is_ragged(leaf) for leaf in all_given
        )  # as the text is
        constant = given and all(map(self.is_constant, given)) and not op.decides and not is_long
        if op.fn in WRITTEN and not constant:
            with Intercepted(self.call):
                result = WRITTEN[op.fn](*args, **kwargs)
            if result is not None:
                return result
        if its_name is None or constant or not is_read(its_name, bound := _signature(op.plain).bind(*args, **kwargs)):
            with Intercepted(self.call):
                result = op.plain(*args, **kwargs)
            self._unknown(op, args, given, result)
            return result
        bound.apply_defaults()
        if its_name == "convert_to_tensor" and (same := self.same_as(bound.arguments["value"])) is not None:
            result = op.plain(*args, **kwargs)
            return self.made("named", {"source": self.ref(same), "from": [*same.dims], "to": [*result.dims]}, result)
        _refuse_ragged(its_name, bound.arguments)
        name, parts = lowered(its_name, bound.arguments)
        refs = {what: self._noted(value) for what, value in parts.items()}
        self._inside = []
        result = op.plain(*args, **kwargs)
        offers, self._inside = tuple(self._inside), None
        found = [leaf for leaf in values_in(result) if isinstance(leaf, Tensor)]
        if its_name != "attended" and all(id(leaf) in self._where for leaf in found):
            return result  # what was given, as it was
        for leaf in found:
            if leaf.dtype not in DTYPES and name != "convert_to_tensor":  # whose numbers are exact in more bits
                raise _not_there(f"{its_name} in {leaf.dtype}")
            if leaf.dtype == "int64" and np.abs(leaf.numpy()).max(initial=0) > _MOST:
                raise _not_there(f"{its_name} with integers of more than 32 bits")
            if sum(map(is_beam, leaf.dims)) > 1:
                raise _not_there(f"{its_name} of the hypotheses of two searches")
        if name == "add" and found[0].dtype == "bool":
            name = "logical_or"
        if name in MAKES_DIM:
            made = [each for each in result if isinstance(each, Dim)] if isinstance(result, tuple) else []
            refs["out_dim"] = made[0] if made else found[0].feature_dim
        if name == "convert_to_tensor":
            if isinstance(parts["value"], Tensor):
                return result
            refs["value"] = np.asarray(found[0].numpy())
        out = tuple([self.new(leaf) for leaf in found])
        shown = found[0].copy_transpose(_turned(found[0].dims, parts)) if name == "attended" else None
        self.add(OpNote(name, refs, out, tuple(map(kind_of_value, found)), offers, shown))
        return result

    def _probed(self, kind: str, weights: Any = None, axis: Any = None, **others: Any) -> None:
        """Record attention of the user's as that of layers, unless an op has read it before: an edit of it would change nothing."""
        if kind != "attention" or not isinstance(weights, Tensor) or not isinstance(axis, Dim):
            return
        ops = self.blocks if self._step is None else self._step.ops
        parts = (part for op in ops if isinstance(op, OpNote) for part in op.given.values())
        read = [each for part in parts for each in (part if type(part) is list else [part]) if type(each) is tuple]
        if self.ref(weights) not in read:
            with Intercepted(self.call):
                attended(weights, axis=axis)

    def _unknown(self, op: Op, args: tuple[Any, ...], given: list[Tensor], result: Any) -> None:
        """An unsupported op: its results were made by the ops inside it, are constant, or cannot be made."""
        if all(map(self.is_constant, given)):
            return
        for leaf in values_in(result):
            if isinstance(leaf, Tensor) and id(leaf) not in self._where and id(leaf._raw) not in self._of_raw:
                name = type(args[0]).__name__ if op.fn.__name__ == "__call__" else op.name
                self._hidden[id(leaf)] = name, place_text(place_of_user(1))
                self._kept.append(leaf)

    def _noted(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self.ref(value)
        if isinstance(value, Mapping):
            return {name: self._noted(each) for name, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._noted(each) for each in value]
        return value

    def hear(self, kind: str, place: Place, values: Mapping[str, Any]) -> None:
        """Record an event: for a supported op by name; for states of a loop by its path; for labels by their dim."""
        names = [name for name, value in values.items() if isinstance(value, Tensor)]
        if self._inside is not None and kind in ("attention", "states"):
            self._inside += [(kind, place.path, name) for name in names]
        elif self._loop is not None and self._loop.steps and kind == "states" and self._step is None:
            self._loop.steps[-1].path = place.path
        elif kind == "tokens" and (ref := self._where.get(id(values.get("ids")), ("",)))[0] == "value":
            self.tokens |= dict.fromkeys(values["ids"].dims, ref)

    # -- loops -------------------------------------------------------------------------------------------------------------

    def around(self, loop: Any, step: Any) -> Any:
        if self._step is not None:
            raise _not_there(f'the loop "{loop.name}" inside of "{self._loop.name}"')  # type: ignore[union-attr]
        if loop.given_axis is not None:
            _refuse_ragged(f'the loop "{loop.name}"', {"axis": loop.axis})
            if loop.longest_with_end() != loop.axis.extent:
                raise _not_there(f'the loop "{loop.name}" with include_eos=False')
        note = LoopNote(loop.name, loop.axis, loop.given_axis is not None, loop.max_seq_len)
        return _Noted(step, self, note, loop)

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """A with-block, no op of which is recorded."""
        self.between = True
        try:
            yield
        finally:
            self.between = False

    def run_unit(
        self, unit: Any, source: Tensor, state: State, axis: Dim, direction: int
    ) -> tuple[Tensor, State] | None:
        """A loop over the frames; with the path of the unit, if its states are in the order of its output."""
        if self.between or all(map(self.is_constant, (source, *state.values()))):
            return None
        skip, first = (unit.in_dim, axis), state[unit.state_parts[0]]
        dims = (*batch_dims_of(source, first, skip=skip, out_dim=unit.out_dim), unit.out_dim)
        source = unit.transform_input(reverse_sequence(source, axis=axis) if direction == -1 else source)
        shared = unit.shared(State({**state, **unit.draw_masks(first)}))
        loop = Loop(axis=axis, name=type(unit).__name__)
        for part, value in state.items():
            loop.state[part] = expanded(value, dims)
        for _ in loop:
            output, new, _ = unit.advance(
                loop.unstack(source), State({part: loop.state[part] for part in state}), shared
            )
            for part in state:
                loop.state[part] = expanded(new[part], dims)
            output = loop.stack(expanded(output, dims))
        output.feature_dim = unit.out_dim
        final = State({part: loop.state[part] for part in state})
        if direction == -1:
            return reverse_sequence(output, axis=axis), final
        assert self._loop is not None
        for step in self._loop.steps:
            step.path = trace_context.place.module
        return output, final

    def step_of(self, function: str, index: int, state: Any, ends: Any = None) -> Any:
        raise _not_there(f"rf.{function}")


class _Noted(StepAround):
    """The step of a loop whose ops are recorded."""

    def __init__(self, inner: Any, notes: Notes, note: LoopNote, loop: Any):
        super().__init__(inner)
        self._notes, self._note, self._loop = notes, note, loop
        self._raw: RawSearch | None = None

    def begin(self, index: int) -> None:
        notes, note = self._notes, self._note
        self.inner.begin(index)
        if not index:
            note.initial = {path: notes.ref(leaf) for path, leaf in _tensors(self.states.now)}
            if isinstance(self._loop.beside, RawStates):
                self._raw = RawSearch(notes, self._loop.beside.models)
                note.initial |= self._raw.initial
            notes.blocks.append(note)
            notes._of_steps = []
        now = self.states.now
        for name, value in now.items():  # in separate Tensors: a value may be both a state and read elsewhere
            now[name] = map_nested(
                lambda leaf: with_raw(leaf.__dict__, leaf._raw) if isinstance(leaf, Tensor) else leaf, value
            )
        notes._loop, notes._step = note, StepNote()
        for path, leaf in _tensors(now):
            notes.put(leaf, ("state", path))
        notes._step.dims = _dims(now)
        note.steps.append(notes._step)

    def read(self, name: str) -> Any:
        value = self.inner.read(name)
        for path, leaf in _tensors({name: value}):
            if id(leaf) not in self._notes._where:  # it was gathered for the surviving hypotheses
                self._notes.put(leaf, ("next" if name in self.states.next else "state", path))
        if name == "label" and self._raw is not None:
            self._raw.label = value
        return value

    def write(self, name: str, value: Any) -> None:
        step: Any = self._notes._step
        for path, leaf in _tensors({name: value}):
            step.next[path] = self._notes.ref(leaf)
        step.next_dims |= _dims({name: value})
        self.inner.write(name, value)

    def frame(self, source: Tensor) -> Tensor:
        ref = self._notes.ref(source)
        value = self.inner.frame(source)
        self._notes.put(value, ("frame", ref))
        return value

    def index(self) -> Tensor:
        value = self.inner.index()
        self._notes.put(value, ("index",))
        return value

    def output(self, value: Tensor, last: bool) -> Tensor:
        step: Any = self._notes._step
        ref = self._notes.ref(value)
        step.outputs.append((ref, last, next((path for path, own in step.next.items() if own == ref), None)))
        return self.inner.output(value, last)

    def end_with(self, cond: Tensor, include_eos: bool) -> None:
        step: Any = self._notes._step
        step.end = self._notes.ref(cond), include_eos
        self.inner.end_with(cond, include_eos)

    def commit(self, active: Tensor | None) -> None:
        self._notes._step = None
        if self._loop.search is not None and not self._note.stop:
            self._note.stop = _stop_of(self._loop.search)
        with self._notes.unseen():
            self.inner.commit(active)

    def finish(self) -> None:
        notes = self._notes
        with notes.unseen():
            self.inner.finish()
        number = sum(isinstance(block, LoopNote) for block in notes.blocks) - 1
        for path, leaf in _tensors(self.states.now):
            notes.put(leaf, ("final", number, path))
        for at, output in enumerate(self.outputs.all):
            notes.put(output.handle, ("output", number, at))
            self._note.kinds.append(kind_of_value(output.handle))
            if any(self._loop.axis in dim.length_dims for dim in output.handle.dims):
                what = f'a value that grows in each step, stacked by loop "{self._loop.name}"'
                raise _not_there(what)


_followers: list[str] = []  # "module:function"


def follow_by(place: str) -> None:
    """Register what repeats the calls of another library by ops of rfnb: "module:function".

    The function gets the notes and a dict that the calls of one program share, and gives a context with `of(raw)`: the Tensor for an array.
    """
    _followers.append(place)


class Enough(BaseException):
    """Raised in a call whose first blocks are recorded; user code does not catch it."""


def noted(
    fn: Callable[..., Any],
    *args: Any,
    constants: dict[Any, Any] | None = None,
    until: int | None = None,
    model: Any = None,
    places: list[str] | None = None,
) -> tuple[Notes, Any]:
    """Call a function and record its computation.

    Args:
        model: The model whose modules give the paths of events, see `rf.record`.
        constants: What the records of several calls share; see `follow_by`.
        places: A list that gets the place of each op in user code.
        until: The index of the last block that is recorded; the call ends there. Default: all.

    Returns:
        The notes, and the result of the function, with Tensors for arrays that it computed.
    """
    notes, result = Notes(until), None
    notes.places = places
    with held_by(notes), Intercepted(notes.call), listen(notes.hear, models_of(model)[0]), ExitStack() as stack:
        for module, _, function in (place.partition(":") for place in _followers if "torch" in sys.modules):
            notes.follower = stack.enter_context(
                getattr(import_module(module), function)(notes, {} if constants is None else constants)
            )
        with suppress(Enough):
            result = fn(*args)
        known = map_nested(lambda leaf: leaf if (same := notes.same_as(leaf)) is None else same, result)
    return notes, known


def libraries() -> tuple[str, ...]:
    """The folders of libraries whose calls are followed, which are no user code."""
    names = {place.partition(":")[0] for place in _followers} & sys.modules.keys()
    return tuple(folder for name in sorted(names) for folder in getattr(sys.modules[name], "FOLDERS", ()))


def _stop_of(search: Any) -> dict[str, Any] | None:
    """The early stopping rule of a search, in the form of a page."""
    stop = search.stop
    for is_so, what in ((search.leave, 'ended="leave"'), (stop is not None and stop.cover is not None, "coverage")):
        if is_so:
            raise _not_there(f"a search with {what}")
    return (
        None if stop is None or not stop.safe else {"best": stop.num_best, "exponent": stop.exponent, "rule": stop.rule}
    )


def kind_of_value(value: Tensor) -> tuple[tuple[Dim, ...], Dim | None, bool]:
    """Dims, sparse dim, and whether it has whole numbers."""
    return value.dims, value.sparse_dim, not has_fractions(value.dtype)


def _dims(value: Any) -> dict[str, Dim]:
    return {path: leaf for path, leaf in leaves(value) if isinstance(leaf, Dim)}


def _turned(dims: Sequence[Dim], given: Mapping[str, Any]) -> list[Dim]:
    """The dims of attention weights with those of a map last."""
    last: list[Dim] = [dim for dim in (given.get("target"), given.get("axis")) if isinstance(dim, Dim) and dim in dims]
    return [*(dim for dim in dims if dim not in last), *last]


def _tensors(value: Any) -> list[tuple[str, Tensor]]:
    return [(path, leaf) for path, leaf in leaves(value) if isinstance(leaf, Tensor)]


@cache
def _signature(fn: Any) -> inspect.Signature:
    return inspect.signature(fn)


def _is_ragged(dim: Dim) -> bool:
    """True if hypotheses or sequences may have different lengths of a dim."""
    return any(is_beam(over) or over.extent != 1 for over in dim.length_dims)


def _refuse_ragged(name: str, given: Mapping[str, Any]) -> None:
    """Refuse an op that reads a dim as a whole, if hypotheses or sequences have different lengths of it: a page has no padding."""
    if name in POSITIONS:
        return
    leaves_of = list(values_in(given))
    dims = [leaf for leaf in leaves_of if isinstance(leaf, Dim)]
    if any(map(is_beam, dims)):  # of each of which the others may be longer
        dims += [dim for leaf in leaves_of if isinstance(leaf, Tensor) for dim in leaf.dims]
    for dim in dims:
        if _is_ragged(dim):
            raise type_error(
                f"A page cannot run {name} over {dim.short_repr()}: its lengths differ.",
                {"called in": place_text(place_of_user(1))},
                "A page has one sequence without padding. Accumulate values of hypotheses with different lengths in a state of the search:",
                "loop.state.total = loop.state.total + value",
            )


def _not_there(what: str, place: str | None = None) -> TypeError:
    return type_error(
        f"A page cannot run {what}.",
        {"called in": place or place_text(place_of_user(1))},
        f"A page runs loops that are not nested, with these ops: {', '.join(sorted([*ONE, *TWO, *OVER, *OTHER]))}.",
    )
