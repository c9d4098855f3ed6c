"""rfnb lab: a copy of the course that never changes what is there, and JupyterLab on its table of contents."""

from __future__ import annotations

import builtins
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli.command import ROOT, rfnb
from cli.serving import get, serving

from rfnb.cli import course, lab
from rfnb.teaching import threads


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A folder in which the course was copied, and what was said."""
    folder = tmp_path_factory.mktemp("work")
    run = rfnb("lab", "seq2seq", "--teacher", "--copy", cwd=folder)
    assert (run.returncode, run.stderr) == (0, "")
    return folder, run.stdout


def files(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_copy_has_what_the_checkout_has(copied):
    folder, said = copied
    here = files(folder / "seq2seq")
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "notebooks", "docs/*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    wanted = [name for name in tracked.stdout.split("\0") if name]
    assert "notebooks/README.md" in wanted and "notebooks/00_tour.ipynb" in wanted
    assert {name: here.get(name) for name in wanted} == {name: (ROOT / name).read_bytes() for name in wanted}
    assert not [name for name in here if ".ipynb_checkpoints" in name or "__pycache__" in name]
    assert said == f"Copied the course into seq2seq: {len(here)} files. This is your working copy.\n"


def test_what_is_there_is_never_changed(copied, tmp_path):
    folder = tmp_path / "mine"
    shutil.copytree(copied[0] / "seq2seq", folder)
    (folder / "notebooks/00_tour.ipynb").write_text("my answers")
    (folder / "docs/search.md").unlink()
    (folder / "notes.txt").write_text("mine")
    before = files(folder)
    run = rfnb("lab", folder, "--copy", cwd=tmp_path)
    assert run.returncode == 0
    assert run.stdout == (
        f"The course is in {folder} already.\n"
        "1 file was added that was missing.\n"
        "1 file was kept as you have it: notebooks/00_tour.ipynb.\n"
        "For a fresh copy, take another folder: rfnb lab OTHER-FOLDER\n"
    )
    assert files(folder) == {**before, "docs/search.md": (ROOT / "docs/search.md").read_bytes()}


def test_a_second_copy_says_that_all_is_there(copied):
    run = rfnb("lab", "seq2seq", "--copy", cwd=copied[0])
    assert (run.returncode, run.stdout) == (0, "The course is in seq2seq already.\n")


def test_a_link_of_the_user_is_not_followed(tmp_path):
    (tmp_path / "mine/notebooks").mkdir(parents=True)
    (tmp_path / "mine/notebooks/README.md").symlink_to(tmp_path / "elsewhere.md")
    done = course.copy(tmp_path / "mine")
    assert Path("notebooks/README.md") in done.kept and not (tmp_path / "elsewhere.md").exists()


def test_a_copy_that_fails_leaves_no_half_file(tmp_path, monkeypatch):
    def full(path, mode="r", *rest, **options):
        file = builtins_open(path, mode, *rest, **options)
        if mode == "xb":
            file.write(b"half")
            file.flush()

            class Disk:
                def __enter__(self):
                    return self

                def __exit__(self, *ends):
                    file.close()

                def write(self, data):
                    raise OSError(28, "No space left on device", str(path))

            return Disk()
        return file

    builtins_open = builtins.open
    monkeypatch.setattr(builtins, "open", full)
    with pytest.raises(OSError, match="No space left"):
        course.copy(tmp_path / "mine")
    assert files(tmp_path / "mine") == {}


def test_a_folder_that_is_a_file_is_a_sentence(tmp_path):
    (tmp_path / "taken").write_text("a file")
    run = rfnb("lab", "taken", cwd=tmp_path)
    assert (run.returncode, run.stdout, run.stderr) == (1, "", "rfnb lab: taken: File exists.\n")


def test_without_jupyterlab_it_says_so(tmp_path):
    run = rfnb("lab", cwd=tmp_path, hidden=("jupyterlab",))
    assert run.returncode == 1
    assert run.stderr == (
        f"rfnb lab: JupyterLab is not installed here, so {ROOT}/notebooks/README.md cannot be opened.\n"
        "The notebooks also run in Jupyter Notebook 7, VS Code and Colab. To install JupyterLab:\n"
        "    pip install jupyterlab\n"
    )


def test_a_package_without_its_course_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(course, "checkout", lambda: None)
    monkeypatch.setattr(course, "_IN_WHEEL", {"notebooks": tmp_path / "course", "docs": tmp_path / "docs"})
    with pytest.raises(FileNotFoundError) as error:
        course.copy(tmp_path / "mine")
    assert str(error.value) == (
        f"This installation of rfnb lacks the course: there is no {tmp_path}/course.\n"
        "Wheels of rfnb include it. Install one again:\n    pip install --force-reinstall --no-deps rfnb"
    )
    assert not (tmp_path / "mine").exists()


def test_what_stands_behind_two_dashes_goes_to_jupyterlab(tmp_path):
    words = lab.command(tmp_path, ["--port", "9999"])
    assert words[1:3] == ["-m", "jupyterlab"]
    assert words[-2:] == ["--port", "9999"]


def test_settings_of_the_user_come_before_ours(monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "theirs")
    assert lab.surroundings()["JUPYTER_CONFIG_PATH"] == os.pathsep.join(["theirs", str(lab.SETTINGS)])
    monkeypatch.delenv("PYTHONSTARTUP", raising=False)
    assert Path(lab.surroundings()["PYTHONSTARTUP"]).is_file()
    monkeypatch.setenv("PYTHONSTARTUP", "theirs.py")
    assert lab.surroundings()["PYTHONSTARTUP"] == "theirs.py"
    monkeypatch.delenv("JUPYTER_CONFIG_PATH")
    assert lab.surroundings()["JUPYTER_CONFIG_PATH"] == str(lab.SETTINGS)


def test_jupyterlab_serves_the_contents_of_the_copy_with_our_settings(copied, tmp_path):
    folder, _ = copied
    start = [sys.executable, "-m", "rfnb", "lab", "seq2seq", "--"]
    with serving(lambda words: [*start, *words], folder, tmp_path, PYTHONPATH=str(ROOT)) as (
        address,
        log,
    ):
        page = json.loads(get(f"{address}/api/contents/notebooks/README.md"))
        assert page["content"] == (folder / "seq2seq/notebooks/README.md").read_text()
        assert "<title>JupyterLab</title>" in get(f"{address}/lab/tree/notebooks/README.md")
        settings = json.loads(get(f"{address}/lab/api/settings/@jupyterlab/docmanager-extension:plugin"))
        assert settings["schema"]["properties"]["defaultViewers"]["default"] == {"markdown": "Markdown Preview"}
        assert f"{address}/lab/tree/notebooks/README.md" in log.read_text()
        assert "Starting JupyterLab on seq2seq/notebooks/README.md." in log.read_text()


def test_a_student_gets_nothing_to_read_that_answers(tmp_path):
    assert rfnb("lab", "mine", "--copy", cwd=tmp_path).returncode == 0
    there = files(tmp_path / "mine")
    assert "notebooks/checks/07_search.sealed" in there and "notebooks/solutions/07_search.sealed" in there
    assert not [name for name in there if name.startswith("docs/teaching")]
    assert not [name for name in there if name.endswith(".py")]
    again = rfnb("lab", "mine", "--copy", cwd=tmp_path)
    assert again.stdout == "The course is in mine already.\n"


def test_kernels_have_as_many_threads_as_there_is_room_for(monkeypatch):
    for name in threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert lab.surroundings()["OMP_NUM_THREADS"] == str(threads.for_a_kernel())
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert lab.surroundings()["OMP_NUM_THREADS"] == "7"
