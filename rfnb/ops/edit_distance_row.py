"""The edit distance table row by row, and the cost of each possible next symbol.

Row n of the table of `a` and `b` contains the edit distance between the first n symbols of `a` and each prefix of `b`. It grows with
`a`, symbol by symbol, so it can be the state of a loop that generates `a`:

    row = rf.initial_edit_distance_row(b, b_spatial_dim=time)
    row = rf.next_edit_distance_row(row, a, b, b_spatial_dim=time, n=loop.iter_idx)
    costs = rf.optimal_completions(row, b, b_spatial_dim=time, n=...)     # of each label that may come next
"""

from __future__ import annotations

from typing import Never

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error
from rfnb.core.layout import full_shape
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.core.tensor_text import shape_of
from rfnb.ops.cast import cast
from rfnb.ops.defaults import copy_to_device
from rfnb.ops.dims import range_over_dim, set_sparse_dim
from rfnb.ops.expand import expand_dims
from rfnb.ops.gather import gather
from rfnb.ops.operands import as_tensor, common_backend, need_tensors
from rfnb.ops.reduce import reduce_min
from rfnb.ops.sequence_pairs import common_batch, flat_batch, flat_lengths, volume


@op
def initial_edit_distance_row(b: Tensor, *extra: Never, b_spatial_dim: Dim, **unknown: Never) -> Tensor:
    """The row before the first symbol: 0, 1, ..., time; int32 {..., b_spatial_dim + 1}, with the batch dims of b.

    Raises:
        DimError: If b lacks b_spatial_dim.
    """
    need_tensors("initial_edit_distance_row", b)
    check_dim("initial_edit_distance_row", b, b_spatial_dim, "b")
    row = range_over_dim(b_spatial_dim + 1, dtype="int32", device=b.device)
    row.sparse_dim = None
    return expand_dims(row, [dim for dim in b.dims if dim is not b_spatial_dim and dim not in row.dims])


@op
def next_edit_distance_row(
    row: Tensor,
    a: Tensor,
    b: Tensor,
    *extra: Never,
    b_spatial_dim: Dim,
    n: Tensor | int,
    ended: Tensor | None = None,
    blank_idx: int | None = None,
    **unknown: Never,
) -> Tensor:
    """The row after reading `a` as symbol number `n`.

    Args:
        row: int {..., b_spatial_dim + 1}: the previous row.
        a: int {...}: the symbol.
        b: int {..., b_spatial_dim}. Batch dims that only some of the operands have are broadcast.
        n: int {...}: the number of symbols read before.
        ended: bool {...}: where True, no symbol is read and the row is unchanged.
        blank_idx: A label for which the row is unchanged too.

    Returns:
        int32 {..., b_spatial_dim + 1}. In the padding of b its last value is repeated.

    Raises:
        DimError: If an operand lacks its dim, or the batch dims do not match.

    Source: Wagner and Fischer 1974.
    """
    need_tensors("next_edit_distance_row", row, a, b)
    what = "next_edit_distance_row"
    check_dim(what, b, b_spatial_dim, "b")
    common_batch(what, ("a", a, ()), ("b", b, (b_spatial_dim,)))
    return _next_row(what, row, a, b, b_spatial_dim, n, ended, blank_idx)


@op
def next_edit_distance_reduce(
    row: Tensor,
    a: Tensor,
    b: Tensor,
    *extra: Never,
    b_spatial_dim: Dim,
    n: Tensor | int,
    ended: Tensor | None = None,
    optimal_completion: bool = False,
    blank_idx: int | None = None,
    **unknown: Never,
) -> Tensor:
    """The edit distance after reading `a`: to all of b, or with `optimal_completion` for the best continuation of a.

    Arguments as for `next_edit_distance_row`, but `a` may have additional dims: candidates for the next symbol.

    Returns:
        int32 {...}: the last value of the next row, or the smallest one: the distance reached by the best continuation of a.

    Raises:
        DimError: If an operand lacks its dim.

    Source: Sabour et al. 2018, "Optimal Completion Distillation for Sequence Learning", section 3.
    """
    need_tensors("next_edit_distance_reduce", row, a, b)
    what = "next_edit_distance_reduce"
    check_dim(what, b, b_spatial_dim, "b")
    new = _next_row(what, row, a, b, b_spatial_dim, n, ended, blank_idx)
    return _reduced(new, b_spatial_dim, optimal_completion)


