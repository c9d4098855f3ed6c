"""The law of marks, for every public op: a result has the sparse_dim of its operands, and their feature_dim as long as it has that
dim; what does not is listed with its reason. The rule is in the docstring of `new_tensor`."""

import pytest
from asserting import assert_same, ragged, tensor
from marks import features, meanings, worlds
from table import CASES, read_entries
from test_laws_can_fail import BROKEN_MARKS

import rfnb as rf
from rfnb import Dim

read_entries()
OPS = [name for name in CASES if getattr(rf, name.split()[0]).__module__.startswith("rfnb.ops")]
# reason -> operands, each as op:place
NO_MEANING = {
    "a product, and what is made of products": "matmul:0 matmul:1 dot:0 dot:1 conv:0 conv:1 conv:2 transposed_conv:0"
    " transposed_conv:1 transposed_conv:2 stft:0 mel_filterbank:0 log_mel_filterbank_from_raw:0",
    "probabilities, and losses of them": "softmax:0 log_softmax:0 cross_entropy:0 cross_entropy:1 ctc_loss:0 ctc_forced_align:0",
    "sizes": "make_conv_out_spatial_dims:0 make_transposed_conv_out_spatial_dims:0",
    "an option, no values": "pad:2 scaled_gradient:1 linspace_over_dim:0",
}
NO_FEATURE = {
    "documented: a reduction loses it; so does what keeps the best": "reduce_sum:0 reduce_max:0 reduce_min:0 reduce_mean:0 top_k:0",
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
    "a condition, an index, a number of frames, an option": "gather:1 scatter_logsumexp:1 masked_select:1 masked_scatter:1"
    " where:0 repeat:1 slice:1 slice:2 pad:1 pad:2 scaled_gradient:1 linspace_over_dim:0 random_mask:1",
    "a Python bool gives the other operand, or nothing of both": "opt_logical_and:0 opt_logical_and:1 opt_logical_or:0 opt_logical_or:1",
    "sizes": "make_conv_out_spatial_dims:0 make_transposed_conv_out_spatial_dims:0",
}
LAWS = {"sparse_dim": (meanings, NO_MEANING), "feature_dim": (features, NO_FEATURE)}
_lost: dict[str, set[str]] = {mark: set() for mark in LAWS}


def losing(law, name, case):
    """The operands, as op:place, of which some result lacks the mark."""
    return {f"{name.split()[0]}:{place}" for world in worlds() for place, kept in law(case, world) if not kept}


@pytest.mark.parametrize("mark", LAWS)
@pytest.mark.parametrize("name", OPS)
def test_results_keep_the_marks_of_operands(name, mark):
    law, exceptions = LAWS[mark]
    lost = losing(law, name, CASES[name])
    _lost[mark] |= lost
    assert sorted(lost - set(" ".join(exceptions.values()).split())) == []


@pytest.mark.parametrize("mark", LAWS)
def test_the_exceptions_are_needed(mark):
    law, exceptions = LAWS[mark]
    listed = set(" ".join(exceptions.values()).split())
    ops = {operand.partition(":")[0] for operand in listed - _lost[mark]}  # all, unless this test runs alone
    found = {lost for name in OPS if name.split()[0] in ops for lost in losing(law, name, CASES[name])}
    assert sorted(listed - _lost[mark] - found) == []


@pytest.mark.parametrize(("case", "mark"), BROKEN_MARKS.items(), ids=lambda each: getattr(each, "__name__", each))
def test_an_op_that_loses_a_mark_breaks_the_law(case, mark):
    assert losing(LAWS[mark][0], "broken", case)


batch, feat, vocab = Dim(2, name="batch"), Dim(3, name="feat"), Dim(7, name="vocab")
one, time = Dim(1, name="one"), ragged([4, 2], batch)
# Of x {batch, time, feat}: what the table has for floats only, or not at all.
KEEPS = {
    "copy_masked": lambda x: x.copy_masked(0),
    "copy_transpose": lambda x: x.copy_transpose([feat, time, batch]),
    "a frame of a loop": lambda x: rf.TensorArray.unstack(x, axis=time)[0],
    "labels in the second source": lambda x: rf.concat((rf.zeros(x.dims, dtype="int32"), time), (x, time))[0],
    "a frame by a number": lambda x: rf.gather(x, indices=1, axis=time),
    "cast": lambda x: rf.cast(x, "int64"),
}


def marked():
    x = tensor(
        [[[0, 1, 2], [3, 4, 5], [6, 0, 1], [2, 3, 4]], [[5, 6, 0], [1, 2, 3], [0, 0, 0], [0, 0, 0]]], batch, time, feat
    )
    x.sparse_dim, x.feature_dim = vocab, feat
    return x


@pytest.mark.parametrize("name", KEEPS)
def test_labels_stay_labels(name):
    out = KEEPS[name](marked())
    assert out.sparse_dim is vocab, f"{name} gives indices into {out.sparse_dim}"
    assert out.feature_dim is feat, f"{name} has the features {out.feature_dim}"


@pytest.mark.parametrize("mode", ["argmax", "argmin"])
def test_where_something_is_indexes_into_the_axis(mode):
    assert rf.reduce(marked(), mode=mode, axis=feat).sparse_dim is feat


@pytest.mark.parametrize("merged", [True, False])
def test_features_follow_into_the_dim_they_become(merged):
    if merged:
        out, dim = rf.merge_dims(marked(), dims=[time, feat])
    else:
        dim = Dim(3, name="other")
        out, _ = rf.replace_dim(marked(), in_dim=feat, out_dim=dim)
    assert out.feature_dim is dim


def test_a_kept_mark_is_used():
    """The largest label of each sequence is looked up as a label."""
    table = tensor([[float(row)] for row in range(7)], vocab, one)
    best = rf.reduce_max(marked(), axis=[time, feat])
    assert_same(rf.gather(table, indices=best), tensor([[6.0], [6.0]], batch, one))
