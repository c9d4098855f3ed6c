"""Errors about dims in a notebook: their picture beside the traceback, and the traceback alone where there is nothing to draw."""

from __future__ import annotations

import pickle
import sys
from unittest.mock import patch

import numpy as np
import pytest
from asserting import ragged
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import rfnb as rf
from rfnb import Dim
from rfnb.core.errors import DimError, ShapeError
from rfnb.viz.dims.failure import spec_of_error
from rfnb.viz.kinds import text_of
from rfnb.viz.show import view_of


def caught(call):
    with pytest.raises((DimError, ShapeError)) as found:
        call()
    return found.value


def clashing(spec):
    return [entry["name"] for entry in spec.head["dims"] if entry.get("clash")]


def test_the_operands_and_the_two_dims_of_one_size_that_clash():
    batch, model, out = Dim(3, name="batch"), Dim(5, name="model"), Dim(7, name="out")
    time, frames = ragged([4, 2, 3], batch), Dim(4, name="frames")
    a, b = rf.zeros([batch, time, model]), rf.zeros([frames, out])
    spec = spec_of_error(caught(lambda: rf.matmul(a, b, reduce=time)))
    assert [row["label"] for row in spec.head["rows"]][:2] == ["a", "b"]
    assert clashing(spec) == ["time", "frames"]
    assert all(entry["origin"].startswith("made at ") for entry in spec.head["dims"])
    assert f"made at {frames.created}" in text_of(spec)
    assert "clashes" in text_of(spec)


def test_two_dims_of_one_name_clash():
    first, second, other = Dim(3, name="time"), Dim(5, name="time"), Dim(2, name="feat")
    spec = spec_of_error(caught(lambda: rf.reduce_sum(rf.zeros([first, other]), axis=second)))
    assert clashing(spec) == ["time", "time"]


def test_what_would_mend_it_is_said():
    time, frames = Dim(4, name="time"), Dim(4, name="frames")
    x = rf.zeros([time])
    error = caught(lambda: rf.reduce_sum(x, axis=frames))
    assert spec_of_error(error).head["mend"].splitlines()[-1].strip() == str(error).splitlines()[-1].strip()


def test_the_dims_of_an_array_that_does_not_fit():
    batch, vocab = Dim(3, name="batch"), Dim(32, name="vocab")
    spec = spec_of_error(
        caught(lambda: rf.Tensor("x", [batch, vocab], "float32", raw_tensor=np.zeros((3, 30), np.float32)))
    )
    assert {"batch", "vocab"} <= {entry["name"] for entry in spec.head["dims"]}


def test_an_error_without_operands_has_no_picture():
    assert spec_of_error(DimError("by hand")) is None


def test_an_error_of_another_process_has_none_either():
    time, frames = Dim(4, name="time"), Dim(4, name="frames")
    error = pickle.loads(pickle.dumps(caught(lambda: rf.reduce_sum(rf.zeros([time]), axis=frames))))
    assert spec_of_error(error) is None


def test_an_error_that_was_caught_is_shown_as_its_picture():
    time, frames = Dim(4, name="time"), Dim(4, name="frames")
    error = caught(lambda: rf.reduce_sum(rf.zeros([time]), axis=frames))
    assert view_of(error).text() == text_of(spec_of_error(error))


def test_an_error_without_picture_is_not_shown_and_says_why():
    with pytest.raises(ValueError) as found:
        rf.show(DimError("by hand"))
    assert str(found.value) == (
        "show: this error has no picture.\n"
        "  error  DimError\n"
        "Its operands are not in its stack frames: it was created by hand, or in another process.\n"
        "    print(error)"
    )


CELL = """import rfnb as rf
time, frames = rf.Dim(4, name="time"), rf.Dim(4, name="frames")
rf.reduce_sum(rf.zeros([time]), axis=frames)
"""


@patch.object(
    sys, "ps1", "", create=True
)  # an InteractiveShell sets it, and says by that to all tests that this is a terminal
def run(code):
    shell = InteractiveShell()
    try:
        with patch("IPython.get_ipython", lambda: shell), patch("IPython.display.display") as display:
            with capture_output() as captured:
                shell.run_cell(code)
        return captured.stdout, [call.args[0] for call in display.call_args_list]
    finally:
        shell.history_manager.end_session()


def test_a_notebook_shows_the_picture_beside_the_traceback():
    printed, shown = run(CELL)
    assert "DimError" in printed and "Traceback (most recent call last)" in printed
    (bundle,) = shown
    assert "clashes" in bundle["text/html"] and "frames" in bundle["text/plain"]


def test_a_picture_that_fails_leaves_the_traceback():
    with patch("rfnb.viz.dims.failure.spec_of_error", side_effect=RuntimeError("broken")):
        printed, shown = run(CELL)
    assert "DimError" in printed and "broken" not in printed and not shown


def test_other_errors_are_as_they_were():
    printed, shown = run("1 / 0")
    assert "ZeroDivisionError" in printed and not shown
