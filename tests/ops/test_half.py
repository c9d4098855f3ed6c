"""Numbers of 16 bits: sums, squares and energies that they could not hold on the way to a result that they can."""

import math

import numpy as np
import pytest
import torch
from asserting import ragged, randn, tensor

import rfnb as rf
from rfnb import Dim

batch, feat = Dim(2, name="batch"), Dim(64, name="feat")
HALF = ["float16", "bfloat16"]


def filled(value, dtype, *dims):
    return rf.cast(rf.full(dims=dims, fill_value=value), dtype)


def values(x):
    return rf.cast(x, "float32").numpy().tolist()


# -- reductions --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize(("frames", "value"), [(2000, 40.0), (257, 1.0), (2049, 1.0), (100, 1000.0)])
def test_the_mean_over_padded_frames_is_that_of_a_sequence_alone(frames, value, dtype):
    time, static = ragged([frames, frames - 7], batch), Dim(frames, name="static")
    mean = rf.reduce_mean(filled(value, dtype, batch, time), axis=time)
    assert mean.dtype == dtype and values(mean) == [value, value]
    assert values(rf.reduce_mean(filled(value, dtype, static), axis=static)) == value


@pytest.mark.parametrize("dtype", HALF)
def test_a_logsumexp_over_more_classes_than_16_bits_can_count(dtype):
    """log(70000) and, as a mean, log(1)."""
    many = Dim(70_000, name="many")
    x = filled(0.0, dtype, many)
    assert values(rf.reduce_logsumexp(x, axis=many)) == pytest.approx(math.log(70_000), rel=2**-8)
    assert values(rf.reduce_logmeanexp(x, axis=many)) == pytest.approx(0.0, abs=2**-8)


@pytest.mark.parametrize("dtype", HALF)
def test_what_is_scattered_to_one_place_is_added_up_in_float32(dtype):
    """One by one in 16 bits the sum would stay at 2048 or 256, the mean be infinite."""
    time, place = Dim(3000, name="time"), Dim(2, name="place")
    index = rf.zeros([time], dtype="int32", sparse_dim=place)
    options = {"indices": index, "indices_dim": time}
    assert values(rf.scatter(filled(1.0, dtype, time), **options)) == pytest.approx([3000, 0], rel=2**-8)
    assert values(rf.scatter_mean(filled(1000.0, dtype, time), **options)) == [1000, 0]
    got = values(rf.scatter_logsumexp(filled(0.0, dtype, time), **options))
    assert got == pytest.approx([math.log(3000), -math.inf], rel=2**-8)


def test_the_mean_of_a_window_in_float16():
    time = ragged([6, 3], batch)
    out, _ = rf.pool1d(filled(30_000.0, "float16", batch, time), mode="avg", pool_size=3, in_spatial_dim=time)
    assert values(out) == [[30_000, 30_000], [30_000, 0]]


# -- norms -------------------------------------------------------------------------------------------------------------
NORMS = {
    "LayerNorm": lambda x: rf.LayerNorm(feat)(x),
    "RMSNorm": lambda x: rf.RMSNorm(feat, with_bias=True)(x),
    "GroupNorm": lambda x: rf.GroupNorm(feat, num_groups=4)(x),
    "GroupNormSpatial": lambda x: rf.GroupNormSpatial(feat, num_groups=4)(x, spatial_dim=batch),
    "Normalize": lambda x: rf.Normalize(param_dims=feat)(x, axis=feat),
    "normalize": lambda x: rf.normalize(x, axis=feat),
    "BatchNorm": lambda x: rf.BatchNorm(feat, track_running_stats=False)(x),
}


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("scale", [1.0, 300.0, 10_000.0])
@pytest.mark.parametrize("norm", NORMS)
def test_norms_of_large_numbers_are_those_in_float32(norm, scale, dtype):
    x = rf.cast(randn(batch, feat) * scale, dtype)
    got, expected = NORMS[norm](x), NORMS[norm](rf.cast(x, "float32"))
    assert got.dtype == dtype  # the parameters are float32
    assert np.abs(expected.numpy()).max() > 0.99
    np.testing.assert_allclose(values(got), values(expected.copy_transpose(got.dims)), atol=0.05)


@pytest.mark.parametrize("norm", [*NORMS, "moments"])
def test_norms_under_autocast_of_torch_keep_the_dtype_and_under_a_policy_give_float32(norm):
    call = NORMS.get(norm, lambda x: rf.moments(x, feat)[1])
    x = rf.cast(randn(batch, feat), "bfloat16")
    with torch.autocast("cpu", torch.bfloat16):
        assert call(x).dtype == "bfloat16"
    with rf.set_amp_policy_ctx(rf.AmpPolicy("bfloat16")):
        assert call(x).dtype == "float32"


