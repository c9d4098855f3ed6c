"""A dim made anew is another dim: two of the same name and sizes that meet in one result are a cell run twice, never meant.

Asked where an op makes a new plan, so the usual call does not pay for it. Only dims that user code made itself count: twins
(`dim.copy(match_priority=1)`) and dims that ops make (`rf.replace_dim`) have the name of another one on purpose. Of other sizes, they
may be two things of one name: elementwise ops refuse them if one place in code has made both, as a function that is called twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.dim_math import parts_of
from rfnb.core.dim_relations import same_sizes
from rfnb.core.errors import DimError, dim_error
from rfnb.core.place import warn_user
from rfnb.core.tensor_text import dims_text, labels_of, replace_code

_ANONYMOUS = "dim"


def check_remade(
    what: str, operands: Sequence[tuple[str, Sequence[Dim]]], but: Iterable[Dim] = (), *, outer_code: str | None = None
) -> None:
    """Raise a DimError if the result would have a dim of one operand and, of another one, the same dim made anew.

    Args:
        operands: What messages call each of them, and its dims.
        but: Dims that go away in the op.
        outer_code: How the op is told that an outer product is meant. If given, dims of one name and other sizes do not meet
            either where one place in code has made both; else a warning says it.
    """
    named: dict[str, Dim] = {}
    if all([named.setdefault(dim.name, dim) is dim for _, dims in operands for dim in dims]):
        return  # no name is that of two dims: the usual call pays for no more
    left = [[dim for dim in dims if _of_user(dim) and dim not in but] for _, dims in operands]
    for place, (_, dims) in enumerate(operands):
        for later in range(place + 1, len(operands)):
            others = operands[later][1]
            for other in left[later]:
                for dim in left[place]:
                    if dim.name == other.name and dim is not other and dim not in others and other not in dims:
                        if dim.name == _ANONYMOUS:
                            continue
                        if same_sizes(dim, other):
                            raise _made_twice(what, operands, (place, dim), (later, other))
                        if outer_code is not None and dim.kind == other.kind and _of_user(other):
                            _say_other_size(what, operands, dim, other, outer_code)


def _of_user(dim: Dim) -> bool:
    """Whether user code made a dim itself, or all that it is computed from."""
    return dim.by_user or (dim.expr is not None and bool(parts := parts_of(dim)) and all(map(_of_user, parts)))


def _places_of(dim: Dim) -> list[Any]:
    """The places in user code where a dim was made, or what it is computed from."""
    return [dim._place] if dim.expr is None else [place for part in parts_of(dim) for place in _places_of(part)]


def _say_other_size(
    what: str, operands: Sequence[tuple[str, Sequence[Dim]]], first: Dim, second: Dim, outer_code: str
) -> None:
    """Raise a DimError for two dims of one place in code, else warn."""
    old, new = (dim.short_repr() for dim in sorted((first, second), key=lambda dim: dim.serial))
    labels = labels_of(each for _, dims in operands for each in dims)
    error = dim_error(
        f"{what}: two dims of one name and other sizes would be in the result.",
        [(each, dims_text(dims, labels)) for each, dims in operands],
        f"{new} was made after {old}. A Dim is itself only, whatever its name, so each entry of one meets each of the other.\n"
        "If they are the same axis, make both tensors with one; if the outer product is meant, say so, or give one another name:",
        outer_code,
    )
    if _places_of(first) == _places_of(second):
        raise error
    warn_user(str(error))


def _made_twice(
    what: str, operands: Sequence[tuple[str, Sequence[Dim]]], first: tuple[int, Dim], second: tuple[int, Dim]
) -> DimError:
    (place, dim), (later, other) = first, second
    labels = labels_of(each for _, dims in operands for each in dims)
    plain = {each: labels[each].removesuffix(each.short_repr()[len(each.name) :]) for each in (dim, other)}
    old, new = sorted((dim, other), key=lambda each: each.serial)
    (kept, kept_dims), (label, label_dims) = operands[place], operands[later]
    name = f"{kept}.dims[{list(kept_dims).index(dim)}]"
    return dim_error(
        f"{what}: the same dim, made twice, would be in the result two times.",
        [(each, dims_text(dims, labels)) for each, dims in operands],
        f"{plain[new]} was made anew after {plain[old]}, as when a cell runs again. A Dim is itself only, whatever its name.\n"
        "If they are the same axis, make both tensors with one, or replace one first; if they are two, give one another name:",
        f"{replace_code(label, label_dims, other, dim, name)}\n"
        f'{other.name if other.name.isidentifier() else "dim"} = Dim(..., name="other_{other.name}")',
    )
