"""The first three laws as functions: each computes an op once more and compares. The files `tests/laws/table_*.py` have the ops.

A case is a function that takes a World and returns (call, inputs): `call(*inputs)` computes the op.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from asserting import assert_same, on_selected_backend, real_frames, reordered, using_backend, with_nan_padding
from world import World, world

from rfnb import Tensor

Case = Callable[[World], tuple[Callable[..., Any], list[Tensor]]]


class Run:
    """A case in a world: `call(*inputs)` computes the op. What several laws compare with is computed once."""

    def __init__(self, name: str, case: Case, make: Callable[[], World] = world):
        self.name, self.case, self.make = name, case, make
        self.world = make()
        self.choices = self.world.rng.bit_generator.state
        self.call, self.inputs = case(self.world)

    @functools.cached_property
    def clean(self) -> Any:
        return self.call(*self.inputs)

    @functools.cached_property
    def has_padding(self) -> bool:
        """Whether there is padding in an input: if not, there is nothing to put into it."""
        return not all(real_frames(x.dims).all() for x in self.inputs)

    @functools.cached_property
    def on_numpy(self) -> Any:
        with using_backend("numpy"):
            return self.call(*map(on_selected_backend, self.inputs))


def check_order(run: Run) -> None:
    """Permuting the dims of the inputs changes nothing but the order of the result."""
    assert_same(run.call(*(reordered(x, run.world.shuffled(x.dims)) for x in run.inputs)), run.clean)


def check_padding(run: Run) -> None:
    """NaN in the padding of the inputs (garbage in that of integers) changes nothing in the real frames."""
    if run.has_padding:
        assert_same(run.call(*map(with_nan_padding, run.inputs)), run.clean)


def check_backend(run: Run) -> None:
    """torch agrees with NumPy: values, dtypes, dims and marks."""
    _assert_backend(run.on_numpy, "numpy")
    _assert_backend(run.clean, "torch")
    assert_same(run.clean, run.on_numpy, tolerance=2e-5)


def _assert_backend(result: Any, name: str) -> None:
    if isinstance(result, Tensor):
        assert result.backend.name == name, f"{result} is of the backend {result.backend.name}, not {name}"
    elif isinstance(result, (list, tuple)):
        for part in result:
            _assert_backend(part, name)


LAWS = {"order": check_order, "padding": check_padding, "backend": check_backend}


def parts_in(result: Any, kinds: Any = object) -> Iterator[Any]:
    """The parts of a result inside lists, tuples and dicts; only those of these kinds."""
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        for part in result:
            yield from parts_in(part, kinds)
    elif isinstance(result, kinds):
        yield result


def as_leaf(x: Tensor) -> Tensor:
    """The same values, with a gradient."""
    out, raw = x.copy_template(), x.raw_tensor.detach().clone()
    out.raw_tensor = raw.requires_grad_(raw.is_floating_point())
    return out
