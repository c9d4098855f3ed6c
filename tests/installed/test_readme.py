"""The README, followed to the letter in a copy of what git tracks: what it says to type does what it says.

By default the copy gets an environment with the packages of the present one. `make try-readme` sets RFNB_FRESH=1: then it has none,
and `make lab` sets everything up from a package index. Of the commands only `make test` is not run to its end: it takes half an
hour, and this test is a part of it; what it would do is looked at.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from cli.serving import get, serving
from installed.fresh import ROOT, build, clone, environment, run, surroundings

pytestmark = pytest.mark.slow
FRESH = bool(os.environ.get("RFNB_FRESH"))
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
TYPED = [line.partition("#")[0].strip() for kind, text in BLOCKS if kind == "bash" for line in text.splitlines()]
IN_TEXT = re.findall(r"`((?:jupyter nbconvert|rfnb) [^`]+)`", README)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The copy, with an environment in .venv if none is to be made."""
    folder = clone(tmp_path_factory.mktemp("readme") / "rfnb")
    if not FRESH:
        programs = environment(folder / ".venv", build(folder, "wheel", tmp_path_factory.mktemp("wheel")))
        [packages] = (programs.parent / "lib").glob("*/site-packages")
        shutil.rmtree(packages / "rfnb")  # as an editable install: its commands, and the code of the copy
        (packages / "rfnb.pth").write_text(f"{folder}\n")
        # What .ci/setup leaves when it is done.
        key = run("bash", "-c", "cksum pyproject.toml .ci/setup | cksum | tr -d ' \\n'", cwd=folder)
        (folder / ".venv/.setup-lab").write_text(f"{key} cpu\n")
    return folder


def typed(tree: Path, line: str) -> list[str]:
    """A line of the README as words; `rfnb` and `jupyter` are those of the environment that `make lab` has made."""
    program, *words = line.split()
    return [str(tree / ".venv/bin" / program) if program in ("rfnb", "jupyter") else program, *words]


def check_course(address: str) -> None:
    """The table of contents and what it lists is served."""
    page = json.loads(get(f"{address}/api/contents/notebooks/README.md"))["content"]
    assert page == (ROOT / "notebooks/README.md").read_text()
    listed = re.findall(r"\((\w+\.ipynb)\)", page)
    assert "00_tour.ipynb" in listed
    for name in listed:
        assert json.loads(get(f"{address}/api/contents/notebooks/{name}?content=0"))["type"] == "notebook"
    assert "<title>JupyterLab</title>" in get(f"{address}/lab/tree/notebooks/README.md")


def test_make_lab_opens_the_course(tree, tmp_path):
    """First of all: it sets everything up."""
    assert TYPED[0] == "make lab"
    with serving(lambda words: ["make", "lab", f"ARGS={' '.join(words)}"], tree, tmp_path, PYTHONPATH="") as (
        address,
        log,
    ):
        check_course(address)
        assert f"{address}/lab/tree/notebooks/README.md" in log.read_text()


def test_make_test_would_run_every_test(tree):
    assert TYPED[1] == "make test"
    said = run("make", "-n", "test", cwd=tree)
    for part in (
        "ruff check",
        "mypy",
        "not browser and not notebook",
        "npm run",
        " -m notebook",
        " -m browser",
    ):
        assert part in said


@pytest.mark.parametrize("line", [line for line in TYPED if line and not line.startswith("make ")])
def test_each_command_of_the_readme_works(tree, line, tmp_path):
    assert line.startswith("rfnb "), "say here how this is tried"
    if line == "rfnb lab":
        (tmp_path / "home").mkdir()
        start = typed(tree, line)
        with serving(lambda words: [*start, "--", *words], tmp_path, tmp_path / "home", PYTHONPATH="") as (address, _):
            check_course(address)
        return
    printed = run(*typed(tree, line), cwd=tmp_path)
    assert printed
    for page in re.findall(r"\S+\.html", line):
        made = "rfnb-page" if "--runs" in line else "rfnb-frame"
        assert f'class="{made}"' in (tmp_path / page).read_text()


def test_the_python_of_the_readme_says_what_it_says(tree, tmp_path):
    (code,) = [text for kind, text in BLOCKS if kind == "python" and "Dim(" in text]
    shape = re.search(r"# (\[[^\]]+\])", code)[1]
    last = code.strip().splitlines()[-1].partition("#")[0]
    script = code.replace(code.strip().splitlines()[-1], f"print({last.strip()})")
    assert shape in run(tree / ".venv/bin/python", "-c", script, cwd=tmp_path)


@pytest.mark.parametrize("line", [line for line in IN_TEXT if line.startswith("jupyter nbconvert")])
def test_each_conversion_of_the_readme_works(tree, line, tmp_path):
    cell = 'import rfnb as rf\nrf.viz.attention([[0.9, 0.1]], source=["a", "b"], target=["x"])'
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)], metadata=kernel)
    nbformat.write(notebook, tmp_path / "notebook.ipynb")
    env = {"JUPYTER_PATH": str(Path(sys.prefix) / "share/jupyter")} if not FRESH else {}
    done = subprocess.run(
        [*typed(tree, line.replace("jupyter nbconvert", "python -m nbconvert")), "--execute"], cwd=tmp_path,
        env=surroundings(**env, PATH=f"{tree / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "notebook.html").read_text()
    assert 'class="rfnb-output"' in page or 'class="rfnb-frame"' in page


def test_what_to_type_without_make_installs_and_opens_the_course(tree):
    """The same four lines for both kinds of machines, as they name programs there; `test_wheel.py` has such an environment."""
    rows = re.findall(r"^\| [^|]+ \| `([^`]+)` \| `([^`]+)` \|$", README, re.MULTILINE)
    unix, windows = ([row[side] for row in rows] for side in (0, 1))
    assert unix[0] == "python3 -m venv .venv" and windows[0] == "py -m venv .venv" and len(rows) == 4
    assert [line.replace("/bin/", "/") for line in unix[1:]] == [
        line.replace("\\Scripts\\", "/") for line in windows[1:]
    ]
    for line in unix[2:]:
        program, *words = line.split()
        assert "usage: rfnb" in run(tree / program, *words, "--help", cwd=tree)


def test_every_file_that_the_readme_names_is_there(tree):
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", README)]
    assert targets and [target for target in targets if ":" not in target and not (tree / target).exists()] == []
