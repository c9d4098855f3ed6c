"""Dims and other dims: declared the same, sizes taken over, bases; sizes as tensors; sorting."""

import copy
import pickle

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError

batch, feat = Dim(3, name="batch"), Dim(5, name="feat")


def lengths(*values):
    return tensor(np.asarray(values, np.int32), batch)


def test_a_dim_without_size_that_is_declared_the_same_has_the_sizes_of_the_other():
    time, new = ragged([7, 5, 3], batch), Dim(None, name="new")
    before = hash(new)
    new.declare_same_as(time)
    assert new.lengths.tolist() == [7, 5, 3] and new.length_dims == (batch,) and new.extent == 7
    assert hash(new) == before and new is not time and new.get_same_base() is time


@pytest.mark.parametrize("swapped", [False, True])
def test_the_direction_is_by_what_is_known(swapped):
    time, new = ragged([7, 5, 3], batch), Dim(None, name="new")
    (time if swapped else new).declare_same_as(new if swapped else time)
    assert new.same_as is time and time.same_as is None


def test_sizes_are_taken_over_in_every_batch():
    time, new = Dim(None, name="time"), Dim(None, name="new")
    new.declare_same_as(time)
    longer = new + 1
    assert not new.is_dim_known()
    time.dyn_size_ext = lengths(7, 5, 3)
    assert (new.extent, longer.extent) == (7, 8)
    time.dyn_size_ext = lengths(2, 1, 1)
    assert (new.extent, longer.extent) == (2, 3)
    time.reset_eager()
    assert not new.is_dim_known() and not longer.is_dim_known()


def test_a_static_size_is_taken_over():
    new = Dim(None, name="new")
    new.declare_same_as(feat)
    assert new.size == 5 and new.is_static()


def test_dims_declared_the_same_are_brought_together_by_replace_dim():
    time, new = ragged([7, 5, 3], batch), Dim(None, name="new")
    new.declare_same_as(time)
    x, y = randn(batch, time), randn(batch, new, seed=1)
    y, _ = rf.replace_dim(y, in_dim=new, out_dim=time)
    assert (x + y).dims == (batch, time)


def test_an_error_about_dims_declared_the_same_says_so():
    time, new = ragged([7, 5, 3], batch), Dim(None, name="new")
    new.declare_same_as(time)
    with raises_message(
        DimError,
        """
        reduce_sum: no dim new<=7.
          source  [batch=3, time<=7]
          dim     new<=7
        "new" and "time" are declared the same, but source keeps the one it has. Replace it first:
            source, _ = rf.replace_dim(source, in_dim=time, out_dim=new)
        """,
    ):
        rf.reduce_sum(randn(batch, time), axis=new)


def test_declaring_known_dims_the_same_compares_them():
    ragged([7, 5, 3], batch).declare_same_as(ragged([7, 5, 3], batch))
    first, second = ragged([7, 5, 3], batch), ragged([7, 5, 2], batch, "frames")
    with raises_message(
        DimError,
        f"""
        These dims are not the same: their sizes differ.
          time    time<=7, sizes (7, 5, 3), created {first.created}
          frames  frames<=7, sizes (7, 5, 2), created {second.created}
        Dims that are declared the same have the same size in every sequence.
        """,
    ):
        first.declare_same_as(second)


def test_two_derived_dims_without_size_cannot_be_declared_the_same():
    a, b = Dim(None, name="a") + 1, Dim(None, name="b") * 2
    with raises_message(
        DimError,
        """
        declare_same_as: neither dim has a size that the other could take.
          dim    a+1=?
          other  b*2=?
        Both are computed from other dims. Declare those the same, or wait until they have sizes.
        """,
    ):
        a.declare_same_as(b)


def test_copy_from_and_derive_from_take_sizes_without_relation():
    time, new, other = ragged([7, 5, 3], batch), Dim(None, name="new"), Dim(None, name="other")
    new.copy_from(time)
    other.derive_from(feat)
    assert new.lengths.tolist() == [7, 5, 3] and new.get_same_base() is new
    assert other.size == 5
    other.derive_from(time)
    assert other.size == 5


def test_bases_of_derived_dims():
    time = ragged([7, 5, 3], batch)
    twin, derived = feat.copy(match_priority=1), 2 * time + feat
    assert twin.get_same_base() is feat
    assert derived.get_same_derived_base() is time
    assert derived.get_derived_bases_set() == {derived, time, feat}
    assert (feat - feat).is_constant_static_dim() and not feat.is_constant_static_dim()


def test_copies_that_are_independent_take_name_and_kind():
    new = feat.copy(same_as_self=False, description="other", kind=Dim.Types.Feature)
    assert (new.name, new.description, new.kind, new.size) == ("other", "other", "feature", 5) and new is not feat


def test_sizes_as_tensors():
    time, scalar = ragged([7, 5, 3], batch), Dim(tensor(np.int32(4)), name="n")
    assert time.dyn_size.tolist() == [7, 5, 3] and feat.dyn_size is None
    assert feat.get_size_tensor_or_int() == 5 and time.get_size_tensor_or_int() is time.dyn_size_ext
    assert (feat.get_dim_value(), time.get_dim_value(), feat.get_dim_value_tensor()) == (5, 7, 5)
    assert_same(time.get_dim_value_tensor(), np.int32(7))
    assert_same(scalar.get_size_tensor(), np.int32(4))
    assert time.get_dyn_size_ext_for_device("cpu") is time.dyn_size_ext
    assert feat.get_dyn_size_ext_for_device("cpu") is None


def test_transform_tensors_changes_the_lengths_and_what_follows_from_them():
    time = ragged([7, 5, 3], batch)
    longer, mask = time + 1, time.get_mask()
    time.transform_tensors(lambda sizes: sizes - 3)
    assert time.lengths.tolist() == [4, 2, 0] and longer.extent == 5
    assert time.get_mask().raw_tensor.shape != mask.raw_tensor.shape


def test_transform_tensors_of_a_derived_dim_is_refused():
    with raises_message(
        DimError,
        """
        transform_tensors: the lengths of "time+1" are computed from those of other dims.
          dim  time+1<=8
        Change the dims that it is made of.
        """,
    ):
        (ragged([7, 5, 3], batch) + 1).transform_tensors(lambda sizes: sizes)


def test_small_questions():
    time, new = ragged([7, 5, 3], batch), Dim(None, name="new", kind=Dim.Types.Batch)
    assert new.undefined and not time.undefined and new.is_batch_dim()
    assert feat.capacity == 5 and time.capacity is None
    assert time.is_dynamic_seq_length() and not feat.is_dynamic_seq_length()
    assert feat.can_be_used_as_dim() and not rf.single_step_dim.can_be_used_as_dim()
    time.reset_batch_and_raw()
    assert not time.is_dim_known()
    time.complete_dyn_size()


def test_sorting_is_by_name_kind_and_size():
    a, b, c = Dim(5, name="a"), Dim(3, name="b"), Dim(7, name="b")
    assert sorted([c, b, a]) == [a, b, c] and a < b and c > b


def test_a_dim_can_be_pickled():
    time = ragged([7, 5, 3], batch)
    again = pickle.loads(pickle.dumps(time))
    assert again.lengths.tolist() == [7, 5, 3] and again.created == time.created
    assert copy.deepcopy(time) is time


def test_a_dim_remembers_the_line_that_made_it_at_little_cost():
    dim = Dim(
        3,
        name="x",
    )
    assert dim.created.startswith("test_dim_relations.py:") and isinstance(dim._place[1], int)
