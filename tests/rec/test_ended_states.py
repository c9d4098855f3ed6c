"""An ended sequence keeps its state, alone and in structures, as `where` would give it, whatever differs from the previous call."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import Dim
from rfnb.rec.ended_states import kept
from rfnb.rec.nested import mask_nested, where_nested

BATCH, FEAT, OTHER = Dim(3, name="batch"), Dim(2, name="feat"), Dim(3, name="other")
USUAL = {
    "active": [BATCH], "dims": [BATCH, FEAT], "old": [BATCH, FEAT], "dtype": "float32", "old_dtype": "float32",
    "sparse": None, "feature": FEAT, "name": None, "seed": 1,
}  # fmt: skip
CHANGES = {
    "values": {"seed": 2},
    "mask over another dim": {"active": [FEAT]},
    "mask over both": {"active": [FEAT, BATCH]},
    "scalar mask": {"active": []},
    "order": {"dims": [FEAT, BATCH], "old": [FEAT, BATCH]},
    "order of the new one only": {"dims": [FEAT, BATCH]},
    "another dim of that size": {"active": [OTHER], "dims": [OTHER, FEAT], "old": [OTHER, FEAT]},
    "the old one lacks a dim": {"old": [FEAT]},
    "the mask adds a dim": {"active": [OTHER]},
    "dtype": {"dtype": "float64", "old_dtype": "float64"},
    "dtype of the old one": {"old_dtype": "float64"},
    "sparse": {"dtype": "int64", "old_dtype": "int64", "sparse": OTHER},
    "no feature dim": {"feature": None},
    "name": {"name": "h"},
}


def _operands(given):
    random = np.random.default_rng(given["seed"])

    def array(dims, dtype):
        values = torch.from_numpy(random.integers(0, 9, [dim.size for dim in dims])).to(getattr(torch, dtype))
        return rf.convert_to_tensor(values, dims=dims)

    active = array(given["active"], "int64") > 4
    new, old = array(given["dims"], given["dtype"]), array(given["old"], given["old_dtype"])
    new.sparse_dim, new.feature_dim, new.name = given["sparse"], given["feature"], given["name"]
    return active, new, old


def _seen(x):
    return x.dims, x.dtype, x.sparse_dim, x.feature_dim, x.name, x.numpy().tolist()


def _by_where(active, new, old):
    out = rf.where(active, new, old, allow_broadcast_all_sources=True)
    return out.dims, out.dtype, new.sparse_dim, new.feature_dim, new.name, out.numpy().tolist()


@pytest.mark.parametrize("change", CHANGES)
def test_what_differs_from_the_call_before_is_seen(change):
    usual, changed = _operands(USUAL), _operands({**USUAL, **CHANGES[change]})
    for operands in (usual, changed, usual):
        assert _seen(kept(*operands)) == _by_where(*operands)


@pytest.mark.parametrize("change", CHANGES)
def test_a_structure_is_mixed_as_its_leaves(change):
    for given in (USUAL, {**USUAL, **CHANGES[change]}, USUAL):
        active, new, old = _operands(given)
        x, y = {"a": (new, 3), "b": [old]}, {"a": (old, 3), "b": [old]}
        found, long_way = where_nested(x, y, condition=active), mask_nested(x, mask=active, mask_value=y)
        assert _seen(found["a"][0]) == _seen(long_way["a"][0]) == _seen(kept(active, new, old))
        assert found["a"][1] == long_way["a"][1] == 3
        assert found["b"][0] is old


def test_dims_that_differ_are_merged_as_before():
    lengths = [
        rf.convert_to_tensor(torch.tensor(each, dtype=torch.int32), dims=[BATCH]) for each in ([1, 2, 3], [3, 1, 2])
    ]
    a, b = (Dim(each, name="time") for each in lengths)
    active = rf.convert_to_tensor(torch.tensor([True, False, True]), dims=[BATCH])
    out = where_nested({"time": a}, {"time": b}, condition=active)
    assert out["time"].lengths.tolist() == [1, 1, 3]


def test_gradients_go_to_the_one_that_is_taken():
    active, new, old = _operands(USUAL)
    raws = [x.raw_tensor.clone().requires_grad_() for x in (new, old)]
    new, old = (rf.convert_to_tensor(raw, dims=[BATCH, FEAT]) for raw in raws)
    kept(active, new, old).raw_tensor.sum().backward()
    mask = active.raw_tensor[:, None].expand(3, 2).float()
    assert raws[0].grad.equal(mask)
    assert raws[1].grad.equal(1 - mask)


def test_a_condition_that_is_no_bool_is_refused_after_one_that_is():
    active, new, old = _operands(USUAL)
    kept(active, new, old)
    with pytest.raises(TypeError, match=r"^where: the condition is int64\."):
        kept(rf.cast(active, "int64"), new, old)
