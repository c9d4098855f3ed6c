"""Any class of `transformers` made tiny from its configuration: fields by rules, inner configurations likewise, a table of exceptions.

tiny("LlamaForCausalLM")  ->  the model in eval mode, with weights large enough that nothing is a tie
"""

from __future__ import annotations

import contextlib
import inspect
import re
from typing import Any

import torch
import transformers

WORDS = 99
LARGEST = 60_000_000
# Fields by their names, the first pattern that fits counts. A list keeps its length and gets the number in each place.
_RULES: list[tuple[str, Any]] = [
    (r"type_vocab_size|num_token_types", 2),
    (r".*vocab_size(_per_layer_input)?|num_embeddings|codebook_size|n_words|num_codevectors.*|audio_vocab_size", WORDS),
    (r"(num|n)_?(hidden|encoder|decoder|text|block|speech|flow|predictor|duration_predictor)?_?(layers|layer|hidden_layers)"
     r"|.*(encoder|decoder|predictor|resampler|adapter|qformer|post_quant)_layers|num_\w*hidden_layers|depths?|n_layers?|num_blocks|layers",
     2),
    (r"num_key_value_heads|.*kv_heads|num_key_value_groups|multi_query_group_num", 2),
    (r"(.*_)?(attention_heads|num_heads|n_heads?|num_heads_\w+|attn_heads|n_?heads)|linear_num_(key|value)_heads|mamba_num_heads", 4),
    (r"rotary_dim|rope_dim", 8),
    (r"head_dim|.*_head_dim|d_kv|d_head|kv_channels|head_size|attention_head_size|attention_head_dim|global_head_dim", 16),
    (r"qk_rope_head_dim", 16),
    (r".*intermediate_size\w*|.*ffn_dim|d_ff|.*ffn_hidden_size|ffn_size|n_inner|mlp_dim|d_inner|feedforward_dim|inner_dim", 96),
    (r"hidden_size|d_model|n_embd|dim|embed_dim|hidden_dim|model_dim|width|.*_hidden_size|.*_hidden_dim|.*embed_dim|.*embedding_size"
     r"|text_width|d_embed|word_embed_proj_dim|embedding_dim|emb_dim|lru_width|attention_dim|output_dim|.*projection_dim|out_hidden_size"
     r"|encoder_dim|decoder_dim|hidden_channels|.*_embed_size", 64),
    (r"max_position_embeddings|n_positions|n_ctx|max_(source|target)_positions|max_seq_len|max_sequence_length|context_length"
     r"|max_2d_\w+", 64),
    (r"image_size|img_size|input_size", 32),
    (r"patch_size|.*_patch_size", 8),
    (r"num_mel_bins|n_mels|input_feat_per_channel", 16),
    (r"num_experts|num_local_experts|n_routed_experts|moe_num_experts|num_moe_experts", 4),
    (r"num_experts_per_tok|moe_k|moe_topk|top_k_experts|num_selected_experts|moe_num_experts_per_tok", 2),
    (r"n_group|topk_group|n_shared_experts|num_shared_experts|first_k_dense_replace|decoder_sparse_step", 1),
    (r"(q|kv|o|v)_lora_rank|.*_rank", 16),
    (r"attention_window|sliding_window|window_size|.*_window_size|attention_chunk_size", 4),
    (r"state_size|mamba_d_state|mamba_n_groups|n_groups|ssm_state_size", 8),
    (r"axial_pos_shape", [4, 16]),
    (r"axial_pos_embds_dim", [32, 32]),
    (r"num_labels", 3),
    (r"num_frames|frames", 2),
    (r"qk_nope_head_dim", 16),
]  # fmt: skip
_LARGE = re.compile(r".*(size|dim|dims|width|channels|rank|units|hidden|inner|features|filters|embed).*")
_TOKEN = re.compile(r".*_token(_id|_index)?|.*_(start|end|pad|bos|eos)_id|(pad|bos|eos|sep|cls|unk|mask|blank)_id")
_STANDARD = {
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "sep_token_id": 3,
    "blank_token_id": 0,
}
_PATTERNS = (
    "layer_types",
    "block_types",
    "mlp_layer_types",
    "layers_block_type",
    "hybrid_override_pattern",
    "indexer_types",
)
_FILLED = {"head_dim": 16, "num_key_value_heads": 2, "sliding_window": 4}
# What no rule tells. A key with a dot is a field of a configuration inside.
SPECIAL: dict[str, dict[str, Any]] = {
    "BambaConfig": {"attn_layer_indices": [1]},
    "GraniteMoeHybridConfig": {"layer_types": ["mamba", "attention"]},
    "JambaConfig": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1},
    "Mamba2Config": {"num_heads": 8, "head_dim": 16, "n_groups": 2},
    "Zamba2Config": {
        "mamba_headdim": 16, "n_mamba_heads": 8, "num_mem_blocks": 1, "attention_hidden_size": 128, "attention_head_dim": 32,
    },
    "xLSTMConfig": {"hidden_size": 128, "embedding_dim": 128, "num_heads": 4, "num_blocks": 2, "chunk_size": 16},
    "GPTNeoConfig": {"attention_types": [[["global", "local"], 1]]},
    "ReformerConfig": {"is_decoder": True, "attn_layers": ["local", "lsh"], "num_buckets": 4, "axial_pos_embds": False},
    "LongcatFlashConfig": {"head_dim": 16, "qk_rope_head_dim": 16, "qk_head_dim": 32},
    "DeepseekV2Config": {"num_experts_per_tok": 2, "topk_group": 1, "n_group": 1},
    "Gemma3nTextConfig": {
        "num_hidden_layers": 4, "num_kv_shared_layers": 2, "intermediate_size": 96, "activation_sparsity_pattern": [0.0] * 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2, "laurel_rank": 4, "hidden_size_per_layer_input": 8,
    },
    "DoryConfig": {"sliding_window": 64},
    "Qwen2_5OmniThinkerConfig": {"vision_start_token_id": 20},
    "Qwen3OmniMoeThinkerConfig": {"vision_start_token_id": 20},
    "XmodConfig": {"default_language": "en_XX"},
    "MimiConfig": {"codebook_size": 64, "upsample_groups": 64},
    "KyutaiSpeechToTextConfig": {"codebook_size": 64},
    "MoshiConfig": {"audio_vocab_size": 64, "depth_decoder_config.input_size": 64, "depth_decoder_config.audio_vocab_size": 64},
    "MusicgenConfig": {"decoder.vocab_size": 64},
    "MusicgenMelodyConfig": {"decoder.vocab_size": 64},
    "Pop2PianoConfig": {"composer_vocab_size": 1},
    "CsmConfig": {"codebook_size": 64},
    "MoonshineStreamingConfig": {"num_key_value_heads": 4},
    "Apertus1p5Config": {
        "image_token_offset": 40, "audio_token_offset": 72, "text_config.vocab_size": 80, "vision_config.codebook_size": 32,
        "audio_config.codebook_size": 8,
    },
    "BailingHybridConfig": {"num_expert_group": 1, "topk_group": 1, "qk_head_dim": 32, "num_key_value_heads": 4},
    "Blip2Config": {"image_token_index": 5, "num_query_tokens": 4},
    "InstructBlipConfig": {"image_token_index": 5, "num_query_tokens": 4},
    "InstructBlipVideoConfig": {"image_token_index": 5, "video_token_index": 5, "num_query_tokens": 4},
    "BltConfig": {"encoder_hash_byte_group_vocab": 50, "num_hidden_layers": 2},
    "ChameleonConfig": {"vocabulary_map": {"<image>": 5, "IMGIMGA": 6}},
    "Emu3Config": {"vocabulary_map": {"<image>": 5, "<|visual token 000000|>": 6, "<|extra_200|>": 7}},
    "CohereCompassTextConfig": {
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}, "layer_types": ["full_attention"] * 2,
    },
    "DbrxConfig": {"attn_config.kv_n_heads": 2, "attn_config.rope_theta": 1e4, "attn_config.clip_qkv": 8.0},
    "DeepseekOcr2TextConfig": {
        "mlp_layer_types": ["dense", "sparse"], "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "topk_method": "greedy",
    },
    "Dots3NoteTextConfig": {"num_key_value_heads": 4, "num_attention_heads": 4},
    "DiaDecoderConfig": {"cross_num_key_value_heads": 4},
    "DiffusionGemmaTextConfig": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 96},
    "Dots1Config": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "Ernie4_5_VLMoeTextConfig": {
        "head_dim": 16, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [3, 3, 2]},
    },
    "FunAsrNanoConfig": {"adaptor_config.intermediate_size": 16},
    "Granite4VisionConfig": {"deepstack_layer_map": [[0, 0]], "spatial_target_layers": [1], "downsample_rate": "1/2"},
    "GraniteSpeech5EncoderConfig": {"subsample_layers": [], "context_size": 16},
    "Inkling2TextConfig": {"rel_extent": 16, "num_key_value_heads": 4, "swa_num_key_value_heads": 4},
    "Inkling2LoopTextConfig": {
        "rel_extent": 16, "loop_layer_index_start": 1, "loop_layer_index_end": 2, "n_layers_per_attn_res_block": 1, "num_hidden_layers": 4,
        "layer_types": ["hybrid_sliding", "hybrid"] * 2, "num_key_value_heads": 4, "swa_num_key_value_heads": 4,
    },
    "InklingTextConfig": {"num_key_value_heads": 4, "swa_num_key_value_heads": 4, "unpadded_vocab_size": 99, "rel_extent": 16},
    "Lfm2MoeConfig": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "Mistral4Config": {"head_dim": 32, "qk_head_dim": 32},
    "Molmo2Config": {"adapter_config.vision_feature_layer": [1, 0], "vision_config.num_position_embeddings": 16},
    "MuseSparkAudioConfig": {"num_hidden_layers": 4},
    "EncodecConfig": {"codebook_size": 64},
    "NemotronHConfig": {"layers_block_type": ["mamba", "attention"], "hybrid_override_pattern": "M*", "n_groups": 2},
    "RadioConfig": {"video_temporal_patch_size": 2},
    "OmniASRAudioConfig": {"num_conv_pos_embedding_groups": 4},
    "Qwen3OmniMoeTalkerConfig": {"spatial_merge_size": 2},
    "Qwen3OmniMoeTalkerTextConfig": {"shared_expert_intermediate_size": 96},
    "Qwen4ExpTextConfig": {
        "indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 4, "indexer_compress_ratio": 2,
    },
    "VibeVoiceAcousticTokenizerEncoderConfig": {"num_filters": 4, "depths": (1,) * 4, "downsampling_ratios": (2, 2, 4)},
    "VibeVoiceAcousticTokenizerConfig": {"num_filters": 4, "depths": (1,) * 4, "downsampling_ratios": (2, 2, 4)},
    "VibeVoiceAsrConfig": {"acoustic_tokenizer_chunk_size": 160},
    "Kosmos2Config": {"latent_query_num": 4},
    "Llama4VisionConfig": {"intermediate_size": 256},
    "ClvpEncoderConfig": {"num_attention_heads": 2},
    "Gemma4AssistantConfig": {"backbone_hidden_size": 64, "num_centroids": 11, "centroid_intermediate_top_k": 4},
    "ZambaConfig": {
        "num_hidden_layers": 4, "layers_block_type": ["mamba", "hybrid"] * 2, "attention_hidden_size": 128, "attention_head_dim": 32,
    },
}  # fmt: skip
COMBINED = {
    "Gemma4AssistantForCausalLM": lambda: small(
        transformers.Gemma4AssistantConfig,
        text_config=small(
            transformers.Gemma4TextConfig,
            hidden_size_per_layer_input=0,
            vocab_size_per_layer_input=0,
            num_kv_shared_layers=2,
        ),
    ),
    "EncoderDecoderModel": lambda: transformers.EncoderDecoderConfig.from_encoder_decoder_configs(
        small(transformers.BertConfig), small(transformers.BertConfig, is_decoder=True, add_cross_attention=True)
    ),
    "SpeechEncoderDecoderModel": lambda: transformers.SpeechEncoderDecoderConfig.from_encoder_decoder_configs(
        small(transformers.Wav2Vec2Config), small(transformers.BertConfig, is_decoder=True, add_cross_attention=True)
    ),
    "VisionEncoderDecoderModel": lambda: transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        small(transformers.ViTConfig), small(transformers.BertConfig, is_decoder=True, add_cross_attention=True)
    ),
    "VisionTextDualEncoderModel": lambda: transformers.VisionTextDualEncoderConfig.from_vision_text_configs(
        small(transformers.CLIPVisionConfig), small(transformers.BertConfig)
    ),
}


