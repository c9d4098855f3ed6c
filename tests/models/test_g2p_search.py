"""Search: scores are the model's own, an exhaustive search agrees, and words do not disturb each other."""

import itertools

import numpy as np
import pytest
from models.tiny import WORDS, make_model

from rfnb.core.dim import Dim
from rfnb.data.batching import examples_of
from rfnb.data.g2p import PHONEMES, WordError, encode_phonemes
from rfnb.models.g2p import label_dim
from rfnb.models.g2p_search import beam_search, encode_batch, evaluate, greedy, max_labels, pronounce, score
from rfnb.models.g2p_training import Recipe, Trainer
from rfnb.ops.const import convert_to_tensor

LIST = ["cat", "tease", "a", "thoughtfully", "beta"]


@pytest.fixture(scope="module")
def trained():
    trainer = Trainer(make_model(), examples_of(WORDS), Recipe(epochs=60, batch_size=4, learning_rate=3e-2, seed=3))
    while not trainer.finished:
        trainer.step()
    return trainer.model


@pytest.mark.parametrize("beam_size", [1, 2, 5, 12])
def test_scores_are_those_of_the_model(trained, beam_size):
    for word, found in zip(LIST, beam_search(trained, LIST, beam_size=beam_size), strict=True):
        done = [one for one in found if one.ended]
        assert done, word
        own = score(trained, [word] * len(done), [one.phonemes for one in done])
        np.testing.assert_allclose([one.score for one in done], own, rtol=1e-4, atol=1e-4)


def test_hypotheses_differ_and_are_sorted_best_first(trained):
    for found in beam_search(trained, LIST, beam_size=7):
        assert len(found) == 7
        assert len({(one.phonemes, one.ended) for one in found}) == 7
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_wide_beam_finds_the_best_of_all_short_pronunciations(trained):
    every = [said for length in range(3) for said in itertools.product(PHONEMES, repeat=length)]
    own = score(trained, ["a"] * len(every), every)
    best = every[int(np.argmax(own))]
    found = [one for one in pronounce(trained, "a", beam_size=60) if len(one.phonemes) < 3]
    assert found[0].phonemes == best
    assert found[0].score == pytest.approx(own.max(), abs=1e-4)


def test_greedy_takes_the_best_label_in_every_step(trained):
    (found,) = greedy(trained, ["beta"])
    for length in range(len(found.phonemes)):
        prefix = found.phonemes[:length]
        # The probability of a label after a prefix is the ratio of two scores; the end label's one is left out.
        after = [(*prefix, phoneme) for phoneme in PHONEMES]
        with_end = score(trained, ["beta"] * 39, after)
        open_end = with_end - last_log_prob(trained, "beta", after)
        assert PHONEMES[int(np.argmax(open_end))] == found.phonemes[length]


def last_log_prob(model, word, phonemes):
    """Log probability of the end label after each pronunciation."""
    batch, encoded = encode_batch(model, [word] * len(phonemes))
    inputs = np.stack([np.concatenate([[0], encode_phonemes(row)]) for row in phonemes]).astype(np.int32)
    labels_dim = Dim(inputs.shape[1], name="labels")
    tensor = convert_to_tensor(inputs, dims=[batch, labels_dim], sparse_dim=label_dim)
    log_probs = model.log_probs(tensor, encoded, spatial_dim=labels_dim)
    return log_probs.copy_transpose([batch, labels_dim, label_dim]).raw_tensor.detach().numpy()[:, -1, 0]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_word_gives_the_same_alone_and_among_others(trained, beam_size):
    together = beam_search(trained, LIST, beam_size=beam_size)
    for word, found in zip(LIST, together, strict=True):
        alone = pronounce(trained, word, beam_size=beam_size)
        ended = [one.phonemes for one in found if one.ended]
        assert ended == [one.phonemes for one in alone if one.ended]
        np.testing.assert_allclose(
            [one.score for one in found if one.ended], [one.score for one in alone if one.ended], rtol=1e-4
        )


def test_untrained_model_is_cut_off_and_says_so():
    found = pronounce(make_model(), "cat", beam_size=1)
    assert len(found) == 1
    if not found[0].ended:
        assert len(found[0].phonemes) == max_labels(["cat"])


def test_trained_model_spells_its_words(trained):
    assert evaluate(trained, WORDS).wer < 50


def test_error_rate_does_not_depend_on_the_batches(trained):
    assert evaluate(trained, WORDS, batch_size=1) == evaluate(trained, WORDS, batch_size=100)


def test_beam_is_no_wider_than_what_there_is(trained):
    found = pronounce(trained, "a", beam_size=100)
    assert len(found) <= 100
    assert all(np.isfinite(one.score) and one.score > -1e9 for one in found)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["cat", ""], WordError),
        (["a" * 200], WordError),
        (["caf\xe9"], WordError),
        ([3], TypeError),
        ("cat", TypeError),
    ],
)
def test_bad_words_are_refused(trained, words, error):
    with pytest.raises(error):
        beam_search(trained, words)


def test_longest_word_works(trained):
    assert pronounce(trained, "ab" * 32, beam_size=2)


@pytest.mark.parametrize("beam_size", [0, -1])
def test_beam_of_nothing_is_refused(trained, beam_size):
    with pytest.raises(ValueError, match="beam_size"):
        pronounce(trained, "cat", beam_size=beam_size)
