"""Nested values: containers of other values, traversed in one place.

    leaves({"h": x, "layers": [y, z]})       # [("h", x), ("layers.0", y), ("layers.1", z)]
    map_nested(stop_gradient, value)         # the same structure, another value for each leaf
    register_nested(Memory) # a dataclass: from here on its fields are traversed too

A container is a dict, list or tuple, an instance of a subclass (`State`, named tuples, outputs of transformers), or of a dataclass that
was registered; everything else is a leaf. Nested values of users reach every room (states of loops, arguments and results of modules,
events, branches, batches), and each of them traverses them here: a container known to one room is known to all.
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
    """Traverse the fields of a dataclass wherever values are nested: states of loops, events, arguments of modules. A decorator.

    Args:
        kind: A dataclass. The fields that its `__init__` accepts are traversed; a changed instance is made by calling it.

    Raises:
        TypeError: For anything else.
    """
    global containers
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise type_error(
            "register_nested: this is no dataclass.",
            {"got": kind.__name__ if isinstance(kind, type) else repr(kind)},
            "What is inside of a value are the fields of its dataclass; dicts, lists, tuples and rf.State are known anyway.",
            "@rf.register_nested\n@dataclass\nclass Memory: ...",
        )
    if not issubclass(kind, containers):
        containers = (*containers, kind)
    return kind


def is_container(value: Any) -> bool:
    """True if a value contains other values."""
    return isinstance(value, containers)


def items_of(value: Any) -> Iterable[tuple[Any, Any]]:
    """The keys and items of a container; for a named tuple the names of its fields."""
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, (list, tuple)):
        names = getattr(value, "_fields", None)
        return enumerate(value) if names is None else zip(names, value)
    return zip(_names(type(value)), _parts(value))


def _names(kind: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(kind) if field.init]


def _parts(value: Any) -> Any:
    """The items of a container other than a dict, as a sequence."""
    return value if isinstance(value, (list, tuple, dict)) else [getattr(value, name) for name in _names(type(value))]


def made_of(kind: Any, items: list[Any]) -> Any:
    """A container of this kind, other than a dict, with these items."""
    if kind is list:
        return items
    if issubclass(kind, (list, tuple)):
        return kind(*items) if hasattr(kind, "_fields") else kind(items)
    return kind(**dict(zip(_names(kind), items)))


def leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """(dotted path, leaf) for everything inside, in order."""
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
    """The leaves, in order."""
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
    """Apply fn to every leaf (and the leaves of `others` at the same places); the structure is kept."""
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
    """Apply fn to every leaf; subclasses become plain dicts, lists and tuples, dataclasses become dicts."""
    if not isinstance(value, containers):
        return fn(value)
    if isinstance(value, (list, tuple)):
        items = [map_plain(fn, item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return {key: map_plain(fn, item) for key, item in items_of(value)}


def in_order_of(like: Any, value: Any) -> Any:
    """`value` with its dict items in the order of `like`, a structure with the same paths."""
    if not is_container(value) or not is_container(like) or len(_parts(like)) != len(_parts(value)):
        return value
    if isinstance(value, dict):
        same = isinstance(like, dict) and like.keys() == value.keys()
        return type(value)({key: in_order_of(like[key], value[key]) for key in like}) if same else value
    return made_of(type(value), list(map(in_order_of, _parts(like), _parts(value))))


def agree(same: Callable[[Any, Any], bool], a: Any, b: Any) -> bool:
    """True if two values have leaves at the same paths (the order of dict items does not matter), and all pairs are the `same`."""
    if not isinstance(a, containers):
        return not isinstance(b, containers) and same(a, b)
    if isinstance(a, dict):
        if not isinstance(b, dict) or a.keys() != b.keys():
            return False
        pairs = zip(a.values(), map(b.__getitem__, a))
    elif isinstance(a, (list, tuple)):
        if not isinstance(b, (list, tuple)) or len(a) != len(b):
            return False
        pairs = zip(a, b)
    else:
        if type(a) is not type(b):
            return False
        pairs = zip(_parts(a), _parts(b))
    for item, other in pairs:
        if not isinstance(item, containers):
            if isinstance(other, containers) or not same(item, other):
                return False
        elif not agree(same, item, other):
            return False
    return True


def same_structure(a: Any, b: Any) -> bool:
    """True if two values have leaves at the same paths (the order of dict items does not matter)."""
    return agree(lambda *leaves: True, a, b)
