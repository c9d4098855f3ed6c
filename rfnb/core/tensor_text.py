"""Dims and tensors as text in messages and reprs: `[batch=3, time<=7]`, with equal names distinguished."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rfnb.core.dim import Dim
from rfnb.core.dim_relations import representative, sizes_text
from rfnb.core.errors import DimError, dim_error, operand_text
from rfnb.core.place import user_frame

if TYPE_CHECKING:
    from rfnb.core.tensor import Tensor


def labels_of(dims: Iterable[Dim]) -> dict[Dim, str]:
    """The text of each of these dims in a message: `time<=7`, or if another one has the same name, `time(train.py:12)<=7`, or
    `time#1<=7` if they were made in the same place.
    """
    unique = list(dict.fromkeys(dims))
    labels = {}
    for dim in unique:
        alike = [other for other in unique if other.name == dim.name]
        mark = ""
        if len(alike) > 1:
            places = {other.created for other in alike}
            mark = f"({dim.created})" if len(places) == len(alike) else f"#{alike.index(dim) + 1}"
        labels[dim] = f"{dim.name}{mark}{dim.short_repr()[len(dim.name) :]}"
    return labels


def dims_text(dims: Sequence[Dim], labels: dict[Dim, str] | None = None) -> str:
    """`[batch=3, time<=7]`, the dims labelled by `labels_of` of these, or of all dims in a message."""
    labels = labels_of(dims) if labels is None else labels
    return f"[{', '.join(labels[dim] for dim in dims)}]"


def table_lines(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """The rows as lines whose columns begin at the same place, or end there for those of `right`."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    each = [str.rjust if column in right else str.ljust for column in range(len(widths))]
    return ["  ".join(fill(cell, width) for fill, cell, width in zip(each, row, widths)) for row in rows]


def shape_of(tensor: Tensor) -> str:
    """The dims of a tensor as text, as in all messages."""
    return dims_text(tensor.dims)


def operand_rows(operands: Sequence[tuple[str, Tensor]]) -> list[tuple[str, str]]:
    """The rows of a message that show these operands; equal names are distinguished."""
    labels = labels_of(dim for _, tensor in operands for dim in tensor.dims)
    return [(label, dims_text(tensor.dims, labels)) for label, tensor in operands]


class MissingDim:
    """Stands for a required dim that was not given."""

    def __init__(self, name: str):
        self.name = name

    def __getattr__(self, attribute: str) -> Any:
        """Raise the error when an op reads an attribute of the missing dim."""
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        _, called = user_frame(1)
        raise no_dim("call" if called is None else called.f_code.co_name, self)


for _kind in (Dim, MissingDim):
    operand_text.register(_kind, lambda dim: dim.short_repr())


def no_dim(what: str, value: Any, tensor: Any = None) -> DimError:
    """The error for a value that should be a Dim; it names the dims of the tensor, or of the op's operands in user code."""
    label = "tensor"
    if tensor is None:
        label, tensor = _operand_of_user()
    rows = [] if tensor is None else [(label, dims_text(tensor.dims))]
    dims = () if tensor is None else tensor.dims
    code = label if label != "tensor" else "x"
    rule = "An axis is given by its Dim, or by the name of a dim of the operands:"
    if isinstance(value, MissingDim):
        return dim_error(f"{what}: {value.name} is missing.", rows, rule, _candidates(value.name, code, dims))
    rows.append(("got", type(value).__name__))
    numbers = range(-len(dims), 0) if isinstance(value, int) and value < 0 else range(len(dims))
    plain = isinstance(value, (int, str))  # == of an array is no truth
    place = next((index for index, dim in zip(numbers, dims) if plain and value in (dim.name, index)), None)
    if place is not None:
        fix = f"{code}.dims[{place}]    # {dims[place].short_repr()}"
    elif dims:
        fix = _candidates("axis", code, dims)
    else:
        fix = f'Dim({value if isinstance(value, int) else 3}, name="{value if isinstance(value, str) else "..."}")'
    shown = repr(value) if plain or value is None else f"this {type(value).__name__}"
    return dim_error(f"{what}: {shown} is not a Dim.", rows, rule, fix)


