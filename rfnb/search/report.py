"""The `beams` event of a choice: the kept and the cut candidates, and why.

The memory of a recorded search grows with steps times beam, not with the vocabulary: only the scores of the best candidates are kept. A
step merely extracts these; the fields of the event are computed when they are read.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.dim import Dim, Dims
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.rec.device_reads import DeviceReads, Value
from rfnb.rec.loop import Loop
from rfnb.rec.selection import align_host, take_host
from rfnb.search.decision import Decision
from rfnb.search.rank import FlatScores, Ranking, best_of_each_row, split_index, take
from rfnb.search.search_state import Link
from rfnb.trace.beam_fields import NUM_NEXT, CandidateFate
from rfnb.trace.probe import Later, listening, probe_later


@dataclass
class ScoreParts:
    """The parts of a score, for a report.

    Attributes:
        log_prob: Log probabilities of the labels in this step, unscaled and unfiltered, like `flat.raw`.
        base: The scores before this step, with length normalization, {batch, in_dim}; None means 0.
        fused: Scores of fused models by name, like log_prob.
        ended: The hypotheses that ended before this step.
        unblocked: The totals before labels were banned or cut by the threshold, if any were.
        limits: Like `unblocked`: the labels allowed by each of `blockers`.
        tokens: For several sources, the label of each in each continuation, like log_prob, with its dim.
        threshold: The threshold of the choice.
    """

    log_prob: Any
    base: Tensor | None
    fused: dict[str, Any]
    ended: Tensor | None = None
    unblocked: Any = None
    limits: list[Any] = field(default_factory=list)
    blockers: tuple[str, ...] = ()
    tokens: Sequence[tuple[Any, Dim | None]] = ()
    threshold: float | None = None


_FEW = 1024  # continuations, whose scores are kept until somebody looks


def num_candidates(keep_candidates: int | None, beam_size: int) -> int:
    """The number of candidates kept in the trace."""
    return max(beam_size, max(2 * beam_size, 8) if keep_candidates is None else keep_candidates)


class CandidateSubset(NamedTuple):
    """A subset of the continuations, {batch dims, n}: raw arrays.

    Attributes:
        index: Indices into the last axis of FlatScores.
        scores: Scores of the continuations.
        log_prob, fused, tokens: As in ScoreParts.
    """

    index: Any
    scores: Any
    log_prob: Any
    fused: dict[str, Any]
    tokens: list[Any]

    @classmethod
    def of(cls, flat: FlatScores, parts: ScoreParts, index: Any, scores: Any) -> CandidateSubset:
        """Extract them from the arrays over all continuations."""
        fused = {name: take(flat, index, raw) for name, raw in parts.fused.items()}
        tokens = [take(flat, index, raw) for raw, _ in parts.tokens]
        return cls(index, scores, take(flat, index, parts.log_prob), fused, tokens)

    def first(self, backend: Any, axis: int, count: int) -> CandidateSubset:
        """The first `count` of them."""
        return self.map(lambda raw: backend.slice_raw(raw, axis, 0, count))

    def map(self, fn: Callable[[Any], Any]) -> CandidateSubset:
        """Apply fn to every array."""
        fused = {name: fn(raw) for name, raw in self.fused.items()}
        return CandidateSubset(
            fn(self.index), fn(self.scores), fn(self.log_prob), fused, [fn(raw) for raw in self.tokens]
        )


@dataclass
class _Candidates:
    """The candidates of an event, kept ones first.

    Attributes:
        some: The candidates in order; from `unordered`: the kept ones, then the best before limits and threshold.
        is_kept: Which are kept; None: the first ones.
        verdict, by: Why the others were not kept; None if they were cut.
        taken: {batch dims, in_dim}: the forbidden probability of each hypothesis; None if there are no limits.
        limits, passed: From `unordered`: what each blocker allows, and the scores after the threshold.
    """

    some: CandidateSubset
    is_kept: Any = None
    verdict: Any = None
    by: Any = None
    taken: Any = None
    limits: Sequence[Any] = ()
    passed: Any = None

    @classmethod
    def unordered(cls, flat: FlatScores, parts: ScoreParts, kept: CandidateSubset, size: int) -> _Candidates:
        """Take them from the arrays over all continuations, with their scores before any limit."""
        backend, totals = flat.backend, flat.raw if parts.unblocked is None else parts.unblocked
        both = backend.concat_raw([kept.index, backend.top_k_raw(totals, size, True)[1]], len(flat.rest))
        return cls(
            CandidateSubset.of(flat, parts, both, take(flat, both, totals)),
            taken=_taken(flat, parts) if parts.limits else None,
            limits=[take(flat, both, limit) for limit in parts.limits],
            passed=None if parts.threshold is None else take(flat, both, flat.raw),
        )


class ChoiceRecord:
    """A step's record of its choice, from which fields are computed on demand.

    Args:
        count: Number of candidates.

    Attributes:
        carried: The dim of the kept hypotheses, between steps.
    """

    def __init__(self, name: str, flat: FlatScores, ranked: Ranking, parts: ScoreParts, link: Link, count: int):
        self.name, self.in_order = name, ranked.in_order
        self.num_kept = ranked.count
        self.carried = link.dims(self.num_kept)[1]
        self.flat = FlatScores(None, flat.rest, flat.num_labels, flat.in_dim, flat.axis, flat.backend)
        self.token_dims = [dim for _, dim in parts.tokens]
        options: dict[str, Any] = {"length_exponent": link.normalized, "threshold": parts.threshold}
        self.options = {name: value for name, value in options.items() if value is not None}
        if parts.blockers:
            self.options["blockers"] = list(parts.blockers)
        backend, axis = flat.backend, len(flat.rest)
        best = ranked.scores
        if backend.grad_enabled():
            flat, parts = _mapped(flat, parts, backend.detach_raw)
            best = backend.detach_raw(best)
            if parts.base is not None:
                parts.base = new_tensor(backend.detach_raw(parts.base._raw), parts.base.dims)
        self.base, self.ended_before = parts.base, parts.ended
        usual = ranked.in_order and parts.unblocked is None
        self.is_prefix = usual and (ranked.distinct or (ranked.is_known and ranked.host.min(initial=0) > -np.inf))
        self.more: dict[str, tuple[np.ndarray, str]] = {}  # further fields over the beam, with their dtype
        totals = flat.raw if parts.unblocked is None else parts.unblocked
        shape = backend.get_shape_tuple_raw(totals)
        self.count = size = min(count, shape[-1])
        self.is_prefix = self.is_prefix and self.num_kept <= size
        self._on_way: list[Value] | None = None  # what `host` is made of
        self.kept: CandidateSubset | None = None
        self._ordered: _Candidates | None = None
        if usual:
            if ranked.more is not None and (self.is_prefix or (self.num_kept <= size and not ranked.is_known)):
                scores, index = ranked.more
                scores = backend.detach_raw(scores) if backend.grad_enabled() else scores
            else:
                scores, index = backend.top_k_raw(totals, size, True)
                if self.is_prefix:
                    further = backend.slice_raw(index, axis, self.num_kept, size)
                    index = backend.concat_raw([ranked.index, further], axis)
            self._ordered = _Candidates(CandidateSubset.of(flat, parts, index, scores))
            if not self.is_prefix:
                self._ordered.is_kept = _any_same(backend, index, ranked.index, ranked.scores, axis)
                self.kept = CandidateSubset.of(flat, parts, ranked.index, best)
        else:  # which were the best others, and what a limit has taken away, is found when somebody looks
            # Of few continuations all are told: slots that nothing fills take the place of none that was forbidden.
            self.kept, others = (
                CandidateSubset.of(flat, parts, ranked.index, best),
                size - (shape[-1] > count) * self.num_kept,
            )
            self.count = self.num_kept + max(others, 0)
            if math.prod(shape) <= _FEW:
                self._others: Callable[[], _Candidates] = functools.partial(
                    _Candidates.unordered, *_mapped(flat, parts, backend.copy_raw), self.kept, size
                )
            else:
                found = _Candidates.unordered(flat, parts, self.kept, size)
                self._others = lambda: found
        # the best labels of each hypothesis before the choice, and their log probabilities
        self.next: tuple[Any, Any] | None = None
        if listening("beams") and not parts.tokens:
            shape = backend.get_shape_tuple_raw(parts.log_prob)
            of_each = backend.reshape_raw(parts.log_prob, (*shape[:-1], shape[-1] // flat.num_labels, flat.num_labels))
            log_probs, labels = best_of_each_row(flat, of_each, min(NUM_NEXT, flat.num_labels))
            self.next = labels, log_probs

    def _in_order_now(self) -> _Candidates:
        """The kept candidates in beam order, then the best others, with the reason why some are impossible."""
        if self._ordered is not None:
            return self._ordered
        flat, backend, axis, kept, others = self.flat, self.flat.backend, len(self.flat.rest), self.kept, self._others()
        assert kept is not None
        both, is_impossible = others.some, backend.unary_fn("is_neg_infinite")
        size = backend.get_shape_tuple_raw(both.index)[-1]
        scores, index = (backend.slice_raw(raw, axis, self.num_kept, size) for raw in (both.scores, both.index))
        is_kept = _any_same(backend, index, kept.index, kept.scores, axis)
        worse = backend.where_raw(is_kept, float("-inf"), scores)
        best, place = backend.top_k_raw(worse, self.count - self.num_kept, True)
        shape, device = [*backend.get_shape_tuple_raw(place)[:-1], self.num_kept], backend.get_device_raw(place)
        first = backend.from_numpy(np.broadcast_to(np.arange(self.num_kept), shape), dtype="int64", device=device)
        order = backend.concat_raw([first, backend.binary_fn("add")(place, self.num_kept)], axis)

        def like(raw: Any) -> Any:
            return take(flat, order, raw)

        free = like(both.scores)
        joined = backend.concat_raw([kept.scores, best], axis)
        out = _Candidates(both.map(like)._replace(scores=joined), taken=others.taken)
        real = backend.unary_fn("logical_not")(is_impossible(kept.scores))
        out.is_kept = backend.concat_raw([real, backend.binary_fn("not_equal")(best, best)], axis)

        def new(value: int) -> Any:
            return backend.full_raw(backend.get_shape_tuple_raw(order), value, dtype="int64", device=device)

        if others.passed is not None or others.limits:
            out.verdict = new(int(CandidateFate.CUT))
        if others.passed is not None:
            gone = is_impossible(like(others.passed))
            out.verdict = backend.where_raw(gone, int(CandidateFate.BELOW_THRESHOLD), out.verdict)
        if others.limits:
            out.by, limits = new(0), [*map(like, others.limits)]
            banned = is_impossible(free)
            for number, limit in reversed([*enumerate(limits, 1)]):
                banned = backend.where_raw(limit, banned, True)
                out.by = backend.where_raw(limit, out.by, number)
            out.verdict = backend.where_raw(banned, int(CandidateFate.BLOCKED), out.verdict)
        self._ordered = out
        return out

    def fields(self, ended: np.ndarray | None, ended_dims: Dims) -> dict[str, Any]:
        """The fields of the event. `ended`: the hypotheses that ended by this step; None if there are none."""
        found = self._in_order_now()
        flat, backend = self.flat, self.flat.backend
        kept = found.some.first(backend, len(flat.rest), self.num_kept) if self.kept is None else self.kept
        carried = (*flat.rest, self.carried)
        device, dtype = backend.get_device_raw(kept.scores), backend.get_dtype_name_raw(kept.scores)
        shape = [dim.extent for dim in carried]
        parents, own = self._of(kept, carried)
        host = _ended_in(ended, ended_dims, carried)
        if self.base is None or flat.in_dim is None:
            base = backend.full_raw(shape, 0, dtype=dtype, device=device)
        else:
            rows = FlatScores(over_hypotheses(self.base, flat), flat.rest, 1, None, flat.in_dim, backend)
            base = take(rows, parents)
        taken = {}
        if found.taken is not None:
            rows = FlatScores(found.taken, flat.rest, 1, None, flat.axis, backend)
            taken["taken"] = new_tensor(take(rows, parents), carried)
        elif "blockers" in self.options:  # they forbid nothing here
            taken["taken"] = new_tensor(backend.full_raw(shape, 0, dtype=dtype, device=device), carried)
        tokens = {name: value for name, value in own.items() if name.startswith("tokens")}
        parents = new_tensor(parents, carried)
        parents.sparse_dim = self.carried if flat.in_dim is None else flat.in_dim
        fields: dict[str, Any] = {
            "name": self.name, **tokens, "parents": parents,
            "ended": new_tensor(backend.from_numpy(host, dtype="bool", device=device), carried),
            **{name: value for name, value in own.items() if name not in tokens},
            "base": new_tensor(base, carried), "by_rank": self.in_order or "left" in self.more, **taken, **self.options,
        }  # fmt: skip
        for name, (array, kind) in self.more.items():
            fields[name] = new_tensor(backend.from_numpy(array, dtype=kind, device=device), carried)
        return fields | self._candidate_fields(found, device) | self._next_fields()

    def _next_fields(self) -> dict[str, Any]:
        if self.next is None:
            return {}
        flat, backend = self.flat, self.flat.backend
        shape = backend.get_shape_tuple_raw(self.next[0])
        dims = (*flat.rest, *(() if flat.in_dim is None else (flat.in_dim,)), Dim(shape[-1], name="next"))
        sizes = shape if flat.in_dim is not None else (*shape[:-2], shape[-1])
        labels, log_probs = (new_tensor(backend.reshape_raw(raw, sizes), dims) for raw in self.next)
        labels.sparse_dim = flat.axis
        return {"next_tokens": labels, "next_log_probs": log_probs}

    def _candidate_fields(self, found: _Candidates, device: str) -> dict[str, Any]:
        flat, backend = self.flat, self.flat.backend
        shape = backend.get_shape_tuple_raw(found.some.index)
        dims = (*flat.rest, Dim(shape[-1], name="candidate"))
        parents, own = self._of(found.some, dims)
        if found.is_kept is None:
            is_kept, verdict = _first_are_kept(backend, device, tuple(shape), self.num_kept)
        else:
            is_kept = found.is_kept
            verdict = backend.where_raw(
                is_kept, CandidateFate.KEPT, CandidateFate.CUT if found.verdict is None else found.verdict
            )
        own |= {
            "parents": new_tensor(parents, dims),
            "kept": new_tensor(is_kept, dims),
            "verdict": new_tensor(verdict, dims),
        }
        if found.by is not None:
            blocked = backend.binary_fn("equal")(verdict, int(CandidateFate.BLOCKED))
            own["by"] = new_tensor(backend.where_raw(blocked, found.by, 0), dims)
        elif "blockers" in self.options:
            own["by"] = new_tensor(backend.full_raw(shape, 0, dtype="int64", device=device), dims)
        return {f"cand_{name}": value for name, value in own.items()}

    def _of(self, some: CandidateSubset, dims: Dims) -> tuple[Any, dict[str, Tensor]]:
        """The raw parents of these continuations, and their labels, scores and parts. Ended hypotheses continue at no cost."""
        flat, backend = self.flat, self.flat.backend
        parents, labels = split_index(flat, some.index)
        out = {"tokens": new_tensor(labels, dims)}
        out["tokens"].sparse_dim = flat.axis
        for place, (raw, sparse_dim) in enumerate(zip(some.tokens, self.token_dims)):
            value = out[f"tokens:{place}" if place else "tokens"] = new_tensor(raw, dims)
            value.sparse_dim = sparse_dim
        out["scores"] = new_tensor(some.scores, dims)
        parts = {"log_probs": some.log_prob, **{f"part:{name}": raw for name, raw in some.fused.items()}}
        if self.ended_before is not None:
            rows = FlatScores(over_hypotheses(self.ended_before, flat), flat.rest, 1, None, flat.axis, backend)
            ended = take(rows, parents)
            parts = {name: backend.where_raw(ended, 0.0, raw) for name, raw in parts.items()}
        return parents, out | {name: new_tensor(raw, dims) for name, raw in parts.items()}

    def want(self, wanted: DeviceReads) -> None:
        """Announce that `host` will be read in every step."""
        if not self.flat.backend.is_on_host_raw(self._host_of().index):
            self._on_way = [wanted.add(Value(raw, self.flat.backend)) for raw in self._of_host()]

    def _host_of(self) -> CandidateSubset:
        """The kept candidates, possibly followed by others."""
        if self.kept is not None:
            return self.kept
        assert self._ordered is not None
        return self._ordered.some

    def _of_host(self) -> list[Any]:
        """The raw arrays behind `host`."""
        some = self._host_of()
        before = (self.ended_before, self.base if self.flat.in_dim is not None else None)
        raws = [over_hypotheses(value, self.flat) for value in before if value is not None]
        return [some.index, some.scores, some.log_prob, *some.fused.values(), *raws]

    def host(self, ended: np.ndarray | None, ended_dims: Dims) -> dict[str, np.ndarray]:
        """The kept hypotheses and the parts of their scores, as host arrays [batch, beam]."""
        flat, backend = self.flat, self.flat.backend
        rows = math.prod(dim.extent for dim in flat.rest)
        on_way = self._on_way
        arrays = backend.raws_to_numpy(self._of_host()) if on_way is None else [value() for value in on_way]
        given = iter(arrays)
        own = lambda: next(given).reshape(rows, -1)[:, : self.num_kept]  # noqa: E731
        carried = (*flat.rest, self.carried)
        (parents, tokens), scores = np.divmod(own(), flat.num_labels), own()
        of_parents = lambda: take_host(next(given).reshape(rows, -1), parents, 1)  # noqa: E731
        fused = self._host_of().fused
        parts = {name: own() for name in ("log_probs", *(f"part:{name}" for name in fused))}
        if self.ended_before is not None:
            before = of_parents()
            parts = {name: np.where(before, 0, array) for name, array in parts.items()}
        host = _ended_in(ended, ended_dims, carried)
        base = np.zeros_like(scores) if self.base is None or flat.in_dim is None else of_parents()
        more = {name: np.reshape(array, (rows, -1)) for name, (array, _) in self.more.items()}
        return {
            "tokens": tokens, "parents": parents, "scores": scores, "ended": host.reshape(rows, -1), "base": base, **parts, **more
        }  # fmt: skip

    def num_bytes(self) -> int:
        """The size in bytes of the fields once computed."""
        rows = math.prod(dim.extent for dim in self.flat.rest)
        some, count = self._host_of(), self.count
        floats, labels = 1 + len(some.fused), max(len(some.tokens), 1)
        width = 4 * (1 + floats) + 8 * (1 + labels)  # scores and parts; parents and labels
        following = 0 if self.next is None else math.prod(self.flat.backend.get_shape_tuple_raw(self.next[0])[-2:])
        return rows * (self.num_kept * (width + 4 + 1) + count * (width + 8 + 1) + following * (8 + 4))


def tell(
    loop: Loop, decision: Decision, seen: ChoiceRecord, before: Callable[[], tuple[np.ndarray | None, Dims]]
) -> None:
    """Complete the decision at the end of the step, once the ended hypotheses are known, and send the event.

    Args:
        before: The hypotheses that ended before the step, reordered for those after this choice, if it is not the last of the step.
    """
    last = loop.selections.now is decision and seen.carried is decision.carried
    host, dims = (loop.ended, loop.end_dims) if last else before()
    told = Later(lambda: seen.fields(host, dims), seen.num_bytes(), lambda: seen.host(host, dims))
    keep = decision.out_dim.search.keep
    if keep is not None:
        keep(told)
    probe_later("beams", told)


def _ended_in(ended: np.ndarray | None, ended_dims: Dims, dims: Dims) -> np.ndarray:
    """The ended hypotheses over `dims`; all False for None."""
    shape = [dim.extent for dim in dims]
    if ended is None:
        return np.zeros(shape, bool)
    return ended if ended_dims == dims else np.broadcast_to(align_host(ended, ended_dims, dims), shape)


def _any_same(backend: Any, index: Any, kept: Any, scores: Any, axis: int) -> Any:
    """The entries of `index` that are in `kept`, where `kept` holds a real hypothesis."""
    kept = backend.where_raw(backend.unary_fn("is_neg_infinite")(scores), -1, kept)
    same = backend.binary_fn("equal")(backend.expand_dims_raw(index, axis + 1), backend.expand_dims_raw(kept, axis))
    return backend.reduce_raw(same, "any", (axis + 1,))


def _mapped(flat: FlatScores, parts: ScoreParts, fn: Callable[[Any], Any]) -> tuple[FlatScores, ScoreParts]:
    """Apply fn to the arrays over all continuations that are read later, except the limits."""
    free, is_needed = parts.unblocked, parts.unblocked is None or parts.threshold is not None
    own = ScoreParts(
        fn(parts.log_prob), parts.base, {name: fn(raw) for name, raw in parts.fused.items()}, parts.ended,
        None if free is None else fn(free), parts.limits, parts.blockers, parts.tokens, parts.threshold,
    )  # fmt: skip
    raw = fn(flat.raw) if is_needed else None
    return FlatScores(raw, flat.rest, flat.num_labels, flat.in_dim, flat.axis, flat.backend), own


def _taken(flat: FlatScores, parts: ScoreParts) -> Any:
    """{batch dims, in_dim}: the probability of the labels forbidden to each hypothesis."""
    backend, (allowed, *more) = flat.backend, parts.limits
    for limit in more:
        allowed = backend.binary_tensors_fn("logical_and")(allowed, limit)
    lost = backend.binary_tensors_fn("mul")(
        backend.unary_fn("exp")(parts.log_prob), backend.unary_fn("logical_not")(allowed)
    )
    shape = backend.get_shape_tuple_raw(lost)
    of_each = backend.reshape_raw(lost, (*shape[:-1], shape[-1] // flat.num_labels, flat.num_labels))
    return backend.reduce_raw(of_each, "sum", (len(shape),))


@functools.lru_cache(maxsize=64)
def _first_are_kept(backend: Any, device: str, shape: tuple[int, ...], count: int) -> tuple[Any, Any]:
    host = np.broadcast_to(np.arange(shape[-1]) < count, shape)
    verdict = np.where(host, CandidateFate.KEPT, CandidateFate.CUT)
    return tuple(
        backend.from_numpy(np.ascontiguousarray(x), dtype=dtype, device=device)
        for x, dtype in ((host, "bool"), (verdict, "int64"))
    )


def over_hypotheses(value: Tensor, flat: FlatScores) -> Any:
    """A value of the hypotheses before the choice as a raw array {batch dims, in_dim}."""
    dims = flat.rest if flat.in_dim is None else (*flat.rest, flat.in_dim)
    if value.dims == dims:  # most are
        return value._raw if flat.in_dim is not None else flat.backend.expand_dims_raw(value._raw, len(flat.rest))
    raw = flat.backend.broadcast_raw(value.copy_compatible_to_dims(dims)._raw, [dim.extent for dim in dims])
    return raw if flat.in_dim is not None else flat.backend.expand_dims_raw(raw, len(flat.rest))
