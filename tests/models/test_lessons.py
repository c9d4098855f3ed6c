"""The models of the pages of lessons: they compute what the lessons say, with the solutions of the exercises as references."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from rfnb.models.lessons import KEYS, LETTERS, NOTES, _pairs, align_tune, hear, remember, write_backwards
from rfnb.teaching.course import load


def solutions(repository, name):
    return load(repository / "notebooks" / "solutions" / f"{name}.py")


@pytest.fixture(scope="module")
def repository(request):
    return request.config.rootpath


@pytest.mark.parametrize("number", ["17024", "5508", "7", "1234567890"])
def test_a_number_is_heard_and_its_trellis_is_that_of_the_exercise(repository, number):
    scores, trellis = hear(number)
    best = scores.numpy().argmax(-1)
    heard = [label for last, label in zip([0, *best], best) if label not in (0, last)]
    assert "".join(KEYS[label - 1] for label in heard) == number
    labels = [KEYS.index(key) + 1 for key in number]
    alpha = torch.as_tensor(solutions(repository, "09_ctc").forward(torch.tensor(scores.numpy()).double(), labels))
    np.testing.assert_allclose(trellis.numpy(), alpha.softmax(-1), atol=1e-4)


@pytest.mark.parametrize(("tune", "blank"), [("CEG", 1.5), ("CC", 0.0), ("B", 3.0), ("CEGBBEC", 2.0)])
def test_a_tune_is_aligned_as_by_the_gradient_of_the_exercise(repository, tune, blank):
    heard = [None, *(note for note in tune for _ in (0, 1)), None]
    logits = torch.zeros(len(heard), len(tune) + 1, 1 + len(NOTES), dtype=torch.float64)
    logits[..., 0] = blank
    for frame, place in product(range(len(heard)), range(len(tune))):
        if heard[frame] == tune[place]:
            logits[frame, place, 1 + NOTES.index(tune[place])] = 3
    scores = logits.log_softmax(-1)
    labels = torch.stack([scores[:, place, 1 + NOTES.index(note)] for place, note in enumerate(tune)], 1)
    labels.requires_grad_()
    alpha = solutions(repository, "10_transducers").forward(scores[..., 0], labels)
    (alpha[-1][-1] + scores[-1, -1, 0]).backward()  # the derivative by the score of a move is how probable the move is
    np.testing.assert_allclose(align_tune(tune, blank).numpy(), labels.grad, atol=1e-5)


@pytest.mark.parametrize("word", ["hedgehog", "badge", "aaaa", "pon", "abcdefgh"])
def test_a_word_is_written_backwards(word):
    assert "".join(LETTERS[label] for label in write_backwards(word).numpy().ravel()) == word[::-1] + "#"


@pytest.mark.parametrize(("keep", "write"), [(1.0, 1.0), (0.5, 0.25)])
def test_the_memories_are_those_of_the_exercises(repository, keep, write):
    steps, text = solutions(repository, "14_linear_attention"), "abracadabra"
    keys, values = (each.numpy() for each in _pairs())
    read = [each.numpy() for each in remember(text, keep=keep, write=write)]
    sums = rule = torch.zeros(4, 3)
    for at, letter in enumerate(text):
        key, value = (torch.tensor(each[ord(letter) - ord("a")]) for each in (keys, values))
        added, sums = steps.linear_step(sums, key, key, value)
        corrected, rule = steps.delta_step(rule, key, key, value, torch.tensor(keep), torch.tensor(write))
        np.testing.assert_allclose(read[0][at], added, atol=1e-5)
        np.testing.assert_allclose(read[1][at], corrected, atol=1e-5)
