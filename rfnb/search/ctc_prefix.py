"""CTC prefix beam search: finds the labels whose alignments have the highest total probability.

    labels, scores, labels_dim, beam = rf.ctc_prefix_beam_search(
        logits, in_spatial_dim=time, blank_index=-1, beam_size=12, lm=rf.NGramLM("words.arpa", phones), lm_scale=0.5
    )

It runs on the host, which reads the logits once: the steps are small, and control flow depends on values.
"""

from __future__ import annotations

from typing import Any, Never

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, value_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.lm.ngram import NGramLM
from rfnb.ops.cast import cast
from rfnb.ops.ctc import blank_of
from rfnb.ops.operands import need_tensors
from rfnb.ops.sequence_pairs import flat_batch, flat_lengths
from rfnb.ops.softmax import log_softmax
from rfnb.search.ctc_prefix_tree import pays, search_each
from rfnb.search.fused_lm import FusedLM
from rfnb.search.label_rules import AllowedPrefixes, LabelRules
from rfnb.search.noted_searches import AlignedSearch, note_search
from rfnb.search.prefix_beam import NEVER, PrefixStep
from rfnb.search.prefix_events import Report
from rfnb.search.prefix_parts import PrefixSearch
from rfnb.trace.probe import listening, trace_context

_WHAT = "ctc_prefix_beam_search"


