"""The names that a Tensor does not have, but people look for: methods of arrays, and names and options of older programs."""

from __future__ import annotations

from typing import Any

from rfnb.core.absent import NeverSet, put_absent
from rfnb.core.errors import type_error

_INSTEAD = {  # attributes of arrays that a Tensor does not have, because they mean positions
    "shape": "x.dims                      # or x.raw_tensor.shape",
    "ndim": "x.batch_ndim                # counts all axes",
    "size": "x.num_elements()            # without padding",
    "T": "x.copy_transpose([...])",
    "mT": "x.copy_transpose([...])",
    "transpose": "x.copy_transpose([...])",
    "permute": "x.copy_transpose([...])",
    "reshape": "rf.merge_dims(x, dims=[...]), rf.split_dims(x, axis=..., dims=[...])",
    "view": "rf.merge_dims(x, dims=[...]), rf.split_dims(x, axis=..., dims=[...])",
    "squeeze": "rf.squeeze(x, axis=...)",
    "unsqueeze": "rf.expand_dim(x, dim=...)",
    "sum": "rf.reduce_sum(x, axis=...)",
    "mean": "rf.reduce_mean(x, axis=...)",
    "max": "rf.reduce_max(x, axis=...)",
    "min": "rf.reduce_min(x, axis=...)",
    "argmax": "rf.reduce_argmax(x, axis=...)",
    "softmax": "rf.softmax(x, axis=...)",
    "item": "x.raw_tensor.item()",
    "backward": "x.raw_tensor.backward()     # of a scalar",
    "to": 'rf.copy_to_device(x, "cuda"), rf.cast(x, "float16")',
    "cuda": 'rf.copy_to_device(x, "cuda")',
    "float": 'rf.cast(x, "float32")',
    "detach": "rf.stop_gradient(x)",
    "cpu": 'rf.copy_to_device(x, "cpu")      # or x.numpy()',
    "type": 'rf.cast(x, "float32")          # x.dtype is its dtype',
    "astype": 'rf.cast(x, "float32")',
    "long": 'rf.cast(x, "int64")',
    "int": 'rf.cast(x, "int32")',
    "bool": 'rf.cast(x, "bool")             # or x != 0',
    "half": 'rf.cast(x, "float16")',
    "double": 'rf.cast(x, "float64")',
    "clone": "rf.copy(x)",
    "contiguous": "x                           # ops take any order of axes",
    "numel": "x.num_elements()            # without padding",
    "tolist": "x.copy_transpose([...]).numpy().tolist()",
    "grad": "x.raw_tensor.grad           # of a parameter or what rf.set_requires_gradient was called for",
    "requires_grad": "x.raw_tensor.requires_grad",
    "requires_grad_": "rf.set_requires_gradient(x)  # of a parameter: p.trainable = False",
    "data": "x.raw_tensor.detach()       # new values of a parameter: p.assign(value)",
    "std": "rf.sqrt(rf.moments(x, axis=...)[1])",
    "var": "rf.moments(x, axis=...)[1]",
    "any": "rf.reduce_any(x, axis=...)",
    "all": "rf.reduce_all(x, axis=...)",
    "argmin": "rf.reduce_argmin(x, axis=...)",
    "topk": "rf.top_k(x, axis=..., k=5)",
    "sort": "rf.sort(x, axis=...)",
    "cumsum": "rf.cumsum(x, spatial_dim=...)",
    "log_softmax": "rf.log_softmax(x, axis=...)",
    "masked_fill": "rf.where(mask, value, x)",
    "clamp": "rf.clip_by_value(x, low, high)",
    "clip": "rf.clip_by_value(x, low, high)",
    "expand": "rf.expand_dim(x, dim=...)",
    "repeat": "rf.expand_dim(x, dim=...)",
    "flatten": "rf.merge_dims(x, dims=[...])",
    "split": "rf.split(x, axis=..., out_dims=[...])",
    "chunk": "rf.split(x, axis=..., out_dims=[...])",
    "gather": "rf.gather(x, indices=..., axis=...)",
    "unbind": "rf.unstack(x, axis=...)",
    "matmul": "rf.matmul(x, y, reduce=...)",
    "dot": "rf.matmul(x, y, reduce=...)",
    **{
        name: f"rf.{name}(x)"
        for name in "abs exp log sqrt square sin cos tanh sigmoid relu floor ceil round neg".split()
    },
}
_NO_BATCH = "A batch has no info of its own here: beams and merged batches are dims like all others."
_NO_GRAPH = "Values are computed at once, and belong to no graph."
_OLD_OPTIONS = {  # of the documentation, before every axis had a Dim
    "shape": "dims=[batch, time, feat]",
    "dim": "dims=[..., feat], feature_dim=feat    # of labels: sparse_dim=vocab",
    "dim_tags": "dims=[...]",
    "sparse": "sparse_dim=vocab",
    "batch_dim_axis": "dims=[batch, ...]",
    "time_dim_axis": "dims=[..., time]",
    "size_placeholder": 'time = Dim(lengths, name="time")',
    "placeholder": "raw_tensor=array",
}


def put_all_absent(cls: type) -> None:
    """Make each of these names an attribute that raises, with what to write instead."""
    put_absent(
        cls,
        "A Tensor",
        "A Tensor has no positions and no methods of arrays; its ops are functions that name dims:",
        _INSTEAD,
    )
    for name in ("data", "grad", "requires_grad"):  # torch code assigns to these
        setattr(cls, name, NeverSet(*vars(vars(cls)[name]).values()))
    put_absent(
        cls,
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
        cls,
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
        cls,
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


def old_options_error(name: str | None, options: dict[str, Any]) -> TypeError:
    """The error for options that Tensor had once."""
    lines = [_OLD_OPTIONS[option] for option in options if option in _OLD_OPTIONS]
    return type_error(
        f'Tensor "{name}": unknown options.',
        [("got", ", ".join(options))],
        "Every axis has its Dim, which says all about it." if lines else "Leave them out.",
        "\n".join(lines) or None,
    )
