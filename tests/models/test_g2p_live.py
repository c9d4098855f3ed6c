"""The live training: it follows the clock, ends on time, and shows what it should."""

import numpy as np
import pytest
import torch
from models.tiny import RECIPE, TINY, WORDS

from rfnb.data.g2p import WordError
from rfnb.models.g2p_live import attention_of, train_live


class Clock:
    """A clock that advances by `tick` seconds whenever it is read."""

    def __init__(self, tick):
        self.now, self.tick = 0.0, tick

    def __call__(self):
        self.now += self.tick
        return self.now


def live(**options):
    return train_live(**{"config": TINY, "recipe": RECIPE, "train": WORDS, "dev": WORDS, "word": "beta", **options})


def test_training_ends_when_the_time_is_up():
    reports = list(live(seconds=10, steps=10_000, every=2, clock=Clock(0.2)))
    assert reports[-1].progress == 1
    assert 10 <= reports[-1].seconds < 12
    assert reports[-1].step < 100


def test_training_ends_after_its_steps():
    reports = list(live(seconds=1e9, steps=13, every=5))
    assert [report.step for report in reports] == [5, 10, 13]
    assert [round(report.progress, 3) for report in reports] == [0.385, 0.769, 1]


def test_learning_rate_follows_the_clock():
    reports = list(live(seconds=10, steps=10_000, every=1, clock=Clock(0.2)))
    last_before_end = reports[-2]
    assert last_before_end.learning_rate == pytest.approx(
        RECIPE.learning_rate * (1 - last_before_end.progress), rel=1e-6
    )
    assert last_before_end.progress > 0.9


def test_first_and_last_report_have_the_attention_of_the_word():
    reports = list(live(seconds=1e9, steps=6, every=2, word_every=1e9))
    assert [report.attention is not None for report in reports] == [True, False, True]
    attention = reports[-1].attention
    assert attention.source == ("b", "e", "t", "a")
    assert attention.target[-1] == "<end>"
    assert attention.weights.shape == (len(attention.target), 4)
    assert attention.weights.dtype == np.float32
    np.testing.assert_allclose(attention.weights.sum(1), 1, rtol=1e-5)


def test_error_rates_are_measured_by_the_clock_and_at_the_end():
    reports = list(live(seconds=1e9, steps=6, every=2, dev_every=1e9))
    assert [report.dev is not None for report in reports] == [False, False, True]
    assert reports[-1].per == reports[-1].dev.per
    assert reports[-1].dev.words == len(WORDS)
    assert all(report.dev for report in live(seconds=1e9, steps=6, every=2, dev_every=0))


def test_watching_does_not_change_the_training():
    def trained(**options):
        training = live(seconds=1e9, steps=12, every=3, **options)
        list(training)
        return [parameter.raw_tensor.detach() for parameter in training.model.parameters()]

    often, seldom = trained(dev_every=0, word_every=0), trained(dev_every=1e9, word_every=1e9)
    assert all(torch.equal(a, b) for a, b in zip(often, seldom, strict=True))


def test_model_can_be_used_after_a_stop_in_the_middle():
    training = live(seconds=1e9, steps=100, every=2)
    next(training)
    assert attention_of(training.model, "cat").source == ("c", "a", "t")


@pytest.mark.parametrize("option", ["seconds", "steps", "every"])
def test_options_must_be_positive(option):
    with pytest.raises(ValueError, match=f"train_live: {option} must be positive, got 0"):
        live(**{option: 0})


def test_word_is_checked_before_the_training():
    with pytest.raises(WordError, match="has 200 letters"):
        live(word="a" * 200)
