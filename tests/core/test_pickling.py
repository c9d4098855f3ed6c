"""Dims and Tensors through pickle: identity within one pickle, and the special dims of the process that loads."""

import copy
import pickle

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, randn

import rfnb as rf
from rfnb import Dim


def through_pickle(value):
    return pickle.loads(pickle.dumps(value))


@pytest.fixture
def batch():
    return Dim(2, name="batch", kind="batch")


@pytest.fixture
def time(batch):
    return ragged([5, 3], batch)


@pytest.fixture
def sized_batch_dim():
    rf.batch_dim.reset_eager()
    yield rf.batch_dim
    rf.batch_dim.reset_eager()


def test_tensors_of_one_pickle_share_their_dims(batch, time):
    x, lengths, loaded_time = through_pickle((randn(batch, time), time.dyn_size_ext, time))
    assert x.dims[1] is loaded_time and x.dims[0] is lengths.dims[0] is loaded_time.length_dims[0]
    assert x.dims[1] is not time, "a dim is an identity: the loaded one is another"
    assert loaded_time.lengths.tolist() == [5, 3]


def test_a_tensor_has_its_values_and_marks(batch, time):
    vocab = Dim(7, name="vocab", vocab=list("abcdefg"))
    ids = rf.convert_to_tensor(np.arange(10).reshape(2, 5) % 7, dims=[batch, time], sparse_dim=vocab, name="ids")
    x = randn(batch, time, Dim(3, name="feat"))
    x.feature_dim = x.dims[2]
    loaded_ids, loaded_x = through_pickle((ids, x))
    assert (loaded_ids.name, loaded_ids.dtype, loaded_ids.sparse_dim.vocab) == ("ids", "int64", list("abcdefg"))
    assert loaded_ids.numpy().tolist() == ids.numpy().tolist()
    assert loaded_x.feature_dim is loaded_x.dims[2] and loaded_x.numpy().tolist() == x.numpy().tolist()


def test_the_same_expression_of_loaded_dims_is_the_same_dim(batch, time):
    feat = Dim(4, name="feat")
    makers = [
        lambda t, f: t + 2, lambda t, f: 2 + t, lambda t, f: 2 * t, lambda t, f: t * 2, lambda t, f: t // 2, lambda t, f: f // 3,
        lambda t, f: t.ceildiv_right(3), lambda t, f: (t + 1) // 2 + 1, lambda t, f: t * f, lambda t, f: 3 * (t + f),
        lambda t, f: t.copy(match_priority=1), lambda t, f: f.copy(match_priority=2), lambda t, f: (t // 2) * f - 1,
    ]  # fmt: skip
    made = [make(time, feat) for make in makers]
    for dims in ([time, feat, *made], [*made, time, feat]):  # whatever pickle meets first
        loaded = dict(zip(map(id, dims), through_pickle(dims)))
        new_time, new_feat = loaded[id(time)], loaded[id(feat)]
        for make, dim in zip(makers, made):
            assert make(new_time, new_feat) is loaded[id(dim)], dim
            assert repr(loaded[id(dim)]) == repr(dim)


def test_a_derived_dim_brings_its_parts_along(time):
    (loaded,) = through_pickle([2 * time + 1])
    (part,) = [dim for dim in loaded.get_derived_bases_set() if dim.name == "time" and dim.expr is None]
    assert 2 * part + 1 is loaded and part.lengths.tolist() == [5, 3]


def test_a_derived_dim_keeps_the_name_and_labels_it_was_given(time):
    longer = time + 1
    longer.name, longer.vocab, longer.kind = "with the end", ["a"], "spatial"
    loaded = through_pickle(longer)
    assert (loaded.name, loaded.vocab, loaded.kind, loaded.created) == (
        "with the end",
        ["a"],
        "spatial",
        longer.created,
    )


def test_lengths_of_a_loaded_derived_dim_follow_its_part(batch, time):
    loaded_time, longer = through_pickle((time, time + 1))
    assert longer.lengths.tolist() == [6, 4]
    loaded_time.dyn_size_ext = rf.convert_to_tensor(np.array([1, 2], np.int32), dims=loaded_time.length_dims)
    assert longer.lengths.tolist() == [2, 3]
    assert (time + 1).lengths.tolist() == [6, 4]


def test_a_dim_declared_the_same_follows_after_loading(time):
    other = Dim(None, name="other")
    other.declare_same_as(time)
    loaded_time, loaded = through_pickle((time, other))
    assert loaded.get_same_base() is loaded_time and loaded.lengths.tolist() == [5, 3]
    loaded_time.dyn_size_ext = rf.convert_to_tensor(np.array([1, 2], np.int32), dims=loaded_time.length_dims)
    assert loaded.lengths.tolist() == [1, 2]


def test_a_loaded_dim_is_younger_than_all_others(time):
    data = pickle.dumps(time)
    newest = Dim(3, name="newest")
    assert pickle.loads(data).serial > newest.serial


def test_the_special_dims_are_those_of_the_process():
    loaded = through_pickle([rf.batch_dim, rf.single_step_dim, rf.batch_dim * 2, rf.batch_dim.copy(match_priority=1)])
    expected = [rf.batch_dim, rf.single_step_dim, rf.batch_dim * 2, rf.batch_dim.copy(match_priority=1)]
    assert all(dim is other for dim, other in zip(loaded, expected))


def test_batch_dim_takes_its_size_from_what_is_loaded(sized_batch_dim):
    x = rf.convert_to_tensor(np.arange(3.0), dims=[rf.batch_dim])
    data = pickle.dumps(x)
    rf.batch_dim.reset_eager()
    loaded = pickle.loads(data)
    assert loaded.dims[0] is rf.batch_dim and rf.batch_dim.extent == 3
    assert_same(loaded, x)


def test_batch_dim_with_another_size_is_refused_and_keeps_it(sized_batch_dim):
    data = pickle.dumps(rf.convert_to_tensor(np.arange(3.0), dims=[rf.batch_dim]))
    rf.batch_dim.reset_eager()
    rf.convert_to_tensor(np.arange(2.0), dims=[rf.batch_dim])
    with raises_message(
        rf.DimError,
        """
        Loading a pickle: rf.batch_dim has another size here.
          here    2
          pickle  3
        There is one batch_dim in a process, and it has one size. Let it forget that of the last batch:
            rf.batch_dim.reset_eager()
        """,
    ):
        pickle.loads(data)
    assert rf.batch_dim.extent == 2


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_in_a_process_keep_the_dims(copied, batch, time):
    longer = time + 1
    assert all(copied(dim) is dim for dim in (batch, time, longer, rf.batch_dim, rf.single_step_dim))
    x = copied(randn(batch, longer))
    assert x.dims == (batch, longer)


def test_a_tensor_pickled_while_padding_is_poisoned_is_whole_outside(batch, time):
    with rf.debug(padding="nan"):
        data = pickle.dumps(rf.relu(randn(batch, time)))
    x = pickle.loads(data)
    assert x.dims[1].lengths.tolist() == [5, 3] and x.numpy().shape == (2, 5)
    with rf.debug(padding="nan"):
        x = pickle.loads(data)
        assert np.isnan(x.numpy()[1, 3:]).all(), "what is loaded gets its poison too"


def test_marks_and_dicts_of_tensors_are_loaded(batch, time):
    from rfnb.tensor import ImplicitSparseDim, TensorDict

    mark, data, loaded = through_pickle((ImplicitSparseDim(time), TensorDict({"x": randn(batch, time)}), time))
    assert mark == ImplicitSparseDim(loaded) and data["x"].dims[1] is loaded
