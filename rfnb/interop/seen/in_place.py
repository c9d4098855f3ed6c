"""A function in the place of a method of one instance; a copy of the instance, and a file, have the method."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

Make = Callable[[Any], Any]


class InPlace:
    """Calls a function instead of `owner.name`.

    Args:
        own: What the instance has there itself; None: it has the method of its class.

    Attributes:
        over: Whether nobody needs it any more, although something that was put around it is still there.
    """

    over = False

    def __init__(self, owner: Any, name: str, own: Any, function: Callable[..., Any]):
        functools.update_wrapper(self, function)  # who asks for its signature gets that
        self._owner, self._name, self._own, self._function = owner, name, own, function

    @property
    def own(self) -> Any:
        """The own function of the instance, without what is over."""
        return self._own.own if isinstance(self._own, InPlace) and self._own.over else self._own

    def __getattr__(self, name: str) -> Any:
        """The attributes of the function, which compilers ask for: `__code__` and others."""
        if name == "_function":
            raise AttributeError(name)
        return getattr(self._function, name)

    def __reduce__(self) -> Any:
        return (getattr, (self._owner, self._name)) if self._own is None else (_itself, (self._own,))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


class Method:
    """A method of a class that is another one for some of the instances. Each has layers: functions made of what is below.

    Args:
        original: The method, which all other instances have.
        was: What the class has there itself.
    """

    def __init__(self, original: Any, was: Any):
        functools.update_wrapper(self, original)
        self.original, self.was = original, was
        self._layers: dict[int, dict[Hashable, tuple[Make, bool]]] = {}  # by id of the instance, and by who needs them
        self._made: dict[int, Any] = {}

    def put(self, instance: Any, key: Hashable, make: Make, *, weak: bool = False) -> None:
        """Put a layer on an instance; nothing if there is one of this key.

        Args:
            weak: It is made in every call, so that the instance is not kept alive by what is made for it.
        """
        layers = self._layers.get(id(instance), {})
        if key not in layers:
            self._made.pop(id(instance), None)
            self._layers[id(instance)] = {**layers, key: (make, weak)}

    def take(self, instance: int, key: Hashable = None) -> None:
        """Take it off; nothing if there is none.

        Args:
            instance: Its id.
            key: None: all.
        """
        layers = {
            each: layer for each, layer in self._layers.pop(instance, {}).items() if key is not None and each != key
        }
        self._made.pop(instance, None)
        if layers:
            self._layers[instance] = layers

    def has(self, instance: int) -> bool:
        """Whether the instance of this id has a layer."""
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
            made = self.original.__get__(instance, owner)
            layers = self._layers.get(id(instance), {}).values()
            for make, _ in layers:
                made = make(made)
            if layers and not any(weak for _, weak in layers):
                self._made[id(instance)] = made
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.original(*args, **kwargs)

    def __reduce__(self) -> Any:  # a class that is pickled by value
        return _itself, (self.original,)

    def __repr__(self) -> str:
        return repr(self.original)


def _itself(own: Any) -> Any:
    return own
