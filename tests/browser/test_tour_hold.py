"""The tour where a person takes part: a word is typed, a search is held by its buttons; compared with the model in plain torch.

The moving picture is made by `RFNB_MOVING=notebooks/data/tour.gif pytest tests/browser/test_tour_hold.py`.
"""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest
from browser.conftest import SHOTS
from browser.tour import VIEWS, Tour, hovered, number, source
from browser.what_if import find, press
from control.plain_search import Decision, plain_search
from PIL import Image
from plain_g2p import PlainG2P
from playwright.sync_api import expect

from rfnb.models.g2p_checkpoint import SHIPPED

CLOSE = 2e-5  # float32, in another order


class Moving:
    """The frames of a moving picture; none unless RFNB_MOVING says where it goes."""

    def __init__(self, page):
        self.page, self.path = page, os.environ.get("RFNB_MOVING")
        self.frames: list[tuple[Image.Image, int]] = []

    def frame(self, milliseconds: int) -> None:
        """Take what is on the screen, below the bars of JupyterLab, to be shown so long."""
        if self.path:
            self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            clip = {"x": 60, "y": 90, "width": 1080, "height": 700}
            shot = Image.open(io.BytesIO(self.page.screenshot(clip=clip))).convert("RGB")
            self.frames.append((shot.resize((756, 490), Image.Resampling.LANCZOS), milliseconds))

    def save(self) -> None:
        """Write it."""
        if self.path and self.frames:
            shots = [shot.quantize(128, dither=Image.Dither.NONE) for shot, _ in self.frames]
            durations = [milliseconds for _, milliseconds in self.frames]
            shots[0].save(
                Path(self.path), save_all=True, append_images=shots[1:], duration=durations, loop=0, optimize=True
            )


@pytest.fixture(scope="module")
def plain() -> PlainG2P:
    return PlainG2P.load(SHIPPED)


@pytest.fixture(scope="module")
def tour(lab_of_file):
    """The first cell of the tour and the two parts."""
    notebook = source()
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    notebook.cells = [first, *(cell for cell in notebook.cells if cell.id.startswith(("tour-word", "tour-hold")))]
    lab = lab_of_file
    lab.page.set_viewport_size({"width": 1180, "height": 860})
    tour = Tour(lab)
    lab.open(tour.write("held.ipynb", notebook))
    lab.run_all()
    lab.wait_cells()
    lab.page.evaluate("() => { const { shell } = window.jupyterapp; shell.collapseLeft(); shell.collapseRight(); }")
    tour.moving = Moving(lab.page)
    try:
        yield tour
        tour.moving.save()
    finally:
        lab.screenshot(SHOTS / "tour-hold.png")
        lab.page.evaluate("window.jupyterapp.shell.expandLeft()")


def typed(tour, word):
    """Types another word over the one that is there, key by key."""
    field = tour.scroll("explore").get_by_label("word")
    field.click()
    tour.page.keyboard.press("ControlOrMeta+a")
    tour.page.keyboard.type(word)
    return field


def test_the_views_follow_the_word_that_is_typed(tour, plain):
    assert typed(tour, "knight").input_value() == "knight"
    phonemes = plain.beam_search("knight", 4)[0][1]
    cell = tour.scroll("explore")
    expect(cell.locator(".rfnb-explore-said")).to_contain_text('word = "knight", beam_size = 4')
    expect(cell.locator("pre").filter(visible=True).first).to_contain_text(" ".join(phonemes))
    weights = plain.saying("knight", phonemes).weights
    attention = tour.view("explore", "attention")
    expect(attention).to_have_attribute("data-step", str(len(phonemes)))
    seen = hovered(attention)
    assert set(seen) == {(row, col) for row in range(len(phonemes) + 1) for col in range(6)}
    for (row, col), words in seen.items():
        assert number(words[-1]) == pytest.approx(float(weights[row, col]), abs=CLOSE), (row, col)
    assert tour.lab.errors == []


def to_top(tour, mark, selector):
    """Scrolls a part of a cell's output to the top, for a picture."""
    found = tour.scroll(mark).locator(selector).first
    found.evaluate("el => el.scrollIntoView({ block: 'start' })")
    return found


