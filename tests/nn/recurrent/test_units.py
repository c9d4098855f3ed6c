"""What each recurrent unit computes by its formula, its options and errors; what is common to all."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor, with_nan_padding

import rfnb as rf
from rfnb import Dim, DimError, single_step_dim
from rfnb.trace.probe import listen

batch, d_in, out = Dim(3, name="batch"), Dim(2, name="in"), Dim(4, name="out")
LENGTHS = [5, 2, 0]
UNITS = {
    "NativeLstm2": {},
    "StandardLSTMCell": {},
    "GRUCell": {},
    "TorchGRUCell": {},
    "BasicRNNCell": {},
    "RHNCell": {"depth": 3},
    "LayerNormVariantsLSTMCell": {},
    "ZoneoutLSTMCell": {"zoneout_factor_cell": 0.2, "zoneout_factor_output": 0.1},
    "BlocksparseLSTMCell": {"block_size": 2, "connectivity": 1},
    "BlocksparseMultiplicativeMultistepLSTMCell": {"block_size": 2, "connectivity": 1, "depth": 3},
}
KERNELS = ("NativeLstm2", "StandardLSTMCell", "TorchGRUCell", "BasicRNNCell")


def make(name, in_dim=d_in, out_dim=out, **options):
    unit = getattr(rf, name)(in_dim, out_dim, **{**UNITS.get(name, {}), **options})
    for seed, parameter in enumerate(unit.parameters()):
        if parameter.dtype == "float32":
            parameter.assign(randn(*parameter.dims, seed=seed) * 0.5)
    return unit


def some_state(unit, *dims):
    return rf.State((part, randn(*dims, out, seed=10 + i)) for i, part in enumerate(unit.state_parts))


@pytest.fixture
def time():
    return ragged(LENGTHS, batch)


@pytest.fixture
def training():
    with rf.get_run_ctx().train_flag_ctx(True):
        yield


# -- all units ---------------------------------------------------------------------------------------------------------
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
    mask = unit.default_initial_state(batch_dims=[]).W_re_mask.numpy()
    assert mask.shape == (4, 16) and (np.ptp(mask, axis=same_along) == 0).all() and 0 < mask.mean() < 2


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


# -- errors ------------------------------------------------------------------------------------------------------------
def test_a_source_without_its_dims(time):
    with raises_message(DimError, """
        GRUCell: no dim in=2.
          source  [batch=3, time<=5, out=4]
          dim     in=2
        The dim in=2 is not among the dims of source.
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
        Which part it is has to be said.
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
        Where a sequence ends is known over its whole dim only.
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
        NativeLstm2: rec_weight_dropout_shape of another size.
          shape  (2, 1)
          W_re   (4, 16)
        Each entry is that of W_re (or None), or 1 where the entries share their fate.
            rf.NativeLstm2(..., rec_weight_dropout_shape=(4, 1))
    """),
    "an input that is not the product": (("NativeLstm2", {"input_projection": False}), """
        NativeLstm2(input_projection=False): in_dim of another size.
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
