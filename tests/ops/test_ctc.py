"""CTC: against the sum over all alignments written out, and against torch; what has no alignment; gradients."""

import itertools
import math
import textwrap
import warnings

import numpy as np
import pytest
import torch
from asserting import (
    assert_same,
    on_selected_backend,
    ragged,
    raises_message,
    randn,
    tensor,
    using_backend,
    with_nan_padding,
)

import rfnb as rf
from rfnb import Dim, DimError

batch, classes = Dim(4, name="batch"), Dim(3, name="classes")
LENGTHS, LABELS, BLANK = [4, 3, 2, 0], [[2, 2], [0, 2], [0, 0], [0, 0]], 1
time, label = ragged(LENGTHS, batch), ragged([2, 2, 1, 0], batch, "label")
logits = randn(batch, time, classes)
targets = tensor(np.asarray(LABELS, np.int32), batch, label, sparse_dim=classes)


def loss(logits=logits, targets=targets, blank=BLANK, **options):
    dims = {"input_spatial_dim": time, "targets_spatial_dim": label}
    return rf.ctc_loss(logits=logits, targets=targets, blank_index=blank, **{**dims, **options})


def best(**options):
    return rf.ctc_best_path(
        logits=logits, targets=targets, input_spatial_dim=time, targets_spatial_dim=label, blank_index=BLANK, **options
    )


def meaning(path, blank, label_loop=True):
    """The labels that an alignment stands for, by the definition."""
    merged = [key for key, _ in itertools.groupby(path)] if label_loop else path
    return [key for key in merged if key != blank]


def alignments(seq, label_loop=True):
    """(log probability, path) of all alignments of a sequence of the batch, by trying all paths."""
    raw = logits.numpy()[seq, : LENGTHS[seq]].astype(np.float64)
    log_probs = raw - np.log(np.exp(raw).sum(-1, keepdims=True))
    count = label.lengths[seq]
    for path in itertools.product(range(3), repeat=LENGTHS[seq]):
        if meaning(list(path), BLANK, label_loop) == LABELS[seq][:count]:
            yield sum(log_probs[t, index] for t, index in enumerate(path)), path


@pytest.mark.parametrize("backend", ["torch", "numpy"])
@pytest.mark.parametrize("label_loop", [True, False])
@pytest.mark.parametrize("max_approx", [False, True])
def test_is_the_sum_over_all_alignments(backend, label_loop, max_approx):
    scores = [[score for score, _ in alignments(seq, label_loop)] for seq in range(4)]
    expected = [-max(row) if max_approx else -math.log(sum(map(math.exp, row))) for row in scores]
    with using_backend(backend):
        x, y = (rf.convert_to_tensor(t.numpy(), dims=t.dims, sparse_dim=t.sparse_dim) for t in (logits, targets))
        assert_same(loss(x, y, label_loop=label_loop, max_approx=max_approx), tensor(expected, batch))


@pytest.mark.parametrize("label_loop", [True, False])
def test_best_path_is_the_best_of_all_alignments(label_loop):
    expected = [max(alignments(seq, label_loop))[1] for seq in range(4)]
    path = best(label_loop=label_loop)
    assert path.dims == (batch, time) and path.sparse_dim is classes and path.dtype == "int32"
    assert [tuple(row[:n]) for row, n in zip(path.numpy(), LENGTHS)] == expected


@pytest.mark.parametrize("blank", [0, 1, 2, -1])
def test_agrees_with_torch(blank):
    own = [index for index in range(3) if index != blank % 3]
    ids = np.asarray([[own[0], own[1]], [own[1], own[0]], [own[1], 0], [0, 0]])
    log_probs = logits.raw_tensor.log_softmax(-1).transpose(0, 1)
    expected = torch.nn.functional.ctc_loss(
        log_probs, torch.as_tensor(ids), (4, 3, 2, 0), (2, 2, 1, 0), blank=blank % 3, reduction="none"
    )
    assert_same(loss(targets=tensor(ids, batch, label), blank=blank), tensor(expected.numpy(), batch))


