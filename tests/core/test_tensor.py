"""Tensor: construction, its checks, order of axes, copies."""

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError, ShapeError, Tensor, VerifyOutShapeException

batch, feat, out = Dim(3, name="batch"), Dim(5, name="feat"), Dim(2, name="out")
time, frames, short = ragged([7, 5, 3], batch), ragged([7, 5, 3], batch, "frames"), ragged([4, 2, 1], batch)
x = randn(batch, time, feat)


def test_a_tensor_takes_dtype_and_device_from_its_array():
    one = Tensor("ids", dims=[batch], raw_tensor=tensor(np.zeros(3, np.int64), batch).raw_tensor, sparse_dim=feat)
    assert (one.name, one.dims, one.dtype, one.device, one.sparse_dim) == ("ids", (batch,), "int64", "cpu", feat)


def test_a_template_has_dims_and_dtype_only():
    template = Tensor("x", dims=[batch, time], dtype="bool")
    assert (template.raw_tensor, template.dtype, template.device) == (None, "bool", None)


def test_copy_transpose_moves_axes():
    y = x.copy_transpose([feat, batch, time])
    assert y.dims == (feat, batch, time)
    assert y.raw_tensor.shape == (5, 3, 7)
    assert_same(y, x)


def test_copy_transpose_keeps_the_marks():
    y = tensor(np.zeros((3, 5), np.int32), batch, feat, sparse_dim=out, name="ids")
    y.feature_dim = feat
    z = y.copy_transpose([feat, batch])
    assert (z.sparse_dim, z.feature_dim, z.name) == (out, feat, "ids")


def test_copy_compatible_to_dims_puts_axes_of_length_one():
    assert x.copy_compatible_to_dims_raw([out, time, batch, feat]).shape == (1, 7, 3, 5)


def test_copy_masked_writes_into_padding_only():
    y = randn(batch, short).copy_masked(9.0)
    assert y.numpy()[1].tolist()[2:] == [9.0, 9.0]
    assert_same(y, randn(batch, short))


def test_num_elements_counts_real_frames():
    assert x.num_elements() == (7 + 5 + 3) * 5


def test_remaining_dims():
    assert x.remaining_dims(time) == [batch, feat]
    assert x.remaining_dims([feat, batch]) == [time]


def test_a_dim_without_size_takes_it_from_an_array_that_fits():
    new = Dim(None, name="new")
    with pytest.raises(ShapeError):
        Tensor("x", dims=[new, feat], raw_tensor=np.zeros((4, 6), np.float32))
    assert not new.is_dim_known()
    Tensor("x", dims=[new, feat], raw_tensor=np.zeros((4, 5), np.float32))
    assert new.extent == 4


def test_the_longest_sequence_must_be_the_length_of_the_axis():
    with pytest.raises(ShapeError):
        Tensor("x", dims=[batch, time], raw_tensor=np.zeros((3, 6), np.float32))


def test_a_square_weight_has_the_dim_and_its_twin():
    twin = feat.copy(match_priority=1)
    weight = randn(twin, feat)
    assert weight.dims == (twin, feat) and weight.dims_set == {twin, feat}


def test_equality_with_anything_else_is_a_plain_bool():
    assert (x == None) is False and (x != None) is True and (x == "x") is False  # noqa: E711


def test_repr_shows_dims_and_marks():
    ids = tensor(np.zeros((3, 7), np.int32), batch, time, sparse_dim=feat, name="ids")
    assert repr(ids) == "Tensor{'ids', [batch=3, time<=7] int32 sparse over feat=5}"
    assert repr(Tensor("x", dims=[batch])) == "Tensor{'x', [batch=3] (template)}"


def test_repr_tells_equally_named_dims_apart():
    first, second = Dim(2, name="head"), Dim(4, name="head")
    one, two = (Dim(size, name="head") for size in (2, 4))
    assert repr(Tensor("x", dims=[first, second])) == "Tensor{'x', [head#1=2, head#2=4] (template)}"
    assert repr(Tensor("x", dims=[one, two])) == "Tensor{'x', [head#1=2, head#2=4] (template)}"
    third = Dim(6, name="head")
    text = f"[head({first.created})=2, head({third.created})=6]"
    assert repr(Tensor("x", dims=[first, third])) == f"Tensor{{'x', {text} (template)}}"


def template():
    return Tensor("x", dims=[batch, time])


