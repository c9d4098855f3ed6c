"""Torch code in a page that runs: each call of torch is repeated with ops of rfnb, which a page supports.

    rf.explore(lambda text: model(ids_of(text)), text="abc").save("page.html", runs=True)

While a function is recorded for a page (`viz/runnable/call_notes.py`), each torch array has a counterpart: a Tensor with the same values
and one dim per axis. A call of torch is made, and repeated on the counterparts by the row of the call in `torch_page_calls.py`; these
ops are what the page runs. Sizes that the code reads keep their dim, so they are free. The results of both must be equal in every call.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from rfnb.core.dim import Dim
from rfnb.core.errors import type_error
from rfnb.core.place import in_package, place_of_user, place_text
from rfnb.core.tensor import Tensor
from rfnb.core.tree import is_container, items_of, leaves, map_nested
from rfnb.interop.tape import tensors_in
from rfnb.interop.torch_page_calls import ASKED, IN_PLACE, MADE, READ, ROWS, WHOLE, apart, is_one, twin
from rfnb.ops.dims import range_over_dim, set_sparse_dim
from rfnb.ops.expand import expand_dim, squeeze
from rfnb.ops.gather import gather
from rfnb.ops.reduce import reduce_max
from rfnb.trace.probe import trace_context
from rfnb.viz.runnable.call_notes import Notes

_TORCH = os.path.dirname(torch.__file__) + os.sep
FOLDERS = (_TORCH,)
_UNCHECKED = {f"has_torch_function{name}": lambda *_: False for name in ("", "_unary", "_variadic")}
_OPENED = ("torch.nn.functional", "torch.functional")  # whose functions consist of calls of torch
_LIST = ", ".join(sorted(name for name in ROWS if name[0] != "_"))
_NEW = "Make a new array in its place: `x = torch.where(...)`, `x = x + ...`, `x = x.clone()`.\n"
_CLOSE = {"rtol": 1e-3, "atol": 1e-4}


class AxisSize(int):
    """The size of an axis as a number in user code, plus a constant. Its comparisons with numbers limit the sizes that a page accepts.

    Attributes:
        dim: The axis.
        plus: The constant.
    """

    dim: Dim
    plus: int
    _notes: Notes

    def __new__(cls, notes: Notes, dim: Dim, plus: int = 0) -> AxisSize:
        made = super().__new__(cls, dim.extent + plus)
        made._notes, made.dim, made.plus = notes, dim, plus
        return made

    def __add__(self, other: Any) -> Any:
        return AxisSize(self._notes, self.dim, self.plus + other) if type(other) is int else int(self) + other

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return AxisSize(self._notes, self.dim, self.plus - other) if type(other) is int else int(self) - other

    def _is(self, other: Any, least: int | None = None, most: int | None = None, but: int | None = None) -> None:
        if type(other) is int:
            at = other - self.plus
            low, high = (None if each is None else at + each for each in (least, most))
            self._notes.limit(self.dim, low, high, None if but is None else at)

    def __lt__(self, other: Any) -> bool:
        found = int(self) < other
        self._is(other, most=-1) if found else self._is(other, least=0)
        return found

    def __le__(self, other: Any) -> bool:
        found = int(self) <= other
        self._is(other, most=0) if found else self._is(other, least=1)
        return found

    def __gt__(self, other: Any) -> bool:
        return not self <= other

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __eq__(self, other: object) -> bool:
        found = int(self) == other
        self._is(other, 0, 0) if found else self._is(other, but=0)
        return found

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__


class Counterparts(TorchFunctionMode):
    """Repeats the calls of torch in user code with ops of rfnb while its block is open.

    Args:
        notes: The record of these ops.
        constants: The counterparts of parameters and buffers, by id; all calls of a program share them.
    """

    def __init__(self, notes: Notes, constants: dict[int, tuple[Any, Tensor]]):
        super().__init__()
        self.notes, self._constants = notes, constants
        self._open: list[Any] = []  # functions of torch that are being looked into
        self._hooks: list[Any] = []
        self._refused: TypeError | None = None
        self._depth = 0
        self._busy = False
        self.name = ""  # of the call that is being repeated

    def __enter__(self) -> Any:
        """Let each module of the recorded model have its path while it runs."""
        outer: list[Any] = []

        def enter(module: torch.nn.Module, args: Any) -> None:
            path = trace_context.module_name(module)
            outer.append(None if path is None else trace_context.enter_module(path))

        def leave(module: torch.nn.Module, args: Any, result: Any) -> None:
            if (before := outer.pop()) is not None:
                trace_context.leave_module(before)

        if not self._hooks:  # it is entered again for functions that are looked into
            self._hooks = [
                register_module_forward_pre_hook(enter),
                register_module_forward_hook(leave, always_call=True),
            ]
        self._depth += 1
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._depth -= 1
        if not self._depth:
            for hook in self._hooks:
                hook.remove()
            self._hooks = []
            if (
                self._refused is not None and error[1] is not self._refused
            ):  # operators of torch answer a TypeError with their own
                raise self._refused from None

    # -- arrays ------------------------------------------------------------------------------------------------------------

    def of(self, raw: Any) -> Any:
        """The counterpart of an array, with dims in its order; a number unchanged, a size as a scalar."""
        if isinstance(raw, AxisSize):
            return self.number(raw)
        if not isinstance(raw, torch.Tensor):
            return raw
        found = self.notes.of_raw(raw)
        if found is not None:
            self._check(raw, found, "an array that was changed in place while another shares its memory", _NEW)
            return found
        if id(raw) not in self._constants and not isinstance(
            raw, torch.nn.Parameter
        ):  # masks of layers are often equal
            for other, value in list(self._constants.values()):
                if other.shape == raw.shape and other.dtype == raw.dtype and torch.equal(other, raw):
                    self._constants[id(raw)] = raw, value
                    break
        if id(raw) not in self._constants:
            dims = [Dim(size, name=f"axis{at}") for at, size in enumerate(raw.shape)]
            self._constants[id(raw)] = raw, Tensor(None, dims, raw_tensor=raw.detach())
        return self._constants[id(raw)][1]

    def is_followed(self, raw: torch.Tensor) -> bool:
        """Whether an array was computed by recorded ops."""
        return self.notes.of_raw(raw) is not None

    def put(self, raw: torch.Tensor, value: Tensor) -> None:
        """Record the counterpart of an array."""
        self.notes.put_raw(raw, value)

    def renamed(self, value: Tensor, dims: Sequence[Dim]) -> Tensor:
        """The same values with other dims, by position."""
        return self.notes.renamed(value, dims)

    def ordered(self, value: Tensor, dims: Sequence[Dim]) -> Tensor:
        """The same values in this order of dims."""
        return value if value.dims == tuple(dims) else value.copy_transpose(list(dims))

    def number(self, length: AxisSize) -> Tensor:
        """A size as a scalar that the page computes."""
        last = reduce_max(self.places(length.dim), axis=length.dim)
        return last + (length.plus + 1)

    def places(self, dim: Dim) -> Tensor:
        """0, 1, 2, ... over a dim."""
        return set_sparse_dim(range_over_dim(dim), None)

    def places_as(self, dim: Dim, of: Dim) -> Tensor:
        """The same over a twin of `of`, which thus has its size."""
        return self.places(dim) if dim is of else self.renamed(self.places(of), [dim])

    def dims_of(self, sizes: Any) -> list[Dim]:
        """Dims of these sizes, distinct; a size that was read from an array has the dim of its axis, or a twin with its size."""
        made: list[Dim] = []
        for size in sizes:
            dim = size.dim if isinstance(size, AxisSize) and not size.plus else Dim(int(size), name="axis")
            if dim in made:
                dim, of = twin(dim), dim
                self.places_as(dim, of)
            made.append(dim)
        return made

    def shared(self, shapes: Sequence[Sequence[Dim]], taken: Sequence[Dim] = ()) -> list[Dim]:
        """The dims of a result as torch broadcasts operands with these dims; none of `taken`."""
        order: list[Dim] = []
        for place in range(-1, -max(map(len, shapes), default=0) - 1, -1):
            there = [dims[place] for dims in shapes if len(dims) >= -place]
            dim = next((dim for dim in there if not is_one(dim)), there[0])
            order.insert(0, apart(dim, [*order, *taken]))
        return order

    def fitted(self, value: Tensor, wanted: Sequence[Dim]) -> Tensor:
        """The value with the last ones of these dims by position, without those axes of length 1 that are broadcast."""
        wanted = wanted[len(wanted) - len(value.dims) :]
        for dim, to in zip(value.dims, wanted, strict=True):
            if is_one(dim) and not is_one(to):
                value = squeeze(value, axis=dim)
                wanted = [each for each in wanted if each is not to]
        return self.renamed(value, list(wanted))

    def aligned(self, *given: Any, but: int | None = None) -> tuple[list[Any], list[Dim]]:
        """Operands with common dims as torch broadcasts them, and the dims of the result in order; numbers stay.

        Args:
            but: An axis, counted from the last one as -1, that is not shared; the dims do not include it.
        """
        arrays = [self.of(each) for each in given]
        shapes = [[*each.dims] for each in arrays if isinstance(each, Tensor)]
        taken = [] if but is None else [dims.pop(but) for dims in shapes]
        order = self.shared(shapes, taken)

        def wanted(value: Tensor) -> list[Dim]:
            if but is None:
                return order
            dims = list(order)
            dims.insert(len(value.dims) + but, value.dims[but])
            return dims

        return [self.fitted(each, wanted(each)) if isinstance(each, Tensor) else each for each in arrays], order

    def at_least(self, dim: Dim, least: int) -> None:
        """Limit the sizes of a dim to those for which torch makes the call."""
        self.notes.is_decided = False
        self.notes.limit(dim, least, None, None)
        self.notes.is_decided = True

    def reversed(self, value: Tensor, axis: Dim) -> Tensor:
        """The entries along an axis from the last one on."""
        last = reduce_max(self.places(axis), axis=axis)
        return self.ordered(gather(value, indices=last - self.places(axis), axis=axis), value.dims)

    def whole(self, value: Any, order: Sequence[Dim]) -> Tensor:
        """The value with all these dims, in this order."""
        for dim in order:
            if dim not in value.dims:
                value = expand_dim(value, dim)
        return self.ordered(value, order)

    def refuse(self, what: str = "", instead: str = "") -> TypeError:
        """The error for a call that a page does not support."""
        self._refused = self._refused or _not_there(what or f"{self.name} of torch", instead)
        return self._refused

    # -- calls -------------------------------------------------------------------------------------------------------------

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._busy or self.notes.between or not _is_of_user():
            return func(*args, **kwargs)
        name = getattr(func, "__name__", str(func))
        if name == "__get__":
            name = func.__self__.__name__
        if name == "__set__" or name in ASKED:
            return func(*args, **kwargs)
        followed = any(map(self.is_followed, tensors_in([args, kwargs]))) or _has_length((args, kwargs))
        if not followed and (name not in MADE or sys._getframe(1).f_code.co_filename.startswith(_TORCH)):
            return func(*args, **kwargs)
        if name in ("shape", "size"):
            return self._sizes(func, args, kwargs)
        outer, self.name = self.name, name
        try:
            if name in READ:
                raise self.refuse(*READ[name])
            if (
                func.__class__ is FunctionType
                and func.__module__ in _OPENED
                and func not in self._open
                and name not in WHOLE
            ):
                return self._inside(func, args, kwargs)
            plain = IN_PLACE.get(name, name[:-1] if name.endswith("_") and not name.endswith("__") else name)
            row = ROWS.get(plain)
            if row is None:
                raise self.refuse()
            return self._both(
                func, row, name in IN_PLACE or plain != name or kwargs.get("inplace", False), args, kwargs
            )
        finally:
            self.name = outer

    def _sizes(self, func: Any, args: Any, kwargs: Any) -> Any:
        dims = self.of(args[0]).dims
        wanted = func(*args, **kwargs)
        if isinstance(wanted, int):
            return AxisSize(self.notes, dims[kwargs.get("dim", args[1] if len(args) > 1 else 0)])
        return torch.Size([AxisSize(self.notes, dim) for dim in dims])

    def _inside(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Call a function of torch written in Python such that its own calls are seen."""
        unchecked = FunctionType(
            func.__code__, {**func.__globals__, **_UNCHECKED}, func.__name__, func.__defaults__, func.__closure__
        )
        unchecked.__kwdefaults__ = func.__kwdefaults__
        self._open.append(func)
        try:
            with self:
                return unchecked(*args, **kwargs)
        finally:
            self._open.pop()

    def _both(self, func: Any, row: Any, in_place: bool, args: Any, kwargs: Any) -> Any:
        self._busy = self.notes.is_decided = True
        try:
            for raw in tensors_in([args, kwargs]):
                self.of(raw)
            kwargs = (
                {name: value for name, value in kwargs.items() if name != "out"}
                if kwargs.get("out") is None
                else kwargs
            )
            if "out" in kwargs or (in_place and not self.is_followed(args[0])):
                raise self.refuse(f"{self.name} of torch, which changes an array in place", _NEW)
            if in_place:
                made = row(self, *args, **{name: value for name, value in kwargs.items() if name != "inplace"})
                result = func(*_plain(args), **_plain(kwargs))
                result = args[0] if result is None else result
            else:
                result = func(*_plain(args), **_plain(kwargs))
                made = row(self, *args, **kwargs)
            self._pair(result, made)
            return result
        finally:
            self._busy = self.notes.is_decided = False

    def _pair(self, result: Any, made: Any) -> None:
        """Record the counterparts of results, which have their values."""
        raws, values = list(tensors_in(result)), [leaf for _, leaf in leaves(made) if isinstance(leaf, Tensor)]
        if len(raws) != len(values):
            raise self.refuse()
        for raw, value in zip(raws, values):
            self._check(raw, value, f"{self.name} of torch as it is called here")
            if not self.notes.is_constant(value):
                self.put(raw, value)

    def _check(self, raw: torch.Tensor, value: Tensor, what: str, instead: str = "") -> None:
        """Refuse what has other values than torch computed."""
        with torch._C.DisableTorchFunction():
            one, two = (
                np.asarray(each.detach().cpu().double()) for each in (raw, torch.as_tensor(value._raw, device="cpu"))
            )
        if one.shape != two.shape or not np.allclose(one, two, equal_nan=True, **_CLOSE):
            raise self.refuse(what, instead)


def _plain(value: Any) -> Any:
    return map_nested(lambda leaf: int(leaf) if isinstance(leaf, AxisSize) else leaf, value)


def _has_length(value: Any) -> bool:
    """Whether arguments contain a size that may be that of the text: one read from an array, or the end of a slice."""
    if isinstance(value, slice):
        return any(isinstance(each, int) for each in (value.start, value.stop))
    if is_container(value):
        return any(_has_length(each) for _, each in items_of(value))
    return isinstance(value, AxisSize)


def _is_of_user() -> bool:
    """Whether the running call of torch comes from user code, directly or through modules of torch."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_TORCH, __file__)):
        frame = frame.f_back
    return not in_package(frame.f_code)


def _not_there(what: str, instead: str) -> TypeError:
    return type_error(
        f"A page cannot run {what}.",
        {"called in": place_text(place_of_user(1, but=(_TORCH,)))},
        f"{instead}A page runs these calls of torch, as functions and methods: {_LIST}.",
    )


@contextmanager
def counterparts(notes: Notes, constants: dict[int, Any]) -> Iterator[Counterparts]:
    """See `Counterparts`."""
    with Counterparts(notes, constants) as made:
        yield made
