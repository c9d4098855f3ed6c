"""What if, on one screen of a real JupyterLab: ghosts, a weight dragged in its map, the rail of branches. Clicks are counted."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect
from waiting import ms, wait_until

RUN = """
import rfnb as rf
from rfnb.models import load_g2p, pronounce
model = load_g2p()
run = rf.run(pronounce, model, "parachute", beam_size=4, paused=True, record={"model": model}, name="parachute")
run.step(3)
run
"""
TOLD = """
import json
print(json.dumps({"branches": [[one.name, [str(change) for change in one.changes], " ".join(one.result[0].phonemes)]
                  for one in run.branches], "state": run.state, "steps": len(run.steps)}))
"""
EY = "With EY at 1: P EY R AH SH UW T, −6.72, 4.95 nats worse."


class Page:
    """The page of a held run; `clicks` are those of a person."""

    def __init__(self, lab):
        self.lab, self.page, self.clicks = lab, lab.page, 0
        lab.open(lab.write("what_if.ipynb", RUN, TOLD))
        lab.start("notebook:run-cell-and-select-next")
        self.tree, self.map = (
            self.page.locator(f'.rfnb-root.rfnb-part[data-kind="{kind}"]').last for kind in ("beams", "attention")
        )
        self.told, self.rail = self.tree.locator(".rfnb-beams-told"), self.page.locator(".rfnb-rail").first
        expect(self.tree).to_have_attribute("data-step", "2", timeout=ms(60))
        expect(self.told).to_contain_text("Rest on a candidate", timeout=ms(60))  # the kernel answers

    def find(self, view, pattern: str, *names: str) -> tuple[float, float]:
        """Where the pointer is on the place that a view says it is on; it stays there."""
        pane = view.locator(".rfnb-pane").first
        pane.scroll_into_view_if_needed()
        box = pane.bounding_box()
        for down in range(6, int(box["height"]), 7):
            for right in range(6, int(box["width"]), 15):
                at = box["x"] + right, box["y"] + down
                self.page.mouse.move(*at)
                found = view.evaluate("(el, names) => names.map((name) => el.dataset[name]).join(' ')", list(names))
                if re.fullmatch(pattern, found):
                    return at
        raise AssertionError(f"{pattern} is nowhere")

    def rows(self) -> list[str]:
        return [" ".join(text.split()) for text in self.rail.locator(".rfnb-rail-row").all_inner_texts()]

    def made(self) -> dict:
        """What the kernel has, once all its runs are over."""
        wait_until(lambda: "running" not in self.rail.inner_text())
        before = self.lab.cells()[1]["count"]
        self.page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1; }")
        self.lab.start("notebook:run-cell")
        wait_until(lambda: self.lab.cells()[1]["count"] != before and self.lab.cells()[1]["state"] == "idle")
        return json.loads(self.lab.wait_cells()[1]["outputs"][0]["text"])


@pytest.fixture
def page(lab):
    return Page(lab)


def test_resting_on_a_candidate_tells_its_future_and_one_click_keeps_it(page):
    tall = page.tree.locator(".rfnb-pane").first.bounding_box()["height"]
    at = page.find(page.tree, "1,cut0", "cursor")
    expect(page.told).to_have_text(EY)
    assert page.tree.get_attribute("data-ghosts") == "1"
    assert page.tree.locator(".rfnb-pane").first.bounding_box()["height"] == tall  # nothing has jumped
    page.page.mouse.move(5, 5)
    expect(page.tree).to_have_attribute("data-ghosts", "0")
    expect(page.rail).to_be_hidden()  # nothing was kept
    page.page.mouse.move(*at)
    expect(page.told).to_have_text(EY)
    page.page.mouse.click(*at)
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
    x, y = page.find(page.map, "1 5", "row", "col")  # of EH, on h
    mouse = page.page.mouse
    mouse.down()
    for step in range(1, 13):
        mouse.move(x, y - 10 * step)
    expect(page.map).to_have_attribute(
        "data-dragged", re.compile(r"With EH: 1 on h: P HH EH R AH CH UW T, −\d.\d\d, .* worse\.")
    )
    page.page.keyboard.press("Escape")
    expect(page.map).to_have_attribute("data-dragged", "")
    mouse.up()
    assert page.made()["branches"] == []  # it was let go
    x, y = page.find(page.map, "1 5", "row", "col")
    mouse.down()
    for step in range(1, 13):
        mouse.move(x, y - 10 * step)
    mouse.up()
    expect(page.rail).to_contain_text("EH: 1 on h")
    expect(page.rail).to_contain_text("P HH EH R AH CH UW T")
    [[name, changes, result]] = page.made()["branches"]
    assert (name, result) == ("EH: 1 on h", "P HH EH R AH CH UW T") and "attention decoder.att" in changes[0]


def test_the_rail_shows_compares_moves_and_lets_go(page):
    at = page.find(page.tree, "1,cut0", "cursor")
    page.page.mouse.click(*at)
    expect(page.rail).to_contain_text("6.72")
    row = page.rail.locator(".rfnb-rail-row").nth(1)
    row.click(modifiers=["Shift"])
    expect(page.tree).to_contain_text("A: parachute, B: EY at 1, apart from step 1 on")
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
