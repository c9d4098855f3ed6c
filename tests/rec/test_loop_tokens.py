"""Labels that a loop reads and writes tell views how to label axes."""

from __future__ import annotations

import numpy as np

import rfnb as rf
from rfnb import Dim
from rfnb.viz.show import view_of


def test_stacked_labels_and_embedded_ids_are_offered_as_tokens():
    vocab = Dim(3, name="vocab", vocab=["a", "b", "c"])
    time, feature = Dim(4, name="time"), Dim(2, name="feature")
    ids = rf.convert_to_tensor(np.array([2, 0, 1, 1], np.int64), dims=[time], sparse_dim=vocab)
    embedding = rf.Embedding(vocab, feature)
    with rf.record() as trace:
        embedding(ids)
        loop = rf.Loop(axis=time)
        for _ in loop:
            written = loop.stack(loop.unstack(ids))
    read, stacked = trace.select(kind="tokens")
    assert read.values["ids"].dims == stacked.values["ids"].dims == (time,)
    assert read.values["ids"].sparse_dim is stacked.values["ids"].sparse_dim is vocab
    assert written.numpy().tolist() == [2, 0, 1, 1]


def test_states_of_a_loop_are_labelled_with_what_it_wrote():
    vocab = Dim(3, name="vocab", vocab=["a", "b", "c"])
    time, feature = Dim(4, name="time"), Dim(2, name="feature")
    ids = rf.convert_to_tensor(np.array([2, 0, 1, 1], np.int64), dims=[time], sparse_dim=vocab)
    with rf.record() as trace:
        loop = rf.Loop(axis=time)
        loop.state.total = rf.zeros([feature])
        for _ in loop:
            loop.state.total = loop.state.total + 1.0
            loop.stack(loop.unstack(ids))
    (part,) = view_of(trace, kinds="states").spec.head["parts"]
    assert part["head"]["seqs"][0]["steps"] == ["c", "a", "b", "b"]
