"""Llama with random weights, of plain torch and of an installed `transformers`: with its parameters, an
rf.TransformerDecoder gives its logits."""

import pytest
import torch
from asserting import assert_same, ragged, raises_message, tensor
from interop.plain_llama import PlainLlama

import rfnb as rf
from rfnb import Dim, single_step_dim

batch, vocab, model = Dim(3, name="batch"), Dim(11, name="vocab"), Dim(24, name="model")
LENGTHS = [7, 4, 1]
CONFIG = {
    "vocab_size": 11, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 6, "rms_norm_eps": 1e-5, "attention_bias": False, "tie_word_embeddings": False,
    "rope_theta": 10000.0,
}  # fmt: skip


def llama(**options):
    return random_parameters(PlainLlama(**{**CONFIG, **options}))


def llama_of_transformers(**options):
    transformers = pytest.importorskip("transformers", reason="compares with an installed transformers")
    options = {**CONFIG, "max_position_embeddings": 32, **options}
    if int(transformers.__version__.split(".")[0]) >= 5:
        options["rope_parameters"] = {"rope_type": "default", "rope_theta": options.pop("rope_theta")}
    none = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    made = random_parameters(transformers.LlamaForCausalLM(transformers.LlamaConfig(**none, **options)).eval())
    call = made.forward
    made.forward = lambda ids: call(ids[None], use_cache=False).logits[0]
    return made


def random_parameters(made):
    torch.manual_seed(5)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return made


def decoder(share=False, bias=False, **options):
    self_att = {"class": "rf.RotaryPosCausalSelfAttention", "with_bias": bias, **options.pop("self_att", {})}
    options = {"norm": {"class": "rf.RMSNorm", "eps": 1e-5}, "num_layers": 2, "pos_enc": None, **options}
    return rf.TransformerDecoder(
        None, vocab, model, num_heads=4, input_embedding_scale=1.0, share_embedding=share,
        ff={"class": "rf.FeedForwardGated", "ff_dim": 20}, layer_opts={"self_att": self_att}, **options,
    )  # fmt: skip


def labels(time):
    return tensor(
        torch.randint(0, 11, (3, time.extent), generator=torch.Generator().manual_seed(1)).numpy(),
        batch,
        time,
        sparse_dim=vocab,
    )


def compare(theirs, ours):
    rf.import_params_hf_llama_to_rf_transformer_decoder(theirs, ours)
    time = ragged(LENGTHS, batch)
    ids = labels(time)
    logits, _ = ours(ids, spatial_dim=time, state=ours.default_initial_state(batch_dims=[batch]))
    got = logits.copy_transpose([batch, time, vocab]).raw_tensor
    with torch.no_grad():
        for seq, length in enumerate(LENGTHS):
            expected = theirs(ids.raw_tensor[seq, :length].long())
            torch.testing.assert_close(got[seq, :length], expected, rtol=1e-4, atol=1e-4)


both = pytest.mark.parametrize("make", [llama, llama_of_transformers])


@both
@pytest.mark.parametrize("key_value_heads", [1, 2, 4])
def test_logits_are_those_of_llama(make, key_value_heads):
    compare(make(num_key_value_heads=key_value_heads), decoder())


@both
def test_tied_logits_biases_and_another_base(make):
    theirs = make(tie_word_embeddings=True, attention_bias=True, rope_theta=500.0)
    compare(theirs, decoder(share=True, bias=True, self_att={"base": 500.0}))


@both
def test_heads_of_another_size(make):
    key = Dim(32, name="key")
    compare(make(head_dim=8), decoder(self_att={"key_dim_total": key, "value_dim_total": key}))


def test_step_by_step_with_these_parameters_too():
    ours, time = decoder(), Dim(5, name="time")
    rf.import_params_hf_llama_to_rf_transformer_decoder(llama(), ours)
    ids, state, steps = labels(time), ours.default_initial_state(batch_dims=[batch]), []
    whole, _ = ours(ids, spatial_dim=time, state=state)
    for label in rf.unstack(ids, axis=time):
        step, state = ours(label, spatial_dim=single_step_dim, state=state)
        steps.append(step)
    assert_same(rf.stack(steps, out_dim=time)[0], whole)


@pytest.mark.parametrize(
    ("options", "what", "theirs", "rfnb", "fix"),
    [
        ({"num_layers": 3}, "layers", "2", "3", "rf.TransformerDecoder(..., num_layers=2)"),
        (
            {"pos_enc": rf.sinusoidal_positional_encoding}, "pos_enc", "None", "sinusoidal_positional_encoding",
            "rf.TransformerDecoder(..., pos_enc=None)",
        ),
        ({"norm": rf.RMSNorm}, "eps of RMSNorm", "1e-05", "1e-06", 'norm={"class": "rf.RMSNorm", "eps": 1e-05}'),
        ({"self_att": {"base": 7.0}}, "base of the rotation", "10000.0", "7.0", 'self_att_opts={"base": 10000.0}'),
        ({"bias": True}, "bias", "False", "True", 'self_att_opts={"with_bias": False}'),
        (
            {"share": True}, "logits with the weight of the embedding", "False", "True",
            "rf.TransformerDecoder(..., share_embedding=False)",
        ),
        (
            {"self_att": {"key_dim_total": Dim(32, name="key")}}, "features of a head", "6", "8",
            'key_dim_total=Dim(6 * 4, name="key")',
        ),
    ],
)  # fmt: skip
def test_another_option_or_size(options, what, theirs, rfnb, fix):
    with raises_message(ValueError, f"""
        import_params_hf_llama: {what} differs.
          transformers  {theirs}
          rfnb          {rfnb}
        The model of rfnb is made with the sizes and options of the other one:
            {fix}
    """):  # fmt: skip
        rf.import_params_hf_llama_to_rf_transformer_decoder(llama(), decoder(**options))


def test_another_kind_of_rotation():
    theirs = llama()
    theirs.model.layers[0].self_attn.config.rope_scaling = {"rope_type": "linear", "factor": 2.0}
    with raises_message(ValueError, """
        import_params_hf_llama: the rotation has a different kind.
          transformers  linear
          rfnb          default
        Angles here are position * base ** (-2m / size), without scaling.
    """):  # fmt: skip
        rf.import_params_hf_llama_to_rf_transformer_decoder(theirs, decoder())
