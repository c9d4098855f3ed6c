"""The dims of an error: the operands in its message, the dims that clash, where each was made, and what would fix it.

A message has its operands as text; the tensors and dims themselves are found in the frames of the traceback.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import parts_of
from rfnb.core.tensor import Tensor
from rfnb.viz.dims.entries import origin_of
from rfnb.viz.dims.spec import spec as dims_spec
from rfnb.viz.spec import Spec

_MOST_FRAMES = 80
_MARK = re.compile(r"(\([^()\[\]]*\)|#\d+)(?=[<=])")  # distinguishes dims of one name in a message: (train.py:12), #2


def spec_of_error(error: BaseException) -> Spec | None:
    """The dims view of the mismatch; None if the tensors are no longer in the frames."""
    parts = parts_of(error)
    if parts is None:
        return None
    what, rows, rule, fix = parts
    found = list(_values(error))
    operands = _operands(rows, [value for value in found if isinstance(value, Tensor)])
    dims = [dim for tensor in operands.values() for dim in tensor.dims]
    dims += _named(rows, [value for value in found if isinstance(value, Dim)], dims)
    if not dims:
        return None
    shown = list(dict.fromkeys(dims))
    # Dims that appear only in the message follow those of the operands.
    made = dims_spec({**operands, **{f"dim {number}": dim for number, dim in enumerate(shown)}}, values=False)
    clash = _clash(list(operands.values()), shown)
    numbers = _numbers(made, operands, shown)
    for dim, number in numbers.items():
        entry = made.head["dims"][number]
        entry["origin"] = origin_of(dim) or f"made at {dim.created}"
        if dim in clash:
            entry["clash"] = True
    mend = "\n".join([rule, *(f"    {line}" for line in (fix or "").splitlines())])
    made.head.update(title=what, mend=mend)
    return made


def _values(error: BaseException) -> Iterator[Any]:
    """The tensors and dims in the frames of the traceback, innermost first."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    for frame in frames[::-1][:_MOST_FRAMES]:
        for value in list(frame.f_locals.values()):
            several = value if isinstance(value, (list, tuple)) and len(value) < 100 else [value]
            yield from (each for each in several if isinstance(each, (Tensor, Dim)))


def _operands(rows: list[tuple[str, str]], tensors: list[Tensor]) -> dict[str, Tensor]:
    """The tensor for each row of the message that shows dims."""
    found: dict[str, Tensor] = {}
    for label, text in rows:
        plain = _MARK.sub("", text)
        for tensor in tensors:
            own = f"[{', '.join(dim.short_repr() for dim in tensor.dims)}]"
            if plain.startswith(own) and not any(other is tensor for other in found.values()):
                found[label] = tensor
                break
    return found


def _named(rows: list[tuple[str, str]], dims: list[Dim], known: list[Dim]) -> list[Dim]:
    """The dims in rows other than operands."""
    words = {
        word for _, text in rows if not text.startswith("[") for word in _MARK.sub("", text).replace(",", " ").split()
    }
    return [dim for dim in dict.fromkeys(dims) if dim not in known and dim.short_repr() in words]


def _clash(operands: list[Tensor], dims: list[Dim]) -> set[Dim]:
    """The dims that differ though they look alike: same name or size, and not in one operand."""
    several = len(operands) > 1
    left = [dim for dim in dims if not (several and all(dim in tensor.dims for tensor in operands))]
    return {
        dim
        for dim in left
        for other in left
        if dim is not other
        and (dim.name == other.name or _size(dim) == _size(other) is not None)
        and not any(dim in tensor.dims and other in tensor.dims for tensor in operands)
    }


def _size(dim: Dim) -> int | None:
    return dim.extent if dim.is_dim_known() else None


def _numbers(made: Spec, operands: dict[str, Tensor], shown: list[Dim]) -> dict[Dim, int]:
    """The index of each dim among the entries, which are in order of appearance."""
    numbers: dict[Dim, int] = {}

    def meet(dim: Dim) -> None:
        if dim not in numbers:
            numbers[dim] = len(numbers)
            for over in dim.length_dims:
                meet(over)

    for tensor in operands.values():
        for dim in tensor.dims:
            meet(dim)
        if tensor.sparse_dim is not None:
            meet(tensor.sparse_dim)
    for dim in shown:
        meet(dim)
    assert len(numbers) == len(made.head["dims"])
    return numbers
