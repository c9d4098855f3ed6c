"""Initial values of parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import not_one_of
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.nn.module.types import RawTensorTypes
from rfnb.ops import random


class ParamInit:
    """A callable (dims, dtype) -> Tensor {dims}; `initial` of a Parameter.

    A subclass defines `__call__`. Its arguments:
        dims: The dims of the parameter.
        dtype: The dtype of the result; None: that of this scheme, else the default float dtype.
        sparse_dim: The sparse dim of the parameter.
        device: Default: the default device.
        out: A Tensor {dims} that is filled in place and returned.
    """

    def __call__(
        self,
        dims: Sequence[Dim],
        dtype: str | None = None,
        *,
        sparse_dim: Dim | None = None,
        device: str | None = None,
        out: Tensor | None = None,
    ) -> Tensor | RawTensorTypes:
        raise NotImplementedError(f"{type(self).__name__} does not define __call__.")


ParamInitType = Tensor | RawTensorTypes | ParamInit


class Normal(ParamInit):
    """Normal distribution with mean 0, truncated at 2 standard deviations unless `truncated=False`."""

    def __init__(self, stddev: float, *, truncated: bool = True, dtype: str | None = None):
        self.stddev, self.truncated, self.dtype = stddev, truncated, dtype

    def __call__(
        self,
        dims: Sequence[Dim],
        dtype: str | None = None,
        *,
        sparse_dim: Dim | None = None,
        device: str | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """{dims}. See `ParamInit`."""
        name = "truncated_normal" if self.truncated else "normal"
        return _drawn(name, dims, dtype or self.dtype, sparse_dim, device, out, stddev=self.stddev)


class VarianceScaling(ParamInit):
    """Variance scale / n, where n is fan_in, fan_out or their mean (fan_avg).

    fan_in and fan_out are the sizes of the last two dims (times the product of the ones before).

    Args:
        scale: Default 1.
        mode: "fan_in" (the default), "fan_out" or "fan_avg".
        distribution: "uniform", "normal" or "truncated_normal" (the default; its standard deviation is corrected for the truncation).
        dtype: Default for calls without a dtype.

    Raises:
        ValueError: Unknown mode or distribution.
    """

    scale, mode, distribution = 1.0, "fan_in", "truncated_normal"

    def __init__(
        self,
        scale: float | None = None,
        mode: str | None = None,
        distribution: str | None = None,
        dtype: str | None = None,
    ):
        self.scale = self.scale if scale is None else scale
        self.mode = _known("mode", mode or self.mode, ("fan_in", "fan_out", "fan_avg"))
        self.distribution = _known(
            "distribution", distribution or self.distribution, ("uniform", "normal", "truncated_normal")
        )
        self.dtype = dtype

    def __call__(
        self,
        dims: Sequence[Dim],
        dtype: str | None = None,
        *,
        sparse_dim: Dim | None = None,
        device: str | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """{dims}. See `ParamInit`."""
        sizes = [dim.extent for dim in dims]
        if len(sizes) < 2:
            fan_in = fan_out = sizes[0] if sizes else 1
        else:
            receptive = math.prod(sizes[:-2])
            fan_in, fan_out = sizes[-2] * receptive, sizes[-1] * receptive
        count = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        stddev = math.sqrt(self.scale / max(1.0, count))
        if self.distribution == "uniform":
            limit = math.sqrt(3) * stddev
            spread = {"minval": -limit, "maxval": limit}
        elif self.distribution == "normal":
            spread = {"stddev": stddev}
        else:
            spread = {
                "stddev": stddev / 0.87962566103423978
            }  # standard deviation of a normal truncated at 2 standard deviations
        return _drawn(self.distribution, dims, dtype or self.dtype, sparse_dim, device, out, **spread)


class Glorot(VarianceScaling):
    """Uniform, fan_avg; the default for weights. Glorot and Bengio 2010, equation (16)."""

    scale, mode, distribution = 1.0, "fan_avg", "uniform"


class He(VarianceScaling):
    """Truncated normal, fan_in, scale 2. He et al. 2015, equation (10)."""

    scale, mode, distribution = 2.0, "fan_in", "truncated_normal"


HeNormal = He


class HeUniform(He):
    """He with a uniform distribution."""

    distribution = "uniform"


@op(of="ParamInit")
def _drawn(
    distribution: str,
    dims: Sequence[Dim],
    dtype: str | None,
    sparse_dim: Dim | None,
    device: str | None,
    out: Tensor | None,
    **spread: Any,
) -> Tensor:
    """Random values {dims}, in `out` if it is given."""
    if out is not None:
        dtype, device = out.dtype, out.device
    drawn = random.random(dims, distribution=distribution, dtype=dtype, device=device, **spread)
    if out is not None:
        out.backend.assign_raw(out._raw, drawn.copy_transpose(out.dims)._raw)
        return out
    if sparse_dim is not None:
        drawn.sparse_dim = sparse_dim
    return drawn


def _known(what: str, value: str, known: Sequence[str]) -> Any:
    if value not in known:
        raise not_one_of(f'VarianceScaling: unknown {what} "{value}".', what, value, known)
    return value
