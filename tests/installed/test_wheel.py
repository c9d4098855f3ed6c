"""A wheel made of an sdist, without Node.js, and installed in an environment of its own: what a user gets."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import nbformat
import pytest
from cli.serving import get, serving
from installed.fresh import ROOT, build, clone, environment, run, surroundings

import rfnb

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """An sdist of the checkout, and the wheel of what it unpacks to."""
    folder = tmp_path_factory.mktemp("built")
    sdist = build(clone(folder / "clone"), "sdist", folder / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    [tree] = (folder / "unpacked").iterdir()
    return sdist, build(tree, "wheel", folder / "wheel")


@pytest.fixture(scope="module")
def programs(built, tmp_path_factory):
    """The folder of programs of an environment that has the wheel."""
    return environment(tmp_path_factory.mktemp("environment"), built[1])


def tracked(*folders: str) -> set[str]:
    """The files that git tracks there."""
    listed = subprocess.run(["git", "ls-files", "-z", *folders], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}


def test_the_wheel_has_the_package_the_course_and_the_guides(built):
    with zipfile.ZipFile(built[1]) as wheel:
        there = {name for name in wheel.namelist() if not name.partition("/")[0].endswith(".dist-info")}
    package = tracked("rfnb")
    course = {"rfnb/course/" + name.removeprefix("notebooks/") for name in tracked("notebooks")}
    guides = {"rfnb/" + name for name in tracked("docs") if name.endswith(".md")}
    assert {"rfnb/course/00_tour.ipynb", "rfnb/docs/search.md", "rfnb/viz/static/rfnb.js"} <= there
    assert there == package | course | guides
    with zipfile.ZipFile(built[1]) as wheel:
        [metadata] = [wheel.read(name).decode() for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        licences = [Path(name).name for name in wheel.namelist() if ".dist-info/licenses/" in name]
    assert sorted(licences) == ["LICENSE", "LICENSES.md"]
    assert f"\nVersion: {rfnb.__version__}\n" in metadata and "Programming Language :: Python :: 3.13" in metadata


def test_the_sdist_has_what_the_wheel_and_the_tests_are_made_of(built):
    with tarfile.open(built[0]) as archive:
        there = {name.partition("/")[2] for name in archive.getnames()}
    wanted = tracked("rfnb", "notebooks", "tests", "bench", "docs", "widgets/src", "Makefile", ".ci", "binder")
    assert (
        wanted <= there
        and {"README.md", "LICENSE", "LICENSES.md", "CHANGELOG.md", "pyproject.toml", "widgets/hatch_build.py"} <= there
    )


def test_the_three_lines_of_the_readme_draw_a_picture_in_a_notebook(programs, tmp_path):
    """As in a hosted notebook behind `%pip install rfnb`; and it is imported from the environment, not from the checkout."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    (lines,) = [block for block in blocks if "load_g2p" in block]
    assert sum(map(bool, lines.splitlines())) == 3
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    cells = [nbformat.v4.new_code_cell(code) for code in (lines, "print(rf.__file__)")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), tmp_path / "hosted.ipynb")
    kernels = {"JUPYTER_PATH": str(Path(sys.prefix) / "share/jupyter"), "PYTHONPATH": ""}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    convert = [
        programs / "python",
        "-m",
        "nbconvert",
        "--to",
        "notebook",
        "--execute",
        "--output",
        "ran.ipynb",
        "hosted.ipynb",
    ]
    run(*convert, cwd=tmp_path, PATH=path, **kernels)
    first, second = nbformat.read(tmp_path / "ran.ipynb", as_version=4).cells
    shown = [each.data for each in first.outputs if "data" in each]
    assert any(
        "application/vnd.jupyter.widget-view+json" in each and "<img alt=" in each.get("text/html", "")
        for each in shown
    )
    assert second.outputs[0].text.startswith(str(programs.parent))


def test_the_command_pronounces_a_word_and_saves_a_page(programs, tmp_path):
    printed = run(programs / "rfnb", "g2p", "cat", "--best", 1, "--view", "page.html", cwd=tmp_path)
    assert printed.split()[0] == "cat" and printed.split()[2:] == ["K", "AE", "T"]
    assert 'class="rfnb-frame"' in (tmp_path / "page.html").read_text()


def test_the_doctor_has_nothing_to_mend(programs, tmp_path):
    printed = run(programs / "rfnb", "doctor", cwd=tmp_path)
    assert printed.endswith("Everything that rfnb needs is installed.\n")
    assert f"course        {programs.parent}" in printed


def test_a_lesson_finds_its_checks_in_the_package(programs, tmp_path):
    lessons = sorted(path.stem for path in (ROOT / "notebooks/solutions").glob("*.py"))
    code = f"import rfnb as rf\nfor name in {lessons!r}: print(rf.lesson(name).check is not None, name)"
    printed = run(programs / "python", "-c", code, cwd=tmp_path)
    assert printed.splitlines() == [f"True {name}" for name in lessons]


def test_the_course_is_copied_and_opened_in_jupyterlab(programs, tmp_path):
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    env = surroundings()
    env["PYTHONPATH"] = ""
    start = [str(programs / "rfnb"), "lab", "--"]
    with serving(lambda words: [*start, *words], work, home, **env) as (address, log):
        assert log.read_text().startswith("Copied the course into rfnb-course: ")
        page = json.loads(get(f"{address}/api/contents/notebooks/README.md"))
        assert page["content"] == (ROOT / "notebooks/README.md").read_text()
        tour = json.loads(get(f"{address}/api/contents/notebooks/00_tour.ipynb"))
        assert tour["content"]["cells"] and f"{address}/lab/tree/notebooks/README.md" in log.read_text()
        listed = json.loads(get(f"{address}/api/kernelspecs"))
        assert "python3" in listed["kernelspecs"]


# The sources of all pages, and the pages of one lesson: tests/browser/test_site.py has the site as a whole.
FEW_PAGES = """
from pathlib import Path
import nbformat
from rfnb.site.build import _sphinx
from rfnb.site.source_tree import SiteTree, root

tree = Path("tree")
tree.mkdir()
SiteTree(root(Path("course")), tree, lambda path: nbformat.read(path, as_version=4)).make()
print(*sorted(path.stem for path in tree.glob("notebooks/*.ipynb")))
for path in tree.rglob("*"):
    if path.suffix in (".md", ".ipynb") and path.stem not in ("index", "01_dims"):
        path.unlink()
_sphinx(Path())
"""


def test_the_pages_of_the_course_are_made_from_the_package(programs, tmp_path):
    for package in ("sphinx", "myst_nb", "furo"):
        pytest.importorskip(package)
    printed = run(programs / "python", "-c", FEW_PAGES, cwd=tmp_path)
    assert printed.split() == sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
    page = (tmp_path / "html/notebooks/01_dims.html").read_text(encoding="utf-8")
    assert "site.css" in page and "rfnb-about" in page
    assert (tmp_path / "html/_static/site.css").is_file()
