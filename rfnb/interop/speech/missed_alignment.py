"""why_aligned: why a search over alignments, of a CTC model or a transducer, did not produce an expected output.

    why = rf.why_not(rf.ctc_output(logits, vocab=processor), "AB CD")
    print(why)                        # labels with their best alignment, and repairs
    print(why.parts)                  # the attribution of the margin to frames

Scores are sums over all alignments. The part of a label is the contribution of its frames along the best one; the last
row is the rest: blanks, and the other alignments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from rfnb.control.why_not import Repair, WhyNot, WhyNotStep
from rfnb.core.errors import value_error
from rfnb.interop.attribution import integrated
from rfnb.interop.doors import ctc_output
from rfnb.interop.speech.encoder_output import FrameBatch
from rfnb.interop.why_parts import MarginParts, disagreements
from rfnb.search.decide import NBest
from rfnb.search.noted_searches import AlignedSearch
from rfnb.trace.beam_diagnosis import result_of
from rfnb.trace.beam_labels import label_names
from rfnb.trace.record import record

_WIDER, _BONUSES = 16, np.arange(0.5, 5.01, 0.5)  # maximal factor for a wider beam; bonuses to try
_TOLERANCE, _PIECES, _MOST = 0.005, 8, 2048
Score = Callable[[torch.Tensor, Sequence[int]], torch.Tensor]
Search = partial[list[NBest]]


def of_search(search: AlignedSearch, expected: Any, seq: int) -> WhyNot:
    """The answer for a recorded search."""
    output, options = search.output, search.options
    if search.is_raw and search.classes is None:
        raise value_error(
            "why_not: only the step function of this transducer search is known.",
            {"step": getattr(output, "__name__", type(output).__name__), "beam_size": search.beam_size},
            "Alignments are scored by predictor and joiner. Pass an object that has them:",
            "rf.why_not(rf.transducer_output(encoder, predictor=predictor, joiner=joiner, vocab=vocab, "
            f'blank={search.blank}), "{expected}")',
        )
    if search.is_raw:
        assert search.classes is not None
        labels = label_names(search.classes)
        vocab = [*map(str, range(search.classes.extent))] if labels is None else [*labels]
        output = ctc_output(output, vocab=vocab, blank=search.blank)
    answered: WhyNot = output.__rfnb_why_not__(expected, seq, search.beam_size, **options)
    return answered


def why_not(
    output: Any,
    batch: FrameBatch,
    rows: Sequence[np.ndarray],
    seq: int,
    score: Score,
    beam_size: int,
    options: Mapping[str, Any],
) -> WhyNot:
    """The answer for one sequence.

    Args:
        output: An output with `beam_search` and `align`.
        batch: Its frames.
        rows: The expected output of each sequence, as indices; those of other sequences are ignored.
        score: The natural-log probability of labels in frames (n, frames, feature), summed over all alignments: (n,).
        beam_size, options: Options of the search. The contribution of a language model or a bonus is in the scores, and
            in the baseline of the parts.
    """
    frames = batch.values.raw_tensor[seq, : int(batch.lengths[seq])].detach()
    search = partial(output.beam_search, **{**options, "keep_candidates": None})
    with record("beams") as trace:
        search(beam_size=beam_size)
    (name,) = trace.beams
    history, wanted = trace.beams[name], tuple(map(int, rows[seq]))
    found = result_of(history, seq)
    assert found is not None
    each = [[*found.tokens] if at == seq else [] for at in range(len(rows))]
    own, other = (
        output.align([own.tolist() if at == seq else [] for at, own in enumerate(rows)])[seq],
        output.align(each)[seq],
    )
    with torch.no_grad():
        scores = [float(score(frames[None], tokens)[0]) for tokens in (wanted, found.tokens)]
    if options.get("lm") is not None or options.get("label_bonus"):
        whole = [_forced_score(search, seq, tokens) for tokens in (wanted, found.tokens)]
        added = [all_ - own for all_, own in zip(whole, scores)]
        scores, bare = whole, score

        def score(values: torch.Tensor, tokens: Sequence[int]) -> torch.Tensor:
            return bare(values, tokens) + added[tuple(tokens) != wanted]

    diagnosis = history.diagnose(seq, wanted, score=scores[0])
    kind = "found" if wanted == found.tokens else "search error" if scores[0] > scores[1] else "model error"
    if kind != "found" and options.get("allowed") is not None and _forced_score(search, seq, wanted) == -np.inf:
        kind = "not allowed"
    texts, is_error = (history.texts(wanted), history.texts(found.tokens)), kind in ("search error", "model error")
    repairs = [*_repairs(search, beam_size, options, seq, wanted, found.tokens, texts[0])] if is_error else []
    made = WhyNot(
        None, kind, wanted, texts, (scores[0], scores[1]), (diagnosis.step, diagnosis.margin, None),
        _steps((own, other), scores), repairs,
    )  # fmt: skip
    made.tried = f"No labels forced, beam up to {_WIDER * beam_size} or bonus for each label gives it."
    if is_error:
        made.take_apart = lambda: _parts(frames, (wanted, found.tokens), texts, score)
    return made


def _steps(aligned: Sequence[Any], scores: Sequence[float]) -> Iterator[WhyNotStep]:
    behind, spans = 0.0, [each.labels for each in aligned]
    for at in range(max(map(len, spans))):
        one, other = (each[at] if at < len(each) else None for each in spans)
        own, its = (None if each is None else float(each.log_prob) for each in (one, other))
        behind += (own or 0.0) - (its or 0.0)
        yield WhyNotStep(one and one.text, other and other.text, own, its, behind)
    own, its = (score - sum(span.log_prob for span in each) for score, each in zip(scores, spans))
    yield WhyNotStep("(all else)", "(all else)", own, its, scores[0] - scores[1])


def _forced_score(search: Search, seq: int, tokens: Sequence[int]) -> float:
    """The full score of labels: a search in which nothing else is allowed finds all their alignments; -inf if they are not allowed."""
    own = tuple(tokens)
    try:
        rows = search(beam_size=len(own) + 1, allowed=_only(search, own, ()))
    except ValueError:  # no allowed hypothesis is complete
        return -np.inf
    return next((float(row.score) for row in rows[seq] if tuple(map(int, row.tokens)) == own), -np.inf)


def _only(search: Search, start: tuple[int, ...], then: Any) -> Any:
    """The rule of a search that forces these labels at the beginning, and `then` after them; None allows everything."""
    rule = lambda labels: [start[len(labels)]] if len(labels) < len(start) else then  # noqa: E731
    own = search.keywords.get("allowed")
    return rule if own is None else [*(own if isinstance(own, (list, tuple)) else [own]), rule]


def _repairs(
    search: Search,
    beam_size: int,
    options: Mapping[str, Any],
    seq: int,
    wanted: tuple[int, ...],
    found: tuple[int, ...],
    texts: Sequence[str],
) -> Iterator[Repair]:
    """Repairs that produce it, found by trying: the fewest forced labels, a wider beam, a bonus per label."""

    def gives(**more: Any) -> bool:
        try:
            best = search(**{"beam_size": beam_size, **more})[seq][0]
        except ValueError:  # no allowed hypothesis is complete
            return False
        return tuple(map(int, best.tokens)) == wanted

    same = [a == b for a, b in zip(wanted, found)]
    first = same.index(False) if False in same else min(len(wanted), len(found))
    for last in range(first + 1, len(wanted)):
        start = wanted[:last]
        if gives(allowed=_only(search, start, None)):
            words = f"{' '.join(texts[first:last])} after {' '.join(texts[:first]) or 'the begin'}"
            yield Repair("label", words, None, True)
            break
    wider = next((size for size in (2 * beam_size, 4 * beam_size, _WIDER * beam_size) if gives(beam_size=size)), None)
    if wider is not None:
        yield Repair("beam", f"beam_size={wider}", None, True)
    sign, own = 1 if len(wanted) > len(found) else -1, options.get("label_bonus", 0.0)
    bonus = next((own + sign * each for each in _BONUSES if gives(label_bonus=own + sign * float(each))), None)
    if len(wanted) != len(found) and bonus is not None:
        yield Repair("length", f"label_bonus={bonus:g}", None, True)


def _parts(
    frames: torch.Tensor, ways: Sequence[Sequence[int]], texts: Sequence[Sequence[str]], score: Score
) -> MarginParts:
    """The margin with all frames interpolated from the mean frame; and with each single frame replaced by the mean."""
    own = frames.detach().double()
    start = own.mean(0, keepdim=True).expand_as(own)
    way = own - start

    def margin(values: torch.Tensor) -> torch.Tensor:
        return score(values, ways[0]) - score(values, ways[1])

    def number(places: Sequence[float]) -> list[torch.Tensor]:
        with torch.no_grad():
            return [*margin(torch.stack([start + at * way for at in places]))[:, None].cpu()]

    def gradient(places: Sequence[float]) -> list[torch.Tensor]:
        with torch.enable_grad():
            values = torch.stack([start + at * way for at in places]).requires_grad_()
            (made,) = torch.autograd.grad(margin(values).sum(), values)
        return [*(made * way).sum(-1)[:, None].cpu()]

    ends = number(np.linspace(0, 1, _PIECES + 1).tolist())
    scale = ends[-1].abs().clamp(min=1e-6)
    made, remark = integrated(number, gradient, ends, _TOLERANCE, scale, _MOST, _PIECES)
    values = np.concatenate([made.numpy(), ends[0].numpy()[:, None]], 1)
    beside = {"margin": float(ends[-1]), "baseline": float(ends[0]), "sum": float(values.sum())}
    names = [*(str(frame) for frame in range(len(own))), "baseline"]
    found = MarginParts(
        f"margin of {' '.join(texts[0])}",
        values,
        ("step", ["all frames"]),
        ("cause", names),
        beside=beside,
        remark=remark,
    )
    hidden = own[None].repeat(len(own), 1, 1)
    hidden[range(len(own)), range(len(own))] = start
    with torch.no_grad():
        found.occluded = (ends[-1] - margin(hidden).cpu()).numpy()[None]
    found.steps = [None]
    found.disagreements = disagreements(found)
    found.remark = ". ".join(filter(None, [remark, *found.disagreements.values()]))
    return found


def transducer_sum(blank: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """The natural-log probability of labels, summed over all alignments, with its gradient: (n,).

    Args:
        blank: (n, frames, labels + 1): log probability of the blank, by number of emitted labels.
        label: (n, frames, labels): log probability of the next label.

    Source: Graves 2012, "Sequence Transduction with Recurrent Neural Networks", section 2.4.
    """
    total: list[torch.Tensor] = []
    for frame in range(blank.shape[1]):
        row: list[torch.Tensor] = []
        for count in range(blank.shape[2]):
            of_label = row[-1] + label[:, frame, count - 1] if count else None
            if not frame:
                row.append(torch.zeros_like(blank[:, 0, 0]) if of_label is None else of_label)
                continue
            of_blank = total[count] + blank[:, frame - 1, count]
            row.append(of_blank if of_label is None else torch.logaddexp(of_blank, of_label))
        total = row
    return total[-1] + blank[:, -1, -1]
