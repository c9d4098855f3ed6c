"""The steps of Binder, one after the other, in a copy of what git tracks: requirements, postBuild, start; then the course opens.

By default the packages of the present environment are what `binder/requirements.txt` has installed (it is looked up that they are
what it asks for). `make try-binder` sets RFNB_FRESH=1: then pip installs them, into an empty environment, from a package index.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import venv

import pytest
from cli.serving import get, serving
from installed.fresh import ROOT, clone, environment, run, surroundings
from waiting import LONG

pytestmark = pytest.mark.slow
FRESH = bool(os.environ.get("RFNB_FRESH"))
LINES = (ROOT / "binder/requirements.txt").read_text().splitlines()
NAME = re.compile(r"[\w-]+")


@pytest.fixture(scope="module")
def binder(tmp_path_factory):
    """The repository and the programs of an environment, after postBuild; and the variables of both."""
    folder = tmp_path_factory.mktemp("binder")
    tree = clone(folder / "home")
    programs = folder / "environment/bin"
    if FRESH:
        venv.EnvBuilder(symlinks=True, with_pip=True).create(programs.parent)
        wanted = folder / "requirements.txt"  # the index that the first line names cannot be reached from everywhere
        wanted.write_text("\n".join(line for line in LINES if not line.startswith("--")))
        run(programs / "python", "-m", "pip", "install", "-q", "-r", wanted, cwd=folder)
    else:
        environment(programs.parent)
        (programs / "pip").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pip --python "{programs}/python" "$@"\n')
        (programs / "pip").chmod(0o755)
    (programs / "dot").write_text("#!/bin/sh\nexit 1\n")  # apt.txt has the real one; none is needed for what follows
    (programs / "dot").chmod(0o755)
    env = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PIP_NO_INDEX": "1", "HOME": str(folder)}
    run("bash", "binder/postBuild", cwd=tree, **env)  # not as a login shell: that would take the path of this machine
    return tree, programs, env


def test_requirements_are_what_the_package_asks_for():
    """Binder has them in a layer of its own, and installs rfnb with --no-deps after it."""
    asked = {NAME.match(line)[0]: line for line in LINES if NAME.match(line)}
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = list(needed["optional-dependencies"]["g2p"])
    assert [line for line in [*needed["dependencies"], *extras] if NAME.match(line)[0] not in asked] == []
    # Those that are no other word are the same, so that a new bound is not forgotten here.
    chosen = {"torch", "jupyterlab"}  # one version each: the image is built again and again
    assert [line for line in needed["dependencies"] if NAME.match(line)[0] not in chosen and line not in LINES] == []


@pytest.mark.skipif(FRESH, reason="pip has installed them")
def test_this_environment_stands_for_the_requirements(tmp_path):
    wanted = tmp_path / "requirements.txt"
    wanted.write_text("\n".join(line for line in LINES if not line.startswith("--")))
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--no-deps", "-r", str(wanted)]
    done = subprocess.run(command, env=surroundings(), capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr
    assert "Would install" not in done.stdout


def test_packages_of_debian_are_named_one_a_line():
    assert (ROOT / "binder/apt.txt").read_text().splitlines() == ["graphviz"]


def test_rfnb_is_installed_in_the_environment(binder):
    tree, programs, env = binder
    printed = run(programs / "python", "-c", "import rfnb; print(rfnb.__file__)", cwd=tree / "notebooks", **env)
    assert printed.startswith(str(programs.parent / "lib"))


def test_start_takes_one_thread_and_runs_what_follows(binder):
    tree, _, env = binder
    printed = run("bash", "binder/start", "sh", "-c", "echo $OMP_NUM_THREADS $MKL_NUM_THREADS", cwd=tree, **env)
    assert printed == "1 1\n"


def test_the_course_and_the_tour_open(binder, tmp_path):
    tree, programs, env = binder
    lab = ["bash", "binder/start", str(programs / "python"), "-m", "jupyterlab", "--allow-root"]
    with serving(lambda words: [*lab, *words], tree, tmp_path, PYTHONPATH="", **env) as (address, _):
        contents = json.loads(get(f"{address}/api/contents/notebooks/README.md"))
        assert contents["content"] == (ROOT / "notebooks/README.md").read_text()
        assert "<title>JupyterLab</title>" in get(f"{address}/lab/tree/notebooks/README.md")
        tour = json.loads(get(f"{address}/api/contents/notebooks/00_tour.ipynb"))
        assert tour["content"]["cells"]
        settings = json.loads(get(f"{address}/lab/api/settings/@jupyterlab/docmanager-extension:plugin"))
        assert settings["schema"]["properties"]["defaultViewers"]["default"] == {"markdown": "Markdown Preview"}


def test_the_first_picture_of_the_tour_is_drawn(binder):
    tree, programs, env = binder
    code = """
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read("00_tour.ipynb", as_version=4)
first = next(index for index, cell in enumerate(notebook.cells) if cell.cell_type == "code")
del notebook.cells[first + 1:]
NotebookClient(notebook, resources={"metadata": {"path": "."}}).execute()
print("application/vnd.jupyter.widget-view+json" in str(notebook.cells[first].outputs))
"""
    kernels = {"JUPYTER_PATH": str(programs.parent / "share/jupyter"), "PYTHONPATH": "", **env}
    assert run(programs / "python", "-c", code, cwd=tree / "notebooks", **kernels) == "True\n"
