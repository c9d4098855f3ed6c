"""Observe torch functions wherever a recorded model calls them.

    @sees(torch.nn.functional, "scaled_dot_product_attention")
    def attention(call: Call, args, kwargs, result) -> None:
        probe_later("attention", ...)

While a torch model is recorded, the function at this place is replaced by one that calls the original and then its
handlers; also where a module of the model imported it by name. In a context without a recording only the original is
called.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch
from torch._C import _get_function_stack_at, _len_torch_function_stack
from torch.overrides import TorchFunctionMode, _pop_mode, _push_mode

from rfnb.core.block import Setting, Undone, all_of, block
from rfnb.interop.seen.calls import Call, _current, current
from rfnb.interop.seen.readers import unseen
from rfnb.interop.seen.replacements import Place, Replaced
from rfnb.interop.seen.snapshot import attached
from rfnb.trace.editing import editing
from rfnb.trace.probe import listening

Handler = Callable[[Call, tuple[Any, ...], dict[str, Any], Any], None]
Before = Callable[[Call, tuple[Any, ...], dict[str, Any]], None]
Change = Callable[[Call, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
_handlers: dict[tuple[Any, str], list[tuple[Handler, Before | None]]] = {}
_changes: dict[tuple[Any, str], Change] = {}
_replaced = Replaced()


def sees(owner: Any, name: str, *, before: Before | None = None) -> Callable[[Handler], Handler]:
    """Register a handler for calls of `owner.name` inside recorded modules.

    Args:
        before: Called with the arguments before the original, to set up state for handlers of functions inside it.
    """

    def register(handler: Handler) -> Handler:
        _handlers.setdefault((owner, name), []).append((handler, before))
        return handler

    return register


def changes(owner: Any, name: str) -> Callable[[Change], Change]:
    """Register a function that wraps calls of the observed `owner.name` while something is edited: it may change arguments or result."""

    def register(change: Change) -> Change:
        _changes[owner, name] = change
        return change

    return register


def functions_seen(modules: Iterable[torch.nn.Module]) -> Undone:
    """Observe the functions in a with-block, including names that the code of these modules imported."""
    return _replaced.during(lambda: _places(modules))


def _places(modules: Iterable[torch.nn.Module]) -> Iterator[Place]:
    replacements: dict[int, Any] = {}  # by id of the object to replace
    for (owner, name), handlers in _handlers.items():
        original, here = _replaced.original(owner, name), getattr(owner, name)
        new = _seeing(original, handlers, _changes.get((owner, name))) if here is original else here
        replacements[id(original)] = replacements[id(new)] = new
        yield owner, name, partial(_as_it_is, new)
    for file in files_of(modules):
        if replacements.keys().isdisjoint(map(id, list(vars(file).values()))):
            continue
        for name, value in list(vars(file).items()):
            if id(value) in replacements and (file, name) not in _handlers:
                yield file, name, partial(_as_it_is, replacements[id(value)])


def files_of(modules: Iterable[torch.nn.Module]) -> list[Any]:
    """The files with the classes of these modules, and their base classes."""
    kinds = {type(module) for module in modules}
    return [
        sys.modules[name] for name in {cls.__module__ for kind in kinds for cls in kind.__mro__} & sys.modules.keys()
    ]


def _as_it_is(new: Any, original: Any) -> Any:
    return new


Places = Callable[[list[torch.nn.Module]], Iterable[Place]]
_others: list[tuple[Replaced, Places]] = []
_unheard: ContextVar[bool] = ContextVar("rfnb_seen_unheard", default=False)
_in_model: ContextVar[bool] = ContextVar("rfnb_seen_in_model", default=True)
_Running = tuple[Any, Any]  # a function, its first argument
_running: ContextVar[_Running | None] = ContextVar("rfnb_seen_running", default=None)


def replaces(places: Places) -> Places:
    """Register the places of functions that are replaced while a recording of some modules is open: those without a fixed place."""
    _others.append((Replaced(), places))
    return places


@block
def others_seen(modules: list[torch.nn.Module]) -> Iterator[None]:
    """Replace the functions at the places registered with `replaces`, for a with-block."""
    with all_of([replaced.during(partial(places, modules)) for replaced, places in _others]):
        yield


def looking() -> Setting:
    """A with-block that is not part of the model: functions in it are neither observed nor edited."""
    return Setting(_in_model, partial(_in_model.set, False))


class Looks(TorchFunctionMode):
    """A mode that observes torch calls for a recording. Our own code runs without it: every access to a shape would be such a call."""


def as_before() -> list[Setting]:
    """The with-blocks that restore these settings on exit, wherever an interrupt came."""
    return [Setting(variable, lambda: None) for variable in (_current, _in_model, _unheard, _running)]


def pause() -> Any:
    """Disable the observing mode; returns it for `resume`, or None."""
    depth = _len_torch_function_stack()
    return _pop_mode() if depth and isinstance(_get_function_stack_at(depth - 1), Looks) else None


def resume(mode: Any) -> None:
    """Enable it again."""
    if mode is not None:
        _push_mode(mode)


def is_unheard() -> bool:
    """Whether no function is observed here."""
    return _unheard.get() or not _in_model.get()


def _seeing(function: Any, handlers: list[tuple[Handler, Before | None]], change: Change | None) -> Any:
    @functools.wraps(function)
    def seen(*args: Any, **kwargs: Any) -> Any:
        call, original = current(), function
        if call is None or not listening() or not _in_model.get():
            return original(*args, **kwargs)
        if change is not None and (editing.get() or attached.get()):
            original = lambda *args, **kwargs: change(call, function, args, kwargs)  # noqa: E731
        if _unheard.get():
            return original(*args, **kwargs)
        # If torch dispatches calls (a default device, a Tensor subclass), it calls the function at this place again.
        first = args[0] if args else next(iter(kwargs.values()), None)
        running = _running.get()
        if running is not None and running[0] is function and running[1] is first:
            return function(*args, **kwargs)
        for _, before in handlers:
            if before is not None:
                apart(call, before, call, args, kwargs)
        try:
            _running.set((function, first))
            result = original(*args, **kwargs)
        finally:
            _running.set(running)
        for handler, _ in handlers:
            apart(call, handler, call, args, kwargs, result)
        return result

    return seen


def apart(call: Call, handler: Any, *args: Any) -> None:
    """Run code that is not part of the model: nothing in it is observed, and an error becomes a warning."""
    mode, before = pause(), _in_model.get()
    try:
        _in_model.set(False)  # a handler that computes weights calls such functions itself
        handler(*args)
    except Exception as error:
        unseen(call, error)
    finally:
        _in_model.set(before)
        resume(mode)
