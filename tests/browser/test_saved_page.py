"""A page that save_html wrote, in a browser without network.

RFNB_MUTATIONS=60 RFNB_SEED=7 damages more pages, and in other ways.
"""

from __future__ import annotations

import base64
import json
import os
import random
import re
import struct
import zlib

import numpy as np
import pytest
from browser.drawing import COUNT_DRAWING, drawn
from interop.mutations import damaged, mutated_often
from seed import SEED
from viz.bad_specs import good

import rfnb as rf
from rfnb.viz.view import View

PAGES = int(os.environ.get("RFNB_MUTATIONS", "2"))  # each with some twenty frames


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


def changed_frame(data: str, dice: random.Random) -> str:
    """The base64 of a frame with one change, or several: of its text, its bytes, or what its head says."""
    how = dice.randrange(4)
    if how == 0:
        return data[: dice.randrange(len(data))]
    if how == 1:
        return "".join(dice.choice("!~é=") if dice.random() < 0.01 else each for each in data)
    frame = base64.b64decode(data)
    if how == 2:
        for _ in range(dice.randint(1, 4)):
            frame, _ = damaged(frame, dice)
            frame = frame or b"x"
    else:
        stored, version, size, _ = struct.unpack_from("<IIII", frame)
        head = frame[16 : 16 + stored]
        text, _ = mutated_often(json.loads(zlib.decompress(head) if size != stored else head), dice)
        head = json.dumps(text).encode()
        rest = frame[16 + stored + -stored % 8 :]
        frame = struct.pack("<IIII", len(head), version, len(head), 0) + head + bytes(-len(head) % 8) + rest
    return base64.b64encode(frame).decode()


@pytest.mark.parametrize("form", ["page", "outputs"])
def test_a_damaged_page_shows_a_sentence_a_picture_or_a_view_and_never_an_error(browser, tmp_path, form):
    """Of each frame; what goes wrong with one keeps no other one from being shown."""
    shown = [*views(), *(View(spec) for spec in good())]
    path = rf.save_html(tmp_path / "page.html", shown)
    if form == "outputs":
        path.write_text(
            "<!doctype html><meta charset=utf-8><body>"
            + "".join(f"<section>{view._stored()}</section>" for view in shown),
            encoding="utf-8",
        )
    html, dice = path.read_text(encoding="utf-8"), random.Random(SEED)
    context = browser.new_context(viewport={"width": 900, "height": 900})
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    frames = re.compile(r'(class="rfnb-frame" hidden data-bytes=")([^"]*)')
    for _ in range(PAGES):
        path.write_text(
            frames.sub(
                lambda found: found[1] + (changed_frame(found[2], dice) if dice.random() < 0.8 else found[2]), html
            ),
            encoding="utf-8",
        )
        page.goto(path.as_uri())
        page.wait_for_function("!document.querySelector('.rfnb-frame:not([data-shown])')")
        page.evaluate("new Promise((done) => setTimeout(done))")  # whoever waits for these frames goes first
        blank = page.evaluate(
            """() => [...document.querySelectorAll("section")]
                .filter((one) => !one.innerText.trim()
                    && !one.querySelector("img, svg, canvas")).map((one) => one.outerHTML.slice(0, 99))"""
        )
        failed = page.evaluate("() => [...document.querySelectorAll('.rfnb-failed')].map((one) => one.textContent)")
        assert (errors, blank) == ([], []), failed
        assert not any(
            re.search(r"atob|undefined \(reading|is not a function|JSON\.parse|Unexpected token", one) for one in failed
        ), failed
    context.close()
