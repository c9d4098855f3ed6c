"""The units by their formulas: what each option changes."""

import numpy as np
import pytest
import torch
from asserting import assert_same, randn, tensor
from recurrent_units import batch, d_in, make, out, some_state

import rfnb as rf
from rfnb import Dim, single_step_dim


# -- the LSTMs ---------------------------------------------------------------------------------------------------------
def test_without_input_projection_the_input_is_the_product(time):
    gates = Dim(16, name="gates")
    unit, bare = make("NativeLstm2"), rf.NativeLstm2(gates, out, input_projection=False)
    bare.W_re.assign(unit.W_re)
    x = randn(batch, time, d_in)
    product, _ = rf.replace_dim(unit.transform_input(x), in_dim=4 * out, out_dim=gates)
    assert_same(bare(product, spatial_dim=time)[0], unit(x, spatial_dim=time)[0])
    assert list(bare.documented_parameters()) == ["W_re"]


def test_the_first_version_has_only_c_as_state(time):
    unit, first = make("NativeLstm2"), make("NativeLstm")
    x = randn(batch, time, d_in)
    output, final = first(x, spatial_dim=time)
    expected, expected_final = unit(x, spatial_dim=time)
    assert_same(output, expected)
    assert_same(dict(final), {"c": expected_final.c})


def test_dropped_recurrent_weights_are_the_same_in_all_steps(training):
    frames, unit = Dim(3, name="frames"), make("NativeLstm2", rec_weight_dropout=0.5)
    rf.set_random_seed(3)
    masks = unit.default_initial_state(batch_dims=[batch])
    assert list(masks) == ["c", "h", "W_re_mask"]
    values = masks.W_re_mask.numpy()
    assert set(np.unique(values)) == {0.0, 2.0}
    plain = make("NativeLstm2")
    plain.W_re.assign(unit.W_re * masks.W_re_mask)
    x = randn(batch, frames, d_in)
    expected, _ = plain(x, spatial_dim=frames)
    output, final = unit(x, state=masks, spatial_dim=frames)
    assert_same(output, expected)
    assert list(final) == ["c", "h", "W_re_mask"]
    loop = rf.Loop(axis=frames)
    loop.state.unit = masks
    for _ in loop:
        y, loop.state.unit = unit(loop.unstack(x), state=loop.state.unit, spatial_dim=single_step_dim)
        output = loop.stack(y)
    assert_same(output, expected)


@pytest.mark.parametrize("shape, same_along", [((1, None), 0), ((4, 1), 1)])
def test_recurrent_weights_can_be_dropped_in_rows_or_columns(shape, same_along, training):
    unit = make("NativeLstm2", rec_weight_dropout=0.5, rec_weight_dropout_shape=shape)
    masks = np.stack([unit.default_initial_state(batch_dims=[]).W_re_mask.numpy() for _ in range(16)])
    assert masks.shape == (16, 4, 16) and (np.ptp(masks, axis=1 + same_along) == 0).all() and 0 < masks.mean() < 2


def test_outside_of_training_no_weight_is_dropped(time):
    x = randn(batch, time, d_in)
    assert_same(make("NativeLstm2", rec_weight_dropout=0.5)(x, spatial_dim=time)[0],
                make("NativeLstm2")(x, spatial_dim=time)[0])  # fmt: skip


def test_the_forget_bias_of_the_standard_lstm_is_a_constant():
    unit, plain = make("StandardLSTMCell", forget_bias=1.5), make("StandardLSTMCell", forget_bias=0.0)
    bias = plain.bias.numpy().copy()
    bias[8:12] += 1.5  # i, j, f, o
    plain.bias.assign(bias)
    x, state = randn(batch, d_in), some_state(unit, batch)
    assert_same(unit(x, state=state, spatial_dim=single_step_dim)[0],
                plain(x, state=state, spatial_dim=single_step_dim)[0])  # fmt: skip


