"""Symbols for grapheme-to-phoneme conversion: letters and phonemes as integers, and back.

    encode_word("cat")                      # array([2, 0, 19], dtype=int32)
    encode_phonemes(["K", "AE", "T"])       # array([20, 2, 31], dtype=int32)
    decode_labels([20, 2, 31, 0, 0])        # ("K", "AE", "T"): up to the end symbol

Label 0 is both the end label and the begin label.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

LETTERS = tuple("abcdefghijklmnopqrstuvwxyz'")
PHONEMES = tuple(
    "AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH UW V W Y Z ZH".split()
)
END = "<end>"
LABELS = (END, *PHONEMES)
END_LABEL = 0
MAX_LETTERS = 64

_LETTER_INDEX = {letter: index for index, letter in enumerate(LETTERS)}
_LABEL_INDEX = {label: index for index, label in enumerate(LABELS)}


class WordError(ValueError):
    """Raised for a word that cannot be spelled with the 27 letters of the model, or that is empty or too long."""


def encode_word(word: str) -> np.ndarray:
    """The letters of a word as int32 indices into `LETTERS`; upper case counts as lower case.

    Raises:
        TypeError: If `word` is not a str.
        WordError: If it is empty, longer than 64 letters, or has a character other than a-z and '.
    """
    if not isinstance(word, str):
        raise TypeError(f'A word is a str, got {type(word).__name__}.\n    encode_word("cat")')
    if not word:
        raise WordError('The word is empty. Give at least one letter, e.g. "cat".')
    if len(word) > MAX_LETTERS:
        raise WordError(f'The word "{word[:12]}..." has {len(word)} letters; at most {MAX_LETTERS} are taken.')
    lower = word.lower()
    for position, letter in enumerate(lower):
        if letter not in _LETTER_INDEX:
            raise WordError(_letter_message(word, letter, position))
    return np.array([_LETTER_INDEX[letter] for letter in lower], dtype=np.int32)


def encode_words(words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Several words as one padded array.

    Returns:
        letters: int32 (words, longest word), padded with 0; lengths: int32 (words,).

    Raises:
        TypeError, WordError: As in `encode_word`; also if there are no words.
    """
    if isinstance(words, str):
        raise TypeError(f'Several words are a list of str, got one str.\n    encode_words(["{words[:12]}"])')
    rows = [encode_word(word) for word in words]
    if not rows:
        raise WordError("There are no words. Give at least one.")
    return pad_rows(rows)


def encode_phonemes(phonemes: Iterable[str]) -> np.ndarray:
    """Phonemes as int32 indices into `LABELS`, without an end symbol.

    Raises:
        ValueError: For a phoneme that is not one of the 39 (stress marks are not part of them).
    """
    labels = []
    for phoneme in phonemes:
        if phoneme not in _LABEL_INDEX or phoneme == END:
            raise ValueError(f"{phoneme!r} is not a phoneme. The {len(PHONEMES)} phonemes are:\n  {' '.join(PHONEMES)}")
        labels.append(_LABEL_INDEX[phoneme])
    return np.array(labels, dtype=np.int32)


def decode_labels(labels: Iterable[int]) -> tuple[str, ...]:
    """The phonemes of a label sequence up to its first end label."""
    phonemes = []
    for label in labels:
        if label == END_LABEL:
            break
        phonemes.append(LABELS[label])
    return tuple(phonemes)


def pad_rows(rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Rows of different lengths as one int32 array, padded with 0, and the int32 lengths."""
    lengths = np.array([len(row) for row in rows], dtype=np.int32)
    padded = np.zeros((len(rows), int(lengths.max(initial=0))), dtype=np.int32)
    for index, row in enumerate(rows):
        padded[index, : len(row)] = row
    return padded, lengths


def _letter_message(word: str, letter: str, position: int) -> str:
    shown = letter if letter.isprintable() else repr(letter)
    name = unicodedata.name(letter, f"U+{ord(letter):04X}")
    text = f'The word "{word}" has a character that the model does not know: "{shown}" ({name}) at position {position + 1}.\n'
    text += "The letters are a to z and the apostrophe '."
    if letter.isspace():
        return text + " Give one word at a time."
    plain = "'" if letter in "’‘`´" else unicodedata.normalize("NFKD", letter)[0]
    return text + (f' Write "{plain}" for "{shown}".' if plain in _LETTER_INDEX else "")
