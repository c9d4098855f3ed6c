"""The stage: a saved recording on the whole window, by real keys and a real pointer; its address opens at a step."""

from __future__ import annotations

import nbformat
import pytest
from browser.holding import at, press, tools
from browser.what_if import find
from playwright.sync_api import expect
from waiting import ms

import rfnb as rf
from rfnb.models import load_g2p
from rfnb.models.g2p_search import search

SPELL = """
import rfnb as rf
from rfnb.models import load_g2p
from rfnb.models.g2p_search import search
model = load_g2p()
def spell():
    with rf.stop_gradient_scope():
        return search(model, ["parachute"], beam_size=4)[1]
run = rf.run(spell, record={"model": model}, paused=True)
run
"""
# The least size of type on the stage, of what is text of the page, in pixels as they are seen.
_LEAST = """() => Math.min(...[...document.querySelectorAll(".rfnb-on-stage *")]
    .filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest("svg, .rfnb-hidden")
        && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()))
    .map((e) => {
        let zoom = 1;
        for (let p = e; p; p = p.parentElement) zoom *= Number(p.style.zoom || 1);
        return parseFloat(getComputedStyle(e).fontSize) * zoom;
    }))"""
_FITTED = """() => {
    const seen = [...document.querySelectorAll(".rfnb-on-stage .rfnb-part")].filter((e) => e.offsetWidth);
    return seen.length && seen.every((e) => e.dataset.fitted);
}"""
_SHARP = """() => [...document.querySelectorAll(".rfnb-on-stage .rfnb-pane canvas")].filter((e) => e.offsetWidth)
    .every((e) => Math.abs(e.width - e.getBoundingClientRect().width) <= 2)"""
