"""A wheel made of an sdist, without Node.js, and installed in an environment of its own: what a user gets."""

from __future__ import annotations

import json
import subprocess
import tarfile
import zipfile

import pytest
from cli.serving import get, serving
from installed.fresh import ROOT, build, clone, environment, run, surroundings

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """An sdist of the checkout, and the wheel of what it unpacks to."""
    folder = tmp_path_factory.mktemp("built")
    sdist = build(clone(folder / "clone"), "sdist", folder / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
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


def test_the_sdist_has_what_the_wheel_and_the_tests_are_made_of(built):
    with tarfile.open(built[0]) as archive:
        there = {name.partition("/")[2] for name in archive.getnames()}
    wanted = tracked("rfnb", "notebooks", "tests", "bench", "docs", "widgets/src", "Makefile", ".ci", "binder")
    assert (
        wanted <= there
        and {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "widgets/hatch_build.py"} <= there
    )


def test_it_is_imported_from_the_environment_and_not_from_the_checkout(programs, tmp_path):
    printed = run(programs / "python", "-c", "import rfnb; print(rfnb.__file__)", cwd=tmp_path)
    assert printed.startswith(str(programs.parent))


def test_the_command_pronounces_a_word_and_saves_a_page(programs, tmp_path):
    printed = run(programs / "rfnb", "g2p", "cat", "--best", 1, "--view", "page.html", cwd=tmp_path)
    assert printed.split()[0] == "cat" and printed.split()[2:] == ["K", "AE", "T"]
    assert 'class="rfnb-frame"' in (tmp_path / "page.html").read_text()


def test_the_doctor_has_nothing_to_mend(programs, tmp_path):
    printed = run(programs / "rfnb", "doctor", cwd=tmp_path)
    assert printed.endswith("All that rfnb needs is there.\n")
    assert f"course        {programs.parent}" in printed


def test_a_lesson_finds_its_checks_in_the_package(programs, tmp_path):
    lessons = sorted(path.stem for path in (ROOT / "notebooks/checks").glob("*.py"))
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


def test_the_pages_of_the_course_are_made_from_the_package(programs, tmp_path):
    for package in ("sphinx", "myst_nb", "furo"):
        pytest.importorskip(package)
    printed = run(programs / "rfnb", "site", "-o", "pages", "--quick", cwd=tmp_path)
    assert printed.endswith(f"Open {tmp_path}/pages/index.html in a browser.\n")
    lessons = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert lessons <= {path.stem for path in (tmp_path / "pages/notebooks").glob("*.html")}
