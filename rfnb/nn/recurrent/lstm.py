"""LSTM: over a whole sequence, or one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dim import Dim, Dims, single_step_dim
from rfnb.core.errors import type_error, value_error
from rfnb.core.finite_padding import finite_with, padding_mask, whole_padding
from rfnb.core.generations import aligned
from rfnb.core.layout import PlanCache, full_shape
from rfnb.core.op import op
from rfnb.core.plan_parts import Shape
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.init import Glorot
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.recurrent.flat_batch import batch_dims_of, flat_mask_raw, flat_raw, rows_of
from rfnb.nn.recurrent.steps import expanded
from rfnb.nn.recurrent.unit_parts import gated, offer_gates, split_gates
from rfnb.ops.const import zeros
from rfnb.ops.frames import frames, from_frames
from rfnb.ops.gradient import stop_gradient_scope
from rfnb.ops.math import sigmoid, tanh
from rfnb.ops.matmul import matmul
from rfnb.rec.state import State
from rfnb.trace.editing import editing, gates_edits
from rfnb.trace.probe import _open, listening, probe

_step_plans = PlanCache()


class LstmState(State):
    """h {..., out} and c {..., out}."""

    def __init__(self, *args: Any, h: Tensor | None = None, c: Tensor | None = None):
        if args:
            super().__init__(*args)
        else:
            self["h"], self["c"] = h, c


class LSTM(Module):
    """Long short-term memory.

        i, f, g, o = split4(x W + h R + b);  c' = sigmoid(f) c + sigmoid(i) tanh(g);  h' = sigmoid(o) tanh(c')

    Parameters:
        ff_weight: {4 * out, in}, Glorot uniform. rec_weight: {4 * out, out}, Glorot uniform. bias: {4 * out}, zero.
        The gates are in the order i, f, g (cell), o.

    Probes:
        states: h, c, input_gate, forget_gate, cell_input and output_gate {spatial_dim, ..., out}, and axis; of one step the gates.

    Source: Hochreiter and Schmidhuber 1997; with forget gate, Gers et al. 2000.
    """

    def __init__(self, in_dim: Dim, out_dim: Dim, *, with_bias: bool = True):
        self.in_dim, self.out_dim = in_dim, out_dim
        gates = 4 * out_dim
        self.ff_weight = Parameter((gates, in_dim))
        self.ff_weight.initial = Glorot()
        self.rec_weight = Parameter((gates, out_dim))
        self.rec_weight.initial = Glorot()
        self.bias = Parameter((gates,)) if with_bias else None

    @op
    def __call__(self, source: Tensor, *, state: LstmState, spatial_dim: Dim) -> tuple[Tensor, LstmState]:
        """Run over `spatial_dim`, or one step with `single_step_dim`.

        Args:
            source: {..., spatial_dim, in}
            state: h and c {..., out}.
            spatial_dim: Ragged: each sequence stops at its end; later frames are 0.

        Returns:
            h of every step {spatial_dim, ..., out}, and the state after the last step of each sequence.

        Raises:
            DimError: If source has no in_dim or no spatial_dim.
            TypeError: Without a state.
        """
        check_dim("LSTM", source, self.in_dim, "source")
        if state is None:
            raise type_error(
                "LSTM: no state.",
                {"source": source, "spatial_dim": spatial_dim},
                "The first state is zeros, over all dims but those of time and features:",
                "state = lstm.default_initial_state(batch_dims=[batch])",
            )
        if spatial_dim is single_step_dim:
            return self._step(source, state)
        check_dim("LSTM", source, spatial_dim, "source")
        for edit in gates_edits():
            raise value_error(
                f'edit: "{edit.text}" is in no kernel.',
                {"source": source, "spatial_dim": spatial_dim},
                "Over a whole sequence an LSTM is one call, which does not compute separate gates. Step by step it does:",
                "lstm(x_t, state=state, spatial_dim=rf.single_step_dim)    # or a unit of another class, as rf.NativeLstm2",
            )
        batch = batch_dims_of(source, state.h, skip=(self.in_dim, spatial_dim), out_dim=self.out_dim)
        out_dims = (*batch, self.out_dim)
        shape = full_shape(batch)
        lead = (spatial_dim.extent,)
        raw = flat_raw(source, (spatial_dim, *batch, self.in_dim), lead)
        h, c = (flat_raw(part, out_dims, ()) for part in (state.h, state.c))
        backend = source.backend
        bias = None if self.bias is None else self.bias._raw
        mask = flat_mask_raw("LSTM", source, spatial_dim, batch)
        y, h, c = backend.lstm_raw(raw, h, c, self.ff_weight._raw, self.rec_weight._raw, bias, mask)
        if len(batch) != 1:
            y = backend.reshape_raw(y, (*lead, *shape, self.out_dim.extent))
            h, c = (backend.reshape_raw(part, (*shape, self.out_dim.extent)) for part in (h, c))
        out = self._part(y, (spatial_dim, *out_dims))
        out._finite = padding_mask(out_dims, backend) is None  # 0 after the end of each sequence
        if _open and listening("states"):
            self._show_sequence(source, state, out, out_dims, spatial_dim)
        return out, LstmState(h=self._part(h, out_dims), c=self._part(c, out_dims))

    @op(of="LSTM")
    def _step(self, source: Tensor, state: LstmState) -> tuple[Tensor, LstmState]:
        """One step; flattening the dims to one batch axis is a cached plan."""
        h, c = state["h"], state["c"]
        if editing.get() and gates_edits():
            return self._step_of_gates(source, h, c)
        key = (source._raw.__class__, source.dims, h.dims, c.dims, self.in_dim, self.out_dim)
        try:
            rows, rows_h, rows_c, finish, out_dims, backend, padded = _step_plans[key]
        except KeyError:
            together = aligned("LSTM", (source, h, c))
            if together is not None:
                source, h, c = together
                return self._step(source, LstmState(h=h, c=c))
            rows, rows_h, rows_c, finish, out_dims, backend, padded = _step_plans.make(
                key, self._plan_step, source, h, c
            )
        if padded:
            weight = self.rec_weight
            source, h, c = finite_with(source, weight), finite_with(h, weight), finite_with(c, weight)
        raw, raw_h, raw_c = source._raw, h._raw, c._raw
        raw = raw if rows is None else rows(raw)
        raw_h = raw_h if rows_h is None else rows_h(raw_h)
        raw_c = raw_c if rows_c is None else rows_c(raw_c)
        bias = None if self.bias is None else self.bias._raw
        raw_h, raw_c = backend.lstm_step_raw(raw, raw_h, raw_c, self.ff_weight._raw, self.rec_weight._raw, bias)
        if finish is not None:
            raw_h, raw_c = finish(raw_h), finish(raw_c)
        if _open and listening("states"):
            self._show_step(source, h)
        out = self._part(raw_h, out_dims)
        return out, LstmState(h=out, c=self._part(raw_c, out_dims))

    def _step_of_gates(self, source: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, LstmState]:
        """One step by the formula, with edited gates."""
        gates = gated(**self._gates(source, h))
        if listening("states"):
            offer_gates(gates)
        i, f, g, o = gates.values()
        c = f * c + i * g
        h = o * tanh(c)
        c.feature_dim = h.feature_dim = self.out_dim
        return h, LstmState(h=h, c=c)

    def _plan_step(self, source: Tensor, h: Tensor, c: Tensor) -> Any:
        batch = batch_dims_of(source, h, skip=(self.in_dim,), out_dim=self.out_dim)
        backend, out_dims = source.backend, (*batch, self.out_dim)
        shape, reshape = Shape(*out_dims), backend.reshape_raw
        rows = [
            rows_of(value.dims, dims, backend)
            for value, dims in ((source, (*batch, self.in_dim)), (h, out_dims), (c, out_dims))
        ]
        finish = None if len(shape) == 2 else lambda raw: reshape(raw, shape)
        return *rows, finish, out_dims, backend, whole_padding(out_dims, backend) is not None

    # -- recording: the kernels do not return gates ------------------------------------------------------------------------
    def _show_step(self, source: Tensor, h: Tensor) -> None:
        """Send the gates of one step; h is the previous one. The loop sends the state."""
        with stop_gradient_scope():
            offer_gates(self._gates(source, h))

    def _show_sequence(self, source: Tensor, state: LstmState, out: Tensor, out_dims: Dims, spatial_dim: Dim) -> None:
        """Send h, c and the gates of all steps. The gates are computed from h for all steps at once; c is accumulated from them."""
        assert state.h is not None and state.c is not None
        with stop_gradient_scope():
            source = source.copy_masked(0)
            first, c = (expanded(part, out_dims).copy_masked(0) for part in (state.h, state.c))
            hs = frames(out, axis=spatial_dim)
            if not hs:
                probe("states", h=out, axis=spatial_dim)
                return
            before = from_frames([first, *hs[:-1]], axis=spatial_dim, like=first)
            series = {name: gate.copy_masked(0) for name, gate in self._gates(source, before).items()}
            parts = [frames(series[name], axis=spatial_dim) for name in ("input_gate", "cell_input", "forget_gate")]
            cs = []
            for input_gate, cell_input, forget_gate in zip(*parts):
                c = expanded(forget_gate * c + input_gate * cell_input, out_dims)
                cs.append(c)
            c = from_frames(cs, axis=spatial_dim, like=cs[0]).copy_masked(0, dims=[spatial_dim])
            probe("states", h=out, c=c, **series, axis=spatial_dim)

    def _gates(self, source: Tensor, h: Tensor) -> dict[str, Tensor]:
        """The gates by name, from frames and the previous h."""
        gates = matmul(source, self.ff_weight, reduce=self.in_dim) + matmul(h, self.rec_weight, reduce=self.out_dim)
        gates = gates if self.bias is None else gates + self.bias
        parts = split_gates(gates, order="ifgo", out_dim=self.out_dim)
        return {
            "input_gate": sigmoid(parts["i"]), "forget_gate": sigmoid(parts["f"]),
            "cell_input": tanh(parts["g"]), "output_gate": sigmoid(parts["o"]),
        }  # fmt: skip

    def _part(self, raw: Any, dims: Dims) -> Tensor:
        out = new_tensor(raw, dims)
        out._feature_dim = self.out_dim
        return out

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> LstmState:
        """Zeros {*batch_dims, out}."""
        dims = (*batch_dims, self.out_dim)
        device, dtype = self.rec_weight.device, self.rec_weight.dtype
        h, c = (zeros(dims, device=device, dtype=dtype, feature_dim=self.out_dim) for _ in range(2))
        return LstmState(h=h, c=c)
