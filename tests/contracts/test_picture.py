"""The dependency picture holds in every file of rfnb/, and the checker sees when it does not."""

import re
from pathlib import Path

import pytest
from contracts.picture import MAY_IMPORT, violations

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "rfnb").rglob("*.py"))
# Documented places of names.
PASS_ON = {"rfnb/nn/audio.py", "rfnb/tensor/utils.py"}


def test_every_file_of_the_package_keeps_to_the_picture():
    assert len(FILES) > 20, "the package was not found"
    found = [line for file in FILES for line in violations(file.read_text(), file.relative_to(ROOT).as_posix())]
    assert found == []


def test_names_are_imported_from_the_files_that_define_them():
    """What a file imports `as` itself it passes on (mypy refuses other names that a file did not define)."""
    again = re.compile(r"^from rfnb\S* import (\w+) as \1$", re.MULTILINE)
    passing = {file.relative_to(ROOT).as_posix() for file in FILES if again.search(file.read_text())}
    assert {path for path in passing if not path.endswith("__init__.py")} == PASS_ON


def test_the_picture_has_no_cycle():
    def below(folder: str, path: tuple[str, ...] = ()) -> None:
        assert folder not in path, f"cycle: {' -> '.join([*path, folder])}"
        for other in MAY_IMPORT[folder]:
            below(other, (*path, folder))

    for folder in MAY_IMPORT:
        below(folder)


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("rfnb/core/dim.py", "from rfnb.ops.math import exp", "core/ may not import rfnb.ops.math"),
        ("rfnb/core/dim.py", "from rfnb.ops import math", "core/ may not import rfnb.ops"),
        ("rfnb/core/dim.py", "from ..ops import math", "core/ may not import rfnb.ops"),
        ("rfnb/core/dim.py", "def f():\n    import rfnb.ops.math", "core/ may not import rfnb.ops.math"),
        (
            "rfnb/core/dim.py",
            "if TYPE_CHECKING:\n    from rfnb.nn.module.module import Module",
            "core/ may not import rfnb.nn.module.module",
        ),
        ("rfnb/core/dim.py", "import_module('rfnb.viz.show')", "core/ may not import rfnb.viz.show"),
        ("rfnb/core/dim.py", "M = {'a': 'rfnb.viz.show'}\nimport_module(M['a'])", "core/ may not import rfnb.viz.show"),
        ("rfnb/ops/math.py", "from rfnb.trace.probe import probe", "ops/ may not import rfnb.trace.probe"),
        ("rfnb/search/beam.py", "from rfnb.nn.linear import Linear", "search/ may not import rfnb.nn.linear"),
        ("rfnb/nn/module/module.py", "from rfnb.search.beam import choice", "nn/ may not import rfnb.search.beam"),
        ("rfnb/lm/ngram.py", "from rfnb.nn.linear import Linear", "lm/ may not import rfnb.nn.linear"),
        ("rfnb/rec/loop.py", "from rfnb.lm.ngram import NGramLM", "rec/ may not import rfnb.lm.ngram"),
        ("rfnb/ops/math.py", "from rfnb.debugging import poison", "ops/ may not import rfnb.debugging"),
        ("rfnb/data/cmudict.py", "from rfnb.models.g2p import G2P", "data/ may not import rfnb.models.g2p"),
        ("rfnb/nn/linear.py", "from rfnb import Tensor", "imports from rfnb itself"),
        ("rfnb/nn/linear.py", "def f():\n    import rfnb as rf", "imports from rfnb itself"),
        ("rfnb/nn/linear.py", "import torch.nn", "torch may be imported only in rfnb/backends/torch*.py"),
        ("rfnb/viz/show.py", "def f():\n    import anywidget", "anywidget may be imported only in rfnb/viz/widget.py"),
        (
            "rfnb/viz/widget.py",
            "from IPython.display import display",
            "IPython may be imported only in rfnb/viz/display.py",
        ),
        ("rfnb/viz/heat.py", "import matplotlib.pyplot as plt", "matplotlib may be imported only inside a function"),
        ("rfnb/nn/heat.py", "def f():\n    import graphviz", "graphviz may be imported only in rfnb/viz/*.py"),
        ("rfnb/helpers/x.py", "", "is in no layer"),
    ],
)
def test_the_checker_reports_what_is_against_the_picture(path, source, expected):
    found = violations(source, path)
    assert found and all(line.startswith(path) for line in found)
    assert any(expected in line for line in found), found


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (
            "rfnb/core/tensor.py",
            "from rfnb.backends.protocol import backend\nfrom rfnb.core.dim import Dim\nfrom . import errors",
        ),
        ("rfnb/backends/torch_lstm.py", "import torch"),
        ("rfnb/models/g2p.py", "import torch\nfrom rfnb.data.g2p import SYMBOLS"),
        ("rfnb/viz/heat.py", "def f():\n    import matplotlib.pyplot as plt"),
        ("rfnb/__init__.py", "from rfnb.core.dim import Dim"),
    ],
)
def test_the_checker_accepts_what_the_picture_allows(path, source):
    assert violations(source, path) == []
