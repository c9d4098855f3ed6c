"""`import rfnb` is light: what only a notebook needs is loaded when a view is shown."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest
from waiting import LONG
from warm import warm

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


def said(code: str, python: Callable[[], list[str]] = warm) -> str:
    """The output of a fresh interpreter."""
    run = subprocess.run([*python(), "-c", code], capture_output=True, text=True, timeout=LONG)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_import_does_not_look_for_garbage_in_all_that_torch_has_made():
    """Looking through the objects of torch takes as long as the import itself. There are about forty collections otherwise."""
    watch = "import gc, torch\nruns = []\ngc.callbacks.append(lambda phase, info: runs.append(info['generation']))\n"
    assert said(f"{watch}import rfnb\nprint(len(runs) < 10, gc.isenabled())", lambda: [sys.executable]) == "True True"


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


def test_at_most_three_hundred_modules_are_loaded():
    assert int(said("import sys, rfnb\nprint(sum(name.split('.')[0] == 'rfnb' for name in sys.modules))")) <= 300


# -- names that are loaded later ---------------------------------------------------------------------------------------
def test_a_name_is_there_however_it_is_asked_for():
    assert said("import rfnb as rf\nprint(rf.LSTM.__name__, 'LSTM' in vars(rf))") == "LSTM True"
    assert said("from rfnb import beam_search, LSTM\nprint(beam_search.__name__)") == "beam_search"
    assert said("import rfnb\nfrom rfnb.dropout import dropout\nprint(rfnb.dropout is dropout)") == "True"
    assert said("from rfnb.attention import *\nprint(CausalSelfAttention.__name__, dot_attention.__name__)") == (
        "CausalSelfAttention dot_attention"
    )
    assert said("from rfnb import *\nprint(LSTM.__name__, show.__name__)") == "LSTM show"
    assert said("import rfnb.rec\nfrom rfnb.rec import LSTM\nprint(LSTM is rfnb.LSTM)") == "True"


def test_a_name_that_is_not_loaded_is_listed_and_completed():
    found = said(
        "import rfnb as rf\nprint('LSTM' in dir(rf), 'LSTM' in vars(rf))\ntry: rf.Lstm\nexcept AttributeError as error: print(error)"
    )
    assert found.splitlines() == ["True False", "rfnb has no 'Lstm'.", "Did you mean", "    rf.LSTM"]
    found = said("import rfnb\ntry: rfnb.dropout.Dropout\nexcept AttributeError as error: print('unknown')")
    assert found == "unknown"


def test_a_door_is_open_whoever_has_loaded_the_function():
    """Modules of rfnb load each other, and nobody has asked for the public name yet."""
    wrong = "try: {call}\nexcept TypeError as error: print(str(error).splitlines()[0])"
    call = wrong.format(call="found(beam=3)")
    through = said(f"import rfnb as rf\nfound = rf.beam_search\n{call}")
    assert through.startswith("beam_search") and "unexpected" not in through
    assert said(f"import rfnb\nfrom rfnb.search.beam_search import beam_search as found\n{call}") == through
    method = wrong.format(call="Trace().select(5, 6, 7)")
    through = said(f"import rfnb as rf\nTrace = rf.Trace\n{method}")
    assert (
        said(
            f"import rfnb\nfrom rfnb.trace.record import record\nwith record() as trace: pass\nTrace = type(trace)\n{method}"
        )
        == through
    )


def test_who_displays_a_run_or_a_training_need_not_have_loaded_it():
    load = "import rfnb as rf\nfrom rfnb.trace.training import Training"
    assert (
        said(f"{load}\nprint([hasattr(shown, '_ipython_display_') for shown in (Training, rf.Run)])") == "[True, True]"
    )


def test_threads_that_ask_at_once_get_the_same():
    code = (
        "import threading, rfnb as rf\nnames, found = [name for name in dir(rf) if name not in vars(rf)], []\n"
        "def ask(names): found.extend((name, id(getattr(rf, name))) for name in names)\n"
        "threads = [threading.Thread(target=ask, args=(names[::step],)) for step in (1, -1, 1, -1)]\n"
        "[thread.start() for thread in threads], [thread.join() for thread in threads]\n"
        "print(len(names) > 100, len(found) == 4 * len(names), len(set(found)) == len(names))"
    )
    assert said(code) == "True True True"


# -- what is filled by loading -----------------------------------------------------------------------------------------
_FILLED = """
import importlib, pkgutil, sys, rfnb

def held():
    modules = [(name, module) for name, module in sys.modules.items() if name.split(".")[0] == "rfnb"]
    found = [(f"{name}.{key}", value) for name, module in modules for key, value in vars(module).items()]
    return [(name, value, len(value)) for name, value in found if isinstance(value, (list, dict, set)) and "__" not in name]

before = held()
for module in pkgutil.walk_packages(rfnb.__path__, "rfnb."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(*sorted({name for name, value, size in before if len(value) != size}))
"""
# Each is about what loads it, so that nobody can look for it sooner; `BY_TYPE` loads the backend of a type that it does not know.
_ABOUT_WHAT_LOADS_THEM = "BY_TYPE DOORS FUNCTIONS _NAMES _caches _done _on_resize _ops _waiting"


def test_nothing_works_only_once_something_else_is_loaded():
    """A table of a module that is loaded at once, to which one that is loaded later adds, is not complete when it is asked."""
    found = {name.rsplit(".", 1)[1] for name in said(_FILLED).split()}
    assert found == set(_ABOUT_WHAT_LOADS_THEM.split())


def test_a_module_of_torch_is_a_part_in_a_fresh_interpreter():
    made = (
        "import rfnb as rf, torch\nclass Net(rf.Module):\n    def __init__(self): self.part = torch.nn.Linear(2, 3)\n"
    )
    assert said(f"{made}print(*dict(Net().named_parameters()))") == "part.weight part.bias"
