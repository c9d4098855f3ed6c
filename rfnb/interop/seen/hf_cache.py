"""Key-value caches: the positions of their keys and the tokens there, followed through the operations of a search.

A windowed cache has only the last keys, and a fixed-size cache has empty slots. A cache reports the position of its
first key, for the masks of the model; it is queried before each update.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch.utils.weak import WeakIdKeyDictionary

from rfnb.core.dim import Dim
from rfnb.interop.seen.calls import Call, around, current
from rfnb.interop.seen.function_calls import replaces
from rfnb.interop.seen.replacements import Place
from rfnb.interop.seen.streams import attention_dims, is_cross, source_size
from rfnb.trace.probe import listening
from rfnb.viz.dims.transformers_rows import CACHE_NAMES, cache_in

_PAST, _KEYS, _TOLD = "past", "keys of a cache", "attentions"
_ids: weakref.WeakKeyDictionary[Any, torch.Tensor] = weakref.WeakKeyDictionary()  # of a cache, {batch, positions}
_CHANGES: dict[
    str, Callable[[torch.Tensor, Any], torch.Tensor] | None
] = {  # the effect of cache methods on the batch; None: repetition
    "reorder_cache": lambda ids, rows: ids.index_select(0, rows.to(ids.device)),
    "batch_select_indices": lambda ids, rows: ids[rows],
    "batch_repeat_interleave": lambda ids, repeats: ids.repeat_interleave(repeats, 0),
    "crop": None,
    "reset": None,
}
_UPDATED, _UNKNOWN = "updated", (-1, -1)


_UNPLACED = "Columns are cache slots, not positions: the order in which this model stores its keys is unknown."


class KeyPositions(NamedTuple):
    """The positions of the keys of an attention within the model.

    Attributes:
        first: The position of the first one.
        size: The number of keys; the following ones are empty cache slots.
        total: The number of positions so far; None if only the cache knows the mapping of positions to slots.
    """

    first: int
    size: int
    total: int | None

    def filled(self, raw: Any, axis: int = -1) -> Any:
        """The part of a tensor along keys without empty slots."""
        if not isinstance(raw, torch.Tensor) or raw.shape[axis] <= self.size:
            return raw
        return raw.narrow(axis, 0, self.size)

    def remarked(self, values: dict[str, Any], remarks: Sequence[str] = ()) -> dict[str, Any]:
        """The values of an event of weights over these keys, with remarks on them."""
        said = [_UNPLACED] * (self.total is None) + [*remarks]
        return values | ({"remark": " ".join(said)} if said else {})

    def placed(self, raw: torch.Tensor, value: float = 0) -> torch.Tensor:
        """Weights of these keys, expanded to all positions, with 0 at positions without a key."""
        return F.pad(raw, (self.first, 0), value=value) if self.first else raw

    def masked(self, mask: Any, shape: Sequence[int], device: Any) -> Any:
        """A mask for weights over these keys, expanded to all positions: those without a key are hidden.

        Args:
            shape: The shape of the weights over the keys.
        """
        if not self.first:
            return mask
        if mask is None:
            mask = torch.ones([1] * (len(shape) - 1) + [shape[-1]], dtype=torch.bool, device=device)
        if mask.shape[-1] == 1:
            mask = mask.expand(*mask.shape[:-1], shape[-1])
        return self.placed(mask, -math.inf if mask.is_floating_point() else 0)


def every(count: int) -> KeyPositions:
    """The positions of keys that are all sources of a call."""
    return KeyPositions(0, count, count)


class Past:
    """The positions of earlier calls that a call can attend to.

    Attributes:
        length: Number of positions.
        ids: Their tokens {batch, positions}; None if unknown.
        dim: The dim of these positions and the new ones.
    """

    def __init__(self, cache: Any, length: int, ids: torch.Tensor | None):
        self.cache, self.length, self.ids = cache, length, ids
        self.dim: Dim | None = None


def past_of(call: Call) -> Past | None:
    """The content of the cache passed to a call, or None."""
    cache = cache_in(call.inputs)
    for each in around(call.outer):
        past = each.seen.get(_PAST)
        if past is not None and past.cache is cache:
            call.seen[_PAST] = past
            return past if past.length else None
    length = _length(cache, call.inputs.get("cache_position"))
    ids = _ids.get(cache) if length else None
    past = call.seen[_PAST] = Past(cache, length, ids if ids is not None and ids.shape[1] == length else None)
    return past if length else None


def past_around(call: Call | None) -> Past | None:
    """The cache of the enclosing model, or None."""
    known = (each.seen.get(_PAST) for each in around(call))
    return next((past for past in known if past is not None and past.cache is not None), None)


def places_of(call: Call, key: Any, columns: int, queries: int) -> KeyPositions | None:
    """The positions of the keys of a self-attention; None if they are from its own call or from elsewhere.

    Args:
        key: The keys passed to the attention, if known.
        columns, queries: Numbers of keys and queries.
    """
    if is_cross(call):
        return _of_encoder(call, key, columns)
    noted = _keys.get(key) if isinstance(key, torch.Tensor) else None
    noted = noted or _of_update(call, columns) or _of_module(call, columns, queries)
    past = past_around(call)
    if noted is None:
        if past is None or columns == queries:
            return None
        end = past.length + queries
        # A custom cache that keeps everything, or keys that another layer cached.
        return KeyPositions(0, columns, end if columns == end else None)
    first, end = noted
    if noted == _UNKNOWN:
        return KeyPositions(0, columns, None)
    count = min(columns, end - first)
    return KeyPositions(first, count, end) if first + count == end else KeyPositions(0, columns, None)


def _of_update(call: Call, columns: int) -> tuple[int, int] | None:
    """The same for the last update in a call; None if the model added other keys to these."""
    noted: tuple[int, int] | None = call.seen.get(_KEYS)
    return noted if noted is None or call.seen[_UPDATED][2].shape[-2] == columns else _UNKNOWN


def _of_encoder(call: Call, key: Any, columns: int) -> KeyPositions | None:
    """The positions of keys from elsewhere, if a cache keeps fewer of them than exist."""
    total = source_size(call)
    if total is None or total == columns:
        return None
    past, layer = past_around(call), getattr(call.module, "layer_idx", None)
    layers = getattr(getattr(past.cache if past is not None else None, "cross_attention_cache", None), "layers", ())
    if isinstance(layer, int) and layer < len(layers) and getattr(layers[layer], "keys", None) is key:
        if total > columns and getattr(layers[layer], "is_sliding", False):
            return KeyPositions(total - columns, columns, total)
        if total < columns:
            return KeyPositions(0, total, total)
    return KeyPositions(0, columns, None)


def _of_module(call: Call, columns: int, queries: int) -> tuple[int, int] | None:
    """The same for a module that keeps its last keys itself, like RecurrentGemma before version 5 of transformers."""
    at = call.inputs.get("cache_position")
    own = type(call.module).__module__.startswith("transformers.") and not any(
        name in call.inputs for name in CACHE_NAMES
    )
    if not own or not isinstance(at, torch.Tensor) or at.ndim != 1 or len(at) != queries or columns == queries:
        return None
    end = int(at[-1]) + 1
    return max(end - columns, 0), end


def is_told(call: Call, *parts: Any) -> bool:
    """Whether attention with these queries, keys and masks was already sent: two values may share their weights."""
    told = call.seen.setdefault(_TOLD, [])
    if any(all(one is other for one, other in zip(parts, each)) for each in told):
        return True
    told.append(parts)
    return False


def cached_dims(call: Call, query: Sequence[int], places: KeyPositions) -> tuple[Dim, Dim, Dim, Dim]:
    """The dims {batch, head, target, source} of the weights of queries (batch, head, target, feature) and keys at these positions."""
    if places.total is None:
        return *attention_dims(call, query, query)[:3], Dim(places.size, name="place")
    return attention_dims(call, query, (*query[:2], places.total, 0))


def remember(call: Call, ids: torch.Tensor | None, result: Any) -> None:
    """Record the tokens of a cache after a call has added its own."""
    past: Past | None = call.seen.get(_PAST)
    cache = cache_in(result)
    cache = cache if cache is not None else past.cache if past is not None else None
    if cache is None or past is None or not _length(cache):
        return
    if ids is not None and ids.ndim == 2 and not (past.length and past.ids is None):
        new = ids.detach()
        _ids[cache] = new if past.ids is None else torch.cat([past.ids, new], 1)
    else:
        _ids.pop(cache, None)


def _length(cache: Any, at: Any = None) -> int:
    """The number of positions in a cache.

    Args:
        at: The next positions, if a model receives them. Static caches of transformers 4 count the keys that are not 0.
    """
    try:
        length = cache.get_seq_length()
        if isinstance(length, torch.Tensor) and isinstance(at, torch.Tensor) and at.ndim == 1:
            length = at[0]
        return int(length)
    except Exception:  # no cache, a custom one, or states that are not over positions
        return 0


@replaces
def caches_seen(modules: list[torch.nn.Module]) -> Iterator[Place]:
    """The batch operations of caches, and their updates."""
    file = sys.modules.get("transformers.cache_utils")
    kinds = [getattr(file, name, None) for name in ("Cache", "EncoderDecoderCache")] if file is not None else []
    for kind in filter(None, kinds):
        for name in _CHANGES.keys() & vars(kind).keys():
            yield kind, name, functools.partial(_following, name=name)
    for kind in _all_of(kinds[0] if kinds else None):
        if "update" in vars(kind):
            yield kind, "update", _updating


def _all_of(kind: Any) -> list[Any]:
    """A class and its subclasses."""
    return [] if kind is None else [kind, *(each for inner in kind.__subclasses__() for each in _all_of(inner))]


def _updating(original: Any) -> Any:
    @functools.wraps(original)
    def seen(self: Any, key: Any, value: Any, layer: Any, *args: Any, **kwargs: Any) -> Any:
        call = current()
        if call is None or not listening("attention") or is_cross(call):
            return original(self, key, value, layer, *args, **kwargs)
        noted = _before_update(call, self, key, layer)
        result = original(self, key, value, layer, *args, **kwargs)
        given = result[0] if isinstance(result, tuple) and result else None
        if not isinstance(given, torch.Tensor):
            return result
        # A class that modifies the result of its base class has its own order.
        before = call.seen.get(_UPDATED)
        own = before is None or before[0] is not self or before[1] != layer or before[2] is given
        call.seen[_UPDATED] = self, layer, given
        call.seen[_KEYS] = _keys[given] = noted if own and noted is not None else _UNKNOWN
        return result

    return seen


_keys: Any = (
    WeakIdKeyDictionary()
)  # of keys that an update returned: the position of the first, and that after the last


def _before_update(call: Call, cache: Any, key: torch.Tensor, layer: int) -> tuple[int, int] | None:
    """The position of the first key that an update will return, and that after the last; None if a cache does not report it."""
    past, queries = past_around(call), int(key.shape[-2])
    own = getattr(past.cache, "self_attention_cache", past.cache) if past is not None else None
    try:
        if past is not None and cache is getattr(past.cache, "cross_attention_cache", None):
            return None
        length = past.length if past is not None and cache is own else int(cache.get_seq_length(layer))
        asked = queries if _asks_for_number(type(cache)) else torch.arange(queries, device="cpu")  # type: ignore[arg-type]
        _, first = cache.get_mask_sizes(asked, layer)
        return int(first), length + queries
    except Exception:  # a custom cache
        return None


@functools.cache
def _asks_for_number(kind: Any) -> bool:
    """Whether a cache takes the number of queries; before version 5, it took their positions."""
    return "query_length" in inspect.signature(kind.get_mask_sizes).parameters


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