def test_the_running_statistics_of_a_float16_batch_are_finite():
    norm, x = rf.BatchNorm(feat, momentum=1.0), rf.cast(randn(batch, feat) * 3_000, "float16")
    with rf.get_run_ctx().train_flag_ctx(True):
        norm(x)
    expected = np.var(x.numpy().astype(np.float64), axis=0)
    assert expected.max() > 65504
    np.testing.assert_allclose(norm.running_variance.numpy(), expected, rtol=1e-4)


# -- attention ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("scale", [1.0, 40.0, 80.0, 300.0])
@pytest.mark.parametrize("grad", [False, True])
def test_attention_of_large_queries_is_that_in_float32(grad, scale, dtype):
    """At |q| = 256 the product of a query and itself is beyond float16, though scaled by 1 / 8 it is not."""
    query, key = ragged([6, 4], batch, "query"), ragged([6, 4], batch, "key")
    x = rf.cast(randn(batch, query, feat) * scale, dtype)
    keys = rf.convert_to_tensor(x.raw_tensor, dims=[batch, key, feat])
    with torch.set_grad_enabled(grad):
        got = rf.dot_attention(x, keys, keys, key_dim=feat, axis=key).copy_transpose([batch, query, feat]).raw_tensor
        with rf.record() as trace:
            rf.dot_attention(x, keys, keys, key_dim=feat, axis=key)
    for seq, length in enumerate([6, 4]):
        raw = x.raw_tensor[seq, :length].float()
        expected = torch.softmax(raw @ raw.T / 8, -1) @ raw
        torch.testing.assert_close(got[seq, :length].float(), expected, rtol=0.02, atol=0.02 * scale)
    (weights,) = (event.values["weights"] for event in trace.events)
    assert weights.dtype == dtype and np.isfinite(values(weights)).all()


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("kind", ["weights", "dropout", "mask", "distances", "shifts"])
def test_energies_beyond_float16_are_as_in_float32(kind, dtype):
    """Where no fused kernel does it: the weights are of one key, not NaN."""
    time, heads = Dim(5, name="time"), Dim(1, name="heads")

    def call(x, keys):
        options = {"key_dim": feat, "axis": time}
        if kind == "weights":
            return rf.dot_attention_weights(x, keys, **options)
        if kind == "dropout":
            with rf.get_run_ctx().train_flag_ctx(True):
                return rf.dot_attention(x, keys, keys, **options, att_dropout=1e-12)
        if kind == "mask":
            options = {"qk_feat_dim": feat, "kv_spatial_dim": time, "v_feat_dim": feat, "att_dropout": 0.0}
            options |= {"query_spatial_dim": batch, "att_dropout_broadcast": False}
            mask = rf.full(dims=[batch, time], fill_value=True)
            return rf.Backend.scaled_dot_product_attention(x, keys, keys, attention_mask=mask, **options)
        options = {"key_dim_total": feat, "value_dim_total": feat, "num_heads": heads}
        module = (
            rf.RelPosSelfAttention(feat, None, **options)
            if kind == "distances"
            else rf.QKVSelfAttention(feat, **options)
        )
        rf.set_random_seed(1)
        for parameter in module.parameters():
            parameter.initial = rf.Normal(1.0)
            parameter.raw_tensor.data = rf.cast(rf.cast(parameter, dtype), x.dtype).raw_tensor.data
        if kind == "distances":
            return module(keys, axis=time)
        shift = rf.zeros([time, module.keys_dim(time), module.key_dim_per_head], dtype=x.dtype)
        return module(keys, axis=time, key_shift=shift)[0]

    large = 30.0 if kind in ("distances", "shifts") else 300.0
    x, keys = (rf.cast(randn(*dims, seed=2) * large, dtype) for dims in ((batch, feat), (time, feat)))
    got, expected = call(x, keys), call(*(rf.cast(part, "float32") for part in (x, keys)))
    assert got.dtype == dtype
    size = np.abs(expected.numpy()).max()
    np.testing.assert_allclose(values(got), values(expected.copy_transpose(got.dims)), atol=0.02 * size)


