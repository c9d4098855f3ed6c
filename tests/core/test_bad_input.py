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
            [min(max(length, 0), 7) for length in lengths]
        """,
    ),
    "lengths beyond int32": (
        lambda: rf.ragged_dim([2**40, 5, 3], over=batch, name="time"),
        DimError,
        """
        Dim "time": lengths must be integers, 0 or more.
          lengths  int64, smallest 3, largest 1099511627776
        A length counts frames; 2147483647 is the most.
            [min(max(length, 0), 2147483647) for length in lengths]
        """,
    ),
    "bool lengths": (
        lambda: rf.ragged_dim([True, False, True], over=batch, name="time"),
        DimError,
        """
        Dim "time": lengths must be integers, 0 or more.
          lengths  bool
        A length counts frames.
            [int(length) for length in lengths]
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
        An axis is given by its Dim, or by the name of a dim of the operands:
            Dim(3, name="...")
        """,
    ),
    "names in place of dims": (
        lambda: rf.zeros(["batch"]),
        DimError,
        """
        full: 'batch' is not a Dim.
          got  str
        An axis is given by its Dim, or by the name of a dim of the operands:
            Dim(3, name="batch")
        """,
    ),
    "single_step_dim as axis": (
        lambda: rf.zeros([batch, rf.single_step_dim]),
        DimError,
        """
        full: single_step_dim is no axis.
          dims  [batch=3, single_step=?]
        It means a single step without an axis. Leave it out.
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
          source  [batch=3, time<=7, feat=5]
          got     int
        An axis is given by its Dim, or by the name of a dim of the operands:
            source.dims[1]    # time<=7
        """,
    ),
    "an axis by a name that is not there": (
        lambda: rf.softmax(x, axis="feet"),
        DimError,
        """
        softmax: axis "feet" is the name of no dim here.
          a     [batch=3, time<=7, feat=5]
          axis  "feet"
        There are batch, time, feat.
            rf.softmax(..., axis="feat")
        """,
    ),
    "an axis by an old description": (
        lambda: x.get_axis_from_description("T"),
        DimError,
        """
        Tensor.get_axis_from_description: axis "T" is the name of no dim here.
          self  [batch=3, time<=7, feat=5]
          axis  "T"
        There are batch, time, feat. A dim that is not there yet is made by
            tensor.get_axis_from_description(..., axis=rf.Dim(3, name="T"))
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
        A product-sum is computed in one dtype. Choose it:
            rf.matmul(a, rf.cast(b, a.dtype), reduce=...)
        """,
    ),
    "a cast of a list": (
        lambda: rf.cast([1, 2], "int32"),
        TypeError,
        """
        cast: this operand is not a Tensor.
          got  list
        Raw arrays and lists do not say which axis is which.
            rf.convert_to_tensor(value, dims=[...])
        """,
    ),
    "an unknown dtype": (
        lambda: rf.cast(x, "flaot32"),
        TypeError,
        """
        No dtype 'flaot32'.
          known  bool int8 int16 int32 int64 uint8 float16 bfloat16 float32 float64 complex64 complex128
        A dtype is the name that NumPy and torch have for it:
            dtype="float32"
        """,
    ),
    "an unknown option": (
        lambda: rf.reduce(x, mode="avg", axis=time),
        ValueError,
        """
        reduce: unknown mode "avg".
          known  sum, max, min, mean, logsumexp, any, all, argmax, argmin
        A mode is one of these.
            mode="sum"
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
    "softmax of integers": (
        lambda: rf.softmax(ids, axis=time),
        TypeError,
        """
        softmax: of int64.
          a     [batch=3, time<=7] int64
          axis  time<=7
        Probabilities are floats.
            rf.softmax(rf.cast(a, "float32"), axis=...)
        """,
    ),
    "softmax of a raw array": (
        lambda: rf.softmax(x.raw_tensor, axis=time),
        TypeError,
        """
        softmax: this operand is not a Tensor.
          got  torch.Tensor
        Raw arrays and lists do not say which axis is which.
            rf.convert_to_tensor(value, dims=[...])
        """,
    ),
    "an elementwise function of a raw array": (
        lambda: rf.tanh(x.raw_tensor),
        TypeError,
        """
        tanh: this operand is not a Tensor.
          got  torch.Tensor
        Raw arrays and lists do not say which axis is which.
            rf.convert_to_tensor(value, dims=[...])
        """,
    ),
    "a layer of a raw array": (
        lambda: rf.Linear(feat, out)(x.raw_tensor),
        TypeError,
        """
        Linear: source is not a Tensor.
          source  torch.Tensor (3, 7, 5)
        A Tensor has a Dim for each axis, in the order of the array. Say which:
            source = rf.convert_to_tensor(source, dims=[...])
        """,
    ),
    "a function of torch": (
        lambda: torch.relu(x),
        TypeError,
        """
        torch.relu: of a Tensor of rfnb.
          got  [batch=3, time<=7, feat=5]
        Its functions know axes by their positions. Take the function of rfnb that names dims, or the raw array:
            rf.relu(x)
            torch.relu(x.raw_tensor)
        """,
    ),
    "an array from a Tensor": (
        lambda: np.asarray(x),
        TypeError,
        """
        A Tensor does not become an array by itself.
          tensor  [batch=3, time<=7, feat=5]
        Its dims have no order that an array could rely on. Say the order:
            x.copy_transpose(x.dims[::-1]).numpy()    # or x.numpy() for x.dims
        """,
    ),
    "several axes of softmax": (
        lambda: rf.softmax(randn(feat), axis=[feat]),
        DimError,
        """
        softmax: this list is not a Dim.
          tensor  [feat=5]
          got     list
        An axis is given by its Dim, or by the name of a dim of the operands:
            axis=x.dims[0]    # feat=5
        """,
    ),
    "an axis twice": (
        lambda: rf.reduce_sum(x, axis=[time, time]),
        DimError,
        """
        reduce_sum: the same dim twice.
          source  [batch=3, time<=7, feat=5]
          axis    [time<=7, time<=7]
          twice   time<=7
        A dim can be reduced only once.
        """,
    ),
    "a condition of numbers": (
        lambda: rf.where(ids, x, 0.0),
        TypeError,
        """
        where: the condition is int64.
          cond  [batch=3, time<=7] int64
          true  [batch=3, time<=7, feat=5] float32
        A condition is bool. Say when a value counts as True:
            rf.where(cond != 0, ...)
        """,
    ),
    "sizes instead of dims": (
        lambda: rf.zeros([3, 4]),
        DimError,
        """
        full: 3 is not a Dim.
          got  int
        An axis is given by its Dim, or by the name of a dim of the operands:
            Dim(3, name="...")
        """,
    ),
    "a layer of sizes": (
        lambda: rf.Linear(5, 4),
        DimError,
        """
        Linear: in_dim is an int.
          in_dim   5
          out_dim  4
        in_dim is a Dim:
            rf.Linear(rf.Dim(5, name="in"), rf.Dim(4, name="out"))
        """,
    ),
    "a range over a size": (
        lambda: rf.range_over_dim(3),
        DimError,
        """
        range_over_dim: 3 is not a Dim.
          got  int
        An axis is given by its Dim, or by the name of a dim of the operands:
            Dim(3, name="...")
        """,
    ),
    "lengths over a size": (
        lambda: rf.ragged_dim([1, 2, 3], over=3, name="time"),
        DimError,
        """
        ragged_dim "time": over is not a Dim.
          over  int
        Lengths are one per entry of another dim, usually the batch:
            batch = Dim(3, name="batch")
        """,
    ),
    "one number of padding": (
        lambda: rf.pad(x, axes=[feat], padding=[1]),
        TypeError,
        """
        pad: how many frames?
          source   [batch=3, time<=7, feat=5]
          axes     [feat=5]
          padding  [1]
        padding has two numbers of frames for each axis, before and after it:
            rf.pad(source, axes=[feat], padding=[(1, 1)])
        """,
    ),
    "a negative shift": (
        lambda: rf.shift_right(x, axis=time, pad_value=0, amount=-2),
        ValueError,
        """
        shift_right: a negative amount.
          source  [batch=3, time<=7, feat=5]
          axis    time<=7
          amount  -2
        An amount is 0 or more; the other direction is
            rf.shift_left(..., amount=2)
        """,
    ),
    "an LSTM without a state": (
        lambda: rf.LSTM(feat, out)(x, state=None, spatial_dim=time),
        TypeError,
        """
        LSTM: no state.
          source       [batch=3, time<=7, feat=5]
          spatial_dim  time<=7
        The first state is zeros, over all dims but those of time and features:
            state = lstm.default_initial_state(batch_dims=[batch])
        """,
    ),
    "a list of no modules": (
        lambda: rf.Sequential(3),
        TypeError,
        """
        Sequential: not a module.
          got  int
        It holds modules and other callables, given one by one, as an iterable or as a dict of names.
            rf.Sequential(rf.Linear(in_dim, out_dim), rf.relu)
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
        pad: the numbers of axes and widths differ.
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
            rf.gather(x, axis=x.dims[2], indices=0)
            rf.slice(x, axis=x.dims[2], start=0, end=3)
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
            x.dims[0].extent     # longest sequence
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
            bool(rf.reduce_any(x, axis=x.dims))    # a scalar has one
            x is other                             # the same object
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


def test_one_dim_is_enough_where_there_are_several():
    assert rf.zeros(batch).dims == rf.random_normal(batch).dims == rf.Parameter(batch).dims == (batch,)


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


@pytest.mark.parametrize(
    ("dtype", "meant"), [("fp16", "float32"), (torch.float16, "float16"), ("int32", "float32"), (np.float64, "float32")]
)
def test_a_default_dtype_is_one_of_floats(dtype, meant):
    with raises_message(
        TypeError,
        f"""
        set_default_float_dtype: this is no dtype of floats.
          dtype  {dtype!r}
          known  bfloat16 float16 float32 float64
        A dtype is the name that NumPy and torch have for it.
            rf.set_default_float_dtype("{meant}")
        """,
    ):
        rf.set_default_float_dtype(dtype)
    assert rf.get_default_float_dtype() == "float32"


def test_only_bools_are_inverted():
    assert_same(~(ids == 0), ids != 0)
    with raises_message(
        TypeError,
        """
        ~ of float32.
          tensor  [batch=3, time<=7, feat=5] float32
        Only bools can be inverted. Say when a value counts as True:
            ~(x != 0)    # or x == 0
        """,
    ):
        ~x
