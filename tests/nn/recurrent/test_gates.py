"""The gates of recurrent units in a recording: of a whole sequence, stepped in a loop; the same, and those of the formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from asserting import ragged, randn, with_nan_padding
from recurrent_units import UNITS
from recurrent_units import make as made

import rfnb as rf
from rfnb import Dim
from rfnb.trace.editing import OF_UNITS
from rfnb.viz.trace_page import spec as trace_spec

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


def step_of(name):
    """A unit, and one step of it from a state that is not 0: its edits -> the state after it, and the gates that it has offered."""
    unit = made(name) if name in UNITS else make(getattr(rf, name))
    shape = [batch, unit.out_dim]
    x, parts = randn(batch, unit.in_dim), unit.default_initial_state(batch_dims=[batch])
    before = type(parts)((part, randn(*shape)) for part in parts)

    def step(**gates):
        edits = {f"unit.{gate}": value for gate, value in gates.items()} or {"unit": lambda y: y}
        with rf.edit({"unit": unit}, edits), rf.record(model={"unit": unit}) as trace:
            _, after = unit(x, state=before, spatial_dim=rf.single_step_dim)
        found = [each.values for each in trace.select(kind="states") if each.path == "unit.gates"]
        offered = {gate: value.copy_transpose(shape).numpy() for gate, value in found[-1].items()} if found else {}
        return {part: value.copy_transpose(shape).numpy() for part, value in after.items()}, offered

    return {part: value.copy_transpose(shape).numpy() for part, value in before.items()}, step


@pytest.mark.parametrize("name", [*UNITS, "LSTM", "ZoneoutLSTM"])
def test_each_gate_that_a_unit_offers_in_a_step_can_be_edited_and_counts(name):
    before, step = step_of(name)
    plain, gates = step()
    assert all(map(OF_UNITS.fullmatch, gates)), "the names by which gates are edited"
    for gate, value in gates.items():
        new = np.where(np.arange(value.size).reshape(value.shape) % 3, value, 0.25).astype(np.float32)
        after, offered = step(**{gate: new})
        np.testing.assert_allclose(offered[gate], new, rtol=1e-6, err_msg=gate)
        assert any((after[part] != plain[part]).any() for part in plain), gate
        same, _ = step(**{gate: value})
        for part in plain:
            np.testing.assert_allclose(same[part], plain[part], atol=1e-6, err_msg=gate)
    if "forget_gate" in gates and name not in (
        "LayerNormVariantsLSTMCell",
        "ZoneoutLSTMCell",
    ):  # shut to what is new and open to what was
        np.testing.assert_allclose(step(forget_gate=1.0, input_gate=0.0)[0]["c"], before["c"], atol=1e-6)
    if "update_gate" in gates:
        np.testing.assert_allclose(step(update_gate=1.0)[0]["h"], before["h"], atol=1e-6)


@pytest.mark.parametrize("face", ["for", "with"])
def test_a_gate_is_edited_in_one_step_of_a_loop(face, time):
    lstm, x = make(rf.LSTM), randn(batch, time, d_in)

    def stepped():
        loop = rf.Loop(axis=time, name="loop")
        loop.state.lstm = lstm.default_initial_state(batch_dims=[batch])

        def body():
            y, loop.state.lstm = lstm(loop.unstack(x), state=loop.state.lstm, spatial_dim=rf.single_step_dim)
            return loop.stack(y)

        if face == "with":
            with loop:
                return body()
        for _ in loop:
            y = body()
        return y

    where = "lstm.forget_gate[batch=0, out=2]" if face == "with" else "lstm.forget_gate[batch=0, out=2, step=3]"
    with rf.edit({"lstm": lstm}, {where: 0.0}):
        got = stepped().copy_transpose([batch, time, d_out]).numpy()
    w, r, b = (np.float64(part.raw_tensor.detach().numpy()) for part in (lstm.ff_weight, lstm.rec_weight, lstm.bias))
    frames, h, c = np.float64(x.copy_transpose([batch, time, d_in]).numpy()), np.zeros((3, 5)), np.zeros((3, 5))
    for step in range(6):
        i, f, g, o = np.split(frames[:, step] @ w.T + h @ r.T + b, 4, axis=-1)
        i, f, o = (1 / (1 + np.exp(-part)) for part in (i, f, o))
        if face == "with" or step == 3:
            f[0, 2] = 0
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        np.testing.assert_allclose(got[0, step], h[0], atol=1e-5)


def test_over_a_whole_sequence_gates_are_those_of_a_unit_that_goes_step_by_step(time):
    lstm, x = make(rf.LSTM), randn(batch, time, d_in)
    state = lstm.default_initial_state(batch_dims=[batch])
    with pytest.raises(ValueError, match="is in no kernel"), rf.edit({"lstm": lstm}, {"lstm.forget_gate": 0.0}):
        lstm(x, state=state, spatial_dim=time)
    native = make(rf.NativeLstm2)
    with rf.edit({"unit": native}, {"unit.input_gate": 0.0}):
        y, _ = native(x, spatial_dim=time)
    assert not y.numpy().any() and native(x, spatial_dim=time)[0].numpy().any()
