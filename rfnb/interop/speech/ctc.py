"""The output of a foreign CTC model: search, alignment and views.

    ctc = rf.ctc_output(model(**inputs).logits, vocab=processor, config=model.config, samples=audio)   # transformers
    ctc = rf.ctc_output(emissions, lengths, vocab=bundle, samples=waveform)                            # torchaudio
    ctc.greedy(), ctc.beam_search(beam_size=8), ctc.loss(["HELLO WORLD"])
    rf.show(ctc.align(["HELLO WORLD"]))

This file and its neighbours import torch, so `import rfnb` imports only `doors.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rfnb.control.why_not import WhyNot
from rfnb.core.dim import Dim, ragged_dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.interop.speech.encoder_output import FrameBatch, check_scores, references_for, references_of
from rfnb.interop.speech.label_texts import LabelSet, sampling_rate_of
from rfnb.interop.speech.missed_alignment import why_not
from rfnb.interop.speech.sound import Sound, frame_lengths
from rfnb.ops.const import convert_to_tensor
from rfnb.ops.ctc import ctc_best_path, ctc_loss
from rfnb.ops.gradient import stop_gradient
from rfnb.search.ctc_prefix import ctc_prefix_beam_search
from rfnb.search.decide import NBest
from rfnb.search.label_alignment import Alignments, LabelAlignment, Span, words_of
from rfnb.search.lattice import ctc_posteriors
from rfnb.search.noted_searches import AlignedSearch, note_search


class CtcOutput:
    """Logits of a CTC model with their metadata; made by `rf.ctc_output`.

    Attributes:
        logits: {batch, time, vocab}, the given ones, including their gradient.
        labels: The text of each class.
        blank: Index of the blank.
        frame_shift: Seconds between frames; None if unknown.
        sampling_rate: Samples per second; None if unknown.
    """

    def __init__(self, frames: FrameBatch, labels: LabelSet, sound: Sound):
        self._frames, self._labels, self._sound = frames, labels, sound
        self.logits, self.labels, self.blank = frames.values, labels.labels, labels.blank
        self.frame_shift, self.sampling_rate = sound.frame_shift, sound.rate

    def __repr__(self) -> str:
        return f"<CtcOutput: {self._frames.describe()}, {self._labels.describe()}, {self._sound.describe()}>"

    def greedy(self) -> Alignments:
        """The best label of each frame, repetitions merged and blanks dropped, with the frames of each label and word."""
        scores = self._log_probs()
        return Alignments(self._alignment(seq, own, own.argmax(-1)) for seq, own in enumerate(scores))

    def beam_search(self, beam_size: int = 8, **options: Any) -> list[NBest]:
        """The best label sequences of each sequence, each scored by the sum over all its alignments, as tables.

        Args:
            **options: Options of `rf.ctc_prefix_beam_search`: lm, lm_scale, label_bonus, ...
        """
        found, scores, time, beam = ctc_prefix_beam_search(
            self.logits, in_spatial_dim=self._frames.time, blank_index=self.blank, beam_size=beam_size, **options
        )
        note_search(AlignedSearch(self, None, self.blank, beam_size, options))
        return self._labels.nbest(found, scores, self._frames.batch, beam, time)

    def align(self, reference: Any, reference_lengths: Any = None) -> Alignments:
        """The best alignment of references to the frames (Viterbi), with the frames of each label and word.

        Args:
            reference: For each sequence a text, a list of labels or indices, or a line of an n-best list; or an array
                of indices with one row each, padded with negative numbers or with lengths; or all concatenated, with
                lengths, as in `nn.CTCLoss`.
            reference_lengths: Number of labels of each.

        Raises:
            ValueError: If a reference contains the blank or an unknown label, or has no alignment to the frames.
            IndexError: If an index is not a class.
        """
        rows = references_of("align", reference, reference_lengths, self._labels, len(self._frames.lengths))
        self._check_possible("align", rows)
        path = ctc_best_path(logits=stop_gradient(self.logits), **self._targets(rows))
        paths = path.copy_transpose([self._frames.batch, self._frames.time]).numpy()
        made = []
        for seq, (own, row) in enumerate(zip(self._log_probs(), rows)):
            one = self._alignment(seq, own, paths[seq, : len(own)])
            if len(one.labels) < len(row) or one.log_prob == -np.inf:  # without an alignment, the path is all blanks
                raise value_error(
                    f"align: reference {seq} has no alignment with a probability above 0.",
                    {
                        "frames": len(own),
                        "labels": len(row),
                        "logits": "minus infinity for a label in each alignment",
                    },
                    "Every label needs a frame in which its logit is a number.",
                )
            made.append(one)
        return Alignments(made)

    def loss(self, reference: Any, reference_lengths: Any = None) -> Tensor:
        """-log of the total probability of all alignments of each reference, in nats: {batch}, with its gradient.

        The same as `torch.nn.functional.ctc_loss(..., reduction="none")` of a log_softmax of the logits.

        Args and Raises: See `align`.
        """
        rows = references_of("loss", reference, reference_lengths, self._labels, len(self._frames.lengths))
        self._check_possible("loss", rows)
        return ctc_loss(logits=self.logits, **self._targets(rows))

    def __rfnb_why_not__(self, expected: Any, seq: int, beam_size: int = 8, **options: Any) -> WhyNot:
        """The answer of `rf.why_not`, for a search with these options."""
        rows = references_for("why_not", expected, seq, self._labels, len(self._frames.lengths))
        self._check_possible("why_not", rows)

        def score(values: torch.Tensor, tokens: Sequence[int]) -> torch.Tensor:
            log_probs = values.double().log_softmax(-1).transpose(0, 1)
            count, frames = len(values), torch.full((len(values),), values.shape[1], device=values.device)
            targets = torch.tensor([[*tokens]] * count, dtype=torch.int64, device=values.device).reshape(
                count, len(tokens)
            )
            sizes = torch.full((count,), len(tokens), device=values.device)
            return -torch.nn.functional.ctc_loss(log_probs, targets, frames, sizes, self.blank, reduction="none")

        return why_not(self, self._frames, rows, seq, score, beam_size, options)

    def _log_probs(self) -> list[np.ndarray]:
        """float64 (frames, classes) of each sequence."""
        raw = self.logits.raw_tensor.detach().double().log_softmax(-1).cpu().numpy()
        return [own[:length] for own, length in zip(raw, self._frames.lengths)]

    def _targets(self, rows: Sequence[np.ndarray]) -> dict[str, Any]:
        """References as arguments of `ctc_loss`."""
        time = ragged_dim([len(row) for row in rows], over=self._frames.batch, name="labels")
        padded = np.full((len(rows), max(map(len, rows), default=0)), (self.blank + 1) % len(self.labels), np.int64)
        for row, own in zip(padded, rows):
            row[: len(own)] = own
        raw = torch.as_tensor(padded, device=self.logits.raw_tensor.device)
        targets = convert_to_tensor(raw, dims=[self._frames.batch, time], sparse_dim=self._frames.feature)
        given = {"input_spatial_dim": self._frames.time, "targets_spatial_dim": time, "blank_index": self.blank}
        return {"targets": targets, **given}

    def _check_possible(self, what: str, rows: Sequence[np.ndarray]) -> None:
        for seq, (row, frames) in enumerate(zip(rows, self._frames.lengths)):
            between = int((row[1:] == row[:-1]).sum())
            if len(row) + between > frames:
                blanks = f" and {between} blank{'s' * (between > 1)} between equal ones" if between else ""
                raise value_error(
                    f"{what}: reference {seq} has no alignment to its frames.",
                    {"frames": int(frames), "needed": f"{len(row) + between}: {len(row)} labels{blanks}",
                     "reference": repr(self._labels.text(row.tolist()))[:60]},
                    "Each label takes a frame or more, and a blank is between equal ones. Are the lengths those of the output?",
                    "rf.ctc_output(logits, lengths, ...)",
                )  # fmt: skip

    def _alignment(self, seq: int, scores: np.ndarray, path: np.ndarray) -> LabelAlignment:
        """The alignment for a path, the class of each frame."""
        starts = (path != np.concatenate([[self.blank], path[:-1]])) & (path != self.blank)
        ids = path[starts]
        rows = np.cumsum(starts) * 2 - (path != self.blank)
        each = scores[np.arange(len(path)), path]
        labels = []
        for place, index in enumerate(ids):
            (frames,) = np.nonzero(rows == 2 * place + 1)
            span = (self.labels[index], int(frames[0]), int(frames[-1]) + 1, float(each[frames].sum()))
            labels.append(Span(*span, self.frame_shift))
        blank = self.labels[self.blank]
        return LabelAlignment(
            f"sequence {seq}", self._labels.text(ids.tolist()), labels, words_of(labels, self._labels.delimiter, self._labels.marker),
            [blank, *(text for span in labels for text in (span.text, blank))], rows, len(path), float(each.sum()), self.frame_shift,
            "CTC", lambda: ctc_posteriors(scores, ids, self.blank), self._sound.of(seq), self.sampling_rate,
        )  # fmt: skip


def make(
    logits: Any,
    lengths: Any,
    vocab: Any,
    blank: int | str | None,
    layout: str,
    config: Any,
    samples: Any,
    sampling_rate: float | None,
    frame_shift: float | None,
    word_delimiter: str | None,
) -> CtcOutput:
    """See `rf.ctc_output`."""
    what = "ctc_output"
    rate = sampling_rate_of(vocab) if sampling_rate is None else float(sampling_rate)
    if not isinstance(logits, Tensor):
        count = (
            1
            if np.ndim(logits) == 2
            else np.shape(logits)[layout.split().index("batch")]
            if "batch" in layout.split()
            else 0
        )
        lengths = frame_lengths(what, lengths, samples, config, int(count))
    frames = FrameBatch.of(what, logits, lengths, layout, "vocab", "logits")
    check_scores(what, frames)
    labels = LabelSet.of(what, vocab, frames.feature.extent, blank, config, word_delimiter)
    named = Dim(frames.feature.extent, name="vocab", vocab=labels.labels)
    values = convert_to_tensor(frames.values.raw_tensor, dims=[frames.batch, frames.time, named], feature_dim=named)
    sound = Sound(what, samples, rate, frame_shift, config, frames.lengths)
    return CtcOutput(FrameBatch(values, frames.batch, frames.time, frames.lengths), labels, sound)
