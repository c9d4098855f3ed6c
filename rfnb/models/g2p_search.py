"""Search with a G2P model: greedy and beam search, scores, error rates.

model = load_g2p()
for found in pronounce(model, "phonetics"):
    print(found.score, found)                    # -0.31 F AH N EH T IH K S, ...
"""

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
from rfnb.ops.const import convert_to_tensor, zeros
from rfnb.ops.gather import gather
from rfnb.ops.gradient import stop_gradient_scope
from rfnb.ops.reduce import reduce_sum
from rfnb.ops.softmax import log_softmax
from rfnb.rec.loop import Loop
from rfnb.search.choice import choice
from rfnb.search.decide import get_beam_scores
from rfnb.trace.probe import probe

_IMPOSSIBLE = -1e20  # score of empty beam slots


@dataclass(frozen=True)
class Pronunciation:
    """The result of the model for a word.

    Attributes:
        word: The input word.
        phonemes: Without the end symbol.
        score: Natural-log probability of the phonemes and the end symbol, summed over steps.
        ended: Whether the end symbol was predicted; False if the step limit ended the search (the score then lacks it).
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
    letters = np.ascontiguousarray(letters.T)
    tensor = convert_to_tensor(letters, dims=[letters_dim, batch], sparse_dim=letter_dim, device=model.device)
    return batch, model.encode(tensor, spatial_dim=letters_dim)


def max_labels(words: Sequence[str]) -> int:
    """The step limit of the search: no word of the dictionary needs as many."""
    return 2 * max(map(len, words)) + 10


def search(model: G2P, words: Sequence[str], *, beam_size: int) -> tuple[Dim, Tensor, Tensor]:
    """The search itself: one loop with one choice per step.

    Returns:
        The batch dim; labels {time, batch, beam}, sparse over label_dim, lengths per hypothesis with the end label; scores
        {batch, beam}, natural-log probabilities, best first.
    """
    batch, encoded = encode_batch(model, words)
    loop = Loop(max_seq_len=max_labels(words), name="search")
    loop.state.label = zeros([batch], dtype="int64", device=model.device, sparse_dim=label_dim)
    loop.state.decoder = encoded.start
    for _ in loop:
        state = loop.state.decoder
        logits, loop.state.decoder = model.decoder(loop.state.label, encoded, state=state, spatial_dim=single_step_dim)
        label = choice(log_softmax(logits, axis=label_dim), axis=label_dim, beam_size=beam_size)
        loop.state.label = label
        loop.end(label == g2p.END_LABEL, include_eos=True)
        labels = loop.stack(label)
    return batch, labels, get_beam_scores(labels)


def beam_search(model: G2P, words: Sequence[str], *, beam_size: int = 5) -> list[list[Pronunciation]]:
    """The best pronunciations of each word that a beam search finds, best first.

    Args:
        words: One or more words of any lengths; they do not affect each other.
        beam_size: Hypotheses kept in each step, and the maximal number of results.

    Raises:
        TypeError, WordError: For a word that cannot be spelled, see `rfnb.data.g2p.encode_word`.
        ValueError: For a beam size below 1.
    """
    with stop_gradient_scope():
        batch, labels, scores = search(model, words, beam_size=beam_size)
    (beam,) = scores.remaining_dims([batch])
    (time,) = labels.remaining_dims([batch, beam])
    rows = labels.copy_transpose([batch, beam, time]).numpy()
    totals = scores.copy_transpose([batch, beam]).numpy()
    return [
        [_pronunciation(word, rows[i, k], totals[i, k]) for k in range(beam.extent) if totals[i, k] > _IMPOSSIBLE]
        for i, word in enumerate(words)
    ]


def greedy(model: G2P, words: Sequence[str]) -> list[Pronunciation]:
    """The pronunciation from taking the best phoneme in every step, for each word: beam search with a beam of 1."""
    return [found[0] for found in beam_search(model, words, beam_size=1)]


def pronounce(model: G2P, word: str, *, beam_size: int = 5) -> list[Pronunciation]:
    """The best pronunciations of one word, best first."""
    return beam_search(model, [word], beam_size=beam_size)[0]


def _pronunciation(word: str, labels: np.ndarray, score: float) -> Pronunciation:
    return Pronunciation(word, g2p.decode_labels(labels), float(score), bool((labels == g2p.END_LABEL).any()))


def score(model: G2P, words: Sequence[str], phonemes: Sequence[Iterable[str]]) -> np.ndarray:
    """The model's natural-log probability of each pronunciation of each word, end symbol included: float64 (words,)."""
    targets, lengths = g2p.pad_rows([np.append(g2p.encode_phonemes(row), g2p.END_LABEL) for row in phonemes])
    inputs = np.zeros_like(targets)
    inputs[:, 1:] = targets[:, :-1]
    with stop_gradient_scope():
        batch, encoded = encode_batch(model, words)
        labels_dim = ragged_dim(lengths, over=batch, name="labels")
        before, wanted = (
            convert_to_tensor(
                array.astype(np.int32), dims=[batch, labels_dim], sparse_dim=label_dim, device=model.device
            )
            for array in (inputs, targets)
        )
        log_probs = model.log_probs(before, encoded, spatial_dim=labels_dim)
        probe("outputs", log_probs=log_probs, reference=wanted, axis=label_dim)
        total = reduce_sum(gather(log_probs, indices=wanted, axis=label_dim), axis=labels_dim)
    return total.numpy().astype(np.float64)


def evaluate(model: G2P, part: Mapping[str, Pronunciations], *, beam_size: int = 1, batch_size: int = 512) -> ErrorRate:
    """Error rates of the best pronunciations of words with known pronunciations."""
    by_length: dict[int, list[str]] = {}
    for word in part:
        by_length.setdefault(len(word), []).append(word)
    pairs = []
    for words in by_length.values():
        for start in range(0, len(words), batch_size):
            some = words[start : start + batch_size]
            found = beam_search(model, some, beam_size=beam_size)
            pairs += [(best[0].phonemes, part[word]) for word, best in zip(some, found, strict=True)]
    return error_rate(pairs)
