"""Caches of keys and values: which tokens the keys in them are of, through what a search does with them."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from typing import Any

import torch

from rfnb.core.block import Undone
from rfnb.core.dim import Dim
from rfnb.interop.seen.calls import Call
from rfnb.interop.seen.functions import opens
from rfnb.interop.seen.replaced import Replaced

_PAST = "past"
_ids: weakref.WeakKeyDictionary[Any, torch.Tensor] = weakref.WeakKeyDictionary()  # of a cache, {batch, positions}
_CHANGES: dict[
    str, Callable[[torch.Tensor, Any], torch.Tensor] | None
] = {  # what the methods of caches do with the batch; None: more
    "reorder_cache": lambda ids, rows: ids.index_select(0, rows.to(ids.device)),
    "batch_select_indices": lambda ids, rows: ids[rows],
    "batch_repeat_interleave": lambda ids, repeats: ids.repeat_interleave(repeats, 0),
    "crop": None,
    "reset": None,
}
_replaced = Replaced()


class Past:
    """The positions that a call has of calls before.

    Attributes:
        length: Positions.
        ids: Their tokens {batch, positions}; None where these are not known.
        dim: Of these positions and the new ones.
    """

    def __init__(self, cache: Any, length: int, ids: torch.Tensor | None):
        self.cache, self.length, self.ids = cache, length, ids
        self.dim: Dim | None = None


def past_of(call: Call) -> Past | None:
    """The content of the cache that a call was given; None if it has none."""
    cache = call.inputs.get("past_key_values")
    around = call.outer
    while around is not None:
        past = around.seen.get(_PAST)
        if past is not None and past.cache is cache:
            call.seen[_PAST] = past
            return past if past.length else None
        around = around.outer
    length = _length(cache)
    ids = _ids.get(cache) if length else None
    past = call.seen[_PAST] = Past(cache, length, ids if ids is not None and ids.shape[1] == length else None)
    return past if length else None


def past_around(call: Call | None) -> Past | None:
    """The cache of the model around a call; None if it has none."""
    while call is not None:
        past: Past | None = call.seen.get(_PAST)
        if past is not None and past.cache is not None:
            return past
        call = call.outer
    return None


def remember(call: Call, ids: torch.Tensor | None, result: Any) -> None:
    """Note which tokens a cache is of when a call has added its own."""
    past: Past | None = call.seen.get(_PAST)
    cache = getattr(result, "past_key_values", None)
    cache = cache if cache is not None else past.cache if past is not None else None
    if cache is None or past is None or not _length(cache):
        return
    if ids is not None and ids.ndim == 2 and not (past.length and past.ids is None):
        new = ids.detach()
        _ids[cache] = new if past.ids is None else torch.cat([past.ids, new], 1)
    else:
        _ids.pop(cache, None)


def _length(cache: Any) -> int:
    try:
        return int(cache.get_seq_length())
    except Exception:  # none, one of a kind of its own, or states that are over no positions
        return 0


@opens
def caches_seen(modules: list[torch.nn.Module]) -> Undone:
    """Follow what is done with the batch of a cache."""
    file = sys.modules.get("transformers.cache_utils")
    kinds = [getattr(file, name, None) for name in ("Cache", "EncoderDecoderCache")] if file is not None else []
    methods = [(kind, name) for kind in kinds for name in _CHANGES if kind is not None and name in vars(kind)]
    return _replaced.during(lambda: [(kind, name, functools.partial(_following, name=name)) for kind, name in methods])


def _following(original: Any, name: str) -> Any:
    change = _CHANGES[name]

    @functools.wraps(original)
    def seen(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        ids = _ids.pop(self, None)
        given = [*args, *kwargs.values()]
        if ids is not None and change is not None and len(given) == 1:
            _ids[self] = change(ids, given[0])
        return result

    return seen
