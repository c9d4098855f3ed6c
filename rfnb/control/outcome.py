"""Outcome: what a run has come to, as plain data that a tree of branches keeps, shows and compares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.core.tree import leaves
from rfnb.trace.beams import BeamHistory
from rfnb.trace.event import keep
from rfnb.trace.outcome import Outcome, best_of, best_so_far
from rfnb.trace.trace import Trace

_LONGEST = 500  # letters of a text


def outcome_of(result: Any, trace: Trace) -> Outcome:
    """The outcome of a run that is over; its labels are those of the last search where it gives none itself."""
    history = result if isinstance(result, BeamHistory) else getattr(result, "history", None)
    seqs = () if isinstance(history, BeamHistory) else _labels(result)
    scores: tuple[float | None, ...] = ()
    if not seqs:
        best = best_of(history) if isinstance(history, BeamHistory) else best_so_far(trace)
        seqs, scores = best.seqs, best.scores
    return Outcome(_text(result), seqs, scores, _values(result))


def _labels(result: Any) -> tuple[tuple[str, ...], ...]:
    """The labels that a function gives as such: a text, a list of them, or a list of lists."""
    if isinstance(result, str):
        return (_words(result),)
    if isinstance(result, (list, tuple)) and result:
        if all(isinstance(item, str) for item in result):
            return (tuple(result),)
        if all(isinstance(item, (list, tuple)) and all(isinstance(one, str) for one in item) for item in result):
            return tuple(map(tuple, result))
    return ()


def _words(text: str) -> tuple[str, ...]:
    words = tuple(text.split())
    return words if len(words) > 1 else tuple(text)


def _values(result: Any) -> Mapping[str, Tensor]:
    if isinstance(result, Tensor):
        return {"result": keep(result)}
    if isinstance(result, Mapping) and not all(isinstance(key, str) for key in result):
        return {}
    if not isinstance(result, (Mapping, list, tuple)):
        return {}
    try:
        return {path: keep(leaf) for path, leaf in leaves(result, "result") if isinstance(leaf, Tensor)}
    except RecursionError:  # a list in itself
        return {}


def _text(result: Any) -> str:
    if result is None:
        return ""
    if isinstance(result, Tensor):
        return f"{shape_of(result)} {result.dtype}"
    if isinstance(result, (list, tuple)) and result and all(isinstance(item, Tensor) for item in result):
        return ", ".join(map(_text, result))[:_LONGEST]
    try:
        return (result if isinstance(result, str) else repr(result))[:_LONGEST]
    except Exception as error:  # a result of somebody else
        return f"{type(result).__name__}, whose repr fails: {type(error).__name__}"
