"""Encodings of positions and distances as modules, for whole sequences and single steps."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import dim_error, value_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.attention.causal_mask import query_offset as offset_of_last_query
from rfnb.nn.attention.positional_encoding import sinusoidal_encoding, sinusoidal_positional_encoding
from rfnb.nn.attention.relative_learned import steps_to_keys
from rfnb.nn.init import Glorot
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.ops.const import full
from rfnb.ops.defaults import get_default_device, get_default_float_dtype
from rfnb.ops.expand import expand_dims
from rfnb.ops.gather import gather
from rfnb.ops.math import clip_by_value, combine_bc
from rfnb.rec.state import State


class PositionalEncoding(Module):
    """Sines and cosines of the position (`sinusoidal_encoding`); the documented PositionalEncodingLayer.

    Args:
        out_dim: Features of the encoding.
        in_dim: Features of the source. Default: out_dim if it has that, else its feature_dim.
        constant: If 0 or more, this position is used everywhere.
        add_to_input: The result is the source plus the encoding.

    Source: Vaswani et al. 2017, section 3.5, in the form of `sinusoidal_encoding`.
    """

    def __init__(self, out_dim: Dim, *, in_dim: Dim | None = None, constant: int = -1, add_to_input: bool = False):
        self.out_dim, self.in_dim = out_dim, out_dim if add_to_input else in_dim
        self.constant, self.add_to_input = constant, add_to_input

    def __call__(
        self, source: Tensor | None = None, *, axis: Dim, offset: int | Tensor | None = None, state: State | None = None
    ) -> tuple[Tensor, State]:
        """The encodings of all positions along `axis`, or of one step with `single_step_dim`.

        Args:
            source: {..., axis, in} or labels {..., axis}; for one step without axis. It determines the dims of the
                result; with add_to_input the encoding is added to it. None: no further dims.
            axis: Positions count from 0, also over padding.
            offset: Added to every position, int {...}.
            state: index: the previous position, int32 {...}, -1 at the beginning. Required for a step without constant;
                see `default_initial_state`. In a masked computation it counts only the steps that were not skipped.

        Returns:
            {..., axis, out_dim}, and the state after the last frame.

        Raises:
            ValueError: For a single step without state.
            DimError: If source has no axis or, with add_to_input, no out_dim, or if its feature dim is ambiguous.
        """
        single = axis is single_step_dim
        if source is not None:
            self._check(source, None if single else axis)
        if single and state is None and self.constant < 0:
            raise value_error(
                "PositionalEncoding: which position is this step?",
                {"axis": "single_step_dim", "state": "None"},
                "A single step does not know the number of previous steps; the state counts them.",
                "state = encoding.default_initial_state(batch_dims=[batch])",
            )
        encoding = self._encoding(source, axis, offset, state)
        if self.add_to_input and source is not None:
            out = combine_bc(source, "add", encoding)
        else:
            dims = [] if source is None else [dim for dim in source.dims if dim is not self._features(source)]
            out = expand_dims(encoding, [dim for dim in dims if dim not in encoding.dims])
            further = [dim for dim in out.dims if dim not in dims and dim is not self.out_dim]
            out = out.copy_transpose([*further, *dims, self.out_dim])
        out.feature_dim = self.out_dim
        return out, self._next(axis, state, encoding.device)

    def default_initial_state(self, *, batch_dims: Sequence[Dim], device: str | None = None) -> State:
        """index {*batch_dims}: -1."""
        return State(index=full(dims=list(batch_dims), fill_value=-1, dtype="int32", device=device))

    def _encoding(self, source: Tensor | None, axis: Dim, offset: int | Tensor | None, state: State | None) -> Tensor:
        like = source is not None and source.dtype.startswith(("float", "bfloat"))
        dtype = source.dtype if source is not None and like else get_default_float_dtype()
        device = get_default_device() if source is None else source.device
        options = {"feat_dim": self.out_dim, "dtype": dtype}
        if self.constant >= 0:
            place = self.constant if offset is None else combine_bc(offset, "add", self.constant)
            return sinusoidal_positional_encoding(spatial_dim=single_step_dim, offset=place, device=device, **options)  # type: ignore[arg-type]
        if state is not None:
            first = state.index + 1
            offset = first if offset is None else combine_bc(first, "add", offset)
        if axis is single_step_dim and isinstance(offset, Tensor):
            return sinusoidal_encoding(offset, **options)  # type: ignore[arg-type]
        return sinusoidal_positional_encoding(spatial_dim=axis, offset=offset, device=device, **options)  # type: ignore[arg-type]

    def _next(self, axis: Dim, state: State | None, device: str | None) -> State:
        if axis is single_step_dim:
            return State() if state is None else State(index=state.index + 1)
        index = axis.get_size_tensor(device=device if state is None else state.index.device) - 1
        return State(index=index if state is None else combine_bc(state.index + 1, "add", index))

    def _features(self, source: Tensor) -> Dim | None:
        if self.in_dim is not None:
            return self.in_dim
        if source.sparse_dim is not None:
            return None
        return self.out_dim if self.out_dim in source.dims else source.feature_dim

    def _check(self, source: Tensor, axis: Dim | None) -> None:
        if axis is not None:
            check_dim("PositionalEncoding", source, axis, "source")
        if self.in_dim is not None:
            check_dim("PositionalEncoding", source, self.in_dim, "source")
        elif source.sparse_dim is None and self._features(source) is None:
            raise dim_error(
                "PositionalEncoding: which dim of the source are its features?",
                {"source": source},
                "The encoding takes their place.",
                "rf.PositionalEncoding(out_dim, in_dim=in_dim)",
            )


class RelativePositionalEncoding(Module):
    """One vector for each pair of a query and a key, by their distance; the documented RelativePositionalEncodingLayer.

        out[i, j] = M[clip(j - (i + query_offset), -clipping, clipping) + clipping]

    Args:
        out_dim: Features of a vector.
        clipping: Larger distances share a vector.
        fixed: M holds the sines and cosines of 0 .. 2 * clipping and is not a parameter.

    Parameters:
        encoding_matrix: M, {distance, out_dim}, Glorot uniform; not with fixed.

    Source: Shaw et al. 2018, "Self-Attention with Relative Position Representations", section 3.2.
    """

    def __init__(self, out_dim: Dim, *, clipping: int = 16, fixed: bool = False):
        self.out_dim, self.clipping, self.fixed = out_dim, clipping, fixed
        self.clipped_dim = Dim(2 * clipping + 1, name="clipped_distance")
        self.encoding_matrix = None if fixed else Parameter((self.clipped_dim, out_dim), initial=Glorot())

    @op
    def __call__(
        self,
        *,
        query_spatial_dim: Dim | None,
        key_value_spatial_dim: Dim | None = None,
        query_offset: int | Tensor | None = None,
        device: str | None = None,
    ) -> Tensor:
        """The vectors from all queries to all keys.

        Args:
            query_spatial_dim: None or `single_step_dim`: a single query, aligned with the last key.
            key_value_spatial_dim: Default: the twin of query_spatial_dim that self-attention uses for its keys. In a
                loop, the dim of the history: that of `cum_concat`, or `QKVSelfAttention.keys_dim`.
            query_offset: Position of the first query, int {...}; keys begin at 0. Default 0; for a single query, the
                position of the last key.
            device: The device of a fixed encoding.

        Returns:
            {query_spatial_dim, key_value_spatial_dim, out_dim}; without query_spatial_dim for a single query. Further dims are
            those of query_offset.

        Raises:
            ValueError: For a single query without key_value_spatial_dim.
        """
        single = query_spatial_dim is None or query_spatial_dim is single_step_dim
        queries = single_step_dim if query_spatial_dim is None else query_spatial_dim
        keys = key_value_spatial_dim
        if keys is None:
            if single:
                raise value_error(
                    "RelativePositionalEncoding: which keys does the query see?",
                    {"query_spatial_dim": "single_step_dim", "key_value_spatial_dim": "None"},
                    "A single step has the keys of its history.",
                    "encoding(query_spatial_dim=rf.single_step_dim, key_value_spatial_dim=history)",
                )
            keys = queries.copy(match_priority=queries.match_priority - 1)
        if device is None and isinstance(query_offset, Tensor):
            device = query_offset.device
        matrix = self._matrix(device)
        if query_offset is None:
            query_offset = offset_of_last_query(None, keys, matrix) if single else 0
        steps = steps_to_keys(queries, keys, query_offset, matrix.device)
        rows = clip_by_value(new_tensor(steps._raw, steps.dims), -self.clipping, self.clipping) + self.clipping
        out = gather(matrix, indices=rows, axis=self.clipped_dim)
        out.feature_dim = self.out_dim
        return out

    def _matrix(self, device: str | None) -> Tensor:
        if self.encoding_matrix is not None:
            return self.encoding_matrix
        return sinusoidal_positional_encoding(spatial_dim=self.clipped_dim, feat_dim=self.out_dim, device=device)
