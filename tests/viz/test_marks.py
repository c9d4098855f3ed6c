"""Faults in weights and states are reported in the spec, the text and the HTML; correct ones are not."""

from __future__ import annotations

import numpy as np
import pytest

import rfnb as rf
from rfnb.viz.group.spec import parts_of
from rfnb.viz.show import view_of

RNG = np.random.default_rng(1)
ENERGY = RNG.normal(size=(3, 4, 7)).astype(np.float32)
LENGTHS = [7, 5, 2]
MASK = np.arange(7) < np.array(LENGTHS)[:, None, None]


def softmax(energy: np.ndarray) -> np.ndarray:
    top = np.exp(energy - energy.max(-1, keepdims=True))
    return (top / top.sum(-1, keepdims=True)).astype(np.float32)


MASKED = softmax(np.where(MASK, ENERGY, -1e9))


def attention(weights: np.ndarray, **options):
    batch = rf.Dim(3, name="batch")
    time = rf.ragged_dim(LENGTHS, over=batch, name="time")
    rows = rf.Dim(4, name="target")
    return rf.viz.attention(rf.convert_to_tensor(np.asarray(weights, np.float32), dims=[batch, rows, time]), **options)


def notes(view) -> dict[str, str]:
    [entry] = view.spec.head["maps"]
    return entry.get("notes", {})


def everywhere(view, *sentences: str) -> None:
    for sentence in sentences:
        assert f"! {sentence}" in " ".join(view.text().split())
        assert f"<b>!</b> {sentence}" in view.html().replace("&quot;", '"')


def test_the_values_in_the_padding_are_the_true_ones():
    weights = softmax(ENERGY)
    assert np.array_equal(attention(weights).spec.blocks["map0"], weights)


def test_weight_on_padding():
    view = attention(softmax(ENERGY))
    share = softmax(ENERGY)[2, :, 2:].sum(-1)
    worst = int(share.argmax())
    assert notes(view)["2"] == f"weight on padding in 4 of 4 rows, up to {share[worst]:.2g} in row {worst}"
    everywhere(view, *(f"sequence {seq}: {notes(view)[str(seq)]}." for seq in (1, 2)))
    assert "0" not in notes(view), "the longest has no padding"


def test_rows_that_do_not_sum_to_1():
    weights = MASKED.copy()
    weights[1, 2] *= 0.5
    weights[2, 0] *= 3
    view = attention(weights, target=list("abcd"))
    assert notes(view) == {
        "1": "1 of 4 rows does not sum to 1: row 2 “c” to 0.5",
        "2": "1 of 4 rows does not sum to 1: row 0 “a” to 3",
    }
    everywhere(view, "sequence 1: 1 of 4 rows does not sum to 1: row 2 “c” to 0.5.")


def test_nan_and_infinity_on_padding_and_off_it():
    weights = MASKED.copy()
    weights[0, 1, 3] = np.nan
    weights[1, 2:, 6] = np.nan
    weights[2, 3, 0] = np.inf
    assert notes(attention(weights)) == {
        "0": "NaN in 1 of 4 rows, first in row 1",
        "1": "NaN on padding in 2 of 4 rows, first in row 2",
        "2": "infinity in 1 of 4 rows, first in row 3",
    }


def test_a_tensor_that_became_nan_but_not_what_is_to_come():
    weights = MASKED.copy()
    weights[:, 2:] = np.nan
    said = "nothing but NaN in 2 of 4 rows, first in row 2"
    assert notes(attention(weights)) == {"0": said, "1": said, "2": said}
    assert notes(attention(weights, live=True)) == {}
    assert notes(rf.viz.attention(weights, dims=["batch", "target", "time"], source_lengths=LENGTHS)) == {}


def causal() -> np.ndarray:
    return softmax(np.where(np.tri(4, 7, dtype=bool) & MASK, ENERGY, -1e9))


def all_masked() -> np.ndarray:
    weights = MASKED.copy()
    weights[:, 1] = 0
    return weights


def in_bfloat16() -> np.ndarray:
    import torch

    return torch.softmax(torch.from_numpy(np.where(MASK, ENERGY, -1e9)).bfloat16(), -1).float().numpy()


FINE = {
    "masked": MASKED,
    "causal": causal(),
    "a row that may see nothing": all_masked(),
    "bfloat16": in_bfloat16(),
    "energies": ENERGY,
    "energies above 0": np.abs(ENERGY),
    "after dropout": MASKED * (RNG.random(MASKED.shape) > 0.5) * 2,
    "a part of the columns": MASKED[..., [0, 1, 2, 3, 4, 5, 6]] * (np.arange(7) < 2),
    "sigmoid": np.where(MASK, 1 / (1 + np.exp(-ENERGY)), 0),
    "nothing": np.zeros_like(MASKED),
}


@pytest.mark.parametrize("name", FINE)
def test_no_false_alarm(name):
    view = attention(FINE[name])
    assert notes(view) == {} and "!" not in view.text() and "<b>!</b>" not in view.html()


def test_what_is_not_meant_to_sum_to_1_is_remarked_quietly():
    view = attention(MASKED * 9)
    assert (
        "  rows do not sum to 1, but to 9\n" in view.text() + "\n"
        and "<p>rows do not sum to 1, but to 9</p>" in view.html()
    )
    assert "sum to 1" not in attention(ENERGY).text() + attention(MASKED).text()


