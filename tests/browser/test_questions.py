"""Questions that are answered in the view, in a real JupyterLab: wrong by mouse, then right by keyboard; and in a page without kernel."""

from __future__ import annotations

import pytest
from browser.conftest import SHOTS
from playwright.sync_api import expect
from viz.questions import all_questions

import rfnb as rf
from rfnb.viz import View

CELLS = [
    "import numpy as np, rfnb as rf\nfrom rfnb.models import load_g2p, pronounce\n"
    "from pathlib import Path\nfrom rfnb.teaching.lesson import Lesson\nlesson = Lesson('07_search', Path())",
    "words = 'the cat sat'.split()\nlesson.draw_mask('causal', np.tril(np.ones((3, 3))), target=words, source=words)",
    "lesson.place_alignment('look', np.eye(3), target=list('abc'), source=list('xyz'))",
    "with rf.record() as trace:\n    pronounce(load_g2p(), 'thought', beam_size=3)\nlesson.be_the_beam('beam', trace, steps=2)",
]
RECORD = "application/vnd.rfnb.lesson+json"


@pytest.fixture(scope="module")
def lab(lab_of_file):
    made = lab_of_file
    made.page.set_viewport_size({"width": 1280, "height": 1600})
    made.open(made.write("questions.ipynb", *CELLS))
    made.run_all()
    made.wait_cells()
    yield made
    made.screenshot(SHOTS / "questions.png")


def view(lab, form):
    return lab.page.locator(f'.rfnb-root[data-form="{form}"]')


def cell(root, row, col):
    return root.locator(f'[data-at="{row},{col}"]')


def said(root):
    return root.locator(".rfnb-question-said")


def kept(lab, number):
    """The data for a grader in the output of a cell."""
    outputs = lab.cells()[number]["outputs"]
    return next(output["data"][RECORD] for output in outputs if RECORD in output.get("data", {}))


def wait_kept(lab, number, passed):
    """Until the kernel has judged, and the notebook keeps it."""
    lab.page.wait_for_function(
        """([number, mime, passed]) => [...window.jupyterapp.shell.currentWidget.content.model.cells]
            .filter(c => c.type === 'code')[number].outputs.toJSON()
            .some(o => o.data?.[mime] && o.data[mime].passed === passed && o.data[mime].committed)""",
        arg=[number, RECORD, passed],
    )


def test_a_mask_wrong_by_mouse_is_named_and_right_by_keyboard_is_kept(lab):
    root, keys = view(lab, "mask"), lab.page.keyboard
    cell(root, 0, 0).hover()
    lab.page.mouse.down()
    cell(root, 0, 2).hover()
    lab.page.mouse.up()
    root.get_by_role("button", name="Check").click()
    expect(said(root)).to_contain_text('row 0 "the" may not see column 1 "cat": it is later.')
    wait_kept(lab, 1, False)
    assert kept(lab, 1)["answer"] == [[1, 1, 1], [0, 0, 0], [0, 0, 0]]
    cell(root, 0, 0).focus()
    row = "Home Space Shift+ArrowRight"
    for key in f"ArrowRight Space ArrowRight Space ArrowDown {row} ArrowDown {row} Shift+ArrowRight".split():
        keys.press(key)
    keys.press("Enter")
    expect(said(root)).to_have_text("All 9 cells are right.")
    wait_kept(lab, 1, True)
    assert kept(lab, 1)["answer"] == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    expect(
        cell(root, 2, 2)
    ).to_be_focused()  # the output of the answer changes, and who works by keyboard stays where they are
    assert len(lab.cells()) == len(CELLS)  # no key has reached the notebook


