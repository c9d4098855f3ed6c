"""Alignments of labels to frames: the time of each label and word, and how certain it is.

There is a row per label and per blank around it: blank, label 1, blank, label 2, ..., blank. With CTC a row contains the frames that its
label or blank occupies; with a transducer, a label row contains the frame in which the label is emitted, and a blank row the frames
consumed after that many labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from rfnb.core.tensor_text import table_lines


@dataclass(frozen=True)
class Span:
    """A range of frames.

    Attributes:
        text: A label or a word.
        start, end: The first frame, and the frame after the last.
        log_prob: Natural-log probability of its labels in these frames along the best alignment, summed.
        frame_shift: Seconds from one frame to the next; None if unknown.
    """

    text: str
    start: int
    end: int
    log_prob: float
    frame_shift: float | None = None

    @property
    def start_time(self) -> float | None:
        """Start in seconds from the first sample."""
        return None if self.frame_shift is None else self.start * self.frame_shift

    @property
    def end_time(self) -> float | None:
        """End in seconds from the first sample."""
        return None if self.frame_shift is None else self.end * self.frame_shift

    @property
    def times(self) -> tuple[str, str]:
        """Start and end as text: in seconds if known, else in frames."""
        if self.frame_shift is None:
            return str(self.start), str(self.end)
        return seconds(self.start, self.frame_shift), seconds(self.end, self.frame_shift)


def seconds(frame: int, frame_shift: float) -> str:
    """The start of a frame, with as many digits as are needed to distinguish frames."""
    return f"{frame * frame_shift:.{2 if frame_shift >= 0.01 else 3 if frame_shift >= 0.001 else 4}f}"


@dataclass(eq=False)
class LabelAlignment:
    """The best alignment of one label sequence, and on request the probability of each label in each frame.

    Attributes:
        name: Name of the sequence.
        text: The labels as text.
        labels, words: A Span for each; no words if word boundaries are unknown.
        rows: Labels with a blank around each, 2 * labels + 1.
        path: The row of each frame; for a transducer, of each step, labels and blanks.
        frames: Number of frames.
        log_prob: Natural-log probability of the best alignment.
        frame_shift: Seconds from one frame to the next; None if unknown.
        samples, sampling_rate: The audio, for views; None if not given.
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
        """float32 [row, frame]: the probability of each row in each frame given all labels; for CTC each column sums to 1."""
        return self._sums[0]

    @property
    def log_prob_of_all(self) -> float:
        """The log of the sum over all alignments of these labels: the negative loss."""
        return self._sums[1]

    @property
    def best_path(self) -> np.ndarray:
        """float32 [row, frame]: 1 on the best alignment."""
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
        of = f"{self.frames} frames" + ("" if self.frame_shift is None else f" of {self.frame_shift:g} s")
        return "\n".join(
            [f"{self.name}: {self.text!r} in {of}, log_prob {self.log_prob:.3f}", *table_lines(table, range(1, 4))]
        )


class Alignments(list[LabelAlignment]):
    """The alignments of a batch; as text, the texts of all."""

    def __repr__(self) -> str:
        return "\n\n".join(map(repr, self))


def words_of(labels: Sequence[Span], delimiter: str | None, marker: str | None) -> list[Span]:
    """The spans of words, for labels separated by a delimiter or words that start with a marker."""
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
    """True for an alignment or a list of alignments."""
    return isinstance(value, LabelAlignment) or (
        isinstance(value, (list, tuple)) and bool(value) and all(isinstance(one, LabelAlignment) for one in value)
    )
