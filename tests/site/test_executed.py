"""A notebook is run once, and anew as soon as something that its run depends on has changed."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from waiting import LONG, wait_until
from warm import warm

from rfnb.site import notebook_runs as module
from rfnb.site.notebook_runs import SiteError, executed, is_kept, key_of

TEXT = "import os, random\nprint(random.random(), os.environ.get('RFNB_LESSON'), os.environ.get('RFNB_OTHER'))"


def write(folder: Path, source: str = TEXT, name: str = "01_small") -> Path:
    path = folder / f"{name}.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source, id="01-a")]), path)
    return path


def printed(notebook) -> str:
    return notebook.cells[0].outputs[0].text


def test_a_notebook_is_run_once_with_the_variables_that_are_asked_for_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setenv("RFNB_OTHER", "here")
    path, cache = write(tmp_path), tmp_path / "cache"
    before = path.read_bytes()
    assert not is_kept(path, cache=cache)
    first = printed(executed(path, cache=cache))
    assert first.endswith(" reveal None\n")
    assert is_kept(path, cache=cache) and printed(executed(path, cache=cache)) == first
    assert path.read_bytes() == before, "the run is written nowhere but into the cache"
    assert [file.suffix for file in cache.iterdir()] == [".ipynb"]


def test_who_wants_a_notebook_that_is_running_waits_for_that_run(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    began, go_on, asked, flock = [], threading.Event(), [], fcntl.flock

    def run(path, env, seconds):
        began.append(path)
        assert go_on.wait(LONG)
        return nbformat.read(path, as_version=4)

    monkeypatch.setattr(module, "_run", run)
    monkeypatch.setattr(fcntl, "flock", lambda *args: asked.append(1) or flock(*args))
    path, cache = write(tmp_path), tmp_path / "cache"
    with ThreadPoolExecutor() as pool:
        first, second = (pool.submit(executed, path, cache=cache) for _ in range(2))
        assert wait_until(lambda: len(asked) == 2 or len(began) == 2)
        go_on.set()
        assert first.result(LONG).cells[0].source == second.result(LONG).cells[0].source == TEXT
    assert began == [path]
    assert [file.suffix for file in cache.iterdir()] == [".ipynb"]


@pytest.mark.parametrize(
    "changed", ["01_small.ipynb", "checks/01_small.py", "solutions/01_small.py", "data/numbers.json", "helping.py"]
)
def test_the_key_changes_with_each_file_that_a_run_depends_on(tmp_path, changed):
    path = write(tmp_path)
    for name in (
        "checks/01_small.py",
        "solutions/01_small.py",
        "data/numbers.json",
        "helping.py",
        "checks/02_other.py",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a = 1\n")
    before = key_of(path)
    (tmp_path / "checks/02_other.py").write_text("a = 2\n")
    assert key_of(path) == before, "checks of another notebook are none of its business"
    (tmp_path / changed).write_text((tmp_path / changed).read_text() + "\n")
    assert key_of(path) != before


def test_the_key_changes_with_the_sources_of_rfnb_and_with_the_environment(tmp_path, monkeypatch):
    path = write(tmp_path)
    package = tmp_path / "package"
    (package / "ops").mkdir(parents=True)
    (package / "ops/math.py").write_text("one = 1\n")
    monkeypatch.setattr(module, "PACKAGE", package)
    keys = []
    for text in ("one = 1\n", "one = 2\n", "one = 1\n"):
        (package / "ops/math.py").write_text(text)
        module._surroundings.cache_clear()
        keys.append(key_of(path))
    assert keys[0] == keys[2] != keys[1]
    assert key_of(path, {"RFNB_LESSON": "ask"}) != keys[0]
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert key_of(path) != keys[0]
    module._surroundings.cache_clear()


def test_a_run_that_fails_is_not_kept(tmp_path):
    path, cache = write(tmp_path, "1 / 0"), tmp_path / "cache"
    with pytest.raises(SiteError, match=r"(?s)^01_small.ipynb does not run through.*ZeroDivisionError"):
        executed(path, cache=cache)
    assert not cache.exists() or not list(cache.iterdir())


def test_a_notebook_that_asks_for_a_network_fails_with_a_sentence(tmp_path):
    path = write(tmp_path, "import urllib.request; urllib.request.urlopen('http://192.0.2.1/x', timeout=3)")
    with pytest.raises(SiteError, match="notebooks run offline, and this one asks for 192.0.2.1"):
        executed(path, cache=tmp_path / "cache")


def test_of_the_runs_of_a_notebook_the_newest_are_kept(tmp_path):
    for number in range(5):
        module._keep("{}", tmp_path / f"01_small-{number:032x}.ipynb", "01_small")
    module._keep("{}", tmp_path / f"01_small-er-{0:032x}.ipynb", "01_small-er")
    kept = sorted(int(file.stem.rpartition("-")[2], 16) for file in tmp_path.glob("01_small-0*"))
    assert len(kept) == 3 and 4 in kept
    assert len(list(tmp_path.glob("01_small-er-*"))) == 1


def test_a_file_that_is_no_notebook_is_named(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("cat\n")
    with pytest.raises(SiteError) as error:
        executed(path, cache=tmp_path / "cache")
    assert str(error.value) == f"{path} is no notebook that Jupyter could open."


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
def test_ctrl_c_ends_the_run_without_a_word_and_keeps_nothing(tmp_path):
    began = tmp_path / "began"
    path = write(tmp_path, f"import pathlib, threading\npathlib.Path({str(began)!r}).touch()\nthreading.Event().wait()")
    run = subprocess.Popen(
        [*warm(), "-m", "rfnb", "slides", path.name], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )  # fmt: skip
    wait_until(lambda: began.exists() or run.poll() is not None)
    run.send_signal(signal.SIGINT)
    said = run.communicate(timeout=LONG)[1]
    assert (run.returncode, said) == (130, "")
    assert not list(tmp_path.rglob("*.html")) and not list((tmp_path / "cache").rglob("*.ipynb"))
