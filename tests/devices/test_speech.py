"""Logits of speech models on a device: searched and aligned as on the CPU."""

import numpy as np
import pytest
import torch
from simulated import NAME

import rfnb as rf

LABELS, LENGTHS = ["-", "|", "A", "B", "C"], [6, 5, 3]


def output(device, lengths=LENGTHS):
    scores = 2 * torch.randn(3, 6, 5, generator=torch.Generator().manual_seed(3))
    return rf.ctc_output(scores.to(device), lengths, vocab=LABELS)


def test_alignments_are_those_of_the_cpu():
    references = ["A B", "CC", "B"]
    for one, other in zip(output(NAME).align(references), output("cpu").align(references), strict=True):
        np.testing.assert_allclose(one.posteriors, other.posteriors, atol=1e-5)
        assert one.path.tolist() == other.path.tolist()
        assert one.log_prob_of_all == pytest.approx(other.log_prob_of_all, rel=1e-5)
        assert rf.show(one).text() == rf.show(other).text()


@pytest.mark.parametrize("lengths", [LENGTHS, torch.tensor(LENGTHS), torch.tensor(LENGTHS).to(NAME)])
def test_searches_are_those_of_the_cpu(lengths):
    there, here = output(NAME, lengths), output("cpu")
    assert repr(there) == repr(here)
    assert [each.labels for each in there.greedy()] == [each.labels for each in here.greedy()]
    for one, other in zip(there.beam_search(3), here.beam_search(3), strict=True):
        assert [each.tokens for each in one] == [each.tokens for each in other]
    loss = there.loss([[2, 1, 3], [4, 4], [3]])
    assert torch.device(loss.device).type == torch.device(NAME).type
    np.testing.assert_allclose(loss.numpy(), here.loss([[2, 1, 3], [4, 4], [3]]).numpy(), rtol=1e-5)
