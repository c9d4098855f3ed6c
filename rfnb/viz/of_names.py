"""The names of the sequences of a recording: what was read, so that a chooser says "1: tongue" and not "sequence 0"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.viz.axes import Axis
from rfnb.viz.spec import Spec

_MOST = 24  # letters of a name
_UNNAMED = re.compile(r"sequence (\d+)(?=$|,)")


def named(parts: list[Spec], trace: Any, labels: Mapping[Any, Any]) -> list[Spec]:
    """The parts, their sequences named by the first tokens that were embedded for each of them.

    Only where all that was recorded is of one batch, and was embedded once: else a name could be that of another sequence.

    Args:
        labels: Tokens by dim.
    """
    names = _names(trace, labels)
    return [_with(part, names) for part in parts] if names else parts


def _names(trace: Any, labels: Mapping[Any, Any]) -> list[str]:
    first: dict[Dim, Any] = {}
    batches: set[int] = set()
    for event in trace.select(kind="tokens"):
        batches |= _batches(event)
        ids = event.values["ids"]
        for dim in ids.dims:
            if dim in labels and any(Axis(other.name, 1, other).kind == "batch" for other in ids.dims):
                if dim in first and first[dim] != labels[dim]:
                    return []
                first.setdefault(dim, labels[dim])
    for lookup in (trace.attention, trace.states, trace.beams):
        for path in lookup:
            for run in range(lookup.num_runs(path)):
                batches |= _batches(lookup.events(path, run)[0])
    counts = [len([e for e in trace.select(kind="tokens") if dim in e.values["ids"].dims]) for dim in first]
    if len(batches) != 1 or not first or max(counts) > 1:
        return []
    rows = next(iter(first.values()))
    if not all(isinstance(row, (list, tuple)) for row in rows):
        return []
    dim = next(iter(first))
    lengths = _lengths(dim, len(rows))
    return [_name(index, row[:length]) for index, (row, length) in enumerate(zip(rows, lengths))]


def _batches(event: Any) -> set[int]:
    values: Iterable[Any] = event.values.values()
    return {
        id(dim)
        for value in values
        if isinstance(value, Tensor)
        for dim in value.dims
        if Axis(dim.name, 1, dim).kind == "batch"
    }


def _lengths(dim: Dim, count: int) -> list[int]:
    lengths = [] if dim.lengths is None else [int(length) for length in dim.lengths.ravel()]
    return lengths if len(lengths) == count else [dim.extent] * count


def _name(index: int, tokens: Iterable[Any]) -> str:
    words = [str(token) for token in tokens]
    text = ("" if all(len(word) <= 1 for word in words) else " ").join(words)
    text = text if len(text) <= _MOST else text[: _MOST - 1] + "…"
    return f"{index + 1}: {text}" if text.strip() else f"{index + 1}"


def _with(part: Spec, names: list[str]) -> Spec:
    seqs = part.head.get("seqs")
    if not isinstance(seqs, list):
        return part

    def name(found: re.Match[str]) -> str:
        index = int(found[1])
        return names[index] if index < len(names) else found[0]

    return Spec(
        part.kind,
        {**part.head, "seqs": [{**seq, "label": _UNNAMED.sub(name, seq["label"], count=1)} for seq in seqs]},
        part.blocks,
        part.codes,
    )
