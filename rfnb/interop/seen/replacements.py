"""Functions replaced while a recording is open, and their originals.

Methods of an instance are replaced in its class, by a function that knows the affected instances (`Method`): code that
copies, saves or sends an instance finds nothing in it. Only attributes of the instance itself are replaced there.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import torch

from rfnb.core.block import Setting, Undone, all_of

Make = Callable[[Any], Any]


class InPlace:
    """Calls a function in place of `owner.name`.

    Args:
        own: The instance's own attribute; None if it has the method of its class.

    Attributes:
        over: Whether it is no longer needed, although a wrapper around it is still in place.
    """

    over = False

    def __init__(self, owner: Any, name: str, own: Any, function: Callable[..., Any]):
        functools.update_wrapper(self, function)  # keeps the signature
        self._owner, self._name, self._own, self._function = owner, name, own, function

    @property
    def own(self) -> Any:
        """The instance's own function, skipping wrappers that are over."""
        return self._own.own if isinstance(self._own, InPlace) and self._own.over else self._own

    def __getattr__(self, name: str) -> Any:
        """Attributes of the function that compilers read, such as `__code__`."""
        if name == "_function":
            raise AttributeError(name)
        return getattr(self._function, name)

    def __reduce__(self) -> Any:
        return (getattr, (self._owner, self._name)) if self._own is None else (_itself, (self._own,))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


class _InPlaceHere(InPlace):
    """Calls another function inside a with-block of `calling`, and the own one elsewhere: other threads run the module unmodified.

    Args:
        who: The key that enables it.
        instead: Called with the own function and its arguments.
    """

    def __init__(self, owner: Any, function: Callable[..., Any], who: Any, instead: Callable[[Any, Any, Any], Any]):
        super().__init__(owner, "forward", vars(owner).get("forward"), function)
        self._who, self._instead = who, instead

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _asks.get() is self._who:
            return self._instead(self._function, args, kwargs)
        return self._function(*args, **kwargs)


def calling(instead: Sequence[tuple[Any, Callable[[Any, Any, Any], Any]]]) -> AbstractContextManager[None]:
    """A with-block in which these functions run instead of the `forward`s of modules.

    Args:
        instead: Each module, and what is called with its own function and the arguments.
    """
    who = object()
    places = [(module, "forward", partial(_InPlaceHere, module, who=who, instead=call)) for module, call in instead]
    return all_of([Setting(_asks, partial(_asks.set, who)), Replaced().during(lambda: places)])


_asks: ContextVar[Any] = ContextVar("rfnb_seen_asks", default=None)


class Method:
    """A method of a class that is replaced for some instances. Each instance has layers: functions that wrap the one below.

    Args:
        original: The method for all other instances.
        was: The class's own attribute.
    """

    def __init__(self, original: Any, was: Any):
        functools.update_wrapper(self, original)
        self.original, self.was = original, was
        self._layers: dict[int, dict[Hashable, tuple[Make, bool]]] = {}  # by id of the instance, and by key
        self._made: dict[int, Any] = {}

    def put(self, instance: Any, key: Hashable, make: Make, *, weak: bool = False) -> None:
        """Add a layer for an instance, unless it has one with this key.

        Args:
            weak: Create the layer in every call, so that it does not keep the instance alive.
        """
        layers = self._layers.get(id(instance), {})
        if key not in layers:
            self._made.pop(id(instance), None)
            self._layers[id(instance)] = {**layers, key: (make, weak)}

    def take(self, instance: int, key: Hashable = None) -> None:
        """Remove a layer, if it exists.

        Args:
            instance: The id of the instance.
            key: None for all layers.
        """
        layers = {
            each: layer for each, layer in self._layers.pop(instance, {}).items() if key is not None and each != key
        }
        self._made.pop(instance, None)
        if layers:
            self._layers[instance] = layers

    def has(self, instance: int) -> bool:
        """Whether the instance with this id has a layer."""
        return instance in self._layers

    @property
    def is_over(self) -> bool:
        """Whether no instance needs it."""
        return not self._layers

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self.original
        made = self._made.get(id(instance))
        if made is None:
            layers = self._layers.get(id(instance))
            if layers is None:
                return self.original.__get__(instance, owner)
            made = self.original.__get__(instance, owner)
            for make, _ in layers.values():
                made = make(made)
            if not any(weak for _, weak in layers.values()):
                self._made[id(instance)] = made
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.original(*args, **kwargs)

    def __reduce__(self) -> Any:  # for a class that is pickled by value
        return _itself, (self.original,)

    def __repr__(self) -> str:
        return repr(self.original)


def _itself(own: Any) -> Any:
    return own


@functools.cache
def not_compiled() -> None:
    """Exclude the lookup of such methods from compilation: compilers look up the forward of a module while compiling it."""
    Method.__get__ = sys.modules["torch._dynamo"].disable(Method.__get__)  # type: ignore[method-assign]


Place = tuple[
    Any, str, Callable[[Any], Any]
]  # a class, file or object; a name in it; makes the new function from the old one
_nothing: Any = object()
# The id of the backward pass in which this runs, or -1: a checkpoint repeats computations there that were already recorded.
backward_task: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)


