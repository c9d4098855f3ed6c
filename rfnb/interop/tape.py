"""A tape: all torch calls in one pass of a model, with their module, inputs and results, in float64.

    model = copied(model, torch.float64)
    with Tape(model) as tape:
        out = called(model, inputs)
    tape.calls[5].name, tape.calls[5].path, tape.calls[5].reads      # "softmax", "layers.0.attn", the calls whose results it read

Computations that the code itself does in float32 (a norm, a softmax, a table of angles) run in float64 here, so a
difference above 1e-9 between two tapes is not rounding. A tape can be replayed with other results, by an edit for a call.
"""

from __future__ import annotations

import collections
import copy
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from rfnb.core import tree
from rfnb.core.place import Place, place_of_user
from rfnb.core.tree import is_container, items_of, map_nested
from rfnb.trace.probe import Ear, trace_context

_TORCH = os.path.dirname(torch.__file__) + os.sep
_LOW = (torch.float32, torch.float16, torch.bfloat16)
_NAMES = ("float", "half", "bfloat16")
_IN_PLACE = ("__setitem__", "__iadd__", "__imul__", "__isub__", "__itruediv__")
_TO_DOUBLE: dict[str, Callable[..., Any]] = dict.fromkeys(_NAMES, torch.Tensor.double)

Edit = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Of the function and the arguments of a call, the result instead."""
Key = tuple[str, int, str, int]
"""The key of a call: its module, the index of the module's call, the name of the function, and `TapeCall.nth`."""


class TapeCall:
    """One call of torch.

    Attributes:
        index: Its index on the tape.
        path, turn: The module that made it, and the index of the module's call.
        name, nth: The name of the function, and the number of earlier calls with this name in the same call of the module.
        reads: The results of calls among its arguments: the index of the call, and that of the result.
        given: The tensors among its arguments that no call made: inputs, parameters, buffers.
        made: The tensors that it made.
        line: The line of the model's code that made it, if the tape records lines; the same in every turn of a loop.
    """

    __slots__ = ("given", "index", "line", "made", "name", "nth", "path", "reads", "turn")

    def __init__(self, index: int, at: tuple[str, int], name: str, nth: int):
        self.index, (self.path, self.turn), self.name, self.nth = index, at, name, nth
        self.reads: list[tuple[int, int]] = []
        self.given: list[torch.Tensor] = []
        self.made: list[torch.Tensor] = []
        self.line: Place | None = None

    @property
    def key(self) -> Key:
        """The key of the matching call on another tape of the same code."""
        return self.path, self.turn, self.name, self.nth


