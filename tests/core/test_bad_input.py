"""Each kind of bad input has a message that shows the operands, the rule and what to type."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError, ShapeError, Tensor

batch, feat, out = Dim(3, name="batch"), Dim(5, name="feat"), Dim(4, name="out")
time = ragged([7, 5, 3], batch)
x, ids = randn(batch, time, feat), tensor(np.zeros((3, 7), np.int64), batch, time)

ERRORS = {
    "NaN lengths": (
        lambda: Dim(tensor([1.0, np.nan, 2.0], batch), name="time"),
        DimError,
        """
        Dim "time": lengths must be integers, 0 or more.
          lengths  float32, 1 of them NaN
        A length counts frames.
            lengths = rf.reduce_sum(rf.cast(mask, "int32"), axis=time)    # count the real frames
        """,
    ),
    "negative lengths": (
        lambda: rf.ragged_dim([7, -5, 3], over=batch, name="time"),
        DimError,
        """
        Dim "time": lengths must be integers, 0 or more.
          lengths  int64, smallest -5, largest 7
        A length counts frames; 2147483647 is the most.
            rf.clip_by_value(lengths, 0, 7)
        """,
    ),
    "lengths beyond int32": (
        lambda: rf.ragged_dim([2**40, 5, 3], over=batch, name="time"),
        DimError,
        """
        Dim "time": lengths must be integers, 0 or more.
          lengths  int64, smallest 3, largest 1099511627776
        A length counts frames; 2147483647 is the most.
            rf.clip_by_value(lengths, 0, 2147483647)
        """,
    ),
    "bool lengths": (
        lambda: rf.ragged_dim([True, False, True], over=batch, name="time"),
        DimError,
        """
        Dim "time": lengths must be integers, 0 or more.
          lengths  bool
        A length counts frames.
            rf.cast(lengths, "int32")
        """,
    ),
    "a negative size": (
        lambda: Dim(-1, name="x"),
        DimError,
        """
        Dim "x": negative size.
          size  -1
        Sizes are 0 or more.
        """,
    ),
    "a float as size": (
        lambda: Dim(3.0, name="x"),
        DimError,
        """
        Dim "x": this is no size.
          got  float64
        A size is an int; lengths are a Tensor of ints; None is a size that comes later.
            Dim(3)
        """,
    ),
    "a name as size": (
        lambda: Dim("time"),
        DimError,
        """
        Dim "dim": this is no size.
          got  str_
        A size is an int; lengths are a Tensor of ints; None is a size that comes later.
            Dim(3, name="dim")
        """,
    ),
    "sizes in place of dims": (
        lambda: Tensor("x", dims=[3, 5]),
        DimError,
        """
        Tensor "x": 3 is not a Dim.
          got  int
        An axis is named by its Dim, never by a letter, a name or a position:
            Dim(3, name="...")
        """,
    ),
    "names in place of dims": (
        lambda: rf.zeros(["batch"]),
        DimError,
        """
        full: 'batch' is not a Dim.
          got  str
        An axis is named by its Dim, never by a letter, a name or a position:
            Dim(3, name="batch")
        """,
    ),
    "single_step_dim as axis": (
        lambda: rf.zeros([batch, rf.single_step_dim]),
        DimError,
        """
        full: single_step_dim is no axis.
          dims  [batch=3, single_step=?]
        It says that there is one step and no axis for it. Leave it out.
        """,
    ),
    "a dim twice": (
        lambda: rf.merge_dims(x, dims=[batch, batch]),
        DimError,
        """
        merge_dims: the same dim twice.
          dims   [batch=3, batch=3]
          twice  batch=3
        A tensor holds a dim once. A square weight uses the dim and its twin:
            batch.copy(match_priority=1)
        """,
    ),
    "an axis by position": (
        lambda: rf.reduce_sum(x, axis=1),
        DimError,
        """
        reduce_sum: 1 is not a Dim.
          got  int
        An axis is named by its Dim, never by a letter, a name or a position:
            Dim(1, name="...")
        """,
    ),
    "an axis by name": (
        lambda: rf.softmax(x, axis="feat"),
        DimError,
        """
        softmax: 'feat' is not a Dim.
          tensor  [batch=3, time<=7, feat=5]
          got     str
        An axis is named by its Dim, never by a letter, a name or a position:
            feat
        """,
    ),
    "an axis by an old description": (
        lambda: x.get_axis_from_description("T"),
        DimError,
        """
        get_axis_from_description: 'T' is not a Dim.
          tensor  [batch=3, time<=7, feat=5]
          got     str
        An axis is named by its Dim, never by a letter, a name or a position:
            Dim(3, name="T")
        """,
    ),
    "padding longer than the lengths say": (
        lambda: Tensor("x", dims=[batch, time], raw_tensor=torch.zeros(3, 9)),
        ShapeError,
        """
        Tensor "x": raw shape (3, 9) does not fit its dims.
          axis  dim      needs  got
          0     batch=3  3      3
          1     time<=7  7      9    <- differs
        The dims of a tensor are in the order of its raw array.
        Axis 1 needs the dim that this array was made with:
            Dim(9, name=...)
        """,
    ),
    "mixed dtypes": (
        lambda: rf.matmul(x, rf.cast(randn(feat, out), "float64"), reduce=feat),
        TypeError,
        """
        matmul: the operands have different dtypes.
          a  [batch=3, time<=7, feat=5] float32
          b  [feat=5, out=4] float64
        A product-sum is done in one dtype; which one is yours to say.
            rf.matmul(a, rf.cast(b, a.dtype), reduce=...)
        """,
    ),
    "an unknown dtype": (
        lambda: rf.cast(x, "flaot32"),
        TypeError,
        """
        No dtype 'flaot32'.
          known  bool int8 int16 int32 int64 uint8 float16 bfloat16 float32 float64 complex64 complex128
        A dtype is the name that NumPy and torch have for it.
        """,
    ),
    "an unknown option": (
        lambda: rf.reduce(x, mode="avg", axis=time),
        ValueError,
        """
        reduce: unknown mode "avg".
          known  sum, max, min, mean, logsumexp, any, all, argmax, argmin
        A mode is one of these.
        """,
    ),
    "float indices": (
        lambda: rf.gather(randn(feat), indices=randn(batch), axis=feat),
        TypeError,
        """
        gather: the indices are float32.
          source   [feat=5]
          indices  [batch=3] float32
        Indices are integers.
            rf.cast(indices, "int64")       # or rf.masked_select(source, mask=..., dims=[...])
        """,
    ),
    "a raw array as operand": (
        lambda: rf.gather(x, indices=torch.zeros(3), axis=time),
        TypeError,
        """
        gather: this operand is not a Tensor.
          got  torch.Tensor
        Raw arrays and lists do not say which axis is which.
            rf.convert_to_tensor(value, dims=[...])
        """,
    ),
    "a number as operand": (
        lambda: rf.matmul(x, 3.0, reduce=feat),
        TypeError,
        """
        matmul: this operand is not a Tensor.
          got  float
        Raw arrays and lists do not say which axis is which.
            rf.convert_to_tensor(value, dims=[...])
        """,
    ),
    "a template as operand": (
        lambda: rf.softmax(Tensor("x", dims=[feat]), axis=feat),
        ValueError,
        """
        softmax: a template has no values.
          tensor  Tensor{'x', [feat=5] (template)}
        Assign x.raw_tensor first.
        """,
    ),
    "logic of numbers": (
        lambda: randn(feat) & (randn(feat) > 0),
        TypeError,
        """
        logical_and: not bool.
          a  [feat=5] float32
          b  [feat=5] bool
        Logic is about bools. Say when a value counts as True:
            a != 0
        """,
    ),
    "as many widths as axes": (
        lambda: rf.pad(x, axes=[time], padding=[(1, 1), (1, 1)]),
        ValueError,
        """
        pad: other numbers of axes and widths.
          axes     1
          padding  2
        Each axis has one (left, right), and one of out_dims if those are given.
        """,
    ),
    "an index by position": (
        lambda: x[0],
        TypeError,
        """
        A Tensor has no [...].
          tensor  [batch=3, time<=7, feat=5]
          key     int
        The order of its dims is no part of its meaning. Name the dim:
            rf.gather(x, indices=0, axis=...)
            rf.slice(x, axis=..., start=0, end=3)
            rf.masked_select(x, mask=..., dims=[...])
        """,
    ),
    "@": (
        lambda: x @ randn(feat, out),
        TypeError,
        """
        A Tensor has no @.
          a  [batch=3, time<=7, feat=5]
          b  [feat=5, out=4]
        Which dim is summed over does not follow from an order of dims. Name it:
            rf.matmul(a, b, reduce=feat)
        """,
    ),
    "len": (
        lambda: len(randn(feat)),
        TypeError,
        """
        A Tensor has no len().
          tensor  [feat=5]
        Which dim is first is no part of its meaning. Name the dim:
            dim.extent           # longest sequence
            x.batch_ndim         # number of axes
            x.num_elements()     # without padding
        """,
    ),
    "in a list": (
        lambda: randn(feat) in [randn(feat), x],
        TypeError,
        """
        A Tensor has no truth value.
          tensor  [feat=5]
        Branching on values needs one Python bool; `==` is elementwise, so `x in [y]` asks for one too.
            bool(x.raw_tensor)            # a scalar
            rf.reduce_any(x, axis=...)    # first reduce
            any(x is y for y in xs)       # the same object
        """,
    ),
    "an attribute of arrays": (
        lambda: x.shape,
        AttributeError,
        """
        A Tensor has no attribute 'shape'.
          tensor  [batch=3, time<=7, feat=5]
        A Tensor has no positions and no methods of arrays; its ops are functions that name dims:
            x.dims                      # or x.raw_tensor.shape
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()


def test_other_unknown_attributes_are_ordinary_errors():
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'frobnicate'"):
        _ = x.frobnicate
    assert not hasattr(x, "shape")


def test_equal_names_made_in_different_places_say_where():
    here = Dim(4, name="head")
    there = Dim(4, name="head")
    with pytest.raises(DimError) as caught:
        rf.reduce_sum(randn(here), axis=there)
    assert here.created in str(caught.value) and there.created in str(caught.value)


def test_empty_batches_and_sequences_without_frames_are_no_bad_input():
    none = Dim(0, name="batch")
    empty = rf.ragged_dim([], over=none, name="time")
    assert_same(rf.reduce_sum(randn(none, empty, feat), axis=empty), np.zeros((0, 5)))
    short = ragged([0, 2, 0], batch)
    assert_same(rf.reduce_sum(rf.ones([batch, short]), axis=short), [0.0, 2.0, 0.0])
    assert_same(rf.reduce_mean(rf.ones([batch, short]), axis=short), [0.0, 1.0, 0.0])
