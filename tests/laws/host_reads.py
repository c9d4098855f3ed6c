"""Counts what would make a GPU wait: reads of values by the host. It works on the CPU, where all reads are the same, and ops are told
that their arrays are not on the host: there some look at values for a better error or a warning.

    with HostReads() as reads:
        rf.softmax(x, axis=time)
    assert reads.found == []

Lengths of dims live on the host. They, and what is computed from them alone, may be read; a backend makes them with
`device="cpu"`, which is how they are told apart here.
"""

from __future__ import annotations

import sys
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rfnb.backends.torch_backend import TorchBackend
from rfnb.ops.index_range import on_host

# The values of these become a Python number or the shape of the result.
READS = set(
    "_local_scalar_dense nonzero equal masked_select _unique2 unique_consecutive unique_dim bincount repeat_interleave".split()
)


class HostReads(TorchDispatchMode):
    """Context manager; `found` has the names of the reads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._of_host: dict[int, torch.Tensor] = {}  # by id; kept, so that an id stays that of one tensor
        self._patches = [
            patch.object(TorchBackend, "from_numpy", self._from_numpy),
            patch.object(TorchBackend, "raw_to_numpy", self._raw_to_numpy),
            patch.object(TorchBackend, "is_on_host_raw", lambda raw: False),
        ]
        for name, module in list(sys.modules.items()):
            if name.startswith("rfnb.") and vars(module).get("on_host") is on_host:
                self._patches.append(patch.object(module, "on_host", lambda device: False))

    def __enter__(self) -> HostReads:
        for each in self._patches:
            each.start()
        super().__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        for each in self._patches:
            each.stop()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        of_host = bool(tensors) and all(id(tensor) in self._of_host for tensor in tensors)
        by_mask = name in ("index", "index_put", "index_put_") and any(
            tensor.dtype == torch.bool for tensor in tensors[1:2]
        )
        if not of_host and (name in READS or by_mask):
            self.found.append(name)
        out = func(*args, **(kwargs or {}))
        if of_host:
            self._of_host.update((id(leaf), leaf) for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor))
        return out

    def _from_numpy(self, array: Any, *, dtype: str | None = None, device: str | None = None) -> Any:
        raw = torch.tensor(array, dtype=None if dtype is None else TorchBackend.as_dtype_raw(dtype))
        if device == "cpu":
            self._of_host[id(raw)] = raw
        return raw

    def _raw_to_numpy(self, raw: Any) -> Any:
        if id(raw) not in self._of_host:
            self.found.append("raw_to_numpy")
        return raw.detach().numpy()
