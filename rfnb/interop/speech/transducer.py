"""Foreign transducers (RNN-T): their predictor and joiner as a step of our searches, and the lattice of a reference.

This file imports torch, so `import rfnb` imports only `doors.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from rfnb.control.why_not import WhyNot
from rfnb.core.dim import Dim
from rfnb.core.errors import shape_error, type_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.interop.speech.encoder_output import FrameBatch, check_finite, references_for, references_of
from rfnb.interop.speech.label_texts import LabelSet, sampling_rate_of
from rfnb.interop.speech.missed_alignment import transducer_sum, why_not
from rfnb.interop.speech.sound import Sound
from rfnb.ops.const import convert_to_tensor
from rfnb.search.decide import Found, NBest
from rfnb.search.label_alignment import Alignments, LabelAlignment, Span, words_of
from rfnb.search.lattice import transducer_posteriors
from rfnb.search.noted_searches import AlignedSearch, note_search
from rfnb.search.transducer import transducer_beam_search, transducer_greedy_decode
from rfnb.search.transducer_align import frames_of_labels

_CELLS = 1 << 22  # scores computed at once


class TransducerOutput:
    """The frames of an encoder with their predictor and joiner; made by `rf.transducer_output`.

    Attributes:
        encoder: {batch, time, feature}
        labels: The text of each class.
        blank: Index of the blank.
        frame_shift: Seconds between frames; None if unknown.
    """

    def __init__(self, frames: FrameBatch, labels: LabelSet, sound: Sound, parts: TransducerParts, first: int | None):
        self._frames, self._labels, self._sound, self._parts = frames, labels, sound, parts
        self._first = labels.blank if first is None else first
        self._classes = Dim(len(labels.labels), name="vocab", vocab=labels.labels)
        self.encoder, self.labels, self.blank = frames.values, labels.labels, labels.blank
        self.frame_shift = sound.frame_shift

    def __repr__(self) -> str:
        return f"<TransducerOutput: {self._frames.describe()}, {self._labels.describe()}, {self._sound.describe()}>"

    def greedy(self, max_labels_per_frame: int = 10) -> list[Found]:
        """The labels of the alignment that takes the best step each time, for each sequence; its score is that of this alignment."""
        found, scores, time = transducer_greedy_decode(
            self._step(), self.encoder, max_labels_per_frame=max_labels_per_frame, **self._options()
        )
        rows, totals = found.copy_transpose([self._frames.batch, time]).numpy(), scores.numpy()
        sizes = np.broadcast_to(np.asarray(time.get_size_tensor().numpy()), totals.shape)
        return [self._labels.found(row[:size], score) for row, size, score in zip(rows, sizes, totals)]

    def beam_search(self, beam_size: int = 8, max_labels: int | None = None, **options: Any) -> list[NBest]:
        """The best label sequences of each sequence, each scored by the sum over all its alignments that the beam finds, as tables.

        Args:
            max_labels: Maximal number of labels. Default: the number of frames of the longest sequence.
            **options: Options of `rf.transducer_beam_search`: lm, lm_scale, label_bonus, ...
        """
        most = int(self._frames.lengths.max(initial=1)) if max_labels is None else max_labels
        found, scores, time, beam = transducer_beam_search(
            self._step(), self.encoder, beam_size=beam_size, max_labels=most, **self._options(), **options
        )
        note_search(AlignedSearch(self, None, self.blank, beam_size, {**options, "max_labels": max_labels}))
        return self._labels.nbest(found, scores, self._frames.batch, beam, time)

    def align(self, reference: Any, reference_lengths: Any = None) -> Alignments:
        """The best alignment of references: the frame in which each label is emitted, and the lattice of all alignments.

        Args and Raises: See `CtcOutput.align`.
        """
        rows = references_of("align", reference, reference_lengths, self._labels, len(self._frames.lengths))
        made = []
        with torch.no_grad():
            outs = self._predicted(rows)
            raw = self.encoder.raw_tensor
            for seq, (row, length) in enumerate(zip(rows, self._frames.lengths)):
                parts = [
                    _scores(logits, row, self.blank)
                    for logits in self._joined(raw[seq, : int(length)], outs[seq, : len(row) + 1])
                ]
                blank, label = (
                    np.concatenate([part[side] for part in parts]) if parts else np.zeros((0, len(row) + 1 - side))
                    for side in (0, 1)
                )
                made.append(alignment(seq, row, blank, label, self._labels, self._sound))
        return Alignments(made)

    def __rfnb_why_not__(self, expected: Any, seq: int, beam_size: int = 8, **options: Any) -> WhyNot:
        """The answer of `rf.why_not`, for a search with these options."""
        rows = references_for("why_not", expected, seq, self._labels, len(self._frames.lengths))

        def score(values: torch.Tensor, tokens: Sequence[int]) -> torch.Tensor:
            with torch.no_grad():
                outs = self._predicted([np.asarray(tokens, np.int64)])[0]
            count, frames, places = len(values), values.shape[1], len(outs)
            left = values.to(self.encoder.raw_tensor.dtype).reshape(-1, values.shape[-1]).repeat_interleave(places, 0)
            joined = self._parts.join(left, outs.repeat(count * frames, *[1] * (outs.ndim - 1)))
            log_probs = joined.double().log_softmax(-1).reshape(count, frames, places, -1)
            each = torch.tensor([*tokens], dtype=torch.int64, device=values.device).expand(count, frames, -1)[..., None]
            return transducer_sum(log_probs[..., self.blank], log_probs[:, :, : len(tokens)].gather(3, each)[..., 0])

        return why_not(self, self._frames, rows, seq, score, beam_size, options)

    def _predicted(self, rows: Sequence[np.ndarray]) -> torch.Tensor:
        """(batch, labels + 1, ...): the predictor's output after each label."""
        device = self.encoder.raw_tensor.device
        longest = max(map(len, rows), default=0)
        read = np.full((len(rows), longest + 1), self._first, np.int64)
        for own, row in zip(read, rows):
            own[1 : len(row) + 1] = row
        outs, state = [], None
        for labels in torch.as_tensor(read, device=device).T:
            out, state = self._parts.predict(labels, state)
            outs.append(out)
        return torch.stack(outs, 1)

    def _joined(self, frames: torch.Tensor, outs: torch.Tensor) -> Iterator[torch.Tensor]:
        """(frames, labels + 1, classes) for blocks of frames."""
        places = len(outs)
        each = max(1, _CELLS // (places * len(self.labels)))
        for some in frames.split(each) if len(frames) else ():
            left = some.repeat_interleave(places, 0)
            right = outs.repeat(len(some), *[1] * (outs.ndim - 1))
            yield self._parts.join(left, right).reshape(len(some), places, -1)

    def _step(self) -> Any:
        return TransducerStep(self._parts, self._frames.batch, self._classes)

    def _options(self) -> dict[str, Any]:
        shapes = self._parts.shapes
        n, device = len(self._frames.lengths), self.encoder.raw_tensor.device
        begin = [torch.zeros(n, dtype=torch.int32, device=device)]
        begin += [torch.zeros((n, *shape), dtype=dtype, device=device) for shape, dtype in shapes]
        dims = [self._parts.dims(index) for index in range(len(shapes))]
        state = [convert_to_tensor(raw, dims=[self._frames.batch, *rest]) for raw, rest in zip(begin, [[], *dims])]
        return {
            "in_spatial_dim": self._frames.time, "wb_target_dim": self._classes, "blank_index": self.blank,
            "initial_state": state, "initial_label": self._first,
        }  # fmt: skip


class TransducerParts:
    """A predictor and a joiner with a uniform calling convention.

    predict: labels int64 (n,), state or None -> output (n, ...), state; join: frames (n, feature), outputs (n, ...) -> logits (n, classes).

    Attributes:
        shapes: For each tensor in a state, its shape without the axis of hypotheses, and its dtype.
        classes: The number of classes of the joiner.
    """

    def __init__(self, what: str, predictor: Any, joiner: Any, state_axis: int, frame: torch.Tensor):
        self.what, self._axis = what, state_axis
        if joiner is None and not (hasattr(predictor, "predict") and hasattr(predictor, "join")):
            raise type_error(
                f"{what}: there is no joiner.",
                {"predictor": type(predictor).__name__, "joiner": None},
                "A model with the methods predict and join (torchaudio's RNNT) is both; else both are functions or modules.",
                f"rf.{what}(..., predictor=predictor, joiner=joiner)",
            )
        self._predictor, self._joiner = predictor, joiner
        with torch.no_grad():
            for count in (3, 2):  # an axis of n is one that changes with it
                out, state = self.predict(torch.zeros(count, dtype=torch.int64, device=frame.device), None)
                leaves, self.tree = _leaves(state)
                self.shapes = [(self._rest(leaf, count), leaf.dtype) for leaf in leaves]
                logits = self.join(frame.expand(count, -1), out)
                if logits.ndim != 2 or len(logits) != count:
                    raise shape_error(
                        f"{what}: the joiner gives no logits per hypothesis.",
                        {"frames": (count, *frame.shape), "of predictor": tuple(out.shape),
                         "of joiner": tuple(logits.shape)},
                        "Of n frames (n, feature) and n outputs of the predictor it returns logits (n, classes).",
                    )  # fmt: skip
        self.classes = logits.shape[1]
        self._dims = [
            [Dim(size, name=f"state{index}_{axis}") for axis, size in enumerate(shape)]
            for index, (shape, _) in enumerate(self.shapes)
        ]

    def predict(self, labels: torch.Tensor, state: Any) -> tuple[torch.Tensor, Any]:
        """One step of the predictor for n labels."""
        if self._joiner is not None:
            out, state = self._predictor(labels, state)
            return out, state
        ones = torch.ones(len(labels), dtype=torch.int32, device=labels.device)
        out, _, state = self._predictor.predict(labels[:, None], ones, state)
        return out[:, 0], state

    def join(self, frames: torch.Tensor, outs: torch.Tensor) -> torch.Tensor:
        """The logits of n pairs of a frame and an output of the predictor."""
        if self._joiner is not None:
            return self._joiner(frames, outs)
        ones = torch.ones(len(frames), dtype=torch.int32, device=frames.device)
        return self._predictor.join(frames[:, None], ones, outs[:, None], ones)[0][:, 0, 0]

    def packed(self, state: Any, count: int) -> list[torch.Tensor]:
        """The tensors of a state, with the axis of hypotheses first."""
        leaves, tree = _leaves(state)
        shapes = [(self._rest(leaf, count), leaf.dtype) for leaf in leaves]
        if tree != self.tree or shapes != self.shapes:
            raise value_error(
                f"{self.what}: the state of the predictor changes its shape.",
                {"after the first label": _told(self.shapes), "now": _told(shapes)},
                "Hypotheses have labels in different numbers, so a state needs a fixed size: no history that grows.",
            )
        return [leaf.movedim(self._axis, 0) for leaf in leaves]

    def unpacked(self, leaves: Sequence[torch.Tensor]) -> Any:
        """The state from such tensors."""
        if not leaves:
            return None
        return pytree.tree_unflatten([leaf.movedim(0, self._axis).contiguous() for leaf in leaves], self.tree)

    def dims(self, index: int) -> list[Dim]:
        """The dims of a tensor of the state, without the hypotheses."""
        return self._dims[index]

    def _rest(self, leaf: Any, count: int) -> tuple[int, ...]:
        if not isinstance(leaf, torch.Tensor) or leaf.ndim <= self._axis or leaf.shape[self._axis] != count:
            shape = tuple(leaf.shape) if isinstance(leaf, torch.Tensor) else type(leaf).__name__
            raise value_error(
                f"{self.what}: the state of the predictor has no axis of hypotheses.",
                {"hypotheses": count, "in the state": shape, "state_axis": self._axis},
                "The state is nested tensors, each with an axis of n for n labels; of nn.LSTM it is the second one.",
                f"rf.{self.what}(..., state_axis={1 - min(self._axis, 1)})",
            )
        return tuple(leaf.movedim(self._axis, 0).shape[1:])


class TransducerStep:
    """A predictor and a joiner as the step of `rf.transducer_beam_search`; hypotheses without a label have no state."""

    def __init__(self, parts: TransducerParts, batch: Dim, classes: Dim):
        self._parts, self._batch, self._classes = parts, batch, classes

    def __call__(self, frame: Tensor, label: Tensor, state: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        (beam,) = (dim for dim in label.dims if dim is not self._batch)
        pair = (self._batch, beam)
        feature = next(dim for dim in frame.dims if dim not in pair)
        rests = [[], *(self._parts.dims(index) for index in range(len(state) - 1))]

        def flat(x: Tensor, rest: Sequence[Dim]) -> torch.Tensor:
            raw = x.copy_compatible_to_dims_raw((*pair, *rest))
            shape = (self._batch.extent, beam.extent, *raw.shape[2:])
            return raw.expand(shape).reshape(-1, *shape[2:])

        labels, frames = flat(label, []).long(), flat(frame, [feature])
        begun, *leaves = (flat(x, rest) for x, rest in zip(state, rests))
        out, new = self._predicted(labels, begun > 0, leaves)
        logits = self._parts.join(frames, out)

        def tensor(raw: torch.Tensor, rest: Sequence[Dim]) -> Tensor:
            raw = raw.reshape(self._batch.extent, beam.extent, *raw.shape[1:])
            return convert_to_tensor(raw, dims=[*pair, *rest])

        states = [tensor(raw, rest) for raw, rest in zip([torch.ones_like(begun), *new], rests)]
        return tensor(logits, [self._classes]), states

    def _predicted(
        self, labels: torch.Tensor, begun: torch.Tensor, leaves: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The output of the predictor and its next state, for hypotheses at the beginning and those with a state."""
        outs: list[tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]] = []
        for which in (~begun, begun):
            if bool(which.any()):
                (at,) = which.nonzero(as_tuple=True)
                before = None if which is not begun else self._parts.unpacked([leaf[at] for leaf in leaves])
                out, state = self._parts.predict(labels[at], before)
                outs.append((at, out, self._parts.packed(state, len(at))))
        if len(outs) == 1:
            return outs[0][1], outs[0][2]
        order = torch.cat([at for at, _, _ in outs]).argsort()
        together = lambda parts: torch.cat(parts)[order]  # noqa: E731
        return together([out for _, out, _ in outs]), [together(list(own)) for own in zip(*(new for _, _, new in outs))]


def alignment(
    seq: int, row: np.ndarray, blank: np.ndarray, label: np.ndarray, labels: LabelSet, sound: Sound
) -> LabelAlignment:
    """The alignment of a reference, from log probabilities of the blank (frames, labels + 1) and of the next label (frames, labels).

    Raises:
        ValueError: If no alignment has a probability above 0.
    """
    frames, score = frames_of_labels(blank, label)
    if score == -np.inf:
        raise value_error(
            f"align: reference {seq} has no alignment with a probability above 0.",
            {"frames": len(blank), "labels": len(row)},
            "Labels need a frame in which they are emitted, and finite logits. Are the lengths those of the encoder?",
        )
    texts = [labels.labels[index] for index in row]
    shift = sound.frame_shift
    spans = [
        Span(text, int(frame), int(frame) + 1, float(label[frame, place]), shift)
        for place, (text, frame) in enumerate(zip(texts, frames))
    ]
    path: list[int] = []
    for frame in range(len(blank)):
        path += (2 * np.flatnonzero(frames == frame) + 1).tolist()
        path.append(2 * int((frames <= frame).sum()))
    between = labels.labels[labels.blank]
    return LabelAlignment(
        f"sequence {seq}", labels.text(row.tolist()), spans, words_of(spans, labels.delimiter, labels.marker),
        [between, *(text for one in texts for text in (one, between))], np.array(path, np.int64), len(blank), score, shift,
        "transducer", lambda: transducer_posteriors(blank, label), sound.of(seq), sound.rate,
    )  # fmt: skip


def lattice(
    logits: Any, reference: Any, lengths: Any, reference_lengths: Any, vocab: Any, blank: int | str | None,
    samples: Any, sampling_rate: float | None, frame_shift: float | None, word_delimiter: str | None,
) -> Alignments:  # fmt: skip
    """See `rf.transducer_lattice`."""
    what = "transducer_lattice"
    raw = logits if isinstance(logits, torch.Tensor) else torch.as_tensor(np.asarray(logits), device="cpu")
    if raw.ndim == 3:
        raw = raw[None]
    if raw.ndim != 4 or not raw.is_floating_point():
        raise shape_error(
            f"{what}: these are not logits of a lattice.",
            {"logits": f"{tuple(raw.shape)} {raw.dtype}"},
            "They are floats (batch, time, labels + 1, vocab), as rnnt_loss takes them; of one sequence without the batch.",
        )
    count, frames, places, classes = raw.shape
    merged = FrameBatch.of(
        what, raw.detach().reshape(count, frames, -1), lengths, "batch time vocab", "vocab", "logits"
    )
    check_finite(what, merged)
    rate = sampling_rate_of(vocab) if sampling_rate is None else float(sampling_rate)
    labels = LabelSet.of(what, vocab, classes, blank, None, word_delimiter)
    sound = Sound(what, samples, rate, frame_shift, None, merged.lengths)
    rows = references_of(what, reference, reference_lengths, labels, count)
    longest = max(rows, key=len, default=np.zeros(0))
    if len(longest) >= places:
        raise value_error(
            f"{what}: a reference has more labels than the lattice.",
            {
                "logits": f"{tuple(raw.shape)}: {places - 1} label{'s' * (places != 2)}",
                "longest": f"{len(longest)} labels",
            },
            "The third axis counts how many labels have been written, from 0 on.",
        )
    made = []
    for seq, (row, length) in enumerate(zip(rows, merged.lengths)):
        own = raw[seq, : int(length), : len(row) + 1].detach()
        blank_scores, label_scores = _scores(own, row, labels.blank)
        made.append(alignment(seq, row, blank_scores, label_scores, labels, sound))
    return Alignments(made)


def make(
    encoder: Any, lengths: Any, predictor: Any, joiner: Any, vocab: Any, blank: int | str | None, layout: str, state_axis: int,
    initial_label: int | None, samples: Any, sampling_rate: float | None, frame_shift: float | None, word_delimiter: str | None,
) -> TransducerOutput:  # fmt: skip
    """See `rf.transducer_output`."""
    what = "transducer_output"
    frames = FrameBatch.of(what, encoder, lengths, layout, "feature", "frames of the encoder")
    check_finite(what, frames, "frames of the encoder")
    raw = frames.values.raw_tensor
    parts = TransducerParts(what, predictor, joiner, state_axis, raw.detach().new_zeros(raw.shape[2]))
    labels = LabelSet.of(what, vocab, parts.classes, blank, None, word_delimiter)
    rate = sampling_rate_of(vocab) if sampling_rate is None else float(sampling_rate)
    sound = Sound(what, samples, rate, frame_shift, None, frames.lengths)
    return TransducerOutput(frames, labels, sound, parts, initial_label)


def _scores(logits: torch.Tensor, row: np.ndarray, blank: int) -> tuple[np.ndarray, np.ndarray]:
    """Log probabilities, float64, of the blank (frames, labels + 1) and of the next label (frames, labels)."""
    log_probs = logits.double().log_softmax(-1).cpu().numpy()
    return log_probs[:, :, blank], log_probs[:, np.arange(len(row)), row]


def _leaves(state: Any) -> tuple[list[Any], Any]:
    """The tensors of a state, and their nesting; None is not a tensor."""
    return pytree.tree_flatten([] if state is None else state)


def _told(shapes: Sequence[tuple[tuple[int, ...], torch.dtype]]) -> str:
    return ", ".join(f"{shape} {str(dtype).removeprefix('torch.')}" for shape, dtype in shapes) or "nothing"
