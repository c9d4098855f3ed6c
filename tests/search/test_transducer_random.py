"""Transducer searches of random models: narrow beams against a plain search, limits of labels, impossible labels, alone as in a batch."""

import math

import numpy as np
from asserting import ragged, raises_message, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from ngram_models import random_arpa, score

import rfnb as rf
from rfnb import Dim

NEVER = -math.inf
TEXTS = ["a", "b", "c"]


class Table:
    """A decoder whose scores depend on the frame and on the last two labels (its state is the last but one)."""

    def __init__(self, frames, classes, blank, seed, impossible=False):
        self.classes, self.blank = Dim(classes, name="classes"), blank
        rng = np.random.default_rng(seed)
        self.of_labels = rng.standard_normal((classes, classes, classes)) * 1.5
        if impossible:
            self.of_labels[rng.random(self.of_labels.shape) < 0.3] = NEVER
            self.of_labels[..., blank] = np.maximum(self.of_labels[..., blank], -3)
        self.frames = frames
        self.first, self.second = Dim(classes, name="first"), Dim(classes, name="second")
        self.raw = tensor(self.of_labels, self.first, self.second, self.classes)

    def step(self, frame, label, state):
        before, last = (rf.set_sparse_dim(x, None) for x in (state["before"], label))
        rows = rf.gather(rf.gather(self.raw, indices=before, axis=self.first), indices=last, axis=self.second)
        return frame + rows, {"before": last}

    def plain(self, frame, labels):
        before, last = (self.blank, self.blank, *labels)[-2:]
        out = frame + self.of_labels[before, last]
        return out - np.logaddexp.reduce(out)

    def run(self, values, lengths, *, greedy=False, **options):
        """[{labels: score}] of the sequences."""
        batch = Dim(len(values), name="batch")
        time = ragged(lengths, batch)
        encoder = tensor(values[:, : time.extent], batch, time, self.classes)
        encoder.feature_dim = self.classes
        start = rf.full(dims=[batch], fill_value=self.blank, dtype="int64")
        options = {
            "in_spatial_dim": time, "wb_target_dim": self.classes, "blank_index": self.blank,
            "initial_state": {"before": start}, **options,
        }  # fmt: skip
        if greedy:
            labels, scores, dim = rf.transducer_greedy_decode(self.step, encoder, **options)
            dims = [batch]
        else:
            labels, scores, dim, beam = rf.transducer_beam_search(self.step, encoder, **options)
            dims = [batch, beam]
        shape = len(values), -1
        counts = dim.dyn_size_ext.copy_transpose(dims).numpy().reshape(shape)
        rows = labels.copy_transpose([*dims, dim]).numpy().reshape(*counts.shape, dim.extent)
        scores = scores.copy_transpose(dims).numpy().reshape(shape)
        return [
            {tuple(row[:count]): float(value) for row, count, value in zip(*one) if value > NEVER}
            for one in zip(rows, counts, scores)
        ]


def plain_beam(model, values, size, max_labels, extra=lambda labels: 0.0):
    """Saon et al. 2020, algorithm 2, with dicts; the frame of a hypothesis is the number of its blanks."""
    beam = {(): (0.0, 0)}
    while any(frame < len(values) for _, frame in beam.values()):
        new = {}

        def add(labels, value, frame, new=new):
            new[labels] = float(np.logaddexp(new.get(labels, (NEVER, 0))[0], value)), frame

        for labels, (value, frame) in beam.items():
            if frame >= len(values):
                add(labels, value, frame)
                continue
            row = model.plain(values[frame], labels)
            add(labels, value + row[model.blank], frame + 1)
            for label in range(len(row)) if len(labels) < max_labels else ():
                if label != model.blank:
                    add((*labels, label), value + row[label], frame)
        ranked = sorted(new.items(), key=lambda item: -(item[1][0] + extra(item[0])))[:size]
        beam = {labels: pair for labels, pair in ranked if pair[0] > NEVER}
    return {labels: value + extra(labels) for labels, (value, _) in beam.items()}


def plain_greedy(model, values, max_labels, per_frame):
    labels, value, time, count = (), 0.0, 0, 0
    while time < len(values):
        row = model.plain(values[time], labels)
        full = len(labels) >= max_labels or (per_frame is not None and count >= per_frame)
        best = model.blank if full else int(row.argmax())
        value += row[best]
        time, count = (time + 1, 0) if best == model.blank else (time, count + 1)
        labels = labels if best == model.blank else (*labels, best)
    return {labels: value}


