"""Training batches of words with equally many letters, in an order that depends only on (seed, epoch).

Equal spelling lengths mean no padding of the letters; sorting by the number of phonemes within windows keeps the
padding of the labels small without fixing which examples share a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rfnb.data import g2p
from rfnb.data.cmudict import Pronunciations


@dataclass(frozen=True)
class Example:
    """One word with one pronunciation: int32 indices into `g2p.LETTERS` and `g2p.LABELS` (without end label)."""

    letters: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Batch:
    """Examples with equally many letters.

    Attributes:
        letters: int32 (examples, letters), no padding.
        targets: int32 (examples, labels), each row ends with the end label, padded with 0.
        lengths: int32 (examples,): labels per row, including the end label.
        inputs: int32 (examples, labels): the label before each target, the begin label 0 first.
    """

    letters: np.ndarray
    targets: np.ndarray
    lengths: np.ndarray
    inputs: np.ndarray


def examples_of(part: Mapping[str, Pronunciations], *, max_letters: int | None = None) -> list[Example]:
    """One example per pronunciation, in the order of the part, without words of more than `max_letters` letters."""
    return [
        Example(g2p.encode_word(word), g2p.encode_phonemes(phonemes))
        for word, pronunciations in part.items()
        if max_letters is None or len(word) <= max_letters
        for phonemes in pronunciations
    ]


def epoch_batches(
    examples: Sequence[Example], *, batch_size: int, seed: int, epoch: int, window: int = 8
) -> list[list[int]]:
    """Indices of the examples in each batch of one epoch, every example once; deterministic in (seed, epoch).

    Args:
        batch_size: Examples per batch; the last batch of a spelling length may be smaller.
        window: Number of batches that are sorted by number of labels together.

    The number of batches is the same in every epoch.
    """
    rng = np.random.default_rng([seed, epoch])
    by_length: dict[int, list[int]] = {}
    for index, example in enumerate(examples):
        by_length.setdefault(len(example.letters), []).append(index)
    batches: list[list[int]] = []
    for length in sorted(by_length):
        order = rng.permutation(by_length[length])
        for start in range(0, len(order), batch_size * window):
            span = sorted(order[start : start + batch_size * window], key=lambda index: len(examples[index].labels))
            batches += [[int(index) for index in span[at : at + batch_size]] for at in range(0, len(span), batch_size)]
    return [batches[index] for index in rng.permutation(len(batches))]


def make_batch(examples: Sequence[Example]) -> Batch:
    """The arrays of the given examples.

    Raises:
        ValueError: If the spellings differ in length.
    """
    if len({len(example.letters) for example in examples}) != 1:
        raise ValueError("make_batch: the words of a batch must have the same number of letters.")
    targets, lengths = g2p.pad_rows([np.append(example.labels, g2p.END_LABEL) for example in examples])
    inputs = np.zeros_like(targets)
    inputs[:, 1:] = targets[:, :-1]
    return Batch(np.stack([example.letters for example in examples]), targets.astype(np.int32), lengths, inputs)
