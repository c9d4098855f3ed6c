"""Import the parameters of a Llama model of `transformers` into an rf.TransformerDecoder, which then gives the same logits.

    decoder = rf.TransformerDecoder(
        None, vocab_dim, model_dim, num_layers=config.num_hidden_layers, num_heads=config.num_attention_heads,
        pos_enc=None, input_embedding_scale=1.0, share_embedding=config.tie_word_embeddings,
        norm={"class": "rf.RMSNorm", "eps": config.rms_norm_eps},
        ff={"class": "rf.FeedForwardGated", "ff_dim": config.intermediate_size},
        layer_opts={"self_att": {"class": "rf.RotaryPosCausalSelfAttention", "with_bias": False}},
    )
    rf.import_params_hf_llama_to_rf_transformer_decoder(model_hf, decoder)

Nothing of `transformers` is imported: the models are recognised by their attributes.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rfnb.core.errors import value_error
from rfnb.interop.torch_nn import import_params_torch_linear_to_rf


def import_params_hf_llama_to_rf_transformer_decoder(model_hf: Any, model_rf: Any) -> None:
    """Copy all parameters of a LlamaForCausalLM into an rf.TransformerDecoder.

    Raises:
        ValueError: If a size or an option of model_rf differs from model_hf.

    Source: Touvron et al. 2023, "LLaMA", section 2.2.
    """
    inner, layers = model_hf.model, list(model_rf.layers)
    _same("layers", len(inner.layers), len(layers), "rf.TransformerDecoder(..., num_layers={})")
    _same("pos_enc", None, model_rf.pos_enc, "rf.TransformerDecoder(..., pos_enc={})")
    _same(
        "scale of the embedding",
        1.0,
        model_rf.input_embedding_scale,
        "rf.TransformerDecoder(..., input_embedding_scale={})",
    )
    tied = bool((model_hf.lm_head.weight == inner.embed_tokens.weight).all())
    shared = model_rf.logits.weight is model_rf.input_embedding.weight
    if shared:
        _same("logits with the weight of the embedding", tied, shared, "rf.TransformerDecoder(..., share_embedding={})")
    embedding = SimpleNamespace(weight=inner.embed_tokens.weight.T, bias=None)
    import_params_torch_linear_to_rf(embedding, model_rf.input_embedding)  # type: ignore[arg-type]
    if not shared:
        import_params_torch_linear_to_rf(model_hf.lm_head, model_rf.logits)
    for layer_hf, layer_rf in zip(inner.layers, layers):
        import_params_hf_llama_decoder_layer_to_rf(layer_hf, layer_rf)
    import_params_hf_llama_rms_norm_to_rf(inner.norm, model_rf.final_layer_norm)


def import_params_hf_llama_decoder_layer_to_rf(model_hf: Any, model_rf: Any) -> None:
    """Copy the parameters of a LlamaDecoderLayer into an rf.TransformerDecoderLayer.

    Raises:
        ValueError: If a size or an option of model_rf differs from model_hf.
    """
    import_params_hf_llama_rms_norm_to_rf(model_hf.input_layernorm, model_rf.self_att_layer_norm)
    import_params_hf_llama_att_to_rf_rotary_att(model_hf.self_attn, model_rf.self_att)
    import_params_hf_llama_rms_norm_to_rf(model_hf.post_attention_layernorm, model_rf.ff_layer_norm)
    import_params_hf_llama_mlp_to_rf_feed_forward_gated(model_hf.mlp, model_rf.ff)


def import_params_hf_llama_mlp_to_rf_feed_forward_gated(model_hf: Any, model_rf: Any) -> None:
    """Copy the parameters of a LlamaMLP into an rf.FeedForwardGated.

    The input of the activation (gate_proj there) comes first in linear_ff, its factor (up_proj) second.

    Raises:
        ValueError: If a size of model_rf differs from model_hf.
    """
    _import_linear([model_hf.gate_proj, model_hf.up_proj], model_rf.linear_ff)
    import_params_torch_linear_to_rf(model_hf.down_proj, model_rf.linear_out)


def import_params_hf_llama_rms_norm_to_rf(model_hf: Any, model_rf: Any) -> None:
    """Copy the weight of a LlamaRMSNorm into the scale of an rf.RMSNorm.

    Raises:
        ValueError: If the size or eps of model_rf differs from model_hf.
    """
    _same("eps of RMSNorm", model_hf.variance_epsilon, model_rf.eps, 'norm={{"class": "rf.RMSNorm", "eps": {}}}')
    _same("size of RMSNorm", len(model_hf.weight), model_rf.scale.dims[0].extent, 'Dim({}, name="model")')
    model_rf.scale.assign(type(model_rf.scale)(model_rf.scale.dims, raw_tensor=model_hf.weight.detach()))


def import_params_hf_llama_att_to_rf_rotary_att(model_hf: Any, model_rf: Any) -> None:
    """Copy the parameters of a LlamaAttention into an rf.RotaryPosCausalSelfAttention (or rf.RotaryPosSelfAttention).

    There the features m and m + half of a head are rotated together, here 2m and 2m + 1, so the features of queries and
    keys are permuted. Keys and values that several heads share there are copied for each of these heads.

    Raises:
        ValueError: If a size, the base or the kind of rotation of model_rf differs from model_hf.
    """
    import torch

    _same("base of the rotation", _rope_base(model_hf.config), model_rf.base, 'self_att_opts={{"base": {}}}')
    heads, size = model_rf.num_heads.extent, model_hf.head_dim
    _same("heads", model_hf.q_proj.out_features // size, heads, "num_heads={}")
    _same(
        "features of a head", size, model_rf.key_dim_per_head.extent, f'key_dim_total=Dim({{}} * {heads}, name="key")'
    )
    _same("bias", model_hf.q_proj.bias is not None, model_rf.qkv.bias is not None, 'self_att_opts={{"with_bias": {}}}')

    def per_head(values: Any, rotary: bool) -> Any:
        """(heads there * size, ...) -> (heads, size, ...)."""
        values = values.detach().reshape(-1, size, *values.shape[1:])
        if rotary:
            pairs = values.reshape(len(values), 2, size // 2, *values.shape[2:])
            values = pairs.transpose(1, 2).reshape(values.shape)
        return values.repeat_interleave(heads // len(values), dim=0)

    parts = [(model_hf.q_proj, True), (model_hf.k_proj, True), (model_hf.v_proj, False)]

    def fused(name: str) -> Any:
        values = [per_head(getattr(part, name), rotary) for part, rotary in parts]
        return torch.cat(values, dim=1).flatten(0, 1)

    bias = None if model_hf.q_proj.bias is None else fused("bias")
    import_params_torch_linear_to_rf(SimpleNamespace(weight=fused("weight"), bias=bias), model_rf.qkv)  # type: ignore[arg-type]
    import_params_torch_linear_to_rf(model_hf.o_proj, model_rf.proj)


def _import_linear(parts: list[Any], model_rf: Any) -> None:
    """Combine several torch.nn.Linear with the same input into one, with outputs concatenated."""
    import torch

    weight = torch.cat([part.weight.detach() for part in parts])
    bias = None if parts[0].bias is None else torch.cat([part.bias.detach() for part in parts])
    import_params_torch_linear_to_rf(SimpleNamespace(weight=weight, bias=bias), model_rf)  # type: ignore[arg-type]


def _rope_base(config: Any) -> float:
    """The base of the rotation, which versions of `transformers` store in different ways.

    Raises:
        ValueError: If it is not the plain rotation.
    """
    rotation: dict[str, Any] = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kind = rotation.get("rope_type", rotation.get("type", "default"))
    if kind != "default":
        raise value_error(
            "import_params_hf_llama: the rotation has a different kind.",
            {"transformers": kind, "rfnb": "default"},
            "Angles here are position * base ** (-2m / size), without scaling.",
        )
    return rotation["rope_theta"] if "rope_theta" in rotation else getattr(config, "rope_theta", 1e4)


def _same(what: str, theirs: Any, ours: Any, fix: str) -> None:
    if theirs != ours:
        raise value_error(
            f"import_params_hf_llama: {what} differs.",
            {"transformers": theirs, "rfnb": getattr(ours, "__name__", ours)},
            "The model of rfnb is made with the sizes and options of the other one:",
            fix.format(theirs),
        )
