"""Records the ops of one step of a loop: what each computed, from what, and where in the user's code.

The step runs with real values (the first frame). Each value that may differ from step to step is a StepTensor with a register;
a Node says how to fill its registers from others. What does not depend on the step is computed at once, as outside of loops.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FunctionType
from typing import Any, TypeGuard

from rfnb.core.dim import Dim
from rfnb.core.dim_math import depends_on_any, parts_of
from rfnb.core.errors import message
from rfnb.core.intercept import intercept
from rfnb.core.pickling import NotPicklable
from rfnb.core.place import place_of_user, place_text
from rfnb.core.tensor import Tensor
from rfnb.ops.random_state import get_random_state
from rfnb.rec.draws import Watch, library_files
from rfnb.rec.modes import Values, modes_now
from rfnb.rec.nested import leaves, map_nested
from rfnb.rec.step_tensor import RecordingError, StepTensor, begin_growing
from rfnb.trace.probe import Offer, held_back, listening, probe, trace_context

_NOT_OPS = {"rfnb.ops.default", "rfnb.ops.operands", "rfnb.ops.operators", "rfnb.ops.out_dim"}
_DIM_SIZES = (
    "get_size_tensor",
    "get_size_tensor_or_int",
    "get_dyn_size_ext_for_device",
    "get_dim_value_tensor",
    "get_mask",
)
_DIM_MATH = ("__add__", "__radd__", "__sub__", "__rsub__", "sub_left", "__mul__", "__rmul__", "__neg__", "__floordiv__",
             "__rfloordiv__", "div_left", "ceildiv_right", "ceildiv_left")  # fmt: skip
_NO_DRAWS = {"get_random_state", "set_random_seed", "set_random_state", "reset_step_random_state", "mask"}
_further: list[FunctionType] = []
# Those of `ops/` that change something for good, or ask how one value of the step was made from another.
_effects: set[str] = {
    "set_random_seed",
    "set_random_state",
    "reset_step_random_state",
    "set_requires_gradient",
    "gradient",
}
_deciding: set[str] = set()


def recordable(fn: Any) -> Any:
    """Decorator for a function that is not an op: a recorded loop repeats it as one op all the same, e.g. for its probe."""
    _further.append(fn)
    return fn


def changes_state(fn: Any) -> Any:
    """Decorator for a function that changes something for good: not possible in a recorded loop."""
    _effects.add(fn.__qualname__)
    return recordable(fn)


def decides(fn: Any) -> Any:
    """Decorator for a function that looks at the loop it is in (a choice of a search): a recorded loop runs it in every step."""
    _deciding.add(fn.__qualname__)
    return recordable(fn)


class Node:
    """One op of the step.

    Attributes:
        fn, args, kwargs: The call; StepTensors in it stand for registers.
        result: What it gave in the first step, with StepTensors.
        step_tensors: Those in the result.
        new_dims: Dims in the result that it made, or gave a size: each step has its own.
        sized: Those among them that the body made without size.
        reads: Registers it reads.
        writes: Registers it fills.
        random: Whether it draws random numbers, or decides.
        modes: What it runs under (no gradients, mixed precision, training), if that is not what the loop runs under.
        offers: What it offered to listeners in the first step.
        run_place: Where in the run, if somebody listens.
        place: Where in the user's code.
    """

    def __init__(self, fn: Callable[..., Any], args: Any, kwargs: Any, *, modes: Values | None):
        self.fn, self.args, self.kwargs = fn, args, kwargs
        self.modes = modes
        self.random = False
        self.reads: list[int] = []
        self.writes: list[int] = []
        self.result: Any = None
        self.step_tensors: list[StepTensor] = []
        self.new_dims: list[Dim] = []
        self.sized: list[Dim] = []
        self.offers: list[Offer] = []
        self.run_place = trace_context.place if listening() else None
        self.place = place_of_user(1)

    @property
    def stays(self) -> bool:
        """Whether it has to run in every step, needed or not: what draws random numbers, makes dims, checks or offers something."""
        return self.random or bool(self.new_dims) or not self.step_tensors or (bool(self.offers) and not self.reads)

    @property
    def name(self) -> str:
        """Name of the op, for messages."""
        return self.fn.__qualname__.removesuffix(".__call__")


class Recorder(NotPicklable):
    """Runs ops for real and notes them, while `recording`.

    Attributes:
        nodes: In the order they ran.
        registers: The StepTensor of each register.
        growing: Dims that each step has others for: those in the state, and those that ops of the step make.
        used: ids of the Tensors from outside that the body has computed with.
        busy: Whether those who look at these dims are not the body: an op, or the loop.
    """

    def __init__(self, loop_name: str):
        self.loop_name = loop_name
        self.nodes: list[Node] = []
        self.registers: list[StepTensor] = []
        self.growing: set[Dim] = set()
        self.busy = False
        self._op_draws = False
        self.used: set[int] = set()
        self._thread = threading.get_ident()
        self._first_serial = Dim(0, name="first of the step").serial
        self._modes = modes_now()
        self._generator = get_random_state()
        self.draws = Watch(self._body_draws)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Context manager in which the ops that are called are recorded."""
        with intercept(_functions(), self._call), self.draws.active():
            yield

    def new(self, value: Tensor) -> StepTensor:
        """A register for a value."""
        out = StepTensor(value, len(self.registers), self)
        self.registers.append(out)
        return out

    def wrap(self, value: Any) -> Any:
        """Registers for all tensors in a nested structure."""
        return map_nested(lambda leaf: self.new(leaf) if isinstance(leaf, Tensor) else leaf, value)

    def owns(self, leaf: Any) -> TypeGuard[StepTensor]:
        """Whether it is a StepTensor of this loop, not of one around it."""
        return isinstance(leaf, StepTensor) and leaf.owner is self

    def unwrapped(self, value: Any) -> Any:
        """A nested structure with the values of the first step."""
        return map_nested(lambda leaf: leaf.marked_value() if self.owns(leaf) else leaf, value)

    def reads(self, value: Any) -> set[int]:
        """The registers of all StepTensors in a nested structure."""
        return {leaf.register for _, leaf in leaves(value) if self.owns(leaf)}

    def _call(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if threading.get_ident() != self._thread:
            return fn(*args, **kwargs)  # of a thread that was started with a copy of the context
        if fn.__qualname__ in _effects:
            raise _no_effects(self.loop_name, fn)
        self.busy, before = True, self.busy
        try:
            return self._answer(fn, args, kwargs)
        finally:
            self.busy = before

    def _answer(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if fn is probe:
            return self._offer(args, kwargs)
        decides = fn.__qualname__ in _deciding
        always, ops_only = _draws(fn) or decides, fn.__module__.startswith(("rfnb.ops.", "rfnb.core."))
        self.note_used((args, kwargs))
        depends = self._depends((args, kwargs))
        if ops_only and not depends and not always:
            return fn(*args, **kwargs)  # once is enough
        modes = modes_now()
        # Copies: the body may change the lists that it passed.
        node = Node(fn, copied(args), copied(kwargs), modes=None if modes == self._modes else modes)
        self._op_draws, generator = False, self._generator
        serial, unknown = Dim(0, name="").serial, _unknown_dims((args, kwargs))
        context: Any = held_back() if listening() else contextlib.nullcontext([])
        with context as node.offers:
            result = fn(*self.unwrapped(args), **self.unwrapped(kwargs))
        self._generator = get_random_state()
        if self._op_draws:
            self.draws.forgive()
        # Another thread may have moved the generator: then the op stays inside, which is slower, but never wrong.
        node.random = _draws(fn) or decides or self._op_draws or self._generator != generator
        if not depends and not always and not node.random and not node.offers:
            return result
        node.sized = [dim for dim in unknown if dim.is_dim_known() and dim.serial > self._first_serial]
        # The beam dims of a search are the same ones in every step.
        node.new_dims = [] if decides else self._new_dims(result, serial, node.sized)
        node.new_dims += self._made_of_growing((args, kwargs), result, node.new_dims)
        count = len(self.registers)
        node.reads = list(dict.fromkeys(leaf.register for _, leaf in leaves((args, kwargs)) if self.owns(leaf)))
        node.result = self.wrap(result)
        node.step_tensors = self.registers[count:]
        node.writes = [tensor.register for tensor in node.step_tensors]
        self._check_result(node)
        self.nodes.append(node)
        for dim in [
            *node.new_dims,
            *(leaf for _, leaf in leaves(result) if isinstance(leaf, Dim) and self.grows(leaf)),
        ]:
            if dim not in self.growing:
                self.growing.add(dim)
                begin_growing(dim, self)
        return copied(node.result)

    def forget(self) -> None:
        """Keep no values: which op was done, and with what, is all that is looked at from now on."""
        for node in self.nodes:
            node.args, node.kwargs, node.result, node.offers = (), {}, None, []
        for tensor in self.registers:
            tensor.forget()

    def note_used(self, value: Any) -> None:
        """The body computes with what is in here, or gives it to the loop."""
        self.used.update(id(leaf) for _, leaf in leaves(value) if isinstance(leaf, Tensor))

    def _offer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A probe of the body offers in every step."""
        if not listening():
            return
        values = [leaf for _, leaf in leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        now = self.unwrapped(args), self.unwrapped(kwargs)
        # Of the call of a module nobody wants values: those of the first step say the dims, and nothing has to be computed for it.
        same = args[:1] == ("module",) and not any(self.grows(dim) for value in values for dim in value.dims)
        node = Node(probe, *(now if same else (copied(args), copied(kwargs))), modes=None)
        node.reads = [] if same else list(dict.fromkeys(value.register for value in values if self.owns(value)))
        with held_back() as node.offers:
            probe(*now[0], **now[1])
        self.nodes.append(node)

    def _new_dims(self, result: Any, serial: int, sized: list[Dim]) -> list[Dim]:
        """The dims in a result that were made since `serial`, and those that were `sized`."""

        def is_new(dim: Dim) -> bool:
            parts = parts_of(dim)
            return any(map(is_new, parts)) if parts else dim.serial > serial

        values = [leaf for _, leaf in leaves(result)]
        dims = [dim for leaf in values if isinstance(leaf, Tensor) for dim in leaf.dims]
        dims += [leaf for leaf in values if isinstance(leaf, Dim)]
        return [dim for dim in dict.fromkeys([*dims, *sized]) if dim in sized or (not self.grows(dim) and is_new(dim))]

    def _made_of_growing(self, given: Any, result: Any, known: list[Dim]) -> list[Dim]:
        """Dims in a result that an op makes from one that grows, also where it has kept them from another loop."""
        before = [dim for _, leaf in leaves(given) for dim in _dims_of(leaf)]
        if not any(map(self.grows, before)):
            return []
        dims = dict.fromkeys(leaf for _, leaf in leaves(result) if isinstance(leaf, Dim))
        return [dim for dim in dims if dim not in before and dim not in known and not self.grows(dim)]

    def _body_draws(self, name: str) -> None:
        if self.busy:
            self._op_draws = True
            return
        raise self._not_drawn_by_op([("drawn in", place_text(place_of_user(1, but=library_files()))), ("by", name)])

    def check_generators(self) -> None:
        """Raise a RecordingError if others than ops have drawn random numbers from the generators of this thread."""
        if self.draws.somebody_unseen():
            raise self._not_drawn_by_op([("before", place_text(place_of_user(1)))])

    def _not_drawn_by_op(self, rows: list[tuple[str, str]]) -> RecordingError:
        return RecordingError(
            message(
                f'Loop "{self.loop_name}", recorded step: random numbers that no op has drawn.',
                rows,
                "The body of `with loop:` runs once, so all steps would have those of the first. Draw them by rf.random_...,\n"
                "or let Python run every step:",
                "for _ in loop:",
            )
        )

    def _check_result(self, node: Node) -> None:
        """What comes out as a plain value (a number, an array) would be that of the first step for ever."""
        foreign = [leaf for _, leaf in leaves(node.result) if not isinstance(leaf, (StepTensor, Dim, type(None)))]
        if foreign:
            raise RecordingError(
                message(
                    f'Loop "{self.loop_name}", recorded step: {place_text(node.place)} gets a plain value from {node.name}.',
                    [("value", f"a {type(foreign[0]).__name__}")],
                    "The body of `with loop:` runs once, so it would be the value of the first step in all steps.\n"
                    "Keep it a tensor, or let Python run every step:",
                    "for _ in loop:",
                )
            )

    def _depends(self, value: Any) -> bool:
        return any(self.owns(leaf) or (isinstance(leaf, Dim) and self.grows(leaf)) for _, leaf in leaves(value))

    def grows(self, dim: Dim) -> bool:
        """Whether a dim is one that the steps replace, or derived from one."""
        return bool(self.growing) and (dim in self.growing or depends_on_any(dim, self.growing))


def _dims_of(leaf: Any) -> tuple[Dim, ...]:
    return (leaf,) if isinstance(leaf, Dim) else leaf.dims if isinstance(leaf, Tensor) else ()


def _no_effects(loop_name: str, fn: Callable[..., Any]) -> RecordingError:
    return RecordingError(
        message(
            f'Loop "{loop_name}", recorded step: {place_text(place_of_user(1))} changes something for good.',
            [("call", fn.__qualname__)],
            "The body of `with loop:` runs once, so this would happen in the first step only. Let Python run every step:",
            "for _ in loop:",
        )
    )


@cache
def _functions_of(modules: tuple[str, ...]) -> tuple[FunctionType, ...]:
    found: dict[FunctionType, None] = {}
    for name in modules:
        module = sys.modules[name]
        if name.startswith("rfnb.ops."):
            public = [value for key, value in vars(module).items() if key[0] != "_"]
            found.update(dict.fromkeys(value for value in public if _is_function_of(value, name)))
        else:
            classes = [value for value in vars(module).values() if isinstance(value, type)]
            for scope in (module, *(value for value in classes if value.__module__ == name)):
                functions = [getattr(value, "__wrapped__", value) for value in vars(scope).values()]
                found.update(
                    dict.fromkeys(
                        fn for fn in functions if _is_function_of(fn, name) and "_raw" in fn.__code__.co_names
                    )
                )
    for base in Tensor.__mro__:
        for key, value in vars(base).items():
            if (
                isinstance(value, FunctionType)
                and key.startswith("copy")
                and "template" not in key
                and not key.endswith("raw")
            ):
                found[value] = None
    for base in Dim.__mro__:
        found.update((value, None) for key, value in vars(base).items() if key in _DIM_SIZES + _DIM_MATH)
    return (*found, *_further)


def _is_function_of(value: Any, module: str) -> bool:
    return isinstance(value, FunctionType) and value.__module__ == module


def _functions() -> tuple[FunctionType, ...]:
    """All functions whose calls are recorded: the ops, what in `nn/` works on raw arrays, copies of tensors, and what is
    `recordable`."""
    names = [name for name in sys.modules if name.startswith(("rfnb.ops.", "rfnb.nn.")) and name not in _NOT_OPS]
    return _functions_of(tuple(sorted(names)))


def copied(value: Any) -> Any:
    """The same leaves in new containers."""
    return map_nested(lambda leaf: leaf, value)


def _unknown_dims(value: Any) -> list[Dim]:
    return [leaf for _, leaf in leaves(value) if isinstance(leaf, Dim) and not leaf.is_dim_known()]


def _draws(fn: Any) -> bool:
    return fn.__module__.startswith("rfnb.ops.random") and fn.__name__ not in _NO_DRAWS


recordable(probe)