@op
def ctc_prefix_beam_search(
    logits: Tensor,
    *extra: Never,
    in_spatial_dim: Dim,
    blank_index: int,
    beam_size: int,
    logits_normalized: bool = False,
    lm: NGramLM | None = None,
    lm_scale: float = 1.0,
    lm_end: bool = True,
    label_bonus: float = 0.0,
    allowed: Any = None,
    out_spatial_dim: Dim | None = None,
    target_dim: Dim | None = None,
    wb_target_dim: Dim | None = None,
    keep_candidates: int | None = None,
    name: str = "ctc",
    **unknown: Never,
) -> tuple[Tensor, Tensor, Dim, Dim]:
    """The best label sequences, each scored by the sum over all its alignments that a beam of prefixes finds.

    A prefix has the score log(sum of its alignments) + lm_scale * log p_lm(prefix) + label_bonus * labels. With a beam that holds all
    prefixes the sum is complete, -`ctc_loss`. The result has no gradient; for the gradient of a score use `ctc_loss`.

    Args:
        logits: {..., in_spatial_dim, wb_target_dim}
        blank_index: Index of the blank; negative values count from the end.
        beam_size: Prefixes kept after each frame.
        logits_normalized: The logits are log probabilities already.
        lm: A language model over the classes, or over the classes without the blank in the same order.
        lm_scale: Factor on its natural-log probabilities.
        lm_end: Whether the end of the sentence is scored too, after the last frame.
        label_bonus: Added per label; it compensates the cost per label of a language model.
        allowed: The rule for labels, as in `choice`; labels are those of the result, without blank and end.
        out_spatial_dim: The dim of the result's labels in time. Default: a new dim.
        target_dim: The sparse dim of the result. Default: wb_target_dim. Without the blank it has one class less.
        wb_target_dim: The classes with blank. Default: the feature_dim of logits.
        keep_candidates: How many candidates of a frame to keep in a trace. Default: twice the beam and at least 8.
        name: Name of this search in traces.

    Returns:
        Labels int64 {..., beam, out_spatial_dim}; scores float32 {..., beam}, natural log, best first, -inf where there are fewer
        prefixes than beam_size; out_spatial_dim, ragged over the batch dims and the beam; the beam dim.

    Raises:
        DimError: If the dim of the classes is not known, or target_dim or the labels of lm do not match it.
        IndexError: If blank_index is out of range.
        ValueError: If no allowed hypothesis has ended, for a beam size below 1, or log probabilities with NaN or inf in real frames.

    Probes:
        beams: one event per frame, of a loop `name`: tokens (the blank where a prefix stays), parents, scores, ended (the last frame),
            candidates; `merged` {..., beam}: the alignments of two candidates were added, one of which has the verdict
            "merged"; log_probs: by how much the log of the sum over alignments has changed; part:lm, part:labels (1 per label, of
            the bonus); end_scores: what the end of the sentence adds to the scores of what has ended, end_part:lm; `blank`.

    Source: Hannun et al. 2014, "First-Pass Large Vocabulary Continuous Speech Recognition using Bi-Directional Recurrent DNNs",
    algorithm 1; Graves 2012, "Supervised Sequence Labelling with Recurrent Neural Networks", section 7.5.
    """
    need_tensors("ctc_prefix_beam_search", logits)
    classes = wb_target_dim or logits.feature_dim
    if classes is None:
        raise dim_error(
            f"{_WHAT}: which dim of logits has the classes?",
            {"logits": logits},
            "It has no feature_dim, so name the classes:",
            f"rf.{_WHAT}(..., wb_target_dim=...)",
        )
    for dim in (in_spatial_dim, classes):
        check_dim(_WHAT, logits, dim, "logits")
    blank = blank_of(_WHAT, classes, blank_index)
    labels = output_labels(_WHAT, target_dim, classes, blank)
    check_beam_size(_WHAT, beam_size)
    given = {"lm": lm, "lm_scale": lm_scale, "lm_end": lm_end, "label_bonus": label_bonus, "allowed": allowed}
    note_search(AlignedSearch(logits, classes, blank, beam_size, given))
    log_probs = cast(logits, "float32")
    if not logits_normalized:
        log_probs = log_softmax(log_probs, axis=classes)
    batch = tuple(dim for dim in logits.dims if dim not in (in_spatial_dim, classes))
    lengths = flat_lengths(_WHAT, in_spatial_dim, batch)
    frames = logits.backend.raw_to_numpy(flat_batch(log_probs, batch, (in_spatial_dim, classes)))
    beam = Dim(beam_size, name="beam", kind="beam")
    report = Report(logits, batch, classes, beam, blank, each_step="frame")
    frames = _prepared(frames, lengths, blank, logits)
    fuses = lm is not None or label_bonus != 0
    if not (fuses or listening() or allowed is not None) and pays(len(frames), beam_size, classes.extent):
        tokens, counts, totals = search_each(frames, lengths, blank, beam_size)
        if logits_normalized:
            check_alignment_sums(_WHAT, totals, frames.shape[1], logits)
        return *report.of_labels(tokens, counts, totals, out_spatial_dim, labels), beam
    search = _PrefixSearch(frames, beam_size, blank)
    search.lm = FusedLM(_WHAT, lm, lm_scale, label_bonus, classes, blank, (len(frames), beam_size))
    search.fuses = fuses
    if allowed is not None:
        rule = LabelRules(allowed, labels.extent, None, None, _WHAT)
        search.rule = AllowedPrefixes(rule, blank, classes.extent, (len(frames), beam_size))
    search.lengths = lengths[:, None]
    for index in range(frames.shape[1]):
        if not listening():
            search.step(index, 0)
            continue
        count = max(beam_size, max(2 * beam_size, 8) if keep_candidates is None else keep_candidates)
        with trace_context.loop(name, index, in_spatial_dim):
            step = search.step(index, count)
            ended = np.broadcast_to(index + 1 >= lengths[:, None], step.tokens.shape)
            step.parts.update(search.lm.end_parts(ended) if lm_end else {})
            report.step(name, step, ended, search.rule)
    scores, order = search.finish(lm_end)
    if logits_normalized and not fuses:
        check_alignment_sums(_WHAT, scores, frames.shape[1], logits)
    return (*report.result(search.steps, order, scores, out_spatial_dim, labels), beam)


