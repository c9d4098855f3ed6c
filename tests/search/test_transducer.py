"""Transducer search: sums over all alignments by brute force, greedy steps, states, language models, each error."""

import itertools
import math

import numpy as np
import pytest
from asserting import ragged, raises_message, tensor
from ngram_models import random_arpa, score

import rfnb as rf
from rfnb import Dim, DimError

WORDS = ["<unk>", "<s>", "</s>", "a", "b"]


class Model:
    """A decoder whose scores depend on the frame and on all labels so far: a state of three numbers, tanh of the one before."""

    def __init__(self, classes, blank, seed=0, sharp=1.5):
        rng = np.random.default_rng(seed)
        self.classes, self.blank, self.hidden = Dim(classes, name="classes"), blank, Dim(3, name="hidden")
        self.feat = Dim(4, name="feat")
        self.embedding, self.back = rng.standard_normal((classes, 3)), rng.standard_normal((3, 3))
        self.of_frame = rng.standard_normal((4, classes)) * sharp
        self.of_state = rng.standard_normal((3, classes)) * sharp
        twin = self.hidden.copy(match_priority=1)
        self.t_embedding = tensor(self.embedding, self.classes, self.hidden)
        self.t_back, self.twin = tensor(self.back, twin, self.hidden), twin
        self.t_frame = tensor(self.of_frame, self.feat, self.classes)
        self.t_state = tensor(self.of_state, self.hidden, self.classes)

    def step(self, frame, label, state):
        before, _ = rf.replace_dim(state["h"], in_dim=self.hidden, out_dim=self.twin)
        row = rf.gather(self.t_embedding, indices=label, axis=self.classes)
        h = rf.tanh(row + rf.matmul(before, self.t_back, reduce=self.twin))
        out = rf.matmul(frame, self.t_frame, reduce=self.feat) + rf.matmul(h, self.t_state, reduce=self.hidden)
        return out, {"h": h}

    def plain(self, frame, labels):
        """log p of all classes after `labels`, at a frame."""
        h = np.zeros(3)
        for label in (self.blank, *labels):
            h = np.tanh(self.embedding[label] + h @ self.back)
        out = frame @ self.of_frame + h @ self.of_state
        return out - np.log(np.exp(out).sum())

    def sums(self, frames, max_labels):
        """{labels: log of the sum over all alignments}, by definition."""
        labels_of = [label for label in range(self.classes.extent) if label != self.blank]
        return {
            labels: self.sum(frames, labels)
            for count in range(max_labels + 1)
            for labels in itertools.product(labels_of, repeat=count)
        }

    def sum(self, frames, labels):
        total = -math.inf
        steps = len(frames) + len(labels)
        for places in itertools.combinations(range(steps - 1), len(labels)):  # the last step is the last blank
            time = count = 0
            value = 0.0
            for index in range(steps):
                row = self.plain(frames[time], labels[:count])
                value += row[labels[count] if index in places else self.blank]
                time, count = (time, count + 1) if index in places else (time + 1, count)
            total = float(np.logaddexp(total, value))
        return total


class Run:
    def __init__(self, model, frames, *, lengths=None, greedy=False, **options):
        self.batch = Dim(len(frames), name="batch")
        self.time = Dim(frames.shape[1], name="time") if lengths is None else ragged(lengths, self.batch)
        encoder = tensor(frames, self.batch, self.time, model.feat)
        encoder.feature_dim = model.feat
        options = {
            "in_spatial_dim": self.time, "wb_target_dim": model.classes, "blank_index": model.blank,
            "initial_state": {"h": rf.zeros([self.batch, model.hidden])}, **options,
        }  # fmt: skip
        if greedy:
            self.labels, self.scores, self.dim = rf.transducer_greedy_decode(model.step, encoder, **options)
            dims = [self.batch]
        else:
            options = {"beam_size": 64, "max_labels": 3, **options}
            self.labels, self.scores, self.dim, beam = rf.transducer_beam_search(model.step, encoder, **options)
            dims = [self.batch, beam]
        shape = (len(frames), -1)
        counts = self.dim.dyn_size_ext.copy_transpose(dims).numpy().reshape(shape)
        rows = self.labels.copy_transpose([*dims, self.dim]).numpy()
        rows = rows.reshape(len(frames), counts.shape[1], -1)
        values = self.scores.copy_transpose(dims).numpy().reshape(shape)
        self.found = [
            {tuple(row[:count]): float(value) for row, count, value in zip(*one) if value > -np.inf}
            for one in zip(rows, counts, values)
        ]


