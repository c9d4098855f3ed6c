"""Self-attention, positions, histories and the 2D LSTM, implemented by the modules of rfnb, with their states in loops."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import dim_error, not_implemented_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.interop.net.call_dims import attended_dim, axis_of, frame_dims, marked, time_dim, with_feature
from rfnb.interop.net.dependencies import makers_of_dims
from rfnb.interop.net.layer import Layer, LayerOfModule, Unknown, layer_class
from rfnb.interop.net.scope import Scope
from rfnb.nn.attention.positional_layers import PositionalEncoding, RelativePositionalEncoding
from rfnb.nn.attention.qkv import QKVSelfAttention
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.recurrent.two_d_lstm import TwoDLSTM
from rfnb.ops.const import zeros
from rfnb.ops.expand import expand_dims
from rfnb.rec.cum_concat import cum_concat, cum_concat_initial_state, history_and, history_dim
from rfnb.rec.state import State


@layer_class("self_attention")
class SelfAttentionLayer(LayerOfModule):
    """Self-attention with one matrix QKV; in a loop, over the previous steps."""

    required = ("num_heads", "total_key_dim")
    framewise = True
    options = ("attention_left_only", "attention_dropout", "forward_weights_init", "initial_state", "restrict_state_to_last_seq",
               "state_var_lengths")  # fmt: skip
    references = ("key_shift",)

    def make(self, env: Scope, sources: list[Tensor]) -> None:
        x = self.concatenated(sources, env)
        heads, total = self.opts["num_heads"], self.opts["total_key_dim"]
        for option in ("initial_state", "state_var_lengths"):
            if self.opts.get(option) is not None:
                raise not_implemented_error(
                    f"{self.what}: {option} is not supported in the dict notation.",
                    {option: self.opts[option]},
                    "In Python a state is an argument of the call:",
                    "rf.QKVSelfAttention(...)(source, axis=time, state=state)",
                )
        if self.out_dim is None or self.n_out is None:
            raise self.features_unknown({}, "n_out is the number of features of the values of all heads together.")
        if total % heads or self.n_out % heads:
            raise value_error(
                f"{self.what}: num_heads does not divide the number of features.",
                {"num_heads": heads, "total_key_dim": total, "n_out": self.n_out},
                "All heads have the same number of features.",
            )
        self.in_dim = in_dim = self.in_dim_of(x)
        out_dim = self.out_dim if self.out_dim is not in_dim else Dim(self.n_out, name=f"{self.name}:values")
        self.module = QKVSelfAttention(
            in_dim, key_dim_total=Dim(total, name=f"{self.name}:keys"), value_dim_total=out_dim, num_heads=heads,
            attention_left_only=bool(self.opts.get("attention_left_only")), att_dropout=self.opts.get("attention_dropout") or 0.0,
            restrict_state_to_last_seq=bool(self.opts.get("restrict_state_to_last_seq")),
        )  # fmt: skip

    def own_parameters(self) -> dict[str, Parameter]:
        return {f"{self.path}/QKV": self.module.QKV} if self.is_made else {}

    def initial_state(self, env: Scope) -> State | None:
        return self.module.default_initial_state(batch_dims=self.batch_dims(env))

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        x = self.as_made(self.concatenated(sources, env), self.in_dim)
        axis = self.axis(x, env)
        if axis is single_step_dim and not self.opts.get("attention_left_only"):
            raise value_error(
                f"{self.what}: attention_left_only is required in a loop.",
                {"source": x},
                "A step cannot attend to later steps.",
                '"attention_left_only": True',
            )
        out = self.run(env, axis, frame_dims(x), x, axis, key_shift=env.get(self.opts.get("key_shift")))
        out = marked(out, self.module.value_dim_total)
        return with_feature(out, self.out_dim, self.what) if self.out_dim is not None else out


@layer_class("positional_encoding")
class PositionalEncodingLayer(LayerOfModule):
    """Sines and cosines of the position; in a loop, of the step."""

    framewise = True
    options = ("axis", "add_to_input", "constant")
    references = ("offset",)

    def make(self, env: Scope, sources: list[Tensor]) -> None:
        feature = self.concatenated(sources, env).feature_dim if sources else None
        if self.opts.get("add_to_input") or (self.out_dim is None and feature is not None):
            self.out_dim = feature
        if self.out_dim is None:
            raise self.features_unknown({})
        constant = self.opts.get("constant", -1)
        self.module = PositionalEncoding(
            self.out_dim, constant=constant, add_to_input=bool(self.opts.get("add_to_input"))
        )

    def _source(self, env: Scope, sources: list[Tensor]) -> Tensor | None:
        if not sources:
            return None
        x = self.concatenated(sources, env)
        if x.feature_dim is None and x.sparse_dim is None:  # e.g. the step index, which only determines the dims
            return None
        dim = self.out_dim if self.opts.get("add_to_input") else None
        return x if dim is None else with_feature(x, dim, self.what)

    def initial_state(self, env: Scope) -> State | None:
        return self.module.default_initial_state(batch_dims=self._over(env, env.sources(self)))

    def _over(self, env: Scope, sources: list[Tensor]) -> list[Dim]:
        x = self._source(env, sources)
        return env.batch_dims() if x is None else frame_dims(x)

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        x = self._source(env, sources)
        given, axis = self.opts.get("axis"), single_step_dim
        if x is not None:
            axis = self.axis(x, env) if given is None else axis_of(x, given, env.dims, self.what)
        offset = env.get(self.opts.get("offset"))
        out = self.run(env, axis, self._over(env, sources), x, axis=axis, offset=offset)
        missing = [] if x is not None else [dim for dim in env.batch_dims() if dim not in out.dims]
        return marked(expand_dims(out, missing) if missing else out, self.out_dim)


@layer_class("relative_positional_encoding")
class RelativePositionalEncodingLayer(LayerOfModule):
    """A vector for each pair of a query and a key; in a loop, for the current step and the previous ones."""

    options = tuple("axis clipping fixed forward_weights_init query_spatial_dim key_value_spatial_dim".split())
    references = ("query_offset",)

    def make(self, env: Scope, sources: list[Tensor]) -> None:
        if self.out_dim is None:
            raise self.features_unknown({})
        self.module = RelativePositionalEncoding(
            self.out_dim, clipping=self.opts.get("clipping", 16), fixed=bool(self.opts.get("fixed"))
        )

    def initial_state(self, env: Scope) -> State | None:
        return State(axis=history_dim(0))

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        for name in makers_of_dims(env.layers, self.name):
            env.get(name)  # the dim of this step
        queries, keys = (self._given(env, name) for name in ("query_spatial_dim", "key_value_spatial_dim"))
        offset = env.get(self.opts.get("query_offset"))
        if queries is None and "query_spatial_dim" not in self.opts and sources:
            axis = self.axis(self.concatenated(sources, env), env)
            queries = None if axis is single_step_dim else axis
        if queries is None and keys is None:
            state = env.state(self) or State(axis=history_dim(0))
            keys = history_and(state.axis, single_step_dim)
            env.set_state(self, State(axis=keys))
        elif env.in_loop and env.state(self) is not None:
            env.set_state(self, State(axis=history_and(env.state(self).axis, single_step_dim)))
        out = self.module(query_spatial_dim=queries, key_value_spatial_dim=keys, query_offset=offset)
        return marked(out, self.out_dim)

    def _given(self, env: Scope, option: str) -> Dim | None:
        dim = self.opts.get(option)
        return env.dims(dim) if isinstance(dim, Dim) else None


@layer_class("cum_concat")
class CumConcatLayer(Layer):
    """All frames up to each step, over out_spatial_dim."""

    options = ("out_spatial_dim", "axis")

    def initial_state(self, env: Scope) -> State | None:
        x = self.concatenated(env.sources(self), env)
        state = cum_concat_initial_state(x.dims, dtype=x.dtype, sparse_dim=x.sparse_dim)
        marked(state.accum, x.feature_dim)
        return state

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        x = self.concatenated(sources, env)
        declared = self.opts.get("out_spatial_dim")
        state = env.state(self)
        if state is None:
            given = self.opts.get("axis")
            if given is None:
                raise self.outside_of_loop(x, "The layer collects the frames of all steps of a loop.")
            out, dim, _ = cum_concat(x, axis=axis_of(x, given, env.dims, self.what))
        else:
            out, dim, state = cum_concat(x, axis=single_step_dim, state=state)
            env.set_state(self, state)
        if isinstance(declared, Dim):
            env.dims.bind(declared, dim)
        return marked(out, x.feature_dim)


@layer_class("twod_lstm")
class TwoDLSTMLayer(LayerOfModule):
    """LSTM over the grid of two sources, pooled over the time of the first."""

    options = ("pooling", "unit_opts", "forward_weights_init", "recurrent_weights_init", "bias_init")

    def _check(self, sources: list[Any]) -> None:
        if len(sources) != 2:
            raise value_error(
                f"{self.what}: {len(sources)} sources.",
                {"from": ", ".join(self.sources) or "nothing"},
                "The layer runs over a grid: it needs two sources, for the x axis and for the y axis.",
                '"from": ["encoder", "data:target"]',
            )

    def make(self, env: Scope, sources: list[Tensor]) -> None:
        self._check(sources)
        x_dim, y_dim = map(self.in_dim_of, sources)
        if self.out_dim is None:
            raise self.features_unknown({})
        self.module = TwoDLSTM(x_dim, y_dim, self.out_dim, pooling=self.opts.get("pooling", "last"))

    def documented(self, name: str) -> str:
        return f"rec-twod/{name}"

    def partial(self, env: Scope, known: list[Tensor]) -> Tensor:
        # Only for the previous step: y then has one frame. The axis of x is not in the result.
        try:
            x = env.get(self.sources[0])
        except (Unknown, IndexError):
            raise Unknown(self.path) from None
        dims = [dim for dim in x.dims if dim not in (x.feature_dim, attended_dim(x, zeros(()), env.dims))]
        return self._over_sources(env, [zeros(dims, dtype=x.dtype)])

    def initial_state(self, env: Scope) -> State | None:
        self._check(self.sources)
        x, y = (env.get(ref) for ref in self.sources)
        if time_dim(y, env.dims) is not None:
            return None
        return self.module.default_initial_state(batch_dims=frame_dims(x))

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        self._check(sources)
        x, y = sources
        x_axis, y_axis = attended_dim(x, y, env.dims), time_dim(y, env.dims) or single_step_dim
        if x_axis is None:
            raise dim_error(
                f"{self.what}: the first source has no time dim.",
                {"source": x},
                "The time dim of the first source is the x axis of the grid.",
            )
        out = self.run(env, y_axis, frame_dims(x), x, y, x_axis=x_axis, y_axis=y_axis)
        return marked(out, self.out_dim)
