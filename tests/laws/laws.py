"""The three laws as functions: each computes an op twice and compares. the files `tests/laws/table_*.py` have the ops.

A case is a function that takes a World and returns (call, inputs): `call(*inputs)` computes the op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from asserting import assert_same, on_selected_backend, reordered, using_backend, with_nan_padding
from world import World

from rfnb import Tensor

Case = Callable[[World], tuple[Callable[..., Any], list[Tensor]]]


def check_order(case: Case, world: World) -> None:
    """Permuting the dims of the inputs changes nothing but the order of the result."""
    call, inputs = case(world)
    assert_same(call(*(reordered(x, world.shuffled(x.dims)) for x in inputs)), call(*inputs))


def check_padding(case: Case, world: World) -> None:
    """NaN in the padding of the inputs (garbage in that of integers) changes nothing in the real frames."""
    call, inputs = case(world)
    assert_same(call(*map(with_nan_padding, inputs)), call(*inputs))


def check_backend(case: Case, world: World) -> None:
    """torch agrees with NumPy: values, dtypes, dims and marks."""
    call, inputs = case(world)
    result = call(*inputs)
    with using_backend("numpy"):
        expected = call(*map(on_selected_backend, inputs))
        _assert_backend(expected, "numpy")
    _assert_backend(result, "torch")
    assert_same(result, expected, tolerance=2e-5)


def _assert_backend(result: Any, name: str) -> None:
    if isinstance(result, Tensor):
        assert result.backend.name == name, f"{result} is of the backend {result.backend.name}, not {name}"
    elif isinstance(result, (list, tuple)):
        for part in result:
            _assert_backend(part, name)


LAWS = {"order": check_order, "padding": check_padding, "backend": check_backend}


def parts_in(result: Any, kinds: Any = object) -> Iterator[Any]:
    """What a result is made of, through lists, tuples and dicts; only what is of these kinds."""
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
