"""Which labels a hypothesis may take: forced prefixes, banned labels, no n-gram twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import message
from rfnb.core.tensor import Tensor, shape_of
from rfnb.ops import math
from rfnb.ops.gather import gather
from rfnb.ops.where import where
from rfnb.rec.loop import Loop
from rfnb.search.search_state import Search, host_of, on_backend


def allowed_labels(
    like: Tensor,
    axis: Dim,
    *,
    prefix: Tensor | None,
    banned: Sequence[int] | Tensor | None,
    no_repeat_ngram: int,
    loop: Loop,
    search: Search,
    in_dim: Dim | None,
) -> Tensor | None:
    """bool {..., axis}: what may come next; None: everything.

    Args:
        like: The scores of the labels.
        prefix: Labels that sequences begin with, {batch dims, time}: or {batch dims} for this step alone, -1 where free.
        banned: Labels, or a mask {..., axis}, True where banned.
        no_repeat_ngram: Length of what may not come twice; 0: no limit.
    """
    parts = []
    if prefix is not None:
        parts.append(_forced(prefix, axis, loop.num_steps - 1, like))
    if banned is not None:
        parts.append(math.logical_not(banned) if isinstance(banned, Tensor) else _not_these(banned, axis, like))
    if no_repeat_ngram:
        mask = _no_ngram_again(search, no_repeat_ngram, axis, in_dim, like)
        parts += [] if mask is None else [mask]
    out = None
    for part in parts:
        out = part if out is None else math.combine_bc(out, "logical_and", part)
    return out


def _forced(prefix: Tensor, axis: Dim, step: int, like: Tensor) -> Tensor:
    times = [dim for dim in prefix.dims if dim not in like.dims]
    if len(times) > 1 or prefix.dtype[:3] != "int":
        raise ValueError(
            message("choice: the prefix does not fit the scores.",
                    [("prefix", f"{shape_of(prefix)} {prefix.dtype}"), ("scores", shape_of(like))],
                    "A prefix is labels {batch, time}: dims of the scores, and one of its own over its labels.",
                    "rf.choice(scores, prefix=rf.convert_to_tensor(labels, dims=[batch, time]), ...)")
        )  # fmt: skip
    labels = prefix
    if times:
        (time,) = times
        if step >= time.extent:
            return _anything(axis, like)
        labels = gather(prefix, indices=step, axis=time)
        size = time.get_size_tensor()
        if size.dims:
            past = on_backend(step >= size.numpy(), size.dims, like, "bool")
            labels = where(past, -1, labels, allow_broadcast_all_sources=True)
        labels.sparse_dim = None
    labels = math.combine_bc(labels, "add", 0) if labels is prefix else labels
    labels.sparse_dim = None
    host = labels.numpy()
    if (host >= axis.extent).any():
        raise ValueError(
            f"choice: the prefix has label {host.max()}, there are {axis.extent}.\nLabels of a prefix are in {axis.short_repr()}."
        )
    index = on_backend(np.arange(axis.extent), (axis,), like, "int64")
    return math.combine_bc(math.compare_bc(labels, "equal", index), "logical_or", labels < 0)


def _anything(axis: Dim, like: Tensor) -> Tensor:
    return on_backend(np.ones(axis.extent, bool), (axis,), like, "bool")


def _not_these(banned: Sequence[int], axis: Dim, like: Tensor) -> Tensor:
    row = np.ones(axis.extent, bool)
    labels = np.asarray(list(banned), np.int64)
    if labels.size and not ((labels >= 0) & (labels < axis.extent)).all():
        raise ValueError(
            message("choice: a banned label is none.", [("banned", ", ".join(map(str, labels.tolist()))), ("labels", axis.short_repr())],
                    "Labels are counted from 0.")
        )  # fmt: skip
    row[labels] = False
    return on_backend(row, (axis,), like, "bool")


def _no_ngram_again(search: Search, length: int, axis: Dim, in_dim: Dim | None, like: Tensor) -> Tensor | None:
    """Without the labels that would complete an n-gram which the hypothesis has already."""
    tokens = search.tokens
    if tokens is None or tokens.shape[-1] < length or search.scores is None:
        return None
    dims = tuple(search.token_dims)
    mask = np.ones((*tokens.shape[:-1], axis.extent), bool)
    for place in np.ndindex(tokens.shape[:-1]):
        row = tokens[place]
        head = tuple(row[len(row) - length + 1 :])
        for start in range(len(row) - length + 1):
            if tuple(row[start : start + length - 1]) == head:
                mask[(*place, row[start + length - 1])] = False
    return on_backend(mask, (*dims, axis), like, "bool")


def remember(search: Search, labels: Tensor, parents: Tensor, out_dim: Dim, carried: Dim) -> None:
    """Keep the labels of each hypothesis, for `no_repeat_ngram`."""
    own = host_of(labels, labels.dims)
    if search.tokens is not None:
        index = host_of(parents, labels.dims)
        axis = labels.dims.index(out_dim)
        before = np.take_along_axis(search.tokens, index[..., None], axis) if search.tokens.ndim > 1 else search.tokens
        own_all = np.concatenate([before, own[..., None]], -1)
    else:
        own_all = own[..., None]
    search.tokens = own_all
    search.token_dims = tuple(carried if dim is out_dim else dim for dim in labels.dims)