def test_a_candidate_is_rested_on_and_a_weight_is_dragged_and_both_are_read(tour):
    cell, mouse = tour.scroll("hold"), tour.page.mouse
    beams, weights, rail = (
        cell.locator(name).first for name in ("[data-kind=beams]", "[data-kind=attention]", ".rfnb-rail")
    )
    expect(beams).to_have_attribute("data-step", "2")
    expect(beams.locator(".rfnb-beams-told")).to_contain_text("Rest on")
    to_top(tour, "hold", "[data-kind=control]")
    tour.moving.frame(1200)
    find(beams, "1,cut0", "cursor")
    expect(beams.locator(".rfnb-beams-told")).to_contain_text("With EY at 1: P EY R AH SH UW T, −6.72")
    tour.moving.frame(2500)
    find(weights, "1 5", "row", "col")  # of EH, on h
    tour.moving.frame(900)
    at = press(weights, "1 5", "row", "col")
    for part in range(1, 13):
        mouse.move(at[0], at[1] - 10 * part)
        if tour.moving.path:
            expect(weights).to_have_attribute("data-dragged", re.compile(f"With EH: {share(10 * part)} on h: .*"))
        tour.moving.frame(180)
    expect(weights).to_have_attribute("data-dragged", re.compile("With EH: 1 on h: P HH EH R AH CH UW T, .*"))
    tour.moving.frame(2000)
    mouse.up()
    expect(rail).to_contain_text("P HH EH R AH CH UW T")
    to_top(tour, "hold", "[data-kind=control]")
    tour.moving.frame(2500)
    assert tour.lab.errors == []


def test_the_check_passes_when_a_weight_is_dragged_that_drops_the_first_sound(tour):
    weights = tour.scroll("hold").locator("[data-kind=attention]").first
    at = press(weights, "0 1", "row", "col")  # of P, on the first a
    tour.page.mouse.move(at[0], at[1] - 120, steps=6)
    expect(weights).to_have_attribute("data-dragged", re.compile("With P: 1 on a: EH R AH CH UW T, .*"))
    tour.page.mouse.up()
    rows = tour.scroll("hold").locator(".rfnb-rail-row")
    expect(rows.filter(has_text="EH R AH CH UW T").filter(has_not_text="HH EH R AH CH UW T")).to_be_visible()
    check = tour.scroll("without_p")
    expect(check).to_contain_text("not solved yet")
    check.locator(".cm-content").click()
    tour.page.keyboard.press("ControlOrMeta+Enter")
    expect(check).to_contain_text("✓ without_p: passed")
    tour.lab.screenshot(SHOTS / "tour-question.png")
    assert tour.lab.errors == []


def share(pixels: int) -> str:
    """The weight that a drag by so many pixels comes to, from nothing."""
    part = min(1.0, pixels / 110)
    return "1" if part == 1 else f"[.]{100 * part:02.0f}"


def test_the_search_is_held_by_its_buttons(tour, plain):
    word, beam = "parachute", 4
    cell = tour.scroll("hold")
    step, resume = (cell.get_by_role("button", name=name, exact=True) for name in ("Step", "Resume"))
    beams = cell.locator("[data-kind=beams]")
    expect(beams).to_have_attribute("data-step", "2")
    for made in range(3, 6):
        step.click()
        expect(beams).to_have_attribute("data-step", str(made))
    tour.lab.screenshot(SHOTS / "tour-hold-paused.png")
    press(beams, r"1,cut\d+", "cursor")
    step, words = 1, beams.locator(".rfnb-beams-prefix").inner_text().split()
    tour.page.mouse.up()
    label = words[-1]
    branch = cell.locator(".rfnb-rail-row", has_text=f"{label} at {step}")
    expect(branch).to_contain_text("(")  # it is over, and has a cost
    branch.click()
    expect(cell).to_contain_text("Done after")
    before = plain_search(word, beam, most=step, plain=plain)
    (forced,) = [at for at, hyp in enumerate(before) if [plain.labels[one] for one in hyp.labels] == words[:-1]]
    decision = Decision("force", plain.labels.index(label), forced, only=True)
    found = plain_search(word, beam, most=28, decisions={step: [decision]}, plain=plain)
    best = max(found, key=lambda hyp: hyp.score)
    said = [plain.labels[one] for one in best.labels]
    expect(beams).to_contain_text(" ".join(label for label in said if label != "<end>"))
    assert tour.lab.errors == []


def test_the_branch_is_the_best_that_plain_torch_finds_with_the_label_that_is_forced(tour, plain):
    found = [phonemes for _, phonemes in plain.beam_search("phonetics", 12)]
    phonemes = next(each for each in found if each[:2] == [found[0][0], "OW"])  # the best of all that begin so
    view = to_top(tour, "compare", "[data-kind=branches]")
    expect(view).to_be_visible()
    assert tour.printed(VIEWS["compare"]).splitlines()[1:] == [
        " ".join(found[0]),
        " ".join(phonemes),
    ]
    expect(tour.scroll("compare").locator("[data-kind=beams]").first).to_contain_text(" ".join(phonemes))
    tour.lab.screenshot(SHOTS / "tour-compare.png")
    assert tour.lab.errors == []
