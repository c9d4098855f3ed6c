"""The law of marks as functions: which sparse_dim and feature_dim the results of an op have, if one of its operands is marked.

The rule is that of `new_tensor` (core/tensor.py). A case is as in `laws.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from laws import Run

import rfnb as rf
from rfnb import Dim, Tensor


def meanings(run: Run) -> Iterator[tuple[int, bool]]:
    """Of each result, if one float operand has a sparse_dim: which operand, whether the result has it too."""
    call, inputs = run.call, run.inputs
    space = Dim(11, name="space")
    for place, x in enumerate(inputs):
        if x.sparse_dim is None and x.dtype.startswith("float"):
            for out in _results(call, inputs, place, rf.set_sparse_dim(x, space)):
                if out.dtype == "bool":
                    assert out.sparse_dim is None, f"a bool indexes into {out.sparse_dim}"
                elif not _is_index(out, inputs):
                    yield place, out.sparse_dim is space


def features(run: Run) -> Iterator[tuple[int, bool]]:
    """Of each result that has a dim which is the feature_dim of an operand: which operand, whether it is that of the result too."""
    call, inputs = run.call, run.inputs
    for place, x in enumerate(inputs):
        for dim in x.dims:
            marked = rf.copy(x)
            marked.feature_dim = dim
            for out in _results(call, inputs, place, marked):
                assert out.feature_dim is None or out.feature_dim in out.dims
                if dim in out.dims and not _is_index(out, inputs):
                    yield place, out.feature_dim is dim


# reason -> operands, each as op:place
NO_MEANING = {
    "a product, and what is made of products": "matmul:0 matmul:1 dot:0 dot:1 conv:0 conv:1 conv:2 transposed_conv:0"
    " transposed_conv:1 transposed_conv:2 stft:0 mel_filterbank:0 log_mel_filterbank_from_raw:0",
    "probabilities, and losses of them": "softmax:0 log_softmax:0 cross_entropy:0 cross_entropy:1 ctc_loss:0 ctc_forced_align:0",
    "sizes": "make_conv_out_spatial_dims:0 make_transposed_conv_out_spatial_dims:0",
    "an option, no values": "pad:2 scaled_gradient:1 linspace_over_dim:0",
}
NO_FEATURE = {
    "documented: a reduction loses it; so does what keeps the best": "reduce:0 reduce_sum:0 reduce_max:0 reduce_min:0 reduce_mean:0"
    " reduce_any:0 reduce_all:0 reduce_logsumexp:0 reduce_logmeanexp:0 top_k:0",
    "other features are marked": "concat_features:0 concat_features:1 one_hot:0 sparse_to_dense:0 smooth_one_hot:0 label_smoothing:0"
    " conv:0 transposed_conv:0 reduce_out:0 stft:0 mel_filterbank:0 log_mel_filterbank_from_raw:0",
    "a product": "matmul:0 matmul:1 dot:0 dot:1",
    "a number per frame, per label or per sequence": "cross_entropy:0 cross_entropy:1 ctc_loss:1 ctc_forced_align:1"
    " edit_distance:0 edit_distance:1 initial_edit_distance_row:0 next_edit_distance_row:0 next_edit_distance_row:1"
    " next_edit_distance_row:2 next_edit_distance_row:3 next_edit_distance_reduce:0 next_edit_distance_reduce:1"
    " next_edit_distance_reduce:2 optimal_completions:0 optimal_completions:1 optimal_completion_edit_distance:0"
    " optimal_completion_edit_distance:1 optimal_completion_edit_distance_per_successor:0"
    " optimal_completion_edit_distance_per_successor:1",
    "a mask of what it got": "top_k_mask:0 top_p_mask:0",
    "a condition, an index, a number of frames, an option": "gather:1 scatter:1 scatter_logsumexp:1 masked_select:1 masked_scatter:1"
    " where:0 repeat:1 slice:1 slice:2 pad:1 pad:2 scaled_gradient:1 linspace_over_dim:0 random_mask:1",
    "a Python bool gives the other operand, or nothing of both": "opt_logical_and:0 opt_logical_and:1 opt_logical_or:0 opt_logical_or:1",
    "sizes": "make_conv_out_spatial_dims:0 make_transposed_conv_out_spatial_dims:0",
}
MARKS = {"sparse_dim": (meanings, NO_MEANING), "feature_dim": (features, NO_FEATURE)}
LOST: dict[str, set[str]] = {mark: set() for mark in MARKS}  # what the laws have found in this process


def check_marks(run: Run, mark: str) -> None:
    """A result of an op has the mark of its operands, unless it is listed."""
    if getattr(rf, run.name.split()[0]).__module__.startswith("rfnb.ops"):
        lost = losing(mark, run) - set(" ".join(MARKS[mark][1].values()).split())
        assert not lost, f"op:place of the operand whose {mark} a result has lost: {sorted(lost)}"


def losing(mark: str, run: Run) -> set[str]:
    """The operands, as op:place, of which some result lacks the mark."""
    lost = {f"{run.name.split()[0]}:{place}" for place, kept in MARKS[mark][0](run) if not kept}
    LOST[mark] |= lost
    return lost


def _is_index(out: Tensor, inputs: list[Tensor]) -> bool:
    """Whether it says where something was found."""
    return out.dtype.startswith("int") and any(out.sparse_dim in x.dims for x in inputs)


def _results(call: Any, inputs: list[Tensor], place: int, marked: Tensor) -> list[Tensor]:
    try:
        return list(_tensors(call(*inputs[:place], marked, *inputs[place + 1 :])))
    except (rf.DimError, IndexError):  # the mark says what an operand is, and that is refused
        return []


def _tensors(result: Any) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        if result.raw_tensor is not None:
            yield result
    elif isinstance(result, (list, tuple)):
        for part in result:
            yield from _tensors(part)
