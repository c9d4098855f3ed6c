"""The mark of an option that is not given, where None is a value of its own."""

from __future__ import annotations

from typing import Any

_NAMES = {"notspecified", "notgiven", "notset", "unspecified", "unset", "missing", "omitted"}


class NotSpecified:
    """The mark of an option that is not given. The class itself is the mark: `option=NotSpecified`."""


def is_specified(value: Any) -> bool:
    """Whether `value` is a value, and not such a mark; those of other packages (`NOT_GIVEN`, `_Unset`, ...) are known by their name."""
    if value is NotSpecified or value is ...:
        return False
    mark = value if isinstance(value, type) else type(value)
    return mark.__name__.replace("_", "").lower().removesuffix("type") not in _NAMES
