"""The `beams` event of a choice: what was kept and what was cut, and why.

Memory of a recorded search grows with steps times beam, not with the vocabulary: of the scores of all labels only the best
candidates are kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.ops.const import zeros
from rfnb.rec.loop import Loop
from rfnb.rec.selection import align_host
from rfnb.search.rank import Flat, Ranked, out_tensor, split_index, take
from rfnb.search.search_state import Link, on_backend
from rfnb.trace.probe import probe

KEPT, CUT, BELOW_THRESHOLD, BLOCKED = range(4)  # cand_verdict; see `VERDICTS` of rfnb/trace/beam_fields.py


@dataclass
class Parts:
    """What a score is made of, for a report.

    Attributes:
        log_prob: Of the labels in this step, unscaled, before anything is filtered, like `flat.raw`.
        base: The scores before this step, with length normalization, {batch, in_dim}; None: 0.
        fused: By name, like log_prob.
        ended: Which hypotheses have ended before.
        unblocked: The totals as they were before labels were banned or fell below the threshold, if any did.
        verdict: Like `unblocked`: for what is not possible the reason.
        tokens: Of several sources the label of each for each continuation, like log_prob, and what it is of.
    """

    log_prob: Any
    base: Tensor | None
    fused: dict[str, Any]
    ended: Tensor | None = None
    unblocked: Any = None
    verdict: Any = None
    tokens: Sequence[tuple[Any, Dim | None]] = ()


def num_candidates(keep_candidates: int | None, beam_size: int) -> int:
    """How many candidates the trace gets."""
    return max(beam_size, max(2 * beam_size, 8) if keep_candidates is None else keep_candidates)


def candidates(flat: Flat, ranked: Ranked, count: int, parts: Parts) -> dict[str, Tensor]:
    """The best continuations, kept ones first."""
    backend = flat.backend
    axis = len(flat.rest)
    totals = flat.raw if parts.unblocked is None else parts.unblocked
    size = min(count, backend.get_shape_tuple_raw(totals)[-1])
    if is_prefix(ranked, parts, size) and ranked.more is not None:
        scores, index = ranked.more
    else:
        scores, index = backend.top_k_raw(totals, size, True)
    if is_prefix(ranked, parts, size):
        shape = (*backend.get_shape_tuple_raw(scores)[:-1], size)
        kept, verdict = _first_are_kept(backend, backend.get_device_raw(scores), shape, ranked.host.shape[-1])
        if ranked.more is None:
            index = backend.concat_raw(
                [ranked.index, backend.slice_raw(index, axis, ranked.host.shape[-1], size)], axis
            )
    else:
        kept = _any_same(backend, index, ranked.index, ranked.scores, axis)
        if not ranked.in_order or parts.unblocked is not None:
            scores, index, kept = _kept_first(flat, scores, index, kept, ranked)
        verdict = backend.where_raw(kept, KEPT, CUT)
    dim = Dim(backend.get_shape_tuple_raw(index)[-1], name="candidate")
    parent, label = split_index(flat, index)
    labels = _labels(flat, parts, index, label)
    fields = {f"cand_{name}": raw for name, (raw, _) in labels.items()}
    fields |= {"cand_parents": parent, "cand_scores": scores, "cand_kept": kept}
    if parts.verdict is not None:
        verdict = backend.where_raw(kept, KEPT, take(flat, index, parts.verdict))
    fields["cand_verdict"] = verdict
    fields["cand_log_probs"] = _own(flat, parts, parts.log_prob, index, parent)
    for name, raw in parts.fused.items():
        fields[f"cand_part:{name}"] = _own(flat, parts, raw, index, parent)
    out = {name: new_tensor(raw, (*flat.rest, dim)) for name, raw in fields.items()}
    for name, (_, sparse_dim) in labels.items():
        out[f"cand_{name}"].sparse_dim = sparse_dim
    return out


def _labels(flat: Flat, parts: Parts, index: Any, label: Any) -> dict[str, tuple[Any, Dim | None]]:
    """`tokens` of continuations, and of further sources `tokens:1` and so on; and what each is of."""
    if not parts.tokens:
        return {"tokens": (label, flat.axis)}
    names = ("tokens", *(f"tokens:{source}" for source in range(1, len(parts.tokens))))
    return {name: (take(flat, index, raw), dim) for name, (raw, dim) in zip(names, parts.tokens)}


def is_prefix(ranked: Ranked, parts: Parts, size: int) -> bool:
    """Whether what is kept are simply the first candidates."""
    kept = ranked.host.shape[-1]
    return ranked.in_order and parts.unblocked is None and kept <= size and ranked.host.min(initial=0) > -np.inf


@functools.lru_cache(maxsize=64)
def _first_are_kept(backend: Any, device: str, shape: tuple[int, ...], count: int) -> tuple[Any, Any]:
    host = np.broadcast_to(np.arange(shape[-1]) < count, shape)
    verdict = np.where(host, KEPT, CUT)
    return tuple(
        backend.from_numpy(np.ascontiguousarray(x), dtype=dtype, device=device)
        for x, dtype in ((host, "bool"), (verdict, "int64"))
    )


def _any_same(backend: Any, index: Any, kept: Any, scores: Any, axis: int) -> Any:
    """Which of `index` are in `kept`, where that has a hypothesis at all."""
    kept = backend.where_raw(backend.unary_fn("is_neg_infinite")(scores), -1, kept)
    same = backend.binary_fn("equal")(backend.expand_dims_raw(index, axis + 1), backend.expand_dims_raw(kept, axis))
    return backend.reduce_raw(same, "any", (axis + 1,))


def _kept_first(flat: Flat, scores: Any, index: Any, kept: Any, ranked: Ranked) -> tuple[Any, Any, Any]:
    """Kept ones, in the order of the beam, then the best others."""
    backend, axis = flat.backend, len(flat.rest)
    count = max(backend.get_shape_tuple_raw(index)[-1] - ranked.host.shape[-1], 0)
    others = backend.where_raw(kept, float("-inf"), scores)
    best, place = backend.top_k_raw(others, count, True) if count else (backend.slice_raw(others, axis, 0, 0), None)
    more = backend.slice_raw(index, axis, 0, 0) if place is None else take(flat, place, index)
    real = backend.unary_fn("logical_not")(backend.unary_fn("is_neg_infinite")(ranked.scores))
    join = lambda a, b: backend.concat_raw([a, b], axis)  # noqa: E731
    false = backend.binary_fn("not_equal")(best, best)
    return join(ranked.scores, best), join(ranked.index, more), join(real, false)


def report(
    loop: Loop, link: Link, name: str, flat: Flat, ranked: Ranked, in_dim: Dim | None, out_dim: Dim, parts: Parts,
    candidates: dict[str, Tensor], before: Callable[[], np.ndarray | None],
) -> None:  # fmt: skip
    """The `beams` event of this step, at its end, when it is known what has ended."""
    carried = link.dims(out_dim.extent)[1]
    backend, count, axis = flat.backend, out_dim.extent, len(flat.rest)
    make = lambda raw, sparse=None: out_tensor(raw, flat, carried, sparse)  # noqa: E731
    kept: dict[str, Any] = {}
    if is_prefix(ranked, parts, candidates["cand_tokens"].dims[-1].extent):
        kept = {name: backend.slice_raw(value._raw, axis, 0, count) for name, value in candidates.items()}
        label, parent = kept["cand_tokens"], kept["cand_parents"]
    else:
        parent, label = split_index(flat, ranked.index)
    named = _labels(flat, parts, ranked.index, label) if parts.tokens else {"tokens": (label, flat.axis)}
    labels = {name: make(raw, sparse_dim) for name, (raw, sparse_dim) in named.items()}
    tokens = labels["tokens"]
    log_probs = kept["cand_log_probs"] if kept else _own(flat, parts, parts.log_prob, ranked.index, parent)
    base = None
    if parts.base is not None and in_dim is not None:
        own = over_hypotheses(parts.base, flat)
        base = take(Flat(own, flat.rest, 1, None, in_dim, flat.backend), parent)
    fused: dict[str, Any] = {f"part:{key}": make(_own(flat, parts, raw, ranked.index, parent)) for key, raw in parts.fused.items()}
    if link.normalized is not None:
        fused["length_exponent"] = link.normalized
    probe(
        "beams",
        name=name,
        **labels,
        parents=make(parent, in_dim if in_dim is not None else carried),
        scores=make(ranked.scores),
        ended=_ended(loop, link, tokens, carried, before),
        log_probs=make(log_probs),
        base=make(base) if base is not None else zeros(tokens.dims, dtype=link_dtype(flat), device=tokens.device),
        by_rank=ranked.in_order,
        **fused,
        **candidates,
    )


def over_hypotheses(value: Tensor, flat: Flat) -> Any:
    """A value of the hypotheses before the choice as raw array {batch dims, in_dim}."""
    dims = flat.rest if flat.in_dim is None else (*flat.rest, flat.in_dim)
    raw = flat.backend.broadcast_raw(value.copy_compatible_to_dims(dims)._raw, [dim.extent for dim in dims])
    return raw if flat.in_dim is not None else flat.backend.expand_dims_raw(raw, len(flat.rest))


def _own(flat: Flat, parts: Parts, raw: Any, index: Any, parent: Any) -> Any:
    """A part of the scores at an index; what has ended goes on for nothing."""
    out = take(flat, index, raw)
    if parts.ended is None:
        return out
    ended = take(flat, parent, over_hypotheses(parts.ended, flat))
    return flat.backend.where_raw(ended, 0.0, out)


def link_dtype(flat: Flat) -> str:
    """The dtype of the scores."""
    return flat.backend.get_dtype_name_raw(flat.raw)


def _ended(loop: Loop, link: Link, tokens: Tensor, carried: Dim, before: Callable[[], np.ndarray | None]) -> Tensor:
    shape = [dim.extent for dim in tokens.dims]
    last = loop.selection is not None and loop.selection.carried is carried
    host, dims = (loop.ended, loop.end_dims) if last else (before(), tokens.dims)
    if host is None:
        return zeros(tokens.dims, dtype="bool", device=tokens.device)
    return on_backend(np.broadcast_to(align_host(host, dims, tokens.dims), shape), tokens.dims, tokens, "bool")
