"""The checkpoint format of a G2P model: a safetensors file with the weights, and the sizes and symbols in its metadata."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from rfnb.core.atomic_file import write_whole
from rfnb.core.formats import G2P_MODEL, RELEASE, numbered
from rfnb.core.strict_json import read_json
from rfnb.data import g2p
from rfnb.models.g2p import G2P, G2PConfig
from rfnb.nn.module.checkpoint import CheckpointError, checkpoint_error, raise_problems, set_params
from rfnb.ops.defaults import get_default_device, set_default_device_ctx

_NAME = "rfnb-g2p-"  # name of the format, followed by its version
SHIPPED = Path(__file__).with_name("g2p.safetensors")


def load_g2p(path: str | os.PathLike[str] | None = None, *, device: str | None = None) -> G2P:
    """The trained model, in float32.

    Args:
        path: A file of `save_g2p`; default is the model that comes with rfnb (see `g2p.md` beside it).
        device: The device of the model, e.g. "cuda"; default is the default device.

    Raises:
        FileNotFoundError: If there is no such file.
        CheckpointError: If the file is damaged, or not a checkpoint of this model.
    """
    file = SHIPPED if path is None else Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"There is no G2P checkpoint at {file}.\n{_how_to_get(path)}")
    try:
        with safe_open(file, framework="numpy") as stored:
            config = _config(file, stored.metadata() or {})
            names = stored.keys()
            _check_shapes(file, config, {name: stored.get_slice(name) for name in names})
            values = {name: stored.get_tensor(name) for name in names}
    except SafetensorError as error:
        size = file.stat().st_size
        raise CheckpointError(
            f"{file} ({size:,} bytes) is damaged, cut off, or no safetensors file: {error}.\n{_how_to_get(file)}"
        ) from error
    raise_problems(str(file), [f"not finite {name}" for name, value in values.items() if not np.isfinite(value).all()])
    with set_default_device_ctx(device or get_default_device()):
        model = G2P(config)
    set_params(model, values, source=str(file))
    return model


def _config(file: Path, metadata: Mapping[str, str]) -> G2PConfig:
    """The sizes stored in a file of this model."""
    version = numbered(metadata.get("format"), _NAME)
    if version is None:
        raise CheckpointError(
            f"{file} is a safetensors file, but not a G2P checkpoint of rfnb.\n"
            f"  format    {metadata.get('format')!s:.100}\n  expected  {_NAME}{G2P_MODEL.now}\n"
            "Checkpoints of this model are written by rfnb.models.g2p_checkpoint.save_g2p."
        )
    problem = G2P_MODEL.problem(version, metadata.get("rfnb"))
    if problem is not None:
        rows, rule, fix = problem
        raise checkpoint_error(
            "load_g2p: a version of the format that this rfnb does not read.", [("file", file), *rows], rule, fix
        )
    try:
        config = G2PConfig(**read_json(metadata["config"]))
        symbols = [tuple(read_json(metadata[name])) for name in ("letters", "labels")]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"The metadata of {file} is not complete: {error}.") from error
    if symbols != [g2p.LETTERS, g2p.LABELS]:
        raise CheckpointError(f"{file} was trained with other letters or phonemes than those of rfnb.data.g2p.")
    sizes = asdict(config)
    dropout = sizes.pop("dropout")
    wrong = [name for name, size in sizes.items() if type(size) is not int or size < (name != "encoder_layers")]
    wrong += ["dropout"] if type(dropout) not in (int, float) or not 0 <= dropout < 1 else []
    if wrong:
        raise CheckpointError(f"The metadata of {file} is not complete: {wrong[0]} is {asdict(config)[wrong[0]]!r}.")
    return config


def parameter_shapes(config: G2PConfig) -> dict[str, tuple[int, ...]]:
    """The shapes of the parameters of a model of this size, by name."""
    letters, labels, embedding, units = len(g2p.LETTERS), len(g2p.LABELS), config.embedding, config.decoder
    shapes: dict[str, tuple[int, ...]] = {"encoder.embedding.weight": (letters, embedding)}
    source = embedding
    for index in range(config.encoder_layers):
        for direction in ("forward", "backward"):
            shapes |= _lstm_shapes(f"encoder.layers.{index}.{direction}", source, config.encoder)
        source = 2 * config.encoder
    return {
        **shapes,
        "decoder.start.weight": (source, units),
        "decoder.start.bias": (units,),
        "decoder.embedding.weight": (labels, embedding),
        **_lstm_shapes("decoder.lstm", embedding, units),
        "decoder.att.keys.weight": (source, units),
        "decoder.readout.weight": (units + source, units),
        "decoder.readout.bias": (units,),
        "decoder.output.weight": (units, labels),
        "decoder.output.bias": (labels,),
    }


def _lstm_shapes(name: str, source: int, units: int) -> dict[str, tuple[int, ...]]:
    return {
        f"{name}.ff_weight": (4 * units, source),
        f"{name}.rec_weight": (4 * units, units),
        f"{name}.bias": (4 * units,),
    }


def _check_shapes(file: Path, config: G2PConfig, stored: Mapping[str, Any]) -> None:
    """Compare the shapes that a model of these sizes needs with the stored ones, before allocating memory for either."""
    if config.encoder_layers > len(stored):
        raise_problems(str(file), [f"missing    encoder.layers.{config.encoder_layers - 1}, and others"])
    needed = parameter_shapes(config)
    problems = [f"missing    {name}" for name in needed if name not in stored]
    problems += [f"not known  {name}" for name in stored if name not in needed]
    for name in needed.keys() & stored.keys():
        shape, dtype = tuple(stored[name].get_shape()), stored[name].get_dtype()
        if shape != needed[name]:
            problems.append(f"shape      {name}: {shape}, needed {needed[name]}")
        elif dtype not in ("F16", "F32", "F64"):
            problems.append(f"dtype      {name}: {dtype}, needed F16, F32 or F64")
    raise_problems(str(file), problems)


def save_g2p(model: G2P, path: str | os.PathLike[str], *, dtype: str = "float16", **notes: str) -> None:
    """Write the model to a file, atomically.

    Args:
        dtype: The dtype of the stored weights. float16 halves the file and changes one in ten thousand pronunciations.
        notes: Further strings for the metadata, e.g. scores.
    """
    metadata = {
        "format": f"{_NAME}{G2P_MODEL.now}",
        "rfnb": RELEASE,
        "config": json.dumps(asdict(model.config)),
        "letters": json.dumps(g2p.LETTERS),
        "labels": json.dumps(g2p.LABELS),
        **notes,
    }
    values = {name: value.astype(dtype) for name, value in parameter_values(model).items()}
    write_whole(path, save(values, metadata))


def parameter_values(model: G2P) -> dict[str, np.ndarray]:
    """The parameters by name, as NumPy arrays on the host."""
    return {name: parameter.numpy() for name, parameter in model.named_parameters()}


def _how_to_get(path: object) -> str:
    if path is None or path == SHIPPED:
        return "Reinstall rfnb to get it back, or train it:\n    python -m rfnb.models.train_g2p --install"
    return "Give the path of a file of save_g2p, or nothing for the model that comes with rfnb:\n    load_g2p()"
