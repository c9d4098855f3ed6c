"""Call: one running call of a torch module in a recording.

call = current()                        # the innermost call in this context; None outside of recorded modules
call.inputs["hidden_states"], call.path, call.outer.module
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn.utils.rnn import PackedSequence

from rfnb.core.dim import Dim, Dims

if TYPE_CHECKING:
    from rfnb.interop.seen.names import Names


class Facts(NamedTuple):
    """The properties that all calls of a module in one recording share.

    Attributes:
        told: The user's names for its inputs, by input.
        is_annotated: Whether its inputs or results have annotations of jaxtyping.
        parameters: The names of the positional parameters of `forward`.
        kind: The name of its class.
        readers, entering: The functions that are called after it, and before it.
        is_own: Whether its code is a user's own.
        is_attention: Whether it is called attention.
    """

    told: dict[str, tuple[str, Any]]
    is_annotated: bool
    parameters: list[str]
    kind: str
    readers: Sequence[Any]
    entering: Sequence[Any]
    is_own: bool
    is_attention: bool


class Call:
    """One running call of a module.

    Attributes:
        module: The called module.
        path: Its path in the model of the recording.
        outer: The enclosing call; None for an outermost one.
        names: The dims of raw tensors.
        facts: What is the same in all calls of the module.
        dims: The dims of its inputs.
        made: For an outermost call, the new data dims in it.
        masks: For an outermost call, the masks already read, by id.
        seen: Notes from functions and inner calls for its reader, by key.
    """

    __slots__ = (
        "module",
        "path",
        "outer",
        "names",
        "facts",
        "seen",
        "dims",
        "made",
        "masks",
        "_args",
        "_kwargs",
        "_inputs",
        "_tensors",
        "_root",
        "_named",
        "_place",
    )

    def __init__(
        self,
        module: torch.nn.Module,
        path: str,
        outer: Call | None,
        names: Names,
        facts: Facts,
        args: Any,
        kwargs: dict[str, Any],
    ):
        self.module, self.path, self.outer, self.names, self.facts = module, path, outer, names, facts
        self.seen: dict[str, Any] = {}
        self.dims: list[Dim] = []
        self._root: Call | None = None if outer is None else outer._root or outer
        if outer is None:
            self.made: list[Dim] = []
            self.masks: dict[int, torch.Tensor] = {}
        self._tensors: list[tuple[str, torch.Tensor]] | None = None
        self._named: tuple[int, list[Dims]] | None = None
        self._place = 0
        self._args, self._kwargs = args, kwargs
        self._inputs: dict[str, Any] | None = None

    @property
    def root(self) -> Call:
        """The outermost enclosing call, or itself."""
        # A reference to itself would keep its tensors, maybe on a GPU, until the garbage collector runs.
        return self if self._root is None else self._root

    @property
    def inputs(self) -> dict[str, Any]:
        """The arguments, by the parameter names of `forward`; those of *args by their index."""
        if self._inputs is None:
            self._inputs = _bound(self.facts.parameters, self._args, self._kwargs)
        return self._inputs

    def tensors(self) -> list[tuple[str, torch.Tensor]]:
        """The tensors among the inputs, including those in tuples, lists and dicts, in order."""
        if self._tensors is None:
            args = self._args
            if len(args) == 1 and not self._kwargs and (raw := args[0]).__class__ is torch.Tensor:
                names = self.facts.parameters
                is_plain = raw.layout is torch.strided and not raw.is_nested
                self._tensors = [(names[0] if names else "0", raw)] if is_plain else []
            else:
                self._tensors = [pair for pair in tensors_of(self.inputs) if not is_parameter(pair[1])]
        return self._tensors

    def begin(self, named: list[Dims], state: int) -> None:
        """Record the dims of each tensor for a state of the names; from now on `dims` is fixed."""
        self._named, self._place = (state, named), 0

    def named(self) -> list[tuple[Dim, ...]]:
        """The dims of each of the tensors."""
        names = self.names
        if self._named is not None and self._named[0] == names._layouts.state:
            return self._named[1]
        return [names.dims_of(raw, self) for _, raw in self.tensors()]

    @property
    def surroundings(self) -> int:
        """A number that identifies the dims of the inputs of this call and of its enclosing calls."""
        if not self._place:
            self._place = self.names.place(0 if self.outer is None else self.outer.surroundings, self.dims)
        return self._place


def argument(args: Sequence[Any], kwargs: Mapping[str, Any], place: int, name: str, default: Any = None) -> Any:
    """An argument of a call, by position or name."""
    return args[place] if len(args) > place else kwargs.get(name, default)


def is_parameter(raw: torch.Tensor) -> bool:
    """Whether a tensor is a parameter. For tensor subclasses this check runs Python code."""
    return raw.__class__ is not torch.Tensor and isinstance(raw, torch.nn.Parameter)


def tensors_of(value: Any, name: str = "") -> list[tuple[str, torch.Tensor]]:
    """The tensors in a value, with dotted names."""
    if isinstance(value, torch.Tensor):
        # Nested tensors do not have a shape, sparse ones no memory that could have other views.
        return [] if value.is_nested or value.layout is not torch.strided else [(name, value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return []
    if isinstance(value, PackedSequence):
        return [(f"{name}.data", value.data)]
    items: Any = ()
    if value.__class__ is dict or isinstance(value, Mapping):  # for other classes this check is expensive
        items = value.items()
    elif isinstance(value, (tuple, list)):
        fields = getattr(value, "_fields", None)
        items = zip(fields, value) if fields else enumerate(value)
    return [pair for key, item in items for pair in tensors_of(item, f"{name}.{key}" if name else str(key))]


def current() -> Call | None:
    """The innermost running call of this context."""
    return _current.get()


def around(call: Call | None) -> Iterator[Call]:
    """A call and its enclosing calls."""
    while call is not None:
        yield call
        call = call.outer


SEARCH = "search"
"""the note of an outermost call that looks at calls of torch, see softmaxes.py"""
_current: ContextVar[Call | None] = ContextVar("rfnb_seen_call", default=None)
_parameters: dict[Any, list[str]] = {}


def _bound(names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by parameter names. Mismatches are left to the module."""
    given = dict(zip(names, args))
    if len(args) > len(names):
        given.update({str(number): value for number, value in enumerate(args[len(names) :])})
    given.update(kwargs)
    return given


def parameters_of(forward: Callable[..., Any]) -> list[str]:
    """The names of the positional parameters after the module."""
    known = _parameters.get(forward)
    if known is None:
        try:
            parameters = list(inspect.signature(forward).parameters.values())[1:]
        except (TypeError, ValueError):
            parameters = []
        kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        known = _parameters[forward] = [each.name for each in parameters if each.kind in kinds]
    return known
