"""The batch dim and the time dim of a Tensor, found by what they are; and what older programs set and ask."""

import numpy as np
import pytest
import torch
from asserting import assert_same, raises_message

import rfnb as rf
from rfnb.tensor import TensorDict, batch_dim


@pytest.fixture
def parts():
    """(batch, time, feat, x {time, batch, feat})"""
    batch, feat = rf.Dim(2, name="batch"), rf.Dim(3, name="feat")
    time = rf.ragged_dim([5, 4], over=batch, name="time")
    x = rf.Tensor("x", [time, batch, feat], "float32", feature_dim=feat, raw_tensor=torch.arange(30.0).reshape(5, 2, 3))
    return batch, time, feat, x


def test_batch_and_time_are_found_by_the_lengths(parts):
    batch, time, feat, x = parts
    assert x.get_batch_dim_tag() is batch and x.get_time_dim_tag() is time
    assert (x.batch_dim_axis, x.time_dim_axis, x.feature_dim_axis) == (1, 0, 2)
    assert x.dim_tags is x.dims and x.have_time_axis() and x.is_time_axis_dynamic()
    assert (x.get_batch_dim(), x.get_static_batch_dim(), x.time_dimension()) == (2, 2, 5)
    assert x.is_time_major and not x.is_batch_major


def test_a_dim_of_kind_batch_is_the_batch(parts):
    batch, time, feat, x = parts
    marked = rf.Dim(7, name="speakers", kind="batch")
    assert rf.expand_dim(x, marked).get_batch_dim_tag() is marked
    assert rf.zeros([feat, rf.Dim(7, name="time", kind="spatial")]).time_dim_axis == 1


def test_lengths_and_mask_are_raw(parts):
    batch, time, feat, x = parts
    assert x.get_sequence_lengths().tolist() == [5, 4]
    assert x.get_sequence_mask().tolist() == [[True, True]] * 4 + [[True, False]]
    static = rf.zeros([rf.Dim(3, name="batch", kind="batch"), rf.Dim(7, name="time", kind="spatial")])
    assert static.get_sequence_lengths().tolist() == [7, 7, 7]


def test_copies_change_the_order_only(parts):
    batch, time, feat, x = parts
    orders = {
        x.copy_as_batch_major: [batch, time, feat],
        x.copy_as_time_major: [time, batch, feat],
        x.copy_as_time_batch_major: [time, batch, feat],
        x.copy_with_feature_last: [time, batch, feat],
        x.copy_as_batch_spatial_major: [batch, time, feat],
    }
    for copy, order in orders.items():
        assert copy().dims == tuple(order)
        assert_same(copy(), x)
    assert x.copy_with_batch_dim_axis(-1).dims == (time, feat, batch)
    assert x.copy_with_time_dim_axis(1).dims == (batch, time, feat)
    assert x.copy_transpose([feat, batch, time]).copy_with_feature_last().dims == (batch, time, feat)
    assert x.get_placeholder_as_batch_major().shape == (2, 5, 3)
    assert x.get_placeholder_as_time_major() is x.raw_tensor


def test_several_candidates_are_refused(parts):
    batch, time, feat, x = parts
    labels = rf.ragged_dim([3, 2], over=batch, name="labels")
    with raises_message(
        rf.DimError,
        """
        get_time_dim_tag: several dims could be it.
          tensor      [batch=2, time<=5, labels<=3]
          candidates  [time<=5, labels<=3]
        Nothing is guessed here. Name the Dim:
            x.dims[1]    # time
            x.dims[2]    # labels
        """,
    ):
        rf.zeros([batch, time, labels]).get_time_dim_tag()


def test_no_candidate_is_an_error_or_none(parts):
    feat = parts[2]
    x = rf.zeros([feat])
    assert x.batch_dim_axis is None and x.time_dim_axis is None and not x.have_time_axis()
    with raises_message(
        rf.DimError,
        """
        get_batch_dim_tag: no dim is it.
          tensor  [feat=3]
        The batch dim is the one of kind "batch" (rf.batch_dim), or the one that lengths are over. Name the Dim:
            batch = x.dims[0]    # or rather the Dim that the data was made with
        """,
    ):
        x.get_batch_dim_tag()


