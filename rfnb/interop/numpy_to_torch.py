"""Torch tensors in the place of the NumPy arrays of Tensors."""

from __future__ import annotations

import numpy as np

from rfnb.core.tensor import Tensor
from rfnb.core.tensor_dict import TensorDict


def tensor_dict_numpy_to_torch_(x: TensorDict) -> None:
    """Put torch tensors in the place of the NumPy arrays, in place; they share the memory."""
    for tensor in x.data.values():
        tensor_numpy_to_torch_(tensor)


def tensor_numpy_to_torch_(x: Tensor) -> None:
    """Put a torch tensor in the place of the NumPy array, in place; it shares the memory. Lengths are on the host in any case."""
    import torch

    if isinstance(x.raw_tensor, np.ndarray):
        x.raw_tensor = torch.from_numpy(x.raw_tensor)
