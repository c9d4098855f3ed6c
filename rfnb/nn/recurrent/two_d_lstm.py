"""LSTM over a grid: source positions along one axis, target positions along the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import dim_error, value_error
from rfnb.core.layout import full_shape
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.core.tensor_text import missing_dim, shape_of
from rfnb.nn.attention.encoder_decoder import last_frame
from rfnb.nn.attention.weight_hook import attended
from rfnb.nn.init import Glorot
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.recurrent.flat_batch import flat_mask_raw, flat_raw
from rfnb.ops import reduce
from rfnb.ops.concat import split
from rfnb.ops.const import zeros
from rfnb.ops.dims import last_frame_position_of_dim
from rfnb.ops.expand import expand_dim
from rfnb.ops.gather import gather
from rfnb.ops.matmul import matmul
from rfnb.ops.softmax import softmax
from rfnb.ops.where import where
from rfnb.rec.state import State
from rfnb.trace.probe import listening, probe

POOLINGS = ("last", "max", "average", "weighted")
_row = Dim(1, name="row")


class TwoDLSTM(Module):
    """Each cell (y, x) of a grid has two predecessors, h[y, x - 1] and h[y - 1, x]; a gate l mixes their memories:

        i, f, l, o, j = split5([x; y] W_re + h[y, x - 1] Vh_re + h[y - 1, x] Vv_re),  all but j through a sigmoid
        c = i tanh(j) + f (l c[y - 1, x] + (1 - l) c[y, x - 1]);  h = o tanh(c)

    Beyond the ends of the x axis h and c are 0. A row is pooled over x to one vector:

        "last"      h at the last x
        "average"   mean over x
        "max"       maximum over x
        "weighted"  mean with the weights softmax_x(y W_att · h)

    Args:
        x_dim, y_dim: Features of the two sources.
        pooling: One of the above.
        mask_pooling: False: "max" and "weighted" include the padding of x, as zeros, like the reference implementation;
            results then depend on the batch. True: they do not.

    Parameters:
        W_re: {x_dim + y_dim, 5 * out}, Vh_re and Vv_re: {out, 5 * out}, W_att (only "weighted"): {y_dim, out}. All Glorot
        uniform.

    Raises:
        ValueError: For another pooling.

    Source: Graves et al. 2007, "Multi-dimensional Recurrent Neural Networks"; the gate l: Leifert et al. 2016, "Cells in
    Multidimensional Recurrent Neural Networks"; Bahar et al. 2018, "Towards Two-Dimensional Sequence to Sequence Model in
    Neural Machine Translation", equations (3) to (9).
    """

    def __init__(self, x_dim: Dim, y_dim: Dim, out_dim: Dim, *, pooling: str = "last", mask_pooling: bool = False):
        if pooling not in POOLINGS:
            raise value_error(
                f'TwoDLSTM: pooling "{pooling}".',
                {"known": ", ".join(POOLINGS)},
                "A row of the grid becomes one vector by one of these.",
                'rf.TwoDLSTM(..., pooling="last")',
            )
        self.x_dim, self.y_dim, self.out_dim = x_dim, y_dim, out_dim
        self.pooling, self.mask_pooling = pooling, mask_pooling
        self._gates = 5 * out_dim
        self.W_re = Parameter((x_dim + y_dim, self._gates), initial=Glorot())
        self.Vh_re = Parameter((out_dim, self._gates), initial=Glorot())
        self.Vv_re = Parameter((out_dim, self._gates), initial=Glorot())
        self._att_dim = y_dim.copy(match_priority=1) if y_dim is out_dim else y_dim
        self.W_att = Parameter((self._att_dim, out_dim), initial=Glorot()) if pooling == "weighted" else None

    @op
    def __call__(self, *sources: Tensor, x_axis: Dim, y_axis: Dim, state: State | None = None) -> tuple[Tensor, State]:
        """Run all rows, or the next one with `single_step_dim`.

        Args:
            sources: x {..., x_axis, x_dim} and y {..., y_axis, y_dim}; y for one step {..., y_dim}. Either may be labels, sparse
                over its dim.
            x_axis: Its padding does not affect the result (but see mask_pooling).
            y_axis: `single_step_dim` for one row.
            state: h and c {..., x_axis, out} of the previous row. None: 0.

        Returns:
            {..., y_axis, out}, and the state after the last row of each sequence.

        Raises:
            ValueError: For another number of sources.
            DimError: If a source lacks its axis or its features.

        Probes:
            attention: weights {..., y_axis, x_axis}, for the pooling "weighted".
            states: h {..., y_axis, out}, for a whole sequence.
        """
        if len(sources) != 2:
            raise value_error(
                f"TwoDLSTM: {len(sources)} sources.",
                [(f"source {index}", shape_of(source)) for index, source in enumerate(sources)],
                "A grid has two axes: it takes the source of the x axis and that of the y axis.",
                "lstm(x, y, x_axis=source_time, y_axis=target_time)",
            )
        x, y = sources
        single = y_axis is single_step_dim
        self._check(x, y, x_axis, None if single else y_axis)
        if single:
            y, y_axis = expand_dim(y, _row), _row
        x, y = x.copy_masked(0), y.copy_masked(0)  # the gradient through NaN would be NaN
        h, c, start = self._grid(x, y, x_axis, y_axis, state)
        out = self._pool(h, y, x_axis).copy_transpose([dim for dim in h.dims if dim is not x_axis])
        out._feature_dim = self.out_dim
        if single:
            h, c, out = (gather(part, indices=0, axis=_row) for part in (h, c, out))
            return out, State(h=h, c=c)
        if listening():
            probe("states", h=out, axis=y_axis)
        return out, State(h=_last_row(h, start.h, y_axis), c=_last_row(c, start.c, y_axis))

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """Zeros {*batch_dims, out}; batch_dims includes the x axis."""
        dims, weight = (*batch_dims, self.out_dim), self.W_re
        h, c = (zeros(dims, dtype=weight.dtype, device=weight.device, feature_dim=self.out_dim) for _ in range(2))
        return State(h=h, c=c)

    @op(of="TwoDLSTM")
    def _grid(
        self, x: Tensor, y: Tensor, x_axis: Dim, y_axis: Dim, state: State | None
    ) -> tuple[Tensor, Tensor, State]:
        """h and c of all cells {y_axis, x_axis, ..., out}, and the previous state."""
        weight_x, weight_y = split(self.W_re, axis=self.x_dim + self.y_dim, out_dims=(self.x_dim, self.y_dim))
        gates_x, gates_y = _product(x, weight_x, self.x_dim), _product(y, weight_y, self.y_dim)
        parts = [(gates_x, self._gates), (gates_y, self._gates)]
        if state is not None:
            parts += [(state.h, self.out_dim), (state.c, self.out_dim)]
        skip = (x_axis, y_axis)
        batch = tuple(dict.fromkeys(d for part, last in parts for d in part.dims if d not in skip and d is not last))
        if state is None:
            state = self.default_initial_state(batch_dims=[x_axis, *batch])
        width, height = x_axis.extent, y_axis.extent
        raw_x = flat_raw(gates_x, (x_axis, *batch, self._gates), (width,))
        raw_y = flat_raw(gates_y, (y_axis, *batch, self._gates), (height,))
        raw_h, raw_c = (flat_raw(part, (x_axis, *batch, self.out_dim), (width,)) for part in (state.h, state.c))
        mask = flat_mask_raw("TwoDLSTM", x, x_axis, batch)
        backend = x.backend
        cells = backend.two_d_lstm_raw(raw_x, raw_y, self.Vh_re._raw, self.Vv_re._raw, raw_h, raw_c, mask)
        dims = (y_axis, x_axis, *batch, self.out_dim)
        h, c = (new_tensor(backend.reshape_raw(part, full_shape(dims)), dims) for part in cells)
        return h, c, state

    def _pool(self, h: Tensor, y: Tensor, x_axis: Dim) -> Tensor:
        if self.pooling == "last":
            return last_frame(h, axis=x_axis)
        if not x_axis.extent:
            dims = [dim for dim in h.dims if dim is not x_axis]
            return zeros(dims, dtype=h.dtype, device=h.device)
        if self.pooling == "weighted":
            return self._weighted(h, y, x_axis)
        masked = self.mask_pooling or self.pooling == "average"
        out = reduce.reduce(h, mode="mean" if self.pooling == "average" else "max", axis=x_axis, use_mask=masked)
        return _without_empty(out, x_axis) if masked else out

    @op(of="TwoDLSTM")
    def _weighted(self, h: Tensor, y: Tensor, x_axis: Dim) -> Tensor:
        assert self.W_att is not None
        if self._att_dim is not self.y_dim:
            y = y._like(y._raw, tuple(self._att_dim if dim is self.y_dim else dim for dim in y.dims))
        query = _product(y, self.W_att, self._att_dim)
        weights = softmax(matmul(query, h, reduce=self.out_dim), axis=x_axis, use_mask=self.mask_pooling)
        weights = attended(weights, axis=x_axis)
        return matmul(weights, h, reduce=x_axis, use_mask=self.mask_pooling)

    def _check(self, x: Tensor, y: Tensor, x_axis: Dim, y_axis: Dim | None) -> None:
        for label, source, axis, dim in (("x", x, x_axis, self.x_dim), ("y", y, y_axis, self.y_dim)):
            if axis is not None:
                check_dim("TwoDLSTM", source, axis, label)
            if dim not in source.dims and source.sparse_dim is not dim:
                raise missing_dim("TwoDLSTM", source, dim, label)
        if y_axis is x_axis:
            raise dim_error(
                "TwoDLSTM: both axes are the same dim.",
                {"x": x, "y": y},
                "A grid has two axes. Give one of them a dim of its own:",
                f"y, y_axis = rf.replace_dim(y, in_dim={x_axis.name})",
            )


def _product(source: Tensor, weight: Tensor, dim: Dim) -> Tensor:
    """{..., dim} -> {..., out}; for labels, sparse over dim, the rows of the weight."""
    if dim in source.dims:
        return matmul(source, weight, reduce=dim)
    return gather(weight, indices=source, axis=weight.dims[0])


def _last_row(rows: Tensor, before: Tensor, y_axis: Dim) -> Tensor:
    """The last row of each sequence; `before` where a sequence has no rows."""
    if not y_axis.extent:
        return before
    lengths = y_axis.get_size_tensor(device=rows.device)
    last = gather(rows, indices=last_frame_position_of_dim(y_axis, device=rows.device), axis=y_axis)
    return where(lengths > 0, last, before, allow_broadcast_all_sources=True) if lengths.dims else last


def _without_empty(out: Tensor, x_axis: Dim) -> Tensor:
    """Zeros for sequences without frames, whose mean or maximum is undefined."""
    lengths: Any = x_axis.get_size_tensor(device=out.device)
    return where(lengths > 0, out, 0.0, allow_broadcast_all_sources=True) if lengths.dims else out
