"""Records the ops of one step of a loop: their results, operands, and place in the user's code.

The step runs with real values (the first frame). Each value that may differ from step to step is a StepTensor with a register; a Node
tells how to fill its registers from others. Values independent of the step are computed at once, as outside of loops.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, TypeGuard

from rfnb.backends.raw_calls import RawCall
from rfnb.core import tree
from rfnb.core.dim import Dim, Dims, dims_so_far
from rfnb.core.dim_math import depends_on_any, parts_of
from rfnb.core.intercept import Intercepted, of_thread, outside
from rfnb.core.op import Args, Kwargs, Op
from rfnb.core.pickling import NotPicklable
from rfnb.core.place import place_above, place_of_user, place_text
from rfnb.core.tensor import Tensor, with_raw
from rfnb.core.tree import map_nested, values_in
from rfnb.rec.draws import DrawWatch, library_files
from rfnb.rec.hold import holding
from rfnb.rec.modes import Values, modes_now
from rfnb.rec.step_tensor import Owner, RecordingError, StepTensor, begin_growing, recording_error
from rfnb.trace.probe import Offer, held_back, listening, probe, trace_context


class Node:
    """One op of the step.

    Attributes:
        op, fn: The op, and its function.
        args, kwargs: Arguments of the call; StepTensors stand for registers.
        given: The leaves of the arguments.
        result: Its result in the first step, with StepTensors.
        step_tensors: The StepTensors in the result.
        new_dims: Dims in the result that it made or sized: each step has its own.
        sized: Those of them that the body made without size.
        reads: Registers it reads.
        writes: Registers it fills.
        random: Whether it draws random numbers, or decides.
        name: Name for messages.
        modes: The modes it runs under (no gradients, mixed precision, training), if they differ from the loop's.
        offers: Its events in the first step.
        calls: Its array library calls, if these were watched.
        run_place: Place in the run, if there are listeners.
        place: Place in the user's code.
    """

    def __init__(self, op: Op, args: Any, kwargs: Any, given: list[Any]):
        # A method is that of the class it was called on, which may be a derived one.
        self.name = type(args[0]).__name__ if op.fn.__name__ == "__call__" and args else op.name
        self.op, self.fn, self.args, self.kwargs, self.given = op, op.fn, args, kwargs, given
        self.modes: Values | None = None
        self.random = False
        self.reads: list[int] = []
        self.writes: list[int] = []
        self.result: Any = None
        self.step_tensors: list[StepTensor] = []
        self.new_dims: list[Dim] = []
        self.sized: list[Dim] = []
        self.offers: list[Offer] = []
        self.calls: list[RawCall] | None = None
        self.run_place: Any = None
        self.place = place_above(sys._getframe(1))

    @property
    def stays(self) -> bool:
        """True if it must run in every step, needed or not: it draws random numbers, makes dims, checks or sends something."""
        return self.random or bool(self.new_dims) or not self.step_tensors or (bool(self.offers) and not self.reads)


class Recorder(NotPicklable):
    """Runs ops on real values and records them, while `recording`.

    Attributes:
        nodes: The nodes, in execution order.
        registers: The StepTensor of each register.
        growing: Dims that differ in each step: those in the state, and those made by ops of the step.
        masked: Masks the outside values that layers read.
        used: ids of the outside Tensors that the body computed with.
        watched: Whether array library calls of the ops are recorded.
        modes: The modes that the loop runs under.
        owner: The owner of its StepTensors. It does not reference the recorder, whose values would otherwise wait for the garbage
            collector.
    """

    def __init__(self, loop_name: str):
        self.loop_name = loop_name
        self.nodes: list[Node] = []
        self.registers: list[StepTensor] = []
        self.growing: set[Dim] = set()
        self.owner = Owner(loop_name)
        self._op_draws = False
        self.watched = False
        self._calls: list[RawCall] = []
        self.masked = Masked()
        self.used: set[int] = set()
        self._thread = threading.get_ident()
        self._before_step = dims_so_far()
        self.modes = modes_now()
        self._hold = holding()
        self._intercepted, self._stopped = Intercepted(self._call), False
        self.draws = DrawWatch(self._body_draws)

    def start(self) -> None:
        """Start recording ops."""
        self._intercepted.__enter__()
        calls = self.draws.start(trace=self.watched)
        if self.watched:
            self._calls = calls

    def stop(self) -> None:
        """Stop recording; a second call does nothing."""
        if self._stopped:
            return
        try:
            self._intercepted.stop()
        finally:
            self.draws.stop()
            self._calls = []
        self._stopped = True  # last, so that it is not before all is done

    def aside(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Call `fn`, whose ops are not part of the body."""
        return self._intercepted.aside(fn, *args)

    def new(self, value: Tensor) -> StepTensor:
        """A register for a value."""
        out = StepTensor(value, len(self.registers), self.owner)
        self.registers.append(out)
        return out

    def wrap(self, value: Any) -> Any:
        """Registers for all tensors in a nested structure."""
        return map_nested(lambda leaf: self.new(leaf) if isinstance(leaf, Tensor) else leaf, value)

    def owns(self, leaf: Any) -> TypeGuard[StepTensor]:
        """True if it is a StepTensor of this loop rather than an outer one."""
        return leaf.__class__ is StepTensor and leaf.owner is self.owner

    def unwrapped(self, value: Any) -> Any:
        """A nested structure with the values of the first step."""
        return map_nested(lambda leaf: leaf.marked_value() if self.owns(leaf) else leaf, value)

    def reads(self, value: Any) -> set[int]:
        """The registers of all StepTensors in a nested structure."""
        return {leaf.register for leaf in values_in(value) if leaf.__class__ is StepTensor and leaf.owner is self.owner}

    def _call(self, op: Op, args: Args, kwargs: Kwargs) -> Any:
        if threading.get_ident() != self._thread:
            return op.fn(*args, **kwargs)  # of a thread that was started with a copy of the context
        if op.changes_state:
            raise _no_effects(self.loop_name, op)
        owner = self.owner
        owner.busy, before = True, owner.busy
        try:
            return self._offer(op, args, kwargs) if op.fn is probe else self._answer(op, args, kwargs)
        finally:
            owner.busy = before

    def _answer(self, op: Op, args: Args, kwargs: Kwargs) -> Any:
        given, nested = _leaves_of(args, kwargs)
        reads: dict[int, None] = {}
        unknown: list[Dim] = []
        depends, before = False, set[Dim]()
        for leaf in given:
            if isinstance(leaf, Tensor):
                if leaf.__class__ is StepTensor and leaf.owner is self.owner:
                    reads[leaf.register] = None
                    depends = True
                    before.update(leaf._dims)
                else:
                    self.used.add(id(leaf))
                    before.update(leaf.dims)
            elif isinstance(leaf, Dim):
                before.add(leaf)
                if leaf.size is None and not leaf.is_dim_known():
                    unknown.append(leaf)
                depends = depends or self.grows(leaf)
        call, drawn, serial = outside(op), of_thread.draws, dims_so_far()
        attended = 0 if self._hold is None else self._hold.attended_calls
        modes, heard = modes_now(), listening()
        self._op_draws, offers, calls = False, [], None
        now = args, kwargs
        watched = self.watched and depends and modes == self.modes
        if watched:
            now = self.masked(op.fn, args, kwargs)  # as in the other steps
            self._calls.clear()
        if reads:
            now = self._first_values(*now, nested)
        if heard:
            with held_back() as offers:
                result = call(*now[0], **now[1])
        else:
            result = call(*now[0], **now[1])
            if watched:
                calls = self._calls.copy()
        random = op.draws or op.decides or self._op_draws or of_thread.draws != drawn
        # Who holds the loop may put other attention weights in in any step.
        random = random or (not depends and self._hold is not None and self._hold.attended_calls != attended)
        if self._op_draws:
            self.draws.forgive()
        if not depends and not random and not offers:
            return result  # once is enough
        # Copies: the body may change the lists that it passed.
        node = Node(op, copied(args), copied(kwargs), given) if nested else Node(op, args, kwargs, given)
        if modes != self.modes:
            node.modes = modes
        node.run_place = trace_context.place if heard else None
        node.random, node.offers, node.reads, node.calls = random, offers, list(reads), calls
        if unknown:
            node.sized = [dim for dim in unknown if dim.is_dim_known() and dim.serial > self._before_step]
        # The beam dims of a search are the same ones in every step.
        node.new_dims = [] if op.decides else self._new_dims(result, before, serial, node.sized)
        if self.growing:
            node.new_dims += self._made_of_growing(before, result, node.new_dims)
        growing: list[Dim] = node.new_dims
        if isinstance(result, Tensor):
            node.result = out = self.new(result)
            node.step_tensors, node.writes = [out], [out.register]
        else:
            count = len(self.registers)
            node.result = self.wrap(result)
            node.step_tensors = self.registers[count:]
            node.writes = [tensor.register for tensor in node.step_tensors]
            self._check_result(node)
            out = copied(node.result)
            if self.growing:
                growing = [*growing, *(x for x in values_in(result) if isinstance(x, Dim) and self.grows(x))]
        self.nodes.append(node)
        for dim in growing:
            if dim not in self.growing:
                self.growing.add(dim)
                begin_growing(dim, self.owner)
        return out

    def forget(self) -> None:
        """Release the values; only the ops and their operands are needed from now on, and nothing waits for the garbage collector."""
        for node in self.nodes:
            node.args, node.kwargs, node.given, node.result, node.offers, node.calls = (), {}, [], None, [], None
        like: dict[Any, Tensor] = {}  # one template of each dtype
        for tensor in self.registers:
            tensor.forget(like)
        self.masked = Masked()
        self._intercepted.handler = _done
        self.__dict__.pop("draws", None)

    def _first_values(self, args: Any, kwargs: Any, nested: bool) -> tuple[Any, Any]:
        """Arguments with the values of the first step."""
        if nested:
            return self.unwrapped(args), self.unwrapped(kwargs)
        first: list[Any] = []
        for leaf in args:
            own = leaf.__class__ is StepTensor and leaf.owner is self.owner
            first.append(leaf.marked_value() if own else leaf)
        return first, self.unwrapped(kwargs) if kwargs else kwargs

    def note_used(self, value: Any) -> None:
        """Note that the body computes with these values, or passes them to the loop."""
        self.used.update(id(leaf) for leaf in values_in(value) if isinstance(leaf, Tensor))

    def _offer(self, op: Op, args: Args, kwargs: Kwargs) -> None:
        """Record a probe of the body, which sends an event in every step."""
        if not listening():
            return
        values = [leaf for leaf in values_in((args, kwargs)) if isinstance(leaf, Tensor)]
        now = self.unwrapped(args), self.unwrapped(kwargs)
        # Of the call of a module nobody wants values: those of the first step say the dims, and nothing has to be computed for it.
        same = args[:1] == ("module",) and not any(self.grows(dim) for value in values for dim in value.dims)
        called = now if same else (copied(args), copied(kwargs))
        node = Node(op, called[0], called[1], values_in(called))
        node.run_place = trace_context.place
        node.reads = [] if same else list(dict.fromkeys(value.register for value in values if self.owns(value)))
        with held_back() as node.offers:
            probe(*now[0], **now[1])
        self.nodes.append(node)

    def _new_dims(self, result: Any, before: set[Dim], serial: int, sized: list[Dim]) -> list[Dim]:
        """The dims in a result made since `serial`, and those that were `sized`."""

        found = (
            result.dims if isinstance(result, Tensor) else [dim for x in values_in(result) for dim in dims_of_leaf(x)]
        )
        new = [dim for dim in found if dim not in before and _is_new(dim, serial) and not self.grows(dim)]
        return list(dict.fromkeys([*new, *sized])) if new or sized else []

    def _made_of_growing(self, before: set[Dim], result: Any, known: list[Dim]) -> list[Dim]:
        """Dims in a result that an op makes from a growing one, including dims cached from another loop."""
        if not any(map(self.grows, before)):
            return []
        dims = dict.fromkeys(leaf for leaf in values_in(result) if isinstance(leaf, Dim))
        return [dim for dim in dims if dim not in before and dim not in known and not self.grows(dim)]

    def _body_draws(self, name: str) -> None:
        if self.owner.busy:
            self._op_draws = True
            return
        raise self._not_drawn_by_op([("drawn in", place_text(place_of_user(1, but=library_files()))), ("by", name)])

    def check_generators(self, unseen: bool) -> None:
        """Raise a RecordingError if code other than ops drew random numbers from this thread's generators."""
        if unseen:
            raise self._not_drawn_by_op([("before", place_text(place_of_user(1)))])

    def _not_drawn_by_op(self, rows: list[tuple[str, str]]) -> RecordingError:
        return recording_error(
            f'Loop "{self.loop_name}", recorded step: random numbers that no op has drawn.',
            rows,
            "The body of `with loop:` runs once, so all steps would have those of the first. Draw them by rf.random_...,\n"
            "or let Python run every step:",
            "for _ in loop:",
        )

    def _check_result(self, node: Node) -> None:
        """Refuse a plain value (a number, an array) as a result, since the first step's value would be used for ever."""
        foreign = [leaf for leaf in values_in(node.result) if not isinstance(leaf, (StepTensor, Dim, type(None)))]
        if foreign:
            raise recording_error(
                f'Loop "{self.loop_name}", recorded step: {place_text(node.place)} gets a plain value from {node.name}.',
                {"value": f"a {type(foreign[0]).__name__}"},
                "The body of `with loop:` runs once, so it would be the value of the first step in all steps.\n"
                "Keep it a tensor, or let Python run every step:",
                "for _ in loop:",
            )

    def grows(self, dim: Dim) -> bool:
        """True if a dim is replaced in each step, or derived from one that is."""
        return bool(self.growing) and (dim in self.growing or depends_on_any(dim, self.growing))


