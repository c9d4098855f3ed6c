"""Properties that all recurrent units share, including user-defined ones."""

import numpy as np
import pytest
import torch
from asserting import assert_same, raises_message, randn, tensor, with_nan_padding
from recurrent_units import UNITS, batch, d_in, make, out, some_state

import rfnb as rf
from rfnb import Dim, single_step_dim
from rfnb.trace.probe import listen


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("name", UNITS)
def test_steps_are_the_whole_sequence(name, recorded, time):
    unit, x = make(name), randn(batch, time, d_in)
    state = some_state(unit, batch)
    expected, final = unit(with_nan_padding(x), state=state, spatial_dim=time)
    loop = rf.Loop(axis=time)
    loop.state.unit = state

    def body():
        y, loop.state.unit = unit(loop.unstack(x), state=loop.state.unit, spatial_dim=single_step_dim)
        return loop.stack(y)

    if recorded:
        with loop:
            output = body()
    else:
        for _ in loop:
            output = body()
    assert_same(output, expected)
    assert_same(dict(loop.state.unit), dict(final))
    assert expected.feature_dim is out and not expected.copy_transpose([batch, time, out]).numpy()[1, 2:].any()


@pytest.mark.parametrize("name", UNITS)
def test_backward_is_forward_over_each_sequence_turned_around(name, time):
    unit, x = make(name), randn(batch, time, d_in)
    state = some_state(unit, batch)
    output, final = unit(x, state=state, spatial_dim=time, direction=-1)
    turned, expected_final = unit(rf.reverse_sequence(x, axis=time), state=state, spatial_dim=time)
    assert_same(output, rf.reverse_sequence(turned, axis=time))
    assert_same(dict(final), dict(expected_final))
    assert_same(rf.gather(final[unit.state_parts[0]], indices=2, axis=batch),
                rf.gather(state[unit.state_parts[0]], indices=2, axis=batch))  # fmt: skip


@pytest.mark.parametrize("name", UNITS)
def test_labels_are_as_one_hot_frames(name, time):
    unit = make(name, in_dim=Dim(4, name="in"))
    labels = tensor([[0, 3, 1, 1, 2], [2, 2, 0, 0, 0], [1, 0, 0, 0, 0]], batch, time, sparse_dim=unit.in_dim)
    output, final = unit(labels, spatial_dim=time)
    expected, expected_final = unit(rf.one_hot(labels), spatial_dim=time)
    assert_same(output, expected)
    assert_same(dict(final), dict(expected_final))


@pytest.mark.parametrize("name", UNITS)
def test_further_dims_are_as_if_each_ran_alone(name, time):
    heads, beam = Dim(2, name="heads"), Dim(3, name="beam")
    unit, x = make(name), randn(heads, batch, time, d_in)
    state = some_state(unit, batch, beam)
    y, final = unit(x, state=state, spatial_dim=time)
    assert set(y.dims) == {heads, batch, beam, time, out}
    one = rf.State((part, rf.gather(value, indices=2, axis=beam)) for part, value in state.items())
    expected, expected_final = unit(rf.gather(x, indices=1, axis=heads), state=one, spatial_dim=time)
    picked = [
        rf.gather(rf.gather(value, indices=1, axis=heads), indices=2, axis=beam) for value in (y, *final.values())
    ]
    assert_same(picked, [expected, *expected_final.values()])


@pytest.mark.parametrize("name", UNITS)
def test_the_dim_of_the_input_may_be_that_of_the_output(name, time):
    unit, other = make(name, in_dim=out), make(name, in_dim=Dim(4, name="in"))
    x = randn(batch, time, out)
    expected, _ = other(rf.replace_dim(x, in_dim=out, out_dim=other.in_dim)[0], spatial_dim=time)
    got, _ = unit(x, spatial_dim=time)
    names = {dim.name for dim in got.dims}
    assert names == {"batch", "time", "out"}
    assert_same(got, expected)
    one = unit(randn(batch, out), spatial_dim=single_step_dim)[0]
    assert set(one.dims) == {batch, out}


@pytest.mark.parametrize("name", ["NativeLstm2", "StandardLSTMCell", "GRUCell", "RHNCell", "LayerNormVariantsLSTMCell"])
def test_the_dim_of_the_input_may_be_that_of_the_gates(name, time):
    for factor in (2, 3, 4):
        wide = factor * out
        assert set(make(name, in_dim=wide)(randn(batch, time, wide), spatial_dim=time)[0].dims) == {batch, time, out}


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("dims", [(), (batch,), (Dim(0, name="nobody"),)])
def test_without_frames_the_state_stays(name, dims):
    empty, unit = Dim(0, name="empty"), make(name)
    state = some_state(unit, *dims)
    for direction in (1, -1):
        y, final = unit(rf.zeros([*dims, empty, d_in]), state=state, spatial_dim=empty, direction=direction)
        assert_same(dict(final), dict(state))
        assert set(y.dims) == {*dims, empty, out} and y.dtype == "float32"