def test_normalized_logits_give_the_same_value():
    normalized = rf.log_softmax(logits, axis=classes)
    assert_same(loss(normalized, logits_normalized=True), loss())


def test_a_sequence_alone_costs_the_same_as_in_the_batch():
    one = Dim(1, name="one")
    frames, labels = ragged([3], one, "frames"), ragged([2], one, "labels")
    x = tensor(logits.numpy()[1:2, :3], one, frames, classes)
    alone = loss(x, tensor(np.asarray(LABELS[1:2]), one, labels), input_spatial_dim=frames, targets_spatial_dim=labels)
    assert_same(alone, tensor(loss().numpy()[1:2], one))


def test_each_beam_of_a_sequence_has_its_own_targets():
    beam = Dim(2, name="beam")
    ids = np.stack([LABELS, [[0, 2], [2, 0], [2, 2], [0, 0]]])
    both = loss(targets=tensor(ids, beam, batch, label))
    assert both.dims == (batch, beam)
    for index in range(2):
        assert_same(rf.gather(both, indices=index, axis=beam), loss(targets=tensor(ids[index], batch, label)))


def test_each_of_several_models_meets_the_same_targets():
    model = Dim(2, name="model")
    x = randn(model, batch, time, classes)
    x.feature_dim = classes
    both = loss(x)
    assert_same(rf.gather(both, indices=1, axis=model), loss(rf.gather(x, indices=1, axis=model)))


@pytest.mark.parametrize("zero_infinity", [True, False])
def test_what_has_no_alignment_costs_nothing_or_infinity_and_has_no_gradient(zero_infinity):
    short, long = ragged([2, 1, 2, 0], batch, "short"), ragged([2, 2, 2, 1], batch, "long")
    for max_approx, label_loop, normalized in itertools.product([False, True], [True, False], [True, False]):
        x = randn(batch, short, classes)
        rf.set_requires_gradient(x)
        ids = tensor(np.asarray([[2, 2], [0, 2], [0, 0], [0, 0]]), batch, long)
        options = {"max_approx": max_approx, "label_loop": label_loop, "zero_infinity": zero_infinity}
        options["logits_normalized"] = normalized
        out = loss(x, ids, input_spatial_dim=short, targets_spatial_dim=long, **options)
        without = [label_loop, True, label_loop, True]  # two equal labels fit into two frames only if they do not merge
        assert (out.numpy() == (0 if zero_infinity else np.inf)).tolist() == without
        assert_same(_with_numpy(x, ids, input_spatial_dim=short, targets_spatial_dim=long, **options), out)
        gradient = rf.gradient(rf.reduce_sum(out, axis=batch), x).numpy()
        assert (gradient == 0).all((1, 2)).tolist() == without


def _with_numpy(logits, ids, **options):
    with using_backend("numpy"):
        out = loss(on_selected_backend(logits), on_selected_backend(ids), **options)
    return on_selected_backend(out)


def warned(call):
    """The result of call(), and the texts of its warnings, which name the line of the call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    assert all(w.category is UserWarning and w.filename == __file__ for w in caught)
    return result, [str(w.message) for w in caught]


def test_a_sequence_that_is_too_short_is_not_lost_without_a_word():
    short, long = ragged([2, 1, 3, 2], batch, "short"), ragged([2, 2, 2, 2], batch, "long")
    ids = tensor(np.asarray([[2, 2], [0, 2], [0, 0], [0, 2]]), batch, long, sparse_dim=classes)
    x, dims = randn(batch, short, classes), {"input_spatial_dim": short, "targets_spatial_dim": long}
    out, texts = warned(lambda: loss(x, ids, **dims))
    assert (out.numpy() == 0).tolist() == [True, True, False, False]
    assert texts == [textwrap.dedent("""\
        ctc_loss: 2 of 4 sequences are too short for the labels.
          logits   [batch=4, short<=3, classes=3]
          targets  [batch=4, long<=2]
          first    sequence 0: 2 frames for 2 labels and 1 blank between equal ones
        They have no alignment, so they cost 0 and nothing is learned from them. State the intention to silence this warning:
            rf.ctc_loss(..., zero_infinity=True)     # False: they cost infinity, with gradient 0""")]  # fmt: skip
    for options in ({"zero_infinity": True}, {"zero_infinity": False}):
        assert warned(lambda options=options: loss(x, ids, **dims, **options))[1] == []
    (text,) = warned(lambda: loss(x, ids, **dims, label_loop=False))[1]
    assert "1 of 4 sequences is too short" in text and "sequence 1: 1 frame for 2 labels\n" in text


