"""All models of transformers that can be built small: random weights, two layers, inputs by the names of their parameters."""

from __future__ import annotations

import inspect
from typing import Any

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

BATCH, TIME = 2, 8
_SMALL = {
    "hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32, "embed_dim": 32, "hidden_dim": 32, "encoder_hidden_dim": 32,
    "num_hidden_layers": 2, "num_layers": 2, "n_layer": 2, "n_layers": 2, "encoder_layers": 2, "decoder_layers": 2,
    "num_encoder_layers": 2, "num_decoder_layers": 2, "depth": 2, "num_block_layers": 2,
    "num_attention_heads": 4, "num_heads": 4, "n_head": 4, "n_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "d_kv": 8, "d_head": 8,
    "attention_head_dim": 8, "kv_channels": 8, "embedding_size": 32, "intermediate_size": 48, "d_ff": 48, "ffn_dim": 48,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "n_inner": 48, "d_inner": 48, "ffn_hidden_size": 48,
    "vocab_size": 60, "src_vocab_size": 60, "tgt_vocab_size": 60, "type_vocab_size": 2, "max_position_embeddings": 64, "n_positions": 64,
    "n_ctx": 64, "max_source_positions": 64, "max_target_positions": 64, "block_size": 4, "image_size": 32, "patch_size": 8,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "q_lora_rank": 8, "kv_lora_rank": 8,
    "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1, "sep_token_id": 3, "conv_dim": [16, 16], "conv_stride": [5, 2], "conv_kernel": [10, 3],
    "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "num_mel_bins": 16,
    "attention_window": 4, "sliding_window": 4, "local_attention_window": 4, "projection_dim": 16, "num_channels": 3,
    "lru_width": 32, "attention_hidden_size": 32, "mamba_d_state": 8, "state_size": 8, "num_buckets": 4, "axial_pos_shape": [2, 4],
    "axial_pos_embds_dim": [16, 16], "rope_parameters": None, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 60,
    "local_radius": 3, "num_queries": 5, "num_latents": 6, "d_latents": 32, "window_size": 4, "attn_implementation": "eager",
    "feature_size": 16, "num_labels": 3, "entity_vocab_size": 9, "entity_emb_size": 8, "max_2d_position_embeddings": 64,
}  # fmt: skip
FAMILIES = sorted(set(MODEL_MAPPING_NAMES) & set(CONFIG_MAPPING_NAMES))


class CannotBuildError(Exception):
    """This model needs more than sizes."""


def built(family: str, **options: Any) -> torch.nn.Module:
    """A small model of a family, in eval mode.

    Raises:
        CannotBuildError: If it needs more than sizes, or is large.
    """
    kinds = MODEL_MAPPING_NAMES[family]
    try:
        model_class = getattr(transformers, kinds if isinstance(kinds, str) else kinds[0])
        config_class = getattr(transformers, CONFIG_MAPPING_NAMES[family])
        config = _config(config_class, options)
        with torch.device("meta"):
            count = sum(each.numel() for each in model_class(config).parameters())
    except Exception as error:
        raise CannotBuildError(f"{type(error).__name__}: {error}") from error
    if count > 12_000_000:
        raise CannotBuildError(f"{count} parameters")
    torch.manual_seed(5)
    try:
        model = model_class(config).eval()
    except Exception as error:
        raise CannotBuildError(f"{type(error).__name__}: {error}") from error
    for parameter in model.parameters():
        if not parameter.isfinite().all() or parameter.numel() and float(parameter.detach().abs().max()) == 0:
            parameter.data.normal_(std=0.1)
    return model


def _config(kind: Any, options: Any) -> Any:
    """A small config; those that are in it are small, too."""
    own = inspect.signature(kind.__init__).parameters if "__init__" in vars(kind) else {}
    names = {*own, *getattr(kind, "__annotations__", {}), *getattr(kind, "attribute_map", {})}
    for base in kind.__mro__:
        names |= set(getattr(base, "__annotations__", {}))
    try:
        default = kind()
        names |= set(vars(default))
    except Exception:
        default = None
    given = {}
    for name, value in _SMALL.items():
        usual = getattr(default, name, None)
        if name in names and not (isinstance(usual, (list, tuple)) and not isinstance(value, list)):
            if name == "rope_parameters" or (isinstance(value, list) and not isinstance(usual, (list, tuple))):
                continue
            given[name] = value
    given |= options
    inner = getattr(kind, "sub_configs", None) or {}
    for name, part in inner.items():
        found = getattr(default, name, None)
        part = type(found) if found is not None else part
        if "AutoConfig" not in part.__name__:
            small = _config(part, options)
            given[name] = small if default is None else small.to_dict()
    for name in ("layer_types", "block_types", "mlp_layer_types"):
        usual = getattr(default, name, None)
        if isinstance(usual, (list, tuple)) and len(usual) > 2:
            several = list(dict.fromkeys(usual))
            given[name] = (several * 2)[:2]
    given["attn_implementation"] = "eager"
    for _ in range(6):
        try:
            return kind(**given)
        except TypeError as error:
            wrong = next((name for name in given if f"'{name}'" in str(error)), None)
            if wrong is None:
                raise
            del given[wrong]
    return kind(**given)


def inputs_of(model: torch.nn.Module, family: str) -> dict[str, Any]:
    """Choose the inputs by the names of the parameters of `forward`."""
    torch.manual_seed(7)
    config, given = model.config, {}
    text = getattr(config, "text_config", None) or config
    names = list(inspect.signature(model.forward).parameters)
    ids = torch.randint(4, min(50, int(getattr(text, "vocab_size", None) or 50)), (BATCH, TIME))
    vision = getattr(config, "vision_config", None) or config
    size = getattr(vision, "image_size", None) or 32
    height, width = (size if isinstance(size, (list, tuple)) else (size, size))[-2:]
    channels = getattr(vision, "num_channels", None) or 3
    audio = getattr(config, "audio_config", None) or config
    widths = ("num_mel_bins", "feature_size", "input_feat_per_channel", "feature_projection_input_dim", "n_mels")
    mels = next((n for n in (getattr(audio, name, None) for name in widths) if isinstance(n, int)), 16)
    makers = {
        "input_ids": lambda: ids,
        "decoder_input_ids": lambda: ids[:, :5],
        "pixel_values": lambda: torch.randn(BATCH, int(channels), int(height), int(width)),
        "input_values": lambda: torch.randn(BATCH, 400),
        "input_features": lambda: torch.randn(
            BATCH, 2 * int(getattr(audio, "max_source_positions", 0) or 12), mels
        ).transpose(1, 2),
    }
    main = getattr(model, "main_input_name", "input_ids")
    wanted = [main, *(name for name in makers if name in names)]
    if "input_ids" in wanted and "input_values" in wanted:
        wanted.remove("input_values" if main == "input_ids" else "input_ids")
    for name in dict.fromkeys(wanted):
        if name in makers:
            given[name] = makers[name]()
    return given
