"""The beams of an existing output of `generate` of transformers.

    out = model.generate(ids, num_beams=4, return_dict_in_generate=True, output_scores=True)
    history = rf.beams_of(out, model=model, tokenizer=tokenizer)
    rf.show(out, tokenizer=tokenizer)

An output has the scores of all labels in each step, and the slots through which the results passed. All other
hypotheses are recovered by repeating the search with these scores; the repetition is verified to give the same results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import torch

from rfnb.core.errors import type_error, value_error
from rfnb.interop.seen.generate_search import BeamSearch, RowSearch, Rules, with_blocked
from rfnb.trace.beams import BeamHistory
from rfnb.viz.kinds import spec_of
from rfnb.viz.spec import Spec

_CALL = "model.generate(..., return_dict_in_generate=True, output_scores=True)"
_EARLY: tuple[bool | str, ...] = (False, True, "never")


def beams_of(
    out: Any,
    *,
    tokenizer: Any = None,
    model: Any = None,
    eos_token_id: int | Sequence[int] | None = None,
    num_beams: int | None = None,
    num_return_sequences: int | None = None,
) -> BeamHistory:
    """See `rf.beams_of`."""
    parts = _parts(out)
    labels = vocabulary_of(tokenizer, parts.scores[0].shape[-1], "beams_of")
    ends = _ends(eos_token_id, model, tokenizer)
    if parts.slots is None:
        return _of_rows(parts, labels, ends, num_return_sequences or 1)
    return _of_beams(parts, labels, ends, num_beams)


def spec(out: Any, **options: Any) -> Spec:
    """The view of the search behind an output; takes the options of `beams_of` and of the view."""
    given = {name: options.pop(name) for name in signature(beams_of).parameters if name in options}
    return spec_of("beams", beams_of(out, **given), **options)


class _Parts(NamedTuple):
    """The parts of an output: tokens (results, steps), scores of each step, log probabilities, slots (results, steps), ratings."""

    tokens: torch.Tensor
    scores: tuple[torch.Tensor, ...]
    logits: tuple[torch.Tensor, ...] | None
    slots: torch.Tensor | None
    ratings: torch.Tensor | None


def _parts(out: Any) -> _Parts:
    has = out if isinstance(out, dict) or hasattr(out, "keys") else getattr(out, "__dict__", {})
    get = (lambda name: has.get(name)) if hasattr(has, "get") else (lambda name: None)
    sequences, scores, logits = get("sequences"), get("scores"), get("logits")
    if isinstance(out, torch.Tensor):
        raise value_error(
            "beams_of: this tensor has the results only, without the search.",
            {"given": f"a tensor {tuple(out.shape)}", "needed": "sequences, scores"},
            "generate returns the data of its search on request:",
            f"out = {_CALL}",
        )
    if not isinstance(sequences, torch.Tensor) or sequences.ndim != 2:
        raise type_error(
            "beams_of: this is not an output of generate.",
            {"given": type(out).__name__, "has": ", ".join(map(str, has)) or "nothing", "needed": "sequences, scores"},
            "Pass the output of a transformers model, or a dict of torch tensors with the same names:",
            f"out = {_CALL}",
        )  # fmt: skip
    there = ", ".join(str(name) for name in has if get(name) is not None)
    slots, ratings = get("beam_indices"), get("sequences_scores")
    if not scores and (not logits or slots is not None or ratings is not None):
        raise value_error(
            "beams_of: this output has no scores.",
            {"given": there, "lacks": "scores"},
            "They are the scores of all labels in each step, from which the search is reconstructed:",
            f"out = {_CALL}",
        )
    by: tuple[Any, ...] = tuple(scores or logits or ())
    rows = by[0].shape[0]
    if slots is None and rows != len(sequences):
        raise value_error(
            "beams_of: this output has no beam_indices.",
            {"sequences": f"{len(sequences)}", "rows of scores": f"{rows}", "lacks": "beam_indices"},
            "They are the beam slots of each result, step by step; generate returns them with the scores of a beam search:",
            f"out = {_CALL}",
        )
    count = slots.shape[1] if slots is not None else len(by)
    if count > sequences.shape[1] or count > len(by):
        raise value_error(
            "beams_of: there are fewer labels than steps.",
            {"sequences": tuple(sequences.shape), "steps": f"{count}", "scores": f"{len(by)}"},
            "Each sequence ends with its generated labels, one per step.",
            f"out = {_CALL}",
        )
    tokens = sequences[:, sequences.shape[1] - count :]
    detach = lambda items: None if not items else tuple(each.detach().float() for each in items)  # noqa: E731
    return _Parts(tokens.detach(), detach(by), detach(logits), slots, ratings)  # type: ignore[arg-type]


def _ends(given: Any, model: Any, tokenizer: Any) -> frozenset[int] | None:
    for one in (
        given,
        getattr(getattr(model, "generation_config", None), "eos_token_id", None),
        getattr(tokenizer, "eos_token_id", None),
    ):
        if one is not None:
            return frozenset(int(each) for each in (np.ravel(one.cpu()) if hasattr(one, "cpu") else np.ravel(one)))
    return None


# -- greedy, samples ---------------------------------------------------------------------------------------------------


def _of_rows(parts: _Parts, labels: Any, ends: frozenset[int] | None, samples: int) -> BeamHistory:
    rows = len(parts.tokens)
    if samples < 1 or rows % samples:
        raise value_error(
            "beams_of: the number of sequences is not a multiple of num_return_sequences.",
            {"sequences": rows, "num_return_sequences": samples},
            "Each prompt has this many results.",
            "rf.beams_of(out, num_return_sequences=1)",
        )
    search = RowSearch(rows // samples, samples, parts.tokens.device)
    steps, best = [], True
    for index, scores in enumerate(parts.scores):
        tokens = parts.tokens[:, index]
        hits = torch.zeros_like(tokens, dtype=torch.bool)
        for end in ends or ():
            hits |= tokens == end
        own = None if parts.logits is None else parts.logits[index].log_softmax(-1)
        goes_on = ~search.ended.view(-1)
        best &= bool(((scores.gather(1, tokens[:, None])[:, 0] == scores.max(1).values) | ~goes_on).all())
        steps.append(with_blocked(search.step(scores, tokens, hits, own), scores, None))
    remark = "" if ends is not None or rows == 1 else (
        "The end label is unknown: labels after it may be padding. Pass the model: rf.beams_of(out, model=model)."
    )  # fmt: skip
    by_rank = [best and samples == 1] * len(steps)
    sizes = [parts.scores[0].shape[-1]] * len(steps)
    about = "num_beams=1" if best and samples == 1 else "do_sample=True"
    return BeamHistory(steps, labels, by_rank=by_rank, num_labels=sizes, about=about, remark=remark)


# -- beams -------------------------------------------------------------------------------------------------------------


def _of_beams(parts: _Parts, labels: Any, ends: frozenset[int] | None, beams: int | None) -> BeamHistory:
    assert parts.slots is not None
    slots, rows = parts.slots.cpu().numpy(), parts.scores[0].shape[0]
    batch, beams = _batch(slots, rows, len(parts.tokens), beams)
    results = _results(parts, slots, batch)
    last = {int(result.tokens[-1]) for result in results if len(result.tokens) < len(parts.scores)}
    sums = [result.total for result in results]
    penalty = _length_penalty(results, sums)
    rules = Rules(beams, frozenset(last) if ends is None else ends, penalty or 0.0, False, len(parts.scores))
    for early in _EARLY:
        rules = rules._replace(early_stopping=early)
        history = _replayed(parts, batch, rules, labels)
        if history is not None and _agrees(history, results, batch):
            about = f"num_beams={beams}" + ("" if penalty is None else f", length_penalty={penalty:g}")
            history.about = about + ("" if early is False else f", early_stopping={early!r}")
            return history
    history = _of_results(parts, results, batch, beams, penalty or 0.0, labels)
    if ends is None:
        history.remark += (
            " The end labels are guessed and may be incomplete. Pass the model: rf.beams_of(out, model=model)."
        )
    return history


class _Result(NamedTuple):
    """One of `sequences`: its prompt, its labels, the slot before each, its summed score, and its rating by generate."""

    seq: int
    tokens: tuple[int, ...]
    slots: tuple[int, ...]
    total: float
    rating: float | None


def _batch(slots: np.ndarray, rows: int, results: int, beams: int | None) -> tuple[int, int]:
    """The number of prompts, and of beams: all results of a prompt come from its first slot."""
    first = np.unique(slots[:, 0])
    batch = rows // beams if beams else len(first)
    if not batch or rows % batch or results % batch or (first % (rows // batch)).any() or (beams and rows % beams):
        raise value_error(
            "beams_of: it is unknown which slots belong to which prompt.",
            {"rows of scores": rows, "sequences": results, "first beam_indices": ", ".join(map(str, first))},
            "The results of a prompt start in its first slot. Pass the number of slots per prompt:",
            "rf.beams_of(out, num_beams=4)",
        )
    return batch, rows // batch


def _results(parts: _Parts, slots: np.ndarray, batch: int) -> list[_Result]:
    each, beams = len(slots) // batch, parts.scores[0].shape[0] // batch
    found = []
    for index, row in enumerate(slots):
        count = int((row >= 0).sum())
        tokens = parts.tokens[index, :count].tolist()
        total = sum((parts.scores[t][int(row[t]), tokens[t]] for t in range(count)), torch.zeros((), device="cpu"))
        rating = None if parts.ratings is None else float(parts.ratings[index])
        inside = tuple(int(slot) % beams for slot in row[:count])
        found.append(_Result(index // each, tuple(map(int, tokens)), inside, float(total), rating))
    return found


def _length_penalty(results: Sequence[_Result], sums: Sequence[float]) -> float | None:
    """The length penalty with which score / length ** penalty gives the ratings; None if it cannot be determined."""
    best = max(
        ((len(r.tokens), s, r.rating) for r, s in zip(results, sums) if r.rating and s < 0 and len(r.tokens) > 1),
        default=None,
    )
    if best is None:
        return None
    length, total, rating = best
    return round(math.log(total / rating) / math.log(length), 4) + 0.0


def _replayed(parts: _Parts, batch: int, rules: Rules, labels: Any) -> BeamHistory | None:
    """The repeated search; None if it ends before the output does."""
    search, steps = BeamSearch(batch, rules, parts.scores[0].device), []
    for index, scores in enumerate(parts.scores):
        if search.is_over:
            return None
        own = None if parts.logits is None else parts.logits[index].log_softmax(-1)
        is_last = index + 1 == len(parts.scores)
        before = (search.running, search._pool, search._open)
        made = search.step(scores, own)
        if is_last and not search.is_over:  # it was truncated by its length
            search.running, search._pool, search._open = before
            search.steps -= 1
            made = search.step(scores, own, last=True)
        steps.append(with_blocked(made, scores, None))
    sizes = [parts.scores[0].shape[-1]] * len(steps)
    return BeamHistory(steps, labels, num_labels=sizes, rank_exponent=rules.length_penalty)


def _agrees(history: BeamHistory, results: Sequence[_Result], batch: int) -> bool:
    """Whether a history has the same results, through the same slots."""
    for seq in range(batch):
        own = [result for result in results if result.seq == seq]
        best = history.nbest(seq)[: len(own)]
        found = [(item.tokens, history.parents_along(seq, item)) for item in best]
        if found != [(result.tokens, result.slots) for result in own if result.tokens]:
            return False
    return True


def _of_results(
    parts: _Parts, results: Sequence[_Result], batch: int, beams: int, penalty: float, labels: Any
) -> BeamHistory:
    """A history of only the results: other hypotheses are unknown (in a search that sampled, or has groups)."""
    steps: list[dict[str, np.ndarray]] = []
    longest = max(len(result.tokens) for result in results)
    extra = max(sum(result.seq == seq for result in results) for seq in range(batch))
    totals = np.full((batch, beams), -np.inf)
    totals[:, 0] = 0
    for t in range(longest):
        shape = (batch, beams + extra)
        fields: dict[str, np.ndarray] = {
            "tokens": np.zeros(shape, np.int64), "parents": np.zeros(shape, np.int64), "left": np.zeros(shape, bool),
            "scores": np.full(shape, -np.inf, np.float32), "ended": np.zeros(shape, bool),
        }  # fmt: skip
        taken = [beams] * batch
        after = np.full_like(totals, -np.inf)
        for result in results:
            if t >= len(result.tokens):
                continue
            seq, is_end = result.seq, t + 1 == len(result.tokens)
            parent, token = result.slots[t], result.tokens[t]
            slot = taken[seq] if is_end else result.slots[t + 1]
            taken[seq] += is_end
            score = totals[seq, parent] + float(parts.scores[t][seq * beams + parent, token])
            fields["tokens"][seq, slot], fields["parents"][seq, slot] = token, parent
            fields["scores"][seq, slot] = score
            fields["ended"][seq, slot] = is_end and t + 1 < len(parts.scores)
            fields["left"][seq, slot] = is_end
            if not is_end:
                after[seq, slot] = score
        totals = after
        steps.append(fields)
    return BeamHistory(
        steps, labels, by_rank=[False] * len(steps), rank_exponent=penalty, about=f"num_beams={beams}",
        remark="Only the hypotheses that led to a result are known: repeating the search with these scores gives other results. "
        "To see a whole beam search with sampling or constraints, record it: with rf.record(model=model) as trace:",
    )  # fmt: skip


def vocabulary_of(tokenizer: Any, size: int, place: str) -> list[str] | None:
    """The text of each label.

    Args:
        tokenizer: Of transformers, or a list of texts; None: there are no texts.
        size: Number of labels. Models pad their vocabulary to a round size; a tokenizer never has more labels than the model.

    Raises:
        TypeError: If it is neither.
        ValueError: If it has more labels than the model.
    """
    if tokenizer is None:
        return None
    if isinstance(tokenizer, Sequence) and not isinstance(tokenizer, str):
        labels = list(map(str, tokenizer))
    elif callable(getattr(tokenizer, "convert_ids_to_tokens", None)):
        labels = list(map(str, tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))))
    else:
        raise type_error(
            f"{place}: this is not a tokenizer.",
            {"given": type(tokenizer).__name__},
            "Pass an object with convert_ids_to_tokens, such as a tokenizer of transformers, or a list of str.",
            "transformers.AutoTokenizer.from_pretrained(...)",
        )
    if len(labels) > size:
        raise value_error(
            f"{place}: the tokenizer has more labels than the model.",
            {"tokenizer": len(labels), "model": size},
            "It belongs to another model, or labels were added to it but not to the model:",
            "model.resize_token_embeddings(len(tokenizer))",
        )
    return labels + [f"<{index}>" for index in range(len(labels), size)]
