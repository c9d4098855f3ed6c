"""Replace the NumPy arrays of Tensors by torch tensors."""

from __future__ import annotations

import numpy as np

from rfnb.core.tensor import Tensor
from rfnb.core.tensor_dict import TensorDict


def tensor_dict_numpy_to_torch_(x: TensorDict) -> None:
    """Replace the NumPy arrays by torch tensors, in place; they share the memory."""
    for tensor in x.data.values():
        tensor_numpy_to_torch_(tensor)


def tensor_numpy_to_torch_(x: Tensor) -> None:
    """Replace the NumPy array by a torch tensor, in place; they share the memory. Lengths stay on the host."""
    import torch

    if isinstance(x.raw_tensor, np.ndarray):
        x.raw_tensor = torch.from_numpy(x.raw_tensor)
