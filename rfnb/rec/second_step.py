"""Runs the body of a `with` for a second and third step, and compares them with its first.

The body runs once in a `with`, and in every step in a `for`. If it changed something that it may read (a flag, a cache, a list), it runs
here twice more without computing: each op call is compared with that of the first step and returns its result, as values of a new step.
So no random number is drawn, no event is sent, no choice is made. Changes made by the body are undone and its prints and logs are
hidden; before it would write to a file, a socket or another process it is stopped, and the outcome is unknown (`UnknownBehaviour`).
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.dim import Dim
from rfnb.core.intercept import Intercepted, outside
from rfnb.core.op import Args, Kwargs, Op
from rfnb.core.place import in_package, place_of_user, place_text
from rfnb.core.tensor import Tensor
from rfnb.core.tree import map_nested, values_in
from rfnb.rec import loop_stack
from rfnb.rec.draws import DrawWatch
from rfnb.rec.dry_run import UnknownBehaviour
from rfnb.rec.loop_step import StepAround
from rfnb.rec.modes import modes_now
from rfnb.rec.recorder import Node
from rfnb.rec.step_tensor import StepTensor
from rfnb.trace.probe import probe

if TYPE_CHECKING:
    from rfnb.rec.recording import Recording

_STEPS = 2


class StepDifference(BaseException):
    """The step differs from the first. Not an Exception, so that no body catches it as one of its own."""


def difference(body: Callable[[], Any], loop: Any, recording: Recording) -> str | None:
    """The first difference of step 1 or 2, as text; None if there is none.

    Args:
        body: Runs the body once.
        loop: The loop, whose step 0 is recorded.

    Raises:
        UnknownBehaviour: If it cannot be determined.
    """
    recorder, outputs, step = recording.recorder, loop._outputs, loop.step
    owner = recorder.owner
    if loop_stack.are_recorded():
        raise UnknownBehaviour("a loop around it is recorded too")
    try:
        for index in range(1, 1 + _STEPS):
            again = _StepAgain(step, recording)
            loop.step = loop._states.step = again
            loop._outputs, owner.busy = again, False
            try:
                with recording.quiet, again.answering():
                    body()
                    again.end_step()
            except StepDifference as found:
                return f"step {index}: {found}"
            except Exception as error:
                return f"step {index}: {type(error).__name__}{_place_of(error)}"
    finally:
        loop.step = loop._states.step = step
        loop._outputs, owner.busy = outputs, True
    return None


def _place_of(error: BaseException) -> str:
    """The place in user code that raised the error, for a message."""
    found, trace = "", error.__traceback__
    while trace is not None:
        if not in_package(trace.tb_frame.f_code):
            found = f", {place_text((trace.tb_frame.f_code, trace.tb_lasti))}"
        trace = trace.tb_next
    return found


class _StepAgain(StepAround):
    """A step that gives the body the values of the first one as new values, and compares its calls."""

    def __init__(self, inner: Any, recording: Recording):
        super().__init__(inner)
        recorder = recording.recorder
        self._recording, self._recorder = recording, recorder
        brought = recording.brought
        self._nodes = [node for node in recorder.nodes if node.op.fn is not probe and id(node) not in brought]
        self._calls = self._outputs_given = 0
        self._fresh: dict[int, StepTensor] = {}
        self._reads: dict[str, int] = {}
        self._written: set[str] = set()
        self._frames: list[StepTensor] = []
        self._has_end = False
        self._same = _Same(recorder.owns)

    # -- for the body ------------------------------------------------------------------------------------------------------

    @property
    def is_recording(self) -> bool:
        return True

    def read(self, name: str) -> Any:
        reads = self._recording.reads.get(name)
        if reads is None:
            raise StepDifference(f'state "{name}" is read')
        count = self._reads.get(name, 0)
        self._reads[name] = count + 1
        if count < len(reads):
            return self._new(reads[count])
        return self._new((self._recording.next_states if name in self._written else self._recording.states)[name])

    def write(self, name: str, value: Any) -> None:
        self._compare(self._recording.next_states.get(name, _Same), value, lambda: f'state "{name}" gets another value')
        self._written.add(name)

    def frame(self, source: Tensor) -> Tensor:
        for known, frame in self._recording.frames:
            if self._same(known, source) and not any(frame is each for each in self._frames):
                self._frames.append(frame)
                return self._new(frame)
        raise StepDifference("a frame of another tensor is read")

    def index(self) -> Tensor:
        if self._recording.index is None:
            raise StepDifference("iter_idx is read")
        return self._new(self._recording.index)

    def output(self, value: Tensor, last: bool) -> Tensor:
        outputs = self._recording.outputs
        if self._outputs_given == len(outputs):
            raise StepDifference("one more value is collected")
        self._compare(outputs[self._outputs_given], (value, last), lambda: "another value is collected")
        return value

    def end_with(self, cond: Tensor, include_eos: bool) -> None:
        self._has_end = True
        self._compare(self._recording.end, (cond, include_eos), lambda: "the end condition is another one")

    @property
    def end(self) -> tuple[Tensor, bool] | None:
        return self._recording.end if self._has_end else None

    def next(self) -> Any:
        """Stands in for the loop's outputs: the output for the next call."""
        self._outputs_given += 1
        handle = self.outputs.all[self._outputs_given - 1].handle
        return types.SimpleNamespace(handle=handle, values=[])

    def call(self, op: Op, args: Args, kwargs: Kwargs) -> Any:
        """A call of an op in the body."""
        owner = self._recorder.owner
        owner.busy, before = True, owner.busy
        try:
            return self._answer(op, args, kwargs)
        finally:
            owner.busy = before

    def _answer(self, op: Op, args: Args, kwargs: Kwargs) -> Any:
        if op.fn is probe:
            return None
        node = self._nodes[self._calls] if self._calls < len(self._nodes) else None
        owns = self._recorder.owns
        alike = node is not None and self._is(node, op, args, kwargs)
        if not alike and not op.draws and not op.decides and not any(map(owns, values_in([args, kwargs]))):
            return outside(op)(*args, **kwargs)  # the same in all steps; else who gets it tells
        if node is None:
            raise StepDifference(f"{op.name} is called once more, {self._here()}")
        if not alike and node.op is op:
            raise StepDifference(f"{op.name} gets other arguments, {self._here()}")
        if not alike:
            raise StepDifference(
                f"{op.name} is called, {self._here()}, in place of {node.name}, {place_text(node.place)}"
            )
        self._calls += 1
        return self._new(node.result)

    def _is(self, node: Node, op: Op, args: Any, kwargs: Any) -> bool:
        """True if a call equals that of the first step."""
        modes = modes_now()
        same_modes = (None if modes == self._recorder.modes else modes) == node.modes
        return node.op is op and same_modes and self._same((node.args, node.kwargs), (args, kwargs))

    def _here(self) -> str:
        return place_text(place_of_user(2))

    def _compare(self, before: Any, now: Any, words: Callable[[], str]) -> None:
        if not self._same(before, now):
            raise StepDifference(f"{words()}, {self._here()}")

    def _new(self, value: Any) -> Any:
        """A recorded value as a value of this step."""
        return map_nested(self._new_leaf, value)

    def _new_leaf(self, leaf: Any) -> Any:
        if not self._recorder.owns(leaf):
            return leaf
        found = self._fresh.get(leaf.register)
        if found is None:
            found = self._fresh[leaf.register] = StepTensor(leaf.value, leaf.register, leaf.owner)
            found.sparse_dim, found._feature_dim = leaf._made_with
            found.__dict__["of_step"] = self._same.step
        return found

    # -- for who compares --------------------------------------------------------------------------------------------------

    def end_step(self) -> None:
        """End the body."""
        recording, registers = self._recording, self._recorder.registers
        if self._calls < len(self._nodes):
            node = self._nodes[self._calls]
            raise StepDifference(f"{node.name}, {place_text(node.place)}, is not called")
        missing = [name for name in recording.next_states if name not in self._written]
        if missing:
            raise StepDifference(f'state "{missing[0]}" is not assigned')
        if self._outputs_given < len(recording.outputs) or self._has_end != (recording.end is not None):
            raise StepDifference(
                "less is collected" if self._outputs_given < len(recording.outputs) else "there is no end"
            )
        for register, tensor in self._fresh.items():
            before = registers[register]
            if not self._same((before.sparse_dim, before._feature_dim), (tensor.sparse_dim, tensor._feature_dim)):
                raise StepDifference(f'"{tensor.name}" is marked with another dim')

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """A block in which op calls are handled here and nothing else hears of them. The body draws no random numbers itself, since it
        drew none in the first step.
        """

        def drawn(name: str) -> None:
            if not self._recorder.owner.busy:
                raise StepDifference(f"{name} draws random numbers, {place_text(place_of_user(1))}")

        watch, block = DrawWatch(drawn), Intercepted(self.call)
        self._recording.quiet.stops += [watch.stop, block.stop]
        with block:
            outer, block.outer = block.outer, None
            try:
                watch.start()
                yield
            finally:
                watch.stop()
                block.outer = outer


