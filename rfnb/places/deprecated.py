"""Names that go in a later release: each works until then, and says once what to type instead. docs/contracts/files.md has the policy."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from rfnb.core.errors import message
from rfnb.core.place import warn_user


class Deprecated(NamedTuple):
    """One name.

    Attributes:
        now: Where what it stood for is: "module:name".
        line: To type instead.
        since, gone: The releases that warn first, and that have it no more.
    """

    now: str
    line: str
    since: str
    gone: str


DEPRECATED: dict[str, Deprecated] = {}  # by the name with its module, as "rfnb.reduce_something"
_said: set[str] = set()


def deprecated(module: str, name: str) -> Any:
    """The value that a deprecated name of a module stands for, with a warning the first time.

    Raises:
        KeyError: If it is none.
    """
    full = f"{module}.{name}"
    entry = DEPRECATED[full]
    if full not in _said:
        _said.add(full)
        rows = [("since", f"rfnb {entry.since}"), ("gone in", f"rfnb {entry.gone}")]
        warn_user(
            message(f"{full} is deprecated.", rows, "It works until then. Type instead:", entry.line), FutureWarning
        )
    place, _, attribute = entry.now.partition(":")
    return getattr(import_module(place), attribute)
