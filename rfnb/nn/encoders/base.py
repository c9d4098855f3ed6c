"""Abstract interfaces of encoders."""

from __future__ import annotations

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.nn.module.module import Module


class IEncoder(Module):
    """An encoder from features to features, without a time axis of its own."""

    out_dim: Dim

    def __call__(self, source: Tensor) -> Tensor:
        """{..., in} -> {..., out_dim}."""
        raise NotImplementedError(f"{type(self).__name__} does not define __call__.")


class ISeqFramewiseEncoder(Module):
    """An encoder that keeps the number of frames."""

    out_dim: Dim

    def __call__(self, source: Tensor, *, spatial_dim: Dim) -> Tensor:
        """{..., spatial_dim, in} -> {..., spatial_dim, out_dim}."""
        raise NotImplementedError(f"{type(self).__name__} does not define __call__.")


class ISeqDownsamplingEncoder(Module):
    """An encoder that reduces the number of frames by about `downsample_factor`."""

    out_dim: Dim
    downsample_factor: int

    def __call__(self, source: Tensor, *, in_spatial_dim: Dim) -> tuple[Tensor, Dim]:
        """{..., in_spatial_dim, in} -> {..., out spatial dim, out_dim}, and the out spatial dim."""
        raise NotImplementedError(f"{type(self).__name__} does not define __call__.")