def test_axes_can_be_set_to_what_they_are(parts):
    x = parts[3]
    x.batch_dim_axis, x.time_dim_axis = 1, 0
    with raises_message(
        rf.DimError,
        """
        time_dim_axis: cannot be set to 1.
          tensor         [time<=5, batch=2, feat=3]
          time_dim_axis  0
        Which dim is first is not what it means; the order of the raw array changes by a copy:
            x.copy_with_time_dim_axis(1)
        """,
    ):
        x.time_dim_axis = 1


# -- setters -----------------------------------------------------------------------------------------------------------
def test_the_feature_dim_is_set_by_its_index(parts):
    batch, time, feat, x = parts
    x.feature_dim_axis = None
    assert x.feature_dim is None
    x.feature_dim_axis = -1
    assert x.feature_dim is feat
    assert rf.Tensor("y", [batch, feat], "float32", feature_dim_axis=0).feature_dim is batch


def test_sparse_and_vocab_are_set_on_the_sparse_dim(parts):
    classes = rf.Dim(3, name="classes")
    ids = rf.zeros([parts[0]], dtype="int32", sparse_dim=classes)
    ids.sparse = True
    ids.vocab = ["a", "b", "c"]
    assert classes.vocab == ["a", "b", "c"] and ids.vocab == classes.vocab
    ids.sparse = False
    assert ids.sparse_dim is None
    for setting in ({"sparse": True}, {"vocab": ["a"]}):
        with pytest.raises(rf.DimError, match="the tensor has no sparse_dim"):
            setattr(ids, *setting.popitem())


def test_raw_lengths_are_set_where_their_dims_are_known(parts):
    batch, time = parts[:2]
    time.dyn_size = torch.tensor([3, 2], dtype=torch.int32)
    assert time.lengths.tolist() == [3, 2]
    declared = rf.Dim(rf.Tensor("lengths", [batch], "int32"), name="declared")
    declared.dyn_size = np.asarray([1, 6], np.int32)
    assert declared.lengths.tolist() == [1, 6] and declared.length_dims == (batch,)
    with pytest.raises(rf.DimError, match="do not say over which dim they are"):
        rf.Dim(None, name="unknown").dyn_size = torch.tensor([3, 2])


def test_capacity_is_taken_and_kept(parts):
    dim = rf.Dim(rf.Tensor("lengths", [parts[0]], "int32"), name="time", capacity=5, bounded_by=parts[2])
    assert dim.capacity == 5 and rf.Dim(4, name="d").capacity == 4
    dim.capacity = 100
    assert dim.capacity == 100


def test_available_for_inference_is_kept():
    data = TensorDict()
    data.update(
        {"x": {"dims": [batch_dim], "dtype": "int32", "available_for_inference": False}, "y": {"dims": [batch_dim]}},
        auto_convert=True,
    )
    assert [data[name].available_for_inference for name in "xy"] == [False, True]
    assert not data.copy_template()["x"].available_for_inference and not data["x"].copy().available_for_inference


def test_options_of_older_versions_name_the_new_ones():
    with raises_message(
        TypeError,
        """
        Tensor "x": unknown options.
          got  shape, sparse, batch_dim_axis
        Every axis has its Dim, which says all about it.
            dims=[batch, time, feat]
            sparse_dim=vocab
            dims=[batch, ...]
        """,
    ):
        rf.Tensor("x", shape=(None, 3), sparse=True, batch_dim_axis=0)


# -- numbers -----------------------------------------------------------------------------------------------------------
def test_a_scalar_is_a_number():
    loss = rf.constant(2.5, dims=())
    rf.set_requires_gradient(loss)
    assert (float(loss), int(loss), f"{loss:.3f}", f"{loss:>6.1f}", bool(loss)) == (2.5, 2, "2.500", "   2.5", True)
    assert f"{loss}" == str(loss) and not rf.constant(False, dims=())
    assert int(rf.constant(7, dims=())) == 7 and isinstance(int(rf.constant(7, dims=())), int)


@pytest.mark.parametrize(("what", "number"), [("float", float), ("int", int), ("format '.2f'", lambda x: f"{x:.2f}")])
def test_a_tensor_with_dims_is_no_number(what, number):
    with raises_message(
        TypeError,
        f"""
        {what}: a Tensor with dims is not one number.
          tensor  [batch=2]
        Only a scalar is one, a Tensor without dims. Reduce it, or take an entry:
            rf.reduce_mean(x, axis=x.dims)
            rf.gather(x, axis=x.dims[0], indices=0)
        """,
    ):
        number(rf.zeros([rf.Dim(2, name="batch")]))


