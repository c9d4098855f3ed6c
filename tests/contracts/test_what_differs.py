"""The guide's list of results that differ: each of its lines is a test, and each test a line."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import Dim

GUIDE = (Path(__file__).parents[2] / "docs" / "coming-from-returnn.md").read_text()
batch, time, feat, more = Dim(2, name="batch"), Dim(4, name="time"), Dim(3, name="feat"), Dim(5, name="more")
frames = rf.ragged_dim([4, 2], over=batch, name="frames")
others = rf.ragged_dim([1, 3], over=batch, name="others")


def randn(*dims, feature_dim=None):
    return rf.random_normal(list(dims), feature_dim=feature_dim)


def ids():
    return rf.random_uniform([batch, time], dtype="int32", maxval=3, sparse_dim=feat)


def masked_select():
    mask = randn(batch, time) > 0
    out, selected = rf.masked_select(randn(feat, batch, time), mask=mask, dims=[batch, time])
    assert out.dims == (feat, selected)
    out, selected = rf.masked_select(randn(time, feat, batch), mask=mask, dims=[batch, time])
    assert out.dims == (selected, feat)
    out, selected = rf.masked_select(randn(time, batch, feat), mask=mask, dims=[time])
    assert out.dims == (selected, batch, feat)


def concat():
    out, joined = rf.concat((randn(frames, batch, feat), frames), (randn(batch, others, feat), others))
    assert out.dims == (joined, batch, feat)


def window():
    width = Dim(2, name="width")
    out, shorter = rf.window(randn(batch, frames, feat), spatial_dim=frames, window_dim=width, padding="valid")
    assert out.dims == (batch, shorter, width, feat)


def where():
    out = rf.where(randn(batch) > 0, randn(time), randn(feat), allow_broadcast_all_sources=True)
    assert out.dims == (batch, time, feat)


def sort():
    values, indices, ordered = rf.sort(randn(batch, time, feat), axis=time)
    assert values.dims == indices.dims == (batch, ordered, feat)


def stft():
    samples = Dim(400, name="samples")
    for dims in ((batch, samples), (samples, batch)):
        out, steps, freq = rf.stft(randn(*dims), in_spatial_dim=samples, frame_step=100, frame_length=200)
        assert out.dims == (batch, steps, freq) and out.feature_dim is freq


def cross_entropy():
    target = rf.softmax(randn(batch, time, feat), axis=feat)
    loss = rf.cross_entropy(estimated=randn(time, batch, feat), target=target, axis=feat, estimated_type="logits")
    assert loss.dims == (time, batch)


def indices_of_reductions():
    assert rf.scatter_argmax(randn(batch, time), indices=ids(), indices_dim=time).dtype == "int64"
    labels, _ = rf.ctc_greedy_decode(
        randn(batch, frames, feat), in_spatial_dim=frames, blank_index=0, wb_target_dim=feat
    )
    assert labels.dtype == "int64"


def integers():
    assert rf.convert_to_tensor([1, 2], dims=[batch]).dtype == rf.convert_to_tensor(1).dtype == "int32"
    assert rf.convert_to_tensor(np.asarray([1, 2]), dims=[batch]).dtype == "int64"


def cast():
    assert rf.cast(ids(), "float32").sparse_dim is feat


def merged_range():
    assert rf.range_over_merged_dims([batch, time]).sparse_dim is None


def top_k():
    values, indices, _ = rf.top_k(randn(batch, feat, feature_dim=feat), axis=feat, k=2)
    assert values.feature_dim is None and indices.sparse_dim is feat


def scatter():
    to = rf.set_sparse_dim(rf.zeros([batch, time], dtype="int32"), more)
    out = rf.scatter(randn(batch, time, feat, feature_dim=feat), indices=to, indices_dim=time)
    assert out.feature_dim is feat
    assert rf.scatter(randn(batch, time), indices=ids(), indices_dim=time).feature_dim is None


def one_hot():
    assert rf.one_hot(ids()).feature_dim is feat
    assert rf.label_smoothing(ids(), 0.1).feature_dim is feat
    assert rf.smooth_one_hot(ids(), label_prob=0.9).feature_dim is feat


def learned_positions():
    out, _ = rf.LearnedRelativePositionalEncoding(feat)(query_spatial_dim=time, key_value_spatial_dim=time)
    assert out.feature_dim is feat


def lengths_in_place():
    with pytest.raises(TypeError, match="its lengths are written in place"):
        frames.dyn_size_ext.raw_tensor.clamp_(max=1)


def while_loop():
    begin = rf.zeros([batch, feat])
    last = rf.while_loop(lambda x: not x.feature_dim, lambda x: rf.ones([batch, feat], feature_dim=feat), begin)
    assert last.feature_dim is feat


def raw_loss():
    with rf.init_train_step_run_ctx() as run:
        run.mark_as_loss(torch.ones(2, 3), "ce")
    assert float(run.total_loss()) == 6


LINES = {
    "`masked_select`": masked_select,
    "`concat` over time": concat,
    '`window(padding="valid")`': window,
    "`where(..., allow_broadcast_all_sources=True)`": where,
    "`sort`": sort,
    "`stft`": stft,
    "`cross_entropy` of dense targets": cross_entropy,
    "`scatter_argmax`, `ctc_greedy_decode`": indices_of_reductions,
    "`convert_to_tensor([1, 2])`": integers,
    "`cast` of indices": cast,
    "`range_over_merged_dims`": merged_range,
    "`top_k`": top_k,
    "`scatter`": scatter,
    "`one_hot`, `label_smoothing`, `smooth_one_hot`": one_hot,
    "`LearnedRelativePositionalEncoding`": learned_positions,
    "lengths written in place": lengths_in_place,
    "a state of `while_loop` without feature_dim": while_loop,
    "raw losses without `dims`": raw_loss,
}


def test_each_line_of_the_list_has_its_test():
    section = GUIDE.partition("## Dims, dtypes and marks of results\n")[2].partition("\n## ")[0]
    lines = [row.split(" | ")[0] for row in re.findall(r"^\| (.*) \|$", section, re.MULTILINE)]
    assert lines[1:] == list(LINES)


@pytest.mark.parametrize("line", LINES)
def test_what_a_line_says(line):
    LINES[line]()
