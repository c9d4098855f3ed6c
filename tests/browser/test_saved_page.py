"""A page that save_html wrote, in a browser without network."""

from __future__ import annotations

import numpy as np
import pytest
from browser.drawing import COUNT_DRAWING, drawn

import rfnb as rf


def views() -> list:
    weights = np.array([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125]], np.float32)
    attention = rf.viz.attention(weights, source=["a", "</script>", "c"], target=["x", "y"])
    return [attention, rf.viz.states({"h": np.linspace(-1, 1, 10, dtype=np.float32).reshape(2, 5)}, steps=["x", "y"])]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_alive_without_network(browser, tmp_path, scheme):
    path = rf.save_html(tmp_path / "page.html", views())
    context = browser.new_context(color_scheme=scheme, viewport={"width": 900, "height": 900})
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.route(
        "**/*",
        lambda route: route.continue_() if route.request.url.startswith("file:") else errors.append(route.request.url),
    )
    page.goto(path.as_uri())
    attention, states = (page.locator(f'[data-kind="{kind}"]') for kind in ("attention", "states"))
    assert attention.is_visible() and states.is_visible() and page.locator("img").count() == 0
    pane = attention.locator(".rfnb-pane")
    pane.focus()
    for key in ("Home", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert attention.get_attribute("data-row") == "1" and attention.get_attribute("data-col") == "1"
    assert "0.75" in attention.locator(".rfnb-readout").inner_text()
    assert states.get_attribute("data-linked") == "1", "both views are in one page and share the selection"
    attention.locator("[data-do=table]").click()
    assert attention.locator("td").all_inner_texts() == ["0.5000", "0.2500", "0.2500", "0.1250", "0.7500", "0.1250"]
    states.locator(".rfnb-pane").hover(position={"x": 60, "y": 80})
    assert states.get_attribute("data-col") == "0" and states.get_attribute("data-row") != ""
    assert errors == []
    context.close()


def test_a_thousand_by_a_thousand_is_drawn_as_one_image(browser, tmp_path):
    weights = np.zeros((1000, 1000), np.float32)
    weights[500, 700] = 1  # one peak among a million cells
    context = browser.new_context(viewport={"width": 900, "height": 900})
    page = context.new_page()
    page.add_init_script(COUNT_DRAWING)
    page.goto(rf.save_html(tmp_path / "page.html", rf.viz.attention(weights)).as_uri())
    root = page.locator('[data-kind="attention"]')
    page.wait_for_function("window.rfnbDrawn.drawImage")
    calls = drawn(page)
    assert calls["drawImage"] <= 10 and sum(calls.values()) < 10_000, "not a call per cell"
    colors = """canvas => { const d = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data, found = [];
        for (let i = 0; i < d.length; i += 4) if (d[i] < 40 && d[i + 2] > 70 && d[i + 2] < 110) found.push(i); return found.length; }"""
    assert root.locator(".rfnb-pane canvas").evaluate(colors) >= 1, (
        "the peak is not lost when cells are smaller than pixels"
    )
    context.close()
