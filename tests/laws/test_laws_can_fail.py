"""Deliberately broken ops: each law sees what it is there for, and only the law that is there for it."""

import pytest
from asserting import using_backend
from laws import LAWS, Run
from table import CASES, read_entries
from world import world

import rfnb as rf
from rfnb import Tensor

read_entries()


def by_position(w):
    """Sums the second axis, whichever dim that is."""

    def call(x):
        axis = 1
        out = x.backend.reduce_raw(x.raw_tensor, "sum", (axis,))
        dims = [dim for dim in x.dims if dim is not w.feat]
        return Tensor("sum", dims=dims, raw_tensor=out) if x.dims[1] is w.feat else rf.reduce_sum(x, axis=w.feat) * 2

    return call, [w.floats(w.heads, w.feat)]


def swapped_axes(w):
    """Right dims, but the values of the transposed array."""
    return lambda x: Tensor("x", dims=sorted(x.dims, key=id), raw_tensor=x.raw_tensor), [w.floats(w.batch, _square(w))]


def _square(w):
    return rf.Dim(w.batch.extent, name="square")


def unmasked_sum(w):
    return lambda x: rf.reduce_sum(x, axis=w.time, use_mask=False), [w.floats(w.batch, w.time)]


def one_sided_mask(w):
    """A product that masks one operand only: 0 * NaN stays NaN."""

    def call(a, b):
        a = a.copy_masked(0)
        return rf.matmul(a, b, reduce=w.time, use_mask=False)

    return call, [w.floats(w.batch, w.time), w.floats(w.batch, w.time)]


def leaks_a_frame(w):
    """Shifts to the left without looking at where each sequence ends."""

    def call(x):
        x = x.copy_transpose([w.batch, w.time])
        return Tensor("x", dims=x.dims, raw_tensor=x.raw_tensor[:, [*range(1, w.time.extent), 0]])

    return call, [w.floats(w.batch, w.time)]


def other_on_numpy(w):
    return lambda x: x + (0.001 if x.backend.name == "numpy" else 0.0), [w.floats(w.batch, w.time)]


def other_dtype_on_numpy(w):
    return lambda x: rf.cast(x, "float64") if x.backend.name == "numpy" else x, [w.floats(w.batch, w.time)]


def always_torch(w):
    def call(x):
        with using_backend("torch"):
            return rf.convert_to_tensor(x.numpy(), dims=x.dims)

    return call, [w.floats(w.batch, w.time)]


def loses_the_mark(w):
    def call(ids):
        return rf.set_sparse_dim(ids, None if ids.backend.name == "numpy" else w.classes)

    return call, [w.ints(w.batch, w.time, sparse_dim=w.classes)]


def reduction_without_meaning(w):
    def call(x):
        return rf.set_sparse_dim(rf.reduce_sum(x, axis=w.time), None)

    return call, [w.floats(w.batch, w.time)]


def moved_without_features(w):
    def call(x):
        out = rf.copy(x)
        out.feature_dim = None
        return out

    return call, [w.floats(w.batch, w.feat)]


BROKEN_MARKS = {reduction_without_meaning: "sparse_dim", moved_without_features: "feature_dim"}
BROKEN = {
    by_position: "order",
    swapped_axes: "order",
    unmasked_sum: "padding",
    one_sided_mask: "padding",
    leaks_a_frame: "padding",
    other_on_numpy: "backend",
    other_dtype_on_numpy: "backend",
    always_torch: "backend",
    loses_the_mark: "backend",
}


def fails(law, case, times=8):
    """Whether the law sees something wrong in one of a few draws."""
    for seed in range(times):
        try:
            LAWS[law](Run("broken", case, lambda seed=seed: world(seed=seed)))
        except AssertionError:
            return True
    return False


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.__name__)
def test_a_broken_op_breaks_its_law(case):
    assert fails(BROKEN[case], case)


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.__name__)
def test_a_broken_op_keeps_the_other_laws(case):
    assert [law for law in LAWS if law != BROKEN[case] and fails(law, case)] == []


@pytest.mark.parametrize("law", LAWS)
def test_the_draws_break_no_sound_op(law):
    assert not fails(law, CASES["softmax"])
