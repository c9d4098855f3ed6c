"""The curves view in the page: drawn in light and dark, read by pointer and keyboard, growing while its cell runs."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import expect
from waiting import ms

from rfnb.viz import curves, save_html

GROWING = (
    """
import time
from pathlib import Path
import rfnb as rf
POINTS = {"loss": [], "learning rate": []}
view = rf.viz.curves(POINTS, title="Training", live=True).show()
""",
    """
while not Path("stop").exists() and len(POINTS["loss"]) < 2000:
    step = len(POINTS["loss"])
    POINTS["loss"].append((step, 4 / (step + 1)))
    POINTS["learning rate"].append((step, 3e-4))
    view.update(rf.viz.curves(POINTS, title="Training", live=True).spec)
    time.sleep(0.05)
view.update(rf.viz.curves({name: points[:3] for name, points in POINTS.items()}, title="Training").spec)
""",
)


@pytest.fixture
def page(browser, tmp_path):
    """A function that opens a saved view in a colour scheme and gives its root."""
    context = browser.new_context(viewport={"width": 900, "height": 700})
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))

    def open_view(view, scheme: str = "light"):
        opened.emulate_media(color_scheme=scheme)
        save_html(tmp_path / "page.html", [view])
        opened.goto((tmp_path / "page.html").as_uri())
        return opened.locator('.rfnb-root[data-kind="curves"]')

    yield open_view
    context.close()
    assert errors == []


def training():
    steps = np.arange(0, 1000, 10)
    return curves({"loss": (steps, 1000.0 - steps), "errors": [(100, 50.0), (900, 12.5)]}, units={"errors": "%"})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_curve_stands_out_from_its_paper(page, scheme):
    root = page(training(), scheme)
    color = "element => getComputedStyle(element)"
    line = root.locator(".rfnb-curves-line").first.evaluate(f"{color}.stroke")
    paper = root.evaluate(f"{color}.backgroundColor")
    light = [
        0.2126 * r + 0.7152 * g + 0.0722 * b
        for r, g, b in (map(int, re.findall(r"\d+", rgb)[:3]) for rgb in (line, paper))
    ]
    assert (light[1] > 128) == (scheme == "light")
    assert abs(light[0] - light[1]) > 90


def test_pointer_and_keyboard_read_the_exact_values_of_all_panels(page):
    root = page(training())
    box = root.locator(".rfnb-curves-line").first.bounding_box()
    root.page.mouse.move(box["x"] + box["width"] * 500 / 990, box["y"] + 20)
    expect(root).to_have_attribute("data-cursor", "500")
    assert root.locator(".rfnb-curves-value").all_inner_texts() == ["500", "50"]
    root.page.mouse.move(5, 5)
    root.locator(".rfnb-curves-stage").focus()
    root.page.keyboard.press("End")
    root.page.keyboard.press("ArrowLeft")
    assert root.locator(".rfnb-readout").inner_text() == "step 980: loss 20, errors 12.5 % (at step 900)"


def test_panels_stand_under_each_other_on_one_axis_and_fit_a_narrow_page(page):
    root = page(training())
    for width in (900, 380):
        root.page.set_viewport_size({"width": width, "height": 700})
        root.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        bases = [root.locator(".rfnb-curves-base").nth(index).bounding_box() for index in range(2)]
        assert bases[0]["x"] == bases[1]["x"] and bases[0]["width"] == bases[1]["width"]
        assert bases[0]["x"] + bases[0]["width"] < width
        assert bases[0]["y"] < bases[1]["y"]


def test_twenty_thousand_points_are_drawn_as_a_few_per_pixel(page):
    root = page(curves({"loss": np.random.default_rng(0).random(20_000)}))
    root.locator('[data-do="log"]').click()
    pixels = root.locator(".rfnb-curves-plot").bounding_box()["width"]
    lines = root.locator("path").evaluate_all("paths => paths.map(path => path.getAttribute('d'))")
    parts = sum(len(re.findall("[A-Za-z]", line)) for line in lines)
    assert pixels < parts < 8 * pixels
    assert root.locator("svg *").count() < 100


# A page in which anywidget gives a model no time to load: from then on that hears no message.
TOO_SLOW = """AbortSignal.timeout = () => {
    const over = new AbortController();
    queueMicrotask(() => over.abort());
    return over.signal;
};"""


def test_curves_grow_while_their_cell_runs_also_in_a_slow_page(lab, own_page):
    lab.page.add_init_script(TOO_SLOW)
    lab.open(lab.write("curves.ipynb", *GROWING))
    lab.run_all()
    root = lab.page.locator('.rfnb-root[data-kind="curves"]')
    expect(root).to_have_attribute("data-step", re.compile(r"^([5-9]|\d\d+)$"), timeout=ms(60))
    assert lab.cells()[1]["state"] == "running"
    (lab.server.root / "stop").touch()
    lab.wait_cells()
    expect(root).to_have_attribute("data-live", "false")
    root.locator(".rfnb-curves-stage").focus()
    lab.page.keyboard.press("End")
    expect(root.locator(".rfnb-readout")).to_have_text("step 2: loss 1.3333334, learning rate 0.0003")
    stored = lab.cells()[0]["outputs"][0]["data"]["text/plain"]
    assert "".join(stored).startswith("Training: step 0 to 2\n")
    assert lab.errors == []


MANY = """
import numpy as np, rfnb as rf
rng = np.random.default_rng(0)
view = rf.viz.curves({f"run {n}": rng.standard_normal(%d) for n in range(%d)}).show()
"""
BAND, LINE = ".rfnb-curves-band-of", ".rfnb-curves-line"


def test_a_live_view_has_all_points_also_where_the_stored_one_has_bands(lab):
    """200 series of 10,000 points: what a notebook stores of them is a band; the kernel has all, and the page asks for them."""
    lab.open(lab.write("many_points.ipynb", MANY % (10_000, 200), "rf.show(view.spec).freeze();"))
    lab.run_all()
    lab.wait_cells()
    root = lab.page.locator('.rfnb-root[data-kind="curves"]').first
    expect(root.locator(LINE)).to_have_count(96, timeout=ms(60))
    expect(root.locator(BAND)).to_have_count(0)
    expect(root.locator(".rfnb-thinned")).to_have_count(0)
    stage = root.locator(".rfnb-curves-stage")
    stage.focus()
    lab.page.keyboard.press("Home")
    lab.page.keyboard.press("ArrowRight")
    first = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)[1]
    expect(root.locator(".rfnb-readout")).to_contain_text(f"step 1: run 0 {str(first).replace('-', '−')}")
    [output] = lab.cells()[0]["outputs"]
    assert len("".join(output["data"]["text/html"])) <= 250_000
    frozen = lab.page.locator('.rfnb-output .rfnb-root[data-kind="curves"]')
    expect(frozen.locator(BAND)).to_have_count(96, timeout=ms(60))
    expect(frozen.locator(".rfnb-thinned")).to_contain_text("of 10000 points the page has")
    assert lab.errors == []


@pytest.mark.parametrize("width", [900, 1280, 1600])
def test_thirty_noisy_series_are_one_panel_with_the_one_that_is_pointed_at(page, width):
    noise = np.random.default_rng(0).standard_normal((30, 300)) + np.arange(30)[:, None]
    noise[7, 120:] = np.nan
    root = page(curves({f"run{index:02}": y for index, y in enumerate(noise)}))
    root.page.set_viewport_size({"width": width, "height": 700})
    assert root.locator(".rfnb-curves-plot").count() == 1
    assert root.locator(".rfnb-curves-broken").inner_text() == "1 of 30 broken: run07 NaN since step 120"
    assert root.locator(BAND).count() == 0  # all points
    plot = root.locator(".rfnb-curves-plot").bounding_box()
    root.page.mouse.move(plot["x"] + plot["width"] / 2, plot["y"] + 10)
    expect(root).to_have_attribute("data-hot", "run29")
    assert (
        root.locator(".rfnb-curves-hot .rfnb-curves-line").evaluate("line => getComputedStyle(line).strokeWidth")
        == "2.8px"
    )
    root.page.mouse.move(plot["x"] + plot["width"] / 2, plot["y"] + plot["height"] - 30)
    expect(root).to_have_attribute("data-hot", "run00")
    root.locator('[data-do="apart"]').click()
    boxes = [panel.bounding_box() for panel in root.locator(".rfnb-curves-panel").all()[:6]]
    assert len({round(box["x"]) for box in boxes}) == 3
    assert root.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    ends = root.locator(".rfnb-curves-panel").evaluate_all("all => all.map(one => one.getBoundingClientRect().right)")
    inside = root.evaluate("root => root.getBoundingClientRect().right")
    assert max(ends) <= inside + 1
    root.page.mouse.move(
        boxes[1]["x"] + boxes[1]["width"] - 40, boxes[1]["y"] + 60
    )  # each panel has the cursor of its own width
    step = int(root.get_attribute("data-cursor"))
    assert 180 < step < 299
