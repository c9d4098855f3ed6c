"""The scores of a choice: model outputs as log probabilities, and lines 1 to 3 of a step of beam search.

base' = base * ((t + 1) / t) ** exponent        for hypotheses that have ended, with length normalization
total = prob_scale * log_prob + base_scale * base' + noise
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_text import dims_text
from rfnb.ops import math, reduce
from rfnb.ops.random import random_uniform
from rfnb.ops.softmax import log_softmax
from rfnb.ops.where import where
from rfnb.search.operand_checks import check_fused
from rfnb.search.search_state import Link, first_of, on_backend

INPUT_TYPES = ("log_prob", "prob", "logits", "score", "regression")
Fusion = Mapping[str, tuple[Tensor, float]]


def log_prob_of(scores: Tensor, axis: Dim, input_type: str) -> Tensor:
    """Natural-log probabilities of scores of the given input type."""
    if input_type == "logits":
        return log_softmax(scores, axis=axis)
    return math.log(math.maximum(scores, 1e-20)) if input_type == "prob" else scores


def check_sums(log_prob: Tensor, axis: Dim, ended: Tensor | None, place: str) -> None:
    """Refuse probabilities that do not sum to 1 over the labels.

    Raises:
        ValueError: Names the step, sequence and hypothesis.
    """
    total = reduce.reduce_sum(math.exp(log_prob), axis=axis)
    if ended is not None:
        total = where(ended, 1.0, total, allow_broadcast_all_sources=True)
    host = total.numpy()
    bad = ~(np.abs(host - 1) < 1e-3)
    if bad.any():
        raise value_error(
            f"{place}: the probabilities do not sum to 1.",
            {"scores": log_prob, "first": first_of(bad, total.dims), "sum": f"{host[bad][0]:.4g}"},
            "What a choice adds up are log probabilities over the labels.",
            'rf.choice(scores, input_type="logits", ...)   # normalizes',
        )


def check_log_probs(
    host: np.ndarray, dims: Sequence[Dim], scores: Tensor, place: Callable[[], str], what: str = "rf.choice"
) -> None:
    """Refuse summed log probabilities above 0, which are probabilities or logits. Only the maximum is checked, so it is cheap.

    Args:
        host: Sums over `dims` and hypotheses, on the host already.
        scores: The tensor that was given, for the message.
        place: A function that names the place, for the message; every step of a search comes here, so the message is built only on
            error.

    Raises:
        ValueError: Says in which step and sequence.
    """
    if not host.size:
        return
    highest = host.item(host.argmax())  # in a third of the time of max()
    if highest > 0:  # so it is not for NaN, of which others tell
        refuse_above(host, dims, scores.dims, scores.dtype, place(), what)


def refuse_above(
    host: np.ndarray, dims: Sequence[Dim], scores: Sequence[Dim], dtype: str, place: str, what: str = "rf.choice"
) -> None:
    """The same for sums of which some are above 0, if it is more than rounding. Of the scores, dims and dtype are given."""
    above = _ABOVE.get(dtype, 1e-3)
    if host.max() > above:
        first = np.argwhere(host > above)[0]
        where_ = ", ".join(f"{dim.name} {index}" for dim, index in zip(dims, first)) or "the only sequence"
        raise value_error(
            f"{place}: a score above 0.",
            {"scores": dims_text(scores), "first": where_, "score": f"{host[tuple(first)]:.4g}"},
            "A log probability is 0 at most, and so is a sum of them; a bonus is fusion={name: (scores, scale)}.\n"
            "Say what the scores are:",
            f'{what}(..., input_type="prob")        # probabilities\n'
            f'{what}(..., input_type="logits")      # logits, to be normalized\n'
            f'{what}(..., input_type="score")       # any numbers, added up as they are',
        )


_ABOVE = {"float16": 0.05, "bfloat16": 0.05}  # what rounding may give; of other dtypes 1e-3


def fused(log_prob: Tensor, fusion: Fusion | None, axis: Dim) -> Tensor:
    """log_prob with the log probabilities of other models added, each times its scale.

    Raises:
        DimError: For a model over other labels.
        TypeError: For anything but a pair of scores and scale.
        ValueError: For a scale that is not a number.
    """
    for name, entry in (fusion or {}).items():
        check_fused(name, entry, log_prob, axis)
        other, scale = entry
        log_prob = math.combine_bc(log_prob, "add", other * scale if scale != 1 else other)
    return log_prob


def only_end_label(log_prob: Tensor, has_ended: Tensor, axis: Dim, link: Link, label: int) -> Tensor:
    """The end label is the only continuation of an ended hypothesis, at no cost."""
    stay = stay_row(log_prob, axis, link, label)
    return where(has_ended, stay, log_prob, allow_broadcast_all_sources=True)


def stay_row(log_prob: Tensor, axis: Dim, link: Link, label: int) -> Tensor:
    """The scores {axis} of an ended hypothesis."""
    key = axis, log_prob.dtype, log_prob.device, label
    stay = link.stay.get(key)
    if stay is None:
        row = np.full(axis.extent, -np.inf, np.float32)
        row[label] = 0
        stay = link.stay[key] = on_backend(row, (axis,), log_prob, log_prob.dtype)
    return stay


def normalized_base(base: Tensor, has_ended: Tensor | None, step: Any, exponent: float) -> Tensor:
    """Line 1: the score of an ended hypothesis grows as the others get longer."""
    if has_ended is None:
        return base
    factor = ((step + 1) / step) ** exponent
    return where(has_ended, base * factor, base, allow_broadcast_all_sources=True)


def combined(
    log_prob: Tensor,
    base: Tensor | None,
    has_ended: Tensor | None,
    *,
    prob_scale: float,
    base_scale: float,
    noise_scale: float,
    stay: Callable[[Tensor], Tensor],
) -> Tensor:
    """Line 3. `stay` filters ended hypotheses after scaling, since 0 times -inf is NaN."""
    total = log_prob if prob_scale == 1 else log_prob * prob_scale
    if prob_scale <= 0:  # what is impossible stays so
        total = where(log_prob == float("-inf"), log_prob, total)
    if has_ended is not None:
        total = stay(total)
    if base is not None:
        if base_scale != 1:
            base = where(base == float("-inf"), base, base * base_scale)
        total = total + base if set(base.dims) <= set(total.dims) else math.combine_bc(total, "add", base)
    return total + gumbel(total) * noise_scale if noise_scale else total


def gumbel(like: Tensor, *draws: Dim) -> Tensor:
    """Noise -log(-log(u)), one value per draw: the label with the best noisy log probability is a sample."""
    uniform = math.maximum(random_uniform((*draws, *like.dims), dtype=like.dtype, device=like.device), 1e-30)
    return -math.log(-math.log(math.minimum(uniform, 1 - 1e-7)))


def filtered(log_prob: Tensor, axis: Dim, *, temperature: float, top_k: int | None, top_p: float | None) -> Tensor:
    """The scores that a label is sampled from, as unnormalized log probabilities: sharpened, and without unlikely labels.

    Source: Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration", sections 3.1 and 5 (top-p, top-k).
    """
    out = log_prob if temperature == 1 else log_prob / temperature
    if top_k is None and top_p is None:
        return out
    backend, order = out.backend, (*(dim for dim in out.dims if dim is not axis), axis)
    out = out.copy_transpose(order)
    raw, last = out._raw, len(order) - 1
    if top_k is not None and top_k < axis.extent:
        least = backend.slice_raw(backend.top_k_raw(raw, top_k, True)[0], last, top_k - 1, top_k)
        raw = backend.where_raw(backend.binary_fn("less")(raw, least), float("-inf"), raw)
    if top_p is not None and top_p < 1:
        prob = backend.softmax_raw(raw, last)
        best = backend.sort_raw(prob, last, True, True)[0]
        before = backend.binary_fn("sub")(backend.cumsum_raw(best, last), best)  # mass of the labels before each
        least = backend.where_raw(backend.binary_fn("less")(before, top_p), best, float("inf"))
        least = backend.expand_dims_raw(backend.reduce_raw(least, "min", (last,)), last)
        raw = backend.where_raw(backend.binary_fn("less")(prob, least), float("-inf"), raw)
    return new_tensor(raw, order)
