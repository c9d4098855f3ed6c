"""Call: one running call of a torch module, while somebody records.

call = current()                        # the innermost one of this context; None outside of recorded modules
call.inputs["hidden_states"], call.path, call.outer.module
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import torch

from rfnb.interop.seen.names import Names


class Call:
    """One running call of a module.

    Attributes:
        module: What is called.
        path: Its path in the model of the recording.
        outer: The call that it is in; None of an outermost one.
        names: The dims of raw tensors.
        seen: Notes that functions and calls inside of it leave for its reader, by a word of theirs.
    """

    __slots__ = ("module", "path", "outer", "names", "seen", "_args", "_kwargs", "_inputs")

    def __init__(
        self, module: torch.nn.Module, path: str, outer: Call | None, names: Names, args: Any, kwargs: dict[str, Any]
    ):
        self.module, self.path, self.outer, self.names = module, path, outer, names
        self.seen: dict[str, Any] = {}
        self._args, self._kwargs = args, kwargs
        self._inputs: dict[str, Any] | None = None

    @property
    def inputs(self) -> dict[str, Any]:
        """The arguments, by the names of the parameters of `forward`; those of *args by their number."""
        if self._inputs is None:
            self._inputs = _bound(type(self.module).forward, self._args, self._kwargs)
        return self._inputs

    def tensors(self) -> list[tuple[str, torch.Tensor]]:
        """The tensors among the inputs, also those in tuples, lists and dicts, in order."""
        return tensors_of(self.inputs)


def tensors_of(value: Any, name: str = "") -> list[tuple[str, torch.Tensor]]:
    """The tensors in a value, with dotted names."""
    if isinstance(value, torch.Tensor):
        return [(name, value)]
    items: Any = ()
    if isinstance(value, dict) or hasattr(value, "items"):
        items = value.items()
    elif isinstance(value, (tuple, list)):
        fields = getattr(value, "_fields", None)
        items = zip(fields, value) if fields else enumerate(value)
    return [pair for key, item in items for pair in tensors_of(item, f"{name}.{key}" if name else str(key))]


def current() -> Call | None:
    """The innermost running call of this context."""
    return _current.get()


_current: ContextVar[Call | None] = ContextVar("rfnb_seen_call", default=None)
_signatures: dict[Callable[..., Any], inspect.Signature | None] = {}


def _bound(forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    if forward not in _signatures:
        try:
            _signatures[forward] = inspect.signature(forward)
        except (TypeError, ValueError):
            _signatures[forward] = None
    signature = _signatures[forward]
    given: dict[str, Any] = {}
    try:
        bound = signature.bind(None, *args, **kwargs).arguments if signature is not None else None
    except TypeError:  # the module will say so itself
        bound = None
    if signature is None or bound is None:
        return {**{str(index): arg for index, arg in enumerate(args)}, **kwargs}
    for index, (name, value) in enumerate(bound.items()):
        if index == 0:
            continue  # the module
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            given.update({str(number): each for number, each in enumerate(value)})
        elif kind is inspect.Parameter.VAR_KEYWORD:
            given.update(value)
        else:
            given[name] = value
    return given
