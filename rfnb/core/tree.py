"""Nested values: containers with other values in them, walked in one place.

    leaves({"h": x, "layers": [y, z]})       # [("h", x), ("layers.0", y), ("layers.1", z)]
    map_nested(stop_gradient, value)         # the same structure, another value for each leaf
    register_nested(Memory)                  # a dataclass: from here on its fields are inside, too

A container is a dict, list or tuple, an instance of a subclass (`State`, named tuples, outputs of transformers), or of a dataclass that
was registered; everything else is a leaf. What users nest arrives in every room (states of loops, arguments and results of modules,
events, branches, batches), and each of them walks it here: a container that one room knows, all know.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from rfnb.core.errors import type_error

Kind = TypeVar("Kind", bound=type)
containers: tuple[type, ...] = (dict, list, tuple)
"""All kinds there are, for `isinstance(value, tree.containers)` where a call counts."""


def register_nested(kind: Kind) -> Kind:
    """Walk into the fields of a dataclass wherever values are nested: states of loops, events, arguments of modules. A decorator.

    Args:
        kind: A dataclass. What is inside are the fields that its `__init__` takes; a changed one is made by calling it.

    Raises:
        TypeError: For anything else.
    """
    global containers
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise type_error(
            "register_nested: this is no dataclass.",
            [("got", kind.__name__ if isinstance(kind, type) else repr(kind))],
            "What is inside of a value are the fields of its dataclass; dicts, lists, tuples and rf.State are known anyway.",
            "@rf.register_nested\n@dataclass\nclass Memory: ...",
        )
    if not issubclass(kind, containers):
        containers = (*containers, kind)
    return kind


def is_container(value: Any) -> bool:
    """Whether there are other values in it."""
    return isinstance(value, containers)


def items_of(value: Any) -> Iterable[tuple[Any, Any]]:
    """The keys and items of a container: of a named tuple the names of its fields."""
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, (list, tuple)):
        names = getattr(value, "_fields", None)
        return enumerate(value) if names is None else zip(names, value)
    return zip(_names(type(value)), _parts(value))


def _names(kind: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(kind) if field.init]


def _parts(value: Any) -> Any:
    """The items of a container but a dict, as a sequence."""
    return value if isinstance(value, (list, tuple, dict)) else [getattr(value, name) for name in _names(type(value))]


def made_of(kind: Any, items: list[Any]) -> Any:
    """A container of this kind, which is none of dicts, with these items."""
    if kind is list:
        return items
    if issubclass(kind, (list, tuple)):
        return kind(*items) if hasattr(kind, "_fields") else kind(items)
    return kind(**dict(zip(_names(kind), items)))


def leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """(dotted path, leaf) of everything inside, in order."""
    if not isinstance(value, containers):
        return [(path, value)]
    out: list[tuple[str, Any]] = []
    for key, item in value.items() if isinstance(value, dict) else items_of(value):
        here = f"{path}.{key}" if path else str(key)
        if isinstance(item, containers):
            out += leaves(item, here)
        else:
            out.append((here, item))
    return out


def values_in(value: Any) -> list[Any]:
    """The leaves of everything inside, in order."""
    if not isinstance(value, containers):
        return [value]
    out: list[Any] = []
    for item in (
        value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else _parts(value)
    ):
        if isinstance(item, containers):
            out += values_in(item)
        else:
            out.append(item)
    return out


def map_nested(fn: Callable[..., Any], value: Any, *others: Any) -> Any:
    """fn on every leaf (and the leaves of `others` at the same places); the same structure."""
    if not isinstance(value, containers):
        return fn(value, *others)
    if isinstance(value, dict):
        if others:
            items = {key: map_nested(fn, item, *[other[key] for other in others]) for key, item in value.items()}
        else:
            items = {
                key: map_nested(fn, item) if isinstance(item, containers) else fn(item) for key, item in value.items()
            }
        return items if type(value) is dict else type(value)(items)
    if others:
        return made_of(type(value), [map_nested(fn, *each) for each in zip(_parts(value), *map(_parts, others))])
    parts = value if isinstance(value, (list, tuple)) else _parts(value)
    made = [map_nested(fn, item) if isinstance(item, containers) else fn(item) for item in parts]
    return made if type(value) is list else made_of(type(value), made)


def map_plain(fn: Callable[[Any], Any], value: Any) -> Any:
    """fn on every leaf; dicts, lists and tuples in the place of their subclasses, dicts in that of dataclasses."""
    if not isinstance(value, containers):
        return fn(value)
    if isinstance(value, (list, tuple)):
        items = [map_plain(fn, item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return {key: map_plain(fn, item) for key, item in items_of(value)}


def in_order_of(like: Any, value: Any) -> Any:
    """`value` with the items of its dicts in the order that they have in `like`, a structure with the same paths."""
    if not is_container(value) or not is_container(like) or len(_parts(like)) != len(_parts(value)):
        return value
    if isinstance(value, dict):
        same = isinstance(like, dict) and like.keys() == value.keys()
        return type(value)({key: in_order_of(like[key], value[key]) for key in like}) if same else value
    return made_of(type(value), list(map(in_order_of, _parts(like), _parts(value))))


def agree(same: Callable[[Any, Any], bool], a: Any, b: Any) -> bool:
    """Whether two values have leaves at the same paths (the order of dict items does not matter), and all pairs are the `same`."""
    if not isinstance(a, containers):
        return not isinstance(b, containers) and same(a, b)
    if isinstance(a, dict):
        if not isinstance(b, dict) or a.keys() != b.keys():
            return False
        pairs = [(item, b[key]) for key, item in a.items()]
    elif isinstance(a, (list, tuple)):
        if not isinstance(b, (list, tuple)) or len(a) != len(b):
            return False
        pairs = list(zip(a, b))
    else:
        if type(a) is not type(b):
            return False
        pairs = list(zip(_parts(a), _parts(b)))
    for item, other in pairs:
        if not isinstance(item, containers):
            if isinstance(other, containers) or not same(item, other):
                return False
        elif not agree(same, item, other):
            return False
    return True


def same_structure(a: Any, b: Any) -> bool:
    """Whether two values have leaves at the same paths (the order of dict items does not matter)."""
    return agree(lambda *leaves: True, a, b)
