"""The results of a search: the best hypothesis, an n-best table, scores and parents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Never

import numpy as np

from rfnb.core.beam_dim import is_beam
from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import table_lines
from rfnb.ops import reduce
from rfnb.ops.cast import cast
from rfnb.ops.gather import gather
from rfnb.ops.math import maximum
from rfnb.ops.operands import need_tensors
from rfnb.ops.where import where
from rfnb.rec.selection import renamed_dim
from rfnb.search.search_state import beam_dim_of, host_of, search_of
from rfnb.trace.beam_labels import label_names


@op(decides=True)
def get_beam_scores(x: Tensor, *extra: Never, **unknown: Never) -> Tensor:
    """The scores of the hypotheses that `x` belongs to: natural-log probability summed over steps; {batch, beam}.

    After the loop, scores of the final hypotheses; inside it, those of the choice that x comes from.

    Raises:
        ValueError: If x has no beam dim of a search.
    """
    need_tensors("get_beam_scores", x)
    return search_of(x, "get_beam_scores").scores_like(x)


@op(decides=True)
def get_src_beams(x: Tensor, *extra: Never, **unknown: Never) -> Tensor:
    """The parent of each hypothesis, in the choice that made `x`: int {batch, beam}; 0 in the first step.

    Raises:
        ValueError: If x has no beam dim of a search.
    """
    need_tensors("get_src_beams", x)
    search = search_of(x, "get_src_beams")
    decision, last = search.decided(x), search.last
    if decision is not None:
        return decision.parents
    assert last is not None
    return last.parents._like(last.parents._raw, last.carried_dims(last.parents.dims))


@op(decides=True)
def decide_keep_beam(x: Tensor, *extra: Never, **unknown: Never) -> Tensor:
    """`x` of a step, with that step's hypotheses as they are: stacked values are not traced back through the parents.

    Returns:
        The same values, with a dim "slot" in place of the beam; x itself if it has none.
    """
    need_tensors("decide_keep_beam", x)
    beam = beam_dim_of(x)
    if beam is None:
        return x
    search = search_of(x, "decide_keep_beam")
    out = x._like(x._raw, tuple(search.slot_dim(beam.extent) if dim is beam else dim for dim in x.dims))
    if out.sparse_dim is not None and is_beam(out.sparse_dim):
        out.sparse_dim = None
    return out


def split_batch_beam(x: Tensor, *, beam_dim: Dim | None = None) -> Tensor:
    """`x` with the beam as a plain dim: {batch, beam, ...} in this order, decided, so that no search reorders it further.

    A time dim with a length per hypothesis becomes a new dim with the same lengths over the plain dim.

    Args:
        x: A value from a search.
        beam_dim: Replaces the beam; of the same size. Default: a new dim.

    Raises:
        ValueError: If x is not from a search, or the size differs.
    """
    need_tensors("split_batch_beam", x)
    search_of(x, "split_batch_beam")
    beam = beam_dim_of(x)
    assert beam is not None
    new = Dim(beam.extent, name="beam") if beam_dim is None else beam_dim
    if new.extent != beam.extent:
        raise value_error(
            "split_batch_beam: beam_dim has another size.",
            {"value": x, "beam_dim": new},
            "It takes the place of the beam.",
        )
    batch = [dim for dim in search_of(x, "split_batch_beam").batch_dims() if dim in x.dims]
    order = (*batch, beam, *(dim for dim in x.dims if dim is not beam and dim not in batch))
    out = x.copy_transpose(order)
    return out._like(out._raw, tuple(new if dim is beam else renamed_dim(dim, beam, new) for dim in order))


def decide(x: Tensor, *, length_normalization: bool = False) -> Tensor:
    """The value of the best hypothesis: {..., beam} -> {...}; x itself if it has no beam dim.

    Args:
        x: A value collected from a search, usually `loop.stack(label)` {time, batch, beam}.
        length_normalization: Divide each score by its length first. Only sensible if the choice did not. A hypothesis without labels
            is then never the best, unless there is no other.

    Returns:
        The value without the beam; a ragged time dim is replaced by a new one with the lengths of the best hypotheses.

    Raises:
        ValueError: If lengths are needed to normalise the scores and there are none.
    """
    need_tensors("decide", x)
    beam = beam_dim_of(x)
    if beam is None:
        return x
    scores = search_of(x, "decide").scores_like(x)
    ragged = [dim for dim in x.dims if dim.lengths is not None and beam in dim.length_dims]
    ranked = _per_label(x, scores, beam, ragged) if length_normalization else scores
    best = reduce.reduce_argmax(ranked, axis=beam)
    out = gather(x, indices=best, axis=beam)
    for dim in ragged:
        out = _shortened(out, dim, best, beam)
    return out


def _per_label(x: Tensor, scores: Tensor, beam: Dim, ragged: list[Dim]) -> Tensor:
    """The scores divided by the lengths; -inf for a hypothesis without labels."""
    if not ragged and all(dim is beam or dim in scores.dims for dim in x.dims):
        raise value_error(
            "decide: length_normalization without lengths.",
            {"value": x},
            "x needs a dim with a length for each hypothesis.",
        )
    if not ragged:  # all hypotheses of a sequence have the same length
        return scores
    lengths = cast(ragged[0].get_size_tensor(device=scores.device), scores.dtype)
    return where(lengths > 0, scores / maximum(lengths, 1), float("-inf"), allow_broadcast_all_sources=True)


def _shortened(x: Tensor, dim: Dim, best: Tensor, beam: Dim) -> Tensor:
    """x over a dim with the lengths of the chosen hypotheses."""
    size = dim.get_size_tensor()
    index = best._like(best.backend.to_device_raw(best._raw, "cpu"), best.dims)
    new = Dim(gather(size, indices=index, axis=beam), name=dim.name)
    place = x.dims.index(dim)
    raw = x.backend.slice_raw(x._raw, place, 0, new.extent)
    return x._like(raw, (*x.dims[:place], new, *x.dims[place + 1 :]))


@dataclass(frozen=True)
class Found:
    """An entry of an n-best list.

    Attributes:
        tokens: The labels of a hypothesis, up to its length.
        text: The labels as text.
        score: The score by which the search ranked it.
        parts: The parts of the score, by name.
        ended: Whether it is complete; None if unknown.
    """

    tokens: tuple[Any, ...]
    text: str
    score: float
    parts: dict[str, float]
    ended: bool | None = None


class NBest(list[Found]):
    """The hypotheses of a sequence, best first; as text it is a table."""

    def __repr__(self) -> str:
        names = list(dict.fromkeys(name for row in self for name in row.parts))
        heads = ["rank", "score", *names, "tokens", "text"]
        rows = [
            [str(rank), f"{row.score:.3f}", *(f"{row.parts.get(name, 0):.3f}" for name in names),
             " ".join(map(str, row.tokens)), row.text]
            for rank, row in enumerate(self, 1)
        ]  # fmt: skip
        lines = table_lines([heads, *rows], right=range(len(names) + 2))
        return "\n".join(line.rstrip() for line in lines)


def nbest(labels: Tensor | Sequence[Tensor], *, length_exponent: float = 0.0, join: str = " ") -> list[NBest]:
    """The hypotheses of each sequence as tables of tokens, text, score and its parts, best first.

    Args:
        labels: {time, batch, beam} from a search, lengths per hypothesis. For a choice of several sources a list of these: tokens
            are then tuples, and their texts are joined by "|".
        length_exponent: Rank by score / length ** exponent.
        join: Separator of labels in the text.

    Returns:
        One list per sequence (one for all, if there is no batch). Parts: "log_prob", the score of the search, and "length" if a
        length_exponent is given.

    Raises:
        ValueError: If labels are not from a search.
    """
    sources: list[Any] = list(labels) if isinstance(labels, (list, tuple)) else [labels]
    need_tensors("nbest", *sources)
    first = sources[0]
    scores = search_of(first, "nbest").scores_like(first)
    beam = beam_dim_of(first)
    assert beam is not None
    batch = [dim for dim in scores.dims if dim is not beam]
    (time,) = (dim for dim in first.dims if dim is not beam and dim not in batch)
    totals = scores.copy_transpose([*batch, beam]).numpy().reshape(-1, beam.extent)
    rows = np.stack(
        [source.copy_transpose([*batch, beam, time]).numpy().reshape(*totals.shape, -1) for source in sources], -1
    )
    size = time.get_size_tensor()
    lengths = host_of(size, (*batch, beam)).reshape(totals.shape) if size.dims else np.full(totals.shape, time.extent)
    names = [label_names(source.sparse_dim) for source in sources]
    out = []
    for of_seq, row, length in zip(totals, rows, lengths):
        found = []
        for score, tokens, count in zip(of_seq, row, length):
            if score == -np.inf:
                continue
            ids = tuple(map(tuple, tokens[:count].tolist()))
            text = join.join("|".join(map(_text, token, names)) for token in ids)
            parts = {"log_prob": float(score)}
            if length_exponent:
                parts["length"] = float(count)
            ids = tuple(token[0] for token in ids) if len(sources) == 1 else ids
            found.append(Found(ids, text, float(score) / max(int(count), 1) ** length_exponent, parts))
        out.append(NBest(sorted(found, key=lambda item: -item.score)))
    return out


def _text(index: int, names: Sequence[str] | None) -> str:
    return str(names[index]) if names is not None and 0 <= index < len(names) else str(index)
