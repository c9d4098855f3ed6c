"""Sums over all alignments, against all alignments one by one."""

import numpy as np
import pytest
from interop.speech import brute_force

from rfnb.search.lattice import ctc_posteriors, transducer_posteriors


def log_probs(*shape: int, seed: int) -> np.ndarray:
    logits = np.random.default_rng(seed).normal(size=shape) * 2
    return logits - np.logaddexp.reduce(logits, -1, keepdims=True)


@pytest.mark.parametrize("labels", [[], [1], [2, 1], [1, 1], [3, 1, 3], [2, 2, 2]])
@pytest.mark.parametrize("frames", [5, 6])
def test_ctc_posteriors_are_those_of_all_alignments(labels, frames):
    scores = log_probs(frames, 4, seed=len(labels))
    posteriors, total = ctc_posteriors(scores, np.array(labels, int), 0)
    wanted, sum_of_all, _ = brute_force.ctc(scores, labels, 0)
    np.testing.assert_allclose(posteriors, wanted, atol=1e-6)
    assert total == pytest.approx(sum_of_all)


@pytest.mark.parametrize("labels", [[], [1], [2, 1], [1, 1, 2]])
@pytest.mark.parametrize("frames", [1, 4])
@pytest.mark.parametrize("blank", [0, 3])
def test_transducer_posteriors_are_those_of_all_alignments(labels, frames, blank):
    scores = log_probs(frames, len(labels) + 1, 4, seed=frames)
    by_label = scores[:, np.arange(len(labels)), labels]
    posteriors, total = transducer_posteriors(scores[:, :, blank], by_label)
    wanted, sum_of_all, _ = brute_force.transducer(scores, labels, blank)
    np.testing.assert_allclose(posteriors, wanted, atol=1e-6)
    assert total == pytest.approx(sum_of_all)
    np.testing.assert_allclose(posteriors[1::2].sum(1), 1, atol=1e-6)
    np.testing.assert_allclose(posteriors[0::2].sum(0), 1, atol=1e-6)


def test_what_has_no_alignment_has_zeros_and_minus_infinity():
    scores = log_probs(2, 4, seed=0)
    posteriors, total = ctc_posteriors(scores, np.array([1, 1]), 0)
    assert total == -np.inf and not posteriors.any()
    impossible = np.where(np.arange(4) == 1, -np.inf, log_probs(6, 4, seed=1))
    posteriors, total = ctc_posteriors(impossible, np.array([2, 1]), 0)
    assert total == -np.inf and not posteriors.any()
    label = np.full((3, 1), -np.inf)
    posteriors, total = transducer_posteriors(np.zeros((3, 2)), label)
    assert total == -np.inf and not posteriors.any()


def test_minus_infinity_beside_possible_alignments_is_no_nan():
    scores = log_probs(6, 4, seed=2)
    scores[:, 3] = -np.inf
    scores[0, 0] = -np.inf
    posteriors, total = ctc_posteriors(scores, np.array([1, 2]), 0)
    wanted, sum_of_all, _ = brute_force.ctc(scores, [1, 2], 0)
    np.testing.assert_allclose(posteriors, wanted, atol=1e-6)
    assert total == pytest.approx(sum_of_all)


def test_without_frames_only_no_labels_have_an_alignment():
    assert ctc_posteriors(np.zeros((0, 4)), np.array([], int), 0)[1] == 0
    assert ctc_posteriors(np.zeros((0, 4)), np.array([1]), 0)[1] == -np.inf
    assert transducer_posteriors(np.zeros((0, 1)), np.zeros((0, 0)))[1] == 0
    assert transducer_posteriors(np.zeros((0, 2)), np.zeros((0, 1)))[1] == -np.inf
