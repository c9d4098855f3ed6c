"""Transformer modules against torch.nn.TransformerEncoderLayer and TransformerDecoderLayer with the same weights."""

import functools

import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor, with_nan_padding

import rfnb as rf
from rfnb import Dim, DimError, single_step_dim

batch, model, enc, vocab = (Dim(n, name=name) for n, name in ((3, "batch"), (6, "model"), (6, "enc"), (10, "vocab")))
LENGTHS, TARGETS = [7, 4, 1], [2, 5, 3]
SMALL = {"num_layers": 2, "num_heads": 2}


@pytest.fixture
def time():
    return ragged(LENGTHS, batch)


@pytest.fixture
def target():
    return ragged(TARGETS, batch, "target")


def random_parameters(module):
    rf.set_random_seed(3)
    for parameter in module.parameters():
        parameter.initial = rf.Normal(0.5)
    return module


def labels(*dims, seed=0):
    generator = torch.Generator().manual_seed(seed)
    raw = torch.randint(0, 10, [dim.extent for dim in dims], generator=generator)
    return tensor(raw.numpy(), *dims, sparse_dim=vocab)


def copy_norm(ours, theirs):
    theirs.weight.copy_(ours.scale.raw_tensor)
    theirs.bias.copy_(ours.bias.raw_tensor)


def copy_linear(ours, theirs):
    theirs.weight.copy_(ours.weight.copy_transpose([ours._in, ours.out_dim]).raw_tensor.T)
    theirs.bias.copy_(ours.bias.raw_tensor)


def copy_attention(ours, theirs):
    if isinstance(ours, rf.CrossAttention):
        kv = ours.kv.weight.raw_tensor.T.reshape(2, 2, 3, 6).transpose(0, 1).reshape(12, 6)
        theirs.in_proj_weight.copy_(torch.cat([ours.q.weight.raw_tensor.T, kv]))
        kv_bias = ours.kv.bias.raw_tensor.reshape(2, 2, 3).transpose(0, 1).reshape(12)
        theirs.in_proj_bias.copy_(torch.cat([ours.q.bias.raw_tensor, kv_bias]))
    else:
        theirs.in_proj_weight.copy_(ours.qkv.weight.raw_tensor.T.reshape(2, 3, 3, 6).transpose(0, 1).reshape(18, 6))
        theirs.in_proj_bias.copy_(ours.qkv.bias.raw_tensor.reshape(2, 3, 3).transpose(0, 1).reshape(18))
    copy_linear(ours.proj, theirs.out_proj)


def torch_layer(layer):
    decoder = isinstance(layer, rf.TransformerDecoderLayer)
    kind = torch.nn.TransformerDecoderLayer if decoder and layer.cross_att else torch.nn.TransformerEncoderLayer
    theirs = kind(6, 2, 24, dropout=0.0, norm_first=True, batch_first=True, layer_norm_eps=1e-6)
    with torch.no_grad():
        copy_attention(layer.self_att, theirs.self_attn)
        copy_linear(layer.ff.linear_ff, theirs.linear1)
        copy_linear(layer.ff.linear_out, theirs.linear2)
        norms = [layer.self_att_layer_norm, layer.ff_layer_norm]
        if kind is torch.nn.TransformerDecoderLayer:
            copy_attention(layer.cross_att, theirs.multihead_attn)
            norms.insert(1, layer.cross_att_layer_norm)
        for number, norm in enumerate(norms, 1):
            copy_norm(norm, getattr(theirs, f"norm{number}"))
    return theirs


def causal(length):
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def positions(length):
    time = Dim(length, name="t")
    return rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=model).raw_tensor


def final(module, x):
    norm = module.final_layer_norm
    return torch.nn.functional.layer_norm(x, (6,), norm.scale.raw_tensor, norm.bias.raw_tensor, eps=1e-6)


