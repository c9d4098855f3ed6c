"""Attention in torch: `F.scaled_dot_product_attention` and `F.multi_head_attention_forward`, wherever a model calls them.

Weights are computed from queries and keys on demand. They are the weights before dropout.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import torch
import torch.nn.functional as F

from rfnb.core.dim import Dim
from rfnb.core.errors import runtime_error
from rfnb.core.op import Args, Kwargs
from rfnb.core.tensor import Tensor
from rfnb.interop.seen import weights as of_torch
from rfnb.interop.seen.calls import Call
from rfnb.interop.seen.function_calls import sees
from rfnb.interop.seen.hf_cache import KeyPositions, cached_dims, every, is_told, places_of
from rfnb.interop.seen.sides import heads_of, sides, weights_dims
from rfnb.interop.seen.snapshot import ValueSnapshot
from rfnb.interop.seen.value_edits import EDITED
from rfnb.trace.long_attention import is_large
from rfnb.trace.probe import Later, listening, probe_later, trace_context

_FEW = (
    8  # if weights are smaller than queries and keys by this factor, they are computed at once: in a step with a cache
)
_FORWARD = inspect.signature(F.multi_head_attention_forward)


@sees(F, "scaled_dot_product_attention")
def scaled_dot_product_attention(call: Call, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Send the weights {batch, head, target, source} of `F.scaled_dot_product_attention`."""
    if not listening("attention"):
        return
    given = of_torch.arguments(args, kwargs)
    query, key, mask = given["query"], given["key"], given.get("attn_mask")
    if is_told(call, query, key, mask):
        return
    inside = call.seen.get("multi_head")
    dims: Sequence[Dim] | None = None
    if inside:
        dims = _of_multi_head(call, inside, (query.shape[1], *query.shape[-2:-1], key.shape[-2]))
    places = places_of(call, key, key.shape[-2], query.shape[-2]) if query.ndim == 4 and not query.is_nested else None
    if places is not None:
        dims, key, mask = cached_dims(call, query.shape, places), places.filled(key, -2), places.filled(mask)
    given = {"causal": bool(given.get("is_causal")), "scale": given.get("scale")}
    offer(call, query, key, mask=mask, **given, dims=dims, places=places, own=call.seen.pop(EDITED, None))


