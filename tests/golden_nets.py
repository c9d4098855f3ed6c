"""Runs the networks of golden data (tests/golden/README.md) by their dicts, and compares all their outputs on real frames."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

import rfnb as rf
from rfnb import Tensor

FOLDER = Path(__file__).parent / "golden"
_OTHERS = ("editdist_functions", "derived_")  # more than what a network gives


def names(*, search: bool = False) -> list[str]:
    """The networks without a search, or those with one."""
    found = [path.stem for path in sorted(FOLDER.glob("*.npz")) if not path.stem.startswith(_OTHERS)]
    return [name for name in found if bool(_meta(name)["search"]) == search]


def _meta(name: str) -> dict[str, Any]:
    with np.load(FOLDER / f"{name}.npz") as file:
        return json.loads(str(file["meta"]))


class GoldenNet:
    """One file: `net(**options)` makes its network with its parameters, `check(outputs)` compares."""

    def __init__(self, name: str):
        with np.load(FOLDER / f"{name}.npz") as file:
            self.arrays = {key: file[key] for key in file.files}
        self.meta: dict[str, Any] = json.loads(str(self.arrays.pop("meta")))
        self.outputs = [key for key in self.part("out") if key != "base_weights"]

    def part(self, part: str) -> dict[str, np.ndarray]:
        """The arrays below "part/"."""
        return {key.removeprefix(f"{part}/"): value for key, value in self.arrays.items() if key.startswith(f"{part}/")}

    @property
    def params(self) -> dict[str, np.ndarray]:
        """By path."""
        return self.part("param")

    def net(self, **options: Any) -> Any:
        """The network, with all parameters of the file."""
        net = rf.net_from_dict(self._with_files(self.meta["net"]), self.meta["extern_data"], **options)
        net.set_parameters(self.params)
        return net

    def _with_files(self, value: Any) -> Any:
        """The dict, with the files of an n-gram model: its vocabulary is in the note."""
        if not isinstance(value, dict):
            return value
        out = {key: self._with_files(item) for key, item in value.items()}
        if value.get("class") == "kenlm":
            vocab = re.findall(r"'([^']*)'", self.meta["note"])
            out.update(lm_file=FOLDER / value["lm_file"], vocab_file=vocab)
        return out

    def run(self, net: Any) -> Any:
        """All outputs that the file has."""
        return net(self.part("in"), lengths=self.part("in_len"), outputs=self.outputs)

    def check(self, outputs: Any) -> None:
        """Compare within 1e-4; integers are equal, and so are lengths."""
        for name in self.outputs:
            self._check(name, outputs[name])
        if "out/base_weights" in self.arrays:
            weights = outputs.get_base_weights("output")
            got = weights.copy_transpose(_batch_first(weights)).numpy()
            np.testing.assert_allclose(got, self.arrays["out/base_weights"], rtol=1e-4, atol=1e-4)

    def _check(self, name: str, value: Tensor) -> None:
        expected = self.arrays[f"out/{name}"]
        dims = _batch_first(value)
        assert len(dims) == expected.ndim, (name, value.dims)
        got, real = value.copy_transpose(dims).numpy(), np.ones(expected.shape, bool)
        for axis, dim in enumerate(dims):
            lengths = self.arrays.get(f"out_len/{name}/{axis}")
            if lengths is not None and dims[0].kind == "batch":
                assert dim.lengths.tolist() == lengths.tolist(), name
                places = [size if place == axis else 1 for place, size in enumerate(expected.shape)]
                count = lengths.reshape([-1, *[1] * (expected.ndim - 1)])
                real &= np.arange(expected.shape[axis]).reshape(places) < count
        assert got.shape == expected.shape, name
        if expected.dtype.kind == "i":
            np.testing.assert_array_equal(np.where(real, got, 0), np.where(real, expected, 0), err_msg=name)
        else:
            np.testing.assert_allclose(
                np.where(real, got, 0), np.where(real, expected, 0), rtol=1e-4, atol=1e-4, err_msg=name
            )


def _batch_first(value: Tensor) -> list[rf.Dim]:
    batch = [dim for dim in value.dims if dim.kind == "batch"]
    last = [] if value.feature_dim is None else [value.feature_dim]
    return [*batch, *(dim for dim in value.dims if dim not in (*batch, *last)), *last]
