"""The runner of notebooks finds what it has to. Each notebook has a test of its own that runs it (tests/contracts/test_course.py)."""

from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from notebooks.runner import WIDGET, execute, problems

pytestmark = pytest.mark.notebook


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
