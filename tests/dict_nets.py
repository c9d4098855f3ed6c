"""Small networks in the dict notation: their inputs, parameters by a seed, and outputs as NumPy arrays per sequence."""

from __future__ import annotations

from typing import Any

import numpy as np

import rfnb as rf
from rfnb import Tensor

FORMS = [("for", None), ("with", True), ("with", False)]
EXTERN = {"data": {"dim": 4}, "classes": {"dim": 6, "sparse": True}}
COPY = {"class": "copy", "from": "data"}
MEAN = {"class": "reduce", "mode": "mean", "axis": "T", "from": "data"}
LENGTHS = {"data": np.array([7, 5, 3]), "classes": np.array([5, 2, 4])}


def loop_of(unit: dict[str, Any], **options: Any) -> dict[str, Any]:
    """A network of one loop."""
    return {"output": {"class": "rec", "from": "data", "unit": unit, **options}}


def inputs() -> dict[str, np.ndarray]:
    """data (3, 7, 4) and classes (3, 5)."""
    random = np.random.default_rng(5)
    return {
        "data": random.normal(size=(3, 7, 4)).astype("float32"),
        "classes": random.integers(0, 6, (3, 5), dtype="int32"),
    }


def built(network: dict[str, Any], *, form: tuple[str, bool | None] = FORMS[0], extern: Any = None) -> Any:
    """The network, with parameters that depend on their path only."""
    net = rf.net_from_dict(network, extern or EXTERN, loop=form[0], optimize_move_layers_out=form[1])
    values = {}
    for path, parameter in net.parameters_by_path().items():
        random = np.random.default_rng(sum(map(ord, path)))
        values[path] = random.normal(size=[dim.extent for dim in parameter.dims]).astype("float32") * 0.5
    net.set_parameters(values)
    return net


def weights(net: Any) -> dict[str, np.ndarray]:
    """The parameters as arrays."""
    return {path: parameter.numpy() for path, parameter in net.parameters_by_path().items()}


def run(net: Any, only: int | None = None, **options: Any) -> Any:
    """The outputs; `only`: of one sequence alone."""
    chosen = slice(None) if only is None else slice(only, only + 1)
    data = {key: array[chosen] for key, array in inputs().items()}
    if only is not None:
        data = {key: array[:, : LENGTHS[key][only]] for key, array in data.items()}
    keys = [key for key in data if key in net.extern_data]
    return net({key: data[key] for key in keys}, lengths={key: LENGTHS[key][chosen] for key in keys}, **options)


def of_sequence(value: Tensor, index: int) -> np.ndarray:
    """The real frames of one sequence, other dims in the order of the tensor, features last."""
    batch = next(dim for dim in value.dims if dim.kind == "batch")
    last = [] if value.feature_dim is None else [value.feature_dim]
    inner = [dim for dim in value.dims if dim is not batch and dim not in last]
    out = value.copy_transpose([batch, *inner, *last]).numpy()[index]
    for axis, dim in enumerate(inner):
        if dim.lengths is not None and dim.lengths.ndim == 1:
            out = np.take(out, range(dim.lengths[index]), axis=axis)
    return out


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def softmax(x: Any, axis: int = -1) -> Any:
    """Of an array."""
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)