class CannotBuildError(Exception):
    """This class needs more than sizes."""


def small(kind: Any, /, how: int = 0, sections: Any = None, **options: Any) -> Any:
    """A configuration of a class: 0 all fields by the rules, 1 without lists, 2 as wide as it is with few layers."""
    special = SPECIAL.get(kind.__name__, {})
    try:
        default = kind()
    except Exception:
        return kind(**special | options)
    fields = {name: value for name, value in vars(default).items() if not name.startswith("_")}
    given: dict[str, Any] = {}
    tokens = 3
    for name, value in fields.items():
        if isinstance(value, transformers.PreTrainedConfig):
            own = {key.split(".")[1]: each for key, each in special.items() if key.startswith(f"{name}.")}
            given[name] = small(type(value), how, sections, **own)
        elif name in _PATTERNS and isinstance(value, (list, tuple)) and len(value) > 2:
            given[name] = (list(dict.fromkeys(value)) * 2)[:2]
        elif _TOKEN.fullmatch(name) and isinstance(value, (int, list)) and not isinstance(value, bool):
            tokens += 1
            given[name] = _STANDARD.get(name, tokens)
        elif (shrunk := _shrunk(name, value, how)) is not None:
            given[name] = shrunk
        elif name in _FILLED and value is None:
            given[name] = _FILLED[name]
        elif isinstance(value, dict) and re.fullmatch(r"rope_(parameters|scaling)", name):
            given[name] = _rope(value, sections)
    heads = [None, None]
    with contextlib.suppress(Exception):  # each layer has others
        heads = [getattr(default, name, None) for name in ("num_attention_heads", "num_key_value_heads")]
    if heads[0] is not None and heads[0] == heads[1]:
        given["num_key_value_heads"] = given.get("num_attention_heads", heads[0])
    few = len(next((given[name] for name in _PATTERNS if name in given), ()))
    if few > 2:
        given |= {name: few for name in given if name in ("num_hidden_layers", "n_layers", "num_layers")}
    given |= {key: each for key, each in special.items() if "." not in key} | options
    for _ in range(8):
        try:
            return kind(**given)
        except TypeError as error:
            wrong = next((name for name in given if f"'{name}'" in str(error)), None)
            if wrong is None:
                raise
            del given[wrong]
    return kind(**given)


