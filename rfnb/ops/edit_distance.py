"""The edit distance of sequences."""

from __future__ import annotations

from typing import Never

from rfnb.core.dim import Dim
from rfnb.core.layout import full_shape
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.ops.operands import common_backend, need_tensors
from rfnb.ops.sequence_pairs import common_batch, flat_batch, flat_lengths


@op
def edit_distance(
    a: Tensor, a_spatial_dim: Dim, b: Tensor, b_spatial_dim: Dim, *extra: Never, dtype: str = "int32", **unknown: Never
) -> Tensor:
    """Smallest number of insertions, deletions and substitutions that make `a` to `b`, per sequence.

    Args:
        a: int {..., a_spatial_dim}
        b: int {..., b_spatial_dim}. Batch dims that only one of a and b has are broadcast.
        dtype: Of the result.

    Returns:
        {...}: the batch dims of a and b. Divided by the lengths of the reference it is the error rate.

    Raises:
        DimError: If a or b lacks its spatial dim, or their batch dims do not match.

    Source: Levenshtein 1966; Wagner and Fischer 1974.
    """
    need_tensors("edit_distance", a, b)
    backend = common_backend("edit_distance", a, b)
    for name, tensor, dim in (("a", a, a_spatial_dim), ("b", b, b_spatial_dim)):
        check_dim("edit_distance", tensor, dim, name)
    batch = common_batch("edit_distance", ("a", a, (a_spatial_dim,)), ("b", b, (b_spatial_dim,)))
    out = backend.edit_distance_raw(
        flat_batch(a, batch, (a_spatial_dim,)),
        flat_batch(b, batch, (b_spatial_dim,)),
        flat_lengths("edit_distance", a_spatial_dim, batch),
        flat_lengths("edit_distance", b_spatial_dim, batch),
    )
    return new_tensor(backend.reshape_raw(backend.cast_raw(out, dtype), full_shape(batch)), batch)
