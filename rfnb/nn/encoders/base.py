"""The interface of encoders, whatever is inside."""

from __future__ import annotations

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.nn.module.module import Module


class IEncoder(Module):
    """Features to features, without a time axis of its own."""

    out_dim: Dim

    def __call__(self, source: Tensor) -> Tensor:
        """{..., in} -> {..., out_dim}."""
        raise NotImplementedError(f"{type(self).__name__} does not define __call__.")


class ISeqFramewiseEncoder(Module):
    """A sequence to a sequence with as many frames."""

    out_dim: Dim

    def __call__(self, source: Tensor, *, spatial_dim: Dim) -> Tensor:
        """{..., spatial_dim, in} -> {..., spatial_dim, out_dim}."""
        raise NotImplementedError(f"{type(self).__name__} does not define __call__.")


class ISeqDownsamplingEncoder(Module):
    """A sequence to a sequence with fewer frames, about 1 of `downsample_factor`."""

    out_dim: Dim
    downsample_factor: int

    def __call__(self, source: Tensor, *, in_spatial_dim: Dim) -> tuple[Tensor, Dim]:
        """{..., in_spatial_dim, in} -> {..., out spatial dim, out_dim}, and the out spatial dim."""
        raise NotImplementedError(f"{type(self).__name__} does not define __call__.")
