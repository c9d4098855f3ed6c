"""`loop.state`: the states of a loop as attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

from rfnb.core.errors import type_error
from rfnb.core.pickling import NotPicklable
from rfnb.core.tensor import Tensor
from rfnb.core.tree import values_in
from rfnb.rec.nested import structure_text
from rfnb.rec.states import States


class _Method:
    """A method that a state of the same name hides."""

    def __init__(self, fn: Callable[..., Any]):
        self._fn, self.__doc__ = fn, fn.__doc__

    def __get__(self, state: LoopState | None, owner: Any = None) -> Any:
        if state is None:
            return self._fn
        name = self._fn.__name__
        return state[name] if name in iter(state) else MethodType(self._fn, state)


class LoopState(NotPicklable):
    """Loop states as attributes or items. Before the loop, assign the initial value. Inside, reading gives the previous value until it
    is assigned, then the new one; after a choice, that of the chosen hypotheses. After the loop, reading gives the final value.

    Raises:
        AttributeError: Reading a name without an initial value.
        ValueError: Assigning twice in a step, or another structure.
        DimError: If dims or dtype change from step to step.
    """

    __states: States

    def __init__(self, states: States):
        object.__setattr__(self, "_LoopState__states", states)

    def __getattr__(self, name: str) -> Any:
        states = self.__states
        if states.step is not None:
            return states.step.read(name)
        try:
            return states.now[name]
        except KeyError:
            raise states.missing(name) from None

    __getitem__ = __getattr__

    def __setattr__(self, name: str, value: Any) -> None:
        states = self.__states
        if states.step is not None:
            states.step.write(name, value)
        else:
            states.now[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(name, str):
            raise type_error(
                "loop.state: the name of a state is no text.",
                {"name": repr(name), "value": structure_text(value)},
                "A state is an attribute of loop.state, too:",
                'loop.state["h"] = value    # or loop.state.h = value',
            )
        setattr(self, name, value)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__states.now)

    def __len__(self) -> int:
        return len(self.__states.now)

    @_Method
    def keys(self) -> Any:
        """Names of the states."""
        return list(self)

    @_Method
    def values(self) -> Any:
        """The current states."""
        return [self[name] for name in self]

    @_Method
    def items(self) -> Any:
        """Pairs (name, current state)."""
        return [(name, self[name]) for name in self]

    @_Method
    def deep_tensors(self) -> list[Tensor]:
        """All tensors inside."""
        return [leaf for name in self for leaf in values_in(self[name]) if isinstance(leaf, Tensor)]
