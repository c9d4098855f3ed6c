"""Every documented type of value is taken: where a Dim or an int may be given, both are, and they mean the same.

The list of what has to be called comes from `documented_signatures.txt`: a parameter of a new row fails a test until it has its call.
"""

import re

import numpy as np
import pytest
import torch
from contracts import signatures, test_documented_signatures

import rfnb as rf

BATCH, FEAT, VOCAB = rf.Dim(2, name="batch"), rf.Dim(4, name="feat"), rf.Dim(7, name="vocab")
TIME, STATIC = rf.ragged_dim([5, 3], over=BATCH, name="time"), rf.Dim(5, name="static")
OUT, KEY = rf.Dim(6, name="out"), rf.Dim(8, name="key")
EXTRA, SQUARE = rf.Dim(1, name="extra"), rf.Dim(3, name="square")


def numbers(*dims, dtype="float32"):
    """Values that differ everywhere."""
    count = int(np.prod([dim.extent for dim in dims]))
    raw = torch.sin(torch.arange(float(count)) + 1).reshape([dim.extent for dim in dims])
    return rf.convert_to_tensor(raw if dtype == "float32" else (raw * 3).to(getattr(torch, dtype)), dims=dims)


X, FLAT, ROW = numbers(BATCH, TIME, FEAT), numbers(BATCH, FEAT), numbers(FEAT)
LABELS = rf.convert_to_tensor(
    np.asarray([[1, 2, 0, 6, 3], [5, 5, 4, 0, 0]], np.int32), dims=[BATCH, TIME], sparse_dim=VOCAB
)
LOGP = rf.log_softmax(numbers(BATCH, VOCAB), axis=VOCAB)
PROBS = rf.exp(LOGP)
IMAGE = numbers(BATCH, STATIC, FEAT, KEY)
MASK = X > 0


# -- what types mean as values -----------------------------------------------------------------------------------------
def kinds_of(text):
    """The kinds of values that a documented type allows, of those that are told apart here."""
    found = set()
    if "Callable" in text:  # what goes in and out of functions is another matter
        text = re.sub(r"Callable\[\[.*?\], .*?\](?:\]|$)|Callable\[\[.*\], .*\]", "Callable", text)
    alone = re.sub(r"(Sequence|Collection)\[(Optional\[)?(rf\.)?Dim\]", "dims", text)
    for kind, pattern in {
        "number": r"\b(int|float|bool)\b", "Tensor": r"\bTensor\b", "Dim": r"\bDim\b", "raw": r"RawTensorType",
        "None": r"\bNone\b|^Optional\[", "dims": r"(Sequence|Collection)\[(Optional\[)?(rf\.)?Dim\]",
    }.items():  # fmt: skip
        if re.search(pattern, alone if kind == "Dim" else text):
            found.add(kind)
    return found


def values_of(kinds, value):
    """The values to call with. `value` is a number, or a Dim where dims are meant."""
    out = []
    if isinstance(value, rf.Dim):
        return [value, [value], (value,)]
    if "number" in kinds or "raw" in kinds:
        out.append(value)
    if "Dim" in kinds:
        out.append(rf.Dim(int(value), name="given"))
    if "Tensor" in kinds:
        out.append(rf.constant(value, dims=()))
    if "raw" in kinds:
        out += [np.asarray(value)[()], np.asarray(value), torch.tensor(value)]
    return out


def content(result):
    """The compared content: numbers, not the dims, which may be new ones."""
    if isinstance(result, rf.Tensor):
        return result.copy_masked(0).numpy()
    if isinstance(result, rf.Dim):
        return [result.extent, result.lengths.tolist() if result.length_dims else []]
    if isinstance(result, rf.Module):
        return [(name, parameter.numpy()) for name, parameter in result.named_parameters()]
    if isinstance(result, (tuple, list)):
        return [content(item) for item in result]
    if isinstance(result, dict):
        return {key: content(item) for key, item in result.items()}
    return result


def assert_equal(actual, expected):
    if isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected):
            assert_equal(one, other)
    elif isinstance(expected, np.ndarray):
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-8)
    else:
        assert actual == expected


# -- the calls ---------------------------------------------------------------------------------------------------------
def attention(cls, **kw):
    return lambda v: cls(FEAT, FEAT, key_dim_total=KEY, value_dim_total=KEY, num_heads=v, **kw)


def table(**kw):
    p = rf.Parameter([VOCAB, FEAT])
    p.assign_key(**{"axis": VOCAB, "key": 3, "key_dim": None, "value": ROW, **kw})
    return p


