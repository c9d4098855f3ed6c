"""Linear recurrences with a matrix state, which each step decays, erases from and writes to; no nonlinearity acts on the state.

    S_t = exp(log_decay_t) S_{t-1} + strength_t key_t value_t;    out_t = query_t . S_t
    S'  = exp(log_decay_t) S_{t-1};  S_t = S' + strength_t key_t (value_t - key_t . S')          by the delta rule

The dot contracts `key_dim`; without one, S is a vector and is the output. Gated DeltaNet, Mamba, Mamba-2 and RG-LRU are
instances, whose layers compute the values from all input frames at once. Since the recurrence is linear in the state,
the steps of a chunk are a few matrix products, and only the chunks are sequential.

Source: Yang et al. 2024, "Gated Delta Networks", section 3.3 (chunks with erasing, there the WY form); Dao and Gu 2024,
"Transformers are SSMs", section 6 (chunks without).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from rfnb.core.dim import Dim
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.ops.cast import cast
from rfnb.ops.cumsum import cumsum
from rfnb.ops.dims import range_over_dim, replace_dim
from rfnb.ops.frames import frames, from_frames
from rfnb.ops.gather import gather
from rfnb.ops.math import combine_bc, compare_bc, exp
from rfnb.ops.matmul import matmul
from rfnb.ops.merge import merge_dims, split_dims
from rfnb.ops.pad import pad
from rfnb.ops.slice import slice as slice_dim
from rfnb.ops.where import where

# The inverse of a chunk's triangular matrix is a product of its powers, which grow as binomials: up to 20 for 8 steps, up to 3432 for 16.
_CHUNK, _MOST = 8, 64


class Writes(NamedTuple):
    """The values by which each step changes and reads the state.

    Attributes:
        log_decay: {..., heads, maybe key}, at most 0.
        strength: {..., heads}. The strength of the write.
        value: {..., heads, value}. The value to write.
        key: {..., heads, key}. The key to write at; None: everywhere.
        query: {..., heads, key}. The query to read with; None: the whole state is the output.
        delta: Whether the old value at the key is erased to the same degree.
    """

    log_decay: Tensor
    strength: Tensor
    value: Tensor
    key: Tensor | None = None
    query: Tensor | None = None
    delta: bool = False

    def map(self, function: Callable[[Tensor], Tensor]) -> Writes:
        """A copy with the function applied to each tensor."""
        made: Any = (function(value) if isinstance(value, Tensor) else value for value in self)
        return Writes(*made)

    def written(self) -> Tensor:
        """The outer products to add, {..., heads, key, value}."""
        value = self.strength * self.value
        return value if self.key is None else combine_bc(self.key, "mul", value)


def step(values: Writes, state: Tensor, *, key_dim: Dim | None) -> tuple[Tensor, Tensor]:
    """One step: {..., value} and the next state {..., key, value}, in the order of `state`."""
    new = state * exp(values.log_decay)
    if values.delta and values.key is not None:
        had = matmul(values.key, new, reduce=_one(key_dim))
        values = values._replace(value=values.value - had)
    new = new + values.written()
    new = new.copy_transpose([*state.dims, *(dim for dim in new.dims if dim not in state.dims)])
    return _read(values, new, key_dim), new


def over(values: Writes, state: Tensor, *, axis: Dim, key_dim: Dim | None) -> tuple[Tensor, Tensor]:
    """All steps of `axis`: {axis, ..., value}, 0 in the padding, and the state after the last frame of each sequence."""
    alone = key_dim is None or key_dim in values.log_decay.dims  # each entry of the state has its own decay
    most = min(_MOST, math.isqrt(axis.extent - 1) + 1) if alone else min(_CHUNK, axis.extent)
    dims = _chunk_dims(most, -(-axis.extent // most))
    parts = values.map(lambda value: _in_chunks(value, axis, *dims))
    out, last = (_entry_by_entry if alone else _by_matrices)(parts, state, *dims, key_dim)
    order = [*state.dims, *(dim for dim in last.dims if dim not in state.dims)]
    return _of_chunks(out, axis, *dims), last.copy_transpose(order)


def _read(values: Writes, state: Tensor, key_dim: Dim | None) -> Tensor:
    return state if values.query is None else matmul(values.query, state, reduce=_one(key_dim))


def _entry_by_entry(
    values: Writes, state: Tensor, inner: Dim, chunks: Dim, key_dim: Dim | None
) -> tuple[Tensor, Tensor]:
    """One decay per entry of the state: step by step within all chunks in parallel, then from chunk to chunk."""
    decays, writes = frames(exp(values.log_decay), axis=inner), frames(values.written(), axis=inner)
    own = [writes[0]]
    for decay, write in zip(decays[1:], writes[1:]):
        own.append(decay * own[-1] + write)
    faded = exp(cumsum(values.log_decay, spatial_dim=inner))
    last = gather(faded, indices=inner.extent - 1, axis=inner)
    starts, final = _from_chunk_to_chunk(state, chunks, lambda state, fade, write: state * fade + write, last, own[-1])
    states = from_frames(own, axis=inner, like=own[0]) + faded * starts
    return _read(values, states, key_dim), final


def _by_matrices(values: Writes, state: Tensor, inner: Dim, chunks: Dim, key_dim: Dim | None) -> tuple[Tensor, Tensor]:
    """One decay per matrix: the work within chunks is a few matrix products."""
    key_dim, source = _one(key_dim), _twin(inner)
    there = lambda value: replace_dim(value, in_dim=inner, out_dim=source)[0]  # noqa: E731
    decay = cumsum(values.log_decay, spatial_dim=inner)
    assert values.query is not None and values.key is not None
    key, own, decay_there = there(values.key), there(values.strength * values.value), there(decay)
    last = gather(decay, indices=inner.extent - 1, axis=inner)
    now, before = range_over_dim(inner, device=state.device), range_over_dim(source, device=state.device)

    def seen(query: Tensor, which: str) -> Tensor:
        fading = exp(where(compare_bc(now, which, before), decay - decay_there, -math.inf))
        return matmul(query, key, reduce=key_dim) * fading

    series = [exp(last), key * exp(last - decay_there), own]
    if values.delta:  # a write depends on earlier writes in the chunk and on the state at its beginning
        strong = values.strength * values.key
        solved = _solved(-seen(strong, ">"), inner, source)
        series[2:] = (there(matmul(solved, value, reduce=source)) for value in (own, there(strong * exp(decay))))
    written: list[Tensor] = []

    def go_on(state: Tensor, fade: Tensor, key: Tensor, own: Tensor, of_state: Tensor | None = None) -> Tensor:
        written.append(own if of_state is None else own - matmul(of_state, state, reduce=key_dim))
        return state * fade + matmul(key, written[-1], reduce=source)

    starts, final = _from_chunk_to_chunk(state, chunks, go_on, *series)
    out = matmul(seen(values.query, ">="), from_frames(written, axis=chunks, like=written[0]), reduce=source)
    return out + matmul(values.query * exp(decay), starts, reduce=key_dim), final


def _from_chunk_to_chunk(state: Tensor, chunks: Dim, go: Any, *series: Tensor) -> tuple[Tensor, Tensor]:
    """The states at the beginning of each chunk {chunks, ...}, and the last one."""
    starts = []
    for values in zip(*(frames(each, axis=chunks) for each in series)):
        starts.append(state)
        state = go(state, *values)
    first = starts[0]
    more = [dim for dim in state.dims if dim not in first.dims]
    if more:  # the first state does not depend on them
        starts[0] = first = first + state * 0
    return from_frames(starts, axis=chunks, like=first), state


def _solved(lower: Tensor, inner: Dim, source: Dim) -> Tensor:
    """(1 - lower)^-1 source, for a strictly lower triangular matrix {inner, source}: (1 + L)(1 + L^2)(1 + L^4)."""
    middle = _twin(source)
    here, there = (range_over_dim(dim, device=lower.device) for dim in (inner, source))
    one = cast(compare_bc(here, "==", there), lower.dtype)

    def times(a: Tensor, b: Tensor) -> Tensor:
        a, _ = replace_dim(a, in_dim=source, out_dim=middle)
        b, _ = replace_dim(b, in_dim=inner, out_dim=middle)
        return matmul(a, b, reduce=middle)

    out, power = one + lower, lower
    for _ in range(max(inner.extent - 1, 1).bit_length() - 1):
        power = times(power, power)
        out = times(out, one + power)
    return out


@functools.cache
def _chunk_dims(inner: int, chunks: int) -> tuple[Dim, Dim]:
    return Dim(inner, name="step_in_chunk"), Dim(chunks, name="chunk")


@functools.cache
def _twin(dim: Dim) -> Dim:
    return Dim(dim.extent, name=f"other {dim.name}")


def _one(key_dim: Dim | None) -> Dim:
    assert key_dim is not None
    return key_dim


@op(of="linear recurrence")
def _in_chunks(value: Tensor, axis: Dim, inner: Dim, chunks: Dim) -> Tensor:
    """{axis, ...} -> {chunks, inner, ...}, 0 after the end: such a step does not change the state."""
    if axis not in value.dims:
        return value
    value = value.copy_masked(0)
    value = value.copy_transpose([axis, *(dim for dim in value.dims if dim is not axis)])
    plain, whole = Dim(axis.extent, name=axis.name), inner.extent * chunks.extent
    value = new_tensor(value._raw, (plain, *value.dims[1:]))
    if whole > axis.extent:
        value, (plain,) = pad(value, axes=[plain], padding=[(0, whole - axis.extent)])
    return split_dims(value, axis=plain, dims=[chunks, inner])


@op(of="linear recurrence")
def _of_chunks(value: Tensor, axis: Dim, inner: Dim, chunks: Dim) -> Tensor:
    """{chunks, inner, ...} -> {axis, ...}, 0 after the end."""
    value, whole = merge_dims(value, dims=[chunks, inner])
    value, plain = slice_dim(value, axis=whole, size=axis.extent)
    value = value.copy_transpose([plain, *(dim for dim in value.dims if dim is not plain)])
    return new_tensor(value._raw, (axis, *value.dims[1:])).copy_masked(0)
