"""The comparison of two runs as text."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rfnb.trace.run_tree import changes_words, one_line, outcome_words, story

if TYPE_CHECKING:
    from rfnb.trace.compare_runs import Comparison, SequenceResults

_MOST_SEQS, _MOST_LABELS, _WIDTH = 8, 400, 76
_SHORT, _AROUND = 40, 4  # a result that is seen as a whole; labels that are left at the ends of what is the same


def text_of(comparison: Comparison) -> str:
    """The complete text: both runs, where they part, the first difference, results."""
    lines = [*stories(comparison), *said(comparison)]
    for result in comparison.results[:_MOST_SEQS]:
        lines += ["", *aligned(result, len(comparison.results) > 1)]
    more = len(comparison.results) - _MOST_SEQS
    return "\n".join(lines + ([f"and {more} more sequences"] if more > 0 else []))


def stories(comparison: Comparison) -> list[str]:
    """The history of each run, as lines."""
    lines = []
    for letter, branch in (("A", comparison.a), ("B", comparison.b)):
        lines.append(f"{letter}, {one_line(branch.name)}: {story(branch)}")
        lines += [f"   {words}" for words in changes_words(branch)]
        if not branch.outcome.seqs:
            lines += [f"   {words}" for words in outcome_words(branch.outcome)]
    return lines


def said(comparison: Comparison, *, values: bool = True) -> list[str]:
    """Sentences about both: where they part, and what differs.

    Args:
        values: Whether to look for the first recorded value that differs.
    """
    parted = comparison.parted
    lines = []
    if parted is not None:
        before = f"{parted.tick} steps are" if parted.tick != 1 else "1 step is"
        lines.append(f"They part before {parted}; {before} the same run.")
    lines += [f"{name}: {words or 'the same'}" for name, words in comparison.values]
    if values and comparison.first:
        lines.append(f"{'First difference: ' if comparison.differs else ''}{comparison.first}.")
    return lines


def aligned(result: SequenceResults, named: bool) -> list[str]:
    """The labels of both in two rows, in blocks that fit the terminal's width, with the edits."""
    name = f"sequence {result.seq}" if named else "result"
    a, b = result.a, result.b
    if a is None or b is None:
        return [f"{name}: only in {'A' if b is None else 'B'}: {one_line(' '.join(a or b or ()))}"]
    scores = "".join(f", score {letter} {score:.3f}" for letter, score in zip("AB", result.scores) if score is not None)
    if a == b:
        return [f"{name}: the same{scores}: {one_line(' '.join(a)) or '(empty)'}"]
    if result.edits is None:
        return [f"{name}: {len(a)} labels in A, {len(b)} in B{scores}; too long to be aligned"]
    counts = [f"{result.edits.count(letter)} {word}" for letter, word in _WORDS.items() if letter in result.edits]
    return [f"{name}: {', '.join(counts)}{scores}", *blocks(folded(columns(a, b, result.edits))[:_MOST_LABELS])]


_WORDS = {"s": "substituted", "i": "inserted", "d": "deleted"}


def columns(a: Sequence[str], b: Sequence[str], edits: str) -> list[tuple[str, str, str]]:
    """Triples of the label in A, the label in B and the edit, column by column; "" for a missing label."""
    one, other = iter(a), iter(b)
    return [("" if edit == "i" else next(one, ""), "" if edit == "d" else next(other, ""), edit) for edit in edits]


def folded(cells: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """The columns without the middle of long equal stretches, so that the differences of a long result stay visible."""
    if len(cells) <= _SHORT:
        return list(cells)
    found: list[tuple[str, str, str]] = []
    for same, group in itertools.groupby(cells, lambda cell: cell[2] == "="):
        run = list(group)
        if same and len(run) > 2 * _AROUND + 1:
            words = f"({len(run) - 2 * _AROUND} the same)"
            run = [*run[:_AROUND], (words, words, "="), *run[-_AROUND:]]
        found += run
    return found


def blocks(cells: Sequence[Sequence[str]]) -> list[str]:
    """Columns of labels and edits as lines that fit the terminal's width."""
    lines: list[str] = []
    rows: list[list[str]] = [[], [], []]
    room = 0

    def flush() -> None:
        lines.extend(f"   {name}  {'  '.join(row)}".rstrip() for name, row in zip("AB ", rows))
        for row in rows:
            row.clear()

    for a, b, edit in cells:
        shown = [one_line(text) if edit != gap else "" for text, gap in ((a, "i"), (b, "d"))]
        size = max(1, *map(len, shown))
        if room + size + 2 > _WIDTH - 6 and room:
            flush()
            room = 0
        room += size + 2
        texts = [text or "*" * size for text in shown] + ["" if edit == "=" else edit.upper()]
        for row, text in zip(rows, texts):
            row.append(text.ljust(size))
    if rows[0]:
        flush()
    return [line for line in lines if line.strip()]