def test_feed_forward_is_two_linear_layers_with_relu():
    module, x = random_parameters(rf.FeedForward(model)), randn(batch, model)
    first, second = (
        (m.weight.raw_tensor, m.bias.raw_tensor) for m in (module.linear_ff, module.linear_out)
    )  # fmt: skip
    assert module.ff_dim.size == 24
    torch.testing.assert_close(
        module(x).raw_tensor, torch.relu(x.raw_tensor @ first[0] + first[1]) @ second[0] + second[1]
    )  # fmt: skip


def test_gated_feed_forward_multiplies_by_a_gate():
    module, x = random_parameters(rf.FeedForwardGated(model, ff_dim=4)), randn(batch, model)
    value, gate = (x.raw_tensor @ module.linear_ff.weight.raw_tensor).split(4, -1)
    expected = (torch.nn.functional.silu(value) * gate) @ module.linear_out.weight.raw_tensor
    torch.testing.assert_close(module(x).raw_tensor, expected)
    assert len(list(module.parameters())) == 2
    assert rf.FeedForwardGated(Dim(96, name="x")).ff_dim.size == 256  # 8 / 3 * 96
    assert rf.FeedForwardGated(Dim(97, name="x")).ff_dim.size == 512


def test_encoder_layer_is_torchs_of_each_sequence_alone(time):
    layer, x = random_parameters(rf.TransformerEncoderLayer(model, num_heads=2)), randn(batch, time, model)
    out = layer(with_nan_padding(x), spatial_dim=time).copy_transpose([batch, time, model]).raw_tensor
    for seq, length in enumerate(LENGTHS):
        expected = torch_layer(layer)(x.raw_tensor[seq : seq + 1, :length])[0]
        torch.testing.assert_close(out[seq, :length], expected, rtol=1e-4, atol=1e-5)


def test_encoder_is_embedding_positions_layers_and_norm(time):
    module, ids = random_parameters(rf.TransformerEncoder(vocab, model, **SMALL)), labels(batch, time)
    collected = {}
    out = module(with_nan_padding(ids), spatial_dim=time, collected_outputs=collected)
    assert out.feature_dim is model and list(collected) == ["0", "1"]
    for seq, length in enumerate(LENGTHS):
        x = module.input_embedding.weight.raw_tensor[ids.raw_tensor[seq, :length].long()] * 6**0.5 + positions(length)
        for layer in module.layers:
            x = torch_layer(layer)(x[None])[0]
        got = out.copy_transpose([batch, time, model]).raw_tensor[seq, :length]
        torch.testing.assert_close(got, final(module, x), rtol=1e-4, atol=1e-5)


def test_encoder_of_features_is_not_scaled():
    module = random_parameters(rf.TransformerEncoder(model, model, input_embedding=None, **SMALL))
    time = Dim(4, name="time")
    x = randn(time, model)
    expected = x.raw_tensor + positions(4)
    for layer in module.layers:
        expected = torch_layer(layer)(expected[None])[0]
    got = module(x, spatial_dim=time).raw_tensor
    torch.testing.assert_close(got, final(module, expected), rtol=1e-4, atol=1e-5)


def decoder_on_torch(module, ids, encoder=None):
    """Logits of one sequence."""
    x = module.input_embedding.weight.raw_tensor[ids.long()] * 6**0.5 + positions(len(ids))
    for layer in module.layers:
        args = (x[None],) if encoder is None else (x[None], encoder[None])
        masks = {"src_mask" if encoder is None else "tgt_mask": causal(len(ids))}
        x = torch_layer(layer)(*args, **masks)[0]
    return final(module, x) @ module.logits.weight.copy_transpose([model, vocab]).raw_tensor


