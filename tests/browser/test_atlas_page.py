"""The atlas in a real JupyterLab: it fills, a cell becomes a branch by a click or Enter, and none is computed while no page shows it."""

from __future__ import annotations

import json

import pytest
from browser.what_if import click, find
from playwright.sync_api import expect
from waiting import wait_until

MADE = """
import rfnb as rf
from rfnb.models import load_g2p, pronounce
model = load_g2p()
run = rf.run(pronounce, model, "ox", beam_size=3, record={"model": model}, name="ox")
atlas = rf.atlas(run)
atlas
"""
TOLD = """
import json
print(json.dumps({"going": atlas.going, "left": atlas.num_left, "branches": [one.name for one in run.branches]}))
"""
AGAIN = "rf.show(atlas)"
LARGE = MADE.replace("rf.atlas(run)", 'rf.atlas(run, "unit", path="decoder.h", columns=range(256))')


@pytest.fixture
def told(lab):
    def run(cell):
        outputs = lab.run_cell(cell)
        return json.loads(outputs[0]["text"]) if outputs and "text" in outputs[0] else None

    return run


def opened(lab, *cells, maps=2):
    lab.open(lab.write("atlas.ipynb", *cells))
    lab.start("notebook:run-cell-and-select-next")
    found = lab.page.locator('.rfnb-root.rfnb-part[data-kind="attention"]')
    expect(found).to_have_count(maps)
    return found.first, found.last


def test_it_fills_and_a_cell_becomes_a_branch_by_mouse_and_by_key(lab, told):
    looks, matters = opened(lab, MADE, TOLD)
    expect(matters).to_have_attribute("data-live", "false")  # all cells are there
    find(matters, "0 0", "row", "col")
    expect(matters.locator(".rfnb-readout")).to_contain_text("AA")
    expect(looks).to_have_attribute("data-linked", "0")  # the same step, where it looks
    rail = lab.page.locator(".rfnb-rail").first
    click(matters, "0 0", "row", "col")
    expect(rail).to_contain_text("o hidden at 0")
    pane = matters.locator(".rfnb-pane")
    pane.focus()
    pane.press("ArrowRight")
    pane.press("Enter")
    expect(rail).to_contain_text("x hidden at 0")
    click(matters, "0 0", "row", "col")  # it is there: it is shown
    expect(lab.page.locator('.rfnb-rail-row[aria-selected="true"]')).to_contain_text("o hidden at 0")
    found = told(1)
    assert found["branches"] == ["o hidden at 0", "x hidden at 0"] and found["left"] == 0
    assert not lab.errors


def test_it_stops_when_closed_and_goes_on_when_opened(lab, told):
    opened(lab, LARGE, TOLD, AGAIN, maps=1)  # beside the state that the units are of
    lab.page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0; }")
    lab.start("notebook:clear-cell-output")
    wait_until(lambda: not told(1)["going"])
    left = told(1)["left"]
    assert left > 0 and told(1)["left"] == left
    told(2)
    wait_until(lambda: told(1)["left"] < left)
    assert told(1)["going"]
