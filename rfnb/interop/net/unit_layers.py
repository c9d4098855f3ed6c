"""Recurrent units by name: rec over a sequence or as a step of a loop, rnn_cell, get_last_hidden_state."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import dim_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.interop.net.call_dims import axis_of, frame_dims, marked, with_feature
from rfnb.interop.net.layer import Layer, LayerOfModule, Unknown, is_initial_keyword, layer_class, strings
from rfnb.interop.net.scope import Scope
from rfnb.interop.net.step_network import REC_OPTIONS
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.recurrent.last_hidden_state import last_hidden_state
from rfnb.nn.recurrent.native_lstm import NativeLstm
from rfnb.nn.recurrent.rec import Rec
from rfnb.nn.recurrent.rnn_cell import RnnCell
from rfnb.ops.const import ones_like, zeros_like
from rfnb.ops.dims import replace_dim
from rfnb.ops.expand import expand_dims
from rfnb.rec.state import State

_NO_EFFECT = ("optimize_move_layers_out", "include_eos", "max_seq_len_via")


class _UnitBase(LayerOfModule):
    """A unit with its state. In a loop it makes one step, and the loop carries the state."""

    framewise = True

    def begin(self) -> None:
        if self.out_dim is None:
            raise self.features_unknown({"unit": repr(self.opts.get("unit"))})
        given = self.opts.get("initial_state")
        is_ref = isinstance(given, str) and not is_initial_keyword(given)
        # Layers: a name, a dict by part, or a list in order. A part may also be "zeros", 0, "ones", 1 or None.
        self.initial_refs = given if is_ref or isinstance(given, (dict, list, tuple)) else None

    def refs(self, search: bool) -> list[str]:
        return [*super().refs(search), *(ref for ref in strings(self.initial_refs) if not is_initial_keyword(ref))]

    def make_unit(self, in_dim: Dim, initial: Any) -> Any:
        raise NotImplementedError

    def make(self, env: Scope, sources: list[Tensor]) -> None:
        self.in_dim = self.in_dim_of(self.concatenated(sources, env))
        initial = self.opts.get("initial_state") if self.initial_refs is None else None
        self.module = self.make_unit(self.in_dim, initial)
        if self.initial_refs is not None and isinstance(self.module.unit, NativeLstm):
            raise value_error(
                f"{self.what}: NativeLstm takes no initial state.",
                {"initial_state": repr(self.opts["initial_state"])},
                "It always starts from zeros. The same unit with an initial state:",
                '"unit": "NativeLstm2"',
            )

    def own_parameters(self) -> dict[str, Parameter]:
        if not self.is_made:
            return {}
        return {f"{self.path}/{name}": value for name, value in self.module.documented_parameters().items()}

    # -- running -----------------------------------------------------------------------------------------------------------
    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        x = self.as_made(self.concatenated(sources, env), self.in_dim)
        axis = self._axis(x, env)
        state = env.state(self)
        if state is None or axis is not single_step_dim:
            state = self._initial(env, [dim for dim in frame_dims(x) if dim is not axis])
        output, final = self.module(x, axis=axis, **({} if state is None else {"state": state}))
        if axis is single_step_dim:
            env.set_state(self, final)
        env.finals[self.name] = final
        return marked(output, self.out_dim)

    def _axis(self, x: Tensor, env: Scope) -> Dim:
        given = self.opts.get("axis")
        if given is None:
            return self.axis(x, env)
        return given if given is single_step_dim else axis_of(x, given, env.dims, self.what)

    # -- state -------------------------------------------------------------------------------------------------------------
    def _initial(self, env: Scope, batch: list[Dim]) -> State | None:
        """The initial state given by layers; None if the module determines it."""
        if self.initial_refs is None:
            return None
        zeros = self.module.default_initial_state(batch_dims=batch)
        parts = [name for name in zeros if not str(name).endswith("_mask")]
        given = self.initial_refs
        if isinstance(given, (list, tuple)) and len(given) == len(parts):
            given = dict(zip(parts, given, strict=True))
        elif not isinstance(given, (dict, list, tuple)) and len(parts) == 1:
            given = {parts[0]: given}
        if not isinstance(given, dict) or set(given) != set(parts):
            shown = ", ".join(given) if isinstance(given, dict) else repr(given)
            raise value_error(
                f"{self.what}: the parts of the initial state do not match the unit.",
                {"given": shown, "needed": ", ".join(parts)},
                "Each part of the state needs a value.",
                f'"initial_state": {{{", ".join(f"{part!r}: ..." for part in parts)}}}',
            )
        return State({**zeros, **{part: self._part(given[part], zeros[part], env) for part in parts}})

    def _part(self, given: Any, zero: Tensor, env: Scope) -> Tensor:
        if given in (None, 0, "zeros"):
            return zeros_like(zero)
        if given in (1, "ones"):
            return ones_like(zero)
        value = env.get(given)
        own = value.feature_dim
        if own is None or self.out_dim is None or own.size != self.out_dim.size:
            raise value_error(
                f'{self.what}: the initial state "{given}" has the wrong number of features.',
                [(str(given), value), ("needed", zero)],
                "Each part of the state has as many features as the output.",
            )
        if own is not self.out_dim:
            value, _ = replace_dim(value, in_dim=own, out_dim=self.out_dim)
        missing = [dim for dim in zero.dims if dim not in value.dims]
        return marked(expand_dims(value, missing) if missing else value + 0, self.out_dim)

    def initial_state(self, env: Scope) -> State | None:
        try:
            x = self.as_made(self.concatenated(env.sources(self), env), self.in_dim)
        except Unknown:
            return None
        if self._axis(x, env) is not single_step_dim:
            return None
        batch = frame_dims(x)
        return self._initial(env, batch) or self.module.default_initial_state(batch_dims=batch)

    def previous_output(self, env: Scope) -> Tensor | None:
        state = self.initial_state(env)
        if state is None:
            return None
        parts = [name for name in state if not str(name).endswith("_mask")]
        value = state["h"] if "h" in parts else state[parts[-1]]
        return marked(value + 0, self.out_dim)


class UnitLayer(_UnitBase):
    """A unit over a sequence, forward or backward."""

    options = REC_OPTIONS

    def make_unit(self, in_dim: Dim, initial: Any) -> Rec:
        options = {
            name: self.opts[name]
            for name in REC_OPTIONS
            if name in self.opts and name not in (*_NO_EFFECT, "unit", "axis", "initial_state")
        }
        options = {name: value for name, value in options.items() if value is not None}
        return Rec(self.opts.get("unit", "lstm"), in_dim, self.out_dim, initial_state=initial, **options)


@layer_class("rnn_cell")
class RnnCellLayer(_UnitBase):
    """One step of a unit; with a time dim, all steps."""

    required = ("unit",)
    options = ("unit_opts", "initial_state", "weights_init")

    def make_unit(self, in_dim: Dim, initial: Any) -> RnnCell:
        options = {name: self.opts[name] for name in ("unit_opts", "weights_init") if self.opts.get(name) is not None}
        return RnnCell(self.opts["unit"], in_dim, self.out_dim, initial_state=initial, **options)

    def _axis(self, x: Tensor, env: Scope) -> Dim:
        axis = super()._axis(x, env)
        if env.in_loop and axis is not single_step_dim:
            raise dim_error(
                f"{self.what}: the source of a step has a time dim.",
                {"source": x},
                "In a loop, a cell computes one step from one frame.",
                f'"{self.name}": {{..., "from": "data:source"}}',
            )
        return axis


@layer_class("get_last_hidden_state")
class GetLastHiddenStateLayer(Layer):
    """The final states of its sources, concatenated or summed."""

    options = ("combine", "key")
    own_feature = False

    def template(self, env: Scope) -> Tensor:
        for ref in self.sources:
            env.get(ref)
            layer, scope = env.layer_of(ref)
            if layer.name not in scope.finals and env.in_loop and not env.guess:
                raise Unknown(ref)
        return self.compute(env, [])

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        states = []
        for ref in self.sources:
            env.get(ref)
            layer, scope = env.layer_of(ref)
            if layer.name not in scope.finals:
                raise value_error(
                    f'{self.what}: "{ref}" has no state.',
                    {"with a state": ", ".join(scope.finals) or "none"},
                    "Only recurrent layers have a state.",
                )
            states.append(scope.finals[layer.name])
        combine, key = self.opts.get("combine", "concat"), self.opts.get("key", "*")
        out = last_hidden_state(states, key=key, combine=combine, n_out=self.n_out)
        if self.out_dim is not None:
            out = with_feature(out, self.out_dim, self.what)
        return out