def test_decoder_is_torchs_of_each_sequence_alone(time, target):
    module = random_parameters(rf.TransformerDecoder(enc, vocab, model, **SMALL))
    encoder, ids = randn(batch, time, enc), labels(batch, target)
    logits, _ = module(
        with_nan_padding(ids),
        spatial_dim=target,
        state=module.default_initial_state(batch_dims=[batch]),
        encoder=module.transform_encoder(with_nan_padding(encoder), axis=time),
    )
    for seq, (length, frames) in enumerate(zip(TARGETS, LENGTHS)):
        expected = decoder_on_torch(module, ids.raw_tensor[seq, :length], encoder.raw_tensor[seq, :frames])
        got = logits.copy_transpose([batch, target, vocab]).raw_tensor[seq, :length]
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_language_model_is_torchs_of_each_sequence_alone(target):
    module, ids = random_parameters(rf.TransformerDecoder(None, vocab, model, **SMALL)), labels(batch, target)
    state = module.default_initial_state(batch_dims=[batch])
    logits, _ = module(ids, spatial_dim=target, state=state)
    last, _ = module(ids, spatial_dim=target, state=state, output_only_last_frame=True)
    for seq, length in enumerate(TARGETS):
        expected = decoder_on_torch(module, ids.raw_tensor[seq, :length])
        got = logits.copy_transpose([batch, target, vocab]).raw_tensor[seq, :length]
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(
            last.copy_transpose([batch, vocab]).raw_tensor[seq], expected[-1], rtol=1e-4, atol=1e-5
        )  # fmt: skip


@pytest.mark.parametrize("with_encoder", [True, False])
def test_decoder_in_a_loop_gives_the_logits_of_the_whole_sequence(time, target, with_encoder):
    module = random_parameters(rf.TransformerDecoder(enc if with_encoder else None, vocab, model, **SMALL))
    ids = labels(batch, target)
    encoder = module.transform_encoder(randn(batch, time, enc), axis=time) if with_encoder else None
    whole, _ = module(
        ids, spatial_dim=target, state=module.default_initial_state(batch_dims=[batch]), encoder=encoder
    )  # fmt: skip
    loop = rf.Loop(axis=target)
    loop.state.decoder = module.default_initial_state(batch_dims=[batch])
    for _ in loop:
        logits, loop.state.decoder = module(
            loop.unstack(ids), spatial_dim=single_step_dim, state=loop.state.decoder, encoder=encoder
        )
        stacked = loop.stack(logits)
    assert_same(stacked, whole)


def test_a_sequence_and_then_a_step_is_the_longer_sequence():
    module, time = random_parameters(rf.TransformerDecoder(None, vocab, model, **SMALL)), ragged([2, 5, 3], batch)
    one = Dim(1, name="one")
    ids, label = labels(batch, time), labels(batch, one, seed=1)
    longer, more = rf.concat((ids, time), (label, one))
    _, state = module(ids, spatial_dim=time, state=module.default_initial_state(batch_dims=[batch]))
    step, state = module(rf.squeeze(label, axis=one), spatial_dim=single_step_dim, state=state)
    assert_same(state.pos, tensor(torch.tensor([3, 6, 4], dtype=torch.int32).numpy(), batch))
    start = module.default_initial_state(batch_dims=[batch])
    assert_same(step, module(longer, spatial_dim=more, state=start, output_only_last_frame=True)[0])


def test_names_of_the_parameters():
    layer = ["ff.linear_ff", "ff.linear_out", "ff_layer_norm", "self_att.qkv", "self_att.proj", "self_att_layer_norm"]
    cross = ["cross_att.q", "cross_att.kv", "cross_att.proj", "cross_att_layer_norm"]

    def modules(module):
        return {name.rpartition(".")[0] for name, _ in module.named_parameters()}

    decoder = rf.TransformerDecoder(enc, vocab, model, num_layers=1, num_heads=2)
    names = ["input_embedding", *(f"layers.0.{name}" for name in layer + cross), "final_layer_norm"]
    assert modules(decoder) == set(names)  # the logits have the weight of the embedding
    encoder = rf.TransformerEncoder(vocab, model, num_layers=1, num_heads=2)
    assert modules(encoder) == {"input_embedding", *(f"layers.0.{name}" for name in layer), "final_layer_norm"}