def _rope(value: Any, sections: Any) -> Any:
    """Angles of a rotary embedding, by kinds of layers or not; parts for time, height and width that sum to half a head."""
    if value and all(isinstance(each, dict) for each in value.values()):
        return {name: _rope(each, sections) for name, each in value.items()}
    extra = (
        {"mrope_section": sections} if sections else {"mrope_section": [2, 3, 3]} if "mrope_section" in value else {}
    )
    return {**value, **({"rope_theta": 10000.0} if value.get("rope_theta", 1) is None else {}), **extra}


def _shrunk(name: str, value: Any, how: int) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    numbers = isinstance(value, (list, tuple)) and bool(value) and all(type(each) is int for each in value)
    if not whole and not (numbers and how == 0):
        return None
    rule = next((to for pattern, to in _RULES if re.fullmatch(pattern, name)), None)
    if how == 2 and (rule is None or not re.search("vocab|layer|depth|window|position", name)):
        return None
    if rule is None and _LARGE.fullmatch(name) and (whole and value > 64 or numbers and max(value) > 64):
        rule = 64
    if rule is None:
        return None
    if isinstance(rule, list) != numbers and isinstance(rule, list):
        return None
    if numbers and not isinstance(rule, list):
        return type(value)(min(rule, each) for each in value)
    if whole and 0 <= value < rule and "vocab" not in name:
        return None
    return rule


