"""Executes a notebook top to bottom in a fresh kernel without network, and checks what every notebook has to keep to."""

from __future__ import annotations

import os
import re
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from waiting import SLOWNESS

from rfnb.site.notebook_runs import FOR_A_PAGE, OFFLINE

WIDGET = "application/vnd.jupyter.widget-view+json"

# Of the training in the tour, for tests: not three minutes, but a number of steps, however long they take.
TOUR_LIMITS = FOR_A_PAGE["RFNB_TOUR_LIMITS"]


def execute(
    path: Path, *, seconds: float = 300, home: Path | None = None, first: str = "", last: str = ""
) -> nbformat.NotebookNode:
    """The notebook as it is after a run; nothing is written back.

    Args:
        seconds: Limit of one cell, times RFNB_TEST_SLOWNESS.
        home: A private home folder for the kernel.
        first: Code that runs before the notebook.
        last: Code of a cell after its last one.

    Raises:
        CellExecutionError: A cell raised. CellTimeoutError: A cell took longer than its limit.
    """
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(OFFLINE + first))
    if last:
        notebook.cells.append(nbformat.v4.new_code_cell(last))
    env = dict(os.environ, OMP_NUM_THREADS=os.environ.get("OMP_NUM_THREADS", "2"))
    if home is not None:
        env.update(HOME=str(home), IPYTHONDIR=str(home / "ipython"), MPLCONFIGDIR=str(home / "matplotlib"))
    client = NotebookClient(
        notebook, timeout=int(seconds * SLOWNESS), resources={"metadata": {"path": str(path.parent)}}
    )
    client.execute(env=env)
    del notebook.cells[0]
    return notebook


def outputs(notebook: nbformat.NotebookNode) -> list[tuple[int, nbformat.NotebookNode]]:
    """All outputs as (number of the cell from 0, output)."""
    return [(i, output) for i, cell in enumerate(notebook.cells) if cell.cell_type == "code" for output in cell.outputs]


def problems(notebook: nbformat.NotebookNode) -> list[str]:
    """The problems of an executed notebook, one line each: errors, empty or missing static forms of the views."""
    found = []
    for number, output in outputs(notebook):
        if output.output_type == "error":
            found.append(f"cell {number}: {output.ename}: {output.evalue}")
        elif output.output_type == "stream" and output.name == "stderr" and "Traceback" in output.text:
            found.append(f"cell {number}: a traceback on stderr")
        data = output.get("data", {})
        is_bar = (
            re.match(r".*\d+%\|.*\|", data.get("text/plain", "")) is not None
        )  # of tqdm: a saved notebook has its text
        if WIDGET in data and not is_bar:
            for kind in ("text/html", "text/plain"):
                if len(data.get(kind, "").strip()) < 20:
                    found.append(f"cell {number}: a view without {kind}, so a saved notebook shows nothing there")
            html = data.get("text/html", "")
            static = html.split("<script")[0]  # of dims it is a table
            if static != html and ('class="rfnb-output"' not in html or not ("<img" in static or "<table" in static)):
                found.append(f"cell {number}: a script without a picture before it; many viewers run none")
            if "http://" in data.get("text/html", "").replace("http://www.w3.org/", "") or "https://" in data.get(
                "text/html", ""
            ):
                found.append(f"cell {number}: the static form asks for something from a network")
    return found