@op
def optimal_completions(
    row: Tensor,
    b: Tensor,
    *extra: Never,
    b_spatial_dim: Dim,
    n: Tensor | int,
    ended: Tensor | None = None,
    blank_idx: int | None = None,
    out_dim: Dim | None = None,
    **unknown: Never,
) -> Tensor:
    """The best edit distance to b that can still be reached, for each possible next label.

    Soft targets for training: `rf.softmax(-scale * rf.cast(costs, "float32"), axis=labels)`.

    Args:
        row: int {..., b_spatial_dim + 1}: the row before the next symbol.
        b: int {..., b_spatial_dim}, sparse over the labels.
        n, ended, blank_idx: As for `next_edit_distance_row`.
        out_dim: The dim of the candidates. Default: the sparse_dim of b; with a blank_idx after the last label, a new dim of size
            blank_idx + 1.

    Returns:
        int32 {..., out_dim}.

    Raises:
        DimError: If b lacks b_spatial_dim or a sparse_dim, or out_dim has another size than labels and blank need.

    Source: Sabour et al. 2018, "Optimal Completion Distillation for Sequence Learning", section 3.
    """
    what = "optimal_completions"
    need_tensors(what, row, b)
    labels = b.sparse_dim
    if labels is None:
        raise dim_error(
            f"{what}: b is not sparse.",
            {"b": b},
            "The candidates are all labels of its sparse_dim.",
            "b = rf.set_sparse_dim(b, labels)",
        )
    size = labels.extent if blank_idx is None else max(labels.extent, blank_idx + 1)
    if out_dim is None:
        out_dim = labels if size == labels.extent else Dim(size, name=f"{labels.name}+blank")
    if out_dim.extent != size:
        raise dim_error(
            f"{what}: out_dim has another size than the labels.",
            {
                "b": f"{shape_of(b)} over {labels.short_repr()}",
                "blank_idx": blank_idx,
                "out_dim": out_dim,
            },
            f"Labels and blank are {size} candidates.",
            f"rf.{what}(..., out_dim=Dim({size}, name=...))",
        )
    candidates = set_sparse_dim(range_over_dim(out_dim, dtype="int32", device=b.device), None)
    return next_edit_distance_reduce(
        row, candidates, b, b_spatial_dim=b_spatial_dim, n=n, ended=ended, optimal_completion=True, blank_idx=blank_idx
    )


@op
def optimal_completion_edit_distance(
    a: Tensor, a_spatial_dim: Dim, b: Tensor, b_spatial_dim: Dim, *extra: Never, **unknown: Never
) -> Tensor:
    """The edit distance between b and each `a` with its best continuation: the smallest value of the last row.

    Args:
        a: int {..., a_spatial_dim}
        b: int {..., b_spatial_dim}. Batch dims that only one of a and b has are broadcast.

    Returns:
        int32 {...}: the batch dims of a and b.

    Raises:
        DimError: If a or b lacks its spatial dim, or their batch dims do not match.

    Source: Sabour et al. 2018, "Optimal Completion Distillation for Sequence Learning", section 3.
    """
    need_tensors("optimal_completion_edit_distance", a, b)
    row = _last_row("optimal_completion_edit_distance", a, a_spatial_dim, b, b_spatial_dim)
    return _reduced(row, b_spatial_dim, True)


@op
def optimal_completion_edit_distance_per_successor(
    a: Tensor, a_spatial_dim: Dim, b: Tensor, b_spatial_dim: Dim, *extra: Never, successors_dim: Dim, **unknown: Never
) -> Tensor:
    """Like `optimal_completion_edit_distance`, for `a` followed by each label of `successors_dim`; {..., successors_dim}.

    Raises:
        DimError: If a or b lacks its spatial dim, or their batch dims do not match.
    """
    need_tensors("optimal_completion_edit_distance_per_successor", a, b)
    what = "optimal_completion_edit_distance_per_successor"
    row = _last_row(what, a, a_spatial_dim, b, b_spatial_dim)
    candidates = set_sparse_dim(range_over_dim(successors_dim, dtype="int32", device=b.device), None)
    count = set_sparse_dim(a_spatial_dim.get_size_tensor(device=b.device), None)
    return next_edit_distance_reduce(row, candidates, b, b_spatial_dim=b_spatial_dim, n=count, optimal_completion=True)


