"""Observes calls of torch functions, including those that draw random numbers: for a recorded loop, which makes a program of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch

from rfnb.backends.raw_calls import ASK, CALL, CHANGE, MADE, RawCall
from rfnb.backends.torch_modes import OwnMode, autocast_kinds, modes

_ASKING = {
    "shape", "dtype", "device", "layout", "ndim", "requires_grad", "is_cpu", "is_cuda", "is_sparse", "is_quantized", "is_nested",
    "dim", "size", "numel", "nelement", "ndimension", "element_size", "__len__", "is_floating_point", "is_complex", "result_type",
    "can_cast", "_set_grad_enabled", "nbytes", "itemsize",
}  # fmt: skip
_IN_PLACE = {f"__i{name}__" for name in "add sub mul truediv floordiv mod pow and or xor lshift rshift".split()}
_IN_PLACE |= {"__setitem__"}
# What also changes how an array behaves, or what gives it a past that a call does not have.
_NEVER = {"requires_grad_", "detach_", "resize_", "resize_as_", "set_", "share_memory_", "retain_grad", "register_hook", "grad",
          "_make_subclass", "as_subclass", "_make_wrapper_subclass", "__deepcopy__"}  # fmt: skip

_SHAPED_BY_VALUES = "unique unique_consecutive argwhere repeat_interleave combinations masked_select nonzero".split()
_NORMS = "batch_norm", "instance_norm", "native_batch_norm"
_BY_ARGUMENTS = {"__getitem__", "where", *_NORMS}  # those whose kind says no name alone


class _NotedCall(RawCall):
    __slots__ = ("_known", "modes_differ")

    def __init__(self, fn: Any, args: Any, kwargs: Any, out: Any, modes_differ: bool):
        super().__init__(fn, args, kwargs, out)
        self.modes_differ = modes_differ
        self._known: str | None = None

    @property
    def kind(self) -> str:
        if self._known is None:
            # A function of torch with a derivative of its own is not seen, but what it calls is, without gradients.
            own = self.modes_differ
            self._known = "runs under a mode of its own" if own else _kind(self.fn, self.args, self.kwargs, self.out)
        return self._known


class _MadeTensors(RawCall):
    __slots__ = ()

    @property
    def kind(self) -> str:
        return MADE


class _Trace(OwnMode):
    """See `Backend.trace_calls`. A mode belongs to its thread."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[RawCall] = []
        self._modes: Any = None

    def __enter__(self) -> Any:
        self._modes = _modes()
        super().__enter__()
        return self.calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        self.calls.append(_NotedCall(func, args, kwargs, out, _modes() != self._modes))
        return out


trace_calls = _Trace


class _TraceAndDraws(_Trace):
    """Both at once, since each mode of torch adds a cost to every call."""

    def __init__(self, draws: Callable[[str], None]):
        super().__init__()
        self._draws = draws

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tell_draw(self._draws, func, kwargs)
        out = func(*args, **kwargs)
        self.calls.append(_NotedCall(func, args, kwargs, out, _modes() != self._modes))
        return out


def watch_draws(draws: Callable[[str], None], *, trace: bool = False) -> OwnMode:
    """See `Backend.watch_draws`."""
    return _TraceAndDraws(draws) if trace else WatchDraws(draws)


def note_made(raw: Any) -> Any:
    """`raw`, made from host values, which observers cannot see otherwise."""
    for mode in modes():
        if isinstance(mode, _Trace):
            mode.calls.append(_MadeTensors(None, (), {}, raw))
    return raw


def signature(raw: Any) -> Any:
    """See `Backend.signature_raw`."""
    return raw.dtype, raw.requires_grad, raw.device


def _modes() -> tuple[Any, ...]:
    return torch.is_grad_enabled(), *map(torch.is_autocast_enabled, autocast_kinds())


