"""Search with a transducer (RNN-T): in each step a hypothesis consumes a frame (blank) or emits a label.

    def step(frame, label, state):                       # one step of the decoder; rfnb gives frame, label and state per hypothesis
        out, state = lstm(embedding(label), state=state, spatial_dim=rf.single_step_dim)
        return joint(frame, out), state

    labels, scores, labels_dim, beam = rf.transducer_beam_search(
        step, encoder, in_spatial_dim=time, initial_state=..., blank_index=0, beam_size=8, max_labels=30)

All hypotheses have taken the same number of steps, each at its own frame. So two hypotheses with the same labels are at the same frame,
and are merged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error, value_error
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.core.tree import leaves, map_nested, values_in
from rfnb.lm.ngram import NGramLM
from rfnb.ops.cast import cast
from rfnb.ops.ctc import blank_of
from rfnb.ops.expand import expand_dim
from rfnb.ops.gather import gather
from rfnb.ops.gradient import stop_gradient_scope
from rfnb.ops.sequence_pairs import flat_batch, flat_lengths, volume
from rfnb.ops.softmax import log_softmax
from rfnb.ops.where import where
from rfnb.rec.selection import pick
from rfnb.search.ctc_prefix import check_alignment_sums, check_beam_size, output_labels
from rfnb.search.fused_lm import FusedLM
from rfnb.search.label_rules import AllowedPrefixes, LabelRules
from rfnb.search.noted_searches import AlignedSearch, note_search
from rfnb.search.prefix_beam import NEVER, PrefixStep
from rfnb.search.prefix_events import Report
from rfnb.search.prefix_parts import PrefixSearch
from rfnb.trace.probe import listening, trace_context

StepFn = Callable[[Tensor, Tensor, Any], tuple[Tensor, Any]]


def transducer_beam_search(
    step: StepFn,
    encoder: Tensor,
    *,
    in_spatial_dim: Dim,
    wb_target_dim: Dim,
    blank_index: int,
    beam_size: int,
    max_labels: int,
    initial_state: Any = None,
    initial_label: int | None = None,
    logits_normalized: bool = False,
    lm: NGramLM | None = None,
    lm_scale: float = 1.0,
    lm_end: bool = True,
    label_bonus: float = 0.0,
    allowed: Any = None,
    out_spatial_dim: Dim | None = None,
    target_dim: Dim | None = None,
    keep_candidates: int | None = None,
    name: str = "transducer",
) -> tuple[Tensor, Tensor, Dim, Dim]:
    """The best label sequences, each scored by the sum over all its alignments that a beam of prefixes finds.

    A label sequence has the score log(sum of its alignments) + lm_scale * log p_lm + label_bonus * labels. With a beam that holds all
    prefixes of up to max_labels the sum is complete. The result has no gradient.

    Args:
        step: (frame {..., beam, *rest of encoder}, label {..., beam}, state) -> (scores {..., beam, wb_target_dim}, next state). The
            label is the last one emitted, the state the one before it was read; after a blank a hypothesis passes the same two again.
        encoder: {..., in_spatial_dim, *rest}; the batch dims are the dims of the lengths, or without lengths all but the
            feature_dim.
        wb_target_dim: The dim of the labels, including the blank.
        blank_index: Index of the blank; negative values count from the end.
        beam_size: Number of hypotheses kept in each step.
        max_labels: Limit of labels per sequence.
        initial_state: The state before the first label: any nested structure of Tensors of a fixed size, {...} without beam.
        initial_label: The label passed to `step` before the first one. Default: the blank, or label 0 if target_dim has none.
        logits_normalized: The scores are log probabilities already.
        lm: A language model over the classes, or over the classes without the blank in the same order.
        lm_scale: Factor on its natural-log probabilities.
        lm_end: Whether the end of the sentence is scored too, after the last frame.
        label_bonus: Added per label.
        allowed: The rule for labels, as in `choice`; labels are those of the result, without blank and end.
        out_spatial_dim: The dim of the result's labels in time. Default: a new dim.
        target_dim: The sparse dim of the result and of the label passed to `step`. Default: wb_target_dim. Without the blank it has
            one class less.
        keep_candidates: How many candidates of a step to keep in a trace. Default: twice the beam and at least 8.
        name: Name of this search in traces.

    Returns:
        Labels int64 {..., beam, out_spatial_dim}; scores float32 {..., beam}, natural log, best first, -inf where there are fewer
        hypotheses than beam_size; out_spatial_dim, ragged over the batch dims and the beam; the beam dim.

    Raises:
        DimError: If encoder or scores lack a dim, or target_dim or the labels of lm do not fit the classes.
        IndexError: If blank_index is out of range.
        ValueError: If no allowed hypothesis has ended; for a beam size below 1, scores with NaN, or a state that contains Dims.

    Probes:
        beams: one event per step, of a loop `name`; as in `ctc_prefix_beam_search`, but a step is not a frame: the frame of a
            hypothesis is the number of its blanks.

    Source: Graves 2012, "Sequence Transduction with Recurrent Neural Networks", section 2; Saon et al. 2020, "Alignment-Length
    Synchronous Decoding for RNN Transducer", algorithm 2.
    """
    what = "transducer_beam_search"
    check_beam_size(what, beam_size)
    search = _TransducerSearch(
        what, encoder, in_spatial_dim, wb_target_dim, blank_index, beam_size, target_dim, max_labels, name
    )
    search.begin(initial_state, initial_label, logits_normalized)
    search.fuse(lm, lm_scale, label_bonus)
    search.scores_end = lm_end
    if allowed is not None:
        rule = LabelRules(allowed, search.labels.extent, None, None, what)
        search.rule = AllowedPrefixes(rule, search.blank, search.classes.extent, search.frame.shape)
    count = max(beam_size, max(2 * beam_size, 8) if keep_candidates is None else keep_candidates)
    with stop_gradient_scope():
        while search.goes_on():
            search.advance(step, count)
    scores, order = search.finish(lm_end)
    note_search(AlignedSearch(step, None, search.blank, beam_size, {}))
    return (*search.report.result(search.steps, order, scores, out_spatial_dim, search.labels), search.beam)


def transducer_greedy_decode(
    step: StepFn,
    encoder: Tensor,
    *,
    in_spatial_dim: Dim,
    wb_target_dim: Dim,
    blank_index: int,
    max_labels: int | None = None,
    max_labels_per_frame: int | None = 10,
    initial_state: Any = None,
    initial_label: int | None = None,
    logits_normalized: bool = False,
    out_spatial_dim: Dim | None = None,
    target_dim: Dim | None = None,
    name: str = "transducer",
) -> tuple[Tensor, Tensor, Dim]:
    """The labels of the alignment that takes the best class in each step.

    Args:
        max_labels: Limit of labels per sequence. Default: no limit.
        max_labels_per_frame: After this many labels in one frame a blank is taken, whatever its score. None: no limit.
        step, encoder and others: As in `transducer_beam_search`; the beam has one hypothesis.

    Returns:
        Labels int64 {..., out_spatial_dim}; score of the alignment float32 {...}, natural log; out_spatial_dim, ragged over the
        batch dims.

    Raises:
        DimError, IndexError: As in `transducer_beam_search`.
        ValueError: Scores with NaN, a state that has Dims, or neither limit.

    Probes:
        beams: as in `transducer_beam_search`.

    Source: Graves 2012, "Sequence Transduction with Recurrent Neural Networks", section 2.
    """
    what = "transducer_greedy_decode"
    if max_labels is None and max_labels_per_frame is None:
        raise value_error(
            f"{what}: no limit of labels.",
            {"max_labels": None, "max_labels_per_frame": None},
            "A model may write labels for ever.",
            f"rf.{what}(..., max_labels_per_frame=10)",
        )
    if max_labels is None:
        max_labels = in_spatial_dim.extent * (max_labels_per_frame or 0)
    search = _TransducerSearch(
        what, encoder, in_spatial_dim, wb_target_dim, blank_index, 1, target_dim, max_labels, name
    )
    search.begin(initial_state, initial_label, logits_normalized)
    search.fuse(None, 0.0, 0.0)
    search.max_per_frame = max_labels_per_frame
    with stop_gradient_scope():
        while search.goes_on():
            search.advance(step, 8)
    scores, order = search.finish(False)
    return search.report.result(search.steps, order, scores, out_spatial_dim, search.labels, beam=False)


class _TransducerSearch(PrefixSearch):
    """The hypotheses of a transducer, all after the same number of steps."""

    max_per_frame: int | None = None
    scores_end = False
    _given: Tensor | None = None  # the last scores of the model

    def __init__(
        self, what: str, encoder: Tensor, time: Dim, classes: Dim, blank_index: int, beam_size: int, target_dim: Dim | None,
        max_labels: int, name: str,
    ):  # fmt: skip
        check_dim(what, encoder, time, "encoder")
        self.what, self.name, self.time, self.classes = what, name, time, classes
        self.encoder = encoder.copy_masked(0)  # a sequence without frames is at frame 0, too
        self.blank = blank_of(what, classes, blank_index)
        self.labels = output_labels(what, target_dim, classes, self.blank)
        self.batch: Dims = time.length_dims or tuple(d for d in encoder.dims if d not in (time, encoder.feature_dim))
        self.lengths = flat_lengths(what, time, self.batch)[:, None]
        self.beam = Dim(beam_size, name="beam", kind="beam")
        self._twin = self.beam.copy(match_priority=1)
        super().__init__(volume(self.batch), beam_size, self.blank)
        self.report = Report(encoder, self.batch, classes, self.beam, self.blank)
        shape = self.prefixes.last.shape
        self.frame, self.count = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self.in_frame, self.max_labels = np.zeros(shape, np.int64), max_labels

    def begin(self, state: Any, label: int | None, normalized: bool) -> None:
        """Set the state of all hypotheses before the first step."""
        if any(isinstance(leaf, Dim) for leaf in values_in(state)):
            raise value_error(
                f"{self.what}: the state has a Dim.",
                {"state": ", ".join(path for path, _ in leaves(state))},
                "Hypotheses have labels in different numbers, so a state needs a fixed size: no growing history.",
            )
        self.normalized = normalized
        self.first_label = int(self._shifted(np.array(self.blank))) if label is None else label
        self.state = map_nested(
            lambda x: x if not isinstance(x, Tensor) or self.beam in x.dims else expand_dim(x, self.beam), state
        )

    def fuse(self, lm: NGramLM | None, scale: float, bonus: float) -> None:
        """Add an n-gram model and a bonus per label."""
        self.fuses = lm is not None or bonus != 0
        self.lm = FusedLM(self.what, lm, scale, bonus, self.classes, self.blank, self.prefixes.last.shape)

    def goes_on(self) -> bool:
        """True if a hypothesis has frames left."""
        return bool(((self.frame < self.lengths) & (self.prefixes.scores > NEVER)).any())

    def advance(self, step: StepFn, num_candidates: int) -> None:
        """Let every hypothesis consume a frame or emit a label."""
        index = len(self.steps)
        if not listening():
            self._advance(step, 0)
            return
        with trace_context.loop(self.name, index):
            self._advance(step, num_candidates)
            ended = self.frame >= self.lengths
            self.steps[-1].parts.update(self.lm.end_parts(ended) if self.scores_end else {})
            self.report.step(self.name, self.steps[-1], ended, self.rule)

    def finish(self, lm_end: bool) -> tuple[np.ndarray, np.ndarray]:
        """The scores of the hypotheses, best first, and their slots."""
        if self.normalized and not self.fuses and self._given is not None:
            check_alignment_sums(self.what, self.prefixes.scores, len(self.steps), self._given)
        return super().finish(lm_end)

    def _advance(self, step: StepFn, num_candidates: int) -> None:
        tensor = self.report.tensor
        place = tensor(
            np.minimum(self.frame, np.maximum(self.lengths - 1, 0)), self.beam, dtype="int64", sparse_dim=self.time
        )
        written = np.where(self.prefixes.last == self.blank, self.first_label, self._shifted(self.prefixes.last))
        label = tensor(written, self.beam, dtype="int64", sparse_dim=self.labels)
        out, state = step(gather(self.encoder, indices=place, axis=self.time), label, self.state)
        frame = self._log_probs(out)
        scores = np.add(self.total[:, :, None], frame, order="C")  # its flat view is written to
        flat, pairs = scores.reshape(-1), self.prefixes.pairs()
        child, parent, last = pairs
        at = parent * self.classes.extent + last
        own = flat[at]
        stays = scores[:, :, self.blank].reshape(-1)
        stays[child] = np.logaddexp(stays[child], own)
        scores[:, :, self.blank] = stays.reshape(self.total.shape)
        flat[at] = NEVER
        allowed = None
        if self.rule is not None:
            left, ended = self.max_labels - self.count, self.frame >= self.lengths
            after_blank = np.where(self.frame + 1 < self.lengths, left, 0)
            allowed = self.rule.rows(left, after_blank, (self.prefixes.scores > NEVER) & ~ended)
        done, rows, grown = self.choose(frame, scores, pairs, own, allowed, num_candidates)
        frame_before, ended = self.frame.take(rows), (self.frame >= self.lengths).take(rows)
        self.frame = frame_before + (~grown & ~ended)
        self.count = self.count.take(rows) + grown
        self.in_frame = np.where(grown, self.in_frame.take(rows) + 1, 0)
        self._follow(state, done, grown)

    def _follow(self, new: Any, done: PrefixStep, grown: np.ndarray) -> None:
        """Update the states of the chosen hypotheses: the new state where a label was emitted."""
        twin = self._twin
        parents = self.report.tensor(done.parents, self.beam, dtype="int64")
        parents = new_tensor(parents._raw, (*self.batch, twin))
        has_grown = self.report.tensor(grown, self.beam, dtype="bool")

        def follow(after: Any, before: Any) -> Any:
            if not isinstance(after, Tensor):
                return after
            if self.beam not in after.dims:
                after = expand_dim(after, self.beam)
            after, before = (pick(x, parents, self.beam, twin) for x in (after, before))
            return where(has_grown, after, before, allow_broadcast_all_sources=True)

        self.state = map_nested(follow, new, self.state)

    def _log_probs(self, out: Tensor) -> np.ndarray:
        """float64 [batch, beam, classes]; ended hypotheses stay unchanged, those at a limit take the blank."""
        check_dim(self.what, out, self.classes, "scores of step")
        further = [dim for dim in out.dims if dim not in (*self.batch, self.beam, self.classes)]
        if further:
            raise dim_error(
                f"{self.what}: the scores of step have a further dim.",
                {"scores": out, "further": ", ".join(dim.short_repr() for dim in further)},
                "They are over the batch dims, the beam and the classes.",
            )
        self._given = out
        out = cast(out, "float32")
        if not self.normalized:
            out = log_softmax(out, axis=self.classes)
        raw = flat_batch(out, (*self.batch, self.beam), (self.classes,))
        shape = (*self.prefixes.last.shape, self.classes.extent)
        values = out.backend.raw_to_numpy(raw).reshape(shape).astype(np.float64, order="C")
        ended, live = self.frame >= self.lengths, self.prefixes.scores > NEVER
        bad = np.isnan(values).any(2) & ~ended & live
        if bad.any():
            seq, slot = np.argwhere(bad)[0]
            raise value_error(
                f"{self.what}, step {len(self.steps)}: the scores contain NaN.",
                {
                    "scores": out,
                    "first": f"sequence {seq}, hypothesis {slot}, frame {self.frame[seq, slot]}",
                },
                "A NaN cannot be ranked. Find the first op that makes one, e.g. a log of 0 or a division by 0.",
            )
        full = self.count >= self.max_labels
        if self.max_per_frame is not None:
            full = full | (self.in_frame >= self.max_per_frame)
        of_blank = np.where(ended, 0.0, values[:, :, self.blank])
        values[ended | full | ~live] = NEVER
        values[:, :, self.blank] = np.where(live, of_blank, NEVER)
        return values

    def _shifted(self, tokens: np.ndarray) -> np.ndarray:
        """Classes as labels of target_dim."""
        if self.labels.extent == self.classes.extent:
            return tokens
        return np.clip(tokens - (tokens > self.blank), 0, max(self.labels.extent - 1, 0))
