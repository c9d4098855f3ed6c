"""Random dims and tensors for the laws: small sizes, ragged lengths including 0 and 1, dims in any order."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from asserting import ragged, tensor

from rfnb import Dim, Tensor


class Choices(np.random.Generator):
    """The random choices of a case, with a record: (number of earlier choices, the option)."""

    def __init__(self, seed: int):
        super().__init__(np.random.PCG64(seed))
        self.made: list[tuple[int, ...]] = []

    def _note(self, option: int) -> int:
        self.made.append((len(self.made), option))
        return option

    def integers(self, low: int, high: int | None = None) -> int:  # type: ignore[override]
        return self._note(int(super().integers(low, high)))

    def random(self) -> float:  # type: ignore[override]
        """Small or large: both as often, whatever a case compares it with."""
        return (0.1, 0.9)[self.integers(2)]

    def choice(self, options: Any) -> Any:  # type: ignore[override]
        return options[self.integers(len(options))]

    def permutation(self, count: int) -> np.ndarray:  # type: ignore[override]
        order = super().permutation(count)
        self._note(int(order[0]) if count else 0)
        return order


SETS = [  # typical sets of dims
    names.split()
    for names in (
        "batch time feat", "batch time char out", "heads feat", "batch source time", "batch time", "batch time heads feat",
        "feat", "", "heads batch out time",
    )
]  # fmt: skip


class World:
    """One random draw: dims, and a generator of tensors over them.

    batch, heads, feat, out, classes are static; time and source are ragged over batch; char is ragged over batch and time.
    """

    def __init__(self, time: list[int], source: list[int], sizes: list[int], seed: int, chars: Any = None):
        self.drawn = f"World({time}, {source}, {sizes}, {seed})"
        self.rng = Choices(seed)  # what a case chooses
        self.values = np.random.default_rng([seed, 1])  # the values it draws
        self.batch = Dim(len(time), name="batch", kind="batch")
        if chars is None:
            chars = self.values.integers(0, 4, (len(time), max(time, default=0)))
            chars[np.arange(chars.shape[1]) >= np.asarray(time, int)[:, None]] = 9  # lengths have padding too
        self.lengths = time, (source * len(time))[: len(time)], chars
        self.heads, self.feat, self.out, self.classes = (
            Dim(size, name=name) for size, name in zip(sizes, ("heads", "feat", "out", "classes"))
        )

    # Made when a case asks for them: most ask for one.
    time = functools.cached_property(lambda self: ragged(self.lengths[0], self.batch, "time"))
    source = functools.cached_property(lambda self: ragged(self.lengths[1], self.batch, "source"))
    char = functools.cached_property(lambda self: ragged(self.lengths[2], [self.batch, self.time], "char"))

    def __repr__(self) -> str:
        return self.drawn

    def dims(self, at_least: int = 0) -> tuple[Dim, ...]:
        """One of the typical sets of dims."""
        sets = [names for names in SETS if len(names) >= at_least]
        return self.named(sets[self.rng.integers(len(sets))])

    def named(self, names: list[str]) -> tuple[Dim, ...]:
        """The dims of these names."""
        return tuple(getattr(self, name) for name in names)

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

    def alone(self, sequence: int, choices: Any) -> World:
        """The world of this sequence only: the same sizes, choices by this state of `rng`, dims of its own."""
        time, source, chars = (lengths[sequence] for lengths in self.lengths)
        sizes = [dim.extent for dim in (self.heads, self.feat, self.out, self.classes)]
        world = World([time], [source], sizes, 0, chars[None, :time])
        world.rng.bit_generator.state = choices
        return world


LENGTHS = {  # of time and of source; sizes of heads, feat, out, classes
    "none": ([], [], [2, 1, 3, 2]),
    "no frame": ([0, 0], [3, 0], [1, 1, 1, 4]),
    "one frame": ([1], [1], [1, 2, 3, 2]),
    "full": ([3, 3], [4, 0], [2, 3, 1, 3]),
    "empty beside full": ([4, 0, 1], [0, 1, 3], [2, 3, 4, 5]),
    "ragged": ([2, 4], [4, 2], [1, 3, 4, 2]),
}
RAGGED = ("empty beside full", "ragged")
MORE = int(os.environ.get("RFNB_WORLDS", "0"))  # random worlds for each op, beside the fixed ones
_CANDIDATES = 16


def world(lengths: str = "empty beside full", seed: int = 4) -> World:
    """A fixed one, with the choices and values of a seed."""
    return World(*LENGTHS[lengths], seed)


@contextlib.contextmanager
def in_world(world: World) -> Iterator[None]:
    """An error in the block names the world."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in {world}")
        raise


@functools.cache
def worlds_for(case: Any) -> list[Any]:
    """Functions that make the worlds of a case: one for each of the fixed lengths, and as many ragged ones as it takes for each option
    of its choices to be in one. With RFNB_WORLDS=100 as many random ones go with them."""
    seeds = seeds_for(case)
    seeds = seeds + [seed for seed in (0, 1) if not any(other % 2 == seed for other in seeds)]
    ragged = [(RAGGED[seed % 2], seed) for seed in seeds]
    others = [name for name in LENGTHS if name not in RAGGED]
    fixed = [(name, seeds[index % len(seeds)]) for index, name in enumerate(others)]
    return [
        *(functools.partial(world, *each) for each in fixed + ragged),
        *(functools.partial(drawn, n) for n in range(MORE)),
    ]


@functools.cache
def seeds_for(case: Any) -> list[int]:
    """Seeds that have all choices of a case, the more useful first."""
    return covering({seed: choices_of(case, seed) for seed in range(_CANDIDATES)})


def choices_of(case: Any, seed: int) -> list[tuple[int, ...]]:
    """The choices of a case in a ragged world, selected by the seed."""
    chosen = world(RAGGED[seed % 2], seed)
    case(chosen)
    return chosen.rng.made


def covering(choices: dict[int, list[tuple[int, ...]]]) -> list[int]:
    """The seeds to take so that each choice that one of them makes is made; of those as useful, what makes new pairs of choices."""
    taken: list[int] = []
    singles: set[Any] = set()
    pairs: set[Any] = set()
    while not taken or len(singles) < len(set().union(*choices.values())):
        best = max(
            choices, key=lambda seed: (len({*choices[seed]} - singles), len(_pairs(choices[seed]) - pairs), -seed)
        )
        taken.append(best)
        singles |= {*choices[best]}
        pairs |= _pairs(choices[best])
    return taken


def _pairs(choices: list[tuple[int, ...]]) -> set[Any]:
    return set(itertools.combinations(choices, 2))


def drawn(seed: int) -> World:
    """A random world."""
    rng = np.random.default_rng([seed, 2])
    time, source = ([int(n) for n in rng.integers(0, 5, rng.integers(1, 4))] for _ in range(2))
    return World(time, source, [int(n) for n in rng.integers(1, 5, 4)], seed)


def some_axes(w: World, dims: tuple[Dim, ...], count: int | None = None) -> tuple[Dim, ...]:
    """Some of the dims whose lengths stay defined without the others: a ragged dim goes before those it is over."""
    axes = set(w.shuffled(dims)[: count or w.rng.integers(1, len(dims) + 1)])
    if count is None:
        axes |= {dim for dim in dims if dim.is_dynamic() and axes & set(dim.length_dims)}
        axes |= {dim for dim in dims if dim.is_dynamic() and axes & set(dim.length_dims)}
    elif any(axes & set(dim.length_dims) for dim in dims if dim.is_dynamic()):
        return (w.time,) if w.time in dims and w.char not in dims else (dims[-1],)
    return w.shuffled(axes)
