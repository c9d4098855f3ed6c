"""rf.Rec: names, calls, initial states, initializers; rf.RnnCell."""

import copy

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn
from recurrent_units import batch, d_in, out

import rfnb as rf
from rfnb import Dim, DimError, single_step_dim
from rfnb.nn.recurrent.unit_names import unit_class

# -- names -------------------------------------------------------------------------------------------------------------
NAMES = {
    "lstm": "NativeLstm2",
    "LSTMP": "NativeLstm2",
    "VanillaLSTMCell": "NativeLstm2",
    "vanillalstm": "NativeLstm2",
    "NativeLSTM2": "NativeLstm2",
    "nativelstm": "NativeLstm",
    "LSTMBlock": "NativeLstm2",
    "lstmblockfused": "NativeLstm2",
    "CudnnLSTM": "NativeLstm2",
    "standardlstm": "StandardLSTMCell",
    "BasicLSTMCell": "BasicLSTMCell",
    "gru": "GRUCell",
    "GRUCell": "GRUCell",
    "CudnnGRU": "TorchGRUCell",
    "BasicRNN": "BasicRNNCell",
    "rhncell": "RHNCell",
    "LayerNormVariantsLSTM": "LayerNormVariantsLSTMCell",
    "ZoneoutLSTM": "ZoneoutLSTMCell",
    "BlocksparseLSTM": "BlocksparseLSTMCell",
    "BlocksparseMultiplicativeMultistepLSTM": "BlocksparseMultiplicativeMultistepLSTMCell",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_is_found_by_its_documented_name(name):
    assert unit_class(name) is getattr(rf, NAMES[name])


def test_the_parameters_of_the_basic_lstm_have_a_scope_of_their_own():
    assert sorted(rf.Rec("BasicLSTM", d_in, out).documented_parameters()) == [
        "rec/basic_lstm_cell/bias", "rec/basic_lstm_cell/kernel",
    ]  # fmt: skip
    assert rf.BasicLSTMCell(d_in, out).forget_bias == 1


@pytest.mark.parametrize("name", ["LSTMBlock", "LSTMBlockFusedCell", "CudnnLSTM"])
def test_kernels_of_whole_sequences_are_the_standard_lstm_in_single_steps(name):
    assert isinstance(rf.RnnCell(name, d_in, out).unit, rf.StandardLSTMCell)


def test_an_unknown_unit():
    with raises_message(ValueError, """
        Rec: unknown unit "LSTN".
          known  LSTM, LSTMP, NativeLstm2, VanillaLSTM, NativeLstm, LSTMBlock, LSTMBlockFused, CudnnLSTM, StandardLSTM, BasicLSTM, \
GRU, CudnnGRU, TorchGRU, BasicRNN, RHN, LayerNormVariantsLSTM, ZoneoutLSTM, BlocksparseLSTM, BlocksparseMultiplicativeMultistepLSTM
        Case does not matter, and "Cell" at the end may be there or not. A unit of your own is passed as a class:
            rf.Rec(MyUnit, in_dim, out_dim)
    """):  # fmt: skip
        rf.Rec("LSTN", d_in, out)


def test_something_else_as_unit():
    with raises_message(TypeError, """
        Rec: unit is an int.
          unit     3
          in_dim   in=2
          out_dim  out=4
        unit is a str, a class or a RecUnit:
            rf.Rec('lstm', in_dim, out)
    """):  # fmt: skip
        rf.Rec(3, d_in, out)


def test_dims_are_missing_or_too_many():
    with raises_message(ValueError, """
        Rec: which dims?
          in_dim   in=2
          out_dim  None
        A unit is made for the features of its input and of its output.
            rf.Rec('lstm', in_dim, out_dim)
    """):  # fmt: skip
        rf.Rec("lstm", d_in)
    with raises_message(ValueError, """
        Rec: dims or options for an existing unit.
          unit       GRUCell in=2 -> out=4
          unit_opts  {'depth': 3}
        It has its own.
            rf.Rec(unit)
    """):  # fmt: skip
        rf.Rec(rf.GRUCell(d_in, out), unit_opts={"depth": 3})


# -- calls -------------------------------------------------------------------------------------------------------------
def test_a_direction_is_of_the_layer(time):
    rec, x = rf.Rec("gru", d_in, out, direction=-1), randn(batch, time, d_in)
    expected, final = rec.unit(x, spatial_dim=time, direction=-1)
    output, state = rec(x, axis=time)
    assert_same(output, expected)
    assert_same(dict(state), dict(final))


def test_other_directions():
    with raises_message(ValueError, """
        Rec: no direction.
          direction  0
          known      None or 1 forward, -1 backward
        A sequence is read from its first frame on, or from its last one back.
            rf.Rec(..., direction=-1)
    """):  # fmt: skip
        rf.Rec("gru", d_in, out, direction=0)


def test_a_single_step_goes_on_with_its_state():
    rec, x = rf.Rec("lstm", d_in, out), randn(batch, d_in)
    _, first = rec(x, axis=single_step_dim)
    output, second = rec(x, axis=single_step_dim, state=first)
    expected, _ = rec.unit(x, state=first, spatial_dim=single_step_dim)
    assert_same(output, expected)
    assert list(second) == ["c", "h"]


def test_any_dim_can_be_the_axis(time):
    rows, rec = Dim(3, name="rows"), rf.Rec("lstm", d_in, out)
    x = randn(rows, batch, time, d_in)
    output, _ = rec(x, axis=rows)
    one = rf.gather(rf.gather(x, indices=1, axis=time), indices=0, axis=batch)
    expected, _ = rec(one, axis=rows)
    assert_same(rf.gather(rf.gather(output, indices=1, axis=time), indices=0, axis=batch), expected)


def test_back_prop_false_stops_gradients(time):
    x = randn(batch, time, d_in)
    for back_prop, has in ((False, False), (None, True)):
        output, state = rf.Rec("lstm", d_in, out, back_prop=back_prop)(x, axis=time)
        assert output.raw_tensor.requires_grad is has and state.c.raw_tensor.requires_grad is has


def test_unroll_has_a_longest_sequence(time):
    x = randn(batch, time, d_in)
    rec = rf.Rec("gru", d_in, out, unroll=True, max_seq_len=5)
    assert_same(rec(x, axis=time)[0], rf.Rec(rec.unit)(x, axis=time)[0])
    with raises_message(ValueError, """
        Rec: longer than max_seq_len.
          axis         time<=5
          max_seq_len  4
        An unrolled recurrence has the given number of steps.
            rf.Rec(..., unroll=True, max_seq_len=5)
    """):  # fmt: skip
        rf.Rec("gru", d_in, out, unroll=True, max_seq_len=4)(x, axis=time)
    with raises_message(ValueError, """
        Rec: max_seq_len without unroll.
          unroll       False
          max_seq_len  4
        The input determines how long a predefined unit runs.
            rf.Rec(..., unroll=True)
    """):  # fmt: skip
        rf.Rec("gru", d_in, out, max_seq_len=4)
    with raises_message(ValueError, """
        Rec: unroll without max_seq_len.
          unroll       True
          max_seq_len  None
        State the number of steps.
            rf.Rec(..., max_seq_len=100)
    """):  # fmt: skip
        rf.Rec("gru", d_in, out, unroll=True)


def test_a_copy_computes_the_same(time):
    rec, x = rf.Rec("lstm", d_in, out, initial_state="var"), randn(batch, time, d_in)
    assert_same(copy.deepcopy(rec)(x, axis=time)[0], rec(x, axis=time)[0])


# -- initial states ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind, value", [(None, 0), (0, 0), ("zeros", 0), (1, 1), ("ones", 1)])
def test_a_constant_to_start_with(kind, value, time):
    rec, x = rf.Rec("lstm", d_in, out, initial_state=kind), randn(batch, time, d_in)
    constant = rf.full(dims=[batch, out], fill_value=float(value))
    assert_same(rec(x, axis=time)[0], rec.unit(x, state=[constant, constant], spatial_dim=time)[0])
    assert_same(dict(rec.default_initial_state(batch_dims=[batch])), {"c": constant, "h": constant})


def test_learned_values_to_start_with(time):
    rec, x = rf.Rec("lstm", d_in, out, initial_state="var"), randn(batch, time, d_in)
    assert [name for name, _ in rec.named_parameters()] == [
        "unit.W", "unit.b", "unit.W_re", "initial_state.c", "initial_state.h",
    ]  # fmt: skip
    assert "rec/initial_c" in rec.documented_parameters()
    assert not rec.initial_state.c.numpy().any()
    rec.initial_state.c.assign(randn(out, seed=3))
    output, state = rec(x, axis=time)
    np.testing.assert_allclose(state.c.numpy()[2], rec.initial_state.c.numpy())  # no frame
    rf.reduce_sum(output, axis=output.dims).raw_tensor.backward()
    assert rec.initial_state.c.raw_tensor.grad.abs().sum() > 0


def test_tensors_to_start_with(time):
    x, c, h = randn(batch, time, d_in), randn(batch, out, seed=1), randn(batch, out, seed=2)
    unit = rf.NativeLstm2(d_in, out)
    expected = unit(x, state={"c": c, "h": h}, spatial_dim=time)[0]
    for initial in ({"h": h, "c": c}, [c, h], (c, h), rf.State(c=c, h=h)):
        assert_same(rf.Rec(unit, initial_state=initial)(x, axis=time)[0], expected)
        assert_same(rf.Rec(unit)(x, axis=time, state=initial)[0], expected)
    ones = rf.ones_like(h)
    assert_same(rf.Rec(unit, initial_state={"c": c, "h": "ones"})(x, axis=time)[0],
                unit(x, state=[c, ones], spatial_dim=time)[0])  # fmt: skip
    gru = rf.GRUCell(d_in, out)
    assert_same(rf.Rec(gru, initial_state=h)(x, axis=time)[0], gru(x, state={"h": h}, spatial_dim=time)[0])


def test_the_state_is_kept_for_the_next_call_of_the_epoch(time):
    rec = rf.Rec("lstm", d_in, out, initial_state="keep_over_epoch")
    always = rf.Rec(rec.unit, initial_state="keep_over_epoch_no_init")
    x = randn(batch, time, d_in)
    try:
        rf.init_train_step_run_ctx(epoch=1)
        first, state = rec(x, axis=time)
        always(x, axis=time)
        again = Dim(3, name="other batch")  # the dims of each call are new ones, the sequences go on
        other = ragged([5, 2, 0], again)
        y, _ = rf.replace_dim(x, in_dim=batch, out_dim=again)
        y, _ = rf.replace_dim(y, in_dim=time, out_dim=other)
        second, _ = rec(y, axis=other)
        expected, _ = rec.unit(x, state=state, spatial_dim=time)
        np.testing.assert_allclose(second.numpy(), expected.numpy(), atol=1e-6)
        assert not rec.initial_state._kept.c.raw_tensor.requires_grad
        assert [name for name, _ in rec.named_parameters()] == ["unit.W", "unit.b", "unit.W_re"]
        rf.init_train_step_run_ctx(epoch=2)
        assert_same(rec(x, axis=time)[0], first)
        assert not np.allclose(always(x, axis=time)[0].numpy(), first.numpy())
        always.initial_state.reset()
        assert_same(always(x, axis=time)[0], first)
        more = Dim(2, name="batch")
        frames = Dim(5, name="frames")
        with raises_message(ValueError, """
            Rec: the state "c" of the previous call belongs to another batch.
              kept    [batch=3, out=4]
              needed  [batch=2, out=4]
            Sequence b of a call continues sequence b of the previous call. To start again:
                rec.initial_state.reset()
        """):  # fmt: skip
            rec(randn(more, frames, d_in), axis=frames)
    finally:
        rf.init_forward_step_run_ctx()


def test_a_placeholder_is_given_to_each_call(time):
    rec, x, h = rf.Rec("gru", d_in, out, initial_state="placeholder"), randn(batch, time, d_in), randn(batch, out)
    assert_same(rec(x, axis=time, state=h)[0], rec.unit(x, state=h, spatial_dim=time)[0])
    with raises_message(ValueError, """
        Rec: no state.
          initial_state  "placeholder"
          state          None
        Such a state is given to each call:
            rec(source, axis=time, state=state)
    """):  # fmt: skip
        rec(x, axis=time)


@pytest.mark.parametrize("kind, text", [("twos", "'twos'"), (2, "2"), (True, "True"), (0.5, "0.5")])
def test_an_unknown_initial_state(kind, text):
    with raises_message(ValueError, f"""
        Rec: unknown initial state.
          initial_state  {text}
          known          "zeros", "ones", "var", "keep_over_epoch", "keep_over_epoch_no_init", "placeholder", tensors
        Of the numbers, 0 and 1 are known.
            rf.Rec(..., initial_state="zeros")
    """):  # fmt: skip
        rf.Rec("gru", d_in, out, initial_state=kind)


def test_an_incomplete_or_shapeless_initial_state():
    with raises_message(ValueError, """
        Rec: a state of other parts.
          given   c
          needed  c, h
        A state has all its parts.
            {'c': c, 'h': h}
    """):  # fmt: skip
        rf.Rec("lstm", d_in, out, initial_state={"c": "zeros"})
    with raises_message(ValueError, """
        Rec: one value for a state of 2 parts.
          given   [batch=3, out=4]
          needed  c, h
        Name the part of the state.
            {'c': c, 'h': h}
    """):  # fmt: skip
        rf.Rec("lstm", d_in, out, initial_state=randn(batch, out))
    with raises_message(DimError, """
        Rec: the state "h" has no out=4.
          h  [batch=3, in=2]
        Each part of the state has the dim of the output.
            h, _ = rf.replace_dim(h, in_dim=..., out_dim=out)
    """):  # fmt: skip
        rf.Rec("gru", d_in, out, initial_state=randn(batch, d_in))


def test_the_first_version_has_no_initial_state():
    with raises_message(ValueError, """
        Rec: an initial state for NativeLstm.
          initial_state  'zeros'
        This version starts from zeros. The same with a state:
            rf.Rec("NativeLstm2", ...)
    """):  # fmt: skip
        rf.Rec("nativelstm", d_in, out, initial_state="zeros")


# -- initializers ------------------------------------------------------------------------------------------------------
def test_initializers_go_by_what_a_parameter_is():
    unit = rf.Rec("lstm", d_in, out, forward_weights_init=2.0, recurrent_weights_init="ones", bias_init=-1.0).unit
    assert (unit.W.numpy() == 2).all() and (unit.W_re.numpy() == 1).all() and (unit.b.numpy() == -1).all()
    unit = rf.Rec("standardlstm", d_in, out, forward_weights_init=2.0, recurrent_weights_init=3.0).unit
    assert (unit.kernel.numpy()[:2] == 2).all() and (unit.kernel.numpy()[2:] == 3).all() and not unit.bias.numpy().any()
    unit = rf.Rec("gru", d_in, out, bias_init=0.5).unit
    assert (unit.gates.bias.numpy() == 0.5).all() and (unit.candidate.bias.numpy() == 0.5).all()
    unit = rf.Rec("rhn", d_in, out, forward_weights_init=2.0, recurrent_weights_init=3.0).unit
    assert (unit.W.numpy() == 2).all() and (unit.depth_4.W.numpy() == 3).all()


def test_that_of_the_state_alone_is_that_of_the_frames_too():
    unit = rf.Rec("lstm", d_in, out, recurrent_weights_init=3.0).unit
    assert (unit.W.numpy() == 3).all() and (unit.W_re.numpy() == 3).all() and not unit.b.numpy().any()
    unit = rf.Rec("basicrnn", d_in, out, forward_weights_init=3.0).unit
    assert (unit.kernel.numpy()[:2] == 3).all() and abs(unit.kernel.numpy()[2:]).max() < 1


def test_what_units_begin_with():
    unit = rf.GRUCell(d_in, out)
    assert (unit.gates.bias.numpy() == 1).all() and not unit.candidate.bias.numpy().any()
    limit = np.sqrt(6 / (2 + 16))
    weights = rf.NativeLstm2(d_in, out).W.numpy()
    assert abs(weights).max() <= limit and weights.std() > 0.3 * limit


def test_an_unknown_initializer():
    with raises_message(ValueError, """
        init_parameters: unknown initializer "orthogonal".
          known  glorot, glorot_uniform, xavier, he_uniform, zeros, ones
        It is one of these, a number, or a ParamInit.
            forward_weights_init=rf.Glorot()
    """):  # fmt: skip
        rf.Rec("lstm", d_in, out, forward_weights_init="orthogonal")


# -- RnnCell -----------------------------------------------------------------------------------------------------------
def test_a_cell_runs_over_a_dim_as_well(time):
    cell, x = rf.RnnCell("gru", d_in, out), randn(batch, time, d_in)
    output, state = cell(x, axis=time)
    assert_same(output, cell.unit(x, spatial_dim=time)[0])
    loop = rf.Loop(axis=time)
    loop.state.s = cell.default_initial_state(batch_dims=[batch])
    for _ in loop:
        y, loop.state.s = cell(loop.unstack(x), state=loop.state.s)
        stacked = loop.stack(y)
    assert_same(stacked, output)
    assert_same(dict(loop.state.s), dict(state))


def test_sources_are_concatenated_in_order():
    other = Dim(3, name="other")
    cell = rf.RnnCell("basicrnn", other + d_in, out, weights_init=rf.Normal(1.0))
    a, b = randn(batch, d_in), randn(other)
    a.feature_dim, b.feature_dim = d_in, other
    output, _ = cell([b, a])
    both = torch.cat([b.raw_tensor.expand(3, 3), a.raw_tensor], 1)
    torch.testing.assert_close(output.raw_tensor, torch.tanh(both @ cell.unit.kernel.raw_tensor[:5]))


def test_a_cell_with_a_learned_state():
    cell = rf.RnnCell("gru", d_in, out, initial_state="var", weights_init="zeros")
    cell.initial_state.h.assign(1.0)
    output, _ = cell(randn(batch, d_in))
    np.testing.assert_allclose(output.numpy(), 1 / (1 + np.exp(-1.0)), rtol=1e-6)  # u = sigmoid(1), candidate 0
    assert sorted(cell.documented_parameters()) == [
        "rec/gru_cell/candidate/bias", "rec/gru_cell/candidate/kernel", "rec/gru_cell/gates/bias",
        "rec/gru_cell/gates/kernel", "rec/initial_h",
    ]  # fmt: skip


def test_a_whole_sequence_in_a_step_of_a_loop(time):
    cell, x = rf.RnnCell("gru", d_in, out), randn(batch, time, d_in)
    loop = rf.Loop(axis=time, name="decoder")
    with raises_message(DimError, """
        RnnCell: the source of a step still has the dim of loop "decoder".
          source  [batch=3, time<=5, in=2]
        A step gets one frame.
            x_t = loop.unstack(x)
    """):  # fmt: skip
        for _ in loop:
            cell(x)


def test_a_source_of_several_has_a_feature_dim():
    cell = rf.RnnCell("gru", d_in + out, out)
    with raises_message(DimError, """
        RnnCell: a source without feature_dim.
          source  [batch=3, in=2]
        Of several sources the features are concatenated.
            source.feature_dim = feat
    """):  # fmt: skip
        cell([randn(batch, d_in), randn(batch, out)])


def test_the_first_version_makes_no_single_steps():
    with raises_message(ValueError, """
        RnnCell: NativeLstm makes no single steps.
          unit  'nativelstm'
        It runs over whole sequences. The same step by step:
            rf.RnnCell("NativeLstm2", ...)
    """):  # fmt: skip
        rf.RnnCell("nativelstm", d_in, out)
