"""Numbers and their English words: a task that is learned in seconds, with outputs of different lengths.

    words_of(4217)                          # ["four", "thousand", "two", "hundred", "seventeen"]
    train, test = split(limit=10_000)       # numbers, no number in both

Label 0 is both the end label and the begin label.
"""

from __future__ import annotations

import numpy as np

_ONES = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
DIGITS = tuple("0123456789")
END = "<end>"
WORDS = (END, *_ONES, *_TENS, "hundred", "thousand")
END_LABEL = 0
LIMIT = 1_000_000
"""Numbers have to be below this"""


def words_of(number: int) -> list[str]:
    """The words of a number from 1 to 999,999, without "and": 305 is three hundred five.

    Raises:
        ValueError: For another number.
    """
    if not 1 <= number < LIMIT:
        raise ValueError(f"words_of: {number} is not between 1 and {LIMIT - 1}.\n    words_of(4217)")
    thousands, rest = divmod(number, 1000)
    return [*(_below_thousand(thousands) + ["thousand"] if thousands else []), *_below_thousand(rest)]


def _below_thousand(number: int) -> list[str]:
    hundreds, rest = divmod(number, 100)
    words = [_ONES[hundreds - 1], "hundred"] if hundreds else []
    if rest >= 20:
        words.append(_TENS[rest // 10 - 2])
        rest %= 10
    return [*words, _ONES[rest - 1]] if rest else words


def encode_number(number: int) -> np.ndarray:
    """The digits of a number, int64 indices into `DIGITS`."""
    return np.array([int(digit) for digit in str(number)])


def encode_words(number: int) -> np.ndarray:
    """The words of a number and the end label, int64 indices into `WORDS`."""
    return np.array([*(WORDS.index(word) for word in words_of(number)), END_LABEL])


def split(limit: int = 10_000, *, test: int = 1000, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """The numbers from 1 to below `limit` in random order, as (train, test); deterministic for a seed.

    Raises:
        ValueError: For a limit beyond 1,000,000, or more test numbers than there are numbers.
    """
    if not 2 <= limit <= LIMIT or not 0 <= test < limit - 1:
        raise ValueError(
            f"split: a limit of {limit} with {test} test numbers; the limit is at most {LIMIT}, and some numbers are for training.\n"
            "    split(limit=10_000, test=1000)"
        )
    numbers = np.random.default_rng(seed).permutation(np.arange(1, limit))
    return numbers[test:], numbers[:test]
