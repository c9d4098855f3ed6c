"""Raw arrays that are computed once and kept: tables, indices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def kept(limit: int) -> Callable[[F], F]:
    """Cache the results of a function by its arguments; beyond `limit` the oldest is dropped.

    Results computed while torch traces a program (`torch.export`) have shapes but no values, so they are not kept for later
    computations.
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
    """True if these are arrays of numbers rather than the stand-ins of a traced program."""
    return not any(base.__name__ == "FakeTensor" for raw in raws for base in type(raw).__mro__)
