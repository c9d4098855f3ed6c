"""Reads golden data (tests/golden/README.md): inputs as Tensors, parameters into modules, outputs compared on real frames.

from golden_data import Golden

golden = Golden("unit_gru")
golden.assign(rec.documented_parameters(), "output")
golden.check(rec(golden.input("data"), axis=golden.time)[0], "output")
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from asserting import ragged, tensor

from rfnb import Dim, Parameter, Tensor

FOLDER = Path(__file__).parent / "golden"


class Golden:
    """One file.

    Attributes:
        meta: What the network is.
        batch: The dim over sequences.
        dims: Dims by (name of the input, axis); `time` is that of the first input with lengths, or static.
    """

    def __init__(self, name: str):
        with np.load(FOLDER / f"{name}.npz") as file:
            self.arrays = {key: file[key] for key in file.files}
        self.meta: dict[str, Any] = json.loads(str(self.arrays.pop("meta")))
        first = next(key for key in self.arrays if key.startswith("in/"))
        self.batch = Dim(self.arrays[first].shape[0], name="batch")
        self._time: dict[bytes, Dim] = {}
        self._inputs: dict[str, Tensor] = {}
        for key in [key.removeprefix("in/") for key in self.arrays if key.startswith("in/")]:
            self._inputs[key] = self._input(key)
        self.time = next(dim for x in self._inputs.values() for dim in x.dims[1:2] if len(x.dims) > 1)

    def __getitem__(self, key: str) -> np.ndarray:
        return self.arrays[key]

    def input(self, key: str = "data") -> Tensor:
        """{batch, time, feature}, or int {batch, time}, sparse; equal lengths are the same dim. Without time where it has none."""
        return self._inputs[key]

    def _input(self, key: str) -> Tensor:
        values, lengths = self.arrays[f"in/{key}"], self.arrays.get(f"in_len/{key}")
        if lengths is None and values.ndim < 3 and values.dtype.kind == "f":
            return tensor(values, self.batch, *(Dim(size, name=f"{key}:feature") for size in values.shape[1:]))
        lengths = np.full(values.shape[0], values.shape[1], np.int32) if lengths is None else lengths
        time = self._time.setdefault(lengths.tobytes(), ragged(lengths, self.batch))
        if values.dtype.kind == "i":
            return tensor(values, self.batch, time, sparse_dim=Dim(self._classes(key), name=f"{key}:labels"))
        return tensor(values, self.batch, time, Dim(values.shape[2], name=f"{key}:feature"))

    def _classes(self, key: str) -> int:
        described = self.meta["extern_data"][key]
        return int(described["dim"] if "dim" in described else re.findall(r":(\d+)>", described["sparse_dim"])[0])

    def params(self, layer: str) -> dict[str, np.ndarray]:
        """The parameters of a layer by the rest of their names ("rec/W_re")."""
        prefix = f"param/{layer}/"
        return {key.removeprefix(prefix): value for key, value in self.arrays.items() if key.startswith(prefix)}

    def assign(self, parameters: Mapping[str, Parameter], layer: str) -> None:
        """Give parameters by their documented names the values of a layer.

        Raises:
            AssertionError: If the names or shapes differ.
        """
        values = self.params(layer)
        assert sorted(parameters) == sorted(values)
        for name, parameter in parameters.items():
            assert tuple(dim.extent for dim in parameter.dims) == values[name].shape, name
            parameter.assign(values[name])

    def check(self, value: Tensor, layer: str) -> None:
        """Compare with the output of a layer {batch, ...}: real frames, within 1e-4."""
        expected = self.arrays[f"out/{layer}"]
        dims = [self.batch, *(dim for dim in value.dims if dim.is_dynamic() and dim is not self.batch)]
        dims += [dim for dim in value.dims if dim not in dims]
        got = value.copy_transpose(dims).numpy()
        for axis, dim in enumerate(dims):
            if dim.lengths is not None:
                real = (np.arange(dim.extent) < dim.lengths[:, None]).reshape(
                    [size if place in (0, axis) else 1 for place, size in enumerate(got.shape)]
                )
                got, expected = np.where(real, got, 0), np.where(real, expected, 0)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4, err_msg=layer)
