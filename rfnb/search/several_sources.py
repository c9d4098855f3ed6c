"""A choice of several sources: the best combinations of their labels.

An external decision forces or bans a label per source; None stands for any label.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from rfnb.core.dim import Dim, HostArray
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_text import shape_of
from rfnb.ops import math
from rfnb.ops.expand import expand_dims
from rfnb.ops.gather import gather
from rfnb.ops.merge import merge_dims
from rfnb.ops.reduce import top_k
from rfnb.ops.where import where
from rfnb.rec.loop import Loop
from rfnb.rec.selections import LabelDecision
from rfnb.search.choose import check_end_label, choose
from rfnb.search.constraints import allowed_labels, note_written
from rfnb.search.forced_labels import cannot_come, check, more_than_go_on, resolved
from rfnb.search.options import ChoiceOptions
from rfnb.search.score import check_sums, log_prob_of, only_end_label
from rfnb.search.search_state import Link, Search, on_backend, place_of


def choose_several(
    loop: Loop, sources: Sequence[Tensor], axes: Sequence[Dim], options: ChoiceOptions
) -> tuple[Tensor, ...]:
    """The labels of each source, {batch, beam}; the scores of a combination are added.

    The first source is the slowest in the order of combinations. An ended hypothesis keeps combination 0: it repeats the best labels of
    each source, or the given end label, and labels after its length are meaningless.
    """
    given = options.source_beam_sizes
    sizes = [options.beam_size] * len(sources) if given is None else list(given)
    if len(sizes) != len(sources) or any(size < 1 for size in sizes):
        raise value_error(
            "choice: source_beam_sizes do not fit the sources.",
            {"sources": len(sources), "sizes": ", ".join(map(str, sizes))},
            "Each source has a size, at least 1.",
        )
    if options.fusion:
        raise ValueError(
            "choice: fusion with several sources.\nThe scores of another model are over the labels of one source: add them there.\n"
            "    rf.choice([a + 0.5 * language_model, b], ...)"
        )
    count = len(sources)
    limits = (
        _one_each("prefix", options.prefix, None, count),
        _one_each("banned", options.banned, None, count),
        _one_each("no_repeat_ngram", options.no_repeat_ngram, 0, count),
        _one_each("end_label", options.end_label or None, None, count),
    )
    each = [*zip(*limits)]
    search = Search.of(loop)
    link, ended = search.next_link(loop), search.ended(loop)
    link.sources = tuple(axes)
    decisions = None
    if loop.step.decisions and not link.position:
        decisions = SourceDecisions(loop, search, sources, axes, ended)
    before = [search.written(link, index) if ngram else None for index, (*_, ngram, _) in enumerate(each)]
    total, labels, parts, log_probs = None, [], [], []
    for index, (scores, axis) in enumerate(zip(sources, axes)):
        log_prob = log_prob_of(scores, axis, options.input_type)
        has_ended = None if ended is None else on_backend(ended[0], ended[1], scores, "bool")
        if options.check:
            check_sums(log_prob, axis, has_ended, place_of(loop))
        log_prob = _limited(log_prob, axis, has_ended, link, before[index], loop, *each[index])
        if decisions is not None:
            log_prob = decisions.limited(decisions.over_all(log_prob, axis), axis, index)
        log_probs.append(log_prob)
    if decisions is not None:
        decisions.leave_out_impossible(log_probs, [min(size, axis.extent) for size, axis in zip(sizes, axes)])
    for index, (log_prob, axis, size) in enumerate(zip(log_probs, axes, sizes)):
        best, label, part = top_k(log_prob, axis=axis, k=min(size, axis.extent))
        assert isinstance(label, Tensor) and isinstance(part, Dim)
        if decisions is not None:
            best, label = decisions.with_forced(best, label, part, log_prob, index)
        labels.append(label)
        parts.append(part)
        total = best if total is None else math.combine_bc(total, "add", best)
    assert total is not None
    merged, combination = merge_dims(total, dims=parts)
    plain = options._replace(
        input_type="score" if options.input_type == "score" else "log_prob",
        prefix=None,
        banned=None,
        no_repeat_ngram=0,
        end_label=0,
        check=False,
    )
    if search.is_watched():
        shown = (_over_combinations(label, axis, total.dims) for label, axis in zip(labels, axes))
        plain = plain._replace(tokens=tuple(merge_dims(x, dims=parts, out_dim=combination)[0] for x in shown))
    decided = [] if decisions is None else decisions.of_combinations(labels, parts)
    chosen = choose(loop, merged, combination, plain, decided=decided)
    out = _split(chosen, labels, parts, axes, loop)
    for index, (*_, ngram, _) in enumerate(each):
        if ngram:
            note_written(search, link, index, out[index], before[index])
    return tuple(out)


def _limited(
    log_prob: Tensor,
    axis: Dim,
    has_ended: Tensor | None,
    link: Link,
    before: Any,
    loop: Loop,
    prefix: Tensor | None,
    banned: Any,
    no_repeat_ngram: int,
    end_label: int | None,
) -> Tensor:
    """log_prob with -inf for forbidden labels. Ended hypotheses continue with the end label, or with any label."""
    if end_label is not None:
        check_end_label(end_label, axis, loop)
    if prefix is not None or banned is not None or no_repeat_ngram:
        limits = allowed_labels(
            log_prob, axis, prefix=prefix, banned=banned, no_repeat_ngram=no_repeat_ngram,
            written=before, loop=loop,
        )  # fmt: skip
        for limit in limits.values():
            if has_ended is not None:
                limit = math.combine_bc(limit, "logical_or", has_ended)
            log_prob = where(limit, log_prob, float("-inf"), allow_broadcast_all_sources=True)
    if end_label is not None and has_ended is not None:
        log_prob = only_end_label(log_prob, has_ended, axis, link, end_label)
    return log_prob


def _one_each(name: str, given: Any, default: Any, count: int) -> list[Any]:
    """An option for each source.

    Raises:
        ValueError: If there is not one for each source.
    """
    if given is None or (name == "no_repeat_ngram" and isinstance(given, int)):
        return [default if given is None else given] * count
    if isinstance(given, (list, tuple)) and len(given) == count and not (name == "banned" and _is_label(given[0])):
        return [default if item is None else item for item in given]
    example = {
        "prefix": "[labels_a, None]",
        "banned": "[[1, 2], None]",
        "no_repeat_ngram": "[2, 0]",
        "end_label": "[0, 3]",
    }[name]
    shown = shape_of(given) if isinstance(given, Tensor) else repr(given)
    raise value_error(
        f"choice: {name} of several sources.",
        [("sources", count), (name, shown)],
        "It is about the labels of one source, so there is a list with one for each.",
        f"rf.choice([a, b], {name}={example}, ...)",
    )


def _is_label(item: Any) -> bool:
    return item is not None and not isinstance(item, (list, tuple, Tensor)) and not hasattr(item, "__len__")


def _over_combinations(label: Tensor, axis: Dim, dims: Sequence[Dim]) -> Tensor:
    """The label of one source in each combination."""
    out = expand_dims(label, [dim for dim in dims if dim not in label.dims]).copy_transpose(dims)
    out.sparse_dim = axis
    return out


def _split(
    chosen: Tensor, labels: Sequence[Tensor], parts: Sequence[Dim], axes: Sequence[Dim], loop: Loop
) -> list[Tensor]:
    """The labels of each source in the chosen combinations."""
    selection = loop.selections.now
    assert selection is not None
    rest = chosen._like(chosen._raw, chosen.dims)
    rest.sparse_dim = None
    places: list[Tensor] = []
    for part in reversed(parts):
        places.insert(0, rest % part.extent)
        rest = rest // part.extent
    out = []
    for label, place, part, axis in zip(labels, places, parts, axes):
        picked = gather(selection.bring(label), indices=place, axis=part)
        picked.sparse_dim = axis
        out.append(picked.copy_transpose(chosen.dims))
    return out


class SourceDecisions:
    """The decisions for a step that chooses from several sources; those that cannot be carried out are reported to its step.

    Args:
        sources: The scores of each source.
    """

    def __init__(
        self, loop: Loop, search: Search, sources: Sequence[Tensor], axes: Sequence[Dim], ended: HostArray | None
    ):
        in_dim, _ = search.begin()
        if search.last is not None:
            batch = search.batch_dims()
        else:
            every = dict.fromkeys(dim for scores in sources for dim in scores.dims)
            batch = tuple(dim for dim in every if dim not in axes and dim is not in_dim)
        self._loop, self._dims = loop, (*batch, *(() if in_dim is None else (in_dim,)))
        self._count = 1 if in_dim is None else in_dim.extent
        self._rows = prod(dim.extent for dim in self._dims)
        self.all: list[LabelDecision] = []
        for given in loop.step.decisions:
            try:
                one = resolved(given, tuple(axes), loop)
                check(one, batch, in_dim, ended)
            except (IndexError, ValueError) as error:
                loop.step.refuse(error)
            else:
                self.all.append(one)

    def over_all(self, log_prob: Tensor, axis: Dim) -> Tensor:
        """The scores of a source over all hypotheses, whose labels differ from here on."""
        order = (*self._dims, axis)
        return expand_dims(log_prob, [dim for dim in order if dim not in log_prob.dims]).copy_transpose(order)

    def limited(self, log_prob: Tensor, axis: Dim, source: int) -> Tensor:
        """The scores of a source, with -inf where a label of this source alone is banned."""
        banned = np.zeros((self._rows, axis.extent), bool)
        for one in self.all:
            if one.kind == "ban" and [place for place, label in enumerate(one.label) if label is not None] == [source]:
                banned[self._places(one), one.label[source]] = True
        return (
            where(self._tensor(banned, axis, log_prob, "bool"), float("-inf"), log_prob) if banned.any() else log_prob
        )

    def leave_out_impossible(self, log_probs: Sequence[Tensor], sizes: Sequence[int]) -> None:
        """Drop forced labels that are impossible or exceed the best `sizes` of a source; then they have no effect."""
        hosts = [log_prob.numpy().reshape(self._rows, -1) for log_prob in log_probs]
        kept: list[LabelDecision] = []
        for one in self.all:
            why = None
            for source, label in enumerate(one.label if one.kind == "force" else ()):
                if label is not None and hosts[source][self._places(one)[0], label] == -np.inf:
                    why = cannot_come(one)
                elif len(self._forced([*kept, one], source, self._places(one)[0])) > sizes[source]:
                    why = more_than_go_on(len(kept) + 1, sizes[source])
            if why is None:
                kept.append(one)
            else:
                self._loop.step.refuse(why)
        self.all = kept

    def _forced(self, decisions: Sequence[LabelDecision], source: int, row: int) -> list[int]:
        """The labels of a source that are forced for a hypothesis."""
        own = [one for one in decisions if one.kind == "force" and self._places(one) == [row]]
        return list(dict.fromkeys(one.label[source] for one in own if one.label[source] is not None))

    def with_forced(
        self, best: Tensor, label: Tensor, part: Dim, log_prob: Tensor, source: int
    ) -> tuple[Tensor, Tensor]:
        """The best labels of a source, with forced ones in place of the last."""
        order = (*self._dims, part)
        best, label = best.copy_transpose(order), label.copy_transpose(order)
        labels = label.numpy().reshape(self._rows, part.extent).copy()
        scores = log_prob.numpy().reshape(self._rows, -1)
        changed = np.zeros(labels.shape, bool)
        for row in {self._places(one)[0] for one in self.all if one.kind == "force"}:
            forced = self._forced(self.all, source, row)
            free = [place for place, own in enumerate(labels[row]) if own not in forced]
            for own in forced:
                if own not in labels[row]:
                    place = free.pop()
                    labels[row, place], changed[row, place] = own, True
        if not changed.any():
            return best, label
        mask = self._tensor(changed, part, best, "bool")
        new = self._tensor(np.take_along_axis(scores, labels, 1), part, best, best.dtype)
        out = self._tensor(labels, part, label, label.dtype)
        out.sparse_dim = label.sparse_dim
        return where(mask, new, best), out

    def of_combinations(self, labels: Sequence[Tensor], parts: Sequence[Dim]) -> list[LabelDecision]:
        """The decisions in terms of combinations of the best labels, the first source slowest."""
        found = []
        rows = [
            label.copy_transpose((*self._dims, part)).numpy().reshape(self._rows, part.extent)
            for label, part in zip(labels, parts)
        ]
        sizes = [part.extent for part in parts]
        for one in self.all:
            for row in self._places(one):
                places = [
                    list(range(size)) if label is None else np.flatnonzero(own[row] == label).tolist()
                    for label, own, size in zip(one.label, rows, sizes)
                ]
                if one.kind == "force":  # any: the best
                    places = [places_of[:1] for places_of in places]
                for place in itertools.product(*places):
                    index = int(np.ravel_multi_index(place, sizes))
                    found.append(one._replace(label=index, hypothesis=row % self._count))
        return found

    def _places(self, one: LabelDecision) -> list[int]:
        """The rows of the hypotheses that a decision applies to."""
        first = one.seq * self._count
        return [first + one.hypothesis] if one.hypothesis is not None else list(range(first, first + self._count))

    def _tensor(self, host: np.ndarray, last: Dim, like: Tensor, dtype: str) -> Tensor:
        dims = (*self._dims, last)
        array: Any = host.reshape([dim.extent for dim in dims])
        return new_tensor(like.backend.from_numpy(array, dtype=dtype, device=like.device), dims)
