"""The law of the second batch as a function: plans that were made for the dims of another batch give what new ones give, to the bit.

A case (see `laws.py`) is built in worlds with the same choices and other lengths. All are computed one after the other, and then each
once more after all plans are forgotten: results, gradients and errors have to be the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from laws import Case, as_leaf, parts_in
from world import World

import rfnb as rf
from rfnb import Dim, Tensor
from rfnb.core import counterparts, layout
from rfnb.core.layout import clear_plans
from rfnb.core.structure import structure_of

# Lengths of time and source: other ones with another longest, none with padding, all of one frame, some and all empty, the same
# for both, the other way round, another number of sequences, none.
LENGTHS = [
    ([4, 2, 3], [3, 1, 2]),
    ([2, 5, 1], [2, 4, 1]),
    ([3, 3, 3], [4, 1, 2]),
    ([4, 1, 2], [2, 2, 2]),
    ([3, 3, 3], [3, 3, 3]),
    ([1, 1, 1], [1, 1, 1]),
    ([4, 0, 1], [0, 3, 1]),
    ([0, 0, 0], [0, 2, 0]),
    ([3, 1, 2], [3, 1, 2]),
    ([2, 4, 1], [2, 5, 1]),
    ([4, 2], [3, 3]),
    ([3], [2]),
    ([], []),
    ([4, 2, 3], [3, 1, 2]),
]
# Cases in which a second call gives something else on purpose, each with the reason.
NOT_AGAIN = {
    "BatchNorm in training": "the running statistics have moved",
    "RunningMean": "the mean has moved",
    "Parameter assign_key": "what is written stays",
}


def check_second_batch(name: str, case: Case, seed: int, sizes: tuple[int, ...] = (2, 3, 4, 5)) -> None:
    """Compute the case in all worlds, warm and cold, and compare.

    Raises:
        AssertionError: If any two differ.
    """
    runs = [case(World(time, source, list(sizes), seed)) for time, source in LENGTHS]
    clear_plans()
    warm = [_outcome(*run) for run in runs]
    for (time, source), run, found in zip(LENGTHS, runs, warm):
        clear_plans()
        _assert_equal(f"{name}, time {time}, source {source}", found, _outcome(*run))


def _outcome(call: Any, inputs: list[Tensor]) -> list[Any]:
    """Results and gradients as host arrays, dims as text; an error as its message."""
    rf.set_random_seed(3)
    try:
        given = [as_leaf(x) for x in inputs]
        found = list(parts_in(call(*given)))
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    out: list[Any] = []
    for part in found:
        if isinstance(part, Dim):
            out.append(_text(part))
        elif isinstance(part, Tensor):
            out += [[_text(dim) for dim in part.dims], part.dtype, _text(part.sparse_dim), part.numpy()]
    raws = [part.raw_tensor for part in found if isinstance(part, Tensor) and part.raw_tensor.requires_grad]
    total: Any = sum(torch.where(torch.isfinite(raw), raw, 0).sum() for raw in raws)
    leaves = [x.raw_tensor for x in given if x.raw_tensor.requires_grad]
    if raws and leaves and total.requires_grad and total.dtype.is_floating_point:
        gradients = torch.autograd.grad(total, leaves, allow_unused=True)
        out += [None if gradient is None else gradient.numpy() for gradient in gradients]
    return out


def _text(dim: Dim | None) -> str:
    return "none" if dim is None else repr(dim)


def _assert_equal(where: str, warm: list[Any], cold: list[Any]) -> None:
    assert len(warm) == len(cold), f"{where}: {warm} and then {cold}"
    for a, b in zip(warm, cold):
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            np.testing.assert_array_equal(a, b, err_msg=where)
        else:
            assert type(a) is type(b), where
            assert a == b, where


def look_ahead_checked(index: Any) -> int:
    """As `counterparts.look_ahead`; what is put together is what would be found by the structures of the keys.

    Raises:
        AssertionError: If a key has another structure, or its dims another order.
    """
    made = counterparts.look_ahead(index)
    newest = max(index, key=lambda dim: dim.serial)
    known, parts = newest._plans.asked_for
    dims = tuple(newest if dim is None else dim for dim in known)
    for cache, pick, template in parts if made else ():
        own = pick(dims)
        form, found = structure_of(template.key_of(own))
        assert tuple(found) == own
        templates = cache.templates
        assert template in templates[form] or len(templates[form]) == layout._TEMPLATES[1]
    return made
