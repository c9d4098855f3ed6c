"""The what-if screen in a real JupyterLab: ghosts, a weight dragged in its map, the rail of branches. Clicks are counted."""

from __future__ import annotations

import re

import pytest
from browser.jupyter import Lab
from browser.what_if import RUN, Page, without_subshells
from playwright.sync_api import expect
from waiting import wait_until

EY = "With EY at 1: P EY R AH SH UW T, −6.72, 4.95 nats worse."
SHUT = "With output_gate = 0 at 1: P EY R AH CH UW T, −4.02, 2.25 nats worse."
H_OFF = "With h = 0 at 2: P EH R AH CH UW T, −1.66, 0.11 nats better."


@pytest.fixture
def page(lab):
    return Page(lab)


@pytest.fixture(scope="module")
def lab_under_a_finger(server, browser):
    context = browser.new_context(viewport={"width": 1280, "height": 1400}, has_touch=True)
    yield Lab(context.new_page(), server)
    context.close()


@pytest.fixture
def touched(lab_under_a_finger):
    """The same page under a finger."""
    yield Page(lab_under_a_finger)
    assert lab_under_a_finger.leave()


def test_resting_on_a_candidate_tells_its_future_and_one_click_keeps_it(page):
    tall = page.tree.locator(".rfnb-pane").first.bounding_box()["height"]
    page.find(page.tree, "1,cut0", "cursor")
    expect(page.told).to_have_text(EY)
    assert page.tree.get_attribute("data-ghosts") == "1"
    expect(page.map).to_have_attribute("data-ghosts", "EY R AH SH UW T <end>")  # where it would look, below the map
    assert page.tree.locator(".rfnb-pane").first.bounding_box()["height"] == tall  # nothing has jumped
    page.page.mouse.move(5, 5)
    expect(page.tree).to_have_attribute("data-ghosts", "0")
    expect(page.map).to_have_attribute("data-ghosts", "")
    expect(page.rail).to_be_hidden()  # nothing was kept
    expect(page.told).to_contain_text("Rest on a candidate")  # what can be done is said again
    page.find(page.tree, "1,cut0", "cursor")
    expect(page.told).to_have_text(EY)
    page.click(page.tree, "1,cut0", "cursor")
    page.clicks += 1
    expect(page.rail).to_contain_text("6.72")
    page.page.mouse.move(5, 5)
    expect(page.told).to_have_text(EY)  # the branch that was made last, in the tree that it leaves
    assert page.rows()[1] == "EY at 1 P EY R AH SH UW T −6.72 (−4.95)"
    assert page.rail.locator("b", has_text="EY").count() == 2  # the change, and the letter that differs
    assert page.tree.get_attribute("data-step") == "2"  # the picture is that of before
    [[name, changes, result]] = page.made()["branches"]
    assert (name, result) == ("EY at 1", "P EY R AH SH UW T") and "forced EY" in changes[0]
    assert page.clicks == 1
    away = page.map.get_by_role("button", name="Without attention")

    def rested():
        away.hover()  # once more where the notebook has scrolled meanwhile
        return "With attention = 0: IH G Z AE, −6.56" in page.map.locator(".rfnb-head-scale").inner_text()

    wait_until(rested)
    away.click()
    expect(page.rail).to_contain_text("attention = 0")


def test_all_candidates_of_a_step_by_one_key_and_nothing_is_left_by_escape(page):
    pane = page.tree.locator(".rfnb-pane").first
    pane.focus()
    pane.press("Home")
    pane.press("ArrowRight")
    pane.press("w")
    expect(page.tree).to_have_attribute("data-ghosts", "3")
    for words in (EY, "With AH at 1: P AH", "With R at 1: P R"):
        expect(page.told).to_contain_text(words)
    pane.press("Escape")
    expect(page.tree).to_have_attribute("data-ghosts", "0")
    assert page.made()["branches"] == []
    pane.press("Home")  # by keyboard alone: rest on it, keep it
    pane.press("ArrowRight")
    while page.tree.get_attribute("data-cursor") != "1,cut0":
        pane.press("ArrowDown")
    expect(page.told).to_have_text(EY)
    pane.press("Enter")
    expect(page.rail).to_contain_text("EY at 1")
    assert pane.evaluate("(el) => el === document.activeElement")  # and the focus stays
    assert [one[0] for one in page.made()["branches"]] == ["EY at 1"]


