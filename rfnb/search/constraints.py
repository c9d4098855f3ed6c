"""The labels that a hypothesis may take: forced prefixes, banned labels, blocked n-grams, and rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rfnb.core.dim import Dim, HostArray
from rfnb.core.errors import type_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.ops import math
from rfnb.ops.gather import gather
from rfnb.ops.where import where
from rfnb.rec.device_reads import Value, host_value
from rfnb.rec.loop import Loop
from rfnb.search.label_rules import LabelRules
from rfnb.search.operand_checks import check_mask
from rfnb.search.search_state import Link, Search, on_backend

NODES = -1  # in place of a source in `Decision.written`


def note_written(search: Search, link: Link, source: int, labels: Tensor, before: HostArray | None) -> None:
    """Store on the host the labels so far of each hypothesis of a choice.

    Args:
        labels: The labels chosen now.
        before: The labels of the hypotheses before the choice, from `search.written`.
    """

    def grow(value: np.ndarray | None, tokens: np.ndarray) -> np.ndarray:
        return tokens if value is None else np.concatenate([value, tokens], -1)

    _note(search, link, source, labels, before, grow)


def note_nodes(search: Search, link: Link, rule: LabelRules, labels: Tensor, before: HostArray | None) -> None:
    """Store them as nodes in the prefix tree of a rule, {dims, 1}."""

    def grow(value: np.ndarray | None, tokens: np.ndarray) -> np.ndarray:
        nodes = [0] * tokens.size if value is None else value.ravel().tolist()
        return np.array(rule.prefixes.after(nodes, tokens.ravel().tolist())).reshape(tokens.shape)

    _note(search, link, NODES, labels, before, grow)


def _note(
    search: Search,
    link: Link,
    source: int,
    labels: Tensor,
    before: HostArray | None,
    grow: Callable[[np.ndarray | None, np.ndarray], np.ndarray],
) -> None:
    decision, dims = link.last, labels.dims
    assert decision is not None
    start = decision.parents.sparse_dim if decision.sources else None
    own = host_value(labels._raw, labels.backend)

    def written() -> HostArray:
        tokens = (own() if isinstance(own, Value) else own)[..., None]
        if before is None:
            return grow(None, tokens), dims
        value = decision.follow_host(*before, dims, start)
        return grow(np.broadcast_to(value, (*tokens.shape[:-1], value.shape[-1])), tokens), dims

    if isinstance(own, Value):  # they come with what else the host looks at before the next choice
        search.wanted.add(own)
        decision.want_parents()
        decision.written[source] = written
    else:
        decision.written[source] = written()


def allowed_labels(
    like: Tensor,
    axis: Dim,
    *,
    prefix: Tensor | None,
    banned: Sequence[int] | Tensor | None,
    no_repeat_ngram: int,
    written: HostArray | None,
    loop: Loop,
) -> dict[str, Tensor]:
    """For each limit by name, bool {..., axis}: the labels that may come next.

    Args:
        like: The scores of the labels.
        prefix: Labels that sequences begin with, {batch dims, time}: or {batch dims} for this step alone, -1 where free.
        banned: Labels, or a mask {..., axis}, True where banned.
        no_repeat_ngram: Length of the n-grams that must not repeat; 0: no limit.
        written: The labels so far, {dims, step}, and the dims.
    """
    parts = {}
    if prefix is not None:
        parts["the prefix"] = _forced(prefix, axis, loop, like)
    if isinstance(banned, Tensor):
        check_mask(banned, like, axis)
        parts["banned"] = math.logical_not(banned)
    elif banned is not None:
        parts["banned"] = _not_these(banned, axis, like)
    if no_repeat_ngram:
        mask = _no_ngram_again(written, no_repeat_ngram, axis, like)
        if mask is not None:
            parts["no_repeat_ngram"] = mask
    return parts


def limit_of(rule: LabelRules, nodes: HostArray | None, axis: Dim, like: Tensor) -> Tensor:
    """bool {..., axis}: the labels that a rule allows after nodes {dims, 1}."""
    value, dims = nodes or (np.zeros(1, np.int64), ())
    places = np.array(rule.places(value.ravel().tolist()))
    return on_backend(rule.rows(places.reshape(value.shape[:-1])), (*dims, axis), like, "bool")


def rule_of(link: Link, given: Any, axis: Dim, end_label: int, loop: Loop) -> LabelRules:
    """The rule of a choice, one object for all steps, so that it can cache."""
    if link.rule is None or link.rule.given is not given:
        most = loop.max_seq_len
        prefixes = None if link.rule is None else link.rule.prefixes  # a loop may give another rule in each step
        most = most if isinstance(most, int) else None
        link.rule = LabelRules(given, axis.extent, end_label, most, prefixes=prefixes)
    return link.rule


def _forced(prefix: Tensor, axis: Dim, loop: Loop, like: Tensor) -> Tensor:
    step = loop.num_steps - 1
    if not isinstance(prefix, Tensor):
        raise type_error(
            "choice: the prefix is no Tensor.",
            {"prefix": type(prefix).__name__, "scores": like},
            "It is the labels that each sequence begins with, -1 where it is free.",
            "prefix = rf.convert_to_tensor(labels, dims=[batch, time])",
        )
    times = [dim for dim in prefix.dims if dim not in like.dims]
    if len(times) > 1 or prefix.dtype[:3] != "int":
        raise value_error(
            "choice: the prefix does not fit the scores.",
            {"prefix": f"{shape_of(prefix)} {prefix.dtype}", "scores": like},
            "A prefix is labels {batch, time}: dims of the scores, and one of its own over its labels.",
            "rf.choice(scores, prefix=rf.convert_to_tensor(labels, dims=[batch, time]), ...)",
        )
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

    def check(host: np.ndarray) -> None:
        if (host >= axis.extent).any():
            raise ValueError(
                f"choice: the prefix has label {host.max()}, there are {axis.extent}.\nLabels of a prefix are in {axis.short_repr()}."
            )

    host = host_value(labels._raw, labels.backend)
    if isinstance(host, Value):
        Search.of(loop).wanted.check(host, check)
    else:
        check(host)
    index = on_backend(np.arange(axis.extent), (axis,), like, "int64")
    return math.combine_bc(math.compare_bc(labels, "equal", index), "logical_or", labels < 0)


def _anything(axis: Dim, like: Tensor) -> Tensor:
    return on_backend(np.ones(axis.extent, bool), (axis,), like, "bool")


def _not_these(banned: Sequence[int], axis: Dim, like: Tensor) -> Tensor:
    row = np.ones(axis.extent, bool)
    labels = np.atleast_1d(np.asarray(list(banned) if isinstance(banned, (set, frozenset)) else banned))
    whole = labels.dtype.kind in "iu" and labels.ndim == 1
    if labels.size and not (whole and ((labels >= 0) & (labels < axis.extent)).all()):
        raise value_error(
            "choice: a banned label is none.",
            {"banned": ", ".join(map(str, labels.tolist())), "labels": axis},
            "Labels are whole numbers, counted from 0.",
            "banned=[0, 2]",
        )
    row[labels.astype(np.int64)] = False
    return on_backend(row, (axis,), like, "bool")


def _no_ngram_again(written: HostArray | None, length: int, axis: Dim, like: Tensor) -> Tensor | None:
    """The mask without labels that would complete an n-gram that the hypothesis already contains."""
    if written is None or written[0].shape[-1] < length:
        return None
    tokens, dims = written
    ngrams = np.lib.stride_tricks.sliding_window_view(tokens, length, axis=-1)
    head = tokens[..., None, tokens.shape[-1] - length + 1 :]
    *place, _ = again = (ngrams[..., :-1] == head).all(-1).nonzero()
    mask = np.ones((*tokens.shape[:-1], axis.extent), bool)
    mask[(*place, ngrams[..., -1][again])] = False
    return on_backend(mask, (*dims, axis), like, "bool")
