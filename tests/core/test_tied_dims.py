"""Operands whose dims are tied: lengths and their dim, indices into one space, dims that are declared the same."""

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError

batch, feat, vocab, key = Dim(3, name="batch"), Dim(5, name="feat"), Dim(7, name="vocab"), Dim(4, name="key")
time = ragged([4, 1, 2], batch)
lengths = tensor(np.asarray([4, 1, 2], np.int32), batch)
labels = tensor(np.asarray([6, 0, 2], np.int32), batch, sparse_dim=vocab)
positions = rf.range_over_dim(time)


def test_lengths_go_with_their_dim():
    assert (positions < lengths).dims == (time, batch)
    assert (lengths > positions).dims == (batch, time)
    assert_same(positions < lengths, time.get_mask())
    assert_same(positions - lengths, rf.combine_bc(positions, "sub", lengths))
    assert_same(rf.where(positions < lengths, 1, 0), rf.cast(time.get_mask(), "int32"))


def test_what_has_other_dims_too_goes_with_lengths():
    weights = randn(time, feat)
    assert_same(weights * lengths, rf.combine_bc(weights, "mul", lengths))


def test_lengths_over_two_dims():
    frames = ragged([[3, 1], [2, 2], [0, 1]], (batch, Dim(2, name="speaker")), "frames")
    assert_same(rf.range_over_dim(frames) < frames.dyn_size_ext, frames.get_mask())


def test_indices_into_one_space():
    for _ in range(2):  # the second time by a plan, if there were one
        others = labels != rf.range_over_dim(vocab)
        assert others.dims == (batch, vocab)
        assert_same(others, np.asarray([6, 0, 2])[:, None] != np.arange(7))
        with pytest.raises(DimError, match="not_equal: the dims of the operands do not match"):
            rf.not_equal(labels, rf.range_over_dim(vocab, dtype="float32"))
    assert_same(rf.where(rf.range_over_dim(vocab) == labels, 1.0, 0.0), rf.one_hot(labels))


UNTIED = {
    "labels and scores of the space": lambda: labels * randn(vocab),
    "labels of two dims": lambda: labels == tensor(np.asarray([1] * 4, np.int32), key, sparse_dim=vocab),
    "lengths of another dim": lambda: rf.range_over_dim(ragged([1, 2, 3, 4], key)) < lengths,
    "two ragged dims over one batch": lambda: randn(time) * randn(batch, ragged([1, 2, 3], batch, "frames")),
    "lengths and a dim of theirs": lambda: randn(batch, feat) * randn(time, key),
}


@pytest.mark.parametrize("call", UNTIED.values(), ids=UNTIED)
def test_everything_else_stays_refused(call):
    with pytest.raises(DimError, match="the dims of the operands do not match"):
        call()


def frames(declared=True):
    dim = ragged([4, 1, 2], batch, "frames")
    if declared:
        dim.declare_same_as(time)
    return dim


x = randn(batch, time, feat)
JOINED = {
    "add": lambda x, y, u: x + y,
    "the other first": lambda x, y, u: y * x,
    "combine_bc": lambda x, y, u: rf.combine_bc(x, "add", y),
    "less": lambda x, y, u: x < y,
    "maximum": lambda x, y, u: rf.maximum(y, x),
    "where": lambda x, y, u: rf.where(x > 0, y, x),
    "where of numbers": lambda x, y, u: rf.where(rf.range_over_dim(u) < 2, x, 0.0),
    "clip_by_value": lambda x, y, u: rf.clip_by_value(x, None, y),
    "matmul over it": lambda x, y, u: rf.matmul(x, y, reduce=[u, feat]),
    "matmul over its other": lambda x, y, u: rf.matmul(y, x, reduce=[time, feat]),
    "matmul beside it": lambda x, y, u: rf.matmul(x, y, reduce=feat),
    "concat": lambda x, y, u: rf.concat((x, feat), (y, feat))[0],
    "concat with less": lambda x, y, u: rf.concat((x, feat), (randn(u, key), key), allow_broadcast=True)[0],
    "stack": lambda x, y, u: rf.stack([x, y], out_dim=Dim(2, name="two"))[0],
    "gather beside it": lambda x, y, u: rf.gather(x, indices=rf.zeros([batch, u], dtype="int32"), axis=feat),
    "gather along it": lambda x, y, u: rf.gather(y, indices=rf.cast(x > 0, "int32"), axis=feat),
    "scatter": lambda x, y, u: rf.scatter(x, indices=rf.zeros([batch, u], dtype="int32"), indices_dim=u, out_dim=key),
    "cross_entropy": lambda x, y, u: rf.cross_entropy(
        estimated=x, target=rf.zeros([batch, u], dtype="int32", sparse_dim=feat), axis=feat, estimated_type="logits"
    ),
    "make_complex": lambda x, y, u: rf.make_complex(x, y),
    "dim arithmetic": lambda x, y, u: rf.pad(x, axes=[time], padding=[(0, 1)])[0] + rf.pad(y, axes=[u], padding=[(0, 1)])[0],
}  # fmt: skip