def assigned(v, how="assign"):
    p = rf.Parameter([FEAT], initial=1.0)
    getattr(p, how)(v)
    return p


def in_train(v, step=0, epoch=1):
    with rf.init_train_step_run_ctx(train_flag=v, step=step, epoch=epoch) as ctx:
        return [rf.dropout(ROW, 0.5), bool(ctx.is_train_flag_enabled(func=None)), int(ctx.step), int(ctx.epoch)]


def in_ctx(**kw):
    ctx = rf.RunCtx(**{"stage": "train_step", **kw})
    return [bool(ctx.is_train_flag_enabled(func=None)), int(ctx.step), int(ctx.epoch)]


def forward(**kw):
    with rf.init_forward_step_run_ctx(**kw) as ctx:
        return [int(ctx.step), int(ctx.epoch), int(ctx.get_step_tensor()), int(ctx.get_epoch_tensor())]


def with_train_flag(v):
    ctx = rf.RunCtx(stage="train_step")
    with ctx.train_flag_ctx(v):
        return bool(ctx.is_train_flag_enabled(func=None))


def scanned(v):
    return rf.scan(
        initial=rf.zeros([BATCH]),
        cond=lambda _, s: s < 100,
        cond_dims=[BATCH],
        max_seq_len=v,
        body=lambda _, s: (s, s + 1),
    )[:2]


def transposed(cls, dims, n):
    return lambda v: cls(FEAT, OUT, v if n == 1 else [v] * n, padding="same")


def masked(**kw):
    options = {"mask_axis": TIME, "pos": rf.zeros([BATCH], dtype="int32"), "max_amount": 2, **kw}
    return rf.audio.mask(X, **options)


def random_masked(**kw):
    options = {"mask_axis": TIME, "broadcast_axis": FEAT, "min_num": 1, "max_num": 3, "max_dims": 2, **kw}
    return rf.audio.random_mask(X, **options)


def specaugmented(v):
    with rf.init_train_step_run_ctx(train_flag=True, step=5000):
        return rf.audio.specaugment(X, spatial_dim=TIME, feature_dim=FEAT, max_consecutive_spatial_dims=v)


def nested(v):
    return rf.nested.mask_nested(X, mask=rf.range_over_dim(BATCH) > 0, mask_value=v)


def sizes(**kw):
    return lambda v: rf.pad(X, axes=[TIME], padding=[(v, v)], value=0.0, **kw)


def drawn(fn, name, **kw):
    return lambda v: fn([BATCH, FEAT], **{name: v}, **kw)


def learned(v):
    module = rf.LearnedRelativePositionalEncoding(FEAT, clipping=3)
    return module(query_spatial_dim=SQUARE, key_value_spatial_dim=STATIC, query_offset=v)


def full_matrix(v):
    module = rf.LearnedRelativePositionalEncoding(FEAT, clipping=3)
    return module.full_matrix(query_spatial_dim=SQUARE, key_value_spatial_dim=STATIC, query_offset=v)


def piecewise(cls):
    def call(v):
        if cls is rf.PiecewiseLinear:
            return cls({0: 0.0, 10: v})(rf.constant(4.0, dims=()))
        with rf.init_train_step_run_ctx(step=4):
            return cls({0: 0.0, 10: v})()

    return call


def grouped(cls):
    return lambda v: (
        cls(KEY, num_groups=v)(numbers(BATCH, KEY))
        if cls is rf.GroupNorm
        else cls(KEY, num_groups=v)(numbers(BATCH, TIME, KEY), spatial_dim=TIME)
    )


