"""The documented Backend methods with a signature of their own."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Backend, Dim, ShapeError

batch, feat, classes = Dim(2, name="batch"), Dim(3, name="feat"), Dim(4, name="classes")
time = ragged([5, 2], batch)
x = randn(batch, time, feat)


def test_what_makes_a_new_dim_gives_only_the_tensor():
    merged, long = Dim(6, name="merged"), Dim(None, name="long")
    assert_same(Backend.merge_dims(randn(batch, feat), dims=[batch, feat], out_dim=merged), randn(merged))
    joined = Backend.concat((x, feat), (x, feat), out_dim=feat + feat)
    assert joined.dims == (batch, time, feat + feat)
    assert_same(Backend.split(joined, axis=feat + feat, out_dims=[feat, Dim(3, name="other")])[0], x)
    padded = Backend.pad(x, axes=[time], padding=[(1, 0)], out_dims=[long])
    assert long.lengths.tolist() == [6, 3] and padded.dims == (batch, long, feat)
    two = Dim(2, name="two")
    stacked = Backend.stack([randn(feat), randn(feat, seed=1)], out_dim=two)
    assert_same(Backend.unstack(stacked, axis=two)[1], randn(feat, seed=1))
    part = Dim(2, name="part")
    assert Backend.slice(randn(feat), axis=feat, start=0, size=part, out_dim=part).dims == (part,)
    other = Dim(3, name="other")
    assert_same(Backend.replace_dim(randn(feat), in_dim=feat, out_dim=other), randn(other))


def test_one_tensor_in_one_out():
    assert_same(Backend.full([feat], 2.0, dtype="float32"), rf.ones([feat]) * 2)
    assert_same(Backend.activation(x, "relu"), rf.relu(x))
    assert Backend.flip_no_mask(tensor([1.0, 2.0, 3.0], feat), axis=feat).numpy().tolist() == [3, 2, 1]
    out = Backend.make_output_tensor(x, [feat, batch, time], name="out")
    assert (out.dims, out.name) == ((feat, batch, time), "out")
    assert Backend.get_device(x) == "cpu"
    targets = tensor(np.asarray([1, 2]), batch, sparse_dim=classes)
    logits = randn(batch, classes)
    got = Backend.softmax_cross_entropy_with_logits(logits=logits, targets=targets, axis=classes)
    torch.testing.assert_close(
        got.raw_tensor, torch.nn.functional.cross_entropy(logits.raw_tensor, targets.raw_tensor, reduction="none")
    )


def test_a_raw_array_that_does_not_fit_is_seen():
    Backend.runtime_sanity_checks(x)
    wrong = randn(feat)
    wrong._raw = torch.zeros(5)
    with pytest.raises(ShapeError):
        Backend.runtime_sanity_checks(wrong)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_is_the_layer_with_these_parameters(training):
    layer = rf.BatchNorm(feat)
    layer.gamma.initial, layer.beta.initial = rf.Normal(1.0), rf.Normal(1.0)
    mean, variance = rf.Parameter([feat], auxiliary=True), rf.Parameter([feat], auxiliary=True, initial=1.0)
    with rf.init_train_step_run_ctx(train_flag=training):
        expected = layer(x)
        got = Backend.batch_norm(
            x, in_dim=feat, running_mean=mean, running_variance=variance, gamma=layer.gamma, beta=layer.beta,
            epsilon=1e-3, momentum=0.1, affine=True, use_mask=True,
        )  # fmt: skip
    assert_same(got, expected)
    assert_same(mean, layer.running_mean)
    assert_same(variance, layer.running_variance)


def test_lstm_is_the_layer_with_these_parameters():
    layer = rf.LSTM(feat, classes)
    state = layer.default_initial_state(batch_dims=[batch])
    expected, last = layer(x, state=state, spatial_dim=time)
    got, (h, c) = Backend.lstm(
        x, state_h=state.h, state_c=state.c, ff_weight=layer.ff_weight, rec_weight=layer.rec_weight, bias=layer.bias,
        spatial_dim=time, in_dim=feat, out_dim=classes,
    )  # fmt: skip
    assert_same(got, expected)
    assert_same([h, c], [last.h, last.c])


def test_parameters():
    raw = Backend.create_parameter_raw(rf.Tensor("w", [feat]))
    assert isinstance(raw, torch.nn.Parameter) and raw.tolist() == [0, 0, 0] and raw.requires_grad
    param = rf.Parameter([feat])
    Backend.set_parameter_initial_value(param, 1.0)
    Backend.parameter_assign(param, 2.0, op="add")
    assert param.numpy().tolist() == [3, 3, 3]
    Backend.parameter_assign(param, 5.0)
    Backend.parameter_assign_key(param, 1, 7.0)
    Backend.parameter_assign_key(param, 1, 1.0, op="add", axis=feat)
    assert param.numpy().tolist() == [5, 8, 5]
    Backend.set_parameter_trainable(param, False)
    Backend.parameter_move_to(param, dtype="float64")
    assert not param.raw_tensor.requires_grad and param.dtype == "float64"


def test_arrays_of_tensors():
    array = Backend.tensor_array_create()
    longer = Backend.tensor_array_push_back(array, randn(feat))
    longer = Backend.tensor_array_push_back(longer, randn(feat, seed=1))
    assert array == [] and len(longer) == 2
    assert_same(Backend.tensor_array_get_item(longer, rf.convert_to_tensor(1)), randn(feat, seed=1))
    stacked = Backend.tensor_array_stack(longer, axis=batch, tensor_template=randn(feat))
    assert_same(Backend.tensor_array_unstack(stacked, axis=batch), longer)
    none = Dim(None, name="none")
    assert Backend.tensor_array_stack([], axis=none, tensor_template=randn(feat)).numpy().shape == (0, 3)


def test_raw_arrays():
    raw = torch.zeros(2, 3)
    assert Backend.fill_raw([2], 3).tolist() == [3, 3] and Backend.fill_raw([1], True).tolist() == [True]
    assert Backend.get_new_dim_raw(raw, 1, name="new").size == 3
    Backend.set_known_shape_raw(raw, (2, None))
    assert Backend.should_pickle_tensor(raw) and Backend.have_sequence_mask_raw() and Backend.have_edit_distance()
    mask = Backend.sequence_mask_raw(torch.tensor([2, 1]))
    assert mask.tolist() == [[True, True], [True, False]]
    assert Backend.sequence_mask_raw(np.asarray([1, 2]), batch_major=False).tolist() == [[True, True], [False, True]]
    assert rf.get_backend_by_raw_tensor_type(torch.Tensor).expand_raw(torch.zeros(2, 1, 3), 1, 4).shape == (2, 4, 3)


def test_the_graph_mode_has_no_effect():
    raw = torch.zeros(2)
    with Backend.name_scope_raw("a"), Backend.control_dependencies_raw([raw]):
        assert Backend.identity_with_control_dependencies_raw(raw, [raw]) is raw
    assert Backend.is_valid_in_current_graph(x) and Backend.format_graph_output(raw) == "<no-graph>"
    assert Backend.sdpa_varlen_raw(query=raw) is None


# -- attention -----------------------------------------------------------------------------------------------------------
query_time = ragged([2, 3], batch, "query_time")
query, key, value = (
    randn(batch, query_time, feat),
    randn(batch, time, feat, seed=1),
    randn(batch, time, classes, seed=2),
)
DIMS = {"v_feat_dim": classes, "qk_feat_dim": feat, "kv_spatial_dim": time, "query_spatial_dim": query_time}


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_attention_with_a_mask_of_all_is_attention_without_mask(causal, scale):
    plain = Backend.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=scale, **DIMS)
    dim = query_time if causal else None
    assert_same(
        plain,
        rf.dot_attention(query, key, value, key_dim=feat, axis=time, causal_query_spatial_dim=dim, scale=scale),
    )
    mask = rf.ones([query_time, time], dtype="bool")
    masked = Backend.scaled_dot_product_attention(
        query, key, value, attention_mask=mask, is_causal=causal, scale=scale, **DIMS
    )
    assert_same(masked, plain)


def test_attention_looks_only_where_the_mask_says_and_nowhere_gives_zero():
    only = Dim(4, name="queries")
    first = tensor(np.asarray([[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], bool), only, time)
    out = Backend.scaled_dot_product_attention(
        rf.zeros([batch, only, feat]), key, value, attention_mask=first, **{**DIMS, "query_spatial_dim": only}
    )
    got, values = out.copy_transpose([batch, only, classes]).numpy(), value.numpy()
    np.testing.assert_allclose(got[:, 0], values[:, 0], rtol=1e-5)
    np.testing.assert_allclose(got[:, 1], values[:, 1], rtol=1e-5)
    np.testing.assert_allclose(got[:, 2], (values[:, 0] + values[:, 1]) / 2, rtol=1e-5)
    assert (got[:, 3] == 0).all()


def test_relative_attention_adds_the_energy_of_the_distance():
    keys, queries = Dim(3, name="keys"), Dim(2, name="queries")
    distance = Dim(4, name="distance")  # -1, 0, 1, 2: from the last query to the first key, up to the other way round
    q, k, v = randn(queries, feat), randn(keys, feat, seed=1), randn(keys, classes, seed=2)
    r, u, w = randn(distance, feat, seed=3), randn(feat, seed=4), randn(feat, seed=5)
    out = Backend.rel_pos_self_attention(
        q, k, v, r, pos_bias_u=u, pos_bias_v=w, v_feat_dim=classes, qk_feat_dim=feat, kv_spatial_dim=keys,
        query_spatial_dim=queries, pos_emb_spatial_dim=distance,
    )  # fmt: skip
    q, k, v, r, u, w = (t.numpy() for t in (q, k, v, r, u, w))
    energy = np.asarray([[(q[i] + u) @ k[j] + (q[i] + w) @ r[j - i + 1] for j in range(3)] for i in range(2)]) / 3**0.5
    weights = np.exp(energy) / np.exp(energy).sum(1, keepdims=True)
    assert_same(out.copy_transpose([queries, classes]), (weights @ v).tolist())


def test_rope_turns_pairs_of_features():
    four = Dim(4, name="feat")
    angles = np.asarray([0.3, 1.2], np.float32)
    x = randn(four)
    out = Backend.apply_rope(x, tensor(np.concatenate([np.sin(angles), np.cos(angles)]), four), four).numpy()
    pairs = x.numpy().reshape(2, 2)
    turned = (pairs[:, 0] + 1j * pairs[:, 1]) * np.exp(1j * angles)
    np.testing.assert_allclose(out, np.stack([turned.real, turned.imag], 1).ravel(), rtol=1e-5)


ERRORS = {
    "an unknown activation": (
        lambda: Backend.activation(x, "sin2"),
        ValueError,
        f"""
        activation: unknown function "sin2".
          known  {", ".join(rf.backends.protocol.UNARY_KINDS)}
        It is one of these.
            func="sin"
        """,
    ),
    "another shape": (
        lambda: Backend.set_known_shape_raw(torch.zeros(2), (3,)),
        ShapeError,
        """
        set_known_shape_raw: another shape.
          array  (2,)
          known  (3,)
        An array has the shape that it has; to change it, use reshape_raw.
        """,
    ),
    "an unknown op": (
        lambda: Backend.parameter_assign(rf.Parameter([feat]), 1, op="mul"),
        ValueError,
        """
        parameter_assign: unknown op "mul".
          known  assign, add
        It is one of these.
            op="assign"
        """,
    ),
    "adding at many places": (
        lambda: Backend.parameter_assign_key(rf.Parameter([feat]), slice(0, 2), 1, op="add"),
        ValueError,
        """
        parameter_assign_key: "add" is for one entry of one axis.
          key  slice
        For an index that occurs twice, the sum is ambiguous. Gather, add, and assign:
            param.assign_key(axis, key, key_dim, rf.gather(param, indices=key, axis=axis) + value)
        """,
    ),
    "a placeholder": (
        lambda: Backend.create_placeholder_raw(rf.Tensor("x", [feat])),
        NotImplementedError,
        """
        create_placeholder_raw: documented, but not offered.
          backend  torch
        Values are there from the start.
            rf.zeros(dims)
        """,
    ),
    "several processes": (
        lambda: Backend.reduce_distributed(x, mode="sum"),
        NotImplementedError,
        """
        reduce_distributed: documented, but not offered.
          backend  torch
        A Tensor is of one process.
            torch.distributed.all_reduce(x.raw_tensor)
        """,
    ),
    "packed sequences": (
        lambda: Backend.ctc_loss_packed_raw(logits=None),
        NotImplementedError,
        """
        ctc_loss_packed_raw: documented, but not offered.
          backend  torch
        Sequences are padded here.
            rf.ctc_loss(...)
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()
