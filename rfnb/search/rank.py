"""Line 4 of a step of beam search: ranks the continuations of all hypotheses and cuts the rest."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import value_error
from rfnb.core.layout import PlanCache, full_shape, to_order
from rfnb.core.plan_parts import Shape
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_text import dims_text
from rfnb.rec.device_reads import DeviceReads, Value, host_value
from rfnb.search.score import refuse_above
from rfnb.search.search_state import first_of

_plans = PlanCache()


_FOLD, _MANY = 16, 512  # rows that many values are folded to; so many


@dataclass(slots=True)
class FlatScores:
    """The scores of all continuations in one raw array {batch dims, hypothesis * label}.

    Attributes:
        raw: The array.
        rest: The batch dims.
        num_labels: Number of labels; they vary fastest in the last axis.
        in_dim, axis: The dims of the hypotheses (None: one hypothesis) and of the labels.
    """

    raw: Any
    rest: Dims
    num_labels: int
    in_dim: Dim | None
    axis: Dim
    backend: Any

    def like(self, other: Tensor) -> Any:
        """Another Tensor over the same or fewer dims in this layout."""
        return flat_of(other, self.in_dim, self.axis, self.rest).raw

    def tensor(self) -> Tensor:
        """The scores as a Tensor, {batch dims, hypotheses, labels}."""
        dims = (*self.rest, *([] if self.in_dim is None else [self.in_dim]), self.axis)
        return new_tensor(self.backend.reshape_raw(self.raw, [dim.extent for dim in dims]), dims)


@dataclass(slots=True)
class Ranking:
    """The continuations that survive a choice, {batch dims, out_dim}: score, and index into the last axis of FlatScores.

    Attributes:
        scores, index: Raw arrays.
        values: The scores on the host, or being transferred to it.
        in_order: Whether they are the best overall, best first.
        distinct: Whether they are known to be above -inf, strictly decreasing, and better than all that are cut.
        more: Scores and indices of these and further continuations, on request.
    """

    scores: Any
    index: Any
    values: np.ndarray | Value
    in_order: bool = True
    distinct: bool = False
    more: tuple[Any, Any] | None = None

    @property
    def host(self) -> np.ndarray:
        """The scores on the host."""
        if isinstance(self.values, Value):
            self.values = self.values()
        return self.values

    @property
    def is_known(self) -> bool:
        """True if the host can read the scores without waiting for a GPU."""
        return not isinstance(self.values, Value)

    @property
    def count(self) -> int:
        """The number of survivors."""
        return self.values.shape[-1]


def flat_of(total: Tensor, in_dim: Dim | None, axis: Dim, rest: Dims | None = None) -> FlatScores:
    """All continuations in a single axis."""
    key = (total._raw.__class__, total.dims, in_dim, axis, rest)
    try:
        order, shape, found, expanded = _plans[key]
    except KeyError:
        order, shape, found, expanded = _plans.make(key, _plan, total, in_dim, axis, rest)
    if expanded is not None:
        total = total.copy_compatible_to_dims(expanded)
        raw = total.backend.broadcast_raw(total._raw, full_shape(expanded))
    else:
        raw = total._raw if order is None else order(total._raw)
    backend = total.backend
    return FlatScores(backend.reshape_raw(raw, shape), found, axis.extent, in_dim, axis, backend)


def _plan(total: Tensor, in_dim: Dim | None, axis: Dim, rest: Dims | None) -> Any:
    axes = (in_dim, axis) if in_dim is not None else (axis,)
    found = rest if rest is not None else tuple(dim for dim in total.dims if dim not in axes)
    whole = (*found, *axes)
    has_all = set(whole) == set(total.dims)
    order = to_order(total.dims, whole, total.backend) if has_all else None
    return order, Shape(*found, axes), found, None if has_all else whole


def best_of(flat: FlatScores, count: int, num_more: int = 0) -> Ranking:
    """The `count` best continuations, best first; ties are broken by order. If there are fewer, index 0 with score -inf.

    Args:
        num_more: The number of continuations in `more`.
    """
    backend, raw, axis = flat.backend, flat.raw, len(flat.rest)
    size = backend.get_shape_tuple_raw(raw)[-1]
    found = min(count, size)
    if not backend.is_on_host_raw(raw):
        return _best_elsewhere(flat, count, found, min(max(found, num_more), size), num_more)
    more = min(max(found + 1, num_more), size)  # one more tells whether the last one is as good as one that is cut
    best, index = backend.top_k_raw(raw, more, True)
    host = backend.raw_to_numpy(best)
    distinct = more > found and falls(host, found + 1)  # so neither NaN nor -inf
    if not distinct and more > 1:
        left, right = host[..., :found], host[..., 1 : found + 1]
        same = left[..., : right.shape[-1]] == right
        if same.any() and (same & (right > -np.inf)).any():
            best, index = _first_of_equals(flat, more)
            host = backend.raw_to_numpy(best)
    further = None
    if num_more:
        last = min(max(num_more, found), more)
        further = (best, index) if last == more else tuple(backend.slice_raw(x, axis, 0, last) for x in (best, index))
    if more > found:
        best, index = backend.slice_raw(best, axis, 0, found), backend.slice_raw(index, axis, 0, found)
        host = host[..., :found]
    if distinct and found == count:
        return Ranking(best, index, host, distinct=True, more=further)
    ranked = _filled(flat, best, index, host, count)
    ranked.more = further
    return ranked


def _best_elsewhere(flat: FlatScores, count: int, found: int, more: int, num_more: int) -> Ranking:
    """`best_of` on a device that must not be waited for: ties are not checked."""
    backend, axis = flat.backend, len(flat.rest)
    best, index = further = backend.first_top_k_raw(flat.raw, more)
    if more > found:
        best, index = backend.slice_raw(best, axis, 0, found), backend.slice_raw(index, axis, 0, found)
    if found < count:
        widths = [(0, 0)] * axis + [(0, count - found)]
        best, index = backend.pad_raw(best, widths, float("-inf")), backend.pad_raw(index, widths, 0)
    index = backend.where_raw(backend.unary_fn("is_neg_infinite")(best), 0, index)
    return Ranking(best, index, Value(best, backend), more=further if num_more else None)


def _first_of_equals(flat: FlatScores, count: int) -> tuple[Any, Any]:
    """The `count` best, with ties broken by order, so that the result is the same on every machine."""
    backend, raw, axis = flat.backend, flat.raw, len(flat.rest)
    size = backend.get_shape_tuple_raw(raw)[-1]
    enough = 4 * count + 16
    if enough < size:
        best, index = map(backend.raw_to_numpy, backend.top_k_raw(raw, enough, True))
        last = best[..., count - 1]
        if ((best[..., -1] < last) | (last == -np.inf)).all():  # so all that are as good as the last one are among them
            order = np.lexsort((index, -best))[..., :count]
            first = np.take_along_axis(index, order, -1)
            first = backend.from_numpy(first, dtype="int64", device=backend.get_device_raw(raw))
            return take(flat, first), first
    best, index = backend.sort_raw(raw, axis, True, True)
    return tuple(backend.copy_raw(backend.slice_raw(x, axis, 0, count)) for x in (best, index))


def falls(host: np.ndarray, count: int, highest: float = math.inf) -> bool:
    """True if the first entries of each row are finite, at most `highest`, and strictly decreasing."""
    if host.size > 64:
        best = host[..., 0]
        return bool((host[..., : count - 1] > host[..., 1:count]).all() and ((best < np.inf) & (best <= highest)).all())
    rows = (host if host.ndim == 2 else host.reshape(-1, host.shape[-1])).tolist()  # few: Python is quicker than NumPy
    for row in rows:
        if not (row[0] < math.inf and row[0] <= highest and all(map(operator.gt, row, row[1:count]))):
            return False
    return True


def falls_until_impossible(host: np.ndarray) -> bool:
    """True if each row starts with a number of at most 0 and decreases strictly until -inf."""
    rows = host.reshape(-1, host.shape[-1]).tolist()
    return all(
        -math.inf < row[0] <= 0 and all(a > b or b == -math.inf for a, b in itertools.pairwise(row)) for row in rows
    )


def _filled(flat: FlatScores, best: Any, index: Any, host: np.ndarray, count: int) -> Ranking:
    """Fill slots without a continuation with label 0 of the best hypothesis and score -inf, since the order of impossible ones is
    arbitrary.
    """
    backend, missing = flat.backend, count - host.shape[-1]
    if missing:
        widths = [(0, 0)] * len(flat.rest) + [(0, missing)]
        best, index = backend.pad_raw(best, widths, float("-inf")), backend.pad_raw(index, widths, 0)
        host = np.pad(host, widths, constant_values=-np.inf)
    if host.min(initial=0) == -np.inf:
        index = backend.where_raw(backend.unary_fn("is_neg_infinite")(best), 0, index)
    return Ranking(best, index, host)


def best_of_each(flat: FlatScores, beam_size: int, place: str) -> Ranking:
    """The best continuations of each hypothesis separately, `beam_size` in total: hypotheses do not compete.

    Raises:
        ValueError: If the number of hypotheses does not divide beam_size.
    """
    backend = flat.backend
    shape = backend.get_shape_tuple_raw(flat.raw)
    hypotheses = shape[-1] // flat.num_labels
    count, rest = divmod(beam_size, hypotheses)
    if rest:
        raise value_error(
            f"{place}: keep_beams with a beam that does not divide.",
            {"beam_size": beam_size, "hypotheses": hypotheses},
            "Each hypothesis gets beam_size / hypotheses of its own labels.",
        )
    own = FlatScores(
        backend.reshape_raw(flat.raw, (*shape[:-1], hypotheses, flat.num_labels)),
        (*flat.rest, flat.axis), flat.num_labels, None, flat.axis, backend,
    )  # fmt: skip
    ranked = best_of(own, count)
    starts = (np.arange(hypotheses) * flat.num_labels)[:, None]
    starts = backend.from_numpy(starts, dtype="int64", device=backend.get_device_raw(flat.raw))
    out = (*shape[:-1], hypotheses * count)
    index = backend.reshape_raw(backend.binary_tensors_fn("add")(ranked.index, starts), out)
    best = backend.reshape_raw(ranked.scores, out)
    values = ranked.host.reshape(out) if ranked.is_known else Value(best, backend)
    return Ranking(best, index, values, in_order=False)


def with_last(flat: FlatScores, ranked: Ranking, index: np.ndarray) -> Ranking:
    """`ranked` with the given continuation in the last slot of each beam."""
    backend = flat.backend
    count, axis = ranked.count, len(flat.rest)
    device = backend.get_device_raw(flat.raw)
    own = backend.from_numpy(index[..., None], dtype="int64", device=device)
    scores = take(flat, own)
    join = lambda a, b: backend.concat_raw([backend.slice_raw(a, axis, 0, count - 1), b], axis)  # noqa: E731
    best = join(ranked.scores, scores)
    return Ranking(best, join(ranked.index, own), host_value(best, backend), in_order=False)


def take(flat: FlatScores, index: Any, raw: Any = None) -> Any:
    """The entries of a raw array like `flat.raw` at indices {batch dims, n}."""
    backend = flat.backend
    num_batch = len(backend.get_shape_tuple_raw(index)) - 1
    return backend.batched_take_raw(flat.raw if raw is None else raw, index, num_batch)


def best_of_each_row(flat: FlatScores, raw: Any, count: int) -> tuple[Any, Any]:
    """The largest values along the last axis of a raw array, largest first, with their indices.

    Many values are folded into a table: the result lies among its best rows and columns, and finding the maximum of each column is a
    pass that only compares, much faster than a sort.
    """
    backend = flat.backend
    *batch, size = backend.get_shape_tuple_raw(raw)
    columns = size // _FOLD
    if size < _MANY or columns < count:
        return backend.top_k_raw(raw, count, True)
    place, whole, device = len(batch), columns * _FOLD, backend.get_device_raw(raw)
    table = raw if whole == size else backend.slice_raw(raw, place, 0, whole)
    tops = backend.reduce_raw(backend.reshape_raw(table, (*batch, _FOLD, columns)), "max", (place,))
    column = backend.expand_dims_raw(backend.top_k_raw(tops, count, True)[1], place)
    index = backend.binary_tensors_fn("add")(column, _starts(backend, device, _FOLD, columns))
    index = backend.reshape_raw(index, (*batch, _FOLD * count))
    if whole < size:
        rest = backend.from_numpy(np.arange(whole, size), dtype="int64", device=device)
        index = backend.concat_raw([index, backend.broadcast_raw(rest, (*batch, size - whole))], place)
    best, at = backend.top_k_raw(take(flat, index, raw), count, True)
    return best, take(flat, at, index)


@functools.lru_cache(maxsize=64)
def _starts(backend: Any, device: str, num_batch: int, size: int) -> Any:
    return backend.from_numpy(np.arange(num_batch)[:, None] * size, dtype="int64", device=device)


def split_index(flat: FlatScores, index: Any) -> tuple[Any, Any]:
    """An index as (hypothesis, label)."""
    backend = flat.backend
    if flat.in_dim is None or flat.in_dim.extent == 1:
        return backend.binary_fn("mul")(index, 0), index
    return backend.binary_fn("floordiv")(index, flat.num_labels), backend.binary_fn("mod")(index, flat.num_labels)


def check_ranked(flat: FlatScores, ranked: Ranking, total: Tensor, place: str) -> None:
    """Refuse NaN and +inf, and a sequence with no possible continuation.

    Raises:
        ValueError: Names the step, sequence and hypothesis.
    """
    if not ranked.distinct:
        _check(ranked.host, flat.rest, total.dims, place, lambda is_bad: _first(is_bad, total, flat.axis))


def check_later(
    wanted: DeviceReads, flat: FlatScores, ranked: Ranking, dims: Dims, given: tuple[Sequence[Dim], str] | None, place: str,
    *, only_nan: bool = False,
) -> None:  # fmt: skip
    """Run `check_ranked` and `check_log_probs` when the host next reads from the step anyway.

    Bad scores are found among the best ones, where they come first; keeping all scores until then would cost memory.

    Args:
        dims: Dims of the ranked sums.
        given: Dims and dtype of the log probabilities that were added; None for other scores.
        only_nan: Check for NaN only.
    """
    backend, index = flat.backend, ranked.index
    rest, in_dim, axis, num_labels = flat.rest, flat.in_dim, flat.axis, flat.num_labels

    def check(host: np.ndarray) -> None:
        def first(is_bad: Callable[[np.ndarray], np.ndarray]) -> str:
            place = np.argwhere(is_bad(host))[0]
            found = dict(zip(rest, map(int, place)))
            if in_dim is not None:
                found[in_dim] = int(backend.raw_to_numpy(index)[tuple(place)]) // num_labels
            return ", ".join(f"{dim.name} {found[dim]}" for dim in dims if dim is not axis)

        if not only_nan:
            _check(host, rest, dims, place, first)
        elif np.isnan(host).any():
            raise _nan_error(dims, first(np.isnan), place)
        if given is not None and host.size and host.max() > 0:
            refuse_above(host, rest, *given, place)

    assert isinstance(ranked.values, Value)
    wanted.check(ranked.values, check)


def _check(
    host: np.ndarray, rest: Dims, dims: Dims, place: str,
    first: Callable[[Callable[[np.ndarray], np.ndarray]], str],
) -> None:  # fmt: skip
    if not host.size:
        return
    worst = host.min()  # NaN if there is one among the scores: it is first in every ranking
    if np.isnan(worst):
        raise _nan_error(dims, first(np.isnan), place)
    if host.max() == np.inf:
        raise value_error(
            f"{place}: the scores contain +inf.",
            {"scores": dims_text(dims), "first": first(np.isposinf)},
            "It beats everything, and the next step would be NaN. A log probability is at most 0.",
        )
    if worst == -np.inf and ((top := host.max(-1)) == -np.inf).any():
        where = first_of(top == -np.inf, rest)
        raise value_error(
            f"{place}: no hypothesis is left.",
            {"scores": dims_text(dims), "first": where or "the sequence"},
            "All labels of all hypotheses have probability 0, or are banned. What was found so far is in a trace:",
            "with rf.record() as trace: ...   # the same search; then rf.show(trace)",
        )


def _first(is_bad: Callable[[np.ndarray], np.ndarray], total: Tensor, axis: Dim) -> str:
    """The sequence and hypothesis of the first bad score."""
    dims = tuple(dim for dim in total.dims if dim is not axis)
    bad = np.asarray(is_bad(total.copy_transpose((*dims, axis)).numpy()).any(-1))
    return first_of(bad, dims)


def nan_error(total: Tensor, axis: Dim, place: str) -> ValueError:
    """The error for scores with NaN."""
    return _nan_error(total.dims, _first(np.isnan, total, axis), place)


def _nan_error(dims: Dims, first: str, place: str) -> ValueError:
    return value_error(
        f"{place}: the scores contain NaN.",
        {"scores": dims_text(dims), "first": first},
        "A NaN cannot be ranked. Find the first op that makes one, e.g. a log of 0 or a division by 0.",
    )


def out_tensor(raw: Any, flat: FlatScores, out_dim: Dim, sparse_dim: Dim | None = None) -> Tensor:
    """A raw array {batch dims, out_dim} as a Tensor."""
    out = new_tensor(raw, (*flat.rest, out_dim))
    if sparse_dim is not None:
        out.sparse_dim = sparse_dim
    return out
