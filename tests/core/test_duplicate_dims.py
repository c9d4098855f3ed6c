"""A dim made anew (a cell run twice) never meets the one before in one result, whatever op would bring them together."""

import pickle
import warnings

import pytest
from asserting import assert_same, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError


def made():
    return Dim(2, name="batch")


batch, again = made(), made()
feat, key, out = Dim(5, name="feat"), Dim(7, name="key"), Dim(4, name="out")
lengths = [3, 2]
time, time_again = (rf.ragged_dim(lengths, over=batch, name="time") for _ in range(2))
x, bias = randn(batch, time, feat), randn(again, feat)
query, keys = randn(batch, time, feat), randn(again, key, feat)
ids = tensor([[0, 1, 2], [1, 0, 0]], batch, time, sparse_dim=key)
mask = tensor([True, False], again)


def unit(cls):
    return cls(feat, out)


def loop_over(kind):
    loop = rf.Loop(axis=time)
    loop.state.h = rf.zeros([again, feat])
    if kind == "with":
        with loop:
            loop.state.h = rf.tanh(loop.unstack(x) + loop.state.h)
    else:
        for _ in loop:
            loop.state.h = rf.tanh(loop.unstack(x) + loop.state.h)
    return loop.state.h


JOINING = {
    "mul": lambda: x * bias,
    "sub of the first": lambda: bias - x,
    "less": lambda: x < bias,
    "maximum": lambda: rf.maximum(x, bias),
    "squared_difference": lambda: rf.squared_difference(x, bias),
    "clip_by_value": lambda: rf.clip_by_value(x, bias, None),
    "lerp": lambda: rf.lerp(x, bias, 0.5),
    "log_add_exp": lambda: rf.log_add_exp(x, bias),
    "where": lambda: rf.where(x > 0, x, bias),
    "where by a mask": lambda: rf.where(randn(again, feat) > 0, x, 0.0),
    "make_complex": lambda: rf.make_complex(x, bias),
    "matmul": lambda: rf.matmul(x, bias, reduce=feat),
    "matmul of two reduced": lambda: rf.matmul(query, randn(again, time, feat), reduce=[time, feat]),
    "dot": lambda: rf.dot(query, keys, reduce=feat),
    "concat": lambda: rf.concat((x, feat), (bias, feat), allow_broadcast=True),
    "gather": lambda: rf.gather(keys, indices=ids),
    "gather of one per sequence": lambda: rf.gather(x, indices=tensor([1, 0], again), axis=time),
    "scatter": lambda: rf.scatter(x, indices=tensor([[1, 0, 1]] * 2, again, time), indices_dim=time, out_dim=out),
    "masked_select": lambda: rf.masked_select(randn(batch, key), mask=randn(again, key) > 0, dims=[key]),
    "masked_scatter": lambda: rf.masked_scatter(x, bias, mask=randn(key) > 0, dims=[key], in_dim=time),
    "mask_nested": lambda: rf.mask_nested({"x": x}, mask=mask, mask_value=0),
    "search_sorted": lambda: rf.search_sorted(bias, randn(batch), axis=feat),
    "dot_attention": lambda: rf.dot_attention(query, keys, keys, key_dim=feat, axis=key),
    "linear": lambda: rf.Linear(feat, made())(randn(batch, time, feat)),
    "LSTM over time": lambda: unit(rf.LSTM)(
        x, state=unit(rf.LSTM).default_initial_state(batch_dims=[again]), spatial_dim=time
    ),
    "ZoneoutLSTM": lambda: rf.ZoneoutLSTM(feat, feat)(
        x, state=rf.ZoneoutLSTM(feat, feat).default_initial_state(batch_dims=[again]), spatial_dim=time
    ),
    "for loop": lambda: loop_over("for"),
    "with loop": lambda: loop_over("with"),
    "ragged": lambda: rf.matmul(x, randn(batch, time_again, feat), reduce=feat),
    "slice": lambda: rf.slice(x, axis=time, start=tensor([1, 0], again), size=1),
}


@pytest.mark.parametrize("call", JOINING.values(), ids=JOINING)
def test_no_op_joins_a_dim_with_the_same_made_anew(call):
    with pytest.raises(DimError, match="the same dim, made twice, would be in the result two times"):
        call()


def test_the_second_call_is_refused_too():
    for _ in range(2):
        with pytest.raises(DimError, match="made twice"):
            x * bias


def test_the_line_that_the_message_gives_mends_it():
    b = bias
    b, _ = rf.replace_dim(b, in_dim=b.dims[0], out_dim=x.dims[0])
    assert (x * b).dims == x.dims


def test_outer_products_that_are_said_are_allowed():
    assert rf.combine_bc(x, "mul", bias).dims == (batch, time, feat, again)
    assert rf.where(mask, x, 0.0, allow_broadcast_all_sources=True).dims == (again, batch, time, feat)


def test_twins_and_copies_and_anonymous_dims_meet():
    twin, copied = batch.copy(match_priority=1), batch.copy(same_as_self=False)
    assert (x * randn(twin, feat)).dims == (batch, time, feat, twin)
    assert (x * randn(copied, feat)).dims == (batch, time, feat, copied)
    assert (randn(batch, Dim(3)) * randn(Dim(3), batch)).batch_ndim == 3


