"""Labels and durations, also of blanks, are read from a CTC alignment."""

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError

batch, classes = Dim(3, name="batch"), Dim(4, name="classes")
time = ragged([7, 4, 0], batch)
path = tensor(
    np.asarray([[3, 1, 1, 3, 1, 2, 2], [0, 0, 3, 3, 1, 1, 1], [1] * 7], np.int32), batch, time, sparse_dim=classes
)
CTC = {"path": path, "path_spatial_dim": time, "blank_index": 3}


def test_greedy_decode_merges_and_drops_blanks():
    out, dim = rf.ctc_greedy_decode(rf.one_hot(path), in_spatial_dim=time, blank_index=-1, wb_target_dim=classes)
    assert dim.lengths.tolist() == [3, 1, 0] and out.sparse_dim is classes
    assert_same(out, tensor(np.asarray([[1, 1, 2], [0, 9, 9], [9, 9, 9]]), batch, dim, sparse_dim=classes))


def test_greedy_decode_takes_the_feature_dim_and_given_dims():
    logits, labels, out_dim = rf.one_hot(path), Dim(3, name="labels"), Dim(None, name="out")
    logits.feature_dim = classes
    out, dim = rf.ctc_greedy_decode(
        logits, in_spatial_dim=time, blank_index=3, out_spatial_dim=out_dim, target_dim=labels
    )
    assert dim is out_dim and out.sparse_dim is labels and out.dims == (batch, out_dim)


def test_durations_of_labels_and_blanks():
    out, dim = rf.ctc_durations_from_path(**CTC)
    assert dim.lengths.tolist() == [7, 3, 1] and out.dtype == "int32" and out.sparse_dim is None
    expected = [[1, 2, 1, 1, 0, 2, 0], [0, 2, 2, 9, 9, 9, 9], [0] * 7]
    assert_same(out, tensor(np.asarray(expected, np.int32), batch, dim))


def test_durations_of_a_path_of_known_labels():
    labels = ragged([3, 1, 0], batch, "labels")
    out, dim = rf.ctc_durations_from_path(**CTC, targets_spatial_dim=labels)
    assert dim is 2 * labels + 1
    assert_same(rf.reduce_sum(out, axis=dim), [7, 4, 0])


def test_durations_of_the_best_path_of_given_labels():
    labels = ragged([2, 1, 0], batch, "labels")
    ids = tensor(np.asarray([[0, 2], [1, 0], [0, 0]], np.int32), batch, labels, sparse_dim=classes)
    dims = {"targets_spatial_dim": labels, "blank_index": 3}
    best = rf.ctc_best_path(logits=randn(batch, time, classes), targets=ids, input_spatial_dim=time, **dims)
    out, _ = rf.ctc_durations_from_path(path=best, path_spatial_dim=time, **dims)
    assert (out.numpy()[0, 1:4:2] >= 1).all() and out.numpy()[1, 1] >= 1


def test_blank_durations_where_each_label_takes_one_frame():
    out, dim = rf.ctc_no_label_loop_blank_durations_from_path(**CTC)
    assert dim.lengths.tolist() == [6, 3, 1]
    expected = [[1, 0, 1, 0, 0, 0], [0, 0, 2, 9, 9, 9], [0] * 6]
    assert_same(out, tensor(np.asarray(expected, np.int32), batch, dim))


@pytest.mark.parametrize("name", ["ctc_durations_from_path", "ctc_no_label_loop_blank_durations_from_path"])
def test_other_labels_are_noticed(name):
    labels = ragged([3, 2, 0], batch, "labels")
    text = f"""
        {name}: the paths have other numbers of labels than targets_spatial_dim.
          path                 over time<=7
          targets_spatial_dim  labels<=3
        A path of these targets has each of them once.
            rf.{name}(..., check_dims=False)
        """
    with raises_message(AssertionError, text):
        getattr(rf, name)(**CTC, targets_spatial_dim=labels)
    with pytest.warns(RuntimeWarning, match="the paths have other numbers of labels"):
        getattr(rf, name)(**CTC, targets_spatial_dim=labels, stop_on_failed_check=False)
    out, _ = getattr(rf, name)(**CTC, targets_spatial_dim=labels, check_dims=False)
    assert out.numpy().shape == (3, 7 if name == "ctc_durations_from_path" else 4)


def test_a_given_out_dim_gets_its_size():
    out_dim = Dim(None, name="out")
    _, dim = rf.ctc_durations_from_path(**CTC, out_spatial_dim=out_dim)
    assert dim is out_dim and dim.lengths.tolist() == [7, 3, 1]


ERRORS = {
    "unknown classes": (
        lambda: rf.ctc_greedy_decode(randn(batch, time, classes), in_spatial_dim=time, blank_index=0),
        DimError,
        """
        ctc_greedy_decode: which dim of logits has the classes?
          logits  [batch=3, time<=7, classes=4]
        It has no feature_dim, so name the classes:
            rf.ctc_greedy_decode(..., wb_target_dim=...)
        """,
    ),
    "labels without the blank in the middle": (
        lambda: rf.ctc_greedy_decode(
            randn(batch, time, classes), in_spatial_dim=time, blank_index=0, wb_target_dim=classes, target_dim=Dim(3, name="labels")
        ),
        DimError,
        """
        ctc_greedy_decode: target_dim does not fit the classes.
          target_dim  labels=3
          classes     classes=4
          blank       0
        Without the blank there is one class less, and the others only keep their index if the blank is the last one.
            rf.ctc_greedy_decode(..., target_dim=classes)
        """,
    ),
    "no time": (
        lambda: rf.ctc_greedy_decode(randn(batch, classes), in_spatial_dim=time, blank_index=0, wb_target_dim=classes),
        DimError,
        """
        ctc_greedy_decode: no dim time<=7.
          logits  [batch=3, classes=4]
          dim     time<=7
        The dim time<=7 is not among the dims of logits.
            logits.dims[0]    # batch=3
            logits.dims[1]    # classes=4
        """,
    ),
    "a path without time": (
        lambda: rf.ctc_durations_from_path(path=randn(batch), path_spatial_dim=time, blank_index=0),
        DimError,
        """
        ctc_durations_from_path: no dim time<=7.
          path  [batch=3]
          dim   time<=7
        The dim time<=7 is not among the dims of path.
            path.dims[0]    # batch=3
        """,
    ),
    "a blank from an unknown end": (
        lambda: rf.ctc_durations_from_path(
            path=rf.set_sparse_dim(path, None), path_spatial_dim=time, blank_index=-1
        ),
        IndexError,
        """
        ctc_durations_from_path: blank_index -1 counts from the end.
          path  [batch=3, time<=7]
        The path has no sparse_dim, so the number of classes is unknown:
            path = rf.set_sparse_dim(path, ...)
        """,
    ),
    "an out_dim of another size": (
        lambda: rf.ctc_durations_from_path(**CTC, out_spatial_dim=Dim(4, name="out")),
        DimError,
        """
        ctc_durations_from_path: out_spatial_dim has another size.
          out_spatial_dim  out=4
          needed           2*labels+1<=7
        An out_spatial_dim fits, or has no size yet and takes it over.
            Dim(None, name="out")
        """,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()