@pytest.mark.parametrize("dtype", HALF)
def test_a_masked_energy_is_below_the_lowest_energy(dtype):
    """All energies of the last query are -64000: what it may not see gets no weight all the same."""
    key, one = Dim(3, name="key"), Dim(1, name="one")
    query = Dim(3, name="query")
    q, k = filled(-250.0, dtype, query, one), filled(256.0, dtype, key, one)
    with rf.get_run_ctx().train_flag_ctx(True):  # dropout: not the fused kernel
        with rf.record() as trace:
            rf.dot_attention(
                q, k, k, key_dim=one, axis=key, causal_query_spatial_dim=query, scale=1.0, att_dropout=0.1
            )  # fmt: skip
    (weights,) = (event.values["weights"] for event in trace.events)
    expected = [[1, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]]
    np.testing.assert_allclose(values(weights.copy_transpose([query, key])), expected, atol=2**-8)


# -- losses, kernels, signals ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", HALF)
def test_a_smoothed_cross_entropy_over_many_classes(dtype):
    """The sum of all log probabilities, about -20 * 10000, is beyond float16."""
    classes = Dim(10_000, name="classes")
    logits, target = rf.cast(randn(batch, classes) * 5, dtype), tensor([1, 7], batch, sparse_dim=classes)
    options = {"target": target, "axis": classes, "estimated_type": "logits", "label_smoothing": 0.1}
    got = rf.cross_entropy(estimated=logits, **options)
    expected = rf.cross_entropy(estimated=rf.cast(logits, "float32"), **options)
    assert got.dtype == dtype
    np.testing.assert_allclose(values(got), values(expected), rtol=2**-7)


@pytest.mark.parametrize("dtype", ["float32", *HALF])
def test_a_sequence_in_a_batch_stops_at_its_end_however_large_the_recurrent_weights(dtype):
    """In the padding a gate has to shut against all that h adds to it."""
    out, time = Dim(1, name="out"), ragged([5, 2], batch)
    lstm = rf.LSTM(Dim(1, name="in"), out, with_bias=False)
    lstm.ff_weight.initial = 1.0
    lstm.rec_weight.assign(tensor([[30_000.0], [-30_000.0], [1.0], [1.0]], *lstm.rec_weight.dims))
    lstm.ff_weight.raw_tensor.data, lstm.rec_weight.raw_tensor.data = (
        rf.cast(weight, dtype).raw_tensor.data for weight in (lstm.ff_weight, lstm.rec_weight)
    )
    x = filled(1.0, dtype, batch, time, lstm.in_dim)
    zero = filled(0.0, dtype, batch, out)
    _, end = lstm(x, state=rf.LstmState(h=zero, c=zero), spatial_dim=time)
    short, zero = Dim(2, name="short"), filled(0.0, dtype, out)
    alone, expected = lstm(
        filled(1.0, dtype, short, lstm.in_dim), state=rf.LstmState(h=zero, c=zero), spatial_dim=short
    )
    np.testing.assert_allclose(values(end.c)[1], values(expected.c), atol=2**-7)
    np.testing.assert_allclose(values(end.h)[1], values(expected.h), atol=2**-7)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("mixed", [False, True])
def test_log_mel_features_of_a_loud_signal(dtype, mixed):
    """A power of 1e6 is beyond float16. Under mixed precision the filters are not applied in 16 bits either."""
    time, mel = ragged([3000, 2000], batch), Dim(80, name="mel")
    x = rf.cast(randn(batch, time) * 30, dtype)
    options = {"in_spatial_dim": time, "out_dim": mel}
    expected, frames = rf.audio.log_mel_filterbank_from_raw(rf.cast(x, "float32"), **options)
    assert expected.numpy().max() > 5
    if mixed:
        x = rf.cast(x, "float32")
        with torch.autocast("cpu", getattr(torch, dtype)):
            got, _ = rf.audio.log_mel_filterbank_from_raw(x, **options)
        assert got.dtype == "float32"
    else:
        got, _ = rf.audio.log_mel_filterbank_from_raw(x, **options)
        assert got.dtype == dtype
    got, expected = (np.array(values(y.copy_transpose([batch, frames, mel]))) for y in (got, expected))
    for seq, length in enumerate(frames.lengths):
        tolerance = 1e-5 if mixed else 2**-6
        np.testing.assert_allclose(got[seq, :length], expected[seq, :length], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", HALF)
def test_the_spectrum_of_a_signal_of_16_bits_is_that_in_float32(dtype):
    time = ragged([40, 25], batch)
    x = rf.cast(randn(batch, time), dtype)
    options = {"in_spatial_dim": time, "frame_step": 5, "frame_length": 16}
    got, frames, frequency = rf.stft(x, **options)
    expected, *_ = rf.stft(rf.cast(x, "float32"), out_spatial_dim=frames, out_dim=frequency, **options)
    assert got.dtype == "complex64"
    np.testing.assert_array_equal(got.numpy(), expected.numpy())
