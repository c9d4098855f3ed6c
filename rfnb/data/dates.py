"""Dates in words and as ISO 8601, with the source word of each character: a task with a known alignment.

    date = random_dates(1, seed=3)[0]
    date.words      # ("3", "march", "not", "5", "may", "2021")
    date.iso        # "2021-03-03"
    date.places     # (5, 5, 5, 5, None, 1, 1, None, 0, 0): the word that each character of iso comes from

In a third of the wordings a second date is mentioned and rejected, so that position alone never identifies the right word.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MONTHS = tuple("january february march april may june july august september october november december".split())
WEEKDAYS = tuple("monday tuesday wednesday thursday friday saturday sunday".split())
FIRST_YEAR, LAST_YEAR = 1990, 2029
BEGIN = "<begin>"
CHARACTERS = (BEGIN, *"0123456789", "-")
_ORDINALS = tuple(
    f"{day}{'th' if day in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th')}" for day in range(1, 32)
)
SOURCE_WORDS = (
    *MONTHS, *WEEKDAYS, *_ORDINALS, *map(str, range(1, 32)), *map(str, range(FIRST_YEAR, LAST_YEAR + 1)),
    "the", "of", "not", "but",
)  # fmt: skip
_WORD_INDEX = {word: index for index, word in enumerate(SOURCE_WORDS)}


@dataclass(frozen=True)
class Date:
    """A date in words and in ISO 8601.

    Attributes:
        words: The date in words.
        iso: Year, month and day, 10 characters.
        places: For each character of iso, the index of its source word; None for "-".
    """

    words: tuple[str, ...]
    iso: str
    places: tuple[int | None, ...]


def random_dates(count: int, *, seed: int, corrected: float = 1 / 3) -> list[Date]:
    """Dates from 1990 to 2029 in several wordings, deterministic for a seed.

    Args:
        corrected: The fraction of wordings that mention and reject a second date.
    """
    rng = np.random.default_rng(seed)
    first = datetime.date(FIRST_YEAR, 1, 1).toordinal()
    last = datetime.date(LAST_YEAR, 12, 31).toordinal()
    return [_said(rng, rng.integers(first, last + 1, 2), bool(rng.random() < corrected)) for _ in range(count)]


def encode_date_words(words: Sequence[str]) -> np.ndarray:
    """The words as int64 indices into `SOURCE_WORDS`.

    Raises:
        ValueError: For a word that is not in it.
    """
    unknown = [word for word in words if word not in _WORD_INDEX]
    if unknown:
        raise ValueError(
            f'encode_date_words: "{unknown[0]}" is not a word of dates; years are from {FIRST_YEAR} to {LAST_YEAR}.\n'
            '    encode_date_words(["3", "march", "2021"])'
        )
    return np.array([_WORD_INDEX[word] for word in words])


def encode_iso(iso: str) -> np.ndarray:
    """The characters of a date as int64 indices into `CHARACTERS`."""
    return np.array([CHARACTERS.index(character) for character in iso])


def _said(rng: np.random.Generator, days: np.ndarray, corrected: bool) -> Date:
    """One wording of the first of two days; words are (text, part of the date or None)."""
    date, other = (datetime.date.fromordinal(int(day)) for day in days)
    year = [(str(date.year), "year")]
    right = _day_and_month(rng, date, meant=True)
    if corrected:
        wrong = _day_and_month(rng, other, meant=False)
        words = [
            [*right, ("not", None), *wrong, *year],
            [("not", None), *wrong, ("but", None), *right, *year],
            [*right, *year, ("not", None), *wrong],
        ][rng.integers(3)]
    elif rng.random() < 0.3:
        words = [(WEEKDAYS[date.weekday()], None), *right, *year]
    else:
        words = [*right, *year]
    where = {part: place for place, (_, part) in enumerate(words) if part}
    parts = ["year"] * 4 + ["-"] + ["month"] * 2 + ["-"] + ["day"] * 2
    return Date(tuple(word for word, _ in words), date.isoformat(), tuple(where.get(part) for part in parts))


def _day_and_month(rng: np.random.Generator, date: datetime.date, *, meant: bool) -> list[tuple[str, str | None]]:
    day, month = ("day", "month") if meant else (None, None)
    ordinal, cardinal, name = _ORDINALS[date.day - 1], str(date.day), MONTHS[date.month - 1]
    return [
        [(cardinal, day), (name, month)],
        [(name, month), (cardinal, day)],
        [("the", None), (ordinal, day), ("of", None), (name, month)],
    ][rng.integers(3)]
