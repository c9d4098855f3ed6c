"""Checkpoint files of torch, as RETURNN with its torch backend writes them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from rfnb.nn.checkpoint import CheckpointError, Params


def load_torch_checkpoint(filename: str | os.PathLike[str]) -> Params:
    """The parameters of a file of `torch.save` by name, as NumPy arrays; `step` and `epoch` as attributes.

    Names and layouts of rfnb are those of the RETURNN frontend, so this loads a model trained there:

        rf.set_params(model, rf.load_torch_checkpoint("epoch.040.pt"))

    Args:
        filename: {"model": state_dict, "epoch": int, "step": int}, or a bare state_dict.

    Raises:
        FileNotFoundError: If there is no such file.
        CheckpointError: If it is damaged, holds more than tensors and plain values (nothing in it is ever executed), or no
            tensors by name.

    bfloat16, which NumPy lacks, becomes float32.
    """
    import torch

    try:
        data = torch.load(filename, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged pickle fails in any way, e.g. with an IndexError
        raise CheckpointError(
            f"load_torch_checkpoint: {filename} is damaged, or holds more than tensors and plain values.\n"
            f"  cause  {str(error).splitlines()[0] if str(error) else type(error).__name__}\n"
            "Write it with the parameters only:\n"
            '    torch.save({"model": model.state_dict(), "epoch": epoch, "step": step}, filename)'
        ) from error
    about = data if isinstance(data, Mapping) and isinstance(data.get("model"), Mapping) else {}
    state = about.get("model", data)
    if not isinstance(state, Mapping) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise CheckpointError(
            f"load_torch_checkpoint: {filename} has no tensors by name.\n  has  {_what(data)}\n"
            'It is {"model": state_dict, ...} or a state_dict.'
        )
    values = {
        name: (value.float() if value.dtype is torch.bfloat16 else value).detach().numpy()
        for name, value in state.items()
    }
    return Params(values, step=about.get("step"), epoch=about.get("epoch"))


def _what(data: Any) -> str:
    return ", ".join(map(str, data)) if isinstance(data, Mapping) else type(data).__name__