def encoder(batch, frames, seed=0):
    return np.random.default_rng(seed).standard_normal((batch, frames, 4)).astype(np.float32)


def assert_close(found, expected):
    assert found.keys() == expected.keys()
    for labels, value in expected.items():
        assert math.isclose(found[labels], value, abs_tol=1e-4), labels


@pytest.mark.parametrize("blank", [0, 2])
def test_a_wide_beam_finds_the_sum_over_all_alignments_of_all_labels(blank):
    model, frames = Model(3, blank, seed=blank), encoder(2, 4)
    run = Run(model, frames)
    for found, one in zip(run.found, frames):
        assert_close(found, model.sums(one, 3))
        assert list(found.values()) == sorted(found.values(), reverse=True)


def test_the_order_of_dims_does_not_matter():
    model, frames = Model(3, 0, seed=5), encoder(2, 4, seed=5)
    expected, plain_step = Run(model, frames, beam_size=4), model.step

    def step(frame, label, state):
        out, state = plain_step(frame, label, state)
        return out.copy_transpose(list(out.dims[::-1])), {"h": state["h"].copy_transpose(list(state["h"].dims[::-1]))}

    model.step = step
    for found, one in zip(Run(model, frames, beam_size=4).found, expected.found):
        assert_close(found, one)


def test_a_ragged_batch_gives_what_each_sequence_gives():
    model, frames = Model(4, 0, seed=3), encoder(3, 5, seed=3)
    dirty = frames.copy()
    dirty[0, 2:], dirty[1] = np.nan, np.nan
    together = Run(model, dirty, lengths=[2, 0, 5], beam_size=4)
    for seq, length in ((0, 2), (2, 5)):
        assert_close(together.found[seq], Run(model, frames[seq : seq + 1, :length], beam_size=4).found[0])
    assert together.found[1] == {(): 0.0}


@pytest.mark.parametrize("end", [True, False])
def test_a_language_model_adds_its_score_of_the_labels(tmp_path, end):
    listed = random_arpa(tmp_path / "x.arpa", WORDS, order=3)
    lm = rf.NGramLM(tmp_path / "x.arpa", ["a", "b"])
    model, frames = Model(3, 1, seed=1), encoder(1, 3)
    run = Run(model, frames, lm=lm, lm_scale=0.6, lm_end=end, label_bonus=-0.2)
    expected = {}
    for labels, value in model.sums(frames[0], 3).items():
        history = ["<s>", *("ab"[label - (label > 1)] for label in labels)]
        spoken = [*history[1:], *(["</s>"] if end else [])]
        of_words = sum(score(listed, word, history[: i + 1], 3) for i, word in enumerate(spoken))
        expected[labels] = value + 0.6 * of_words - 0.2 * len(labels)
    assert_close(run.found[0], expected)


def greedy(model, frames, per_frame):
    labels, value, time, count = (), 0.0, 0, 0
    while time < len(frames):
        row = model.plain(frames[time], labels)
        best = model.blank if count == per_frame else int(row.argmax())
        value += row[best]
        if best == model.blank:
            time, count = time + 1, 0
        else:
            labels, count = (*labels, best), count + 1
    return {labels: value}


@pytest.mark.parametrize("per_frame", [1, 3])
def test_greedy_takes_the_best_step_each_time(per_frame):
    for seed in range(5):
        model, frames = Model(4, 0, seed=seed), encoder(3, 6, seed=seed)
        run = Run(model, frames, lengths=[6, 3, 5], greedy=True, max_labels_per_frame=per_frame)
        for found, one, length in zip(run.found, frames, [6, 3, 5]):
            assert_close(found, greedy(model, one[:length], per_frame))
        assert run.labels.dims == (run.batch, run.dim)


