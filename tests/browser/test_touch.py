"""Views under a finger in a page of 400 pixels: what hovers and drags is tapped, targets are large, and a swipe scrolls the page."""

from __future__ import annotations

import numpy as np
import pytest
from browser.test_running_page import path as running  # noqa: F401 (a fixture)
from browser.test_running_page import shows
from playwright.sync_api import expect
from viz.gallery import specs
from viz.odd_views import all_kinds
from waiting import LONG

import rfnb as rf
from rfnb.viz.view import View

LEAST = 40  # pixels of a target
SMALL = """() => [...document.querySelectorAll(".rfnb-page :is(button, select, summary, input, [role=option].rfnb-rail-row)")]
    .filter((el) => el.checkVisibility({visibilityProperty: true}) && !el.closest(".rfnb-hidden") && el.type !== "checkbox")
    .map((el) => [el, el.getBoundingClientRect()])
    .filter(([, box]) => box.width && box.height && (Math.round(box.height) < LEAST || Math.round(box.width) < LEAST))
    .map(([el, box]) => `${el.closest("[data-kind]")?.dataset.kind}: ${el.outerHTML.slice(0, 90)} ${box.width}x${box.height}`)
""".replace("LEAST", str(LEAST))


class Finger:
    """A page of a telephone."""

    def __init__(self, browser, path):
        self.context = browser.new_context(
            offline=True, has_touch=True, is_mobile=True, viewport={"width": 400, "height": 800}
        )
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(path.as_uri())
        self.touch = self.context.new_cdp_session(self.page)

    def send(self, kind, *points):
        self.touch.send(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]}
        )

    def press(self, x, y, right, down, lift=True):
        """A drag, from a place by so many pixels."""
        self.send("touchStart", (x, y))
        for part in range(1, 9):
            self.send("touchMove", (x + right * part / 8, y + down * part / 8))
            self.page.evaluate("() => new Promise(requestAnimationFrame)")
        if lift:
            self.send("touchEnd")

    def box(self, of, above=120):
        """Where an element is, once it is that far below the top of the window."""
        return of.evaluate(
            """async (el, above) => {
                let before;
                for (let still = 0; still < 6; ) {  // a page that was swiped goes on for a while
                    scrollBy(0, el.getBoundingClientRect().top - above);
                    await new Promise(requestAnimationFrame);
                    still = el.getBoundingClientRect().top === before ? still + 1 : 0;
                    before = el.getBoundingClientRect().top;
                }
                const {left, top, width, height} = el.getBoundingClientRect();
                return {left, top, width, height};
            }""",
            above,
        )

    @property
    def scrolled(self):
        return self.page.evaluate("scrollY")

    def tap(self, of, across, down):
        """A tap in an element, at so much of its width and height."""
        box = self.box(of)
        place = box["left"] + across * box["width"], box["top"] + down * box["height"]
        self.page.touchscreen.tap(*place)
        return place


@pytest.fixture(scope="module")
def kinds():
    """By kind a view, of most of them the first."""
    found: dict[str, View] = {}
    for spec in [*specs().values(), *all_kinds(list("abcdef"))]:
        found.setdefault(spec.kind, View(spec))
    return found


@pytest.fixture(scope="module")
def saved(browser, kinds, tmp_path_factory):
    finger = Finger(browser, rf.save_html(tmp_path_factory.mktemp("touch") / "kinds.html", list(kinds.values())))
    yield finger
    assert finger.errors == []
    finger.context.close()


@pytest.fixture
def run(browser, running):  # noqa: F811
    finger = Finger(browser, running)
    shows(finger.page, "parachute")
    yield finger
    assert finger.errors == []
    finger.context.close()


def test_no_kind_of_view_has_a_target_that_a_finger_misses_or_makes_the_page_wide(saved, kinds):
    assert {*kinds} >= {"attention", "states", "beams", "dims", "curves", "distribution", "diff", "plan", "question"}
    assert saved.page.evaluate(SMALL) == []
    assert saved.page.evaluate("document.documentElement.scrollWidth") <= 400
    saved.page.screenshot(path="test-shots/touch_kinds.png", full_page=True)


@pytest.mark.parametrize(
    "kind", ["attention", "states", "beams", "dims", "curves", "distribution", "diff", "flow", "plan"]
)
def test_a_swipe_over_a_view_scrolls_the_page(saved, kinds, kind):
    view = saved.page.locator(f'.rfnb-root[data-kind="{kind}"]').first
    if kind not in kinds:
        pytest.skip(f"no view of {kind} is here")
    inner = view.locator(".rfnb-pane, .rfnb-graph-stage, .rfnb-curves-stage, .rfnb-dims-scroll").first
    box = saved.box(inner if inner.count() else view, 300)
    before, middle = (
        saved.scrolled,
        (box["left"] + min(box["width"], 380) / 2, box["top"] + min(box["height"], 380) / 2),
    )
    for _ in range(4):  # what scrolls by itself comes to its end, and then the page goes on
        saved.press(*middle, 0, -250)
        saved.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        if saved.scrolled > before + 50:
            return
    pytest.fail(f"the page stays at {before}")


