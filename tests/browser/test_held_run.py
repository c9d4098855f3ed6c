"""A run is held by real clicks in JupyterLab, whatever the cells of the notebook do meanwhile."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from browser.holding import SETUP, at, hold, press, tools
from playwright.sync_api import expect
from waiting import ms

BUSY = """
import time as clock
from pathlib import Path
while not Path("stop").exists():
    clock.sleep(0.05)
"""
POLLED = "run.wait(poll=True)"
CELLS = {"a cell that has returned": [SETUP], "await run": [SETUP, "await run"], "another cell is busy": [SETUP, BUSY]}

# Pythons with other versions of ipykernel: paths, separated by ":".
KERNELS = [path for path in os.environ.get("RFNB_KERNELS", "").split(":") if path]


@pytest.fixture
def opened(lab):
    """Opens a notebook with cells, and runs them until the run can be held."""

    def open_(cells, button="pause", kernel="python3", subshells=True):
        lab.open(lab.write("held.ipynb", *cells, kernel=kernel))
        if not subshells:
            lab.page.evaluate("() => { window.jupyterapp.serviceManager.kernels.commsOverSubshells = 'disabled'; }")
        lab.run_all()
        view = tools(lab)
        expect(view.locator(f"[data-do={button}]")).to_be_visible(timeout=ms(60))
        return view

    yield open_
    (lab.server.root / "stop").touch()


@pytest.mark.parametrize("cells", CELLS)
def test_clicks_hold_a_run(lab, opened, cells):
    view = opened(CELLS[cells])
    hold(view)
    if cells != "a cell that has returned":
        assert lab.cells()[1]["state"] == "running"
    press(view, "stop")
    expect(view).to_have_attribute("data-state", "stopped")
    expect(view.locator(".rfnb-run-words")).to_contain_text("without a result")
    assert lab.errors == []


def test_a_page_that_a_cell_holds_up_follows_the_run_and_is_heard_later(lab, own_page, opened):
    """As in VS Code, and in JupyterLab until it has a subshell for what pages say."""
    view = opened(CELLS["another cell is busy"], subshells=False)
    expect(view).to_contain_text("a cell is running")
    step = at(view)
    lab.page.wait_for_function(
        "step => Number(document.querySelector('[data-kind=control]').dataset.at) > step + 50", arg=step
    )
    press(view, "pause")
    expect(view).to_have_attribute("data-state", "running")
    (lab.server.root / "stop").touch()
    expect(view).to_have_attribute("data-state", "paused")
    expect(view).not_to_contain_text("a cell is running")


@pytest.mark.skipif(not KERNELS, reason="RFNB_KERNELS has no Pythons with other versions of ipykernel")
@pytest.mark.parametrize("python", KERNELS, ids=lambda path: Path(path).parents[1].name)
@pytest.mark.parametrize("cells", CELLS)
def test_clicks_hold_a_run_in_other_kernels(lab, opened, cells, python):
    folder = lab.server.root.parent / "data/kernels/other"
    folder.mkdir(parents=True, exist_ok=True)
    argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (folder / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Other", "language": "python"}))
    cells = CELLS[cells]
    if "k6" in python:  # it hears nothing while a cell runs, unless the cell lets it
        cells = [SETUP, POLLED] if len(cells) > 1 else cells
    view = opened(cells, kernel="other")
    hold(view)
    press(view, "stop")
    expect(view).to_have_attribute("data-state", "stopped")


def test_a_run_is_the_same_in_a_page_that_is_opened_again_and_in_a_second_one(lab, own_page, opened):
    view = opened([SETUP])
    lab.wait_cells()
    lab.start("docmanager:save")
    press(view, "pause")
    expect(view).to_have_attribute("data-state", "paused")
    step = at(view)
    lab.page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    second = lab.page.context.new_page()
    second.goto(lab.page.url.replace("/workspaces/t", "/workspaces/second"), wait_until="domcontentloaded")
    other = second.locator('[data-kind="control"]').first
    expect(other).to_have_attribute("data-at", str(step), timeout=ms(60))
    press(other, "step")
    for each in (view, other):  # two pages on one run
        expect(each).to_have_attribute("data-at", str(step + 1))
    press(other, "resume")
    expect(view).to_have_attribute("data-state", "running")
    second.close()
    lab.page.reload(wait_until="domcontentloaded")  # closed and opened while it runs
    expect(view).to_have_attribute("data-state", "running", timeout=ms(60))
    hold(view)


def test_a_page_says_that_the_kernel_has_gone(lab, opened):
    view = opened([SETUP])
    lab.wait_cells()
    lab.page.evaluate("() => void window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    expect(view).to_contain_text("The kernel has stopped, and the run with it.")
    expect(view.locator("[data-do=pause]")).to_be_hidden()


def test_a_saved_notebook_says_what_the_run_came_to_without_buttons(lab, opened):
    view = opened(
        ["import rfnb as rf\nrun = rf.run(lambda: [rf.gate(step) for step in range(14)], name='short')\nrun"], "branch"
    )
    lab.wait_cells()
    expect(view).to_have_attribute("data-state", "done")
    (output,) = lab.cells()[0]["outputs"]
    html, text = ("".join(output["data"][f"text/{kind}"]) for kind in ("html", "plain"))
    assert "Done after 14 steps." in text and "Done after 14 steps." in html and "<button" not in html


def test_keys_hold_a_run_and_an_error_is_said_where_it_was_raised(lab, opened):
    view = opened([
        "import rfnb as rf\ndef fails():\n    for step in range(5):\n        rf.gate(step)\n        1 / (3 - step)\n"
        'run = rf.run(fails, paused=True, name="fails")\nrun',
    ])  # fmt: skip
    view.locator("[data-do=step]").focus()
    for step in (1, 2):
        lab.page.keyboard.press("s")
        expect(view).to_have_attribute("data-at", str(step))
    view.evaluate("view => { view.dataset.old = true; }")
    lab.page.keyboard.press("r")
    expect(
        lab.page.locator('[data-kind="control"]:not([data-old])')
    ).to_be_visible()  # the output was replaced by its end
    expect(view).to_have_attribute("data-state", "failed")
    words = view.locator(".rfnb-run-words")
    expect(words).to_contain_text('Failed in step 3 of "loop": ZeroDivisionError: division by zero')
    expect(words).to_contain_text("in fails, line 5: 1 / (3 - step)")
    lab.page.wait_for_function("() => document.activeElement.dataset.do === 'step'")
    press(view, "branch")  # from the step where it is
    expect(words).to_contain_text('Paused before step 3 of "loop": here it branches from fails.')
    assert view.locator(".rfnb-rail-row").count() == 2


def test_breakpoints_are_set_and_removed_in_the_page(lab, opened):
    view = opened(
        [SETUP.replace('run = rf.run(decay, name="decay",', 'run = rf.run(decay, name="decay", paused=True,')]
    )
    when = view.get_by_label("pause when")
    for text in ("5", "h.nothing > 1 >", "h.abs_max() > 1000"):
        when.fill(text)
        when.press("Enter")
        if ">" not in text:
            expect(view.locator("[data-point]")).to_have_count(1)
    expect(view.locator("[data-point]")).to_have_count(2)
    expect(view.locator(".rfnb-run-said")).to_be_hidden()
    press(view, "resume")
    expect(view.locator(".rfnb-run-words")).to_contain_text("breakpoint step 5")
    expect(view.locator("[data-point='1']")).to_contain_text("hit once")
    view.get_by_role("button", name="Remove step 5").click()
    expect(view.locator("[data-point]")).to_have_count(1)
