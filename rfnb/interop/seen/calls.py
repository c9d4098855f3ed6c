"""Call: one running call of a torch module during a recording.

call = current()                        # the innermost one of this context; None outside of recorded modules
call.inputs["hidden_states"], call.path, call.outer.module
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence

from rfnb.core.dim import Dim
from rfnb.interop.seen.names import Names


class Call:
    """One running call of a module.

    Attributes:
        module: What is called.
        path: Its path in the model of the recording.
        outer: The call that it is in; None of an outermost one.
        names: The dims of raw tensors.
        dims: Those of its inputs.
        made: Of an outermost call, the dims of the data that were new in it.
        masks: Of an outermost call, the masks that were looked at, by id.
        seen: Notes that functions and calls inside of it leave for its reader, by a word of theirs.
    """

    __slots__ = (
        "module",
        "path",
        "outer",
        "names",
        "seen",
        "dims",
        "made",
        "masks",
        "_args",
        "_kwargs",
        "_inputs",
        "_tensors",
        "_root",
    )

    def __init__(
        self, module: torch.nn.Module, path: str, outer: Call | None, names: Names, args: Any, kwargs: dict[str, Any]
    ):
        self.module, self.path, self.outer, self.names = module, path, outer, names
        self.seen: dict[str, Any] = {}
        self.dims: list[Dim] = []
        self._root: Call | None = None if outer is None else outer.root
        if outer is None:
            self.made: list[Dim] = []
            self.masks: dict[int, torch.Tensor] = {}
        self._tensors: list[tuple[str, torch.Tensor]] | None = None
        self._args, self._kwargs = args, kwargs
        self._inputs: dict[str, Any] | None = None

    @property
    def root(self) -> Call:
        """The outermost call around it, or itself."""
        # Not held by itself: what it has got, on a GPU maybe, would wait for the garbage collector.
        return self if self._root is None else self._root

    @property
    def inputs(self) -> dict[str, Any]:
        """The arguments, by the names of the parameters of `forward`; those of *args by their number."""
        if self._inputs is None:
            self._inputs = _bound(type(self.module).forward, self._args, self._kwargs)
        return self._inputs

    def tensors(self) -> list[tuple[str, torch.Tensor]]:
        """The tensors among the inputs, also those in tuples, lists and dicts, in order."""
        if self._tensors is None:
            self._tensors = [pair for pair in tensors_of(self.inputs) if not is_parameter(pair[1])]
        return self._tensors


def is_parameter(raw: torch.Tensor) -> bool:
    """Whether a tensor is a parameter. Of other kinds than the plain one that is a question that runs Python."""
    return raw.__class__ is not torch.Tensor and isinstance(raw, torch.nn.Parameter)


def tensors_of(value: Any, name: str = "") -> list[tuple[str, torch.Tensor]]:
    """The tensors in a value, with dotted names."""
    if isinstance(value, torch.Tensor):
        # Nested ones do not tell their shape, sparse ones have no memory that could be looked at in another way.
        return [] if value.is_nested or value.layout is not torch.strided else [(name, value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return []
    if isinstance(value, PackedSequence):
        return [(f"{name}.data", value.data)]
    items: Any = ()
    if value.__class__ is dict or isinstance(value, Mapping):  # of a class of others this is no cheap question
        items = value.items()
    elif isinstance(value, (tuple, list)):
        fields = getattr(value, "_fields", None)
        items = zip(fields, value) if fields else enumerate(value)
    return [pair for key, item in items for pair in tensors_of(item, f"{name}.{key}" if name else str(key))]


def current() -> Call | None:
    """The innermost running call of this context."""
    return _current.get()


SEARCH = "search"
"""the note of an outermost call that looks at calls of torch, see softmaxes.py"""
_current: ContextVar[Call | None] = ContextVar("rfnb_seen_call", default=None)
_parameters: dict[Any, list[str]] = {}


def _bound(forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by the names of parameters. What does not fit is the module's to say."""
    names = _names_of(forward)
    given = dict(zip(names, args))
    if len(args) > len(names):
        given.update({str(number): value for number, value in enumerate(args[len(names) :])})
    given.update(kwargs)
    return given


def _names_of(forward: Callable[..., Any]) -> list[str]:
    """The names of the positional parameters behind the module."""
    known = _parameters.get(forward)
    if known is None:
        try:
            parameters = list(inspect.signature(forward).parameters.values())[1:]
        except (TypeError, ValueError):
            parameters = []
        kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        known = _parameters[forward] = [each.name for each in parameters if each.kind in kinds]
    return known
