"""The law of marks, for every public op: a result has the sparse_dim of its operands, and their feature_dim as long as it has that
dim; what does not is listed with its reason. The rule is in the docstring of `new_tensor`."""

import pytest
from asserting import assert_same, ragged, tensor
from laws import Run
from marks import LOST, MARKS, losing
from table import CASES, read_entries
from test_laws_can_fail import BROKEN_MARKS
from world import worlds_for

import rfnb as rf
from rfnb import Dim

read_entries()


@pytest.mark.parametrize("mark", MARKS)
def test_the_exceptions_are_needed(mark):
    listed = set(" ".join(MARKS[mark][1].values()).split())
    ops = {operand.partition(":")[0] for operand in listed - LOST[mark]}  # all, unless this test runs alone
    for name in CASES:
        if name.split()[0] in ops:
            for make in worlds_for(CASES[name]):
                losing(mark, Run(name, CASES[name], make))
    assert sorted(listed - LOST[mark]) == []


@pytest.mark.parametrize(("case", "mark"), BROKEN_MARKS.items(), ids=lambda each: getattr(each, "__name__", each))
def test_an_op_that_loses_a_mark_breaks_the_law(case, mark):
    assert losing(mark, Run("broken", case))


batch, feat, vocab = Dim(2, name="batch"), Dim(3, name="feat"), Dim(7, name="vocab")
one, time = Dim(1, name="one"), ragged([4, 2], batch)
# Of x {batch, time, feat}: what the table has for floats only, or not at all.
KEEPS = {
    "copy_masked": lambda x: x.copy_masked(0),
    "copy_transpose": lambda x: x.copy_transpose([feat, time, batch]),
    "a frame of a loop": lambda x: rf.TensorArray.unstack(x, axis=time)[0],
    "labels in the second source": lambda x: rf.concat((rf.zeros(x.dims, dtype="int32"), time), (x, time))[0],
    "a frame by a number": lambda x: rf.gather(x, indices=1, axis=time),
    "cast": lambda x: rf.cast(x, "int64"),
}


def marked():
    x = tensor(
        [[[0, 1, 2], [3, 4, 5], [6, 0, 1], [2, 3, 4]], [[5, 6, 0], [1, 2, 3], [0, 0, 0], [0, 0, 0]]], batch, time, feat
    )
    x.sparse_dim, x.feature_dim = vocab, feat
    return x


@pytest.mark.parametrize("name", KEEPS)
def test_labels_stay_labels(name):
    out = KEEPS[name](marked())
    assert out.sparse_dim is vocab, f"{name} gives indices into {out.sparse_dim}"
    assert out.feature_dim is feat, f"{name} has the features {out.feature_dim}"


@pytest.mark.parametrize("mode", ["argmax", "argmin"])
def test_where_something_is_indexes_into_the_axis(mode):
    assert rf.reduce(marked(), mode=mode, axis=feat).sparse_dim is feat


@pytest.mark.parametrize("merged", [True, False])
def test_features_follow_into_the_dim_they_become(merged):
    if merged:
        out, dim = rf.merge_dims(marked(), dims=[time, feat])
    else:
        dim = Dim(3, name="other")
        out, _ = rf.replace_dim(marked(), in_dim=feat, out_dim=dim)
    assert out.feature_dim is dim


def test_a_kept_mark_is_used():
    """The largest label of each sequence is looked up as a label."""
    table = tensor([[float(row)] for row in range(7)], vocab, one)
    best = rf.reduce_max(marked(), axis=[time, feat])
    assert_same(rf.gather(table, indices=best), tensor([[6.0], [6.0]], batch, one))