def test_another_embedding_dim_has_a_projection_and_logits_of_their_own():
    small = Dim(4, name="small")
    decoder = rf.TransformerDecoder(None, vocab, model, embed_dim=small, **SMALL)
    encoder = rf.TransformerEncoder(vocab, model, embed_dim=small, **SMALL)
    assert decoder.logits.weight is not decoder.input_embedding.weight
    assert set(decoder.input_embedding_proj.weight.dims) == {small, model}
    time = Dim(3, name="time")
    assert set(encoder(labels(batch, time), spatial_dim=time).dims) == {batch, time, model}
    with raises_message(DimError, """
        TransformerDecoder: there is no embedding of the size of the logits to share.
          embed_dim  small=4
          model_dim  model=6
        Embedding and logits have one weight only if their dims are the same.
            rf.TransformerDecoder(..., share_embedding=False)
    """):  # fmt: skip
        rf.TransformerDecoder(None, vocab, model, embed_dim=small, share_embedding=True, **SMALL)


def test_layers_begin_with_different_weights():
    for module in (rf.TransformerEncoder(vocab, model, **SMALL), rf.TransformerDecoder(None, vocab, model, **SMALL)):
        one, other = (layer.ff.linear_ff.weight.raw_tensor for layer in module.layers)
        assert one.shape == other.shape and not torch.equal(one, other)


def test_parts_from_a_class_a_dict_and_a_pattern():
    pattern = rf.FeedForward(model, ff_dim=5)
    layer = rf.TransformerDecoderLayer(None, model, num_heads=2, ff=pattern, norm={"class": rf.RMSNorm, "eps": 0.1})
    assert layer.ff is not pattern and layer.ff.ff_dim.size == 5
    assert isinstance(layer.ff_layer_norm, rf.RMSNorm) and layer.ff_layer_norm.eps == 0.1
    layer = rf.TransformerDecoderLayer(None, model, num_heads=2, ff={"class": rf.FeedForwardGated, "ff_dim": 7})
    assert isinstance(layer.ff, rf.FeedForwardGated) and layer.ff.ff_dim.size == 7
    layer = rf.TransformerDecoderLayer(
        None, model, num_heads=2, ff=rf.FeedForwardGated, ff_dim=3, ff_activation=rf.gelu
    )
    assert layer.ff.ff_dim.size == 3 and layer.ff.activation is rf.gelu


def test_norms_from_a_class_and_a_function():
    assert isinstance(rf.make_norm(rf.LayerNorm, model), rf.LayerNorm)
    assert rf.make_norm(rf.identity, model) is rf.identity
    with raises_message(TypeError, """
        norm: not something to build a part of a layer from.
          got  str
        A class, a dict with "class" and its options, or a module.
            norm={"class": rf.LayerNorm, "eps": 1e-5}
    """):  # fmt: skip
        rf.make_norm("LayerNorm", model)


def test_a_decoder_that_needs_an_encoder():
    module = rf.TransformerDecoder(enc, vocab, model, num_layers=1, num_heads=2)
    with raises_message(DimError, """
        TransformerDecoderLayer: no encoder.
          encoder_dim  enc=6
        A layer with encoder_dim attends to an encoder, which is projected once:
            encoder = decoder.transform_encoder(encoder, axis=time)
    """):  # fmt: skip
        state = module.default_initial_state(batch_dims=[batch])
        module(labels(batch), spatial_dim=single_step_dim, state=state)


@pytest.mark.parametrize("name", ["TransformerEncoder", "TransformerDecoder"])
def test_a_missing_spatial_dim(time, name):
    with raises_message(DimError, f"""
        {name}: no dim time<=7.
          source  [batch=3]
          dim     time<=7
        The dim time<=7 is not among the dims of source.
            source.dims[0]    # batch=3
    """):  # fmt: skip
        if name == "TransformerEncoder":
            rf.TransformerEncoder(vocab, model, **SMALL)(labels(batch), spatial_dim=time)
        else:
            module = rf.TransformerDecoder(None, vocab, model, **SMALL)
            state = module.default_initial_state(batch_dims=[batch])
            module(labels(batch), spatial_dim=time, state=state)