def test_without_an_alignment_the_best_path_is_all_blank_and_says_so():
    one, frames, labels = Dim(1, name="one"), Dim(2, name="frames"), Dim(2, name="labels")
    ids = tensor(np.asarray([[2, 2]]), one, labels, sparse_dim=classes)
    options = {"input_spatial_dim": frames, "targets_spatial_dim": labels, "blank_index": 0}
    for function in (rf.ctc_best_path, rf.ctc_forced_align):
        out, texts = warned(
            lambda function=function: function(logits=randn(one, frames, classes), targets=ids, **options)
        )
        assert getattr(out, "path", out).numpy().tolist() == [[0, 0]]
        assert texts == [textwrap.dedent("""\
            ctc_best_path: 1 of 1 sequences is too short for the labels.
              logits   [one=1, frames=2, classes=3]
              targets  [one=1, labels=2]
              first    sequence 0: 2 frames for 2 labels and 1 blank between equal ones
            They have no alignment, so their path is all blank.""")]  # fmt: skip


def test_an_empty_target_costs_all_blanks():
    nothing = Dim(0, name="nothing")
    empty = tensor(np.zeros((4, 0), np.int32), batch, nothing, sparse_dim=classes)
    blanks = rf.gather(rf.log_softmax(logits, axis=classes), indices=BLANK, axis=classes)
    assert_same(loss(targets=empty, targets_spatial_dim=nothing), -rf.reduce_sum(blanks, axis=time))


@pytest.mark.parametrize("max_approx", [False, True])
def test_no_batch_and_no_frames(max_approx):
    none, frames, labels = Dim(0, name="none"), Dim(0, name="frames"), Dim(2, name="labels")
    out = loss(
        rf.zeros([batch, frames, classes]), rf.zeros([batch, labels], dtype="int32"), 1,
        input_spatial_dim=frames, targets_spatial_dim=labels, max_approx=max_approx,
    )  # fmt: skip
    assert out.numpy().tolist() == [0.0] * 4
    out = loss(
        rf.zeros([none, labels, classes]), rf.zeros([none, frames], dtype="int32"), 1,
        input_spatial_dim=labels, targets_spatial_dim=frames, max_approx=max_approx,
    )  # fmt: skip
    assert out.numpy().shape == (0,)


def raw_loss(raw, **options):
    x = rf.convert_to_tensor(raw, dims=[batch, time, classes])
    return loss(x, **options).raw_tensor


@pytest.mark.parametrize("label_loop", [True, False])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("max_approx", [False, True])
def test_gradient(label_loop, normalized, max_approx):
    raw = logits.raw_tensor.double().requires_grad_()
    options = {"logits_normalized": normalized, "label_loop": label_loop, "max_approx": max_approx}
    assert torch.autograd.gradcheck(lambda raw: raw_loss(raw, **options), raw)


def test_the_gradient_of_the_maximum_is_that_of_the_best_path():
    x = rf.log_softmax(logits, axis=classes)
    rf.set_requires_gradient(x)
    total = rf.reduce_sum(loss(x, logits_normalized=True, max_approx=True), axis=batch)
    frames = rf.one_hot(best())
    assert_same(rf.gradient(total, x), -frames)


@pytest.mark.parametrize("max_approx", [False, True])
def test_padding_gets_gradient_zero_whatever_it_holds(max_approx):
    x = with_nan_padding(logits)
    rf.set_requires_gradient(x)
    gradient = rf.gradient(rf.reduce_sum(loss(x, max_approx=max_approx), axis=batch), x).numpy()
    assert not np.isnan(gradient).any() and (gradient[1, 3:] == 0).all()