ERRORS = {
    "the same dim twice": (
        lambda: Tensor("w", dims=[feat, feat]),
        DimError,
        """
        Tensor "w": the same dim twice.
          dims   [feat=5, feat=5]
          twice  feat=5
        A tensor holds a dim once. A square weight uses the dim and its twin:
            feat.copy(match_priority=1)
        """,
    ),
    "a feature_dim that is no dim": (
        lambda: Tensor("x", dims=[feat], feature_dim=out),
        DimError,
        """
        feature_dim is not a dim of the tensor.
          tensor       [feat=5]
          feature_dim  out=2
        The feature dim is one of the dims.
        """,
    ),
    "another size": (
        lambda: Tensor("logits", dims=[batch, time, feat], raw_tensor=np.zeros((3, 7, 4), np.float32)),
        ShapeError,
        """
        Tensor "logits": raw shape (3, 7, 4) does not fit its dims.
          axis  dim      needs  got
          0     batch=3  3      3
          1     time<=7  7      7
          2     feat=5   5      4    <- differs
        The dims of a tensor are in the order of its raw array.
        Axis 2 needs the dim that this array was made with:
            Dim(4, name=...)
        """,
    ),
    "another rank": (
        lambda: Tensor(None, dims=[batch, Dim(None, name="new")], raw_tensor=np.zeros((3, 7, 4), np.float32)),
        ShapeError,
        """
        Tensor: raw shape (3, 7, 4) does not fit its dims.
          axis  dim      needs  got
          0     batch=3  3      3
          1     new=?    any    7
          2     none            4    <- differs
        The dims of a tensor are in the order of its raw array.
        """,
    ),
    "another dtype": (
        lambda: Tensor("x", dims=[batch], dtype="float32", raw_tensor=np.zeros(3, np.int32)),
        ShapeError,
        """
        Tensor "x": dtype differs.
          tensor  float32
          array   int32
        A tensor keeps the dtype it was declared with. Declare the one of the array:
            Tensor("x", dims=[...], dtype="int32")
        """,
    ),
    "an incomplete order": (
        lambda: x.copy_transpose([batch, time]),
        DimError,
        """
        copy_transpose: the order must name each dim once.
          tensor  [batch=3, time<=7, feat=5]
          order   batch=3, time<=7
        A transposition keeps all dims. Those that are missing last:
            x.copy_transpose([x.dims[0], x.dims[1], x.dims[2]])
        """,
    ),
    "a missing dim": (
        lambda: x.remaining_dims(out),
        DimError,
        """
        remaining_dims: no dim out=2.
          tensor  [batch=3, time<=7, feat=5]
          dim     out=2
        The dim out=2 is not among the dims of tensor.
            x.dims[0]    # batch=3
            x.dims[1]    # time<=7
            x.dims[2]    # feat=5
        """,
    ),
    "a missing dim of equal sizes": (
        lambda: x.copy_transpose([batch, frames, feat]),
        DimError,
        """
        copy_transpose: no dim frames<=7.
          tensor  [batch=3, time<=7, feat=5]
          dim     frames<=7
        "frames" and "time" have the same sizes (7, 5, 3) but are different dims.
        If they are the same axis, replace one first:
            x, _ = rf.replace_dim(x, in_dim=time, out_dim=frames)
        """,
    ),
    "a missing dim of equal name": (
        lambda: x.axis_of(short),
        DimError,
        """
        axis_of: no dim time#2<=4.
          tensor  [batch=3, time#1<=7, feat=5]
          dim     time#2<=4
        "time#2" and "time#1" have the same name but are different dims.
        If they are the same axis, replace one first:
            x, _ = rf.replace_dim(x, in_dim=x.dims[1], out_dim=time)
        """,
    ),
    "other dims than expected": (
        lambda: x.verify_out_shape({batch}),
        VerifyOutShapeException,
        """
        verify_out_shape: other dims than expected.
          tensor        Tensor{'', [batch=3, time<=7, feat=5]}
          expected      {batch=3}
          not expected  time<=7, feat=5
        The dims must be the same set, and those without an axis named too. As it is:
            x.verify_out_shape({batch, time, feat})
        """,
    ),
    "a truth value": (
        lambda: bool(x),
        TypeError,
        """
        A Tensor has no truth value.
          tensor  [batch=3, time<=7, feat=5]
        Branching on values needs one Python bool; `==` is elementwise, so `x in [y]` asks for one too.
            bool(rf.reduce_any(x, axis=x.dims))    # a scalar has one
            x is other                             # the same object
        """,
    ),
    "values of a template": (
        lambda: template().numpy(),
        ValueError,
        """
        numpy: a template has no values.
          tensor  Tensor{'x', [batch=3, time<=7] (template)}
        Assign x.raw_tensor first.
        """,
    ),
    "rows of different lengths": (
        lambda: rf.convert_to_tensor([[1], [1, 2]]),
        TypeError,
        """
        convert_to_tensor: not a regular array of numbers.
          got  list
        All rows need the same length; a ragged batch is padded, and its dim has lengths.
            time = rf.ragged_dim([7, 5, 3], over=batch, name="time")
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()


def test_a_tensor_names_its_raw_type_in_annotations():
    assert rf.Tensor[np.ndarray].__args__ == rf.Parameter[np.ndarray].__args__ == (np.ndarray,)
