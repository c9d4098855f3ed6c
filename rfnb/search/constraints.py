"""Which labels a hypothesis may take: forced prefixes, banned labels, no n-gram twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import message
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.ops import math
from rfnb.ops.gather import gather
from rfnb.ops.where import where
from rfnb.rec.loop import Loop
from rfnb.rec.selection import align_host
from rfnb.search.operand_checks import check_mask
from rfnb.search.search_state import Link, host_of, on_backend


class Written:
    """The labels that each hypothesis of a choice has so far, on the host: {dims, step}. They follow their hypotheses as states do."""

    def __init__(self) -> None:
        self._tokens: np.ndarray | None = None  # of the hypotheses at the begin of the step
        self._dims: tuple[Dim, ...] = ()
        self._now: tuple[np.ndarray, tuple[Dim, ...]] | None = None  # of those that the choice starts from

    def before(self, loop: Loop) -> tuple[np.ndarray, tuple[Dim, ...]] | None:
        """Those of the hypotheses that the choice being made starts from; None before the first one."""
        self._now = None
        if self._tokens is not None:
            tokens, dims, earlier = self._tokens, self._dims, loop.selections.now
            if earlier is not None and earlier.start in dims:
                tokens, dims = _follow(tokens, dims, earlier.start, earlier.sources[earlier.start], earlier.out_dim)
            self._now = tokens, dims
        return self._now

    def add(self, labels: Tensor, link: Link, loop: Loop) -> None:
        """The labels that were chosen."""
        chosen, parents = loop.selections.now, link.parents
        assert chosen is not None and parents is not None
        out, dims = chosen.out_dim, labels.dims
        tokens = host_of(labels, dims)[..., None]
        if self._now is not None:
            start = parents.sparse_dim
            assert start is not None
            before, dims_before = self._now
            if start in dims_before:
                before, dims_before = _follow(before, dims_before, start, parents, out)
            if dims_before != dims:
                order = [*(dims_before.index(dim) for dim in dims if dim in dims_before), len(dims_before)]
                shape = [dim.extent if dim in dims_before else 1 for dim in dims]
                before = before.transpose(order).reshape([*shape, before.shape[-1]])
            tokens = np.concatenate([np.broadcast_to(before, (*tokens.shape[:-1], before.shape[-1])), tokens], -1)

        def at_the_end_of_the_step() -> None:
            last = loop.selections.now
            assert last is not None
            end = tokens, dims
            if last.out_dim is not out:
                end = _follow(tokens, dims, out, last.sources[out], last.out_dim)
            self._tokens, self._dims = end[0], tuple(last.carried if dim is last.out_dim else dim for dim in end[1])

        loop.call_on_commit(at_the_end_of_the_step)


def written(link: Link, source: int = 0) -> Written:
    """The labels of a source of a choice so far."""
    return link.written.setdefault(source, Written())


def _follow(
    tokens: np.ndarray, dims: tuple[Dim, ...], beam: Dim, parents: Tensor, out: Dim
) -> tuple[np.ndarray, tuple[Dim, ...]]:
    """Of each hypothesis of `out` those of its parent."""
    after = tuple(out if dim is beam else dim for dim in dims)
    index = align_host(parents.numpy(), parents.dims, after)
    shape = [dim.extent for dim in after]
    return np.take_along_axis(tokens, np.broadcast_to(index, shape)[..., None], dims.index(beam)), after


def allowed_labels(
    like: Tensor,
    axis: Dim,
    *,
    prefix: Tensor | None,
    banned: Sequence[int] | Tensor | None,
    no_repeat_ngram: int,
    written: Written,
    loop: Loop,
) -> Tensor | None:
    """bool {..., axis}: what may come next; None: everything.

    Args:
        like: The scores of the labels.
        prefix: Labels that sequences begin with, {batch dims, time}: or {batch dims} for this step alone, -1 where free.
        banned: Labels, or a mask {..., axis}, True where banned.
        no_repeat_ngram: Length of what may not come twice; 0: no limit.
        written: The labels so far.
    """
    parts = []
    if prefix is not None:
        parts.append(_forced(prefix, axis, loop.num_steps - 1, like))
    if isinstance(banned, Tensor):
        check_mask(banned, like, axis)
        parts.append(math.logical_not(banned))
    elif banned is not None:
        parts.append(_not_these(banned, axis, like))
    if no_repeat_ngram:
        mask = _no_ngram_again(written.before(loop), no_repeat_ngram, axis, like)
        parts += [] if mask is None else [mask]
    out = None
    for part in parts:
        out = part if out is None else math.combine_bc(out, "logical_and", part)
    return out


def _forced(prefix: Tensor, axis: Dim, step: int, like: Tensor) -> Tensor:
    if not isinstance(prefix, Tensor):
        raise TypeError(
            message("choice: the prefix is no Tensor.", [("prefix", type(prefix).__name__), ("scores", shape_of(like))],
                    "It is the labels that each sequence begins with, -1 where it is free.",
                    "prefix = rf.convert_to_tensor(labels, dims=[batch, time])")
        )  # fmt: skip
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
    labels = np.atleast_1d(np.asarray(list(banned) if isinstance(banned, (set, frozenset)) else banned))
    whole = labels.dtype.kind in "iu" and labels.ndim == 1
    if labels.size and not (whole and ((labels >= 0) & (labels < axis.extent)).all()):
        raise ValueError(
            message("choice: a banned label is none.", [("banned", ", ".join(map(str, labels.tolist()))), ("labels", axis.short_repr())],
                    "Labels are whole numbers, counted from 0.", "banned=[0, 2]")
        )  # fmt: skip
    row[labels.astype(np.int64)] = False
    return on_backend(row, (axis,), like, "bool")


def _no_ngram_again(
    written: tuple[np.ndarray, tuple[Dim, ...]] | None, length: int, axis: Dim, like: Tensor
) -> Tensor | None:
    """Without the labels that would complete an n-gram which the hypothesis has already."""
    if written is None or written[0].shape[-1] < length:
        return None
    tokens, dims = written
    ngrams = np.lib.stride_tricks.sliding_window_view(tokens, length, axis=-1)
    head = tokens[..., None, tokens.shape[-1] - length + 1 :]
    *place, _ = again = (ngrams[..., :-1] == head).all(-1).nonzero()
    mask = np.ones((*tokens.shape[:-1], axis.extent), bool)
    mask[(*place, ngrams[..., -1][again])] = False
    return on_backend(mask, (*dims, axis), like, "bool")
