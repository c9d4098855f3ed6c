"""Self-attention over distances, against the formula pair by pair; learned vectors of distances; the shift."""

import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor, with_nan_padding
from parameter_gradients import assert_same_gradients
from plain_relative_attention import relative_attention

import rfnb as rf
from rfnb import Dim, DimError, single_step_dim
from rfnb.nn.attention.relative import relative_shift
from rfnb.trace.probe import listen

batch, model, key, value, out = (
    Dim(n, name=name) for n, name in ((3, "batch"), (6, "model"), (8, "key"), (10, "value"), (7, "out"))
)
LENGTHS = [5, 4, 1]
OPTIONS = {"key_dim_total": key, "value_dim_total": value, "num_heads": 2}
SHAW = {"with_linear_pos": False, "with_pos_bias": False, "learnable_pos_emb": True, "learnable_pos_emb_clipping": 2}
KINDS = {
    "transformer-xl": {},
    "shaw": SHAW,
    "shaw, shared": {**SHAW, "separate_pos_emb_per_head": False},
    "sinusoids without W": {"with_linear_pos": False},
    "learned, with W shared": {"learnable_pos_emb": True, "separate_pos_emb_per_head": False},
}


def make(causal=False, **options):
    module = (rf.RelPosCausalSelfAttention if causal else rf.RelPosSelfAttention)(model, out, **OPTIONS, **options)
    rf.set_random_seed(3)
    for parameter in module.parameters():
        parameter.initial = rf.Normal(0.7)
    return module


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_energies_are_those_of_the_formula_for_each_sequence_alone(kind, causal):
    module, time = make(causal, **KINDS[kind]), ragged(LENGTHS, batch)
    x = randn(batch, time, model)
    got = module(with_nan_padding(x), axis=time)
    got = (got[0] if causal else got).copy_transpose([batch, time, out]).raw_tensor
    for seq, length in enumerate(LENGTHS):
        expected = relative_attention(module, x.raw_tensor[seq, :length], causal)
        torch.testing.assert_close(got[seq, :length], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_formula(kind, causal):
    module, time = make(causal, **KINDS[kind]), ragged(LENGTHS, batch)

    def ours(raw):
        got = module(rf.convert_to_tensor(raw, dims=[batch, time, model]), axis=time)
        got = (got[0] if causal else got).copy_transpose([batch, time, out]).raw_tensor
        return [got[seq, :length] for seq, length in enumerate(LENGTHS)]

    def formula(raw):
        return [relative_attention(module, raw[seq, :length], causal) for seq, length in enumerate(LENGTHS)]

    assert_same_gradients(module, torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(0)), ours, formula)


def test_names_and_sizes_of_the_parameters():
    def sizes(module):
        return {
            name: [dim.extent for dim in p.dims]
            for name, p in module.named_parameters()
            if "qkv" not in name and "proj" not in name
        }

    assert sizes(make()) == {"linear_pos.weight": [6, 8], "pos_bias_u": [2, 4], "pos_bias_v": [2, 4]}
    assert sizes(make(**SHAW)) == {"learned_pos_emb.pos_emb": [5, 8]}
    assert sizes(make(causal=True, **KINDS["shaw, shared"])) == {"learned_pos_emb.pos_emb": [3, 4]}


@pytest.mark.parametrize("causal", [False, True])
def test_the_weights_are_probed(causal):
    module, time, events = make(causal), ragged(LENGTHS, batch), []
    with listen(lambda kind, place, values: events.append((kind, values))):
        module(randn(batch, time, model), axis=time)
    (values,) = [values for kind, values in events if kind == "attention"]
    weights, axis = values["weights"], values["axis"]
    assert set(weights.dims) == {batch, module.num_heads, time, axis}
    raw = weights.copy_transpose([batch, module.num_heads, time, axis]).raw_tensor
    assert bool((raw[0].triu(1) == 0).all()) == causal


def test_pos_emb_dropout_is_only_in_training():
    module, time = make(pos_emb_dropout=0.9, att_dropout=0.0), Dim(5, name="time")
    x = randn(time, model)
    before = module(x, axis=time)
    rf.init_train_step_run_ctx()
    try:
        assert not torch.allclose(module(x, axis=time).raw_tensor, before.raw_tensor)
    finally:
        rf.init_forward_step_run_ctx()
    assert_same(module(x, axis=time, further="options"), before)