@pytest.mark.parametrize("number", [float, int, bool, "{:.1f}".format])
def test_a_value_of_a_recorded_step_is_no_number(number):
    loop = rf.Loop(axis=rf.Dim(2, name="time"))
    loop.state.h = rf.zeros([])
    with pytest.raises(RuntimeError, match="reads the values of a tensor of the step"), loop:
        number(loop.state.h)


# -- parameters that older programs pass -------------------------------------------------------------------------------
def test_copy_compatible_to_leaves_out_what_it_is_told(parts):
    batch, time, feat, x = parts
    y = rf.zeros([batch])
    assert [dim.name for dim in y.copy_compatible_to(x, except_feature=True, unbroadcast=True).dims] == [
        "time",
        "batch",
    ]
    assert [dim.name for dim in y.copy_compatible_to(x, except_axis=time, unbroadcast=True).dims] == ["batch", "feat"]
    assert y.copy_compatible_to(x, add_dims=False).dims == (batch,)
    with pytest.raises(TypeError, match="sparse_dim and dtype are compared"):
        rf.zeros([batch], dtype="int32").copy_compatible_to(x)
    assert rf.zeros([batch], dtype="int32").copy_compatible_to(x, check_dtype=False).dtype == "int32"


def test_compatible_raw_arrays_take_the_same_options(parts):
    batch, time, feat, x = parts
    y = rf.ones([feat, batch])
    assert y.copy_compatible_to_dims_raw(x.dims).shape == (1, 2, 3)
    assert y.copy_compatible_to_dims_raw(x.dims, unbroadcast=True).shape == (5, 2, 3)
    assert y.copy_compatible_to_dims_raw(x.dims, add_dims=False).shape == (2, 3)


def test_masking_takes_a_tensor_and_indices(parts):
    batch, time, feat, x = parts
    value = rf.constant(-1.0, dims=[feat]) * rf.cast(rf.range_over_dim(feat), "float32")
    masked = x.copy_masked(value, dims=[0])
    assert masked.raw_tensor[4, 1].tolist() == [0.0, -1.0, -2.0]
    assert masked.raw_tensor[4, 0].tolist() == x.raw_tensor[4, 0].tolist()
    with pytest.raises(rf.DimError):
        x.copy_masked(0, dims=[0], allow_int=False)


def test_indices_may_be_forbidden(parts):
    x = parts[3]
    with pytest.raises(rf.DimError):
        x.copy_transpose([2, 1, 0], allow_int=False)
    assert x.get_axis_from_description(2, allow_int=True) == 2
    with pytest.raises(rf.DimError):
        x.get_axis_from_description(2)


def test_a_template_gets_a_new_dim_of_a_size_or_of_lengths(parts):
    batch, time, feat, x = parts
    assert x.copy_template_replace_dim(feat, 7).dims[2].size == 7
    assert x.copy_template_replace_dim(feat, 7).dims[2].name == "feat"
    lengths = rf.convert_to_tensor(np.asarray([2, 3], np.int32), dims=[batch])
    assert x.copy_template_replace_dim(0, None, lengths).dims[0].lengths.tolist() == [2, 3]


def test_an_implicit_dim_counts_if_asked(parts):
    batch, time, feat, x = parts
    one = rf.gather(x, indices=0, axis=feat)
    classes = rf.Dim(11, name="classes")
    ids = rf.zeros([time, batch], dtype="int32", sparse_dim=classes)
    assert ids.have_dim_tag(classes) and not ids.have_dim_tag(classes, include_implicit=False)
    assert not one.have_dim_tag(feat)


def test_raw_arrays_of_another_type_are_refused():
    data = TensorDict({"x": rf.zeros([rf.Dim(2, name="d")])})
    assert set(data.as_raw_tensor_dict(expected_value_type=(torch.Tensor, int))) == {"x"}
    with raises_message(
        TypeError,
        """
        as_raw_tensor_dict: a value of another type.
          name      x
          got       Tensor
          expected  ndarray
        Raw arrays are those of the backend. For NumPy:
            data[name].numpy()
        """,
    ):
        data.as_raw_tensor_dict(expected_value_type=np.ndarray)


def test_sizes_of_one_number_may_be_left_out():
    number, feat = rf.Dim(None, name="number"), rf.Dim(3, name="feat")
    data = TensorDict([rf.Tensor("x", [number, feat], "float32")])
    data.assign_from_raw_tensor_dict_({"x": torch.zeros(5, 3)}, with_scalar_dyn_sizes=False)
    assert number.extent == 5
