"""Greedy search, scores and error rates of a G2P model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rfnb.core.dim import Dim, ragged_dim, single_step_dim
from rfnb.core.tensor import Tensor
from rfnb.data import g2p
from rfnb.data.cmudict import Pronunciations
from rfnb.data.error_rate import ErrorRate, error_rate
from rfnb.models.g2p import G2P, Encoded, label_dim, letter_dim
from rfnb.ops.array import gather
from rfnb.ops.const import convert_to_tensor, zeros
from rfnb.ops.gradient import stop_gradient_scope
from rfnb.ops.math import log_softmax
from rfnb.ops.reduce import reduce_argmax, reduce_sum


@dataclass(frozen=True)
class Pronunciation:
    """What the model makes of a word.

    Attributes:
        word: As given.
        phonemes: Without the end symbol.
        score: Natural-log probability of the phonemes and the end symbol, summed over steps.
        ended: Whether the end symbol came; False if the limit of steps cut the search off (then not part of the score).
    """

    word: str
    phonemes: tuple[str, ...]
    score: float
    ended: bool = True

    def __str__(self) -> str:
        return " ".join(self.phonemes)


def encode_batch(model: G2P, words: Sequence[str]) -> tuple[Dim, Encoded]:
    """The batch dim of the words, and the encoded words; letters are a ragged dim over the batch."""
    letters, lengths = g2p.encode_words(words)
    batch = Dim(len(words), name="batch", kind="batch")
    letters_dim = ragged_dim(lengths, over=batch, name="letters")
    tensor = convert_to_tensor(np.ascontiguousarray(letters.T), dims=[letters_dim, batch], sparse_dim=letter_dim)
    return batch, model.encode(tensor, spatial_dim=letters_dim)


def max_labels(words: Sequence[str]) -> int:
    """The limit of search steps: no word of the dictionary needs as many."""
    return 2 * max(map(len, words)) + 10


def greedy(model: G2P, words: Sequence[str]) -> list[Pronunciation]:
    """The pronunciation that takes the best phoneme in every step, for each word."""
    with stop_gradient_scope():
        batch, encoded = encode_batch(model, words)
        labels: Tensor = zeros([batch], dtype="int32", sparse_dim=label_dim)
        state, rows, scores = encoded.start, [], []
        ended = np.zeros(len(words), dtype=bool)
        for _ in range(max_labels(words)):
            logits, state = model.decoder(labels, encoded, state=state, spatial_dim=single_step_dim)
            log_probs = log_softmax(logits, axis=label_dim)
            labels = reduce_argmax(log_probs, axis=label_dim)
            best = gather(log_probs, indices=labels, axis=label_dim)
            rows.append(labels.numpy())
            scores.append(np.where(ended, 0.0, best.numpy().astype(np.float64)))
            ended |= rows[-1] == g2p.END_LABEL
            if ended.all():
                break
    total = np.sum(scores, axis=0)
    return [
        Pronunciation(word, g2p.decode_labels(row), float(score), bool(end))
        for word, row, score, end in zip(words, np.stack(rows, 1), total, ended, strict=True)
    ]


def score(model: G2P, words: Sequence[str], phonemes: Sequence[Iterable[str]]) -> np.ndarray:
    """The model's own natural-log probability of each pronunciation of each word, end symbol included: float64 (words,)."""
    targets, lengths = g2p.pad_rows([np.append(g2p.encode_phonemes(row), g2p.END_LABEL) for row in phonemes])
    inputs = np.zeros_like(targets)
    inputs[:, 1:] = targets[:, :-1]
    with stop_gradient_scope():
        batch, encoded = encode_batch(model, words)
        labels_dim = ragged_dim(lengths, over=batch, name="labels")
        log_probs = model.log_probs(
            convert_to_tensor(inputs.astype(np.int32), dims=[batch, labels_dim], sparse_dim=label_dim),
            encoded,
            spatial_dim=labels_dim,
        )
        wanted = convert_to_tensor(targets.astype(np.int32), dims=[batch, labels_dim], sparse_dim=label_dim)
        total = reduce_sum(gather(log_probs, indices=wanted, axis=label_dim), axis=labels_dim)
    return total.numpy().astype(np.float64)


def evaluate(model: G2P, part: Mapping[str, Pronunciations], *, batch_size: int = 512) -> ErrorRate:
    """Error rates of greedy search on words with their pronunciations."""
    by_length: dict[int, list[str]] = {}
    for word in part:
        by_length.setdefault(len(word), []).append(word)
    pairs = []
    for words in by_length.values():
        for start in range(0, len(words), batch_size):
            some = words[start : start + batch_size]
            pairs += [(found.phonemes, part[found.word]) for found in greedy(model, some)]
    return error_rate(pairs)
