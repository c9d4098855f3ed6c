"""Forced alignment with a transducer: the best of all alignments by brute force, batches, each error."""

import itertools

import numpy as np
from asserting import ragged, raises_message, tensor

import rfnb as rf
from rfnb import Dim, DimError


def best_of_all(values, labels, blank):
    """Frames and score of the best alignment, by definition."""
    found = []
    for frames in itertools.combinations_with_replacement(range(len(values)), len(labels)):
        score = sum(values[frame, index, label] for index, (frame, label) in enumerate(zip(frames, labels)))
        score += sum(values[frame, sum(one <= frame for one in frames), blank] for frame in range(len(values)))
        found.append((float(score), frames))
    return max(found)


def align(values, labels, lengths, label_lengths, blank=0):
    batch, classes = Dim(len(values), name="batch"), Dim(values.shape[3], name="classes")
    time, label = ragged(lengths, batch), ragged(label_lengths, batch, "label")
    frames, score = rf.transducer_forced_align(
        tensor(values, batch, time, label + 1, classes), tensor(np.asarray(labels, np.int32), batch, label),
        in_spatial_dim=time, targets_spatial_dim=label, wb_target_dim=classes, blank_index=blank,
    )  # fmt: skip
    return frames.copy_transpose([batch, label]).numpy(), score.numpy()


def test_the_alignment_is_the_best_of_all():
    values = np.random.default_rng(0).standard_normal((6, 4, 4, 3)).astype(np.float32)
    labels = np.random.default_rng(1).integers(1, 3, (6, 3))
    lengths, counts = [4, 4, 3, 1, 4, 2], [3, 3, 2, 3, 0, 1]
    frames, scores = align(values, labels, lengths, counts)
    log_probs = values - np.log(np.exp(values).sum(-1, keepdims=True))
    for seq, (length, count) in enumerate(zip(lengths, counts)):
        score, expected = best_of_all(log_probs[seq, :length], labels[seq, :count], 0)
        assert tuple(frames[seq, :count]) == expected
        np.testing.assert_allclose(scores[seq], score, rtol=1e-5)


def test_a_label_that_is_impossible_in_a_frame():
    values = np.zeros((1, 3, 2, 2), np.float32)
    values[0, 1:, 0, 1] = -np.inf
    frames, scores = align(values, [[1]], [3], [1])
    assert frames.tolist() == [[0]] and np.isclose(scores[0], 4 * np.log(1 / 2))


def test_no_frames():
    frames, scores = align(np.zeros((2, 1, 2, 3), np.float32), [[1], [1]], [0, 1], [1, 1])
    assert scores[0] == -np.inf and np.isclose(scores[1], 2 * np.log(1 / 3)) and frames.tolist() == [[0], [0]]


def test_logits_without_a_place_before_the_first_label():
    time, label, classes = Dim(2, name="time"), Dim(3, name="label"), Dim(5, name="classes")
    with raises_message(
        DimError,
        """
        transducer_forced_align: no dim label+1=4.
          logits  [time=2, label=3, classes=5]
          dim     label+1=4
        The dim label+1=4 is not among the dims of logits.
            logits.dims[0]    # time=2
            logits.dims[1]    # label=3
            logits.dims[2]    # classes=5
        """,
    ):
        rf.transducer_forced_align(
            rf.zeros([time, label, classes]), rf.zeros([label], dtype="int32"), in_spatial_dim=time,
            targets_spatial_dim=label, wb_target_dim=classes, blank_index=0,
        )  # fmt: skip
