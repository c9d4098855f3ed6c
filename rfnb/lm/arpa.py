r"""Read n-gram language models in ARPA format, plain or gzipped.

    \data\
    ngram 1=3
    ngram 2=1

    \1-grams:
    -0.5  <s>  -0.3        log10 probability, word, log10 back-off weight (0 if missing)
    ...
    \end\

Source: "ARPA format" in the manual of SRILM, ngram-format(5).
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rfnb.core.errors import value_error

_BINARY = b"mmap lm http://kheafield.com"
_LONGEST_LINE = 1 << 20  # bytes; a small gzip file may unpack to one endless line
_COUNT = re.compile("[0-9]{1,18}")
_MOST_ORDERS = 100
_BLANKS = " \t\r\n"  # other Unicode white space may be part of a word


Ngrams = dict[tuple[int, ...], tuple[float, float]]  # word ids -> (log10 probability, log10 back-off weight)


@dataclass(frozen=True)
class Arpa:
    """The content of an ARPA file.

    Attributes:
        words: The words in the order of the 1-grams; an id is an index into them.
        ngrams: For each order from 1 on.
    """

    words: list[str]
    ngrams: list[Ngrams]

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return len(self.ngrams)


def is_kenlm_binary(path: str | Path) -> bool:
    """Whether a file has KenLM's binary format."""
    with open(path, "rb") as file:
        return file.read(len(_BINARY)) == _BINARY


def read_arpa(path: str | Path) -> Arpa:
    """Read the model in a file; gzip is recognised by its content.

    Raises:
        ValueError: For a malformed file, with the line number.
        OSError: If the file cannot be read.
    """
    return _Reader(path).read()


class _Reader:
    def __init__(self, path: str | Path):
        self.path, self.number, self.line = path, 0, ""
        self.words: dict[str, int] = {}

    def read(self) -> Arpa:
        with open(self.path, "rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        opened: Any = gzip.open(self.path, "rb") if packed else open(self.path, "rb")
        with opened as file:
            lines = self._lines(file)
            try:
                return self._read(lines)
            except UnicodeDecodeError as error:
                raise self._error("not UTF-8.", "An ARPA file is UTF-8 text.") from error
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise self._error(
                    "the gzip file is damaged.", "After this line it cannot be unpacked; it seems to be cut off."
                ) from error

    def _lines(self, file: IO[bytes]) -> Iterator[str]:
        while raw := file.readline(_LONGEST_LINE):
            self.number += 1
            self.line = "..."
            if len(raw) == _LONGEST_LINE:
                raise self._error(
                    f"a line of {_LONGEST_LINE:,} bytes or more.",
                    "A line has a probability, words and a back-off weight.",
                )
            # Windows editors put a byte order mark before UTF-8 text.
            self.line = raw.decode("utf-8" if self.number > 1 else "utf-8-sig").strip(_BLANKS)
            if self.line:
                yield self.line
        self.line = ""

    def _read(self, lines: Iterator[str]) -> Arpa:
        for line in lines:
            if line == "\\data\\":
                break
        else:
            raise self._error(
                "no line \\data\\.", "An ARPA file begins with \\data\\ and the number of n-grams of each order."
            )
        counts: list[int] = []
        head = ""
        for line in lines:
            if line.startswith("\\"):
                head = line
                break
            counts.append(self._count(line, len(counts) + 1))
            if len(counts) > _MOST_ORDERS:
                raise self._error(f"more than {_MOST_ORDERS} orders.", "Models of n-grams look at a few words.")
        if not counts:
            raise self._error("no counts.", "After \\data\\ there is a line like this for each order:", "ngram 1=5000")
        ngrams: list[Ngrams] = []
        for order, count in enumerate(counts, 1):
            if head != f"\\{order}-grams:":
                raise self._error(
                    f"\\{order}-grams: is missing.",
                    f"The header names {len(counts)} orders, and they come one after the other.",
                )
            found, head = self._section(lines, order, count, order == len(counts))
            if len(found) != count:
                rule = f"The header names {count}, there are {len(found)}."
                raise self._error(f"another number of {order}-grams than in the header.", rule)
            ngrams.append(found)
        if head != "\\end\\":
            raise self._error(
                "\\end\\ is missing.", "The last line of an ARPA file is \\end\\; this one seems to be cut off."
            )
        return Arpa(list(self.words), ngrams)

    def _count(self, line: str, order: int) -> int:
        name, _, number = line.partition("=")
        if name.split() != ["ngram", str(order)] or not _COUNT.fullmatch(number.strip()):
            raise self._error(
                "no count of n-grams.", "There is a line like this for each order from 1 on:", f"ngram {order}=5000"
            )
        return int(number)

    def _section(self, lines: Iterator[str], order: int, count: int, last: bool) -> tuple[Ngrams, str]:
        found: Ngrams = {}
        for line in lines:
            if line[0] == "\\" and (line.endswith("-grams:") or line == "\\end\\"):
                return found, line
            fields = [field for field in line.replace("\t", " ").split(" ") if field]
            if last and len(fields) == order + 2 and not self._number(fields[-1], "back-off weight"):
                fields.pop()  # some programs write a weight of 0 there
            if not order + 1 <= len(fields) <= order + 2 - last:
                weight = "" if last else " and maybe a back-off weight"
                rule = f"A line of \\{order}-grams: has a log10 probability, {order} word{'s' * (order > 1)}{weight}."
                raise self._error(f"{len(fields)} fields.", rule)
            probability = self._number(fields[0], "probability")
            if probability > 0:
                raise self._error("a probability above 1.", "The first field is a log10 probability: 0 or below.")
            backoff = self._number(fields[order + 1], "back-off weight") if len(fields) > order + 1 else 0.0
            ids = tuple(self._word(word, order) for word in fields[1 : order + 1])
            if ids in found:
                raise self._error("this n-gram was there before.", "Each n-gram is listed once.")
            found[ids] = probability, backoff
            if len(found) > count:
                raise self._error(
                    f"another number of {order}-grams than in the header.", f"The header names {count}, there are more."
                )
        return found, ""

    def _word(self, word: str, order: int) -> int:
        if order == 1:
            return self.words.setdefault(word, len(self.words))
        index = self.words.get(word)
        if index is None:
            raise self._error(f'"{word}" is not among the 1-grams.', "The 1-grams list all words.")
        return index

    def _number(self, text: str, what: str) -> float:
        try:
            value = float("nan" if "_" in text else text)  # Python would accept 1_000 as a number
        except ValueError:
            value = float("nan")
        if value != value or value == float("inf"):
            raise self._error(
                f'the {what} "{text}" is not a number.', "Probability and back-off weight are log10 values, as -1.2345."
            )
        return value

    def _error(self, what: str, rule: str, fix: str | None = None) -> ValueError:
        where = [
            ("file", self.path),
            ("line", f"{self.number}: {self.line}" if self.line else f"{self.number}, the last one"),
        ]
        return value_error(f"ARPA file: {what}", where, rule, fix)