NUM = "num_heads"
CALLS = {  # documented parameter: (the number or Dim, the call)
    **{f"rf.{c.__name__}.num_heads": (2, attention(c)) for c in (
        rf.CausalSelfAttention, rf.RelPosCausalSelfAttention, rf.RelPosSelfAttention, rf.RotaryPosCausalSelfAttention,
        rf.RotaryPosSelfAttention, rf.SelfAttention, rf.SelfAttentionBase)},
    "rf.CrossAttention.num_heads": (2, lambda v: rf.CrossAttention(
        OUT, FEAT, FEAT, key_dim_total=KEY, value_dim_total=KEY, num_heads=v)),
    "rf.Conv1d.filter_size": (3, lambda v: rf.Conv1d(FEAT, OUT, v, padding="same")(X, in_spatial_dim=TIME)),
    "rf.Conv2d.filter_size": (3, lambda v: rf.Conv2d(KEY, OUT, v, padding="same")(IMAGE, in_spatial_dims=[STATIC, FEAT])),
    "rf.Conv3d.filter_size": (3, lambda v: rf.Conv3d(KEY, OUT, v, padding="same")),
    "rf.TransposedConv1d.filter_size": (3, transposed(rf.TransposedConv1d, [TIME], 1)),
    "rf.TransposedConv2d.filter_size": (3, transposed(rf.TransposedConv2d, [TIME], 2)),
    "rf.TransposedConv3d.filter_size": (3, transposed(rf.TransposedConv3d, [TIME], 3)),
    "rf.GroupNorm.num_groups": (2, grouped(rf.GroupNorm)),
    "rf.GroupNormSpatial.num_groups": (2, grouped(rf.GroupNormSpatial)),
    "rf.GroupNorm.in_dim": (KEY, lambda v: rf.GroupNorm(v, num_groups=2)(numbers(BATCH, KEY))),
    "rf.GroupNormSpatial.in_dim": (KEY, lambda v: rf.GroupNormSpatial(v, num_groups=2)(
        numbers(BATCH, TIME, KEY), spatial_dim=TIME)),
    "rf.GroupNormSpatial.__call__.spatial_dim": (TIME, lambda v: rf.GroupNormSpatial(KEY, num_groups=2)(
        numbers(BATCH, TIME, KEY), spatial_dim=v)),
    "rf.LayerNorm.in_dim": (FEAT, lambda v: rf.LayerNorm(v)(X)),
    "rf.RMSNorm.in_dim": (FEAT, lambda v: rf.RMSNorm(v)(X)),
    "rf.Normalize.param_dims": (FEAT, lambda v: rf.Normalize(param_dims=v)(X, axis=FEAT)),
    "rf.Normalize.__call__.axis": (FEAT, lambda v: rf.Normalize(param_dims=FEAT)(X, axis=v)),
    "rf.RunningMean.in_dim": (FEAT, lambda v: rf.RunningMean(v, alpha=0.5)(X)),
    "rf.Dim.dimension": (3, lambda v: rf.Dim(v, name="d").extent),
    "rf.LearnedRelativePositionalEncoding.__call__.query_offset": (2, learned),
    "rf.LearnedRelativePositionalEncoding.full_matrix.query_offset": (2, full_matrix),
    "rf.PiecewiseLinear.points": (5.0, piecewise(rf.PiecewiseLinear)),
    "rf.PiecewiseLinearStepwiseScheduler.points": (5.0, piecewise(rf.PiecewiseLinearStepwiseScheduler)),
    "rf.Parameter.assign.value": (2.0, assigned),
    "rf.Parameter.assign_add.value": (2.0, lambda v: assigned(v, "assign_add")),
    "rf.Parameter.assign_key.axis": (VOCAB, lambda v: table(axis=v)),
    "rf.Parameter.assign_key.key_dim": (EXTRA, lambda v: table(key=slice(2, 3), key_dim=v)),
    "rf.Parameter.assign_key.value": (2.0, lambda v: table(value=v)),
    "rf.RunCtx.train_flag": (True, lambda v: in_ctx(train_flag=v)),
    "rf.RunCtx.step": (3, lambda v: in_ctx(step=v)),
    "rf.RunCtx.epoch": (3, lambda v: in_ctx(epoch=v)),
    "rf.RunCtx.train_flag_ctx.train_flag": (True, with_train_flag),
    "rf.init_train_step_run_ctx.train_flag": (True, in_train),
    "rf.init_train_step_run_ctx.step": (3, lambda v: in_train(True, step=v)),
    "rf.init_train_step_run_ctx.epoch": (3, lambda v: in_train(True, epoch=v)),
    "rf.init_forward_step_run_ctx.step": (3, lambda v: forward(step=v)),
    "rf.init_forward_step_run_ctx.epoch": (3, lambda v: forward(epoch=v)),
    "rf.assert_.condition": (True, lambda v: rf.assert_(v, "not so")),
    "rf.calc_conv_out_length.in_length": (9, lambda v: scalar(
        rf.calc_conv_out_length(v, filter_size=3, stride=2, padding="valid"))),
    "rf.calc_conv_out_length.filter_size": (3, lambda v: scalar(
        rf.calc_conv_out_length(9, filter_size=v, stride=2, padding="valid"))),
    "rf.calc_transposed_conv_out_length.in_length": (9, lambda v: scalar(
        rf.calc_transposed_conv_out_length(v, filter_size=3, stride=2, padding="valid"))),
    "rf.calc_transposed_conv_out_length.filter_size": (3, lambda v: scalar(
        rf.calc_transposed_conv_out_length(9, filter_size=v, stride=2, padding="valid"))),
    "rf.make_conv_out_spatial_dims.filter_size": (3, lambda v: rf.make_conv_out_spatial_dims(
        [TIME], filter_size=v, padding="valid")),
    "rf.make_transposed_conv_out_spatial_dims.filter_size": (3, lambda v: rf.make_transposed_conv_out_spatial_dims(
        [TIME], filter_size=v, padding="valid")),
    "rf.clip_by_value.clip_value_min": (0.5, lambda v: rf.clip_by_value(X, v, 0.75)),
    "rf.clip_by_value.clip_value_max": (0.5, lambda v: rf.clip_by_value(X, -0.75, v)),
    **{f"rf.{fn.__name__}.{name}": (0.5, call) for fn, name, call in (
        (rf.combine, "a", lambda v: rf.combine(v, "sub", X)), (rf.combine, "b", lambda v: rf.combine(X, "sub", v)),
        (rf.compare, "a", lambda v: rf.compare(v, "less", X)), (rf.compare, "b", lambda v: rf.compare(X, "less", v)),
        (rf.maximum, "a", lambda v: rf.maximum(v, X)), (rf.maximum, "b", lambda v: rf.maximum(X, v)),
        (rf.minimum, "a", lambda v: rf.minimum(v, X)), (rf.minimum, "b", lambda v: rf.minimum(X, v)),
        (rf.where, "true_", lambda v: rf.where(MASK, v, X)), (rf.where, "false_", lambda v: rf.where(MASK, X, v)))},
    "rf.where.cond": (True, lambda v: rf.where(v, X, X * 2)),
    "rf.cond.pred": (True, lambda v: rf.cond(v, lambda: X, lambda: X * 2)),
    "rf.constant.fill_value": (2.0, lambda v: rf.constant(v, dims=[FEAT])),
    **{f"rf.{fn.__name__}.in_spatial_dims": (TIME, lambda v, fn=fn, kw=kw: fn(X, pool_size=2, in_spatial_dims=v, **kw)[0])
       for fn, kw in ((rf.pool, {"mode": "max"}), (rf.max_pool, {}))},
    **{f"rf.{fn.__name__}.out_spatial_dims": (rf.Dim(2, name="pooled"), lambda v, fn=fn, kw=kw: fn(
        numbers(BATCH, FEAT), pool_size=2, in_spatial_dims=FEAT, out_spatial_dims=v, **kw)[0])
       for fn, kw in ((rf.pool, {"mode": "max"}), (rf.max_pool, {}))},
    "rf.convert_to_tensor.value": (2.0, lambda v: rf.convert_to_tensor(v, dims=(), dtype="float32")),
    "rf.fill.fill_value": (2.0, lambda v: rf.fill(dims=[FEAT], fill_value=v)),
    "rf.full.fill_value": (2.0, lambda v: rf.full(dims=[FEAT], fill_value=v)),
    "rf.dot.reduce": (FEAT, lambda v: rf.dot(X, FLAT, reduce=v)),
    "rf.matmul.reduce": (FEAT, lambda v: rf.matmul(X, FLAT, reduce=v)),
    "rf.dropout.drop_prob": (0.5, lambda v: rf.dropout(X, v, on_forward=True)),
    "rf.dropout.axis": (FEAT, lambda v: rf.dropout(X, 0.5, axis=v, on_forward=True)),
    "rf.gather.indices": (2, lambda v: rf.gather(X, indices=v, axis=FEAT)),
    "rf.label_smoothed_log_prob_gradient.smoothing": (0.25, lambda v: rf.label_smoothed_log_prob_gradient(LOGP, v, axis=VOCAB)),
    "rf.label_smoothing.smoothing": (0.25, lambda v: rf.label_smoothing(PROBS, v, axis=VOCAB)),
    "rf.lerp.weight": (0.25, lambda v: rf.lerp(X, X * 2, v)),
    "rf.linspace_over_dim.start": (0.5, lambda v: rf.linspace_over_dim(FEAT, v, 2.0)),
    "rf.linspace_over_dim.end": (0.5, lambda v: rf.linspace_over_dim(FEAT, 0.0, v)),
    "rf.masked_fraction_of_shape.dims": (TIME, lambda v: rf.masked_fraction_of_shape(v)),
    "rf.moments.axis": (FEAT, lambda v: rf.moments(X, axis=v)),
    "rf.moments.correction": (1, lambda v: rf.moments(X, axis=FEAT, correction=v)),
    "rf.normalize.axis": (FEAT, lambda v: rf.normalize(X, axis=v)),
    "rf.num_elements_of_shape.dims": (TIME, lambda v: rf.num_elements_of_shape(v)),
    "rf.opt_logical_and.a": (True, lambda v: rf.opt_logical_and(v, MASK)),
    "rf.opt_logical_and.b": (True, lambda v: rf.opt_logical_and(MASK, v)),
    "rf.opt_logical_or.a": (False, lambda v: rf.opt_logical_or(v, MASK)),
    "rf.opt_logical_or.b": (False, lambda v: rf.opt_logical_or(MASK, v)),
    "rf.pad.padding": (2, sizes()),
    "rf.pad.value": (2.0, lambda v: rf.pad(X, axes=[TIME], padding=[(1, 1)], value=v)),
    **{f"rf.random.{name}": (v, drawn(rf.random, name, **kw)) for name, v, kw in (
        ("mean", 2.0, {"distribution": "normal"}), ("stddev", 2.0, {"distribution": "normal"}),
        ("bound", 2.0, {"distribution": "uniform"}), ("minval", -1.0, {"distribution": "uniform", "maxval": 1.0}),
        ("maxval", 2.0, {"distribution": "uniform", "minval": 1.0}))},
    "rf.random_normal.mean": (2.0, drawn(rf.random_normal, "mean")),
    "rf.random_normal.stddev": (2.0, drawn(rf.random_normal, "stddev")),
    **{f"rf.random_truncated_normal.{name}": (v, drawn(rf.random_truncated_normal, name)) for name, v in (
        ("mean", 0.5), ("stddev", 2.0), ("minval", -1.0), ("maxval", 1.5))},
    "rf.random_uniform.minval": (-1.0, drawn(rf.random_uniform, "minval")),
    "rf.random_uniform.maxval": (2.0, drawn(rf.random_uniform, "maxval")),
    "rf.random_choice_without_replacement.axis": (VOCAB, lambda v: one_of(rf.random_choice_without_replacement(
        log_probs=LOGP, axis=v, num_samples_dim=rf.Dim(2, name="samples")))),
    "rf.random_choice_without_replacement.noise_scale": (0.5, lambda v: rf.random_choice_without_replacement(
        log_probs=LOGP, axis=VOCAB, num_samples_dim=rf.Dim(2, name="samples"), noise_scale=v)),
    "rf.range_over_dim_strided.stride": (2, lambda v: rf.range_over_dim_strided(STATIC, stride=v)),
    "rf.reduce.axis": (TIME, lambda v: rf.reduce(X, mode="mean", axis=v)),
    **{f"rf.reduce_{mode}.axis": (TIME, lambda v, mode=mode: getattr(rf, f"reduce_{mode}")(
        MASK if mode in ("all", "any") else X, axis=v)) for mode in (
        "all", "any", "argmax", "argmin", "logmeanexp", "logsumexp", "max", "mean", "min", "sum")},
    "rf.scaled_gradient.scale": (0.5, lambda v: rf.scaled_gradient(X, v)),
    "rf.scaled_gradient_ext.scale": (0.5, lambda v: rf.scaled_gradient_ext(X, scale=v)),
    "rf.scaled_gradient_ext.shift": (0.5, lambda v: rf.scaled_gradient_ext(X, scale=0.5, shift=v)),
    "rf.scan.max_seq_len": (3, scanned),
    **{f"rf.scatter{mode}.indices_dim": (TIME, lambda v, mode=mode: scattered(mode, indices_dim=v))
       for mode in ("", "_count", "_logmeanexp", "_logsumexp", "_mean")},
    **{f"rf.scatter{mode}.out_dim": (VOCAB, lambda v, mode=mode: scattered(mode, out_dim=v))
       for mode in ("", "_count", "_logmeanexp", "_logsumexp", "_mean")},
    "rf.sequence_mask.dims": (TIME, lambda v: rf.sequence_mask(v)),
    "rf.shift_left.pad_value": (2.0, lambda v: rf.shift_left(X, axis=TIME, pad_value=v)),
    "rf.shift_right.pad_value": (2.0, lambda v: rf.shift_right(X, axis=TIME, pad_value=v)),
    "rf.sinusoidal_positional_encoding.offset": (2, lambda v: rf.sinusoidal_positional_encoding(
        spatial_dim=STATIC, feat_dim=FEAT, offset=v)),
    "rf.slice.start": (2, lambda v: rf.slice(X, axis=TIME, start=v)),
    "rf.slice.end": (2, lambda v: rf.slice(X, axis=TIME, end=v)),
    "rf.slice.step": (2, lambda v: rf.slice(X, axis=TIME, step=v)),
    "rf.slice.size": (2, lambda v: rf.slice(X, axis=TIME, start=1, size=v)[0]),
    "rf.smooth_one_hot.label_prob": (0.75, lambda v: rf.smooth_one_hot(LABELS, label_prob=v)),
    "rf.sparse_to_dense.labels": (3, lambda v: rf.sparse_to_dense(v, label_value=2.0, other_value=-1.0, axis=VOCAB)),
    "rf.sparse_to_dense.label_value": (2.0, lambda v: rf.sparse_to_dense(LABELS, label_value=v, other_value=-1.0)),
    "rf.sparse_to_dense.other_value": (2.0, lambda v: rf.sparse_to_dense(LABELS, label_value=5.0, other_value=v)),
    "rf.top_k.k": (2, lambda v: rf.top_k(LOGP, axis=VOCAB, k=v)),
    "rf.top_k.axis": (VOCAB, lambda v: rf.top_k(LOGP, axis=v, k=2)[0]),
    "rf.top_k_mask.k": (2, lambda v: rf.top_k_mask(LOGP, axis=VOCAB, k=v)),
    "rf.top_p_mask.p": (0.5, lambda v: rf.top_p_mask(PROBS, axis=VOCAB, p=v)),
    "rf.window.window_left": (1, lambda v: rf.window(X, spatial_dim=TIME, window_dim=SQUARE, window_left=v)),
    "rf.window.window_right": (1, lambda v: rf.window(X, spatial_dim=TIME, window_dim=SQUARE, window_right=v)),
    "rf.nested.mask_nested.mask_value": (2.0, nested),
    "rf.encoder.conformer.ConformerPositionwiseFeedForward.ff_dim": (6, lambda v: rf.ConformerPositionwiseFeedForward(
        FEAT, ff_dim=v)),
    "rf.encoder.conformer.ConformerConvSubsample.out_dims": (3, lambda v: rf.ConformerConvSubsample(
        FEAT, out_dims=[v], filter_sizes=[3])(X, in_spatial_dim=TIME)),
    "rf.encoder.conformer.ConformerEncoder.out_dim": (8, lambda v: rf.ConformerEncoder(
        FEAT, v, num_layers=1, num_heads=2, input_layer=None)(X, in_spatial_dim=TIME)),
    "rf.encoder.conformer.make_ff.ff_dim": (6, lambda v: rf.encoder.conformer.make_ff(
        out_dim=FEAT, ff=rf.FeedForward, ff_dim=v, ff_activation=rf.relu, dropout=0.0)),
    "rf.encoder.e_branchformer.EBranchformerLayer.ff_dim": (6, lambda v: rf.EBranchformerLayer(FEAT, ff_dim=v, num_heads=2)),
    "rf.encoder.e_branchformer.EBranchformerLayer.cgmlp_ff_dim": (6, lambda v: rf.EBranchformerLayer(
        FEAT, cgmlp_ff_dim=v, num_heads=2)),
    "rf.encoder.e_branchformer.FeedForwardConvGated.ff_dim": (6, lambda v: rf.FeedForwardConvGated(FEAT, ff_dim=v)),
    "rf.encoder.transformer.TransformerEncoder.model_dim": (8, lambda v: rf.TransformerEncoder(
        VOCAB, v, num_layers=1, num_heads=2)(LABELS, spatial_dim=TIME)),
    "rf.decoder.transformer.TransformerDecoder.model_dim": (8, lambda v: decoded(model_dim=v)),
    "rf.decoder.transformer.TransformerDecoder.ff_dim": (6, lambda v: decoded(ff_dim=v)),
    "rf.decoder.transformer.TransformerDecoderLayer.ff_dim": (6, lambda v: rf.TransformerDecoderLayer(
        None, FEAT, ff_dim=v, num_heads=2)),
    "rf.decoder.transformer.FeedForward.ff_dim": (6, lambda v: rf.FeedForward(FEAT, ff_dim=v)),
    "rf.decoder.transformer.FeedForwardGated.ff_dim": (6, lambda v: rf.FeedForwardGated(FEAT, ff_dim=v)),
    "rf.audio.specaugment.specaugment.max_consecutive_spatial_dims": (2, specaugmented),
    "rf.audio.specaugment.random_mask.broadcast_axis": (FEAT, lambda v: random_masked(broadcast_axis=v)),
    "rf.audio.specaugment.random_mask.min_num": (2, lambda v: random_masked(min_num=v)),
    "rf.audio.specaugment.random_mask.max_num": (2, lambda v: random_masked(max_num=v)),
    "rf.audio.specaugment.random_mask.max_dims": (2, lambda v: random_masked(max_dims=v)),
    "rf.audio.specaugment.random_mask.mask_value": (2.0, lambda v: random_masked(mask_value=v)),
    "rf.audio.specaugment.mask.max_amount": (2, lambda v: masked(max_amount=v)),
    "rf.audio.specaugment.mask.mask_value": (2.0, lambda v: masked(mask_value=v)),
    "Tensor.copy_masked.mask_value": (2.0, lambda v: X.copy_masked(v)),
    "Tensor.remaining_dims.remove": (FEAT, lambda v: [dim.name for dim in X.remaining_dims(v)]),
}  # fmt: skip


