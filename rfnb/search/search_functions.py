"""Beam search as pure functions, for a hand-written loop: a step, the states that follow it, and backtracking.

    scores = labels = None
    for step in range(max_steps):
        labels, parents, scores = rf.beam_search_step(log_probs, scores, ended, beam_size=4, axis=vocab, out_beam_dim=beam)
        state, ended = rf.gather_beams((state, ended), parents)
        ...
    for label in rf.backtrack(all_labels, all_parents): ...

`rf.choice` in an `rf.Loop` does all of this automatically.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never

from rfnb.core.beam_dim import is_beam
from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, value_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.core.tree import map_nested
from rfnb.ops import math
from rfnb.ops.cast import cast
from rfnb.ops.defaults import is_float_dtype
from rfnb.ops.dims import range_over_dim
from rfnb.ops.operands import check_dtypes, need_tensors
from rfnb.ops.where import where
from rfnb.rec.nested import gather_nested
from rfnb.rec.selection import renamed_dim
from rfnb.search import rank
from rfnb.search.operand_checks import no_labels_dim
from rfnb.search.score import check_log_probs, combined, log_prob_of, normalized_base


@op
def beam_search_step(
    scores: Tensor,
    base: Tensor | None = None,
    ended: Tensor | None = None,
    *extra: Never,
    beam_size: int,
    axis: Dim | None = None,
    beam_dim: Dim | None = None,
    out_beam_dim: Dim | None = None,
    step: int | Tensor = 0,
    input_type: str = "log_prob",
    prob_scale: float = 1.0,
    base_beam_score_scale: float = 1.0,
    random_sample_scale: float = 0.0,
    length_normalization: bool = False,
    length_normalization_exponent: float = 1.0,
    keep_beams: bool = False,
    end_label: int = 0,
    **unknown: Never,
) -> tuple[Tensor, Tensor, Tensor]:
    """The labels, parents and scores of the surviving hypotheses, best first.

    Args:
        scores: {..., axis}, with the current beam if there are several hypotheses: scores of the next label of each.
        base: {..., beam_dim}: the score of each hypothesis so far. Default: 0.
        ended: bool {..., beam_dim}: the ended hypotheses. They continue only with `end_label`, at no cost.
        beam_size: The number of surviving hypotheses.
        axis: The dim of the labels; default: the feature_dim of scores.
        beam_dim: The dim of the hypotheses. Default: the dim of base; without base, the dim of scores whose kind is "beam";
            otherwise there is one hypothesis.
        out_beam_dim: The dim of the survivors; may be beam_dim. Default: a new dim.
        step: Index of the step, for length_normalization: the scores of ended hypotheses grow by ((step + 1) / step) ** exponent.
        input_type, prob_scale, base_beam_score_scale, random_sample_scale, length_normalization, length_normalization_exponent,
            keep_beams, end_label: See `rf.choice`.

    Returns:
        int64 {..., out_beam_dim} labels, sparse over axis; int64 parents, sparse over beam_dim; scores. If there are fewer
            continuations than beam_size, the rest are label 0 of hypothesis 0 with score -inf. With keep_beams: best first for each
            hypothesis.

    Raises:
        DimError: If axis is not a dim of scores, or out_beam_dim has another size.
        ValueError: If keep_beams is given and beam_size is not a multiple of the number of hypotheses.

    Source: Sutskever et al. 2014, section 3.2; noise: Kool et al. 2019.
    """
    need_tensors("beam_search_step", scores)
    if not is_float_dtype(scores.dtype):
        check_dtypes("beam_search_step", scores=scores)
    axis = axis or scores.feature_dim
    if axis is None:
        raise no_labels_dim("beam_search_step", scores)
    check_dim("beam_search_step", scores, axis, "scores")
    beam_dim = beam_dim or _beam_of(scores, base, axis)
    if out_beam_dim is None:
        out_beam_dim = Dim(beam_size, name="beam", kind="beam")
    elif out_beam_dim.extent != beam_size:
        raise dim_error(
            "beam_search_step: out_beam_dim has another size.",
            {"beam_size": beam_size, "out_beam_dim": out_beam_dim},
            "It is the dim of the surviving hypotheses.",
        )
    if base is not None and length_normalization:
        before = math.maximum(cast(step, base.dtype), 1.0) if isinstance(step, Tensor) else max(step, 1)
        base = normalized_base(base, ended, before, length_normalization_exponent)
    total = combined(
        log_prob_of(scores, axis, input_type), base, ended, prob_scale=prob_scale, base_scale=base_beam_score_scale,
        noise_scale=random_sample_scale,
        stay=lambda x: where(ended, _only(end_label, axis, x), x, allow_broadcast_all_sources=True),
    )  # fmt: skip
    flat = rank.flat_of(total, beam_dim if beam_dim in total.dims else None, axis)
    place = "beam_search_step"
    ranked = rank.best_of_each(flat, beam_size, place) if keep_beams else rank.best_of(flat, beam_size)
    rank.check_ranked(flat, ranked, total, place)
    only_fall = input_type != "score" and prob_scale >= 0 and base_beam_score_scale >= 0 and not random_sample_scale
    if only_fall and ranked.host.max(initial=0) > 0:
        if base is None or float(math.clip_by_value(base, 0.0, 1.0).copy_masked(0).numpy().max(initial=0)) == 0:
            check_log_probs(ranked.host, flat.rest, scores, lambda: place, "rf.beam_search_step")
    parent, label = rank.split_index(flat, ranked.index)
    make = lambda raw, sparse=None: rank.out_tensor(raw, flat, out_beam_dim, sparse)  # noqa: E731
    return make(label, axis), make(parent, beam_dim or out_beam_dim), make(ranked.scores)


def _beam_of(scores: Tensor, base: Tensor | None, axis: Dim) -> Dim | None:
    """The dim of the current hypotheses."""
    for x in (base, scores):
        found = [] if x is None else [dim for dim in x.dims if is_beam(dim) and dim is not axis]
        if found:
            return found[-1]
    return None


def _only(label: int, axis: Dim, like: Tensor) -> Tensor:
    index = range_over_dim(axis, device=like.device)
    index.sparse_dim = None
    return cast(where(index == label, 0.0, float("-inf")), like.dtype)


@op
def gather_beams(state: Any, parents: Tensor, *extra: Never, **unknown: Never) -> Any:
    """Reorder a nested state for the surviving hypotheses: `state[..., parents]`; values without a beam stay unchanged.

    Args:
        state: Nested Tensors and Dims, under the previous beam.
        parents: int {..., beam}, sparse over the previous beam, from `beam_search_step`. Both beams may be the same dim.

    Raises:
        DimError: If parents have no sparse_dim.
    """
    beam = parents.sparse_dim
    if beam is None or beam not in parents.dims:
        return gather_nested(state, indices=parents)
    twin = Dim(beam.extent, name=beam.name)
    index = new_tensor(parents._raw, tuple(twin if dim is beam else dim for dim in parents.dims))
    index.sparse_dim = beam

    def renamed(x: Any) -> Any:
        if isinstance(x, Dim):
            return renamed_dim(x, twin, beam)
        if not isinstance(x, Tensor):
            return x
        return x._like(x._raw, tuple(beam if dim is twin else renamed_dim(dim, twin, beam) for dim in x.dims))

    return map_nested(renamed, gather_nested(state, indices=index))


def backtrack(values: Sequence[Any], parents: Sequence[Tensor | Sequence[Tensor]]) -> list[Any]:
    """The values of each step along the paths of the final hypotheses.

    Args:
        values: One for each step, nested Tensors {..., beam of the step, ...}.
        parents: For each step the parents from `beam_search_step`; for several consecutive choices in a step a list. Those of the
            first step are ignored.

    Returns:
        As many values, under the last beam.

    Raises:
        ValueError: If the numbers of parents and values differ.
    """
    if len(values) != len(parents):
        raise value_error(
            "backtrack: another number of parents than of values.",
            {"values": len(values), "parents": len(parents)},
            "Each step has its values and its parents.",
        )
    out: list[Any] = []
    position: Tensor | None = None  # of the final hypotheses in the beam of the step
    for value, of_step in zip(reversed(values), reversed(parents), strict=True):
        out.append(value if position is None else gather_beams(value, position))
        for one in reversed([of_step] if isinstance(of_step, Tensor) else of_step):
            position = one if position is None else gather_beams(one, position)
    return out[::-1]
