"""Tensors of the same dims along a new one, and back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Never

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, value_error
from rfnb.core.generations import aligned, with_beams
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, keep_marks
from rfnb.core.tensor_checks import check_unique
from rfnb.core.tensor_text import operand_rows
from rfnb.ops.gather import gather
from rfnb.ops.operands import check_devices, need_tensors
from rfnb.ops.out_dim import settle_size


@op
def stack(sources: Sequence[Tensor], *extra: Never, out_dim: Dim | None = None, **unknown: Never) -> tuple[Tensor, Dim]:
    """A new leading dim over tensors of the same dims; {...} each -> {out_dim, ...}.

    Raises:
        DimError: If their dims differ.
        ValueError: Of nothing.
    """
    need_tensors("stack", *sources)
    if not sources:
        raise value_error("stack: of nothing.", [("sources", "none")], "The dims come from the first tensor.")
    first = sources[0]
    out_dim = out_dim or Dim(len(sources), name="stack")
    settle_size("stack", out_dim, len(sources))
    dims = check_unique((out_dim, *first.dims), "stack")
    for index, source in enumerate(sources):
        if set(source.dims) != set(first.dims):
            together = aligned("stack", tuple(sources)) or with_beams(sources)
            if together is not None:
                return stack(together, out_dim=out_dim)
            raise dim_error(
                "stack: the dims differ.",
                operand_rows([("source 0", first), (f"source {index}", source)]),
                "Stacked tensors have the same dims. To repeat one over a dim that it lacks:",
                "rf.expand_dim(source, dim=...)",
            )
    raws = [source.copy_transpose(first.dims)._raw for source in sources]
    try:
        raw = first.backend.stack_raw(raws, 0)
    except RuntimeError:
        check_devices("stack", *sources)
        raise
    return reduce(keep_marks, sources, first._like(raw, dims)), out_dim


@op
def unstack(source: Tensor, *extra: Never, axis: Dim, **unknown: Never) -> tuple[Tensor, ...]:
    """One tensor per entry of a static `axis`; {..., axis} -> {...} for each entry of axis."""
    need_tensors("unstack", source)
    source.axis_of(axis, "unstack")
    return tuple(gather(source, indices=index, axis=axis) for index in range(axis.extent))
