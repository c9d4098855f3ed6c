"""Streams: the batch and positions that a call works on, and those that an attention in it works on.

Layers add, normalise and reshape, so their results are never the tensor whose dims are known, and two streams of a
model (encoder and decoder, text and image) may have equal sizes. So a call inherits the stream of the enclosing call,
as long as the sizes of its first input agree; sibling calls in which a new stream begins (after a convolution, after
patches) share it by size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from rfnb.core.dim import Dim
from rfnb.interop.seen.calls import Call, around

SOURCES = ("key_value_states", "encoder_hidden_states", "cross_attention_states", "memory")
"""Parameters of attentions whose keys come from another sequence."""

_STREAM, _BEGUN, _ALL, _SOURCE = "stream", "streams begun", "all positions", "source"


class Stream(NamedTuple):
    """The dim of the batch entries, and that of the positions of each; None without positions."""

    batch: Dim
    time: Dim | None


def stream_of(call: Call | None) -> Stream | None:
    """The stream of a call: that of its first tensor."""
    if call is None:
        return None
    if _STREAM not in call.seen:
        call.seen[_STREAM] = _found(call)
    found: Stream | None = call.seen[_STREAM]
    if found is not None:  # lengths may be known by now
        found = Stream(call.names.now(found.batch), call.names.now(found.time) if found.time is not None else None)
    return found


def set_stream(call: Call, stream: Stream) -> None:
    """Set the stream of a call."""
    call.seen[_STREAM] = stream


def dims_of(raw: torch.Tensor, call: Call, stream: Stream | None, name: str = "time") -> Stream | None:
    """The stream of one tensor {batch, time, ...}: the known one, else `stream` if its sizes agree, else a new one."""
    if raw.ndim < 2:
        return None
    known = call.names.of(raw) or ()
    batch = next((dim for dim in known if dim.kind == "batch"), None)
    times = [dim for dim in known if dim.kind not in ("batch", "feature")]
    own = Stream(batch, times[0]) if batch is not None and len(times) == 1 else None
    if own is not None and not times[0].guessed:
        return own
    sizes = (raw.shape[0], raw.shape[1])
    if stream is not None and _is(stream.batch, sizes[0]) and stream.time is not None and _is(stream.time, sizes[1]):
        return stream
    if own is not None:
        return own
    for each in around(call):
        if sizes in each.seen.get(_BEGUN, {}):
            begun: Stream = each.seen[_BEGUN][sizes]
            return begun
    same = stream is not None and _is(stream.batch, sizes[0])
    rows = stream.batch if stream is not None and same else Dim(sizes[0], name="batch", kind="batch")
    new = Stream(rows, Dim(sizes[1], name=_name(call, name)))
    (call.outer or call).seen.setdefault(_BEGUN, {})[sizes] = new
    return new


def set_all(call: Call, dim: Dim) -> None:
    """Set the positions of the keys that a call has from earlier calls: all so far."""
    call.seen[_ALL] = dim


def attention_dims(call: Call, query: Sequence[int], key: Sequence[int]) -> tuple[Dim, Dim, Dim, Dim]:
    """The dims {batch, head, target, source} of the weights of queries (batch, head, target, feature) and keys of these shapes.

    Keys are over the positions of their input tensor; else over the twin of the queries' positions; else over all
    positions so far, with the earlier ones in a cache.
    """
    stream = stream_of(call)
    known = stream is not None and _is(stream.batch, query[0])
    batch = stream.batch if stream is not None and known else _new(call, query[0], "batch")
    target = None
    if known and stream is not None and stream.time is not None and _is(stream.time, query[2]):
        target = stream.time
    target = target or _new(call, query[2], "target")
    source = _given(call, batch, key[2])
    if source is None and key[2] == query[2]:
        source = target
    source = source or _all(call, key[2]) or _new(call, key[2], "source")
    if source is target:
        source = target.copy(match_priority=target.match_priority - 1)
    return batch, head_dim(query[1]), target, source


def head_dim(size: int) -> Dim:
    """A dim of heads."""
    return Dim(int(size), name="head")


def is_cross(call: Call | None) -> bool:
    """Whether keys come from another sequence."""
    return call is not None and _source(call) is not None


def source_size(call: Call) -> int | None:
    """The number of positions of the keys' input, if that is one tensor {batch, positions, feature}."""
    raw = _source(call)
    return int(raw.shape[1]) if raw is not None and raw.ndim == 3 else None


def _source(call: Call) -> torch.Tensor | None:
    if _SOURCE not in call.seen:
        given = call.inputs
        call.seen[_SOURCE] = next((given[name] for name in SOURCES if isinstance(given.get(name), torch.Tensor)), None)
    source: torch.Tensor | None = call.seen[_SOURCE]
    return source


def _given(call: Call, batch: Dim, size: int) -> Dim | None:
    raw = _source(call)
    if raw is None or raw.ndim != 3 or raw.shape[1] != size:
        return None
    found = dims_of(raw, call, Stream(batch, None), "source")
    return (
        found.time
        if found is not None and (found.batch is batch or not (found.time and found.time.is_dynamic()))
        else None
    )


def _all(call: Call | None, size: int) -> Dim | None:
    dim = next((each.seen[_ALL] for each in around(call) if _ALL in each.seen), None)
    return dim if dim is not None and _is(dim, size) else None


def _found(call: Call) -> Stream | None:
    outer = stream_of(call.outer)
    for _, raw in call.tensors():
        if raw.is_floating_point() and raw.ndim == 3 and outer is not None and _is_turned(outer, raw):
            return outer
        if (raw.is_floating_point() and raw.ndim == 3) or (not raw.is_floating_point() and raw.ndim == 2):
            return dims_of(raw, call, outer)
    return outer


def _is_turned(stream: Stream, raw: torch.Tensor) -> bool:
    """Whether a tensor {time, batch, feature} or {batch, feature, time} fits a stream, but not as {batch, time, feature}."""
    if stream.time is None:
        return False
    batch, time, (first, second, third) = stream.batch.extent, stream.time.extent, raw.shape
    return (first, second) != (batch, time) and ((second, first) == (batch, time) or (first, third) == (batch, time))


def _new(call: Call, size: int, role: str) -> Dim:
    """A dim with a size: one that another attention of the enclosing model introduced, else a new one."""
    key, around = (role, int(size)), call.outer or call
    begun = around.seen.setdefault(_BEGUN, {})
    if key not in begun:
        begun[key] = Dim(int(size), name=role, kind="batch" if role == "batch" else None)
    dim: Dim = begun[key]
    return dim


def _name(call: Call, name: str) -> str:
    """The name of positions that are not tokens, derived from the model's input."""
    if name == "time":
        if "pixel_values" in call.root.inputs:
            return "patches"
        if any(audio in call.root.inputs for audio in ("input_features", "input_values")):
            return "frames"
    return name


def _is(dim: Dim, size: int) -> bool:
    return dim.extent == size
