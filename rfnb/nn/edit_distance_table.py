"""The table of the edit distance as a module: one row per step of a loop, or all rows for whole sequences."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import dim_error, runtime_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.core.tensor_text import shape_of
from rfnb.nn.module.module import Module
from rfnb.ops.cast import cast
from rfnb.ops.const import zeros
from rfnb.ops.defaults import copy_to_device
from rfnb.ops.dims import set_sparse_dim
from rfnb.ops.edit_distance_row import initial_edit_distance_row, next_edit_distance_row, optimal_completions
from rfnb.ops.expand import expand_dims
from rfnb.ops.math import compare, logical_and, logical_not
from rfnb.rec.scan import scan
from rfnb.rec.state import State


class EditDistanceTable(Module):
    """Edit distances between the sequence that a loop has generated so far and each prefix of the target, row by row.

        table = rf.EditDistanceTable(target, target_spatial_dim=time)
        loop.state.table = table.default_initial_state(batch_dims=[batch])
        for _ in loop:
            costs = table.optimal_completions(loop.state.table)          # of the labels that may come next
            label = ...
            row, loop.state.table = table(label, state=loop.state.table, spatial_dim=rf.single_step_dim)

    Args:
        target: int {..., target_spatial_dim}, sparse over the labels.
        target_spatial_dim: The dim of the labels.
        blank_idx: A label that is not in the target and is ignored.

    State: `row` int32 {..., target_spatial_dim + 1} and `n` int32 {...}, the number of symbols read.

    Raises:
        DimError: If target lacks target_spatial_dim.

    Source: Wagner and Fischer 1974; Sabour et al. 2018, section 3, for the optimal completions.
    """

    def __init__(self, target: Tensor, *, target_spatial_dim: Dim, blank_idx: int | None = None):
        check_dim("EditDistanceTable", target, target_spatial_dim, "target")
        self.target, self.target_spatial_dim, self.blank_idx = target, target_spatial_dim, blank_idx
        self.row_dim = target_spatial_dim + 1

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """The state before the first symbol: the row 0, 1, ..., time; {*batch_dims, ...}."""
        row = initial_edit_distance_row(self.target, b_spatial_dim=self.target_spatial_dim)
        n = zeros(batch_dims, dtype="int32", device=self.target.device)
        return State(row=row, n=n)

    def __call__(
        self, source: Tensor, *, state: State | None = None, spatial_dim: Dim, ended: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Read one symbol, or all symbols of a sequence.

        Args:
            source: int {...} for one step, or {..., spatial_dim}.
            state: Required for a single step. Default for a whole sequence: the state before the first symbol.
            spatial_dim: `single_step_dim`, or the dim of the symbols; an ended sequence keeps its row.
            ended: bool {...}, for a single step: True keeps the row. A Loop does this automatically.

        Returns:
            int32 {..., target_spatial_dim + 1}, with spatial_dim for a whole sequence, where row t follows symbol t;
            the last value of a row is the edit distance so far. And the state.

        Raises:
            RuntimeError: For a single step without state.
            DimError: If the labels of source are not those of the target and the blank.
        """
        self._check(source)
        if spatial_dim is single_step_dim:
            if state is None:
                raise runtime_error(
                    "EditDistanceTable: a single step without state.",
                    {"source": source},
                    "Each row is computed from the previous one, which is the state of a loop.",
                    "loop.state.table = table.default_initial_state(batch_dims=[batch])\n"
                    "row, loop.state.table = table(label, state=loop.state.table, spatial_dim=rf.single_step_dim)",
                )
            state = self._step(source, state, ended)
            return state.row, state
        check_dim("EditDistanceTable", source, spatial_dim, "source")
        if state is None:
            state = self.default_initial_state(batch_dims=source.remaining_dims([spatial_dim]))

        def body(symbol: Tensor, state: State) -> tuple[Tensor, State]:
            state = self._step(symbol, state, None)
            return state.row, state

        # Dims that the target does not have, such as a beam, get their own rows.
        row = expand_dims(
            state.row, [dim for dim in source.dims if dim is not spatial_dim and dim not in state.row.dims]
        )
        rows, state, _ = scan(spatial_dim=spatial_dim, xs=source, initial=State(row=row, n=state.n), ys=row, body=body)
        return rows, state

    def optimal_completions(self, state: State, *, ended: Tensor | None = None, out_dim: Dim | None = None) -> Tensor:
        """The best edit distance that can still be reached, for each label that may come next; see `optimal_completions`.

        {...}, int32 {..., labels}.
        """
        return optimal_completions(
            state.row, self.target, b_spatial_dim=self.target_spatial_dim, n=state.n, ended=ended, blank_idx=self.blank_idx,
            out_dim=out_dim,
        )  # fmt: skip

    def _step(self, symbol: Tensor, state: State, ended: Tensor | None) -> State:
        row = next_edit_distance_row(
            state.row, symbol, self.target, b_spatial_dim=self.target_spatial_dim, n=state.n, ended=ended,
            blank_idx=self.blank_idx,
        )  # fmt: skip
        reads = compare(symbol, "equal", symbol)
        if self.blank_idx is not None:
            reads = compare(symbol, "not_equal", self.blank_idx)
        if ended is not None:
            reads = logical_and(reads, logical_not(copy_to_device(ended, symbol.device)))
        return State(row=row, n=state.n + set_sparse_dim(cast(reads, "int32"), None))

    def _check(self, source: Tensor) -> None:
        labels, given = self.target.sparse_dim, source.sparse_dim
        if labels is None or given is None:
            return
        needed = labels.extent if self.blank_idx is None else max(labels.extent, self.blank_idx + 1)
        if given.extent != needed:
            raise dim_error(
                "EditDistanceTable: source and target are over other labels.",
                {
                    "source": f"{shape_of(source)} over {given.short_repr()}",
                    "target": f"{shape_of(self.target)} over {labels.short_repr()}",
                    "blank_idx": self.blank_idx,
                },
                f"Source needs the labels of the target{'' if self.blank_idx is None else ' and the blank'}: {needed}.",
                "source = rf.set_sparse_dim(source, labels)",
            )
