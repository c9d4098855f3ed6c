"""A choice of several sources: the best combinations of their labels."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dim import Dim
from rfnb.core.errors import message
from rfnb.core.tensor import Tensor
from rfnb.ops import math
from rfnb.ops.expand import expand_dims
from rfnb.ops.gather import gather
from rfnb.ops.merge import merge_dims
from rfnb.ops.reduce import top_k
from rfnb.rec.loop import Loop
from rfnb.search.score import log_prob_of
from rfnb.search.step import Options, choose
from rfnb.trace.probe import listening


def choose_several(
    loop: Loop, sources: Sequence[Tensor], axes: Sequence[Dim], sizes: Sequence[int] | None, options: Options
) -> tuple[Tensor, ...]:
    """The labels of each source, {batch, beam}; the scores of a combination are added.

    The first source is the slowest in the order of combinations. An ended hypothesis keeps combination 0: it repeats the best
    labels of each source, and what comes after its length means nothing.
    """
    sizes = list(sizes) if sizes is not None else [options.beam_size] * len(sources)
    if len(sizes) != len(sources) or any(size < 1 for size in sizes):
        raise ValueError(
            message("choice: source_beam_sizes do not fit the sources.", [("sources", len(sources)), ("sizes", ", ".join(map(str, sizes)))],
                    "Each source has a size, at least 1.")
        )  # fmt: skip
    if options.prefix is not None or options.banned is not None or options.no_repeat_ngram or options.end_label:
        raise ValueError(
            "choice: prefix, banned, no_repeat_ngram or end_label with several sources.\nThey are about the labels of one source."
        )
    total, labels, parts = None, [], []
    for scores, axis, size in zip(sources, axes, sizes):
        log_prob = log_prob_of(scores, axis, options.input_type)
        best, index, part = top_k(log_prob, axis=axis, k=min(size, axis.extent))
        assert isinstance(index, Tensor)
        labels.append(index)
        parts.append(part)
        total = best if total is None else math.combine_bc(total, "add", best)
    assert total is not None
    merged, combination = merge_dims(total, dims=parts)
    tokens = None
    if listening("beams"):
        same = expand_dims(labels[0], [dim for dim in total.dims if dim not in labels[0].dims])
        tokens, _ = merge_dims(same.copy_transpose(total.dims), dims=parts, out_dim=combination)
        tokens.sparse_dim = axes[0]
    chosen = choose(loop, merged, combination, options._replace(input_type="log_prob", tokens=tokens))
    selection = loop.selection
    assert selection is not None
    out, rest = [], chosen
    rest.sparse_dim = None
    places: list[Tensor] = []
    for part in reversed(parts):
        places.insert(0, rest % part.extent)
        rest = rest // part.extent
    for label, place, part, axis in zip(labels, places, parts, axes):
        picked = gather(selection.bring(label), indices=place, axis=part)
        picked.sparse_dim = axis
        out.append(picked.copy_transpose(chosen.dims))
    return tuple(out)
