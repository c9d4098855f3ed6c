"""Readers: functions that send events for the calls of a module, by its type.

    @reads(torch.nn.LSTM)
    def lstm(call: Call, result: Any) -> None:
        probe("states", ...)

    @reads("transformers.models.t5.modeling_t5.T5Attention")    # by name: nothing is imported

A reader is called after the call, with its result, while the current path is still inside the module. The readers of
all base classes are called, most derived first, until one returns False.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from rfnb.core.errors import message
from rfnb.core.place import warn_user
from rfnb.interop.seen.calls import Call
from rfnb.trace.probe import offers_here, probe, trace_context

Reader = Callable[..., Any]
_readers: dict[tuple[str, bool], list[Reader]] = {}  # by the name of a class, and whether they run before its calls


def reads(*kinds: type | str, before: bool = False) -> Callable[[Reader], Reader]:
    """Register a function that sends events for calls of modules of these classes and their subclasses.

    Args:
        before: Whether it runs before the call, to name the axes of its inputs for everything inside.
    """

    def register(reader: Reader) -> Reader:
        for kind in kinds:
            _readers.setdefault((kind if isinstance(kind, str) else _name(kind), before), []).append(reader)
        readers_of.cache_clear()
        return reader

    return register


@functools.cache
def readers_of(kind: Any, before: bool = False) -> list[Reader]:
    """The readers of a class of modules that run after its calls, or before them."""
    return [reader for base in kind.__mro__ for reader in _readers.get((_name(base), before), ())]


def tell(call: Call, readers: Sequence[Reader], *result: Any) -> None:
    """Run the readers of a call. An error here becomes a warning, and never ends the run."""
    for reader in readers:
        try:
            if reader(call, *result) is False:
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