@pytest.mark.parametrize(
    "options", [{}, {"max_approx": True}, {"label_loop": False}, {"logits_normalized": True}], ids=str
)
def test_a_class_of_probability_zero_has_no_nan_gradient(options):
    mask = [[True, False, False], [True, True, True], [True, True, False], [True, True, True]]
    x = rf.log_softmax(logits, axis=classes)
    rf.set_requires_gradient(x)
    out = loss(rf.where(tensor(mask, batch, classes), x, -math.inf), **options)
    # The first sequence needs the missing classes, the third does not, the last has no frames.
    assert (out.numpy() == 0).tolist() == [True, False, False, True]
    gradient = rf.gradient(rf.reduce_sum(out, axis=batch), x).numpy()
    assert not np.isnan(gradient).any()
    assert (gradient == 0).all((1, 2)).tolist() == [True, False, False, True]


def test_a_class_that_is_needed_in_some_alignments_only():
    log_probs = rf.log_softmax(logits, axis=classes).numpy().copy()
    log_probs[2, 0, 0] = -math.inf  # label 0 in the first frame: then it is in the second, after a blank
    x = tensor(log_probs, batch, time, classes)
    rf.set_requires_gradient(x)
    out = loss(x, logits_normalized=True)
    assert out.numpy()[2] == pytest.approx(-log_probs[2, 0, 1] - log_probs[2, 1, 0], rel=1e-5)
    gradient = rf.gradient(rf.reduce_sum(out, axis=batch), x).numpy()
    assert gradient[2, :2].tolist() == [[0.0, -1.0, 0.0], [-1.0, 0.0, 0.0]]


def test_half_precision_keeps_its_dtype():
    for max_approx in (False, True):
        out = loss(rf.cast(logits, "bfloat16"), max_approx=max_approx)
        assert out.dtype == "bfloat16"
        assert_same(rf.cast(out, "float32"), loss(max_approx=max_approx), tolerance=0.05)


def test_many_frames_stay_precise():
    one, frames, labels = Dim(1, name="one"), Dim(2000, name="frames"), Dim(50, name="labels")
    x = rf.cast(randn(one, frames, classes), "float64")
    ids = tensor(np.asarray([[0, 2] * 25]), one, labels)
    dims = {"input_spatial_dim": frames, "targets_spatial_dim": labels}
    exact = loss(x, ids, **dims)
    own = loss(rf.cast(rf.log_softmax(x, axis=classes), "float32"), ids, logits_normalized=True, **dims)
    assert_same(rf.cast(own, "float64"), exact, tolerance=1e-4)


