"""Recurrent highway network."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.recurrent.unit import RecUnit
from rfnb.nn.recurrent.unit_parts import check_drop_prob, dropout_mask, gated, matrix, product
from rfnb.ops.concat import concat, split
from rfnb.ops.const import full
from rfnb.ops.math import sigmoid, tanh
from rfnb.rec.state import State


class HighwayLayer(Module):
    """W {out, 2 * out}, Glorot uniform, of one highway layer."""

    def __init__(self, out_dim: Dim):
        self.W = matrix(out_dim, 2 * out_dim)


class RHNCell(RecUnit):
    """Recurrent highway network: several highway layers per step; the carry gate is 1 - the transform gate.

        for each layer d:  y = drop(s) W_d (+ x W + b if d = 0);  p, t = split2(y);  s = s + sigmoid(t) (tanh(p) - s)

    Args:
        depth: Number of layers.
        dropout: Dropout of the inputs of the products, in training. One mask {..., out} for all steps and layers of a call.
        transform_bias: Initial value of the second half of b (the transform gate). A negative value favours the carry.

    Parameters:
        W: {in, 2 * out}, Glorot uniform. b: {2 * out}. depth_0.W, depth_1.W, ...: {out, 2 * out}, Glorot uniform.

    Raises:
        ValueError: If depth is below 1, or dropout is not in [0, 1).

    Source: Zilly et al. 2017, "Recurrent Highway Networks", equations (6) to (9); dropout: Gal and Ghahramani 2016.
    """

    state_parts = ("s",)

    def __init__(
        self, in_dim: Dim, out_dim: Dim, *, depth: int = 5, dropout: float = 0.0, transform_bias: float | None = None
    ):
        super().__init__(in_dim, out_dim)
        if depth < 1:
            raise value_error(
                "RHNCell: no layer.", {"depth": depth}, "A step has at least one layer.", "rf.RHNCell(..., depth=5)"
            )
        check_drop_prob("RHNCell", "dropout", dropout)
        self.depth, self.dropout = depth, dropout
        self.W, self.b = matrix(in_dim, 2 * out_dim), Parameter((2 * out_dim,))
        if transform_bias:
            halves = [(full(dims=[out_dim], fill_value=value), out_dim) for value in (0.0, float(transform_bias))]
            self.b.initial = concat(*halves, out_dim=2 * out_dim)[0]
        for layer in range(depth):
            setattr(self, f"depth_{layer}", HighwayLayer(out_dim))

    def documented_parameters(self) -> dict[str, Parameter]:
        """W, b, rhn_cell/depth_0/W, ..."""
        return {
            name.replace(".", "/") if "." not in name else "rhn_cell/" + name.replace(".", "/"): value
            for name, value in self.named_parameters()
        }

    def role_of(self, name: str) -> str:
        return "recurrent" if name.startswith("depth_") else super().role_of(name)

    def transform_input(self, source: Tensor) -> Tensor:
        """x W + b: {..., in} -> {..., 2 * out}."""
        return product(source, self.W, self.b, of=self.in_dim)

    def draw_masks(self, like: Tensor) -> State:
        return dropout_mask("dropout_mask", like, self.dropout, func=RHNCell)

    def shared(self, state: State) -> Tensor | None:
        return state.get("dropout_mask")

    def advance(self, transformed: Tensor, state: State, shared: Tensor | None) -> tuple[Tensor, State, Any]:
        s = state.s
        gates: dict[str, Tensor] = {}
        for layer in range(self.depth):
            weight = getattr(self, f"depth_{layer}").W
            y = product(s if shared is None else s * shared, weight, of=self.out_dim)
            y = y + transformed if layer == 0 else y
            p, t = split(y, axis=2 * self.out_dim, out_dims=[self.out_dim] * 2)
            name = f"transform_gate_{layer}"
            gates |= gated(**{name: sigmoid(t)})
            s = s + gates[name] * (tanh(p) - s)
        s.feature_dim = self.out_dim
        return s, State(s=s), gates
