"""Wherever two dims become one feature dim, or one is taken apart: which of them varies fastest. Every value is another one."""

import numpy as np
import pytest
from asserting import assert_same, randn, tensor

import rfnb as rf
from rfnb import Dim

one, batch, feat = Dim(1, name="one"), Dim(2, name="batch"), Dim(6, name="feat")


def counting(module):
    """Weights 0, and biases 0, 1, 2, ...: what comes out is the place it has in the parameter."""
    module.weight.initial = 0.0
    module.bias.assign(rf.cast(rf.range_over_dim(module.out_dim), "float32"))


def identity(module, factor=1.0):
    """The weight with which a Linear changes nothing but the factor."""
    sizes = [dim.extent for dim in module.weight.dims]
    module.weight.assign(tensor(factor * np.eye(*sizes), *module.weight.dims))


# -- attention ---------------------------------------------------------------------------------------------------------
KINDS = (
    "SelfAttention CausalSelfAttention RelPosSelfAttention RelPosCausalSelfAttention RotaryPosSelfAttention"
    " RotaryPosCausalSelfAttention"
).split()
TOTAL = {"key_dim_total": Dim(4, name="key"), "value_dim_total": Dim(6, name="value"), "num_heads": 2}


def by_head(module, *tensors):
    """[heads][features] of each."""
    features = {module.key_dim_per_head, module.value_dim_per_head}
    return tuple(
        x.copy_transpose([module.num_heads, *(dim for dim in x.dims if dim in features)]).numpy().tolist()
        for x in tensors
    )


@pytest.mark.parametrize("kind", KINDS)
def test_queries_keys_and_values_stand_side_by_side_in_each_head(kind):
    module = getattr(rf, kind)(feat, None, **TOTAL)
    counting(module.qkv)
    q, k, v = by_head(module, *module.forward_qkv(rf.zeros([feat])))
    assert (q, k, v) == ([[0, 1], [7, 8]], [[2, 3], [9, 10]], [[4, 5, 6], [11, 12, 13]])


def test_the_rows_of_a_fused_matrix_are_those_of_each_head():
    module = rf.QKVSelfAttention(feat, **TOTAL)
    rows = np.arange(6 * 14).reshape(6, 14)
    module.QKV.assign(tensor(np.float32(rows), *module.QKV.dims))
    for source, row in ((tensor([0.0, 0, 1, 0, 0, 0], feat), 2), (tensor(np.int32(5), sparse_dim=feat), 5)):
        q, k, v = by_head(module, *module.forward_qkv(source))
        row = rows[row].reshape(2, 7).tolist()
        assert (q, k, v) == ([r[:2] for r in row], [r[2:4] for r in row], [r[4:] for r in row])


def test_keys_and_values_of_an_encoder_stand_side_by_side_in_each_head():
    module = rf.CrossAttention(encoder_dim=feat, query_in_dim=feat, proj_dim=None, **TOTAL)
    counting(module.kv)
    counting(module.q)
    k, v = by_head(module, *module.forward_kv(rf.zeros([feat])))
    assert (k, v) == ([[0, 1], [5, 6]], [[2, 3, 4], [7, 8, 9]])
    assert by_head(module, module.forward_query(rf.zeros([feat]))) == ([[0, 1], [2, 3]],)


@pytest.mark.parametrize("kind", [*KINDS, "QKVSelfAttention"])
def test_heads_are_joined_one_after_the_other(kind):
    """One frame has weight 1, so the values come out."""
    if kind == "QKVSelfAttention":
        module = rf.QKVSelfAttention(feat, **TOTAL)
        module.QKV.assign(tensor(np.float32(np.arange(6 * 14).reshape(6, 14)), *module.QKV.dims))
    else:
        module = getattr(rf, kind)(feat, None, **TOTAL)
        counting(module.qkv)
    out = module(tensor([[1.0, 0, 0, 0, 0, 0]], one, feat), axis=one)
    out = out[0] if isinstance(out, tuple) else out
    assert_same(out, tensor([[4.0, 5, 6, 11, 12, 13]], one, module.out_dim))


def test_heads_of_an_encoder_are_joined_one_after_the_other():
    module = rf.CrossAttention(encoder_dim=feat, query_in_dim=feat, proj_dim=None, **TOTAL)
    counting(module.kv)
    encoder = module.transform_encoder(rf.zeros([one, feat]), axis=one)
    assert_same(module(rf.zeros([feat]), encoder), tensor([2.0, 3, 4, 7, 8, 9], module.out_dim))