# -- layer normalization -----------------------------------------------------------------------------------------------
def layer_norm_formula(unit, x, h, c):
    """Section by section as documented, in NumPy."""
    p = {name: parameter.numpy().astype(np.float64) for name, parameter in unit.named_parameters()}

    def norm(value, name):
        centred = value - value.mean(-1, keepdims=True)
        value = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + unit.variance_epsilon)
        return value * p[f"gamma_{name}"] + p.get(f"beta_{name}", 0.0)

    def sigma(value):
        return 1 / (1 + np.exp(-value))

    if unit.with_concat:
        z = np.concatenate([x, h], -1) @ p["W_ff_re"] + p.get("bias_ff_re", 0.0)
    else:
        a, r = x @ p["W_ff"] + p.get("bias_ff", 0.0), h @ p["W_re"]
        if unit.global_norm:
            a, r = norm(a, "input_below"), norm(r, "state_below")
        z = a + r
    if unit.global_norm_joined:
        z = norm(z, "lstm_in")
    i, j, f, o = np.split(z, 4, -1)
    if unit.per_gate_norm:
        i, j, f, o = (norm(value, f"{part}_gate") for part, value in zip("ijfo", (i, j, f, o)))
    c = sigma(f) * c + sigma(i) * np.tanh(j)
    unnormed = c
    if unit.cell_norm:
        c = norm(c, "new_c")
    h = sigma(o) * np.tanh(c if unit.cell_norm_in_output else unnormed)
    return (norm(h, "new_h") if unit.hidden_norm else h), c


