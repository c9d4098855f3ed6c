"""The law of the second batch as a function: plans that were made for the dims of another batch give what new ones give, to the bit.

A case (see `laws.py`) is built in worlds with the same choices and other lengths. All are computed one after the other, and then each
once more after all plans are forgotten: results, gradients and errors have to be the same.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from laws import Case, as_leaf, parts_in
from world import World

import rfnb as rf
from rfnb import Dim, Tensor
from rfnb.core import counterparts, layout, size_queries
from rfnb.core.layout import PlanCache, clear_plans
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
    """Compute the case in all worlds, warm and cold, and compare. What is put together ahead is looked at, too.

    Raises:
        AssertionError: If any two differ.
    """
    with patch.object(layout, "look_ahead", look_ahead_checked):
        _check_second_batch(name, case, seed, sizes)


def _check_second_batch(name: str, case: Case, seed: int, sizes: tuple[int, ...]) -> None:
    runs = [case(World(time, source, list(sizes), seed)) for time, source in LENGTHS]
    clear_plans()
    warm = [_outcome(*run) for run in runs]
    cold: dict[str, list[Any]] = {}
    for (time, source), run, found in zip(LENGTHS, runs, warm):
        where = f"{name}, time {time}, source {source}"
        if where not in cold:  # the first lengths come again at the end
            clear_plans()
            cold[where] = _outcome(*run)
        _assert_equal(where, found, cold[where])


def check_plans_are_of_one_batch(case: Case) -> None:
    """A plan that was made of other plans serves one batch: what is found says nothing of what it was made by, so what is made of it
    cannot know whom else it may serve.

    Raises:
        AssertionError: If a plan was looked at while one was made that is kept for others.
    """
    found: list[Any] = []
    keep, make = PlanCache._keep_template, PlanCache.make

    def look_up(self: PlanCache, key: Any) -> Any:
        if size_queries._current.get() is not None:
            found.append(key)
        return dict.__getitem__(self, key)

    def keep_template(self: PlanCache, *args: Any) -> None:
        assert not found, f"planning looked at {found}"
        keep(self, *args)

    def make_apart(self: PlanCache, *args: Any) -> Any:
        outer = found.copy()
        found.clear()
        try:
            return make(self, *args)
        finally:
            found[:] = outer + found

    clear_plans()
    instead = {"__getitem__": look_up, "_keep_template": keep_template, "make": make_apart}
    with pytest.MonkeyPatch.context() as patched:
        for name, method in instead.items():
            patched.setattr(PlanCache, name, method, raising=False)
        for time, source in LENGTHS[:4]:
            call, inputs = case(World(time, source, [2, 3, 4, 5], 0))
            call(*inputs)


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
