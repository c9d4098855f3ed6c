"""CTC prefix beam search: sums over all alignments by brute force, language models, batches, traces, each error."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from asserting import ragged, raises_message, tensor, using_backend
from ngram_models import random_arpa, score

import rfnb as rf
from rfnb import Dim, DimError
from rfnb.search import ctc_prefix
from rfnb.trace.beam_fields import CandidateFate

TINY = Path(__file__).parents[1] / "golden" / "tiny.arpa"
WORDS = ["<unk>", "<s>", "</s>", "a", "b", "c"]


@pytest.fixture(autouse=True, params=["tree", "arrays"])
def way(request, monkeypatch):
    """Few sequences are searched one by one, many on arrays; all tests here hold for both."""
    monkeypatch.setattr(ctc_prefix, "pays", lambda *sizes: request.param == "tree")


def log_probs(batch, frames, classes, seed=0, sharp=1.5):
    x = np.random.default_rng(seed).standard_normal((batch, frames, classes)) * sharp
    return (x - np.log(np.exp(x).sum(-1, keepdims=True))).astype(np.float32)


def collapse(path, blank):
    return tuple(label for label, _ in itertools.groupby(path) if label != blank)


def sums(frames, blank):
    """{labels: log of the sum over all alignments}, by definition."""
    total = {}
    for path in itertools.product(range(frames.shape[1]), repeat=len(frames)):
        labels = collapse(path, blank)
        value = sum(float(frame[label]) for frame, label in zip(frames, path))
        total[labels] = float(np.logaddexp(total.get(labels, -math.inf), value))
    return total


class Run:
    """A search, with its results as lists."""

    def __init__(self, values, *, lengths=None, **options):
        self.batch, self.classes = Dim(len(values), name="batch"), Dim(values.shape[2], name="classes")
        self.time = Dim(values.shape[1], name="time") if lengths is None else ragged(lengths, self.batch)
        self.logits = tensor(values, self.batch, self.time, self.classes)
        options = {"blank_index": -1, "beam_size": 64, **options}
        self.labels, self.scores, self.dim, self.beam = rf.ctc_prefix_beam_search(
            self.logits, in_spatial_dim=self.time, wb_target_dim=self.classes, **options
        )
        rows = self.labels.copy_transpose([self.batch, self.beam, self.dim]).numpy()
        counts = self.dim.dyn_size_ext.copy_transpose([self.batch, self.beam]).numpy()
        values = self.scores.copy_transpose([self.batch, self.beam]).numpy()
        self.found = [
            {tuple(row[:count]): float(value) for row, count, value in zip(*one) if value > -np.inf}
            for one in zip(rows, counts, values)
        ]


def assert_close(found, expected):
    assert found.keys() == expected.keys()
    for labels, value in expected.items():
        assert math.isclose(found[labels], value, abs_tol=1e-4), labels


@pytest.mark.parametrize("blank", [0, 1, 2])
def test_a_wide_beam_finds_the_sum_over_all_alignments_of_all_labels(blank):
    values = log_probs(2, 5, 3, seed=blank)
    run = Run(values, blank_index=blank)
    for found, frames in zip(run.found, values):
        assert_close(found, sums(frames, blank))
        assert list(found.values()) == sorted(found.values(), reverse=True)


def test_scores_are_those_of_the_loss():
    run = Run(log_probs(3, 6, 3, seed=4), lengths=[6, 3, 4], beam_size=300)
    loss = rf.ctc_loss(
        logits=run.logits, targets=rf.set_sparse_dim(run.labels, run.classes), input_spatial_dim=run.time,
        targets_spatial_dim=run.dim, blank_index=-1,
    )  # fmt: skip
    real = run.scores.numpy() > -np.inf
    got, expected = -loss.copy_transpose(run.scores.dims).numpy()[real], run.scores.numpy()[real]
    np.testing.assert_allclose(got, expected, atol=1e-4)


def test_a_prefix_that_left_the_beam_may_come_back():
    rng = np.random.default_rng(1)
    for seed in range(20):
        values = log_probs(1, 6, 3, seed=seed)
        size = int(rng.integers(1, 6))
        assert_close(Run(values, beam_size=size).found[0], plain(values[0], 2, size))


def plain(frames, blank, size, extra=lambda labels: 0.0):
    """The algorithm of Hannun et al. with dicts of prefixes; `extra` is added to a prefix for the ranking and in the result."""
    beam = {(): (0.0, -math.inf)}
    for frame in frames.astype(float):
        new = {}

        def add(prefix, part, value, new=new):
            pair = list(new.get(prefix, (-math.inf, -math.inf)))
            pair[part] = np.logaddexp(pair[part], value)
            new[prefix] = tuple(pair)

        for prefix, (in_blank, in_label) in beam.items():
            total = np.logaddexp(in_blank, in_label)
            add(prefix, 0, total + frame[blank])
            for label in range(len(frame)):
                if label == blank:
                    continue
                if prefix and prefix[-1] == label:
                    add(prefix, 1, in_label + frame[label])
                    add((*prefix, label), 1, in_blank + frame[label])
                else:
                    add((*prefix, label), 1, total + frame[label])
        ranked = sorted(new.items(), key=lambda item: -(np.logaddexp(*item[1]) + extra(item[0])))
        beam = {prefix: pair for prefix, pair in ranked[:size] if np.logaddexp(*pair) > -math.inf}
    return {prefix: float(np.logaddexp(*pair)) + extra(prefix) for prefix, pair in beam.items()}


@pytest.mark.parametrize("blank", [0, 3])
@pytest.mark.parametrize("end", [True, False])
def test_a_language_model_adds_its_score_of_the_labels(tmp_path, blank, end):
    listed = random_arpa(tmp_path / "x.arpa", WORDS, order=3)
    texts = ["a", "b", "c"]
    lm = rf.NGramLM(tmp_path / "x.arpa", texts)
    values = log_probs(2, 4, 4, seed=5)
    labels = Dim(3, name="labels")
    run = Run(
        values, blank_index=blank, lm=lm, lm_scale=0.7, lm_end=end, label_bonus=0.3, target_dim=labels, beam_size=200
    )
    assert run.labels.sparse_dim is labels
    for found, frames in zip(run.found, values):
        expected = {}
        for row, value in sums(frames, blank).items():
            row = tuple(label - (label > blank) for label in row)
            history = ["<s>", *(texts[label] for label in row)]
            spoken = [*history[1:], *(["</s>"] if end else [])]
            of_words = sum(score(listed, word, history[: i + 1], 3) for i, word in enumerate(spoken))
            expected[row] = value + 0.7 * of_words + 0.3 * len(row)
        assert_close(found, expected)


@pytest.mark.parametrize("bonus_only", [True, False])
def test_what_is_added_ranks_the_prefixes_of_a_narrow_beam(tmp_path, bonus_only):
    listed = random_arpa(tmp_path / "x.arpa", WORDS, order=3)
    texts = ["a", "b", "c"]
    lm = None if bonus_only else rf.NGramLM(tmp_path / "x.arpa", texts)

    def extra(labels):
        history = ["<s>", *(texts[label] for label in labels)]
        costs = (score(listed, word, history[: index + 1], 3) for index, word in enumerate(history[1:]))
        return 0.4 * len(labels) + (0.0 if bonus_only else 0.7 * sum(costs))

    for seed in range(10):
        values = log_probs(2, 7, 4, seed=seed)
        run = Run(values, lengths=[7, 4], lm=lm, lm_scale=0.7, label_bonus=0.4, lm_end=False, beam_size=3)
        for found, frames, length in zip(run.found, values, [7, 4]):
            assert_close(found, plain(frames[:length], 3, 3, extra))


def test_nothing_but_blanks_is_possible():
    values = np.full((2, 4, 3), -np.inf, np.float32)
    values[..., 2] = 0
    assert Run(values, lengths=[4, 1], beam_size=3).found == [{(): 0.0}, {(): 0.0}]


def test_nothing_is_possible():
    """A frame in which no class is possible leaves no prefix: all scores are -inf, and there are no labels."""
    values = log_probs(2, 4, 3)
    values[0, 2] = -np.inf
    run = Run(values, beam_size=3, logits_normalized=True)
    assert run.found[0] == {} and run.scores.numpy()[0].tolist() == [-np.inf] * 3
    assert_close(run.found[1], plain(values[1], 2, 3))


def test_labels_that_are_impossible():
    for seed in range(10):
        values = log_probs(1, 5, 4, seed=seed)
        values[np.random.default_rng(seed).random(values.shape) < 0.4] = -np.inf
        assert_close(Run(values, logits_normalized=True, beam_size=4).found[0], plain(values[0], 3, 4))


def test_a_ragged_batch_gives_what_each_sequence_gives():
    values = log_probs(3, 8, 4, seed=6)
    lengths = [8, 0, 5]
    dirty = values.copy()
    dirty[1], dirty[2, 5:] = np.nan, np.nan
    together = Run(dirty, lengths=lengths, beam_size=5)
    for seq, length in enumerate(lengths):
        alone = Run(values[seq : seq + 1, :length], beam_size=5)
        assert_close(together.found[seq], alone.found[0])
    assert together.found[1] == {(): 0.0}


@pytest.mark.parametrize("backend", ["torch", "numpy"])
def test_batch_dims_in_any_order_on_both_backends(backend):
    with using_backend(backend):
        heads, batch, time, classes = (
            Dim(2, name="heads"),
            Dim(3, name="batch"),
            Dim(4, name="time"),
            Dim(3, name="classes"),
        )
        values = log_probs(6, 4, 3, seed=7)
        logits = tensor(values.reshape(2, 3, 4, 3).transpose(2, 1, 3, 0).copy(), time, batch, classes, heads)
        out_dim = Dim(None, name="out")
        labels, scores, dim, beam = rf.ctc_prefix_beam_search(
            logits, in_spatial_dim=time, blank_index=0, beam_size=3, wb_target_dim=classes, out_spatial_dim=out_dim
        )
        assert dim is out_dim and labels.sparse_dim is classes
        expected = Run(values, blank_index=0, beam_size=3).scores.numpy()
        got = scores.copy_transpose([heads, batch, beam]).numpy().reshape(6, 3)
        np.testing.assert_allclose(got, expected, atol=1e-5)


def test_no_frames_and_no_sequences():
    run = Run(np.zeros((2, 0, 3), np.float32), beam_size=3)
    assert run.found == [{(): 0.0}, {(): 0.0}] and run.labels.numpy().shape == (2, 3, 0)
    assert Run(np.zeros((0, 4, 3), np.float32), beam_size=3).found == []


def test_the_trace_has_a_step_per_frame():
    values = log_probs(2, 5, 3, seed=8)
    with rf.record(kinds=["beams"]) as trace:
        run = Run(values, lengths=[5, 3], beam_size=4)
    history = trace.beams["ctc"]
    assert history.num_steps == 5 and history.beam_size() == 4
    for seq in range(2):
        nbest = history.nbest(seq)
        found = {tuple(token for token in item.tokens if token != 2): item.score for item in nbest}
        assert_close(found, run.found[seq])
    assert [step["ended"][:, 0].tolist() for step in history.steps] == [[False, False]] * 2 + [[False, True]] * 2 + [
        [True, True]
    ]


def test_the_trace_says_which_prefixes_were_merged():
    # a, b and the blank. After two frames "a" has come from "a a", "- a" and "a -": it stays, and grows from the empty prefix.
    values = np.log(np.array([[[0.5, 0.1, 0.4], [0.5, 0.1, 0.4]]], np.float32))
    with rf.record(kinds=["beams"]) as trace:
        Run(values, beam_size=3)
    first, second = (event.values for event in trace.select(kind="beams"))
    assert not first["merged"].numpy().any() and first["blank"] == 2
    assert second["tokens"].numpy().tolist() == [[2, 2, 2]] and second["merged"].numpy().tolist() == [
        [True, False, True]
    ]
    np.testing.assert_allclose(np.exp(second["scores"].numpy()[0]), [0.65, 0.16, 0.09], rtol=1e-5)
    merged = second["cand_verdict"].numpy()[0] == CandidateFate.MERGED
    assert second["cand_tokens"].numpy()[0][merged].tolist() == [0, 1]
    np.testing.assert_allclose(np.exp(second["cand_scores"].numpy()[0][merged]), [0.4 * 0.5, 0.4 * 0.1], rtol=1e-5)
    assert not (merged & second["cand_kept"].numpy()[0]).any()


def test_recording_changes_nothing():
    values = log_probs(2, 6, 4, seed=9)
    plain_run = Run(values, beam_size=4)
    with rf.record():
        recorded = Run(values, beam_size=4)
    assert plain_run.found == recorded.found


def test_unknown_classes():
    time, classes = Dim(3, name="time"), Dim(4, name="classes")
    with raises_message(
        DimError,
        """
        ctc_prefix_beam_search: which dim of logits has the classes?
          logits  [time=3, classes=4]
        It has no feature_dim, so name the classes:
            rf.ctc_prefix_beam_search(..., wb_target_dim=...)
        """,
    ):
        rf.ctc_prefix_beam_search(rf.zeros([time, classes]), in_spatial_dim=time, blank_index=0, beam_size=2)


def test_a_beam_of_nothing():
    with raises_message(
        ValueError,
        """
        ctc_prefix_beam_search: beam_size 0.
        At least one hypothesis must survive.
            rf.ctc_prefix_beam_search(..., beam_size=5)
        """,
    ):
        Run(log_probs(1, 2, 3), beam_size=0)


def test_labels_that_do_not_fit():
    with raises_message(
        DimError,
        """
        ctc_prefix_beam_search: target_dim does not fit the classes.
          target_dim  words=7
          classes     classes=3
          blank       2
        It is over the classes, or over the classes without the blank, in the same order.
            rf.ctc_prefix_beam_search(..., target_dim=classes)
        """,
    ):
        Run(log_probs(1, 2, 3), target_dim=Dim(7, name="words"))


def test_a_language_model_of_other_labels():
    with raises_message(
        DimError,
        """
        ctc_prefix_beam_search: the language model is over other labels.
          classes              classes=3, blank 2
          labels of the model  labels=4
        It is over the classes, or over the classes without the blank, in the same order.
            rf.NGramLM(file, [...])   # one text per class but the blank
        """,
    ):
        Run(log_probs(1, 2, 3), lm=rf.NGramLM(TINY, ["the", "cat", "sat", "dog"]))


@pytest.mark.parametrize("bad", ["nan", "inf", "all -inf"])
def test_a_frame_without_probabilities(bad):
    values = log_probs(2, 3, 3)
    values[1, 2, 0] = np.nan if bad == "nan" else np.inf
    if bad == "all -inf":
        values[1, 2] = -np.inf
    with raises_message(
        ValueError,
        """
        ctc_prefix_beam_search: the log probabilities contain NaN or inf.
          logits  [batch=2, time=3, classes=3]
          first   sequence 1, frame 2
        Neither can be ranked. They come from NaN or inf in the logits, or from a frame whose logits are all -inf.
        Find the first op that makes one, e.g. a log of 0 or a division by 0.
        """,
    ):
        Run(values)
