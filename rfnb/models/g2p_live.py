"""A training that fits into a lecture: it ends on time on any machine, and reports its progress while it runs.

    for report in train_live(seconds=180, word="thoughtfully"):
        print(report.step, report.loss, report.per)

The learning rate follows the clock as well as the steps: progress is the larger of step / steps and elapsed / seconds.
A slow machine trains on fewer batches, but with the whole schedule; without the final decay the result would be much
worse (a third of the gain comes from it).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from rfnb.data.batching import examples_of
from rfnb.data.cmudict import Pronunciations, load_cmudict
from rfnb.data.error_rate import ErrorRate
from rfnb.data.g2p import END, encode_word
from rfnb.models.g2p import G2P, SMALL, G2PConfig
from rfnb.models.g2p_search import evaluate, greedy, score
from rfnb.models.g2p_training import Recipe, StepReport, Trainer, losses_of
from rfnb.trace.record import record

LIVE = Recipe(epochs=1, batch_size=64, learning_rate=4e-3, max_letters=16)


@dataclass(frozen=True)
class LiveAttention:
    """The attention of the model while it spelled one word.

    Attributes:
        source: The letters.
        target: The phonemes that the model predicts at this moment, and the end symbol.
        weights: float32 (target, source); rows sum to 1.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: np.ndarray


@dataclass(frozen=True)
class LiveReport:
    """One report of the training.

    Attributes:
        step: Steps done.
        seconds: Time since the start, including evaluations.
        progress: 0 to 1; 1 in the last report.
        loss: Nats per label, mean of the steps since the last report.
        learning_rate: The learning rate of the last step.
        dev: Error rates on some dev words if just measured, else None.
        attention: Attention for the watched word if just recorded, else None.
    """

    step: int
    seconds: float
    progress: float
    loss: float
    learning_rate: float
    dev: ErrorRate | None
    attention: LiveAttention | None

    @property
    def per(self) -> float | None:
        """Phoneme error rate in percent if just measured, else None."""
        return None if self.dev is None else self.dev.per


class LiveTraining:
    """The iterator of `train_live`: yields `LiveReport`s; `model` can be used at any time, also after an early stop."""

    def __init__(self, reports: Callable[[LiveTraining], Iterator[LiveReport]], trainer: Trainer):
        self.trainer = trainer
        self._reports = reports(self)

    @property
    def model(self) -> G2P:
        """The model that is trained."""
        return self.trainer.model

    def __iter__(self) -> Iterator[LiveReport]:
        return self._reports

    def __next__(self) -> LiveReport:
        return next(self._reports)


def train_live(
    *,
    seconds: float = 180.0,
    steps: int = 3600,
    every: int = 25,
    dev_every: float = 30.0,
    dev_words: int = 500,
    word: str = "thoughtfully",
    word_every: float = 5.0,
    config: G2PConfig = SMALL,
    recipe: Recipe = LIVE,
    train: Mapping[str, Pronunciations] | None = None,
    dev: Mapping[str, Pronunciations] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> LiveTraining:
    """Train a model, and yield a report every few steps.

    Args:
        seconds: Time budget; the last evaluation may exceed it a little.
        steps: The maximum number of steps, even if there is time left.
        every: Steps between two reports.
        dev_every: Seconds between two measurements on the first `dev_words` dev words; also before the last report.
        word: The word whose attention is drawn, every `word_every` seconds; also in the last report.
        train, dev: word -> pronunciations; the default is CMUdict.
        clock: Returns seconds; for tests.

    Raises:
        ValueError: If `seconds`, `steps` or `every` is not positive.
        WordError: If `word` cannot be spelled.
    """
    for name, value in (("seconds", seconds), ("steps", steps), ("every", every)):
        if not value > 0:
            raise ValueError(f"train_live: {name} must be positive, got {value}.")
    encode_word(word)
    if train is None or dev is None:
        split = load_cmudict()
        train, dev = train or split.train, dev or split.dev
    some = dict(list(dev.items())[:dev_words])
    torch.manual_seed(recipe.seed)
    trainer = Trainer(G2P(config), examples_of(train, max_letters=recipe.max_letters), recipe)

    def reports(training: LiveTraining) -> Iterator[LiveReport]:
        start = clock()
        next_dev, next_word = start + dev_every, start
        uncounted: list[StepReport] = []
        while True:
            progress = min(1.0, max((trainer.steps_done + 1) / steps, (clock() - start) / seconds))
            last = trainer.step(progress)
            uncounted.append(last)
            now = clock()
            done = last.step >= steps or now - start >= seconds
            if not done and last.step % every:
                continue
            measure, draw = done or now >= next_dev, done or now >= next_word
            rates = evaluate(trainer.model, some) if measure else None
            attention = attention_of(trainer.model, word) if draw else None
            next_dev = clock() + dev_every if measure else next_dev
            next_word = clock() + word_every if draw else next_word
            progress = 1.0 if done else progress
            loss = sum(losses_of(uncounted)) / len(uncounted)
            uncounted.clear()
            yield LiveReport(last.step, clock() - start, progress, loss, last.learning_rate, rates, attention)
            if done:
                return

    return LiveTraining(reports, trainer)


def attention_of(model: G2P, word: str) -> LiveAttention:
    """The attention of the model while it spells `word` greedily."""
    (found,) = greedy(model, [word])
    with record(kinds=["attention"], model=model) as trace:
        score(model, [word], [found.phonemes])
    weights = trace.attention["decoder.att"]
    letters_dim = next(dim for dim in weights.dims if dim.name == "letters")
    labels_dim = next(dim for dim in weights.dims if dim.name == "labels")
    (batch_dim,) = weights.remaining_dims([letters_dim, labels_dim])
    rows = weights.copy_transpose([batch_dim, labels_dim, letters_dim]).numpy()[0]
    return LiveAttention(tuple(word), (*found.phonemes, END), np.asarray(rows, np.float32))
