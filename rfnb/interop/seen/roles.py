"""Roles: the meanings of tensor axes as words, from the type of module, the name of the input, or else rank and dtype.

roles_for(torch.nn.LSTM(3, 5), "input", raw)         # ["time", "batch", "feature"], certain
roles_guessed("tgt", raw, batch_first=False)         # ["target", "batch", "feature"], a guess
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

KIND_OF = {
    "batch": "batch", "time": "spatial", "target": "spatial", "source": "spatial", "height": "spatial", "width": "spatial",
    "depth": "spatial", "frames": "spatial", "bag": "batch", "feature": "feature", "vocab": "feature", "channel": "feature",
    "unit": "feature",
}  # fmt: skip
OF_DATA = {"batch", "time", "target", "source", "height", "width", "depth", "frames", "bag"}
"""Roles of axes whose size is that of the data; others are of the model."""

_SPACE = {1: ["time"], 2: ["height", "width"], 3: ["depth", "height", "width"]}
_AUDIO = ("input_values", "wave", "audio", "samples", "signal", "speech")

Roles = list[Any]
_table: list[tuple[tuple[type, ...], Callable[[Any, str, torch.Tensor], Roles | None]]] = []


def role_guessed(axis: int, ndim: int) -> str:
    """The guessed role of an axis, by its position."""
    return _by_rank(ndim)[axis]


def roles_guessed(name: str, raw: torch.Tensor, batch_first: bool) -> Roles:
    """The roles of an input of an outermost module, by its name, rank and dtype."""
    time = time_of(name)
    if not raw.is_floating_point():
        roles: Roles = ["batch", time, *(f"axis{axis}" for axis in range(2, raw.ndim))][: raw.ndim]
    elif raw.ndim == 2 and any(word in name for word in _AUDIO):
        roles = ["batch", time]
    else:
        roles = [time if role == "time" else role for role in _by_rank(raw.ndim)]
    if not batch_first and raw.ndim >= 2 and roles[1] == time:
        roles[:2] = [time, "batch"]
    return roles


def time_of(name: str) -> str:
    """The role of the time axis in an input with this name."""
    word = name.rpartition(".")[2].lower()
    if word.startswith(("tgt", "target", "decoder")):
        return "target"
    return "source" if word.startswith(("src", "source", "memory", "encoder")) else "time"


def batch_first_of(module: nn.Module) -> bool:
    """Whether a module has the batch as its first axis: by its own attribute, or those of all its submodules; default True."""
    known = _batch_first.get(module)
    if known is None:
        own = getattr(module, "batch_first", None)
        said = [getattr(each, "batch_first", None) for each in module.modules()] if not isinstance(own, bool) else [own]
        said = [each for each in said if isinstance(each, bool)]
        known = _batch_first[module] = any(said) or not said
    return known


_batch_first: weakref.WeakKeyDictionary[nn.Module, bool] = weakref.WeakKeyDictionary()


def roles_for(module: nn.Module, name: str, raw: torch.Tensor) -> Roles | None:
    """The roles of an input of a torch module with documented inputs; None for others."""
    kind: Any = type(module)
    find = _roles_of_kind(kind)
    roles = None if find is None else find(module, name, raw)
    return roles if roles is not None and len(roles) == raw.ndim else None


def _by_rank(ndim: int) -> list[str]:
    known = {
        0: [], 1: ["batch"], 2: ["batch", "feature"], 3: ["batch", "time", "feature"],
        4: ["batch", "channel", "height", "width"], 5: ["batch", "channel", "depth", "height", "width"],
    }  # fmt: skip
    return known[ndim] if ndim in known else ["batch", *(f"axis{axis}" for axis in range(1, ndim))]


@functools.cache
def _roles_of_kind(kind: Any) -> Callable[[Any, str, torch.Tensor], Roles | None] | None:
    return next((find for kinds, find in _table if issubclass(kind, kinds)), None)


def _takes(*kinds: type) -> Callable[[Any], Any]:
    def register(find: Any) -> Any:
        _table.append((kinds, find))
        return find

    return register


def sequence(batch_first: bool, ndim: int, time: str = "time") -> Roles | None:
    """{batch, time, feature} in the right order, also without batch."""
    if ndim == 3:
        return ["batch", time, "feature"] if batch_first else [time, "batch", "feature"]
    return [time, "feature"] if ndim == 2 else None


@_takes(nn.Linear, nn.Bilinear, nn.LayerNorm, *filter(None, [getattr(nn, "RMSNorm", None)]))
def _last_is_feature(module: Any, name: str, raw: torch.Tensor) -> Roles | None:
    return [*[None] * (raw.ndim - 1), "feature"] if raw.ndim else None


@_takes(nn.RNNBase)
def _recurrent(module: nn.RNNBase, name: str, raw: torch.Tensor) -> Roles | None:
    if name == "input":
        return sequence(module.batch_first, raw.ndim)
    if name == "input.data":
        return ["frames", "feature"]
    return ["layer", "batch", "feature"] if raw.ndim == 3 else ["layer", "feature"]


@_takes(nn.RNNCellBase)
def _cell(module: Any, name: str, raw: torch.Tensor) -> Roles | None:
    return {1: ["feature"], 2: ["batch", "feature"]}.get(raw.ndim)


@_takes(nn.MultiheadAttention)
def _multihead(module: nn.MultiheadAttention, name: str, raw: torch.Tensor) -> Roles | None:
    if name in ("query", "key", "value"):
        return sequence(module.batch_first, raw.ndim, "target" if name == "query" else "source")
    return ["batch", "source"] if name == "key_padding_mask" and raw.ndim == 2 else None


@_takes(
    nn.Transformer, nn.TransformerEncoder, nn.TransformerDecoder, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer
)
def _transformer(module: Any, name: str, raw: torch.Tensor) -> Roles | None:
    if name in ("src", "tgt", "memory"):
        return sequence(batch_first_of(module), raw.ndim, "target" if name == "tgt" else "source")
    if name.endswith("key_padding_mask") and raw.ndim == 2:
        return ["batch", "target" if name.startswith("tgt") else "source"]
    return None


SPATIAL = (
    nn.modules.conv._ConvNd, nn.modules.pooling._MaxPoolNd, nn.modules.pooling._AvgPoolNd,
    nn.modules.pooling._AdaptiveAvgPoolNd, nn.modules.pooling._AdaptiveMaxPoolNd,
)  # fmt: skip
"""The modules that work along the axes after the features."""


@_takes(*SPATIAL, nn.modules.instancenorm._InstanceNorm)
def _spatial(module: Any, name: str, raw: torch.Tensor) -> Roles | None:
    space = next((int(digit) for digit in type(module).__name__ if digit.isdigit()), 0)
    roles = ["batch", "feature", *_SPACE.get(space, [])]
    return roles if raw.ndim == len(roles) else roles[1:] if raw.ndim == len(roles) - 1 else None


@_takes(nn.modules.batchnorm._BatchNorm, nn.GroupNorm)
def _norm(module: Any, name: str, raw: torch.Tensor) -> Roles | None:
    return ["batch", "feature", *_SPACE.get(raw.ndim - 2, [])] if raw.ndim >= 2 else None


@_takes(nn.CTCLoss)
def _ctc(module: nn.CTCLoss, name: str, raw: torch.Tensor) -> Roles | None:
    if name == "log_probs":
        return ["time", "batch", "vocab"]
    return ["batch", "target"] if name == "targets" and raw.ndim == 2 else None