@pytest.mark.parametrize("causal", [False, True])
def test_a_missing_axis(causal):
    module, time = make(causal), Dim(5, name="time")
    with raises_message(DimError, f"""
        {type(module).__name__}: no dim time=5.
          source  [batch=3, model=6]
          dim     time=5
        The dim time=5 is not among the dims of source.
            source.dims[0]    # batch=3
            source.dims[1]    # model=6
    """):  # fmt: skip
        module(randn(batch, model), axis=time)


# -- the shift ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("queries", "keys"), [(3, 5), (5, 3), (1, 4), (4, 1), (2, 2), (0, 3), (3, 0), (1, 0), (0, 0)])
def test_the_shift_picks_the_entry_of_each_distance(queries, keys):
    query, kv, heads = Dim(queries, name="query"), Dim(keys, name="keys"), Dim(2, name="heads")
    distance = Dim(max(queries + keys - 1, 0), name="distance")
    x = randn(query, heads, distance)
    got = relative_shift(x, query_dim=query, key_dim=kv, distance_dim=distance)
    raw = x.copy_transpose([heads, query, distance]).raw_tensor
    expected = torch.zeros(2, queries, keys)
    for i in range(queries):
        for j in range(keys):
            expected[:, i, j] = raw[:, i, j - i + queries - 1]
    assert set(got.dims) == {heads, query, kv}
    assert torch.equal(got.copy_transpose([heads, query, kv]).raw_tensor, expected)


# -- learned vectors ---------------------------------------------------------------------------------------------------
QUERIES, KEYS, FEAT = Dim(3, name="queries"), Dim(5, name="keys"), Dim(4, name="feat")


def learned(causal=False):
    module = rf.LearnedRelativePositionalEncoding(FEAT, clipping=2, causal=causal)
    module.pos_emb.initial = rf.Normal(1.0)
    return module


def expected_vector(module, distance):
    return module.pos_emb.raw_tensor[max(-2, min(distance, 0 if module.causal else 2)) + 2]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("offset", [None, 0, 2])
def test_learned_vectors_of_all_distances(causal, offset):
    module = learned(causal)
    vectors, distance = module(query_spatial_dim=QUERIES, key_value_spatial_dim=KEYS, query_offset=offset)
    assert vectors.dims == (distance, FEAT) and distance.size == 7 and vectors.feature_dim is FEAT
    for r in range(7):
        assert torch.equal(vectors.raw_tensor[r], expected_vector(module, r - 2 - (offset or 0)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("offset", [None, 2])
def test_the_full_matrix_has_the_vector_of_each_pair(causal, offset):
    module = learned(causal)
    matrix = module.full_matrix(query_spatial_dim=QUERIES, key_value_spatial_dim=KEYS, query_offset=offset)
    raw = matrix.copy_transpose([QUERIES, KEYS, FEAT]).raw_tensor
    for i in range(3):
        for j in range(5):
            assert torch.equal(raw[i, j], expected_vector(module, j - i - (offset or 0)))


def test_learned_vectors_of_a_single_query():
    module = learned()
    vectors, distance = module(query_spatial_dim=single_step_dim, key_value_spatial_dim=KEYS, query_offset=4)
    assert_same(vectors, [expected_vector(module, j - 4).tolist() for j in range(5)])
    matrix = module.full_matrix(query_spatial_dim=single_step_dim, key_value_spatial_dim=KEYS, query_offset=4)
    assert_same(matrix, rf.replace_dim(vectors, in_dim=distance, out_dim=KEYS)[0])


def test_an_offset_per_sequence():
    module, offsets = learned(), [0, 3, 1]
    dims = {"query_spatial_dim": QUERIES, "key_value_spatial_dim": KEYS}
    vectors, _ = module(**dims, query_offset=tensor(offsets, batch))
    matrix = module.full_matrix(**dims, query_offset=tensor(offsets, batch))
    sines, _ = rf.relative_positional_encoding(**dims, feat_dim=FEAT, query_offset=tensor(offsets, batch))
    for seq, offset in enumerate(offsets):
        assert_same(rf.gather(vectors, indices=seq, axis=batch), module(**dims, query_offset=offset)[0])
        assert_same(rf.gather(matrix, indices=seq, axis=batch), module.full_matrix(**dims, query_offset=offset))
        expected, _ = rf.relative_positional_encoding(**dims, feat_dim=FEAT, query_offset=offset)
        assert_same(rf.gather(sines, indices=seq, axis=batch), expected)
