"""`import rfnb` is light: what only a notebook needs is loaded when a view is shown."""

import json
import subprocess
import sys

import pytest
from waiting import LONG

HEAVY = [
    "IPython",
    "anywidget",
    "graphviz",
    "ipykernel",
    "ipywidgets",
    "jupyter_client",
    "jupyterlab",
    "matplotlib",
    "notebook",
    "traitlets",
]


def loaded_after(code: str) -> list[str]:
    """Which of the heavy packages a fresh interpreter has loaded after `code`."""
    script = f"{code}\nimport sys, json\nprint(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LONG)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


def test_import_loads_nothing_that_only_a_notebook_needs():
    assert loaded_after("import rfnb as rf\nassert rf.Dim and rf.Tensor") == []


@pytest.mark.parametrize("package", ["matplotlib", "anywidget"])
def test_the_check_sees_a_heavy_import(package):
    assert package in loaded_after(f"import rfnb, {package}")