@pytest.mark.parametrize("op", JOINED.values(), ids=JOINED)
def test_an_op_brings_dims_together_that_are_declared_the_same(op):
    u = frames()
    y = rf.tanh(randn(batch, u, feat, seed=1))
    expected = op(x, rf.replace_dim(y, in_dim=u, out_dim=time)[0], time)
    for _ in range(2):
        out = op(x, y, u)
        assert [dim.name for dim in out.dims if not dim.is_static()] == [
            d.name for d in expected.dims if not d.is_static()
        ]
        assert u not in out.dims and out.dtype == expected.dtype
        order = [next(dim for dim in out.dims if dim.name == other.name) for other in expected.dims]
        np.testing.assert_allclose(
            np.nan_to_num(out.copy_transpose(order).copy_masked(0).numpy()),
            np.nan_to_num(expected.copy_masked(0).numpy()),
            rtol=1e-6,
        )


def test_an_op_planned_before_the_declaration_is_planned_again():
    u = frames(declared=False)
    y = randn(batch, u, feat, seed=1)
    assert rf.matmul(x, y, reduce=feat).dims == (batch, time, u)
    u.declare_same_as(time)
    assert rf.matmul(x, y, reduce=feat).dims == (batch, time)


def test_the_result_has_the_dim_that_the_other_was_declared_as():
    u, v = frames(), frames()
    y, z = randn(batch, u, feat), randn(batch, v, feat)
    assert (x + y).dims == (y + x).dims == (batch, time, feat)
    assert (y + z).dims == (batch, time, feat) and u.get_same_base() is v.get_same_base() is time
    assert (y + y).dims == (batch, u, feat)


def test_a_dim_declared_before_it_has_sizes():
    u = Dim(None, name="u")
    time.declare_same_as(u)
    assert (x + randn(batch, u, feat)).dims == x.dims


def test_static_dims_that_are_declared_the_same():
    model = Dim(5, name="model")
    model.declare_same_as(feat)
    assert (randn(batch, model) + randn(feat)).dims == (batch, feat)
    assert rf.matmul(x, randn(model, key), reduce=feat).dims == (batch, time, key)


def test_twins_and_derived_dims_follow():
    u = frames()
    assert (randn(batch, u + 2) * randn(batch, time + 2)).dims == (batch, time + 2)
    assert (randn(u.copy(match_priority=1), batch) + randn(batch, time.copy(match_priority=1))).dims == (
        time.copy(match_priority=1),
        batch,
    )


def test_an_operand_that_has_both_says_that_they_are_apart():
    u = frames(declared=False)
    energies = randn(batch, time, u)
    u.declare_same_as(time)
    assert (energies * randn(batch, u)).dims == (batch, time, u)


def test_a_derived_dim_keeps_its_declaration():
    shape = ragged([5, 2, 3], batch, "longer")
    (time + 1).declare_same_as(shape)
    for _ in range(200):  # what nobody holds is made anew
        time + _
    assert (randn(batch, shape) + randn(batch, time + 1)).dims == (batch, shape)


def test_replace_dim_still_puts_one_for_the_other():
    u = frames()
    assert rf.replace_dim(randn(batch, u), in_dim=u, out_dim=time)[0].dims == (batch, time)


def test_sizes_that_differ_by_now_are_an_error():
    u = frames()
    u.dyn_size_ext = tensor(np.asarray([3, 1, 2], np.int32), batch)
    with pytest.raises(DimError, match="These dims are not the same: their sizes differ"):
        x + randn(batch, u, feat)


def test_a_loop_over_dims_that_are_declared_the_same():
    u = frames()
    y = randn(batch, u, feat, seed=1)
    results = []
    for kind in ("for", "with"):
        loop = rf.Loop(axis=feat)
        loop.state.total = rf.zeros([batch, time])
        if kind == "with":
            with loop:
                loop.state.total = loop.state.total + loop.unstack(y)
        else:
            for _ in loop:
                loop.state.total = loop.state.total + loop.unstack(y)
        results.append(loop.state.total)
    expected = rf.reduce_sum(rf.replace_dim(y, in_dim=u, out_dim=time)[0], axis=feat)
    for result in results:
        assert_same(result, expected, tolerance=1e-4)


ERRORS = {
    "an axis by the other's name": (
        lambda u: rf.reduce_sum(x, axis=u),
        """
        reduce_sum: no dim frames<=4.
          source  [batch=3, time<=4, feat=5]
          dim     frames<=4
        "frames" and "time" are declared the same, but source keeps the one it has. Replace it first:
            source, _ = rf.replace_dim(source, in_dim=time, out_dim=frames)
        """,
    ),
    "lengths over a dim that would go": (
        lambda u: _other_batch(),
        """
        add: the lengths of frames<=4 are over rows=3, which is declared the same as another dim.
          a         [rows=3, frames<=4]
          b         [batch=3]
          declared  rows as batch
        With batch in its place, frames would have no lengths. Say over which dim they are:
            frames = rf.ragged_dim([...], over=batch)
        """,
    ),
}


def _other_batch():
    rows = Dim(3, name="rows")
    rows.declare_same_as(batch)
    return randn(rows, ragged([4, 1, 2], rows, "frames")) + randn(batch)


@pytest.mark.parametrize(("call", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, text):
    u = frames()
    with raises_message(DimError, text):
        call(u)
