"""Initial values of parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.ops import random


class ParamInit:
    """A callable (dims, dtype) -> Tensor."""

    def __call__(
        self, dims: Sequence[Dim], dtype: str, *, sparse_dim: Dim | None = None, device: str | None = None
    ) -> Tensor:
        raise NotImplementedError


class Normal(ParamInit):
    """Normal around 0; cut at 2 standard deviations unless `truncated=False`."""

    def __init__(self, stddev: float, *, truncated: bool = True):
        self.stddev, self.truncated = stddev, truncated

    def __call__(
        self, dims: Sequence[Dim], dtype: str, *, sparse_dim: Dim | None = None, device: str | None = None
    ) -> Tensor:
        draw = random.random_truncated_normal if self.truncated else random.random_normal
        return draw(dims, dtype=dtype, device=device, stddev=self.stddev)


class VarianceScaling(ParamInit):
    """Variance scale / n, where n is fan_in, fan_out or their mean (fan_avg).

    fan_in and fan_out are the sizes of the last two dims (times the product of the ones before).

    Args:
        distribution: "uniform", "normal" or "truncated_normal" (whose spread is corrected for the cut).
    """

    scale, mode, distribution = 1.0, "fan_in", "truncated_normal"

    def __init__(self, scale: float | None = None, mode: str | None = None, distribution: str | None = None):
        self.scale = self.scale if scale is None else scale
        self.mode = mode or self.mode
        self.distribution = distribution or self.distribution

    def __call__(
        self, dims: Sequence[Dim], dtype: str, *, sparse_dim: Dim | None = None, device: str | None = None
    ) -> Tensor:
        sizes = [dim.extent for dim in dims]
        if len(sizes) < 2:
            fan_in = fan_out = sizes[0] if sizes else 1
        else:
            receptive = math.prod(sizes[:-2])
            fan_in, fan_out = sizes[-2] * receptive, sizes[-1] * receptive
        count = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        variance = self.scale / max(1.0, count)
        if self.distribution == "uniform":
            limit = math.sqrt(3 * variance)
            return random.random_uniform(dims, dtype=dtype, device=device, minval=-limit, maxval=limit)
        if self.distribution == "normal":
            return random.random_normal(dims, dtype=dtype, device=device, stddev=math.sqrt(variance))
        stddev = math.sqrt(variance) / 0.87962566103423978  # of a normal cut at 2 standard deviations
        return random.random_truncated_normal(dims, dtype=dtype, device=device, stddev=stddev)


class Glorot(VarianceScaling):
    """Uniform, fan_avg; the default for weights. Glorot and Bengio 2010, equation (16)."""

    scale, mode, distribution = 1.0, "fan_avg", "uniform"


class He(VarianceScaling):
    """Truncated normal, fan_in, scale 2. He et al. 2015, equation (10)."""

    scale, mode, distribution = 2.0, "fan_in", "truncated_normal"


HeNormal = He


class HeUniform(He):
    """He, uniform."""

    distribution = "uniform"
