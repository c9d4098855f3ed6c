"""A marker for an omitted option, where None is a valid value."""

from __future__ import annotations

from typing import Any

_NAMES = {"notspecified", "notgiven", "notset", "unspecified", "unset", "missing", "omitted"}


class NotSpecified:
    """The marker for an omitted option. The class itself is the marker: `option=NotSpecified`."""


def is_specified(value: Any) -> bool:
    """True if `value` is a value and not such a marker; markers of other packages (`NOT_GIVEN`, `_Unset`, ...) are recognised by name."""
    if value is NotSpecified or value is ...:
        return False
    mark = value if isinstance(value, type) else type(value)
    return mark.__name__.replace("_", "").lower().removesuffix("type") not in _NAMES
