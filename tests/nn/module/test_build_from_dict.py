"""Objects from dicts: public names only."""

import functools

import pytest
from asserting import assert_same, raises_message, randn

import rfnb as rf
from rfnb import Dim

A, B = Dim(2, name="a"), Dim(3, name="b")


def test_a_class_is_called_with_arguments_and_options():
    linear = rf.build_from_dict({"class": "rf.Linear", "with_bias": False}, A, out_dim=B)
    assert type(linear) is rf.Linear and linear.weight.dims == (A, B) and linear.bias is None
    assert rf.build_from_dict({"class": "rf.Linear", "with_bias": False}, A, B, with_bias=True).bias is not None


def test_a_function_becomes_a_partial():
    x = randn(A)
    clip = rf.build_from_dict({"class": "rf.clip_by_value", "clip_value_min": 0.0, "clip_value_max": 0.5})
    assert isinstance(clip, functools.partial) and clip.func is rf.clip_by_value
    assert_same(clip(x), rf.clip_by_value(x, 0.0, 0.5))
    assert rf.build_from_dict({"class": "rf.gelu"}) is rf.gelu


def test_a_class_of_the_user_is_given_itself():
    class Mine(rf.Module):
        def __init__(self, size):
            self.size = size

    assert rf.build_dict(Mine, size=3) == {"class": Mine, "size": 3}
    assert rf.build_from_dict(rf.build_dict(Mine, size=3)).size == 3


def test_build_dict_names_what_is_public():
    assert rf.build_dict(rf.Linear, out_dim=3) == {"class": "rf.Linear", "out_dim": 3}
    assert rf.build_dict(rf.relu) == {"class": "rf.relu"}
    assert rf.build_dict("rf.LayerNorm", eps=1e-3) == {"class": "rf.LayerNorm", "eps": 1e-3}
    assert type(rf.build_from_dict(rf.build_dict(rf.LayerNorm, eps=1e-3), A)) is rf.LayerNorm


def test_attributes_of_public_names_can_be_named():
    x = randn(A)
    assert rf.build_from_dict({"class": "rf.Tensor.copy"})(x).raw_tensor is x.raw_tensor


def test_nested_modules_are_handed_on_and_other_things_built():
    seen = {}

    class Layer(rf.Module):
        def __init__(self, **options):
            seen.update(options)

    norm = {"class": "rf.LayerNorm", "eps": 1e-3}
    rf.build_from_dict(
        {
            "class": Layer,
            "norm": norm,
            "activation": {"class": "rf.relu"},
            "opts": {"initial": {"class": "rf.Normal", "stddev": 0.5}, "parts": [norm, {"class": "rf.gelu"}]},
        }
    )
    assert seen["norm"] is norm and seen["activation"] is rf.relu
    assert isinstance(seen["opts"]["initial"], rf.Normal) and seen["opts"]["initial"].stddev == 0.5
    assert seen["opts"]["parts"] == [norm, rf.gelu]


def test_a_layer_builds_its_parts_from_names():
    dim = Dim(4, name="model")
    layer = rf.build_from_dict(
        {
            "class": "rf.TransformerEncoderLayer",
            "num_heads": 2,
            "ff": {"class": "rf.FeedForwardGated", "ff_dim": 5},
            "norm": {"class": "rf.RMSNorm", "eps": 0.1},
        },
        dim,
    )
    assert type(layer.ff) is rf.FeedForwardGated and type(layer.self_att_layer_norm) is rf.RMSNorm
    assert layer.self_att_layer_norm.eps == 0.1
    assert type(rf.make_norm("rf.LayerNorm", dim)) is rf.LayerNorm


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("rf.encoder.conformer.ConformerEncoder", rf.ConformerEncoder),
        ("rf.decoder.transformer.FeedForwardGated", rf.FeedForwardGated),
        ("rf.init.Normal", rf.Normal),
        ("returnn.frontend.LayerNorm", rf.LayerNorm),
        ("returnn.frontend.encoder.e_branchformer.Merge", rf.Merge),
    ],
)
def test_names_with_the_page_of_the_documentation(name, cls):
    from rfnb.nn.module.build_from_dict import named_object

    assert named_object(name) is cls


def test_a_name_that_is_not_public():
    with raises_message(ValueError, """
        build_from_dict: no public name "rf.linear".
          near  rf.Linear, rf.lerp
        A name is "rf." and a public name of rfnb. For a class of your own, give the class itself:
            {"class": MyModule, ...}
        """):  # fmt: skip
        rf.build_from_dict({"class": "rf.linear"})


@pytest.mark.parametrize(
    "name",
    [
        "os.system", "builtins.eval", "eval", "rf", "", "rf.", "rf.viz.show", "rf.nn.linear.Linear", "rf._operators",
        "rf.Linear.__init__.__globals__", "rf.Linear.__call__", "rf.build_from_dict.__globals__", "rf.Linear.nothing",
    ],
)  # fmt: skip
def test_nothing_but_public_names_is_reached(name):
    with pytest.raises(ValueError, match="no public name"):
        rf.build_from_dict({"class": name})


def test_a_dict_without_class():
    with pytest.raises(KeyError) as caught:
        rf.build_from_dict({"in_dim": 3})
    assert caught.value.args[0].splitlines() == [
        'build_from_dict: no "class" in the dict.', "  has  in_dim", "It says what to build.", '    {"class": "rf.Linear", ...}',
    ]  # fmt: skip


def test_something_that_is_not_called():
    with raises_message(TypeError, """
        build_dict: not a class or function.
          got  int
        It is a public name, or a class or function itself.
            {"class": "rf.Linear", ...}
        """):  # fmt: skip
        rf.build_dict(3)
    with pytest.raises(TypeError, match="build_from_dict: not a class or function.\n  got  Dim"):
        rf.build_from_dict({"class": "rf.batch_dim"})
