"""A recording of several batches, whose dims are the same with other sizes: each batch keeps its own."""

import gc
import weakref

import numpy as np
import pytest
import torch
from asserting import assert_same, tensor

import rfnb as rf
from rfnb.tensor import Dim, Tensor, TensorDict, batch_dim

feat = Dim(4, name="feat")
BATCHES = [3, 1, 2], [4], [2, 3]


class Model(rf.Module):
    def __init__(self):
        self.att = rf.SelfAttention(feat, feat, key_dim_total=feat, value_dim_total=feat, num_heads=2)
        self.lstm = rf.LSTM(feat, Dim(3, name="out"))

    def __call__(self, x, *, axis):
        x, (axis,) = rf.pad(self.att(x, axis=axis), axes=[axis], padding=[(1, 0)], value=0.0)
        x.feature_dim = feat
        return self.lstm(x, state=self.lstm.default_initial_state(batch_dims=[batch_dim]), spatial_dim=axis)


@pytest.fixture
def batches():
    """Gives each of three batches to a function, with its time."""
    rf.set_random_seed(1)
    model, time = Model(), Dim(Tensor("time", [batch_dim], "int32"), name="time")
    data = TensorDict([Tensor("data", [batch_dim, time, feat], "float32", feature_dim=feat)])
    arrays = [
        np.random.default_rng(seed).normal(size=(len(lengths), max(lengths), 4)) for seed, lengths in enumerate(BATCHES)
    ]

    def run(fn=lambda: None):
        for lengths, array in zip(BATCHES, arrays):
            data.reset_content()
            raw = {
                "data": torch.tensor(array, dtype=torch.float32),
                "data:size1": torch.tensor(lengths, dtype=torch.int32),
            }
            data.assign_from_raw_tensor_dict_(raw)
            model(data["data"], axis=time)
            fn()
        data.reset_content()

    return run


def lengths_of(value):
    return [dim.lengths.tolist() for dim in value.dims if dim.need_masking()]


def test_each_batch_keeps_its_sizes(batches):
    with rf.record() as trace:
        batches()
    (path,) = trace.attention
    for run, lengths in enumerate(BATCHES):
        weights = trace.attention[path, run]
        assert lengths_of(weights) == [lengths, lengths]
        assert weights.raw_tensor.shape == tuple(dim.extent for dim in weights.dims)
        (states,) = trace.states
        hidden = trace.states[states, run]["h"]
        assert lengths_of(hidden) == [[length + 1 for length in lengths]]  # of a dim that is computed from time
        assert [dim for dim in weights.dims if dim.is_batch_dim()] == [dim for dim in hidden.dims if dim.is_batch_dim()]


def test_views_are_those_made_at_once(batches):
    texts = []
    with rf.record() as trace:
        batches(lambda: texts.append(rf.viz.attention(trace.attention[next(iter(trace.attention)), -1]).text()))
    path = next(iter(trace.attention))
    assert [rf.viz.attention(trace.attention[path, run]).text() for run in range(3)] == texts
    assert "run 3 of 3" in rf.show(trace).text()


def test_a_value_that_was_looked_at_is_made_anew(batches):
    seen = []
    with rf.record() as trace:
        batches(lambda: seen.append(trace.attention[next(iter(trace.attention)), 0]))
    again = trace.attention[next(iter(trace.attention)), 0]
    assert lengths_of(again) == [BATCHES[0]] * 2
    np.testing.assert_array_equal(again.numpy(), seen[0]._raw.numpy())


def test_a_file_has_the_sizes_of_each_batch(batches, tmp_path):
    with rf.record() as trace:
        batches()
    trace.save(tmp_path / "trace.safetensors")
    loaded = rf.load_trace(tmp_path / "trace.safetensors")
    (path,) = loaded.attention
    assert [lengths_of(loaded.attention[path, run]) for run in range(3)] == [[lengths] * 2 for lengths in BATCHES]


def test_dims_that_keep_their_size_stay_the_same():
    batch, other = Dim(2, name="batch"), Dim(None, name="other")
    time = Dim(tensor(np.int32([3, 1]), batch), name="time")
    other.dyn_size_ext = tensor(np.int32([1, 2]), batch)
    weights = rf.softmax(rf.random_normal([batch, time]), axis=time)
    with rf.record() as trace:
        rf.probe("attention", weights=weights, axis=time)
        rf.probe("states", h=rf.zeros([batch, other]))
    other.reset_eager()
    (event, changed) = trace.events
    assert_same(event.values["weights"], weights)
    assert event.values["axis"] is time
    kept = changed.values["h"].dims
    assert kept[0] is batch and kept[1] is not other and kept[1].lengths.tolist() == [1, 2]


def test_a_trace_that_is_gone_is_not_kept():
    with rf.record() as trace:
        rf.probe("states", h=rf.zeros([feat]))
    gone = weakref.ref(trace)
    del trace
    gc.collect()
    assert gone() is None
