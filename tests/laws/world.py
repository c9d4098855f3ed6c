"""Random dims and tensors for the laws: small sizes, ragged lengths including 0 and 1, dims in any order."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from asserting import ragged, tensor
from hypothesis import strategies as st

from rfnb import Dim, Tensor


class World:
    """One random draw: dims, and a generator of tensors over them.

    batch, heads, feat, out, classes are static; time and source are ragged over batch; char is ragged over batch and time.
    """

    def __init__(self, time: list[int], source: list[int], sizes: list[int], seed: int, chars: Any = None):
        self.rng = np.random.default_rng(seed)  # what a case chooses
        self.values = np.random.default_rng([seed, 1])  # the values it draws
        self.batch = Dim(len(time), name="batch", kind="batch")
        self.time = ragged(time, self.batch, "time")
        self.source = ragged((source * len(time))[: len(time)], self.batch, "source")
        if chars is None:
            chars = self.values.integers(0, 4, (len(time), max(time, default=0)))
            chars[np.arange(chars.shape[1]) >= np.asarray(time, int)[:, None]] = 9  # lengths have padding too
        self.char = ragged(chars, [self.batch, self.time], "char")
        self.heads, self.feat, self.out, self.classes = (
            Dim(size, name=name) for size, name in zip(sizes, ("heads", "feat", "out", "classes"))
        )
        self.sets = (
            (self.batch, self.time, self.feat),
            (self.batch, self.time, self.char, self.out),
            (self.heads, self.feat),
            (self.batch, self.source, self.time),
            (self.batch, self.time),
            (self.batch, self.time, self.heads, self.feat),
            (self.feat,),
            (),
            (self.heads, self.batch, self.out, self.time),
        )

    def dims(self, at_least: int = 0) -> tuple[Dim, ...]:
        """One of the typical sets of dims."""
        sets = [dims for dims in self.sets if len(dims) >= at_least]
        return sets[self.rng.integers(len(sets))]

    def floats(self, *dims: Dim, low: float = -3.0, high: float = 3.0) -> Tensor:
        """Uniform in [low, high), no two values equal or on a half (so that rounding and order are the same everywhere)."""
        shape = tuple(dim.extent for dim in dims)
        count = int(np.prod(shape, dtype=int))
        steps = (self.values.permutation(count) + self.values.uniform(0.2, 0.8)) / max(count, 1)
        return tensor((low + (high - low) * steps.reshape(shape)).astype(np.float32), *dims)

    def ints(
        self, *dims: Dim, low: int = -5, high: int = 6, sparse_dim: Dim | None = None, dtype: Any = np.int32
    ) -> Tensor:
        """Integers in [low, high), or below the size of `sparse_dim`."""
        if sparse_dim is not None:
            low, high = 0, max(sparse_dim.extent, 1)
        shape = tuple(dim.extent for dim in dims)
        return tensor(self.values.integers(low, high, shape).astype(dtype), *dims, sparse_dim=sparse_dim)

    def bools(self, *dims: Dim) -> Tensor:
        return tensor(self.values.random(tuple(dim.extent for dim in dims)) < 0.5, *dims)

    def shuffled(self, dims: Any) -> tuple[Dim, ...]:
        dims = tuple(dims)
        return tuple(dims[i] for i in self.rng.permutation(len(dims)))

    def alone(self, sequence: int) -> World:
        """The world of this sequence only: the same sizes and choices, dims of its own."""
        time, source = int(self.time.lengths[sequence]), int(self.source.lengths[sequence])
        sizes = [dim.extent for dim in (self.heads, self.feat, self.out, self.classes)]
        world = World([time], [source], sizes, 0, self.char.lengths[sequence : sequence + 1, :time])
        world.rng.bit_generator.state = self.rng.bit_generator.state
        return world


EXAMPLES = int(os.environ.get("RFNB_WORLDS", "6"))  # random worlds for each op, beside the hard ones
_lengths = st.lists(st.integers(0, 4), min_size=1, max_size=3)
worlds = st.builds(
    World,
    time=_lengths,
    source=_lengths,
    sizes=st.lists(st.integers(1, 4), min_size=4, max_size=4),
    seed=st.integers(0, 2**32 - 1),
)


def hard_worlds() -> list[World]:
    """Those that random draws seldom give: no sequence, no frame, one frame, all full, empty beside full."""
    return [
        World([], [], [2, 1, 3, 2], 0),
        World([0, 0], [0], [1, 1, 1, 2], 1),
        World([1], [1], [1, 2, 3, 4], 2),
        World([3, 3], [4, 0], [2, 3, 4, 3], 3),
        World([4, 0, 1], [0, 1, 3], [2, 3, 4, 5], 4),
    ]


def some_axes(w: World, dims: tuple[Dim, ...], count: int | None = None) -> tuple[Dim, ...]:
    """Some of the dims whose lengths stay defined without the others: a ragged dim goes before those it is over."""
    axes = set(w.shuffled(dims)[: count or w.rng.integers(1, len(dims) + 1)])
    if count is None:
        axes |= {dim for dim in dims if dim.is_dynamic() and axes & set(dim.length_dims)}
        axes |= {dim for dim in dims if dim.is_dynamic() and axes & set(dim.length_dims)}
    elif any(axes & set(dim.length_dims) for dim in dims if dim.is_dynamic()):
        return (w.time,) if w.time in dims and w.char not in dims else (dims[-1],)
    return w.shuffled(axes)
