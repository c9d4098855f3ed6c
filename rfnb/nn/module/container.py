"""Containers of modules and parameters; the items are the attributes "0", "1", ..."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import GenericAlias
from typing import Any, Never

from rfnb.core.errors import type_error
from rfnb.core.tensor import Tensor
from rfnb.nn.module.module import Functional, Module, adopted
from rfnb.nn.module.parameter import Parameter


class _List(Module):
    """Items by number, in order. Other attributes of a subclass are not items."""

    __class_getitem__: Any = classmethod(GenericAlias)  # allows rf.ModuleList[rf.Linear] as an annotation
    _item_type: type = Module
    _is_item = True  # False for a container that is not an item of its own container

    def _items(self) -> list[tuple[str, Any]]:
        return [
            (name, getattr(self, name))
            for name, value in vars(self).items()
            if isinstance(value, self._item_type) and getattr(value, "_is_item", True)
        ]

    def __len__(self) -> int:
        return len(self._items())

    def __iter__(self) -> Iterator[Any]:
        return iter([value for _, value in self._items()])

    def __getitem__(self, index: Any) -> Any:
        """One item, by number or name; for a slice, a new container of the same items. Names that are not numbers are kept."""
        if isinstance(index, str):
            return dict(self._items())[index]
        if not isinstance(index, slice):
            return self._items()[index][1]
        new = self._plain()
        new._fill(self._items()[index])
        return new

    def __setitem__(self, index: Any, value: Any) -> None:
        """Set one item, or with a slice several, as in a list: the list grows or shrinks if the number of items differs."""
        items = self._items()
        if not isinstance(index, slice):
            setattr(self, index if isinstance(index, str) else items[index][0], self._check(value))
            return
        new = [(None, self._check(item)) for item in value]
        names = [name for name, _ in items[index]]
        if len(names) == len(new):
            new = [(name, item) for name, (_, item) in zip(names, new)]  # type: ignore[misc]
        changed: list[Any] = list(items)
        changed[index] = new  # with the semantics and errors of a list
        for name, _ in items:
            delattr(self, name)
        self._fill([("0" if name is None else name, item) for name, item in changed])

    def __delitem__(self, index: Any) -> None:
        items = self._items()
        for name, _ in items:
            delattr(self, name)
        del items[index]
        self._fill(items)

    def _fill(self, items: list[tuple[str, Any]]) -> None:
        """Replace all items, numbered by position."""
        for number, (name, value) in enumerate(items):
            setattr(self, str(number) if name.isdigit() else name, value)

    def __contains__(self, value: object) -> bool:
        return any(item is value for _, item in self._items())

    def _plain(self) -> _List:
        """An empty container of this kind. Subclasses may need other arguments, so this is the base class."""
        raise NotImplementedError

    def _add(self, values: Iterable[Any]) -> Any:
        for value in values:
            setattr(self, str(len(self)), self._check(value))
        return self

    def _check(self, value: Any) -> Any:
        return value


class ModuleList(_List):
    """Modules in order; from modules, an iterable, or a dict by name. Plain callables are wrapped in Functional.

    Raises:
        TypeError: For any other argument.
    """

    def __init__(self, *modules: Any):
        if len(modules) == 1 and isinstance(modules[0], dict):
            for name, module in modules[0].items():
                setattr(self, name, self._check(module))
        elif len(modules) == 1 and not callable(modules[0]):
            if not isinstance(modules[0], Iterable):
                raise self._not_a_module(modules[0])
            self._add(modules[0])
        else:
            self._add(modules)

    def append(self, module: Any) -> ModuleList:
        """Append one module; returns self."""
        return self._add([module])

    def extend(self, modules: Iterable[Any]) -> ModuleList:
        """Append several modules; returns self."""
        return self._add(modules)

    def _check(self, value: Any) -> Module:
        value = adopted(value)
        if not callable(value):
            raise self._not_a_module(value)
        return value if isinstance(value, Module) else Functional(value)

    def _not_a_module(self, value: Any) -> TypeError:
        held = ", ".join(type(each).__name__ for each in self)
        return type_error(
            f"{type(self).__name__}: not a module.",
            [("got", type(value).__name__), *([("behind", held)] if held else [])],
            "It holds modules and other callables, given one by one, as an iterable or as a dict of names.",
            f"rf.{type(self).__name__}(rf.Linear(in_dim, out_dim), rf.relu)",
        )

    def _plain(self) -> ModuleList:
        return ModuleList()

    def items(self) -> list[tuple[str, Module]]:
        """(name, module) pairs."""
        return self._items()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raises a TypeError: a list does not define how its modules are combined."""
        raise type_error(
            "A ModuleList is not called.",
            {"holds": ", ".join(type(each).__name__ for each in self) or "nothing"},
            "It does not say how its modules go together. Iterate over it; to call one after the other:",
            "rf.Sequential(modules)",
        )


class Sequential(ModuleList):
    """Calls its modules in order, each with the result of the previous one and the same keyword arguments."""

    def __call__(self, inp: Any, *, collected_outputs: dict[str, Tensor] | None = None, **kwargs: Any) -> Any:
        """The result of the last module; the dims are those of the modules ({...}).

        Args:
            collected_outputs: Filled with the result of each module by name.
            kwargs: Passed to each module.
        """
        for name, module in self.items():
            inp = module(inp, **kwargs)
            if collected_outputs is not None:
                collected_outputs[name] = inp
        return inp

    def _plain(self) -> Sequential:
        return Sequential()


def sequential(source: Any, *modules: Any, **unknown: Never) -> Any:
    """The modules in order, as one function."""
    return Sequential(*modules)(source)


class ParameterList(_List):
    """Parameters in order."""

    _item_type = Parameter

    def __init__(self, *parameters: Any):
        self._add(parameters[0] if len(parameters) == 1 and not isinstance(parameters[0], Parameter) else parameters)

    def append(self, parameter: Parameter) -> ParameterList:
        """Append one parameter; returns self."""
        return self._add([parameter])

    def extend(self, parameters: Iterable[Parameter]) -> ParameterList:
        """Append several parameters; returns self."""
        return self._add(parameters)

    def _plain(self) -> ParameterList:
        return ParameterList()

    def _check(self, value: Any) -> Parameter:
        if not isinstance(value, Parameter):
            raise type_error(
                "ParameterList: not a Parameter.",
                {"got": type(value).__name__},
                "It holds Parameters; modules are held by a ModuleList.",
                "rf.ModuleList(modules)" if isinstance(value, Module) else "rf.ParameterList([rf.Parameter(dims)])",
            )
        return value
