"""`import rfnb.as_returnn`: the documented modules of RETURNN are those of rfnb, and nothing else is said to be there."""

import subprocess
import textwrap
from pathlib import Path

import pytest
from waiting import LONG
from warm import warm

DOCUMENTED = [line.split(": ") for line in Path(__file__).with_name("documented_paths.txt").read_text().splitlines()]
ABSENT = ("static_traceable", "conversions.espnet_e_branchformer")


def run(script, *folders):
    """The output of a fresh interpreter; the last line of its error if it fails."""
    code = f"import sys\nsys.path[:0] = {[str(folder) for folder in folders]}\n" + textwrap.dedent(script)
    done = subprocess.run([*warm(), "-c", code], capture_output=True, text=True, timeout=LONG)
    return done.stdout if done.returncode == 0 else done.stdout + done.stderr.partition("Error: ")[2]


def test_every_documented_module_is_that_of_rfnb():
    paths = {path: names.split() for path, names in DOCUMENTED if path not in ABSENT}
    script = f"""
        import rfnb.as_returnn, rfnb
        import returnn.frontend as rf
        from importlib import import_module
        wrong = []
        for path, names in {paths}.items():
            module, ours = import_module("returnn.frontend." + path), import_module("rfnb." + path)
            wrong += [path + "." + name for name in names if getattr(module, name, 0) is not getattr(ours, name, 1)]
        print(rf is rfnb, wrong)
    """
    assert run(script) == "True ['cond.T']\n"  # a type variable


def test_names_around_the_frontend_are_there():
    script = """
        import rfnb.as_returnn
        from returnn.tensor import Tensor, Dim, TensorDict, batch_dim, single_step_dim
        from returnn.tensor.dim import Dim as OfDim
        from returnn.tensor.tensor import Tensor as OfTensor
        from returnn.tensor.utils import tensor_dict_fill_random_numpy_
        from returnn.util.basic import NotSpecified
        from returnn.torch.frontend.bridge import rf_module_to_pt_module
        from returnn.tensor.tensor_dict import TensorDict as OfTensorDict, Tensor as Beside
        from returnn.frontend.encoder.conformer import make_norm
        import returnn.frontend.cond, returnn.frontend.reduce
        import returnn.frontend as rf
        from rfnb.interop.torch_module import rf_module_to_pt_module as ours
        print(OfDim is Dim is rf.Dim, OfTensor is Tensor is rf.Tensor, rf_module_to_pt_module is ours, callable(rf.cond))
        assert OfTensorDict is TensorDict and Beside is Tensor and make_norm is rf.decoder.transformer.make_norm
        module = rf_module_to_pt_module(rf.Linear(Dim(2, name="a"), Dim(3, name="b")))
        print(sorted(module.state_dict()), Tensor.__module__)
    """
    assert run(script) == "True True True True\n['bias', 'weight'] rfnb.core.tensor\n"


@pytest.mark.parametrize(
    "statement, instead",
    [
        ("import returnn.engine", "rfnb stands in for the frontend of RETURNN, not for its engine or data pipelines."),
        ("import returnn.datasets.hdf", "Data sets are not here: put arrays into a TensorDict"),
        ("import returnn.datasets.basic", "Data sets are not here: put arrays into a TensorDict"),
        ("import returnn.torch.engine", "The training engine is not here: a loop over steps is"),
        ("import returnn.tf", "Graphs of TensorFlow are not here; networks in dict notation are"),
        ("import returnn.frontend.core.dim", "rfnb stands in for the frontend of RETURNN"),
        ("import returnn.frontend.nn", "rfnb stands in for the frontend of RETURNN"),
    ],
)
def test_what_is_not_here_says_what_is(statement, instead):
    name = {"import returnn.frontend.core.dim": "returnn.frontend.core"}.get(statement, statement.split()[1])
    lines = run(f"import rfnb.as_returnn\n{statement}").splitlines()
    assert lines[0] == f"{name} is not here." and lines[1].startswith("  here  returnn.frontend, returnn.tensor, ")
    assert lines[2].startswith(instead) and lines[3:] == ["docs/coming-from-returnn.md tells what differs."]