class _Put(NamedTuple):
    owner: Any
    name: str
    original: Any
    was: Any  # the original is inherited
    new: Any
    users: set[Any]  # the recordings


class Methods:
    """All methods of classes that are replaced for some instances."""

    def __init__(self) -> None:
        self._put: dict[tuple[type, str], Method] = {}
        self._known: dict[tuple[type, str, int], weakref.ref[Any]] = {}

    def put(self, instance: Any, name: str, key: Any, make: Callable[[Any], Any], *, weak: bool = False) -> None:
        """Add a layer to the method of an instance (`Method.put`)."""
        with _lock:
            kind, number = type(instance), id(instance)
            method = self._put.get((kind, name))
            if method is None:
                method = self._put[kind, name] = Method(getattr(kind, name), vars(kind).get(name, _nothing))
            self._known[kind, name, number] = weakref.ref(instance, lambda _: self._gone(kind, name, number))
            method.put(instance, key, make, weak=weak)
            if vars(kind).get(name) is not method:
                setattr(kind, name, method)

    def take(self, instance: Any, name: str, key: Any) -> None:
        """Remove it; a second call does nothing."""
        self._take(type(instance), name, id(instance), key)

    def _gone(self, kind: type, name: str, number: int) -> None:
        if methods is not None:  # otherwise the interpreter is exiting
            self._take(kind, name, number, None)

    def _take(self, kind: type, name: str, number: int, key: Any) -> None:
        with _lock:
            method = self._put.get((kind, name))
            if method is None:
                return
            method.take(number, key)
            if not method.has(number):
                self._known.pop((kind, name, number), None)
            if method.is_over:
                was = method.was
                if vars(kind).get(name) is method:
                    _put_at(kind, name, was)
                self._put.pop((kind, name), None)


class Replaced:
    """The functions replaced by recordings of one kind. Concurrent recordings share them, and the last one restores the
    originals, unless other code has replaced them in the meantime.
    """

    def __init__(self) -> None:
        self._put: dict[tuple[int, str], _Put] = {}  # by owner and name

    def original(self, owner: Any, name: str) -> Any:
        """The original function, or the current one if it is not replaced."""
        put = self._put.get((id(owner), name))
        return getattr(owner, name) if put is None else put.original

    def during(self, places: Callable[[], Iterable[Place]]) -> Undone:
        """Replace the functions at these places, for a with-block.

        Args:
            places: Called if nothing is replaced yet.
        """
        return _During(self, places)

    def replace(self, user: Any, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace a function, or register another user of the replacement."""
        with _lock:
            key = id(owner), name
            put = self._put.get(key)
            if put is None:
                original, was = getattr(owner, name), vars(owner).get(name, _nothing)
                new = None if is_method(owner, name) else make(original)
                if new is not None and not isinstance(owner, type | ModuleType) and not isinstance(new, InPlace):
                    new = InPlace(owner, name, None if was is _nothing else was, new)
                put = self._put[key] = _Put(owner, name, original, was, new, {user})  # before it takes effect
            put.users.add(user)
            if put.new is None:
                methods.put(owner, name, self, make)
            elif put.users == {user}:
                _put_at(owner, name, put.new)

    def put_back(self, user: Any) -> None:
        """Restore the functions that only this user needs; a second call does nothing."""
        with _lock:
            for key, put in reversed(list(self._put.items())):
                if user not in put.users:
                    continue
                if len(put.users) == 1:
                    self._restore(put)
                    self._put.pop(key, None)
                put.users.discard(user)

    def _restore(self, put: _Put) -> None:
        if put.new is None:
            methods.take(put.owner, put.name, self)
        elif vars(put.owner).get(put.name) is put.new:
            was = put.was.own if isinstance(put.was, InPlace) and put.was.over else put.was
            _put_at(put.owner, put.name, _nothing if was is None else was)
        elif isinstance(put.new, InPlace):
            put.new.over = True


class _During(Undone):
    """The block of `Replaced.during`."""

    def __init__(self, replaced: Replaced, places: Callable[[], Iterable[Place]]):
        self._replaced, self._places = replaced, places

    def begin(self) -> None:
        with _lock:
            for place in list(self._places()):
                self._replaced.replace(self, *place)

    def undo(self) -> None:
        self._replaced.put_back(self)


_lock = threading.RLock()
methods = Methods()


def is_method(owner: Any, name: str) -> bool:
    """Whether an instance has this name as a plain function of its class."""
    if isinstance(owner, type | ModuleType) or name in vars(owner):
        return False
    for kind in type(owner).__mro__:
        if name in vars(kind):
            return isinstance(vars(kind)[name], (FunctionType, Method))
    return False


def _put_at(owner: Any, name: str, value: Any) -> None:
    if isinstance(owner, type | ModuleType):
        delattr(owner, name) if value is _nothing else setattr(owner, name, value)
    elif value is _nothing:
        del vars(owner)[name]
    else:
        vars(owner)[name] = value
