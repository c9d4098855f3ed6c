"""Attention of a decoder step to an encoder: what the golden data do not say."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor, with_nan_padding
from loop_faces import FACES, gradients, run_face

import rfnb as rf
from rfnb import Dim, DimError
from rfnb.trace.probe import listen

batch, key, feat = Dim(3, name="batch"), Dim(2, name="key"), Dim(5, name="feat")


@pytest.fixture
def time():
    return ragged([4, 2, 0], batch)


@pytest.fixture
def targets():
    return ragged([3, 1, 2], batch, "targets")


def random(module):
    rf.set_random_seed(3)
    for parameter in module.parameters():
        parameter.initial = rf.Normal(0.7)
    return module


def both_kinds():
    return [rf.DotAttention(key, energy_factor=0.5), random(rf.ConcatAttention(key))]


@pytest.mark.parametrize("factor", [None, 0, 0.5])
def test_dot_attention_by_hand(time, factor):
    query, ctx, base = randn(batch, key), randn(batch, time, key, seed=1), randn(batch, time, feat, seed=2)
    out = rf.DotAttention(key, energy_factor=factor)(query, base=base, base_ctx=ctx, axis=time)
    for b, length in enumerate([4, 2, 0]):
        energy = ctx.numpy()[b, :length] @ query.numpy()[b] * (factor or 1)
        weights = np.exp(energy) / np.exp(energy).sum()
        np.testing.assert_allclose(out.numpy()[b], weights @ base.numpy()[b, :length], rtol=1e-5, atol=1e-6)


def test_without_ctx_energies_are_from_the_base(time):
    query, base = randn(batch, key), randn(batch, time, key, seed=1)
    attention = rf.DotAttention(key)
    assert_same(attention(query, base=base, axis=time), attention(query, base=base, base_ctx=base, axis=time))


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("face", FACES)
def test_all_queries_at_once_are_the_steps(time, targets, kind, face):
    attention = both_kinds()[kind]
    query, ctx, base = (
        randn(batch, dim, f, seed=i) for i, (dim, f) in enumerate([(targets, key), (time, key), (time, feat)])
    )

    def steps():
        def body(loop):
            return loop.stack(attention(loop.unstack(query), base=base, base_ctx=ctx, axis=time))

        return run_face(face, body, axis=targets)[0]

    def whole():
        return attention(query, base=base, base_ctx=ctx, axis=time)

    assert_same(steps(), whole())
    of_steps, of_whole = (gradients(attention, query, ctx, base, of=way) for way in (steps, whole))
    for name, gradient in of_whole.items():
        torch.testing.assert_close(of_steps[name], gradient, msg=name)


@pytest.mark.parametrize("kind", [0, 1])
def test_weights_are_those_of_the_probe_and_the_last_one_is_at_the_last_frame(time, kind):
    attention, heard = both_kinds()[kind], []
    query, ctx, base = randn(batch, key), randn(batch, time, key, seed=1), randn(batch, time, feat, seed=2)
    with listen(lambda _kind, _place, values: heard.append(values)):
        attention(query, base=base, base_ctx=ctx, axis=time)
    weights = attention.get_base_weights(query, base_ctx=ctx, axis=time)
    (offered,) = [values["weights"] for values in heard if "weights" in values]
    assert_same(weights, offered)
    last = attention.get_base_weight_last_frame(query, base_ctx=with_nan_padding(ctx), axis=time)
    assert_same(last, [weights.numpy()[0, 3], weights.numpy()[1, 1], 0.0])


def test_the_last_frame_of_nothing_is_0():
    empty = ragged([0, 0, 0], batch)
    assert_same(rf.last_frame(randn(batch, empty, key), axis=empty), np.zeros((3, 2)))


def test_generic_attention_keeps_heads_and_queries_and_drops_dims_of_size_1(time, targets):
    heads, one = Dim(2, name="heads"), Dim(1, name="one")
    weights, base = randn(batch, targets, time, heads, one), randn(batch, time, heads, feat, seed=1)
    out = rf.generic_attention(weights, base, axis=time)
    assert out.dims == (batch, heads, targets, feat)
    expected = np.einsum("btshx,bshf->bhtf", weights.copy_masked(0).numpy(), base.copy_masked(0).numpy())
    assert_same(out, expected)
    assert one in rf.generic_attention(weights, base, axis=time, auto_squeeze=False).dims


def test_gauss_window_by_hand():
    """Position 0.4 of frames 1, 10: the window of 3 at 0 has the frames -1, 0, 1, and the first one stands for -1 too."""
    time = ragged([2], one_sequence := Dim(1, name="batch"))
    base, position = tensor([[1.0, 10.0]], one_sequence, time), tensor([0.4], one_sequence)
    w = [np.exp(-((0.4 - i) ** 2) / 8) / (2 * np.sqrt(2 * np.pi)) for i in (-1, 0, 1)]
    out = rf.gauss_window_attention(position, base, axis=time, window_size=3, std=2.0)
    assert_same(out, [w[0] * 1 + w[1] * 1 + w[2] * 10])


def test_gauss_window_of_even_size_has_one_frame_more_on_the_left_and_rounds_half_to_even():
    time = ragged([5], one_sequence := Dim(1, name="batch"))
    base = tensor([[1.0, 10.0, 100.0, 1e3, 1e4]], one_sequence, time)
    w = [np.exp(-((2.5 - i) ** 2) / 2) / np.sqrt(2 * np.pi) for i in (1, 2)]
    out = rf.gauss_window_attention(tensor([2.5], one_sequence), base, axis=time, window_size=2)
    assert_same(out, [w[0] * 10 + w[1] * 100])


def test_gauss_window_of_inner_positions_is_centred(time):
    position, base = tensor([0.3, 1.8, 0.0], batch), randn(batch, time, feat)
    inner = Dim(3, name="inner")
    options = {"axis": time, "window_size": 9, "std": 0.7}
    out = rf.gauss_window_attention(position, base, inner_size=inner, inner_size_step=0.1, **options)
    for j, offset in enumerate([-0.1, 0.0, 0.1]):
        assert_same(
            rf.gather(out, indices=j, axis=inner), rf.gauss_window_attention(position + offset, base, **options)
        )  # the same rounded position


def test_gauss_window_of_a_sequence_without_frames_is_0(time):
    position, base = tensor([0.3, 1.8, 0.0], batch), randn(batch, time, feat)
    assert (rf.gauss_window_attention(position, base, axis=time, window_size=3).numpy()[2] == 0).all()
    empty = ragged([0, 0, 0], batch)
    assert_same(
        rf.gauss_window_attention(position, randn(batch, empty, feat), axis=empty, window_size=3), np.zeros((3, 5))
    )


def test_gauss_window_takes_a_position_with_a_feature_of_size_1(time):
    position, base, one = tensor([0.3, 1.8, 0.0], batch), randn(batch, time, feat), Dim(1, name="one")
    wide = rf.expand_dim(position, one)
    wide.feature_dim = one
    out = rf.gauss_window_attention(wide, base, axis=time, window_size=3)
    assert_same(out, rf.gauss_window_attention(position, base, axis=time, window_size=3))


@pytest.mark.parametrize("face", FACES)
def test_gauss_window_in_a_loop_follows_a_position_in_the_state(time, targets, face):
    step, base = randn(batch, targets, seed=3), randn(batch, time, feat)
    heard = []

    def body(loop):
        loop.state.position = loop.state.position + rf.sigmoid(loop.unstack(step))
        return loop.stack(rf.gauss_window_attention(loop.state.position, base, axis=time, window_size=3))

    with listen(lambda kind, place, values: heard.append((kind, place.step, values))):
        out, _ = run_face(face, body, axis=targets, position=rf.zeros([batch]))
    positions = rf.cumsum(rf.sigmoid(step), spatial_dim=targets)
    assert_same(out, rf.gauss_window_attention(positions, base, axis=time, window_size=3))
    assert any(kind == "attention" and values["weights"].dims[-1] is time for kind, _, values in heard)


def test_errors_of_attention_to_an_encoder(time):
    query, ctx = randn(batch, key), randn(batch, time, feat)
    with raises_message(
        DimError,
        """
        DotAttention: base_ctx has no dim key=2.
          query     [batch=3, key=2]
          base_ctx  [batch=3, time<=4, feat=5]
        Query and base_ctx have the same features, since each one of the query meets one of base_ctx.
            base_ctx = rf.Linear(base_ctx_dim, key)(base_ctx)
        """,
    ):
        rf.DotAttention(key)(query, base=ctx, axis=time)
    with raises_message(
        DimError,
        """
        ConcatAttention: base does not have the requested features.
          base     [batch=3, time<=4, key=2]
          out_dim  feat=5
        The result is a mean over frames of base, so it has the features of base.
        """,
    ):
        rf.ConcatAttention(key, out_dim=feat)(query, base=randn(batch, time, key), axis=time)
    with raises_message(
        DimError,
        """
        ConcatAttention: no dim time<=4.
          base  [batch=3, key=2]
          dim   time<=4
        The dim time<=4 is not among the dims of base.
            base.dims[0]    # batch=3
            base.dims[1]    # key=2
        """,
    ):
        rf.ConcatAttention(key)(query, base=query, base_ctx=randn(batch, time, key), axis=time)
    with raises_message(
        DimError,
        """
        generic_attention: no dim time<=4.
          base  [batch=3, key=2]
          dim   time<=4
        The dim time<=4 is not among the dims of base.
            base.dims[0]    # batch=3
            base.dims[1]    # key=2
        """,
    ):
        rf.generic_attention(randn(batch, time), query, axis=time)


def test_errors_of_gauss_window(time):
    base = randn(batch, time, feat)
    with raises_message(
        ValueError,
        """
        gauss_window_attention: window_size is not above 0.
          window_size  0
        The window has at least one frame, the Gaussian some width.
            rf.gauss_window_attention(position, base, axis=time, window_size=5, std=1.0)
        """,
    ):
        rf.gauss_window_attention(randn(batch), base, axis=time, window_size=0)
    with raises_message(
        TypeError,
        """
        gauss_window_attention: the position is not a float.
          position  [batch=3] int64
        The weights depend on its position between two frames.
            position = rf.cast(position, "float32")
        """,
    ):
        rf.gauss_window_attention(tensor([1, 2, 3], batch), base, axis=time, window_size=1)
