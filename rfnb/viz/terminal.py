"""Text pictures: shades for values, aligned columns, no line wider than a terminal."""

from __future__ import annotations

import re
import sys
import unicodedata

import numpy as np

from rfnb.viz.pool import largest
from rfnb.viz.pool import pooled as blocks
from rfnb.viz.visible_text import visible

WIDTH = 80  # columns of a terminal
_SHADES = "·░▒▓█"
_MOST_LINES = 6  # lines that one long line is wrapped to
# For `brief`, which is read by a language model together with a question.
_TOKENS = 1500
_WORDS = re.compile(r"[A-Za-z]+|[0-9]{1,3}|[ ]+|\n|[^\x00-\x7f]|.")
_WHOLE = "{} more lines: view.text()"


def say(text: str) -> None:
    """Print a text; characters that the output cannot encode (a pipe on Windows) become "?"."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding))


def shade(share: float) -> str:
    """A shade for a value from 0 to 1, by its square root (so that small weights stay visible); "?" for NaN."""
    if np.isnan(share):
        return "?"
    level = float(np.sqrt(min(max(share, 0.0), 1.0)))
    return _SHADES[min(int(level * (len(_SHADES) - 1) + 0.5), len(_SHADES) - 1)]


def bar(share: float) -> str:
    """One of eight heights for a value from 0 to 1; "?" for NaN, a triangle for an infinity."""
    if not np.isfinite(share):
        return "?" if np.isnan(share) else "▲" if share > 0 else "▼"
    return "▁▂▃▄▅▆▇█"[int(min(max(share, 0.0), 0.999) * 8)]


def pooled(values: np.ndarray, rows: int, cols: int) -> tuple[np.ndarray, int, int]:
    """Values in at most `rows` x `cols` cells, each the largest of a block (NaN only if all are NaN); and the size of the blocks."""
    down, across = -(-values.shape[0] // rows), -(-values.shape[1] // cols)
    return blocks(np.asarray(values)[None], (down, across), [], largest)[0], down, across


def width_of(token: str, most: int = 200) -> int:
    """The number of terminal columns that a text takes, including the marks of `clip`; counting stops at `most`."""
    return min(most, columns_of(visible(token[: most + 1])))


def columns_of(text: str) -> int:
    """The number of terminal columns that an unmodified text takes."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def clip(token: str, width: int, *, right: bool = False) -> str:
    """A text cut or padded to exactly `width` columns; zero-width characters get visible marks."""
    cut = len(token) > 4 * width + 8  # only the beginning of a huge text is examined
    token = visible(token[: 4 * width + 8] if cut else token)
    if cut or columns_of(token) > width:
        kept = ""
        for letter in token:
            if columns_of(kept + letter) > width - 1:
                break
            kept += letter
        token = kept + "…"
    fill = " " * (width - columns_of(token))
    return fill + token if right else token + fill


def fit(text: str, width: int = WIDTH) -> str:
    """The text wrapped to the width of a terminal: continuation lines are indented; of a huge text only the beginning is shown."""
    return "\n".join(piece for line in text.split("\n") for piece in _pieces(line, width))


def aligned(rows: list[list[str]], most: int | None = None) -> list[str]:
    """The rows as lines with aligned columns; empty columns are omitted.

    Args:
        most: Maximal width of a cell in terminal columns; the last cell of a row may be longer.
    """
    rows = [
        [cell if most is None or at == len(row) - 1 else shortened(cell, most) for at, cell in enumerate(row)]
        for row in rows
    ]
    widths = [max(columns_of(row[column][:400]) for row in rows) for column in range(len(rows and rows[0]))]
    keep = [column for column, width in enumerate(widths) if width]
    return ["  ".join(_filled(row[column], widths[column]) for column in keep).rstrip() for row in rows]


def shortened(text: str, width: int) -> str:
    """A text cut at its end to the given number of columns."""
    if len(text) <= width and columns_of(text) <= width:
        return text
    return _prefix(text, width - 1) + "…"


def _filled(text: str, width: int) -> str:
    return text + " " * (width - columns_of(text)) if len(text) <= width else text


def _prefix(text: str, width: int) -> str:
    """The longest prefix that fits into the given number of columns."""
    taken, at = 0, 0
    for at, letter in enumerate(text):
        taken += columns_of(letter)
        if taken > width:
            return text[:at]
    return text


def _pieces(line: str, width: int) -> list[str]:
    if len(line) <= width and columns_of(line) <= width:
        return [line]
    inner = min(len(line) - len(line.lstrip()) + 4, width // 2)
    out: list[str] = []
    while line and len(out) < _MOST_LINES:
        start = " " * inner if out else ""
        piece = _prefix(line, width - len(start))
        if len(piece) < len(line):
            at = piece.rstrip().rfind(" ")
            if at > len(piece) // 3:  # at a word boundary, if there is one nearby
                piece = piece[:at]
        line = line[len(piece) :].lstrip(" ")
        out.append((start + piece).rstrip())
    if line:
        out[-1] = _prefix(out[-1], width - 2) + " …"
    return out


def tokens_of(text: str) -> int:
    """An upper bound on the number of tokens of a text: four letters, three digits or a run of spaces count as one, a
    non-ASCII character as two.
    """
    return sum(
        -(-len(word) // 4) if word.isalpha() and word.isascii() else 1 + (not word.isascii())
        for word in _WORDS.findall(text)
    )


def brief(text: str, most: int = _TOKENS) -> str:
    """The text, or as much of it as fits into the given number of tokens.

    Each section (a line, and the lines indented below it) keeps as many lines as fit; if one line each is too much,
    sections in the middle are dropped. Omissions are noted, with the number of lines.
    """
    if len(text) * 2 < most or tokens_of(text) <= most:
        return text
    sections = _sections(text.split("\n"))
    lines = max(map(len, sections))
    while lines > 2 and tokens_of(_joined(sections, lines)) > most:
        lines = max(2, lines * 3 // 4)
    low, high = 1, len(sections)  # number of sections to keep; the tokens increase with it
    while low < high:
        count = -(-(low + high) // 2)
        low, high = (count, high) if tokens_of(_joined(_ends(sections, count), lines)) <= most else (low, count - 1)
    return _joined(_ends(sections, low), lines)


def _sections(lines: list[str]) -> list[list[str]]:
    """Each line with the lines indented below it."""
    sections: list[list[str]] = []
    for line in lines:
        if sections and line.startswith("  "):
            sections[-1].append(line)
        else:
            sections.append([line])
    return sections


def _ends(sections: list[list[str]], count: int) -> list[list[str]]:
    """The given number of sections, mostly from the beginning, and a line with the number of omitted lines."""
    last = count // 3
    between = sections[count - last : len(sections) - last]
    said = [[f"... {_WHOLE.format(sum(map(len, between)))}"]] if between else []
    return [*sections[: count - last], *said, *sections[len(sections) - last :]]


def _joined(sections: list[list[str]], most: int) -> str:
    """The lines of the sections, each section limited to the given number."""
    out: list[str] = []
    for section in sections:
        cut = len(section) - most
        out += section if cut <= 0 else [*section[:most], f"  ... {_WHOLE.format(cut)}"]
    return "\n".join(out)
