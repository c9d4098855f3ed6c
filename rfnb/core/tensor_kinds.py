"""The batch dim and the time dim of a Tensor, for programs that ask for them instead of being told a Dim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rfnb.core.absent import put_absent
from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, message
from rfnb.core.tensor_mask import TensorMask
from rfnb.core.tensor_text import dims_text

if TYPE_CHECKING:
    from rfnb.core.tensor import Tensor


class TensorKinds(TensorMask):
    """Part of Tensor: dims found by what they are. Abstract.

    The batch dim is the one of kind "batch"; without such, the one dim that lengths are over. The time dim is the one that has
    lengths per sequence or is of kind "spatial". Where several could be meant nothing is guessed.
    """

    @property
    def dim_tags(self) -> tuple[Dim, ...]:
        """Old name of `dims`."""
        return self.dims

    @property
    def batch_dim_axis(self) -> int | None:
        """Index of the batch dim, or None. It can only be set to what it is.

        Raises:
            DimError: If several dims could be it.
        """
        return self._only("batch_dim_axis", self._batch_dims())

    @batch_dim_axis.setter
    def batch_dim_axis(self, axis: int | None) -> None:
        self._same_axis("batch_dim_axis", self.batch_dim_axis, axis)

    @property
    def time_dim_axis(self) -> int | None:
        """Index of the time dim, or None. It can only be set to what it is.

        Raises:
            DimError: If several dims could be it.
        """
        return self._only("time_dim_axis", self._time_dims())

    @time_dim_axis.setter
    def time_dim_axis(self, axis: int | None) -> None:
        self._same_axis("time_dim_axis", self.time_dim_axis, axis)

    def get_batch_dim_tag(self) -> Dim:
        """The batch dim.

        Raises:
            DimError: If there is none, or several dims could be it.
        """
        return self._needed("get_batch_dim_tag", "batch", self._batch_dims())

    def get_time_dim_tag(self) -> Dim:
        """The time dim.

        Raises:
            DimError: If there is none, or several dims could be it.
        """
        return self._needed("get_time_dim_tag", "time", self._time_dims())

    def get_batch_dim(self) -> int:
        """The size of the batch dim."""
        return self.get_batch_dim_tag().extent

    def get_static_batch_dim(self) -> int | None:
        """The size of the batch dim, if that is static."""
        return self.get_batch_dim_tag().size

    def time_dimension(self) -> int:
        """The longest length of the time dim."""
        return self.get_time_dim_tag().extent

    def have_time_axis(self) -> bool:
        """Whether there is a time dim."""
        return bool(self._time_dims())

    def is_time_axis_dynamic(self) -> bool:
        """Whether the time dim has lengths per sequence."""
        return self.get_time_dim_tag().is_dynamic()

    @property
    def is_batch_major(self) -> bool:
        """Whether the batch dim is first."""
        return self.batch_dim_axis == 0

    @property
    def is_time_major(self) -> bool:
        """Whether the time dim is first."""
        return self.time_dim_axis == 0

    def get_sequence_lengths(self) -> Any:
        """The lengths of the time dim, a raw array on the CPU; of a static one its size for each entry of the batch."""
        time = self.get_time_dim_tag()
        if time.is_dynamic():
            return time.dyn_size
        batch, backend = self.get_batch_dim_tag(), self.backend
        return backend.full_raw((batch.extent,), time.extent, dtype="int32", device="cpu")

    def get_sequence_mask(self) -> Any:
        """True for the real frames of the time dim: a raw array over it and what its lengths are over, in the order of `dims`."""
        return self.get_sequence_mask_tensor(self.get_time_dim_tag()).raw_tensor

    def copy_as_batch_major(self) -> Tensor:
        """The batch dim first."""
        return self.copy_move_axis(self.get_batch_dim_tag(), 0)

    def copy_as_time_major(self) -> Tensor:
        """The time dim first."""
        return self.copy_move_axis(self.get_time_dim_tag(), 0)

    def copy_as_time_batch_major(self) -> Tensor:
        """The time dim first, then the batch dim."""
        return self.copy_as_batch_major().copy_move_axis(self.get_time_dim_tag(), 0)

    def copy_as_batch_spatial_major(self) -> Tensor:
        """The batch dim first, then the time dim, the feature dim last."""
        out = self.copy_as_time_major().copy_move_axis(self.get_batch_dim_tag(), 0)
        return out.copy_with_feature_last()

    def copy_with_feature_last(self) -> Tensor:
        """The feature dim last; without one, as it is."""
        this: Any = self  # a Tensor
        return this if self._feature_dim is None else self.copy_move_axis(self._feature_dim, -1)

    def copy_with_batch_dim_axis(self, batch_dim_axis: int) -> Tensor:
        """The batch dim at this place."""
        return self.copy_move_axis(self.get_batch_dim_tag(), batch_dim_axis)

    def copy_with_time_dim_axis(self, time_dim_axis: int) -> Tensor:
        """The time dim at this place."""
        return self.copy_move_axis(self.get_time_dim_tag(), time_dim_axis)

    def get_placeholder_as_batch_major(self) -> Any:
        """The raw array of `copy_as_batch_major`."""
        return self.copy_as_batch_major()._raw

    def get_placeholder_as_time_major(self) -> Any:
        """The raw array of `copy_as_time_major`."""
        return self.copy_as_time_major()._raw

    def _batch_dims(self) -> list[Dim]:
        marked = [dim for dim in self.dims if dim.is_batch_dim()]
        over = {other for dim in self.dims for other in dim.length_dims}
        return marked or [dim for dim in self.dims if dim in over]

    def _time_dims(self) -> list[Dim]:
        return [
            dim
            for dim in self.dims
            if not dim.is_batch_dim() and (dim.is_spatial_dim() or bool(dim.length_dims or dim.declared_length_dims))
        ]

    def _only(self, what: str, found: list[Dim]) -> int | None:
        if len(found) > 1:
            raise self._unclear(what, found)
        return self.dims.index(found[0]) if found else None

    def _needed(self, what: str, kind: str, found: list[Dim]) -> Dim:
        if len(found) == 1:
            return found[0]
        if found:
            raise self._unclear(what, found)
        rule = {
            "batch": 'The batch dim is the one of kind "batch" (rf.batch_dim), or the one that lengths are over. Name the Dim:',
            "time": 'The time dim has lengths per sequence, or is of kind "spatial". Name the Dim:',
        }
        fix = f"{kind} = x.dims[0]    # or rather the Dim that the data was made with"
        raise DimError(message(f"{what}: no dim is it.", [("tensor", dims_text(self.dims))], rule[kind], fix))

    def _unclear(self, what: str, found: list[Dim]) -> DimError:
        rows = [("tensor", dims_text(self.dims)), ("candidates", dims_text(found))]
        fix = "\n".join(f"x.dims[{self.dims.index(dim)}]    # {dim.name}" for dim in found)
        return DimError(
            message(f"{what}: several dims could be it.", rows, "Nothing is guessed here. Name the Dim:", fix)
        )

    def _same_axis(self, what: str, now: int | None, axis: int | None) -> None:
        if axis != now:
            raise DimError(
                message(
                    f"{what}: cannot be set to {axis}.",
                    [("tensor", dims_text(self.dims)), (what, now)],
                    "Which dim is first is not what it means; the order of the raw array changes by a copy:",
                    f"x.copy_with_{what}({axis})",
                )
            )


_NO_BATCH = "A batch has no info of its own here: beams and merged batches are dims like all others."
_NO_GRAPH = "Values are computed at once, and belong to no graph."
put_absent(
    TensorKinds,
    "A Tensor",
    "It is documented for older programs; here a dim is named, never counted or described:",
    {
        "batch_ndim_dense": "x.batch_ndim",
        "batch_shape_dense": "x.batch_shape",
        "copy_add_batch_dim": "x.copy_add_dim_by_tag(batch, unbroadcast=True)",
        "copy_add_feature_dim": "x.copy_add_dim_by_tag(feat)",
        "copy_add_spatial_dim": "x.copy_add_dim_by_tag(time)",
        "copy_as_batch_feature_major": "x.copy_transpose([batch, feat, ...])",
        "copy_as_bt_or_tb_major": "x.copy_as_batch_major()",
        "copy_split_feature_dim": "rf.split_dims(x, axis=feat, dims=[...])",
        "copy_template_adding_time_dim": "x.copy_template_new_dim_tags([time, *x.dims])",
        "copy_template_excluding_spatial_dim": "x.copy_template_excluding_axis(dim)",
        "copy_template_excluding_time_dim": "x.copy_template_excluding_axis(time)",
        "copy_time_flattened": "rf.pack_padded(x, dims=[batch, time])",
        "copy_with_feature_dim_axis": "x.copy_move_axis(x.feature_dim, axis)",
        "dim": "x.feature_dim_or_sparse_dim.size    # of the feature dim; x.batch_ndim counts axes",
        "dim_tags_set_implicit": "x.dims_set                  # and x.sparse_dim, dim.length_dims",
        "dim_tags_set_implicit_only": "x.sparse_dim, dim.length_dims",
        "dim_tags_set_implicit_only_wrapped": "x.verify_out_shape({...})",
        "dim_tags_sparse": "x.dims, x.sparse_dim",
        "feature_dim_axis_or_unspecified": "x.feature_dim_axis",
        "find_matching_dim_map": "x.dims                      # dims match by identity",
        "find_matching_dims": "x.has_axis(dim)             # dims match by identity",
        "from_tensor": "rf.convert_to_tensor(array, dims=[...])",
        "get_axes": "x.dims",
        "get_axes_with_size": "x.get_dyn_size_tags()",
        "get_batch_axis": "x.axis_of(dim)",
        "get_batch_axis_excluding_batch": "x.remaining_dims(batch).index(dim)",
        "get_batch_shape": "x.batch_shape",
        "get_batch_shape_dim_tags": "x.dims",
        "get_bc_shape": "x.copy_compatible_to_dims_raw(dims)",
        "get_bc_spatial_batch_shape": "x.copy_compatible_to_dims_raw(dims)",
        "get_common_data": "rf.expand_dims(x, dims)",
        "get_compare_key": "x.dims, x.dtype, x.sparse_dim",
        "get_default_new_axis_for_dim_tag": "x.copy_add_dim_by_tag(dim, axis=0)",
        "get_description_from_axis": "x.dims[axis]",
        "get_dim": "x.dims[axis].size",
        "get_dynamic_batch_shape": "[dim.get_dim_value() for dim in x.dims]",
        "get_dynamic_size": "dim.dyn_size_ext",
        "get_feature_axes": "x.feature_dim_axis",
        "get_feature_batch_axes": "x.feature_dim_axis",
        "get_kwargs": "x.copy_template()",
        "get_placeholder_flattened": "rf.pack_padded(x, dims=[batch, time])",
        "get_placeholder_time_flattened": "rf.pack_padded(x, dims=[batch, time])",
        "get_placeholder_with_runtime_sanity_checks": "x.sanity_check()",
        "get_sequence_lengths_broadcast": "time.dyn_size_ext.copy_compatible_to_dims_raw(x.dims)",
        "get_size_dim_tag": "x.get_dyn_size_tags()",
        "get_spatial_axes": "x.axis_of(time)",
        "get_spatial_batch_axes": "x.axis_of(time)",
        "get_special_axes_dict": "x.batch_dim_axis, x.time_dim_axis, x.feature_dim_axis",
        "has_dynamic_size": "dim.is_dynamic()",
        "is_batch_feature_major": "x.dims",
        "is_same_time_dim": "x.get_time_dim_tag() is y.get_time_dim_tag()",
        "mark_same_time": "a_time.declare_same_as(b_time)",
        "matches_var_dim_pattern": "x.get_dyn_size_tags() == y.get_dyn_size_tags()",
        "ndim_dense": "x.batch_ndim",
        "set_dynamic_size": "dim.dyn_size_ext = lengths",
        "shape_dense": "x.batch_shape",
        "size_placeholder": "dim.dyn_size_ext",
        "template_from_constant": "rf.convert_to_tensor(value).copy_template()",
        "time_dim_axis_excluding_batch": "x.time_dim_axis",
        "time_dim_axis_or_unspecified": "x.time_dim_axis",
    },
)
put_absent(
    TensorKinds,
    "A Tensor",
    _NO_BATCH,
    {
        "batch": "x.get_batch_dim_tag()",
        "beam": "x.dims                      # the beam is one of them",
        "copy_extend_batch": "rf.expand_dim(x, dim=beam)",
        "copy_extend_with_beam": "rf.expand_dim(x, dim=beam)",
        "copy_merge_into_batch": "rf.merge_dims(x, dims=[batch, beam])",
        "copy_template_unpack_batch": "rf.split_dims(x, axis=batch, dims=[...])",
    },
)
put_absent(
    TensorKinds,
    "A Tensor",
    _NO_GRAPH,
    {
        "control_flow_ctx": "# leave it out",
        "copy_template_set_ctx": "x.copy_template()",
        "get_full_name": "x.name",
        "get_placeholder_kwargs": "x.raw_tensor",
        "get_runtime_sanity_check_op": "x.sanity_check()",
        "get_scope_name": "x.name",
        "have_varying_shape_in_ctx": "# leave it out",
        "is_valid_in_current_graph": "# leave it out",
    },
)
