"""Every notebook runs top to bottom offline, without an error, and leaves readable static forms of its views."""

from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from notebooks.runner import TOUR_LIMITS, WIDGET, execute, problems

pytestmark = pytest.mark.notebook

ROOT = Path(__file__).parents[2]
# A lesson is run, and asserted on, by its own test in tests/course.
LESSONS = {path.stem.removeprefix("test_") for path in (ROOT / "tests/course").glob("test_[0-9]*.py")}
NOTEBOOKS = sorted(path for path in (ROOT / "notebooks").glob("*.ipynb") if path.stem not in LESSONS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_top_to_bottom(path, tmp_path, monkeypatch):
    monkeypatch.setenv("RFNB_TOUR_LIMITS", TOUR_LIMITS)
    assert problems(execute(path, home=tmp_path)) == []


def test_there_is_a_notebook():
    assert NOTEBOOKS


def write(folder: Path, *cells: str) -> Path:
    path = folder / "small.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells]), path)
    return path


def test_the_runner_reports_a_cell_that_raises(tmp_path):
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        execute(write(tmp_path, "1 / 0"))


def test_the_runner_ends_a_cell_that_takes_too_long(tmp_path):
    with pytest.raises(CellTimeoutError):
        execute(write(tmp_path, "import time; time.sleep(60)"), seconds=1)


def test_the_runner_refuses_the_network(tmp_path):
    with pytest.raises(CellExecutionError, match="notebooks run offline, and this one asks for 192.0.2.1"):
        execute(write(tmp_path, "import urllib.request; urllib.request.urlopen('http://192.0.2.1/x', timeout=3)"))


def test_a_view_without_static_form_is_reported():
    output = nbformat.v4.new_output("display_data", data={WIDGET: {"model_id": "1"}, "text/html": "<p>" + "x" * 30})
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("view", outputs=[output])])
    assert problems(notebook) == ["cell 0: a view without text/plain, so a saved notebook shows nothing there"]
