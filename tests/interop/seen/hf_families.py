"""Tiny models of transformers with random weights, by family: two layers, sizes that differ from each other, made without downloads."""

from __future__ import annotations

import torch
import transformers

BATCH, TIME, TARGETS, WORDS = 3, 7, 5, 23
# What models call the keys and values of earlier positions: renamed in 5.24.
CACHE = (
    "cache"
    if "cache" in transformers.modeling_outputs.CausalLMOutputWithPast.__dataclass_fields__
    else "past_key_values"
)
_GPT = {"vocab_size": WORDS, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
_WIDTHS = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24, "max_position_embeddings": 32, **_GPT
}  # fmt: skip
_BART = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 32, "decoder_start_token_id": 2, **_GPT
}  # fmt: skip
_GROUPED = {**_WIDTHS, "num_key_value_heads": 2, "head_dim": 4}
_WINDOW = {**_GROUPED, "sliding_window": 3}
_VISION = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24, "image_size": 12, "patch_size": 4
}  # fmt: skip

# By family: the config, its options, the class of the model, the kind of its inputs.
FAMILIES = {
    "GPT2": ("GPT2Config", {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, **_GPT}, "GPT2LMHeadModel", "text"),
    "Llama": ("LlamaConfig", _GROUPED, "LlamaForCausalLM", "text"),
    "Bart": ("BartConfig", _BART, "BartForConditionalGeneration", "pair"),
    "T5": (
        "T5Config", {"d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 2, **_GPT},
        "T5ForConditionalGeneration", "pair",
    ),
    "Marian": ("MarianConfig", _BART, "MarianMTModel", "pair"),
    "Whisper": (
        "WhisperConfig", {**_BART, "max_source_positions": 11, "max_target_positions": 16, "num_mel_bins": 6},
        "WhisperForConditionalGeneration", "mel",
    ),
    "Wav2Vec2": (
        "Wav2Vec2Config",
        {
            **_WIDTHS, "conv_dim": (8, 8), "conv_stride": (3, 2), "conv_kernel": (4, 3), "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
        },
        "Wav2Vec2ForCTC", "wave",
    ),
    "Bert": ("BertConfig", _WIDTHS, "BertForMaskedLM", "text"),
    "Mistral": ("MistralConfig", _WINDOW, "MistralForCausalLM", "text"),
    "Qwen2": ("Qwen2Config", {**_WINDOW, "use_sliding_window": True, "max_window_layers": 1}, "Qwen2ForCausalLM", "text"),
    "Qwen3": ("Qwen3Config", _GROUPED, "Qwen3ForCausalLM", "text"),
    "Gemma2": ("Gemma2Config", {**_WINDOW, "attn_logit_softcapping": 5.0, "query_pre_attn_scalar": 4}, "Gemma2ForCausalLM", "text"),
    "Gemma3": ("Gemma3TextConfig", {**_WINDOW, "query_pre_attn_scalar": 4}, "Gemma3ForCausalLM", "text"),
    "Phi": ("PhiConfig", _WIDTHS, "PhiForCausalLM", "text"),
    "OPT": (
        "OPTConfig", {**{k: v for k, v in _WIDTHS.items() if k != "intermediate_size"}, "ffn_dim": 24, "word_embed_proj_dim": 16},
        "OPTForCausalLM", "text",
    ),
    "GPTNeoX": ("GPTNeoXConfig", _WIDTHS, "GPTNeoXForCausalLM", "text"),
    "GPTNeo": (
        "GPTNeoConfig",
        {"hidden_size": 16, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 3, **_GPT},
        "GPTNeoForCausalLM", "text",
    ),
    "Falcon": ("FalconConfig", {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, **_GPT}, "FalconForCausalLM", "text"),
    "FalconAlibi": (
        "FalconConfig", {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "alibi": True, **_GPT},
        "FalconForCausalLM", "text",
    ),
    "Bloom": ("BloomConfig", {"hidden_size": 16, "n_layer": 2, "n_head": 4, **_GPT}, "BloomForCausalLM", "text"),
    "DistilBert": ("DistilBertConfig", {"dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24, **_GPT}, "DistilBertForMaskedLM", "text"),
    "Roberta": ("RobertaConfig", {**_WIDTHS, "max_position_embeddings": 40}, "RobertaForMaskedLM", "text"),
    "DebertaV2": ("DebertaV2Config", {**_WIDTHS, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, "DebertaV2Model", "text"),
    "Electra": ("ElectraConfig", {**_WIDTHS, "embedding_size": 8}, "ElectraModel", "text"),
    "MBart": ("MBartConfig", _BART, "MBartForConditionalGeneration", "pair"),
    "Pegasus": ("PegasusConfig", _BART, "PegasusForConditionalGeneration", "pair"),
    "GptOss": (
        "GptOssConfig",
        {**_WINDOW, "num_local_experts": 2, "num_experts_per_tok": 1, "layer_types": ["sliding_attention", "full_attention"]},
        "GptOssForCausalLM", "text",
    ),
    "Mixtral": ("MixtralConfig", {**_GROUPED, "num_local_experts": 2}, "MixtralForCausalLM", "text"),
    "ViT": ("ViTConfig", _VISION, "ViTModel", "image"),
    "CLIP": ("CLIPVisionConfig", _VISION, "CLIPVisionModel", "image"),
}  # fmt: skip

_TYPES = {"layer_types": ["sliding_attention", "full_attention"]}
# More of those whose layers see a window or a chunk, or share the keys of others.
WINDOWED = {
    "Cohere2": ("Cohere2Config", {**_WINDOW, **_TYPES}, "Cohere2ForCausalLM", "text"),
    "Llama4": (
        "Llama4TextConfig",
        {
            **_GROUPED, "attention_chunk_size": 3, "num_local_experts": 2, "interleave_moe_layer_step": 2, "intermediate_size_mlp": 24,
            "no_rope_layer_interval": 2, "attn_temperature_tuning": False,
        },
        "Llama4ForCausalLM", "text",
    ),
    "Gemma3n": (
        "Gemma3nTextConfig",
        {
            **_WINDOW, "num_hidden_layers": 4, "num_kv_shared_layers": 2, "layer_types": 2 * _TYPES["layer_types"],
            "vocab_size_per_layer_input": WORDS, "hidden_size_per_layer_input": 4, "laurel_rank": 4,
            "activation_sparsity_pattern": [0.0] * 4,
        },
        "Gemma3nForCausalLM", "text",
    ),
    # Before version 5 of transformers it computes something else for padding, and for prompts beyond its window.
    "RecurrentGemma": (
        "RecurrentGemmaConfig",
        {**_GROUPED, "attention_window_size": TIME, "lru_width": 16, "block_types": ["recurrent", "attention"]},
        "RecurrentGemmaForCausalLM", "text",
    ),
}  # fmt: skip
_ALL = {**FAMILIES, **WINDOWED}


def made(family: str, implementation: str = "eager", **options) -> torch.nn.Module:
    """A model of a family, in eval mode."""
    name, own, model, _ = _ALL[family]
    torch.manual_seed(5)
    config = getattr(transformers, name)(**{**own, **options})
    config._attn_implementation = implementation
    built = getattr(transformers, model)(config).eval()
    for parameter in built.parameters():  # of random weights attention is flat: which hides mistakes
        if parameter.ndim > 1:
            parameter.data.mul_(5)
        elif not parameter.any():  # biases, sinks
            parameter.data.normal_(std=0.3)
    return built


def inputs(family: str, *, left: bool = False, ragged: bool = True, targets: int = TARGETS) -> dict[str, torch.Tensor]:
    """A batch whose sequences have different lengths."""
    kind = _ALL[family][3]
    torch.manual_seed(7)
    if kind == "image":
        return {"pixel_values": torch.randn(BATCH, 3, 12, 12)}
    words = torch.randint(3, WORDS, (BATCH, targets))
    if kind == "mel":
        return {"input_features": torch.randn(BATCH, 6, 22), "decoder_input_ids": words}
    if kind == "wave":
        return {"input_values": torch.randn(BATCH, 80)}
    ids = torch.randint(3, WORDS, (BATCH, TIME))
    lengths = torch.tensor([TIME, TIME - 2, 3])
    real = torch.arange(TIME)[None] < lengths[:, None]
    mask = (real.flip(1) if left else real).long() if ragged else torch.ones_like(ids)
    batch = {"input_ids": ids.masked_fill(mask == 0, 2), "attention_mask": mask}
    return {**batch, "decoder_input_ids": words} if kind == "pair" else batch