def scattered(mode, **kw):
    options = {"indices": LABELS, "indices_dim": TIME, **kw}
    return rf.scatter_count(**options) if mode == "_count" else getattr(rf, f"scatter{mode}")(X, **options)


def decoded(**kw):
    model = rf.TransformerDecoder(None, VOCAB, **{"model_dim": FEAT, "num_layers": 1, "num_heads": 2, **kw})
    return model(LABELS, spatial_dim=TIME, state=model.default_initial_state(batch_dims=[BATCH]))[0]


def one_of(indices):
    """The indices into one dim, also where they are a list, since the dim was given as one."""
    return indices[0] if isinstance(indices, list) else indices


def scalar(length):
    """The number that a length is: an int, a Dim or a Tensor."""
    return length.extent if isinstance(length, rf.Dim) else int(length)


# Where None is taken although it is not the default: what it has to equal, or None to call it only.
NONE = {
    **{f"rf.{c.__name__}.proj_dim": (lambda c=c: attention(c)(2) and c(
        FEAT, None, key_dim_total=KEY, value_dim_total=KEY, num_heads=2)) for c in (
        rf.CausalSelfAttention, rf.RelPosCausalSelfAttention, rf.RelPosSelfAttention, rf.RotaryPosCausalSelfAttention,
        rf.RotaryPosSelfAttention, rf.SelfAttention, rf.SelfAttentionBase)},
    "rf.CrossAttention.proj_dim": lambda: rf.CrossAttention(
        OUT, FEAT, None, key_dim_total=KEY, value_dim_total=KEY, num_heads=2),
    "rf.Dim.dimension": lambda: rf.Dim(None, name="later"),
    "rf.Parameter.weight_decay": lambda: rf.Parameter([FEAT], weight_decay=None),
    "rf.Parameter.assign_key.key_dim": table,
    "rf.RunCtx.is_train_flag_enabled.func": lambda: in_ctx(train_flag=True),
    "rf.Tensor.feature_dim_axis": lambda: rf.Tensor("x", [FEAT], "float32", feature_dim_axis=None),
    **{f"rf.{fn.__name__}.{name}": (lambda fn=fn, name=name: fn([FEAT], **{name: None}))
       for fn in (rf.random_normal, rf.random_truncated_normal) for name in ("mean", "stddev")},
    "rf.set_amp_policy.policy": lambda: rf.set_amp_policy(None),
    "rf.set_amp_policy_ctx.policy": lambda: rf.set_amp_policy_ctx(None).__enter__(),
    "rf.set_default_device.device": lambda: rf.set_default_device(None),
    "rf.set_default_device_ctx.device": lambda: rf.set_default_device_ctx(None).__enter__(),
    "rf.encoder.conformer.ConformerEncoder.input_layer": lambda: rf.ConformerEncoder(
        FEAT, 8, num_layers=1, num_heads=2, input_layer=None),
    "rf.encoder.conformer_v2.ConformerFrontend.input_layer": lambda: rf.ConformerFrontend(FEAT, OUT, input_layer=None),
    "rf.encoder.transformer.TransformerEncoder.pos_enc": lambda: rf.TransformerEncoder(
        VOCAB, 8, num_layers=1, num_heads=2, pos_enc=None),
    "rf.encoder.transformer.TransformerEncoder.input_embedding": lambda: rf.TransformerEncoder(
        FEAT, FEAT, num_layers=1, num_heads=2, input_embedding=None),
    "rf.decoder.transformer.TransformerDecoder.encoder_dim": decoded,
    "rf.decoder.transformer.TransformerDecoder.pos_enc": lambda: decoded(pos_enc=None),
    "rf.decoder.transformer.TransformerDecoderLayer.encoder_dim": lambda: rf.TransformerDecoderLayer(None, FEAT, num_heads=2),
    "rf.decoder.transformer.FeedForward.ff_dim": lambda: rf.FeedForward(FEAT, ff_dim=None),
    "rf.decoder.transformer.FeedForwardGated.ff_dim": lambda: rf.FeedForwardGated(FEAT, ff_dim=None),
    "rf.init.Normal.__call__.dtype": lambda: rf.init.Normal(1.0)([FEAT], None),
    "rf.init.VarianceScaling.__call__.dtype": lambda: rf.init.VarianceScaling()([FEAT, OUT], None),
    "Tensor.mark_as_loss.scale": lambda: marked(None),
    "Dim.get_dyn_size_ext_for_device.device": lambda: TIME.get_dyn_size_ext_for_device(None),
}  # fmt: skip