def test_a_layer_without_its_spatial_dim(time):
    with raises_message(DimError, """
        TransformerEncoderLayer: no dim time<=7.
          x    [batch=3, model=6]
          dim  time<=7
        The dim time<=7 is not among the dims of x.
            x.dims[0]    # batch=3
            x.dims[1]    # model=6
    """):  # fmt: skip
        rf.TransformerEncoderLayer(model, num_heads=2)(randn(batch, model), spatial_dim=time)


@pytest.mark.parametrize("frames", ["static", "ragged"])
def test_training_after_inference_mode_over_the_same_dims(frames):
    """Masks and positions are made once, here in inference mode; autograd must be able to keep them."""
    time = Dim(5, name="time") if frames == "static" else ragged([5, 3, 1], batch)
    module, ids = rf.TransformerDecoder(None, vocab, model, **SMALL), labels(batch, time)
    start = module.default_initial_state(batch_dims=[batch])
    with torch.inference_mode():
        module(ids, spatial_dim=time, state=start)
    logits, _ = module(ids, spatial_dim=time, state=start)
    rf.reduce_sum(logits, axis=[batch, time, vocab]).raw_tensor.backward()
    assert all(parameter.raw_tensor.grad is not None for parameter in module.parameters())


# -- options -----------------------------------------------------------------------------------------------------------
def test_parts_from_names_and_partials():
    layer = rf.TransformerEncoderLayer(
        model, num_heads=2, ff={"class": "rf.FeedForwardGated", "activation": {"class": "rf.gelu"}}, ff_dim=7,
        self_att=functools.partial(rf.RelPosSelfAttention, num_heads=3), norm={"class": "rf.RMSNorm", "eps": 0.1},
    )  # fmt: skip
    assert isinstance(layer.ff, rf.FeedForwardGated) and layer.ff.ff_dim.size == 7 and layer.ff.activation is rf.gelu
    assert layer.self_att.num_heads.size == 3  # what the partial has wins
    assert isinstance(layer.ff_layer_norm, rf.RMSNorm) and layer.ff_layer_norm.eps == 0.1
    assert rf.make_norm(functools.partial(rf.LayerNorm, eps=0.2), model).eps == 0.2
    assert rf.make_norm({"class": "rf.identity"}, model) is rf.identity


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_options_of_the_whole_from_dicts(kind):
    options = {
        "pos_enc": {"class": "rf.sinusoidal_positional_encoding", "base": 100.0}, "sequential": {"class": "rf.Sequential"},
        "ff_dim": 5, "ff_activation": rf.gelu, "input_embedding_scale": 2.0,
    }  # fmt: skip
    time, first = Dim(3, name="time"), []
    if kind == "encoder":
        layer = {"class": "rf.TransformerEncoderLayer", "num_heads": 3}
        embedding = {"class": "rf.Embedding"}
        module = rf.TransformerEncoder(vocab, model, layer=layer, input_embedding=embedding, **options, **SMALL)
    else:
        layer = functools.partial(rf.TransformerDecoderLayer, num_heads=3)
        module = rf.TransformerDecoder(None, vocab, model, layer=layer, **options, **SMALL)
    assert isinstance(module.layers, rf.Sequential)
    assert [each.self_att.num_heads.size for each in module.layers] == [3, 3]
    assert all(each.ff.ff_dim.size == 5 and each.ff.activation is rf.gelu for each in module.layers)
    ids = labels(batch, time)
    module.layers[0].register_forward_hook(lambda layer, args, kwargs, result: first.append(args[0]) or result)
    kwargs = {} if kind == "encoder" else {"state": module.default_initial_state(batch_dims=[batch])}
    module(ids, spatial_dim=time, **kwargs)
    positions = rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=model, base=100.0)
    assert_same(first[0], module.input_embedding(ids) * 2.0 + positions)


def test_an_embedding_of_ones_own_and_none():
    own = rf.Embedding(vocab, model)
    assert rf.TransformerEncoder(vocab, model, input_embedding=own, **SMALL).input_embedding is own
    assert rf.TransformerDecoder(None, vocab, model, input_embedding=own, **SMALL).logits.weight is own.weight
    assert rf.TransformerDecoder(None, vocab, model, input_embedding=False, **SMALL).input_embedding is None