class _PrefixSearch(PrefixSearch):
    """The beam, with the probability of each prefix's alignments that end in a blank, and of those that end in its last label."""

    lengths: np.ndarray

    def __init__(self, frames: np.ndarray, beam_size: int, blank: int):
        super().__init__(len(frames), beam_size, blank)
        self._frames, self._blank = frames, blank
        self._labels_at = (np.arange(len(frames)) * frames.shape[2])[:, None]
        self._rows_at = self.prefixes.rows * frames.shape[2]
        self._in_blank, self._in_label = self.total, np.full((len(frames), beam_size), NEVER)

    def step(self, index: int, num_candidates: int) -> PrefixStep:
        """Process one frame."""
        frame, beam, blank, total = self._frames[:, index], self.prefixes, self._blank, self.total
        of_last = frame.take(beam.last + self._labels_at)
        stays_blank = total + frame[:, blank : blank + 1]
        stays_label = np.add(self._in_label, of_last, order="C")
        scores = np.add(total[:, :, None], frame[:, None, :], order="C")  # the flat views of both are written to
        flat = scores.reshape(-1)
        flat[beam.last + self._rows_at] = self._in_blank + of_last  # the same label again needs a blank before it
        pairs = child, parent, label = beam.pairs()
        place = parent * frame.shape[1] + label
        own = flat[place]
        into = stays_label.reshape(-1)
        into[child] = np.logaddexp(into[child], own)
        flat[place] = NEVER
        stays = np.logaddexp(stays_blank, stays_label)
        scores[:, :, blank] = stays
        allowed = None
        if self.rule is not None:
            left = np.broadcast_to(self.lengths - index, total.shape)
            allowed = self.rule.rows(left, left - 1, (beam.scores > NEVER) & (left > 0))
        step, rows, grown = self.choose(frame, scores, pairs, own, allowed, num_candidates)
        self._in_blank = np.where(grown, NEVER, stays_blank.take(rows))
        self._in_label = np.where(grown, self.total, stays_label.take(rows))
        return step


def _prepared(frames: np.ndarray, lengths: np.ndarray, blank: int, logits: Tensor) -> np.ndarray:
    """float64 log probabilities; past the end of a sequence only a blank is possible, which changes nothing."""
    real = np.arange(frames.shape[1]) < lengths[:, None]
    bad = ~(frames < np.inf).all(2) & real
    if bad.any():
        seq, frame = np.argwhere(bad)[0]
        raise value_error(
            f"{_WHAT}: the log probabilities contain NaN or inf.",
            {"logits": logits, "first": f"sequence {seq}, frame {frame}"},
            "Neither can be ranked. They come from NaN or inf in the logits, or from a frame whose logits are all -inf.\n"
            "Find the first op that makes one, e.g. a log of 0 or a division by 0.",
        )
    out = frames.astype(np.float64, order="C")
    if not real.all():
        out[~real] = NEVER
        out[~real, blank] = 0
    return out


def check_alignment_sums(what: str, totals: np.ndarray, num_steps: int, scores: Tensor) -> None:
    """Refuse sums over alignments above 0, which cannot be log probabilities.

    Args:
        totals: The sums for hypotheses.
        scores: The tensor given as log probabilities.

    Raises:
        ValueError: If one exceeds 0 by more than rounding.
    """
    each = 5e-3 if scores.dtype in ("float16", "bfloat16") else 1e-5
    if totals.size and totals.max() > 1e-3 + each * num_steps:
        raise value_error(
            f"{what}: a score above 0.",
            {"scores": scores, "logits_normalized": True},
            "A log probability is 0 at most, and so is that of all alignments together. These are probabilities or logits:",
            f"rf.{what}(rf.log(x), ...)      # of probabilities\nrf.{what}(..., logits_normalized=False)      # of logits",
        )


def check_beam_size(what: str, beam_size: int) -> None:
    """Raise a ValueError for a beam size below 1."""
    if beam_size < 1:
        raise ValueError(
            f"{what}: beam_size {beam_size}.\nAt least one hypothesis must survive.\n    rf.{what}(..., beam_size=5)"
        )


def output_labels(what: str, target_dim: Dim | None, classes: Dim, blank: int) -> Dim:
    """The sparse dim of the resulting labels.

    Raises:
        DimError: If it does not match the classes.
    """
    if target_dim is None or target_dim.extent in (classes.extent, classes.extent - 1):
        return target_dim or classes
    raise dim_error(
        f"{what}: target_dim does not fit the classes.",
        {"target_dim": target_dim, "classes": classes, "blank": blank},
        "It is over the classes, or over the classes without the blank, in the same order.",
        f"rf.{what}(..., target_dim={classes.name})",
    )