def test_a_weight_is_dragged_in_the_map_and_the_word_follows(page):
    at, mouse = page.press(page.map, "1 5", "row", "col"), page.page.mouse  # of EH, on h
    page.drag(at, 0, -120)
    expect(page.map).to_have_attribute(
        "data-dragged", re.compile(r"With EH: 1 on h: P HH EH R AH CH UW T, −\d.\d\d, .* worse\.")
    )
    page.page.keyboard.press("Escape")
    expect(page.map).to_have_attribute("data-dragged", "")
    mouse.up()
    assert page.made()["branches"] == []  # it was let go
    at = page.press(page.map, "1 5", "row", "col")
    page.drag(at, 0, -120)
    mouse.up()
    expect(page.rail).to_contain_text("EH: 1 on h")
    expect(page.rail).to_contain_text("P HH EH R AH CH UW T")
    [[name, changes, result]] = page.made()["branches"]
    assert (name, result) == ("EH: 1 on h", "P HH EH R AH CH UW T") and "attention decoder.att" in changes[0]


def test_a_weight_that_is_dragged_below_a_kept_candidate_is_named_by_what_the_run_says_there(page):
    page.click(page.tree, "1,cut0", "cursor")
    expect(page.map).to_have_attribute("data-hypothesis", "P EY")
    expect(page.rail).to_contain_text("6.72")
    at = page.press(page.map, "1 5", "row", "col")
    page.drag(at, 0, -120)
    expect(page.map).to_have_attribute("data-dragged", re.compile(r"With EH: 1 on h: P HH EH R AH CH UW T"))
    page.page.keyboard.press("Escape")
    page.page.mouse.up()


def test_a_state_is_dragged_in_its_strip_and_the_word_follows(page):
    norm, mouse = r"(.*\.)?h -1 1", page.page.mouse  # the line of the norm, after EH
    at = page.press(page.strips, norm, "track", "row", "col")
    page.drag(at, 0, 60)
    expect(page.strips).to_have_attribute("data-dragged", H_OFF)
    expect(page.strips.locator(".rfnb-readout")).to_have_text(H_OFF)
    page.page.keyboard.press("Escape")
    expect(page.strips).to_have_attribute("data-dragged", "")
    mouse.up()
    assert page.strips.locator(".rfnb-edits").is_hidden()  # the end of a drag is no click
    assert page.made()["branches"] == []
    at = page.press(page.strips, norm, "track", "row", "col")
    page.drag(at, 0, 60)
    mouse.up()
    expect(page.rail).to_contain_text("P EH R AH CH UW T")
    [[name, changes, result]] = page.made()["branches"]
    assert (name, result) == ("h = 0 at 2", "P EH R AH CH UW T")
    assert changes == ['step 2 of "search": state decoder.h (batch 0, beam 0) set to 0 (by hand)']
    at = page.press(page.strips, r"(.*\.)?output_gate -1 1", "track", "row", "col")  # the line of the mean opening
    page.drag(at, 0, 90)
    expect(page.strips).to_have_attribute("data-dragged", SHUT)
    mouse.up()
    expect(page.rail.locator(".rfnb-rail-row")).to_have_count(3)
    name, [change], result = page.made()["branches"][1]
    assert (name, result) == ("output_gate = 0 at 1", "P EY R AH CH UW T")
    assert "edited decoder.lstm.output_gate[batch=0, beam=0]: 0" in change


def test_a_unit_is_dragged_up_and_down_and_a_range_of_steps_across(page):
    mouse = page.page.mouse
    at = page.press(page.strips, r"(.*\.)?h [0-9]+ 0", "track", "row", "col")
    page.drag(at, 130, 10)
    mouse.up()
    expect(page.strips).to_have_attribute("data-brush", re.compile("0-[12]"))  # that is no drag of a value
    assert not page.strips.get_attribute("data-dragged") and page.made()["branches"] == []
    page.strips.locator(".rfnb-pane").first.press("Escape")
    at = page.press(page.strips, r"(.*\.)?h [0-9]+ 0", "track", "row", "col")
    unit = page.strips.get_attribute("data-row")
    page.drag(
        at, 130, -300
    )  # a drag that has begun upward goes on as one, also across steps; at the end of the range it stays
    expect(page.strips).to_have_attribute("data-dragged", re.compile(rf"With h unit {unit} = [\d.]+ at 1: P EH R .*"))
    assert page.strips.get_attribute("data-brush") == ""
    mouse.up()
    expect(page.rail).to_contain_text(f"h unit {unit} = ")
    [[name, [change], _]] = page.made()["branches"]
    value = re.fullmatch(rf"h unit {unit} = ([\d.]+) at 1", name)[1]
    assert re.search(rf"decoder\.h \(.*decoder {unit}[,)].* set to {re.escape(value)}", change)


