"""States and gates of nn.LSTM, nn.GRU, nn.RNN and their cells: as cells compute them step by step, and as the modules return them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import rfnb as rf

LENGTHS = [7, 4, 6]
GATES = {
    nn.LSTM: ("input_gate", "forget_gate", "cell_input", "output_gate"),
    nn.GRU: ("reset_gate", "update_gate", "candidate"),
    nn.RNN: (),
}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(1)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def by_hand(module, suffix, x, h, c):
    """One sequence [time, in] step by step in NumPy: lists of h, c and gates by name."""
    w = {
        name: getattr(module, name).detach().double().numpy()
        for name in dict(module.named_parameters())
        if name.endswith(suffix)
    }
    w = {name.removesuffix(suffix): value for name, value in w.items()}
    out = {}
    for frame in x:
        a = w["weight_ih"] @ frame + w.get("bias_ih", 0)
        b = w["weight_hh"] @ h + w.get("bias_hh", 0)
        if isinstance(module, nn.LSTM):
            i, f, g, o = np.split(a + b, 4)
            step = {
                "input_gate": sigmoid(i),
                "forget_gate": sigmoid(f),
                "cell_input": np.tanh(g),
                "output_gate": sigmoid(o),
            }
            c = step["forget_gate"] * c + step["input_gate"] * step["cell_input"]
            h = step["output_gate"] * np.tanh(c)
            h = w["weight_hr"] @ h if "weight_hr" in w else h
            step["c"] = c
        elif isinstance(module, nn.GRU):
            (ar, az, an), (br, bz, bn) = np.split(a, 3), np.split(b, 3)
            r, z = sigmoid(ar + br), sigmoid(az + bz)
            n = np.tanh(an + r * bn)
            h = (1 - z) * n + z * h
            step = {"reset_gate": r, "update_gate": z, "candidate": n}
        else:
            h = np.maximum(a + b, 0) if module.nonlinearity == "relu" else np.tanh(a + b)
            step = {}
        for name, value in {**step, "h": h}.items():
            out.setdefault(name, []).append(value)
    return {name: np.array(values) for name, values in out.items()}


def expected(module, x, lengths, state=None):
    """By layer suffix, states and gates [batch, time, unit] by hand; NaN behind the ends. x: [batch, time, in]."""
    directions, size = 1 + module.bidirectional, getattr(module, "proj_size", 0) or module.hidden_size
    inputs = [row[:length] for row, length in zip(x.double().numpy(), lengths)]
    out = {}
    for layer in range(module.num_layers):
        outputs = [[] for _ in inputs]
        for direction in range(directions):
            suffix = f"_l{layer}" + "_reverse" * direction
            rows = []
            for row, frames in enumerate(inputs):
                index = layer * directions + direction
                h = np.zeros(size) if state is None else state[0][index, row].detach().double().numpy()
                c = np.zeros(module.hidden_size) if state is None else state[-1][index, row].detach().double().numpy()
                series = by_hand(module, suffix, frames[::-1] if direction else frames, h, c)
                series = {name: values[::-1] if direction else values for name, values in series.items()}
                rows.append(series)
                outputs[row].append(series["h"])
            out[suffix[1:]] = rows
        inputs = [np.concatenate(parts, -1) for parts in outputs]
    return out


def check(trace, path, module, reference, lengths):
    several = module.num_layers > 1 or module.bidirectional
    for suffix, rows in reference.items():
        states = trace.states[f"{path}.{suffix}" if several else path]
        assert set(states) == {"h", *GATES[type(module)], *(["c"] if isinstance(module, nn.LSTM) else [])}
        for name, value in states.items():
            batch, time = (next(dim for dim in value.dims if dim.name == word) for word in ("batch", "time"))
            array = value.copy_transpose([batch, time, value.dims[-1]]).numpy()
            for row, length in enumerate(lengths):
                np.testing.assert_allclose(array[row, :length], rows[row][name], rtol=1e-4, atol=1e-5)


KINDS = [
    (nn.LSTM, {}), (nn.LSTM, {"bias": False}), (nn.LSTM, {"num_layers": 2, "bidirectional": True}), (nn.LSTM, {"proj_size": 3}),
    (nn.LSTM, {"proj_size": 3, "num_layers": 2, "bidirectional": True}), (nn.GRU, {}), (nn.GRU, {"num_layers": 2, "bidirectional": True}),
    (nn.RNN, {}), (nn.RNN, {"nonlinearity": "relu", "num_layers": 2}),
]  # fmt: skip


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_states_and_gates_are_those_of_the_formulas(kind, options, batch_first):
    module = kind(2, 5, batch_first=batch_first, **options)
    x = torch.randn(3, 7, 2)
    with rf.record(model={"rnn": module}) as trace:
        module(x if batch_first else x.transpose(0, 1))
    check(trace, "rnn", module, expected(module, x, [7] * 3), [7] * 3)


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_with_a_state_to_begin_with(kind, options):
    module = kind(2, 5, batch_first=True, **options)
    x, number = torch.randn(3, 7, 2), module.num_layers * (1 + module.bidirectional)
    h, c = torch.randn(number, 3, options.get("proj_size") or 5), torch.randn(number, 3, 5)
    state = (h, c) if kind is nn.LSTM else h
    with rf.record(model={"rnn": module}) as trace:
        module(x, state)
    check(trace, "rnn", module, expected(module, x, [7] * 3, (h, c)), [7] * 3)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_packed_sequences_have_lengths(kind, options, batch_first):
    module = kind(2, 5, batch_first=batch_first, **options)
    x = torch.randn(3, 7, 2)
    packed = pack_padded_sequence(
        x if batch_first else x.transpose(0, 1), torch.tensor(LENGTHS), batch_first, enforce_sorted=False
    )
    with rf.record(model={"rnn": module}) as trace:
        output, _ = module(packed)
    check(trace, "rnn", module, expected(module, x, LENGTHS), LENGTHS)
    path = next(iter(trace.by_path("states")))
    h = trace.states[path]["h"]
    time = next(dim for dim in h.dims if dim.name == "time")
    assert list(time.lengths) == LENGTHS
    last = list(trace.by_path("states"))[-1 - module.bidirectional]
    found = trace.states[last]["h"].raw_tensor
    again = pad_packed_sequence(output, batch_first=batch_first)[0][..., : found.shape[-1]]
    torch.testing.assert_close(found, again)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_without_a_batch(kind):
    module = kind(2, 5)
    x = torch.randn(7, 2)
    with rf.record(model={"rnn": module}) as trace:
        module(x)
    for name, value in trace.states["rnn"].items():
        assert [dim.name for dim in value.dims] == ["time", "feature"]
        rows = expected(module, x[None], [7])["l0"]
        np.testing.assert_allclose(value.numpy(), rows[0][name], rtol=1e-4, atol=1e-5)


def test_a_packed_model_gives_its_padded_input_the_lengths():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.out = nn.LSTM(2, 5, batch_first=True), nn.Linear(5, 4)

        def forward(self, x, lengths):
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            return self.out(pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0])

    model = Model()
    with rf.record(model=model) as trace:
        model(torch.randn(3, 7, 2), torch.tensor(LENGTHS))
    batch, time, _ = trace.modules["out"][0].values["outputs"][0][1].dims
    assert list(time.lengths) == LENGTHS
    assert trace.states["lstm"]["h"].dims[:2] == (batch, time)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_dropout_between_layers_is_drawn_again(kind, packed):
    module = kind(2, 5, 2, batch_first=True, dropout=0.5).train()
    x = torch.randn(3, 7, 2)
    given = pack_padded_sequence(x, torch.tensor(LENGTHS), True, enforce_sorted=False) if packed else x
    state = torch.get_rng_state()
    plain, _ = module(given)
    torch.set_rng_state(state)
    with rf.record(model={"rnn": module}) as trace:
        output, _ = module(given)
    after = torch.get_rng_state()
    torch.testing.assert_close(output.data, plain.data, rtol=0, atol=0)
    h = trace.states["rnn.l1"]["h"]
    assert torch.equal(torch.get_rng_state(), after)
    gates = trace.states["rnn.l1"]
    if kind is nn.LSTM:
        made = gates["output_gate"].raw_tensor * gates["c"].raw_tensor.tanh()
    else:
        before = torch.nn.functional.pad(h.raw_tensor, (0, 0, 1, 0))[:, :-1]
        z = gates["update_gate"].raw_tensor
        made = (1 - z) * gates["candidate"].raw_tensor + z * before
    real = torch.arange(7) < torch.tensor(LENGTHS if packed else [7] * 3)[:, None]
    torch.testing.assert_close(made[real], h.raw_tensor[real], rtol=1e-4, atol=1e-5)


def test_weights_may_change_behind_a_step_of_training():
    module = nn.LSTM(2, 5, batch_first=True)
    x, optimizer = torch.randn(3, 7, 2), torch.optim.SGD(module.parameters(), 0.5)
    reference = expected(module, x, [7] * 3)
    with rf.record(model={"rnn": module}) as trace:
        module(x)[0].sum().backward()
        optimizer.step()
    check(trace, "rnn", module, reference, [7] * 3)


def test_inference_mode_keeps_what_is_changed_in_place_later():
    module, x = nn.LSTM(2, 5, batch_first=True).eval(), torch.randn(3, 7, 2)
    reference = expected(module, x, [7] * 3)
    with torch.inference_mode(), rf.record(model={"rnn": module}) as trace:
        given = x.clone()
        module(given)[0].zero_()
        given.zero_()
    check(trace, "rnn", module, reference, [7] * 3)


def test_weights_that_change_outside_of_training_are_said():
    module = nn.LSTM(2, 5, batch_first=True).eval()
    with rf.record(model={"rnn": module}) as trace:
        output, _ = module(torch.randn(3, 7, 2))
    with torch.no_grad():
        module.weight_ih_l0.mul_(2)
    with pytest.warns(UserWarning) as said:
        states = trace.states["rnn"]
    assert str(said[0].message) == (
        "record: weights or inputs were changed in place before they were read for the gates.\n"
        "  module    rnn\n"
        "  there is  h of the last layer\n"
        "They are computed from the inputs of the module on first access. Access them before, or leave the inputs unchanged:\n"
        "    trace.states[path]    # before optimizer.step()"
    )
    assert set(states) == {"h"} and torch.equal(states["h"].raw_tensor, output)


def test_half_precision():
    module = nn.LSTM(2, 5, batch_first=True).bfloat16()
    x = torch.randn(3, 7, 2).bfloat16()
    with rf.record(model={"rnn": module}) as trace:
        module(x)
    reference = expected(module, x.float(), [7] * 3)["l0"]
    for name, value in trace.states["rnn"].items():
        for row in range(3):
            np.testing.assert_allclose(value.numpy()[row].astype(float), reference[row][name], atol=0.03)


# -- cells -----------------------------------------------------------------------------------------------------------------------
CELLS = [(nn.LSTMCell, nn.LSTM), (nn.GRUCell, nn.GRU), (nn.RNNCell, nn.RNN)]


class Loop(nn.Module):
    """A cell in a loop."""

    def __init__(self, kind):
        super().__init__()
        self.cell = kind(2, 5)

    def forward(self, x):
        state = None
        for frame in x.unbind(1):
            state = self.cell(frame, state)
        return state[0] if isinstance(state, tuple) else state


def sequence_of(cell, kind):
    """The module for sequences with the weights of a cell."""
    module = kind(2, 5, batch_first=True)
    module.load_state_dict({f"{name}_l0": value for name, value in cell.state_dict().items()})
    return module


@pytest.mark.parametrize(("kind", "sequence"), CELLS)
def test_the_calls_of_a_cell_are_steps(kind, sequence):
    model, x = Loop(kind), torch.randn(3, 7, 2)
    with rf.record(model=model) as trace:
        model(x)
        model(x[:, :4])
    reference = expected(sequence_of(model.cell, sequence), x, [7] * 3)["l0"]
    assert trace.states.num_runs("cell") == 2
    for run, steps in enumerate((7, 4)):
        for name, value in trace.states["cell", run].items():
            assert [dim.short_repr() for dim in value.dims] == [f"step={steps}", "batch=3", "feature=5"]
            for row in range(3):
                np.testing.assert_allclose(value.numpy()[:, row], reference[row][name][:steps], rtol=1e-4, atol=1e-5)


def test_the_steps_of_a_cell_that_is_called_by_itself_go_on_from_its_state():
    cell, x = nn.GRUCell(2, 5), torch.randn(3, 4, 2)
    with rf.record(model={"cell": cell}) as trace:
        for _ in range(2):
            h = torch.zeros(3, 5)
            for frame in x.unbind(1):
                h = cell(frame, h)
    assert [event.step for event in trace.by_path("states")["cell"]] == [0, 1, 2, 3] * 2
    assert trace.states.num_runs("cell") == 2


@pytest.mark.parametrize(("kind", "options"), [(nn.LSTM, {}), (nn.GRU, {"num_layers": 2})])
def test_a_decoder_that_is_called_for_one_frame_after_the_other_makes_steps(kind, options):
    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = kind(2, 5, batch_first=True, **options)

        def forward(self, frame, state):
            output, state = self.rnn(frame, state)
            return output, state

    model, x = Decoder(), torch.randn(3, 4, 2)
    with rf.record(model=model) as trace:
        for _ in range(2):
            state = None
            for step in range(4):
                _, state = model(x[:, step : step + 1], state)
    reference = expected(model.rnn, x, [4] * 3)
    for suffix, rows in reference.items():
        path = "rnn" if model.rnn.num_layers == 1 else f"rnn.{suffix}"
        assert trace.states.num_runs(path) == 2
        for name, value in trace.states[path, 1].items():
            assert [dim.short_repr() for dim in value.dims] == ["step=4", "batch=3", "feature=5"]
            for row in range(3):
                np.testing.assert_allclose(value.numpy()[:, row], rows[row][name], rtol=1e-4, atol=1e-5)


def test_a_cell_in_a_decoder_that_is_called_in_a_loop_goes_on():
    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.LSTMCell(2, 5)

        def forward(self, frame, state=None):
            return self.cell(frame, state)

    model, x, state = Decoder(), torch.randn(3, 4, 2), None
    with rf.record(model=model) as trace:
        for frame in x.unbind(1):
            state = model(frame, state)
    assert [event.step for event in trace.by_path("states")["cell"]] == [0, 1, 2, 3]


def test_a_page_shows_states_of_modules_and_cells():
    model = nn.Sequential(nn.LSTM(2, 5, batch_first=True))
    with rf.record(model=model) as trace:
        model(torch.randn(3, 7, 2))
    view = rf.show(trace)
    assert "States: 0" in view.text() and "forget_gate" in view.text()
