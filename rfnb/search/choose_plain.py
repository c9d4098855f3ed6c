"""The ordinary choice, which adds log probabilities and keeps the best: equivalent to `choose` without other options, in fewer calls.

In a search for one sentence, a step of the model takes a few hundred microseconds, so each Python call counts. Everything that stays the
same between steps is prepared once. The ranking is a program over raw arrays: `for` loops run it, and recorded loops include it in their
step, where `loop.plan.program` shows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from rfnb.core.dim import Dim, Dims, HostArray
from rfnb.core.layout import full_shape, to_order
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.rec.device_reads import Value
from rfnb.rec.loop import Loop
from rfnb.rec.lowering import LoweredCall
from rfnb.rec.program import Listing, Program, ProgramCode
from rfnb.rec.selection import align_host
from rfnb.search import rank
from rfnb.search.choose import choose, follow, parts_of, tell_at_end
from rfnb.search.constraints import NODES, rule_of
from rfnb.search.decision import Decision
from rfnb.search.label_rules import LabelRules
from rfnb.search.options import ChoiceOptions
from rfnb.search.report import num_candidates
from rfnb.search.score import check_log_probs, only_end_label, stay_row
from rfnb.search.search_state import Link, Search, on_backend, place_of


def choose_plain(loop: Loop, scores: Tensor, axis: Dim, options: ChoiceOptions) -> Tensor:
    """Choose the labels of the best hypotheses, {batch, beam}.

    Args:
        scores: Log probabilities {..., axis}.
    """
    search = Search.of(loop)
    link, last = search.next_link(loop), search.last
    plain = link.plain
    if plain is None or last is None or not plain.fits(scores, last, axis, options.beam_size):
        plain = link.plain = _prepared(loop, search, link, last, scores, axis, options.beam_size)
    if plain is None or link.cheats or loop.step.decisions or (last is None and search.is_watched()):
        return choose(loop, scores, axis, options)
    ended = search.ended(loop)
    rule = None if options.allowed is None else rule_of(link, options.allowed, axis, options.end_label, loop)
    if rule is not None and not plain.takes_rule(ended):
        return choose(loop, scores, axis, options)
    if search.is_watched():
        return _watched(loop, search, link, plain, scores, options, ended, rule)
    decision = plain(scores._raw, ended, rule)
    return choose(loop, scores, axis, options) if decision is None else decision.tokens


def _watched(
    loop: Loop,
    search: Search,
    link: Link,
    plain: PlainChoices,
    scores: Tensor,
    options: ChoiceOptions,
    ended: HostArray | None,
    rule: LabelRules | None,
) -> Tensor:
    """The same, with everything that observers may ask for."""
    axis, count = plain.axis, options.beam_size
    has_ended, own = None, scores
    if ended is not None:
        has_ended = on_backend(*ended, scores, "bool")
        own = only_end_label(scores, has_ended, axis, link, 0)
        if own.dims != scores.dims:
            own = own.copy_transpose(scores.dims)
    base = search.begin()[1]
    total = own if base is None else own + base
    flat, limit = rank.flat_of(total, plain.in_dim, axis, plain.dims[:-1]), None
    free = flat.raw
    if rule is not None:
        nodes, limit = plain.limited(rule, ended)
        if limit is not None:
            limit = plain.backend.reshape_raw(limit, plain.shape)
            flat.raw = plain.backend.where_raw(limit, free, plain.never(free))
    ranked = rank.best_of(flat, count, num_candidates(None, count))
    if not ranked.is_known:
        rank.check_later(search.wanted, flat, ranked, total.dims, (scores.dims, scores.dtype), place_of(loop))
    else:
        rank.check_ranked(flat, ranked, total, place_of(loop))
        check_log_probs(ranked.host, flat.rest, scores, lambda: place_of(loop))
    parts = parts_of(flat, total, total, None, scores, base, options, has_ended)
    if rule is not None:
        parts.blockers = (rule.name,)
    if limit is not None:
        parts.unblocked, parts.limits = free, [limit]
    labels = follow(search, link, flat, ranked)
    if rule is not None:
        plain.note(rule, nodes)
    tell_at_end(loop, link, flat, ranked, parts, options)
    return labels


class PlainChoices:
    """The preparation shared by the steps of a search.

    Attributes:
        kind, scores, axis, in_dim, base, count: What it applies to: class of raw array, dims of the scores, labels, beam before the
            choice (None: one hypothesis), dims of the previous scores (None if there are none), beam size.
        order: Transposes a raw array of scores to {batch dims, in_dim, axis}; None if it already has this order.
        base_shape, shape: Shapes of the previous scores for the addition, and of the sums {batch dims, hypothesis * label}.
        dims: Dims of the results.
        parents_dim: The beam that parents index into.
        over: The dims of the hypotheses before the choice.
    """

    def __init__(
        self, loop: Loop, link: Link, scores: Tensor, axis: Dim, in_dim: Dim | None, base: Dims | None, count: int
    ):  # fmt: skip
        rest = tuple(dim for dim in scores.dims if dim is not in_dim and dim is not axis)
        axes = (axis,) if in_dim is None else (in_dim, axis)
        self.search, self.link, self._place = link.search, link, f'choice in loop "{loop.name}", step '
        self._on_host, self._device = scores.backend.is_on_host_raw(scores._raw), scores.device
        self.kind, self.scores, self.axis, self.in_dim = scores._raw.__class__, scores.dims, axis, in_dim
        self.base, self.count, self.backend = base, count, scores.backend
        self.order = to_order(scores.dims, (*rest, *axes), scores.backend)
        self.base_shape = None if base is None else (*full_shape(base), 1)
        self.shape = (*full_shape(rest), math.prod(full_shape(axes)))
        out_dim, carried = link.dims(count)
        self.dims, self.parents_dim = (*rest, out_dim), carried if in_dim is None else in_dim
        self.over = rest if in_dim is None else (*rest, in_dim)
        self._before = full_shape(self.over)
        self._nevers: dict[Any, Any] = {}
        self._rankings: dict[Any, Program] = {}  # raw scores to raw results

    def fits(self, scores: Tensor, last: Decision, axis: Dim, count: int) -> bool:
        """True if it applies to this step."""
        in_dim = last.carried if last.closed else last.out_dim
        return (
            self.in_dim is in_dim and self.axis is axis and self.scores == scores.dims and self.base == last.scores.dims
            and self.kind is scores._raw.__class__ and self.count == count
        )  # fmt: skip

    def __call__(self, raw: Any, ended: HostArray | None, rule: LabelRules | None = None) -> Decision | None:
        """Let the loop follow the best continuations. Returns None in the rare cases that some scores are equal or there is something
        to report. On a device, which must not be waited for, neither is checked: ties are broken by order; errors are reported at
        the end of the step.

        Args:
            raw: Log probabilities over `scores`.
            ended: The hypotheses that ended before this step, and the dims of this array.
            rule: The rule for hypotheses.
        """
        search, link = self.search, self.link
        last, args, limit = search.last, [raw], None
        if last is not None:
            if last.scores.dims != self.base:
                return None
            args.append(last.scores._raw)
        if ended is not None:
            mask = self._mask_of(*ended, raw)
            if mask is None:
                return None
            args.append(mask)
        if rule is not None:
            nodes, limit = self.limited(rule, ended)
            if limit is not None:
                args.append(limit)
        best, parents, labels, total = self._program(raw, ended is not None, limit is not None).run(*args)
        if self._on_host:
            host = self.backend.raw_to_numpy(best)
            if not rank.falls(host, self.count + 1, 0.0):
                if limit is None or not rank.falls_until_impossible(host):
                    return None
                impossible = self.backend.unary_fn("is_neg_infinite")(total)
                parents, labels = (self.backend.where_raw(impossible, 0, x) for x in (parents, labels))
        dims, axis = self.dims, self.axis
        of_parents, tokens = new_tensor(parents, dims), new_tensor(labels, dims)
        of_parents.sparse_dim, tokens.sparse_dim = self.parents_dim, axis
        decision = search.decide(link, self.in_dim, of_parents, tokens, new_tensor(total, dims))
        if rule is None:
            decision.again = self
        else:
            self.note(rule, nodes)
        if not self._on_host:
            self._check_later(decision, raw)
        return decision

    def _check_later(self, decision: Decision, raw: Any) -> None:
        backend, total = self.backend, decision.scores._raw
        # Only hypotheses are told, so a parent is as good as the index of a continuation.
        flat = rank.FlatScores(None, self.dims[:-1], 1, self.in_dim, self.axis, backend)
        ranked = rank.Ranking(total, decision.parents._raw, Value(total, backend))
        given = self.scores, backend.get_dtype_name_raw(raw)
        rank.check_later(self.search.wanted, flat, ranked, self.scores, given, f"{self._place}{decision.step}")

    def listings(self) -> list[Listing]:
        """The programs, for display."""
        return [program.listing for program in self._rankings.values()]

    def takes_rule(self, ended: HostArray | None) -> bool:
        """True if the rule about labels is applied here: on the host, in a step with one choice, in the order of the scores."""
        last = self.link.last
        in_order = last is None or (last is self.search.last and last.tokens.dims == self.base)
        return self._on_host and in_order and (ended is None or {*ended[1]} <= {*self.over})

    def limited(self, rule: LabelRules, ended: HostArray | None) -> tuple[list[int], Any]:
        """The nodes of the hypotheses before the choice, and a raw mask of the labels that the rule allows; None if it allows
        everything.
        """
        last = self.link.last
        known = None if last is None else last.written.get(NODES)
        if known is None:
            nodes = [0] * math.prod(self._before)
        else:
            assert not callable(known)  # nobody else writes there
            nodes = known if isinstance(known, list) else known[0].ravel().tolist()
        places = rule.places(nodes)
        if ended is not None:  # what has ended goes on as it does
            is_over, dims = ended
            if dims != self.over:
                is_over = np.broadcast_to(align_host(is_over, dims, self.over), self._before)
            places = [0 if over else place for over, place in zip(is_over.ravel().tolist(), places)]
        if not any(places):
            return nodes, None
        make = lambda mask: self.backend.from_numpy(mask, dtype="bool", device=self._device)  # noqa: E731
        return nodes, rule.mask(tuple(places), (self._before, self.backend, self._device), make)

    def note(self, rule: LabelRules, nodes: list[int]) -> None:
        """Store the nodes of the hypotheses after the choice."""
        decision = self.search.last
        assert decision is not None
        read, count = self.backend.raw_to_numpy, self.count
        parents, labels = read(decision.parents._raw).ravel().tolist(), read(decision.tokens._raw).ravel().tolist()
        width = 1 if self.in_dim is None else self.in_dim.extent
        if len(parents) == count:
            before = [nodes[parent] for parent in parents]
        else:
            before = [nodes[place // count * width + parent] for place, parent in enumerate(parents)]
        decision.written[NODES] = rule.prefixes.after(before, labels)

    def _mask_of(self, host: np.ndarray, dims: Dims, like: Any) -> Any:
        """A host array over `dims` as a raw mask of scores; None if it does not fit."""
        if not set(dims) <= set(self.over):
            return None
        mask = align_host(host, dims, self.over)[..., None]
        return self.backend.from_numpy(mask, dtype="bool", device=self.backend.get_device_raw(like))

    def never(self, like: Any) -> Any:
        """The score of a forbidden label, as a raw array, which is faster than a number."""
        backend = self.backend
        key = backend.dtype_key_raw(like), backend.device_key_raw(like)
        found = self._nevers.get(key)
        if found is None:
            dtype, device = backend.get_dtype_name_raw(like), backend.get_device_raw(like)
            found = self._nevers[key] = backend.full_raw((), float("-inf"), dtype=dtype, device=device)
        return found

    def _program(self, raw: Any, ends: bool, limits: bool) -> Program:
        """`ranking` for the case that hypotheses may have ended or labels may be forbidden."""
        backend = self.backend
        key = backend.dtype_key_raw(raw), backend.device_key_raw(raw), ends, limits
        found = self._rankings.get(key)
        if found is None:
            scores = new_tensor(raw, self.scores)
            stay = stay_row(scores, self.axis, self.link, 0)._raw if ends else None
            never = self.never(raw) if limits else None
            found = self._rankings[key] = ranking(
                backend, order=self.order, before=self.base_shape, stay=stay, never=never, shape=self.shape, count=self.count,
                num_labels=self.axis.extent, reads=self._on_host,
            )  # fmt: skip
        return found


def _prepared(
    loop: Loop, search: Search, link: Link, last: Decision | None, scores: Tensor, axis: Dim, count: int
) -> PlainChoices | None:
    """The preparation for these steps. None if `scores` are not over all hypotheses, the previous scores have another order, or the
    case is not ordinary.
    """
    if link.beam_size is None:  # the first step
        link.beam_size = count
    if search.leave or link.beam_size != count or axis.extent <= count:
        return None
    if last is None:
        return PlainChoices(loop, link, scores, axis, None, None, count)
    in_dim, base = last.carried if last.closed else last.out_dim, last.scores.dims
    rest = tuple(dim for dim in scores.dims if dim is not in_dim and dim is not axis)
    if in_dim not in scores.dims or base != (*rest, last.out_dim):
        return None
    return PlainChoices(loop, link, scores, axis, in_dim, base, count)


RESULTS = "best", "parents", "labels", "total"


def ranking(
    backend: Any,
    *,
    order: Callable[[Any], Any] | None,
    before: Sequence[int] | None,
    stay: Any,
    never: Any,
    shape: Sequence[int],
    count: int,
    num_labels: int,
    reads: bool,
) -> Program:
    """A function (scores, previous scores, mask of ended hypotheses, mask of allowed labels) -> (best sums, parents, labels, best
    sums), without the arguments that do not apply.

    Args:
        order: Transposes the scores to {batch dims, hypothesis, label}; None if they already have this order.
        before: The shape in which previous scores are added; None if there are none.
        stay: The scores of an ended hypothesis; None if there are none.
        never: The score of a forbidden label; None if all are allowed.
        shape: Shape of the sums, {batch dims, hypothesis * label}.
        count: The number of surviving hypotheses.
        reads: Whether the host checks for ties; then the first result has one more entry. Otherwise ties are broken by order.
    """
    axis = len(shape) - 1
    values = {
        "order": order, "where": backend.where_raw, "reshape": backend.reshape_raw, "add": backend.binary_tensors_fn("add"),
        "top_k": backend.top_k_raw, "part": backend.slice_raw, "divide": backend.binary_fn("floordiv"),
        "remainder": backend.binary_fn("mod"), "stay": stay, "before_shape": before, "shape": tuple(shape), "axis": axis,
        "count": count, "count_and_next": count + 1, "num_labels": num_labels, "first_top_k": backend.first_top_k_raw,
        "is_impossible": backend.unary_fn("is_neg_infinite"), "never": never,
    }  # fmt: skip
    code, bound = _code(order is not None, before is not None, stay is not None, never is not None, reads)
    return Program(code, {name: values[name] for name in bound}, lambda place: "choice")


@lru_cache(maxsize=16)
def _code(ordered: bool, adds: bool, ends: bool, limits: bool, reads: bool) -> tuple[ProgramCode, list[str]]:
    """The lines and the names that they need."""
    lines: list[LoweredCall] = []
    bound: dict[str, None] = {}

    def line(targets: str, fn: str, uses: Sequence[str], *given: str) -> None:
        bound.update(dict.fromkeys([fn, *(name for name in given if name.isidentifier() and name != "True")]))
        names = tuple(targets.split(", "))
        lines.append(
            LoweredCall(names, f"{fn}({', '.join([*uses, *given])})", frozenset(uses), len(names) == 1, False, 0)
        )

    scores, inputs = (
        "scores",
        ["scores", *(["before"] if adds else []), *(["ended"] if ends else []), *(["allowed"] if limits else [])],
    )
    if ordered:
        line("ordered", "order", [scores])
        scores = "ordered"
    if ends:
        lines.append(
            LoweredCall(("going_on",), f"where(ended, stay, {scores})", frozenset(["ended", scores]), True, False, 0)
        )
        bound.update({"where": None, "stay": None})
        scores = "going_on"
    if adds:
        line("added", "reshape", ["before"], "before_shape")
        line("sums", "add", [scores, "added"])
        scores = "sums"
    if limits:
        line("limited", "where", ["allowed", scores], "never")
        scores = "limited"
    line("flat", "reshape", [scores], "shape")
    if reads:
        line("best, index", "top_k", ["flat"], "count_and_next", "True")
        line("chosen", "part", ["index"], "axis", "0", "count")
    else:
        line("best, index", "first_top_k", ["flat"], "count")
        line("impossible", "is_impossible", ["best"])
        lines.append(
            LoweredCall(("chosen",), "where(impossible, 0, index)", frozenset(["impossible", "index"]), True, False, 0)
        )
        bound["where"] = None
    line("parents", "divide", ["chosen"], "num_labels")
    line("labels", "remainder", ["chosen"], "num_labels")
    line("total", "part", ["best"], "axis", "0", "count")
    return ProgramCode(lines, bound, inputs, RESULTS), list(bound)
