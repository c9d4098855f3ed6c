"""What a model of `transformers` is called with: the names of the parameters of `forward` tell, and its errors say what else."""

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


def tried(model: torch.nn.Module) -> Any:
    """Sets of inputs, the likeliest first."""
    torch.manual_seed(7)
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
