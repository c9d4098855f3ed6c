"""Names for the axes of a plain array, in the notations that people use: "batch time feature", ["batch", "time"], "b t (heads dim)",
"... feature".

    parse("batch 1 (heads dim) ...", "named")    # [("batch",), (), ("heads", "dim"), ...]
    fitted(entries, (3, 1, 8, 5), "named")       # an entry per axis: ("batch",), (), ("heads", "dim"), ("axis3",)

An entry is a tuple of names (or Dims): one for most axes, several for a composed axis, outer one first, none for an axis of length 1
without a dim.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import EllipsisType
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import shape_error, type_error, value_error

Entry = tuple[Any, ...]  # of str and Dim

_KINDS = {
    **dict.fromkeys(("batch", "b", "bsz", "batch_size"), "batch"),
    **dict.fromkeys(("feature", "features", "feat", "channel", "channels"), "feature"),
}
_TOKEN = re.compile(r"\(|\)|\.\.\.|…|[^\s(),]+")
_EXAMPLE = '"batch time feature"'


def parse(names: Any, where: str) -> list[Entry | EllipsisType]:
    """The entries of a pattern, or of a list of names and Dims.

    Args:
        names: A str; a list whose items are names, Dims, patterns of one axis, None (no name), and `...`; or a jaxtyping annotation.

    Raises:
        TypeError: If an item is not a name.
        ValueError: If a pattern is invalid, or has "..." twice.
    """
    if isinstance(names, str):
        entries = _of_text(names, where)
    elif (found := annotated(names)) is not None:
        entries = found
    elif isinstance(names, Dim):
        entries = [(names,)]
    elif isinstance(names, Sequence):
        entries = [entry for item in names for entry in _of_item(item, names, where)]
    else:
        raise _no_names(names, names, where)
    if entries.count(...) > 1:
        raise _unread(names, where, '"..." stands for all further axes, so it is there at most once.')
    return entries


def annotated(annotation: Any) -> list[Entry | EllipsisType] | None:
    """The entries of a jaxtyping annotation, `Float[Tensor, "batch time 3"]`; None if it is not one.

    A size, an expression and a word that begins with "_" are axes without a name; "*rest" stands for all further axes.
    """
    text = getattr(annotation, "dim_str", None)
    if not isinstance(text, str):
        return None
    entries: list[Entry | EllipsisType] = []
    for word in text.split():
        name = word.lstrip("#?").partition("=")[0]
        named = name.isidentifier() and not name.startswith("_")
        entries.append(... if word.startswith(("*", "#*", "...")) else (name if named else None,))
    return entries


def fitted(entries: Sequence[Entry | EllipsisType], shape: Sequence[int], where: str, call: str) -> list[Entry]:
    """An entry for each axis of an array of this shape; axes under "..." are called axis0, axis1, ... by position.

    Args:
        call: The call with the names, for the message: "rf.named(x, {})".

    Raises:
        ShapeError: If there are more or fewer names than axes, or a "1" stands for an axis that is longer.
    """
    count = len(shape) - (len(entries) - 1 if ... in entries else len(entries))
    if count < 0 or (count and ... not in entries):
        own = [text_of(entry) for entry in entries]
        fix = [*own, *(f"axis{axis}" for axis in range(len(own), len(shape)))][: len(shape)]
        if where == "attention" and not own and len(shape) > 1:
            fix[-2:] = ["target", "source"]  # who attends, and what is attended over
        raise shape_error(
            f"{where}: the names do not fit the array.",
            {"array": tuple(shape), "names": " ".join(own) or "none"},
            'There is one name per axis; "..." stands for any further ones, "(heads dim)" for one axis that is both.',
            call.format(f'"{" ".join(fix)}"') if fix else None,
        )
    out: list[Entry] = []
    for entry in entries:
        out += [(None,)] * count if isinstance(entry, EllipsisType) else [entry]
    out = [(f"axis{axis}",) if entry == (None,) else entry for axis, entry in enumerate(out)]
    for axis, (entry, size) in enumerate(zip(out, shape)):
        if not entry and size != 1:
            raise shape_error(
                f'{where}: "1" stands for an axis that is not of length 1.',
                [("array", tuple(shape)), ("names", " ".join(map(text_of, out))), (f"axis {axis}", size)],
                'A "1" is an axis of length 1, which is left out. Others have names:',
                call.format(
                    f'"{" ".join([*map(text_of, out[:axis]), f"axis{axis}", *map(text_of, out[axis + 1 :])])}"'
                ),
            )
    return out


def simple_names(names: Any, shape: Sequence[int], where: str, call: str) -> list[str | None]:
    """A name for each axis, for callers that cannot split an axis; None for a "1".

    Raises:
        ShapeError: As for `fitted`.
        TypeError, ValueError: As for `parse`; also for composed axes.
    """
    entries = fitted(parse(names, where), shape, where, call)
    composed = next((entry for entry in entries if len(entry) > 1), None)
    if composed is not None:
        raise value_error(
            f"{where}: {text_of(composed)} is an axis of several dims.",
            {"array": tuple(shape), "names": " ".join(map(text_of, entries))},
            "To take it apart, their sizes are needed:",
            f'rf.named(x, "{" ".join(map(text_of, entries))}", dims={{"{name_of(composed[0])}": ...}})',
        )
    return [name_of(entry[0]) if entry else None for entry in entries]


def kind_of(name: str, names: Sequence[str]) -> str | None:
    """The kind of dim that a name implies: "batch", "feature", or None.

    Args:
        names: The names of all axes: next to an "a", "b" is a letter and not the batch.
    """
    return None if name == "b" and "a" in names else _KINDS.get(name)


def name_of(item: Any) -> str:
    """The name of a name or a Dim."""
    return item if isinstance(item, str) else str(item.name)


def text_of(entry: Entry | EllipsisType) -> str:
    """The entry as in a pattern."""
    if isinstance(entry, EllipsisType):
        return "..."
    names = [name_of(item) for item in entry]
    return "1" if not names else names[0] if len(names) == 1 else f"({' '.join(names)})"


def _of_item(item: Any, names: Any, where: str) -> list[Entry | EllipsisType]:
    if item is None:
        return [(None,)]
    if isinstance(item, Dim) or item is ...:
        return [item if item is ... else (item,)]
    if isinstance(item, (list, tuple)):
        parts = [part for inner in item for part in _of_item(inner, names, where)]
        return [tuple(each for part in parts if not isinstance(part, EllipsisType) for each in part)]
    if not isinstance(item, str):
        raise _no_names(item, names, where)
    entries: list[Entry | EllipsisType] = [(item,)]
    if (item.startswith("(") and item.endswith(")")) or item in ("1", "...", "…"):
        entries = _of_text(item, where)
    if len(entries) != 1:
        raise _unread(names, where, "Each entry of a list is one axis.")
    return entries


def _of_text(text: str, where: str) -> list[Entry | EllipsisType]:
    out: list[Entry | EllipsisType] = []
    inner: list[str] | None = None
    for token in _TOKEN.findall(text):
        if token == "(":
            if inner is not None:
                raise _unread(text, where, "Parentheses hold names, and no further parentheses.")
            inner = []
        elif token == ")":
            if inner is None:
                raise _unread(text, where, "A parenthesis is closed that is not open.")
            out.append(tuple(inner))
            inner = None
        elif "->" in token:
            rule = "Names say what the axes of one array are; there is nothing to the right of an arrow. To reorder, take the way back:"
            raise _unread(text, where, rule, 'rf.unnamed(rf.named(x, "batch time feature"), "time batch feature")')
        elif token in ("...", "…"):
            if inner is not None:
                raise _unread(text, where, '"..." stands for whole axes, not for a part of one.')
            out.append(...)
        elif token == "1":
            if inner is None:
                out.append(())
        elif not (token[0].isalpha() or token[0] == "_"):
            raise _unread(
                text, where, f'"{token}" is no name: a name begins with a letter; of numbers only "1" is known.'
            )
        elif inner is None:
            out.append((token,))
        else:
            inner.append(token)
    if inner is not None:
        raise _unread(text, where, "A parenthesis is open at the end.")
    return out


def _unread(names: Any, where: str, rule: str, fix: str = _EXAMPLE) -> ValueError:
    shown = repr(names) if isinstance(names, str) else type(names).__name__
    return value_error(f"{where}: these names cannot be read.", {"names": shown}, rule, fix)


def _no_names(item: Any, names: Any, where: str) -> TypeError:
    rows = [("names", type(names).__name__), *([("with", type(item).__name__)] if item is not names else [])]
    return type_error(
        f"{where}: names of axes are text.", rows, "They are one text, or a list of names and Dims:", _EXAMPLE
    )
