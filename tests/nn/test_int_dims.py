"""Sizes of layers may be ints: the layer makes the dim."""

import pytest
from asserting import raises_message

import rfnb as rf

FEAT, VOCAB = rf.Dim(4, name="feat"), rf.Dim(7, name="vocab")


@pytest.mark.parametrize(
    "make",
    [
        lambda size: rf.TransformerDecoder(None, VOCAB, size, num_layers=1, num_heads=2),
        lambda size: rf.TransformerDecoder(FEAT, VOCAB, size, num_layers=1, num_heads=2, embed_dim=6),
        lambda size: rf.TransformerEncoder(VOCAB, size, num_layers=1, num_heads=2),
        lambda size: rf.ConformerEncoder(FEAT, size, num_layers=1, num_heads=2, input_layer=None),
        lambda size: rf.ConformerEncoder(
            FEAT, size, num_layers=1, num_heads=2, input_layer=None, pos_enc=rf.sinusoidal_positional_encoding),
        lambda size: rf.encoder.conformer_v2.ConformerEncoderV2(size, num_layers=1, num_heads=2),
        lambda size: rf.encoder.conformer_v2.ConformerFrontend(FEAT, size, input_layer=None),
        lambda size: rf.ConformerConvSubsample(FEAT, out_dims=[size, 3], filter_sizes=[3, 3]),
        lambda size: rf.FeedForward(FEAT, ff_dim=size),
        lambda size: rf.encoder.e_branchformer.FeedForwardConvGated(FEAT, ff_dim=size),
    ],
)  # fmt: skip
def test_an_int_gives_the_parameters_of_a_dim_of_that_size(make):
    of_int, of_dim = make(8), make(rf.Dim(8, name="eight"))
    shapes = [[(name, p.batch_shape) for name, p in module.named_parameters()] for module in (of_int, of_dim)]
    assert shapes[0] == shapes[1] and any(8 in shape for _, shape in shapes[0])


def test_the_decoder_of_an_int_shares_its_embedding():
    model = rf.TransformerDecoder(None, VOCAB, 8, num_layers=1, num_heads=2)
    assert model.logits.weight is model.input_embedding.weight
    assert model.model_dim is model.embed_dim and model.model_dim.size == 8


def test_the_number_of_groups_may_be_a_dim():
    eight = rf.Dim(8, name="eight")
    x = rf.random_normal([rf.Dim(3, name="batch"), eight])
    by_dim, by_int = (rf.GroupNorm(eight, num_groups=groups)(x) for groups in (rf.Dim(4, name="groups"), 4))
    assert (by_dim.raw_tensor == by_int.raw_tensor).all()
    with raises_message(
        rf.DimError,
        """
        GroupNorm: the features do not split into equal groups.
          in_dim      eight=8
          num_groups  3
        num_groups divides the size of in_dim.
        """,
    ):
        rf.GroupNorm(eight, num_groups=rf.Dim(3, name="groups"))
