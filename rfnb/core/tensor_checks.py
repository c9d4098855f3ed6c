"""Checks that dims are compatible, and that a raw array matches its dims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dim import Dim, Dims, batch_dim, single_step_dim
from rfnb.core.errors import ShapeError, dim_error, shape_error
from rfnb.core.tensor_text import dims_text, labels_of, missing_dim, no_dim, table_lines

if TYPE_CHECKING:
    from rfnb.core.tensor import Tensor


def dims_of(what: str, value: Any) -> Dims:
    """One or several Dims as a tuple.

    Raises:
        DimError: If anything else is among them.
    """
    several = isinstance(value, (list, tuple)) or (isinstance(value, Iterable) and not isinstance(value, str))
    dims = tuple(value) if several else (value,)
    for dim in dims:
        if not isinstance(dim, Dim):
            raise no_dim(what, dim)
    return dims


def check_dim(what: str, tensor: Tensor, dim: Dim, label: str = "tensor") -> None:
    """Raise the DimError of `missing_dim` unless the tensor has the dim."""
    if dim not in tensor.dims:
        raise missing_dim(what, tensor, dim, label)


def check_lengths_here(
    what: str, operands: Sequence[tuple[str, Sequence[Dim]]], dim: Dim, label: str = "x", always: bool = False
) -> None:
    """Raise a DimError if an op needs the lengths of `dim`, and they are over a dim that no operand has.

    A value without that dim may be shared by all sequences, or belong to a selected one; so the dim is never added implicitly.

    Args:
        operands: Name of each operand in messages, with its dims.
        label: Name of the tensor in the lines to type.
        always: Also raise if no sequence has padding.
    """
    lacking = [over for over in dim.length_dims if not any(over in dims for _, dims in operands)]
    if not lacking or not (always or dim.has_padding()):
        return
    (over, *_), (_, dims) = lacking, operands[0]
    labels = labels_of([*(each for _, own in operands for each in own), dim, *dim.length_dims])
    in_code = (
        dim.name if dim.name.isidentifier() else f"{label}.dims[{list(dims).index(dim)}]" if dim in dims else "..."
    )
    picked = f"rf.gather({in_code}.dyn_size_ext, indices=i, axis={over.name})"
    raise dim_error(
        f"{what}: the lengths of {labels[dim]} are over {dims_text(lacking, labels)}, which is not here.",
        [*((each, dims_text(own, labels)) for each, own in operands), ("lengths", dims_text(dim.length_dims, labels))],
        "Which frames are real differs per sequence. One sequence that was picked (i) keeps its own frames if they are cut out first;\n"
        "what is the same for all sequences needs their dim:",
        f"{label}, {dim.name if dim.name.isidentifier() else 'frames'} = rf.slice({label}, axis={in_code}, size={picked})\n"
        f"{label} = rf.expand_dim({label}, dim={over.name})",
    )


def check_unique(dims: Dims, what: str) -> Dims:
    """`dims`, after checking that each is a Dim and none occurs twice."""
    for dim in dims:
        if not isinstance(dim, Dim):
            raise no_dim(what, dim)
    if single_step_dim in dims:
        raise dim_error(
            f"{what}: single_step_dim is no axis.",
            {"dims": dims_text(dims)},
            "It means a single step without an axis. Leave it out.",
        )
    if len(set(dims)) != len(dims):
        twice = next(dim for dim in dims if dims.count(dim) > 1)
        raise dim_error(
            f"{what}: the same dim twice.",
            {"dims": dims_text(dims), "twice": twice},
            "A tensor holds a dim once. A square weight uses the dim and its twin:",
            f"{twice.name}.copy(match_priority=1)",
        )
    return dims


def check_shape(tensor: Tensor, shape: Sequence[int]) -> None:
    """Compare a raw shape with the dims; a dim without size adopts it if nothing else can."""
    dims = tensor.dims
    if len(shape) == len(dims):
        for dim, length in zip(dims, shape):
            if dim._extent != length:
                break
        else:  # the usual case, with fewer calls
            return
        new = [dim for dim in dims if not dim.is_dim_known() and dim.expr is None and not dim.declared_length_dims]
        if all(dim in new or dim.extent == length for dim, length in zip(dims, shape)):
            for dim, length in zip(dims, shape):
                if dim in new:
                    dim.dyn_size_ext = np.int32(length)
            return
    raise _misfit(tensor, tuple(shape))


def _misfit(tensor: Tensor, shape: tuple[int, ...]) -> ShapeError:
    dims, labels = tensor.dims, labels_of(tensor.dims)
    table = [("dim", "needs", "got", "")]
    for axis in range(max(len(dims), len(shape))):
        dim = dims[axis] if axis < len(dims) else None
        needs = "" if dim is None else str(dim.extent) if dim.is_dim_known() else "any"
        got = str(shape[axis]) if axis < len(shape) else ""
        mark = "" if needs == got or (needs == "any" and got) else "<- differs"
        table.append((labels[dim] if dim else "none", needs, got or "none", mark))
    lines = [line.rstrip() for line in table_lines(table)]
    wrong = [axis for axis, row in enumerate(table[1:]) if row[3]]
    fix = f"Dim({shape[wrong[0]]}, name=...)" if len(wrong) == 1 and len(dims) == len(shape) else None
    rule = f"\nAxis {wrong[0]} needs the dim that this array was made with:" if fix else ""
    if fix and dims[wrong[0]].is_batch_dim() and dims[wrong[0]].is_dynamic():
        rule = f"\n{labels[dims[wrong[0]]]} has the size of earlier data. Before data of another size:"
        fix = f"{'rf.batch_dim' if dims[wrong[0]] is batch_dim else dims[wrong[0]].name}.reset_eager()"
    name = "" if tensor.name is None else f' "{tensor.name}"'
    return shape_error(
        f"Tensor{name}: raw shape {shape} does not fit its dims.",
        zip(["axis", *map(str, range(len(lines) - 1))], lines),
        f"The dims of a tensor are in the order of its raw array.{rule}",
        fix,
    )