_SIGHT = """() => {
    const stage = document.querySelector(".rfnb-on-stage"), seen = (list) => [...list].filter((e) => e.offsetWidth);
    const of = (e) => { const box = e.getBoundingClientRect(); return [box.left, box.top, box.right, box.bottom].map(Math.round); };
    const boxes = seen(stage.querySelectorAll(".rfnb-part")), panes = seen(stage.querySelectorAll(".rfnb-pane"));
    return {
        stage: of(stage), scrolls: stage.scrollHeight > stage.clientHeight, bar: of(stage.querySelector(".rfnb-stage-bar")),
        boxes: boxes.map(of), zooms: boxes.map((e) => Number(e.style.zoom)),
        panes: panes.map((e) => [e.scrollHeight - e.clientHeight, e.scrollWidth - e.clientWidth]),
    };
}"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    model = load_g2p()
    with rf.record(model=model) as trace, rf.stop_gradient_scope():
        search(model, ["parachute"], beam_size=4)
    return rf.save_html(tmp_path_factory.mktemp("stage") / "page.html", [rf.show(trace)])


@pytest.fixture
def page(browser, saved):
    context = browser.new_context(viewport={"width": 1920, "height": 1080})
    made = context.new_page()
    made.errors = []
    made.on("pageerror", lambda error: made.errors.append(str(error)))
    yield made
    assert not made.errors
    context.close()


def test_an_address_opens_at_a_step_and_a_hypothesis(page, saved):
    page.goto(f"{saved.as_uri()}#step=4&hyp=2")
    weights = page.locator('.rfnb-part[data-kind="attention"]')
    expect(weights).to_have_attribute("data-linked", "4")
    expect(weights).to_have_attribute("data-hypothesis", "P EH R AH CH UW T")
    page.evaluate("() => { location.hash = '#step=1&hyp=1'; }")
    expect(weights).to_have_attribute("data-linked", "1")
    expect(weights).to_have_attribute("data-hypothesis", "")
    assert page.locator(".rfnb-on-stage").count() == 0


def test_the_stage_by_keys(page, saved):
    page.goto(saved.as_uri())
    page.locator(".rfnb-pane").first.focus()
    page.keyboard.press("f")
    stage = page.locator(".rfnb-on-stage")
    expect(stage).to_have_count(1)
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(stage).to_have_attribute("data-stage-step", "1")
    page.wait_for_function(_FITTED)
    seen = page.evaluate(_SIGHT)
    assert seen["stage"] == [0, 0, 1920, 1080] and not seen["scrolls"]
    assert len(seen["boxes"]) == 3  # the search, where it looks, its states
    for left, top, right, bottom in seen["boxes"]:
        assert 0 <= left < right <= 1920 and 0 <= top < bottom <= seen["bar"][1]
    assert min(seen["zooms"]) >= 0.9 and seen["panes"][0] == [0, 0] and seen["panes"][1] == [0, 0]
    tick = page.locator(".rfnb-stage-tick").first
    assert float(tick.evaluate("(e) => parseFloat(getComputedStyle(e).fontSize)")) >= 24  # read from the last row
    # At once: what is hidden then has the sizes of the whole views all the same.
    for key in ("f", "f", "Home", "ArrowRight", "."):
        page.keyboard.press(key)
    expect(page.locator(".rfnb-stage-tick", has_text="?")).to_have_count(6)
    assert page.evaluate(_SIGHT)["zooms"] == seen["zooms"]
    page.keyboard.press(".")
    expect(page.locator(".rfnb-stage-tick", has_text="?")).to_have_count(0)
    page.wait_for_function(_FITTED)
    weights = page.locator('.rfnb-part[data-kind="attention"]')
    page.set_viewport_size({"width": 1280, "height": 900})  # where the foot has two texts in one line
    height = "() => document.querySelector('.rfnb-stage-bar').offsetHeight"
    low = page.evaluate(height)
    page.keyboard.press(".")
    expect(page.locator(".rfnb-stage-tick", has_text="?")).to_have_count(6)
    assert page.evaluate(height) == low  # no view jumps
    page.set_viewport_size({"width": 1920, "height": 1080})
    expect(weights).to_have_attribute("data-step", "1")  # no later row
    expect(page.locator('.rfnb-part[data-kind="beams"]')).to_have_attribute("data-step", "1")
    page.keyboard.press("ArrowRight")
    expect(weights).to_have_attribute("data-step", "2")
    page.keyboard.press(".")
    expect(weights).to_have_attribute("data-step", "7")
    page.keyboard.press("2")
    expect(page.locator('.rfnb-part[data-kind="beams"]')).to_be_hidden()
    expect(weights).to_be_visible()
    page.wait_for_function(_SHARP)
    page.keyboard.press("0")
    expect(page.locator('.rfnb-part[data-kind="beams"]')).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(weights).to_have_attribute("data-hypothesis", "P EH R AH CH UW T")
    page.keyboard.press("f")
    expect(stage).to_have_count(0)
    assert page.evaluate("() => document.activeElement.classList.contains('rfnb-pane')")  # the focus is where it was


def test_a_pointer_on_the_stage_is_on_the_cell_that_it_points_at(page, saved):
    page.goto(f"{saved.as_uri()}#view=2")
    weights = page.locator('.rfnb-on-stage .rfnb-part[data-kind="attention"]')
    expect(weights).to_be_visible()
    page.wait_for_function(_FITTED)
    zoom, cell = float(weights.evaluate("(e) => e.style.zoom")), float(weights.get_attribute("data-cell"))
    assert zoom > 1.5
    first, third = find(weights, "1 1", "row", "col"), find(weights, "3 3", "row", "col")
    for axis in (0, 1):
        assert third[axis] - first[axis] == pytest.approx(2 * zoom * cell, rel=0.15)
    page.mouse.click(*third)
    expect(weights).to_have_attribute("data-row", "3")


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_a_run_that_is_held_on_the_stage_in_jupyterlab(lab, theme):
    page = lab.page
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.context.on("page", lambda made: made.on("pageerror", lambda error: lab.errors.append(str(error))))
    cells = [nbformat.v4.new_markdown_cell("Ask what comes after **P EH**."), nbformat.v4.new_code_cell(SPELL)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(
        nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), lab.server.root / "stage.ipynb"
    )
    lab.open("stage.ipynb")
    lab.run_all()
    page.evaluate(f"window.jupyterapp.commands.execute('apputils:change-theme', {{theme: 'JupyterLab {theme}'}})")
    view = tools(lab)
    expect(view).to_have_attribute("data-state", "paused", timeout=ms(60))
    for step in range(1, 4):
        press(view, "step")
        expect(view).to_have_attribute("data-at", str(step))
    pane = page.locator('.rfnb-part[data-kind="beams"] .rfnb-pane')
    pane.click()
    page.keyboard.press("f")
    stage, ticks = page.locator(".rfnb-on-stage"), page.locator(".rfnb-stage-tick")
    weights, tree = (stage.locator(f'.rfnb-part[data-kind="{kind}"]') for kind in ("attention", "beams"))
    expect(ticks).to_have_text(["P", "EH", "R"])
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")  # one step more of the run
    expect(ticks).to_have_count(4)
    assert at(view) == 4
    ticks.nth(1).click()  # the scrubber
    expect(stage).to_have_attribute("data-stage-step", "1")
    expect(weights).to_have_attribute("data-linked", "1")
    page.keyboard.press(".")
    expect(ticks).to_have_text(["P", "EH", "?", "?"])
    expect(tree).to_have_attribute("data-step", "1")
    page.keyboard.press("ArrowRight")
    expect(ticks).to_have_text(["P", "EH", "R", "?"])
    page.keyboard.press(".")
    for _ in range(40):  # each view takes some frames until it fits
        page.evaluate("() => new Promise(requestAnimationFrame)")
    assert page.evaluate(_LEAST) >= 1080 / 60  # read from the last row
    assert min(page.evaluate(_SIGHT)["zooms"]) >= 1.5  # what is drawn has 12 pixels and more before
    with page.context.expect_page() as opened:
        page.keyboard.press("n")
    notes = opened.value
    expect(notes.locator("body")).to_have_text("Ask what comes after P EH.")
    notes.close()
    page.bring_to_front()
    page.keyboard.press("2")
    expect(tree).to_be_hidden()
    page.keyboard.press("Escape")
    expect(stage).to_have_count(0)
    expect(pane).to_be_visible()
    expect(pane).to_be_focused()  # although it was hidden
    assert lab.errors == []


@pytest.mark.parametrize("damaged", ["#step=&hyp=1e1", "#step=99&hyp=99", "#%E0%A4%A&&==", "#view=99"])
def test_a_damaged_address_shows_the_page_as_it_is(page, saved, damaged):
    page.goto(f"{saved.as_uri()}{damaged}")
    weights = page.locator('.rfnb-part[data-kind="attention"]')
    expect(weights).to_be_visible()
    page.evaluate("() => { location.hash = '#step=4&hyp=2'; }")  # the next one is followed
    expect(weights).to_have_attribute("data-linked", "4")
