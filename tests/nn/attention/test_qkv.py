"""Self-attention from one matrix QKV: what the golden data do not say."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor
from loop_faces import FACES, gradients, run_face

import rfnb as rf
from rfnb import Dim, DimError, single_step_dim
from rfnb.trace.probe import listen

batch, feat, keys, values = (Dim(n, name=name) for n, name in ((3, "batch"), (5, "feat"), (4, "keys"), (6, "values")))
LENGTHS = [5, 2, 0]


@pytest.fixture
def time():
    return ragged(LENGTHS, batch)


def make(left_only=True, **options):
    rf.set_random_seed(2)
    module = rf.QKVSelfAttention(
        feat, key_dim_total=keys, value_dim_total=values, num_heads=2, attention_left_only=left_only, **options
    )
    module.QKV.initial = rf.Normal(0.7)
    return module


def plain(module, x, *, shift=None, past=()):
    """One sequence [time, feat] in NumPy, after frames of a past; shift [time, past + time, key]."""
    qkv = np.concatenate([*past, x]) @ module.QKV.numpy()
    out = np.zeros((len(x), 6), np.float32)
    for head in range(2):
        part = qkv[:, 7 * head : 7 * head + 7]
        q, k, v = part[len(qkv) - len(x) :, :2] * 2**-0.5, part[:, 2:4], part[:, 4:]
        for i in range(len(x)):
            energy = k @ q[i] + (0 if shift is None else shift[i] @ q[i])
            if module.attention_left_only:
                energy[len(qkv) - len(x) + i + 1 :] = -np.inf
            weights = np.exp(energy - energy.max())
            out[i, 3 * head : 3 * head + 3] = weights / weights.sum() @ v
    return out


def in_order(out, *dims):
    """NumPy array, axes in the order of dims."""
    return out.copy_transpose(list(dims)).numpy()


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("left_only", [False, True])
def test_by_hand(time, left_only, shifted):
    module, x = make(left_only), randn(batch, time, feat)
    shift = randn(time, module.keys_dim(time), Dim(2, name="any")) if shifted else None
    out, state = module(x, time, key_shift=shift)
    assert (state is None) is not left_only
    for b, length in enumerate(LENGTHS):
        some = shift.numpy()[:length, :length] if shifted else None
        np.testing.assert_allclose(
            in_order(out, batch, time, values)[b, :length],
            plain(module, x.numpy()[b, :length], shift=some),
            rtol=1e-4,
            atol=1e-5,
        )


def test_the_layout_is_that_of_the_other_self_attentions(time):
    module, x = make(left_only=False), randn(batch, time, feat)
    other = rf.SelfAttention(feat, None, key_dim_total=keys, value_dim_total=values, num_heads=2, with_bias=False)
    other.qkv.weight.assign(module.QKV.numpy())
    assert_same(rf.replace_dim(other(x, axis=time), in_dim=values, out_dim=values)[0], module(x, time)[0])
    assert [name for name, _ in module.named_parameters()] == ["QKV"]


def test_labels_are_rows_of_the_matrix(time):
    module = make()
    labels = tensor(np.arange(15, dtype=np.int32).reshape(3, 5) % 5, batch, time, sparse_dim=feat)
    assert_same(module(labels, time)[0], module(rf.one_hot(labels), time)[0])


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("shifted", [False, True])
def test_step_by_step_is_the_whole(time, face, shifted):
    module, x = make(), randn(batch, time, feat)
    encoding = rf.RelativePositionalEncoding(module.key_dim_per_head, clipping=2)
    module.encoding = encoding  # one of its parameters

    def steps():
        def body(loop):
            shift = None
            if shifted:
                history = module.keys_dim(single_step_dim, loop.state.att)
                shift = encoding(query_spatial_dim=single_step_dim, key_value_spatial_dim=history)
            out, loop.state.att = module(loop.unstack(x), single_step_dim, state=loop.state.att, key_shift=shift)
            return loop.stack(out)

        return run_face(face, body, axis=time, att=module.default_initial_state(batch_dims=[batch]))[0]

    def whole():
        return module(x, time, key_shift=encoding(query_spatial_dim=time) if shifted else None)[0]

    assert_same(steps(), whole())
    if shifted:
        of_steps, of_whole = gradients(module, x, of=steps), gradients(module, x, of=whole)
        for name, gradient in of_whole.items():
            torch.testing.assert_close(of_steps[name], gradient, msg=name)


def test_the_next_part_sees_the_first_and_its_state_may_be_cut_to_itself(time):
    x, more = randn(batch, time, feat), ragged([1, 3, 2], batch, "more")
    y = randn(batch, more, feat, seed=1)
    for cut in (False, True):
        module = make(restrict_state_to_last_seq=cut)
        _, state = module(x, time)
        out, state = module(y, more, state=state)
        for b, (first, second) in enumerate(zip(LENGTHS, [1, 3, 2])):
            expected = plain(module, y.numpy()[b, :second], past=[x.numpy()[b, :first]])
            np.testing.assert_allclose(in_order(out, batch, more, values)[b, :second], expected, rtol=1e-4, atol=1e-5)
        assert state.accum_axis.lengths.tolist() == ([1, 3, 2] if cut else [6, 5, 2])
        third, _ = module(y, more, state=state)
        past = [y.numpy()[1, :3]] if cut else [x.numpy()[1, :2], y.numpy()[1, :3]]
        expected = plain(module, y.numpy()[1, :3], past=past)
        np.testing.assert_allclose(in_order(third, batch, more, values)[1, :3], expected, rtol=1e-4, atol=1e-5)


def test_shifted_keys_after_a_state():
    before, now, key = Dim(4, name="before"), Dim(2, name="now"), Dim(2, name="key")
    module, x, y = make(), randn(batch, before, feat), randn(batch, now, feat, seed=1)
    _, state = module(x, before)
    shift = randn(now, module.keys_dim(now, state), key, seed=3)
    out, _ = module(y, now, state=state, key_shift=shift)
    for b in range(3):
        expected = plain(module, y.numpy()[b], past=[x.numpy()[b]], shift=shift.numpy())
        np.testing.assert_allclose(in_order(out, batch, now, values)[b], expected, rtol=1e-4, atol=1e-5)


def test_with_lengths_only_the_last_frames_of_the_state_are_seen():
    before, now = Dim(4, name="before"), Dim(2, name="now")
    module, x, y = make(), randn(batch, before, feat), randn(batch, now, feat, seed=1)
    _, state = module(x, before)
    for lengths in ([4, 1, 0], [0, 0, 0]):
        out, after = module(y, now, state=state, state_var_lengths=tensor(np.array(lengths, np.int32), batch))
        for b, length in enumerate(lengths):
            expected = plain(module, y.numpy()[b], past=[x.numpy()[b, 4 - length :]])
            np.testing.assert_allclose(in_order(out, batch, now, values)[b], expected, rtol=1e-4, atol=1e-5)
        assert after.accum_axis.lengths.tolist() == [length + 2 for length in lengths]
        step, _ = module(
            randn(batch, feat, seed=2), single_step_dim, state=after, state_var_lengths=after.accum_axis.dyn_size_ext
        )
        same, _ = module(randn(batch, feat, seed=2), single_step_dim, state=after)
        assert_same(step, same)


@pytest.mark.parametrize("face", FACES)
def test_the_state_of_the_last_step_only(time, face):
    """Then each frame sees the one before it and itself."""
    module, x = make(restrict_state_to_last_seq=True), randn(batch, time, feat)

    def body(loop):
        out, loop.state.att = module(loop.unstack(x), single_step_dim, state=loop.state.att)
        return loop.stack(out)

    out, _ = run_face(face, body, axis=time, att=module.default_initial_state(batch_dims=[batch]))
    for t in range(5):
        expected = plain(module, x.numpy()[0, t : t + 1], past=[x.numpy()[0, max(t - 1, 0) : t]])
        np.testing.assert_allclose(in_order(out, batch, time, values)[0, t], expected[0], rtol=1e-4, atol=1e-5)


def test_each_step_offers_its_weights(time):
    module, x, heard = make(), randn(batch, time, feat), []

    def body(loop):
        out, loop.state.att = module(loop.unstack(x), single_step_dim, state=loop.state.att)
        return loop.stack(out)

    for face in FACES:
        heard.clear()
        with listen(lambda kind, place, v: heard.append((place.step, v["weights"])) if kind == "attention" else None):
            run_face(face, body, axis=time, att=module.default_initial_state(batch_dims=[batch]))
        assert [(step, weights.dims[-1].extent) for step, weights in heard] == [(t, t + 1) for t in range(5)]


def test_errors(time):
    x = randn(batch, time, feat)
    with raises_message(
        ValueError,
        """
        QKVSelfAttention: a single step without attention_left_only.
          source  [batch=3, feat=5]
          axis    single_step_dim
        Step by step, no frame can see later ones; a whole sequence has to give the same.
            rf.QKVSelfAttention(..., attention_left_only=True)
        """,
    ):
        make(left_only=False)(randn(batch, feat), single_step_dim)
    with raises_message(
        ValueError,
        """
        QKVSelfAttention: a state without attention_left_only.
          source  [batch=3, time<=5, feat=5]
          axis    time<=5
        Step by step, no frame can see later ones; a whole sequence has to give the same.
            rf.QKVSelfAttention(..., attention_left_only=True)
        """,
    ):
        make(left_only=False)(x, time, state=make().default_initial_state(batch_dims=[batch]))
    with raises_message(
        DimError,
        """
        QKVSelfAttention: key_shift has other dims than query and keys.
          key_shift  [time<=5, feat=5]
          needs      [time<=5, time<=5, key_per_head=2]
        It has a vector for each pair of a query and a key, shared by the batch and the heads.
            keys = attention.keys_dim(axis, state)
            key_shift = rf.RelativePositionalEncoding(attention.key_dim_per_head)(
                query_spatial_dim=axis, key_value_spatial_dim=keys)
        """,
    ):
        make()(x, time, key_shift=randn(time, feat))
    with raises_message(
        DimError,
        """
        QKVSelfAttention: no dim time<=5.
          source  [batch=3, feat=5]
          dim     time<=5
        The dim time<=5 is not among the dims of source.
            source.dims[0]    # batch=3
            source.dims[1]    # feat=5
        """,
    ):
        make()(randn(batch, feat), time)
    with raises_message(
        DimError,
        """
        Attention: the features do not split into equal heads.
          key_dim_total  keys=4
          num_heads      3
        num_heads divides key_dim_total.
        """,
    ):
        rf.QKVSelfAttention(feat, key_dim_total=keys, value_dim_total=values, num_heads=3)