@pytest.mark.parametrize("causal", [False, True])
def test_distances_have_the_features_of_each_head_together(causal):
    """Head 0 sees features 0 and 1 of W r, head 1 those after them."""
    module = (rf.RelPosCausalSelfAttention if causal else rf.RelPosSelfAttention)(feat, None, **TOTAL)
    module.linear_pos.weight.initial = 0.0
    module.linear_pos.weight.raw_tensor.data[3] = module.linear_pos.weight.raw_tensor.new_tensor([1.0, 2, 30, 40])
    vectors, distance = module._vectors(one, one, 0, rf.zeros([feat]))
    assert by_head(module, rf.squeeze(vectors, distance)) == ([[1, 2], [30, 40]],)  # the cosine of distance 0 is 1


# -- halves, groups, pieces --------------------------------------------------------------------------------------------
def test_the_second_half_gates_the_first():
    out, _ = rf.gating(tensor([1.0, 2, 3, 10, 20, 30], feat), axis=feat, act_func=rf.square, gate_func=rf.identity)
    assert out.numpy().tolist() == [10, 80, 270]


def test_the_first_half_of_a_gated_feed_forward_is_activated():
    module = rf.FeedForwardGated(feat, ff_dim=3, activation=rf.square)
    identity(module.linear_ff)
    identity(module.linear_out)
    assert module(tensor([1.0, 2, 3, 10, 20, 30], feat)).numpy().tolist() == [10, 80, 270, 0, 0, 0]


def test_the_second_half_is_filtered_along_time_and_gates_the_first():
    module = rf.FeedForwardConvGated(feat, ff_dim=6, kernel_size=1, activation=rf.square, norm=rf.identity)
    identity(module.linear_ff)
    identity(module.linear_out)
    module.depthwise_conv.filter.initial = 10.0
    module.depthwise_conv.bias.initial = 1.0
    out = module(tensor([[1.0, 2, 3, 4, 5, 6]], one, feat), spatial_dim=one)
    assert out.numpy().tolist() == [[1 * 161, 4 * 251, 9 * 361, 0, 0, 0]]


def test_the_first_source_of_a_merge_comes_first():
    module = rf.Merge(in_dim1=(two := Dim(2, name="two")), in_dim2=batch, out_dim=(out := Dim(4, name="out")))
    identity(module.merge_proj)
    module.depthwise_conv.filter.initial = 0.0
    got = module(tensor([[1.0, 2]], one, two), tensor([[30.0, 40]], one, batch), spatial_dim=one)
    assert_same(got, tensor([[1.0, 2, 30, 40]], one, out))


def test_the_conv_block_of_a_conformer_gates_the_first_half():
    module = rf.ConformerConvBlock(feat, kernel_size=1, norm=rf.identity)
    module.positionwise_conv1.weight.initial = 0.0
    module.positionwise_conv1.bias.assign(tensor([1.0, 2, 3, 4, 5, 6, *[-100.0, 100, 100] * 2], 2 * feat))
    module.depthwise_conv.filter.initial = 1.0
    identity(module.positionwise_conv2)
    out = module(rf.zeros([one, feat]), spatial_dim=one)
    swish = lambda x: x / (1 + np.exp(-x))  # noqa: E731
    assert_same(out, tensor([[0, swish(2.0), swish(3.0), 0, swish(5.0), swish(6.0)]], one, feat))


@pytest.mark.parametrize("spatial", [False, True])
def test_the_features_of_a_group_are_neighbours(spatial):
    x = tensor([[3.0, 1, 10, 30, 700, 500]], one, feat)
    kind, options = (rf.GroupNormSpatial, {"spatial_dim": one}) if spatial else (rf.GroupNorm, {})
    assert_same(kind(feat, num_groups=3)(x, **options), tensor([[1.0, -1, -1, 1, 1, -1]], one, feat))


def test_the_pieces_of_a_maxout_are_neighbours():
    x = tensor([1.0, 5, 4, 2, 0, 3], feat)
    x.feature_dim = feat
    assert rf.reduce_out(x, mode="max", num_pieces=2).numpy().tolist() == [5, 4, 3]
    assert rf.reduce_out(x, mode="max", num_pieces=3).numpy().tolist() == [5, 3]


