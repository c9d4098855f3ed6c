"""Outputs in JupyterLab: a view is there once, and one that is frozen needs no widget when the notebook is opened again."""

from __future__ import annotations

import nbformat
from playwright.sync_api import expect
from waiting import ms

VIEW = "rf.viz.attention([[0.9, 0.1], [0.25, 0.75]], source=['a', 'b'], target=['x', 'y'])"
CELLS = (f"import rfnb as rf\nview = {VIEW}.show()", f"frozen = {VIEW}.show().freeze()")


def test_a_frozen_view_is_alive_without_kernel_and_no_view_is_there_twice(lab):
    name = lab.write("frozen.ipynb", *CELLS)
    lab.open(name)
    lab.run_all()
    lab.wait_cells()
    views = lab.page.locator(".jp-OutputArea .rfnb-root[data-kind=attention]")
    expect(views).to_have_count(2)
    expect(lab.page.locator(".rfnb-picture:visible")).to_have_count(0)
    expect(lab.page.locator(".rfnb-output")).to_have_count(1)  # the other one is a widget
    lab.page.evaluate("async () => { await window.jupyterapp.commands.execute('docmanager:save'); }")
    widget, frozen = (cell.outputs[0].data for cell in nbformat.read(lab.server.root / name, as_version=4).cells)
    assert set(widget) == {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"}
    assert set(frozen) == {"text/html", "text/plain"} and frozen["text/html"] == widget["text/html"]
    lab.shut_down_kernels()
    lab.open(name)
    view = lab.page.locator(".rfnb-output .rfnb-root[data-kind=attention]").last
    expect(view).to_be_visible(timeout=ms(30))
    view.get_by_role("grid").focus()
    for key in ("Home", "ArrowRight", "ArrowDown"):
        lab.page.keyboard.press(key)
    expect(view.locator(".rfnb-readout .rfnb-value")).to_have_text("0.75")


def test_an_untrusted_notebook_shows_pictures(lab):
    name = lab.write("foreign.ipynb", *CELLS)
    lab.open(name)
    lab.run_all()
    lab.wait_cells()
    lab.page.evaluate("async () => { await window.jupyterapp.commands.execute('docmanager:save'); }")
    lab.shut_down_kernels()
    notebook = nbformat.read(lab.server.root / name, as_version=4)
    notebook.cells[0].outputs[0].data.pop("application/vnd.jupyter.widget-view+json")
    notebook.cells.append(nbformat.v4.new_markdown_cell("changed by somebody else: its signature is not ours"))
    notebook.cells[0].source += "\n# changed"
    notebook.cells[0].outputs[0].data["text/plain"] += "."
    nbformat.write(notebook, lab.server.root / "other.ipynb")
    lab.open("other.ipynb")
    expect(lab.page.locator(".rfnb-picture img:visible, .jp-RenderedHTML img:visible").first).to_be_visible(
        timeout=ms(30)
    )
    assert lab.page.locator(".rfnb-output .rfnb-root").count() == 0, "no script runs"
    assert "DecompressionStream" not in lab.page.inner_text(".jp-NotebookPanel")