def _is_new(dim: Dim, serial: int) -> bool:
    """True if a dim, or one of its parts, is younger than `serial`."""
    parts = parts_of(dim)
    return any(_is_new(part, serial) for part in parts) if parts else dim.serial > serial


def dims_of_leaf(leaf: Any) -> Dims:
    """The dims of a leaf of a nested structure, or the leaf itself if it is a dim."""
    return (leaf,) if isinstance(leaf, Dim) else leaf.dims if isinstance(leaf, Tensor) else ()


def _done(op: Op, args: Args, kwargs: Kwargs) -> Any:
    """The answer of an interceptor that has ended."""
    return op.fn(*args, **kwargs)


def _no_effects(loop_name: str, op: Op) -> RecordingError:
    return recording_error(
        f'Loop "{loop_name}", recorded step: {place_text(place_of_user(1))} makes a permanent change.',
        {"call": op.fn.__qualname__},
        "The body of `with loop:` runs once, so this would happen in the first step only. Let Python run every step:",
        "for _ in loop:",
    )


def copied(value: Any) -> Any:
    """The same leaves in new containers."""
    return map_nested(lambda leaf: leaf, value)


def _leaves_of(args: Args, kwargs: Kwargs) -> tuple[list[Any], bool]:
    """The leaves of a call's arguments, and whether they are in containers."""
    given = [*args, *kwargs.values()]
    for leaf in given:
        if isinstance(leaf, tree.containers):
            return values_in(given), True
    return given, False


class Masked:
    """Sets the padding of outside values to 0 once, instead of in every step, unless it is finite."""

    def __init__(self) -> None:
        self._known: dict[
            int, tuple[Tensor, Tensor]
        ] = {}  # id -> the value, which keeps its id, and that without padding

    def __call__(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments for an op's function."""
        if not fn.__module__.startswith("rfnb.nn.") or "use_mask" in kwargs:
            return args, kwargs
        return map_nested(self._leaf, args), map_nested(self._leaf, kwargs)

    def _leaf(self, x: Any) -> Any:
        if type(x) is not Tensor or x._finite or not x.dtype.startswith(("float", "bfloat")):
            return x
        if not any(dim.has_padding() for dim in x.dims):
            return x
        found = self._known.get(id(x))
        if found is None:
            raw, backend = x._raw, x.backend
            if not backend.grad_enabled() and backend.is_on_host_raw(raw) and backend.is_finite_raw(raw):
                masked = with_raw(x.__dict__, raw)  # what is there does as well as 0
            else:
                masked = x.copy_masked(0)
            masked._finite = True
            found = self._known[id(x)] = x, masked
        return found[1]
