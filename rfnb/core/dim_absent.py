"""The names that a Dim does not have, but people look for: those of programs written for graphs."""

from __future__ import annotations

from rfnb.core.absent import put_absent


def put_all_absent(cls: type) -> None:
    """Make each of these names an attribute that raises, with what to write instead."""
    put_absent(
        cls,
        "A Dim",
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
    )
    put_absent(
        cls,
        "A Dim",
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
    )
