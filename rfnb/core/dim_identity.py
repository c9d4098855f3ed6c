"""Dims that could be mistaken for one another: duplicates from a cell run twice, twins of a square weight, and dims declared equal.

Two dims with the same name and size in one result usually mean that a notebook cell was run twice; this is an error.

This is checked where an op makes a new plan, so the usual call does not pay for it. Only dims made by user code count: twins
(`dim.copy(match_priority=1)`) and dims made by ops (`rf.replace_dim`) share a name on purpose. Dims of different sizes may be two things
of one name: elementwise ops refuse them if the same place in code made both, as in a function that is called twice.

A dim that a square weight has twice refers to one of its axes.

    rows = rf.dim_match_priority_when_needed(dim, dim)     # the twin, `dim.copy(match_priority=1)`
    weight = rf.Parameter([rows, dim])
    rf.matmul(x, weight, reduce=dim)                       # sums over rows: {..., dim}

Dims match by identity, but a model is written for any two dims, and `dim` alone does not identify a side if both are the same. As
documented, a lookup by the dim itself finds the twin of the highest priority, the input side of a weight.

Dims declared equal (`u.declare_same_as(time)`): operands that have one of them each are brought together. This is checked where an op
makes a new plan; no plans are kept for such operands, so only these calls pay for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from rfnb.core.dim import Dim, Dims
from rfnb.core.dim_math import parts_of
from rfnb.core.dim_relations import any_declared, check_same_sizes, representative, same_sizes
from rfnb.core.errors import DimError, dim_error
from rfnb.core.place import warn_user
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import dims_text, labels_of, operand_rows, replace_code

_ANONYMOUS = "dim"


def check_remade(
    what: str, operands: Sequence[tuple[str, Sequence[Dim]]], but: Iterable[Dim] = (), *, outer_code: str | None = None
) -> None:
    """Raise a DimError if the result would have a dim of one operand together with its duplicate from another.

    Args:
        operands: Name of each operand in messages, with its dims.
        but: Dims that the op removes.
        outer_code: Code that requests an outer product. If given, dims of one name and different sizes are refused too if one place
            in code made both; otherwise they cause a warning.
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
    """True if user code made a dim, or everything that it is computed from."""
    return dim.by_user or (dim.expr is not None and bool(parts := parts_of(dim)) and all(map(_of_user, parts)))


def _places_of(dim: Dim) -> list[Any]:
    """The places in user code where a dim, or its parts, were made."""
    return [dim._place] if dim.expr is None else [place for part in parts_of(dim) for place in _places_of(part)]


def _say_other_size(
    what: str, operands: Sequence[tuple[str, Sequence[Dim]]], first: Dim, second: Dim, outer_code: str
) -> None:
    """Raise a DimError for two dims from one place in code, else warn."""
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
        f"{plain[new]} was made again after {plain[old]}, as when a cell runs again. A Dim is itself only, whatever its name.\n"
        "If they are the same axis, make both tensors with one, or replace one first; if they are two, give one another name:",
        f"{replace_code(label, label_dims, other, dim, name)}\n"
        f'{other.name if other.name.isidentifier() else "dim"} = Dim(..., name="other_{other.name}")',
    )


_priority = attrgetter("match_priority")


def looked_up(dims: Sequence[Dim], dim: Dim, others: Sequence[Dim] = ()) -> Dim:
    """The dim among `dims` that `dim` refers to: the dim itself, or its twin of the highest priority above its own.

    A twin refers to itself, and so does a dim whose twins are all among `others`, which are named as well. Values that are not Dims are
    left to the op to refuse.
    """
    if not isinstance(dim, Dim) or dim.twin_of is not None or dim not in dims:
        return dim
    twins = [twin for twin in dims if twin.twin_of is dim and twin not in others]
    return max((dim, *twins), key=_priority) if twins else dim


def looked_up_in_both(dims_a: Dims, dims_b: Dims, reduce: Sequence[Dim]) -> tuple[Dims, Dims, Dims]:
    """The dims of two operands and the contracted ones, under one name in both: that of the twin, if one has it."""
    out = []
    for dim in reduce:
        in_a, in_b = looked_up(dims_a, dim, reduce), looked_up(dims_b, dim, reduce)
        name = max(in_a, in_b, key=_priority)
        if in_a is not name:
            dims_a = tuple([name if other is in_a else other for other in dims_a])
        if in_b is not name:
            dims_b = tuple([name if other is in_b else other for other in dims_b])
        out.append(name)
    return dims_a, dims_b, tuple(out)


def brought_together(what: str, values: Sequence[Any]) -> tuple[Any, ...] | None:
    """The operands of an op, with all dims that are declared equal replaced by their representative; None if there are no such dims. An
    operand that has two of them keeps them apart, and stays as it is.

    Raises:
        DimError: If their sizes differ by now, or the lengths of another dim are over one that would be replaced.
    """
    if not any_declared():
        return None
    tensors = [value for value in values if isinstance(value, Tensor)]
    families: dict[Dim, dict[Dim, None]] = {}
    for tensor in tensors:
        for dim in tensor.dims:
            families.setdefault(representative(dim), {})[dim] = None
    put: dict[Dim, Dim] = {}
    for base, members in families.items():
        if len(members) > 1 and all(sum(dim in tensor.dims for dim in members) < 2 for tensor in tensors):
            for dim in members:
                if dim is not base:
                    check_same_sizes(dim, base)
                    put[dim] = base
    if not put:
        return None
    for tensor in tensors:
        for dim in tensor.dims:
            gone = [over for over in dim.length_dims if over in put and dim not in put]
            if gone:
                raise _without_lengths(what, values, dim, gone[0], put[gone[0]])
    return tuple(_with_dims(value, put) if isinstance(value, Tensor) else value for value in values)


def dim_among(dim: Dim, values: Sequence[Any]) -> Dim:
    """`dim`, or its replacement in operands that were brought together."""
    return dim if any(dim in value.dims for value in values if isinstance(value, Tensor)) else representative(dim)


def _with_dims(tensor: Tensor, put: dict[Dim, Dim]) -> Tensor:
    if not any(dim in put for dim in tensor.dims):
        return tensor
    out = tensor._like(tensor._raw, tuple(put.get(dim, dim) for dim in tensor.dims))
    if tensor._feature_dim in put:
        out._feature_dim = put[tensor._feature_dim]
    out._finite = tensor._finite
    return out


def _without_lengths(what: str, values: Sequence[Any], dim: Dim, over: Dim, base: Dim) -> DimError:
    operands = [(chr(ord("a") + place), value) for place, value in enumerate(values) if isinstance(value, Tensor)]
    return dim_error(
        f"{what}: the lengths of {dim.short_repr()} are over {over.short_repr()}, which is declared the same as another dim.",
        [*operand_rows(operands), ("declared", f"{over.name} as {base.name}")],
        f"With {base.name} in its place, {dim.name} would have no lengths. Say over which dim they are:",
        f"{dim.name} = rf.ragged_dim([...], over={base.name})",
    )
