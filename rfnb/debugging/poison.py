"""Poison: fill padding with conspicuous values, so that an op that leaks padding is noticed.

An op makes a Tensor by assigning its `_raw` and `dims`. While poison is on, these two names of the class are properties
that inspect the assigned values; while it is off they are plain attributes, so that it costs nothing. Poison is a
property of the context: other threads see plain attributes, a bit slower.

Inside a call of an op, padding may be used temporarily, for example to move frames before the real ones are selected.
So a tensor is poisoned, and a NaN in a real frame is an error, only when code outside the call that made the tensor
reads it.

A call of this package by user code has a number, shared by everything inside it; each query walks up the stack.
"""

from __future__ import annotations

import inspect
import itertools
import threading
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType
from typing import Any

from rfnb.backends import registry
from rfnb.core.errors import ErrorOf
from rfnb.core.finite_padding import padding_mask
from rfnb.core.place import line_of, user_frame
from rfnb.core.tensor import NOTES_OF_DEBUGGING, Tensor
from rfnb.core.tensor_text import dims_text, labels_of

nan_error = ErrorOf(FloatingPointError)
_FLOATS = ("float", "bfloat")
# Entries in the __dict__ of a tensor: the poisoned raw array; the number of the call that made the tensor; the error of
# a tensor with NaN in real frames.
_DONE, _MADE, _NOTE = NOTES_OF_DEBUGGING


class Poison:
    """One activation of poison.

    Attributes:
        value: The padding of floats. NaN also checks the real frames of every new tensor for NaN.
        noted: Tensors with NaN in real frames, in the order of creation.
    """

    def __init__(self, value: float):
        self.value, self.on = value, True
        self.noted: list[weakref.ref[Tensor]] = []


_of_context: ContextVar[Poison | None] = ContextVar("rfnb_poison", default=None)
_lock = threading.Lock()
_users = [0]  # number of contexts with poison


def switch_on(value: float) -> Poison:
    """From now on, poison the padding of every Tensor that user code of this context receives."""
    poison = Poison(value)
    with _lock:
        _users[0] += 1
        if _users[0] == 1:
            Tensor._raw = property(_read_raw, _writer("_raw"))
            Tensor.dims = property(lambda tensor: tensor.__dict__.get("dims", ()), _writer("dims"))  # type: ignore[assignment]
            Tensor._finite = property(_read_finite, _write_finite)  # type: ignore[assignment]
            Tensor.copy_masked = _copy_masked  # type: ignore[assignment]
    _of_context.set(poison)
    return poison


def switch_off(poison: Poison) -> FloatingPointError | None:
    """Restore plain attributes. Poisoned values keep their poison, since padding has no meaning. A second call does nothing.

    Returns:
        An error if a tensor with unused NaN in real frames is still alive.
    """
    with _lock:
        if poison.on:
            poison.on = False
            _users[0] -= 1
            if not _users[0]:
                Tensor._raw, Tensor.dims, Tensor._finite = None, (), False
                Tensor.copy_masked = _plain_copy_masked
    if _of_context.get() is poison:
        _of_context.set(None)
    forget_calls()
    tensors = [ref() for ref in poison.noted]
    poison.noted.clear()
    left = [tensor.__dict__[_NOTE] for tensor in tensors if tensor is not None and _NOTE in tensor.__dict__]
    return left[0] if left else None


def current() -> Poison | None:
    """The poison of this context, if it is on."""
    poison = _of_context.get()
    return poison if poison is not None and poison.on else None


def switched_on() -> bool:
    """Whether this context poisons padding."""
    return current() is not None


_plain_copy_masked = Tensor.copy_masked