def _reduced(row: Tensor, time: Dim, optimal_completion: bool) -> Tensor:
    row_dim = time + 1
    if optimal_completion:
        return reduce_min(row, axis=row_dim)
    last = set_sparse_dim(time.get_size_tensor(device=row.device), row_dim)
    return gather(row, indices=last, axis=row_dim)


def _next_row(
    what: str, row: Tensor, a: Tensor, b: Tensor, time: Dim, n: Tensor | int, ended: Tensor | None, blank: int | None
) -> Tensor:
    row_dim = time + 1
    check_dim(what, row, row_dim, "row")
    count = cast(as_tensor(n, what), "int32") if not isinstance(n, Tensor) else n
    others = [x if x.dims else copy_to_device(x, row.device) for x in (count, ended) if x is not None]
    batch = tuple(dict.fromkeys(dim for x in (row, a, b, *others) for dim in x.dims if dim not in (row_dim, time)))
    backend = common_backend(what, row, a, b, *others)
    symbol = flat_batch(a, batch, ())
    keep = None if ended is None else flat_batch(others[1], batch, ())
    if blank is not None:
        is_blank = backend.binary_fn("equal")(symbol, blank)
        keep = is_blank if keep is None else backend.binary_tensors_fn("logical_or")(keep, is_blank)
    if keep is None:
        keep = backend.binary_tensors_fn("not_equal")(symbol, symbol)
    out = backend.next_edit_distance_row_raw(
        backend.cast_raw(flat_batch(row, batch, (row_dim,)), "int32"),
        symbol,
        backend.cast_raw(flat_batch(others[0], batch, ()), "int32"),
        keep,
        flat_batch(b, batch, (time,)),
        flat_lengths(what, time, batch),
    )
    dims = (*batch, row_dim)
    return new_tensor(backend.reshape_raw(out, full_shape(dims)), dims)


def _last_row(what: str, a: Tensor, a_dim: Dim, b: Tensor, b_dim: Dim) -> Tensor:
    """The row after all of a."""
    for name, tensor, dim in (("a", a, a_dim), ("b", b, b_dim)):
        check_dim(what, tensor, dim, name)
    batch: Dims = common_batch(what, ("a", a, (a_dim,)), ("b", b, (b_dim,)))
    backend = common_backend(what, a, b)
    row_dim, count = b_dim + 1, volume(batch)
    symbols, target = flat_batch(a, batch, (a_dim,)), flat_batch(b, batch, (b_dim,))
    a_lengths, b_lengths = flat_lengths(what, a_dim, batch), flat_lengths(what, b_dim, batch)
    device = backend.get_device_raw(target)
    row = backend.broadcast_raw(
        backend.arange_raw(row_dim.extent, dtype="int32", device=device), (count, row_dim.extent)
    )
    read, has_ended = backend.from_numpy(a_lengths, dtype="int32", device=device), backend.binary_fn("less_equal")
    for index in range(a_dim.extent):
        done = has_ended(read, index)
        number = backend.full_raw((count,), index, dtype="int32", device=device)
        symbol = backend.reshape_raw(backend.slice_raw(symbols, 1, index, index + 1), (count,))
        row = backend.next_edit_distance_row_raw(row, symbol, number, done, target, b_lengths)
    dims = (*batch, row_dim)
    return new_tensor(backend.reshape_raw(row, full_shape(dims)), dims)


@op
def edit_distance(
    a: Tensor, a_spatial_dim: Dim, b: Tensor, b_spatial_dim: Dim, *extra: Never, dtype: str = "int32", **unknown: Never
) -> Tensor:
    """The smallest number of insertions, deletions and substitutions that turn `a` into `b`, per sequence.

    Args:
        a: int {..., a_spatial_dim}
        b: int {..., b_spatial_dim}. Batch dims that only one of a and b has are broadcast.
        dtype: The dtype of the result.

    Returns:
        {...}: the batch dims of a and b. Divided by the lengths of the reference, this is the error rate.

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