class _Same:
    """Compares a value of the first step with one of this step; values of a step are equal if they share a register.

    Args:
        owns: Whether a value belongs to the step.

    Attributes:
        step: The `of_step` of values of this step; other values belong to an earlier step.
    """

    def __init__(self, owns: Callable[[Any], bool]):
        self._owns, self.step = owns, object()
        self._dims: dict[Dim, Dim] = {}  # a dim that the body makes anew in each step

    def __call__(self, before: Any, now: Any, depth: int = 12) -> bool:
        if self._owns(before) or self._owns(now):
            return (
                self._owns(before) and self._owns(now)
                and before.register == now.register and now.__dict__.get("of_step") is self.step
            )  # fmt: skip
        if before is now or not depth:
            return True
        kind = type(now)
        if isinstance(before, Dim) and isinstance(now, Dim):
            return self._dims.setdefault(before, now) is now and _same_dim(before, now)
        if type(before) is not kind:
            return isinstance(before, Tensor) and isinstance(now, Tensor) and self._tensors(before, now)
        if issubclass(kind, Tensor):
            return self._tensors(before, now)
        if issubclass(kind, dict):
            return before.keys() == now.keys() and all(self(before[key], now[key], depth - 1) for key in before)
        if issubclass(kind, (list, tuple)):
            return len(before) == len(now) and all(self(a, b, depth - 1) for a, b in zip(before, now))
        if issubclass(kind, types.FunctionType):
            return before.__code__ is now.__code__ or (
                before.__code__.co_code == now.__code__.co_code
                and self(before.__code__.co_consts, now.__code__.co_consts, depth - 1)
            ) and self(_held(before), _held(now), depth - 1)  # fmt: skip
        if issubclass(kind, types.CodeType):
            return before.co_code == now.co_code
        if issubclass(kind, types.MethodType):
            return before.__func__ is now.__func__ and self(before.__self__, now.__self__, depth - 1)
        if registry.is_raw_tensor_type(kind):
            return self._raws(before, now)
        attributes = getattr(before, "__dict__", None), getattr(now, "__dict__", None)
        if isinstance(attributes[0], dict) and isinstance(attributes[1], dict) and kind.__eq__ is object.__eq__:
            return self(*attributes, depth - 1)
        try:
            return bool(before == now) or (before != before and now != now) or kind.__eq__ is object.__eq__
        except Exception:
            return True

    def _tensors(self, before: Tensor, now: Tensor) -> bool:
        marks = (before.sparse_dim, before._feature_dim), (now.sparse_dim, now._feature_dim)
        if before.dtype != now.dtype or not self(before.dims, now.dims) or not self(*marks):
            return False
        if before.__class__ is StepTensor or now.__class__ is StepTensor:  # of a loop around this one
            return False
        return before._raw is now._raw or self._raws(before._raw, now._raw)

    def _raws(self, before: Any, now: Any) -> bool:
        to_host = registry.BY_TYPE[type(before)].raw_to_numpy
        a, b = np.asarray(to_host(before)), np.asarray(to_host(now))
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def _held(fn: types.FunctionType) -> list[Any]:
    cells = [cell.cell_contents for cell in fn.__closure__ or () if cell != types.CellType()]
    return [*cells, fn.__defaults__, fn.__kwdefaults__]


def _same_dim(before: Dim, now: Dim) -> bool:
    sizes = before.__dict__.get("size"), now.__dict__.get("size")
    # One that the body has made without size got one by an op of the first step.
    return before.name == now.name and before.kind == now.kind and (sizes[0] == sizes[1] or sizes[1] is None)
