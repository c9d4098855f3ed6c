"""The position-wise part of a transformer layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.nn.dropout import dropout
from rfnb.nn.linear import Linear
from rfnb.nn.module.module import Module
from rfnb.nn.module.prototype import as_dim, make_function
from rfnb.ops.concat import split
from rfnb.ops.math import identity, relu, swish


class FeedForward(Module):
    """activation(x W1 + b1) W2 + b2, with dropout after the activation, which drops a feature in all frames alike.

    Args:
        out_dim: Features of source and result.
        ff_dim: Hidden features, int or Dim. Default: 4 * out, as in the paper.
        activation: A function, or {"class": ..., options} (see `build_from_dict`).

    Parameters:
        linear_ff: Linear {out, ff}. linear_out: Linear {ff, out}.

    Source: Vaswani et al. 2017, section 3.3, equation (2).
    """

    def __init__(
        self,
        out_dim: Dim,
        *,
        ff_dim: Dim | int | None = None,
        dropout: float = 0.1,
        activation: Callable[[Tensor], Tensor] | dict[str, Any] = relu,
        with_bias: bool = True,
    ):
        self.out_dim, self.dropout, self.activation = out_dim, dropout, make_function(activation)
        self.ff_dim = as_dim(4 * out_dim.extent if ff_dim is None else ff_dim, "ff")
        self.linear_ff = Linear(out_dim, self.ff_dim, with_bias=with_bias)
        self.linear_out = Linear(self.ff_dim, out_dim, with_bias=with_bias)

    def __call__(self, inp: Tensor) -> Tensor:
        """{..., out} -> {..., out}.

        Raises:
            DimError: If inp has no out_dim.
        """
        middle = self.activation(self.linear_ff(inp))
        return self.linear_out(dropout(middle, self.dropout, axis=self.ff_dim))


class FeedForwardGated(Module):
    """(activation(x V) * gate_activation(x W)) U, with dropout before U.

    Args:
        out_dim: Features of source and result.
        ff_dim: Hidden features. Default: 8/3 * out, rounded up to a multiple of 256, which gives about as many parameters as `FeedForward`.
        activation, gate_activation: See `FeedForward`.

    Parameters:
        linear_ff: Linear {out, 2 * ff}, V beside W. linear_out: Linear {ff, out}.

    Source: Shazeer 2020, "GLU Variants Improve Transformer", equation (6); the default size follows Touvron et al. 2023 (LLaMA).
    """

    def __init__(
        self,
        out_dim: Dim,
        *,
        ff_dim: Dim | int | None = None,
        dropout: float = 0.1,
        activation: Callable[[Tensor], Tensor] | dict[str, Any] = swish,
        gate_activation: Callable[[Tensor], Tensor] | dict[str, Any] = identity,
        with_bias: bool = False,
    ):
        self.out_dim, self.dropout = out_dim, dropout
        self.activation, self.gate_activation = make_function(activation), make_function(gate_activation)
        self.ff_dim = as_dim(-(-(8 * out_dim.extent // 3) // 256) * 256 if ff_dim is None else ff_dim, "ff")
        self.linear_ff = Linear(out_dim, 2 * self.ff_dim, with_bias=with_bias)
        self.linear_out = Linear(self.ff_dim, out_dim, with_bias=with_bias)

    def __call__(self, inp: Tensor) -> Tensor:
        """{..., out} -> {..., out}.

        Raises:
            DimError: If inp has no out_dim.
        """
        both = self.linear_ff(inp)
        value, gate = split(both, axis=self.linear_ff.out_dim, out_dims=(self.ff_dim, self.ff_dim))
        middle = self.activation(value) * self.gate_activation(gate)
        return self.linear_out(dropout(middle, self.dropout, axis=self.ff_dim))
