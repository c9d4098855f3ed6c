"""The gates of recurrent units in a recording: of a whole sequence, stepped in a loop; the same, and those of the formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from asserting import ragged, randn, with_nan_padding

import rfnb as rf
from rfnb import Dim
from rfnb.viz.of_trace import spec as trace_spec

batch, d_in, d_out = Dim(3, name="batch"), Dim(2, name="in"), Dim(5, name="out")
GATES = ("input_gate", "forget_gate", "output_gate")


@pytest.fixture
def time():
    return ragged([6, 4, 1], batch)


def make(cls, seed=3):
    rf.set_random_seed(seed)
    return cls(d_in, d_out)


def by_hand(lstm, x, time):
    """Gates, h and c of an LSTM in float64, [batch, time, out]."""
    w, r, b = (np.float64(part.raw_tensor.detach().numpy()) for part in (lstm.ff_weight, lstm.rec_weight, lstm.bias))
    frames = np.nan_to_num(np.float64(x.copy_transpose([batch, time, d_in]).raw_tensor.numpy()))
    h = c = np.zeros((3, 5))
    out = {name: [] for name in (*GATES, "cell_input", "h", "c")}
    for step in range(6):
        z = frames[:, step] @ w.T + h @ r.T + b
        i, f, g, o = np.split(z, 4, axis=-1)
        i, f, o = (1 / (1 + np.exp(-part)) for part in (i, f, o))
        g = np.tanh(g)
        c = f * c + i * g
        h = o * np.tanh(c)
        for name, value in (*zip(GATES, (i, f, o)), ("cell_input", g), ("h", h), ("c", c)):
            out[name].append(value)
    return {name: np.stack(values, 1) for name, values in out.items()}


def real(value, time):
    """The values of real frames, in the order of sequences; of a dim of steps like `time`."""
    step = next(dim for dim in value.dims if dim not in (batch, d_out))
    array = value.copy_transpose([batch, step, d_out]).raw_tensor.detach().numpy()
    return np.concatenate([array[seq, :length] for seq, length in enumerate((6, 4, 1))])


def test_an_lstm_in_one_call_offers_its_state_and_gates(time):
    lstm, x = make(rf.LSTM), randn(batch, time, d_in)
    with rf.record() as trace:
        lstm(with_nan_padding(x), state=lstm.default_initial_state(batch_dims=[batch]), spatial_dim=time)
    (tracks,) = trace.states.values()
    assert set(tracks) == {*GATES, "cell_input", "h", "c"}
    for name, expected in by_hand(lstm, x, time).items():
        wanted = np.concatenate([expected[seq, :length] for seq, length in enumerate((6, 4, 1))])
        np.testing.assert_allclose(real(tracks[name], time), wanted, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", ["LSTM", "ZoneoutLSTM", "GRUCell", "TorchGRUCell", "NativeLstm2", "StandardLSTMCell"])
def test_a_loop_of_steps_offers_the_gates_that_one_call_offers(name, time):
    unit, x = make(getattr(rf, name)), randn(batch, time, d_in)
    state = unit.default_initial_state(batch_dims=[batch])

    def stepped():
        loop = rf.Loop(axis=time)
        loop.state.unit = state
        for _ in loop:
            out, loop.state.unit = unit(loop.unstack(x), state=loop.state.unit, spatial_dim=rf.single_step_dim)
            y = loop.stack(out)
        return y

    with rf.record(model={"unit": unit}) as whole:
        y, _ = unit(x, state=state, spatial_dim=time)
    with rf.record(model={"unit": unit}) as steps:
        other = stepped()
    np.testing.assert_allclose(real(other.copy_masked(0), time), real(y, time), atol=1e-5)
    gates = {key: value for tracks in whole.states.values() for key, value in tracks.items() if key.endswith("_gate")}
    in_loop = {key: value for tracks in steps.states.values() for key, value in tracks.items()}
    assert len(gates) >= 2
    for key, value in gates.items():
        np.testing.assert_allclose(real(in_loop[key], time), real(value, time), atol=1e-5, err_msg=key)


def test_recording_gates_changes_neither_numbers_nor_gradients(time):
    lstm, x = make(rf.LSTM), randn(batch, time, d_in)
    state = lstm.default_initial_state(batch_dims=[batch])

    def run():
        for parameter in lstm.parameters():
            parameter.raw_tensor.grad = None
        y, _ = lstm(x, state=state, spatial_dim=time)
        y.copy_masked(0).raw_tensor.square().sum().backward()
        return y.raw_tensor.detach().clone(), [parameter.raw_tensor.grad.clone() for parameter in lstm.parameters()]

    plain, grads = run()
    with rf.record():
        recorded, same = run()
    assert torch.equal(plain, recorded) and all(map(torch.equal, grads, same))


def test_nobody_who_wants_states_costs_no_gates(time, monkeypatch):
    lstm, x = make(rf.LSTM), randn(batch, time, d_in)
    monkeypatch.setattr(rf.LSTM, "_gates", lambda *_: pytest.fail("gates were computed"))
    state = lstm.default_initial_state(batch_dims=[batch])
    lstm(x, state=state, spatial_dim=time)
    with rf.record(kinds="attention"):
        lstm(x, state=state, spatial_dim=time)


def test_gates_of_an_lstm_are_drawn_last_and_from_0_to_1(time):
    lstm, x = make(rf.LSTM), randn(batch, time, d_in)
    with rf.record() as trace:
        lstm(x, state=lstm.default_initial_state(batch_dims=[batch]), spatial_dim=time)
    (part,) = [part for part in trace_spec(trace).head["parts"] if part["kind"] == "states"]
    labels = [(track["label"], track["gate"]) for track in part["head"]["tracks"]]
    assert labels[:2] == [("h", False), ("c", False)] and [label for label, gate in labels if gate] == list(GATES)
    assert [label for label, _ in labels][-3:] == list(GATES)


@pytest.mark.parametrize("name", ["LSTM", "NativeLstm2"])
def test_the_states_of_a_loop_keep_their_path_beside_gates(name, time):
    """Also where the unit has no name of its own."""
    unit, x = make(getattr(rf, name)), randn(batch, time, d_in)
    with rf.record() as trace:
        loop = rf.Loop(axis=time)
        loop.state.unit = unit.default_initial_state(batch_dims=[batch])
        for _ in loop:
            _, loop.state.unit = unit(loop.unstack(x), state=loop.state.unit, spatial_dim=rf.single_step_dim)
    assert [trace.states.num_runs(path) for path in trace.states] == [1, 1]
    with_gates, without = sorted(trace.states, key=lambda path: not path.endswith("gates"))
    assert set(GATES) <= set(trace.states[with_gates]) and not set(GATES) & set(trace.states[without])
    (part,) = [part for part in trace_spec(trace).head["parts"] if part["kind"] == "states"]
    labels = [track["label"] for track in part["head"]["tracks"]]
    assert [label.rpartition(".")[2] for label in labels][-3:] == list(GATES), labels
