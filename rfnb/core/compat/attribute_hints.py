"""Hints for attributes and options that do not exist but are often tried: array methods, and names of older programs. They raise an
error with the line to type instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from rfnb.core.errors import attribute_error, type_error

INSTEAD = {  # attributes of arrays that a Tensor does not have, because they mean positions
    "shape": "x.dims                      # or x.raw_tensor.shape",
    "ndim": "x.batch_ndim                # counts all axes",
    "size": "x.num_elements()            # without padding",
    "T": "x.copy_transpose([...])",
    "mT": "x.copy_transpose([...])",
    "transpose": "x.copy_transpose([...])",
    "permute": "x.copy_transpose([...])",
    "reshape": "rf.merge_dims(x, dims=[...])    # and rf.split_dims",
    "view": "rf.merge_dims(x, dims=[...])    # and rf.split_dims",
    "squeeze": "rf.squeeze(x, axis=...)",
    "unsqueeze": 'rf.expand_dim(x, dim=rf.Dim(1, name="one"))',
    "sum": "rf.reduce_sum(x, axis=...)",
    "mean": "rf.reduce_mean(x, axis=...)",
    "max": "rf.reduce_max(x, axis=...)",
    "min": "rf.reduce_min(x, axis=...)",
    "argmax": "rf.reduce_argmax(x, axis=...)",
    "softmax": "rf.softmax(x, axis=...)",
    "item": "rf.reduce_mean(x, axis=x.dims).raw_tensor.item()    # without axis=... of a scalar",
    "backward": "rf.reduce_sum(x, axis=x.dims).raw_tensor.backward()",
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
    "expand": 'rf.expand_dim(x, dim=rf.Dim(3, name="copies"))',
    "repeat": 'rf.expand_dim(x, dim=rf.Dim(3, name="copies"))',
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
_ASSIGNED = ("data", "grad", "requires_grad")  # by torch code
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
_ABSENT = {
    "Tensor": [
        ("A Tensor has no positions and no methods of arrays; its ops are functions that name dims:", INSTEAD),
        (
            "A Tensor is never changed in place: a new one takes its name. What can be assigned to is an rf.Parameter:",
            {
                "assign": "x = y                       # of a parameter: p.assign(y)",
                "assign_add": "x = x + y                   # of a parameter: p.assign_add(y)",
                "assign_key": "x = rf.where(mask, y, x)    # of a parameter: p.assign_key(...)",
                "add_": "x = x + y                   # of a parameter: p.assign_add(y)",
                "mul_": "x = x * y",
                "copy_": "x = y                       # of a parameter: p.assign(y)",
                "fill_": "x = rf.full(dims=x.dims, fill_value=0.0)    # of a parameter: p.assign(0.0)",
                "zero_": "x = rf.zeros_like(x)        # of a parameter: p.assign(0.0)",
            },
        ),
        (
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
        ),
        (
            "A batch has no info of its own here: beams and merged batches are dims like all others.",
            {
                "batch": "x.get_batch_dim_tag()",
                "beam": "x.dims                      # the beam is one of them",
                "copy_extend_batch": "rf.expand_dim(x, dim=beam)",
                "copy_extend_with_beam": "rf.expand_dim(x, dim=beam)",
                "copy_merge_into_batch": "rf.merge_dims(x, dims=[batch, beam])",
                "copy_template_unpack_batch": "rf.split_dims(x, axis=batch, dims=[...])",
            },
        ),
        (
            "Values are computed at once, and belong to no graph.",
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
        ),
    ],
    "Dim": [
        (
            "Values are computed at once, and belong to no graph and no batch info:",
            {
                "batch": "dim.length_dims             # what its lengths are over",
                "control_flow_ctx": "# leave it out",
                "get_dyn_size_ext_for_batch_ctx": "dim.dyn_size_ext",
                "get_for_batch_ctx": "dim",
                "get_tag_from_size_tensor": "# keep the Dim",
                "is_dim_known_in_batch_ctx": "dim.is_dim_known()",
                "is_same_size_tensor": "# keep the Dim",
                "reset_batch_ctx": "dim.reset_eager()",
                "set_dyn_size_ext_for_batch_ctx": "dim.dyn_size_ext = lengths",
                "set_tag_on_size_tensor": "# keep the Dim",
            },
        ),
        (
            "Dims match by identity: the same object is the same dim, and nothing is searched among similar ones.",
            {
                "auto_generated": "# leave it out",
                "axis_split_info": "dim.get_derived_bases_set()",
                "derived_from_op": "dim.get_derived_bases_set()",
                "derived_from_tag": "dim.get_same_derived_base()",
                "get_all_dimension_tags": "data.all_dims()             # of a TensorDict",
                "get_existing_tag_from_collection": "dim in dims",
                "get_uniq_collection": "list(dict.fromkeys(dims))",
                "is_equal": "a is b                      # or a.get_same_base() is b.get_same_base()",
            },
        ),
    ],
}


def filled(text: str, dims: Sequence[Any]) -> str:
    """A line of code with its open dims replaced by dims of `x`."""
    if not dims:
        return text
    last = f"x.dims[{len(dims) - 1}]"
    open_ones = {"x, axis=...": f"x, axis={last}", "spatial_dim=...": f"spatial_dim={last}"}
    open_ones["copy_transpose([...])"] = "copy_transpose(x.dims[::-1])"
    if len(dims) > 1:
        open_ones["rf.merge_dims(x, dims=[...])"] = "rf.merge_dims(x, dims=x.dims[:2])"
    for each, dim in open_ones.items():
        text = text.replace(each, dim)
    return text


class AbsentAttribute:
    """An attribute that raises. There is one object per name instead of `__getattr__`, which would make Python look up all attributes
    of all tensors more slowly and small ops a fifth slower.
    """

    def __init__(self, owner: str, name: str, rule: str, instead: str):
        self.owner, self.name, self.rule, self.instead = owner, name, rule, instead

    def __get__(self, instance: Any, owner: type) -> NoReturn:
        rows = [] if instance is None else [(self.owner.split()[-1].lower(), self._show(instance))]
        instead = filled(self.instead, getattr(instance, "dims", ()))
        raise attribute_error(f"{self.owner} has no attribute {self.name!r}.", rows, self.rule, instead)

    @staticmethod
    def _show(instance: Any) -> str:
        from rfnb.core.tensor_text import dims_text  # same layer, later: Tensor and Dim are made of this

        if hasattr(instance, "dims"):
            return dims_text(instance.dims)
        return instance.short_repr() if hasattr(instance, "short_repr") else type(instance).__name__


class UnsetAttribute(AbsentAttribute):
    """An attribute that cannot be set either: nothing would read it."""

    def __set__(self, instance: Any, value: Any) -> NoReturn:
        self.__get__(instance, type(instance))


def put_absent(cls: type, owner: str, rule: str, instead: Mapping[str, str]) -> None:
    """Make each name an attribute of `cls` that raises; `instead` is the code to suggest."""
    for name, line in instead.items():
        setattr(cls, name, (UnsetAttribute if name in _ASSIGNED else AbsentAttribute)(owner, name, rule, line))


def put_all_absent(cls: type) -> None:
    """Make each name that people try on a Tensor or a Dim an attribute that raises and suggests the right code."""
    for rule, instead in _ABSENT[cls.__name__]:
        put_absent(cls, f"A {cls.__name__}", rule, instead)


def old_options_error(name: str | None, options: dict[str, Any]) -> TypeError:
    """The error for options that Tensor had in the past."""
    lines = [_OLD_OPTIONS[option] for option in options if option in _OLD_OPTIONS]
    return type_error(
        f'Tensor "{name}": unknown options.',
        {"got": ", ".join(options)},
        "Every axis has its Dim, which says all about it." if lines else "Leave them out.",
        "\n".join(lines) or None,
    )
