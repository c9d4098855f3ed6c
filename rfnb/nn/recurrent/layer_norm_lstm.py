"""LSTM with layer normalization in one of several positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.recurrent.unit import RecUnit, is_training
from rfnb.nn.recurrent.unit_parts import (
    check_drop_prob,
    dropout_mask,
    gated,
    kernel_parts,
    layer_norm,
    matrix,
    product,
    split_gates,
)
from rfnb.ops import math
from rfnb.ops.concat import concat
from rfnb.ops.const import full
from rfnb.ops.math import sigmoid
from rfnb.rec.state import State

_ORDER = "ijfo"
# Named layouts; the defaults are those of the paper.
PRESETS: dict[str, dict[str, Any]] = {
    "ba": {},
    "rnmt+": {"global_norm": False, "per_gate_norm": True, "cell_norm_in_output": False},
    "tf": {"global_norm": False, "per_gate_norm": True},
    "sockeye": {"global_norm": False, "per_gate_norm": True},
}


class LayerNormVariantsLSTMCell(RecUnit):
    """LSTM with layer normalization LN.

        z = LN(x W_ff) + LN(h W_re), then i, j, f, o = split4(z), each with its own LN if per_gate_norm
        c' = LN(sigmoid(f) c + sigmoid(i) act(j));  h' = LN(sigmoid(o) act(c'))

    Args:
        norm_gain, norm_shift: Initial gains and shifts of the norms.
        forget_bias: Added to the initial shift (or bias) of the forget gate. Nothing is added in a step.
        activation: act, a function or the name of one in `rf`.
        dropout, dropout_h: Dropout of act(j), and of h before its product, in training; one mask {..., out} for all steps of a call.
        with_concat: One matrix for [x; h] instead of two.
        global_norm: Normalise x W_ff and h W_re, each over all four gates.
        global_norm_joined: Normalise their sum over all four gates.
        per_gate_norm: Normalise each gate.
        cell_norm: Normalise c', which is then the state.
        cell_norm_in_output: Compute h' from the normalised c'; False: from c' before its norm.
        hidden_norm: Normalise h'.
        variance_epsilon: Added to the variances.
        forget_bias_for_all_gates: With a norm over all gates, initialise all four with norm_shift + forget_bias, as RETURNN does.

    Parameters:
        W_ff: {in, 4 * out}, W_re: {out, 4 * out}; or W_ff_re: {in + out, 4 * out}. Glorot uniform.
        bias_ff or bias_ff_re: {4 * out}, if no norm of the gates has a shift.
        gamma_X, beta_X: gain and shift of a norm; X is input_below, state_below (no beta): {4 * out}, lstm_in: {4 * out},
            i_gate, j_gate, f_gate, o_gate, new_c, new_h: {out}.

    Raises:
        ValueError: For global_norm with global_norm_joined, per_gate_norm with one of these, with_concat with
            global_norm; a dropout outside [0, 1); an unknown activation.

    Source: Ba et al. 2016, "Layer Normalization", equations (20) to (22); per gate: Chen et al. 2018, "The Best of Both Worlds".
    """

    state_parts = ("c", "h")

    def __init__(
        self, in_dim: Dim, out_dim: Dim, *, norm_gain: float = 1.0, norm_shift: float = 0.0, forget_bias: float = 0.0,
        activation: str | Callable[[Tensor], Tensor] = "tanh", dropout: float = 0.0, dropout_h: float = 0.0,
        with_concat: bool = False, global_norm: bool = True, global_norm_joined: bool = False, per_gate_norm: bool = False,
        cell_norm: bool = True, cell_norm_in_output: bool = True, hidden_norm: bool = False,
        variance_epsilon: float = 1e-12, forget_bias_for_all_gates: bool = False,
    ):  # fmt: skip
        super().__init__(in_dim, out_dim)
        _check_options(with_concat=with_concat, global_norm=global_norm, global_norm_joined=global_norm_joined,
                       per_gate_norm=per_gate_norm)  # fmt: skip
        check_drop_prob("LayerNormVariantsLSTMCell", "dropout", dropout)
        check_drop_prob("LayerNormVariantsLSTMCell", "dropout_h", dropout_h)
        self.activation = _activation(activation)
        self.dropout, self.dropout_h, self.with_concat = dropout, dropout_h, with_concat
        self.global_norm, self.global_norm_joined, self.per_gate_norm = global_norm, global_norm_joined, per_gate_norm
        self.cell_norm, self.cell_norm_in_output, self.hidden_norm = cell_norm, cell_norm_in_output, hidden_norm
        self.variance_epsilon = variance_epsilon
        gates = 4 * out_dim
        if with_concat:
            self.W_ff_re = matrix(in_dim + out_dim, gates)
        else:
            self.W_ff, self.W_re = matrix(in_dim, gates), matrix(out_dim, gates)
        shifts = self._shifts(norm_shift, forget_bias, forget_bias_for_all_gates)
        if not (global_norm or global_norm_joined or per_gate_norm):
            bias = Parameter((gates,), initial=self._shifts(0.0, forget_bias, False))
            setattr(self, "bias_ff_re" if with_concat else "bias_ff", bias)
        norms: dict[str, tuple[Dim, Any]] = {}
        if global_norm:
            norms.update(input_below=(gates, shifts), state_below=(gates, None))
        if global_norm_joined:
            norms["lstm_in"] = (gates, shifts)
        if per_gate_norm:
            norms.update({f"{part}_gate": (out_dim, norm_shift + forget_bias * (part == "f")) for part in _ORDER})
        if cell_norm:
            norms["new_c"] = (out_dim, norm_shift)
        if hidden_norm:
            norms["new_h"] = (out_dim, norm_shift)
        for name, (dim, shift) in norms.items():
            setattr(self, f"gamma_{name}", Parameter((dim,), initial=norm_gain))
            if shift is not None:
                setattr(self, f"beta_{name}", Parameter((dim,), initial=shift))

    @classmethod
    def preset(cls, name: str, in_dim: Dim, out_dim: Dim, **options: Any) -> LayerNormVariantsLSTMCell:
        """A named layout: "ba" (the paper, the defaults), "rnmt+", "tf" (LayerNormBasicLSTM), "sockeye" (per gate).

        Raises:
            ValueError: Another name.
        """
        if name not in PRESETS:
            raise value_error(
                f'LayerNormVariantsLSTMCell: unknown preset "{name}".',
                {"known": ", ".join(PRESETS)},
                "It is one of these.",
                'rf.LayerNormVariantsLSTMCell.preset("rnmt+", in_dim, out_dim)',
            )
        return cls(in_dim, out_dim, **PRESETS[name], **options)

    def _shifts(self, shift: float, forget: float, all_gates: bool) -> Tensor:
        """{4 * out}: `shift`, plus `forget` in the block of the forget gate (or in all blocks)."""
        blocks = [
            full(dims=[self.out_dim], fill_value=float(shift + forget * (all_gates or part == "f"))) for part in _ORDER
        ]
        return concat(*((block, self.out_dim) for block in blocks), out_dim=4 * self.out_dim)[0]

    # -- computation -------------------------------------------------------------------------------------------------------
    def transform_input(self, source: Tensor) -> Tensor:
        """The contribution of x to the gates, normalised if global_norm: {..., in} -> {..., 4 * out}."""
        if self.with_concat:
            forward, _ = kernel_parts(self.W_ff_re, self.in_dim, self.out_dim)
            return product(source, forward, getattr(self, "bias_ff_re", None), of=self.in_dim)
        out = product(source, self.W_ff, getattr(self, "bias_ff", None), of=self.in_dim)
        return self._norm(out, "input_below") if self.global_norm else out

    def draw_masks(self, like: Tensor) -> State:
        func = LayerNormVariantsLSTMCell
        if not is_training(func):
            return State()
        of_cell = dropout_mask("cell_mask", like, self.dropout, func=func)
        return State({**of_cell, **dropout_mask("h_mask", like, self.dropout_h, func=func)})

    def shared(self, state: State) -> Any:
        recurrent = kernel_parts(self.W_ff_re, self.in_dim, self.out_dim)[1] if self.with_concat else self.W_re
        return recurrent, state.get("cell_mask"), state.get("h_mask")

    def advance(self, transformed: Tensor, state: State, shared: Any) -> tuple[Tensor, State, Any]:
        weight, cell_mask, h_mask = shared
        recurrent = product(state.h if h_mask is None else state.h * h_mask, weight, of=self.out_dim)
        if self.global_norm:
            recurrent = self._norm(recurrent, "state_below")
        z = transformed + recurrent
        if self.global_norm_joined:
            z = self._norm(z, "lstm_in")
        parts = split_gates(z, order=_ORDER, out_dim=self.out_dim)
        if self.per_gate_norm:
            parts = {part: self._norm(value, f"{part}_gate") for part, value in parts.items()}
        j = self.activation(parts["j"])
        gates = gated(input_gate=sigmoid(parts["i"]), forget_gate=sigmoid(parts["f"]), output_gate=sigmoid(parts["o"]))
        i, f, o = gates.values()
        unnormed = c = f * state.c + i * (j if cell_mask is None else j * cell_mask)
        if self.cell_norm:
            c = self._norm(c, "new_c")
        h = o * self.activation(c if self.cell_norm_in_output else unnormed)
        if self.hidden_norm:
            h = self._norm(h, "new_h")
        c.feature_dim = h.feature_dim = self.out_dim
        return h, State(c=c, h=h), gates

    def _norm(self, x: Tensor, name: str) -> Tensor:
        gain, shift = getattr(self, f"gamma_{name}"), getattr(self, f"beta_{name}", None)
        return layer_norm(x, gain, shift, eps=self.variance_epsilon)


def _check_options(**options: bool) -> None:
    conflicts = [("global_norm", "global_norm_joined"), ("per_gate_norm", "global_norm"),
                 ("per_gate_norm", "global_norm_joined"), ("with_concat", "global_norm")]  # fmt: skip
    for one, other in conflicts:
        if options[one] and options[other]:
            raise value_error(
                f"LayerNormVariantsLSTMCell: {one} with {other}.",
                list(options.items()),
                "Both are about the same values; the documentation has no such unit.",
                f"rf.LayerNormVariantsLSTMCell(..., {one}=True, {other}=False)",
            )


def _activation(activation: str | Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    known = ("tanh", "sigmoid", "relu", "gelu", "silu", "identity")
    if activation not in known:
        raise value_error(
            f'LayerNormVariantsLSTMCell: unknown activation "{activation}".',
            {"known": ", ".join(known)},
            "It is one of these, or a function.",
            "rf.LayerNormVariantsLSTMCell(..., activation=rf.tanh)",
        )
    return getattr(math, activation)