def test_programs_that_try_other_imports_go_on():
    script = """
        import rfnb.as_returnn
        try:
            from returnn.engine.base import EngineBase
        except ImportError:
            print("without engine")
        import importlib.util, json, rfnb.viz
        print(importlib.util.find_spec("no_such_module"), importlib.reload(rfnb.as_returnn) is rfnb.as_returnn)
    """
    assert run(script) == "without engine\nNone True\n"


def test_it_is_refused_where_returnn_is_installed(tmp_path):
    (tmp_path / "returnn").mkdir()
    (tmp_path / "returnn" / "__init__.py").write_text("")
    expected = textwrap.dedent(
        f"""\
        rfnb.as_returnn: RETURNN is installed.
          returnn  {tmp_path / "returnn" / "__init__.py"}
        One name cannot mean both, and which one code gets would depend on what is imported first. Say rfnb where you mean it:
            import rfnb as rf
            from rfnb.tensor import Tensor, Dim
        """
    )
    assert run("import rfnb.as_returnn", tmp_path) == expected
    assert run("import returnn, rfnb.as_returnn", tmp_path) == expected
    script = """
        import rfnb
        try:
            import rfnb.as_returnn
        except ImportError:
            import returnn
            print(hasattr(returnn, "frontend"), any(type(finder) is not type and "NotHere" in repr(finder) for finder in sys.meta_path))
    """
    assert run(script, tmp_path) == "False False\n"


def test_it_is_refused_where_a_module_of_that_name_was_made_by_hand():
    script = """
        import types
        sys.modules["returnn"] = types.ModuleType("returnn")
        import rfnb.as_returnn
    """
    assert run(script).splitlines()[1] == "  returnn  a module that is imported already"


def test_a_configuration_is_read_as_it_was_set(tmp_path):
    (tmp_path / "base.config").write_text(
        "import os\nbatch_size = 2000\nlearning_rates = [1e-3, 5e-4]\ndef get_model(): return 7\n"
    )
    script = f"""
        import rfnb.as_returnn
        from returnn.config import Config, get_global_config, set_global_config, global_config_ctx
        try:
            get_global_config()
        except RuntimeError as error:
            print(str(error).splitlines()[0])
        print(get_global_config(raise_exception=False), get_global_config(return_empty_if_none=True).typed_dict)
        config = get_global_config(auto_create=True)
        assert config is get_global_config()
        config.load_file({str(tmp_path / "base.config")!r})
        config.update(dict(num_epochs="10", use="yes", sizes="3,4", scale=2, text=("a", "b"), nothing=None, wrong="ten"))
        print(config.typed_value("batch_size"), config.typed_value("learning_rates", index=1), config.typed_value("get_model")())
        print(config.int("num_epochs", 1), config.bool("use", False), config.int("sizes", 0, index=1), config.float("scale", 1.0))
        print(config.list("sizes"), config.value("text", ""), config.bool("not there", True), config.int("nothing", 5))
        print(config.typed_value("none", 3), "use" in config, config.has("none"), config.value("batch_size", ""))
        for read in (config.int, config.float, config.bool):
            try:
                read("wrong", 1)
            except ValueError as error:
                print(str(error).splitlines()[0])
        with global_config_ctx(Config({{"a": 1}})) as other:
            print(get_global_config().typed_dict)
        set_global_config(None)
        print(get_global_config(raise_exception=False))
    """
    assert run(script).splitlines() == [
        "get_global_config: there is none.",
        "None {}",
        "2000 0.0005 7",
        "10 True 4 2.0",
        "['3', '4'] a,b True 5",
        "3 True False 2000",
        'Config: "wrong" is no int.',
        'Config: "wrong" is no float.',
        'Config: "wrong" is no bool.',
        "{'a': 1}",
        "None",
    ]


