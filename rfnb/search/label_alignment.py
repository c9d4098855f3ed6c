"""An alignment of labels to frames: when each label and word was, and how sure that is.

A row per label and per blank around it: blank, label 1, blank, label 2, ..., blank. With CTC a row has the frames that its
label or blank takes; with a transducer a label has the frame that it is written in, a blank row the frames that are left
after so many labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Span:
    """A stretch of frames.

    Attributes:
        text: A label or a word.
        start, end: The first frame, and the one after the last.
        log_prob: Of its labels in these frames along the best alignment, natural log, summed up.
        frame_shift: Seconds from a frame to the next; None: not known.
    """

    text: str
    start: int
    end: int
    log_prob: float
    frame_shift: float | None = None

    @property
    def start_time(self) -> float | None:
        """In seconds, from the first sample."""
        return None if self.frame_shift is None else self.start * self.frame_shift

    @property
    def end_time(self) -> float | None:
        """In seconds, from the first sample."""
        return None if self.frame_shift is None else self.end * self.frame_shift

    @property
    def times(self) -> tuple[str, str]:
        """Start and end as text: seconds where they are known, else frames."""
        if self.frame_shift is None:
            return str(self.start), str(self.end)
        return seconds(self.start, self.frame_shift), seconds(self.end, self.frame_shift)


def seconds(frame: int, frame_shift: float) -> str:
    """The begin of a frame, in as many digits as tell frames apart."""
    return f"{frame * frame_shift:.{2 if frame_shift >= 0.01 else 3 if frame_shift >= 0.001 else 4}f}"


@dataclass(eq=False)
class LabelAlignment:
    """The best alignment of one sequence of labels, and on request the probability of each label in each frame.

    Attributes:
        name: Of the sequence.
        text: The labels as text.
        labels, words: A Span for each; no words if nothing says where they begin.
        rows: Labels with a blank around each, 2 * labels + 1.
        path: The row of each frame; of a transducer of each step, labels and blanks.
        frames: How many there are.
        log_prob: Of the best alignment, natural log.
        frame_shift: Seconds from a frame to the next; None: not known.
        samples, sampling_rate: The sound, for views; None: not given.
        kind: "CTC" or "transducer".
    """

    name: str
    text: str
    labels: list[Span]
    words: list[Span]
    rows: list[str]
    path: np.ndarray
    frames: int
    log_prob: float
    frame_shift: float | None
    kind: str
    sums: Callable[[], tuple[np.ndarray, float]] = field(repr=False)
    samples: np.ndarray | None = field(default=None, repr=False)
    sampling_rate: float | None = None

    @cached_property
    def _sums(self) -> tuple[np.ndarray, float]:
        return self.sums()

    @property
    def posteriors(self) -> np.ndarray:
        """float32 [row, frame]: the probability of each row in each frame, given all labels; a column of CTC sums to 1."""
        return self._sums[0]

    @property
    def log_prob_of_all(self) -> float:
        """The sum over all alignments of these labels, natural log: minus the loss."""
        return self._sums[1]

    @property
    def best_path(self) -> np.ndarray:
        """float32 [row, frame]: 1 where the best alignment is."""
        out = np.zeros((len(self.rows), self.frames), np.float32)
        frame = np.arange(self.frames)
        if self.kind == "transducer":  # a blank ends a frame, a label does not
            blanks = self.path % 2 == 0
            frame = np.cumsum(blanks) - blanks
        out[self.path, frame] = 1
        return out

    def __repr__(self) -> str:
        spans = self.words or self.labels
        head = ["word" if self.words else "label", "start", "end", "log_prob"]
        if self.frame_shift is not None:
            head[1:3] = ["start (s)", "end (s)"]
        table = [head, *([span.text, *span.times, f"{span.log_prob:.3f}"] for span in spans)]
        widths = [max(map(len, column)) for column in zip(*table)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))])
            for row in table
        ]
        of = f"{self.frames} frames" + ("" if self.frame_shift is None else f" of {self.frame_shift:g} s")
        return "\n".join([f"{self.name}: {self.text!r} in {of}, log_prob {self.log_prob:.3f}", *lines])


class Alignments(list[LabelAlignment]):
    """The alignments of a batch; its text is theirs."""

    def __repr__(self) -> str:
        return "\n\n".join(map(repr, self))


def words_of(labels: Sequence[Span], delimiter: str | None, marker: str | None) -> list[Span]:
    """The spans of words, of labels that a delimiter is between, or that begin with a marker at the begin of a word."""
    groups: list[list[Span]] = []
    begins = True
    for span in labels:
        if span.text == delimiter:
            begins = True
            continue
        if begins or (marker and span.text.startswith(marker)):
            groups.append([])
        groups[-1].append(span)
        begins = False
    words = []
    for group in groups:
        text = "".join(span.text for span in group)
        text = text[len(marker) :] if marker and text.startswith(marker) else text
        if text:
            log_prob = sum(span.log_prob for span in group)
            words.append(Span(text, group[0].start, group[-1].end, log_prob, group[0].frame_shift))
    return words if delimiter or marker else []


def is_alignments(value: Any) -> bool:
    """Whether it is an alignment, or a list of some."""
    return isinstance(value, LabelAlignment) or (
        isinstance(value, (list, tuple)) and bool(value) and all(isinstance(one, LabelAlignment) for one in value)
    )
