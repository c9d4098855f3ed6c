"""A lesson in a real JupyterLab: predictions by keyboard and by mouse, checks, a cell that was run out of order."""

from __future__ import annotations

import json

import pytest
from browser.conftest import SHOTS
from playwright.sync_api import expect
from teaching.conftest import write_course

from rfnb.teaching.card import MIME

FURTHER = [
    'share = lesson.predict("share", "How many?", number=True)',
    'why = lesson.explain("why", "Why?")',
    "early + 1",
    "early = 1",
]


@pytest.fixture(scope="module")
def page(lab_of_file):
    lab = lab_of_file
    write_course(lab.server.root, FURTHER[:2])
    lab.page.set_viewport_size({"width": 1280, "height": 1500})
    lab.open("99_small.ipynb")
    lab.run_all()
    lab.wait_cells()
    yield lab
    lab.screenshot(SHOTS / "lesson.png")


def cards(lab):
    return lab.page.locator(".rfnb-lesson-card")


def form(lab, number):
    return lab.page.locator(".rfnb-predict").nth(number)


def records(lab):
    """The records for a grader, by exercise; the last one of several."""
    found = [output.get("data", {}).get(MIME) for cell in lab.cells() for output in cell["outputs"]]
    found = [json.loads(each) if isinstance(each, str) else each for each in found if each]
    return {each["exercise"]: each for each in found}


def run_cell(lab, text):
    """Runs the cell with this text alone."""
    lab.page.evaluate(
        """(text) => { const book = window.jupyterapp.shell.currentWidget.content;
            book.activeCellIndex = book.widgets.findIndex(cell => cell.model.sharedModel.source.includes(text)); }""",
        text,
    )
    lab.start("notebook:run-cell")


def test_a_prediction_is_made_by_keyboard_and_keeps_the_focus(page):
    radios = form(page, 0).locator("input[type=radio]")
    radios.first.focus()
    page.page.keyboard.press("Space")
    expect(radios.first).to_be_checked()
    page.page.keyboard.press("Tab")
    page.page.keyboard.press("Space")
    expect(radios.nth(1)).to_be_checked()
    expect(radios.first).not_to_be_checked()
    page.page.keyboard.press("Tab")
    page.page.keyboard.press("Space")
    expect(cards(page).filter(has_text="Which one wins?").first).to_contain_text("Your answer: B")
    assert page.page.evaluate("document.activeElement.textContent") == "Commit"
    assert records(page)["winner"]["answer"] is None  # that of `reveal`, further down, which was run before
    run_cell(page, "winner.reveal")
    expect(cards(page).filter(has_text="winner: your answer was wrong")).to_contain_text("It is: A")
    assert records(page)["winner"]["answer"] == "B" and records(page)["winner"]["passed"] is False
    expect(page.page.locator(".rfnb-predict")).to_have_count(2)  # the form is gone


def test_a_number_is_typed_and_what_is_none_is_said(page):
    share = form(page, 0)
    share.locator("input").fill("three")
    share.locator("input").press("Enter")
    expect(share.get_by_role("alert")).to_have_text("three is no number.")
    share.locator("input").fill("3")
    share.locator("input").press("Enter")
    expect(share.get_by_role("status")).to_have_text("Committed.")
    expect(cards(page).filter(has_text="How many?")).to_contain_text("Your answer: 3")
    assert records(page)["share"]["answer"] == 3


def test_an_explanation_is_committed_by_mouse(page):
    why = form(page, 1)
    why.get_by_role("button", name="Commit").click()
    expect(why.get_by_role("alert")).to_have_text("There is nothing written yet.")
    why.locator("textarea").fill("It is shorter.\nEach step costs.")
    why.get_by_role("button", name="Commit").click()
    expect(cards(page).filter(has_text="Why?")).to_contain_text("Each step costs.")
    assert records(page)["why"]["answer"] == "It is shorter.\nEach step costs."


def test_checks_say_how_it_stands_and_hold_what_was_tried(page):
    expect(cards(page).filter(has_text="add: not solved yet")).to_have_count(1)
    assert records(page)["add"]["status"] == "unsolved"
    assert page.errors == []


def test_a_cell_out_of_order_is_explained_with_the_name_of_the_cell(lab):
    (lab.server.root / "order").mkdir()
    write_course(lab.server.root / "order", FURTHER[2:])
    lab.open("order/99_small.ipynb")
    run_cell(lab, "rf.lesson")
    run_cell(lab, "lesson.use")
    expect(cards(lab).last).to_contain_text('"add" is made by a cell that was not run yet.')
    expect(cards(lab).last).to_contain_text('number 2 of the cells of code, under "Build: a sum"')
    run_cell(lab, "early + 1")
    expect(cards(lab).last).to_contain_text('"early" is made by a cell further down.')