other, phones = Dim(4, name="other"), Dim(2, name="phones")
ERRORS = {
    "no frames": (
        lambda: loss(randn(batch, classes)),
        DimError,
        """
        ctc_loss: no dim time<=4.
          logits  [batch=4, classes=3]
          dim     time<=4
        The dim time<=4 is not among the dims of logits.
            logits.dims[0]    # batch=4
            logits.dims[1]    # classes=3
        """,
    ),
    "no labels": (
        lambda: rf.ctc_best_path(
            logits=logits, targets=tensor([0, 0, 0, 0], batch), input_spatial_dim=time, targets_spatial_dim=label, blank_index=0
        ),
        DimError,
        """
        ctc_best_path: no dim label<=2.
          targets  [batch=4]
          dim      label<=2
        The dim label<=2 is not among the dims of targets.
            targets.dims[0]    # batch=4
        """,
    ),
    "unknown classes": (
        lambda: loss(randn(batch, time, phones, classes), tensor(np.zeros((4, 2), np.int32), batch, label)),
        DimError,
        """
        ctc_loss: which dim of logits has the classes?
          logits   [batch=4, time<=4, phones=2, classes=3]
          targets  [batch=4, label<=2]
        It is the feature_dim. Mark it:
            logits.feature_dim = ...
        """,
    ),
    "a blank that is no class": (
        lambda: loss(blank=3),
        IndexError,
        """
        ctc_loss: blank_index 3 is not one of the classes.
          classes  classes=3
        The blank is one of the classes; -1 is the last one.
        """,
    ),
    "labels that do not count the blank": (
        lambda: loss(targets=tensor(np.zeros((4, 2), np.int32), batch, label, sparse_dim=phones)),
        DimError,
        """
        ctc_loss: the labels may not be indices into the classes.
          targets  [batch=4, label<=2] over phones=2
          classes  classes=3
          blank    1
        Labels without a blank are only the same in classes if the blank is the last of it.
        If the targets count the blank, say what they are over:
            targets = rf.set_sparse_dim(targets, classes)
        """,
    ),
    "batches that do not match": (
        lambda: loss(targets=tensor(np.zeros((4, 2), np.int32), other, phones, sparse_dim=classes), targets_spatial_dim=phones),
        DimError,
        """
        ctc_loss: the batch dims of logits and targets do not match.
          logits   [batch=4, time<=4, classes=3]
          targets  [other=4, phones=2]
        This would compare every batch=4 with every other=4.
        If they are the same axis, replace one first; if all with all is meant, say so:
            targets, _ = rf.replace_dim(targets, in_dim=..., out_dim=...)
            targets = rf.expand_dim(targets, dim=...)
        """,
    ),
    "lengths over a dim that is not here": (
        lambda: loss(randn(time, classes), tensor(np.zeros(2, np.int32), phones), targets_spatial_dim=phones),
        DimError,
        """
        ctc_loss: the lengths of time<=4 are over [batch=4], which is not here.
          batch dims  []
          lengths     [batch=4]
        Which frames are real differs per sequence. One sequence that was picked (i) keeps its own frames if they are cut out first;
        what is the same for all sequences needs their dim:
            x, time = rf.slice(x, axis=time, size=rf.gather(time.dyn_size_ext, indices=i, axis=batch))
            x = rf.expand_dim(x, dim=batch)
        """,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()


def test_blanks_among_the_targets_are_said():
    with pytest.warns(UserWarning) as caught:
        rf.ctc_loss(
            logits=logits,
            targets=targets,
            input_spatial_dim=time,
            targets_spatial_dim=label,
            blank_index=2,
            zero_infinity=True,
        )
    assert str(caught[0].message) == textwrap.dedent(
        """\
        ctc_loss: 3 of the targets are the blank.
          targets  [batch=4, label<=2]
          blank    2
          first    sequence 0, label 0
        Targets are labels alone; blanks come between them in an alignment. Say which class is the blank, or take them out:
            blank_index=...
            targets, label = rf.masked_select(targets, mask=targets != 2, dims=[label])"""
    )


def test_the_blank_in_the_padding_of_targets_is_none(recwarn):
    values = np.where(np.arange(2) < np.asarray([2, 2, 1, 0])[:, None], LABELS, BLANK).astype(np.int32)
    rf.ctc_loss(
        logits=logits, targets=tensor(values, batch, label, sparse_dim=classes), input_spatial_dim=time,
        targets_spatial_dim=label, blank_index=BLANK, zero_infinity=True,
    )  # fmt: skip
    assert not recwarn.list


def test_normalized_logits_that_are_no_log_probabilities_are_said():
    with pytest.warns(UserWarning) as caught:
        low = rf.ctc_loss(
            logits=rf.softmax(logits, axis=classes), logits_normalized=True, targets=targets, input_spatial_dim=time,
            targets_spatial_dim=label, blank_index=BLANK, zero_infinity=True,
        ).numpy().min()  # fmt: skip
    assert str(caught[0].message) == textwrap.dedent(
        f"""\
        ctc_loss: a loss below 0.
          logits   [batch=4, time<=4, classes=3], logits_normalized
          targets  [batch=4, label<=2]
          lowest   {low:.4g}
        A probability is at most 1, and -log of it at least 0. So these are none; say what they are:
            rf.ctc_loss(..., logits_normalized=False)    # any numbers
            logits = rf.safe_log(logits)                 # of probabilities"""
    )
