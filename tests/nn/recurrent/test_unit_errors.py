"""Recurrent units with what does not fit: the error says what, and the next line to type."""

import pytest
from asserting import raises_message, randn, tensor
from recurrent_units import batch, d_in, make, out

import rfnb as rf
from rfnb import Dim, DimError, single_step_dim


def test_a_source_without_its_dims(time):
    with raises_message(DimError, """
        GRUCell: no dim in=2.
          source  [batch=3, time<=5, out=4]
          dim     in=2
        The dim in=2 is not among the dims of source.
            source.dims[0]    # batch=3
            source.dims[1]    # time<=5
            source.dims[2]    # out=4
    """):  # fmt: skip
        make("GRUCell")(randn(batch, time, out), spatial_dim=time)


def test_lengths_over_a_dim_that_is_not_there(time):
    for name in ("NativeLstm2", "GRUCell"):
        with raises_message(DimError, f"""
            {name}: the lengths of time<=5 are over [batch=3], which is not here.
              source      [time<=5, in=2]
              batch dims  []
              lengths     [batch=3]
            Which frames are real differs per sequence. One sequence that was picked (i) keeps its own frames if they are cut out first;
            what is the same for all sequences needs their dim:
                source, time = rf.slice(source, axis=time, size=rf.gather(time.dyn_size_ext, indices=i, axis=batch))
                source = rf.expand_dim(source, dim=batch)
        """):  # fmt: skip
            make(name)(randn(time, d_in), spatial_dim=time)


def test_labels_without_input_projection():
    gates = 4 * out
    labels = tensor([0, 1, 2], batch, sparse_dim=gates)
    with raises_message(DimError, """
        NativeLstm2(input_projection=False): no dim 4*out=16.
          source  [batch=3]
          dim     4*out=16
        The dim 4*out=16 is not among the dims of source.
            source.dims[0]    # batch=3
    """):  # fmt: skip
        rf.NativeLstm2(gates, out, input_projection=False)(labels, spatial_dim=single_step_dim)


def test_a_state_without_out_dim(time):
    with raises_message(DimError, """
        GRUCell: the state "h" has no out=4.
          h  [batch=3, in=2]
        Each part of the state has the dim of the output.
            h, _ = rf.replace_dim(h, in_dim=..., out_dim=out)
    """):  # fmt: skip
        make("GRUCell")(randn(batch, time, d_in), state=randn(batch, d_in), spatial_dim=time)


def test_a_state_of_other_parts(time):
    x = randn(batch, time, d_in)
    with raises_message(ValueError, """
        NativeLstm2: a state of other parts.
          given   h
          needed  c, h
        A state has all its parts.
            {'c': c, 'h': h}
    """):  # fmt: skip
        make("NativeLstm2")(x, state={"h": randn(batch, out)}, spatial_dim=time)
    with raises_message(ValueError, """
        NativeLstm2: a state of other parts.
          given   1 values
          needed  c, h
        A list has all parts of the state in this order.
            [c, h]
    """):  # fmt: skip
        make("NativeLstm2")(x, state=[randn(batch, out)], spatial_dim=time)
    with raises_message(ValueError, """
        NativeLstm2: one value for a state of 2 parts.
          given   [batch=3, out=4]
          needed  c, h
        Name the part of the state.
            {'c': c, 'h': h}
    """):  # fmt: skip
        make("NativeLstm2")(x, state=randn(batch, out), spatial_dim=time)
    with raises_message(ValueError, """
        GRUCell: the state "h" is no Tensor.
          h  int
        Each part of a state is a Tensor.
            state = grucell.default_initial_state(batch_dims=[batch])
    """):  # fmt: skip
        make("GRUCell")(x, state=[3], spatial_dim=time)


def test_directions(time):
    with raises_message(ValueError, """
        GRUCell: no direction.
          direction  2
          known      None or 1 forward, -1 backward
        A sequence is read from its first frame on, or from its last one back.
            rf.GRUCell(..., direction=-1)
    """):  # fmt: skip
        make("GRUCell")(randn(batch, time, d_in), spatial_dim=time, direction=2)
    with raises_message(ValueError, """
        GRUCell: one step backward.
          direction  -1
          axis       single_step_dim
        The end of a sequence is only known over its whole dim.
            rf.GRUCell(..., direction=1)
    """):  # fmt: skip
        make("GRUCell")(randn(batch, d_in), spatial_dim=single_step_dim, direction=-1)


def test_the_first_version_with_a_state_and_for_a_step(time):
    with raises_message(ValueError, """
        NativeLstm: an initial state.
          spatial_dim  time<=5
          state        given
        This version runs over whole sequences, from zeros. The same with a state:
            rf.NativeLstm2(in_dim, out_dim)
    """):  # fmt: skip
        make("NativeLstm")(randn(batch, time, d_in), state={"c": randn(batch, out)}, spatial_dim=time)


