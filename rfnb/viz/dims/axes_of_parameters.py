"""The names of the axes of parameters of torch modules, known by the type of the module.

    parameter_axes(module, "weight", (32, 16))     # ["out", "in"] of a Linear

A module of another type, and a subclass that has other parameters, has no names here: its axes are axis0, axis1, ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

_SPACE = {1: ["width"], 2: ["height", "width"], 3: ["depth", "height", "width"]}
_POSITIONS = re.compile(r"(?:(position|\bwpe\b|pos_emb)|token_type)[^.]*\.weight$")
_NORMS = re.compile(r"(Layer|RMS|Group|Batch|Instance)Norm(\d?d)?$")


def parameter_axes(module: Any, name: str, shape: Sequence[int], path: str = "") -> list[str] | None:
    """A name for each axis of a parameter or buffer; None if they are not known.

    Args:
        module: The one that has it.
        name: What it is called there.
        path: Of it in the model: a table of positions is called so.
    """
    for kind in kinds_of(module):
        find = _BY_TYPE.get(kind)
        if find is None and _NORMS.search(kind):
            find = _norm
        if find is not None:
            names = find(module, name)
            if names == _embedding(module, "weight") and (said := _POSITIONS.search(path)):
                names = ["position" if said[1] else "type", "feature"]
            return names if names is not None and len(names) == len(shape) else None
    return None


def kinds_of(module: Any) -> list[str]:
    """The names of the classes of a module, its own first; a scripted one says what it was."""
    original = getattr(module, "original_name", None)
    if isinstance(original, str):
        return [original]
    return [
        f"transformers.{kind.__name__}" if kind.__module__.startswith("transformers.pytorch_utils") else kind.__name__
        for kind in type(module).__mro__
    ]


def _linear(module: Any, name: str) -> list[str] | None:
    return {"weight": ["out", "in"], "bias": ["out"]}.get(name)


def _linear_transposed(module: Any, name: str) -> list[str] | None:
    return {"weight": ["in", "out"], "bias": ["out"]}.get(name)


def _bilinear(module: Any, name: str) -> list[str] | None:
    return {"weight": ["out", "in1", "in2"], "bias": ["out"]}.get(name)


def _embedding(module: Any, name: str) -> list[str] | None:
    return {"weight": ["vocab", "feature"]}.get(name)


def _conv(space: int, *, transposed: bool = False) -> Callable[[Any, str], list[str] | None]:
    def find(module: Any, name: str) -> list[str] | None:
        inner = "/groups" if getattr(module, "groups", 1) != 1 else ""
        sides = ["in", f"out{inner}"] if transposed else ["out", f"in{inner}"]
        return {"weight": [*sides, *_SPACE[space]], "bias": ["out"]}.get(name)

    return find


def _norm(module: Any, name: str) -> list[str] | None:
    shape = getattr(module, "normalized_shape", None)
    many = isinstance(shape, tuple) and len(shape) > 1
    feature = [f"feature{axis}" for axis in range(len(shape))] if many and shape is not None else ["feature"]
    if name in ("weight", "bias", "running_mean", "running_var"):
        return feature
    return [] if name == "num_batches_tracked" else None


def _recurrent(gates: int) -> Callable[[Any, str], list[str] | None]:
    rows = "hidden" if gates == 1 else f"{gates}*hidden"

    def find(module: Any, name: str) -> list[str] | None:
        projected = bool(getattr(module, "proj_size", 0))
        state = "proj" if projected else "hidden"
        layer = re.search(r"_l(\d+)(_reverse)?$", name)
        first = layer is None or layer[1] == "0"
        below = "in" if first else f"2*{state}" if getattr(module, "bidirectional", False) else state
        kind = name if layer is None else name[: layer.start()]
        return {
            "weight_ih": [rows, below],
            "weight_hh": [rows, state],
            "bias_ih": [rows],
            "bias_hh": [rows],
            "weight_hr": ["proj", "hidden"],
        }.get(kind)

    return find


def _attention(module: Any, name: str) -> list[str] | None:
    return {
        "in_proj_weight": ["3*model", "model"],
        "in_proj_bias": ["3*model"],
        "q_proj_weight": ["model", "model"],
        "k_proj_weight": ["model", "key"],
        "v_proj_weight": ["model", "value"],
        "bias_k": ["1", "1", "model"],
        "bias_v": ["1", "1", "model"],
    }.get(name)


def _prelu(module: Any, name: str) -> list[str] | None:
    return {"weight": ["feature"]}.get(name)


_BY_TYPE: dict[str, Callable[[Any, str], list[str] | None]] = {
    "Linear": _linear,
    "transformers.Conv1D": _linear_transposed,  # of GPT-2: a Linear whose weight lies the other way round
    "Bilinear": _bilinear,
    "Embedding": _embedding,
    "EmbeddingBag": _embedding,
    "Conv1d": _conv(1),
    "Conv2d": _conv(2),
    "Conv3d": _conv(3),
    "ConvTranspose1d": _conv(1, transposed=True),
    "ConvTranspose2d": _conv(2, transposed=True),
    "ConvTranspose3d": _conv(3, transposed=True),
    "LSTM": _recurrent(4),
    "LSTMCell": _recurrent(4),
    "GRU": _recurrent(3),
    "GRUCell": _recurrent(3),
    "RNN": _recurrent(1),
    "RNNCell": _recurrent(1),
    "MultiheadAttention": _attention,
    "PReLU": _prelu,
}
