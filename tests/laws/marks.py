"""The law of marks as functions: which sparse_dim and feature_dim the results of an op have, if one of its operands is marked.

The rule is that of `new_tensor` (core/tensor.py). A case is as in `laws.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from laws import Case
from world import World, hard_worlds

import rfnb as rf
from rfnb import Dim, Tensor

WORLDS = (3, 4)  # of the hard worlds: two that have frames


def worlds() -> Iterator[World]:
    """The same few in every run, with several choices of the case in each."""
    for index in WORLDS:
        for seed in range(4):
            world = hard_worlds()[index]
            world.rng, world.values = np.random.default_rng(seed), np.random.default_rng([seed, 1])
            yield world


def meanings(case: Case, world: World) -> Iterator[tuple[int, bool]]:
    """Of each result, if one float operand has a sparse_dim: which operand, whether the result has it too."""
    call, inputs = case(world)
    space = Dim(11, name="space")
    for place, x in enumerate(inputs):
        if x.sparse_dim is None and x.dtype.startswith("float"):
            for out in _results(call, inputs, place, rf.set_sparse_dim(x, space)):
                if out.dtype == "bool":
                    assert out.sparse_dim is None, f"a bool indexes into {out.sparse_dim}"
                elif not _is_index(out, inputs):
                    yield place, out.sparse_dim is space


def features(case: Case, world: World) -> Iterator[tuple[int, bool]]:
    """Of each result that has a dim which is the feature_dim of an operand: which operand, whether it is that of the result too."""
    call, inputs = case(world)
    for place, x in enumerate(inputs):
        for dim in x.dims:
            marked = rf.copy(x)
            marked.feature_dim = dim
            for out in _results(call, inputs, place, marked):
                assert out.feature_dim is None or out.feature_dim in out.dims
                if dim in out.dims and not _is_index(out, inputs):
                    yield place, out.feature_dim is dim


def _is_index(out: Tensor, inputs: list[Tensor]) -> bool:
    """Whether it says where something was found."""
    return out.dtype.startswith("int") and any(out.sparse_dim in x.dims for x in inputs)


def _results(call: Any, inputs: list[Tensor], place: int, marked: Tensor) -> list[Tensor]:
    try:
        return list(_tensors(call(*inputs[:place], marked, *inputs[place + 1 :])))
    except (rf.DimError, IndexError):  # the mark says what an operand is, and that is refused
        return []


def _tensors(result: Any) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        if result.raw_tensor is not None:
            yield result
    elif isinstance(result, (list, tuple)):
        for part in result:
            yield from _tensors(part)
