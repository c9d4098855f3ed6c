"""The two error types of the frontend, and the four-part message every user error has.

A message says what failed, shows every operand aligned, states the rule, and gives the next line to type.
"""

from __future__ import annotations

from collections.abc import Iterable


class DimError(ValueError):
    """The dims of the operands do not fit together."""


class ShapeError(ValueError):
    """A raw array does not fit the dims it was given."""


def message(what: str, operands: Iterable[tuple[str, object]], rule: str, fix: str | None = None) -> str:
    """Compose an error message: `what`, the aligned `operands`, the `rule`, and the line(s) to type."""
    rows = [(label, str(value)) for label, value in operands]
    width = max((len(label) for label, _ in rows), default=0)
    lines = [what]
    lines += [f"  {label:<{width}}  {value}" for label, value in rows]
    lines.append(rule)
    if fix:
        lines += [f"    {line}" for line in fix.splitlines()]
    return "\n".join(lines)
