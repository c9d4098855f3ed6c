"""Maps that are too many for the page, also whole: what the page has is about right, what it says is exact, while a cell runs, too."""

from __future__ import annotations

import numpy as np
from playwright.sync_api import expect
from waiting import ms

CELL = """
import numpy as np, threading, pathlib, rfnb as rf
energies = np.exp(3 * np.random.default_rng(0).standard_normal((160, 96, 80), dtype=np.float32))
weights = energies / energies.sum(-1, keepdims=True)
view = rf.viz.attention(weights).show()
"""
# Ends when the test writes a file: nothing here depends on how fast the machine is.
BUSY = """
import time
while not pathlib.Path("go_on").exists():
    time.sleep(0.05)
"""


def expected(row: int, col: int) -> str:
    energies = np.exp(3 * np.random.default_rng(0).standard_normal((160, 96, 80), dtype=np.float32))
    value = (energies / energies.sum(-1, keepdims=True))[0, row, col]
    return np.format_float_positional(value, unique=True, trim="-")


def test_a_large_map_says_exact_values_also_while_its_cell_runs(lab):
    lab.open(lab.write("large.ipynb", CELL + BUSY))
    lab.run_all()
    view = lab.page.locator('[data-kind="attention"]')
    expect(view).to_be_visible(timeout=ms(60))
    expect(view.locator(".rfnb-thinned")).to_contain_text("rounded to one byte")
    assert lab.cells()[0]["count"] is None, "the cell still runs"
    view.locator(".rfnb-pane").focus()
    for key in ("Home", "ArrowDown", "ArrowDown", "ArrowRight"):
        lab.page.keyboard.press(key)
    expect(view.locator(".rfnb-readout .rfnb-value")).to_have_text(expected(2, 1))
    assert lab.cells()[0]["count"] is None
    (lab.server.root / "go_on").touch()
    lab.wait_cells()
    lab.page.keyboard.press("ArrowDown")
    expect(view.locator(".rfnb-readout .rfnb-value")).to_have_text(expected(3, 1))
    lab.shut_down_kernels()
    lab.page.keyboard.press("ArrowDown")
    expect(view.locator(".rfnb-readout .rfnb-value")).to_contain_text("about ")
    lab.page.keyboard.press("ArrowUp")
    expect(view.locator(".rfnb-readout .rfnb-value")).to_have_text(expected(3, 1))
    assert [error for error in lab.errors if "kernel" not in error.lower()] == []