def marked(scale):
    with rf.init_train_step_run_ctx() as ctx:
        rf.reduce_mean(X, axis=X.dims).mark_as_loss("loss", scale=scale)
        return ctx.total_loss()


NOT_HERE = {
    "an array, of which there is one kind": ["rf.Tensor.raw_tensor"],
    "what None means is not documented": ["rf.nested.mask_nested.mask_value=None"],
    "functions, not values": [
        "rf.while_loop.cond", "rf.walk_tensor_consumers.filter_outputs", "rf.walk_tensor_consumers.ending_condition",
    ],
    "axes by index, see tests/core/test_tensor_kinds.py": [
        "Tensor.copy_transpose.perm", "Tensor.copy_compatible_to.except_axis", "Tensor.copy_masked.dims",
    ],
}  # fmt: skip


def documented():
    """(path.parameter, kinds, default) of all parameters that take several kinds of values."""
    for row in signatures.rows():
        if row.parameters is None or test_documented_signatures.is_absent(row.path):
            continue
        for name, text in row.types.items():
            yield f"{row.path}.{name}", kinds_of(text), row.parameters.parameters[name].default


def several(kinds):
    return len(kinds & {"number", "Tensor", "Dim"}) > 1 or "raw" in kinds or {"Dim", "dims"} <= kinds


