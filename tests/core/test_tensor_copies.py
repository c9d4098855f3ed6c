"""Templates and copies of a Tensor, and questions about its axes."""

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError, ShapeError, Tensor

batch, feat, out = Dim(3, name="batch", kind="batch"), Dim(5, name="feat"), Dim(2, name="out")
time = ragged([7, 5, 3], batch)
x = randn(batch, time, feat)
marked = randn(batch, time, feat)
marked.feature_dim = feat
ids = tensor(np.zeros((3, 7), np.int64), batch, time, sparse_dim=out, name="ids")


def test_templates_with_other_dims():
    assert marked.copy_template_replace_dim_tag(2, out).dims == (batch, time, out)
    assert marked.copy_template_replace_dim(feat, out).feature_dim is out
    assert marked.copy_template_excluding_axis(time).dims == (batch, feat)
    assert marked.copy_template_new_dim_tags([out, feat]).feature_dim is feat
    assert marked.copy_template_new_dim_tags([batch, time, out], keep_special_axes=True).feature_dim is out
    assert all(each.raw_tensor is None for each in (marked.copy_template(), marked.copy_template_dense()))


def test_the_dense_template_of_indices_has_what_they_stand_for():
    dense = ids.copy_template_dense()
    assert (dense.dims, dense.sparse_dim, dense.feature_dim, dense.dtype) == ((batch, time, out), None, out, "float32")


def test_axes_moved_and_swapped():
    assert x.copy_move_axis(0, -1).dims == (time, feat, batch)
    assert x.copy_move_axis(feat, 0).dims == (feat, batch, time)
    assert x.copy_swap_axes(batch, 2).dims == (feat, time, batch)
    assert_same(x.copy_swap_axes(0, 1), x)


def test_compatible_copies_have_axes_of_size_one_or_repeat():
    one, full = (
        x.copy_compatible_to_dims([out, batch, time, feat]),
        x.copy_compatible_to(Tensor("t", dims=[feat, out, batch, time]), unbroadcast=True),
    )
    assert one.raw_tensor.shape == (1, 3, 7, 5) and one.dims[0].size == 1
    assert full.dims == (feat, out, batch, time) and full.raw_tensor.shape == (5, 2, 3, 7)
    assert x.get_out_permutation_to_dims([feat, out, batch, time]) == [2, -1, 0, 1]
    assert x.copy_template().copy_compatible_to_dims([out, batch, time, feat]).raw_tensor is None


def test_dims_added_and_squeezed():
    one = Dim(1, name="one")
    added = randn(batch).copy_add_dim_by_tag(out, unbroadcast=True, axis=-1)
    assert added.dims == (batch, out) and added.raw_tensor.shape == (3, 2)
    assert randn(batch, one).copy_squeeze_axes([one]).dims == (batch,)


def test_questions_about_axes():
    assert marked.batch_ndim == 3 and marked.batch_shape == (3, None, 5) and marked.feature_dim_axis == 2
    assert x.get_axes_from_description([time, batch]) == [1, 0] and x.get_axes_from_description(feat) == [2]
    assert x.get_dim_tag_from_description(time) is time and x.get_dim_tag(1) is time
    assert x.get_axis_by_tag_name("feat") == 2 and x.get_axes_by_tag_name("none") == []
    assert x.have_dim_tag(time) and x.has_axis(feat) and not x.has_axis(out)
    assert marked.have_feature_axis() and not x.have_feature_axis() and x.have_batch_axis()
    assert x.is_axis_dynamic(1) and x.get_dynamic_axes() == [1] and x.get_static_axes() == [0, 2]
    assert x.get_dyn_size_tags() == [time]
    assert ids.sparse and not x.sparse and ids.vocab is None and ids.feature_dim_or_sparse_dim is out


def test_masks_shaped_for_the_tensor():
    y = randn(time, feat, batch)
    assert y.get_sequence_mask_tensor(time).dims == (time, batch)
    assert y.get_sequence_mask_broadcast(time).shape == (7, 1, 3)


def test_old_names():
    y = Tensor("y", dims=[batch, feat], feature_dim_axis=1)
    y.placeholder = np.zeros((3, 5), np.float32)
    assert y.raw_tensor is y.placeholder and y.feature_dim is feat
    assert y.get_description() == repr(y) == "Tensor{'y', [batch=3, feat=5] feature feat}"
    assert y.get_batch_axes_short_description() == "[batch=3, feat=5]"
    y.reset()
    assert y.raw_tensor is None


def test_sanity_check_finds_what_was_written_past_the_checks():
    y = randn(batch, feat)
    y.sanity_check()
    y.dims = (feat, batch)
    y.sanity_check(ignore_placeholder=True)
    with pytest.raises(ShapeError):
        y.sanity_check()


def test_rounding_operators():
    import math

    y = tensor([1.5, -0.5, 2.0], batch)
    assert_same(math.ceil(y), [2.0, -0.0, 2.0])
    assert_same(math.floor(y), [1.0, -1.0, 2.0])
    assert_same(abs(y), [1.5, 0.5, 2.0])


ERRORS = {
    "dims that lack one": (
        lambda: x.copy_compatible_to_dims([batch, feat]),
        """
        copy_compatible_to_dims: the given dims lack time<=7.
          tensor  [batch=3, time<=7, feat=5]
          dims    [batch=3, feat=5]
        The given dims are all dims of the tensor and any further ones.
        """,
    ),
    "an axis that is not there": (
        lambda: x.copy_move_axis(3, 0),
        """
        copy_move_axis: no axis 3.
          tensor  [batch=3, time<=7, feat=5]
        Axes are counted from 0.
        """,
    ),
    "a name that is not there": (
        lambda: x.get_axis_by_tag_name("none"),
        """
        get_axis_by_tag_name: no dim named "none".
          tensor  [batch=3, time<=7, feat=5]
        A name does not identify a dim. Use the Dim:
            x.axis_of(dim)
        """,
    ),
    "an axis that is not of size 1": (
        lambda: x.copy_squeeze_axes([feat]),
        """
        copy_squeeze_axes: an axis that is not of size 1.
          tensor  [batch=3, time<=7, feat=5]
          axis    feat=5
        Only an axis of one entry can be removed without losing values.
            rf.gather(x, indices=0, axis=feat)
        """,
    ),
    "a dim that is there": (
        lambda: x.copy_add_dim_by_tag(feat),
        """
        copy_add_dim_by_tag: the dim is there already.
          tensor  [batch=3, time<=7, feat=5]
          dim     feat=5
        A dim occurs once.
        """,
    ),
    "a mask over a dim that is not there": (
        lambda: rf.zeros([time]).get_sequence_mask_tensor(time),
        """
        get_sequence_mask_tensor: the lengths of time<=7 are over [batch=3], which is not here.
          tensor   [time<=7]
          lengths  [batch=3]
        Which frames are real differs per sequence. One sequence that was picked (i) keeps its own frames if they are cut out first;
        what is the same for all sequences needs their dim:
            x, time = rf.slice(x, axis=time, size=rf.gather(time.dyn_size_ext, indices=i, axis=batch))
            x = rf.expand_dim(x, dim=batch)
        """,
    ),
}


@pytest.mark.parametrize(("call", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, text):
    with raises_message(DimError, text):
        call()