@pytest.mark.parametrize("kind", ["attention", "states", "distribution", "diff"])
def test_a_tap_chooses_a_place_and_the_arrows_of_the_pad_go_on(saved, kind):
    view = saved.page.locator(f'.rfnb-root[data-kind="{kind}"]').first
    pad = view.locator(".rfnb-pad")
    saved.tap(view.locator(".rfnb-pane"), 0.6, 0.6)
    expect(pad).to_be_visible()
    places = [view.evaluate("({dataset: {row, col}}) => [row, col].join()")]
    for does in ("up", "right"):
        pad.get_by_label(does, exact=True).tap()
        places.append(view.evaluate("({dataset: {row, col}}) => [row, col].join()"))
    assert len(set(places)) == 3, places
    assert "Point at" not in view.locator(".rfnb-readout").inner_text()


def test_a_range_of_steps_is_chosen_by_taps(saved):
    view = saved.page.locator('.rfnb-root[data-kind="states"]').first
    saved.tap(view.locator(".rfnb-pane"), 0.5, 0.3)
    view.locator(".rfnb-pad").get_by_label("the range of steps from here, to the right").tap()
    expect(view.locator(".rfnb-states-found")).to_be_visible()


def test_what_a_title_says_is_read_by_a_tap_and_of_a_button_by_a_long_press(saved):
    page = saved.page
    token = page.locator('[data-kind="beams"] .rfnb-beams-token:visible').last
    token.scroll_into_view_if_needed()
    token.tap()
    tip = page.locator(".rfnb-tip:visible")
    expect(tip).to_have_text(token.get_attribute("title"))
    page.locator("h1").tap()
    fit = page.get_by_label("zoom to fit").first
    before = fit.get_attribute("aria-disabled")
    box = saved.box(fit)
    saved.send("touchStart", (box["left"] + 20, box["top"] + 20))
    expect(tip).to_have_text("all of it")
    saved.send("touchEnd")
    assert fit.get_attribute("aria-disabled") == before


def test_by_a_finger_a_run_is_typed_seen_changed_and_branched(run):
    page = run.page
    field = page.locator("input[name=word]")
    field.tap()
    page.keyboard.press("Control+a")
    page.keyboard.type("enough")
    shows(page, "enough")
    tree = page.locator('[data-kind="beams"]')
    pane, rail = tree.locator(".rfnb-pane").first, page.locator(".rfnb-rail")
    run.tap(pane, 0.4, 0.5)
    expect(tree).not_to_have_attribute("data-cursor", "")
    hands = tree.locator(".rfnb-edits")
    hands.get_by_role("button", name="Ban").first.tap()
    expect(rail.locator("[data-run]")).to_have_count(2, timeout=1000 * LONG)
    tree.get_by_role("button", name="Labels").tap()
    tree.locator(".rfnb-pad").get_by_label("the futures of all candidates of the step").tap()
    expect(tree).not_to_have_attribute("data-ghosts", "0", timeout=1000 * LONG)
    hands.locator("input[type=search]").fill("IY")
    hands.locator('[aria-label^="force IY"]').first.tap()
    expect(rail.locator("[data-run]")).to_have_count(3, timeout=1000 * LONG)
    assert page.evaluate(SMALL) == []
    rail.locator("[data-run]").nth(1).get_by_title("Move it to step").last.tap()
    expect(rail.locator("[data-run]")).to_have_count(4, timeout=1000 * LONG)  # what was moved stays
    page.screenshot(path="test-shots/touch_rail.png")
    rail.locator("[data-run]").nth(1).get_by_text("×").tap()
    expect(rail.locator("[data-run]")).to_have_count(3, timeout=1000 * LONG)


@pytest.mark.parametrize("kind", ["attention", "states"])
def test_a_finger_drags_what_it_has_chosen_and_scrolls_from_elsewhere(run, kind):
    page, rail = run.page, run.page.locator(".rfnb-rail [data-run]")
    view = page.locator(f'[data-kind="{kind}"]').first
    x, y = run.tap(view.locator(".rfnb-pane").first, 0.5, 0.5 if kind == "attention" else 0.15)
    chosen = view.evaluate("({dataset: {row, col}}) => [row, col].join()")
    before = run.scrolled
    run.press(x, y, 0, -70, lift=False)
    expect(view).not_to_have_attribute("data-dragged", "", timeout=1000 * LONG)
    assert run.scrolled == before
    run.send("touchEnd")
    expect(rail).to_have_count(2, timeout=1000 * LONG)
    assert view.evaluate("({dataset: {row, col}}) => [row, col].join()") == chosen
    run.press(x - 60, y + 30, 0, -150)
    page.wait_for_function("(before) => scrollY > before + 50", arg=before)
    assert rail.count() == 2


def test_the_stage_is_entered_walked_and_left_by_taps(run):
    page = run.page
    page.get_by_role("button", name="on the whole window").tap()
    group = page.locator(".rfnb-on-stage")
    expect(group).to_have_attribute("data-stage-step", "0")
    page.get_by_role("button", name="the next step").tap()
    expect(group).to_have_attribute("data-stage-step", "1")
    page.get_by_role("button", name="hide what comes next").tap()
    expect(page.locator(".rfnb-stage-said")).to_contain_text("what comes next?")
    page.get_by_role("button", name="view 2 alone").tap()
    expect(page.locator('[data-kind="beams"]')).to_be_hidden()
    page.screenshot(path="test-shots/touch_stage.png")
    page.get_by_role("button", name="leave").tap()
    expect(group).to_have_count(0)
    assert np.isclose(page.evaluate("document.documentElement.scrollWidth"), 400)
