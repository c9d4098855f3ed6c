"""A view shows what was computed, while the cell still runs; it answers to the pointer and to the keyboard."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from waiting import ms

# A search of three hypotheses that grows until the test says stop: token t of step s is number 10 * s + t, its score -(s + t / 10).
GROWING = (
    """
import time
import numpy as np
from pathlib import Path
from rfnb.viz.beams.spec import spec as beams_spec
from rfnb.viz.view import View
def step(s):
    fields = {"tokens": [[10 * s, 10 * s + 1, 10 * s + 2]], "parents": [[0, 1, 2] if s else [0, 0, 0]],
            "scores": [[-s - 0.1, -s - 0.2, -s - 0.3]], "ended": [[False] * 3]}
    return {name: np.array(value) for name, value in fields.items()}
STEPS = [step(0)]
view = View(beams_spec(STEPS, live=True)).show()
""",
    """
while not Path("stop").exists() and len(STEPS) < 2000:
    STEPS.append(step(len(STEPS)))
    view.update(beams_spec(STEPS[:40], live=True))
    time.sleep(0.05)
STEPS = [step(s) for s in range(6)]
view.update(beams_spec(STEPS, live=False))
""",
)


@pytest.fixture
def growing(lab):
    """The view in a page whose second cell is running."""
    lab.open(lab.write("growing.ipynb", *GROWING))
    lab.run_all()
    view = lab.page.locator('.rfnb-root[data-kind="beams"]')
    expect(view).to_have_attribute("data-live", "true", timeout=ms(60))
    return view


def test_a_view_advances_while_its_cell_runs(lab, growing):
    expect(growing).to_have_attribute("data-step", re.compile(r"^([3-9]|\d\d)$"), timeout=ms(60))
    assert lab.cells()[1]["state"] == "running"
    (lab.server.root / "stop").touch()
    lab.wait_cells()
    expect(growing).to_have_attribute("data-live", "false")
    expect(growing).to_have_attribute("data-step", "5")
    assert lab.errors == []


def test_keyboard_and_pointer_read_what_was_computed(lab, growing):
    (lab.server.root / "stop").touch()
    lab.wait_cells()
    expect(growing).to_have_attribute("data-live", "false")
    readout = growing.locator(".rfnb-beams-readout")
    growing.locator("[role=application]").focus()
    lab.page.keyboard.press("ArrowLeft")
    expect(growing).to_have_attribute("data-cursor", "4,0")
    expect(readout).to_contain_text("step 4, slot 0: 0 10 20 30 40. Score −4.100, token 40 −1.000.")
    lab.page.keyboard.press("ArrowDown")
    expect(growing).to_have_attribute("data-cursor", "4,1")
    expect(readout).to_contain_text("step 4, slot 1: 1 11 21 31 41. Score −4.200, token 41 −1.000.")
    lab.page.keyboard.press("Escape")

    canvas = growing.locator("canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    said = set()
    for x in range(5, int(box["width"]), 15):
        for y in range(5, int(box["height"]), 15):
            lab.page.mouse.move(box["x"] + x, box["y"] + y)
            said.add((growing.get_attribute("data-cursor"), readout.text_content()))
    hovered = {cursor: text for cursor, text in said if re.fullmatch(r"\d,\d", cursor or "")}
    assert len(hovered) >= 12, hovered
    for cursor, text in hovered.items():
        step, slot = map(int, cursor.split(","))
        path = " ".join(str(10 * s + slot) for s in range(step + 1))
        assert f"step {step}, slot {slot}: {path}. Score −{step + (slot + 1) / 10:.3f}," in text
    assert lab.errors == []


def test_the_canvas_is_drawn(lab, growing):
    (lab.server.root / "stop").touch()
    lab.wait_cells()
    lab.page.wait_for_function("""() => {
        const c = document.querySelector('.rfnb-root canvas');
        const pixels = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        return new Set(new Uint32Array(pixels.buffer)).size > 5;
    }""")
    expect(growing.locator("canvas")).to_be_visible()