def offer(
    call: Call,
    query: torch.Tensor,
    key: torch.Tensor,
    *,
    mask: Any = None,
    causal: bool = False,
    scale: float | None = None,
    dims: Sequence[Dim] | None = None,
    places: KeyPositions | None = None,
    own: torch.Tensor | None = None,
) -> None:
    """Send the weights of queries [..., target, feature] and keys [..., source, feature], computed on demand.

    Args:
        mask: Bool, true for visible positions, or a number to add to the scores.
        causal: Whether target i sees the sources 0 to i.
        dims: The dims of the weights [..., target, source]. Default: derived from the inputs of enclosing modules (`sides.py`).
        places: The positions of the keys among the sources; default: they are the sources.
        own: The weights, if they cannot be computed from the queries and keys any more.
    """
    if not listening("attention"):
        return
    if query.is_nested or key.is_nested:
        return _offer_nested(call, query, key, causal, scale)
    places = places or every(key.shape[-2])
    own = places.filled(own)
    front = [max(sizes) for sizes in zip_longest(query.shape[-3::-1], key.shape[-3::-1], fillvalue=1)][::-1]
    shape = [*front, query.shape[-2], key.shape[-2]]
    if dims is None:
        named, sizes = weights_dims(call, shape)
    else:
        named, sizes = list(dims), list(shape)[len(shape) - len(dims) :]
    queries, keys = of_torch.keep(query, "queries"), of_torch.keep(key, "keys")
    masks = None if mask is None else of_torch.keep(mask, "mask")
    over = [*sizes[:-1], places.first + sizes[-1]]  # including the positions in front of the first key
    square = causal and over[-1] == over[-2] and not places.first

    def made() -> torch.Tensor:
        added = None if masks is None else masks.read()
        raw = (
            own if own is not None else of_torch.weights(queries.read(), keys.read(), added, causal=causal, scale=scale)
        )
        return places.placed(raw if list(raw.shape) == list(sizes) else raw.reshape(sizes))

    def visible(own: Any) -> Any:
        if causal and not square:  # torch aligns the first query with the first source
            own = of_torch.both(own, of_torch.upper_left(sizes, queries.raw.device))
        return places.masked(own, sizes, queries.raw.device)

    def told(raw: torch.Tensor, own: Any) -> dict[str, Any]:
        return places.remarked(described(raw, named, visible(own), causal=square))

    def make() -> dict[str, Any]:
        own = None if masks is None else _aligned(masks.read(), shape, sizes)
        if is_large(over):
            both = (
                raw if raw.ndim == len(sizes) else raw.reshape([*sizes[:-2], *raw.shape[-2:]])  # heads in the batch
                for raw in (queries.read(), F.pad(keys.read(), (0, 0, places.first, 0)))
            )
            return by_rows(next(both), next(both), named, mask=visible(own), causal=square, scale=scale)
        return told(made(), own)

    kept = of_torch.bytes_of(queries) + of_torch.bytes_of(keys) + of_torch.bytes_of(masks)
    if own is None and (4 * math.prod(sizes) * _FEW > kept or is_large(over)):
        probe_later("attention", Later(make, kept))
        return
    # Visible positions are inspected later: to check whether all are visible would wait for a GPU.
    few, seen = made(), None if masks is None else _aligned(masks.read().clone(), shape, sizes)
    num_bytes = sum(raw.nbytes for raw in (few, seen) if raw is not None)
    probe_later("attention", Later(lambda: told(few, seen), num_bytes))


def by_rows(
    query: Any,
    key: Any,
    dims: Sequence[Dim],
    *,
    mask: Any = None,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
) -> dict[str, Any]:
    """The values of an event whose weights are too large to compute at once: queries and keys, from which `rf.LongAttention` computes rows.

    Args:
        query: [..., target, feature]
        key: [..., source, feature], with as many axes.
        dims: The dims of the weights.
        mask: Bool, true for visible positions, or added to the scores; with as many axes as the weights.
        causal: Whether the attention is causal, with the last target aligned with the last source.
        window: Number of sources that a target sees in causal attention.
    """
    width = Dim(query.shape[-1], name="feature", kind="feature")
    front = [dim if size == full else Dim(size, name=dim.name, kind=dim.kind)
             for dim, size, full in zip(dims, key.shape, query.shape[:-2])]  # fmt: skip
    values: dict[str, Any] = {
        "queries": Tensor("queries", [*dims[:-1], width], raw_tensor=query),
        "keys": Tensor("keys", [*front, dims[-1], width], raw_tensor=key),
        "axis": dims[-1], "target": dims[-2], "causal": causal, "scale": scale, "window": window,
    }  # fmt: skip
    return values | _mask(mask, dims, [*query.shape[:-1], key.shape[-2]])


def _mask(mask: Any, dims: Sequence[Dim], sizes: Sequence[int]) -> dict[str, Any]:
    """The mask of an event, without the axes along which it is constant; nothing without a mask."""
    if mask is None:
        return {}
    own = [axis for axis, size in enumerate(mask.shape) if size == sizes[axis]]
    few = mask.reshape([mask.shape[axis] for axis in own])
    return {"mask": Tensor("mask", [dims[axis] for axis in own], raw_tensor=few)}