def assert_close(found, expected):
    assert found.keys() == expected.keys()
    for labels, value in expected.items():
        assert math.isclose(found[labels], value, abs_tol=1e-4), labels


@st.composite
def cases(draw):
    classes, seed = draw(st.integers(2, 4)), draw(st.integers(0, 1 << 30))
    batch, frames = draw(st.integers(1, 3)), draw(st.integers(0, 5))
    rng = np.random.default_rng(seed)
    model = Table(frames, classes, draw(st.integers(0, classes - 1)), seed, draw(st.booleans()))
    values = rng.standard_normal((batch, frames, classes)).astype(np.float32)
    return model, values, rng.integers(0, frames + 1, batch).tolist()


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(1, 7), st.integers(0, 5))
def test_beams_of_any_size_are_those_of_a_plain_search(case, size, max_labels):
    model, values, lengths = case
    together = model.run(values, lengths, beam_size=size, max_labels=max_labels)
    for seq, length in enumerate(lengths):
        assert_close(together[seq], plain_beam(model, values[seq, :length], size, max_labels))
        [alone] = model.run(values[seq : seq + 1], lengths[seq : seq + 1], beam_size=size, max_labels=max_labels)
        assert_close(alone, together[seq])


@settings(max_examples=40, deadline=None)
@given(cases(), st.integers(0, 5), st.sampled_from([None, 0, 1, 2]))
def test_greedy_keeps_both_limits(case, max_labels, per_frame):
    model, values, lengths = case
    found = model.run(values, lengths, greedy=True, max_labels=max_labels, max_labels_per_frame=per_frame)
    for seq, length in enumerate(lengths):
        assert_close(found[seq], plain_greedy(model, values[seq, :length], max_labels, per_frame))


def test_a_language_model_in_narrow_beams(tmp_path):
    listed = random_arpa(tmp_path / "x.arpa", ["<unk>", "<s>", "</s>", *TEXTS], order=3)
    lm = rf.NGramLM(tmp_path / "x.arpa", TEXTS)
    for seed in range(8):
        model = Table(4, 4, 0, seed)
        values = np.random.default_rng(seed).standard_normal((2, 4, 4)).astype(np.float32)
        lengths = [4, 2]

        def extra(labels):
            history = ["<s>", *(TEXTS[label - 1] for label in labels)]
            costs = (score(listed, word, history[: index + 1], 3) for index, word in enumerate(history[1:]))
            return 0.7 * sum(costs) + 0.2 * len(labels)

        found = model.run(
            values, lengths, beam_size=3, max_labels=4, lm=lm, lm_scale=0.7, label_bonus=0.2, lm_end=False
        )
        for seq, length in enumerate(lengths):
            assert_close(found[seq], plain_beam(model, values[seq, :length], 3, 4, extra))


def test_nothing_but_blanks_is_possible():
    model = Table(3, 3, 1, 0)
    model.raw = tensor(
        np.where(np.arange(3) == 1, 0.0, NEVER) + np.zeros((3, 3, 3)), model.first, model.second, model.classes
    )
    assert model.run(np.zeros((2, 3, 3), np.float32), [3, 1], beam_size=4, max_labels=3) == [{(): 0.0}, {(): 0.0}]


def test_nothing_is_possible():
    """No blank and no label left: there is no hypothesis, which has the score of what is impossible."""
    model = Table(2, 3, 0, 0)
    model.raw = tensor(
        np.where(np.arange(3) == 0, NEVER, 0.0) + np.zeros((3, 3, 3)), model.first, model.second, model.classes
    )
    assert model.run(np.zeros((1, 2, 3), np.float32), [2], beam_size=4, max_labels=2) == [{}]


def test_a_nan_names_the_frame():
    model, values = Table(3, 3, 0, 0), np.zeros((2, 3, 3), np.float32)
    values[1, 0, 2] = np.nan
    with raises_message(
        ValueError,
        """
        transducer_beam_search, step 0: the scores contain NaN.
          scores  [batch=2, beam=2, classes=3]
          first   sequence 1, hypothesis 0, frame 0
        A NaN cannot be ranked. Find the first op that makes one, e.g. a log of 0 or a division by 0.
        """,
    ):
        model.run(values, [3, 3], beam_size=2, max_labels=2)