def class_of(name: str) -> Any:
    return getattr(transformers, name)


def ways(name: str) -> Any:
    """Models of a class, one for each way to make its configuration that works; the last error is raised where there is none."""
    kind, error, worked = class_of(name), None, False
    for how, sections in ((0, None), (0, [2, 3, 3]), (0, [2, 1, 1]), (1, None), (2, None)):
        try:
            config = COMBINED[name]() if name in COMBINED else small(kind.config_class, how, sections)
            model = _made(kind, config)
        except Exception as failed:
            error = error or failed
            continue
        worked = True
        yield model
    if not worked:
        raise CannotBuildError(f"{type(error).__name__}: {error}")


def _made(kind: Any, config: Any) -> torch.nn.Module:
    try:
        with torch.device("meta"):
            count = sum(each.numel() for each in kind(config).parameters())
    except Exception:
        count = 0
    if count > LARGEST:
        raise CannotBuildError(f"{count} parameters")
    torch.manual_seed(5)
    model = kind(config).eval()
    for parameter in model.parameters():
        if parameter.is_floating_point():
            bad = not parameter.isfinite().all() or parameter.numel() > 0 and float(parameter.detach().abs().max()) == 0
            if bad:
                parameter.data.normal_(std=0.1)
            elif parameter.ndim > 1 and 0 < float(parameter.detach().std()) < 0.05:
                parameter.data.mul_(0.1 / float(parameter.detach().std()))
    return model


def classes() -> list[str]:
    """All public classes that can be called: those without a forward of their own are what others are made of."""
    found = []
    for name in dir(transformers):
        kind = getattr(transformers, name) if re.match("x?[A-Z]", name) else None
        if not inspect.isclass(kind) or not issubclass(kind, transformers.PreTrainedModel):
            continue
        if any("forward" in vars(base) for base in kind.__mro__ if base.__module__.startswith("transformers")):
            found.append(name)
    return found
