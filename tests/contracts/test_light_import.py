"""`import rfnb` is light: what only a notebook needs is loaded when a view is shown."""

import json
import subprocess
import sys

import pytest
from waiting import LONG

HEAVY = [
    "PIL",
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


def said(code: str) -> str:
    """What a fresh interpreter prints."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LONG)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_import_does_not_look_for_garbage_in_all_that_torch_has_made():
    """Looking through the objects of torch takes as long as the import itself. There are about forty collections otherwise."""
    watch = "import gc, torch\nruns = []\ngc.callbacks.append(lambda phase, info: runs.append(info['generation']))\n"
    assert said(f"{watch}import rfnb\nprint(len(runs) < 10, gc.isenabled())") == "True True"


def test_garbage_is_collected_after_the_import_as_before():
    assert said("import gc\ngc.disable()\nimport rfnb\nprint(gc.isenabled())") == "False"


def test_garbage_is_collected_after_an_import_that_failed():
    missing = "import gc, sys\nsys.modules['numpy'] = None\ntry:\n    import rfnb\nexcept ImportError:\n    pass\n"
    assert said(f"{missing}print('rfnb' in sys.modules, gc.isenabled())") == "False True"


def test_views_are_loaded_when_something_is_shown():
    views = (
        "[name for name in sys.modules if name.startswith('rfnb.viz.') and name.endswith(('.spec', '.text', '.html'))]"
    )
    assert said(f"import sys, rfnb\nprint(sorted({views}))") == "['rfnb.viz.spec']"