@pytest.mark.parametrize("name", UNITS)
def test_no_batch_dim_and_an_empty_batch(name):
    frames, nobody, unit = Dim(5, name="frames"), Dim(0, name="nobody"), make(name)
    x = randn(frames, d_in)
    y, final = unit(x, spatial_dim=frames)
    expected, _ = unit(rf.expand_dim(x, Dim(1, name="one")), spatial_dim=frames)
    np.testing.assert_allclose(y.copy_transpose([frames, out]).numpy(), expected.numpy().reshape(5, 4), atol=1e-6)
    assert final[unit.state_parts[0]].dims == (out,)
    y, _ = unit(rf.zeros([nobody, frames, d_in]), spatial_dim=frames)
    assert set(y.dims) == {nobody, frames, out}


@pytest.mark.parametrize("name", UNITS)
def test_whoever_looks_sees_states_and_gates_of_the_whole_sequence(name, time):
    unit, x, events = make(name), randn(batch, time, d_in), []
    silent, _ = unit(x, spatial_dim=time)
    with listen(lambda kind, place, values: events.append((kind, values))):
        y, final = unit(x, spatial_dim=time)
    assert_same(y, silent, tolerance=0)
    (values,) = [values for kind, values in events if kind == "states"]
    assert values["axis"] is time
    if name == "ZoneoutLSTMCell" or "h" in values:
        assert_same(values["h"], y)
    for part in unit.state_parts:
        assert set(values[part].dims) == {batch, time, out}
        last = rf.gather(rf.gather(values[part], indices=4, axis=time), indices=0, axis=batch)
        assert_same(last, rf.gather(final[part], indices=0, axis=batch))
    gates = {key for key in values if key.endswith(("_gate", "_gate_0"))}
    assert gates or name == "BasicRNNCell"
    assert all(0 <= values[key].numpy().min() and values[key].numpy().max() <= 1 for key in gates)


def test_gates_are_those_of_the_formula():
    unit, events = make("NativeLstm2"), []
    frames, x = Dim(1, name="frames"), randn(d_in, seed=5)
    with listen(lambda kind, place, values: events.append(values if kind == "states" else None)):
        unit(rf.expand_dim(x, frames), spatial_dim=frames)
    values = next(event for event in events if event)
    z = x.raw_tensor @ unit.W.raw_tensor + unit.b.raw_tensor
    for name, block in (("input_gate", 1), ("forget_gate", 2), ("output_gate", 3)):
        torch.testing.assert_close(values[name].raw_tensor[0], torch.sigmoid(z[4 * block : 4 * block + 4]).detach())


def test_the_batch_dims_may_be_ragged_themselves(time):
    letters = rf.Dim(
        rf.convert_to_tensor(np.int32([[2, 3, 1, 1, 2], [1, 2, 9, 9, 9], [9] * 5]), dims=[batch, time]), name="letters"
    )
    for name in ("NativeLstm2", "GRUCell"):
        unit = make(name)
        x = randn(batch, time, letters, d_in)
        _, final = unit(with_nan_padding(x), spatial_dim=letters)
        loss = rf.reduce_sum(rf.square(final.h), axis=[batch, time, out])
        loss.raw_tensor.backward()
        assert all(torch.isfinite(parameter.raw_tensor.grad).all() for parameter in unit.parameters())


@pytest.mark.parametrize("name", UNITS)
def test_in_mixed_precision_states_stay_in_float32(name, time):
    unit, x = make(name), randn(batch, time, d_in)
    expected, _ = unit(x, spatial_dim=time)
    with rf.set_amp_policy_ctx(rf.AmpPolicy("bfloat16")):
        output, final = unit(x, spatial_dim=time)
        _, step = unit(randn(batch, d_in), spatial_dim=single_step_dim)
    assert {value.dtype for value in (output, *final.values(), *step.values())} == {"float32"}
    assert_same(output, expected, tolerance=0.1)


# -- a unit of one's own -----------------------------------------------------------------------------------------------
class Leaky(rf.RecUnit):
    def __init__(self, in_dim, out_dim, *, rate=0.1):
        super().__init__(in_dim, out_dim)
        self.rate, self.linear = rate, rf.Linear(in_dim, out_dim)

    def transform_input(self, source):
        return self.linear(source)

    def step(self, transformed, state):
        h = (1 - self.rate) * state.h + self.rate * rf.tanh(transformed)
        return h, rf.State(h=h)


def test_a_unit_of_ones_own_as_class_and_as_object(time):
    rec = rf.Rec(Leaky, d_in, out, unit_opts={"rate": 0.5}, direction=-1)
    x = randn(batch, time, d_in)
    output, state = rec(x, axis=time)
    h, values = np.zeros(4), []
    frames = np.tanh(x.numpy()[0] @ rec.unit.linear.weight.numpy() + rec.unit.linear.bias.numpy())
    for frame in frames[::-1]:
        h = 0.5 * h + 0.5 * frame
        values.append(h)
    np.testing.assert_allclose(output.copy_transpose([batch, time, out]).numpy()[0], values[::-1], atol=1e-6)
    np.testing.assert_allclose(state.h.numpy()[0], h, atol=1e-6)
    assert_same(rf.Rec(rec.unit, direction=-1)(x, axis=time)[0], output)
    assert list(rec.documented_parameters()) == ["rec/linear/weight", "rec/linear/bias"]


def test_a_unit_without_step():
    class Nothing(rf.RecUnit):
        pass

    with raises_message(NotImplementedError, "Nothing does not define step."):
        Nothing(d_in, out)(randn(batch, d_in), spatial_dim=single_step_dim)
