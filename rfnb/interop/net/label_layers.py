"""Layers on labels: edit distances, rows of their table, and n-gram scores."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import dim_error
from rfnb.core.tensor import Tensor
from rfnb.interop.net.call_dims import axis_of, marked, time_dim
from rfnb.interop.net.layer import Layer, LayerOfModule, computes, layer_class
from rfnb.interop.net.scope import Scope
from rfnb.nn.edit_distance_table import EditDistanceTable
from rfnb.nn.kenlm_state import KenLmState
from rfnb.ops.dims import set_sparse_dim
from rfnb.ops.edit_distance_row import edit_distance, optimal_completions
from rfnb.ops.gather import gather
from rfnb.rec.state import State


@computes(
    "edit_distance",
    required=("a", "b"),
    options=("a_spatial_dim", "b_spatial_dim"),
    references=("a", "b"),
    needs_source=False,
)
def edit_distance_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """The edit distance of two sequences of labels, int32 {batch}."""
    a, b = env.get(layer.opts["a"]), env.get(layer.opts["b"])
    return edit_distance(a, _time_of(layer, "a", a, env), b, _time_of(layer, "b", b, env))


def _time_of(layer: Layer, name: str, x: Tensor, env: Scope) -> Dim:
    return axis_of(x, layer.opts.get(f"{name}_spatial_dim") or "T", env.dims, f"{layer.what}, {name}")


class _OfTarget(Layer):
    """The base of layers that read whole target sequences from outside the loop."""

    required: tuple[str, ...] = ("target",)
    options: tuple[str, ...] = ("blank_idx",)
    own_feature = False

    def refs(self, search: bool) -> list[str]:
        return [*super().refs(search), self._ref()]

    def _ref(self) -> str:
        target = str(self.opts["target"])
        return target if ":" in target else f"base:data:{target}"

    def target(self, env: Scope) -> tuple[Tensor, Dim]:
        """The labels, and their time."""
        labels = env.get(self._ref())
        time = time_dim(labels, env.dims)
        if time is None:
            raise dim_error(
                f"{self.what}: the target has no time dim.",
                {"target": labels},
                "The target is a whole sequence of labels.",
            )
        return labels, time


@layer_class("edit_distance_table")
class EditDistanceTableLayer(_OfTarget):
    """In each step of a loop the edit distances between all labels so far and each prefix of the target."""

    def _table(self, env: Scope) -> EditDistanceTable:
        labels, time = self.target(env)
        return EditDistanceTable(labels, target_spatial_dim=time, blank_idx=self.opts.get("blank_idx"))

    def initial_state(self, env: Scope) -> State | None:
        x = env.get(self.sources[0])
        return self._table(env).default_initial_state(batch_dims=x.dims)

    def previous_output(self, env: Scope) -> Tensor | None:
        table = self._table(env)
        state = table.default_initial_state(batch_dims=env.get(self.sources[0]).dims)
        return marked(state.row, table.row_dim)

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        if not env.in_loop:
            raise self.outside_of_loop(sources[0], "The layer reads one label in each step of a loop.")
        table = self._table(env)
        row, state = table(sources[0], state=env.state(self), spatial_dim=single_step_dim)
        env.set_state(self, state)
        return marked(row, table.row_dim)


@computes("optimal_completions", of=_OfTarget, options=("blank_idx", "debug"))
def optimal_completions_layer(layer: _OfTarget, env: Scope, sources: list[Tensor]) -> Tensor:
    """From a row of the table: the best distance that each possible next label can still reach."""
    (row,), (labels, time) = sources, layer.target(env)
    # The first entry of a row is the number of symbols read so far.
    read = set_sparse_dim(gather(row, indices=0, axis=time + 1), None)
    out = optimal_completions(row, labels, b_spatial_dim=time, n=read, blank_idx=layer.opts.get("blank_idx"))
    return marked(out, next(dim for dim in out.dims if dim not in row.dims))


@layer_class("kenlm")
class KenLmStateLayer(LayerOfModule):
    """In each step of a loop the n-gram score of a label, or of all possible next labels."""

    required = ("lm_file", "vocab_file")
    options = tuple("vocab_unknown_label bpe_merge_symbol input_step_offset dense_output debug".split())

    def make(self, env: Scope, sources: list[Tensor]) -> None:
        names = ("vocab_unknown_label", "bpe_merge_symbol", "input_step_offset", "dense_output")
        given: dict[str, Any] = {name: self.opts[name] for name in names if name in self.opts}
        self.module = KenLmState(self.opts["lm_file"], vocab_file=self.opts["vocab_file"], **given)

    def initial_state(self, env: Scope) -> State | None:
        return self.module.default_initial_state(batch_dims=env.get(self.sources[0]).dims)

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        if not env.in_loop:
            raise self.outside_of_loop(sources[0], "The layer scores one label in each step of a loop.")
        out, state = self.module(sources[0], state=env.state(self), spatial_dim=single_step_dim)
        env.set_state(self, state)
        return marked(out, self.module.out_dim if self.opts.get("dense_output") else None)