SEVERAL = {name: kinds for name, kinds, _ in documented() if several(kinds)}
TAKES_NONE = {name for name, kinds, default in documented() if "None" in kinds and default is not None}
# The numbers drawn differ with the type of the bounds, and are random anyway.
RANDOM = {"rf.dropout.drop_prob"} | {
    name for name in CALLS if "specaugment.random_mask" in name or "consecutive" in name
}
RANDOM |= {"rf.audio.specaugment.mask.max_amount"}


def test_every_parameter_of_several_types_is_called():
    left_out = {name for names in NOT_HERE.values() for name in names}
    unions = {name for name, kinds in SEVERAL.items() if name not in left_out}
    assert unions - set(CALLS) == set()
    assert set(CALLS) - unions == set()
    assert TAKES_NONE - set(NONE) - {name.removesuffix("=None") for name in left_out} == set()
    assert set(NONE) - TAKES_NONE == set()


@pytest.fixture(autouse=True)
def defaults_stay():
    yield
    rf.set_amp_policy(None)
    rf.set_default_device(None)


@pytest.mark.parametrize("name", CALLS)
def test_all_documented_types_mean_the_same(name):
    value, call = CALLS[name]
    values = values_of(SEVERAL[name], value)
    assert len(values) > 1
    results = []
    for one in values:
        rf.set_random_seed(1)
        results.append(content(call(one)))
    for result in results[1:]:
        if name in RANDOM:
            assert result.shape == results[0].shape and (result != X.copy_masked(0).numpy()).any()
        else:
            assert_equal(result, results[0])


@pytest.mark.parametrize("name", NONE)
def test_none_is_taken(name):
    NONE[name]()


def test_kinds_are_read_from_types():
    assert kinds_of("Union[Dim, int]") == {"Dim", "number"}
    assert kinds_of("Optional[Union[Dim, Sequence[Dim]]]") == {"Dim", "dims", "None"}
    assert kinds_of("Union[Tensor, rf.RawTensorTypes]") == {"Tensor", "raw"}
    assert kinds_of("Callable[[Tensor], Tensor]") == set()