def _copy_masked(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Expose the padding if a value in it is requested."""
    out = _plain_copy_masked(tensor, *args, **kwargs)
    if current() is not None:
        out.__dict__[_DONE] = out.__dict__["_raw"]
    return out


def _read_finite(tensor: Any) -> bool:
    return current() is None and tensor.__dict__.get("_finite", False)


def _write_finite(tensor: Any, flag: bool) -> None:
    if current() is None:
        tensor.__dict__["_finite"] = flag


def _read_raw(tensor: Any) -> Any:
    own = tensor.__dict__
    raw, poison = own.get("_raw"), current()
    if poison is None or raw is None or "dims" not in own or (own.get(_DONE) is raw and _NOTE not in own):
        return raw
    if own.get(_MADE) == call_number(1)[0]:
        return raw
    if _NOTE in own:
        raise own.pop(_NOTE)
    if own.get(_DONE) is not raw:
        filled = _poisoned(tensor, raw, poison.value)
        place = registry.BY_TYPE[type(raw)].graph_place_raw
        if place(raw) is not None and place(filled) is None:
            return filled  # read under stop_gradient_scope, but other readers need gradients
        own[_DONE] = own["_raw"] = filled
    return own["_raw"]


def _writer(name: str) -> Callable[[Any, Any], None]:
    """Property setter: an op assigns the raw array and the dims in either order, and the last assignment finds both."""

    def set_(tensor: Any, value: Any) -> None:
        own, poison = tensor.__dict__, current()
        own[name] = value
        if poison is not None and own.get("_raw") is not None and "dims" in own:
            number, user, called = call_number(1)
            own[_MADE] = number
            if poison.value != poison.value:
                _look_for_nan(tensor, own["_raw"], user, called, poison)

    return set_


def _poisoned(tensor: Tensor, raw: Any, value: float) -> Any:
    """The raw array with poisoned padding: floats get `value`, indices the last index, other integers the largest real
    one, bools their opposite. So they remain valid inputs for an op.
    """
    backend = registry.get_backend_by_raw_tensor_type(type(raw))
    mask_of = padding_mask(tensor.dims, backend)
    if mask_of is None or tuple(backend.get_shape_tuple_raw(raw)) != tuple(dim.extent for dim in tensor.dims):
        return raw
    dtype = backend.get_dtype_name_raw(raw)
    mask = mask_of(raw)
    if dtype == "bool":
        return backend.where_raw(mask, raw, backend.unary_fn("logical_not")(raw))
    if dtype.startswith(_FLOATS):
        return backend.where_raw(mask, raw, value)
    if not dtype.startswith(("int", "uint")):
        return raw
    if tensor.sparse_dim is not None and tensor.sparse_dim.is_dim_known():
        return backend.where_raw(mask, raw, max(tensor.sparse_dim.extent - 1, 0))
    real = backend.raw_to_numpy(backend.where_raw(mask, raw, 0))
    return backend.where_raw(mask, raw, int(real.max(initial=0)))


def _look_for_nan(tensor: Tensor, raw: Any, user: FrameType, called: FrameType | None, poison: Poison) -> None:
    backend = registry.get_backend_by_raw_tensor_type(type(raw))
    if not backend.get_dtype_name_raw(raw).startswith(_FLOATS):
        return
    if tuple(backend.get_shape_tuple_raw(raw)) != tuple(dim.extent for dim in tensor.dims):
        return  # an op still works on it
    bad = backend.binary_fn("not_equal")(raw, raw)
    mask_of = padding_mask(tensor.dims, backend)
    if mask_of is not None:
        bad = backend.where_raw(mask_of(raw), bad, False)
    count = int(backend.raw_to_numpy(bad).sum())
    if count:
        tensor.__dict__[_NOTE] = _nan_error(tensor, count, user, called)
        poison.noted.append(weakref.ref(tensor))


def _nan_error(tensor: Tensor, count: int, user: FrameType, called: FrameType | None) -> FloatingPointError:
    operands = _operands(called)
    labels = labels_of([dim for _, operand in operands for dim in operand.dims] + list(tensor.dims))
    rows = [(label, dims_text(operand.dims, labels)) for label, operand in operands]
    rows.append(("result", f"{dims_text(tensor.dims, labels)}, NaN in {count} real value{'s' if count > 1 else ''}"))
    op, place, fix = _op_name(called), line_of(user), None
    padded = [label for label, operand in operands if padding_mask(operand.dims, registry.selected())]
    if padded:
        rule = (
            "The operands had none there. Their padding is NaN while rf.debug is on, so either padding got into real frames, or the\n"
            "op makes NaN of what it got. If it is the padding, mask it before:"
        )
        fix = f"{padded[0].split('.')[-1]}.copy_masked(0)"
    elif operands:
        rule = (
            "The operands had none and have no padding: the op makes NaN of what it got (0/0, inf - inf, log of < 0)."
        )
    else:
        rule = "The values come from outside with NaN in real frames."
    return nan_error(f"{op}, called in {place}: the first NaN that is not in padding.", rows, rule, fix)


def _operands(called: FrameType | None) -> list[tuple[str, Tensor]]:
    """The tensors among the arguments of the op that user code called."""
    if called is None:
        return []
    code, values = called.f_code, called.f_locals
    names = code.co_varnames[
        : code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    ]
    found: list[tuple[str, Tensor]] = []
    for name in names:
        value = values.get(name)
        items = [(name, value)]
        if isinstance(value, (list, tuple)):
            items = [(f"{name}[{index}]", item) for index, item in enumerate(value)]
        elif isinstance(value, dict):
            items = [(str(key), item) for key, item in value.items()]
        found += [(label, item) for label, item in items if isinstance(item, Tensor)]
    if code.co_name == "__init__":  # of a Tensor: the new tensor is not an operand
        found = [(label, item) for label, item in found if label != "self"]
    return found


def _op_name(called: FrameType | None) -> str:
    if called is None:
        return "An assignment"
    name = called.f_code.co_name
    if name in ("unary", "binary"):  # elementwise ops are generated from a table
        name = str(called.f_locals["kind"])
    own = called.f_locals.get("self")
    if name.startswith("__") and own is not None:
        return type(own).__name__
    return name


class _Calls(threading.local):
    """The calls of this thread that may still be running, the most recent last."""

    def __init__(self) -> None:
        self.running: list[tuple[FrameType | None, int]] = []


_calls = _Calls()
_numbers = itertools.count(1)


def call_number(depth: int) -> tuple[int, FrameType, FrameType | None]:
    """The number of the call, the frame of the user code, and the frame of what it called.

    Args:
        depth: Number of frames to skip.
    """
    user, called = user_frame(depth + 1)
    for frame, number in reversed(_calls.running):
        if frame is called:
            return number, user, called
    _drop_ended()
    number = next(_numbers)
    _calls.running.append((called, number))
    return number, user, called


def forget_calls() -> None:
    """Release all frames, and the values that ended calls hold."""
    _drop_ended()
    _calls.running.clear()


def _drop_ended() -> None:
    running = _calls.running
    # An ended frame can be cleared, so that only returned values stay alive; a running frame refuses.
    for index in range(len(running) - 1, -1, -1):
        frame = running[index][0]
        if frame is not None and not frame.f_code.co_flags & inspect.CO_GENERATOR:  # clear() would close a generator
            try:
                frame.clear()
            except RuntimeError:
                continue
            del running[index]
