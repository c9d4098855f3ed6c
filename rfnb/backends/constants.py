"""Raw arrays that are made once and kept: tables, indices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def kept(limit: int) -> Callable[[F], F]:
    """Keep what a function makes, for the same arguments; of more than `limit` the oldest goes.

    What it makes while torch traces a program (`torch.export`) has shapes and no values, so that is not kept: whoever computes later
    would get it.
    """

    def decorate(fn: F) -> F:
        made: dict[Any, Any] = {}

        @functools.wraps(fn)
        def wrapper(*args: Any) -> Any:
            found = made.get(args)
            if found is None:
                found = fn(*args)
                if has_values(*(found if isinstance(found, tuple) else (found,))):
                    if len(made) >= limit:
                        made.pop(next(iter(made)), None)
                    made[args] = found
            return found

        return wrapper  # type: ignore[return-value]

    return decorate


def has_values(*raws: Any) -> bool:
    """Whether these are arrays of numbers, not the stand-ins of a program that is traced."""
    return not any(base.__name__ == "FakeTensor" for raw in raws for base in type(raw).__mro__)