def _kind(fn: Any, args: Any, kwargs: Any, out: Any) -> str:
    name, never, writes, dynamic = _nature_of(fn)
    if never:
        return f"calls {name}"
    if out.__class__ is torch.Tensor and not (writes or dynamic or "out" in kwargs or name in _BY_ARGUMENTS):
        return CALL
    leaves = [out] if isinstance(out, torch.Tensor) else list(out) if isinstance(out, (tuple, list)) else [out]
    arrays = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if not arrays and name not in _IN_PLACE:
        return ASK if name in _ASKING else f"reads values ({name})"
    if any(leaf is not None and not isinstance(leaf, torch.Tensor) for leaf in leaves):
        return f"gives plain values ({name})"
    picks = (name == "__getitem__" and _picks_by_bool(args[1])) or (name == "where" and len(args) == 1)
    if picks or dynamic:
        return f"gives a shape that depends on values ({name})"
    in_place = writes or kwargs.get("out") is not None
    if kwargs.get("out") is not None and args and args[0] is not kwargs["out"]:
        return f"writes into an argument ({name})"
    if name in _NORMS and (kwargs.get("training", True)):
        return f"writes into an argument ({name})"
    return CHANGE if in_place else CALL


@lru_cache(maxsize=1024)
def _nature_of(fn: Any) -> tuple[str, bool, bool, bool]:
    """The name of a function; whether it must never be repeated, whether it writes to its first argument, and whether the shape of its
    result depends on values.
    """
    name = name_of(fn)
    never = name in _NEVER or (getattr(fn, "__module__", None) or "").startswith("torch.autograd")
    writes = name in _IN_PLACE or (name.endswith("_") and not name.endswith("__"))
    return name, never, writes, _shape_depends_on_values(name)


def name_of(fn: Any) -> str:
    """`add`; for the getter of a property the name of the property."""
    name = getattr(fn, "__name__", "call")
    return getattr(fn.__self__, "__name__", name) if name in ("__get__", "__set__") else name


def _picks_by_bool(index: Any) -> bool:
    items = index if isinstance(index, tuple) else (index,)
    return any(
        isinstance(item, (list, torch.Tensor)) and getattr(item, "dtype", torch.bool) in (torch.bool, torch.uint8)
        for item in items
    )


def _shape_depends_on_values(name: str) -> bool:
    """True if torch marks a function of this name as such; indexing is handled separately."""
    if name in ("__getitem__", "__setitem__", "where", "index_put", "index_put_"):
        return False
    packet = getattr(torch.ops.aten, name, None) if not name.startswith("__") else None
    if packet is None or not hasattr(packet, "overloads"):
        return name in _SHAPED_BY_VALUES
    tags = {tag for overload in packet.overloads() for tag in getattr(packet, overload).tags}
    return torch.Tag.dynamic_output_shape in tags or torch.Tag.data_dependent_output in tags


_DRAW = re.compile(
    "_?(native_|functional_)?(feature_)?(alpha_)?dropout|rand|normal|bernoulli|multinomial|poisson$|binomial|rrelu|uniform_|random_"
    "|gumbel|exponential_|geometric_|cauchy_|log_normal_|fractional_max_pool"
)
_DROPPED = "dropout_p"  # of attention


class WatchDraws(OwnMode):
    """A mode that reports draws; it belongs to its thread."""

    def __init__(self, draws: Callable[[str], None]):
        super().__init__()
        self._draws = draws

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tell_draw(self._draws, func, kwargs)
        return func(*args, **kwargs)


def tell_draw(draws: Callable[[str], None], func: Any, kwargs: Any) -> None:
    """Report a call that is about to draw."""
    name = getattr(func, "__name__", "")
    if (_may_draw(name) and kwargs.get("training", True)) or kwargs.get(_DROPPED):
        draws(f"torch.{name}")


@lru_cache(maxsize=4096)
def _may_draw(name: str) -> bool:
    return _DRAW.match(name) is not None
