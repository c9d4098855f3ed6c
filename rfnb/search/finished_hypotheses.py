"""Hypotheses that leave the beam when they end, so that it always keeps `beam_size` unfinished ones.

The documented choice keeps ended hypotheses in the beam until better ones push them out: the beam gets narrower, and the search ends by
itself. Here the best `beam_size` continuations without an end survive. Those that end among the best `beam_size` overall are reported in
the `beams` event of their step, in slots after the survivors, marked as `left`; `rf.beam_search(..., ended="leave")` collects them.

Source: Sutskever et al. 2014, section 3.2, where complete hypotheses are removed from the beam; refilling their places follows the
documentation of `generate` in `transformers`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core.errors import not_one_of
from rfnb.core.tensor import Tensor
from rfnb.rec.device_reads import DeviceReads, Value, host_value
from rfnb.rec.loop import Loop
from rfnb.rec.selections import LabelDecision
from rfnb.search import rank
from rfnb.search.forced_labels import forced
from rfnb.search.options import ChoiceOptions
from rfnb.search.rank import FlatScores, Ranking
from rfnb.search.report import ChoiceRecord, ScoreParts, num_candidates, tell
from rfnb.search.search_state import Link, Search


def leaves(ended: str, options: Mapping[str, Any]) -> bool:
    """True if ended hypotheses leave the beam, from the options of `rf.beam_search`.

    Raises:
        ValueError: If `ended` is neither "stay" nor "leave", or another option requires that hypotheses stay.
    """
    if ended not in ("stay", "leave"):
        raise not_one_of(
            f'beam_search: ended="{ended}".', "ended", ended, ("stay", "leave"), "What has ended does one of these."
        )
    other = [name for name in ("sampling", "keep_beams", "cheating") if options.get(name)]
    if ended == "leave" and other:
        raise ValueError(
            f'beam_search: ended="leave" with {other[0]}.\nThat is for hypotheses that stay where they are when they have ended.\n'
            f'    rf.beam_search(..., ended="stay", {other[0]}=...)'
        )
    return ended == "leave"


def rank_unfinished(
    flat: FlatScores,
    count: int,
    end_label: int,
    search: Search,
    total: Tensor,
    place: str,
    decisions: Sequence[LabelDecision] = (),
) -> tuple[Ranking, Ranking]:
    """The `count` best continuations without an end, and the same followed by the ended ones, for `tell_with_left`.

    Args:
        decisions: External decisions. A hypothesis forced to end is a result, whatever its rank.

    Raises:
        ValueError: For NaN, and if a sequence has neither survivors nor ended hypotheses.
    """
    backend, device = flat.backend, flat.backend.get_device_raw(flat.raw)
    num_hypotheses = backend.get_shape_tuple_raw(flat.raw)[-1] // flat.num_labels
    ends, index = _ends(backend, device, num_hypotheses, flat.num_labels, end_label)
    raw = backend.where_raw(ends, float("-inf"), flat.raw)
    going = rank.best_of(FlatScores(raw, flat.rest, flat.num_labels, flat.in_dim, flat.axis, backend), count)
    shape = (*backend.get_shape_tuple_raw(flat.raw)[:-1], num_hypotheses)
    own = host_value(rank.take(flat, backend.broadcast_raw(index, shape)), backend)
    if isinstance(own, Value) and isinstance(going.values, Value):
        DeviceReads([own, going.values]).bring()
    score = own() if isinstance(own, Value) else own
    # The rank among all continuations, of which only the best `count` without an end are known: no more are needed.
    better = (going.host[..., None, :] > score[..., None]).sum(-1) + (score[..., None, :] > score[..., None]).sum(-1)
    ended = better < count
    for one in decisions:
        if one.kind == "force" and one.label == end_label:
            ended.reshape(-1, num_hypotheses)[one.seq, one.hypothesis if flat.in_dim is not None else 0] = True
    ended &= score != -np.inf
    going = forced(flat, going, [one for one in decisions if one.label != end_label])
    left = search.left = ended.any(-1) if search.left is None else search.left | ended.any(-1)
    rank.check_ranked(
        flat, Ranking(None, None, np.where(left[..., None] & ~np.isnan(going.host), 0, going.host)), total, place
    )
    most = int(ended.sum(-1).max(initial=0))
    if np.isnan(score).any():
        rank.check_ranked(flat, Ranking(None, None, score), total, place)
    if not most:
        return going, going
    score = np.where(ended, score, -np.inf)
    slots = np.argsort(-score, axis=-1, kind="stable")[..., :most]
    score = np.take_along_axis(score, slots, -1)

    def join(a: Any, b: np.ndarray) -> Any:
        b = backend.from_numpy(b, dtype=backend.get_dtype_name_raw(a), device=device)
        return backend.concat_raw([a, b], len(flat.rest))

    told = Ranking(
        join(going.scores, score),
        join(going.index, slots * flat.num_labels + end_label),
        np.concatenate([going.host, score], -1),
        in_order=False,
    )
    return going, told


@functools.lru_cache(maxsize=64)
def _ends(backend: Any, device: str, num_hypotheses: int, num_labels: int, end_label: int) -> tuple[Any, Any]:
    """The continuations that are an end {hypothesis * label}, and the index of the end of each hypothesis."""
    index = np.arange(num_hypotheses) * num_labels + end_label
    mask = np.zeros(num_hypotheses * num_labels, bool)
    mask[index] = True
    return (
        backend.from_numpy(mask, dtype="bool", device=device),
        backend.from_numpy(index, dtype="int64", device=device),
    )


def tell_with_left(
    loop: Loop, link: Link, flat: FlatScores, told: Ranking, parts: ScoreParts, options: ChoiceOptions
) -> None:
    """Report all decisions at the end of a step in which hypotheses have left."""
    decision, size = link.last, told.host.shape[-1]
    assert decision is not None
    count = decision.out_dim.extent
    seen = ChoiceRecord(options.name, flat, told, parts, link, num_candidates(options.keep_candidates, size))
    if link.search.keep is not None:
        seen.want(link.search.wanted)
    left = np.broadcast_to(np.arange(size) >= count, told.host.shape) & (told.host > -np.inf)
    seen.more["left"] = left, "bool"
    loop.call_on_commit(lambda: tell(loop, decision, seen, lambda: (left, (*flat.rest, seen.carried))))
