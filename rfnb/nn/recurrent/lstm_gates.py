"""The part that all LSTM units have in common: the update of c and h from the four gates."""

from __future__ import annotations

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.ops.concat import split
from rfnb.ops.math import sigmoid, tanh
from rfnb.rec.state import State


def lstm_update(
    gates: Tensor, c: Tensor, *, order: str, out_dim: Dim, forget_bias: float = 0.0
) -> tuple[Tensor, State, dict[str, Tensor]]:
    """c' = sigmoid(f) c + sigmoid(i) tanh(j);  h' = sigmoid(o) tanh(c').

    Args:
        gates: {..., 4 * out} before their functions.
        c: {..., out}, the previous one.
        order: Of the blocks in `gates`, e.g. "jifo": j cell input, i input gate, f forget gate, o output gate.
        forget_bias: Added to f.

    Returns:
        h', the state (c', h'), and the gates by name.
    """
    parts = split_gates(gates, order=order, out_dim=out_dim)
    forget = parts["f"] + forget_bias if forget_bias else parts["f"]
    i, f, o = sigmoid(parts["i"]), sigmoid(forget), sigmoid(parts["o"])
    c = f * c + i * tanh(parts["j"])
    h = o * tanh(c)
    c.feature_dim = h.feature_dim = out_dim
    return h, State(c=c, h=h), {"input_gate": i, "forget_gate": f, "output_gate": o}


def split_gates(gates: Tensor, *, order: str, out_dim: Dim) -> dict[str, Tensor]:
    """{..., 4 * out} -> for each letter of `order` {..., out}."""
    return dict(zip(order, split(gates, axis=4 * out_dim, out_dims=[out_dim] * 4)))