def test_padding_past_the_end_of_the_targets_may_hold_anything():
    batch = rf.Dim(3, name="batch")
    time = rf.ragged_dim(LENGTHS, over=batch, name="time")
    rows = rf.ragged_dim([4, 3, 1], over=batch, name="target")
    weights = MASKED.copy()
    weights[1, 3:] = 5
    weights[2, 1:] = np.nan
    assert notes(rf.viz.attention(rf.convert_to_tensor(weights, dims=[batch, rows, time]))) == {}


def test_many_warnings_are_counted():
    weights = np.stack([softmax(ENERGY)] * 5)
    view = rf.viz.attention(weights, dims=["head", "batch", "target", "time"], source_lengths=LENGTHS)
    lines = [line for line in view.text().splitlines() if line.startswith("!")]
    assert len(lines) == 5 and lines[0].startswith("! head 0, sequence 1: weight on padding in 4 of 4 rows")
    assert lines[-1] == "! The same in 6 more maps or sequences."


# -- states --------------------------------------------------------------------------------------------------------------------


def track(change) -> dict[str, str]:
    values = RNG.normal(size=(2, 6, 3)).astype(np.float32)
    values[1, 4:] = values[1, 3]  # held
    view = rf.viz.states({"h": change(values)}, lengths=[6, 4])
    [entry] = view.spec.head["tracks"]
    for seq, note in entry.get("notes", {}).items():
        everywhere(view, f"h, sequence {seq}: {note}.")
    if not entry.get("notes"):
        assert "!" not in view.text() and "<b>!</b>" not in view.html()
    return entry.get("notes", {})


def put(value, *where):
    def change(values):
        values[where] = value
        return values

    return change


@pytest.mark.parametrize(
    "change, expected",
    [
        (put(0.5, 1, slice(4, None)), {"1": "moves after the end, from step 4 on"}),
        (put(0.5, 1, 5, 2), {"1": "moves after the end, from step 5 on"}),
        (put(np.nan, 1, 5, 2), {"1": "moves after the end, from step 5 on; NaN or infinity after the end"}),
        (put(np.nan, 0, slice(3, None)), {"0": "NaN from step 3 on"}),
        (put(np.inf, 0, 2, 1), {"0": "infinity in step 2"}),
        (put(-np.inf, 0, slice(0, 3, 2), 1), {"0": "infinity in 2 steps, first in step 0"}),
    ],
)
def test_states_that_move_after_their_end_or_are_no_numbers(change, expected):
    assert track(change) == expected


@pytest.mark.parametrize(
    "change", [lambda x: x, put(0.0, 1, slice(4, None)), put(np.nan, 1, slice(4, None)), put(0.0, 1)]
)
def test_states_that_end_are_no_alarm(change):
    assert track(change) == {}


def test_a_state_held_at_infinity_does_not_move():
    assert track(lambda x: put(np.inf, 1, slice(3, None))(x)) == {"1": "infinity in step 3"}


def test_steps_to_come_are_no_alarm():
    values = np.full((1, 4, 2), np.nan, np.float32)
    values[0, :2] = 1
    assert "notes" not in rf.viz.states(values, live=True).spec.head["tracks"][0]


# -- dims ----------------------------------------------------------------------------------------------------------------------


def test_dims_say_what_lies_in_the_padding():
    batch = rf.Dim(3, name="batch")
    time = rf.ragged_dim(LENGTHS, over=batch, name="time")
    values = RNG.normal(size=(3, 7)).astype(np.float32)
    clean = rf.viz.dims(rf.convert_to_tensor(values, dims=[batch, time]))
    values[2, 3:5] = np.nan
    values[1, 6] = np.inf
    odd = rf.viz.dims(rf.convert_to_tensor(values, dims=[batch, time]))
    assert "33 % padding" in clean.text() and "NaN" not in clean.text() + clean.html()
    assert "33 % padding with 3 NaN or inf" in odd.text() and "33 % padding with 3 NaN or inf" in odd.html()


# -- what rfnb computes itself -------------------------------------------------------------------------------------------------


def test_modules_of_ours_are_no_alarm():
    rf.set_random_seed(1)
    batch, width = rf.Dim(3, name="batch"), rf.Dim(8, name="width")
    time = rf.ragged_dim(LENGTHS, over=batch, name="time")
    x = rf.random_normal([batch, time, width])
    heads = {"proj_dim": width, "key_dim_total": rf.Dim(8), "value_dim_total": rf.Dim(8), "num_heads": 2}
    layers = {
        "self": rf.SelfAttention(width, **heads),
        "relative": rf.RelPosSelfAttention(width, **heads),
        "causal": rf.CausalSelfAttention(width, **heads),
    }
    lstms = [rf.LSTM(width, width), rf.ZoneoutLSTM(width, width, zoneout_factor_cell=0.1, zoneout_factor_output=0.1)]
    with rf.record() as trace:
        for layer in layers.values():
            layer(x, axis=time)
        for lstm in lstms:
            lstm(x, spatial_dim=time, state=lstm.default_initial_state(batch_dims=[batch]))
        loop = rf.Loop(axis=time, name="decoder")
        loop.state.h = rf.zeros([batch, width])
        for _ in loop:
            loop.state.h = rf.dot_attention(rf.tanh(loop.unstack(x) + loop.state.h), x, x, key_dim=width, axis=time)
    parts = parts_of(view_of(trace).spec)
    assert {part.kind for part in parts} == {"attention", "states"} and len(parts) >= 5
    for part in parts:
        for entry in part.head.get("maps", []) + part.head.get("tracks", []):
            assert "notes" not in entry and "remark" not in entry, (part.head["title"], entry)