def test_vocabularies_are_read_and_refused(tmp_path):
    (tmp_path / "lines").write_text("<s>\na\nb\nUNK\n")
    (tmp_path / "dict").write_text("{'a': 1, '<s>': 0, 'b': 2}")
    (tmp_path / "gap").write_text("{'a': 0, 'b': 2}")
    script = f"""
        import os; os.chdir({str(tmp_path)!r})
        import rfnb.as_returnn
        from returnn.datasets.util.vocabulary import Vocabulary
        words = Vocabulary("lines", bos_label="<s>", eos_label=0, seq_postfix=[0])
        print(words.get_seq("b a c"), words.get_seq_labels([1, 2]), words.bos_label_id, words.eos_label_id, words.unknown_label_id)
        other = Vocabulary.create_vocab(vocab_file="dict", unknown_label=None)
        print(other.labels, other.num_labels, other.get_seq("b a"), other.label_to_id("a"), other.is_id_valid(3))
        print(Vocabulary.create_vocab_from_labels(["x", "y"]).id_to_label(1))
        for wrong in (lambda: other.get_seq("c"), lambda: Vocabulary("gap"), lambda: Vocabulary("lines", num_labels=5),
                      lambda: Vocabulary(labels=["a", "a"]), lambda: Vocabulary.create_vocab(**{{"class": "SentencePieces"}}), Vocabulary):
            try:
                wrong()
            except (KeyError, ValueError) as error:
                print(type(error).__name__, str(error).splitlines()[0])
    """
    assert run(script).splitlines() == [
        "[2, 1, 3, 0] a b 0 0 3",
        "['<s>', 'a', 'b'] 3 [2, 1] 1 False",
        "y",
        'MissingKeyError Vocabulary: no label "c".',
        "ValueError Vocabulary: the indices of a file have gaps.",
        "ValueError Vocabulary: its labels do not fit.",
        "ValueError Vocabulary: its labels do not fit.",
        "ValueError create_vocab: no SentencePieces here.",
        "ValueError Vocabulary: no labels.",
    ]


def test_small_parts_do_what_they_say():
    script = """
        import rfnb.as_returnn, warnings
        import numpy as np
        from returnn.forward_iface import ForwardCallbackIface
        from returnn.tensor import Dim, Tensor, TensorDict
        from returnn.torch.data.tensor_utils import tensor_dict_numpy_to_torch_, tensor_numpy_to_torch_
        from returnn.util import better_exchook
        from returnn.util.basic import BehaviorVersion, NotSpecified, get_login_username
        from returnn.util.math import PiecewiseLinear, ceil_div, next_power_of_two
        print([ceil_div(a, 4) for a in (0, 1, 4, 5, -5)], [next_power_of_two(n) for n in (0, 1, 2, 3, 4, 5, 1025)])
        rate = PiecewiseLinear({0: 1e-5, 10: 1e-3, 20: 0.0}, kw_name="epoch_continuous", ignore_other_kwargs=True)
        print(rate(-1), rate(5), rate(epoch_continuous=15, epoch=3), rate(99), get_login_username() != "")
        data = TensorDict({"x": Tensor("x", [Dim(2, name="two")], "float32", raw_tensor=np.ones(2, np.float32))})
        tensor_dict_numpy_to_torch_(data)
        tensor_numpy_to_torch_(data["x"])
        print(type(data["x"].raw_tensor).__name__, ForwardCallbackIface().process_seq(seq_tag="a", outputs=data))
        better_exchook.install()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            BehaviorVersion.set(BehaviorVersion.get())
            BehaviorVersion.set(16)
        print([str(each.message).splitlines()[0] for each in caught])
        BehaviorVersion.require(True, "fine", 1)
        for wrong in (lambda: BehaviorVersion.set(99), lambda: BehaviorVersion.require(False, "wrong", 3), lambda: rate(1, 2)):
            try:
                wrong()
            except (ValueError, TypeError) as error:
                print(str(error).splitlines()[0])
    """
    assert run(script).splitlines() == [
        "[0, 1, 1, 2, -1] [1, 1, 2, 4, 4, 8, 2048]",
        "1e-05 0.000505 0.0005 0.0 True",
        "Tensor None",
        "['BehaviorVersion: the newest one is used.']",
        "BehaviorVersion: no version 99.",
        "BehaviorVersion: wrong.",
        "PiecewiseLinear: one number, epoch_continuous; got (1, 2) {}",
    ]