OPTION_ERRORS = {
    "a forget bias for the native LSTM": (("NativeLstm2", {"forget_bias": 1.0}), """
        NativeLstm2: a forget bias.
          forget_bias  1.0
        The bias of this unit is a parameter of its own. Start it with another value:
            unit.b.assign(...)      # the gates are in the order j, i, f, o
    """),
    "weights dropped with probability 1": (("NativeLstm2", {"rec_weight_dropout": 1.0}), """
        NativeLstm2: no probability to drop a weight.
          rec_weight_dropout  1.0
        A probability from 0 up to, not including, 1.
            rf.NativeLstm2(..., rec_weight_dropout=0.1)
    """),
    "another shape of dropped weights": (("NativeLstm2", {"rec_weight_dropout_shape": (2, 1)}), """
        NativeLstm2: rec_weight_dropout_shape has another size.
          shape  (2, 1)
          W_re   (4, 16)
        Each entry is that of W_re (or None), or 1 where the entries are dropped together.
            rf.NativeLstm2(..., rec_weight_dropout_shape=(4, 1))
    """),
    "an input that is not the product": (("NativeLstm2", {"input_projection": False}), """
        NativeLstm2(input_projection=False): in_dim has another size.
          in_dim  in=2
          needed  4 * out_dim = 16
        The sizes of a unit fit together.
            Dim(16, name='in')
    """),
    "a highway without layers": (("RHNCell", {"depth": 0}), """
        RHNCell: no layer.
          depth  0
        A step has at least one layer.
            rf.RHNCell(..., depth=5)
    """),
    "dropout 1": (("RHNCell", {"dropout": 1.0}), """
        RHNCell: no probability to drop.
          dropout  1.0
        A probability from 0 up to, not including, 1.
            rf.RHNCell(..., dropout=0.1)
    """),
    "two norms of all gates": (("LayerNormVariantsLSTMCell", {"global_norm_joined": True}), """
        LayerNormVariantsLSTMCell: global_norm with global_norm_joined.
          with_concat         False
          global_norm         True
          global_norm_joined  True
          per_gate_norm       False
        Both are about the same values; the documentation has no such unit.
            rf.LayerNormVariantsLSTMCell(..., global_norm=True, global_norm_joined=False)
    """),
    "a norm per gate besides": (("LayerNormVariantsLSTMCell", {"per_gate_norm": True}), """
        LayerNormVariantsLSTMCell: per_gate_norm with global_norm.
          with_concat         False
          global_norm         True
          global_norm_joined  False
          per_gate_norm       True
        Both are about the same values; the documentation has no such unit.
            rf.LayerNormVariantsLSTMCell(..., per_gate_norm=True, global_norm=False)
    """),
    "one matrix with norms of two": (("LayerNormVariantsLSTMCell", {"with_concat": True}), """
        LayerNormVariantsLSTMCell: with_concat with global_norm.
          with_concat         True
          global_norm         True
          global_norm_joined  False
          per_gate_norm       False
        Both are about the same values; the documentation has no such unit.
            rf.LayerNormVariantsLSTMCell(..., with_concat=True, global_norm=False)
    """),
    "an unknown activation": (("LayerNormVariantsLSTMCell", {"activation": "swoosh"}), """
        LayerNormVariantsLSTMCell: unknown activation "swoosh".
          known  tanh, sigmoid, relu, gelu, silu, identity
        It is one of these, or a function.
            rf.LayerNormVariantsLSTMCell(..., activation=rf.tanh)
    """),
    "a zoneout factor above 1": (("ZoneoutLSTMCell", {"zoneout_factor_output": 1.5}), """
        ZoneoutLSTMCell: no probability to keep a value.
          zoneout_factor_output  1.5
        A probability is from 0 to 1.
            rf.ZoneoutLSTMCell(..., zoneout_factor_output=0.1)
    """),
    "blocks that do not divide": (("BlocksparseLSTMCell", {"block_size": 4}), """
        BlocksparseLinear: the blocks do not divide a dim.
          dim         in=2
          block_size  4
        Each dim is a multiple of the size of a block.
            Dim(4, name='in')
    """),
    "no such pattern": (("BlocksparseLSTMCell", {"connectivity": 3}), """
        block_pattern: no such pattern.
          blocks        1 x 8
          connectivity  3
        One side is a multiple of the other, and connectivity is from 1 to the smaller side.
            connectivity=1, or other sizes
    """),
    "not deep enough": (("BlocksparseMultiplicativeMultistepLSTMCell", {"depth": 1}), """
        BlocksparseMultiplicativeMultistepLSTMCell: not deep enough.
          depth  1
        The first two layers are the product and the sum with the frame.
            depth=2
    """),
}  # fmt: skip


@pytest.mark.parametrize("what", OPTION_ERRORS)
def test_options_out_of_range(what):
    (name, options), text = OPTION_ERRORS[what]
    with raises_message(ValueError, text):
        make(name, **options)


def test_an_unknown_preset():
    with raises_message(ValueError, """
        LayerNormVariantsLSTMCell: unknown preset "best".
          known  ba, rnmt+, tf, sockeye
        It is one of these.
            rf.LayerNormVariantsLSTMCell.preset("rnmt+", in_dim, out_dim)
    """):  # fmt: skip
        rf.LayerNormVariantsLSTMCell.preset("best", d_in, out)


def test_a_larger_native_lstm_does_not_fit():
    with raises_message(ValueError, """
        copy_from_native_lstm: the parameters do not fit in.
          W     [in=2, 4*big=24] into [in=2, 4*out=16]
          W_re  [big=6, 4*big=24] into [out=4, 4*out=16]
          b     [4*big=24] into [4*out=16]
        The native LSTM is not larger in any dim, and has an input projection.
    """):  # fmt: skip
        make("BlocksparseLSTMCell").copy_from_native_lstm(make("NativeLstm2", out_dim=Dim(6, name="big")))