def test_labels_without_blank_are_shifted():
    model, frames = Model(3, 0, seed=2), encoder(1, 3)
    labels, seen, plain_step = Dim(2, name="labels"), [], model.step
    whole = Run(model, frames)

    def step(frame, label, state):
        seen.append(label.sparse_dim)
        known = rf.where(
            rf.reduce_sum(rf.abs(state["h"]), axis=model.hidden) == 0, 0, label + 1
        )  # nothing was written before
        return plain_step(frame, rf.set_sparse_dim(known, model.classes), state)

    model.step = step
    run = Run(model, frames, target_dim=labels)
    assert run.labels.sparse_dim is labels and set(seen) == {labels}
    assert_close(run.found[0], {tuple(label - 1 for label in row): value for row, value in whole.found[0].items()})


def test_the_trace_has_merged_hypotheses():
    model, frames = Model(3, 0, seed=4), encoder(2, 3)
    with rf.record(kinds=["beams"]) as trace:
        run = Run(model, frames, lengths=[3, 2], beam_size=40)
    history = trace.beams["transducer"]
    assert history.num_steps == 3 + 3
    for seq in range(2):
        found = {item.tokens: item.score for item in history.nbest(seq)}
        assert_close(found, run.found[seq])
        assert all(item.ended for item in history.nbest(seq))
        for item in history.nbest(seq):  # a step is a label or a frame
            frames_read = [step - number for number, (step, _) in enumerate(item.path)]
            assert frames_read == sorted(frames_read) and all(0 <= frame < [3, 2][seq] for frame in frames_read)
    merged = [event.values["merged"].numpy().any() for event in trace.select(kind="beams")]
    assert merged == [False, True, True, True, True, False]


def test_no_frames():
    assert Run(Model(3, 0), np.zeros((2, 0, 4), np.float32)).found == [{(): 0.0}, {(): 0.0}]


def test_no_limit_of_labels():
    with raises_message(
        ValueError,
        """
        transducer_greedy_decode: no limit of labels.
          max_labels            None
          max_labels_per_frame  None
        A model may write labels for ever.
            rf.transducer_greedy_decode(..., max_labels_per_frame=10)
        """,
    ):
        Run(Model(3, 0), encoder(1, 2), greedy=True, max_labels_per_frame=None)


def test_a_beam_of_nothing():
    with raises_message(
        ValueError,
        """
        transducer_beam_search: beam_size 0.
        At least one hypothesis must survive.
            rf.transducer_beam_search(..., beam_size=5)
        """,
    ):
        Run(Model(3, 0), encoder(1, 2), beam_size=0)


def test_a_state_that_grows():
    with raises_message(
        ValueError,
        """
        transducer_beam_search: the state has a Dim.
          state  history, keys
        Hypotheses have labels in different numbers, so a state needs a fixed size: no growing history.
        """,
    ):
        history = Dim(0, name="history")
        Run(Model(3, 0), encoder(1, 2), initial_state={"history": history, "keys": rf.zeros([history])})


def test_scores_without_classes():
    model = Model(3, 0)
    model.step = lambda frame, label, state: (frame, state)
    with raises_message(
        DimError,
        """
        transducer_beam_search: no dim classes=3.
          scores of step  [batch=1, beam=64, feat=4]
          dim             classes=3
        The dim classes=3 is not among the dims of scores of step.
            x.dims[0]    # batch=1
            x.dims[1]    # beam=64
            x.dims[2]    # feat=4
        """,
    ):
        Run(model, encoder(1, 2))


def test_scores_with_a_further_dim():
    model = Model(3, 0)
    model.step = lambda frame, label, state: (rf.expand_dim(frame, model.classes), state)
    with raises_message(
        DimError,
        """
        transducer_beam_search: the scores of step have a further dim.
          scores   [batch=1, beam=64, classes=3, feat=4]
          further  feat=4
        They are over the batch dims, the beam and the classes.
        """,
    ):
        Run(model, encoder(1, 2))


def test_a_nan_among_the_scores():
    frames = encoder(2, 3)
    frames[1, 1] = np.nan
    with raises_message(
        ValueError,
        """
        transducer_greedy_decode, step 1: the scores contain NaN.
          scores  [batch=2, beam=1, classes=3]
          first   sequence 1, hypothesis 0, frame 1
        A NaN cannot be ranked. Find the first op that makes one, e.g. a log of 0 or a division by 0.
        """,
    ):
        Run(Model(3, 0, seed=11), frames, greedy=True, max_labels=0)
