"""The file of a G2P model: a safetensors file with the weights, and the sizes and symbols in its metadata."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from rfnb.core.whole_file import write_whole
from rfnb.data import g2p
from rfnb.models.g2p import G2P, G2PConfig
from rfnb.nn.checkpoint import CheckpointError, check_params_complete, raise_problems, set_params

FORMAT = "rfnb-g2p-1"
SHIPPED = Path(__file__).with_name("g2p.safetensors")


def load_g2p(path: str | os.PathLike[str] | None = None) -> G2P:
    """The trained model, in float32.

    Args:
        path: A file of `save_g2p`; default is the model that comes with rfnb (see `g2p.md` beside it).

    Raises:
        FileNotFoundError: If there is no such file.
        CheckpointError: If the file is damaged, or not a checkpoint of this model.
    """
    file = SHIPPED if path is None else Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"There is no G2P checkpoint at {file}.\n{_how_to_get(path)}")
    metadata, values = _read(file)
    if metadata.get("format") != FORMAT:
        raise CheckpointError(
            f"{file} is a safetensors file, but not a G2P checkpoint of rfnb.\n"
            f"  format    {metadata.get('format')}\n  expected  {FORMAT}\n"
            "Checkpoints of this model are written by rfnb.models.g2p_checkpoint.save_g2p."
        )
    try:
        config = G2PConfig(**json.loads(metadata["config"]))
        symbols = [tuple(json.loads(metadata[name])) for name in ("letters", "labels")]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"The metadata of {file} is not complete: {error}.") from error
    if symbols != [g2p.LETTERS, g2p.LABELS]:
        raise CheckpointError(f"{file} was trained with other letters or phonemes than those of rfnb.data.g2p.")
    model = G2P(config)
    set_parameters(model, values, str(file))
    return model


def save_g2p(model: G2P, path: str | os.PathLike[str], *, dtype: str = "float16", **notes: str) -> None:
    """Write the model to a file, at once or not at all.

    Args:
        dtype: Of the stored weights. float16 halves the file and changes one in ten thousand pronunciations.
        notes: Further strings for the metadata, e.g. scores.
    """
    metadata = {
        "format": FORMAT,
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


def set_parameters(model: G2P, values: Mapping[str, np.ndarray], source: str) -> None:
    """Give the parameters their values; `source` is named in errors.

    Raises:
        CheckpointError: If a parameter is missing, unknown, of another shape, or not finite.
    """
    check_params_complete(model, values, source=source)
    raise_problems(source, [f"not finite {name}" for name, value in values.items() if not np.isfinite(value).all()])
    set_params(model, values, source=source)


def _read(file: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    try:
        with safe_open(file, framework="numpy") as stored:
            return stored.metadata() or {}, {name: stored.get_tensor(name) for name in stored.keys()}
    except SafetensorError as error:
        size = file.stat().st_size
        raise CheckpointError(
            f"{file} ({size:,} bytes) is damaged, cut off, or no safetensors file: {error}.\n{_how_to_get(file)}"
        ) from error


def _how_to_get(path: object) -> str:
    if path is None or path == SHIPPED:
        return "Reinstall rfnb to get it back, or train it:\n    python -m rfnb.models.train_g2p --install"
    return "Give the path of a file of save_g2p, or nothing for the model that comes with rfnb:\n    load_g2p()"
