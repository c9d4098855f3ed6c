"""Every documented signature is ours: names, order of what goes by position, defaults, what can be set; or the reason is here.

`documented_signatures.txt` lists them. `test_documented_types.py` calls with every documented type of value.
"""

import inspect

import pytest
from asserting import raises_message
from contracts import signatures, test_documented_names

import rfnb as rf

EXCEPTIONS = {
    "options of older versions are errors, not swallowed": [
        "rf.Dim: takes no further keywords (**kwargs)",
        "rf.encoder.transformer.TransformerEncoder: takes no further keywords (**compat_kwargs)",
        "rf.decoder.transformer.TransformerDecoder: takes no further keywords (**compat_kwargs)",
    ],
    "made by register_forward_hook, never by a user": [
        "rf.hooks.RemovableHandle: positional parameters hooks, key, when_empty, documented method, hooks_dict",
        "rf.hooks.RemovableHandle: no parameter method",
        "rf.hooks.RemovableHandle: no parameter hooks_dict",
        "rf.hooks.RemovableHandle: undocumented parameter hooks is required",
        "rf.hooks.RemovableHandle: undocumented parameter key is required",
    ],
}
# Further absent names than those of `test_documented_names`, whose list has other names of older versions.
ABSENT = {
    "graph mode, batch info": "Dim.is_same_size_tensor",
    "axes by position or by kind, as those listed there": (
        "Tensor.copy_add_batch_dim Tensor.dim_tags_set_implicit_only Tensor.dim_tags_set_implicit_only_wrapped"
        " Tensor.feature_dim_axis_or_unspecified Tensor.get_axes Tensor.get_axes_with_size Tensor.get_batch_axis"
        " Tensor.get_batch_axis_excluding_batch Tensor.get_default_new_axis_for_dim_tag Tensor.get_feature_batch_axes"
        " Tensor.get_placeholder_flattened Tensor.get_placeholder_time_flattened Tensor.get_spatial_batch_axes"
        " Tensor.get_placeholder_with_runtime_sanity_checks Tensor.time_dim_axis_excluding_batch"
        " Tensor.time_dim_axis_or_unspecified"
    ),
}
ROWS = signatures.rows()


def allowed():
    return {line for lines in EXCEPTIONS.values() for line in lines}


def absent():
    """Documented paths that are absent for a reason, here or in `test_documented_names`."""
    here = {name for names in ABSENT.values() for name in names.split()}
    return here | set(test_documented_names.absent())


def is_absent(path):
    return path.removeprefix("rf.") in absent() or path.split(".")[-1] in absent()


@pytest.mark.parametrize("row", ROWS, ids=[f"{index}-{row.path}" for index, row in enumerate(ROWS)])
def test_documented_signature_is_ours(row):
    found = [line for line in signatures.differences(row) if line not in allowed()]
    if found in ([f"{row.path}: absent"], [f"{row.path}: not there"]):
        assert is_absent(row.path), found
    else:
        assert found == []


def test_exceptions_are_needed():
    found = {line for row in ROWS for line in signatures.differences(row)}
    assert allowed() - found == set()
    missing = {line.partition(":")[0] for line in found if line.endswith((": absent", ": not there"))}
    here = {name for names in ABSENT.values() for name in names.split()}
    assert here - missing == set()


def test_what_is_absent_from_a_tensor_or_dim_has_a_line_to_type():
    batch = rf.Dim(2, name="batch")
    for sample, name in ((rf.zeros([batch]), "Tensor"), (batch, "Dim")):
        for path in [row.path for row in ROWS if row.path.startswith(name + ".")]:
            attribute = path.split(".")[1]
            if isinstance(inspect.getattr_static(sample, attribute, None), signatures.AbsentAttribute):
                with pytest.raises(AttributeError, match=rf"A {name} has no attribute '{attribute}'.\n.*\n.*\n    \S"):
                    getattr(sample, attribute)
            else:
                assert inspect.getattr_static(sample, attribute, ...) is not ..., path


def test_the_message_of_an_absent_attribute():
    with raises_message(
        AttributeError,
        """
        A Tensor has no attribute 'get_axes'.
          tensor  [batch=2]
        It is documented for older programs; here a dim is named, never counted or described:
            x.dims
        """,
    ):
        _ = rf.zeros([rf.Dim(2, name="batch")]).get_axes


# -- the check sees what differs ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rf.gather(source: Tensor, *, indices: Tensor, axis: Dim = None)", []),
        ("rf.gather(source: Tensor, *, no_such: int)", ["no parameter no_such", "undocumented parameter indices is required"]),
        ("rf.gather(source: Tensor, indices: Tensor)", ["positional parameters source, documented source, indices"]),
        ("rf.gather(source, *, indices, clip_to_valid: bool = True)", ["clip_to_valid has default False, documented True"]),
        ("rf.gather(source, *, indices = None)", ["indices is required, documented default None"]),
        ("rf.gather(source, *more, indices)", ["takes no further positional arguments (*more)"]),
        ("rf.no_such_op(x)", ["not there"]),
        ("Tensor.dims_set property (settable)", ["cannot be set"]),
        ("Tensor.feature_dim property (settable)", []),
    ],
)  # fmt: skip
def test_differences_are_seen(line, expected):
    row = signatures.parse(line)
    assert signatures.differences(row) == [f"{row.path}: {text}" for text in expected]
