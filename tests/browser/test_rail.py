"""The sound above a map in a real page: drawn on the axis of the frames, in words under the cursor, and where it is saved."""

from __future__ import annotations

import pytest
from viz.gallery import rail

import rfnb as rf
from rfnb.viz.view import View

# How many rows of the canvas, in CSS pixels, have as many colours as those of a spectrogram.
RICH = """root => {
    const canvas = root.querySelector(".rfnb-stage canvas"), { width, height } = canvas;
    const all = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, width, height).data.buffer);
    let rich = 0;
    for (let y = 0; y < height; y++) rich += new Set(all.subarray(y * width, (y + 1) * width)).size > 40;
    return rich / devicePixelRatio;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 800])
def test_a_sound_is_drawn_and_the_word_under_the_cursor_is_said(browser, tmp_path, scheme, width):
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(rf.save_html(tmp_path / "page.html", [View(rail())]).as_uri())
    root = page.locator(".rfnb-root[data-kind=attention]")
    grid = root.locator(".rfnb-stage [role=grid]")
    grid.focus()
    page.keyboard.press("Home")
    for _ in range(12):
        page.keyboard.press("ArrowRight")
    page.wait_for_function("root => root.dataset.col === '12'", arg=root.element_handle())
    said = root.locator(".rfnb-readout").inner_text()
    assert "0.24" in said and "in HELLO" in said
    assert "in “HELLO”" in root.locator(".rfnb-stage [role=gridcell]").inner_text()
    assert "above them a log-mel spectrogram, 0 to 8 kHz, 80 dB" in grid.get_attribute("aria-label")
    assert root.evaluate(RICH) > 30  # it is 44 high
    main, body = (root.locator(f".rfnb-attention-{part}").bounding_box() for part in ("main", "body"))
    assert main["width"] > 0.95 * body["width"]  # nothing is beside a map of many frames
    maps = root.get_by_role("group", name="map").get_by_role("button")
    assert maps.all_inner_texts() == ["posterior", "best path"]
    maps.nth(1).click()
    assert [one.get_attribute("aria-pressed") for one in maps.all()] == ["false", "true"]
    assert errors == []
    context.close()
