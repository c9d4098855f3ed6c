"""A choice of several sources: the best combinations of their labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.ops import math
from rfnb.ops.expand import expand_dims
from rfnb.ops.gather import gather
from rfnb.ops.merge import merge_dims
from rfnb.ops.reduce import top_k
from rfnb.ops.where import where
from rfnb.rec.loop import Loop
from rfnb.search.choose import check_end_label, choose
from rfnb.search.constraints import allowed_labels, note_written
from rfnb.search.forced_sources import SourceDecisions
from rfnb.search.options import ChoiceOptions
from rfnb.search.score import check_sums, log_prob_of, only_end_label
from rfnb.search.search_state import Link, Search, on_backend, place_of


def choose_several(
    loop: Loop, sources: Sequence[Tensor], axes: Sequence[Dim], options: ChoiceOptions
) -> tuple[Tensor, ...]:
    """The labels of each source, {batch, beam}; the scores of a combination are added.

    The first source is the slowest in the order of combinations. An ended hypothesis keeps combination 0: it repeats the best
    labels of each source, or its end label if that is given, and what comes after its length means nothing.
    """
    given = options.source_beam_sizes
    sizes = [options.beam_size] * len(sources) if given is None else list(given)
    if len(sizes) != len(sources) or any(size < 1 for size in sizes):
        raise value_error(
            "choice: source_beam_sizes do not fit the sources.",
            [("sources", len(sources)), ("sizes", ", ".join(map(str, sizes)))],
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
    each = [_Limits(*given) for given in zip(*limits)]
    search = Search.of(loop)
    link, ended = search.next_link(loop), search.ended(loop)
    link.sources = tuple(axes)
    decisions = None
    if loop.step.decisions and not link.position:
        decisions = SourceDecisions(loop, search, sources, axes, ended)
    before = [search.written(link, index) if limited.no_repeat_ngram else None for index, limited in enumerate(each)]
    total, labels, parts, log_probs = None, [], [], []
    for index, (scores, axis) in enumerate(zip(sources, axes)):
        log_prob = log_prob_of(scores, axis, options.input_type)
        has_ended = None if ended is None else on_backend(ended[0], ended[1], scores, "bool")
        if options.check:
            check_sums(log_prob, axis, has_ended, place_of(loop))
        log_prob = each[index].limited(log_prob, axis, has_ended, link, before[index], loop)
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
    for index, limited in enumerate(each):
        if limited.no_repeat_ngram:
            note_written(search, link, index, out[index], before[index])
    return tuple(out)


class _Limits:
    """The limits of the labels of one source."""

    def __init__(self, prefix: Tensor | None, banned: Any, no_repeat_ngram: int, end_label: int | None):
        self.prefix, self.banned, self.no_repeat_ngram, self.end_label = prefix, banned, no_repeat_ngram, end_label

    def limited(
        self, log_prob: Tensor, axis: Dim, has_ended: Tensor | None, link: Link, before: Any, loop: Loop
    ) -> Tensor:
        """log_prob with -inf for labels that may not come. What has ended goes on through the end label, or through anything."""
        if self.end_label is not None:
            check_end_label(self.end_label, axis, loop)
        if self.prefix is not None or self.banned is not None or self.no_repeat_ngram:
            allowed = allowed_labels(
                log_prob, axis, prefix=self.prefix, banned=self.banned, no_repeat_ngram=self.no_repeat_ngram,
                written=before, loop=loop,
            )  # fmt: skip
            if allowed is not None:
                if has_ended is not None:
                    allowed = math.combine_bc(allowed, "logical_or", has_ended)
                log_prob = where(allowed, log_prob, float("-inf"), allow_broadcast_all_sources=True)
        if self.end_label is not None and has_ended is not None:
            log_prob = only_end_label(log_prob, has_ended, axis, link, self.end_label)
        return log_prob


def _one_each(name: str, given: Any, default: Any, count: int) -> list[Any]:
    """An option of each source.

    Raises:
        ValueError: If there is not one for each.
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
    """The label of one source of each combination."""
    out = expand_dims(label, [dim for dim in dims if dim not in label.dims]).copy_transpose(dims)
    out.sparse_dim = axis
    return out


def _split(
    chosen: Tensor, labels: Sequence[Tensor], parts: Sequence[Dim], axes: Sequence[Dim], loop: Loop
) -> list[Tensor]:
    """The labels of each source of the combinations that were chosen."""
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
