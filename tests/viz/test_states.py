"""The states view: its spec, text and HTML, from plain arrays and from Tensors."""

from __future__ import annotations

import re

import numpy as np
import pytest
from viz.stored_files import assert_stored

from rfnb.core.dim import Dim, ragged_dim
from rfnb.core.errors import DimError, ShapeError
from rfnb.core.tensor import Tensor
from rfnb.viz.kinds import html_of, text_of
from rfnb.viz.spec import Spec, to_json
from rfnb.viz.states.spec import spec as states_spec


def values(*shape: int) -> np.ndarray:
    """Different values of both signs, exact in float32."""
    count = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return (count - 10) / 8


def example() -> Spec:
    """Two states over two sequences of different lengths."""
    return states_spec(
        {"h": values(2, 5, 3), "c": -2 * values(2, 5, 2)},
        steps=[["t", "h", "a", "t", "</s>"], ["a", "</s>"]],
        names=["that", "a"],
        title="decoder",
    )


def test_spec_is_the_stored_one():
    assert_stored("states_small.json", to_json(example()))


def test_text_is_the_stored_one():
    assert_stored("states_small.txt", text_of(example()))


def test_dims_of_tensors_give_steps_sequences_and_units():
    batch, beam, hidden, head = Dim(2, name="batch"), Dim(3, name="beam"), Dim(5, name="hidden"), Dim(7, name="head")
    time = ragged_dim([4, 2], over=batch, name="time")
    array = values(4, 3, 2, 7, 5)
    spec = states_spec({"s": Tensor("s", [time, beam, batch, head, hidden], raw_tensor=array)}, step_dim=time)
    assert spec.head["step_dim"]["name"] == "time" and spec.head["tracks"][0]["unit_dim"]["name"] == "head × hidden"
    assert [(seq["label"], seq["len"]) for seq in spec.head["seqs"]][:3] == [
        ("sequence 0, beam 0", 4),
        ("sequence 0, beam 1", 4),
        ("sequence 0, beam 2", 4),
    ]
    assert spec.blocks["track0"].shape == (6, 4, 35)
    assert (spec.blocks["track0"][4] == array[:, 1, 1].reshape(4, 35)).all()


def test_a_state_of_one_number_is_one_unit():
    assert states_spec(np.array([1.0, 2.0, 3.0])).blocks["track0"].shape == (1, 3, 1)


def test_a_state_that_is_none_is_left_out():
    assert [track["label"] for track in states_spec({"h": values(2, 3), "c": None}).head["tracks"]] == ["h"]


def test_html_is_one_picture_of_all_sequences_and_no_script():
    html = html_of(example())
    assert html.count("<img") == 1 and not re.search("<script|<style|<svg", html)
    assert "h: unit=3, values from -1.25 to 0.5" in html


@pytest.mark.parametrize(
    "array", [np.zeros((0, 3), np.float32), np.zeros((3, 0), np.float32), np.full((2, 3), np.nan, np.float32)]
)
def test_nothing_to_see_is_said_and_drawn(array):
    spec = states_spec({"h": array})
    assert text_of(spec) and "<img" in html_of(spec)


def test_no_states_are_a_sentence():
    assert text_of(states_spec({}, live=True)) == "States: no states yet"
    assert html_of(states_spec({})) == "<p>States: no states</p>"


def test_a_broken_spec_is_a_sentence():
    broken = Spec("states", {"title": "x", "live": False, "tracks": [{"label": "h", "block": "gone"}], "seqs": []})
    assert text_of(broken) == "Track h has no array of sequence, step and unit."
    assert html_of(broken) == "<p>Track h has no array of sequence, step and unit.</p>"


def test_tracks_of_different_loops_are_refused():
    with pytest.raises(ShapeError) as caught:
        states_spec({"h": values(2, 3), "c": values(5, 3)})
    assert str(caught.value) == (
        "states: the tracks differ in their steps or sequences.\n"
        "  h  [step=2, unit=3]\n"
        "  c  [step=5, unit=3]\n"
        "The tracks of one view are states of the same loop: same steps, same sequences.\n"
        '    rf.viz.states({"h": ...})'
    )


def test_a_track_without_steps_is_refused():
    batch = Dim(2, name="batch")
    with pytest.raises(DimError) as caught:
        states_spec({"h": Tensor("h", [batch], raw_tensor=values(2))})
    assert str(caught.value) == (
        'states: track "h" has no dim of steps.\n'
        "  track  [batch=2]\n"
        "A track has a dim that runs over the steps of a loop.\n"
        '    rf.viz.states({"h": h}, dims=["batch", "step", "unit"])'
    )
