"""Checkpoint files of torch, as written by RETURNN with its torch backend."""

from __future__ import annotations

import errno
import functools
import os
import reprlib
from collections.abc import Mapping
from typing import Any

from rfnb.backends.torch_file import load_plain
from rfnb.nn.module.checkpoint import LAYOUT, CheckpointError, Params, checkpoint_error, with_open_layout

_MOST, _TIMES = (
    1 << 26,
    50,
)  # limit on bytes of newly created arrays, or this multiple of the size of the file


def load_torch_checkpoint(filename: str | os.PathLike[str]) -> Params:
    """The parameters of a file of `torch.save` by name, as NumPy arrays; `step` and `epoch` as attributes.

    Names and layouts of rfnb are those of the RETURNN frontend, so this loads a model trained there:

        rf.set_params(model, rf.load_torch_checkpoint("epoch.040.pt"))

    Args:
        filename: {"model": state_dict, "epoch": int, "step": int}, or a bare state_dict.

    Raises:
        FileNotFoundError: If there is no such file.
        CheckpointError: If it is damaged, holds more than tensors and plain values (nothing in it is ever executed), or no
            tensors by name; sparse, quantised and expanded ones are refused.

    bfloat16 and the float8 types, which NumPy lacks, become float32.
    """
    import torch

    if os.path.isdir(filename):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(filename))
    try:
        with open(filename, "rb") as file:
            data = load_plain(file)
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged pickle may raise anything, e.g. an IndexError
        raise CheckpointError(
            f"load_torch_checkpoint: {filename} is damaged, or holds more than tensors and plain values.\n"
            f"  cause  {str(error).splitlines()[0] if str(error) else type(error).__name__}\n"
            "Write it with the parameters only:\n"
            '    torch.save({"model": model.state_dict(), "epoch": epoch, "step": step}, filename)'
        ) from error
    about = data if isinstance(data, Mapping) and isinstance(data.get("model"), Mapping) else {}
    state = about.get("model", data)
    tensors = isinstance(state, Mapping) and all(isinstance(value, torch.Tensor) for value in state.values())
    if not tensors or not all(isinstance(name, str) for name in state):
        raise CheckpointError(
            f"load_torch_checkpoint: {filename} has no tensors by name.\n  has  {_what(data)}\n"
            'It is {"model": state_dict, ...} or a state_dict.'
        )
    problems = [f"{name}: {problem}" for name, value in state.items() if (problem := _problem(value)) is not None]
    problems += [
        f"{name}: {reprlib.repr(about[name])} is not an integer"
        for name in ("step", "epoch")
        if not _is_number(about.get(name))
    ]
    copied = sum(4 * value.numel() for value in state.values() if _is_narrow(value)) if not problems else 0
    if copied > max(_MOST, _TIMES * os.path.getsize(filename)):  # many views of one array
        problems = [f"all: {copied:,} bytes as float32, of a file of {os.path.getsize(filename):,}; call clone()"]
    if problems:
        rows = [("file", filename), *(("", problem) for problem in problems[:10])]
        raise checkpoint_error(
            "load_torch_checkpoint: it contains values that are not plain tensors.",
            rows,
            "Parameters are dense arrays of numbers. Convert and save them:",
            "torch.save({name: value.to_dense().clone() for name, value in state.items()}, filename)",
        )
    values = {name: _numpy(value.detach().resolve_conj().resolve_neg()) for name, value in state.items()}
    if "returnn_version" not in about:
        values |= with_open_layout({name: value for name, value in values.items() if _is_open(state, name)})
    return Params(values, step=about.get("step"), epoch=about.get("epoch"))


def _is_open(state: Any, name: str) -> bool:
    """Whether the module that wrote an array has a version without layout information. A plain dict has no versions: its
    author is expected to have converted it to the documented layout.
    """
    about = getattr(state, "_metadata", {}).get(name.rpartition(".")[0], {})
    return bool(about.get("version", LAYOUT) < LAYOUT)


def _problem(value: Any) -> str | None:
    """The reason why a tensor is not a numeric array, or None."""
    import torch

    if value.layout is not torch.strided:
        return f"{str(value.layout).removeprefix('torch.')}; call to_dense()"
    if value.is_quantized:
        return "quantised; call dequantize()"
    if value.device.type != "cpu":
        return f"on the device {value.device}, without values"
    if value.nbytes > value.untyped_storage().nbytes():
        shape = tuple(value.shape)
        return f"{shape} of an array of {value.untyped_storage().nbytes() // value.element_size()} (expanded); call clone()"
    if value.dtype not in _known_dtypes():
        return f"{str(value.dtype).removeprefix('torch.')}; cast it"
    return None


@functools.cache
def _known_dtypes() -> frozenset[Any]:
    import torch

    names = (
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128 "
    )
    names += "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz"
    return frozenset(getattr(torch, name) for name in names.split() if hasattr(torch, name))


def _numpy(value: Any) -> Any:
    """The value as an array; dtypes that NumPy lacks fit into float32."""
    return (value.float() if _is_narrow(value) else value).numpy()


def _is_narrow(value: Any) -> bool:
    return value.is_floating_point() and str(value.dtype) not in ("torch.float16", "torch.float32", "torch.float64")


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


def _what(data: Any) -> str:
    if not isinstance(data, Mapping):
        return type(data).__name__
    return ", ".join(map(str, list(data)[:10])) + (", ..." if len(data) > 10 else "")
