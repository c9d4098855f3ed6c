"""Every documented name is there, or is absent for a reason that is written here.

`documented_names.txt` lists the names of the documented frontend with their tier (M must, S should, C could, new: of a newer
release). `Dim.x`, `Tensor.x`, ... are attributes and methods, the rest are in `rfnb`, `rfnb.tensor` or `rfnb.interop`.
"""

import importlib
import pkgutil
from pathlib import Path

import numpy as np

import rfnb as rf
import rfnb.interop
import rfnb.tensor.utils

TIERS = dict(line.split() for line in Path(__file__).with_name("documented_names.txt").read_text().splitlines())
NOT_YET = "not written yet"
ABSENT = {
    "graph mode: there is no graph here, values are computed at once": (
        "Dim.auto_generated Dim.control_flow_ctx Dim.derived_from_op Dim.get_tag_from_size_tensor"
        " Dim.set_tag_on_size_tensor Dim.is_same_size_tensor Tensor.control_flow_ctx Tensor.copy_template_set_ctx"
        " Tensor.get_runtime_sanity_check_op Tensor.is_valid_in_current_graph Tensor.have_varying_shape_in_ctx"
        " Tensor.get_placeholder_kwargs Tensor.get_scope_name Tensor.get_full_name"
    ),
    "legacy batch info: beams and merged batches are dims like all others": (
        "Dim.batch Dim.get_dyn_size_ext_for_batch_ctx Dim.get_for_batch_ctx Dim.is_dim_known_in_batch_ctx"
        " Dim.reset_batch_ctx Dim.set_dyn_size_ext_for_batch_ctx Tensor.batch Tensor.beam Tensor.copy_extend_batch"
        " Tensor.copy_extend_with_beam Tensor.copy_merge_into_batch Tensor.copy_template_unpack_batch"
    ),
    "axes by position or by kind: a dim is found by itself": (
        "Tensor.batch_ndim_dense Tensor.batch_shape_dense Tensor.copy_add_batch_dim Tensor.copy_add_feature_dim"
        " Tensor.copy_add_spatial_dim Tensor.copy_as_batch_feature_major Tensor.copy_as_bt_or_tb_major"
        " Tensor.copy_split_feature_dim Tensor.copy_template_adding_time_dim"
        " Tensor.copy_template_excluding_spatial_dim Tensor.copy_template_excluding_time_dim"
        " Tensor.copy_time_flattened Tensor.copy_with_feature_dim_axis Tensor.get_batch_shape"
        " Tensor.get_batch_shape_dim_tags Tensor.get_bc_shape Tensor.get_bc_spatial_batch_shape"
        " Tensor.get_description_from_axis Tensor.get_dim Tensor.get_dynamic_batch_shape Tensor.get_dynamic_size"
        " Tensor.get_feature_axes Tensor.get_sequence_lengths_broadcast Tensor.get_size_dim_tag"
        " Tensor.get_spatial_axes Tensor.get_special_axes_dict Tensor.has_dynamic_size Tensor.is_batch_feature_major"
        " Tensor.is_same_time_dim Tensor.mark_same_time Tensor.ndim Tensor.ndim_dense Tensor.set_dynamic_size"
        " Tensor.shape Tensor.shape_dense Tensor.size_placeholder Tensor.find_matching_dims"
        " Tensor.find_matching_dim_map Tensor.matches_var_dim_pattern Tensor.get_common_data Tensor.get_compare_key"
    ),
    "older spelling of what is there (dims, copy_template, rf.convert_to_tensor)": (
        "Tensor.dim Tensor.dim_tags_set_implicit Tensor.dim_tags_sparse Tensor.from_tensor Tensor.get_kwargs"
        " Tensor.template_from_constant Tensor.version"
    ),
    "dims match by identity, so nothing is to be searched among similar ones": (
        "Dim.axis_split_info Dim.derived_from_tag Dim.get_all_dimension_tags Dim.get_existing_tag_from_collection"
        " Dim.get_uniq_collection Dim.is_equal"
    ),
    "a loop is an iterator, not a module": "LoopModule",
    NOT_YET: (
        "import_params_espnet_convolutional_gating_mlp_to_rf import_params_espnet_e_branchformer_layer_to_rf"
        " import_params_espnet_multi_headed_attention_to_rf import_params_espnet_positionwise_feed_forward_to_rf"
        " is_packed pack pack_import packed_flat_content packed_regap unpack is_static_traceable"
        " set_static_traceable set_static_traceable_ctx static_traceable_generation"
    ),
}


def absent():
    return {name: reason for reason, names in ABSENT.items() for name in names.split()}


def places():
    """Where a documented name may be; instances too, since some attributes are set when one is made."""
    dim = rf.Dim(2, name="dim")
    lengths = rf.convert_to_tensor(np.asarray([1, 2], np.int32), dims=[dim])
    samples = {
        "Dim": dim,
        "Tensor": lengths,
        "Parameter": rf.Parameter([dim]),
        "Loop": rf.Loop(axis=dim),
        "TensorDict": rf.TensorDict(),
    }
    modules = [importlib.import_module(f"rfnb.interop.{m.name}") for m in pkgutil.iter_modules(rfnb.interop.__path__)]
    return samples, [rf, rf.audio, rfnb.tensor, rfnb.tensor.utils, *modules]


def found(name, samples, modules):
    first, _, rest = name.partition(".")
    sample = samples.get(first)
    if sample is not None and (hasattr(type(sample), rest) or rest in vars(sample)):
        return True
    if first == "Backend" and hasattr(rf, rest):  # the documentation lists functions around the class with it
        return True
    for module in modules:
        value = module
        for part in name.split("."):
            value = getattr(value, part, None)
        if value is not None:
            return True
    return False


def lacking(names):
    samples, modules = places()
    return [name for name in names if not found(name, samples, modules)]


def test_every_documented_name_is_there_or_absent_for_a_reason():
    missing = [f"{name} ({TIERS[name]})" for name in lacking(TIERS) if name not in absent()]
    assert not missing, (
        f"Documented, but not there: {', '.join(missing)}.\nAdd them, or list them in ABSENT with a reason."
    )


def test_what_is_said_to_be_absent_is_documented_and_absent():
    assert [name for name in absent() if name not in TIERS] == []
    there = {name for name, reason in absent().items() if reason != NOT_YET} - set(lacking(absent()))
    assert there == set(), "These are there: take them off the list of absent names."


def test_nothing_that_must_be_there_is_absent():
    assert [name for name in absent() if TIERS[name] == "M"] == []


def test_a_name_that_is_not_there_is_seen():
    assert lacking(["Dim.size", "Dim.no_such", "no_such_op", "matmul", "Backend.matmul"]) == [
        "Dim.no_such",
        "no_such_op",
    ]
