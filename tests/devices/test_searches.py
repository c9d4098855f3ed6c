"""Searches on a device: they find what they find on the CPU, bit for bit, and wait once in a step, whatever their options."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch
from asserting import tensor
from markov import VOCAB, Markov
from ngram_models import random_arpa
from recorded_searches import BASE, CHANGES, search
from seed import part_of
from simulated import NAME, watched

import rfnb as rf
from rfnb import Dim

FEW = BASE | {"steps": 6, "ends_soon": 0.0}


def both(run):
    """The results of run() on the CPU and on the device, where all of its arrays are."""
    rf.set_random_seed(1)
    expected = run()
    with rf.set_default_device_ctx(NAME):
        rf.set_random_seed(1)
        return expected, run()


def assert_bits(found, expected, where=""):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=f"{where} {name}", strict=True)


def waits(run, *, record=False):
    """How often run() waits for the device."""
    with rf.set_default_device_ctx(NAME), watched() as seen, rf.record() if record else nullcontext():
        run()
    return len(seen.waits)


@pytest.mark.parametrize("face", ["for", "with"])
@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in CHANGES.items() for value in values])
def test_a_search_finds_the_same_on_a_device(face, name, value):
    settings = FEW | {name: value}
    expected, found = both(lambda: search(face, **settings))
    assert_bits(found, expected, settings)


# Options of a choice and kinds of steps; in each of them a step waits once, for what tells whether it was the last one.
ONCE = [
    *({"options": each} for each in CHANGES["options"]),
    {"options": {"length_normalization_exponent": 0.5}},
    {"options": {"sampling": True, "top_k": 3}},
    *({"kind": kind} for kind in CHANGES["kind"] if kind not in ("impossible", "index")),
    {"kind": "index", "ends_soon": 0.0},
    {"ends_soon": 2.0, "beam": 30, "labels": 40},
    {},
]


def in_steps(face, changed, steps):
    """A search of so many steps: none ends all hypotheses."""
    found = search(face, **BASE | {"labels": 40, "ends_soon": -99.0} | changed | {"steps": steps})
    assert found["steps"] == steps


@pytest.mark.parametrize("changed", part_of(ONCE, 2), ids=str)
def test_a_step_waits_once_recorded_or_not(changed):
    for face, record in (("for", False), ("for", True), ("with", False), ("with", True)):
        # The first search of a kind in a process makes constants that all later ones have.
        _, few, many = (waits(partial(in_steps, face, changed, steps), record=record) for steps in (2, 2, 5))
        assert many - few == 3, (face, record)


def of_result(result, num_seqs):
    """The result of rf.beam_search as arrays."""
    found = {}
    for seq in range(num_seqs):
        rows = result.nbest(seq)
        found[f"{seq} tokens"] = np.array([" ".join(map(str, row.tokens)) for row in rows])
        found[f"{seq} scores"] = np.array([[row.score, *row.parts.values()] for row in rows])
    return found | {"steps": np.array(result.steps), "stopped": np.array(result.stopped_early)}


class Attending(Markov):
    """A Markov model with attention to a ragged source, as step function on Tensors or on raw arrays."""

    def __init__(self, raw=False, **options):
        super().__init__(num_seqs=2, **options)
        self.raw, self.source = raw, rf.ragged_dim([3, 5], over=self.batch, name="source")
        self.table[..., 0] -= 3  # of the end
        self.table -= np.log(np.exp(self.table).sum(-1, keepdims=True))
        self.energies = np.random.default_rng(5).standard_normal((2, self.table.shape[-1], 5)).astype(np.float32)

    def run(self, steps=6, lm=None, **options):
        label = tensor(np.zeros(2, np.int64), self.batch)
        index = Dim(self.table.shape[1], name="step")
        table = tensor(self.table, self.batch, index, self.before, self.vocab)
        energies = tensor(self.energies, self.batch, self.before, self.source)

        def step(label, state):
            label = rf.set_sparse_dim(label, self.before)
            pick = lambda x: rf.gather(x, indices=label, axis=self.before)  # noqa: E731
            now = rf.gather(table, indices=state["index"] % index.size, axis=index)
            return pick(now), {"index": state["index"] + 1}, rf.softmax(pick(energies), axis=self.source)

        def raw_step(labels, state):
            rows = torch.arange(2, device=labels.device).repeat_interleave(len(labels) // 2, output_size=len(labels))
            past = torch.cat([state["past"], labels[:, None]], 1)
            scores = table._raw[rows, (past.shape[1] - 1) % index.size, labels]
            return scores, {"past": past}, energies._raw[rows, labels].softmax(-1)

        start = {"index": rf.zeros([], dtype="int32")}
        given = {"batch": self.batch, "axis": self.vocab, "state": start}
        if self.raw:
            start = {"past": torch.zeros(2, 0, dtype=torch.int64, device=label._raw.device)}
            given = {"batch": 2, "vocab": self.vocab.vocab, "state": start}
        if lm is not None:
            initial = None if self.raw else lm.default_initial_state(batch_dims=[self.batch], start_label=True)
            options["fusion"] = {"lm": (lm.step, initial, 0.5)}
        result = rf.beam_search(
            raw_step if self.raw else step, max_seq_len=steps, **given, **{"beam_size": 3, **options}
        )
        return of_result(result, 2)


# rf.beam_search: options, and how often a step waits.
BEAM_SEARCHES = {
    "usual": ({}, 1),
    "length_exponent": ({"length_exponent": 0.7, "num_best": 2}, 1),
    "not stopped early": ({"early_stopping": False}, 1),
    "likely": ({"early_stopping": "likely"}, 1),
    "no_repeat_ngram": ({"no_repeat_ngram": 2}, 1),
    "banned": ({"banned": [2]}, 1),
    "prob_scale": ({"prob_scale": 0.5}, 1),
    "noise": ({"random_sample_scale": 0.5}, 1),
    "sampling": ({"sampling": True}, 1),
    "threshold": ({"threshold": 1.0}, 1),
}


@pytest.mark.parametrize("raw", [False, True], ids=["rf", "raw"])
@pytest.mark.parametrize("name", BEAM_SEARCHES)
def test_beam_search_finds_the_same_and_waits_once_in_a_step(name, raw):
    options, each = BEAM_SEARCHES[name]
    expected, found = both(lambda: Attending(raw).run(**options))
    assert_bits(found, expected, name)
    options = options | {"early_stopping": False}
    few, many = (waits(partial(Attending(raw).run, steps, **options)) for steps in (3, 6))
    assert many - few == 3 * each


# Further ones, with what they wait for besides the end: what is kept is decided on the host, or a target is looked at there.
MORE = {
    "leave": ({"ended": "leave"}, 2),
    "coverage": ({"coverage": 0.3}, 1),
    "lm": ({"lm": True}, 1),
    "prefix": ({"prefix": np.array([[1, 2, -1], [3, -1, -1]])}, 1),
}


@pytest.mark.parametrize("raw", [False, True], ids=["rf", "raw"])
@pytest.mark.parametrize("name", MORE)
def test_further_options_find_the_same(name, raw, tmp_path):
    options, each = MORE[name]
    random_arpa(tmp_path / "x.arpa", ["<unk>", "<s>", *VOCAB], order=3, seed=1)

    def run(steps=6, **more):
        model, given = Attending(raw), dict(options)
        if "lm" in given:
            given["lm"] = rf.NGramLM(tmp_path / "x.arpa", VOCAB if raw else model.vocab)
        if "prefix" in given and not raw:
            given["prefix"] = tensor(given["prefix"], model.batch, Dim(3, name="prefix"))
        return model.run(steps, **given, **more)

    expected, found = both(run)
    assert_bits(found, expected, name)
    few, many = (waits(partial(run, steps, early_stopping=False)) for steps in (4, 8))
    assert many - few == 4 * each


def chosen(name, steps=5):
    """A loop over a known length whose step chooses in a way of its own, with all that one can ask of what was chosen."""
    model = Markov(num_seqs=2)
    axis = rf.ragged_dim([steps, steps - 1], over=model.batch, name="steps")
    other = Dim(3, name="other")
    rng = np.random.default_rng(3)
    others = tensor(rng.standard_normal((2, steps, 3)), model.batch, axis, other)
    target = tensor(rng.integers(1, 4, (2, steps)), model.batch, axis, sparse_dim=model.vocab)
    steps_dim = Dim(10, name="step")
    table = tensor(model.table, model.batch, steps_dim, model.before, model.vocab)
    lm = tensor(rng.standard_normal((4, 4)), model.before, model.vocab)
    options = dict(CHOICES[name])
    loop = rf.Loop(axis=axis)
    loop.state.label = model.start()
    for _ in loop:
        label = rf.set_sparse_dim(loop.state.label, model.before)
        now = rf.gather(table, indices=loop.iter_idx % 10, axis=steps_dim)
        scores = rf.gather(now, indices=label, axis=model.before)
        given = {"axis": model.vocab, "beam_size": 3, **options}
        if "target" in given:
            given["target"] = loop.unstack(target)
        if "fusion" in given:
            given["fusion"] = {"lm": (rf.gather(lm, indices=label, axis=model.before), 0.5)}
        if "sources" in given:
            del given["sources"], given["axis"]
            more = rf.log_softmax(loop.unstack(others), axis=other)
            label, second = rf.choice([scores, more], axis=[model.vocab, other], **given)
            second = loop.stack(second)
        else:
            label = rf.choice(scores, **given)
        loop.state.label = label
        labels, step_scores = loop.stack(label), loop.stack(rf.get_beam_scores(label))
        parents, slots = loop.stack(rf.get_src_beams(label)), loop.stack(rf.decide_keep_beam(label))
    out = {
        "labels": labels,
        "scores": step_scores,
        "parents": parents,
        "slots": slots,
        "final": rf.get_beam_scores(labels),
    }
    out |= {"best": rf.decide(labels), "split": rf.split_batch_beam(labels)}
    if "sources" in options:
        out["second"] = second
    return out


# Choices in a loop of known length: how often a step waits, mostly not at all.
CHOICES = {
    "usual": {},
    "fusion": {"fusion": True},
    "custom": {"custom_score_combine": lambda *, scores_in, scores_base, **_: scores_in * 0.7 + scores_base},
    "sampling": {"sampling": True},
    "keep_beams": {"keep_beams": True},
    "threshold": {"threshold": 1.0},
    "several": {"sources": True},
    "cheating": {"cheating": True, "target": True},
    "exclusive": {"cheating": "exclusive", "target": True},
    "no_repeat_ngram": {"no_repeat_ngram": 2},
}
READS = {
    "cheating": 1, "exclusive": 1,  # the target of the step
    "no_repeat_ngram": 1,  # the labels so far
}  # fmt: skip


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_over_a_known_length_gives_the_same_and_hardly_waits(name):
    expected, found = both(lambda: chosen(name))
    for key, value in expected.items():
        assert found[key].device.startswith(NAME)
        values = [x.copy_masked(0) if any(dim.need_masking() for dim in x.dims) else x for x in (found[key], value)]
        np.testing.assert_array_equal(values[0].numpy(), values[1].numpy(), err_msg=key, strict=True)
    few, many = (waits(partial(chosen, name, steps)) for steps in (4, 8))
    assert many - few == 4 * READS.get(name, 0)