# -- frames and channels -----------------------------------------------------------------------------------------------
def test_the_channels_of_one_frequency_stand_beside_each_other():
    channels, frequency = Dim(2, name="channels"), Dim(4, name="frequency")
    module = rf.ConformerConvSubsample(frequency, out_dims=[channels], filter_sizes=[(1, 1)])
    module.conv_layers[0].filter.assign(tensor([[[[1.0]]], [[[100.0]]]], *module.conv_layers[0].filter.dims))
    out, _ = module(tensor([[1.0, 2, 3, 4]], one, frequency), in_spatial_dim=one)
    assert out.numpy().tolist() == [[1, 100, 2, 200, 3, 300, 4, 400]]


def test_the_channels_stay_beside_each_other_where_frequencies_are_pooled():
    channels, frequency, time = Dim(3, name="channels"), Dim(5, name="frequency"), Dim(2, name="time")
    module = rf.ConformerConvSubsample(
        frequency, out_dims=[batch, channels], filter_sizes=[1, 1], pool_sizes=[(1, 2)], strides=[1, (2, 1)]
    )
    first, second = (conv.filter for conv in module.conv_layers)
    first.assign(tensor(np.float32([1, 10]).reshape(2, 1, 1, 1), *first.dims))
    second.assign(tensor(np.float32([[1, 0], [0, 1], [1, 1]]).reshape(3, 2, 1, 1), *second.dims))
    x = tensor([[1.0, 2, 3, 4, 5], [6, 7, 8, 9, 10]], time, frequency)
    out, _ = module(x, in_spatial_dim=time)
    assert out.numpy().tolist() == [[2, 20, 22, 4, 40, 44, 5, 50, 55]]


def test_stacked_frames_stand_one_after_the_other():
    time, width, pair = Dim(4, name="time"), Dim(2, name="width"), Dim(2, name="pair")
    x = tensor([[1.0, 2], [3, 4], [5, 6], [7, 8]], time, pair)
    windows, short = rf.window(x, spatial_dim=time, window_dim=width, padding="valid", stride=2)
    stacked, out = rf.merge_dims(windows, dims=(width, pair))
    assert stacked.copy_transpose([short, out]).numpy().tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert_same(rf.split_dims(stacked, axis=out, dims=(width, pair)), windows)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"axes": ["dim:2", "dim:3"]}, [0, 1, 2, 3, 4, 5]),
        ({"axes": ["dim:3", "dim:2"]}, [0, 1, 2, 3, 4, 5]),
        ({"axes": ["dim:3", "dim:2"], "keep_order": True}, [0, 3, 1, 4, 2, 5]),
    ],
)
def test_a_net_merges_in_the_order_of_the_source_or_as_given(options, expected):
    net = rf.net_from_dict(
        {
            "split": {"class": "split_dims", "from": "data", "axis": "F", "dims": (2, 3)},
            "output": {"class": "merge_dims", "from": "split", **options},
        },
        extern_data={"data": {"dim": 6}},
    )
    x = np.float32([[[0, 1, 2, 3, 4, 5]]])
    out = net({"data": (x, [1])})["output"]
    assert out.numpy().reshape(-1).tolist() == expected


def test_labels_of_two_dims_count_the_last_one_fastest():
    first, second = Dim(2, name="first"), Dim(3, name="second")
    merged = rf.range_over_merged_dims([first, second])
    assert merged.copy_transpose([first, second]).numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    x = tensor([[1.0, 9, 2], [8, 3, 4]], first, second)
    _, (of_first, of_second), _ = rf.top_k(x, axis=[first, second], k=2)
    assert (of_first.numpy().tolist(), of_second.numpy().tolist()) == ([0, 1], [1, 0])


def test_gradients_find_the_way_back_through_merged_dims():
    channels, frequency = Dim(2, name="channels"), Dim(3, name="frequency")
    x = randn(one, channels, frequency)
    rf.set_requires_gradient(x)
    merged, out = rf.merge_dims(x, dims=(frequency, channels))
    weights = tensor([1.0, 2, 3, 4, 5, 6], out)
    (merged * weights).raw_tensor.sum().backward()
    assert x.raw_tensor.grad.tolist() == [[[1, 3, 5], [2, 4, 6]]]
