"""Makes the inputs of a model of `transformers` from the parameter names of its `forward`, and from its errors."""

from __future__ import annotations

import inspect
from typing import Any

import torch

BATCH, TIME = 2, 8


def _first(configs: list[Any], names: tuple[str, ...], otherwise: Any) -> Any:
    for config in configs:
        for name in names:
            found = getattr(config, name, None)
            if isinstance(found, (int, list, tuple)) and not isinstance(found, bool):
                return found
    return otherwise


def _configs(config: Any, *kinds: str) -> list[Any]:
    inner = [getattr(config, name, None) for name in getattr(config, "sub_configs", None) or {}]
    inner += [each for each in vars(config).values() if hasattr(each, "to_dict") and each not in inner]
    inner = [each for each in inner if each is not None]
    named = [each for each in inner if any(kind in type(each).__name__.lower() for kind in kinds)]
    others = [each for each in inner if each not in named and hasattr(each, "to_dict")]
    deeper = [found for each in others for found in _configs(each, *kinds) if found is not each]
    return [*named, config, *deeper, *inner]


def makers(model: torch.nn.Module) -> dict[str, Any]:
    """Functions that make what a parameter of this name gets."""
    config = model.config
    text, vision = (
        _configs(config, "text", "decoder", "thinker"),
        _configs(config, "vision", "image", "backbone", "vit"),
    )
    audio = _configs(config, "audio", "speech", "encoder")
    words = min(90, int(_first(text, ("vocab_size", "n_words", "src_vocab_size"), 90)))
    ids = torch.randint(min(40, words // 2), words, (BATCH, TIME))
    size = _first(vision, ("image_size", "img_size", "input_size"), 32)
    height, width = (size if isinstance(size, (list, tuple)) else (size, size))[-2:]
    channels = int(_first(vision, ("num_channels", "in_channels", "in_chans"), 3))
    widths = (
        "num_mel_bins",
        "n_mels",
        "input_feat_per_channel",
        "feature_size",
        "feature_projection_input_dim",
        "input_dim",
    )
    mels = int(_first(audio, widths, 16))
    frames = 2 * int(_first(audio, ("max_source_positions",), 16))
    hidden = int(_first(text, ("hidden_size", "d_model", "n_embd"), 64))
    images = lambda: torch.randn(BATCH, channels, int(height), int(width))  # noqa: E731
    lags = getattr(config, "lags_sequence", None) or [0]
    past = int(_first([config], ("context_length", "seq_length"), 8)) + max(lags)
    ahead = int(_first([config], ("prediction_length", "horizon_length"), 4))
    factors = int(_first([config], ("num_time_features",), 1) or 1)
    series = int(_first([config], ("num_input_channels", "input_size"), 1))
    values = lambda n: torch.randn(BATCH, n) if series == 1 and lags != [0] else torch.randn(BATCH, n, series)  # noqa: E731
    return {
        "input_ids": lambda: ids,
        "decoder_input_ids": lambda: ids[:, :5],
        "bbox": lambda: torch.tensor([1, 2, 5, 9]).expand(BATCH, TIME, 4),
        "pixel_values": images,
        "pixel_values_videos": lambda: images()[:, None].repeat(1, int(_first(vision, ("num_frames", "frames"), 2)), 1, 1, 1),
        "pixel_mask": lambda: torch.ones(BATCH, int(height), int(width), dtype=torch.long),
        "input_values": lambda: torch.randn(BATCH, 2400),
        "input_features": lambda: torch.randn(BATCH, mels, frames),
        "audio_values": lambda: torch.randn(BATCH, 1, 800),
        "flattened_patches": lambda: torch.cat(
            [torch.ones(BATCH, 6, 2), torch.randn(BATCH, 6, int(_first(vision, ("patch_embed_hidden_size",), 192)))], -1
        ),
        "visual_feats": lambda: torch.randn(BATCH, 5, int(getattr(config, "visual_feat_dim", 64))),
        "visual_embeds": lambda: torch.randn(BATCH, 5, int(getattr(config, "visual_embedding_dim", 64))),
        "visual_pos": lambda: torch.rand(BATCH, 5, 4),
        "inputs_embeds": lambda: torch.randn(BATCH, TIME, hidden),
        "encoder_hidden_states": lambda: torch.randn(BATCH, 6, hidden),
        "past_values": lambda: values(past),
        "past_time_features": lambda: torch.randn(BATCH, past, factors),
        "past_observed_mask": lambda: torch.ones_like(values(past)),
        "future_values": lambda: values(ahead),
        "future_time_features": lambda: torch.randn(BATCH, ahead, factors),
        "static_categorical_features": lambda: torch.zeros(BATCH, 1, dtype=torch.long),
        "inputs": lambda: torch.randn(BATCH, 2400) if "Speech" in type(model).__name__ else ids,
        "states": lambda: torch.randn(BATCH, 4, config.state_dim),
        "actions": lambda: torch.randn(BATCH, 4, config.act_dim),
        "rewards": lambda: torch.randn(BATCH, 4, 1),
        "returns_to_go": lambda: torch.randn(BATCH, 4, 1),
        "timesteps": lambda: torch.arange(4).expand(BATCH, 4),
        "attention_mask": lambda: torch.ones(BATCH, TIME, dtype=torch.long),
        "entity_ids": lambda: ids[:, :2] % 3,
        "entity_position_ids": lambda: torch.tensor([[0, 1, -1, -1]] * 2).expand(BATCH, 2, 4),
        "xpath_tags_seq": lambda: torch.zeros(BATCH, TIME, 50, dtype=torch.long),
        "start_positions": lambda: torch.tensor([1, 2]),
        "pixel_values_1": images,
        "question_encoder_last_hidden_state": lambda: torch.randn(BATCH, hidden),
        "task_inputs": lambda: ids,
        "input_points": lambda: torch.rand(BATCH, 1, 2, 2) * 20,
        "input_boxes": lambda: torch.rand(BATCH, 1, 4) * 20,
        "feature_maps": lambda: [images()],
        "clip_values": lambda: torch.randn(BATCH, 800),
        "mask": None, "labels": None,
    }  # fmt: skip


def _ids(*shape: int, first: int = 40, last: int = 90) -> torch.Tensor:
    return torch.randint(first, last, shape)


def _with_image(model: Any) -> dict[str, Any]:
    """Four places of an image before the words, for models that compress an image to four."""
    ids = torch.cat([torch.full((BATCH, 4), 5), _ids(BATCH, TIME)], 1)
    return {"pixel_values": torch.randn(BATCH, 3, 32, 32), "input_ids": ids}


def _with_question(model: Any) -> dict[str, Any]:
    return {
        **_with_image(model),
        "qformer_input_ids": _ids(BATCH, 3),
        "qformer_attention_mask": torch.ones(BATCH, 3, dtype=torch.long),
    }


def _book_rows(model: Any) -> dict[str, Any]:
    books = model.config.decoder.num_codebooks
    return {"input_ids": _ids(BATCH, TIME), "decoder_input_ids": _ids(BATCH * books, 5, first=3, last=60)}


def _kept(model: Any) -> dict[str, Any]:
    """Keys and values of the last layers of a larger model, by the kind of their attention."""
    config = model.config.text_config
    made = {}
    for kind, layer in zip(config.layer_types, config.per_layer_config, strict=True):
        made[kind] = tuple(torch.randn(BATCH, layer.num_key_value_heads, TIME, layer.head_dim) for _ in range(2))
    return {
        "inputs_embeds": torch.randn(BATCH, TIME, 2 * model.config.backbone_hidden_size), "shared_kv_states": made,
        "position_ids": torch.arange(TIME).expand(BATCH, TIME),
    }  # fmt: skip


# Inputs that the names of parameters do not tell, or that have to fit each other.
SPECIAL: dict[str, Any] = {
    "Blip2ForConditionalGeneration": _with_image,
    "InstructBlipForConditionalGeneration": _with_question,
    "InstructBlipVideoForConditionalGeneration": lambda model: {
        **_with_question(model), "pixel_values": torch.randn(BATCH, 1, 3, 32, 32)
    },
    "ClvpModelForConditionalGeneration": lambda model: {
        "input_ids": _ids(BATCH, TIME), "input_features": torch.randn(BATCH, 64, 32), "attention_mask": None,
    },
    "Gemma4AssistantForCausalLM": _kept,
    "Gemma4UnifiedAssistantForCausalLM": _kept,
    "GraniteSpeech5ForCTC": lambda model: {"input_features": torch.randn(BATCH, 32, 64)},
    "IdeficsForVisionText2Text": lambda model: {
        "input_ids": _ids(BATCH, TIME), "pixel_values": torch.randn(BATCH, 1, 3, 32, 32),
        "image_attention_mask": torch.ones(BATCH, TIME, 1, dtype=torch.long),
    },
    "Kosmos2ForConditionalGeneration": lambda model: {
        **_with_image(model), "image_embeds_position_mask": torch.arange(TIME + 4).lt(4).long().expand(BATCH, -1)
    },
    "KyutaiSpeechToTextForConditionalGeneration": lambda model: {"input_ids": _ids(BATCH, TIME, model.config.num_codebooks + 1)},
    "Llama4ForConditionalGeneration": lambda model: {
        "input_ids": torch.cat([torch.full((BATCH, 4), model.config.image_token_id), _ids(BATCH, TIME)], 1),
        "pixel_values": torch.randn(BATCH, 3, 32, 32),
    },
    "MoshiForConditionalGeneration": lambda model: {
        "input_ids": _ids(BATCH, TIME, first=3, last=60),
        **{name: _ids(BATCH, model.config.num_codebooks, TIME, first=3, last=60) for name in ("user_audio_codes", "moshi_audio_codes")},
    },
    "MusicgenForConditionalGeneration": _book_rows,
    "MusicgenMelodyForConditionalGeneration": _book_rows,
    "OmniASRForCTC": lambda model: {"input_values": torch.randn(BATCH, 1, 2400)},
    "Qwen3OmniMoeTalkerForConditionalGeneration": lambda model: {
        "inputs_embeds": torch.randn(BATCH, TIME, 64), "talker_input_ids": _ids(BATCH, TIME),
        "attention_mask": torch.ones(BATCH, TIME, dtype=torch.long), "position_ids": torch.arange(TIME).expand(3, BATCH, TIME),
    },
    "Qwen2_5OmniTalkerForConditionalGeneration": lambda model: {
        "input_ids": _ids(BATCH, TIME), "input_text_ids": _ids(BATCH, TIME), "attention_mask": torch.ones(BATCH, TIME, dtype=torch.long),
        "thinker_reply_part": torch.randn(BATCH, 6, 64), "inputs_embeds": torch.randn(BATCH, TIME, 64),
        "position_ids": torch.arange(TIME).expand(3, BATCH, TIME),
    },
    "RagTokenForGeneration": lambda model: {
        "input_ids": _ids(BATCH, TIME), "context_input_ids": _ids(2 * BATCH, TIME), "n_docs": 2, "doc_scores": torch.randn(BATCH, 2),
        "context_attention_mask": torch.ones(2 * BATCH, TIME, dtype=torch.long),
    },
    "SeamlessM4TTextToUnitForConditionalGeneration": lambda model: {
        "inputs_embeds": torch.randn(BATCH, TIME, model.config.hidden_size), "decoder_input_ids": _ids(BATCH, 5)
    },
    "SpeechT5ForTextToSpeech": lambda model: {
        "input_ids": _ids(BATCH, TIME), "decoder_input_values": torch.randn(BATCH, 6, model.config.num_mel_bins),
        "speaker_embeddings": torch.randn(BATCH, model.config.speaker_embedding_dim),
    },
    "UdopForConditionalGeneration": lambda model: {
        "input_ids": _ids(BATCH, TIME), "bbox": torch.rand(BATCH, TIME, 4), "decoder_input_ids": _ids(BATCH, 5)
    },
    "VoxtralRealtimeForConditionalGeneration": lambda model: {
        "input_ids": _ids(BATCH, TIME), "num_delay_tokens": 1,
        "input_features": torch.randn(BATCH, model.config.audio_config.num_mel_bins, model.config.audio_length_per_tok * TIME),
    },
}  # fmt: skip


def _bark_semantic() -> Any:
    from transformers.models.bark.generation_configuration_bark import BarkSemanticGenerationConfig

    return BarkSemanticGenerationConfig(
        text_encoding_offset=1, text_pad_token=95, semantic_infer_token=96, semantic_vocab_size=60, semantic_pad_token=60, eos_token_id=60,
        max_input_semantic_length=8, semantic_rate_hz=10, max_new_tokens=3, min_eos_p=None,
    )  # fmt: skip


def _bark_coarse() -> Any:
    from transformers.models.bark.generation_configuration_bark import BarkCoarseGenerationConfig

    return BarkCoarseGenerationConfig(
        coarse_semantic_pad_token=70, coarse_rate_hz=15, n_coarse_codebooks=2, coarse_infer_token=71, max_coarse_input_length=8,
        max_coarse_history=16, sliding_window_len=4, max_new_tokens=3,
    )  # fmt: skip


def _composer(model: Any, given: dict[str, Any]) -> dict[str, Any]:
    model.generation_config.composer_to_feature_token = {"composer1": 5}
    return {"input_features": torch.randn(BATCH, 6, model.config.d_model)}


def _language(model: Any, given: dict[str, Any]) -> dict[str, Any]:
    config = model.generation_config
    for name in ("text_decoder_lang_to_code_id", "t2u_lang_code_to_id", "vocoder_lang_code_to_id"):
        setattr(config, name, {"eng": 4})
    words = [chr(97 + i % 26) for i in range(99)]
    config.id_to_text, config.char_to_id = (
        {str(i): each for i, each in enumerate(words)},
        {each: i for i, each in enumerate(words)},
    )
    return {**given, "tgt_lang": "eng"}


# What `generate` gets of a class, where it is not what `forward` gets; `...`: not that of others.
GENERATES: dict[str, Any] = {
    "BarkSemanticModel": lambda model, given: {**given, "semantic_generation_config": _bark_semantic()},
    "BarkCoarseModel": lambda model, given: {
        "semantic_output": _ids(BATCH, TIME, first=3, last=50), "semantic_generation_config": _bark_semantic(),
        "coarse_generation_config": _bark_coarse(), "codebook_size": 10, "max_new_tokens": ...,
    },
    "CsmDepthDecoderForCausalLM": lambda model, given: {
        "input_ids": _ids(BATCH, 2, first=3, last=50), "backbone_last_hidden_state": torch.randn(BATCH, model.config.backbone_hidden_size),
    },
    **dict.fromkeys(
        ("PocketTTSForConditionalGeneration", "GradiumPhononTTSForConditionalGeneration"),
        lambda model, given: {
            "input_ids": torch.cat([given["input_ids"], torch.full((BATCH, 1), model.config.audio_bos_token_id)], 1)
        },
    ),
    "Pop2PianoForConditionalGeneration": _composer,
    **dict.fromkeys(
        [
            f"SeamlessM4T{version}{kind}"
            for version in ("", "v2") for kind in ("ForSpeechToSpeech", "ForTextToSpeech", "ForTextToText", "ForSpeechToText", "Model")
        ],
        _language,
    ),
    **dict.fromkeys(
        ("MusicgenForCausalLM", "MusicgenMelodyForCausalLM"),
        lambda model, given: {**given, "guidance_scale": 1.0, "decoder_start_token_id": 0, "num_return_sequences": 1},
    ),
    "ClvpModelForConditionalGeneration": lambda model, given: {**given, "return_dict_in_generate": True},
    "Qwen3OmniMoeTalkerForConditionalGeneration": lambda model, given: {
        **given, "trailing_text_hidden": torch.randn(BATCH, 6, 64), "tts_pad_embed": torch.randn(1, 1, 64), "output_hidden_states": True,
        "return_dict_in_generate": True, "position_ids": ...,
    },
    "MusicgenMelodyForConditionalGeneration": lambda model, given: {**given, "input_features": torch.randn(BATCH, 4, 12)},
    "KyutaiSpeechToTextForConditionalGeneration": lambda model, given: {"input_values": torch.randn(BATCH, 1, 1920 * 6)},
    "MoshiForConditionalGeneration": lambda model, given: {
        **given, "concat_unconditional_inputs": False, "return_audio_waveforms": False
    },
    "VoxtralRealtimeForConditionalGeneration": lambda model, given: {
        **given,
        "input_features": torch.randn(BATCH, model.config.audio_config.num_mel_bins, model.config.audio_length_per_tok * (TIME + 4)),
    },
}  # fmt: skip


def tried(model: torch.nn.Module) -> Any:
    """Sets of inputs, the likeliest first."""
    torch.manual_seed(7)
    if type(model).__name__ in SPECIAL:
        yield {name: value for name, value in SPECIAL[type(model).__name__](model).items() if value is not None}
    made = makers(model)
    parameters = inspect.signature(model.forward).parameters
    packed = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    required = [name for name, each in parameters.items() if each.default is each.empty and each.kind not in packed]
    main = getattr(model, "main_input_name", "input_ids")
    if isinstance(main, (list, tuple)):
        main = main[0]
    text = ["input_ids"] if "input_ids" in parameters else []
    decoder = ["decoder_input_ids"] if "decoder_input_ids" in parameters else []
    main = [main] if main in parameters else []
    seldom = ("inputs_embeds", "encoder_hidden_states", "input_boxes", "input_points", "inputs")
    everything = [name for name in parameters if name in made and name not in seldom]
    sets = [
        text + required, main + required, main + decoder + required, text + decoder + required, text + main + required,
        text + main + decoder + required, everything, [name for name in everything if name not in text],
        ["inputs_embeds", *required],
    ]  # fmt: skip
    seen, books = [], int(_first(_configs(model.config, "decoder"), ("num_codebooks", "num_code_groups"), 0) or 0)
    for names in sets:
        names = list(dict.fromkeys(names))
        if not names or names in seen or any(made.get(name) is None for name in names):
            continue
        seen.append(names)
        given = {name: made[name]() for name in names}
        yield given
        if books and "input_ids" in given:  # a label of each code book: in rows, or in an axis of its own
            wide = {
                name: value.repeat_interleave(books, 0) for name, value in given.items() if value.dtype == torch.long
            }
            yield {**given, **wide}
            yield {**given, "input_ids": given["input_ids"][..., None].repeat(1, 1, books)}
        if any(name in given for name in ("pixel_values", "input_features", "input_values")):
            yield {name: _other(name, value) for name, value in given.items()}


def _other(name: str, value: Any) -> Any:
    """Videos for images, frames in front for bins, frames for a wave."""
    if name == "pixel_values":
        return value[:, None].repeat(1, 2, 1, 1, 1)
    if name == "input_features":
        return value.transpose(1, 2).contiguous()
    return torch.randn(BATCH, 12, 16) if name == "input_values" else value