def described(raw: torch.Tensor, dims: Sequence[Dim], mask: Any, *, causal: bool = False) -> dict[str, Any]:
    """The values of an event of weights [*dims].

    Args:
        mask: As in `weights`, broadcasts to the weights.
        causal: Whether target i sees the sources 0 to i, of which there are as many.
    """
    visible = of_torch.visible(mask)
    if visible is not None:
        visible = visible.reshape([1] * (raw.ndim - visible.ndim) + list(visible.shape))
    if visible is not None and raw.shape[-1] == raw.shape[-2] > 1:
        lower = of_torch.upper_left(raw.shape, visible.device)
        if visible.numel() == lower.numel() and torch.equal(visible.reshape(lower.shape), lower):
            visible, causal = None, True
    return weights_over(raw, dims) | {"causal": causal} | _mask(visible, dims, raw.shape)


def weights_over(raw: torch.Tensor, dims: Sequence[Dim]) -> dict[str, Any]:
    """The values of an event of weights [*dims] without masks."""
    return {"weights": Tensor("weights", list(dims), raw_tensor=raw), "axis": dims[-1], "target": dims[-2]}


def probe_weights(
    made: Callable[[], torch.Tensor],
    dims: Sequence[Dim],
    num_bytes: int,
    *,
    targets: int = 1,
    name: str = "",
    step: int | None = None,
) -> None:
    """Send weights that a softmax made, with no targets or several, for a step or a variable of the module."""

    def values() -> dict[str, Any]:
        if targets:
            return described(made(), dims, None)
        return {"weights": Tensor("weights", list(dims), raw_tensor=made()), "axis": dims[-1]}

    later = Later(values, num_bytes)
    if step is None and not name:
        probe_later("attention", later)
        return
    with trace_context.scope(name):
        if step is not None:
            trace_context.at_step(step)
        probe_later("attention", later)


def next_step(call: Call) -> int | None:
    """The step of a call of a module with one target in each: the next one within the enclosing call; None without one."""
    if call.outer is None:
        return None
    steps: dict[str, int] = call.outer.seen.setdefault("attention_steps", {})
    steps[call.path] = steps.get(call.path, -1) + 1
    return steps[call.path]


def _aligned(mask: Any, shape: Sequence[int], sizes: Sequence[int]) -> Any:
    """A mask that broadcasts against `shape`, from one for `sizes`, which has the heads separate from the batch."""
    if mask is None:
        return None
    mask = mask.reshape([1] * (len(shape) - mask.ndim) + list(mask.shape))
    return mask if list(shape) == list(sizes) else mask.expand(list(shape)).reshape(list(sizes))


def _offer_nested(call: Call, query: Any, key: Any, causal: bool, scale: float | None) -> None:
    """The same for nested tensors [batch, head, each its own length, feature]."""
    queries, keys = of_torch.keep(query, "queries"), of_torch.keep(key, "keys")
    targets, sources = ([raw.shape[-2] for raw in nested.unbind()] for nested in (query, key))
    batch, target, source = sides(call, len(targets), max(targets), max(sources))
    assert batch is not None
    is_self = (target.twin_of or target) is (source.twin_of or source) and targets == sources
    target = ragged(targets, batch, target.name)
    source = target.copy(match_priority=-1) if is_self else ragged(sources, batch, source.name)
    heads = [heads_of(call.module, part.shape[0]) for part in query.unbind()[:1] if part.ndim == 3]

    def make() -> dict[str, Any]:
        own = lengths_mask(sources, max(sources)).reshape([len(sources), *[1] * len(heads), 1, max(sources)])
        raw_query, raw_key = of_torch.read(queries), of_torch.read(keys)
        raw = of_torch.weights(raw_query, raw_key, own.to(raw_query.device), causal=causal, scale=scale)
        rows = lengths_mask(targets, max(targets)).reshape([len(targets), *[1] * len(heads), max(targets), 1])
        raw = raw.masked_fill(~rows.to(raw.device), 0)
        square = raw.shape[-1] == raw.shape[-2]
        lower = None if square or not causal else of_torch.upper_left(raw.shape)
        return described(raw, [batch, *heads, target, source], lower, causal=causal and square)

    probe_later("attention", Later(make, of_torch.bytes_of(queries) + of_torch.bytes_of(keys)))