def _candidates(keyword: str, code: str, dims: Sequence[Dim]) -> str:
    return (
        "\n".join(f"{keyword}={code}.dims[{place}]    # {dim.short_repr()}" for place, dim in enumerate(dims))
        or "axis=dim"
    )


def _operand_of_user() -> tuple[str, Any]:
    """The first Tensor among the arguments of the function called by user code, with its name there."""
    _, called = user_frame(2)
    if called is not None:
        code = called.f_code
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            value = called.f_locals.get(name)
            if (
                not isinstance(value, MissingDim)
                and hasattr(value, "dims")
                and hasattr(value, "sparse_dim")
                and name != "self"
            ):
                return name, value
    return "tensor", None


def missing_dim(
    what: str,
    tensor: Tensor,
    dim: Dim,
    label: str = "tensor",
    operands: Sequence[tuple[str, Tensor]] | None = None,
    role: str | None = None,
) -> DimError:
    """The error for a dim that a tensor lacks, with a hint if another one has the same name or sizes.

    Args:
        label: Name of the tensor in the message.
        operands: All operands to show, if there are more than the tensor.
        role: The role of the dim, e.g. "reduce".
    """
    if not isinstance(dim, Dim):
        return no_dim(what, dim, tensor)
    operands = [(label, tensor)] if operands is None else operands
    labels = labels_of([*(other for _, operand in operands for other in operand.dims), dim])
    rule, fix = f"The dim {labels[dim]} is not among the dims of {label}.", None
    other = next((other for other in tensor.dims if other.get_same_base() is dim.get_same_base()), None)
    other = other or next((other for other in tensor.dims if other.name == dim.name), None)
    other = other or next((other for other in tensor.dims if _same_sizes(other, dim)), None)
    if other is not None:
        alike = ["name"] if other.name == dim.name else []
        alike += [sizes_text(dim)] if _same_sizes(other, dim) else []
        first, second = (labels[each].removesuffix(each.short_repr()[len(each.name) :]) for each in (dim, other))
        if representative(other) is representative(dim):
            rule = (
                f'"{first}" and "{second}" are declared the same, but {label} keeps the one it has. Replace it first:'
            )
        else:
            rule = (
                f'"{first}" and "{second}" have the same {" and ".join(alike) or "base"} but are different dims.\n'
                "If they are the same axis, replace one first:"
            )
        fix = replace_code(label if label.isidentifier() and label != "tensor" else "x", tensor.dims, other, dim)
    elif tensor.dims:
        code = label if label.isidentifier() and label != "tensor" else "x"
        fix = "\n".join(f"{code}.dims[{place}]    # {labels[each]}" for place, each in enumerate(tensor.dims))
    else:
        fix = f"rf.expand_dim({label if label.isidentifier() else 'x'}, dim={dim.name if dim.name.isidentifier() else '...'})"
    rows = [(name, dims_text(operand.dims, labels)) for name, operand in operands]
    first_line = f"{what}: {f'{label} has ' if role else ''}no dim {labels[dim]}{f' to {role}' if role else ''}."
    return dim_error(first_line, [*rows, (role or "dim", labels[dim])], rule, fix)


def replace_code(label: str, dims: Sequence[Dim], in_dim: Dim, out_dim: Dim, out_label: str | None = None) -> str:
    """The line to type that replaces `in_dim` of the tensor called `label`; dims without unique names are given by position."""
    same = in_dim.name == out_dim.name
    old = in_dim.name if in_dim.name.isidentifier() and not same else f"{label}.dims[{list(dims).index(in_dim)}]"
    new = out_dim.name if out_dim.name.isidentifier() else "..."
    return f"{label}, _ = rf.replace_dim({label}, in_dim={old}, out_dim={out_label or new})"


def _same_sizes(a: Dim, b: Dim) -> bool:
    if a.size is not None or b.size is not None:
        return a.size == b.size
    if a.lengths is None or b.lengths is None:
        return False
    return a.lengths.shape == b.lengths.shape and bool((a.lengths == b.lengths).all())
