"""`import rfnb.as_returnn`: the documented modules of RETURNN are those of rfnb, and nothing else is said to be there."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from waiting import LONG

DOCUMENTED = [line.split(": ") for line in Path(__file__).with_name("documented_paths.txt").read_text().splitlines()]
ABSENT = ("static_traceable", "conversions.espnet_e_branchformer")


def run(script, *folders):
    """What a fresh interpreter prints; the last line of its error if it fails."""
    code = f"import sys\nsys.path[:0] = {[str(folder) for folder in folders]}\n" + textwrap.dedent(script)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LONG)
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
        import returnn.frontend.cond, returnn.frontend.reduce
        import returnn.frontend as rf
        from rfnb.interop.torch_module import rf_module_to_pt_module as ours
        print(OfDim is Dim is rf.Dim, OfTensor is Tensor is rf.Tensor, rf_module_to_pt_module is ours, callable(rf.cond))
        module = rf_module_to_pt_module(rf.Linear(Dim(2, name="a"), Dim(3, name="b")))
        print(sorted(module.state_dict()), Tensor.__module__)
    """
    assert run(script) == "True True True True\n['bias', 'weight'] rfnb.core.tensor\n"


@pytest.mark.parametrize(
    "statement",
    [
        "import returnn.config",
        "from returnn.datasets import hdf",
        "import returnn.frontend.core.dim",
        "import returnn.frontend.nn",
    ],
)
def test_what_is_not_here_says_what_is(statement):
    name = {"import returnn.frontend.core.dim": "returnn.frontend.core"}.get(statement, statement.split()[1])
    assert run(f"import rfnb.as_returnn\n{statement}") == textwrap.dedent(
        f"""\
        {name} is not here.
          here  returnn.frontend, returnn.tensor, returnn.util.basic.NotSpecified, returnn.torch.frontend.bridge
        rfnb stands in for the frontend of RETURNN, not for its engine, configs or data sets.
        docs/coming-from-returnn.md tells what differs.
        """
    )


def test_programs_that_try_other_imports_go_on():
    script = """
        import rfnb.as_returnn
        try:
            from returnn.config import get_global_config
        except ImportError:
            print("without config")
        import importlib.util, json, rfnb.viz
        print(importlib.util.find_spec("no_such_module"), importlib.reload(rfnb.as_returnn) is rfnb.as_returnn)
    """
    assert run(script) == "without config\nNone True\n"


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
