"""The documented modules are importable, have the documented names, and change nothing about the objects in them."""

import importlib
import inspect
import pickle
import subprocess
import sys
import types
from pathlib import Path

import pytest
from asserting import public, raises_message
from waiting import LONG
from warm import warm

import rfnb as rf
from rfnb.places import unknown_names
from rfnb.places.paths import RENAMED

DOCUMENTED = {
    path: names.split()
    for path, names in (
        line.split(": ") for line in Path(__file__).with_name("documented_paths.txt").read_text().splitlines()
    )
}
ABSENT = {
    "static_traceable": "graph mode",
    "conversions.espnet_e_branchformer": "not written yet",
    "cond": "T",  # a type variable of the implementation, no use to anybody
}


def lacking(path):
    """The documented names that `from rfnb.path import name` does not give as the object of rfnb."""
    module = importlib.import_module(f"rfnb.{path}")
    return [name for name in DOCUMENTED[path] if getattr(module, name, None) is not getattr(rf, name, object())]


@pytest.mark.parametrize("path", [path for path in DOCUMENTED if path not in ABSENT])
def test_a_documented_module_has_the_names_of_rfnb(path):
    only_there = {"audio.specaugment": ["mask"], "conversions.torch_nn": DOCUMENTED["conversions.torch_nn"]}
    assert lacking(path) == only_there.get(path, [])
    module = importlib.import_module(f"rfnb.{path}")
    assert all(inspect.isfunction(getattr(module, name)) for name in only_there.get(path, []))


def test_what_is_absent_is_absent():
    assert lacking("cond") == ["T"]
    for path in ("static_traceable", "conversions.espnet_e_branchformer"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(f"rfnb.{path}")


def test_modules_are_attributes_where_no_function_has_the_name():
    for path in DOCUMENTED:
        first = path.split(".")[0]
        value = getattr(rf, first, None)
        assert path in ABSENT or isinstance(value, types.ModuleType) or inspect.isfunction(value), path
    assert rf.nested.gather_nested is rf.gather_nested
    assert rf.encoder.conformer.ConformerEncoder is rf.ConformerEncoder
    assert rf.conversions.torch_nn.import_params_torch_linear_to_rf.__module__ == "rfnb.interop.torch_nn"


def test_importing_a_module_never_replaces_a_function():
    collide = [path for path in DOCUMENTED if inspect.isfunction(getattr(rf, path.split(".")[0], None))]
    assert {"cond", "reduce", "conv", "dropout", "gradient", "matmul", "label_smoothing"} <= set(collide)
    script = "\n".join(
        ["import rfnb as rf", f"before = [getattr(rf, n) for n in {collide}]"]
        + [f"import rfnb.{path}" for path in collide]
        + [f"from rfnb.{path} import *" for path in collide]
        + [f"assert before == [getattr(rf, n) for n in {collide}]", "print(rf.cond is cond, rf.reduce is reduce)"]
    )
    run = subprocess.run([*warm(), "-c", script], capture_output=True, text=True, timeout=LONG)
    assert run.stdout == "True True\n", run.stderr


def test_objects_keep_the_file_that_defines_them():
    decoder = importlib.import_module("rfnb.decoder.transformer").TransformerDecoder
    assert decoder.__module__ == "rfnb.nn.transformer.decoder"
    assert inspect.getmodule(decoder).__file__.endswith("decoder.py")
    assert "def __init__" in inspect.getsource(decoder)
    assert pickle.loads(pickle.dumps(decoder)) is decoder
    assert b"rfnb.nn.transformer.decoder" in pickle.dumps(decoder)


def test_the_folders_of_the_package_stay_folders():
    assert rf.rec.__file__.endswith("__init__.py") and rf.rec.LSTM is rf.LSTM
    assert importlib.import_module("rfnb.init") is rf.init and importlib.import_module("rfnb.audio") is rf.audio
    assert rf.init.__spec__.name == "rfnb.nn.init"


def test_an_earlier_module_has_the_public_names_of_its_present_one():
    for earlier, present in RENAMED.items():
        names = [name for name in rf.__all__ if getattr(getattr(rf, name), "__module__", None) == f"rfnb.{present}"]
        assert names, f"{present} has no public names"
        module = importlib.import_module(f"rfnb.{earlier}")
        assert all(getattr(module, name) is getattr(rf, name) for name in names)


def test_a_pickle_that_names_an_earlier_module_is_read():
    now = pickle.dumps(rf.masked_select, protocol=0)
    assert pickle.loads(now.replace(b"rfnb.ops.mask_packing", b"rfnb.ops.masked")) is rf.masked_select


# -- names that there are not ------------------------------------------------------------------------------------------
def test_a_typing_error_gets_the_nearest_names():
    with raises_message(
        AttributeError,
        """
        rfnb has no 'reduce_men'.
        Did you mean
            rf.reduce_mean
            rf.reduce_min
            rf.reduce
        """,
    ):
        _ = rf.reduce_men


@pytest.mark.parametrize(
    ("name", "instead"),
    [("Dropout", "rf.dropout"), ("ReLU", "rf.relu"), ("LogSoftmax", "rf.log_softmax"), ("embedding", "rf.Embedding")],
)
def test_a_name_in_the_case_of_torch_gets_the_one_here(name, instead):
    with pytest.raises(AttributeError) as error:
        getattr(rf, name)
    assert str(error.value) == f"rfnb has no {name!r}.\nDid you mean\n    {instead}"


def test_a_name_of_torch_gets_what_does_it_here():
    with raises_message(
        AttributeError,
        """
        rfnb has no 'cat'.
        Functions here name the dims that they work on:
            rf.concat((a, a_dim), (b, b_dim))
        """,
    ):
        _ = rf.cat


def test_what_is_said_for_names_of_torch_is_there():
    for name, instead in unknown_names.INSTEAD.items():
        assert name not in public(), f"{name} is there now"
        for word in instead.replace("(", " ").replace(",", " ").split():
            if word.startswith("rf."):
                assert hasattr(rf, word[3:]), word


def test_a_documented_name_that_is_absent_says_why():
    for reason, names in unknown_names.ABSENT.items():
        for name in names.split():
            with pytest.raises(AttributeError) as error:
                getattr(rf, name)
            assert str(error.value) == f"rfnb has no {name!r}.\nIt is documented, but not offered. {reason}"


def test_a_name_like_no_other_says_where_to_look():
    with raises_message(
        AttributeError,
        """
        rfnb.decoder.transformer has no 'qqq'.
        What there is:
            dir(rfnb.decoder.transformer)
        """,
    ):
        _ = rf.decoder.transformer.qqq


def test_tools_may_ask_every_module_for_anything():
    for module in [rf, *(value for name, value in sys.modules.items() if name.startswith("rfnb."))]:
        assert not hasattr(module, "__wrapped__") and not hasattr(module, "_no_such")
