"""JSON from untrusted files: one meaning, or a ValueError."""

from __future__ import annotations

import json
from typing import Any, NoReturn

JsonObject = dict[str, Any]  # an object of JSON, e.g. the head of a spec or an entry in it


def read_json(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: For invalid JSON, excessive nesting, a duplicate key in an object (the last one would win silently), or NaN and
            infinities, which are not JSON.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} is there twice")
    return found


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")
