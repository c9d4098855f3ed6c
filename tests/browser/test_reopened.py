"""A notebook that its author opens again the next day: trusted, with a new kernel that knows no widget."""

from __future__ import annotations

from playwright.sync_api import expect
from waiting import ms

CELL = """
import rfnb as rf
view = rf.viz.attention([[0.9, 0.1], [0.25, 0.75]], source=["a", "b"], target=["x", "y"]).show()
"""


def test_the_views_of_a_notebook_opened_again_are_alive(lab):
    name = lab.write("again.ipynb", CELL)
    lab.open(name)
    lab.run_all()
    lab.wait_cells()
    view = lab.page.locator('[data-kind="attention"]')
    expect(view).to_be_visible()
    lab.page.evaluate("async () => { await window.jupyterapp.commands.execute('docmanager:save'); }")
    lab.shut_down_kernels()
    lab.open(name)
    expect(view).to_be_visible(timeout=ms(30))
    view.get_by_role("grid").focus()
    lab.page.keyboard.press("Home")
    lab.page.keyboard.press("ArrowRight")
    lab.page.keyboard.press("ArrowDown")
    expect(view.locator(".rfnb-readout .rfnb-value")).to_have_text("0.75")
    assert lab.page.get_by_text("Error displaying widget").count() == 0
    icon = view.evaluate("view => getComputedStyle(view.parentElement, '::before').content")
    assert icon in ("none", "normal"), "no sign of a broken link beside a view that needs no kernel"