@pytest.mark.parametrize("self_att", ["RotaryPosCausalSelfAttention", "RelPosCausalSelfAttention"])
def test_decoder_without_positions_but_with_distances_in_a_loop(target, self_att):
    heads = {"key_dim_total": Dim(8, name="key")}  # an even number for each head
    options = {"pos_enc": None, "layer_opts": {"self_att": getattr(rf, self_att), "self_att_opts": heads}}
    module = random_parameters(rf.TransformerDecoder(None, vocab, model, **options, **SMALL))
    ids = labels(batch, target)
    whole, _ = module(ids, spatial_dim=target, state=module.default_initial_state(batch_dims=[batch]))
    loop = rf.Loop(axis=target)
    loop.state.decoder = module.default_initial_state(batch_dims=[batch])
    for _ in loop:
        logits, loop.state.decoder = module(loop.unstack(ids), spatial_dim=single_step_dim, state=loop.state.decoder)
        stacked = loop.stack(logits)
    assert_same(stacked, whole)


def test_an_encoder_carries_nothing_and_makes_nothing_of_another_encoder(time):
    module = rf.TransformerEncoder(vocab, model, **SMALL)
    assert module.default_initial_state(batch_dims=[batch]) == {"0": {}, "1": {}}
    assert module.transform_encoder(randn(batch, time, enc), axis=time) == {"0": {}, "1": {}}
    assert module.layers[0].default_initial_state(batch_dims=[batch]) == {}


def test_layers_that_attend_to_another_encoder_project_it_once(time):
    class Layer(rf.TransformerEncoderLayer):
        def __init__(self, **options):
            super().__init__(**options)
            sizes = {"key_dim_total": model, "value_dim_total": model, "num_heads": 2}
            self.cross_att = rf.CrossAttention(enc, model, model, **sizes)

        def transform_encoder(self, encoder, *, axis):
            return self.cross_att.transform_encoder(encoder, axis=axis)

    module, encoder = rf.TransformerEncoder(vocab, model, layer=Layer, **SMALL), randn(batch, time, enc)
    made = module.transform_encoder(encoder, axis=time)
    assert_same(made["1"].k, module.layers[1].cross_att.forward_kv(encoder)[0])


@pytest.mark.parametrize(
    "self_att", ["CausalSelfAttention", "RotaryPosCausalSelfAttention", "RelPosCausalSelfAttention"]
)
def test_scores_of_a_beam_search_are_those_of_whole_sequences(self_att):
    """Keys that were cached go with their hypotheses, which end at different lengths."""
    heads = {"key_dim_total": Dim(8, name="key")}
    options = {"layer_opts": {"self_att": getattr(rf, self_att), "self_att_opts": heads}}
    module = random_parameters(rf.TransformerDecoder(None, vocab, model, **options, **SMALL))
    loop = rf.Loop(max_seq_len=5)
    loop.state.label = rf.set_sparse_dim(rf.zeros([batch], dtype="int64") + 1, vocab)
    loop.state.decoder = module.default_initial_state(batch_dims=[batch])
    for _ in loop:
        logits, loop.state.decoder = module(loop.state.label, spatial_dim=single_step_dim, state=loop.state.decoder)
        loop.state.label = rf.choice(rf.log_softmax(logits, axis=vocab), beam_size=3, axis=vocab)
        loop.end(loop.state.label < 3, include_eos=True)
        found = loop.stack(loop.state.label)
    scores = rf.get_beam_scores(found)
    (beam,) = scores.remaining_dims(batch)
    time = found.remaining_dims([batch, beam])[0]
    before = rf.shift_right(found, axis=time, pad_value=1)
    logits, _ = module(before, spatial_dim=time, state=module.default_initial_state(batch_dims=[batch, beam]))
    expected = rf.reduce_sum(rf.gather(rf.log_softmax(logits, axis=vocab), indices=found), axis=time)
    assert len(set(time.lengths.reshape(-1).tolist())) > 1
    assert_same(scores, expected, tolerance=1e-4)
