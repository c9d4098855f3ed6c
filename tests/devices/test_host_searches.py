"""Searches that run on the host, and language models: what they read of a device, and where their results are."""

from __future__ import annotations

import numpy as np
import pytest
from asserting import tensor
from ngram_models import random_arpa
from simulated import NAME, watched

import rfnb as rf
from rfnb import Dim
from rfnb.lm import ngram as ngram_file
from rfnb.search import ctc_prefix

WORDS = ["<unk>", "<s>", "</s>", "a", "b", "c"]


def both(run):
    """Arrays of the Tensors that run() gives on the CPU and on the device, where all are; and how often the host waited there."""
    expected = run()
    with rf.set_default_device_ctx(NAME), watched() as seen:
        found = run()
    for one in found:
        assert one.device.startswith(NAME)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.copy_masked(0).numpy(), other.copy_masked(0).numpy(), strict=True)
    return len(seen.waits)


def arpa(tmp_path):
    random_arpa(tmp_path / "x.arpa", WORDS, order=3, seed=1)
    return rf.NGramLM(tmp_path / "x.arpa", WORDS[3:])


@pytest.mark.parametrize("pays", [True, False], ids=["tree", "arrays"])
@pytest.mark.parametrize(
    "options", [{}, {"lm": True, "lm_scale": 0.5}, {"label_bonus": 0.3}, {"logits_normalized": True}], ids=str
)
def test_ctc_prefix_beam_search_reads_the_logits_once(options, pays, tmp_path, monkeypatch):
    monkeypatch.setattr(ctc_prefix, "pays", lambda *sizes: pays)
    options = options | ({"lm": arpa(tmp_path)} if "lm" in options else {})
    values = np.random.default_rng(0).standard_normal((2, 12, 4)).astype(np.float32)
    values -= np.log(np.exp(values).sum(-1, keepdims=True))

    def run(frames=12):
        batch, classes = Dim(2, name="batch"), Dim(4, name="classes")
        time = rf.ragged_dim([frames, frames - 2], over=batch, name="time")
        logits = tensor(values[:, :frames], batch, time, classes)
        labels, scores, _, _ = rf.ctc_prefix_beam_search(
            logits, in_spatial_dim=time, wb_target_dim=classes, blank_index=-1, beam_size=3, **options
        )
        return labels, scores

    assert both(run) == both(lambda: run(5)) == 1


class Transducer:
    """A decoder with a state; see `rf.transducer_beam_search`."""

    def __init__(self, frames):
        rng = np.random.default_rng(0)
        self.batch, self.feat = Dim(2, name="batch"), Dim(3, name="feat")
        self.hidden, self.classes = Dim(4, name="hidden"), Dim(4, name="classes")
        self.time = rf.ragged_dim([frames, frames - 1], over=self.batch, name="time")
        make = lambda *dims: tensor(rng.standard_normal([dim.extent for dim in dims]), *dims)  # noqa: E731
        self.rows, self.out = make(self.classes, self.hidden), make(self.hidden, self.classes)
        self.of_frame = make(self.feat, self.classes)
        self.encoder = tensor(
            np.random.default_rng(1).standard_normal((2, 20, 3))[:, :frames], self.batch, self.time, self.feat
        )
        self.encoder.feature_dim = self.feat

    def step(self, frame, label, state):
        h = rf.tanh(rf.gather(self.rows, indices=label, axis=self.classes) + state["h"] * 0.5)
        scores = rf.matmul(h, self.out, reduce=self.hidden) + rf.matmul(frame, self.of_frame, reduce=self.feat)
        return scores, {"h": h}

    def run(self, fn, **options):
        state = {"h": rf.zeros([self.batch, self.hidden])}
        labels, scores, *_ = fn(
            self.step, self.encoder, in_spatial_dim=self.time, wb_target_dim=self.classes, blank_index=-1,
            initial_state=state, **options,
        )  # fmt: skip
        return labels, scores


# The host decides in each step, so it reads the scores of each: as many as frames and labels of the longest.
TRANSDUCERS = {
    "beam": (rf.transducer_beam_search, {"beam_size": 3, "max_labels": 4}),
    "beam with lm": (rf.transducer_beam_search, {"beam_size": 3, "max_labels": 4, "lm": True, "lm_scale": 0.5}),
    "greedy": (rf.transducer_greedy_decode, {"max_labels": 4}),
}


@pytest.mark.parametrize("name", TRANSDUCERS)
def test_a_step_of_a_transducer_reads_its_scores(name, tmp_path):
    fn, options = TRANSDUCERS[name]
    options = options | ({"lm": arpa(tmp_path)} if "lm" in options else {})
    for frames in (4, 9):
        steps = []

        def run(frames=frames, steps=steps):
            model = Transducer(frames)
            before, steps[:] = model.step, []
            model.step = lambda *args: steps.append(None) or before(*args)
            return model.run(fn, **options)

        assert both(run) == len(steps) > frames


def test_forced_alignment_of_a_transducer_reads_logits_and_labels():
    def run():
        batch, classes = Dim(2, name="batch"), Dim(3, name="classes")
        time = rf.ragged_dim([4, 3], over=batch, name="time")
        label = rf.ragged_dim([2, 3], over=batch, name="label")
        values = np.random.default_rng(0).standard_normal((2, 4, 4, 3))
        return rf.transducer_forced_align(
            tensor(values, batch, time, label + 1, classes), tensor(np.array([[1, 2, 0], [2, 1, 1]], np.int32), batch, label),
            in_spatial_dim=time, targets_spatial_dim=label, wb_target_dim=classes, blank_index=0,
        )  # fmt: skip

    assert both(run) <= 2


@pytest.mark.parametrize("dense", [True, False], ids=["table", "rows"])
def test_an_ngram_model_scores_labels_of_a_device(dense, tmp_path, monkeypatch):
    monkeypatch.setattr(ngram_file, "_DENSE", 1 << 24 if dense else 0)
    counts = []
    for steps in (4, 8):
        lm = arpa(tmp_path)

        def run(steps=steps, lm=lm):
            batch = Dim(2, name="batch")
            label = rf.ragged_dim([steps, 2], over=batch, name="label")
            ids = tensor(np.random.default_rng(0).integers(0, 3, (2, steps)), batch, label, sparse_dim=lm.out_dim)
            scores, state = lm(ids, spatial_dim=label, state=lm.default_initial_state(batch_dims=[batch]))
            one, after = lm(rf.gather(ids, indices=0, axis=label), spatial_dim=rf.single_step_dim, state=state)
            return scores, one, after.context

        counts.append(both(run))
    # A table is on the device; rows are looked up on the host, once for each label.
    assert counts == ([0, 0] if dense else [5, 9])
