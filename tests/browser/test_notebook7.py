"""A view in Notebook 7, with real clicks: it has JupyterLab's cells in a page of another layout."""

from __future__ import annotations

import re

import pytest
from browser.holding import SETUP, hold, press, tools
from browser.jupyter import Lab, Server
from browser.what_if import Page, in_notebook_7
from playwright.sync_api import expect
from waiting import LONG

pytest.importorskip("notebook", reason="Notebook 7 is not installed")

CELL = """
import rfnb as rf
rf.viz.attention([[0.9, 0.1], [0.25, 0.75]], source=["a", "b"], target=["x", "y"]).show()
"""


@pytest.fixture(scope="module")
def context(browser):
    """Keeps the compiled code of Notebook 7 for the next page."""
    made = browser.new_context(viewport={"width": 1280, "height": 1000})
    yield made
    made.close()


@pytest.fixture(scope="module")
def server_of_notebook_7(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("notebook7"), app="notebook")
    yield running
    running.stop()


@pytest.fixture
def notebook(context, server_of_notebook_7):
    lab = Lab(context.new_page(), server_of_notebook_7)
    yield lab
    lab.page.close()


def test_a_view_in_notebook_7_is_alive_and_keeps_its_keys(notebook):
    page = notebook.page
    page.goto(f"{notebook.server.url}/notebooks/{notebook.write('view.ipynb', CELL, '1 + 1')}")
    page.locator(".jp-Cell").first.click()
    page.get_by_text("Idle").or_(page.locator('[data-status="idle"]')).first.wait_for(timeout=1000 * LONG)
    page.keyboard.press("Shift+Enter")
    view = page.locator('[data-kind="attention"]')
    expect(view).to_be_visible(timeout=1000 * LONG)
    pane = view.get_by_role("grid")
    box = pane.bounding_box()
    pane.click(position={"x": box["width"] - 20, "y": box["height"] - 20})
    expect(view.locator(".rfnb-readout .rfnb-value")).to_have_text("0.75")
    pane.focus()
    for key in ("x", "d", "d", "ArrowUp"):
        page.keyboard.press(key)
    expect(view.locator(".rfnb-readout .rfnb-value")).to_have_text("0.1")
    assert page.locator(".jp-CodeCell").count() == 2, "letters in a view cut no cell"
    view.get_by_role("button", name="Table").click()
    assert view.locator("td").all_inner_texts() == ["0.9000", "0.1000", "0.2500", "0.7500"]
    # Which settings of Notebook itself are installed is no matter of the view.
    assert [error for error in notebook.errors if "outside" in error or "rfnb" in error] == []


def test_a_run_is_held_by_clicks_in_notebook_7(notebook):
    page = notebook.page
    page.goto(f"{notebook.server.url}/notebooks/{notebook.write('held.ipynb', SETUP)}")
    page.locator(".jp-Cell").first.click()
    page.get_by_text("Idle").or_(page.locator('[data-status="idle"]')).first.wait_for(timeout=1000 * LONG)
    page.keyboard.press("Shift+Enter")
    view = tools(notebook)
    expect(view.locator("[data-do=pause]")).to_be_visible(timeout=1000 * LONG)
    hold(view)
    press(view, "stop")
    expect(view).to_have_attribute("data-state", "stopped")
    assert [error for error in notebook.errors if "outside" in error or "rfnb" in error] == []


def test_what_if_is_answered_in_notebook_7_by_a_rest_a_click_and_a_drag(notebook):
    page = Page(notebook, in_notebook_7)
    page.find(page.tree, "1,cut0", "cursor")
    expect(page.told).to_have_text("With EY at 1: P EY R AH SH UW T, −6.72, 4.95 nats worse.")
    page.click(page.tree, "1,cut0", "cursor")
    expect(page.rail).to_contain_text("EY at 1")
    at = page.press(page.map, "1 5", "row", "col")
    page.drag(at, 0, -120)
    expect(page.map).to_have_attribute("data-dragged", re.compile("With EH: 1 on h: P HH EH R AH CH UW T, .*"))
    page.page.mouse.up()
    expect(page.rail).to_contain_text("EH: 1 on h")  # of the hypothesis that the click has chosen
    assert [error for error in notebook.errors if "outside" in error or "rfnb" in error] == []