def copied(model: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    """A copy of a model in another dtype, for use with a tape, without gradients; complex values stay complex, in the same width."""

    def wide(raw: torch.Tensor) -> torch.Tensor:  # Module.to drops the imaginary part
        return (
            raw.to(dtype.to_complex() if raw.is_complex() else dtype)
            if raw.is_complex() or raw.is_floating_point()
            else raw
        )

    memo: dict[int, Any] = {}
    of_rfnb = any(getattr(each, "bridged", None) is not None for each in model.modules())  # has its own dtypes
    for own in () if of_rfnb else itertools.chain(model.parameters(), model.buffers()):
        if type(own) in (torch.Tensor, torch.nn.Parameter) and (raw := wide(own.detach())).dtype != own.dtype:
            memo[id(own)] = torch.nn.Parameter(raw, own.requires_grad) if isinstance(own, torch.nn.Parameter) else raw
    modules = [each for each in model.modules() if _is_plain(type(each))]  # type: ignore[arg-type]
    for each in modules:
        memo[id(each)] = type(each).__new__(type(each))
    # As deepcopy does, but without a call for what is most of a module: numbers, and dicts with nothing in them.
    for each in modules:
        vars(memo[id(each)]).update((name, _copy_of(value, memo)) for name, value in vars(each).items())
    return copy.deepcopy(model, memo)._apply(wide)


_ATOMS = frozenset({bool, int, float, str, type(None), torch.dtype, torch.device})
_COPIED_BY = frozenset(
    "__deepcopy__ __getnewargs__ __getnewargs_ex__ __getstate__ __reduce__ __reduce_ex__ __setstate__ __slots__".split()
)


@functools.lru_cache(1024)
def _is_plain(cls: type[torch.nn.Module]) -> bool:
    """Whether deepcopy of a module is a copy of its attributes: no class of its own says how it is copied."""
    return not any(_COPIED_BY & vars(each).keys() for each in cls.__mro__ if each not in (torch.nn.Module, object))


def _copy_of(value: Any, memo: dict[int, Any]) -> Any:
    if type(value) in _ATOMS:
        return value
    if type(value) in (dict, collections.OrderedDict) and not value and id(value) not in memo:
        memo[id(value)] = type(value)()
    return copy.deepcopy(value, memo)


def raised(inputs: Any, dtype: torch.dtype) -> Any:
    """Inputs with floats in another dtype."""
    return map_nested(
        lambda each: each.to(dtype) if isinstance(each, torch.Tensor) and each.is_floating_point() else each, inputs
    )


def kind_of(model: torch.nn.Module, path: str) -> str:
    """The class of the module at a path."""
    try:
        module = model.get_submodule(path)
    except AttributeError:
        return "Module"
    return type(getattr(module, "bridged", None) or module).__name__


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in nested values."""
    if isinstance(value, torch.Tensor):
        yield value
    elif is_container(value):
        for _, item in items_of(value):
            yield from tensors_in(item)
    elif (own := opened(value)) is not value:
        yield from tensors_in(own)
    elif hasattr(value, "keys") and hasattr(value, "values") and type(value).__name__.endswith("Layer"):
        yield from tensors_in([value.keys, value.values])


def opened(value: Any) -> Any:
    """The fields of a dataclass, a namespace or a cache by name; any other value unchanged."""
    if is_dataclass(value) and not isinstance(value, (type, *tree.containers)):
        return {each.name: getattr(value, each.name, None) for each in fields(value)}
    of_names = isinstance(value, SimpleNamespace) or type(value).__name__.endswith("Cache")
    return dict(vars(value)) if of_names and hasattr(value, "__dict__") else value


@functools.lru_cache(4096)
def _about(func: Any) -> tuple[str, bool, bool]:
    """The name of a torch function, whether it only reads tensor metadata, and whether it works in place."""
    name = getattr(func, "__name__", str(func))
    if name == "__get__":  # x.T, x.mT, x.real create tensors; x.shape and the like are read everywhere
        name = (resolve_name(func) or "").rpartition(".")[0].rpartition(".")[2] or name
        if name in ("shape", "dtype", "device", "is_cuda", "ndim", "requires_grad", "grad_fn", "layout"):
            return name, True, False
    return name, False, name in _IN_PLACE or (name.endswith("_") and not name.endswith("__"))


class Tape(TorchFunctionMode):
    """Records the calls of a copy of a model while its block is open.

    Args:
        model: The modules whose calls are distinguished; a copy, whose `forward`s are temporarily replaced.
        dtype: The dtype to which lower-precision floats created by the code are converted, or None.
        edits: What is called instead of a call, by the key of the call.
        keep: Whether to record calls and keep their results; otherwise only dtype and edits apply.
        lines: Whether to record the line of each call.

    Attributes:
        lowered: Whether the code requested a lower precision.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        dtype: torch.dtype | None = torch.float64,
        edits: Mapping[Key, Edit] | None = None,
        keep: bool = True,
        lines: bool = False,
    ):
        super().__init__()
        self._model, self._dtype, self._edits, self._keep, self._lines = model, dtype, edits or {}, keep, lines
        self._edited = {name for _, _, name, _ in self._edits}
        self.calls: list[TapeCall] = []
        self.lowered = False
        self.modules: dict[tuple[str, int], tuple[Any, Any]] = {}  # inputs and outputs of each module call
        self._ear = Ear(lambda kind, place, values: None, lambda kind: False)
        self._at: list[tuple[str, int]] = [("", 0)]
        self._turns: dict[str, int] = {}
        self._counts: dict[tuple[str, int, str], int] = {}
        self._makers: dict[int, tuple[int, int]] = {}
        self._bridged: set[str] = set()
        self._inner: dict[str, dict[Any, int]] = {}
        self._alive: list[Any] = []
        self._by_storage: dict[int, list[TapeCall]] = {}

    def __enter__(self) -> Tape:
        self._own: list[tuple[Any, Any]] = []  # forwards defined on instances
        for path, module in self._model.named_modules() if self._keep or self._edits else ():
            if getattr(module, "bridged", None) is not None:
                self._bridged.add(path)
            if path:
                self._own.append((module, vars(module).get("forward")))
                module.forward = self._entered(path, module.forward)
        if self._bridged:  # modules of rfnb track their path while there is a listener
            self._ear.open()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._ear.close()
        for module, own in self._own:
            vars(module).pop("forward", None)
            if own is not None:
                module.forward = own

    def _entered(self, path: str, forward: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            turn = self._turns[path] = self._turns.get(path, -1) + 1
            self._at.append((path, turn))
            try:
                made = forward(*args, **kwargs)
            finally:
                self._at.pop()
            if self._keep:
                self.modules[path, turn] = ((args, kwargs), made)
            return made

        return call

    def maker(self, tensor: torch.Tensor) -> tuple[int, int] | None:
        """The index of the call that made a tensor, and of the tensor among its results; None if no call made it."""
        return self._makers.get(id(tensor))

    def value(self, result: tuple[int, int]) -> torch.Tensor:
        """A result of a call, by the index of the call and that of the result."""
        return self.calls[result[0]].made[result[1]]

    def behind(
        self, results: Iterable[tuple[int, int] | None], wanted: Callable[[tuple[int, int]], bool]
    ) -> set[tuple[int, int]]:
        """The wanted ones of these results, and the wanted results from which they are computed."""
        found: set[tuple[int, int]] = set()
        todo = [each for each in results if each is not None and wanted(each)]
        while todo:
            each = todo.pop()
            if each not in found:
                found.add(each)
                todo += filter(wanted, self.calls[each[0]].reads)
        return found

    def _here(self) -> tuple[str, int]:
        """The running module, and the index of its call; in a module of rfnb, its running submodule."""
        path, turn = self._at[-1]
        if path not in self._bridged:
            return path, turn
        place = trace_context.place
        inner = path if place.depth < 2 else ".".join(filter(None, [path, place.module]))
        turns = self._inner.setdefault(inner, {})
        return inner, turns.setdefault(place.key, len(turns))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name, reads_only, in_place = _about(func)
        if reads_only:
            return func(*args, **kwargs)
        if self._dtype is not None:
            func, args, kwargs = self._in_double(func, name, args, kwargs)
        in_place = in_place or kwargs.get("inplace", False)
        if not self._keep and name not in self._edited and not self._bridged:
            made = func(*args, **kwargs)
            return made if in_place or self._dtype is None else self._raised(made)
        at = self._here()
        nth = self._counts.get((*at, name), 0)
        if self._keep:
            call = TapeCall(len(self.calls), at, name, nth)
            call.line = place_of_user(1, but=(_TORCH,)) if self._lines else None
            self._read(call, args, kwargs)
            if in_place and args and isinstance(args[0], torch.Tensor):
                self._save(args[0])
        edit = self._edits.get((*at, name, nth))
        made = func(*args, **kwargs) if edit is None else edit(func, args, kwargs)
        if self._dtype is not None and not in_place:
            made = self._raised(made)
        results = [args[0]] if name == "__setitem__" else list(tensors_in(made))
        if results:
            self._counts[(*at, name)] = nth + 1
            if self._keep:
                self._note(call, results)
        return made

    def _read(self, call: TapeCall, args: Any, kwargs: Any) -> None:
        for tensor in tensors_in([args, kwargs]):
            index = self._makers.get(id(tensor))
            if index is None:
                call.given.append(tensor)
            elif index not in call.reads:
                call.reads.append(index)

    def _note(self, call: TapeCall, results: list[torch.Tensor]) -> None:
        call.index = len(self.calls)
        for number, tensor in enumerate(results):
            self._makers[id(tensor)] = call.index, number
            base = tensor._base
            if base is not None and call.name in _IN_PLACE:
                self._makers[id(base)] = call.index, number
                self._alive.append(base)
        self._alive.append(results)
        call.made = list(results)
        for tensor in results:
            if tensor.layout == torch.strided:
                self._by_storage.setdefault(tensor.untyped_storage().data_ptr(), []).append(call)
        self.calls.append(call)

    def _save(self, target: torch.Tensor) -> None:
        """Copy results stored in this memory before it is overwritten."""
        if target.layout == torch.strided:
            where = target.untyped_storage().data_ptr()
            with torch._C.DisableTorchFunction():
                for call in self._by_storage.pop(where, ()):
                    call.made = [
                        each.clone() if each.untyped_storage().data_ptr() == where else each for each in call.made
                    ]

    def _in_double(self, func: Any, name: str, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
        if name in _TO_DOUBLE:
            self.lowered = True
            return _TO_DOUBLE[name], args[:1], {}
        for each in args:
            if isinstance(each, torch.dtype) and each in _LOW:
                self.lowered = True
                args = tuple(self._dtype if isinstance(own, torch.dtype) and own in _LOW else own for own in args)
                break
        if kwargs and kwargs.get("dtype") in _LOW:
            self.lowered = True
            kwargs = {**kwargs, "dtype": self._dtype}
        return func, args, kwargs

    def _raised(self, made: Any) -> Any:
        if isinstance(made, torch.Tensor):
            lower = (made.dtype in _LOW and made.dtype != self._dtype) or made.dtype == torch.complex64
            self.lowered |= lower
            return made.to(torch.complex128 if made.is_complex() else self._dtype) if lower else made
        if type(made) in (tuple, list) and any(isinstance(each, torch.Tensor) and each.dtype in _LOW for each in made):
            return type(made)(self._raised(each) for each in made)
        return made