def test_dims_that_ops_make_meet_those_that_they_are_named_after():
    queries, frames = rf.replace_dim(x, in_dim=time)
    assert frames.name == "time"
    assert rf.matmul(x, queries, reduce=feat).dims == (batch, time, frames)


def test_dims_of_another_name_or_size_meet():
    assert (x * randn(Dim(2, name="beam"), feat)).batch_ndim == 4
    with pytest.warns(UserWarning, match="two dims of one name and other sizes"):
        assert (x * randn(Dim(3, name="batch"), feat)).batch_ndim == 4


def test_who_has_both_already_goes_on():
    both = rf.combine_bc(x, "mul", bias)
    assert_same(both * bias, rf.combine_bc(x, "mul", bias * bias))


def test_a_dim_from_a_pickle_is_another_dim():
    loaded = pickle.loads(pickle.dumps(batch))
    with pytest.raises(DimError, match="made twice"):
        bias * randn(loaded, feat)


ERRORS = {
    "elementwise": (
        lambda: x * bias,
        """
        mul: the same dim, made twice, would be in the result two times.
          a  [batch#1=2, time<=3, feat=5]
          b  [batch#2=2, feat=5]
        batch#2 was made again after batch#1, as when a cell runs again. A Dim is itself only, whatever its name.
        If they are the same axis, make both tensors with one, or replace one first; if they are two, give one another name:
            b, _ = rf.replace_dim(b, in_dim=b.dims[0], out_dim=a.dims[0])
            batch = Dim(..., name="other_batch")
        """,
    ),
    "the new one first": (
        lambda: rf.matmul(bias, x, reduce=feat),
        """
        matmul: the same dim, made twice, would be in the result two times.
          a  [batch#1=2, feat=5]
          b  [batch#2=2, time<=3, feat=5]
        batch#1 was made again after batch#2, as when a cell runs again. A Dim is itself only, whatever its name.
        If they are the same axis, make both tensors with one, or replace one first; if they are two, give one another name:
            b, _ = rf.replace_dim(b, in_dim=b.dims[0], out_dim=a.dims[0])
            batch = Dim(..., name="other_batch")
        """,
    ),
    "without a common dim": (
        lambda: rf.where(mask, x, 0.0),
        """
        where: the dims of the operands do not match.
          cond  [batch#1=2]
          true  [batch#2=2, time<=3, feat=5]
        cond and true have no dim in common, so this would be an outer product.
        If they are the same axis, replace one first; if the outer product is meant, say so:
            true, _ = rf.replace_dim(true, in_dim=true.dims[0], out_dim=cond.dims[0])
            rf.where(..., allow_broadcast_all_sources=True)
        """,
    ),
    "a ragged one": (
        lambda: x * randn(batch, time_again, feat),
        """
        mul: the dims of the operands do not match.
          a  [batch=2, time#1<=3, feat=5]
          b  [batch=2, time#2<=3, feat=5]
        time#1<=3 and time#2<=3 are two different ragged dims, so this would compare every frame with every frame.
        If they are the same axis, replace one first; if the outer product is meant, say so:
            b, _ = rf.replace_dim(b, in_dim=b.dims[1], out_dim=a.dims[1])
            rf.combine_bc(a, "mul", b)
        """,
    ),
}


@pytest.mark.parametrize(("call", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, text):
    with raises_message(DimError, text):
        call()


def _of_size(size):
    """The result of a function that makes a new dim in each call."""
    return randn(feat, dim := Dim(size, name="frames")), dim


def test_dims_of_one_place_and_other_sizes_do_not_meet_elementwise():
    (a, first), (b, second) = _of_size(3), _of_size(4)
    with raises_message(
        DimError,
        """
        add: two dims of one name and other sizes would be in the result.
          a  [feat=5, frames#1=3]
          b  [feat=5, frames#2=4]
        frames=4 was made after frames=3. A Dim is itself only, whatever its name, so each entry of one meets each of the other.
        If they are the same axis, make both tensors with one; if the outer product is meant, say so, or give one another name:
            rf.combine_bc(a, "add", b)
        """,
    ):
        a + b
    shorter = [rf.slice(x, axis=dim, start=1)[0] for x, dim in ((a, first), (b, second))]
    for join in (
        lambda: a < b, lambda: rf.maximum(b, a), lambda: rf.where(a > 0, a, b), lambda: rf.clip_by_value(a, b, None),
        lambda: shorter[0] * shorter[1],
    ):  # fmt: skip
        with pytest.raises(DimError, match="two dims of one name and other sizes"):
            join()


def test_dims_of_one_name_and_other_sizes_of_two_places_meet_with_a_warning():
    first = Dim(3, name="frames")
    second = Dim(4, name="frames")
    with pytest.warns(UserWarning, match="two dims of one name and other sizes"):
        assert (randn(feat, first) * randn(feat, second)).dims == (feat, first, second)


def test_outer_products_that_are_meant_are_said_or_have_two_names():
    (a, first), (b, second) = _of_size(3), _of_size(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rf.combine_bc(a, "add", b).dims == (feat, first, second)
        assert rf.matmul(a, b, reduce=feat).dims == (first, second)
        assert (a + randn(feat, out)).dims == (feat, first, out)
        assert (a + rf.combine_bc(a, "mul", b)).dims == (feat, first, second)
