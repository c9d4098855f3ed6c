"""Readers: functions that send events for the calls of a module, by its type.

    @reads(torch.nn.LSTM)
    def lstm(call: Call, result: Any) -> None:
        probe("states", ...)

    @reads("transformers.models.t5.modeling_t5.T5Attention")    # by name: nothing is imported

A reader is called after the call, with its result, while the current path is still inside the module. The readers of
all base classes are called, most derived first, until one returns False.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfnb.core.errors import message
from rfnb.core.place import warn_user
from rfnb.interop.seen.calls import Call
from rfnb.trace.probe import offers_here, probe, trace_context

Reader = Callable[[Call, Any], Any]
_readers: dict[str, list[Reader]] = {}
_of_types: dict[type, list[Reader]] = {}
_entering: dict[str, list[Callable[[Call], None]]] = {}
_entering_of_types: dict[type, list[Callable[[Call], None]]] = {}


def reads(*kinds: type | str) -> Callable[[Reader], Reader]:
    """Register a function that sends events for calls of modules of these classes and their subclasses."""

    def register(reader: Reader) -> Reader:
        for kind in kinds:
            _readers.setdefault(kind if isinstance(kind, str) else _name(kind), []).append(reader)
        _of_types.clear()
        return reader

    return register


def enters(*kinds: type | str) -> Callable[[Callable[[Call], None]], Callable[[Call], None]]:
    """Register a function that runs before calls of modules of these classes, to name the axes of their inputs for everything inside."""

    def register(entering: Callable[[Call], None]) -> Callable[[Call], None]:
        for kind in kinds:
            _entering.setdefault(kind if isinstance(kind, str) else _name(kind), []).append(entering)
        _entering_of_types.clear()
        return entering

    return register


def announce(call: Call) -> None:
    """Run the functions registered for the start of a call."""
    for entering in call.facts.entering:
        try:
            entering(call)
        except Exception as error:
            unseen(call, error)


def entering_of(kind: type) -> list[Callable[[Call], None]]:
    """The functions that run before calls of a class of modules."""
    if kind not in _entering_of_types:
        _entering_of_types[kind] = [each for base in kind.__mro__ for each in _entering.get(_name(base), ())]
    return _entering_of_types[kind]


def readers_of(kind: type) -> list[Reader]:
    """The readers of a class of modules."""
    if kind not in _of_types:
        _of_types[kind] = [reader for base in kind.__mro__ for reader in _readers.get(_name(base), ())]
    return _of_types[kind]


def tell(call: Call, result: Any) -> None:
    """Send the events of a call. An error here becomes a warning, and never ends the run."""
    for reader in call.facts.readers:
        try:
            if reader(call, result) is False:
                return
        except Exception as error:
            unseen(call, error)


def unseen(call: Call, error: Exception) -> None:
    """Warn that a part of a call could not be recorded: once per class and kind of error."""
    say_unseen(call, (type(call.module).__name__,), f"{type(error).__name__}: {error}", type(error).__name__)


def say_unseen(call: Call, kinds: tuple[str, ...], reason: str, key: str = "") -> None:
    """Report a part of a call that could not be recorded, in a warning and as an event for the views: once per class.

    Args:
        kinds: The class of the module, and those of enclosing modules that the sentence also covers.
        key: At most one sentence is given per key.
    """
    said, key = call.names.said, f"{kinds[0]}: {key}"
    offers_here.count += 1  # so that nobody else reports it
    if key in said:
        return
    said.add(key)
    module = f"{call.path or 'the model'}, a {' in a '.join(kinds)}"
    with trace_context.module(call.path):
        probe("unseen", module=module, reason=reason)
    warn_user(message(
            "record: a call of this module could not be recorded; the run continues.",
            {"module": module, "reason": reason},
            "The code of the module can send the event itself:",
            'rf.probe("attention", weights=rf.convert_to_tensor(weights, dims=[batch, target, source]), axis=source)',
        ))  # fmt: skip


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