def ragged(lengths: Sequence[int], batch: Dim, name: str) -> Dim:
    """A dim with these lengths over the batch."""
    size = Tensor(f"{name}:size", [batch], raw_tensor=torch.tensor(list(lengths), dtype=torch.int32, device="cpu"))
    return Dim(size, name=name)


def lengths_mask(lengths: Sequence[int], longest: int) -> torch.Tensor:
    """Bool [sequence, position] on the host: true before the end of the sequence."""
    return torch.arange(longest, device="cpu")[None] < torch.tensor(list(lengths), device="cpu")[:, None]


def _enter(call: Call, args: Args, kwargs: Kwargs) -> None:
    call.seen["multi_head"] = _FORWARD.bind(*args, **kwargs).arguments


@sees(F, "multi_head_attention_forward", before=_enter)
def multi_head_attention_forward(call: Call, args: Args, kwargs: Kwargs, result: Any) -> None:
    """Do nothing: the softmax inside it has sent the weights."""
    call.seen.pop("multi_head", None)


def softmax_inside(call: Call, result: torch.Tensor) -> bool:
    """Send the result of the softmax called by `F.multi_head_attention_forward`; returns whether it was that one."""
    inside = call.seen.get("multi_head")
    if inside is None:
        return False
    heads = inside["num_heads"]
    raw, unbatched = call.seen.pop(EDITED, None), inside["query"].ndim == 2
    if raw is None:
        raw = result.detach() if unbatched else result.detach().unflatten(0, (-1, heads))
    dims = _of_multi_head(call, inside, raw.shape[-3:])
    mask, kept = _mask_of(inside, raw), ValueSnapshot(raw)
    probe_later("attention", Later(lambda: described(unchanged(kept), dims, mask), kept.num_bytes))
    return True


def unchanged(kept: ValueSnapshot) -> torch.Tensor:
    """The result of a softmax, checked to be unmodified.

    Raises:
        RuntimeError: If it was changed in place.
    """
    if not kept.is_same:
        raise runtime_error(
            "attention: the weights of this call have changed.",
            {"weights": f"{tuple(kept.raw.shape)}, changed in place after the softmax"},
            "The result of a softmax is recorded without a copy. Have the model create a new tensor instead of changing this one:",
            "weights = weights.masked_fill(mask, 0)    # not masked_fill_",
        )
    return kept.raw


def _of_multi_head(call: Call, inside: dict[str, Any], shape: Sequence[int]) -> list[Dim]:
    """The dims of weights [head, target, source] of one call of `F.multi_head_attention_forward`, with its batch in front."""
    heads, targets, sources = map(int, shape)
    batched = inside["query"].ndim == 3
    batch, target, source = sides(call, inside["query"].shape[1] if batched else None, targets, sources)
    return [*([batch] if batch is not None else []), heads_of(call.module, heads), target, source]


def _mask_of(inside: dict[str, Any], raw: torch.Tensor) -> Any:
    """The masks of the call, combined to one that is true for visible positions."""
    heads, _, sources = raw.shape[-3:]
    both = None
    for mask in (inside.get("attn_mask"), inside.get("key_padding_mask")):
        if mask is None:
            continue
        visible = ~mask if mask.dtype == torch.bool else ~mask.isneginf()
        visible = F.pad(visible, (0, sources - visible.shape[-1]), value=True)  # extra keys are appended
        if mask is inside.get("key_padding_mask"):
            visible = visible[:, None, None] if raw.ndim == 4 else visible[None, None]
        elif mask.ndim == 3:
            visible = visible.unflatten(0, (-1, heads)) if raw.ndim == 4 else visible
        else:
            visible = visible.reshape([1] * (raw.ndim - 2) + list(visible.shape))
        both = visible if both is None else both & visible
    return both