def test_the_rail_shows_compares_moves_and_lets_go(page):
    page.click(page.tree, "1,cut0", "cursor")
    expect(page.rail).to_contain_text("6.72")
    row = page.rail.locator(".rfnb-rail-row").nth(1)
    row.click(modifiers=["Shift"])
    expect(page.tree).to_contain_text("9 steps · beam 4 · different from step 1 on")
    expect(page.map).to_contain_text("A − B")
    heights = page.page.evaluate(
        """() => {
            const roots = [...document.querySelectorAll('.rfnb-root.rfnb-part')].filter((el) => !el.closest('details'));
            const tops = roots.map((el) => el.getBoundingClientRect());
            return Math.max(...tops.map((box) => box.bottom)) - Math.min(...tops.map((box) => box.top));
        }"""
    )
    assert heights <= 900, f"the comparison is {heights} px tall"
    row.click()  # shown alone
    expect(page.tree).to_have_attribute("data-step", "8")
    page.rail.locator(".rfnb-rail-row").first.click()
    expect(page.tree).to_have_attribute("data-step", "2")
    assert page.rail.bounding_box()["height"] <= 64
    page.rail.locator(".rfnb-rail-row").nth(
        1
    ).hover()  # once nothing moves any more; rings are drawn below what is pressed
    circle = page.rail.locator("circle").first.bounding_box()
    x, y = circle["x"] + circle["width"] / 2, circle["y"] + circle["height"] / 2
    page.page.mouse.move(x, y)
    page.page.mouse.down()
    for step in range(1, 8):
        page.page.mouse.move(x + 4 * step, y)
    page.page.mouse.up()
    expect(page.rail).to_contain_text("EY at 2")
    row = page.rail.locator(".rfnb-rail-row").nth(1)
    row.focus()
    row.press("Delete")
    expect(page.rail.locator(".rfnb-rail-row")).to_have_count(2)
    assert [one[0] for one in page.made()["branches"]] == ["EY at 2"]


def test_a_finger_taps_a_candidate_to_see_and_again_to_keep(touched):
    at = touched.find(touched.tree, "1,cut0", "cursor", stay=False)
    touched.page.touchscreen.tap(*at)
    expect(touched.told).to_have_text(EY)
    assert touched.tree.get_attribute("data-ghosts") == "1"
    expect(touched.rail).to_be_hidden()
    touched.page.touchscreen.tap(*at)
    expect(touched.rail).to_contain_text("EY at 1")
    assert [one[0] for one in touched.made()["branches"]] == ["EY at 1"]


def test_a_finger_drags_what_it_has_tapped_and_scrolls_elsewhere(touched):
    scrolled = "(view) => { const el = view.closest('.jp-WindowedPanel-outer'); return el.scrollTop; }"
    at = touched.find(touched.map, "1 5", "row", "col", stay=False)
    before = touched.map.evaluate(scrolled)
    touched.slide(at, -120)
    assert touched.map.evaluate(scrolled) != before and not touched.map.get_attribute("data-dragged")
    at = touched.find(touched.map, "1 5", "row", "col", stay=False)
    touched.page.touchscreen.tap(*at)
    expect(touched.map).to_have_attribute("data-row", "1")
    before = touched.map.evaluate(scrolled)
    touched.slide(at, -120, held=lambda: expect(touched.map).to_have_attribute("data-dragged", re.compile("P HH EH R")))
    assert touched.map.evaluate(scrolled) == before  # the page has stayed
    expect(touched.rail).to_contain_text("P HH EH R AH CH UW T")
    assert [one[0] for one in touched.made()["branches"]] == ["EH: 1 on h"]


def test_without_subshells_ghosts_come_too_and_while_a_cell_runs_the_page_says_what_it_waits_for(lab, own_page):
    busy = 'import pathlib, time\nwhile not pathlib.Path("go_on").exists():\n    time.sleep(0.05)\nrun.state'
    page = Page(lab, without_subshells, (RUN, busy))
    page.find(page.tree, "1,cut0", "cursor")
    expect(page.told).to_have_text(EY)
    page.page.mouse.move(5, 5)
    expect(page.tree).to_have_attribute("data-ghosts", "0")
    page.page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1; }")
    lab.start("notebook:run-cell")
    page.page.wait_for_function("() => document.querySelector('.jp-Notebook').textContent.includes('[*]')")
    page.find(page.tree, "1,cut0", "cursor")  # to run a cell scrolls to it
    late = page.page.get_by_text("The kernel has not answered yet: a cell is running.")
    expect(late).to_be_visible()
    expect(page.told).not_to_have_text(EY)
    (lab.server.root / "go_on").touch()
    expect(page.told).to_have_text(EY)  # what was asked for is done when it hears of it
    expect(late).to_be_hidden()
    page.click(page.tree, "1,cut0", "cursor")
    expect(page.rail).to_contain_text("EY at 1")