@pytest.mark.parametrize("concat", [False, True])
@pytest.mark.parametrize("gates", ["global_norm", "global_norm_joined", "per_gate_norm", None])
@pytest.mark.parametrize(
    "cell", [{}, {"cell_norm": False}, {"cell_norm_in_output": False}, {"hidden_norm": True, "variance_epsilon": 0.1}]
)
def test_all_variants_of_layer_normalization(concat, gates, cell):
    if concat and gates == "global_norm":
        return
    norms = {name: name == gates for name in ("global_norm", "global_norm_joined", "per_gate_norm")}
    unit = make("LayerNormVariantsLSTMCell", with_concat=concat, **norms, **cell)
    x, state = randn(batch, d_in), some_state(unit, batch)
    y, new = unit(x, state=state, spatial_dim=single_step_dim)
    h, c = layer_norm_formula(unit, x.numpy(), state.h.numpy(), state.c.numpy())
    for got, expected in ((y, h), (new.h, h), (new.c, c)):
        np.testing.assert_allclose(got.copy_transpose([batch, out]).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_which_parameters_a_variant_has():
    def names(**options):
        return sorted(rf.LayerNormVariantsLSTMCell(d_in, out, **options).documented_parameters())

    assert names(global_norm=False, cell_norm=False) == ["W_ff", "W_re", "bias_ff"]
    assert names(global_norm=False, with_concat=True, cell_norm=False) == ["W_ff_re", "bias_ff_re"]
    assert names(global_norm=False, global_norm_joined=True, cell_norm=False, hidden_norm=True) == [
        "W_ff", "W_re", "beta_lstm_in", "beta_new_h", "gamma_lstm_in", "gamma_new_h",
    ]  # fmt: skip


def test_what_norms_and_biases_start_with():
    def start(name, **options):
        unit = rf.LayerNormVariantsLSTMCell(d_in, out, norm_gain=2.0, norm_shift=0.5, forget_bias=1.0, **options)
        return getattr(unit, name).numpy().reshape(-1, 4)[:, 0].tolist()

    assert start("beta_input_below") == [0.5, 0.5, 1.5, 0.5]
    assert start("beta_input_below", forget_bias_for_all_gates=True) == [1.5] * 4
    assert start("beta_lstm_in", global_norm=False, global_norm_joined=True) == [0.5, 0.5, 1.5, 0.5]
    assert start("bias_ff", global_norm=False) == [0, 0, 1, 0]
    assert start("beta_f_gate", global_norm=False, per_gate_norm=True) == [1.5]
    assert start("beta_i_gate", global_norm=False, per_gate_norm=True) == [0.5]
    assert start("gamma_state_below") == [2.0] * 4 and start("beta_new_c") == [0.5]


def test_presets():
    rnmt = rf.LayerNormVariantsLSTMCell.preset("rnmt+", d_in, out)
    assert (rnmt.global_norm, rnmt.per_gate_norm, rnmt.cell_norm_in_output) == (False, True, False)
    tf = rf.LayerNormVariantsLSTMCell.preset("tf", d_in, out, forget_bias=1.0)
    assert (tf.global_norm, tf.per_gate_norm, tf.cell_norm_in_output) == (False, True, True)
    assert rf.LayerNormVariantsLSTMCell.preset("ba", d_in, out).global_norm


@pytest.mark.parametrize("name, options, masks", [
    ("RHNCell", {"dropout": 0.5}, ["dropout_mask"]),
    ("LayerNormVariantsLSTMCell", {"dropout": 0.5}, ["cell_mask"]),
    ("LayerNormVariantsLSTMCell", {"dropout": 0.25, "dropout_h": 0.5}, ["cell_mask", "h_mask"]),
])  # fmt: skip
def test_what_is_dropped_is_the_same_in_all_steps(name, options, masks, training):
    frames, unit = Dim(4, name="frames"), make(name, **options)
    state = unit.default_initial_state(batch_dims=[batch])
    assert [key for key in state if key.endswith("_mask")] == masks
    x = randn(batch, frames, d_in)
    expected, _ = unit(x, state=state, spatial_dim=frames)
    loop = rf.Loop(axis=frames)
    loop.state.unit = state
    for _ in loop:
        y, loop.state.unit = unit(loop.unstack(x), state=loop.state.unit, spatial_dim=single_step_dim)
        output = loop.stack(y)
    assert_same(output, expected)
    ones = rf.State({**state, **{key: rf.ones_like(state[key]) for key in masks}})
    with rf.get_run_ctx().train_flag_ctx(False):
        assert_same(unit(x, spatial_dim=frames)[0], unit(x, state=ones, spatial_dim=frames)[0])
    first, second = (unit(x, spatial_dim=frames)[0].numpy() for _ in range(2))
    assert not np.allclose(first, second)


def test_dropout_of_the_highway_is_of_what_goes_into_the_products():
    unit = make("RHNCell", dropout=0.5, depth=2)
    x, s = randn(batch, d_in), randn(batch, out, seed=3)
    mask = tensor([[0.0, 2.0, 2.0, 0.0]] * 3, batch, out)
    _, new = unit(x, state={"s": s, "dropout_mask": mask}, spatial_dim=single_step_dim)
    value, m = s.raw_tensor, mask.raw_tensor
    for layer in range(2):
        y = (value * m) @ getattr(unit, f"depth_{layer}").W.raw_tensor
        y = y + x.raw_tensor @ unit.W.raw_tensor + unit.b.raw_tensor if layer == 0 else y
        p, t = y.chunk(2, -1)
        value = value + torch.sigmoid(t) * (torch.tanh(p) - value)
    torch.testing.assert_close(new.s.raw_tensor, value)


def test_the_transform_bias_is_where_the_second_half_starts():
    assert rf.RHNCell(d_in, out, transform_bias=-2.0).b.numpy().tolist() == [0.0] * 4 + [-2.0] * 4


# -- zoneout, block-sparse ---------------------------------------------------------------------------------------------
def test_zoneout_gives_out_what_the_lstm_computed_if_asked_to():
    unit = make("ZoneoutLSTMCell", use_zoneout_output=False)
    x, state = randn(batch, d_in), some_state(unit, batch)
    output, new = unit(x, state=state, spatial_dim=single_step_dim)
    h, plain = unit.lstm_cell(x, state=state, spatial_dim=single_step_dim)
    assert_same(output, h)
    assert_same(new.h, 0.9 * h + 0.1 * state.h)
    assert_same(new.c, 0.8 * plain.c + 0.2 * state.c)


def test_in_training_a_unit_is_old_or_new(training):
    many = Dim(300, name="many")
    unit = make("ZoneoutLSTMCell", zoneout_factor_cell=0.25, zoneout_factor_output=0.5)
    x, state = randn(many, d_in), some_state(unit, many)
    _, new = unit(x, state=state, spatial_dim=single_step_dim)
    _, plain = unit.lstm_cell(x, state=state, spatial_dim=single_step_dim)
    for part, factor in (("c", 0.25), ("h", 0.5)):
        kept = np.isclose(new[part].numpy(), state[part].numpy(), atol=1e-6)
        assert (kept | np.isclose(new[part].numpy(), plain[part].numpy(), atol=1e-5)).all()
        assert abs(kept.mean() - factor) < 0.06


def test_the_pattern_is_that_of_the_seed():
    def pattern(seed):
        sizes = {"in_dim": Dim(8, name="in"), "out_dim": Dim(16, name="out")}
        return rf.BlocksparseLSTMCell(**sizes, block_size=2, connectivity=2, seed=seed).h.mask.numpy()

    first = pattern(0)
    assert first.shape == (8, 32) and (first == pattern(0)).all() and (first != pattern(1)).any()
    for part in np.split(first, 4, axis=1):
        assert (part == part.T).all() and part.diagonal().all() and part[:2, :2].all()
        assert (part.sum() - 8) // 2 == 1 + 6 * 2  # between the first nodes, and two of each further one
    assert 0 < first.mean() < 1
    square = rf.BlocksparseLSTMCell(Dim(16, name="in"), Dim(16, name="out"), block_size=2, connectivity=2)
    assert (square.x.mask.numpy() != square.h.mask.numpy()).any()


def test_blocks_that_are_not_there_have_no_effect(time):
    unit = make("BlocksparseLSTMCell", in_dim=Dim(8, name="in"), block_size=1)
    x = randn(batch, time, unit.in_dim)
    expected, _ = unit(x, spatial_dim=time)
    weight = unit.x.W.numpy().copy()
    mask = unit.x.mask.numpy()
    assert not mask.all()
    unit.x.W.assign(np.where(mask, weight, 100.0).astype(np.float32))
    assert_same(unit(x, spatial_dim=time)[0], expected)
    assert not unit.x.mask.trainable and unit.x.mask.auxiliary


def test_a_dense_one_without_norm_is_the_native_lstm(time):
    unit, native = make("BlocksparseLSTMCell", layer_norm=False, always_dense=True), make("NativeLstm2")
    unit.copy_from_native_lstm(native)
    x = randn(batch, time, d_in)
    assert_same(unit(x, spatial_dim=time)[0], native(x, spatial_dim=time)[0])
    assert sorted(unit.documented_parameters()) == ["W_h", "W_x", "b"]


def test_a_smaller_native_lstm_goes_into_the_leading_places():
    small = make("NativeLstm2", out_dim=Dim(2, name="small"))
    unit = rf.BlocksparseLSTMCell(d_in, out, layer_norm=False, always_dense=True)
    before = unit.h.W.numpy().copy()
    unit.copy_from_native_lstm(small)
    got, own = unit.h.W.numpy().reshape(4, 4, 4), small.W_re.numpy().reshape(2, 4, 2)
    np.testing.assert_array_equal(got[:2, :, :2], own)
    np.testing.assert_array_equal(got[2:], before.reshape(4, 4, 4)[2:])
    np.testing.assert_array_equal(unit.x.b.numpy().reshape(4, 4)[:, :2], small.b.numpy().reshape(4, 2))