def test_an_alignment_is_compared_with_the_real_one(lab):
    root, keys = view(lab, "alignment"), lab.page.keyboard
    for row, col in ((0, 0), (1, 0), (2, 2)):
        cell(root, row, col).click()
    root.get_by_role("button", name="Check").click()
    expect(said(root)).to_contain_text('Least in row 1 "b", 0.00.')
    expect(root.locator("[data-weight]")).to_have_count(0)
    for col in (1, 2):
        cell(root, 2, col).click()
    root.get_by_role("button", name="Check").click()
    expect(said(root)).to_contain_text('Least in row 1 "b", 0.00: most of its weight is on column 1 "y".')
    for col in (1, 2):
        cell(root, 2, col).click()
    wait_kept(lab, 2, False)
    cell(root, 1, 0).focus()
    for key in "Space ArrowRight Space Enter".split():
        keys.press(key)
    expect(said(root)).to_have_text("Agreement 1.00, enough: it passes from 0.70.")
    wait_kept(lab, 2, True)


@pytest.mark.parametrize("width", [1280, 900])
def test_no_cell_is_cut_and_a_question_is_asked_once(lab, width):
    lab.page.set_viewport_size({"width": width, "height": 1600})
    for form in ("mask", "alignment", "beam"):
        root = view(lab, form)
        scroll = root.locator(".rfnb-question-scroll")
        assert scroll.evaluate("box => box.scrollWidth - box.clientWidth") <= 0, (form, width)
        asked = root.locator("table").get_attribute("aria-label")
        output = lab.page.locator(".jp-Cell").filter(has=root)
        assert output.inner_text().count(asked) == 1
    lab.page.set_viewport_size({"width": 1280, "height": 1600})


def test_the_steps_of_a_search_are_done_by_hand(lab):
    root, keys = view(lab, "beam"), lab.page.keyboard
    for col in (0, 1, 3):
        cell(root, 0, col).click()
    root.get_by_role("button", name="Check").click()
    expect(said(root)).to_contain_text("1 of the 3 that you picked goes.")
    expect(root).not_to_contain_text("rank")
    cell(root, 0, 1).click()
    cell(root, 0, 2).click()
    root.get_by_role("button", name="Check").click()
    expect(said(root)).to_contain_text("rank 4 of the 5 here: it goes.")
    for col in (1, 2):
        cell(root, 0, col).click()
    expect(root.get_by_role("button", name="Next step")).to_be_hidden()
    wait_kept(lab, 3, False)
    cell(root, 0, 3).focus()
    for key in "Space ArrowLeft Space Enter".split():
        keys.press(key)
    expect(said(root)).to_contain_text("Right: the last that stays has")
    keys.press("Enter")  # the focus is on "Next step"
    expect(root).to_have_attribute("data-step", "1")
    for key in "Space ArrowRight Space ArrowDown Home Space Enter".split():
        keys.press(key)
    expect(said(root)).to_contain_text("That was the last step.")
    wait_kept(lab, 3, True)
    assert len(kept(lab, 3)["answer"]) == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_without_kernel_takes_answers_and_judges(browser, tmp_path, scheme):
    context = browser.new_context(color_scheme=scheme, viewport={"width": 900, "height": 1400})
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    views = [View(spec) for spec in all_questions(["a", "b", "c"])]
    page.goto(rf.save_html(tmp_path / "questions.html", views).as_uri())
    mask, weights, labels, beam = (page.locator(".rfnb-root").nth(at) for at in range(4))
    cell(mask, 0, 0).click()
    page.keyboard.press("Enter")
    expect(said(mask)).to_contain_text('row 1 "b" must see column 0 "a": it is earlier.')
    for row, col in ((0, 0), (1, 1), (1, 2), (3, 2)):
        cell(weights, row, col).click()
    page.keyboard.press("Enter")
    expect(said(weights)).to_have_text("Agreement 1.00, enough: it passes from 0.70.")
    cell(labels, 0, 0).hover()
    page.mouse.down()
    cell(labels, 0, 5).hover()
    page.mouse.up()
    page.keyboard.press("Enter")
    expect(said(labels)).to_have_text('row 1 "A" has no cell yet: draw at least one in each row.')
    cell(beam, 0, 0).click()
    cell(beam, 0, 1).click()
    page.keyboard.press("Enter")
    expect(said(beam)).to_contain_text("Right:")
    page.screenshot(path=SHOTS / f"questions-{scheme}.png", full_page=True)
    assert errors == []
    context.close()
