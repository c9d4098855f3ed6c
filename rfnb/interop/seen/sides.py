"""Sides: the Dims of attention weights, in a module without a description.

The queries come from the target, the keys from the source. They are identified, in this order, by: the same tensor as an input whose
dims are known; an input that has the name of a source (`key`, `memory`, `encoder_hidden_states`, ...); sizes. If target
and source are equally long and nothing distinguishes them, it is self-attention, whose source is the twin of its
target.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from rfnb.core.dim import Dim
from rfnb.interop.seen.calls import Call, around

_SOURCE = re.compile(r"^(keys?|values?|key_value|kv|memory|context|ctx|cross|source|encoder|enc)(_|\d|$)")
_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads", "nheads")
_heads: weakref.WeakKeyDictionary[torch.nn.Module, dict[int, Dim]] = weakref.WeakKeyDictionary()


# "Attention", "attn", "self_att", "AttDecoder"; not "attribute", "pattern".
_WORD = re.compile(r"attention|attn|(?:^|[^a-z])att(?![a-z])", re.IGNORECASE)


def says_attention(name: str) -> bool:
    """Whether a class name or a path mentions attention."""
    return bool(_WORD.search(name)) or "Att" in re.findall("[A-Z][a-z]+", name)


def weights_dims(call: Call, shape: Sequence[int]) -> tuple[list[Dim], list[int]]:
    """The dims of weights [..., target, source], and the resulting shape of their array (heads separate from the batch)."""
    *front, targets, sources = map(int, shape)
    heads, roles = heads_in(call.module), ["batch", "head"][: len(front)]
    if front:
        batches = {dim_size for dim_size, dim in _known(call) if dim.kind == "batch"} | _first_sizes(call)
        if len(front) == 1 and front[0] == heads and heads not in batches:
            roles = ["head"]
        elif heads and heads not in (1, *front[1:]) and front[0] not in batches and front[0] / heads in batches:
            front = [front[0] // heads, heads, *front[1:]]
            roles = ["batch", "head"]
        elif len(front) > 2:
            # Blocks are before or after the heads: only their number tells which axis is which.
            last = max((axis for axis, size in enumerate(front) if axis and size == heads), default=None)
            roles = ["batch", *("head" if axis == last else "block" for axis in range(1, len(front)))]
    roles += ["block"] * (len(front) - len(roles))
    batch, target, source = sides(call, front[0] if roles[:1] == ["batch"] else None, targets, sources)
    dims = []
    for size, role in zip(front, roles):
        if role == "batch":
            assert batch is not None
            dims.append(batch)
        else:
            dims.append(heads_of(call.module, size) if role == "head" else Dim(size, name="block"))
    return [*dims, target, source], [*front, targets, sources]


def heads_in(module: torch.nn.Module) -> int | None:
    """The number of heads according to a module's attributes."""
    return next((n for n in (getattr(module, name, None) for name in _HEADS) if isinstance(n, int)), None)


def heads_of(module: torch.nn.Module, count: int) -> Dim:
    """The dim of the heads of a module, the same in all its calls."""
    known = _heads.setdefault(module, {})
    if count not in known:
        known[count] = Dim(count, name="head")
    return known[count]


def sides(call: Call, batch: int | None, targets: int, sources: int) -> tuple[Dim | None, Dim, Dim]:
    """The dims of the batch, the targets and the sources.

    Args:
        batch, targets, sources: Their sizes; None for no batch.
    """
    place = next((each for each in around(call) if inputs_of(each)), call)
    given = inputs_of(place)
    keys = [(name, raw) for name, raw in given if _SOURCE.match(name)]
    queries = [pair for pair in given if pair not in keys] or given[:1]
    if "query" in place.inputs:  # an attention with named sides
        queries = [pair for pair in given if pair[0] == "query"] or queries
    the_same = [raw for _, raw in keys if any(raw is other for _, other in queries)]
    keys = [(name, raw) for name, raw in keys if sources in raw.shape]
    target = _size_in(place, [raw for _, raw in queries], targets) or _near(place, targets, [])
    source = None
    if not the_same:
        own = [dim for dim in [_size_in(place, [raw], sources) for _, raw in keys] if dim is not None]
        source = next((dim for dim in own if dim is not target), None) or next(iter(own), None)
        if (
            source is target and keys and place.outer is None
        ):  # otherwise the only hint would be that they are equally long
            source = Dim(sources, name="source")
    is_self = targets == sources and (
        bool(the_same) or source is None or (source is target) or ("self" in call.path.rpartition(".")[2].lower())
    )
    found_batch = None if batch is None else _batch(place, batch)
    target = target or Dim(targets, name="target")
    if is_self:
        source = target.copy(match_priority=target.match_priority - 1)
    elif source is None:
        source = _near(place, sources, [target]) if sources != targets else None
    if source is None or source is target:
        source = Dim(sources, name="source")
    return found_batch, target, source


def name_like(call: Call, result: Any, name: str) -> None:
    """Give a module's result the dims of one of its inputs."""
    raw: Any = call.inputs.get(name)
    if not all(isinstance(each, torch.Tensor) and not each.is_nested for each in (raw, result)):
        return
    if raw.shape[:-1] == result.shape[:-1]:
        dims = call.names.of(raw)
        if dims is not None and call.names.of(result) is None:
            call.names.give(result, dims)


def _batch(call: Call, size: int) -> Dim:
    found = next((dim for length, dim in _known(call) if dim.kind == "batch" and length == size), None)
    return found or Dim(size, name="batch", kind="batch")


def _near(call: Call, size: int, taken: Sequence[Dim]) -> Dim | None:
    """A dim of positions with this size, from an input of the nearest enclosing call."""
    return next((dim for length, dim in _known(call) if length == size and _is_time(dim) and dim not in taken), None)


def _size_in(call: Call, raws: Sequence[torch.Tensor], size: int) -> Dim | None:
    return next(
        (
            dim
            for raw in raws
            for length, dim in zip(raw.shape, call.names.of(raw) or ())
            if length == size and _is_time(dim)
        ),
        None,
    )


def _is_time(dim: Dim) -> bool:
    return dim.kind not in ("batch", "feature") and "head" not in dim.name


def _known(call: Call) -> Iterator[tuple[int, Dim]]:
    """The sizes and dims of the known inputs of a call and its enclosing calls, nearest first."""
    for each in around(call):
        for _, raw in each.tensors():
            if not raw.is_nested:
                yield from zip(raw.shape, each.names.of(raw) or ())


def _first_sizes(call: Call) -> set[int]:
    """The possible batch sizes of inputs without names."""
    return {int(size) for each in around(call) for _, raw in inputs_of(each)[:1] for size in raw.shape[:2]}


def inputs_of(call: Call) -> list[tuple[str, torch.Tensor]]:
    """The inputs of a call that are not masks and have several axes."""
    return [(name, raw) for name, raw in call.tensors() if raw.ndim > 1 and not raw.is_nested and "mask" not in name]
