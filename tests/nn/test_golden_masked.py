"""Masked computation and the 2D LSTM against golden data (tests/golden/README.md)."""

from __future__ import annotations

import numpy as np
import pytest
from golden_data import Golden
from loop_faces import FACES, run_face

import rfnb as rf
from rfnb import Dim


def _mask(golden: Golden) -> rf.Tensor:
    return golden.input("m") == 1


def _native(golden: Golden, layer: str) -> rf.NativeLstm2:
    unit = rf.NativeLstm2(golden.input("data").dims[2], Dim(3, name="out"))
    for name in ("W", "W_re", "b"):
        getattr(unit, name).assign(golden.params(layer)[f"rec/{name}"])
    return unit


def test_frames_are_packed():
    golden, packed = Golden("masked_outside_copy"), Dim(None, name="packed")
    masked = rf.MaskedComputation(lambda x: x)
    out, _ = masked(golden.input("data"), mask=_mask(golden), in_spatial_dim=golden.time, out_spatial_dim=packed)
    golden.check(out, "output")
    assert packed.lengths.tolist() == golden["out_len/output/1"].tolist()


def test_an_lstm_over_packed_frames():
    golden, packed = Golden("masked_outside_lstm"), Dim(None, name="packed")
    masked = rf.MaskedComputation(_native(golden, "masked"))
    out, _ = masked(golden.input("data"), mask=_mask(golden), in_spatial_dim=golden.time, out_spatial_dim=packed)
    golden.check(out, "output")


def _h(golden: Golden, un_dim: Dim) -> tuple[rf.Linear, Dim]:
    out = Dim(2, name="h")
    linear = rf.Linear(un_dim + out, out)
    linear.weight.assign(golden.params("output/rec/h")["W"])
    linear.bias.assign(golden.params("output/rec/h")["b"])
    return linear, out


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("packed_before", [False, True])
def test_an_lstm_that_skips_steps_of_a_loop(face, packed_before):
    golden = Golden("masked_loop_lstm_moved_out")
    masked = rf.MaskedComputation(_native(golden, "output/rec/masked"))
    data, mask, packed = golden.input("data"), _mask(golden), Dim(None, name="packed")
    un_dim = masked.out_dim
    linear, h_dim = _h(golden, un_dim)
    before, _ = masked(data, mask=mask, in_spatial_dim=golden.time, out_spatial_dim=packed)

    def body(loop):
        m, step = loop.unstack(mask), rf.single_step_dim
        if packed_before:
            un, loop.state.m = rf.unmask(before, mask=m, axis=step, in_spatial_dim=packed, state=loop.state.m)
        else:
            un, loop.state.m = masked(loop.unstack(data), mask=m, in_spatial_dim=step, state=loop.state.m)
        loop.state.h = rf.tanh(linear(rf.concat((un, un_dim), (loop.state.h, h_dim))[0]))
        return loop.stack(rf.concat((loop.state.h, h_dim), (un, un_dim))[0])

    start = (rf.unmask_initial_state if packed_before else masked.default_initial_state)(batch_dims=[golden.batch])
    got, _ = run_face(face, body, axis=golden.time, m=start, h=rf.zeros([golden.batch, h_dim]))
    golden.check(got, "output")


@pytest.mark.parametrize("face", FACES)
def test_a_mask_that_is_made_in_the_step(face):
    golden = Golden("masked_inside_lstm")
    data, x_dim, un_dim = golden.input("data"), Dim(3, name="x"), Dim(3, name="un")
    linear = rf.Linear(data.dims[2] + un_dim, x_dim)
    linear.weight.assign(golden.params("output/rec/x")["W"])
    linear.bias.assign(golden.params("output/rec/x")["b"])
    cell = rf.StandardLSTMCell(x_dim, un_dim)
    for name in ("kernel", "bias"):
        getattr(cell, name).assign(golden.params("output/rec/masked")[f"rec/lstm_cell/{name}"])
    masked = rf.MaskedComputation(cell)

    def body(loop):
        both, _ = rf.concat((loop.unstack(data), data.dims[2]), (loop.state.un, un_dim))
        x = rf.tanh(linear(both))
        mask = rf.reduce_sum(x, axis=x_dim) > 0.0
        un, loop.state.m = masked(x, mask=mask, in_spatial_dim=rf.single_step_dim, state=loop.state.m)
        loop.state.un = un
        return loop.stack(rf.concat((x, x_dim), (un, un_dim))[0]), loop.stack(rf.cast(mask, "float32"))

    start = masked.default_initial_state(batch_dims=[golden.batch])
    (out, mask), _ = run_face(face, body, axis=golden.time, m=start, un=rf.zeros([golden.batch, un_dim]))
    golden.check(out, "output")
    golden.check(mask, "output/mf")


def _two_d(golden: Golden, layer: str) -> rf.TwoDLSTM:
    lstm = rf.TwoDLSTM(golden.input("data").dims[2], golden.input("trg").dims[2], Dim(3, name="out"), pooling="last")
    for name, parameter in lstm.named_parameters():
        parameter.assign(golden.params(layer)[f"rec-twod/{name}"])
    return lstm


@pytest.mark.parametrize(("name", "layer"), [("twod_lstm_last", "output"), ("twod_lstm_loop_nofb", "output/rec/output")])  # fmt: skip
def test_two_d_lstm_whole(name, layer):
    golden = Golden(name)
    y = golden.input("trg")
    out, _ = _two_d(golden, layer)(golden.input("data"), y, x_axis=golden.time, y_axis=y.dims[1])
    golden.check(out, "output")


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(("name", "layer"), [("twod_lstm_last", "output"), ("twod_lstm_loop_nofb", "output/rec/output")])  # fmt: skip
def test_two_d_lstm_row_by_row(name, layer, face):
    golden = Golden(name)
    lstm, x, y = _two_d(golden, layer), golden.input("data"), golden.input("trg")

    def body(loop):
        out, loop.state.row = lstm(x, loop.unstack(y), x_axis=golden.time, y_axis=rf.single_step_dim, state=loop.state.row)  # fmt: skip
        return loop.stack(out)

    row = lstm.default_initial_state(batch_dims=[golden.batch, golden.time])
    got, states = run_face(face, body, axis=y.dims[1], row=row)
    golden.check(got, "output")
    _, whole = lstm(x, y, x_axis=golden.time, y_axis=y.dims[1])
    np.testing.assert_allclose(states.row.h.copy_transpose(whole.h.dims).numpy(), whole.h.numpy(), atol=1e-5)
