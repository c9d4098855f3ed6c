"""Layers from a dim to itself compute what they compute from one dim to another of the same size, with the same parameters."""

import pytest
from asserting import assert_same, ragged, raises_message, randn

import rfnb as rf
from rfnb import Dim, DimError

batch, feat, other = Dim(2, name="batch"), Dim(4, name="feat"), Dim(4, name="other")
time = ragged([5, 3], batch)
LABELS = rf.convert_to_tensor([[3, 0, 1, 2, 2], [1, 1, 0, 0, 0]], dims=[batch, time], dtype="int32")


def of_steps(unit):
    def run(layer, x):
        return layer(x, spatial_dim=time, state=layer.default_initial_state(batch_dims=[batch]))[0]

    return (lambda in_dim, out_dim: unit(in_dim, out_dim)), run


# (the layer from one dim to another, its result for x {batch, time, in_dim}), labels for an embedding.
LAYERS = {
    "Linear": (rf.Linear, lambda layer, x: layer(x)),
    "Embedding": (rf.Embedding, lambda layer, x: layer(rf.set_sparse_dim(LABELS, layer.in_dim))),
    "LSTM": of_steps(rf.LSTM),
    "ZoneoutLSTM": of_steps(rf.ZoneoutLSTM),
    "Conv1d": (lambda a, b: rf.Conv1d(a, b, 3, padding="same"), lambda layer, x: layer(x, in_spatial_dim=time)[0]),
    "CrossAttention": (
        lambda a, b: rf.CrossAttention(a, a, b, key_dim_total=b, value_dim_total=b, num_heads=2),
        lambda layer, x: layer(x, layer.transform_encoder(x, axis=time)),
    ),
    "SelfAttention": (
        lambda a, b: rf.SelfAttention(a, b, key_dim_total=b, value_dim_total=b, num_heads=2),
        lambda layer, x: layer(x, axis=time),
    ),
    "TransformerEncoder": (
        lambda a, b: rf.TransformerEncoder(a, b, num_layers=1, num_heads=2, ff={"class": "rf.FeedForward", "ff_dim": b}),
        lambda layer, x: layer(rf.set_sparse_dim(LABELS, layer.vocab_dim), spatial_dim=time),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_from_a_dim_to_itself(name):
    make, run = LAYERS[name]
    square, plain = make(feat, feat), make(other, feat)
    values = dict(plain.named_parameters())
    for path, parameter in square.named_parameters():
        parameter.raw_tensor.data.copy_(values[path].raw_tensor.data)
    x = randn(batch, time, feat)
    out = run(square, x)
    assert set(out.dims) == {batch, time, feat}
    assert_same(out, run(plain, rf.replace_dim(x, in_dim=feat, out_dim=other)[0]))


def test_error_of_one_dim_for_labels_and_features_that_share_a_weight():
    with raises_message(
        DimError,
        """
        TransformerDecoder: the labels and the features have one dim.
          vocab_dim  feat=4
          model_dim  feat=4
        Embedding and logits use one weight from different sides, which could not be told apart.
            model_dim = rf.Dim(4, name="model")
        """,
    ):
        rf.TransformerDecoder(None, feat, feat, num_layers=1, num_heads=2)
    rf.TransformerDecoder(None, feat, feat, num_layers=1, num_heads=2, share_embedding=False)
