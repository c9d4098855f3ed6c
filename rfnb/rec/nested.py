"""Nested structures (dicts, lists, tuples, States) of tensors: walking, mapping, picking hypotheses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rfnb.core.tensor import Tensor
from rfnb.ops import math
from rfnb.ops.gather import gather


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted path, leaf) of everything inside, in order."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}.{index}" if path else str(index))
    else:
        yield path, value


def same_structure(a: Any, b: Any) -> bool:
    """Whether two values have leaves at the same paths (the order of dict items does not matter)."""
    if isinstance(a, dict):
        return (
            isinstance(b, dict)
            and a.keys() == b.keys()
            and all(same_structure(item, b[key]) for key, item in a.items())
        )
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(same_structure, a, b))
    return not isinstance(b, (dict, list, tuple))


def map_nested(fn: Callable[..., Any], value: Any, *others: Any) -> Any:
    """fn on every leaf (and the leaves of `others` at the same places); the same structure."""
    if isinstance(value, dict):
        return type(value)(
            (key, map_nested(fn, item, *(other[key] for other in others))) for key, item in value.items()
        )
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_nested(fn, item, *(other[i] for other in others)) for i, item in enumerate(value)))
    if isinstance(value, (list, tuple)):
        return type(value)(map_nested(fn, item, *(other[i] for other in others)) for i, item in enumerate(value))
    return fn(value, *others)


def gather_nested(s: Any, *, indices: Tensor) -> Any:
    """Every tensor that has the sparse_dim of `indices`, picked by them (beam reordering); the rest as it is."""
    axis = indices.sparse_dim
    return map_nested(
        lambda x: gather(x, indices=indices, axis=axis) if isinstance(x, Tensor) and axis in x.dims else x, s
    )


def where_nested(condition: Tensor, x: Any, y: Any) -> Any:
    """x where condition, else y, for every tensor of two equal structures."""
    return map_nested(lambda a, b: math.where(condition, a, b) if isinstance(a, Tensor) and a is not b else a, x, y)
