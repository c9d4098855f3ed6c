"""Containers of modules and parameters; the items are the attributes "0", "1", ..."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rfnb.core.tensor import Tensor
from rfnb.nn.module import Functional, Module
from rfnb.nn.parameter import Parameter


class _List(Module):
    """Items by number, in order. Other attributes of a subclass are no items."""

    _item_type: type = Module

    def _items(self) -> list[tuple[str, Any]]:
        return [(name, value) for name, value in vars(self).items() if isinstance(value, self._item_type)]

    def __len__(self) -> int:
        return len(self._items())

    def __iter__(self) -> Iterator[Any]:
        return iter([value for _, value in self._items()])

    def __getitem__(self, index: Any) -> Any:
        values = [value for _, value in self._items()]
        return type(self)(*values[index]) if isinstance(index, slice) else values[index]

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._items()[index][0], self._check(value))

    def __delitem__(self, index: Any) -> None:
        values = [value for _, value in self._items()]
        del values[index]
        for name, _ in self._items():
            delattr(self, name)
        for number, value in enumerate(values):
            setattr(self, str(number), value)

    def append(self, value: Any) -> Any:
        """Add one at the end; returns self."""
        setattr(self, str(len(self)), self._check(value))
        return self

    def extend(self, values: Iterable[Any]) -> Any:
        """Add several at the end; returns self."""
        for value in values:
            self.append(value)
        return self

    def _check(self, value: Any) -> Any:
        return value


class ModuleList(_List):
    """Modules in order; from modules, an iterable, or a dict of names. Plain callables are wrapped by Functional."""

    def __init__(self, *modules: Any):
        if len(modules) == 1 and isinstance(modules[0], dict):
            for name, module in modules[0].items():
                setattr(self, name, self._check(module))
        elif len(modules) == 1 and not callable(modules[0]):
            self.extend(modules[0])
        else:
            self.extend(modules)

    def _check(self, value: Any) -> Module:
        return value if isinstance(value, Module) else Functional(value)

    def items(self) -> list[tuple[str, Module]]:
        """(name, module) pairs."""
        return self._items()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("A ModuleList is not called. Iterate over it, or use rf.Sequential.")


class Sequential(ModuleList):
    """Calls its modules in order, each with the result of the one before and the same keyword arguments."""

    def __call__(self, inp: Any, *, collected_outputs: dict[str, Tensor] | None = None, **kwargs: Any) -> Any:
        for name, module in self.items():
            inp = module(inp, **kwargs)
            if collected_outputs is not None:
                collected_outputs[name] = inp
        return inp


def sequential(source: Any, *modules: Any) -> Any:
    """The modules in order, as a function."""
    return Sequential(*modules)(source)


class ParameterList(_List):
    """Parameters in order."""

    _item_type = Parameter

    def __init__(self, *parameters: Any):
        self.extend(parameters[0] if len(parameters) == 1 and not isinstance(parameters[0], Parameter) else parameters)

    def _check(self, value: Any) -> Parameter:
        if not isinstance(value, Parameter):
            raise TypeError(
                f"A ParameterList holds Parameters.\n  got  {type(value).__name__}\n    rf.Parameter(value)"
            )
        return value
