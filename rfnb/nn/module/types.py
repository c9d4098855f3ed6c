"""Type aliases and protocols for annotations."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Never, Protocol, TypeVar

import numpy as np

from rfnb.backends import registry
from rfnb.core.tensor import Tensor

if TYPE_CHECKING:
    from rfnb.core.tensor_dict import TensorDict
    from rfnb.nn.module.module import Module

# Plain values that can stand for an array: numbers and NumPy. Arrays of a backend are passed with `raw_tensor=`.
RawTensorTypes = int | float | complex | np.number | np.ndarray | bool | str

_OneKey = RawTensorTypes | Tensor | slice | EllipsisType | None
ItemKeyType = _OneKey | Sequence[_OneKey]

_ModelT_co = TypeVar("_ModelT_co", bound="Module", covariant=True)


class GetModelFunc(Protocol[_ModelT_co]):
    """A function that builds the model of a training: get_model(epoch=1, step=0)."""

    def __call__(self, *, epoch: int, step: int) -> _ModelT_co: ...


class StepFunc(Protocol):
    """One step of training or inference; it marks results in the run context (losses, outputs)."""

    def __call__(self, *, model: Module, extern_data: TensorDict) -> None: ...


def get_raw_tensor_type(*extra: Never, **unknown: Never) -> type:
    """The type of the raw arrays of the selected backend, e.g. torch.Tensor."""
    return registry.selected().RawTensorType
