"""Notebooks as pages, opened without network: every view is alive; without scripts it is a picture. Those of the tour: `test_tour.py`."""

from __future__ import annotations

import subprocess
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from notebooks.runner import execute
from waiting import LONG
from warm import warm

ROOT = Path(__file__).parents[2]
SMALL = """
import rfnb as rf
rf.viz.attention([[0.9, 0.1], [0.25, 0.75]], source=["a", "</script>"], target=["x", "y"]).show()
rf.viz.states({"h": [[0.5, -0.25], [1.0, 0.0]]}, steps=["x", "y"]).show();
"""
TO_HTML = ["html", "rfnb.viz.page.exporter.PageExporter"]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A notebook as `jupyter execute` leaves it: with the state of its widgets in it."""
    folder = tmp_path_factory.mktemp("small")
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(SMALL)]), folder / "small.ipynb")
    return execute(folder / "small.ipynb", home=folder)


def converted(notebook, folder: Path, to: str) -> Path:
    nbformat.write(notebook, folder / "page.ipynb")
    command = [*warm(), "-m", "nbconvert", "--to", to, "--output", "page.html", "page.ipynb"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=LONG)
    return folder / "page.html"


def opened(browser, path: Path, **options):
    """The page without network, and its errors."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    local = ("file:", "data:", "blob:")
    page.route("**/*", lambda route: route.continue_() if route.request.url.startswith(local) else route.abort())
    page.goto(path.as_uri(), wait_until="load")
    return page, errors


def without_state(notebook):
    """As JupyterLab saves it by default."""
    notebook = deepcopy(notebook)
    notebook.metadata.pop("widgets", None)
    return notebook


def alive_in(notebook) -> int:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return sum('class="rfnb-frame"' in output.get("data", {}).get("text/html", "") for output in outputs)


def check_alive(page, errors, count: int) -> None:
    page.wait_for_function(f"document.querySelectorAll('.rfnb-output > div > .rfnb-root').length === {count}")
    assert page.locator(".rfnb-output .rfnb-picture").count() == 0, "no picture beside its view"
    assert page.locator("[role=alert]:visible").count() == 0
    for root in page.locator(".rfnb-output > div > .rfnb-root").all():
        assert root.is_visible() and root.get_attribute("data-kind")
    # require.js and MathJax of the template come from the network, views from nowhere.
    assert [error for error in errors if "require" not in error and "MathJax" not in error] == []


@pytest.mark.parametrize("to", TO_HTML)
def test_a_converted_notebook_is_alive_without_network(browser, tmp_path, small, to):
    saved_state = to != "html"
    page, errors = opened(browser, converted(small if saved_state else without_state(small), tmp_path, to))
    check_alive(page, errors, 2)
    attention, states = (page.locator(f'[data-kind="{kind}"]') for kind in ("attention", "states"))
    attention.get_by_role("grid").first.focus()
    for key in ("Home", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert attention.locator(".rfnb-readout .rfnb-value").inner_text() == "0.75"
    assert states.get_attribute("data-linked") == "1", "all outputs of a page share one selection"
    assert page.locator("style.rfnb-style").count() == 1
    page.context.close()


def test_a_converted_notebook_has_pictures_where_no_script_runs(browser, tmp_path, small):
    page, _ = opened(browser, converted(without_state(small), tmp_path, "html"), java_script_enabled=False)
    pictures = page.locator(".rfnb-output .rfnb-picture img")
    assert pictures.count() == 2 and all(picture.is_visible() for picture in pictures.all())
    sizes = [picture.bounding_box() for picture in pictures.all()]
    assert all(size["width"] > 100 and size["height"] > 50 for size in sizes)
    assert "rfnb-root" not in page.inner_text("body") and len(page.inner_text("body")) < 3000, (
        "no script is read as text"
    )
    page.context.close()


def test_plain_conversion_in_the_environment_of_make_setup_takes_the_html_beside_saved_widgets(
    browser, tmp_path, small, monkeypatch
):
    assert "widgets" in small.metadata
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(ROOT / "rfnb/cli/jupyter"))
    page, errors = opened(browser, converted(small, tmp_path, "html"))
    check_alive(page, errors, 2)
    page.context.close()
